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
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from placet.errors import StorageError, UsageError
from placet.storage.transaction import Link, Transaction
from placet.storage.writer import Writer

T = TypeVar("T")


class Database:
    """An open database. Made by `open_database`; a context manager that closes it. Safe to use from any
    thread.
    """

    def __init__(self, connect: Callable[[bool], Link], *, read_only: bool = False) -> None:
        """`connect` makes a link; it is told whether that is for writing."""
        self._connect = connect
        self.read_only = read_only
        """Whether nothing can be written."""
        link = connect(not read_only)
        self.name: str = link.name
        """Name for messages, without a password."""
        self._writer = None if read_only else Writer(link)
        self._reader: Link | None = link if read_only else None
        self._reading = threading.Lock()
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
        with self._reading:
            for last in (False, True):
                if self._reader is None:
                    self._reader = self._connect(False)
                try:
                    return work(self._reader.begin(durable=False, writes=False))
                except Exception as error:
                    explained = self._reader.explain(error)
                    if explained is error:
                        raise
                    if last or self._reader.recover(error) is None:
                        raise explained from error
                finally:
                    self._reader.rollback()
            raise AssertionError  # Not reached: the second try returns or raises.

    def checkpoint(self) -> None:
        """Empty the write-ahead log of SQLite, which holds copies of what was deleted. Best effort: it stays
        as it is while another process reads from it."""
        self._check()
        with self._reading, suppress(StorageError):
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
        with self._reading:
            if self._reader is not None:
                self._reader.close()
        if self._writer is not None:
            # Last, because only whoever may write can tidy up: SQLite then leaves one file, not three.
            self._writer.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
