"""Is this one action well formed, and does the state allow it now?

The runtime asks right before an action starts, verify asks beforehand with a simulated state: the same
functions, so the two cannot disagree.

Keep true:
1. Every problem is reported, not the first.
2. A value that is not known yet (verify only) is `undecided`, never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import msgspec

from placet.ir.action import OPERATORS, Action, Assumption, Precondition, ToolCompensation
from placet.ir.graph import Graph
from placet.ir.json_value import JsonValue, json_equal, show_json
from placet.ir.references import has_references
from placet.ir.tool_spec import STRICTNESS, Reversibility, ToolSchema
from placet.truncation import truncate


class Undecided(BaseException):
    """Raised by a simulated state where a value cannot be known before the plan runs.

    No Exception, so that a policy's own `except Exception` cannot take it for an answer.
    """


class View(Protocol):
    """What the checks read of the state."""

    def get(self, key: str, default: JsonValue = None) -> JsonValue: ...

    def exists(self, key: str) -> bool: ...

    def version_of(self, key: str) -> int: ...


class ToolFacts(Protocol):
    """What the checks read of a tool."""

    @property
    def schema(self) -> ToolSchema: ...

    @property
    def validate(self) -> Callable[[dict[str, JsonValue]], str | None] | None: ...

    @property
    def may_label(self) -> bool: ...


class Tools(Protocol):
    """The tools a plan may name."""

    def get(self, name: str) -> ToolFacts | None: ...

    def missing(self, name: str) -> str:
        """Why there is no tool of that name, in words."""


class Blanks(Protocol):
    """Parameters that only the run will fill in, and that are left out of the action judged: verify only."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[str]: ...

    def __contains__(self, name: object, /) -> bool: ...

    def texts(self, name: str) -> Iterable[str]:
        """Every text that surely stands in that parameter."""

    def problems(self, action: Action) -> list[str]:
        """What is wrong with the parameters, whatever is filled in."""

    def leave_open(self, policy: str | None = None) -> None:
        """Note that an answer, that policy's if one is named, depends on what is filled in."""


def shape_problems(
    action: Action, tool: ToolFacts | None, tools: Tools, *, undoes: bool = False
) -> list[str]:
    """What is wrong with the action itself, whatever the state holds, its parameters left aside. One that
    `undoes` another is not taken back in its turn."""
    problems: list[str] = []
    if action.type == "tool_call":
        if not action.tool:
            problems.append("a tool_call needs 'tool'")
        elif tool is None:
            problems.append(tools.missing(action.tool))
    if action.invocation_mode != "one_shot":
        problems.append(f"invocation mode '{action.invocation_mode}' is not available; use 'one_shot'")
    compensation = action.compensation
    if compensation is None:
        if action.reversibility == "compensable":
            problems.append("it claims to be compensable but has no 'compensation'")
        elif not undoes and undo_of(action, tool) == "compensable":
            problems.append(
                f"tool '{action.tool}' is compensable, and the action has no 'compensation'; give it one, or "
                "say that it is 'irreversible' here"
            )
    elif isinstance(compensation, ToolCompensation):
        undo = tools.get(compensation.tool)
        if undo is None:
            problems.append(f"its compensation: {tools.missing(compensation.tool)}")
        elif undo.validate is not None and not has_references(compensation.parameters):
            wrong = undo.validate(compensation.parameters)
            if wrong:
                problems.append(f"its compensation '{compensation.tool}': {wrong}")
    return problems


def parameter_problems(action: Action, tool: ToolFacts | None) -> list[str]:
    """What is wrong with the parameters, references already resolved."""
    if action.type == "tool_call":
        if tool is not None and tool.validate is not None:
            wrong = tool.validate(action.parameters)
            if wrong:
                return [wrong]
    elif not isinstance(action.parameters.get("key"), str):
        return [f"{action.type} needs the parameter 'key', a string"]
    return []


def state_problems(action: Action, view: View, undecided: list[str]) -> list[str]:
    """Which preconditions, assumptions and needed keys do not hold in `view`."""
    problems: list[str] = []
    for precondition in action.preconditions:
        try:
            if not holds(precondition, view):
                problems.append(_unmet(precondition))
        except Undecided as why:
            undecided.append(f"precondition on '{precondition.key}' {why}")
    for assumption in action.assumptions:
        try:
            problem = broken(assumption, view)
        except Undecided as why:
            undecided.append(f"assumption about '{assumption.key}' {why}")
        else:
            if problem:
                problems.append(problem)
    for key in action.state_dependencies:
        try:
            if not view.exists(key):
                problems.append(f"state key '{key}' is missing")
        except Undecided as why:
            undecided.append(f"state key '{key}' {why}")
    return problems


def holds(precondition: Precondition, view: View) -> bool:
    """Whether a precondition holds. An unknown operator does not, and nothing here raises."""
    key = precondition.key
    match precondition.operator:
        case "exists":
            return view.exists(key)
        case "not_exists":
            return not view.exists(key)
        case operator if operator not in OPERATORS:
            return False
    if not view.exists(key):
        return False
    actual, wanted = view.get(key), precondition.value
    match precondition.operator:
        case "eq":
            return json_equal(actual, wanted)
        case "neq":
            return not json_equal(actual, wanted)
        case "contains":
            return _contains(actual, wanted)
        case "gt":
            return _are_numbers(actual, wanted) and bool(actual > wanted)
        case "lt":
            return _are_numbers(actual, wanted) and bool(actual < wanted)
        case "gte":
            return _are_numbers(actual, wanted) and bool(actual >= wanted)
        case "lte":
            return _are_numbers(actual, wanted) and bool(actual <= wanted)
    return False


def _are_numbers(*values: JsonValue) -> bool:
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def _contains(whole: JsonValue, part: JsonValue) -> bool:
    if isinstance(whole, list):
        return any(json_equal(item, part) for item in whole)
    return isinstance(whole, str | dict) and isinstance(part, str) and part in whole


def _unmet(precondition: Precondition) -> str:
    wanted = "" if "exists" in precondition.operator else f" {_short(precondition.value)}"
    told = f" ({precondition.description})" if precondition.description else ""
    return f"precondition not met: '{precondition.key}' {precondition.operator}{wanted}{told}"


def broken(assumption: Assumption, view: View) -> str | None:
    """Why an assumption no longer holds, or None."""
    key = assumption.key
    expected = assumption.expected_value
    if expected is not msgspec.UNSET and not (view.exists(key) and json_equal(view.get(key), expected)):
        return f"assumption broken: '{key}' is not {_short(expected)}"
    if assumption.read_version is not None and view.version_of(key) > assumption.read_version:
        return f"assumption broken: '{key}' has changed since version {assumption.read_version}"
    return None


def _short(value: JsonValue) -> str:
    text = show_json(value)
    return truncate(text, 80, "...")


def undo_of(action: Action, tool: ToolFacts | None) -> Reversibility:
    """How far the action can be taken back: the stricter of what the tool declares and the plan says."""
    declared: Reversibility = tool.schema.undo if tool is not None else "reversible"
    claimed = action.reversibility
    if claimed is not None and STRICTNESS[claimed] > STRICTNESS[declared]:
        return claimed
    return declared


def undo_action(graph: Graph, i: int) -> Action | None:
    """What would take an action back, as the plan holds it; None if nothing would."""
    action = graph.actions[i]
    compensation = action.compensation
    if compensation is None:
        return None
    if isinstance(compensation, ToolCompensation):
        return Action(
            id=f"{action.id}.compensation", tool=compensation.tool, parameters=compensation.parameters
        )
    target = graph.index.get(compensation.action_id)
    return None if target is None else graph.actions[target]


def deduplicates(action: Action, tool: ToolFacts | None) -> bool:
    """Whether an earlier equal call may answer this one: both the plan and the tool must say so."""
    return action.idempotent and tool is not None and tool.schema.deduplicates
