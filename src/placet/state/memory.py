"""The state in memory.

Keep true:
1. A value handed in or out is never aliased.
2. Undo costs what the proposal changed, not what is stored, and appends to the log.
3. With several proposals at once a key's value is its newest write by one that has not aborted.
4. A store that lives for years grows with what it holds, not with the number of writes: the log is
   bounded, and so is what is remembered of keys and tenants that are gone.
5. `version_of` is never smaller than the truth: an assumption may break without need, never hold wrongly.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from time import time
from weakref import WeakValueDictionary

from placet.errors import UsageError
from placet.ir.json_value import JsonValue, copy_json
from placet.state.store import MISSING, Missing, Transition, Unit
from placet.truncation import truncate_repr

_Cell = JsonValue | Missing
_Pending = list[tuple[Unit | None, _Cell]]
"""A key that running proposals wrote: its settled value first, then the writes, oldest to newest."""


class MemoryNamespace:
    """One tenant's keys."""

    __slots__ = ("__weakref__", "_pending", "_store", "_values", "_versions", "tenant")

    def __init__(self, store: MemoryState, tenant: str | None) -> None:
        self.tenant = tenant
        self._store = store
        self._values: dict[str, JsonValue] = {}
        self._versions: dict[str, int] = {}
        """Of the keys that hold a value; the store remembers those that are gone, for a while."""
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
        """The version at which the key last changed; 0 if it never did.

        Of keys that are gone only the last `keep_transitions` are remembered; any other key without a value
        is said to have changed when the newest forgotten one did.
        """
        found = self._versions.get(key)
        if found is not None:
            return found
        store = self._store
        return store._vanished.get((self.tenant, key), store._forgotten)

    def snapshot(self) -> dict[str, JsonValue]:
        """A copy of everything."""
        return {key: copy_json(value) for key, value in self._values.items()}

    def set(
        self, key: str, value: JsonValue, *, action_id: str | None = None, unit: Unit | None = None
    ) -> None:
        """Write a copy of `value`."""
        if type(key) is not str:
            raise UsageError(f"A state key is a string, not a {type(key).__name__}: {truncate_repr(key, 80)}")
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
        store = self._store
        store.version = version = store.version + 1
        if cell is MISSING:
            self._values.pop(key, None)
            self._versions.pop(key, None)
            store.note_vanished(self.tenant, key, version)
        else:
            self._values[key] = cell
            self._versions[key] = version
            if old is MISSING and store._vanished:
                store._vanished.pop((self.tenant, key), None)
        if (cell is MISSING or old is MISSING) and self.tenant is not None:
            store.hold(self)
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
                if not self._values and self.tenant is not None:
                    self._store.hold(self)
            return
        last = max((i for i, (owner, _) in enumerate(pending) if owner is unit), default=0)
        if last == len(pending) - 1:
            del self._pending[key]
            if not self._values and self.tenant is not None:
                self._store.hold(self)
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
    """The state in memory."""

    __slots__ = ("_forgotten", "_handed_out", "_tenants", "_vanished", "clock", "log", "version")

    def __init__(
        self,
        values: Mapping[str, JsonValue] | None = None,
        *,
        clock: Callable[[], float] = time,
        keep_transitions: int = 50_000,
    ) -> None:
        """Create a store.

        Args:
            values: Initial values of the shared namespace.
            clock: Returns seconds since the epoch.
            keep_transitions: How many changes the log holds.
        """
        super().__init__(self, None)
        self.clock = clock
        self.version = 0
        self.log: deque[Transition] = deque(maxlen=keep_transitions)
        self._tenants: dict[str, MemoryNamespace] = {}
        """Those that hold something."""
        self._handed_out: WeakValueDictionary[str, MemoryNamespace] = WeakValueDictionary()
        """All that somebody may still write through, so that there is never a second one of a tenant."""
        # Not a plain dict: taking the first out of one, time and again, costs more each time.
        self._vanished: OrderedDict[tuple[str | None, str], int] = OrderedDict()
        """(tenant, key) of keys that are gone, oldest first, and since which version."""
        self._forgotten = 0
        """The version of the newest that is no longer among them."""
        for key, value in (values or {}).items():
            self.set(key, value)

    def scoped(self, tenant: str | None) -> MemoryNamespace:
        """A namespace of its own; None is the unscoped one."""
        if tenant is None:
            return self
        found = self._tenants.get(tenant) or self._handed_out.get(tenant)
        if found is None:
            # Looking keeps nothing: the first write will.
            self._handed_out[tenant] = found = MemoryNamespace(self, tenant)
        return found

    def hold(self, namespace: MemoryNamespace) -> None:
        """Keep a tenant's namespace exactly as long as it holds something, or an open unit wrote to it."""
        assert namespace.tenant is not None
        if namespace._values or namespace._pending:
            self._tenants[namespace.tenant] = namespace
        else:
            self._tenants.pop(namespace.tenant, None)

    def note_vanished(self, tenant: str | None, key: str, version: int) -> None:
        """Remember since when a key is gone, and forget the oldest where there are too many."""
        self._vanished.pop((tenant, key), None)
        self._vanished[tenant, key] = version
        if len(self._vanished) > (self.log.maxlen or 0):
            _, self._forgotten = self._vanished.popitem(last=False)

    @property
    def is_empty(self) -> bool:
        """Whether no namespace holds anything."""
        return not self._values and not self._tenants

    def tenants(self) -> Sequence[str]:
        """Every tenant that holds something."""
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
