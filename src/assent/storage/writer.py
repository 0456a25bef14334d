"""The one thread that writes: everything that waits goes into one transaction, so that many share a sync.

Keep true:
1. First in, first committed: what is on disk of a process is always a beginning of what it handed in, less
   what failed by itself and was reported.
2. Work that fails takes nothing else with it.
3. Nothing handed in is dropped: not when whoever waits for it is cancelled, nor when the process ends in
   the ordinary way.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from assent.errors import StorageError

if TYPE_CHECKING:
    from assent.storage.transaction import Link, Transaction

T = TypeVar("T")

MAX_BATCH = 5_000
"""Jobs in one transaction; more would make the first wait for the last."""


class _Job(NamedTuple):
    work: Callable[[Transaction], Any]
    durable: bool
    future: Future[Any]


_Queue = SimpleQueue[_Job | None]


class Writer:
    """Owns a link, and the thread that uses it."""

    def __init__(self, link: Link) -> None:
        self._jobs: _Queue = SimpleQueue()
        self._thread = threading.Thread(
            target=_serve, args=(link, self._jobs), name="assent-writer", daemon=True
        )
        self._thread.start()
        # Also when nobody closes us: at the end of the process, or when the last user lets go.
        self._finish = weakref.finalize(self, _finish, self._jobs, self._thread)

    def submit(self, work: Callable[[Transaction], T], durable: bool) -> Future[T]:
        """Have `work` done in its turn."""
        future: Future[T] = Future()
        # At once, so that nobody can cancel it any more: others rely on what stands before them.
        future.set_running_or_notify_cancel()
        self._jobs.put(_Job(work, durable, future))
        return future

    def close(self) -> None:
        """Finish everything, and end the thread."""
        self._finish()


def _finish(jobs: _Queue, thread: threading.Thread) -> None:
    jobs.put(None)
    thread.join()


def _serve(link: Link, jobs: _Queue) -> None:
    last = False
    while not last:
        job = jobs.get()
        batch: list[_Job] = []
        while job is not None:
            batch.append(job)
            if len(batch) >= MAX_BATCH:
                break
            try:
                job = jobs.get_nowait()
            except Empty:
                break
        last = job is None
        if batch:
            _commit(link, batch)
    link.close()


def _commit(link: Link, batch: Sequence[_Job]) -> None:
    """Commit a batch; if that fails, each of its jobs by itself, so that only the faulty ones fail."""
    try:
        values = _try(link, batch)
    except Exception as error:
        explained = link.explain(error)
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
        except Exception as error:
            link.rollback()
            committed = link.recover(error)
            if committed is None:
                raise
            if not committed or transaction is None:
                continue
        transaction.committed()
        return values
