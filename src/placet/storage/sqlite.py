"""SQLite through the standard library: one file, write-ahead log, readers never wait for the writer.

Keep true:
1. The file and what lies beside it are for their owner alone, from the first byte.
2. Every error of SQLite's that a person can meet has words of ours.
3. A file that would do something by itself, by triggers or views, is not ours.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Literal, TypeVar

from placet.errors import (
    StorageDamaged,
    StorageError,
    StorageFull,
    StorageLocked,
    StorageReadOnly,
    StorageUnavailable,
)
from placet.storage.location import PROJECT_FOLDER
from placet.storage.transaction import Dialect, Rows, Transaction, Value

T = TypeVar("T")

BUSY_TIMEOUT_S = 10.0
"""How long a file that another process has locked is waited for."""
_OUR_ID = 0x41535354
"""What SQLite keeps in the file's head to say whose it is."""

_OWN_WORDS: dict[str, tuple[type[StorageError], str, str]] = {
    "SQLITE_FULL": (StorageFull, "has no space left to grow", "Free some space on its disk, then go on."),
    "SQLITE_READONLY": (
        StorageReadOnly,
        "may be read but not written",
        "Change its permissions and those of its folder, or name another with --db or PLACET_DB.",
    ),
    "SQLITE_BUSY": (
        StorageLocked,
        "stays locked by another process (waited {waited:g} s)",
        "Wait for that process or end it, then try again.",
    ),
    "SQLITE_CANTOPEN": (
        StorageUnavailable,
        "cannot be opened",
        "Check the path, its folder and their permissions, or name another with --db or PLACET_DB.",
    ),
    "SQLITE_PERM": (
        StorageUnavailable,
        "may not be opened",
        "Check its permissions, or name another with --db or PLACET_DB.",
    ),
    "SQLITE_CORRUPT": (
        StorageDamaged,
        "is damaged",
        "Move it and its -wal and -shm files away; a new one is made. What it held may be saved with "
        "`sqlite3 FILE .recover`.",
    ),
    "SQLITE_NOTADB": (
        StorageDamaged,
        "is no SQLite file, or its beginning is damaged",
        "Move it away, or name another with --db or PLACET_DB.",
    ),
    "SQLITE_IOERR": (
        StorageUnavailable,
        "cannot be read or written: the system reports an input/output error",
        "Look at the disk; nothing that was not acknowledged has been kept.",
    ),
}
_OWN_WORDS["SQLITE_LOCKED"] = _OWN_WORDS["SQLITE_BUSY"]
_OWN_WORDS["SQLITE_PROTOCOL"] = _OWN_WORDS["SQLITE_BUSY"]
_OWN_WORDS["SQLITE_AUTH"] = _OWN_WORDS["SQLITE_PERM"]


class _SqliteTransaction(Transaction):
    dialect: Dialect = "sqlite"

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__()
        self._connection = connection

    def execute(self, sql: str, values: Sequence[Value] = ()) -> Rows:
        return self._connection.execute(sql, values).fetchall()

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Value]]) -> None:
        marks = ", ".join("?" * len(columns))
        self._connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)

    def now(self) -> float:
        return time.time()

    def lock_schema(self) -> None:
        # A transaction that writes is the only one there is.
        return

    def has_table(self, name: str) -> bool:
        return bool(self.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)))


class SqliteLink:
    """One connection to one file."""

    def __init__(self, path: Path, *, writes: bool, create: bool = True) -> None:
        """Opens the file, and makes it and its folder where `create` says so.

        Raises:
            StorageError: it cannot be used.
        """
        self.name = str(path)
        self._path = path
        self._timeout_s = BUSY_TIMEOUT_S
        self._synchronous: Literal["FULL", "NORMAL"] | None = None
        self._connection: sqlite3.Connection | None = None
        try:
            if create:
                _make_private(path)
            elif not path.exists():
                raise StorageUnavailable(
                    self.name,
                    "does not exist",
                    "Nothing has been recorded there yet; check --db and PLACET_DB.",
                )
            self._file = self._identity()
            self._connection = self._open(writes)
        except sqlite3.Error as error:
            self.close()
            name = getattr(error, "sqlite_errorname", "")
            if name.startswith("SQLITE_CANTOPEN") and path.exists() and not os.access(path.parent, os.W_OK):
                # It is the files beside it that cannot be made, without which SQLite does not even read.
                raise self._in_words("SQLITE_READONLY") from error
            raise self.explain(error) from error
        except (OSError, ValueError) as error:
            # ValueError: a path with a null character in it.
            raise self._explain_path(error) from error
        except StorageError:
            self.close()
            raise

    def _explain_path(self, error: OSError | ValueError) -> StorageError:
        number = getattr(error, "errno", None)
        if number in {errno.ENOSPC, errno.EDQUOT}:
            return self._in_words("SQLITE_FULL")
        if number == errno.EROFS:
            return self._in_words("SQLITE_READONLY")
        return StorageUnavailable(
            self.name,
            f"cannot be opened: {getattr(error, 'strerror', None) or error}",
            "Check the path and its permissions, or name another with --db or PLACET_DB.",
        )

    def _in_words(self, name: str) -> StorageError:
        kind, problem, fix = _OWN_WORDS[name]
        return kind(self.name, problem.format(waited=self._timeout_s), fix)

    def _open(self, writes: bool) -> sqlite3.Connection:
        if self._path.is_dir():
            raise StorageUnavailable(self.name, "is a folder", "Name a file in it, such as placet.db.")
        if not writes:
            return self._open_to_read()
        connection = self._connect("mode=rw")
        # On one view of it: another process may be making the file ours at this moment.
        connection.execute("BEGIN")
        owner = connection.execute("PRAGMA application_id").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        connection.execute("COMMIT")
        if owner != _OUR_ID and (owner or tables):
            raise StorageDamaged(
                self.name, "belongs to another program", "Name another file with --db or PLACET_DB."
            )
        self._refuse_additions(connection)
        self._use_wal(connection)
        if owner != _OUR_ID:
            connection.execute(f"PRAGMA application_id = {_OUR_ID}")
        return connection

    def _connect(self, how: str) -> sqlite3.Connection:
        self._connection = sqlite3.connect(
            f"{self._path.absolute().as_uri()}?{how}",
            uri=True,
            timeout=self._timeout_s,
            isolation_level=None,
            check_same_thread=False,
        )
        return self._connection

    def _open_to_read(self) -> sqlite3.Connection:
        connection = self._connect("mode=ro")
        try:
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            name = getattr(error, "sqlite_errorname", "")
            log = self._path.with_name(f"{self._path.name}-wal")
            if not name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY")) or log.exists():
                raise
            # Nobody writes it, and we may not make the files that readers and writers share.
            connection.close()
            connection = self._connect("mode=ro&immutable=1")
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        self._refuse_additions(connection)
        return connection

    def _refuse_additions(self, connection: sqlite3.Connection) -> None:
        """None of our tables has a trigger or is a view: such a thing answers or writes in our place."""
        found = connection.execute(
            "SELECT type, name FROM sqlite_master WHERE type IN ('trigger', 'view') LIMIT 1"
        ).fetchone()
        if found is not None:
            raise StorageDamaged(
                self.name,
                f"holds a {found[0]} ('{found[1]}') that no version of Placet makes",
                "Do not rely on what is in it. Name another file with --db or PLACET_DB.",
            )

    def mark(self, number: int) -> None:
        """Put a number into the head of the file, which stays there and means nothing to SQLite.

        Raises:
            StorageError: it cannot be written.
        """
        assert self._connection is not None
        try:
            self._connection.execute(f"PRAGMA user_version = {number:d}")
            # Into the file itself, where whoever does not open it as a database finds it.
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            raise self.explain(error) from error

    def checkpoint(self) -> None:
        """Move what is in the write-ahead log into the file, and empty the log, unless somebody reads it."""
        assert self._connection is not None
        with suppress(sqlite3.Error):
            self._connection.execute("PRAGMA busy_timeout = 1000")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _identity(self) -> tuple[int, int] | None:
        """Which file stands under the name, as the system counts them; None if there is none."""
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        # The change from another mode needs the file alone, and SQLite does not wait for that by itself.
        mode = _patiently(
            lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone()[0], self._timeout_s
        )
        if mode != "wal":
            raise StorageUnavailable(
                self.name,
                f"lies on a file system without shared memory (journal mode '{mode}')",
                "Name a file on a local disk with --db or PLACET_DB.",
            )

    def begin(self, *, durable: bool, writes: bool = True) -> Transaction:
        """Start a transaction."""
        connection = self._connection
        assert connection is not None
        if writes:
            if self._identity() != self._file:
                raise StorageUnavailable(
                    self.name,
                    "was moved, replaced or deleted while it was in use",
                    "Put it back, or start again; what is written now would be lost.",
                )
            wanted: Literal["FULL", "NORMAL"] = "FULL" if durable else "NORMAL"
            if wanted != self._synchronous:
                connection.execute(f"PRAGMA synchronous = {wanted}")
                self._synchronous = wanted
        connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
        return _SqliteTransaction(connection)

    def commit(self) -> None:
        """Put it on disk."""
        assert self._connection is not None
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        """Take back what is open."""
        if self._connection is not None and self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def recover(self, error: Exception) -> bool | None:
        """A file does not come back by being asked again."""
        return None

    def explain(self, error: Exception) -> Exception:
        """The error in our own words."""
        if isinstance(error, sqlite3.Error):
            name = getattr(error, "sqlite_errorname", "") or ""
            for known in _OWN_WORDS:
                if name == known or name.startswith(known + "_"):
                    return self._in_words(known)
            return StorageError(self.name, f"answered with an error: {error}", "Is it what you meant to use?")
        return error

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()


def make_marked(path: Path, number: int) -> None:
    """Make a new, private database with a number in its head (see `SqliteLink.mark`).

    Raises:
        StorageError: it cannot be made.
    """
    link = SqliteLink(path, writes=True)
    try:
        link.mark(number)
    finally:
        link.close()


def _patiently(do: Callable[[], T], timeout_s: float) -> T:
    """Do something for which SQLite does not wait by itself, until it works or time is up."""
    until = time.monotonic() + timeout_s
    while True:
        try:
            return do()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
        time.sleep(0.01)


def _make_private(path: Path) -> None:
    """The file, empty and private, if it is not there; and each folder on the way."""
    if path.exists():
        return
    missing = list(takewhile(lambda folder: not folder.exists(), path.parents))
    for folder in reversed(missing):
        # One by one: mkdir gives the mode to the last folder only.
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            if folder.parent.name == PROJECT_FOLDER:
                # What is recorded about a project is nobody else's, so it stays out of what is shared.
                (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
