"""Facts in memory, SQLite and Postgres keep the same promises; those on disk also between processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from placet.errors import StorageDamaged
from placet.memory.in_memory import MemoryFacts
from placet.memory.memory import Memory
from placet.memory.sql import SqlFacts, has_memory
from placet.memory.store import FactStore
from placet.storage.database import Database
from placet.storage.location import open_database
from placet.testing.fact_store import Check, at, fact_store_suite, found, make_fact
from tests.storage.children import ask

TABLES = ("memory_facts", "memory_text", "memory_vectors", "memory_recalled", "memory_tenants")


@pytest.mark.parametrize("check", fact_store_suite, ids=lambda check: check.__name__)
def test_memory_keeps_the_promise(check: Check) -> None:
    check(MemoryFacts)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with open_database(database_url) as opened:
        yield opened


def test_a_database_keeps_every_promise(database: Database) -> None:
    """All in one test: a database of each kind is made once."""
    store = SqlFacts(database)

    def emptied() -> FactStore:
        database.write(lambda t: [t.execute(f"DELETE FROM {table}") for table in TABLES]).result()
        return store

    for check in fact_store_suite:
        check(emptied)


def test_what_one_connection_stores_another_finds(database_url: str) -> None:
    with open_database(database_url) as one, open_database(database_url) as other:
        first, second = SqlFacts(one), SqlFacts(other)
        first.add([make_fact("a", key="day")])

        second.add([make_fact("b", "on Fridays", key="day", learned=200.0, supersedes_key=True)])

        assert found(first, "build runs") == {"b"}
        assert first.get(None, ["a"])[0].superseded_by == "b"


def test_a_database_without_facts_says_so(database: Database) -> None:
    assert not has_memory(database)

    SqlFacts(database)

    assert has_memory(database)


def test_a_forgotten_fact_leaves_no_bytes_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "placet.db"
    with open_database(str(path)) as database:
        store = SqlFacts(database)
        facts = [
            make_fact(str(n), f"number {n} is ordinary", conversation="c", position=n) for n in range(50)
        ]
        store.add(facts)
        store.add(
            [make_fact("x", "the zyzzyva sleeps", aliases=("quuxword",), conversation="c", position=50)]
        )
        store.put_vectors(None, "m", {"x": b"vectorbytes" * 20})
        assert found(store, "zyzzyva") == {"x", "49"}

        assert store.forget(None, ["x"]) == 1

        assert found(store, "zyzzyva") == set()
        assert ask(database, "SELECT count(*) FROM memory_facts") == [(50,)]
    data = path.read_bytes()
    assert [word for word in (b"zyzzyva", b"quuxword", b"vectorbytes") if word in data] == []
    assert b"number 49 is ordinary" in data


def test_frequent_words_bring_the_newest(database: Database) -> None:
    store = SqlFacts(database)
    store.add([make_fact(str(n), learned=float(n)) for n in range(300)])

    broad = store.candidates(at(), {"build": 1.0}, limit=5, is_broad=True)

    assert [each.fact.id for each in broad] == ["299", "298", "297", "296", "295"]


def test_a_row_that_is_out_of_range_is_read_and_a_damaged_one_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_database(str(tmp_path / "placet.db")) as database:
        memory = Memory(database)
        ids = [memory.add_sync("s", f"zebra {n}", key="k", source="x").id for n in range(3)]
        beyond = {"confidence": 7, "labels": ["x"], "valid_until": 1796083200000}
        told = {"id": ids[0], "subject": "s", "body": "zebra 0", "source": "x", "learned": 1.0, **beyond}
        change = "UPDATE memory_facts SET data = ? WHERE id = ?"
        database.write(lambda t: t.execute(change, (json.dumps(told), ids[0]))).result()
        database.write(lambda t: t.execute(change, ("{oops", ids[1]))).result()

        found = {hit.fact.id: hit.fact for hit in memory.query_sync("zebra", cut=False).hits}
        listed = {fact.id for fact in memory.store.listed(None)}

        assert set(found) == listed == {ids[0], ids[2]}
        assert (found[ids[0]].confidence, found[ids[0]].labels) == (1.0, ())
        with pytest.raises(StorageDamaged):
            memory.get_sync(ids[1])
        memory.add_sync("s", "another", key="k", source="x", supersedes_key=True)
        assert memory.forget_sync(*ids) == 3
        assert len(memory.store.listed(None)) == 1
        assert len(caplog.records) == 1


def test_forgetting_empties_the_log_beside_a_file_that_stays_open(tmp_path: Path) -> None:
    with open_database(str(tmp_path / "placet.db")) as database:
        memory = Memory(database)
        fact = memory.add_sync("s", "the zyzzyva sleeps", source="x")
        assert any(b"zyzzyva" in file.read_bytes() for file in tmp_path.iterdir())

        memory.forget_sync(fact.id)

        assert not any(b"zyzzyva" in file.read_bytes() for file in tmp_path.iterdir())
