"""Numbers of the queue and its workers, for OpenTelemetry.

Keep true: depth and workers are those of the whole database, the same from whichever worker they come; only
`placet.worker.runs` is of one worker, and names it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from placet.engine.protocol import OPEN, State
from placet.engine.sql import SqlSubmissions
from placet.engine.worker import Worker
from placet.events.otel.sink import Gauge

Values = Iterator[tuple[float, Mapping[str, str | int | float | bool]]]

COUNTED: tuple[State, ...] = (*OPEN, "dead")
"""States that are exported: what is at work or waits, and what somebody has to look at."""


def gauges_of(worker: Worker, submissions: SqlSubmissions) -> tuple[Gauge, ...]:
    """The numbers that a worker exports."""
    own = worker.info.queue

    def depth() -> Values:
        # A queue that was emptied says 0, or its last number would stand.
        found = {own: {}, **submissions.depth(COUNTED)}
        for queue, states in found.items():
            for state in COUNTED:
                yield states.get(state, 0), {"queue": queue, "state": state}

    def workers() -> Values:
        found = Counter({(own, "up"): 0, (own, "draining"): 0})
        found.update((each.queue, each.state) for each in submissions.workers() if each.state != "gone")
        for (queue, state), number in found.items():
            yield number, {"queue": queue, "state": state}

    def runs() -> Values:
        yield len(worker.at_work), {"queue": own, "worker": worker.id}

    return (
        Gauge("placet.queue.depth", depth, "{run}", "Submitted runs, by queue and state."),
        Gauge("placet.workers", workers, "{worker}", "Workers that are alive, by queue and state."),
        Gauge("placet.worker.runs", runs, "{run}", "Runs that a worker works on."),
    )
