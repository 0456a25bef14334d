"""The one turn loop, its guards, record and replay."""

from __future__ import annotations

from assent.turns.ending import Ending, Event
from assent.turns.limits import TurnLimits
from assent.turns.loop import TurnLoop

__all__ = ["Ending", "Event", "TurnLimits", "TurnLoop"]
