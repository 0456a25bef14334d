"""The state in memory keeps every promise of a state store, and its log stays small."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from assent.errors import UsageError
from assent.state.memory import MemoryState
from assent.testing import FakeClock, state_store_suite


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
