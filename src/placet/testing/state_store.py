"""What every state store promises, as checks that any of them can be put through.

A check takes a function that makes an empty store, and raises AssertionError where a promise is broken:

    @pytest.mark.parametrize("check", state_store_suite, ids=lambda check: check.__name__)
    def test_my_store(check):
        check(MyStore)

Keep true:
1. A check uses the protocol alone, never what one implementation adds.
2. Each check stands alone, on stores of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from placet.errors import NotJson, UsageError
from placet.ir.json_value import JsonValue
from placet.state.store import MISSING, Namespace, StateStore
from placet.testing.checks import same

MakeStore = Callable[[], StateStore]
Check = Callable[[MakeStore], None]

AWKWARD: Sequence[JsonValue] = (
    None,
    False,
    0,
    -0.0,
    1.5,
    "",
    "a\0b",
    "\u2028 \U0001f600 é",
    [],
    {},
    {"": {"": [[]]}},
    [None, {"k": [1, "1", True]}],
    2**53 + 1,
    -(2**63),
    2**64,
    10**300 + 7,
    1e308,
    5e-324,
)
"""Values that stores lose or bend when they are careless."""


def _holds(namespace: Namespace, expected: dict[str, JsonValue], what: str) -> None:
    """The namespace holds exactly `expected`, by every way of asking."""
    found = namespace.snapshot()
    same({k: found[k] for k in sorted(found)}, {k: expected[k] for k in sorted(expected)}, what)
    same(sorted(namespace.keys()), sorted(expected), f"{what}: keys()")
    for key, value in expected.items():
        same(namespace.get(key, "absent"), value, f"{what}: get({key!r})")
        same(namespace.exists(key), True, f"{what}: exists({key!r})")


def _refuses(call: Callable[[], object], errors: type[Exception], what: str) -> None:
    try:
        call()
    except errors:
        return
    raise AssertionError(f"{what} was accepted")


def an_empty_store_holds_nothing(make: MakeStore) -> None:
    store = make()

    _holds(store, {}, "an empty store")
    same(store.get("k"), None, "get of a missing key")
    same(store.get("k", 7), 7, "get of a missing key with a default")
    same(store.exists("k"), False, "exists of a missing key")
    same(store.version_of("k"), 0, "version_of a missing key")
    same(store.delete("k"), False, "delete of a missing key")
    same(list(store.transitions_since(store.version)), [], "transitions_since now")


def every_json_value_comes_back_as_it_went_in(make: MakeStore) -> None:
    """Integers keep all their digits, numbers their type, text every character."""
    store = make()

    for number, value in enumerate(AWKWARD):
        store.set(f"k{number}", value)

    _holds(store, {f"k{n}": v for n, v in enumerate(AWKWARD)}, "awkward values")


def any_text_is_a_key(make: MakeStore) -> None:
    store = make()
    keys = ["", " ", "a.b", "a/b", "%", "_", "'", '"', "\0", "é", "e\u0301", "K", "k", "\U0001f600"]

    for number, key in enumerate(keys):
        store.set(key, number)

    _holds(store, {key: number for number, key in enumerate(keys)}, "awkward keys")


def what_is_not_json_is_refused_and_nothing_changes(make: MakeStore) -> None:
    store = make()
    store.set("k", "old")
    version = store.version
    deep: list[Any] = []
    for _ in range(200):
        deep = [deep]
    loop: list[Any] = []
    loop.append(loop)
    not_json: list[Any] = [math.nan, math.inf, -math.inf, {1}, b"x", object(), {1: 2}, [math.nan]]

    for bad in (*not_json, {"a": {"b": [math.inf]}}, deep, loop):
        _refuses(partial(store.set, "k", bad), NotJson, f"{type(bad).__name__} {bad!r:.40}")
    _refuses(lambda: store.replace_all({"k": 1, "j": math.nan}), NotJson, "replace_all with NaN")
    _refuses(lambda: store.set(5, 1), UsageError, "a key that is no string")  # type: ignore[arg-type]

    _holds(store, {"k": "old"}, "after refusals")
    same(store.version, version, "version after refusals")


def nothing_is_aliased(make: MakeStore) -> None:
    """Changing what was handed in or out changes nothing in the store or its log."""
    store = make()
    given: dict[str, Any] = {"list": [1, {"deep": 2}]}
    store.set("k", given)
    whole: dict[str, Any] = {"k": {"list": [1, {"deep": 2}]}}

    given["list"][1]["deep"] = "changed"
    store.get("k")["list"].append("changed")
    store.snapshot()["k"]["list"].clear()
    _holds(store, whole, "after changing what was handed in and out")

    replaced: dict[str, Any] = {"k": [1]}
    store.replace_all(replaced)
    replaced["k"].append("changed")
    _holds(store, {"k": [1]}, "after changing what was given to replace_all")


def an_undone_value_is_not_aliased(make: MakeStore) -> None:
    store = make()
    store.set("k", ["old"])
    unit = store.begin("p")
    store.set("k", ["new"], unit=unit)

    store.get("k").append("changed")
    store.undo(unit)
    store.get("k").append("changed")

    _holds(store, {"k": ["old"]}, "after undo")


def every_change_is_logged_in_order(make: MakeStore) -> None:
    store = make()
    before = store.version
    unit = store.begin("p1")

    store.set("k", 1)
    store.set("k", None, action_id="a1", unit=unit)
    store.delete("k", action_id="a2", unit=unit)
    store.scoped("t").set("k", "mine")

    log = store.transitions_since(before)
    seen = [(t.key, t.old, t.new, t.action_id, t.proposal_id, t.tenant) for t in log]
    expected: list[tuple[object, ...]] = [
        ("k", MISSING, 1, None, None, None),
        ("k", 1, None, "a1", "p1", None),
        ("k", None, MISSING, "a2", "p1", None),
        ("k", MISSING, "mine", None, None, "t"),
    ]
    same(seen, expected, "the log")
    versions = [t.version for t in log]
    same(versions, sorted(set(versions)), "versions grow")
    same(versions[-1], store.version, "the newest transition has the store's version")
    same(store.version_of("k"), versions[2], "version_of the unscoped key")
    same(store.scoped("t").version_of("k"), versions[3], "version_of the tenant's key")
    same([t.version for t in store.transitions_since(versions[1])], versions[2:], "transitions_since")


def undo_restores_values_and_absence(make: MakeStore) -> None:
    store = make()
    store.set("kept", 1)
    store.set("changed", "old")
    store.set("deleted", None)
    unit = store.begin("p")

    store.set("changed", "new", unit=unit)
    store.set("changed", "newer", unit=unit)
    store.set("made", 1, unit=unit)
    store.delete("deleted", unit=unit)
    store.delete("made", unit=unit)
    store.set("made", 2, unit=unit)
    _holds(store, {"kept": 1, "changed": "newer", "made": 2}, "while the unit is open")
    undone = store.undo(unit)

    _holds(store, {"kept": 1, "changed": "old", "deleted": None}, "after undo")
    same(
        sorted(((t.key, t.new is MISSING) for t in undone), key=repr),
        [("changed", False), ("deleted", False), ("made", True)],
        "what undo returns",
    )


def undo_appends_and_never_truncates(make: MakeStore) -> None:
    store = make()
    store.set("k", 1)
    start = store.version
    unit = store.begin("p")
    store.set("k", 2, action_id="a", unit=unit)
    before = list(store.transitions_since(0))

    undone = store.undo(unit)

    after = list(store.transitions_since(0))
    same(after[: len(before)], before, "the log before undo")
    same(after[len(before) :], list(undone), "what undo appended")
    same([(t.old, t.new, t.proposal_id) for t in undone], [(2, 1, "p")], "the transition of undo")
    same(store.version > start + 1, True, "undo counts as a change")
    same(store.version_of("k"), store.version, "version_of an undone key")


def committed_writes_stay(make: MakeStore) -> None:
    store = make()
    unit = store.begin("p")
    store.set("k", 1, unit=unit)
    version = store.version

    store.commit(unit)

    same(store.version, version, "commit is no change")
    same(list(store.undo(unit)), [], "undo after commit")
    _holds(store, {"k": 1}, "after commit")


def undo_twice_is_undo_once(make: MakeStore) -> None:
    store = make()
    unit = store.begin("p")
    store.set("k", 1, unit=unit)
    store.undo(unit)
    store.set("k", 2)

    same(list(store.undo(unit)), [], "the second undo")

    _holds(store, {"k": 2}, "after undoing twice")


def a_unit_sees_what_others_write(make: MakeStore) -> None:
    """Proposals do not hide their writes from each other."""
    store = make()
    first, second = store.begin("p1"), store.begin("p2")

    store.set("k", 1, unit=first)
    store.set("k", [store.get("k")], unit=second)

    _holds(store, {"k": [1]}, "two open units")


def undoing_the_older_of_two_keeps_the_newer(make: MakeStore) -> None:
    store = make()
    store.set("k", "base")
    first, second = store.begin("p1"), store.begin("p2")
    store.set("k", "first", unit=first)
    store.set("k", "second", unit=second)

    same(list(store.undo(first)), [], "undo of what is covered changes nothing")
    _holds(store, {"k": "second"}, "after undoing the older")
    store.undo(second)

    _holds(store, {"k": "base"}, "after undoing both")


def undoing_the_newer_of_two_shows_the_older(make: MakeStore) -> None:
    for ended in (False, True):
        store = make()
        store.set("k", "base")
        first, second = store.begin("p1"), store.begin("p2")
        store.set("k", "first", unit=first)
        store.set("k", "second", unit=second)
        if ended:
            store.commit(first)

        store.undo(second)

        _holds(store, {"k": "first"}, f"after undoing the newer, older {'kept' if ended else 'open'}")


def interleaved_writes_are_told_apart(make: MakeStore) -> None:
    store = make()
    first, second = store.begin("p1"), store.begin("p2")
    store.set("k", "1a", unit=first)
    store.set("k", "2a", unit=second)
    store.set("k", "1b", unit=first)
    store.delete("k", unit=second)

    store.undo(second)
    _holds(store, {"k": "1b"}, "after undoing the one that wrote last")
    store.undo(first)

    _holds(store, {}, "after undoing both")


def a_write_of_nobody_survives_every_undo(make: MakeStore) -> None:
    store = make()
    unit = store.begin("p")
    store.set("k", "unit", unit=unit)
    store.set("k", "outside")
    store.set("j", "unit", unit=unit)
    store.replace_all({"r": 1})

    store.undo(unit)

    _holds(store, {"r": 1}, "after undo")


def a_deletion_can_be_the_newest_write(make: MakeStore) -> None:
    store = make()
    store.set("k", "base")
    first, second = store.begin("p1"), store.begin("p2")
    store.delete("k", unit=first)
    store.set("k", "second", unit=second)

    store.undo(second)
    _holds(store, {}, "the deletion is the newest write left")
    store.undo(first)

    _holds(store, {"k": "base"}, "after undoing the deletion too")


def tenants_are_apart(make: MakeStore) -> None:
    store = make()
    names = ["t", "T", "", "t.k", "unscoped", "\0", "é"]
    spaces: list[Namespace] = [store.scoped(None), *map(store.scoped, names)]
    for number, space in enumerate(spaces):
        space.set("k", number)
        space.set(f"own{number}", number)

    for number, space in enumerate(spaces):
        _holds(space, {"k": number, f"own{number}": number}, f"namespace {number}")
    _holds(store, {"k": 0, "own0": 0}, "the store itself is the unscoped namespace")
    spaces[1].replace_all({})
    spaces[2].delete("k")

    _holds(store.scoped("t"), {}, "a namespace that was emptied")
    _holds(store.scoped("T"), {"own2": 2}, "a namespace that lost a key")
    _holds(store, {"k": 0, "own0": 0}, "the unscoped keys")
    _holds(spaces[3], {"k": 3, "own3": 3}, "another tenant's keys")


def undo_stays_within_the_tenant(make: MakeStore) -> None:
    store = make()
    unit, other = store.begin("p1"), store.begin("p2")
    store.scoped("t").set("k", 1, unit=unit)
    store.scoped("u").set("k", 2, unit=other)
    store.set("k", 3)

    undone = store.undo(unit)

    same([(t.tenant, t.key) for t in undone], [("t", "k")], "what undo returns")
    _holds(store.scoped("t"), {}, "the undone tenant")
    _holds(store.scoped("u"), {"k": 2}, "another tenant")
    _holds(store, {"k": 3}, "the unscoped keys")


def a_unit_may_write_in_several_namespaces(make: MakeStore) -> None:
    store = make()
    unit = store.begin("p")
    store.set("k", 0, unit=unit)
    store.scoped("t").set("k", 1, unit=unit)

    store.undo(unit)

    _holds(store, {}, "unscoped")
    _holds(store.scoped("t"), {}, "the tenant")


def replace_all_leaves_exactly_what_was_given(make: MakeStore) -> None:
    store = make()
    store.set("gone", 1)
    store.set("stays", 1)
    before = store.version

    store.replace_all({"stays": 1, "new": None})

    _holds(store, {"stays": 1, "new": None}, "after replace_all")
    logged = {t.key: t.new for t in store.transitions_since(before)}
    same(logged.get("gone"), MISSING, "replace_all logs the deletion")
    same("new" in logged, True, "replace_all logs the new key")


def undo_costs_what_was_changed(make: MakeStore) -> None:
    """Counted in transitions, not in seconds: one changed key, one line in the log."""
    store = make()
    store.replace_all({f"k{n}": n for n in range(500)})
    unit = store.begin("p")
    store.set("k7", "changed", unit=unit)
    before = store.version

    undone = store.undo(unit)

    same(len(undone), 1, "transitions of undo")
    same(store.version - before, 1, "changes of undo")


def open_units_do_not_disturb_each_other(make: MakeStore) -> None:
    store = make()
    units = [store.begin(f"p{n}") for n in range(20)]
    for number, unit in enumerate(units):
        store.set("shared", number, unit=unit)
        store.set(f"own{number}", number, unit=unit)

    for number, unit in enumerate(units):
        if number % 3:
            store.undo(unit)
        else:
            store.commit(unit)

    expected: dict[str, JsonValue] = {f"own{n}": n for n in range(20) if not n % 3}
    _holds(store, {**expected, "shared": 18}, "after all have ended")


state_store_suite: tuple[Check, ...] = (
    an_empty_store_holds_nothing,
    every_json_value_comes_back_as_it_went_in,
    any_text_is_a_key,
    what_is_not_json_is_refused_and_nothing_changes,
    nothing_is_aliased,
    an_undone_value_is_not_aliased,
    every_change_is_logged_in_order,
    undo_restores_values_and_absence,
    undo_appends_and_never_truncates,
    committed_writes_stay,
    undo_twice_is_undo_once,
    a_unit_sees_what_others_write,
    undoing_the_older_of_two_keeps_the_newer,
    undoing_the_newer_of_two_shows_the_older,
    interleaved_writes_are_told_apart,
    a_write_of_nobody_survives_every_undo,
    a_deletion_can_be_the_newest_write,
    tenants_are_apart,
    undo_stays_within_the_tenant,
    a_unit_may_write_in_several_namespaces,
    replace_all_leaves_exactly_what_was_given,
    undo_costs_what_was_changed,
    open_units_do_not_disturb_each_other,
)
"""One check for each promise of `StateStore`. A check takes a function that makes an empty store, and raises
`AssertionError` if the promise is broken."""
