"""What a coding session is doing, for whoever watches it.

Keep true: whoever watches hears of an iteration before its turns, of a call before its result, and of a check
before what came of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from placet.coder.contract import CheckResult
from placet.coder.session import Question, State
from placet.ir.json_value import JsonValue
from placet.ir.result import ExitCode


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    pass


class StateChanged(_Event, frozen=True, tag="state"):
    """The session is somewhere else by now."""

    session: str
    state: State
    reason: str = ""


class DraftingStarted(_Event, frozen=True, tag="drafting"):
    """The model is asked which checks there are to be."""

    session: str


class BaselineStarted(_Event, frozen=True, tag="baseline"):
    """The checks run once before any work."""

    session: str


class IterationStarted(_Event, frozen=True, tag="iteration"):
    """A fresh conversation begins."""

    attempt: int
    number: int
    most: int
    hint: str | None = None
    """What helped before, if the model is told so."""


class Said(_Event, frozen=True, tag="text"):
    """A piece of what the model says, as it comes."""

    attempt: int
    text: str


class Called(_Event, frozen=True, tag="call"):
    """The model asks for a tool; nothing has happened yet."""

    attempt: int
    turn: int
    action_id: str
    tool: str
    parameters: Mapping[str, JsonValue]


class CallEnded(_Event, frozen=True, tag="result"):
    """What came of a call, as the model sees it."""

    attempt: int
    turn: int
    action_id: str
    tool: str
    ok: bool
    text: str
    exit_code: ExitCode = msgspec.UNSET
    """Of a command, where the tool declares one; the call itself is ok whatever it is."""


class PlanTold(_Event, frozen=True, tag="plan"):
    """What the model says at the end of an iteration."""

    attempt: int
    text: str


class CheckStarted(_Event, frozen=True, tag="check_started"):
    """A check begins; attempt 0 is the state before any work."""

    attempt: int
    name: str
    command: str


class CheckCompleted(_Event, frozen=True, tag="check_completed"):
    """What came of a check."""

    attempt: int
    result: CheckResult


class SealBroken(_Event, frozen=True, tag="sealed"):
    """Files were changed that checks depend on; they are put back, and the iteration is not green."""

    attempt: int
    paths: Sequence[str]


class Spent(_Event, frozen=True, tag="spent"):
    """What the turns of an iteration took."""

    attempt: int
    number: int
    turns: int
    tokens: int
    """Of the whole session so far."""
    cost_usd: float | None = None


class Asked(_Event, frozen=True, tag="question"):
    """The model wants to know something."""

    attempt: int
    question: Question


class Trouble(_Event, frozen=True, tag="error"):
    """The model gave no answer, or something else went wrong."""

    attempt: int
    text: str


class Noted(_Event, frozen=True, tag="note"):
    """Something that the loop did by itself."""

    attempt: int
    text: str


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
Watch: TypeAlias = Callable[[Event], None]
