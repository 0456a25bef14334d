"""Only a note that the change was approved: the default, for loops whose result is the report itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from placet.ir.tool_spec import Risk
from placet.loops.executors.executor import Act, Bench, Done, Finding, only_kept
from placet.loops.round import Receipt

if TYPE_CHECKING:
    from placet.worktree.repository import Repository


class RecordExecutor:
    """Does nothing to the world."""

    name = "record"
    risk: Risk = "idempotent"
    needs_change = False

    async def dry_run(self, act: Act, bench: Bench) -> str:
        """What would be done, in words."""
        return "it would be noted as approved; nothing else happens"

    async def execute(self, act: Act, bench: Bench) -> Done:
        """Note it."""
        return Done(f"noted: '{act.kind}' of loop '{act.loop}' is approved; nothing else was done", {})

    async def check(self, receipt: Receipt, repository: Repository) -> Finding:
        """Whether what the receipt says is so."""
        return only_kept("nothing was done that could be looked at")
