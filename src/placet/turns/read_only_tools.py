"""Calls of a recorded run that are really made once more: those that only read.

Keep true:
1. Whether a tool only reads is what it says of itself here and now, never what a file says.
2. No call takes long, whatever a file says, and none is made that answers otherwise each time.
3. Nothing is kept of what it reads: where a long result was kept then, it is said to be now.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from placet.inference.messages import ToolResult
from placet.runtime.observation import observe
from placet.runtime.spill import Spill
from placet.safe_text import clean
from placet.turns.calls import Asked
from placet.turns.divergence import Divergence

if TYPE_CHECKING:
    from placet.ir.proposal import Proposal
    from placet.runtime.open_run import OpenRun
    from placet.runtime.runtime import Runtime

_KEPT = re.compile(r"bytes in all, the middle is left out; all of it is in (.+) …\]$", re.MULTILINE)
_WAS_RUN = "failed"
"""How the result of a call begins that was made and failed; of one that was refused, nothing can be said."""


_NEVER_THE_SAME = frozenset({"now", "sleep"})
"""Of the tools that come with Placet: one tells the time, the other only takes it."""
_MOST_MS = 10_000
"""How long a call may take."""


class ReadOnlyTools:
    """Makes calls in a run of its own."""

    def __init__(self, runtime: Runtime, run: OpenRun) -> None:
        self.calls = 0
        """How many were made."""
        self._runtime = runtime
        self._run = run

    async def compare(self, asked: Asked, recorded: ToolResult, turn: int) -> Divergence | None:
        """Make a call if its tool only reads; in what it comes to something else than was recorded."""
        tool = self._runtime.tools.get(asked.call.name)
        was_run = not recorded.is_error or recorded.text.startswith(_WAS_RUN)
        if asked.proposal is None or tool is None or tool.schema.risk != "read_only" or not was_run:
            return None
        if tool.name in _NEVER_THE_SAME:
            return None
        self.calls += 1
        acted = await self._run.act(_limited(asked.proposal), self.calls, keep=False)
        action = acted.result.results[0]
        kept = _KEPT.search(recorded.text)
        spill = None if kept is None else _AsRecorded(kept[1])
        now = observe(action, run_id=self._run.run_id, spill=spill)
        if (now, action.status != "succeeded") == (recorded.text, recorded.is_error):
            return None
        return Divergence(
            kind="tool result",
            turn=turn,
            where=f"call {asked.action_id} ({clean(asked.call.name, 60)})",
            problem="called once more, it comes to another result",
            recorded=recorded.text,
            now=now,
        )


def _limited(proposal: Proposal) -> Proposal:
    """The same call, which may take so long and no longer: the arguments are those of a file."""
    [action] = proposal.actions
    most = min(_MOST_MS, action.timeout_ms or _MOST_MS)
    return msgspec.structs.replace(proposal, actions=(msgspec.structs.replace(action, timeout_ms=most),))


class _AsRecorded(Spill):
    """Keeps nothing, and says what the recording says."""

    def __init__(self, where: str) -> None:
        super().__init__(Path())
        self._where = where

    def keep(self, run_id: str, name: str, text: str) -> Path:
        return Path(self._where)
