"""Skills in SQLite or Postgres, shared by all processes that use the database.

Keep true: a released step of `MIGRATIONS` never changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec

from placet.errors import StorageDamaged
from placet.memory.skills.in_memory import changed
from placet.memory.skills.skill import Skill
from placet.memory.skills.store import OutcomeSource, SkillRun, trial_of, with_outcome
from placet.memory.skills.trial import Arm, SkillState, Trial
from placet.memory.tables import optional
from placet.storage.database import Database
from placet.storage.migrate import Migrations, migrate
from placet.storage.transaction import Rows, Transaction, Value, searchable

MIGRATIONS = Migrations(
    "skills",
    [
        [
            "CREATE TABLE memory_skills (tenant TEXT NOT NULL, name TEXT NOT NULL, version BIGINT NOT NULL,"
            " data TEXT NOT NULL, PRIMARY KEY (tenant, name, version))",
            "CREATE TABLE memory_skill_runs (tenant TEXT NOT NULL, run TEXT NOT NULL, name TEXT NOT NULL,"
            " version BIGINT NOT NULL, arm TEXT NOT NULL, at DOUBLE PRECISION NOT NULL,"
            " succeeded BIGINT, source TEXT, PRIMARY KEY (tenant, run, name))",
            "CREATE INDEX memory_skill_runs_name ON memory_skill_runs (tenant, name, at)",
        ]
    ],
)
_COLUMNS = "run, name, version, arm, at, succeeded, source"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Skill).decode


def has_skills(database: Database) -> bool:
    """Whether a skill was ever stored there. Whoever only reads cannot create the tables to find out."""
    return database.has_table("memory_skills")


class SqlSkills:
    """A store of skills in a database."""

    def __init__(self, database: Database) -> None:
        """Create the tables if they are missing.

        Args:
            database: From `open_database`.

        Raises:
            StorageError: the tables cannot be created.
        """
        self._database = database
        migrate(database, MIGRATIONS)

    def put(self, skill: Skill) -> bool:
        """Store a version."""
        row = (optional(skill.tenant), searchable(skill.name), skill.version, _encode(skill).decode())
        statement = (
            "INSERT INTO memory_skills (tenant, name, version, data) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (tenant, name, version) DO NOTHING RETURNING version"
        )
        return bool(self._database.execute(statement, row))

    def listed(self, tenant: str | None, name: str | None = None) -> list[Skill]:
        """The newest versions, or all of one."""
        condition, values = "", list[Value]([optional(tenant)])
        if name is not None:
            condition = " AND name = ?"
            values.append(searchable(name))
        rows = self._database.select(
            f"SELECT data FROM memory_skills WHERE tenant = ?{condition} ORDER BY name, version", values
        )
        found = [self._read(data) for (data,) in rows]
        if name is not None:
            return found[::-1]
        return sorted({each.name: each for each in found}.values(), key=lambda each: each.name)

    def _read(self, data: Any) -> Skill:
        try:
            return _decode(data)
        except msgspec.DecodeError as error:
            problem = f"holds a skill that cannot be read ({error})"
            raise StorageDamaged(self._database.name, problem, "Restore a copy.") from None

    def change(
        self,
        tenant: str | None,
        name: str,
        version: int,
        *,
        state: SkillState | None = None,
        trust: bool = False,
    ) -> bool:
        """Change the state or the label."""
        place = (optional(tenant), searchable(name), version)
        where = "WHERE tenant = ? AND name = ? AND version = ?"

        def work(t: Transaction) -> bool:
            # Takes the row first: of two who change it at once, the second sees what the first did.
            rows = t.execute(f"UPDATE memory_skills SET data = data {where} RETURNING data", place)
            known = self._read(rows[0][0]) if rows else None
            if known is None or (new := changed(known, state, trust)) == known:
                return False
            t.execute(f"UPDATE memory_skills SET data = ? {where}", (_encode(new).decode(), *place))
            return True

        return self._database.write(work).result()

    def note_runs(self, tenant: str | None, runs: Sequence[SkillRun]) -> None:
        """Record runs that matched."""

        def work(t: Transaction) -> None:
            for each in sorted(runs, key=lambda each: (each.run, each.name)):
                t.execute(
                    f"INSERT INTO memory_skill_runs (tenant, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                    " ON CONFLICT (tenant, run, name) DO NOTHING",
                    [optional(tenant), *_row(each)],
                )

        if runs:
            self._database.write(work).result()

    def set_outcome(self, tenant: str | None, run: str, succeeded: bool, by: OutcomeSource) -> list[SkillRun]:
        """Record how a run went."""
        place = (optional(tenant), searchable(run))

        def work(t: Transaction) -> list[SkillRun]:
            where = "WHERE tenant = ? AND run = ?"
            taken = t.execute(f"UPDATE memory_skill_runs SET at = at {where} RETURNING {_COLUMNS}", place)
            found = [with_outcome(each, succeeded, by) for each in _runs(taken)]
            for each in found:
                t.execute(
                    f"UPDATE memory_skill_runs SET succeeded = ?, source = ? {where} AND name = ?",
                    (int(bool(each.succeeded)), each.by, *place, searchable(each.name)),
                )
            return sorted(found, key=lambda each: (-each.at, each.run, each.name))

        return self._database.write(work).result()

    def runs(
        self, tenant: str | None, *, run: str | None = None, name: str | None = None, limit: int = 1_000
    ) -> list[SkillRun]:
        """Records of runs."""
        values: list[Value] = [optional(tenant)]
        condition = ""
        for column, value in (("run", run), ("name", name)):
            if value is not None:
                condition += f" AND {column} = ?"
                values.append(searchable(value))
        statement = (
            f"SELECT {_COLUMNS} FROM memory_skill_runs WHERE tenant = ?{condition}"
            f" ORDER BY at DESC, run, name LIMIT {limit:d}"
        )
        return _runs(self._database.select(statement, values))

    def trials(self, tenant: str | None) -> dict[tuple[str, int], Trial]:
        """The outcomes by version."""
        rows = self._database.select(
            "SELECT name, version, arm, succeeded, count(*) FROM memory_skill_runs"
            " WHERE tenant = ? AND succeeded IS NOT NULL GROUP BY name, version, arm, succeeded",
            (optional(tenant),),
        )
        counted: dict[tuple[str, int], list[tuple[Arm, bool, int]]] = defaultdict(list)
        for name, version, arm, succeeded, count in rows:
            counted[str(name), int(version)].append((arm, bool(succeeded), int(count)))
        return {key: trial_of(counts) for key, counts in counted.items()}


def _row(run: SkillRun) -> list[Value]:
    succeeded = None if run.succeeded is None else int(run.succeeded)
    return [
        *(searchable(run.run), searchable(run.name), run.version, run.arm, run.at),
        *(succeeded, run.by),
    ]


def _runs(rows: Rows) -> list[SkillRun]:
    return [
        SkillRun(
            run=str(run),
            name=str(name),
            version=int(version),
            arm=arm,
            at=float(at),
            succeeded=None if succeeded is None else bool(succeeded),
            by=source,
        )
        for run, name, version, arm, at, succeeded, source in rows
    ]
