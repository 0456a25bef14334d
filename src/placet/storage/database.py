"""A database as the stores see it: work goes in, and comes back done or not done at all.

Keep true:
1. Work of one process is committed in the order in which it was handed in.
2. A future that has a value stands for something on disk; one that has an error, for something that is not.
   Only a server that vanishes within a commit and does not come back leaves that open; the error says so.
3. No domain: a store brings its own statements, written once for SQLite and Postgres.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TypeVar

from placet.errors import StorageError, UsageError
from placet.storage.transaction import Link, Rows, Transaction, Value
from placet.storage.writer import Writer

T = TypeVar("T")


class Readers:
    """Links for reading, of which at most so many are open. Databases of one server share them."""

    def __init__(self, connect: Callable[[], Link], most: int) -> None:
        self._connect = connect
        self._room = threading.BoundedSemaphore(most)
        self._idle: list[Link] = []
        self._lock = threading.Lock()
        self.users = 0
        """Databases that use them."""

    @contextmanager
    def link(self) -> Iterator[Link]:
        """A link that nobody else uses; waits until there is one."""
        with self._room:
            with self._lock:
                found = self._idle.pop() if self._idle else None
            link = found or self._connect()
            try:
                yield link
            finally:
                with self._lock:
                    is_closed = self.users <= 0
                    if not is_closed:
                        self._idle.append(link)
                if is_closed:
                    link.close()

    def join(self, link: Link | None) -> None:
        """Use them from now on; with one more, if there is one already."""
        with self._lock:
            self.users += 1
            if link is not None:
                self._idle.append(link)

    def close(self) -> None:
        """Close them, unless another database uses them."""
        with self._lock:
            self.users -= 1
            if self.users > 0:
                return
            idle, self._idle = self._idle, []
        for link in idle:
            link.close()


class Database:
    """An open database. Made by `open_database`; a context manager that closes it. Safe to use from any
    thread.
    """

    def __init__(
        self, connect: Callable[[bool], Link], *, read_only: bool = False, readers: Readers | None = None
    ) -> None:
        """`connect` makes a link; it is told whether that is for writing. Without `readers` there is one link
        for reading."""
        self._connect = connect
        self.read_only = read_only
        """Whether nothing can be written."""
        link = connect(not read_only)
        self.name: str = link.name
        """Name for messages, without a password."""
        self._writer = None if read_only else Writer(link)
        self._readers = readers if readers is not None else Readers(lambda: connect(False), 1)
        self._readers.join(link if read_only else None)
        self._pid = os.getpid()
        self._closed = False

    def write(self, work: Callable[[Transaction], T], *, durable: bool = True) -> Future[T]:
        """Do `work` in a transaction, together with whatever else waits; the future ends when it is on disk.

        Work may be done a second time from the start, if something beside it failed: it must have no effect
        but its statements. Without `durable` a loss of power may undo it; the death of the process may not.
        """
        self._check()
        if self._writer is None:
            raise UsageError(f"The database {self.name} was opened for reading only. Open it for writing.")
        return self._writer.submit(work, durable)

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Do `work`, which only reads, on one consistent view of everything committed so far.

        Raises:
            StorageError: it cannot be read.
        """
        self._check()
        with self._readers.link() as link:
            # A link may have died while nobody used it, and again while it is used.
            for last in (False, False, True):
                try:
                    return work(link.begin(durable=False, writes=False))
                except Exception as error:
                    explained = link.explain(error)
                    if explained is error:
                        raise
                    if last or link.recover(error) is None:
                        raise explained from error
                finally:
                    link.rollback()
            raise AssertionError  # Not reached: the last try returns or raises.

    def select(self, sql: str, values: Sequence[Value] = ()) -> Rows:
        """Return the rows of one statement that only reads.

        Raises:
            StorageError: it cannot be read.
        """
        return self.read(lambda t: t.execute(sql, values))

    def execute(self, sql: str, values: Sequence[Value] = ()) -> Rows:
        """Run one statement in a transaction of its own and wait until it is on disk.

        Raises:
            StorageError: it cannot be written.
        """
        return self.write(lambda t: t.execute(sql, values)).result()

    def has_table(self, name: str) -> bool:
        """Whether a store has made its table here. Whoever only reads cannot make it to find out."""
        return self.read(lambda t: t.has_table(name))

    def checkpoint(self) -> None:
        """Empty the write-ahead log of SQLite, which holds copies of what was deleted. Best effort: it stays
        as it is while another process reads from it."""
        self._check()
        with suppress(StorageError):
            link = self._connect(True)
            try:
                link.checkpoint()
            finally:
                link.close()

    def _check(self) -> None:
        if self._closed:
            raise UsageError(f"The database {self.name} has been closed. Open it again with open_database().")
        if os.getpid() != self._pid:
            raise UsageError(
                f"The database {self.name} was opened in another process. Open it again after a fork."
            )

    def close(self) -> None:
        """Finish pending writes and close the database. Closing twice is harmless."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        self._readers.close()
        if self._writer is not None:
            # Last, because only whoever may write can tidy up: SQLite then leaves one file, not three.
            self._writer.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
