"""What every store of facts promises, as checks that any of them can be put through.

A check takes a function that makes an empty store, and raises AssertionError where a promise is broken:

    @pytest.mark.parametrize("check", fact_store_suite, ids=lambda check: check.__name__)
    def test_my_store(check):
        check(MyStore)

Keep true:
1. A check uses the protocol alone, never what one implementation adds.
2. Each check stands alone, on a store of its own.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from placet.memory.analysis import query_terms
from placet.memory.fact import Fact, FactScope
from placet.memory.store import FactFilter, FactStore, Tally

MakeStore = Callable[[], FactStore]
Check = Callable[[MakeStore], None]

NOW = 1_000.0


def make_fact(id: str, body: str = "the build runs on Tuesdays", **more: Any) -> Fact:
    """A fact for tests, learned at 100 seconds.

    Args:
        id: Id of the fact.
        body: The statement.
        more: Other fields.
    """
    given: dict[str, Any] = {"subject": "build", "source": "test", "learned": 100.0, **more}
    return Fact(id=id, body=body, **given)


def at(moment: float = NOW, **more: Any) -> FactFilter:
    """A filter for a time.

    Args:
        moment: The time.
        more: Other fields.
    """
    return FactFilter(at=moment, **more)


def found(store: FactStore, text: str, where: FactFilter | None = None) -> set[str]:
    """Ids of the facts that hold a word of the text.

    Args:
        store: The store.
        text: The text.
        where: The filter.
    """
    terms = dict.fromkeys(query_terms(text), 1.0)
    return {each.fact.id for each in store.candidates(where or at(), terms, limit=100)}


def _ids(facts: Sequence[Fact]) -> list[str]:
    return [fact.id for fact in facts]


def _same(actual: object, expected: object, what: str) -> None:
    if actual != expected:
        raise AssertionError(f"{what}: got {actual!r:.300}, expected {expected!r:.300}")


def a_fact_comes_back_as_it_was_stored(make: MakeStore) -> None:
    """Every field, also with awkward texts."""
    store = make()
    fact = Fact(
        id="f1",
        subject="caf\u00e9 \U0001f600",
        key="'; DROP TABLE memory_facts; --",
        body='100 % of ? and $1 \u2028 "quoted" it\'s',
        kind="constraint",
        tags=("a", "b c"),
        aliases=("coffee house",),
        source="person:ann",
        confidence=0.5,
        labels=("untrusted", "secret"),
        tenant="acme",
        scope=FactScope(person="ann", project="/p", agent="x"),
        links=("f2",),
        conversation="c",
        position=-3,
        valid_from=1.5,
        valid_until=2e9,
        learned=3.25,
        supersedes=("f0",),
    )

    _same(store.add([fact]), ["f1"], "new ids")
    _same(store.get("acme", ["f1"]), [fact], "the fact")


def adding_the_same_id_again_changes_nothing(make: MakeStore) -> None:
    store = make()
    store.add([make_fact("a")])

    _same(store.add([make_fact("a", "another body"), make_fact("b")]), ["b"], "new ids")
    _same(store.get(None, ["a"]), [make_fact("a")], "the first")


def a_fact_is_believed_from_when_it_was_learned_and_while_it_is_valid(make: MakeStore) -> None:
    store = make()
    store.add([make_fact("a", valid_from=200.0, valid_until=300.0)])

    for moment, expected in ((150.0, []), (199.9, []), (200.0, ["a"]), (299.9, ["a"]), (300.0, [])):
        _same(_ids(store.listed(at(moment))), expected, f"believed at {moment}")
        _same(sorted(found(store, "tuesday", at(moment))), expected, f"found at {moment}")


def a_fact_supersedes_by_id(make: MakeStore) -> None:
    store = make()
    store.add([make_fact("a"), make_fact("other")])
    store.add([make_fact("b", "the build runs on Fridays", learned=500.0, supersedes=("a",))])

    (old,) = store.get(None, ["a"])
    _same((old.invalidated, old.superseded_by), (500.0, "b"), "the older one")
    _same(found(store, "build runs"), {"b", "other"}, "believed now")
    _same(found(store, "build runs", at(400.0, is_past=True)), {"a", "other"}, "believed then")


def a_fact_supersedes_by_subject_and_key_within_its_scope(make: MakeStore) -> None:
    store = make()
    mine = FactScope(person="ann")
    store.add(
        [
            make_fact("a", key="day"),
            make_fact("b", key="day", scope=mine),
            make_fact("c", key="hour"),
            make_fact("d", key="day", subject="deploy"),
        ]
    )
    store.add([make_fact("new", "it runs on Mondays", key="day", learned=200.0, supersedes_key=True)])

    gone = [each.id for each in store.listed(None) if each.superseded_by is not None]
    _same(gone, ["a"], "superseded")


def a_fact_that_holds_later_lets_the_older_one_be_valid_until_then(make: MakeStore) -> None:
    store = make()
    store.add([make_fact("a", key="day")])
    store.add([make_fact("b", "Mondays", key="day", learned=200.0, valid_from=900.0, supersedes_key=True)])

    _same(_ids(store.listed(at(899.0))), ["a"], "before")
    _same(_ids(store.listed(at(900.0))), ["b"], "from then on")


def facts_of_one_batch_supersede_each_other(make: MakeStore) -> None:
    store = make()
    store.add(
        [
            make_fact("c", "three", key="n", learned=300.0, supersedes_key=True),
            make_fact("a", "one", key="n", learned=100.0),
            make_fact("b", "two", key="n", learned=200.0, supersedes=("a",)),
        ]
    )

    by_id = {each.id: each for each in store.listed(None)}
    _same(
        (by_id["a"].superseded_by, by_id["b"].superseded_by, by_id["c"].superseded_by), ("b", "c", None), "by"
    )


def what_is_invalidated_is_not_believed_and_not_lost(make: MakeStore) -> None:
    store = make()
    store.add([make_fact("a")])

    _same(store.invalidate(None, "a", 500.0), True, "first")
    _same(store.invalidate(None, "a", 600.0), False, "again")
    _same(store.invalidate(None, "nobody", 600.0), False, "unknown")
    _same(found(store, "tuesday"), set(), "now")
    _same(found(store, "tuesday", at(499.0, is_past=True)), {"a"}, "then")


def tenants_share_nothing(make: MakeStore) -> None:
    store = make()
    store.add([make_fact("a", tenant="acme"), make_fact("a", tenant="other", key="k"), make_fact("a")])
    store.put_vectors("acme", "m", {"a": b"\0\0\0\0"})
    store.note_recalled("acme", "run", ["a"], NOW)

    _same(store.get("acme", ["a"])[0].key, None, "of acme")
    _same(store.get("other", ["a"])[0].key, "k", "of the other")
    _same(store.frequencies("other", ["tuesday"]).total, 1, "total")
    _same(store.frequencies("nobody", ["tuesday"]).total, 0, "of nobody")
    _same([row.vector for row in store.vector_changes("other", "m", 0).rows], [None], "vectors")
    _same(store.recalled("other", "run"), [], "recalled")
    _same(store.forget("other", ["a"]), 1, "forgotten")
    _same(len(store.listed(None, tenant="acme")), 1, "left of acme")
    _same(found(store, "tuesday", at(tenant="")), set(), "an empty name is a tenant of its own")


def scopes_kinds_tags_and_secrets_are_filtered(make: MakeStore) -> None:
    store = make()
    store.add(
        [
            make_fact("all"),
            make_fact("ann", scope=FactScope(person="ann")),
            make_fact("ann-p", scope=FactScope(person="ann", project="p")),
            make_fact("nightly", scope=FactScope(agent="nightly")),
            make_fact("rule", kind="constraint", tags=("ci", "ops")),
            make_fact("key", labels=("secret",)),
        ]
    )
    filters: list[tuple[FactFilter, set[str]]] = [
        (at(), {"all", "rule", "key"}),
        (at(scope=FactScope(person="ann")), {"all", "ann", "rule", "key"}),
        (at(scope=FactScope(person="ann", project="p")), {"all", "ann", "ann-p", "rule", "key"}),
        (at(scope=FactScope(agent="nightly")), {"all", "nightly", "rule", "key"}),
        (at(scope=None), {"all", "ann", "ann-p", "nightly", "rule", "key"}),
        (at(kinds=("constraint",)), {"rule"}),
        (at(tags=("ci",)), {"rule"}),
        (at(tags=("ci", "no")), set()),
        (at(tags=("c",)), set()),
        (at(with_secret=False), {"all", "rule"}),
    ]
    ids = _ids(store.listed(None))
    for where, expected in filters:
        _same(set(_ids(store.listed(where))), expected, f"listed {where}")
        _same(found(store, "tuesdays", where), expected, f"found {where}")
        _same({each.fact.id for each in store.admitted(where, ids)}, expected, f"admitted {where}")


def words_are_found_by_stem_alias_and_without_accents(make: MakeStore) -> None:
    store = make()
    store.add(
        [
            make_fact("a", "Deployments need an approval"),
            make_fact("b", "the caf\u00e9 opens at nine", aliases=("coffee house",)),
            make_fact("c", "\u6771\u4eac\u90fd\u306b\u4f4f\u3093\u3067\u3044\u308b"),
        ]
    )

    _same(found(store, "who approves what we deploy?"), {"a"}, "by stem")
    _same(found(store, "cafe"), {"b"}, "without accent")
    _same(found(store, "coffee"), {"b"}, "by alias")
    _same(found(store, "\u6771\u4eac"), {"c"}, "without spaces")
    _same(found(store, "zebra"), set(), "nothing")


def a_fact_is_found_by_its_neighbours_in_the_conversation(make: MakeStore) -> None:
    store = make()
    said = [("0", "Have you seen the zebra?", 0), ("1", "Yes, at noon.", 1), ("2", "Good.", 2)]
    for id, body, position in said:
        store.add([make_fact(id, body, subject="chat", conversation="c", position=position)])
    store.add([make_fact("x", "Yes.", subject="chat", conversation="d", position=1)])
    store.add(
        [make_fact("y", "Yes.", subject="chat", conversation="c", position=1, scope=FactScope(agent="z"))]
    )

    _same(found(store, "zebra", at(scope=None)), {"0", "1"}, "found")
    store.forget(None, ["0"])
    _same(found(store, "zebra", at(scope=None)), set(), "once it is forgotten")


def what_is_forgotten_is_gone_everywhere(make: MakeStore) -> None:
    store = make()
    store.add([make_fact("a"), make_fact("b")])
    store.put_vectors(None, "m", {"a": b"\0\0\0\0"})
    store.note_recalled(None, "run", ["a", "b"], NOW)
    before = store.vector_changes(None, "m", 0).forgotten

    _same(store.forget(None, ["a", "nobody"]), 1, "how many")
    _same(store.get(None, ["a"]), [], "by id")
    _same(found(store, "tuesday", at(500.0, is_past=True)), {"b"}, "by text")
    _same([row.id for row in store.vector_changes(None, "m", 0).rows], ["b"], "vectors")
    _same(store.vector_changes(None, "m", 0).forgotten, before + 1, "counted")
    _same(_ids(store.recalled(None, "run")), ["b"], "recalled")
    _same(store.frequencies(None, ["tuesday"]), (1, {"tuesday": 1}), "frequencies")
    _same(store.add([make_fact("a")]), ["a"], "its id is free")


def vectors_are_handed_out_once_per_change(make: MakeStore) -> None:
    store = make()
    vector = array("f", [0.5, -1.0]).tobytes()
    store.add([make_fact("a"), make_fact("b")])
    store.put_vectors(None, "m", {"a": vector, "nobody": vector})

    first = store.vector_changes(None, "m", 0)
    _same({row.id: row.vector for row in first.rows}, {"a": vector, "b": None}, "at first")
    _same(list(store.vector_changes(None, "m", first.revision).rows), [], "nothing new")
    _same(_ids(store.without_vectors(None, "m", 10)), ["b"], "missing")
    _same({row.vector for row in store.vector_changes(None, "other", 0).rows}, {None}, "another model")
    store.invalidate(None, "a", 500.0)
    changed = store.vector_changes(None, "m", first.revision).rows
    _same([(row.id, row.invalidated, row.vector) for row in changed], [("a", 500.0, vector)], "changed")


def pruning_takes_out_of_indexes_and_keeps_the_past(make: MakeStore) -> None:
    store = make()
    store.add(
        [
            make_fact("old", key="k"),
            make_fact("expired", valid_until=300.0),
            make_fact("later", valid_from=9e6),
        ]
    )
    store.add([make_fact("new", "the build runs on Fridays", key="k", learned=200.0, supersedes_key=True)])
    store.put_vectors(None, "m", dict.fromkeys(("old", "expired", "new"), b"\0\0\0\0"))
    store.put_vectors(None, "n", {"later": b"\0\0\0\0"})

    _same(tuple(store.prune(None, NOW, "m")), (1, 1, 1), "pruned")
    _same(tuple(store.prune(None, NOW, "m")), (0, 0, 0), "again")
    _same(len(store.listed(None)), 4, "facts")
    _same(found(store, "build runs"), {"new"}, "now")
    _same(found(store, "build runs", at(150.0, is_past=True)), {"old", "expired"}, "then")
    _same(store.frequencies(None, ["tuesday"]).counts, {"tuesday": 1}, "only the later one is indexed")
    rows = {
        row.id: (row.vector is not None, row.is_pruned) for row in store.vector_changes(None, "m", 0).rows
    }
    old, now = (True, True), (True, False)
    _same(rows, {"old": old, "expired": old, "new": now, "later": (False, False)}, "vectors")
    (then,) = store.admitted(at(150.0, is_past=True), ["old"])
    _same("tuesday" in then.indexed.own, True, "its words are compared")
    _same(_ids(store.without_vectors(None, "n", 10)), ["old", "expired", "later", "new"], "without one")


def what_a_run_has_read_is_known(make: MakeStore) -> None:
    store = make()
    store.add([make_fact("a", "one"), make_fact("b", "two")])
    store.note_recalled(None, "run", ["a"], NOW)
    store.note_recalled(None, "run", ["a", "b"], NOW)

    _same(set(_ids(store.recalled(None, "run"))), {"a", "b"}, "of the run")
    _same(store.recalled(None, "another"), [], "of another")


def counts_add_up_and_go_with_their_fact(make: MakeStore) -> None:
    store = make()
    store.add([make_fact("a"), make_fact("b"), make_fact("a", tenant="other")])
    store.tally(None, {"a": Tally(1, 0, 5.0), "unknown": Tally(1, 0, 5.0)})
    store.tally(None, {"a": Tally(1, 2, 3.0)})

    _same(store.tallies(None, ["a", "b", "unknown"]), {"a": Tally(2, 2, 5.0)}, "added")
    _same(store.tallies("other", ["a"]), {}, "of another tenant")
    totals = {"a": Tally(1, 7, 9.0), "b": Tally(3, 0, 4.0)}
    for _ in range(2):
        store.tally(None, totals, is_total=True)
    _same(store.tallies(None, ["a", "b"]), {"a": Tally(2, 7, 5.0), "b": Tally(3, 0, 4.0)}, "totals")
    store.forget(None, ["a"])
    store.add([make_fact("a")])
    _same(store.tallies(None, ["a"]), {}, "forgotten")


def records_of_work_are_found_only_by_their_kind(make: MakeStore) -> None:
    store = make()
    store.add([make_fact("a"), make_fact("r", kind="repair"), make_fact("s", kind="round")])

    _same(_ids(store.listed(at())), ["a"], "listed")
    _same(found(store, "build"), {"a"}, "found")
    _same(_ids(store.listed(at(kinds=("repair",)))), ["r"], "by kind")
    _same({each.id for each in store.listed(None)}, {"a", "r", "s"}, "all")


def trust_removes_one_label(make: MakeStore) -> None:
    store = make()
    store.add([make_fact("a", labels=("untrusted", "secret"))])

    _same(store.trust(None, "a"), True, "first")
    _same(store.trust(None, "a"), False, "again")
    _same(store.get(None, ["a"])[0].labels, ("secret",), "labels")


def lists_are_in_order_and_limited(make: MakeStore) -> None:
    store = make()
    store.add([make_fact("b", learned=1.0), make_fact("a", learned=1.0), make_fact("c", learned=2.0)])

    _same(_ids(store.listed(None)), ["c", "a", "b"], "order")
    _same(_ids(store.listed(at(), limit=2)), ["c", "a"], "limited")
    _same(_ids(store.get(None, ["b", "x", "c", "b"])), ["b", "c"], "by id")
    keyed = [replace(each, id=f"{each.id}2", key="k") for each in store.listed(None)]
    store.add(keyed)
    _same(_ids(store.believed_values(at(), "build", "k")), ["c2", "a2", "b2"], "values")


fact_store_suite: Sequence[Check] = (
    a_fact_comes_back_as_it_was_stored,
    adding_the_same_id_again_changes_nothing,
    a_fact_is_believed_from_when_it_was_learned_and_while_it_is_valid,
    a_fact_supersedes_by_id,
    a_fact_supersedes_by_subject_and_key_within_its_scope,
    a_fact_that_holds_later_lets_the_older_one_be_valid_until_then,
    facts_of_one_batch_supersede_each_other,
    what_is_invalidated_is_not_believed_and_not_lost,
    tenants_share_nothing,
    scopes_kinds_tags_and_secrets_are_filtered,
    words_are_found_by_stem_alias_and_without_accents,
    a_fact_is_found_by_its_neighbours_in_the_conversation,
    what_is_forgotten_is_gone_everywhere,
    vectors_are_handed_out_once_per_change,
    pruning_takes_out_of_indexes_and_keeps_the_past,
    what_a_run_has_read_is_known,
    trust_removes_one_label,
    counts_add_up_and_go_with_their_fact,
    records_of_work_are_found_only_by_their_kind,
    lists_are_in_order_and_limited,
)
"""One check for each promise of `FactStore`. A check takes a function that makes an empty store, and raises
`AssertionError` if the promise is broken."""
