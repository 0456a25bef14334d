"""A state store does what a plain list of all writes would do, whatever is asked of it in whatever order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from placet.errors import NotJson
from placet.state.memory import MemoryState
from placet.state.store import MISSING, StateStore, Unit
from tests.properties.effort import UNHURRIED, examples
from tests.properties.test_serialisability import exactly
from tests.properties.world import spoil

pytestmark = UNHURRIED

keys = st.sampled_from(["k0", "k0", "k1", ""])
tenants = st.sampled_from([None, None, None, "t", "u"])
slots = st.integers(0, 2)
"""Three units are open at any time; one that ends is followed by a new one."""
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(2**63, 2**200)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
not_json = st.sampled_from([math.nan, math.inf, -math.inf, {1}, b"x", object(), {1: 1}, "\ud800"]).flatmap(
    lambda bad: st.sampled_from([bad, [bad], {"a": [1, bad]}])
)


def machine_for(make: Callable[[], StateStore], seen: Counter[str]) -> type[RuleBasedStateMachine]:
    """A machine that drives a store and a plain list side by side."""

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.store = make()
            self.writes: list[tuple[str | None, str, Unit | None, Any]] = []
            """Every write ever made: tenant, key, whose, value."""
            self.aborted: set[int] = set()
            self.open = [self.store.begin(f"p{slot}") for slot in range(3)]
            self.ended: list[Unit] = []
            """Kept alive, so that their ids stay their own."""
            self.logged: list[Any] = []

        def expected(self, tenant: str | None) -> dict[str, Any]:
            found: dict[str, Any] = {}
            for whose, key, unit, value in self.writes:
                if whose == tenant and id(unit) not in self.aborted:
                    found[key] = value
            return {key: value for key, value in found.items() if value is not MISSING}

        @rule(tenant=tenants, key=keys, value=values)
        def write(self, tenant: str | None, key: str, value: Any) -> None:
            self._write(tenant, key, value, None)

        @rule(tenant=tenants, key=keys, value=values, slot=slots)
        def write_in_unit(self, tenant: str | None, key: str, value: Any, slot: int) -> None:
            self._write(tenant, key, value, self.open[slot])

        @rule(key=keys, slot=slots)
        def write_in_all_units(self, key: str, slot: int) -> None:
            for turn in range(3):
                self._write(None, key, f"turn {turn}", self.open[(slot + turn) % 3])

        def _write(self, tenant: str | None, key: str, value: Any, unit: Unit | None) -> None:
            given = deepcopy(value)
            self.store.scoped(tenant).set(key, given, action_id="a", unit=unit)
            spoil(given)
            under = [u for t, k, u, _ in self.writes if (t, k) == (tenant, key)]
            seen["over another's write"] += bool(under and under[-1] is not unit and under[-1] in self.open)
            self.writes.append((tenant, key, unit, deepcopy(value)))

        @rule(tenant=tenants, key=keys, slot=slots | st.none())
        def delete(self, tenant: str | None, key: str, slot: int | None) -> None:
            unit = None if slot is None else self.open[slot]
            was_there = key in self.expected(tenant)

            assert self.store.scoped(tenant).delete(key, unit=unit) is was_there

            if was_there:
                self.writes.append((tenant, key, unit, MISSING))
                seen["delete"] += 1

        @rule(tenant=tenants, fresh=st.dictionaries(keys, values, max_size=2))
        def replace_all(self, tenant: str | None, fresh: dict[str, Any]) -> None:
            given = deepcopy(fresh)
            gone = [key for key in self.expected(tenant) if key not in fresh]
            self.store.scoped(tenant).replace_all(given)
            spoil(given)
            self.writes += [(tenant, key, None, MISSING) for key in gone]
            self.writes += [(tenant, key, None, deepcopy(value)) for key, value in fresh.items()]

        @rule(slot=slots)
        def commit(self, slot: int) -> None:
            self._commit(self._end(slot))

        @rule(slot=slots)
        def undo(self, slot: int) -> None:
            self._undo(self._end(slot))

        def _end(self, slot: int) -> Unit:
            unit = self.open[slot]
            self.ended.append(unit)
            self.open[slot] = self.store.begin(f"p{len(self.ended) + 2}")
            return unit

        def _commit(self, unit: Unit) -> None:
            version = self.store.version

            self.store.commit(unit)

            assert self.store.version == version
            seen["commit"] += 1

        def _undo(self, unit: Unit) -> None:
            before = {tenant: self.expected(tenant) for tenant in (None, "t", "u")}
            version = self.store.version
            self.aborted.add(id(unit))

            appended = list(self.store.undo(unit))

            assert appended == list(self.store.transitions_since(version))
            assert all(t.proposal_id == unit.proposal_id for t in appended)
            changed = {
                (tenant, key)
                for tenant, old in before.items()
                for key in {*old, *self.expected(tenant)}
                if exactly(old.get(key, "none")) != exactly(self.expected(tenant).get(key, "none"))
            }
            assert changed <= {(t.tenant, t.key) for t in appended}, "a change that no transition tells of"
            wrote = {(tenant, key) for tenant, key, whose, _ in self.writes if whose is unit}
            assert {(t.tenant, t.key) for t in appended} <= wrote, "it touched what was not its own"
            seen["undo"] += 1
            seen["undo that showed"] += bool(changed)
            seen["undo that was covered"] += bool(wrote and not changed)

        @rule(tenant=tenants, key=keys, bad=not_json, slot=slots)
        def refuse(self, tenant: str | None, key: str, bad: Any, slot: int) -> None:
            unit = self.open[slot]
            version = self.store.version

            with pytest.raises(NotJson):
                self.store.scoped(tenant).set(key, bad, unit=unit)
            with pytest.raises(NotJson):
                self.store.scoped(tenant).replace_all({"k0": 1, key: bad})

            assert self.store.version == version

        @rule(tenant=tenants, key=keys)
        def spoil_what_is_handed_out(self, tenant: str | None, key: str) -> None:
            space = self.store.scoped(tenant)
            spoil(space.get(key))
            spoil(space.snapshot())

        @invariant()
        def holds_what_the_list_says(self) -> None:
            for tenant in (None, "t", "u"):
                space, expected = self.store.scoped(tenant), self.expected(tenant)
                assert exactly(space.snapshot()) == exactly(expected)
                assert sorted(space.keys()) == sorted(expected)
                for key in ("k0", "k1", "k2", "", "never"):
                    assert space.exists(key) == (key in expected)
                    assert exactly(space.get(key, "none")) == exactly(expected.get(key, "none"))

        @invariant()
        def the_log_only_grows_and_tells_everything(self) -> None:
            log = list(self.store.transitions_since(0))
            assert log[: len(self.logged)] == self.logged
            self.logged = log
            assert [t.version for t in log] == sorted({t.version for t in log})
            assert self.store.version == (log[-1].version if log else 0)
            told: dict[tuple[str | None, str], Any] = {}
            versions: dict[tuple[str | None, str], int] = {}
            for t in log:
                assert exactly(t.old) == exactly(told.get((t.tenant, t.key), MISSING))
                told[t.tenant, t.key] = t.new
                versions[t.tenant, t.key] = t.version
            for tenant in (None, "t", "u"):
                space = self.store.scoped(tenant)
                last = {key: v for (whose, key), v in told.items() if whose == tenant and v is not MISSING}
                assert exactly(space.snapshot()) == exactly(last)
                for key in ("k0", "k1", "k2", "never"):
                    assert space.version_of(key) == versions.get((tenant, key), 0)

    return Machine


def test_memory_state_does_what_a_list_of_writes_would_do() -> None:
    seen: Counter[str] = Counter()

    run_state_machine_as_test(
        machine_for(MemoryState, seen), settings=settings(examples(300), stateful_step_count=40)
    )

    print(dict(seen))
    assert seen["undo that showed"] >= 20
    assert seen["undo that was covered"] >= 10
    assert seen["over another's write"] >= 20
    assert seen["commit"] >= 20
    assert seen["delete"] >= 20
