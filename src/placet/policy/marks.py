"""Marks on values: where untrusted or secret data came in, and how far it has come.

A tool's output has the marks that the tool declares, and those of everything that went into the call. They
follow references and the state, however deep in a text, a list or an object.

Keep true:
1. A mark is never lost on the way: what is made from a marked value is marked.
2. How far it has come is told in names alone: actions, tools and keys, never values.
3. A trail stays short, however long the chain.
4. A mark that is declared for a field is on every reference that leads to that field, into it or past it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import NamedTuple, Protocol

from placet.ir.action import Action
from placet.ir.fields import overlap, steps_of
from placet.ir.json_value import JsonValue
from placet.ir.provenance import LONGEST_PATH, Labels
from placet.ir.references import Reference, find_references
from placet.ir.tool_spec import Mark
from placet.policy.sources import FieldMarks, Origin, ValueSource
from placet.validator import ToolFacts


class Trail(NamedTuple):
    """How a mark came here, from its source on."""

    steps: tuple[str, ...]
    sure: bool = True
    """False in a rehearsal, where it depends on what has run."""

    def to(self, step: str) -> Trail:
        """One step further."""
        steps = (*self.steps, step)
        if len(steps) > LONGEST_PATH:
            steps = (steps[0], "...", *steps[-(LONGEST_PATH - 2) :])
        return Trail(steps, self.sure)

    def in_words(self) -> str:
        """As one line."""
        return " -> ".join(self.steps)


Marks = Mapping[Mark, Trail]
NO_MARKS: Marks = {}


def union(*all_marks: Marks) -> Marks:
    """Every mark of any of them; of two trails a sure one, else the first."""
    found: dict[Mark, Trail] = {}
    for marks in all_marks:
        for mark, trail in marks.items():
            if mark not in found or (trail.sure and not found[mark].sure):
                found[mark] = trail
    return found or NO_MARKS


class Inflow:
    """The marks that come with the parameters of one action."""

    __slots__ = ("_counts", "_lookup", "_template")

    def __init__(
        self,
        action: Action,
        lookup: Callable[[Reference], Marks],
        counts: Callable[[Reference, Mark, Sequence[ValueSource]], bool] | None = None,
    ) -> None:
        """`action` is the one that the plan holds, its references not resolved. `counts` says whether what a
        reference names comes from one of some sources."""
        self._template: Mapping[str, JsonValue] = action.parameters if action.references else {}
        self._lookup = lookup
        self._counts = counts

    def at(self, param: str | None) -> Marks:
        """The marks on a parameter (`to`, or `message.to` inside an object), or on any of them."""
        if param is None:
            return self._in(self._template)
        inside = self._in(self._inside(param.split(".")))
        # A parameter may also have a dot in its own name.
        return union(inside, self._in(self._template.get(param))) if "." in param else inside

    def unless_from(self, param: str | None, mark: Mark, sources: Sequence[ValueSource]) -> Trail | None:
        """How a mark comes to a parameter, or to any of them, other than from one of the sources.

        Raises:
            Undecided: what is still to run decides.
        """
        counts = self._counts
        if counts is None:
            return self.at(param).get(mark)

        def lookup(reference: Reference) -> Marks:
            marks = self._lookup(reference)
            return NO_MARKS if mark in marks and counts(reference, mark, sources) else marks

        # The same walk, with a lookup that passes over what counts.
        rest = Inflow.__new__(Inflow)
        rest._template, rest._lookup, rest._counts = self._template, lookup, None
        return rest.at(param).get(mark)

    def _inside(self, names: Sequence[str]) -> JsonValue:
        value: JsonValue = self._template
        for name in names:
            if not isinstance(value, dict):
                break  # A reference, or a list: what is in it is not told apart.
            value = value.get(name)
        return value

    def _in(self, value: JsonValue) -> Marks:
        return union(*map(self._lookup, find_references(value)))


class _Unmarked(Inflow):
    def __init__(self) -> None:
        pass

    def at(self, param: str | None) -> Marks:
        return NO_MARKS

    def unless_from(self, param: str | None, mark: Mark, sources: Sequence[ValueSource]) -> Trail | None:
        return None


UNMARKED: Inflow = _Unmarked()
"""Nothing is marked at all."""


class MarkedState(Protocol):
    """The marks on the keys of one state."""

    def get(self, key: str) -> Marks: ...

    def put(self, key: str, marks: Marks) -> None: ...

    def anything(self) -> Marks:
        """Every mark that some key has."""


class Flow:
    """The marks on what the actions of one plan put out."""

    __slots__ = ("_declared", "_in_fields", "_origins", "_outputs", "_wholes", "state")

    def __init__(
        self,
        declared: Callable[[Action, ToolFacts | None], Sequence[Mark]],
        state: MarkedState,
        in_fields: Callable[[Action, ToolFacts | None], FieldMarks] | None = None,
    ) -> None:
        """`declared` says which marks a tool or a rule puts on an output, `in_fields` on which fields."""
        self._declared = declared
        self._in_fields = in_fields
        self._outputs: dict[str, Marks] = {}
        """By action id: few have any."""
        self._wholes: dict[str, Marks] = {}
        """Of those whose fields differ: the marks that are on all of them."""
        self._origins: dict[str, Origin] = {}
        """Of those with marks: where they come from."""
        self.state = state

    def inflow(self, action: Action) -> Inflow:
        """What comes with the parameters of an action of the plan, its references not resolved."""
        return Inflow(action, self._of, self._counts) if self._outputs and action.references else UNMARKED

    def inflow_of_undo(self, undo: Action, owner: Action, tool: ToolFacts | None) -> Inflow:
        """The same for what would take `owner` back, before that has run."""
        fresh = {mark: Trail((_name(owner),)) for mark in self._anywhere(owner, tool)}
        own = union(fresh, _further(self.inflow(owner).at(None), _name(owner)))
        return Inflow(undo, lambda named: own if named.action_id == owner.id else self._of(named))

    def failed(self, action: Action, ran: Action, tool: ToolFacts | None, also: Marks = NO_MARKS) -> None:
        """The tool was entered and failed: what its error says is marked as what it puts out would be."""
        name = _name(action)
        fresh = {mark: Trail((name,)) for mark in self._anywhere(ran, tool)}
        marks = union(fresh, _further(self.inflow(action).at(None), name), _further(also, name))
        self.recall(action.id, marks)

    def recall(self, action_id: str, marks: Marks) -> None:
        """What was on the output, or the error, of an action that is read back."""
        if marks:
            self._outputs[action_id] = marks

    def output_of(self, action_id: str) -> Marks:
        """The marks on what an action has put out."""
        return self._outputs.get(action_id, NO_MARKS)

    def _of(self, reference: Reference) -> Marks:
        whole = self._wholes.get(reference.action_id)
        if whole is None:
            return self._outputs.get(reference.action_id, NO_MARKS)
        origin = self._origins[reference.action_id]
        used = steps_of(reference.path)
        there = [mark for steps, mark in origin.field_marks if overlap(steps, used)]
        return union(whole, {mark: Trail((_name(origin.action),)) for mark in there})

    def _counts(self, reference: Reference, mark: Mark, sources: Sequence[ValueSource]) -> bool:
        origin = self._origins.get(reference.action_id)
        if origin is None:
            return False
        used = steps_of(reference.path)
        return any(source.covers(origin, used, mark) for source in sources)

    def _anywhere(self, action: Action, tool: ToolFacts | None) -> Sequence[Mark]:
        """The marks that are declared for an output or for any field of it."""
        in_fields = self._in_fields(action, tool) if self._in_fields is not None else ()
        return (*self._declared(action, tool), *(mark for _, mark in in_fields))

    def ended(
        self,
        action: Action,
        ran: Action,
        tool: ToolFacts | None,
        *,
        key: str | None,
        also: Marks = NO_MARKS,
        but: Container[str] = (),
        recalled: Marks | None = None,
        is_open: bool = False,
    ) -> None:
        """The action has succeeded: what it put out is marked, and what it wrote.

        `action` is as the plan holds it, `ran` with its references filled in. `key` is the state key it is
        about, if it is about one that is known; `also` comes from elsewhere; keys in `but` are another's.
        `recalled` is what was on its output then, of an action that is read back. With `is_open` some
        parameters of `ran` are still to be filled in.
        """
        declared = self._declared(ran, tool)
        in_fields = self._in_fields(ran, tool) if self._in_fields is not None else ()
        if not (
            declared
            or in_fields
            or also
            or recalled
            or self._outputs
            or key is not None
            or action.expected_effects
        ):
            return  # Nothing is marked so far, and nothing becomes so.
        name = _name(action)
        inflow = self.inflow(action)
        if action.type == "state_write":
            came = inflow.at("key")  # It answers with the name of the key, and nothing else.
            if key is not None and key not in but:
                self.state.put(key, _further(inflow.at("value"), f"state '{key}'"))
        else:
            came = inflow.at(None) if key is None else union(inflow.at(None), self.state.get(key))
        fresh = {mark: Trail((name,)) for mark in declared}
        whole = union(fresh, _further(came, name), _further(also, name))
        marks = union(whole, {mark: Trail((name,)) for _, mark in in_fields}) if in_fields else whole
        # Under other rules than then, nobody knows which field had which mark.
        is_as_then = recalled is None or recalled.keys() == marks.keys()
        marks = marks if recalled is None else recalled
        if marks:
            self._outputs[action.id] = marks
            if is_as_then and action.type == "tool_call":
                inside = {mark: trail.sure for mark, trail in union(came, also).items()}
                self._origins[action.id] = Origin(ran, tool, in_fields, inside, is_open)
                if in_fields:
                    self._wholes[action.id] = whole
        for written in action.expected_effects:
            if written not in but:
                # What the plan says outright; nothing flows into it.
                self.state.put(written, NO_MARKS)


def _name(action: Action) -> str:
    return f"{action.id} ({action.tool})" if action.tool is not None else action.id


def _further(marks: Marks, step: str) -> Marks:
    return {mark: trail.to(step) for mark, trail in marks.items()}


def marks_from(labels: Labels) -> Marks:
    """Labels of a text as marks."""
    return {mark: Trail(tuple(path)) for mark, path in labels.items()} if labels else NO_MARKS


def labels_from(marks: Marks) -> dict[Mark, tuple[str, ...]]:
    """Marks as labels of a text."""
    return {mark: trail.steps for mark, trail in marks.items()}
