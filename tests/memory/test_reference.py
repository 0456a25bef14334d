"""Whatever is added, superseded, invalidated and forgotten: stores believe what a plain reference believes.

The reference keeps lists of plain dictionaries, and knows neither indexes nor the code of the stores.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.memory.fact import Fact, FactScope
from placet.memory.in_memory import MemoryFacts
from placet.memory.retrieval import Hit, with_conflicts
from placet.memory.sql import SqlFacts
from placet.memory.store import FactFilter, FactStore
from placet.storage.location import open_database
from placet.testing.fact_store import found, make_fact
from tests.memory.test_stores import TABLES
from tests.properties.effort import examples

TIMES = st.sampled_from([0.0, 0.0, 10.0, 20.0, 30.0])
MAYBE = st.sampled_from([None, None, 10.0, 20.0, 40.0])
TENANTS = st.sampled_from([None, None, "acme"])
SCOPES = st.builds(
    FactScope, person=st.sampled_from([None, None, "ann"]), agent=st.sampled_from([None, None, "nightly"])
)
WORDS = ("zebra", "quartz", "violin")


class Reference:
    """What is believed, by the book."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, facts: list[Fact]) -> None:
        fresh: list[dict[str, Any]] = []
        for fact in facts:
            if not any((r["id"], r["tenant"]) == (fact.id, fact.tenant) for r in self.rows + fresh):
                fresh.append({name: getattr(fact, name) for name in fact.__struct_fields__})
        earlier = list(self.rows)
        self.rows += fresh
        for new in sorted(fresh, key=lambda r: r["learned"]):
            for old in self.rows:
                if old is new or old["tenant"] != new["tenant"]:
                    continue
                if old["invalidated"] is not None or old["scope"] != new["scope"]:
                    continue
                if "untrusted" in new["labels"] and "untrusted" not in old["labels"]:
                    continue
                begins = max(e for e in (new["learned"], new["valid_from"]) if e is not None)
                if old["superseded_by"] is not None and old["valid_until"] <= begins:
                    continue
                by_id = old["id"] in new["supersedes"]
                known_before = old in earlier or old["learned"] <= new["learned"]
                same = all(old[k] == new[k] for k in ("subject", "key"))
                if by_id or (new["supersedes_key"] and same and known_before):
                    old["superseded_by"] = new["id"]
                    if new["valid_from"] is not None and new["valid_from"] > new["learned"]:
                        ends = [e for e in (old["valid_until"], new["valid_from"]) if e is not None]
                        old["valid_until"] = min(ends)
                    else:
                        old["invalidated"] = max(new["learned"], old["learned"])

    def invalidate(self, tenant: str | None, id: str, at: float) -> None:
        for row in self.rows:
            if (row["id"], row["tenant"]) == (id, tenant) and row["invalidated"] is None:
                row["invalidated"] = max(at, row["learned"])

    def trust(self, tenant: str | None, id: str) -> None:
        for row in self.rows:
            if (row["id"], row["tenant"]) == (id, tenant):
                row["labels"] = tuple(label for label in row["labels"] if label != "untrusted")

    def forget(self, tenant: str | None, id: str) -> None:
        self.rows = [row for row in self.rows if (row["id"], row["tenant"]) != (id, tenant)]

    def believed(self, where: FactFilter) -> set[str]:
        return {row["id"] for row in self.rows if self._passes(row, where)}

    def contradicting(self, where: FactFilter, id: str) -> set[str]:
        """Ids of the believed facts that say something else about the same."""
        believed = [row for row in self.rows if self._passes(row, where)]
        (one,) = [row for row in believed if row["id"] == id]
        return {
            row["id"]
            for row in believed
            if one["key"] is not None
            and all(row[name] == one[name] for name in ("subject", "key", "scope"))
            and row["body"].lower().strip(".") != one["body"].lower().strip(".")
        }

    @staticmethod
    def _passes(row: dict[str, Any], where: FactFilter) -> bool:
        assert where.scope is not None
        if row["tenant"] != where.tenant or row["learned"] > where.at:
            return False
        if row["invalidated"] is not None and row["invalidated"] <= where.at:
            return False
        if row["valid_from"] is not None and row["valid_from"] > where.at:
            return False
        if row["valid_until"] is not None and row["valid_until"] <= where.at:
            return False
        for name in ("person", "agent"):
            wanted = getattr(row["scope"], name)
            if wanted is not None and wanted != getattr(where.scope, name):
                return False
        return where.with_secret or "secret" not in row["labels"]


@st.composite
def facts(draw: st.DrawFn) -> Fact:
    start, end = draw(MAYBE), draw(MAYBE)
    if start is not None and end is not None and start >= end:
        end = None
    key = draw(st.sampled_from([None, "k", "l"]))
    id = draw(st.sampled_from("abcdef"))
    return Fact(
        id=id,
        subject=draw(st.sampled_from(["s", "t"])),
        key=key,
        body=draw(st.sampled_from((*WORDS, "Zebra."))),
        source="test",
        labels=draw(st.sampled_from([(), ("secret",), ("untrusted",)])),
        tenant=draw(TENANTS),
        scope=draw(SCOPES),
        learned=draw(TIMES),
        valid_from=start,
        valid_until=end,
        supersedes=tuple(draw(st.sets(st.sampled_from("abcdef".replace(id, "")), max_size=1))),
        supersedes_key=key is not None and draw(st.booleans()),
    )


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(facts(), min_size=2, max_size=4)),
        st.tuples(st.just("invalidate"), TENANTS, st.sampled_from("abcdef"), TIMES),
        st.tuples(st.just("trust"), TENANTS, st.sampled_from("abcdef")),
        st.tuples(st.just("forget"), TENANTS, st.sampled_from("abcdef")),
        st.tuples(st.just("prune"), TENANTS, TIMES),
    ),
    min_size=2,
    max_size=6,
)
QUERIES = st.lists(
    st.builds(
        FactFilter,
        tenant=TENANTS,
        at=st.sampled_from([10.0, 25.0, 40.0]),
        is_past=st.just(True),
        scope=SCOPES,
        with_secret=st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


def follow(store: FactStore, steps: list[Any]) -> Reference:
    reference = Reference()
    for name, *arguments in steps:
        match name:
            case "add":
                store.add(arguments[0])
                reference.add(arguments[0])
            case "invalidate":
                store.invalidate(*arguments)
                reference.invalidate(*arguments)
            case "trust":
                store.trust(*arguments)
                reference.trust(*arguments)
            case "forget":
                store.forget(arguments[0], [arguments[1]])
                reference.forget(*arguments)
            case "prune":
                store.prune(arguments[0], arguments[1], None)
    return reference


def check(store: FactStore, steps: list[Any], queries: list[FactFilter]) -> int:
    reference = follow(store, steps)
    seen = 0
    for where in queries:
        expected = reference.believed(where)
        seen += len(expected)
        assert {fact.id for fact in store.listed(where)} == expected
        assert found(store, " ".join(WORDS), where) == expected
        assert {each.fact.id for each in store.admitted(where, list("abcdef"))} == expected
        for each in store.admitted(where, sorted(expected)):
            (row,) = [r for r in reference.rows if (r["id"], r["tenant"]) == (each.fact.id, where.tenant)]
            assert {name: getattr(each.fact, name) for name in row} == row
            hit = with_conflicts(store, where, Hit(fact=each.fact, score=0.0))
            assert {other.id for other in hit.conflicts} == reference.contradicting(where, each.fact.id)
    return seen


def test_memory_believes_what_the_reference_believes() -> None:
    seen: list[int] = []

    @examples(250)
    @given(STEPS, QUERIES)
    def holds(steps: list[Any], queries: list[FactFilter]) -> None:
        seen.append(check(MemoryFacts(), steps, queries))

    holds()
    assert sum(map(bool, seen)) > len(seen) / 5  # The examples are not trivial.


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_database_believes_what_the_reference_believes(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = str(tmp_path / "placet.db") if kind == "sqlite" else request.getfixturevalue("postgres_url")
    with open_database(url) as database:
        store = SqlFacts(database)

        @examples(60 if kind == "sqlite" else 25)
        @given(STEPS, QUERIES)
        def holds(steps: list[Any], queries: list[FactFilter]) -> None:
            database.write(lambda t: [t.execute(f"DELETE FROM {table}") for table in TABLES]).result()
            check(store, steps, queries)

        holds()


def test_contradictions_are_those_of_the_reference() -> None:
    """Of facts that all state one key, so that many contradict each other."""
    seen: list[int] = []
    stated = st.builds(
        make_fact,
        st.uuids().map(str),
        st.sampled_from(("zebra", "Zebra.", "quartz")),
        key=st.sampled_from(("k", "k", "l")),
        scope=st.sampled_from((FactScope(), FactScope(), FactScope(person="ann"))),
        labels=st.sampled_from(((), ("secret",))),
        valid_until=st.sampled_from((None, 500.0)),
    )

    @examples(60)
    @given(st.lists(stated, min_size=3, max_size=8), st.sampled_from((200.0, 600.0)), st.booleans())
    def holds(made: list[Fact], moment: float, with_secret: bool) -> None:
        store, reference = MemoryFacts(), Reference()
        store.add(made)
        reference.add(made)
        where = FactFilter(at=moment, scope=FactScope(person="ann"), with_secret=with_secret)
        for fact in store.listed(where):
            hit = with_conflicts(store, where, Hit(fact=fact, score=0.0))
            seen.append(len(hit.conflicts))
            assert {other.id for other in hit.conflicts} == reference.contradicting(where, fact.id)

    holds()
    assert sum(map(bool, seen)) > len(seen) / 10


def test_another_tenants_facts_change_nothing() -> None:
    """Neither what is found nor the frequencies by which it is ranked."""

    @examples(50)
    @given(STEPS, QUERIES)
    def holds(steps: list[Any], queries: list[FactFilter]) -> None:
        alone, together = MemoryFacts(), MemoryFacts()
        follow(together, steps)
        own = [
            (name, [fact for fact in rest[0] if fact.tenant is None]) if name == "add" else (name, *rest)
            for name, *rest in steps
            if name == "add" or rest[0] is None
        ]
        follow(alone, own)
        for where in queries:
            if where.tenant is None:
                assert together.listed(where) == alone.listed(where)
                assert together.frequencies(None, WORDS) == alone.frequencies(None, WORDS)

    holds()
