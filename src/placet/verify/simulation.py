"""A state that exists only in thought: what is known of it while a plan is gone through on paper.

The checks read it like any other state. Where the answer cannot be known before the plan runs, reading
raises `Undecided`; nothing is guessed.

Keep true:
1. Nothing the caller handed in is changed or aliased.
2. Writing costs the same whatever was written before, also when the key itself is not known.
3. Keys only come into being: nothing in a plan deletes one, so what existed goes on existing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from placet.errors import UsageError
from placet.ir.json_value import JsonValue, copy_json
from placet.state.store import MISSING, StateView
from placet.truncation import truncate_repr
from placet.validator import Undecided

_SCALARS = frozenset({str, int, bool, float, type(None)})
_NOT_GIVEN = "cannot be checked: the starting state is not given"
_BLURRED = "cannot be checked: an earlier action writes a key that is not known yet"
_VERSION = "cannot be checked: versions are only known to the store itself"
_FUTURE = "cannot be checked: it names a version that does not exist yet"
_SKIPPED = "cannot be checked: the action does not run"
FROM_TOOL = "cannot be checked: the value depends on the output of a tool"
MAYBE = "cannot be checked: whether an earlier action writes the key is undecided"


class Unknown:
    """Stands where a value would be: there is one, or may be, but nobody can know it yet."""

    __slots__ = ("exists", "origin", "why")

    def __init__(self, why: str, *, exists: bool, origin: int | None = None) -> None:
        self.why = why
        self.exists = exists
        """Whether the key surely has some value."""
        self.origin = origin
        """Values of one origin are equal, whatever they turn out to be; None is equal to nothing."""


class _NextVersion(int):
    """The version of a write still to come: greater than this number, which is the latest there is."""

    def _is_later(self, other: int) -> bool:
        if other <= int(self):
            return True
        raise Undecided(_FUTURE)

    __gt__ = __ge__ = __ne__ = _is_later  # type: ignore[assignment]

    def _is_not_later(self, other: int) -> bool:
        return not self._is_later(other)

    __lt__ = __le__ = __eq__ = _is_not_later  # type: ignore[assignment]
    __hash__ = int.__hash__


class SimulatedState:
    """A starting state, known or not, and what a plan would have written over it so far."""

    __slots__ = ("_base", "_exist", "_view", "cells", "is_blurred")

    def __init__(self, state: Mapping[str, JsonValue] | None = None, view: StateView | None = None) -> None:
        """`view` is a real store, with versions; without it `state`; without both nothing is known.

        Raises:
            NotJson: `state` holds what JSON cannot carry.
        """
        if state is not None and not isinstance(state, Mapping):
            raise UsageError(f"state={truncate_repr(state, 80)} is no mapping of keys to values.")
        self._view = view
        self._base: dict[str, JsonValue] | None = None
        if view is None and state is not None:
            self._base = copy_json(dict(state), "state")
        self.cells: dict[str, Any] = {}
        """What the plan wrote: a JSON value, or an Unknown."""
        self.is_blurred = False
        """Whether some key was written that is not known."""
        self._exist: set[str] = set()
        """Keys that surely existed when that happened."""

    # What checks and policies read.

    def get(self, key: str, default: JsonValue = None) -> JsonValue:
        """A copy of the value, or `default`."""
        value = self.peek(key)
        return default if value is MISSING else copy_json(value)

    def exists(self, key: str) -> bool:
        """Whether the key holds a value; null is one."""
        known = self.knows(key)
        if known is None:
            self._raise_why(key)
        return known

    def keys(self) -> Sequence[str]:
        """All keys, sorted."""
        if self.is_blurred:
            raise Undecided(_BLURRED)
        if not self.is_given:
            raise Undecided(_NOT_GIVEN)
        for cell in self.cells.values():
            if type(cell) is Unknown and not cell.exists:
                raise Undecided(cell.why)
        return sorted({*self._base_keys(), *self.cells})

    def version_of(self, key: str) -> int:
        """The version at which the key last changed; 0 if it never did."""
        if self._view is None:
            raise Undecided(_VERSION)
        if key in self.cells:
            cell = self.cells[key]
            if type(cell) is Unknown and cell.why is MAYBE:
                raise Undecided(MAYBE)
            # A view that knows the store's version lets more be decided; the key's own is a lower bound.
            now = getattr(self._view, "version", None)
            return _NextVersion(now if isinstance(now, int) else self._view.version_of(key))
        if self.is_blurred:
            raise Undecided(_BLURRED)
        return self._view.version_of(key)

    def snapshot(self) -> dict[str, JsonValue]:
        """A copy of everything."""
        return {key: self.get(key) for key in self.keys()}

    # What the rehearsal reads and writes.

    @property
    def is_given(self) -> bool:
        """Whether the starting state is known."""
        return self._base is not None or self._view is not None

    def knows(self, key: str) -> bool | None:
        """Whether the key exists; None if that is not known."""
        if key in self.cells:
            cell = self.cells[key]
            return True if type(cell) is not Unknown or cell.exists else None
        if self._base is not None:
            found = key in self._base
        elif self._view is not None:
            found = self._view.exists(key)
        else:
            return True if key in self._exist else None
        if found or key in self._exist:
            return True
        return None if self.is_blurred else False

    def peek(self, key: str) -> Any:
        """The value itself, not to be changed, or MISSING.

        Raises:
            Undecided: it is not known.
        """
        if key in self.cells:
            cell = self.cells[key]
            if type(cell) is Unknown:
                raise Undecided(cell.why)
            return cell
        if self.is_blurred:
            raise Undecided(_BLURRED)
        if self._base is not None:
            return self._base.get(key, MISSING)
        if self._view is not None:
            return self._view.get(key) if self._view.exists(key) else MISSING
        raise Undecided(_NOT_GIVEN)

    def blur(self) -> None:
        """Some key was written, or may have been, and it is not known which."""
        self._exist.update(
            key for key, cell in self.cells.items() if type(cell) is not Unknown or cell.exists
        )
        self.cells.clear()
        self.is_blurred = True

    def doubt(self, key: str) -> None:
        """The key was written, or not."""
        self.cells[key] = Unknown(MAYBE, exists=self.knows(key) is True)

    def doubt_all(self) -> None:
        """Everything the plan wrote was written, or not."""
        for key in self.cells:
            self.doubt(key)

    def _base_keys(self) -> Sequence[str]:
        if self._base is not None:
            return list(self._base)
        return self._view.keys() if self._view is not None else ()

    def _raise_why(self, key: str) -> NoReturn:
        if key in self.cells:
            raise Undecided(self.cells[key].why)
        raise Undecided(_BLURRED if self.is_blurred else _NOT_GIVEN)

    # What comes out.

    def start(self) -> dict[str, JsonValue]:
        """The state as it was before the plan, as far as it is given; keys sorted."""
        found = self._view.snapshot() if self._view is not None else self._base or {}
        return {key: found[key] for key in sorted(found)}

    def end(self) -> tuple[dict[str, JsonValue], list[str]]:
        """The state after the plan, and the keys whose value is not known.

        Keys that the plan adds stand last, as they are written: sorting them too would cost more than all
        the rest, and the order is the plan's own anyway.
        """
        known: dict[str, JsonValue] = {} if self.is_blurred else self.start()
        unknown = {*self._exist, *self._base_keys()} if self.is_blurred else set()
        known.update(self.cells)
        for key, cell in self.cells.items():
            if type(cell) in _SCALARS:
                continue
            if type(cell) is Unknown:
                del known[key]
                unknown.add(key)
            else:
                known[key] = copy_json(cell)
        return known, sorted(unknown - known.keys()) if unknown else []


class Blindfold:
    """A state of which nothing can be read: for what can be said of an action wherever it runs."""

    def get(self, key: str, default: JsonValue = None) -> JsonValue:
        """Not known."""
        raise Undecided(_SKIPPED)

    def exists(self, key: str) -> bool:
        """Not known."""
        raise Undecided(_SKIPPED)

    def keys(self) -> Sequence[str]:
        """Not known."""
        raise Undecided(_SKIPPED)

    def version_of(self, key: str) -> int:
        """Not known."""
        raise Undecided(_SKIPPED)

    def snapshot(self) -> dict[str, JsonValue]:
        """Not known."""
        raise Undecided(_SKIPPED)
