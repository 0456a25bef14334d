"""Sessions: rules that hold for some runs only, and what has run under them.

Keep true: a session that is closed is gone, also for runs that are under way, and no other gets its id.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from placet.errors import UnknownSession
from placet.ir.proposal import new_id
from placet.policy.engine import PolicySet
from placet.policy.trace import Trace


class Session(NamedTuple):
    """Policies of its own, and what has run under it."""

    policies: PolicySet
    trace: Trace


class Sessions:
    """The sessions of one runtime that are open, by id."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: dict[str, Session] = {}

    def open(self) -> str:
        """Open one, and return its id."""
        session = new_id()
        self._open[session] = Session(PolicySet(self._clock), Trace())
        return session

    def close(self, session: str) -> bool:
        """Close one; false if it was not open."""
        return self._open.pop(session, None) is not None

    def __contains__(self, session: str) -> bool:
        return session in self._open

    def find(self, session: str | None) -> Session | None:
        """The session of that id, if it is open."""
        return self._open.get(session) if session is not None else None

    def get(self, session: str) -> Session:
        """The session of that id.

        Raises:
            UnknownSession: it is not open.
        """
        found = self._open.get(session)
        if found is None:
            raise UnknownSession(session)
        return found
