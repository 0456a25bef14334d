"""The event log: a bounded ring in memory, with sinks that get everything in batches.

Keep true:
1. Events are appended in `seq` order and never changed.
2. A sink that fails is itself an event, never the end of a run.
3. Nothing is encoded unless a sink needs it.
4. Secrets are taken out of whatever leaves the ring, by every way out; `record` itself does not look.
"""

from __future__ import annotations

from asyncio import get_running_loop
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from itertools import count, islice
from time import time
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from placet.events.event import Event
from placet.events.sink import EventSink, Outlet, Round, Tracer
from placet.events.span import Span, spans_of
from placet.events.totals import COUNTED, cost_by_agent
from placet.ir.json_value import JsonValue
from placet.redaction import Redactor

if TYPE_CHECKING:
    from placet.events.costs import By, Costs, Places

__all__ = ["EventLog", "EventSink", "Record"]


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
    """The events of a runtime, in order. Iterate over it to get the events in memory, without secrets."""

    def __init__(
        self, *, sinks: Iterable[EventSink] = (), keep: int = 50_000, redactor: Redactor | None = None
    ) -> None:
        """Create an empty log.

        Args:
            sinks: Where events are also written.
            keep: How many events memory holds; sinks get all of them.
            redactor: Removes secrets from events that leave the log. `None`: a new one, which removes values
                that look like secrets.
        """
        if redactor is not None:
            self.redactor = redactor
        self._ring: deque[Event] = deque(maxlen=keep)
        self._sinks: list[Outlet] = [Outlet(sink) for sink in sinks]
        self.tracer: Tracer | None = None
        """The sink that exports traces, if there is one."""
        self._find_tracer()
        self._leaving: list[Outlet] = []
        """Of sinks that were removed while batches were on their way to them."""
        self._lost_elsewhere = 0
        self._new_events: list[Event] = []
        self._flush_planned = False
        self._round: Round | None = None
        self._seq = count(1)

    @cached_property
    def redactor(self) -> Redactor:
        """Removes secrets from events that leave the log. Register secrets with its `add_secret`."""
        # Made when first needed: its rules take longer to compile than a small run takes.
        return Redactor()

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
        """Record an event.

        Args:
            kind: Kind of event.
            run_id: Id of the run.
            proposal_id: Id of the proposal.
            action_id: Id of the action.
            trace_id: Id of the trace.
            span_id: Id of the span.
            tenant: Tenant of the run.
            data: Data of the event, as JSON.
        """
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

    @property
    def lost(self) -> int:
        """How many events a sink did not accept, counted once for every such sink."""
        return self._lost_elsewhere + sum(outlet.lost for outlet in (*self._sinks, *self._leaving))

    def add_sink(self, sink: EventSink) -> None:
        """Write every event from now on to a sink.

        Args:
            sink: The sink.
        """
        self._sinks.append(Outlet(sink))
        self._find_tracer()

    def _find_tracer(self) -> None:
        # Looked for here and not when a run begins: that happens far more often.
        self.tracer = next((each.sink for each in self._sinks if isinstance(each.sink, Tracer)), None)

    def remove_sink(self, sink: EventSink) -> None:
        """Stop writing to a sink, after it has received every event so far.

        Args:
            sink: The sink.

        Raises:
            ValueError: it is not a sink of this log.
        """
        self.flush()
        outlet = next((each for each in self._sinks if each.sink is sink), None)
        if outlet is None:
            raise ValueError(f"no such sink: {type(sink).__name__}")
        self._sinks.remove(outlet)
        self._find_tracer()
        self._leaving.append(outlet)

    def _plan_flush(self) -> None:
        # As soon as the loop is free, so that a watcher sees an action start before it ends, yet a run
        # of actions that never wait is handed over as one batch.
        self._flush_planned = True
        try:
            get_running_loop().call_soon(self.flush)
        except RuntimeError:
            self.flush()

    def flush(self) -> None:
        """Pass all new events to the sinks."""
        self._flush_planned = False
        self._hear()
        if not self._new_events:
            return
        events, self._new_events = self._new_events, []
        shown = list(self._shown(events))
        for outlet in list(self._sinks):
            trouble = outlet.hand_over(shown)
            if trouble is not None:
                self._tell(trouble.sink, trouble.error)

    async def settle(self) -> None:
        """Wait until every sink has stored the events recorded so far. Never raises for a sink.

        If `lost` has not grown afterwards, all of them are on disk, as safely as each sink stores them. A
        failure is recorded as a `sink_failed` event, once per outage.
        """
        if not self._sinks and not self._leaving:
            return
        loop = get_running_loop()
        if self._round is None or self._round.loop is not loop:
            self._round = Round(loop)
            # Not at once: whoever else is about to record and wait in this turn of the loop shares the batch.
            loop.call_soon(self._begin, self._round)
        else:
            self._round.waiting.append(loop.create_future())
        await self._round.waiting[-1]

    def _begin(self, round: Round) -> None:
        if self._round is round:
            self._round = None
        self.flush()
        # What a sink is given first arrives first, so its newest batch speaks for all.
        newest = [o.writing[-1][0] for o in (*self._sinks, *self._leaving) if o.writing]
        round.left = len(newest)
        if not newest:
            round.end()

        def arrived(_: object) -> None:  # On any thread.
            with suppress(RuntimeError):  # The loop is closed: nobody waits any more.
                round.loop.call_soon_threadsafe(self._arrived, round)

        for future in newest:
            future.add_done_callback(arrived)

    def _arrived(self, round: Round) -> None:
        round.left -= 1
        if round.left == 0:
            self._hear()
            round.end()

    def _hear(self) -> None:
        for outlet in (*self._sinks, *self._leaving):
            for trouble in outlet.hear():
                self._tell(trouble.sink, trouble.error)
        for outlet in [each for each in self._leaving if not each.writing]:
            self._leaving.remove(outlet)
            self._lost_elsewhere += outlet.lost

    def _tell(self, sink: str, error: BaseException) -> None:
        self.append("sink_failed", data={"sink": sink, "error": f"{type(error).__name__}: {error}"})

    def _shown(self, events: Iterable[Event]) -> Iterator[Event]:
        """The events without secrets; themselves where they hold none."""
        value, text = self.redactor.value, self.redactor.text
        clean: set[str | None] = {None}
        for event in events:
            data = value(event.data) if event.data else event.data
            if event.action_id in clean and event.proposal_id in clean:
                yield event if data is event.data else replace(event, data=data)
                continue
            # A plan names its actions, and a model may have put anything there.
            action, proposal = event.action_id, event.proposal_id
            action = action and text(action)
            proposal = proposal and text(proposal)
            if action == event.action_id and proposal == event.proposal_id:
                clean.update((action, proposal))
                yield event if data is event.data else replace(event, data=data)
            else:
                yield replace(event, data=data, action_id=action, proposal_id=proposal)

    def __iter__(self) -> Iterator[Event]:
        return iter(list(self._shown(list(self._ring))))

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
        tenant: str | None = None,
        since: float | None = None,
        until: float | None = None,
        after: int | None = None,
        before: int | None = None,
        limit: int | None = None,
        newest: bool = False,
    ) -> list[Event]:
        """Return events in memory that match all conditions, as `EventStore.query` does."""
        kinds = None if kind is None else {kind} if isinstance(kind, str) else set(kind)
        found = (
            e
            for e in (reversed(self._ring) if newest else self._ring)
            if (kinds is None or e.kind in kinds)
            and (run is None or e.run_id == run)
            and (trace is None or e.trace_id == trace)
            and (proposal is None or e.proposal_id == proposal)
            and (action is None or e.action_id == action)
            and (tool is None or e.data.get("tool") == tool)
            and (tenant is None or e.tenant == tenant)
            and (since is None or e.time >= since)
            and (until is None or e.time <= until)
            and (after is None or e.seq > after)
            and (before is None or e.seq < before)
        )
        return list(self._shown(found if limit is None else islice(found, max(limit, 0))))

    def spans(self, *, trace: str | None = None) -> list[Span]:
        """Return the spans of the events in memory, in the order in which they began.

        Args:
            trace: Only those of this trace.
        """
        return spans_of(self._shown(self._ring) if trace is None else self.query(trace=trace))

    def counts(self) -> dict[str, int]:
        """How many kept events there are of each kind."""
        return dict(Counter(e.kind for e in self._ring))

    def cost_by_agent(self) -> dict[str, dict[str, float]]:
        """What the runs of each source came to, over the kept events: runs, calls, actions, retries, time;
        and where a model was asked, answers, tokens and money, with how many answers did not tell theirs."""
        return cost_by_agent(self.query(kind=COUNTED))

    def costs(
        self,
        *,
        by: By,
        since: float | None = None,
        until: float | None = None,
        places: Places | None = None,
    ) -> Costs:
        """Add up what runs cost, over the kept events: by day, model, agent, folder or run.

        Args:
            by: What to group by.
            since: Only events then or later, in seconds since the epoch.
            until: Only events then or earlier, in seconds since the epoch.
            places: Function that finds the folder and the parent of runs, such as `SqlJournal.places`.
        """
        from placet.events.costs import add_up  # Few want it, and every program loads this module.

        counted = self.query(kind=COUNTED)
        runs = {event.run_id for event in counted if event.run_id is not None}
        found = places(runs) if places is not None else None
        return add_up(counted, by=by, since=since, until=until, places=found)

    def replace(self, events: Iterable[Event]) -> None:
        """Hold exactly `events`, and count on from the newest of them."""
        self._ring.clear()
        self._ring.extend(events)
        self._seq = count(max((e.seq for e in self._ring), default=0) + 1)
