"""The event log: a bounded ring in memory, with sinks that get everything in batches.

Keep true:
1. Events are appended in `seq` order and never changed.
2. A sink that fails is itself an event, never the end of a run.
3. Nothing is encoded unless a sink needs it.
"""

from __future__ import annotations

from asyncio import get_running_loop
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from time import time
from typing import Protocol

from assent.events.event import Event
from assent.events.span import Span, spans_of
from assent.ir.json_value import JsonValue


class EventSink(Protocol):
    """Where events go besides memory. `write` may raise; the log reports it and goes on."""

    def write(self, events: Sequence[Event]) -> None:
        """Take a batch: new events, in order."""
        ...


class Record(Protocol):
    """Appends one event of a run; `at` is for a moment that was looked up already."""

    def __call__(
        self,
        kind: str,
        action_id: str | None = None,
        span_id: str | None = None,
        data: dict[str, JsonValue] = ...,
        at: float = ...,
    ) -> None: ...


_NOTHING: dict[str, JsonValue] = {}


class EventLog:
    """Append-only, ordered by `seq`."""

    def __init__(self, *, sinks: Iterable[EventSink] = (), keep: int = 50_000) -> None:
        """`keep` bounds what memory holds; sinks get everything."""
        self._ring: deque[Event] = deque(maxlen=keep)
        self._sinks: list[EventSink] = list(sinks)
        self._broken: set[int] = set()
        self._new_events: list[Event] = []
        self._flush_planned = False
        self._seq = count(1)

    def append(
        self,
        kind: str,
        run_id: str | None = None,
        proposal_id: str | None = None,
        action_id: str | None = None,
        trace_id: str | None = None,
        span_id: str | None = None,
        tenant: str | None = None,
        data: dict[str, JsonValue] | None = None,
    ) -> None:
        """Record that something happened, now."""
        self.recorder(run_id, proposal_id, trace_id, tenant)(kind, action_id, span_id, data or _NOTHING)

    def recorder(
        self, run_id: str | None, proposal_id: str | None, trace_id: str | None, tenant: str | None
    ) -> Record:
        """A function that appends events of one run, made once because a run appends several per action."""
        keep = self._ring.append
        sinks = self._sinks

        def record(
            kind: str,
            action_id: str | None = None,
            span_id: str | None = None,
            data: dict[str, JsonValue] = _NOTHING,
            at: float = 0.0,
        ) -> None:
            event = Event(
                next(self._seq),
                kind,
                at or time(),
                run_id,
                proposal_id,
                action_id,
                trace_id,
                span_id,
                tenant,
                data,
            )
            keep(event)
            if sinks:
                self._new_events.append(event)
                if not self._flush_planned:
                    self._plan_flush()

        return record

    @property
    def has_sinks(self) -> bool:
        """Whether anybody besides memory gets the events."""
        return bool(self._sinks)

    def add_sink(self, sink: EventSink) -> None:
        """Send everything from now on to `sink` too."""
        self._sinks.append(sink)

    def remove_sink(self, sink: EventSink) -> None:
        """Stop sending to `sink`, after handing it what it has not seen."""
        self.flush()
        self._sinks.remove(sink)

    def _plan_flush(self) -> None:
        # As soon as the loop is free, so that a watcher sees an action start before it ends, yet a run
        # of actions that never wait is handed over as one batch.
        self._flush_planned = True
        try:
            get_running_loop().call_soon(self.flush)
        except RuntimeError:
            self.flush()

    def flush(self) -> None:
        """Hand everything new to the sinks."""
        self._flush_planned = False
        if not self._new_events:
            return
        events, self._new_events = self._new_events, []
        for sink in list(self._sinks):
            try:
                sink.write(events)
                self._broken.discard(id(sink))
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                if id(sink) not in self._broken:
                    # Said once until it works again: a sink that fails always must not feed itself.
                    self._broken.add(id(sink))
                    self.append(
                        "sink_failed",
                        data={"sink": type(sink).__name__, "error": f"{type(error).__name__}: {error}"},
                    )

    def __iter__(self) -> Iterator[Event]:
        return iter(list(self._ring))

    def __len__(self) -> int:
        return len(self._ring)

    def query(
        self,
        *,
        kind: str | Iterable[str] | None = None,
        run: str | None = None,
        trace: str | None = None,
        proposal: str | None = None,
        action: str | None = None,
        tool: str | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> list[Event]:
        """Kept events that match everything given, oldest first. `since` and `until` are seconds since the
        epoch, both included."""
        kinds = None if kind is None else {kind} if isinstance(kind, str) else set(kind)
        return [
            e
            for e in self._ring
            if (kinds is None or e.kind in kinds)
            and (run is None or e.run_id == run)
            and (trace is None or e.trace_id == trace)
            and (proposal is None or e.proposal_id == proposal)
            and (action is None or e.action_id == action)
            and (tool is None or e.data.get("tool") == tool)
            and (since is None or e.time >= since)
            and (until is None or e.time <= until)
        ]

    def spans(self, *, trace: str | None = None) -> list[Span]:
        """Spans of the kept events, in the order in which they began."""
        return spans_of(self._ring if trace is None else self.query(trace=trace))

    def counts(self) -> dict[str, int]:
        """How many kept events there are of each kind."""
        return dict(Counter(e.kind for e in self._ring))

    def cost_by_agent(self) -> dict[str, dict[str, float]]:
        """What the runs of each source came to, over the kept events: runs, calls, actions, retries, time."""
        # A run that replanned ends several proposals, and each ending tells the cost so far.
        last = {e.run_id: e for e in self._ring if e.kind == "proposal_ended"}
        agents: dict[str, dict[str, float]] = {}
        for event in last.values():
            total = agents.setdefault(str(event.data.get("source", "unknown")), {"runs": 0})
            total["runs"] += 1
            for name, amount in event.data.get("cost", {}).items():
                total[name] = total.get(name, 0) + amount
        return agents

    def replace(self, events: Iterable[Event]) -> None:
        """Hold exactly `events`, and count on from the newest of them."""
        self._ring.clear()
        self._ring.extend(events)
        self._seq = count(max((e.seq for e in self._ring), default=0) + 1)
