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
from placet.ir.to_dict import ToDict

End = Literal["success", "max_turns", "cancelled", "error", "stuck", "budget", "waiting", "unmet"]
"""How a turn loop ended.

- `success`: the model finished.
- `max_turns`: it used up its turns.
- `cancelled`: it was cancelled; it can be resumed.
- `error`: the model or the storage failed; it can be resumed.
- `stuck`: the model repeated itself.
- `budget`: a limit was reached.
- `waiting`: a person has to decide something; it can be resumed.
- `unmet`: the goal of the agent is not met.
"""

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


class Ending(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """How a task ended."""

    status: End
    """How it ended."""
    summary: str
    """The last words of the model; if there were none, a sentence about the end."""
    turns: int = 0
    """How often the model was asked."""
    tools: tuple[str, ...] = ()
    """Tools that succeeded, in order, with repetitions."""
    called: tuple[str, ...] = ()
    """Tools that ran, in order, whatever their result."""
    refused: tuple[str, ...] = ()
    """Tools whose calls were refused: by a rule, by a person, or because they were malformed."""
    usage: Usage | None = None
    """Tokens of all answers, as far as they are known."""
    cost_usd: float | None = None
    """Cost in US dollars; `None` if the price or the usage is not known."""
    run_id: str = ""
    """Id of the run, for `resume` and `placet explain`."""
    error: str | None = None
    """Why it did not end in success."""
    waiting: tuple[Waiting, ...] = ()
    """Decisions that the run waits for."""
    is_cut_off: bool = False
    """Whether the last answer reached the limit on its length."""
    cut_off: int = 0
    """How many answers reached that limit."""
    output: Any = None
    """The answer as the `output_type`, if one was given."""

    @property
    def succeeded(self) -> bool:
        """Whether the status is `success`."""
        return self.status == "success"

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as a dict that `json.dumps` accepts, with the field names of the JSON format.

        Raises:
            NotJson: `output` holds a value that JSON cannot carry.
        """
        from placet.tools.output import to_json

        # The output may be of any type that a caller has brought, such as a pydantic model.
        return {**ToDict.to_dict(msgspec.structs.replace(self, output=None)), "output": to_json(self.output)}

    def as_json(self) -> dict[str, JsonValue]:
        """Return what a run records of it: everything but `output` and `cut_off`."""
        data: dict[str, JsonValue] = msgspec.to_builtins(msgspec.structs.replace(self, output=None))
        del data["output"], data["cut_off"]
        return data


class _Event(ToDict, msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    pass


class Text(_Event, frozen=True, tag="text"):
    """Part of the model's answer, as it arrives."""

    text: str
    """The part."""


class Thinking(_Event, frozen=True, tag="thinking"):
    """Part of the model's reasoning, as it arrives."""

    text: str
    """The part."""


class Call(_Event, frozen=True, tag="call"):
    """The model asks for a tool; nothing has run yet."""

    turn: int
    """Number of the turn, from 1."""
    action_id: str
    """Id of the action."""
    tool: str
    """Name of the tool."""
    parameters: Mapping[str, JsonValue]
    """Parameters of the call."""


class CallResult(_Event, frozen=True, tag="result"):
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
    """Of a command, where the tool declares one; the call itself is ok whatever it is."""


class Note(_Event, frozen=True, tag="note"):
    """Something that the loop did itself: a warning to the model, or shortening the conversation."""

    text: str
    """What it did."""


class Trouble(_Event, frozen=True, tag="error"):
    """The model gave no answer, or the loop cannot continue."""

    text: str
    """What went wrong."""


class Done(_Event, frozen=True, tag="done"):
    """The loop has ended."""

    ending: Ending
    """How it ended."""

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as a dict that `json.dumps` accepts. Raises the errors of `Ending.to_dict`."""
        return {"event": "done", "ending": self.ending.to_dict()}


Event: TypeAlias = Text | Thinking | Call | CallResult | Note | Trouble | Done
"""An event of `Assistant.stream` and of `watch`. Its field `event` names the kind: `text`, `thinking`,
`call`, `result`, `note`, `error` or `done`."""
Watch: TypeAlias = Callable[[Event], None]
"""Function that is called with every event as it happens."""
