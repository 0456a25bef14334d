"""How a loop of turns ended; and the types of endings and events, for this package.

The types are public under `placet.Ending` and `placet.events`, where they are defined; the short names here
are those by which the loop and its watchers speak of them.
"""

from __future__ import annotations

from placet.events.stream import ErrorReported as Trouble
from placet.events.stream import Notice as Note
from placet.events.stream import RunFinished as Done
from placet.events.stream import StreamEvent as Event
from placet.events.stream import TextDelta as Text
from placet.events.stream import ThinkingDelta as Thinking
from placet.events.stream import ToolCallFinished as CallResult
from placet.events.stream import ToolCallStarted as Call
from placet.events.stream import Watch
from placet.ir.ending import OUTCOMES, End, Ending
from placet.ir.result import Status

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

MADE: tuple[Status, ...] = ("succeeded", "failed", "unknown")
"""The tool was called."""

FINISHED: tuple[End, ...] = ("success", "unsupported")
"""The model has given its answer."""
