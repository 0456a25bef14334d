"""Facts are found by what they say and mean, never when they are not believed, and each hit says why."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from placet.errors import UsageError
from placet.memory.fact import Fact, FactScope
from placet.memory.memory import Memory
from placet.memory.store import FactFilter
from placet.storage.location import open_database
from placet.testing import FakeClock
from placet.testing.fact_store import make_fact

AXES = ("drink", "tea", "city", "rome", "pet", "cat", "build", "friday")


class Concepts:
    """An embedder that knows a few words, and which of them mean nearly the same."""

    name = "concepts"
    NEAR = {"beverage": "drink", "espresso": "drink", "town": "city", "kitten": "cat", "animal": "pet"}

    def __init__(self, size: int = len(AXES)) -> None:
        self.size = size
        self.asked = 0

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked += 1
        made = []
        for text in texts:
            words = [self.NEAR.get(word, word) for word in text.lower().replace("?", "").split()]
            vector = [float(words.count(axis)) for axis in AXES][: self.size]
            made.append(vector if any(vector) else [0.01] * self.size)
        return made


class Broken:
    name = "broken"

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        raise RuntimeError("no such device")


def bodies(memory: Memory, query: str, **more: object) -> list[str]:
    return [hit.fact.body for hit in memory.query_sync(query, **more).hits]


def filled(memory: Memory) -> Memory:
    for subject, body in (
        ("ann", "Ann would rather drink tea"),
        ("bob", "Bob lives in the city of Rome"),
        ("ann", "Ann has a cat as a pet"),
        ("ci", "The build runs every Friday"),
    ):
        memory.add_sync(subject, body, source="test")
    return memory


def test_a_question_brings_its_answer_and_nothing_else() -> None:
    memory = filled(Memory(clock=FakeClock(100.0)))

    assert bodies(memory, "Where does Bob live?") == ["Bob lives in the city of Rome"]
    assert bodies(memory, "what about zebras") == []
    assert memory.query_sync("when are builds run?").hits[0].matched == ("build", "run")


def test_a_word_that_is_cut_in_the_index_is_found_and_not_shown() -> None:
    memory = Memory(clock=FakeClock(100.0))
    word = "abcdefghij" * 12
    memory.add_sync("key", f"It is {word}", source="test")

    found = memory.query_sync(f"key {word}")

    assert found.hits[0].matched == found.terms == ("key",)
    assert memory.query_sync(word).hits


def test_a_hit_is_explained_by_its_scores() -> None:
    memory = filled(Memory(embedder=Concepts(), clock=FakeClock(100.0)))

    hit = memory.query_sync("which beverage does Ann like").hits[0]

    assert hit.fact.body == "Ann would rather drink tea"
    assert hit.matched == ("ann",)
    assert hit.vector > 0.5
    assert hit.score == pytest.approx(0.4 * hit.text + 0.6 * hit.vector)


def test_meaning_finds_what_shares_no_word() -> None:
    text, meaning = filled(Memory()), filled(Memory(embedder=Concepts()))

    assert bodies(text, "an animal?") == []
    assert bodies(meaning, "an animal?") == ["Ann has a cat as a pet"]


def test_vectors_obey_the_filter_and_follow_every_change() -> None:
    clock = FakeClock(100.0)
    memory = filled(Memory(embedder=Concepts(), clock=clock))
    (cat,) = memory.query_sync("an animal?").hits
    private = memory.add_sync("bob", "a pet", source="test", scope=FactScope(person="bob"))

    assert [hit.fact.id for hit in memory.query_sync("animal?").hits] == [cat.fact.id]
    assert private.id in {
        hit.fact.id for hit in memory.query_sync("animal?", scope=FactScope(person="bob")).hits
    }
    clock.advance(10.0)
    memory.invalidate_sync(cat.fact.id)
    assert memory.query_sync("animal?").hits == ()
    assert [hit.fact.id for hit in memory.query_sync("animal?", as_of=105.0).hits] == [cat.fact.id]
    memory.forget_sync(cat.fact.id)
    assert memory.query_sync("animal?", as_of=105.0).hits == ()


def test_a_superseded_fact_is_not_returned_and_the_past_is_known() -> None:
    clock = FakeClock(100.0)
    memory = Memory(clock=clock)
    memory.add_sync("ann", "Ann lives in Rome", key="city", source="test")
    clock.advance(100.0)

    memory.add_sync("ann", "Ann lives in Oslo", key="city", source="test", supersedes_key=True)

    assert bodies(memory, "where does Ann live?") == ["Ann lives in Oslo"]
    assert bodies(memory, "where does Ann live?", as_of=150.0) == ["Ann lives in Rome"]
    memory.consolidate_sync()
    assert bodies(memory, "where does Ann live?", as_of=150.0) == ["Ann lives in Rome"]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("model", ["concepts", "another"])
def test_consolidation_changes_no_answer_about_the_past(kind: str, model: str, tmp_path: Path) -> None:
    clock = FakeClock(100.0)
    with open_database(str(tmp_path / "placet.db")) as database:
        memory = filled(Memory(database if kind == "sqlite" else None, embedder=Concepts(), clock=clock))
        (cat,) = memory.query_sync("an animal?").hits
        clock.advance(100.0)
        memory.invalidate_sync(cat.fact.id)
        then = memory.query_sync("does Ann have an animal?", as_of=150.0).hits
        assert then[0].fact.body == "Ann has a cat as a pet"
        later = Memory(memory.store, embedder=Concepts(), embedder_name=model, clock=clock)

        done = later.consolidate_sync()

        assert (done.expired, done.vectors_removed, done.embedded) == (
            (1, 0, 0) if model == "concepts" else (1, 4, 4)
        )
        found = later.query_sync("does Ann have an animal?", as_of=150.0).hits
        assert [(hit.fact.id, hit.text > 0, hit.vector) for hit in found] == [
            (hit.fact.id, hit.text > 0, hit.vector) for hit in then
        ]
        assert bodies(later, "an animal?", as_of=150.0) == ["Ann has a cat as a pet"]
        assert bodies(later, "an animal?") == []


def test_a_replacement_ends_also_what_an_announced_one_would_have_ended_later() -> None:
    clock = FakeClock(100.0)
    memory = Memory(clock=clock)
    for body, start in (
        ("Ann lives in Rome", None),
        ("Ann lives in Oslo", 900.0),
        ("Ann lives in Paris", None),
    ):
        memory.add_sync("ann", body, key="city", source="test", valid_from=start, supersedes_key=True)
        clock.advance(10.0)

    assert bodies(memory, "where does Ann live?") == ["Ann lives in Paris"]
    assert bodies(memory, "where does Ann live?", as_of=115.0) == ["Ann lives in Rome"]
    clock.advance(1000.0)
    assert bodies(memory, "where does Ann live?") == ["Ann lives in Paris"]


@pytest.mark.parametrize("by", ["key", "id"])
def test_an_untrusted_fact_supersedes_no_trusted_one_but_contradicts_it(by: str) -> None:
    memory = Memory()
    rule = memory.add_sync("deploy", "Never on Fridays", key="rule", kind="constraint", source="person:ann")
    how = {"supersedes_key": True} if by == "key" else {"supersedes": [rule.id]}

    for _ in range(2):
        memory.add_sync(
            "deploy", "Any day", key="rule", kind="constraint", source="web", labels=["untrusted"], **how
        )
    hits = {hit.fact.id: hit for hit in memory.query_sync("deploy rule").hits}

    assert {each.body for each in hits[rule.id].conflicts} == {"Any day"}
    again = memory.add_sync("deploy", "Never at night", key="rule", source="person:ann", supersedes_key=True)
    assert [hit.fact.id for hit in memory.query_sync("deploy rule").hits] == [again.id]


def test_ids_of_other_scopes_and_unknown_ids_are_refused() -> None:
    store = Memory().store
    bob = Memory(store, scope=FactScope(person="bob")).add_sync("bob", "private", source="person:bob")
    ann = Memory(store, scope=FactScope(person="ann"))

    for more in ({"supersedes": [bob.id]}, {"supersedes": ["nobody"]}, {"links": ["nobody"]}):
        with pytest.raises(UsageError):
            ann.add_sync("bob", "something else", source="person:ann", **more)

    assert store.listed(None) == [bob]
    replacing = make_fact("direct", scope=FactScope(person="ann"), learned=bob.learned, supersedes=(bob.id,))
    store.add([replacing])
    assert store.get(None, [bob.id]) == [bob]


def test_a_contradiction_is_shown_with_both_dates() -> None:
    clock = FakeClock(100.0)
    memory = Memory(clock=clock)
    first = memory.add_sync("ann", "Ann was born in May", key="birthday", source="person:bob")
    clock.advance(50.0)
    second = memory.add_sync("ann", "Ann was born in June", key="birthday", source="person:ann")

    hits = {hit.fact.id: hit for hit in memory.query_sync("when was Ann born?").hits}

    assert [(each.id, each.learned) for each in hits[first.id].conflicts] == [(second.id, 150.0)]
    assert [(each.id, each.learned) for each in hits[second.id].conflicts] == [(first.id, 100.0)]


def test_storing_the_same_again_stores_nothing() -> None:
    memory = Memory()
    first = memory.add_sync("ann", "born in May", key="birthday", source="a")

    again = memory.add_sync("ann", "born in May", key="birthday", source="b")
    labelled = memory.add_sync("ann", "born in May", key="birthday", source="b", labels=["untrusted"])

    assert again == first
    assert labelled.id != first.id
    assert len(memory.store.listed(None)) == 2


def test_one_hop_of_links_is_followed() -> None:
    memory = filled(Memory())
    kept = memory.add_sync("vault", "rotated on Mondays", source="test")
    memory.add_sync("deploy", "The deploy needs its password", source="test", links=[kept.id])

    found = memory.query_sync("what does the deploy need, a password?")

    linked = {hit.fact.id: hit for hit in found.hits}[kept.id]
    assert (linked.text, linked.link > 0.3, linked.linked_from) == (0.0, True, found.hits[0].fact.id)


def test_when_a_fact_was_learned_only_breaks_ties() -> None:
    clock = FakeClock(100.0)
    memory = Memory(clock=clock)
    older = memory.add_sync("x", "zebra zebra zebra crossing", source="test")
    clock.advance(1e6)
    memory.add_sync("x", "a zebra, seen by somebody who talked about it for an hour", source="test")
    newest = memory.add_sync("y", "zebra zebra zebra crossing", source="test")
    memory.add_sync("x", "something else", source="test")

    ids = [hit.fact.id for hit in memory.query_sync("zebra crossing", cut=False).hits]

    assert ids[:2] == [newest.id, older.id]


@pytest.mark.parametrize("how", ["fails", "other size"])
def test_an_embedder_that_cannot_be_used_is_said_once_and_full_text_goes_on(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = filled(Memory(embedder=Concepts())).store
    embedder = Broken() if how == "fails" else Concepts(size=3)
    memory = Memory(store, embedder=embedder, embedder_name="concepts")

    with caplog.at_level(logging.WARNING):
        found = [memory.query_sync("Where does Bob live?") for _ in range(3)]

    assert [[hit.fact.subject for hit in each.hits] for each in found] == [["bob"]] * 3
    assert all(each.note and not each.used_vectors for each in found)
    assert len(caplog.records) == 1


def test_a_failing_embedder_loses_no_fact_and_consolidation_makes_up_for_it() -> None:
    store = filled(Memory(embedder=Broken())).store
    memory = Memory(store, embedder=Concepts())

    done = memory.consolidate_sync()

    assert (done.embedded, done.total, done.note) == (4, 4, None)
    assert bodies(memory, "an animal?") == ["Ann has a cat as a pet"]


def test_vectors_of_another_model_are_replaced() -> None:
    first = filled(Memory(embedder=Concepts()))
    memory = Memory(first.store, embedder=Concepts(size=4), embedder_name="smaller")

    done = memory.consolidate_sync()

    assert (done.vectors_removed, done.embedded) == (4, 4)
    assert memory.query_sync("in which town").used_vectors


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_vectors_of_another_size_are_made_again_under_the_same_name(kind: str, tmp_path: Path) -> None:
    with open_database(str(tmp_path / "placet.db")) as database:
        first = filled(Memory(database if kind == "sqlite" else None, embedder=Concepts()))
        memory = Memory(first.store, embedder=Concepts(size=4))
        assert not memory.query_sync("in which town").used_vectors

        done = memory.consolidate_sync()

        assert (done.vectors_removed, done.embedded, done.note) == (4, 4, None)
        assert memory.query_sync("in which town").used_vectors
        assert memory.consolidate_sync().embedded == 0


def test_tenants_and_scopes_of_a_memory_hold_for_its_calls() -> None:
    store = Memory().store
    acme = Memory(store, tenant="acme", scope=FactScope(person="ann"))
    acme.add_sync("x", "the zebra is striped", source="test")

    (fact,) = store.listed(None, tenant="acme")
    assert (fact.tenant, fact.scope) == ("acme", FactScope(person="ann"))
    assert bodies(acme, "zebra") == ["the zebra is striped"]
    assert bodies(Memory(store, tenant="acme"), "zebra") == []
    assert bodies(Memory(store), "zebra") == []


def test_bad_input_names_the_field() -> None:
    memory = Memory()

    for arguments, field in (
        ({"body": " "}, "body"),
        ({"body": "a\0b"}, "body"),
        ({"subject": ""}, "subject"),
        ({"source": ""}, "source"),
        ({"tags": ["x" * 400]}, "tags[0]"),
        ({"valid_from": 2.0, "valid_until": 1.0}, "valid_until"),
        ({"supersedes_key": True}, "supersedes_key"),
        ({"confidence": float("nan")}, "confidence"),
        ({"confidence": 7}, "confidence"),
        ({"valid_until": 1_796_083_200_000}, "valid_until"),
        ({"valid_until": 1e300}, "valid_until"),
        ({"valid_from": 5e11}, "valid_from"),
        ({"valid_from": -9e10}, "valid_from"),
        ({"valid_from": "2026"}, "valid_from"),
        ({"labels": ["x"]}, "labels[0]"),
        ({"body": 5}, "body"),
        ({"scope": "ann"}, "scope"),
    ):
        given = {"subject": "s", "body": "b", "source": "x", **arguments}
        with pytest.raises(UsageError) as caught:
            memory.add_sync(**given)  # type: ignore[arg-type]
        assert f" {field}: " in str(caught.value)
    assert memory.store.listed(None) == []
    with pytest.raises(UsageError):
        memory.query_sync("  ")


async def test_sync_calls_are_refused_in_an_event_loop() -> None:
    memory = Memory()
    await memory.add("a", "b", source="c")

    with pytest.raises(UsageError):
        memory.query_sync("b")


def test_facts_beyond_the_first_are_embedded_later() -> None:
    embedder = Concepts()
    memory = Memory(embedder=embedder)

    assert len(memory.add_facts_sync([make_fact(str(n), "a pet") for n in range(300)])) == 300

    where = FactFilter(at=1e9)
    assert len(memory.store.listed(where)) == 300
    assert len(memory.store.without_vectors(None, "concepts", 999)) == 44


def test_a_fact_reads_back_from_its_dictionary() -> None:
    fact = make_fact("a", tags=("t",), scope=FactScope(agent="x"))

    assert isinstance(fact.to_dict()["scope"], dict)
    assert isinstance(fact, Fact)
