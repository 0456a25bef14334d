"""The seam between the runtime and whatever keeps the state.

Proposals do not hide their writes from each other while they run; an action that must not act on a
changed value says so with `assumptions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from placet.ir.json_value import JsonValue


class Missing:
    """The type of MISSING."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = Missing()
"""No value at all, where null would be a value."""


class Transition(msgspec.Struct, frozen=True, gc=False):
    """One change of one key."""

    version: int
    key: str
    old: JsonValue | Missing
    """MISSING where the key did not exist."""
    new: JsonValue | Missing
    """MISSING where the key was deleted."""
    action_id: str | None
    proposal_id: str | None
    time: float
    """Seconds since the epoch."""
    tenant: str | None = None


class Unit:
    """The writes of one running proposal, so that they can be undone together."""

    __slots__ = ("keys", "proposal_id")

    def __init__(self, proposal_id: str) -> None:
        self.proposal_id = proposal_id
        self.keys: set[tuple[str | None, str]] = set()
        """(tenant, key) of everything it wrote."""


class StateView(Protocol):
    """One namespace of the state, for reading: what policies and preconditions get to see."""

    def get(self, key: str, default: JsonValue = None) -> JsonValue:
        """A copy of the value, or `default`."""
        ...

    def exists(self, key: str) -> bool: ...

    def keys(self) -> Sequence[str]: ...

    def version_of(self, key: str) -> int:
        """The version at which the key last changed; 0 if it never did.

        Of a key without a value it may be larger, never smaller, than that: a store need not remember for
        ever what is gone.
        """
        ...

    def snapshot(self) -> dict[str, JsonValue]: ...


class Namespace(StateView, Protocol):
    """One tenant's keys, or the unscoped ones."""

    def set(
        self, key: str, value: JsonValue, *, action_id: str | None = None, unit: Unit | None = None
    ) -> None:
        """Write a value.

        Raises:
            NotJson: the value is not JSON.
        """
        ...

    def delete(self, key: str, *, action_id: str | None = None, unit: Unit | None = None) -> bool:
        """Remove a key; false if there was none."""
        ...

    def replace_all(self, values: dict[str, JsonValue]) -> None:
        """Make this namespace hold exactly `values`."""
        ...


class StateStore(Namespace, Protocol):
    """All namespaces, and the log of what changed. The store itself is the unscoped namespace."""

    @property
    def version(self) -> int:
        """Counts every change, in every namespace."""
        ...

    def scoped(self, tenant: str | None) -> Namespace:
        """A namespace of its own: it neither sees nor touches any other."""
        ...

    def tenants(self) -> Sequence[str]:
        """Every tenant that holds something; to look at a namespace does not make one."""
        ...

    def transitions_since(self, version: int) -> Sequence[Transition]:
        """Changes after `version`, oldest first."""
        ...

    def begin(self, proposal_id: str) -> Unit:
        """Open a unit of writes."""
        ...

    def commit(self, unit: Unit) -> None:
        """Keep what the unit wrote, for good."""
        ...

    def undo(self, unit: Unit) -> Sequence[Transition]:
        """Take back what the unit wrote: each key gets its newest write by a proposal that has not
        aborted. Costs what was changed; appends to the log, and returns what it appended."""
        ...


class ReadOnly:
    """A namespace that can only be looked at: what checks and declared rules get."""

    __slots__ = ("exists", "get", "keys", "snapshot", "version_of")

    def __init__(self, namespace: StateView) -> None:
        # Bound methods, not wrappers: looking through costs nothing. They lead back to the store, so a
        # function that is a policy gets one wrapper more.
        self.get = namespace.get
        self.exists = namespace.exists
        self.keys = namespace.keys
        self.version_of = namespace.version_of
        self.snapshot = namespace.snapshot
