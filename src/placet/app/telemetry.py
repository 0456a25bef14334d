"""Traces and metrics of the runs of this process, where a person has switched them on.

Keep true: all runs of a process share one queue and one exporter, or a receiver would see the metrics of one
program several times.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from placet.events.otel.sink import Gauge, OpenTelemetrySink, OtelSettings, SpanQueue

if TYPE_CHECKING:
    from placet.events.log import EventLog


class _Shared:
    """The queue of this process, as long as somebody uses it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: SpanQueue | None = None
        self._users = 0

    def acquire(self, settings: OtelSettings) -> SpanQueue:
        with self._lock:
            if self._queue is None:
                self._queue = SpanQueue(settings)
            self._users += 1
            return self._queue

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            queue = None if self._users else self._queue
            if queue is not None:
                self._queue = None
        if queue is not None:
            queue.close()


_SHARED = _Shared()


def export_traces(
    events: EventLog, settings: OtelSettings, *, gauges: Sequence[Gauge] = ()
) -> Callable[[], None]:
    """Export what a log records from now on; `gauges` are sent with the metrics. Returns a function that
    sends what is left and stops.

    Raises:
        UsageError: the extra `otel` is not installed.
    """
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return lambda: None
    for value in settings.headers.values():
        events.redactor.add_secret(value)
    queue = _SHARED.acquire(settings)
    sink = OpenTelemetrySink._sharing(queue, gauges)
    events.add_sink(sink)

    def close() -> None:
        events.remove_sink(sink)
        sink.close()
        _SHARED.release()
        failure = sink.close()
        if failure is not None:
            words = f"{type(failure).__name__}: {failure}"
            events.append("sink_failed", data={"sink": type(sink).__name__, "error": words})
            events.flush()

    return close
