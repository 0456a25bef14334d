"""A command line of the loop's file, run in a copy of the change, outside of the sandbox, for the person.

The round, the tree and the key are in its environment: PLACET_LOOP, PLACET_ROUND, PLACET_KIND, PLACET_TREE,
PLACET_BASE, PLACET_KEY.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from placet.errors import ToolError
from placet.ir.tool_spec import Risk
from placet.loops.executors.executor import Act, Bench, Done, Finding, only_kept
from placet.loops.round import Receipt
from placet.safe_text import clean
from placet.sandbox.command import ending, run_command
from placet.sandbox.environment import clean_environment
from placet.sandbox.limits import Limits

if TYPE_CHECKING:
    from placet.worktree.repository import Repository


class CommandExecutor:
    """Runs a command."""

    name = "command"
    needs_change = False

    def __init__(
        self, command: str, *, check: str = "", idempotent: bool = False, timeout_s: float = 60.0
    ) -> None:
        self._command = command
        self._check = check
        self._limits = Limits(time_s=timeout_s)
        self.risk: Risk = "idempotent" if idempotent else "destructive"

    async def dry_run(self, act: Act, bench: Bench) -> str:
        """What would be done, in words."""
        return f"this command would be run in a copy of the change: {clean(self._command, 500)}"

    async def execute(self, act: Act, bench: Bench) -> Done:
        """Run it."""
        async with bench.workshop.export(act.tree) as folder:
            finished = await run_command(
                ["/bin/sh", "-c", self._command],
                folder=str(folder),
                environment=clean_environment(_told(act)),
                limits=self._limits,
            )
        said = (finished.stdout + finished.stderr).decode(errors="replace").strip()
        if finished.ended_by != "itself" or finished.exit_code != 0:
            how = ending(finished, self._limits) or f"it ended with exit code {finished.exit_code}."
            raise ToolError(
                f"The command failed: {how} {clean(said, 500)}".strip(),
                # One that was ended in the middle has not said how far it came.
                unknown=finished.ended_by != "itself",
            )
        digest = hashlib.sha256(finished.stdout).hexdigest()
        last = clean(said.splitlines()[-1], 300) if said else "it wrote nothing"
        return Done(f"the command succeeded: {last}", {"exit_code": 0, "stdout_sha256": digest})

    async def check(self, receipt: Receipt, repository: Repository) -> Finding:
        """What the loop's own check says, if it has one."""
        return await run_check(self._check, receipt, repository, self._limits)


async def run_check(command: str, receipt: Receipt, repository: Repository, limits: Limits) -> Finding:
    """Whether a command of the loop's file says that what was done still holds."""
    if not command:
        return only_kept("the loop has no command that would look whether it still holds")
    more = {
        "PLACET_LOOP": receipt.loop,
        "PLACET_ROUND": receipt.round,
        "PLACET_TREE": receipt.tree,
        "PLACET_KEY": receipt.key,
    }
    finished = await run_command(
        ["/bin/sh", "-c", command],
        folder=str(repository.top),
        environment=clean_environment(more),
        limits=limits,
    )
    if finished.ended_by != "itself":
        return Finding(
            holds=False, why=f"its check did not come to an end: {ending(finished, limits)}", seen="world"
        )
    holds = finished.exit_code == 0
    return Finding(holds=holds, why=f"its check {'says so' if holds else 'says no'}", seen="world")


def _told(act: Act) -> dict[str, str]:
    return {
        "PLACET_LOOP": act.loop,
        "PLACET_ROUND": act.round,
        "PLACET_KIND": act.kind,
        "PLACET_TREE": act.tree,
        "PLACET_BASE": act.base,
        "PLACET_KEY": act.key,
    }
