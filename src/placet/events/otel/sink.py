"""The sink that exports to OpenTelemetry: a bounded queue of finished spans, and a thread that sends them.

Keep true:
1. A run never waits for an exporter, and never ends because of one. What does not fit into the queue is
   dropped and counted; a failure is recorded as a `sink_failed` event, once until it works again.
2. Nothing of OpenTelemetry is imported before the thread starts, and nothing in the thread of a run.
3. Closing sends what is left, within a time limit.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple, Protocol

import msgspec

from placet.errors import UsageError
from placet.events.event import Event
from placet.events.otel.spans import OtelSpan, SpanTable
from placet.extras import install_command, is_installed
from placet.trace_context import TraceContext, Traceparent

CLOSE_S = 5.0
"""How long closing may take while the exporter works."""
_GIVE_UP_S = 0.5
"""How long it may take when the exporter is known to fail."""
_BATCH = 512
_QUEUE = 2_048
_TICK_S = 5.0
_EVERY_S = 0.5
"""How long a finished span waits for others at most."""


class Gauge(NamedTuple):
    """A number that is asked for whenever metrics are sent."""

    name: str
    """Name by the conventions of OpenTelemetry, such as `placet.queue.depth`."""
    observe: Callable[[], Iterable[tuple[float, Mapping[str, str | int | float | bool]]]]
    """Returns the values, each with its attributes. Called in a thread of the exporter; may raise, and is
    left out then."""
    unit: str = "1"
    """Unit, such as `{run}`."""
    description: str = ""
    """Meaning of the number."""


class OtelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where traces and metrics go, and what is in them."""

    endpoint: str | None = None
    """Base URL of an OTLP receiver (HTTP), such as `http://localhost:4318`. `None`: from the environment
    (`OTEL_EXPORTER_OTLP_ENDPOINT` and so on), and `http://localhost:4318` without."""
    headers: Mapping[str, str] = {}
    """Headers of each request, such as an API key. Without any: those of the environment."""
    content: bool = False
    """Whether texts of models, parameters of calls and texts of errors are exported. Secrets never are."""
    metrics: bool = True
    """Whether metrics are exported."""
    ratio: float = 1.0
    """Share of traces that are exported, from 0 to 1, where no caller has decided."""


class Exporter(Protocol):
    """Sends spans and metrics. Used by one thread."""

    @property
    def is_failing(self) -> bool:
        """Whether what is being sent was not accepted so far, and is tried again. From any thread."""
        ...

    def send(self, spans: Sequence[OtelSpan], dropped: int) -> None:
        """Send finished spans, and metrics when they are due; `dropped` is how many spans were dropped.
        Raises if something was not accepted."""
        ...

    def close(self) -> None:
        """Send metrics for the last time, and let go. Raises if they were not accepted."""
        ...

    def interrupt(self) -> None:
        """Give up what is being sent. From any thread."""
        ...


class SpanQueue:
    """Finished spans on their way out, and the thread that sends them. Sinks of one process can share it."""

    def __init__(
        self, settings: OtelSettings, *, most: int = _QUEUE, exporter: Callable[[], Exporter] | None = None
    ) -> None:
        """Start sending.

        Args:
            settings: Where to, and what.
            most: Most finished spans that wait.
            exporter: Makes what sends them, in the thread that does. `None`: OTLP over HTTP.

        Raises:
            UsageError: the extra `otel` is not installed.
        """
        if exporter is None and not is_installed("otel"):
            raise UsageError(
                f"OpenTelemetry needs the extra `otel`. Install it with: {install_command('otel')}"
            )
        self.settings = settings
        self.gauges: list[Gauge] = []
        """Sent with the metrics; may grow."""
        self.dropped = 0
        """How many spans did not fit, or were not accepted."""
        self.failure: BaseException | None = None
        """Why spans are not accepted; `None` while they are. The same object as long as it lasts."""
        self._most = most
        self._spans: deque[OtelSpan] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._exporter: Exporter | None = None
        self._thread = threading.Thread(
            target=self._serve, args=(exporter or self._otlp,), name="placet-otel", daemon=True
        )
        self._thread.start()

    def put(self, spans: Sequence[OtelSpan]) -> None:
        """Have spans sent; those that do not fit are dropped.

        Args:
            spans: Finished spans.
        """
        if not spans:
            return
        with self._changed:
            room = max(self._most - len(self._spans), 0)
            self._spans.extend(spans[:room])
            self.dropped += max(len(spans) - room, 0)
            self._changed.notify()

    def close(self) -> None:
        """Send what is left and stop, within a few seconds."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        began = time.monotonic()
        while self._thread.is_alive() and time.monotonic() - began < self._patience_s:
            self._thread.join(0.05)
        if self._thread.is_alive():
            if self._exporter is not None:
                self._exporter.interrupt()
            self._thread.join(_GIVE_UP_S)
        if self._thread.is_alive():
            self.failure = self.failure or TimeoutError(f"nothing was sent within {CLOSE_S:g} s")

    @property
    def _patience_s(self) -> float:
        fails = self.failure is not None or (self._exporter is not None and self._exporter.is_failing)
        return _GIVE_UP_S if fails else CLOSE_S

    # In the thread that sends

    def _otlp(self) -> Exporter:
        from placet.events.otel.otlp import OtlpExporter

        return OtlpExporter(self.settings, self.gauges)

    def _serve(self, make: Callable[[], Exporter]) -> None:
        last = False
        while not last:
            batch, last = self._next_batch()
            try:
                if self._exporter is None:
                    self._exporter = make()
                self._exporter.send(batch, self.dropped)
                if last:
                    self._exporter.close()
            except BaseException as error:
                with self._changed:
                    self.dropped += len(batch)
                self.failure = self.failure or error
            else:
                self.failure = None

    def _next_batch(self) -> tuple[list[OtelSpan], bool]:
        with self._changed:
            # Now and then without any: metrics may be due.
            if not self._changed.wait_for(lambda: self._spans or self._closing, _TICK_S):
                return [], False
            # A moment for others, so that a short run is one request.
            self._changed.wait_for(lambda: len(self._spans) >= _BATCH or self._closing, _EVERY_S)
            batch = [self._spans.popleft() for _ in range(min(_BATCH, len(self._spans)))]
            return batch, self._closing and not self._spans


class OpenTelemetrySink:
    """Sink of an event log that exports its runs as OpenTelemetry spans and metrics."""

    def __init__(self, settings: OtelSettings | None = None, *, gauges: Iterable[Gauge] = ()) -> None:
        """Start exporting.

        Args:
            settings: Where to, and what. `None`: as the environment says.
            gauges: Numbers to send with the metrics.

        Raises:
            UsageError: the extra `otel` is not installed.
        """
        self._use(SpanQueue(settings or OtelSettings()), gauges, owns=True)

    @classmethod
    def _sharing(cls, queue: SpanQueue, gauges: Iterable[Gauge] = ()) -> OpenTelemetrySink:
        """One of several sinks with one queue, which somebody else closes."""
        made = cls.__new__(cls)
        made._use(queue, gauges, owns=False)
        return made

    def _use(self, queue: SpanQueue, gauges: Iterable[Gauge], *, owns: bool) -> None:
        self._queue, self._owns_queue = queue, owns
        queue.gauges += gauges
        self._table = SpanTable(content=self._queue.settings.content)
        self._told: BaseException | None = None

    @property
    def dropped(self) -> int:
        """How many spans were dropped: the queue was full, or the receiver did not accept them."""
        return self._queue.dropped

    def trace_run(self, trace_id: str, parent: Traceparent | None, stretch: str) -> TraceContext:
        """Return how the spans of a run are exported. Whether they are is for the caller's trace to say.

        Args:
            trace_id: Trace id of the run in the log.
            parent: The caller's span.
            stretch: Not empty if the run is resumed.
        """
        # As the SDK's TraceIdRatioBased: whoever else is asked about this trace decides the same.
        sampled = int(trace_id[16:], 16) < round(self._queue.settings.ratio * (1 << 64))
        return TraceContext(trace_id, parent, stretch, sampled if parent is None else parent.sampled)

    def write(self, events: Sequence[Event]) -> Future[BaseException | None] | None:
        """Accept a batch of events. What became of earlier ones is told with it.

        Takes the arguments of `EventSink.write`.
        """
        self._queue.put(self._table.add(events))
        failure = self._queue.failure
        if failure is None and self._told is None:
            return None
        # The events themselves are not this sink's to lose: something beside them failed, or works again.
        self._told = failure
        known: Future[BaseException | None] = Future()
        known.set_result(failure)
        return known

    def close(self) -> BaseException | None:
        """Send what is left and stop, within a few seconds. Returns a failure that the log has not been told
        of."""
        self._queue.put(self._table.close())
        if self._owns_queue:
            self._queue.close()
        return self._queue.failure if self._told is None else None
