"""Events that are kept and can be asked for, wherever that is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from placet.events.event import Event


class EventStore(Protocol):
    """Protocol of event stores. Implementations pass `event_store_suite`."""

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
        before: int | None = None,
        limit: int | None = None,
        newest: bool = False,
    ) -> list[Event]:
        """Return events that match all conditions, oldest first.

        Args:
            kind: Kind, or several.
            run: Id of the run.
            trace: Id of the trace.
            proposal: Id of the proposal.
            action: Id of the action.
            tool: Name of the tool.
            tenant: Tenant of the run.
            since: Earliest time in seconds since the epoch, inclusive.
            until: Latest time in seconds since the epoch, inclusive.
            after: Only events after this `seq`.
            before: Only events before this `seq`.
            limit: Maximum number.
            newest: Newest first.
        """
        ...

    def counts(self) -> dict[str, int]:
        """Return the number of events of each kind."""
        ...

    def cost_by_agent(self) -> dict[str, dict[str, float]]:
        """Return totals for each source: runs, calls, actions, retries and time; if a model was asked, also
        answers, tokens and cost.
        """
        ...
