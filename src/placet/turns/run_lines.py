"""What the recording of a run holds besides the model's answers: what no request tells.

    begun     which run, and with what its loop was made; once more when it was taken up again
    said      a person's message
    between   what stands in no request, before the next one: results that were shortened, what tools spent
    failed    the model gave no answer, for a reason that is not the model's own
    ended     what came of a message, and the results that no request holds any more

Keep true:
1. What a line holds is new: none of them grows with the conversation.
2. With these and the answers, a loop can be led again without the model, the tools, people and the clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, TypeAlias

import msgspec

from placet.errors import PlacetError
from placet.inference.messages import ToolResult, User
from placet.inference.wrappers.digests import plain
from placet.inference.wrappers.record_file import Told
from placet.ir.json_value import JsonValue
from placet.ir.stop_cause import StopCause
from placet.ir.tool_spec import Risk
from placet.policy.budget import CostBudget
from placet.turns.ending import End, Ending
from placet.turns.limits import TurnLimits

_Amount = Annotated[int, msgspec.Meta(ge=0)]


class _RunLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="told"):
    pass


class KnownTool(msgspec.Struct, frozen=True):
    """A tool that the runtime had, offered or not."""

    name: str
    risk: Risk


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """Why the loop went no further, where that came from outside."""

    status: End
    error: str
    cause: StopCause | None = None


class Came(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of one call."""

    number: Annotated[int, msgspec.Meta(ge=1)]
    """Of the call in the run, counted from 1."""
    message: ToolResult
    stop: Stop | None = None


class StopAt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the loop was when it was stopped."""

    turn: _Amount
    results: _Amount
    """How many calls had their result by then."""
    is_asking: bool = False
    """Whether the model was being asked."""
    stop: Stop | None = None
    """None where the work was interrupted: whoever waited for it did not wait any longer."""


class Begun(_RunLine, frozen=True, tag="begun"):
    """With what the loop was made."""

    run_id: str
    limits: TurnLimits
    system: str = ""
    budget: CostBudget | None = None
    """What the run may use at most, the runtime's own limits included."""
    failures: _Amount = 1
    offered: Sequence[str] | None = None
    """None: whatever the runtime had."""
    not_offered: str = ""
    tools: Sequence[KnownTool] = ()
    """All that the runtime had, in order."""
    absent: Mapping[str, str] = {}
    """By name, why a tool was not there."""
    output: Mapping[str, JsonValue] | None = None
    """JSON Schema that the final answer had to fit."""
    recalled: Annotated[str, msgspec.Meta(pattern="^[saftoe]*$")] | None = None
    """Of a run that was taken up again: what it knew from before, a letter each (see `letter_of`)."""
    failures_recalled: Sequence[str] = ()
    """The words of each `f` and `t` among them."""


class Said(_RunLine, frozen=True, tag="said"):
    """A person's message."""

    message: User


class Between(_RunLine, frozen=True, tag="between"):
    """What happened before the next request, and is not in it."""

    results: Sequence[Came] = ()
    past: Sequence[Came] = ()
    """Of calls from before the run was taken up again, what is told otherwise since."""
    tokens: _Amount = 0
    """Used by tools."""
    cost: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    unfit: str | None = None
    """Why the answer before did not fit the output type."""


class Failed(_RunLine, frozen=True, tag="failed"):
    """There was no answer, and no request tells why."""

    error: str
    at: str = ""
    """The digest of the conversation, as in answers."""
    results: Sequence[Came] = ()
    is_instead: bool = False
    """The model had answered; the answer came to nothing."""


class Ended(_RunLine, frozen=True, tag="ended"):
    """What came of a message."""

    ending: Ending
    at: str = ""
    """The digest of the conversation, as in answers: no request may hold the end of it."""
    results: Sequence[Came] = ()
    past: Sequence[Came] = ()
    unfit: str | None = None
    stop: StopAt | None = None


RunLine: TypeAlias = Begun | Said | Between | Failed | Ended

_LETTERS = {"Said": "s", "Answered": "a", "Failed": "f", "Overflowed": "o", "Ended": "e"}

_encode = msgspec.json.Encoder(enc_hook=plain).encode
_decoder: msgspec.json.Decoder[RunLine] = msgspec.json.Decoder(RunLine)


def letter_of(note: object) -> str:
    """A note of the journal in one letter, by its class; `t` is a failure because it was too long."""
    return "t" if getattr(note, "is_too_long", False) else _LETTERS[type(note).__name__]


def told(line: RunLine) -> Told:
    """The line as it goes into the file."""
    return Told(msgspec.Raw(_encode(line)))


def heard(line: Told) -> RunLine | None:
    """What a line of the file tells; None where it cannot be read."""
    try:
        return _decoder.decode(bytes(line.data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, PlacetError):
        return None
