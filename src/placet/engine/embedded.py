"""The engine in this process: runs in threads, each with an event loop of its own, and the table of the store
as its queue.

Keep true:
1. Whoever submits a run while a thread is free gets its id once it begins, or what keeps it from beginning.
2. A run that another process holds is left to that process.
3. Work is done in the folders that were named, and below them, alone.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placet.app.work import Place
from placet.engine.kinds import kind_of
from placet.engine.protocol import AS_USUAL, DEFAULT_QUEUE, SubmitOptions, Ticket, Work
from placet.engine.queue_engine import QueueEngine
from placet.engine.submission import NOTHING_SAID, Inbox, Submission
from placet.engine.worker import Watch, Worker
from placet.errors import PlacetError, UsageError
from placet.loops.round import LEADER as ROUND
from placet.runtime.journal import LED_BY
from placet.storage.lease import holder

if TYPE_CHECKING:
    from placet.app.app import Records
    from placet.app.work import Job
    from placet.runtime.journal import Decision

Problem = Callable[[str, "str | None", str], None]
"""Hears why a run could not go on: the run, its tenant, and the reason. Called in the thread of the run."""

_PAUSE_S = 0.5
_TRIES = 20
"""How often a run that was decided on is looked at until whoever asked has released it."""
_PLACE_S = 1.0
"""How often submissions of other processes are looked for."""
_CLOSED = "The server ends, and begins nothing more."


class LocalTransport:
    """Tickets in memory, and threads of this process. Tenants take turns."""

    is_durable = False

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[str, list[tuple[int, int, Ticket]]] = {}
        self._turns: deque[str] = deque()
        self._known: set[str] = set()
        self._numbers = count()
        self._is_closing = False
        self._threads: list[threading.Thread] = []

    def enqueue(self, tickets: Sequence[Ticket]) -> None:
        """Add tickets."""
        with self._changed:
            for each in tickets:
                if each.id in self._known:
                    continue
                self._known.add(each.id)
                if each.tenant not in self._waiting:
                    self._waiting[each.tenant] = []
                    self._turns.append(each.tenant)
                heapq.heappush(self._waiting[each.tenant], (each.priority, next(self._numbers), each))
            self._changed.notify_all()

    def listen(self, worker: str, queues: Sequence[str], concurrency: int, work: Work) -> None:
        """Work on tickets in threads from now on."""
        for number in range(concurrency):
            thread = threading.Thread(
                target=self._serve, args=(work,), name=f"placet-run-{number}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def _serve(self, work: Work) -> None:
        while (ticket := self._next()) is not None:
            work(ticket)
            with self._changed:
                self._known.discard(ticket.id)

    def _next(self) -> Ticket | None:
        with self._changed:
            while not self._is_closing and not self._turns:
                self._changed.wait()
            if self._is_closing:
                return None
            tenant = self._turns.popleft()
            waiting = self._waiting[tenant]
            _, _, ticket = heapq.heappop(waiting)
            if waiting:
                self._turns.append(tenant)
            else:
                del self._waiting[tenant]
            return ticket

    def hand_over(self, worker: str) -> int:
        """Nothing: the table enqueues again what was lost with a process."""
        return 0

    def lost(self, tickets: Sequence[Ticket]) -> list[Ticket]:
        """Those that are neither waiting nor worked on."""
        with self._changed:
            return [each for each in tickets if each.id not in self._known]

    def tidy(self) -> None:
        """Nothing: those that are used up are forgotten at once."""

    def pause(self) -> None:
        """Begin nothing more."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()

    def close(self) -> None:
        """Wait for the threads."""
        self.pause()
        for thread in self._threads:
            thread.join()


class EmbeddedEngine(QueueEngine):
    """An engine and its worker in this process."""

    def __init__(
        self,
        records: Records,
        *,
        db: str | None,
        folders: Collection[str],
        concurrency: int = 8,
        queue: str = DEFAULT_QUEUE,
    ) -> None:
        """Work is begun in `folders`, and below them, alone; at most `concurrency` runs work at once."""
        super().__init__(records)
        self._folders = [Path(each).resolve() for each in folders]
        self.problem: Problem | None = None
        self._woken: set[str] = set()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self.worker = Worker(
            self.submissions,
            records,
            LocalTransport(),
            place=Place(db),
            queue=queue,
            concurrency=concurrency,
            fits=self._fits,
            report=self._report,
            place_s=_PLACE_S,
        )

    def start(self) -> None:
        """Begin to work: what was queued before goes on."""
        self.worker.start()

    @property
    def watch(self) -> Watch | None:
        """Who hears what happens in turns."""
        return self.worker.watch

    @watch.setter
    def watch(self, watch: Watch | None) -> None:
        self.worker.watch = watch

    @property
    def at_work(self) -> list[str]:
        """The runs that are worked on here."""
        return self.worker.at_work

    def _report(self, kind: str, data: dict[str, Any]) -> None:
        if (
            kind == "problem"
            and "run_id" in data
            and not data.get("is_answered")
            and self.problem is not None
        ):
            self.problem(data["run_id"], data.get("tenant"), data["message"])

    # What may be begun

    def check_folder(self, folder: str) -> Path:
        """The folder in which work is to be done.

        Raises:
            UsageError: no work may be begun there.
        """
        if not Path(folder).is_absolute():
            raise UsageError(
                f"'{folder}' is no absolute path. Name one of the folders that were named at launch."
            )
        path = Path(folder).resolve()
        if not any(path.is_relative_to(each) for each in self._folders):
            named = ", ".join(map(str, self._folders)) or "none"
            raise UsageError(
                f"No work can be started in {path}: the folders that were named at launch are: {named}. "
                "Start the server with --folder PATH."
            )
        if not path.is_dir():
            raise UsageError(f"There is no folder {path}.")
        return path

    def _fits(self, run: Submission) -> bool:
        try:
            return run.folder is not None and bool(self.check_folder(run.folder))
        except UsageError:
            return False

    def goes_on_with(self, run_id: str) -> bool:
        """Whether a run was begun in a folder in which work may be done here."""
        try:
            summary = self._records.journal.find(run_id)
            context = self._records.journal.record(run_id).proposal.context
            if summary.run_id != run_id or summary.folder is None or context.get(LED_BY) == ROUND:
                # What is decided about a round is carried out by whoever decides.
                return False
            return bool(self.check_folder(summary.folder))
        except PlacetError:
            return False

    # Work

    async def submit(self, job: Job, options: SubmitOptions = AS_USUAL) -> str:
        """Begin a run; if no thread is free, as soon as one is."""
        self.check_folder(job.folder)
        self._check_open()
        found = await asyncio.to_thread(self.add, job, options)
        try:
            return await self._begin(found.run_id)
        except PlacetError:
            # Nothing has begun, and whoever asked knows why.
            await asyncio.to_thread(self.submissions.forget, found.run_id)
            raise

    def _check_open(self) -> None:
        if self._closing.is_set():
            raise UsageError(_CLOSED)

    async def _begin(self, run_id: str) -> str:
        has_room = self.worker.has_room
        begun = self.worker.expect(run_id)
        self.worker.poke()
        return await asyncio.wrap_future(begun) if has_room else run_id

    async def wake(
        self, run_id: str, *, decide: Mapping[str, Decision] | None = None, text: str | None = None
    ) -> str:
        """Go on with a run, whoever has begun it."""
        self._check_open()
        await asyncio.to_thread(self._go_on, run_id, Inbox(decide=dict(decide or {}), text=text))
        return await self._begin(run_id)

    def _go_on(self, run_id: str, inbox: Inbox = NOTHING_SAID) -> None:
        if not self._wake(run_id, inbox, target=self.worker.id):
            self.submissions.add(self._adopted(run_id, inbox))

    def _adopted(self, run_id: str, inbox: Inbox) -> Submission:
        """A run that was begun without a queue, as if it had been submitted here."""
        summary = self._records.journal.find(run_id)
        return Submission(
            run_id=summary.run_id,
            kind=kind_of(self._records.journal.record(summary.run_id)).name,
            request="null",
            tenant=summary.tenant,
            queue=self.worker.info.queue,
            folder=summary.folder,
            host=holder("").host,
            target=self.worker.id,
            inbox=inbox,
        )

    async def cancel(self, run_id: str, reason: str) -> bool:
        """Stop a run."""
        known = await super().cancel(run_id, reason)
        self.worker.poke()
        return self.worker.stop(run_id, reason) or known

    def decided(self, run_id: str) -> None:
        """Go on with a run about which somebody has decided, as soon as whoever asked has released it. A run
        that its own process goes on with, or that was begun elsewhere, is left alone."""
        try:
            run_id = self.root(run_id)
        except PlacetError:
            return
        with self._lock:
            if run_id in self._woken or self._closing.is_set():
                return
            self._woken.add(run_id)
        threading.Thread(target=self._wake_later, args=(run_id,), name="placet-wake", daemon=True).start()

    def _wake_later(self, run_id: str) -> None:
        try:
            for _ in range(_TRIES):
                if self.submissions.wake_waiting(run_id):
                    self.worker.poke()
                    return
                if not self.goes_on_with(run_id):
                    return
                status = self._records.journal.find(run_id).status
                if status == "waiting":
                    self._go_on(run_id)
                    self.worker.poke()
                    return
                if status != "running" or self._closing.wait(_PAUSE_S):
                    return
        except PlacetError:
            return  # Whoever looks at the run sees how it stands.
        finally:
            with self._lock:
                self._woken.discard(run_id)

    async def drain(self) -> None:
        """Begin nothing more, and stop what runs."""
        self._closing.set()
        await asyncio.to_thread(self.worker.drain, 0.0, "the server ends")
