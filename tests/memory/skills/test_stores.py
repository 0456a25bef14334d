"""Skills in memory, SQLite and Postgres keep the same promises."""

from __future__ import annotations

import pytest

from placet.errors import StorageDamaged
from placet.memory.skills.in_memory import MemorySkills
from placet.memory.skills.sql import SqlSkills, has_skills
from placet.memory.skills.store import SkillStore
from placet.storage.location import open_database
from placet.testing.skill_store import Check, make_skill, skill_store_suite


@pytest.mark.parametrize("check", skill_store_suite, ids=lambda check: check.__name__)
def test_memory_keeps_the_promise(check: Check) -> None:
    check(MemorySkills)


def test_a_database_keeps_every_promise(database_url: str) -> None:
    with open_database(database_url) as database:
        assert not has_skills(database)
        store = SqlSkills(database)

        def emptied() -> SkillStore:
            for table in ("memory_skills", "memory_skill_runs"):
                database.write(lambda t, table=table: t.execute(f"DELETE FROM {table}")).result()
            return store

        for check in skill_store_suite:
            check(emptied)

        emptied().put(make_skill())
        with open_database(database_url) as other:
            assert [each.name for each in SqlSkills(other).listed(None)] == ["deploy"]
        database.write(lambda t: t.execute("UPDATE memory_skills SET data = '{}'")).result()
        with pytest.raises(StorageDamaged):
            store.listed(None)
