"""The one thread that writes: everything that waits goes into one transaction, so that many share a sync.

Keep true:
1. First in, first committed: what is on disk of a process is always a beginning of what it handed in, less
   what failed by itself and was reported.
2. Work that fails takes nothing else with it.
3. Nothing handed in is dropped: not when whoever waits for it is cancelled, nor when the process ends in
   the ordinary way.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from placet.errors import StorageError, UsageError

if TYPE_CHECKING:
    from placet.storage.transaction import Link, Transaction

T = TypeVar("T")

MAX_BATCH = 5_000
"""Jobs in one transaction; more would make the first wait for the last."""


class _Job(NamedTuple):
    work: Callable[[Transaction], Any]
    durable: bool
    future: Future[Any]


class _Inbox:
    """What waits for the thread, in order; once closed it takes nothing more."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        # Without it a job could slip in behind the end and wait for ever. Reentrant, for signal handlers.
        self._lock = threading.RLock()
        self._closed = False

    def put(self, job: _Job) -> bool:
        with self._lock:
            if not self._closed:
                self._jobs.put(job)
            return not self._closed

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)

    def take(self) -> tuple[list[_Job], bool]:
        """Everything that waits, but at least one job if any is to come; and whether that was the last."""
        batch: list[_Job] = []
        job = self._jobs.get()
        while job is not None:
            batch.append(job)
            if len(batch) >= MAX_BATCH:
                break
            try:
                job = self._jobs.get_nowait()
            except Empty:
                break
        return batch, job is None


class Writer:
    """Owns a link, and the thread that uses it."""

    def __init__(self, link: Link) -> None:
        self._jobs = _Inbox()
        thread = threading.Thread(target=_serve, args=(link, self._jobs), name="placet-writer", daemon=True)
        thread.start()
        # Also when nobody closes us: at the end of the process, or when the last user lets go.
        self._finish = weakref.finalize(self, _finish, self._jobs, thread, os.getpid())

    def submit(self, work: Callable[[Transaction], T], durable: bool) -> Future[T]:
        """Have `work` done in its turn.

        Raises:
            UsageError: it has been closed, be it by the end of the process.
        """
        future: Future[T] = Future()
        # At once, so that nobody can cancel it any more: others rely on what stands before them.
        future.set_running_or_notify_cancel()
        if not self._jobs.put(_Job(work, durable, future)):
            raise UsageError("The database has been closed. Write before it is, or open it again.")
        return future

    def close(self) -> None:
        """Finish everything, and end the thread."""
        self._finish()


def _finish(jobs: _Inbox, thread: threading.Thread, pid: int) -> None:
    # A fork has the objects, but neither the thread nor a right to the connection.
    if os.getpid() != pid:
        return
    jobs.close()
    # The last user may have been a job, let go of by the thread itself.
    if thread is not threading.current_thread():
        thread.join()


def _serve(link: Link, jobs: _Inbox) -> None:
    last = False
    while not last:
        batch, last = jobs.take()
        if batch:
            _commit(link, batch)
        # Whoever waits for the next batch must not keep this one alive.
        del batch
    link.close()


def _commit(link: Link, batch: Sequence[_Job]) -> None:
    """Commit a batch; if that fails, each of its jobs by itself, so that only the faulty ones fail."""
    try:
        values = _try(link, batch)
    except BaseException as error:
        # Whatever work raises is its own end, never that of the thread on which all others wait.
        explained = link.explain(error) if isinstance(error, Exception) else error
        if len(batch) == 1 or (isinstance(explained, StorageError) and explained.concerns_all):
            for job in batch:
                job.future.set_exception(explained)
        else:
            for job in batch:
                _commit(link, [job])
        return
    for job, value in zip(batch, values, strict=True):
        job.future.set_result(value)


def _try(link: Link, batch: Sequence[_Job]) -> list[Any]:
    durable = any(job.durable for job in batch)
    while True:
        values: list[Any] = []
        transaction = None
        try:
            transaction = link.begin(durable=durable)
            values = [job.work(transaction) for job in batch]
            transaction.finish()
            link.commit()
        except BaseException as error:
            link.rollback()
            committed = link.recover(error) if isinstance(error, Exception) else None
            if committed is None:
                raise
            if not committed or transaction is None:
                continue
        transaction.committed()
        return values
