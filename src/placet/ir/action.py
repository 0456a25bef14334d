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
from placet.ir.to_dict import ToDict
from placet.ir.tool_spec import Reversibility

ActionType = Literal["tool_call", "state_write", "state_read", "assertion"]
"""Kind of action.

- `tool_call`: call a tool.
- `state_write`: write a state key.
- `state_read`: read a state key.
- `assertion`: compare a state key with an expected value.
"""
FailureBehavior = Literal["abort", "retry", "skip"]
"""Consequence of a failed action for the plan.

- `abort`: abort the plan and undo it.
- `retry`: try again, up to `max_retries` times; then the action has failed, and the plan continues.
- `skip`: the action is skipped, and the plan continues.
"""
InvocationMode = Literal["one_shot", "streaming", "long_running"]
"""Only `one_shot` is available; the others are rejected."""

OPERATORS = ("eq", "neq", "gt", "lt", "gte", "lte", "exists", "not_exists", "contains")


class _Strict(ToDict, msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    # Unknown fields are tolerated, but not silently: the codec takes them out and notes them.
    pass


class Precondition(_Strict, frozen=True, kw_only=True, gc=False):
    """A condition on the state when the action starts."""

    key: str
    """The state key to compare."""
    operator: str = "eq"
    """`eq`, `neq`, `gt`, `lt`, `gte`, `lte`, `exists`, `not_exists` or `contains`; with any other the
    condition never holds."""
    value: JsonValue = None
    """The value to compare with."""
    description: str = ""
    """Shown when the condition does not hold."""


class Assumption(_Strict, frozen=True, kw_only=True, gc=False):
    """The planner's assumption about a state key: its value, or that it has not changed since it was read."""

    key: str
    """The state key."""
    expected_value: Any | msgspec.UnsetType = msgspec.UNSET
    """The value that the key must have. Unset: no assumption about the value; null is a value."""
    read_version: int | None = None
    """Version of the state when the planner read it. A later change of the key breaks the assumption."""


class ToolCompensation(_Strict, frozen=True, kw_only=True, tag="tool", tag_field="type"):
    """Undo the action by calling a tool."""

    tool: str
    """The tool that undoes the action."""
    parameters: dict[str, JsonValue] = {}
    """Its parameters; they may refer to the output of the action."""


class ActionCompensation(_Strict, frozen=True, kw_only=True, tag="action_ref", tag_field="type"):
    """Undo the action by running another action of the plan, which runs only for that purpose."""

    action_id: str
    """The action that undoes this one."""


Compensation = ToolCompensation | ActionCompensation
"""How to undo an action after an abort."""


class Action(_Strict, frozen=True, kw_only=True, gc=False):
    """One step of a proposal. Building one has no effect."""

    id: str = ""
    """Unique in the proposal. If absent, it becomes `a1`, `a2`, ... by position."""
    type: ActionType = "tool_call"
    """Kind of step."""
    tool: str | None = None
    """The tool to call; required for `tool_call`."""
    parameters: dict[str, JsonValue] = {}
    """Arguments of the tool, or `key` and `value` (`expected` for an assertion) of a state action; may hold
    references such as `$a1.output`."""
    preconditions: Sequence[Precondition] = ()
    """Conditions on the state when the action starts."""
    expected_effects: dict[str, JsonValue] = {}
    """State keys and values that are written when the action succeeds."""
    dependencies: Sequence[str] = ()
    """Ids of actions that must succeed first."""
    state_dependencies: Sequence[str] = ()
    """State keys that must exist when the action starts; their last writer must succeed first."""
    read_set: Sequence[str] = ()
    """Further state keys that it reads."""
    write_set: Sequence[str] = ()
    """Further state keys that it writes."""
    assumptions: Sequence[Assumption] = ()
    """The planner's assumptions about state keys."""
    idempotent: bool = False
    """An earlier equal result may replace a call; holds only if the tool allows it."""
    max_retries: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 3
    """Further attempts with `failure_behavior="retry"`, 0 to 1000."""
    failure_behavior: FailureBehavior = "abort"
    """What a failure means for the plan."""
    timeout_ms: Annotated[int, msgspec.Meta(gt=0, le=10_000_000_000)] | None = None
    """Time limit of each attempt in milliseconds; the shorter of this and the tool's own holds."""
    invocation_mode: InvocationMode = "one_shot"
    """Only `one_shot` is available; the others are rejected."""
    reversibility: Reversibility | None = None
    """`None`: as the tool declares. A plan may only be stricter."""
    compensation: Compensation | None = None
    """How to undo the action after an abort; required if it is compensable."""
    references: bool = True
    """Whether `$ID.output` in a parameter refers to an earlier result."""
    metadata: dict[str, JsonValue] = {}
    """Values of the caller; not read."""
