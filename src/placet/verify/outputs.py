"""What references will find: the outputs of a plan's actions, as far as they are known beforehand.

What a tool answers is not known. It still has an origin: two values that come from the same call, in this
plan or in another that shares the table of origins, are equal whatever they turn out to be.

Keep true:
1. A reference into a known output either has a value or is a problem; one into an unknown output is open.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from placet.errors import NotJson
from placet.ir.action import Action
from placet.ir.json_value import JsonValue, canonical_bytes, copy_json
from placet.ir.references import MissingPath, Reference, resolve
from placet.state.store import MISSING
from placet.validator import Undecided
from placet.verify.blanks import HOLE, Blank, Blanks
from placet.verify.known_tools import ToolCards
from placet.verify.simulation import FROM_TOOL, SimulatedState, Unknown

UNKNOWN_OUTPUT = Unknown(FROM_TOOL, exists=True)
_NOTHING_KNOWN = Blank(UNKNOWN_OUTPUT, HOLE)


class Resolved(NamedTuple):
    """An action with its references replaced."""

    action: Action
    """With the parameters that are known."""
    blanks: Blanks | None
    """The others."""
    problems: list[str]


class Outputs:
    """The outputs so far, by action id."""

    __slots__ = ("_cards", "_found", "_origins", "_times")

    def __init__(self, cards: ToolCards, origins: dict[bytes, int] | None = None) -> None:
        """Without a table of `origins` unknown values are not told apart."""
        self._cards = cards
        self._found: dict[str, Any] = {}
        self._origins = origins
        self._times: dict[bytes, int] = {}

    def resolve(self, action: Action) -> Resolved:
        """Replace the references of an action. An output that was not kept is not known."""
        known: dict[str, JsonValue] = {}
        blanks = Blanks(self._cards)
        problems: list[str] = []
        unknown: list[Reference] = []

        def look_up(reference: Reference) -> JsonValue:
            output = self._found.get(reference.action_id, UNKNOWN_OUTPUT)
            if type(output) is Unknown:
                unknown.append(reference)
                return HOLE
            try:
                return reference.lookup(output)
            except MissingPath as why:
                problems.append(str(why))
                return HOLE

        for name, value in action.parameters.items():
            so_far = len(problems)
            filled_in = resolve(value, look_up)
            if unknown:
                blanks[name] = Blank(self._blank(value), filled_in)
                blanks.need(unknown)
                unknown.clear()
                continue
            if action.type == "state_write" and len(problems) == so_far:
                # What is put together from several values can be deeper than a state may hold.
                try:
                    copy_json(filled_in, f"parameters.{name}")
                except NotJson as why:
                    problems.append(str(why))
            if len(problems) == so_far:
                known[name] = filled_in
            else:
                blanks[name] = _NOTHING_KNOWN
        resolved = msgspec.structs.replace(action, parameters=known)
        return Resolved(resolved, blanks or None, list(dict.fromkeys(problems)))

    def keep(self, action: Action, blanks: Blanks | None, state: SimulatedState) -> None:
        """Note what later references to the action find."""
        self._found[action.id] = self._output(action, blanks, state)

    def _output(self, action: Action, blanks: Blanks | None, state: SimulatedState) -> Any:
        """A value, or an Unknown."""
        if action.type == "tool_call":
            return self._answer(action, blanks)
        if blanks and "key" in blanks:
            return UNKNOWN_OUTPUT
        key = action.parameters["key"]
        if action.type == "state_write":
            return f"written: {key}"
        try:
            value = state.peek(key)
        except Undecided:
            cell = state.cells.get(key)
            return cell if type(cell) is Unknown and action.type == "state_read" else UNKNOWN_OUTPUT
        value = None if value is MISSING else value
        return {"asserted": key, "value": value} if action.type == "assertion" else value

    # Where unknown values come from.

    def _answer(self, action: Action, blanks: Blanks | None) -> Unknown:
        if self._origins is None:
            return UNKNOWN_OUTPUT
        from_others = {name: blank.value.origin for name, blank in (blanks or {}).items()}
        if None in from_others.values():
            return UNKNOWN_OUTPUT
        call = canonical_bytes([action.tool, action.parameters, from_others])
        # The second of two equal calls need not answer like the first.
        self._times[call] = nth = self._times.get(call, 0) + 1
        return Unknown(FROM_TOOL, exists=True, origin=self._origin([call.decode(), nth]))

    def _blank(self, value: JsonValue) -> Unknown:
        if self._origins is None:
            return UNKNOWN_OUTPUT
        try:
            return Unknown(FROM_TOOL, exists=True, origin=self._origin(resolve(value, self._placeholder)))
        except (_NoOrigin, MissingPath):
            return UNKNOWN_OUTPUT

    def _placeholder(self, reference: Reference) -> JsonValue:
        output = self._found.get(reference.action_id, UNKNOWN_OUTPUT)
        if type(output) is not Unknown:
            return reference.lookup(output)
        if output.origin is None:
            raise _NoOrigin
        return {"\0origin": output.origin, "path": reference.path}

    def _origin(self, description: JsonValue) -> int:
        assert self._origins is not None
        return self._origins.setdefault(canonical_bytes(description), len(self._origins))


class _NoOrigin(Exception):
    """A reference leads to a value that cannot be told from others."""
