"""The tables of a database: brought up to date, and checked for what a run would meet.

Keep true: checking changes nothing. Whether the database can be written is tried in a transaction that is
rolled back.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from placet.errors import StorageError, UsageError
from placet.storage.database import Database
from placet.storage.location import open_database
from placet.storage.migrate import ByDialect, Conversion, Migrations, migrate, schema_versions
from placet.storage.transaction import Dialect, Transaction

CLOCK_S = 5.0
"""Difference of clocks that is told as a problem: leases are timed by the clock of the database."""
_MADE = re.compile(
    r"\s*CREATE\s+(?:UNIQUE\s+|VIRTUAL\s+)?(TABLE|INDEX)\s+(?:IF NOT EXISTS\s+)?(\w+)(?:\s+ON\s+(\w+))?", re.I
)
_DROPPED = re.compile(r"\s*DROP\s+(TABLE|INDEX)\s+(?:IF EXISTS\s+)?(\w+)", re.I)
_RENAMED = re.compile(r"\s*ALTER\s+TABLE\s+(\w+)\s+RENAME\s+TO\s+(\w+)", re.I)


class PartVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The version of the tables of one package."""

    part: str
    found: int
    """0 if they are not there: nobody has needed them yet."""
    known: int
    """Version of this program; what is found may be newer."""


class DatabaseCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What a database is found to be."""

    name: str
    """Without a password."""
    kind: Dialect
    parts: tuple[PartVersion, ...]
    missing: tuple[str, ...] = ()
    """Tables and indexes that the recorded versions should have, such as `index runs_listed`."""
    writable: bool = True
    clock_s: float = 0.0
    """How far the clock of the database is ahead of that of this machine, in seconds."""
    expired_leases: int = 0
    """Runs whose process is gone, or does not answer: they can be resumed."""
    size: int = 0
    """Bytes."""
    problems: tuple[str, ...] = ()
    """What to do something about, in words."""

    @property
    def ok(self) -> bool:
        """Whether nothing needs to be done."""
        return not self.problems


def migrate_database(url: str, parts: Sequence[Migrations]) -> tuple[str, list[PartVersion]]:
    """Bring all tables of a database up to date. Returns its name, and what each part was before.

    Raises:
        StorageError: it cannot be opened or written, or a newer version of the program has been here.
    """
    with open_database(url, create=False) as database:
        before = schema_versions(database)
        for part in parts:
            migrate(database, part)
        return database.name, [_compared(part, before) for part in parts]


def check_database(url: str, known: Sequence[Migrations], *, place: str = "") -> DatabaseCheck:
    """Look at a database as a run would use it; `known` are the tables of this program. Those that nobody has
    needed yet are made when they are. `place` is the option that names the database in commands.

    Raises:
        StorageError: it cannot be reached or read.
        UsageError: it is no kind of database.
    """
    with open_database(url, create=False, read_only=True) as database:
        found = schema_versions(database)
        parts = [_compared(part, found) for part in known]
        has = database.read(_objects)
        kind, clock_s, expired, size = database.read(_state)
        missing = sorted(
            f"{what} {name}"
            for part in known
            for name, what in _expected(part, found.get(part.part, 0), kind).items()
            if name not in has
        )
        name = database.name
    writable, why = _try_to_write(url) if found else (True, "")
    problems = list(_problems(parts, missing, clock_s, expired, place))
    if not writable:
        problems.append(why)
    return DatabaseCheck(
        name=name,
        kind=kind,
        parts=tuple(parts),
        missing=tuple(missing),
        writable=writable,
        clock_s=round(clock_s, 3),
        expired_leases=expired,
        size=size,
        problems=tuple(problems),
    )


def _compared(part: Migrations, found: Mapping[str, int]) -> PartVersion:
    return PartVersion(part=part.part, found=found.get(part.part, 0), known=len(part.steps))


def _problems(
    parts: Iterable[PartVersion], missing: list[str], clock_s: float, expired: int, place: str
) -> Iterable[str]:
    newer = [each.part for each in parts if each.found > each.known]
    older = [each.part for each in parts if 0 < each.found < each.known]
    if newer:
        yield f"Tables of a newer version: {', '.join(newer)}. Use that version of Placet."
    if older:
        yield f"Tables to bring up to date: {', '.join(older)}. Run: placet db migrate{place}"
    if missing:
        yield f"Missing: {', '.join(missing)}. Somebody dropped them: restore a backup, or make them again."
    if abs(clock_s) > CLOCK_S:
        yield f"The clock of the database differs from this machine's by {clock_s:.0f} s. Set the clocks."
    if expired:
        yield (
            f"{expired} runs were left by their process. Resume them: placet runs list --status interrupted"
            f"{place}"
        )


def _expected(part: Migrations, version: int, dialect: Dialect) -> dict[str, str]:
    """Tables and indexes that the steps up to a version have made, and not dropped since."""
    made: dict[str, str] = {}
    owner: dict[str, str] = {}
    for step in part.steps[:version]:
        for statement in step:
            if isinstance(statement, Conversion):
                continue
            text = getattr(statement, dialect) if isinstance(statement, ByDialect) else statement
            for one in text.lower().split(";"):
                if found := _MADE.match(one):
                    made[found[2]] = found[1]
                    owner[found[2]] = found[3] or found[2]
                elif found := _DROPPED.match(one):
                    # A table takes its indexes with it.
                    gone = {found[2]} | {name for name, of in owner.items() if of == found[2]}
                    made = {name: what for name, what in made.items() if name not in gone}
                elif found := _RENAMED.match(one):
                    made[found[2]] = made.pop(found[1], "table")
                    owner = {name: found[2] if of == found[1] else of for name, of in owner.items()}
    return made


def _objects(t: Transaction) -> set[str]:
    if t.dialect == "postgres":
        rows = t.execute(
            "SELECT c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
            " WHERE n.nspname = 'placet'"
        )
    else:
        rows = t.execute("SELECT name FROM sqlite_master")
    return {str(row[0]).lower() for row in rows}


def _state(t: Transaction) -> tuple[Dialect, float, int, int]:
    now = t.now()
    ahead_s = now - time.time() if t.dialect == "postgres" else 0.0
    expired = 0
    if t.has_table("runs"):
        rows = t.execute("SELECT count(*) FROM runs WHERE status = 'running' AND held_until < ?", (now,))
        expired = rows[0][0]
    if t.dialect == "postgres":
        size = t.execute("SELECT pg_database_size(current_database())")[0][0]
    else:
        size = t.execute("PRAGMA page_count")[0][0] * t.execute("PRAGMA page_size")[0][0]
    return t.dialect, ahead_s, expired, size


class _RollBack(Exception):
    pass


def _try_to_write(url: str) -> tuple[bool, str]:
    def work(t: Transaction) -> Any:
        t.execute("UPDATE schema_parts SET version = version")
        raise _RollBack

    try:
        with open_database(url, create=False) as database:
            _attempt(database, work)
    except (StorageError, UsageError) as error:
        return False, str(error)
    return True, ""


def _attempt(database: Database, work: Any) -> None:
    try:
        database.write(work).result()
    except _RollBack:
        return
