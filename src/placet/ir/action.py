"""One step of a plan, as data.

Keep true:
1. Building an Action has no effect.
2. Field names are the wire names; a default here is the default on the wire.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from placet.ir.json_value import JsonValue
from placet.ir.tool_spec import Reversibility

ActionType = Literal["tool_call", "state_write", "state_read", "assertion"]
FailureBehavior = Literal["abort", "retry", "skip"]
InvocationMode = Literal["one_shot", "streaming", "long_running"]

OPERATORS = ("eq", "neq", "gt", "lt", "gte", "lte", "exists", "not_exists", "contains")


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    # Unknown fields are tolerated, but not silently: the codec takes them out and notes them.
    pass


class Precondition(_Strict, frozen=True, kw_only=True, gc=False):
    """What must hold in the state when the action starts."""

    key: str
    operator: str = "eq"
    """One of OPERATORS; an unknown one never holds."""
    value: JsonValue = None
    description: str = ""
    """Shown to the person when the precondition fails."""


class Assumption(_Strict, frozen=True, kw_only=True, gc=False):
    """What the planner believed about a key: its value, or that it has not changed since it was read."""

    key: str
    expected_value: Any | msgspec.UnsetType = msgspec.UNSET
    """Absent means no claim about the value; null is a value."""
    read_version: int | None = None
    """The state's version when the planner looked. A later change of the key breaks the assumption."""


class ToolCompensation(_Strict, frozen=True, kw_only=True, tag="tool", tag_field="type"):
    """Take the action back by calling a tool. Its parameters may refer to the action's own output."""

    tool: str
    parameters: dict[str, JsonValue] = {}


class ActionCompensation(_Strict, frozen=True, kw_only=True, tag="action_ref", tag_field="type"):
    """Take the action back by running another action of the plan, which then runs only for that."""

    action_id: str


Compensation = ToolCompensation | ActionCompensation


class Action(_Strict, frozen=True, kw_only=True, gc=False):
    """One step a model asks for."""

    id: str = ""
    """Unique in the proposal; one left out is filled in from the position when the proposal is built."""
    type: ActionType = "tool_call"
    tool: str | None = None
    parameters: dict[str, JsonValue] = {}
    preconditions: Sequence[Precondition] = ()
    expected_effects: dict[str, JsonValue] = {}
    """State written when the action succeeds."""
    dependencies: Sequence[str] = ()
    """Ids of actions that must succeed first."""
    state_dependencies: Sequence[str] = ()
    """State keys that must exist when the action starts."""
    read_set: Sequence[str] = ()
    write_set: Sequence[str] = ()
    assumptions: Sequence[Assumption] = ()
    idempotent: bool = False
    """Ask for an earlier equal result instead of a second call. Holds only if the tool allows it."""
    max_retries: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 3
    failure_behavior: FailureBehavior = "abort"
    timeout_ms: Annotated[int, msgspec.Meta(gt=0, le=10_000_000_000)] | None = None
    """Time limit of each attempt."""
    invocation_mode: InvocationMode = "one_shot"
    reversibility: Reversibility | None = None
    """None means what the tool declares; a plan may only be stricter."""
    compensation: Compensation | None = None
    references: bool = True
    """Whether `$id.output` in a parameter names an earlier result."""
    metadata: dict[str, JsonValue] = {}
