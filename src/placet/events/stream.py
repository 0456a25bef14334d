"""The events that a caller sees while a model works: of `Assistant.stream`, and of every `watch`.

Keep true:
1. Whoever watches hears of every call before it runs and of every result after it.
2. Names and fields are public. The kinds in JSON (`text`, `call`, `done` and so on) are stable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeAlias

import msgspec

from placet.ir.ending import Ending, OutputT
from placet.ir.json_value import JsonValue
from placet.ir.result import ExitCode, Status
from placet.ir.to_dict import ToDict


class _Event(ToDict, msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    pass


class TextDelta(_Event, frozen=True, tag="text"):
    """Part of the model's answer, as it arrives."""

    text: str
    """The part."""


class ThinkingDelta(_Event, frozen=True, tag="thinking"):
    """Part of the model's reasoning, as it arrives."""

    text: str
    """The part."""


class ToolCallStarted(_Event, frozen=True, tag="call"):
    """The model asks for a tool; nothing has run yet."""

    turn: int
    """Number of the turn, from 1."""
    action_id: str
    """Id of the action."""
    tool: str
    """Name of the tool."""
    parameters: Mapping[str, JsonValue]
    """Parameters of the call."""


class ToolCallFinished(_Event, frozen=True, tag="result"):
    """The result of a call, as the model sees it."""

    turn: int
    """Number of the turn, from 1."""
    action_id: str
    """Id of the action."""
    tool: str
    """Name of the tool."""
    ok: bool
    """Whether it succeeded."""
    status: Status
    """Status of the action."""
    text: str
    """The output or the error, as the model reads it."""
    exit_code: ExitCode = msgspec.UNSET
    """Exit code of a command, where the tool declares one; the call itself is ok whatever it is."""


class Notice(_Event, frozen=True, tag="note"):
    """Something that the loop did itself: a warning to the model, or shortening the conversation."""

    text: str
    """What it did."""


class ErrorReported(_Event, frozen=True, tag="error"):
    """The model gave no answer, or the loop cannot continue."""

    text: str
    """What went wrong."""


class RunFinished(_Event, Generic[OutputT], frozen=True, tag="done"):
    """The run has ended: always the last event."""

    ending: Ending[OutputT]
    """How it ended."""


StreamEvent: TypeAlias = (
    TextDelta
    | ThinkingDelta
    | ToolCallStarted
    | ToolCallFinished
    | Notice
    | ErrorReported
    | RunFinished[OutputT]
)
"""An event of `Assistant.stream` and of `watch`. In JSON the field `event` names its kind: `text`,
`thinking`, `call`, `result`, `note`, `error` or `done`."""
Watch: TypeAlias = Callable[[StreamEvent], None]
"""Function that is called with every event as it happens."""
