"""One commit of exactly the frozen tree, on a branch of its own in the person's repository.

Keep true: the same round makes the same commit and the same branch, however often it is done.
"""

from __future__ import annotations

import re
from shlex import join
from typing import TYPE_CHECKING

from placet.errors import ToolError
from placet.ir.json_value import JsonValue
from placet.ir.tool_spec import Risk
from placet.loops.executors.executor import Act, Bench, Done, Finding
from placet.loops.round import Receipt
from placet.safe_text import clean

if TYPE_CHECKING:
    from placet.worktree.repository import Repository

BRANCH = "placet/{loop}-{number}"
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class CommitExecutor:
    """Makes a branch with one commit."""

    name = "commit"
    risk: Risk = "idempotent"
    needs_change = True

    def __init__(self, branch: str = "") -> None:
        self._branch = branch or BRANCH

    def branch_of(self, act: Act) -> str:
        """What the branch is called."""
        return self._branch.format(loop=act.loop, number=act.number, round=act.round)

    def undo_command(self, act: Act) -> str:
        """The command with which a person undoes it: the branch is new, and nothing else was changed."""
        return join(["git", "branch", "-D", self.branch_of(act)])

    async def dry_run(self, act: Act, bench: Bench) -> str:
        """What would be done, in words."""
        files = "1 changed file" if len(act.changed) == 1 else f"{len(act.changed)} changed files"
        return f"one commit of {files} on the new branch {self.branch_of(act)}{_with_yours(act)}"

    async def execute(self, act: Act, bench: Bench) -> Done:
        """Make it."""
        branch = self.branch_of(act)
        commit = await bench.workshop.commit(act.tree, act.base, _message(act), when=int(act.began))
        await bench.workshop.publish(commit, branch)
        data: dict[str, JsonValue] = {"commit": commit, "branch": branch}
        if act.included:
            files = sorted({*act.changed, *act.included})
            data |= {"files": [*files], "also_yours": [*act.included]}
        return Done(f"commit {commit[:12]} on the branch {branch}{_with_yours(act)}", data)

    async def check(self, receipt: Receipt, repository: Repository) -> Finding:
        """Whether the commit is there with that tree, on its branch or in what the person is on."""
        from placet.worktree.git import git

        commit, branch = str(receipt.data.get("commit", "")), str(receipt.data.get("branch", ""))
        if not _HASH.fullmatch(commit):
            return Finding(holds=False, why="it names no commit", seen="record")
        where = repository.git_dir

        async def says(*argv: str) -> str | None:
            try:
                return (await git(list(argv), git_dir=where)).decode(errors="replace").strip()
            except ToolError:
                return None

        tree = await says("rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}")
        if tree != receipt.tree:
            words = "is not there" if tree is None else f"has another tree, {tree[:12]}"
            return Finding(holds=False, why=f"commit {commit[:12]} {words}", seen="world")
        reverted = await says(
            "log", "-1", "--format=%H", "--fixed-strings", f"--grep=This reverts commit {commit}", "HEAD"
        )
        if reverted:
            why = f"commit {commit[:12]} was reverted by {reverted[:12]}"
            return Finding(holds=False, why=why, seen="world", is_reverted=True)
        holders = await says("for-each-ref", "--format=%(refname)", "--contains", commit, "refs/heads")
        if not holders:
            return Finding(holds=False, why=f"no branch has commit {commit[:12]} any more", seen="world")
        is_there = f"refs/heads/{branch}" in holders.splitlines()
        on = branch if is_there else holders.splitlines()[0].removeprefix("refs/heads/")
        return Finding(
            holds=True, why=f"commit {commit[:12]} is on the branch {clean(on, 200)}", seen="world"
        )


def _with_yours(act: Act) -> str:
    """That the commit has more than the round's change: what its person had not committed."""
    if not act.included:
        return ""
    some = ", ".join(clean(path, 200) for path in act.included[:10])
    more = f" and {len(act.included) - 10} more" if len(act.included) > 10 else ""
    return f", with what you had not committed (include_changes): {some}{more}"


def _message(act: Act) -> str:
    """What was changed, as the maker says, else the checker; the loop's standing intent only says why."""
    from placet.coder.commit_message import first_telling, message

    intent = " ".join(clean(act.intent, 400).split())
    why = f"Made by round {act.number} of the loop '{act.loop}': {intent}"
    trailers = [f"Placet-Loop: {act.loop}", f"Placet-Round: {act.round}"]
    trailers += [f"Checked-by: {clean(each, 300)}" for each in act.checks]
    said = first_telling(act.change, act.summary, act.summary.strip() or act.intent)
    return message(said, act.summary, why, trailers=trailers)
