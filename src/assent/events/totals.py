"""Sums over events, the same wherever the events are kept."""

from __future__ import annotations

from collections.abc import Iterable

from assent.events.event import Event
from assent.ir.json_value import JsonValue


def cost_by_agent(ended: Iterable[Event]) -> dict[str, dict[str, float]]:
    """What the runs of each source came to, from the `proposal_ended` events in order: runs, calls, actions,
    retries, time."""
    # A run that replanned ends several proposals, and each ending tells the cost so far. Its place among the
    # others is that of its first ending, so that agents are named in the order in which they came.
    last: dict[str | None, dict[str, JsonValue]] = {event.run_id: event.data for event in ended}
    agents: dict[str, dict[str, float]] = {}
    for data in last.values():
        total = agents.setdefault(str(data.get("source", "unknown")), {"runs": 0})
        total["runs"] += 1
        for name, amount in data.get("cost", {}).items():
            total[name] = total.get(name, 0) + amount
    return agents
