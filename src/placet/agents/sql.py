"""Versions, records and tests of agents in SQLite or Postgres.

Keep true: versions are numbered one process at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

from placet.agents.report import Report
from placet.agents.versions import MOST_VERSIONS, StoredReport, SuccessRecord, Version, digest_of
from placet.errors import StorageDamaged
from placet.storage.database import Database
from placet.storage.migrate import Migrations, migrate
from placet.storage.transaction import Transaction, searchable

MIGRATIONS = Migrations(
    "agents",
    [
        [
            "CREATE TABLE agent_versions (place TEXT NOT NULL, agent TEXT NOT NULL, number BIGINT NOT NULL,"
            " at DOUBLE PRECISION NOT NULL, digest TEXT NOT NULL, suffix TEXT NOT NULL, text TEXT NOT NULL,"
            " PRIMARY KEY (place, agent, number))",
            "CREATE TABLE agent_runs (place TEXT NOT NULL, agent TEXT NOT NULL, run_id TEXT NOT NULL,"
            " at DOUBLE PRECISION NOT NULL, succeeded BIGINT NOT NULL, PRIMARY KEY (place, agent, run_id))",
        ],
        [
            "CREATE TABLE agent_reports (place TEXT NOT NULL, agent TEXT NOT NULL,"
            " at DOUBLE PRECISION NOT NULL, digest TEXT NOT NULL, report TEXT NOT NULL,"
            " PRIMARY KEY (place, agent))",
        ],
    ],
)

_COLUMNS = Version.__struct_fields__
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM agent_versions WHERE place = ? AND agent = ? ORDER BY number"


def has_agents(database: Database) -> bool:
    """Whether anything was ever kept there. Whoever only reads cannot make the tables to find out."""
    return database.has_table("agent_versions")


class SqlAgents:
    """A store that all processes on one database share. Each call waits for the disk."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        """Makes its tables.

        Raises:
            StorageError: they cannot be made.
        """
        self._database = database
        self._clock = clock
        migrate(database, MIGRATIONS)

    def keep(self, place: str, agent: str, suffix: str, text: str) -> Version:
        """The newest version."""
        where = (searchable(place) or "", searchable(agent) or "")
        known = self.versions(place, agent)[:1]
        if known and (known[0].digest, known[0].suffix) == (digest_of(text), suffix):
            return known[0]
        at, digest, kept = self._clock(), digest_of(text), searchable(text) or ""

        def work(t: Transaction) -> None:
            t.lock_schema()  # Two who keep one at once would take the same number.
            t.execute(
                f"INSERT INTO agent_versions ({', '.join(_COLUMNS)}) SELECT ?, ?,"
                " COALESCE(MAX(number), 0) + 1, ?, ?, ?, ? FROM agent_versions WHERE place = ? AND agent = ?",
                (*where, at, digest, suffix, kept, *where),
            )
            t.execute(
                "DELETE FROM agent_versions WHERE place = ? AND agent = ? AND number <="
                " (SELECT MAX(number) FROM agent_versions WHERE place = ? AND agent = ?) - ?",
                (*where, *where, MOST_VERSIONS),
            )

        self._database.write(work).result()
        return self.versions(place, agent)[0]

    def versions(self, place: str, agent: str) -> Sequence[Version]:
        """The newest first."""
        where = (searchable(place), searchable(agent))
        rows = self._database.select(f"{_SELECT} DESC", where)
        try:
            return [msgspec.convert(dict(zip(_COLUMNS, row, strict=True)), Version) for row in rows]
        except msgspec.ValidationError as error:
            raise StorageDamaged(
                self._database.name,
                f"holds a version of agent '{agent}' that cannot be read ({error})",
                "Somebody has changed it by hand; restore it from a copy.",
            ) from None

    def count(self, place: str, agent: str, run_id: str, *, succeeded: bool) -> None:
        """Note how a run ended."""
        row = (searchable(place), searchable(agent), searchable(run_id), self._clock(), int(succeeded))
        self._database.execute(
            "INSERT INTO agent_runs (place, agent, run_id, at, succeeded) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (place, agent, run_id) DO UPDATE SET at = excluded.at,"
            " succeeded = excluded.succeeded",
            row,
        )

    def records(self, place: str) -> Mapping[str, SuccessRecord]:
        """How the runs of all agents of a place went."""
        rows = self._database.select(
            "SELECT agent, COUNT(*), SUM(succeeded) FROM agent_runs WHERE place = ? GROUP BY agent",
            (searchable(place),),
        )
        return {
            str(agent): SuccessRecord(runs=int(str(runs)), succeeded=int(str(succeeded)))
            for agent, runs, succeeded in rows
        }

    def store_report(self, place: str, agent: str, text: str, report: Report) -> None:
        """Put the test of an agent in the place of the one before."""
        encoded = searchable(msgspec.json.encode(report).decode())
        row = (searchable(place), searchable(agent), self._clock(), digest_of(text), encoded)
        self._database.execute(
            "INSERT INTO agent_reports (place, agent, at, digest, report) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (place, agent) DO UPDATE SET at = excluded.at, digest = excluded.digest,"
            " report = excluded.report",
            row,
        )

    def reports(self, place: str) -> Mapping[str, StoredReport]:
        """The newest test of each agent of a place."""
        rows = self._database.select(
            "SELECT agent, at, digest, report FROM agent_reports WHERE place = ?", (searchable(place),)
        )
        found: dict[str, StoredReport] = {}
        for agent, at, digest, report in rows:
            with suppress(msgspec.DecodeError):  # One of another version is as good as none.
                decoded = msgspec.json.decode(str(report), type=Report)
                found[str(agent)] = StoredReport(at=float(str(at)), digest=str(digest), report=decoded)
        return found
