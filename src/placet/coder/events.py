"""What a coding session is doing, for whoever watches it.

Keep true: whoever watches hears of an iteration before its turns, of a call before its result, and of a check
before what came of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from placet.checks.contract import CheckResult
from placet.coder.session import Question, State
from placet.ir.json_value import JsonValue
from placet.ir.result import ExitCode, Status
from placet.ir.to_dict import ToDict


class _Event(ToDict, msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    pass


class StateChanged(_Event, frozen=True, tag="state"):
    """The session has another state."""

    session: str
    """Id of the session."""
    state: State
    """The new state."""
    reason: str = ""
    """Why, if that needs explaining."""


class DraftingStarted(_Event, frozen=True, tag="drafting"):
    """The model drafts a contract."""

    session: str
    """Id of the session."""


class BaselineStarted(_Event, frozen=True, tag="baseline"):
    """The checks run once before any work."""

    session: str
    """Id of the session."""


class IterationStarted(_Event, frozen=True, tag="iteration"):
    """A new conversation begins."""

    attempt: int
    """Number of the attempt."""
    number: int
    """Number of the iteration."""
    most: int
    """Maximum number of iterations."""
    hint: str | None = None
    """The approach that helped before, if the model is shown one."""


class Said(_Event, frozen=True, tag="text"):
    """Part of the model's answer, as it arrives."""

    attempt: int
    """Number of the attempt."""
    text: str
    """The part."""


class Called(_Event, frozen=True, tag="call"):
    """The model asks for a tool; nothing has run yet."""

    attempt: int
    """Number of the attempt."""
    turn: int
    """Number of the turn, from 1."""
    action_id: str
    """Id of the action."""
    tool: str
    """Name of the tool."""
    parameters: Mapping[str, JsonValue]
    """Parameters of the call."""


class CallEnded(_Event, frozen=True, tag="result"):
    """The result of a call, as the model sees it."""

    attempt: int
    """Number of the attempt."""
    turn: int
    """Number of the turn, from 1."""
    action_id: str
    """Id of the action."""
    tool: str
    """Name of the tool."""
    ok: bool
    """Whether it succeeded."""
    status: Status
    """How it ended."""
    text: str
    """The output or the error, as the model reads it."""
    exit_code: ExitCode = msgspec.UNSET
    """Of a command, where the tool declares one; the call itself is ok whatever it is."""


class PlanTold(_Event, frozen=True, tag="plan"):
    """The model's words at the end of an iteration."""

    attempt: int
    """Number of the attempt."""
    text: str
    """The words."""


class CheckStarted(_Event, frozen=True, tag="check_started"):
    """A check begins."""

    attempt: int
    """Number of the attempt; 0 before any work."""
    name: str
    """Name of the check."""
    command: str
    """The command."""


class CheckCompleted(_Event, frozen=True, tag="check_completed"):
    """A check has ended."""

    attempt: int
    """Number of the attempt; 0 before any work."""
    result: CheckResult
    """Its result."""


class SealBroken(_Event, frozen=True, tag="sealed"):
    """Files that checks depend on were changed. They are restored, and the iteration does not pass."""

    attempt: int
    """Number of the attempt."""
    paths: Sequence[str]
    """Paths of the files."""


class Spent(_Event, frozen=True, tag="spent"):
    """Usage of the turns of an iteration."""

    attempt: int
    """Number of the attempt."""
    number: int
    """Number of the iteration."""
    turns: int
    """Turns of the iteration."""
    tokens: int
    """Tokens of the whole session so far."""
    cost_usd: float | None = None
    """Cost of the whole session so far in US dollars, if it is known."""


class Asked(_Event, frozen=True, tag="question"):
    """The model asks a question."""

    attempt: int
    """Number of the attempt."""
    question: Question
    """The question."""


class Trouble(_Event, frozen=True, tag="error"):
    """The model gave no answer, or something else went wrong."""

    attempt: int
    """Number of the attempt."""
    text: str
    """What went wrong."""


class Noted(_Event, frozen=True, tag="note"):
    """Something that the loop did itself."""

    attempt: int
    """Number of the attempt."""
    text: str
    """What it did."""


Event: TypeAlias = (
    StateChanged
    | DraftingStarted
    | BaselineStarted
    | IterationStarted
    | Said
    | Called
    | CallEnded
    | PlanTold
    | CheckStarted
    | CheckCompleted
    | SealBroken
    | Spent
    | Asked
    | Trouble
    | Noted
)
"""An event of a coding session. Its field `event` names the kind, such as `state`, `call` or
`check_completed`."""
Watch: TypeAlias = Callable[[Event], None]
"""Function that is called with every event as it happens."""
