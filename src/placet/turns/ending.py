"""How a loop of turns ended, and what it saw happen on the way.

Keep true:
1. Every ending says how many turns there were, which tools succeeded, what it took, and what was said last.
2. Whoever watches hears of every call before it runs and of every result after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from placet.inference.usage import Usage
from placet.ir.json_value import JsonValue
from placet.ir.result import ExitCode, Outcome, Status, Waiting

End = Literal["success", "max_turns", "cancelled", "error", "stuck", "budget", "waiting", "unmet"]
"""The model was done; its turns ran out; somebody stopped it; a fault; it went in circles; a limit was
reached; a person has to decide something first; its goal is not met, whatever it says."""

OUTCOMES: Mapping[End, Outcome] = {
    "success": "succeeded",
    "max_turns": "partial",
    "cancelled": "canceled",
    # What is wrong with a model or a disk may pass, and then the run can be resumed.
    "error": "canceled",
    "stuck": "partial",
    "budget": "budget",
    "waiting": "waiting",
    "unmet": "partial",
}
"""What the runtime keeps of each."""


MADE: tuple[Status, ...] = ("succeeded", "failed", "unknown")
"""The tool was called."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a loop."""

    status: End
    summary: str
    """What the model said last; where it said nothing, a sentence about how it ended."""
    turns: int = 0
    """How often the model was asked, answered or not."""
    tools: tuple[str, ...] = ()
    """The tools that succeeded, in order, as often as they did."""
    called: tuple[str, ...] = ()
    """All tools that were called, in order, whatever came of it; none that was refused."""
    refused: tuple[str, ...] = ()
    """The tools whose calls were refused: by a rule, by a person, or because they could not be made."""
    usage: Usage | None = None
    """What all answers took, as far as it is known."""
    cost_usd: float | None = None
    """None where the price, or what an answer took, is not known."""
    run_id: str = ""
    error: str | None = None
    """Why it did not end in success."""
    waiting: tuple[Waiting, ...] = ()
    is_cut_off: bool = False
    """The last answer ran into the limit on its length."""
    cut_off: int = 0
    """How many answers ran into it, the last one or any before."""
    output: Any = None
    """The answer as the type that was asked for."""

    @property
    def succeeded(self) -> bool:
        """Whether the model was done."""
        return self.status == "success"

    def as_json(self) -> dict[str, JsonValue]:
        """The same as JSON, without the output, and without what only leaders of loops need."""
        data: dict[str, JsonValue] = msgspec.to_builtins(msgspec.structs.replace(self, output=None))
        del data["output"], data["cut_off"]
        return data


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    pass


class Text(_Event, frozen=True, tag="text"):
    """A piece of what the model says, as it comes."""

    text: str


class Thinking(_Event, frozen=True, tag="thinking"):
    """A piece of its reasoning, as it comes."""

    text: str


class Call(_Event, frozen=True, tag="call"):
    """The model asks for a tool; nothing has happened yet."""

    turn: int
    action_id: str
    tool: str
    parameters: Mapping[str, JsonValue]


class CallResult(_Event, frozen=True, tag="result"):
    """What came of a call, as the model sees it."""

    turn: int
    action_id: str
    tool: str
    ok: bool
    status: Status
    text: str
    exit_code: ExitCode = msgspec.UNSET
    """Of a command, where the tool declares one; the call itself is ok whatever it is."""


class Note(_Event, frozen=True, tag="note"):
    """Something that the loop did by itself: a warning to the model, or making room."""

    text: str


class Trouble(_Event, frozen=True, tag="error"):
    """The model gave no answer, or the loop cannot go on."""

    text: str


class Done(_Event, frozen=True, tag="done"):
    """The loop has ended."""

    ending: Ending


Event: TypeAlias = Text | Thinking | Call | CallResult | Note | Trouble | Done
Watch: TypeAlias = Callable[[Event], None]
