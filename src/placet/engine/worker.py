"""A worker: claims tickets, leads their runs, and takes over from workers that died.

Keep true:
1. Heartbeats come from a thread with a connection of its own: a busy run delays none of them.
2. A run is begun or resumed under the lease of the journal. Whatever the queue delivers twice is done once.
3. A worker that was given up for dead stops what it worked on, and writes nothing about it.
4. A ticket ends in a state that says what to do next: nothing is lost without a word.
"""

from __future__ import annotations

import dataclasses
import logging
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from placet import __version__
from placet.app.work import Place, Stored, Told, scope_of
from placet.engine import kinds
from placet.engine.canceling import stop_holder, withdraw
from placet.engine.protocol import DayBudget, Ticket, Transport
from placet.engine.spending import DaySpending
from placet.engine.sql import SqlSubmissions
from placet.engine.submission import Submission, WorkerInfo, channel_of
from placet.errors import NamesMissing, PlacetError, RunExists, RunHeld, StorageError, UnknownRun
from placet.ir.stop_cause import StopCause
from placet.runtime.sync import run_sync
from placet.storage.lease import holder
from placet.tools.context import Cancel
from placet.trace_context import join_trace

if TYPE_CHECKING:
    from placet.app.app import Records
    from placet.events.stream import StreamEvent

T = TypeVar("T")
Watch = Callable[[str, "str | None", "StreamEvent[Any]"], None]
"""Hears what happens in turns: the run, its tenant, and the event. Called in the thread of the run."""
Report = Callable[[str, dict[str, Any]], None]
"""Hears what the worker does: a kind of event, and its data. Called in any thread."""

SCAN_S = 1.0
"""How often a worker looks for dead ones, and for requests to stop."""
PLACE_S = 0.3
"""How often a worker looks for submissions that want a ticket."""
_PLACED_AT_ONCE = 100
LOST_S = 30.0
"""How long a ticket may be without a worker before it is looked whether it still exists, and how often."""
_FROM_THE_FIRST = (0.0, "")
_HELD_PAUSE_S = 0.3
_LOOKS = 60
"""How often a dead worker is looked at in vain: what it had claimed may show late."""
_SLOT_S = 1.0
"""How long a ticket waits for a slot before it is given back."""
_RETRY_S = 1.0
"""How long a run that failed waits before the next attempt; doubled each time."""

_log = logging.getLogger(__name__)


@dataclass
class _AtWork:
    mine: Submission
    cancel: Cancel = field(default_factory=Cancel)
    begun: bool = False


class Worker:
    """Works on the tickets of a transport until it is drained."""

    def __init__(
        self,
        submissions: SqlSubmissions,
        records: Records,
        transport: Transport,
        *,
        place: Place,
        queue: str,
        concurrency: int,
        version: str = __version__,
        offers: Iterable[str] = (),
        fits: Callable[[Submission], bool] = lambda _: True,
        day_budget: DayBudget | None = None,
        watch: Watch | None = None,
        report: Report = lambda kind, data: None,
        place_s: float = PLACE_S,
        scan_s: float = SCAN_S,
        lost_s: float = LOST_S,
    ) -> None:
        """`place` is where runs are kept and set up; `fits` says which ones a transport without a memory of
        its own may bring here. `day_budget` replaces the limits of the queue; None leaves them."""
        me = holder(secrets.token_hex(4))
        self.info = WorkerInfo(
            id=f"{me.host}-{me.pid}-{me.token}",
            holder=me,
            queue=queue,
            concurrency=concurrency,
            version=version,
            offers=tuple(sorted(offers)),
        )
        self.id = self.info.id
        self._submissions = submissions
        self._journal = records.journal
        self._records = records
        self._spending = DaySpending(submissions, records, queue)
        self._day_budget = day_budget
        self._transport = transport
        self._place = place
        self._fits = fits
        self.watch = watch
        self.report = report
        self._place_s = place_s
        self._scan_s = scan_s
        self._lost_s = lost_s
        self._at_once = _PLACED_AT_ONCE
        """How many submissions get tickets together."""
        self._looked_to = _FROM_THE_FIRST
        """The last submission whose ticket was looked for."""
        self._slots = threading.BoundedSemaphore(concurrency)
        self._lock = threading.Lock()
        self._at_work: dict[str, _AtWork] = {}
        self._claiming: Counter[str] = Counter()
        """Runs whose claim may be in the table and not yet in `_at_work`."""
        self._begun: dict[str, Future[str]] = {}
        self._left: set[str] = set()
        """Runs that cannot use what this worker offers: they bring tools or a folder of their own."""
        self._quiet: Counter[str] = Counter()
        """How often nothing was found of a dead worker, one after the other."""
        self._poked = threading.Event()
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []

    # Life

    def start(self) -> None:
        """Register, and claim tickets from now on.

        Raises:
            StorageError: the database cannot be reached.
        """
        self._submissions.heartbeat(self.info)
        host, queue = self.info.holder.host, self.info.queue
        if self._day_budget is not None:
            self._submissions.set_day_budget(queue, self._day_budget)
        channels = [queue, channel_of(queue, host), f"{queue}!{self.id}"]
        self._start("heartbeat", self._beat, self._submissions.lease_s / 4)
        # Before anything is enqueued: the transport may have to make its tables first.
        self._transport.listen(self.id, channels, self.info.concurrency, self.work)
        self._start("scan", self._scan, self._scan_s)
        self._start("place", self._enqueue_new, self._place_s)
        self._start("lost", self._renew_lost, self._lost_s)
        self.report("started", {"worker": self.id, "queue": queue, "host": host})

    def _start(self, name: str, step: Callable[[], None], every_s: float) -> None:
        thread = threading.Thread(
            target=self._repeat, args=(step, every_s), name=f"placet-{name}", daemon=True
        )
        self._threads.append(thread)
        thread.start()

    def poke(self) -> None:
        """Look for new submissions at once."""
        self._poked.set()

    @property
    def at_work(self) -> list[str]:
        """The runs that are worked on here."""
        with self._lock:
            return sorted(self._at_work)

    @property
    def has_more(self) -> bool:
        """Whether something in its queue is due, running, or tried again soon, on whatever host."""
        return self._submissions.is_busy(self.info.queue)

    @property
    def has_room(self) -> bool:
        """Whether another run could begin here now."""
        with self._lock:
            return len(self._at_work) < self.info.concurrency

    def drain(self, grace_s: float = 0.0, reason: str = "the worker ends") -> None:
        """Claim nothing more, stop what runs here so that it can be resumed, and wait for it.

        Calls in flight may end for `grace_s` seconds; then they are interrupted.
        """
        if self._closing.is_set():
            return
        self.info = replace(self.info, state="draining")
        with suppress(StorageError):
            self._submissions.heartbeat(self.info)
        self._transport.pause()
        self.report("draining", {"worker": self.id, "runs": self.at_work})
        until = time.monotonic() + grace_s
        for is_hard in (False, True):
            with self._lock:
                found = list(self._at_work.values())
            for each in found:
                each.cancel.cancel(reason, hard=is_hard, cause=StopCause.SHUTDOWN)
            while self.at_work and (is_hard or time.monotonic() < until):
                time.sleep(0.02)
        self._closing.set()
        self._poked.set()
        for thread in self._threads:
            thread.join()
        self._transport.close()
        self.info = replace(self.info, state="gone")
        with suppress(StorageError):
            self._submissions.heartbeat(self.info)
        self.report("ended", {"worker": self.id})

    # What it does again and again

    def _repeat(self, step: Callable[[], None], every_s: float) -> None:
        while not self._closing.is_set():
            try:
                step()
            except PlacetError as error:
                # The database may be gone for a while; what was not done now is done the next time.
                self.report("problem", {"worker": self.id, "message": str(error)})
            except Exception:
                _log.exception("A worker's step failed; it is tried again")
            if step == self._enqueue_new:
                self._poked.wait(every_s)
                self._poked.clear()
            else:
                self._closing.wait(every_s)

    def _beat(self) -> None:
        if not self._submissions.heartbeat(self.info):
            self.report("taken_over", {"worker": self.id})

    def _scan(self) -> None:
        dead = self._submissions.give_up_dead(self.id, is_durable=self._transport.is_durable)
        for each, runs in dead.items():
            if runs:
                self.report("handed_over", {"worker": each, "runs": runs})
        if any(dead.values()):
            self.poke()
        for each in dead:
            if self._quiet[each] < _LOOKS:
                self._quiet[each] = 0 if self._transport.hand_over(each) else self._quiet[each] + 1
        self._submissions.take_left(self.info, self._left)
        held = self._submissions.held_by(self.id)
        with self._lock:
            here = dict(self._at_work)
        for run_id, mine in here.items():
            found = held.get(run_id)
            if found is None or found.attempts != mine.mine.attempts or found.number != mine.mine.number:
                if self._submissions.get(run_id) is not None and self._is_lost(mine):
                    mine.cancel.cancel(
                        "another worker has taken it over", hard=True, cause=StopCause.LEASE_LOST
                    )
            elif found.stop is not None:
                mine.cancel.cancel(found.stop, hard=True, cause=StopCause.PERSON)
        for run_id, found in held.items():
            if run_id not in here and not self._is_here(run_id):
                # Its end could not be written down when it came.
                self._submissions.give_back(found)

    def _is_here(self, run_id: str) -> bool:
        with self._lock:
            return run_id in self._at_work or run_id in self._claiming

    def _is_lost(self, each: _AtWork) -> bool:
        """Whether a run that is worked on here is another worker's by now."""
        found = self._submissions.get(each.mine.run_id)
        return self._is_here(each.mine.run_id) and (
            found is None
            or (found.worker, found.attempts, found.number) != (self.id, each.mine.attempts, each.mine.number)
        )

    def _enqueue_new(self) -> None:
        while True:
            limit = self._at_once
            found = self._submissions.to_place(self.id, self.info.queue, limit, self._is_for_me)
            if not found:
                return
            try:
                self._transport.enqueue([each.ticket(self.info.version) for each in found])
            except Exception:
                # One that cannot be enqueued must not keep the others from it: they are tried one by one.
                self._at_once = 1
                delay_s = _RETRY_S if len(found) == 1 else 0.0
                self._submissions.unplace([each.run_id for each in found], delay_s=delay_s)
                raise
            self._at_once = min(2 * limit, _PLACED_AT_ONCE)
            if len(found) < limit or self._closing.is_set():
                return

    def _renew_lost(self) -> None:
        """Replace tickets that are used up or that the transport has forgotten, some at a time."""
        by = None if self._transport.is_durable else self.id
        found = self._submissions.placed_before(
            self.info.queue, self._lost_s, self._looked_to, _PLACED_AT_ONCE, by=by
        )
        is_last = len(found) < _PLACED_AT_ONCE
        lost = self._transport.lost([each.ticket(self.info.version) for each in found]) if found else []
        if lost and (number := self._submissions.renew(lost)):
            self.report("renewed", {"worker": self.id, "runs": number})
        self._looked_to = _FROM_THE_FIRST if is_last else (found[-1].changed, found[-1].run_id)
        self._transport.tidy()

    def _is_for_me(self, run: Submission) -> bool:
        """Whether this worker enqueues a run: it claims it itself, or its transport has other workers."""
        if self._transport.is_durable or run.target == self.id:
            return True
        me = self.info
        return (
            run.queue == me.queue
            and run.target is None
            and run.host in (None, me.holder.host)
            and run.version in (None, me.version)
            and self._fits(run)
        )

    # Work

    def expect(self, run_id: str) -> Future[str]:
        """Has the id of a run once it has begun here, or the error that kept it from beginning."""
        with self._lock:
            return self._begun.setdefault(run_id, Future())

    def _tell_begun(self, run_id: str, error: Exception | None = None) -> bool:
        """Tell whoever waits for the beginning of a run; whether somebody did."""
        with self._lock:
            found = self._begun.pop(run_id, None)
        if found is None or found.done():
            return False
        found.set_exception(error) if error is not None else found.set_result(run_id)
        return True

    def stop(self, run_id: str, reason: str) -> bool:
        """Stop a run at once if it is worked on here; whether it is."""
        with self._lock:
            found = self._at_work.get(run_id)
        if found is not None:
            found.cancel.cancel(reason, hard=True, cause=StopCause.PERSON)
        return found is not None

    def work(self, ticket: Ticket) -> None:
        """Work on a ticket until its run ends, waits or is left to others."""
        # Several queues share the slots; another worker may have one.
        has_slot = self._slots.acquire(timeout=_SLOT_S)
        try:
            if not has_slot or self.info.state != "up":
                self._submissions.bounce(ticket, delay_s=0.0 if has_slot else _SLOT_S)
                return
            if self._is_deferred(ticket):
                return
            at_work = self._claim(ticket)
            if at_work is None:
                self._tell_begun(ticket.run_id)
                return
            mine = at_work.mine
            try:
                self._lead(at_work)
            except Exception as error:
                # How it ended could not be written down; a scan finds what nobody works on.
                self._problem(mine, error)
            finally:
                with self._lock:
                    if self._at_work.get(mine.run_id) is at_work:
                        del self._at_work[mine.run_id]
                self._spending.release(mine.run_id)
                self._tell_begun(mine.run_id)
        except Exception as error:
            # Delivered for nothing: the ticket is used up, and found to be lost.
            data = {"worker": self.id, "run_id": ticket.run_id, "message": _words(error)}
            self.report("problem", data)
        finally:
            if has_slot:
                self._slots.release()

    def _is_deferred(self, ticket: Ticket) -> bool:
        """Whether a run stays in the queue until tomorrow: its tenant, or the queue, has spent its day."""
        over = self._spending.exceeded(ticket.tenant)
        if over is None or not self._submissions.defer(ticket, over.words, self._spending.next_day):
            return False
        self._tell_begun(ticket.run_id)
        data = {"run_id": ticket.run_id, "limit": over.limit, "until": self._spending.next_day}
        self.report("deferred", {"worker": self.id, **data})
        return True

    def _claim(self, ticket: Ticket) -> _AtWork | None:
        """Claim a run, so that no scan takes it for one that nobody works on."""
        with self._lock:
            self._claiming[ticket.run_id] += 1
        try:
            mine = self._submissions.claim(ticket, self.id)
            if mine is None:
                return None
            made = _AtWork(mine)
            with self._lock:
                # Under the lock: who drains has either seen this run, or has said so before.
                is_up = self.info.state == "up"
                if is_up:
                    self._at_work[ticket.run_id] = made
            if not is_up:
                self._submissions.give_back(mine)
                return None
            return made
        finally:
            with self._lock:
                self._claiming[ticket.run_id] -= 1
                self._claiming += Counter()  # Without those at zero.

    def _lead(self, at_work: _AtWork) -> None:
        mine, cancel = at_work.mine, at_work.cancel
        self.report("claimed", {"worker": self.id, "run_id": mine.run_id, "attempt": mine.attempts})
        if mine.stop is not None:
            cancel.cancel(mine.stop, hard=True, cause=StopCause.PERSON)
        tenant = mine.tenant

        def begun() -> None:
            at_work.begun = True
            if not self._submissions.begun(mine, self.info.version):
                raise RunHeld(f"Another worker has taken over run '{mine.run_id}', so this one does nothing.")
            self._tell_begun(mine.run_id)

        hear = None
        if self.watch is not None:
            watch = self.watch

            def hear(event: StreamEvent[Any]) -> None:
                watch(mine.run_id, tenant, event)

        scope = scope_of(mine.tenant, mine.caller)
        budget = self._spending.budget_for(mine)
        place = dataclasses.replace(self._place, scope=scope, hear=hear, begun=begun, budget=budget)
        outcome: str | None = None
        failure: Exception | None = None
        try:
            with join_trace(kinds.options_from(mine.options).traceparent):
                outcome = self._until_released(lambda: self._run(at_work, place), at_work)
        except NamesMissing as missing:
            self._tell_begun(mine.run_id, missing)
            if mine.stop is not None:
                # There may never be a worker that has them, and to end it none needs them.
                withdraw(self._records, mine.run_id, mine.stop)
                state = self._submissions.finish(mine, "canceled", outcome="canceled", error=mine.stop)
                self.report("released", {"worker": self.id, "run_id": mine.run_id, "state": state})
                return
            if set(missing.names) <= set(self.info.offers):
                self._left.add(mine.run_id)
            self._submissions.leave(mine, missing.names, str(missing))
            self.report("left", {"worker": self.id, "run_id": mine.run_id, "needs": list(missing.names)})
            return
        except RunHeld as error:
            # Another process works on it, or has taken it over while it was at work here.
            self._problem(mine, error)
            if cancel.cause is StopCause.PERSON:
                with suppress(PlacetError):
                    stop_holder(self._journal, mine.run_id, cancel.reason)
            state = self._submissions.give_back(mine, error=str(error), delay_s=_RETRY_S)
            self.report("released", {"worker": self.id, "run_id": mine.run_id, "state": state})
            return
        except PlacetError as error:
            self._problem(mine, error)
            if not at_work.begun:
                self._submissions.finish(mine, "refused", error=str(error))
                return
            failure = error
        except Exception as error:
            self._problem(mine, error)
            failure = error
        run = self._stored(mine.run_id)
        ends = self._settle(mine, run, outcome, cancel, failure)
        data: dict[str, Any] = {"worker": self.id, "run_id": mine.run_id, "state": ends}
        if run is not None and kinds.has_other_policies(mine.options, run.summary):
            data["has_other_policies"] = True
        self.report("released", data)

    def _problem(self, mine: Submission, error: Exception) -> None:
        is_answered = self._tell_begun(mine.run_id, error)
        data = {"worker": self.id, "run_id": mine.run_id, "tenant": mine.tenant, "message": _words(error)}
        self.report("problem", {**data, "is_answered": is_answered})

    def _run(self, at_work: _AtWork, place: Place) -> str | None:
        """Lead a run from where it stands; how it ended where the journal does not say."""
        mine, cancel = at_work.mine, at_work.cancel
        run = self._stored(mine.run_id)
        if run is None:
            try:
                return run_sync(kinds.begin(mine.request, mine.options, mine.run_id, place, cancel))
            except RunExists as error:
                # Its former worker was frozen, and has begun it after all: that one lets go of it.
                at_work.begun = False
                raise RunHeld(str(error)) from error
        run_sync(kinds.resume(run, place, cancel, Told(mine.inbox.decide, mine.inbox.text)))
        return None

    def _stored(self, run_id: str) -> Stored | None:
        try:
            return Stored(self._journal.find(run_id), self._journal.record(run_id))
        except UnknownRun:
            return None

    def _settle(
        self,
        mine: Submission,
        run: Stored | None,
        outcome: str | None,
        cancel: Cancel,
        failure: Exception | None,
    ) -> str | None:
        """Record how a run stands that was led here."""
        status = outcome or (run.summary.status if run is not None else None)
        if status == "waiting":
            return self._submissions.finish(mine, "waiting", outcome=status)
        if status == "canceled" and cancel.cause == StopCause.SHUTDOWN:
            return self._submissions.give_back(mine, error=cancel.reason)
        why = f"{type(failure).__name__}: {failure}" if failure is not None else "it came to no end"
        is_failure = status in (None, "running", "interrupted")
        if status == "canceled":
            result = self._journal.shown(mine.run_id)
            why = cancel.reason or (result.error if result is not None else None) or "it was stopped"
            # What is wrong with a model may pass. Before a person nothing goes on by itself.
            is_failure = (
                self._place.leaves
                and not cancel.requested
                # Its journal may have been asked as well, by whoever knows nothing of submissions.
                and (result is None or result.stop_cause is not StopCause.PERSON)
                and run is not None
                and kinds.kind_of(run.record).is_tried_again
            )
        if is_failure:
            return self._submissions.give_back(
                mine, error=why, is_failure=True, delay_s=_RETRY_S * 2 ** (mine.attempts - 1)
            )
        if status == "canceled":
            withdraw(self._records, mine.run_id, why)
            return self._submissions.finish(mine, "canceled", outcome=status, error=why)
        return self._submissions.finish(mine, "ended", outcome=status)

    def _until_released(self, lead: Callable[[], T], at_work: _AtWork) -> T:
        """Lead a run once its former worker's lease has ended: that one may be frozen."""
        until = time.monotonic() + 2 * self._submissions.lease_s
        while True:
            try:
                return lead()
            except RunHeld:
                if at_work.begun or at_work.cancel.requested or time.monotonic() > until:
                    raise
                time.sleep(_HELD_PAUSE_S)


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, PlacetError) else f"{type(error).__name__}: {error}"
