"""Where events go besides memory, and what is known of how they fared there.

Keep true:
1. A sink that fails is told once until it works again, however many batches it loses meanwhile.
2. Every event that a sink did not take is counted, told or not.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from placet.events.event import Event
from placet.trace_context import TraceContext, Traceparent


class EventSink(Protocol):
    """Protocol of event sinks. `write` may raise; the log records the failure and continues."""

    def write(self, events: Sequence[Event]) -> Future[Any] | None:
        """Accept a batch of new events. It must not wait for a disk or a network.

        Args:
            events: The events, in order.

        Returns:
            `None` if the batch is stored; otherwise a future that ends when it is on disk, or with the error.
                Futures must end in order. A future whose value is an exception means that the batch is on
                disk and something else failed.
        """
        ...


@runtime_checkable
class Tracer(Protocol):
    """A sink that exports traces, and so decides under which names the spans of a run go out."""

    def trace_run(self, trace_id: str, parent: Traceparent | None, stretch: str) -> TraceContext:
        """Return how the spans of a run are exported that begins, or is resumed.

        Args:
            trace_id: Trace id of the run in the log.
            parent: The caller's span.
            stretch: Not empty if the run is resumed.
        """
        ...


class Trouble(NamedTuple):
    """A failure that has not been told yet."""

    sink: str
    error: BaseException


_Part = Literal["events", "beside"]


class Outlet:
    """A sink, the batches on their way to it, and whether it is known to be broken."""

    __slots__ = ("_broken", "lost", "sink", "writing")

    def __init__(self, sink: EventSink) -> None:
        self.sink = sink
        self.writing: deque[tuple[Future[Any], int, bool]] = deque()
        """With the number of events of each, and whether it is more than the news that something failed."""
        self.lost = 0
        self._broken: set[_Part] = set()

    def hand_over(self, events: Sequence[Event]) -> Trouble | None:
        """Give the sink a batch."""
        try:
            on_its_way = self.sink.write(events)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return self._lose(len(events), error)
        # A disk that is nearly full takes the small event that says so, and is still full.
        ordinary = any(event.kind != "sink_failed" for event in events)
        if on_its_way is not None:
            self.writing.append((on_its_way, len(events), ordinary))
        elif ordinary:
            self._broken.clear()
        return None

    def hear(self) -> list[Trouble]:
        """What became of the batches that have arrived, as far as it is news."""
        found: list[Trouble | None] = []
        writing = self.writing
        while writing and writing[0][0].done():
            future, size, ordinary = writing.popleft()
            try:
                beside = future.result()
            except BaseException as error:  # Also CancelledError: the batch is not there.
                found.append(self._lose(size, error))
                continue
            if ordinary:
                self._broken.discard("events")
            if isinstance(beside, BaseException):
                found.append(self._tell("beside", beside))
            else:
                self._broken.discard("beside")
        return [trouble for trouble in found if trouble is not None]

    def _lose(self, size: int, error: BaseException) -> Trouble | None:
        self.lost += size
        return self._tell("events", error)

    def _tell(self, part: _Part, error: BaseException) -> Trouble | None:
        # Said once until it works again: a sink that fails always must not feed itself.
        if part in self._broken:
            return None
        self._broken.add(part)
        return Trouble(type(self.sink).__name__, error)


class Round:
    """Those who wait until what was recorded so far is on disk; many share one, so that waiting is cheap."""

    __slots__ = ("left", "loop", "waiting")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self.loop = loop
        self.waiting = [loop.create_future()]
        self.left = 0
        """Outlets that have not answered."""

    def end(self) -> None:
        """Wake them all."""
        for waiter in self.waiting:
            if not waiter.done():  # Else whoever waited was cancelled.
                waiter.set_result(None)
