"""The seam between the runtime and whatever keeps the state.

Proposals do not hide their writes from each other while they run; an action that must not act on a
changed value says so with `assumptions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from placet.ir.json_value import JsonValue
from placet.ir.to_dict import ToDict


class Missing:
    """The type of MISSING."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = Missing()
"""No value at all, where null would be a value."""


class Transition(ToDict, msgspec.Struct, frozen=True, gc=False):
    """One change of one state key."""

    version: int
    """Version of the state after the change."""
    key: str
    """The state key."""
    old: JsonValue | Missing
    """Value before; `MISSING` if the key did not exist."""
    new: JsonValue | Missing
    """Value after; `MISSING` if the key was deleted."""
    action_id: str | None
    """The action that wrote it."""
    proposal_id: str | None
    """The proposal that wrote it."""
    time: float
    """Seconds since the epoch."""
    tenant: str | None = None
    """Tenant whose namespace was changed."""


class Unit:
    """The writes of one running proposal, so that they can be undone together."""

    __slots__ = ("keys", "proposal_id")

    def __init__(self, proposal_id: str) -> None:
        self.proposal_id = proposal_id
        self.keys: set[tuple[str | None, str]] = set()
        """(tenant, key) of everything it wrote."""


class StateView(Protocol):
    """Protocol of a namespace of the state, for reading."""

    def get(self, key: str, default: JsonValue = None) -> JsonValue:
        """Return a copy of a value.

        Args:
            key: The state key.
            default: Returned if the key does not exist.
        """
        ...

    def exists(self, key: str) -> bool:
        """Return whether a key exists; null is a value.

        Args:
            key: The state key.
        """
        ...

    def keys(self) -> Sequence[str]:
        """Return all keys."""
        ...

    def version_of(self, key: str) -> int:
        """Return the version at which a key last changed; 0 if it never did.

        For a deleted key, the version may be larger than that, never smaller: a store need not remember
        deleted keys forever.

        Args:
            key: The state key.
        """
        ...

    def snapshot(self) -> dict[str, JsonValue]:
        """Return a copy of all values."""
        ...


class Namespace(StateView, Protocol):
    """Protocol of a namespace of the state: the keys of one tenant, or the shared ones."""

    def set(
        self, key: str, value: JsonValue, *, action_id: str | None = None, unit: Unit | None = None
    ) -> None:
        """Write a value.

        Args:
            key: The state key.
            value: The value, as JSON.
            action_id: The action that writes it.
            unit: The unit of writes that it belongs to.

        Raises:
            NotJson: the value is not JSON.
        """
        ...

    def delete(self, key: str, *, action_id: str | None = None, unit: Unit | None = None) -> bool:
        """Delete a key and return whether it existed.

        Args:
            key: The state key.
            action_id: The action that deletes it.
            unit: The unit of writes that it belongs to.
        """
        ...

    def replace_all(self, values: dict[str, JsonValue]) -> None:
        """Replace all keys of this namespace.

        Args:
            values: The new values by key.
        """
        ...


class StateStore(Namespace, Protocol):
    """Protocol of state stores: all namespaces, and the log of changes. The store itself is the shared
    namespace. Implementations pass `state_store_suite`.
    """

    @property
    def version(self) -> int:
        """Number of changes so far, in all namespaces."""
        ...

    def scoped(self, tenant: str | None) -> Namespace:
        """Return the namespace of a tenant, separate from all others.

        Args:
            tenant: The tenant. `None`: the shared namespace.
        """
        ...

    def tenants(self) -> Sequence[str]:
        """Return the tenants that have any key."""
        ...

    def transitions_since(self, version: int) -> Sequence[Transition]:
        """Return the changes after a version, oldest first.

        Args:
            version: The version.
        """
        ...

    def begin(self, proposal_id: str) -> Unit:
        """Open a unit of writes, which can be undone together.

        Args:
            proposal_id: Id of the proposal that writes.
        """
        ...

    def commit(self, unit: Unit) -> None:
        """Make the writes of a unit permanent.

        Args:
            unit: The unit.
        """
        ...

    def undo(self, unit: Unit) -> Sequence[Transition]:
        """Undo the writes of a unit and return the changes. Each key gets its newest value from a proposal
        that was not undone.

        Args:
            unit: The unit.
        """
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
