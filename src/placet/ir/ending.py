"""How a task of a model ended.

Keep true: every ending says how many turns there were, which tools succeeded, on which calls the answer
rests, what it took, and what was said last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal

import msgspec

from placet.ir.json_value import JsonValue
from placet.ir.provenance import Labels, SourcedText, recorded
from placet.ir.result import Outcome, Waiting
from placet.ir.stop_cause import StopCause
from placet.ir.to_dict import ToDict
from placet.ir.usage import Usage

if TYPE_CHECKING:
    # The default lets `Ending` stand for `Ending[Any]`. Only checkers need it, and 3.11's typing lacks it.
    from typing_extensions import TypeVar

    OutputT = TypeVar("OutputT", default=Any)
else:
    from typing import TypeVar

    OutputT = TypeVar("OutputT")

End = Literal[
    "success", "max_turns", "cancelled", "error", "stuck", "budget", "waiting", "unmet", "unsupported"
]
"""How a turn loop ended.

- `success`: the model finished.
- `max_turns`: it used up its turns.
- `cancelled`: it was cancelled; it can be resumed.
- `error`: the model or the storage failed; it can be resumed.
- `stuck`: the model repeated itself.
- `budget`: a limit was reached.
- `waiting`: a person has to decide something; it can be resumed.
- `unmet`: the goal of the agent is not met.
- `unsupported`: the model finished, but no successful call did what the task needs, such as reading the file
  that it names.
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
    "unsupported": "partial",
}
"""Outcome of the run for each."""

CallKind = Literal["reading", "writing", "running"]
"""Something that a task needs calls to do.

- `reading`: look at the workspace.
- `writing`: change the workspace.
- `running`: run a command.
"""


class Ending(ToDict, msgspec.Struct, Generic[OutputT], frozen=True, kw_only=True):
    """How a task ended. `Ending[Answer]` has an `output` of the type `Answer`."""

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
    unasked: Mapping[str, str] = {}
    """Refused tools that needed an approval when there was nobody to ask, with the tier that each needs. The
    tier is empty where a rule or `gated_tools` wanted the approval."""
    withheld: tuple[str, ...] = ()
    """Refused tools that the required isolation withholds, because they run outside of every sandbox."""
    looked: tuple[str, ...] = ()
    """Ids of the successful calls that only read or fetched something."""
    changed: tuple[str, ...] = ()
    """Ids of the successful calls that may have changed something, without commands."""
    ran: tuple[str, ...] = ()
    """Ids of the commands that ran, whatever their exit code."""
    lacks: tuple[CallKind, ...] = ()
    """What the task needs and no successful call did. Not empty if the status is `unsupported`."""
    usage: Usage | None = None
    """Tokens of all answers, as far as they are known."""
    cost_usd: float | None = None
    """Cost in US dollars; `None` if the price or the usage is not known."""
    run_id: str = ""
    """Id of the run, for `resume` and `placet explain`."""
    error: str | None = None
    """Why it did not end in success."""
    stop_cause: StopCause | None = None
    """Why it was stopped, if the status is `cancelled`."""
    waiting: tuple[Waiting, ...] = ()
    """Decisions that the run waits for."""
    is_cut_off: bool = False
    """Whether the last answer reached the limit on its length."""
    cut_off: int = 0
    """How many answers reached that limit."""
    output: OutputT = None  # type: ignore[assignment]
    """The answer as the `output_type`. `None` if no type was given, or if the status is neither `success` nor
    `unsupported`."""
    labels: Labels | None = None
    """The labels on what the model wrote, because of what it had read, each with the path by which it came.
    `None` if that was not recorded."""

    @property
    def sourced(self) -> SourcedText:
        """`summary` with its provenance, to pass on to another agent."""
        return SourcedText(self.summary, "agent", recorded(self.labels))

    @property
    def succeeded(self) -> bool:
        """Whether the status is `success`."""
        return self.status == "success"

    @property
    def advice(self) -> str:
        """What allows the calls in `unasked` and `withheld`, for the person who runs the program; empty if
        there are none.

        >>> Ending(status="success", summary="", unasked={"pay": "full_access"}).advice
        "To allow pay, pass posture='full_access', or give the Runtime a person to ask."
        """
        return " ".join(filter(None, (self._advice_on_unasked(), self._advice_on_withheld())))

    def _advice_on_withheld(self) -> str:
        if not self.withheld:
            return ""
        names = ", ".join(f'"{name}"' for name in self.withheld)
        return (
            f"To offer {', '.join(self.withheld)} outside of every sandbox, pass "
            f"Isolation(trusted=[{names}]), or write trusted_tools = [{names}] under [isolation] in your own "
            "settings.toml."
        )

    def _advice_on_unasked(self) -> str:
        if not self.unasked:
            return ""
        names, tiers = ", ".join(self.unasked), set(self.unasked.values())
        person = "give the Runtime a person to ask"
        if "" in tiers:
            return f"To allow {names}, {person}."
        posture = "full_access" if "full_access" in tiers else "sandbox_edit"
        return f"To allow {names}, pass posture={posture!r}, or {person}."

    def as_json(self) -> dict[str, JsonValue]:
        """Return what a run records of it: everything but `output` and `cut_off`."""
        data: dict[str, JsonValue] = msgspec.to_builtins(msgspec.structs.replace(self, output=None))
        del data["output"], data["cut_off"]
        if not self.unasked:
            del data["unasked"]
        if not self.withheld:
            del data["withheld"]
        return data
