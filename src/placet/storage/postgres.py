"""Postgres through psycopg 3 (extra `postgres`): the same statements, in a schema of our own.

Keep true:
1. A commit whose answer was lost with the connection is looked up, never guessed: nothing is written twice.
2. A server that restarts is waited for, and a deadlock is tried again; whoever waits only waits longer.
3. A password never appears in a message.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

from placet.errors import StorageError, StorageFull, StorageLocked, StorageReadOnly, StorageUnavailable
from placet.extras import install_command
from placet.storage.transaction import Dialect, Rows, Transaction, Value
from placet.truncation import truncate

if TYPE_CHECKING:
    import psycopg

PATIENCE_S = 30.0
"""How long a server that is gone is waited for."""
_CONNECT_S = 10
_LOCK_S = 20
IDLE_S = 10
"""How long a transaction may do nothing before the server ends it: less than others wait for its locks, so
that one that is frozen holds them up and fails none of them."""
_SCHEMA = "placet"
_LOCK = 0x706C61636574
"""Of the advisory lock under which tables change."""
_WRITERS = "storage_writers"
_FORGET_AFTER_S = 86_400
_PASSWORD = re.compile(r"(\w+://[^:/?#@]*:)(.*)@", re.DOTALL)
"""Up to the last @: a password in which one is not encoded must not show either."""


class _PostgresTransaction(Transaction):
    dialect: Dialect = "postgres"

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        super().__init__()
        self._connection = connection

    def execute(self, sql: str, values: Sequence[Value] = ()) -> Rows:
        # Statements are ours, and hold no question mark or percent sign but for values.
        cursor = self._connection.execute(sql.replace("?", "%s").encode(), values or None)
        return cursor.fetchall() if cursor.description is not None else []

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Value]]) -> None:
        names = ", ".join(columns)
        with (
            self._connection.cursor() as cursor,
            cursor.copy(f"COPY {table} ({names}) FROM STDIN".encode()) as copy,
        ):
            for row in rows:
                copy.write_row(row)

    def now(self) -> float:
        return float(self.execute("SELECT extract(epoch FROM clock_timestamp())::float8")[0][0])

    def lock_schema(self) -> None:
        self.execute("SELECT pg_advisory_xact_lock(?)", (_LOCK,))

    def has_table(self, name: str) -> bool:
        return bool(self.execute("SELECT 1 WHERE to_regclass(?) IS NOT NULL", (f"{_SCHEMA}.{name}",)))


class PostgresLink:
    """One connection to one server."""

    def __init__(self, url: str, *, writes: bool) -> None:
        """Connects, and makes our schema.

        Raises:
            StorageError: the server cannot be used, or the driver is not installed.
        """
        self.name = without_password(url)
        self._url = url
        self._writes = writes
        self._id = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._label = f"placet {self._id}"
        self._number = 0
        self._in_doubt = False
        try:
            import psycopg
        except ImportError:
            command = install_command("postgres")
            raise StorageUnavailable(
                self.name, "needs the extra `postgres`", f"Install it with: {command}"
            ) from None
        self._psycopg = psycopg
        self._connection = self._connect()

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        driver = self._psycopg
        try:
            connection: psycopg.Connection[tuple[Any, ...]] = driver.connect(
                self._url, autocommit=True, connect_timeout=_CONNECT_S, application_name=self._label
            )
        except (driver.ProgrammingError, ValueError) as error:
            raise StorageUnavailable(
                self.name,
                f"has a URL that cannot be read: {self._words(error)}",
                "Write postgresql://USER:PASSWORD@HOST:PORT/NAME, with %XX for special characters.",
            ) from None
        except driver.Error as error:
            raise self._unreachable(error) from None
        try:
            if self._writes:
                with connection.transaction():
                    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                    found = connection.execute(
                        "SELECT to_regclass(%s)", (f"{_SCHEMA}.{_WRITERS}",)
                    ).fetchone()
                    if found is None or found[0] is None:
                        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}".encode())
                        connection.execute(
                            f"CREATE TABLE {_SCHEMA}.{_WRITERS} (id TEXT PRIMARY KEY, number BIGINT NOT NULL,"
                            " at DOUBLE PRECISION NOT NULL)".encode()
                        )
            connection.execute(f"SET search_path TO {_SCHEMA}".encode())
            # Whoever is frozen in the middle of a transaction must not stop the others for good.
            connection.execute(f"SET lock_timeout TO '{_LOCK_S}s'".encode())
            connection.execute(f"SET idle_in_transaction_session_timeout TO '{IDLE_S}s'".encode())
            # What is not UTF-8 on the server would come back changed.
            connection.execute("SET client_encoding TO 'UTF8'")
        except driver.Error as error:
            connection.close()
            raise self.explain(error) from None
        return connection

    def _unreachable(self, error: Exception) -> StorageUnavailable:
        doubt = "; whether the last write was kept is not known" if self._in_doubt else ""
        return StorageUnavailable(
            self.name,
            f"cannot be reached: {self._words(error)}{doubt}",
            "Check the URL, and that the server runs.",
        )

    def _words(self, error: Exception) -> str:
        """What the driver says, in one line and without a password."""
        lines = str(error).splitlines()
        # Its questions ("Is the server running ...?") are a sentence of their own, and we say what to do.
        told = [line for line in lines if not line.rstrip().endswith("?")] or lines
        words = " ".join(" ".join(told).split()).rstrip(".?")
        for secret in _secrets_in(self._url):
            words = words.replace(secret, "[redacted]")
        return truncate(words, 300)

    def begin(self, *, durable: bool, writes: bool = True) -> Transaction:
        """Start a transaction."""
        connection = self._connection
        self._in_doubt = False
        if writes:
            self._number += 1
            connection.execute("BEGIN")
            if not durable:
                connection.execute("SET LOCAL synchronous_commit TO off")
        else:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return _PostgresTransaction(connection)

    def commit(self) -> None:
        """Put it on disk, with a mark by which it can be found again."""
        self._connection.execute(
            f"INSERT INTO {_WRITERS} (id, number, at) VALUES (%s, %s, %s)"
            " ON CONFLICT (id) DO UPDATE SET number = excluded.number, at = excluded.at".encode(),
            (self._id, self._number, time.time()),
        )
        self._in_doubt = True
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        """Take back what is open."""
        with suppress(self._psycopg.Error):
            if not self._connection.closed:
                self._connection.execute("ROLLBACK")

    def recover(self, error: Exception) -> bool | None:
        """Connect again if the connection is gone, and look up what became of the last commit."""
        driver = self._psycopg
        if isinstance(error, driver.errors.DeadlockDetected | driver.errors.SerializationFailure):
            return False
        # The last: it stood still for too long, as in a process that was frozen.
        lost = driver.OperationalError | driver.errors.IdleInTransactionSessionTimeout
        if not isinstance(error, lost) or not self._connection.closed:
            return None
        until = time.monotonic() + PATIENCE_S
        pause_s = 0.05
        while True:
            try:
                self._connection = self._connect()
                return self._writes and self._was_committed()
            except (StorageUnavailable, driver.OperationalError) as gone:
                if time.monotonic() > until:
                    raise self.explain(gone) from None
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, 1.0)

    def _was_committed(self) -> bool:
        """What became of the transaction that was open when the connection was lost, once and for all."""
        # The server may not have noticed the loss, and still be at work on it: looking alone could say "no"
        # just before it is done. So it is ended, and the mark is written to, which waits for its outcome.
        self._connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = %s AND pid <> pg_backend_pid()",
            (self._label,),
        )
        found = self._connection.execute(
            f"INSERT INTO {_WRITERS} (id, number, at) VALUES (%s, 0, %s)"
            " ON CONFLICT (id) DO UPDATE SET at = excluded.at RETURNING number".encode(),
            (self._id, time.time()),
        ).fetchone()
        return found is not None and found[0] == self._number

    def explain(self, error: Exception) -> Exception:
        """The error in our own words."""
        driver = self._psycopg
        if not isinstance(error, driver.Error):
            return error
        if isinstance(error, driver.errors.DiskFull):
            return StorageFull(self.name, "has no space left to grow", "Free some space on the server.")
        if isinstance(error, driver.errors.ReadOnlySqlTransaction):
            return StorageReadOnly(self.name, "may be read but not written", "Name the primary server's URL.")
        if isinstance(error, driver.errors.InsufficientPrivilege):
            return StorageReadOnly(
                self.name,
                f"does not let us: {_first_line(error)}",
                f"Grant the user rights on the schema '{_SCHEMA}', for the first use CREATE on the database.",
            )
        if isinstance(error, driver.errors.LockNotAvailable | driver.errors.QueryCanceled):
            return StorageLocked(
                self.name, f"lets us wait too long: {_first_line(error)}", "Try again when it has less to do."
            )
        if isinstance(error, driver.OperationalError):
            return self._unreachable(error)
        return StorageError(
            self.name, f"answered with an error: {_first_line(error)}", "Is it what you meant to use?"
        )

    def checkpoint(self) -> None:
        """Nothing: the server decides when deleted rows are overwritten."""

    def close(self) -> None:
        """Say good-bye to the server."""
        with suppress(self._psycopg.Error):
            if self._number and not self._connection.closed:
                self._connection.execute(
                    f"DELETE FROM {_WRITERS} WHERE id = %s OR at < %s".encode(),
                    (self._id, time.time() - _FORGET_AFTER_S),
                )
        with suppress(self._psycopg.Error):
            self._connection.close()


def without_password(url: str) -> str:
    """A URL that may be shown: no password, and none of the options, which may hold one."""
    return _PASSWORD.sub(r"\1[redacted]@", url).partition("?")[0]


def _secrets_in(url: str) -> list[str]:
    """What in a URL may be a password or a piece of one, the longest first."""
    found = {value for name, value in parse_qsl(url.partition("?")[2]) if "password" in name}
    if password := _PASSWORD.match(url):
        # One with characters that end it early is taken apart by the driver, which names the pieces.
        found |= {password[2], unquote(password[2]), *re.split(r"[/?#@\[\]]", password[2])}
    return sorted(found - {""}, key=len, reverse=True)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")
