"""The one turn loop, its guards, record and replay."""

from __future__ import annotations

from placet.turns.ending import Ending, Event
from placet.turns.limits import TurnLimits
from placet.turns.loop import TurnLoop

__all__ = ["Ending", "Event", "TurnLimits", "TurnLoop"]
