"""The state in memory keeps every promise of a state store, and its log stays small."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from placet.errors import UsageError
from placet.state.memory import MemoryState
from placet.testing import FakeClock, state_store_suite


@pytest.mark.parametrize("check", state_store_suite, ids=lambda check: check.__name__)
def test_memory_state_keeps_the_promise(check: Callable[..., None]) -> None:
    check(MemoryState)


def test_the_log_is_bounded_and_says_when_it_forgot() -> None:
    store = MemoryState(keep_transitions=3)
    for number in range(5):
        store.set("k", number)

    assert [t.new for t in store.transitions_since(2)] == [2, 3, 4]
    with pytest.raises(UsageError, match="follow version 2"):
        store.transitions_since(1)


def test_transitions_carry_the_time_of_the_clock_handed_in() -> None:
    clock = FakeClock(100.0)
    store = MemoryState(clock=clock)

    store.set("k", 1)
    clock.advance(2.5)
    store.set("k", 2)

    assert [t.time for t in store.transitions_since(0)] == [100.0, 102.5]


def test_starting_values_are_copied() -> None:
    given = {"k": [1]}
    store = MemoryState(given)

    given["k"].append(2)

    assert store.get("k") == [1]


def test_no_half_open_unit_keeps_memory() -> None:
    """What a unit covered is forgotten once no open unit can bring it back."""
    store = MemoryState()

    for number in range(100):
        unit = store.begin(f"p{number}")
        store.set("k", number, unit=unit)
        (store.undo if number % 2 else store.commit)(unit)

    assert store._pending == {}


def test_keys_that_are_gone_are_forgotten_in_the_end_and_still_judged_safely() -> None:
    """A forgotten key is as new as the newest forgotten one: never older than it really is."""
    store = MemoryState(keep_transitions=10)
    gone: dict[str, int] = {}
    for number in range(100):
        unit = store.begin(f"p{number}")
        store.set(f"k{number}", number, unit=unit)
        store.undo(unit)
        gone[f"k{number}"] = store.version
    store.set("here", 1)
    store.set("deleted", 1)
    store.delete("deleted")

    assert store._versions.keys() == {"here"}
    assert len(store._vanished) == 10
    assert store.version_of("here") == store.version - 2
    assert store.version_of("deleted") == store.version
    assert store.version_of("k99") == gone["k99"]
    assert all(store.version_of(key) >= version for key, version in gone.items())
    assert store.version_of("k0") == store.version_of("never") <= store.version_of("k99")


def test_a_key_that_comes_back_has_its_own_version_again() -> None:
    store = MemoryState()
    store.set("k", 1)
    store.delete("k")
    unit = store.begin("p")

    store.set("k", 2, unit=unit)
    assert store.version_of("k") == 3
    store.undo(unit)

    assert store.version_of("k") == 4
    store.set("k", 3)
    assert (store.version_of("k"), len(store._vanished)) == (5, 0)


def test_a_namespace_is_kept_while_it_holds_something_and_no_longer() -> None:
    store = MemoryState()
    early, again = store.scoped("t"), store.scoped("t")

    assert early.get("k") is None
    assert store.tenants() == []
    early.set("k", 1)
    assert again.get("k") == store.scoped("t").get("k") == 1
    assert store.tenants() == ["t"]
    again.delete("k")

    assert store.tenants() == []
    assert store.scoped("t").version_of("k") == early.version_of("k") == 2


def test_what_an_open_unit_wrote_is_undone_although_nobody_holds_the_namespace() -> None:
    store = MemoryState()
    store.scoped("t").set("k", "old")
    unit = store.begin("p")
    store.scoped("t").delete("k", unit=unit)

    store.undo(unit)
    assert store.scoped("t").snapshot() == {"k": "old"}

    store.scoped("t").delete("k", unit=(last := store.begin("q")))
    store.commit(last)
    assert store.tenants() == []
