"""Tables that grow with the program: numbered steps, each taken once, under a lock.

Keep true:
1. A step that was released never changes; what is new is a new step at the end.
2. All missing steps of a part are taken in one transaction, or none.
3. Tables of a newer version are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from placet.errors import StorageNewer, StorageUnavailable
from placet.storage.database import Database
from placet.storage.transaction import Transaction

_REGISTER = "schema_parts"


class ByDialect(NamedTuple):
    """A statement that no spelling makes the same for all databases."""

    sqlite: str
    postgres: str


class Conversion(NamedTuple):
    """Rows that no statement converts: the program does it, within the transaction of the step."""

    name: str
    """Stands for it where steps are compared: a released one never changes either."""
    run: Callable[[Transaction], None]


class Migrations(NamedTuple):
    """The tables of one package."""

    part: str
    steps: Sequence[Sequence[str | ByDialect | Conversion]]
    """Statements by step; how many steps have been taken is the version."""
    readable_from: int | None = None
    """The oldest version that can be read as it is, where nothing may be written; None for the newest."""


def schema_versions(database: Database) -> dict[str, int]:
    """The parts whose tables a database holds, each with its version.

    Raises:
        StorageError: it cannot be read.
    """

    def look(t: Transaction) -> dict[str, int]:
        if not t.has_table(_REGISTER):
            return {}
        return dict(t.execute(f"SELECT part, version FROM {_REGISTER} ORDER BY part"))

    return database.read(look)


def migrate(database: Database, wanted: Migrations) -> int:
    """Bring the tables of one part up to date; processes that do so at once take turns.

    Returns the version that the tables have then: an older one only where nothing may be written.

    Raises:
        StorageNewer: a newer version of the program has been here.
        StorageError: it cannot be written.
    """
    newest = len(wanted.steps)
    # Looked at first, so that whoever only reads needs no right to write.
    found = database.read(lambda t: _version(t, wanted, database.name) if t.has_table(_REGISTER) else 0)
    if found == newest:
        return newest
    if database.read_only:
        if wanted.readable_from is not None and found >= wanted.readable_from:
            return found
        error = StorageUnavailable(
            database.name,
            f"holds no {wanted.part} tables that this version can read",
            "Nothing has been recorded there yet, or only by an older version: use it for a run first.",
        )
        error.holds_nothing = not found
        raise error
    database.write(lambda t: take_steps(t, wanted, database.name)).result()
    return newest


def take_steps(t: Transaction, wanted: Migrations, name: str = "the database") -> None:
    """Bring the tables of one part up to date within a transaction. `name` is for messages.

    Raises:
        StorageNewer: a newer version of the program has been here.
    """
    t.lock_schema()
    t.execute(f"CREATE TABLE IF NOT EXISTS {_REGISTER} (part TEXT PRIMARY KEY, version BIGINT NOT NULL)")
    for step in wanted.steps[_version(t, wanted, name) :]:
        for statement in step:
            if isinstance(statement, Conversion):
                statement.run(t)
            else:
                t.execute(statement if isinstance(statement, str) else getattr(statement, t.dialect))
    t.execute(
        f"INSERT INTO {_REGISTER} (part, version) VALUES (?, ?)"
        " ON CONFLICT (part) DO UPDATE SET version = excluded.version",
        (wanted.part, len(wanted.steps)),
    )


def _version(t: Transaction, wanted: Migrations, name: str) -> int:
    found = t.execute(f"SELECT version FROM {_REGISTER} WHERE part = ?", (wanted.part,))
    version: int = found[0][0] if found else 0
    newest = len(wanted.steps)
    if version > newest:
        raise StorageNewer(
            name,
            f"holds {wanted.part} tables of version {version}; this program knows version {newest}",
            "Use the newer version of Placet, or another database.",
        )
    return version
