"""How a loop of turns ended, as the runtime keeps it; and the types of endings and events, for this package.

The types are public under `placet.Ending` and `placet.events`, where they are defined; the short names here
are those by which the loop and its watchers speak of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from placet.events.stream import ErrorReported as Trouble
from placet.events.stream import Notice as Note
from placet.events.stream import RunFinished as Done
from placet.events.stream import StreamEvent as Event
from placet.events.stream import TextDelta as Text
from placet.events.stream import ThinkingDelta as Thinking
from placet.events.stream import ToolCallFinished as CallResult
from placet.events.stream import ToolCallStarted as Call
from placet.events.stream import Watch
from placet.ir.ending import End, Ending
from placet.ir.result import Outcome, Status

__all__ = [
    "FINISHED",
    "MADE",
    "OUTCOMES",
    "Call",
    "CallResult",
    "Done",
    "End",
    "Ending",
    "Event",
    "Note",
    "Text",
    "Thinking",
    "Trouble",
    "Watch",
]

OUTCOMES: Mapping[End, Outcome] = {
    "success": "succeeded",
    "max_turns": "partial",
    "cancelled": "canceled",
    # What is wrong with a model or a disk may pass, and then the run can be resumed.
    "error": "canceled",
    "stuck": "partial",
    "budget": "budget",
    "waiting": "waiting",
    "unmet": "partial",
    "unsupported": "partial",
}
"""What the runtime keeps of each."""

MADE: tuple[Status, ...] = ("succeeded", "failed", "unknown")
"""The tool was called."""

FINISHED: tuple[End, ...] = ("success", "unsupported")
"""The model has given its answer."""
