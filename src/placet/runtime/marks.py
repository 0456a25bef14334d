"""The marks on state keys, kept beside the state and undone with it.

They lie in a store of their own, of the same kind as the state: so whatever holds for values when proposals
overlap or abort, holds for the marks on them.

Keep true: a value that an action wrote has exactly the marks that went into it. What a program writes into
the state past every action leaves the marks of the key as they are: too many rather than too few.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from weakref import WeakKeyDictionary

from placet.ir.tool_spec import Mark
from placet.policy.marks import NO_MARKS, Marks, Trail, union
from placet.state.memory import MemoryNamespace, MemoryState
from placet.state.store import StateStore, Unit

Kept = dict[str, dict[Mark, list[str]]]
"""Marks as JSON: by key, then by mark, the steps of the trail."""


class StateMarks:
    """The marks of one tenant, written under one unit."""

    def __init__(self, namespace: MemoryNamespace, unit: Unit | None = None) -> None:
        self._namespace = namespace
        self._unit = unit

    def get(self, key: str) -> Marks:
        """The marks on a key."""
        kept = self._namespace.get(key)
        return {mark: Trail(tuple(steps)) for mark, steps in kept.items()} if kept else NO_MARKS

    def anything(self) -> Marks:
        """Every mark that some key has."""
        return union(*map(self.get, self._namespace.keys()))

    def put(self, key: str, marks: Marks) -> None:
        """What was written has these marks, and no others."""
        if marks:
            self._namespace.set(key, {m: list(t.steps) for m, t in marks.items()}, unit=self._unit)
        else:
            self._namespace.delete(key, unit=self._unit)


class MarkBook:
    """The marks on all keys of one state store."""

    def __init__(self) -> None:
        self._store = MemoryState(keep_transitions=1)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is marked."""
        return self._store.is_empty

    def begin(self, proposal_id: str) -> Unit:
        """Open a unit of writes."""
        return self._store.begin(proposal_id)

    def commit(self, unit: Unit) -> None:
        """Keep what was marked."""
        self._store.commit(unit)

    def undo(self, unit: Unit) -> None:
        """Take it back."""
        self._store.undo(unit)

    def scoped(self, tenant: str | None, unit: Unit | None = None) -> StateMarks:
        """The marks of one tenant."""
        return StateMarks(self._store.scoped(tenant), unit)

    def kept(self, tenant: str | None, keys: Iterable[str] | None = None) -> Kept:
        """The marks on these keys, or on all."""
        namespace = self._store.scoped(tenant)
        chosen = namespace.keys() if keys is None else keys
        return {key: namespace.get(key) for key in chosen if namespace.exists(key)}

    def replace(self, tenant: str | None, kept: Mapping[str, Mapping[Mark, list[str]]]) -> None:
        """Let a tenant's keys have exactly these marks."""
        self._store.scoped(tenant).replace_all({k: dict(v) for k, v in kept.items()})

    def tenants(self) -> list[str]:
        """Every tenant with a marked key."""
        return list(self._store.tenants())


_BOOKS: WeakKeyDictionary[StateStore, MarkBook] = WeakKeyDictionary()


def marks_of(store: StateStore) -> MarkBook:
    """The marks on a store's keys: one book, however many runtimes share the store."""
    found = _BOOKS.get(store)
    if found is None:
        found = _BOOKS[store] = MarkBook()
    return found
