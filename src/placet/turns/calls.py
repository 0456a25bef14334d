"""From the calls that a model wrote to plans of one action, and back to what it is told of them.

Keep true:
1. What a model calls a call is only echoed; the names in the log and the journal are ours.
2. A call is taken as it is written: nothing in it refers to anything.
3. Whatever a model writes comes to exactly one result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from placet.errors import NotJson
from placet.inference.messages import ToolCall
from placet.ir.action import Action
from placet.ir.json_value import copy_json
from placet.ir.proposal import Proposal
from placet.safe_text import clean
from placet.tools.registry import Registry
from placet.truncation import truncate

_LONGEST_NAME = 200
_ASK_USER = "ask_user"
_NOBODY = (
    "nobody can be asked here. Decide yourself what is most likely meant and continue; if that is not "
    "possible, finish and state what is missing"
)
"""For a model that knows the tool from elsewhere."""


class Asked(NamedTuple):
    """One call of a turn."""

    call: ToolCall
    """With an id, whether the model gave one or not."""
    action_id: str
    number: int
    """Of its plan in the run."""
    proposal: Proposal | None
    """None where there is nothing that could be run."""
    refusal: str = ""
    """Why there is not."""


class Offer(NamedTuple):
    """What is offered to a model, and how its calls become plans."""

    tools: Registry
    offered: frozenset[str] | None
    """None: whatever the runtime has."""
    not_offered: str
    """What is answered to a call of another tool; `{tool}` stands for its name."""
    source: str
    timeout_ms: int | None
    is_strict: bool = False
    """Whether the same is answered to every call of another tool: to one of a tool that there is not, and to
    one that cannot be read."""
    absent: frozenset[str] = frozenset()
    """Tools that might be called, were they there."""

    def asked(self, calls: Sequence[ToolCall], run_id: str, turn: int, before: int) -> list[Asked]:
        """The calls of a turn, of which `before` others came before in the run."""
        return [
            self._one(call, run_id, turn, index, before + index) for index, call in enumerate(calls, start=1)
        ]

    def _one(self, call: ToolCall, run_id: str, turn: int, index: int, number: int) -> Asked:
        action_id = f"t{turn}c{index}"
        if not call.id:
            call = msgspec.structs.replace(call, id=f"call_{turn}_{index}")
        refusal = self._refusal(call)
        if refusal:
            return Asked(call, action_id, number, None, refusal)
        try:
            parameters = copy_json(dict(call.arguments), "arguments")
        except (NotJson, TypeError, ValueError) as error:
            return Asked(call, action_id, number, None, f"the arguments are not JSON: {error}")
        action = Action(
            id=action_id,
            tool=call.name,
            parameters=parameters,
            timeout_ms=self.timeout_ms,
            references=False,
        )
        proposal = Proposal(id=f"{run_id}.{number}", source=self.source, actions=(action,))
        return Asked(call, action_id, number, proposal)

    def absences(self) -> dict[str, str]:
        """By name of a tool that is known and not there, what a model is told that calls it."""
        withheld = [name for name in self.tools.withheld if name not in self.tools]
        return {**self.tools.hints, **{name: not_available(name) for name in withheld}}

    def is_withheld(self, asked: Asked) -> bool:
        """Whether the call was refused because the required isolation withholds its tool."""
        return asked.refusal == not_available(asked.call.name)

    def _refusal(self, call: ToolCall) -> str:
        if call.name in self.absent:
            return f"there is no tool '{call.name}' here"
        if self.is_strict and self.offered is not None and call.name not in self.offered:
            return self.not_offered.format(tool=truncate(call.name, _LONGEST_NAME))
        if call.name == _ASK_USER and _ASK_USER not in self.tools:
            return _NOBODY
        if call.problem:
            return f"the arguments of this call cannot be read: {clean(call.problem, 500)}. Write them again."
        if not call.name or len(call.name) > _LONGEST_NAME:
            return "this call names no tool. Name one of those that are offered."
        if self.tools.get(call.name) is None and call.name in self.tools.withheld:
            return not_available(call.name)
        if self.offered is not None and call.name not in self.offered:
            if call.name in self.tools:
                return self.not_offered.format(tool=call.name)
            return self.tools.missing(call.name)
        return ""

    def is_read_only(self, asked: Asked) -> bool:
        """Whether the call changes nothing, so that others like it may run beside it."""
        if asked.proposal is None:
            return True
        tool = self.tools.get(asked.call.name)
        return tool is not None and tool.schema.risk == "read_only"

    def is_logged(self, asked: Asked) -> bool:
        """Whether the log may hold what came of the call."""
        tool = self.tools.get(asked.call.name)
        return tool is None or not tool.unlogged

    def may_stay_open(self, asked: Asked) -> bool:
        """Whether it may not be known, after a crash, what became of the call."""
        tool = self.tools.get(asked.call.name)
        return tool is not None and not tool.schema.repeatable

    def is_instant(self, asked: Asked) -> bool:
        """Whether the call waits for nothing, so that no task is needed for it."""
        tool = self.tools.get(asked.call.name)
        return tool is None or (tool.is_direct and not tool.is_async)


def not_available(tool: str) -> str:
    """Words for a model that calls a tool which the required isolation withholds.

    A person is told elsewhere how to trust the tool: a model cannot.
    """
    return f"tool '{tool}' is not available here. Do without it, or finish and state what is missing"


def groups(calls: Sequence[Asked], is_read_only: Callable[[Asked], bool]) -> Iterator[list[Asked]]:
    """The calls in order: those in a row that change nothing together, any other by itself."""
    together: list[Asked] = []
    for asked in calls:
        if is_read_only(asked):
            together.append(asked)
            continue
        if together:
            yield together
            together = []
        yield [asked]
    if together:
        yield together
