"""The one commit that the person gets: the only place of the coding loop that writes to their repository.

Keep true:
1. Objects come first, checked by git; then one branch is made. Nothing else is written: not HEAD, not the
   index, no other ref, no setting, no log but that of the new branch.
2. A branch that is there is never moved.
3. Killed at any point, it can be done again: what is there already is not in the way.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from placet.errors import ToolError, UsageError
from placet.truncation import truncate_repr
from placet.worktree.git import git
from placet.worktree.objects import ObjectStore, checked
from placet.worktree.repository import NOBODY, Repository

UNPACK_LIMIT = 200
"""Objects that come as files; more come as one pack."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(/[A-Za-z0-9][A-Za-z0-9_-]*)*")
"""Names that a branch may have, without asking git."""


async def publish(trees: ObjectStore, commit: str, branch: str, note: Path) -> None:
    """Put a commit into the person's repository, on a new branch. `note` is a file of ours.

    Raises:
        UsageError: the branch is there with another commit, or cannot be called so.
        ToolError: git does not take it.
    """
    name = await _checked_name(trees, branch)
    if await check_free(trees.repository, branch, commit):
        _drop(note)
        return
    await send(trees, commit)
    _see_that_it_is_free(trees, name, note)
    _write(note, name)
    who = NOBODY.removesuffix(">").split(" <")
    order = ["create " + name, commit]
    try:
        await git(
            ["update-ref", "--create-reflog", "-m", "placet: published", "--stdin", "-z"],
            git_dir=trees.repository.git_dir,
            stdin=b"".join(os.fsencode(part) + b"\0" for part in order),
            environment={"GIT_COMMITTER_NAME": who[0], "GIT_COMMITTER_EMAIL": who[1]},
        )
    except ToolError:
        # Git has ended by itself and cleaned up. A lock that is there now is not ours.
        _drop(note)
        raise
    _drop(note)


async def check_free(repository: Repository, branch: str, commit: str = "") -> bool:
    """Make sure that a branch can be made; whether it is there with this commit already.

    Raises:
        UsageError: another branch is in the way.
    """
    name = f"refs/heads/{branch}"
    held = await _branches(repository, branch)
    if commit and held.get(name) == checked(commit):
        return True
    if name in held:
        raise UsageError(
            f"The branch {branch} is there already, at {held[name][:12]}, and is left as it is. Rename it: "
            f"git branch -m {branch} NAME"
        )
    for other in held:
        if name.startswith(f"{other}/") or other.startswith(f"{name}/"):
            short = other.removeprefix("refs/heads/")
            raise UsageError(
                f"The branch {branch} cannot be made beside {short}: one name would lie within the other. "
                f"Rename that one: git branch -m {short} NAME"
            )
    return False


async def _checked_name(trees: ObjectStore, branch: str) -> str:
    name = f"refs/heads/{branch}"
    try:
        if branch.startswith("-") or "\0" in branch:
            raise ToolError("It begins with a dash, or holds a zero byte.")
        if not _PLAIN.fullmatch(branch):
            await trees.run(["check-ref-format", name])
    except (ToolError, UsageError) as error:
        raise UsageError(f"No branch can be called {truncate_repr(branch, 80)}.") from error
    return name


async def _branches(repository: Repository, branch: str) -> dict[str, str]:
    """The person's branches that could be in the way of one, by their whole names."""
    listed = await git(
        ["for-each-ref", "--format=%(objectname) %(refname)", f"refs/heads/{branch.split('/')[0]}"],
        git_dir=repository.git_dir,
    )
    lines = (line.partition(" ") for line in os.fsdecode(listed).splitlines())
    return {name: value for value, _, name in lines}


async def send(trees: ObjectStore, commit: str) -> None:
    """Put what the commit needs, and the person's repository has not, into it."""
    asked = f"{checked(commit)}\n^{checked(trees.repository.head)}\n".encode()
    # What is borrowed is there already.
    packed = await trees.run(
        ["pack-objects", "--revs", "--local", "--stdout", "--quiet", "--delta-base-offset"], stdin=asked
    )
    count = int.from_bytes(packed[8:12], "big")
    if not count:
        return
    how = ["unpack-objects", "-q"] if count <= UNPACK_LIMIT else ["index-pack", "--stdin"]
    await git([*how, "--strict"], git_dir=trees.repository.git_dir, stdin=packed)


def _write(note: Path, name: str) -> None:
    note.write_text(name, encoding="utf-8")


def _drop(note: Path) -> None:
    note.unlink(missing_ok=True)


def _see_that_it_is_free(trees: ObjectStore, name: str, note: Path) -> None:
    """Remove the lock of a branch that a killed process of ours has left: the note says that it was at work.

    Raises:
        UsageError: somebody else has locked it.
    """
    lock = os.path.join(trees.repository.common, f"{name}.lock")
    if not os.path.lexists(lock):
        return
    if not note.exists() or note.read_text(encoding="utf-8") != name:
        raise UsageError(
            f"Another git process is at work on the branch: {lock} is there. Try again when it has ended; if "
            "none is running, remove that file."
        )
    os.unlink(lock)
