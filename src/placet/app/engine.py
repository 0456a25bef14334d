"""Who goes on with runs: the seam behind which queues and workers stand, and the one in this process.

An engine takes jobs, wakes runs that somebody has decided on, and stops runs. What makes a run safe is not
the engine: the journal records its steps, and its lease lets one process at a time work on it. So an engine
may begin something twice or forget it; nothing is done twice, and what was forgotten can be resumed.

Keep true:
1. Whoever submits a run gets its id once it begins, or what keeps it from beginning.
2. A run that another process holds is left to that process.
3. Draining begins nothing more and stops what runs, so that it can be resumed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Coroutine, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from placet.app import work
from placet.app.work import Job, Place
from placet.errors import PlacetError, RunHeld, UsageError
from placet.ir.proposal import new_id
from placet.loops.round import LEADER as ROUND
from placet.runtime.journal import LED_BY
from placet.runtime.sync import run_sync
from placet.tools.context import Cancel

if TYPE_CHECKING:
    from placet.app.app import Records
    from placet.events.stream import StreamEvent
    from placet.runtime.journal import Decision
    from placet.runtime.scope import Scope

Watch = Callable[[str, "str | None", "StreamEvent[Any]"], None]
"""Hears what happens in turns: the run, its tenant, and the event. Called in the thread of the run."""
Problem = Callable[[str, "str | None", str], None]
"""Hears why a run could not go on: the run, its tenant, and the reason. Called in the thread of the run."""

_PAUSE_S = 0.5
_TRIES = 20
"""How often a run that was decided on is looked at until whoever asked has let go of it."""


class Engine(Protocol):
    """What takes work and sees to it that it is done."""

    def submit(self, job: Job, *, scope: Scope | None = None, run_id: str | None = None) -> Future[str]:
        """Begin a run. The future has its id once it has begun, or the error that keeps it from beginning."""
        ...

    def wake(self, run_id: str, decide: Mapping[str, Decision] | None = None) -> Future[str]:
        """Go on with a run that waited or was broken off. The future ends as that of `submit`."""
        ...

    def say(self, run_id: str, text: str) -> Future[str]:
        """Say something in a conversation. The future ends as that of `submit`."""
        ...

    def cancel(self, run_id: str, reason: str) -> bool:
        """Ask a run to stop. False if it is not one that this engine works on."""
        ...

    def decided(self, run_id: str) -> None:
        """Somebody has decided about a run: go on with it, unless another process does. From any thread."""
        ...

    def drain(self) -> None:
        """Begin nothing more, and stop what runs. Waits for it."""
        ...


class EmbeddedEngine:
    """An engine in this process: each run in a thread with an event loop of its own."""

    def __init__(
        self,
        records: Records,
        *,
        db: str | None,
        folders: Collection[str],
        watch: Watch | None = None,
        problem: Problem | None = None,
        concurrency: int = 8,
    ) -> None:
        """Work is begun in `folders`, and below them, alone; at most `concurrency` runs work at once."""
        self._records = records
        self._db = db
        self._folders = [Path(each).resolve() for each in folders]
        self.watch = watch
        self.problem = problem
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="placet-run")
        self._lock = threading.Lock()
        self._at_work: dict[str, Cancel] = {}
        self._woken: set[str] = set()
        self._closing = threading.Event()

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

    def _root(self, run_id: str) -> str:
        """The run that started a run, and so on: that is the one to go on with."""
        for _ in range(20):
            parent = self._records.journal.find(run_id).parent
            if parent is None:
                return run_id
            run_id = parent
        return run_id

    # Work

    def submit(self, job: Job, *, scope: Scope | None = None, run_id: str | None = None) -> Future[str]:
        """Begin a run."""
        name = run_id or new_id()
        tenant = scope.tenant if scope is not None else None
        begun: Future[str] = Future()
        try:
            self.check_folder(job.folder)
        except UsageError as error:
            begun.set_exception(error)
            return begun

        def start(place: Place, cancel: Cancel) -> Coroutine[Any, Any, None]:
            return work.begin(job, name, place, cancel)

        return self._start(name, tenant, scope, start, begun)

    def wake(self, run_id: str, decide: Mapping[str, Decision] | None = None) -> Future[str]:
        """Go on with a run."""

        def start(place: Place, cancel: Cancel) -> Coroutine[Any, Any, None]:
            return work.resume(run_id, place, cancel, decide or {})

        return self._start(run_id, self._tenant(run_id), None, start, Future())

    def say(self, run_id: str, text: str) -> Future[str]:
        """Say something in a conversation."""

        def start(place: Place, cancel: Cancel) -> Coroutine[Any, Any, None]:
            return work.say(run_id, text, place, cancel)

        return self._start(run_id, self._tenant(run_id), None, start, Future())

    def cancel(self, run_id: str, reason: str) -> bool:
        """Ask a run to stop."""
        with self._lock:
            found = self._at_work.get(run_id)
        if found is not None:
            found.cancel(reason, hard=True)
        return found is not None

    def decided(self, run_id: str) -> None:
        """Go on with a run about which somebody has decided, as soon as whoever asked has let go of it. A run
        that its own process goes on with, or that was begun elsewhere, is left alone."""
        try:
            run_id = self._root(run_id)
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
                if not self.goes_on_with(run_id):
                    return
                status = self._records.journal.find(run_id).status
                if status == "waiting":
                    with self._lock:
                        self._woken.discard(run_id)
                    self.wake(run_id)
                    return
                if status != "running" or self._closing.wait(_PAUSE_S):
                    return
        except PlacetError:
            return  # Whoever looks at the run sees how it stands.
        finally:
            with self._lock:
                self._woken.discard(run_id)

    def drain(self) -> None:
        """Begin nothing more, and stop what runs."""
        self._closing.set()
        with self._lock:
            found = list(self._at_work.values())
        for cancel in found:
            cancel.cancel("the server ends", hard=True)
        self._pool.shutdown(wait=True, cancel_futures=True)

    @property
    def at_work(self) -> list[str]:
        """The runs that are worked on here."""
        with self._lock:
            return sorted(self._at_work)

    def _start(
        self,
        run_id: str,
        tenant: str | None,
        scope: Scope | None,
        start: Callable[[Place, Cancel], Coroutine[Any, Any, None]],
        begun: Future[str],
    ) -> Future[str]:
        cancel = Cancel()
        with self._lock:
            if self._closing.is_set():
                begun.set_exception(UsageError("The server ends, and begins nothing more."))
                return begun
            if run_id in self._at_work:
                begun.set_exception(
                    RunHeld(f"Run '{run_id}' is at work here already. Wait until it has ended.")
                )
                return begun
            self._at_work[run_id] = cancel
        hear = None
        if self.watch is not None:
            watch = self.watch

            def hear(event: StreamEvent[Any]) -> None:
                watch(run_id, tenant, event)

        def is_begun() -> None:
            if not begun.done():
                begun.set_result(run_id)

        def lead() -> None:
            try:
                run_sync(start(Place(self._db, scope, hear, is_begun), cancel))
                is_begun()
            except Exception as error:
                if not begun.done():
                    begun.set_exception(error)
                elif self.problem is not None:
                    self.problem(run_id, tenant, f"{type(error).__name__}: {error}")
            finally:
                with self._lock:
                    self._at_work.pop(run_id, None)

        self._pool.submit(lead)
        return begun

    def _tenant(self, run_id: str) -> str | None:
        return self._records.journal.find(run_id).tenant
