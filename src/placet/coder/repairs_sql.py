"""Repairs in SQLite or Postgres: learned in one process, recalled in another.

Keep true:
1. A count is one statement that adds to what is there: of two at once both count.
2. What was learned never changes but for its counts and when they last did.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from placet.checks.signature import Signature
from placet.coder.repairs import (
    MOST_REPAIRS,
    TOO_MANY,
    Hint,
    Repair,
    best,
    file_of,
    read_file,
    redacted,
    repair_of,
)
from placet.errors import StorageDamaged
from placet.redaction import Redactor
from placet.storage.database import Database
from placet.storage.migrate import Migrations, migrate
from placet.storage.transaction import Transaction, Value, searchable

MIGRATIONS = Migrations(
    "repairs",
    [
        [
            "CREATE TABLE repairs (id TEXT NOT NULL PRIMARY KEY, repository TEXT NOT NULL,"
            " coarse TEXT NOT NULL, command TEXT NOT NULL, error_class TEXT NOT NULL, message TEXT NOT NULL,"
            " approach TEXT NOT NULL, wins BIGINT NOT NULL, losses BIGINT NOT NULL,"
            " made DOUBLE PRECISION NOT NULL, used DOUBLE PRECISION NOT NULL)",
            "CREATE INDEX repairs_coarse ON repairs (repository, coarse)",
            "CREATE INDEX repairs_used ON repairs (repository, used)",
        ]
    ],
)

_COLUMNS = Repair.__struct_fields__
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM repairs"
_INSERT = (
    f"INSERT INTO repairs ({', '.join(_COLUMNS)}, coarse) VALUES ({', '.join('?' * (len(_COLUMNS) + 1))})"
    " ON CONFLICT (id) DO UPDATE SET"
)
_LATER = "CASE WHEN excluded.used > repairs.used THEN excluded.used ELSE repairs.used END"


def has_repairs(database: Database) -> bool:
    """Whether anything was ever learned there. Whoever only reads cannot make the tables to find out."""
    return database.read(lambda t: t.has_table("repairs"))


class SqlRepairs:
    """Repairs in a database, shared by all processes that use it. Each call waits for the disk."""

    def __init__(
        self,
        database: Database,
        *,
        redactor: Redactor | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create the tables if they are missing.

        Args:
            database: From `open_database`.
            redactor: Removes secrets before anything is stored.
            clock: Returns seconds since the epoch.

        Raises:
            StorageError: the tables cannot be created.
        """
        self._database = database
        self._redactor = redactor if redactor is not None else Redactor()
        self._clock = clock
        migrate(database, MIGRATIONS)

    def recall(self, repository: str, signature: Signature) -> Hint | None:
        """The best repair."""
        known = redacted(signature, self._redactor)
        # Exact ones are among the coarse ones; what is never shown need not be read.
        values = (searchable(repository), known.coarse, TOO_MANY)
        condition = "repository = ? AND coarse = ? AND losses - wins < ?"
        return best(self._database.read(lambda t: self._find(t, condition, values)), known)

    def learned(self, repository: str, signature: Signature, approach: str, *, hint: str | None) -> None:
        """Keep what turned a failure green."""
        now = self._clock()
        new = repair_of(searchable(repository) or "", signature, approach, now, self._redactor)

        def work(t: Transaction) -> None:
            if hint is not None and (new is None or hint != new.id):
                _count(t, "wins", hint, now)
            if new is not None:
                t.execute(f"{_INSERT} wins = repairs.wins + 1, used = {_LATER}", _row(new))
                _drop_oldest(t, new.repository)

        self._database.write(work).result()

    def failed(self, hint_id: str) -> None:
        """Count a loss."""
        now = self._clock()
        self._database.write(lambda t: _count(t, "losses", hint_id, now)).result()

    def export(self, repository: str) -> bytes:
        """All of a repository's repairs, as JSON."""
        return file_of(self.entries(repository))

    def bring_in(self, repository: str, data: bytes) -> int:
        """Add what somebody shared."""
        name = searchable(repository) or ""
        brought = read_file(name, data, self._clock(), self._redactor)

        def work(t: Transaction) -> int:
            before = {one.id: one for one in self._find(t, "repository = ?", (name,))}
            # In one order, so that two who bring in the same do not wait for each other.
            for one in sorted(brought, key=lambda one: one.id):
                known = before.get(one.id)
                if known is None or one.wins > known.wins or one.losses > known.losses:
                    t.execute(f"{_INSERT} wins = {_larger('wins')}, losses = {_larger('losses')}", _row(one))
            _drop_oldest(t, name)
            after = self._find(t, "repository = ?", (name,))
            return sum(before.get(one.id) != one for one in after)

        return self._database.write(work).result()

    def entries(self, repository: str) -> list[Repair]:
        """All of a repository's repairs."""
        condition = f"repository = ? ORDER BY used DESC, id DESC LIMIT {MOST_REPAIRS}"
        return self._database.read(lambda t: self._find(t, condition, (searchable(repository),)))

    def forget(self, repository: str, id: str) -> bool:
        """Drop a repair."""
        values = (searchable(repository), searchable(id))
        statement = "DELETE FROM repairs WHERE repository = ? AND id = ? RETURNING id"
        return bool(self._database.write(lambda t: t.execute(statement, values)).result())

    def _find(self, t: Transaction, condition: str, values: Sequence[Value]) -> list[Repair]:
        rows = t.execute(f"{_SELECT} WHERE {condition}", values)
        try:
            return [msgspec.convert(dict(zip(_COLUMNS, row, strict=True)), Repair) for row in rows]
        except msgspec.ValidationError as error:
            raise StorageDamaged(
                self._database.name,
                f"holds a repair that cannot be read ({error})",
                "Somebody has changed it by hand; restore it from a copy.",
            ) from None


def _row(repair: Repair) -> list[Value]:
    return [*(getattr(repair, name) for name in _COLUMNS), repair.signature.coarse]


def _larger(column: str) -> str:
    return f"CASE WHEN excluded.{column} > repairs.{column} THEN excluded.{column} ELSE repairs.{column} END"


def _count(t: Transaction, column: str, id: str, now: float) -> None:
    t.execute(
        f"UPDATE repairs SET {column} = {column} + 1, used = CASE WHEN ? > used THEN ? ELSE used END"
        " WHERE id = ?",
        (now, now, searchable(id)),
    )


def _drop_oldest(t: Transaction, repository: str) -> None:
    t.execute(
        "DELETE FROM repairs WHERE id IN (SELECT id FROM repairs WHERE repository = ?"
        # SQLite has no OFFSET without a LIMIT.
        f" ORDER BY used DESC, id DESC LIMIT {1 << 40} OFFSET {MOST_REPAIRS})",
        (repository,),
    )
