"""Events that are kept and can be asked for, wherever that is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from placet.events.event import Event


class EventStore(Protocol):
    """Kept events, ordered by `seq`. Implementations pass `placet.testing.event_store_suite`."""

    def query(
        self,
        *,
        kind: str | Iterable[str] | None = None,
        run: str | None = None,
        trace: str | None = None,
        proposal: str | None = None,
        action: str | None = None,
        tool: str | None = None,
        tenant: str | None = None,
        since: float | None = None,
        until: float | None = None,
        after: int | None = None,
        limit: int | None = None,
        newest: bool = False,
    ) -> list[Event]:
        """Events that match everything given, oldest first, or with `newest` newest first.

        `since` and `until` are seconds since the epoch, both included; `after` is a `seq`, not included.
        """
        ...

    def counts(self) -> dict[str, int]:
        """How many events there are of each kind."""
        ...

    def cost_by_agent(self) -> dict[str, dict[str, float]]:
        """What the runs of each source came to: runs, calls, actions, retries, time."""
        ...
