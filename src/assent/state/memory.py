"""The state in memory.

Keep true:
1. A value handed in or out is never aliased.
2. Undo costs what the proposal changed, not what is stored, and appends to the log.
3. With several proposals at once a key's value is its newest write by one that has not aborted.
4. The log is bounded: a store that lives for years does not grow with the number of writes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from time import time

from assent.errors import UsageError
from assent.ir.json_value import JsonValue, copy_json
from assent.state.store import MISSING, Missing, Transition, Unit

_Cell = JsonValue | Missing
_Pending = list[tuple[Unit | None, _Cell]]
"""A key that running proposals wrote: its settled value first, then the writes, oldest to newest."""


class MemoryNamespace:
    """One tenant's keys."""

    __slots__ = ("_pending", "_store", "_values", "_versions", "tenant")

    def __init__(self, store: MemoryState, tenant: str | None) -> None:
        self.tenant = tenant
        self._store = store
        self._values: dict[str, JsonValue] = {}
        self._versions: dict[str, int] = {}
        self._pending: dict[str, _Pending] = {}

    def get(self, key: str, default: JsonValue = None) -> JsonValue:
        """A copy of the value, or `default`."""
        return copy_json(self._values[key]) if key in self._values else default

    def exists(self, key: str) -> bool:
        """Whether the key holds a value; null is one."""
        return key in self._values

    def keys(self) -> Sequence[str]:
        """All keys, in the order in which they were first written."""
        return list(self._values)

    def version_of(self, key: str) -> int:
        """The version at which the key last changed; 0 if it never did."""
        return self._versions.get(key, 0)

    def snapshot(self) -> dict[str, JsonValue]:
        """A copy of everything."""
        return {key: copy_json(value) for key, value in self._values.items()}

    def set(
        self, key: str, value: JsonValue, *, action_id: str | None = None, unit: Unit | None = None
    ) -> None:
        """Write a copy of `value`."""
        if type(key) is not str:
            raise UsageError(f"A state key is a string, not a {type(key).__name__}: {key!r:.80}")
        self._write(key, copy_json(value, "value"), action_id, unit)

    def delete(self, key: str, *, action_id: str | None = None, unit: Unit | None = None) -> bool:
        """Remove a key; false if there was none."""
        if key not in self._values:
            return False
        self._write(key, MISSING, action_id, unit)
        return True

    def replace_all(self, values: Mapping[str, JsonValue]) -> None:
        """Make this namespace hold exactly `values`."""
        fresh = {key: copy_json(value, f"state['{key}']") for key, value in values.items()}
        for key in list(self._values):
            if key not in fresh:
                self._write(key, MISSING, None, None)
        for key, value in fresh.items():
            self._write(key, value, None, None)

    def _write(self, key: str, cell: _Cell, action_id: str | None, unit: Unit | None) -> None:
        pending = self._pending.get(key)
        if unit is not None:
            if pending is None:
                self._pending[key] = [(None, self._values.get(key, MISSING)), (unit, cell)]
                unit.keys.add((self.tenant, key))
            elif pending[-1][0] is unit:
                pending[-1] = (unit, cell)
            else:
                pending.append((unit, cell))
                unit.keys.add((self.tenant, key))
        elif pending is not None:
            # A write of nobody's proposal is settled at once, and so is everything under it.
            del self._pending[key]
        self._put(key, cell, action_id, unit.proposal_id if unit is not None else None)

    def _put(self, key: str, cell: _Cell, action_id: str | None, proposal_id: str | None) -> Transition:
        old = self._values.get(key, MISSING)
        if cell is MISSING:
            self._values.pop(key, None)
        else:
            self._values[key] = cell
        store = self._store
        store.version = version = store.version + 1
        self._versions[key] = version
        transition = Transition(version, key, old, cell, action_id, proposal_id, store.clock(), self.tenant)
        store.log.append(transition)
        return transition

    def settle(self, key: str, unit: Unit) -> None:
        """`unit` keeps its write of `key`: nothing under it can come back."""
        pending = self._pending.get(key)
        if pending is None:
            return
        if len(pending) == 2:
            if pending[1][0] is unit:
                del self._pending[key]
            return
        last = max((i for i, (owner, _) in enumerate(pending) if owner is unit), default=0)
        if last == len(pending) - 1:
            del self._pending[key]
        elif last:
            self._pending[key] = [(None, pending[last][1]), *pending[last + 1 :]]

    def retract(self, key: str, unit: Unit) -> Transition | None:
        """`unit` loses its writes of `key`; the newest write of another comes back, if that changes it."""
        pending = self._pending.get(key)
        if pending is None:
            return None
        was_newest = pending[-1][0] is unit
        kept = [entry for entry in pending if entry[0] is not unit]
        if len(kept) == 1:
            del self._pending[key]
        else:
            self._pending[key] = kept
        return self._put(key, kept[-1][1], None, unit.proposal_id) if was_newest else None


class MemoryState(MemoryNamespace):
    """All namespaces in memory, and the log; the store itself is the unscoped namespace."""

    __slots__ = ("_tenants", "clock", "log", "version")

    def __init__(
        self,
        values: Mapping[str, JsonValue] | None = None,
        *,
        clock: Callable[[], float] = time,
        keep_transitions: int = 50_000,
    ) -> None:
        super().__init__(self, None)
        self.clock = clock
        self.version = 0
        self.log: deque[Transition] = deque(maxlen=keep_transitions)
        self._tenants: dict[str, MemoryNamespace] = {}
        for key, value in (values or {}).items():
            self.set(key, value)

    def scoped(self, tenant: str | None) -> MemoryNamespace:
        """A namespace of its own; None is the unscoped one."""
        if tenant is None:
            return self
        if tenant not in self._tenants:
            self._tenants[tenant] = MemoryNamespace(self, tenant)
        return self._tenants[tenant]

    def tenants(self) -> Sequence[str]:
        """Every tenant that was ever scoped to here."""
        return list(self._tenants)

    def transitions_since(self, version: int) -> Sequence[Transition]:
        """Changes after `version`, oldest first.

        Raises:
            UsageError: some of them are no longer kept.
        """
        missed = self.version - version
        if missed > len(self.log):
            oldest = self.version - len(self.log)
            raise UsageError(
                f"Transitions after version {version} are no longer all kept; the oldest kept follow version "
                f"{oldest}. Ask from there, or build the store with a larger keep_transitions."
            )
        return list(islice(self.log, len(self.log) - missed, None)) if missed > 0 else []

    def begin(self, proposal_id: str) -> Unit:
        """Open a unit of writes."""
        return Unit(proposal_id)

    def commit(self, unit: Unit) -> None:
        """Keep what the unit wrote, for good."""
        for tenant, key in unit.keys:
            self.scoped(tenant).settle(key, unit)
        unit.keys.clear()

    def undo(self, unit: Unit) -> Sequence[Transition]:
        """Take back what the unit wrote; returns the transitions that say so."""
        undone = []
        for tenant, key in sorted(unit.keys, key=lambda pair: (pair[0] or "", pair[1])):
            transition = self.scoped(tenant).retract(key, unit)
            if transition is not None:
                undone.append(transition)
        unit.keys.clear()
        return undone
