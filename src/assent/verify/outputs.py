"""What references will find: the outputs of a plan's actions, as far as they are known beforehand.

What a tool answers is not known. It still has an origin: two values that come from the same call, in this
plan or in another that shares the table of origins, are equal whatever they turn out to be.

Keep true:
1. A reference into a known output either has a value or is a problem; one into an unknown output is open.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from assent.errors import NotJson
from assent.ir.action import Action
from assent.ir.json_value import JsonValue, canonical_bytes, copy_json
from assent.ir.references import MissingPath, Reference, find_references, resolve
from assent.state.store import MISSING
from assent.validator import Undecided, parameter_problems
from assent.verify.simulation import FROM_TOOL, SimulatedState, Unknown

Blanks = dict[str, Unknown]
"""Parameters whose value is not known, by name."""

UNKNOWN_OUTPUT = Unknown(FROM_TOOL, exists=True)


class Resolved(NamedTuple):
    """An action with its references replaced."""

    action: Action
    """With the parameters that are known."""
    blanks: Blanks
    problems: list[str]
    open_questions: list[str]


class Outputs:
    """The outputs so far, by action id."""

    __slots__ = ("_found", "_origins", "_times")

    def __init__(self, origins: dict[bytes, int] | None = None) -> None:
        """Without a table of `origins` unknown values are not told apart."""
        self._found: dict[str, Any] = {}
        self._origins = origins
        self._times: dict[bytes, int] = {}

    def resolve(self, action: Action) -> Resolved:
        """Replace the references of an action."""
        known: dict[str, JsonValue] = {}
        blanks: Blanks = {}
        problems: list[str] = []
        open_questions: list[str] = []
        for name, value in action.parameters.items():
            try:
                known[name] = resolve(value, self._look_up)
                if action.type == "state_write":
                    # What is put together from several values can be deeper than a state may hold.
                    copy_json(known[name], f"parameters.{name}")
            except (MissingPath, NotJson) as why:
                problems.append(str(why))
                blanks[name] = UNKNOWN_OUTPUT
            except _Blank:
                blanks[name] = self._blank(value)
                self._try_paths(value, problems, open_questions)
        resolved = msgspec.structs.replace(action, parameters=known)
        if blanks and action.type != "tool_call" and "key" not in blanks:
            # The gate cannot tell a key that is not known yet from one that is not given.
            problems += parameter_problems(resolved, None)
        return Resolved(resolved, blanks, problems, open_questions)

    def keep(self, action: Action, blanks: Blanks | None, state: SimulatedState) -> None:
        """Note what later references to the action find."""
        self._found[action.id] = self._output(action, blanks or {}, state)

    def _look_up(self, reference: Reference) -> JsonValue:
        output = self._found[reference.action_id]
        if type(output) is Unknown:
            raise _Blank
        return reference.lookup(output)

    def _try_paths(self, value: JsonValue, problems: list[str], open_questions: list[str]) -> None:
        """Which references of a value lead nowhere, and which may turn out to."""
        for reference in dict.fromkeys(find_references(value)):
            output = self._found[reference.action_id]
            if type(output) is not Unknown:
                try:
                    reference.lookup(output)
                except MissingPath as why:
                    problems.append(str(why))
            elif reference.path:
                open_questions.append(
                    f"whether '{reference}' exists depends on the output of '{reference.action_id}'"
                )

    def _output(self, action: Action, blanks: Blanks, state: SimulatedState) -> Any:
        """A value, or an Unknown."""
        if action.type == "tool_call":
            return self._answer(action, blanks)
        if "key" in blanks:
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

    def _answer(self, action: Action, blanks: Blanks) -> Unknown:
        if self._origins is None:
            return UNKNOWN_OUTPUT
        from_others = {name: blank.origin for name, blank in blanks.items()}
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
        except (_Blank, MissingPath):
            return UNKNOWN_OUTPUT

    def _placeholder(self, reference: Reference) -> JsonValue:
        output = self._found[reference.action_id]
        if type(output) is not Unknown:
            return reference.lookup(output)
        if output.origin is None:
            raise _Blank
        return {"\0origin": output.origin, "path": reference.path}

    def _origin(self, description: JsonValue) -> int:
        assert self._origins is not None
        return self._origins.setdefault(canonical_bytes(description), len(self._origins))


class _Blank(Exception):
    """A reference leads to a value that is not known."""
