"""What work on a database gets to use, and what a kind of database must bring.

Keep true:
1. Statements are written once, with `?` for values; a dialect translates what it must.
2. What runs after a commit cannot fail it.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias

Value: TypeAlias = str | int | float | bytes | None
Rows: TypeAlias = list[tuple[Any, ...]]
Dialect: TypeAlias = Literal["sqlite", "postgres"]

_log = logging.getLogger(__name__)


def searchable(text: str | None) -> str | None:
    """A text as it can stand in a column of its own: Postgres has no null character in texts."""
    return text if text is None or "\0" not in text else text.replace("\0", "\ufffd")


class Transaction(ABC):
    """What work can do."""

    dialect: Dialect

    def __init__(self) -> None:
        self.shared: dict[object, Any] = {}
        """Lets several pieces of work in one commit share what they would else each do again."""
        self._before: list[Callable[[], None]] = []
        self._after: list[Callable[[], None]] = []

    @abstractmethod
    def execute(self, sql: str, values: Sequence[Value] = ()) -> Rows:
        """Run a statement and return its rows, if it has any."""

    @abstractmethod
    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Value]]) -> None:
        """Add many rows in the quickest way there is."""

    @abstractmethod
    def now(self) -> float:
        """Seconds since the epoch, by the clock that all users of the database share."""

    @abstractmethod
    def lock_schema(self) -> None:
        """Keep others from changing tables until the end of the transaction."""

    @abstractmethod
    def has_table(self, name: str) -> bool:
        """Whether there is a table of ours by that name."""

    def before_commit(self, work: Callable[[], None]) -> None:
        """Run `work` once all the work of this commit has been done."""
        self._before.append(work)

    def after_commit(self, work: Callable[[], None]) -> None:
        """Run `work` once this commit is on disk, and not if it fails. It must not raise."""
        self._after.append(work)

    def finish(self) -> None:
        """All the work has been done: what waited for that is due."""
        for work in self._before:
            work()

    def committed(self) -> None:
        """The commit is on disk: what waited for that is due."""
        for work in self._after:
            try:
                work()
            except Exception:
                # Raised further it would look like a failed commit, and everything would be done twice.
                _log.exception("What follows a commit failed; the commit stands")


class Link(Protocol):
    """A connection to one kind of database, used by one thread at a time."""

    name: str
    """For messages: a path, or a URL without its password."""

    def begin(self, *, durable: bool, writes: bool = True) -> Transaction:
        """Start a transaction; with `durable` its commit survives a loss of power."""
        ...

    def commit(self) -> None: ...

    def rollback(self) -> None:
        """Take back what is open, if anything is. Never raises."""
        ...

    def recover(self, error: Exception) -> bool | None:
        """After an error: None if trying again is of no use; else, once connected again, whether the
        transaction that failed had been committed all the same.

        Raises:
            StorageError: the connection could not be had again.
        """
        ...

    def explain(self, error: Exception) -> Exception:
        """The error in our own words; itself if it is none of the database's."""
        ...

    def checkpoint(self) -> None:
        """Remove copies of deleted data from what is beside the tables, as far as possible. Never raises."""
        ...

    def close(self) -> None: ...
