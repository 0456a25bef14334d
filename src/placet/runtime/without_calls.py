"""What an action comes to without a call: it works on the state, or an earlier equal call answers it.

Keep true: only `write` changes the state, always under this proposal's unit, so that all of it can be undone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from placet.ir.action import Action
from placet.ir.graph import Graph
from placet.ir.json_value import JsonValue, copy_json, json_equal, show_json
from placet.ir.proposal import Proposal
from placet.runtime.calls import AttemptFailed
from placet.runtime.guards.idempotency import Answer, AnswerPage, CallKey, call_key
from placet.runtime.ledger import Ledger
from placet.runtime.run_info import RunInfo
from placet.state.store import Transition, Unit
from placet.tools.tool import Tool
from placet.validator import deduplicates

if TYPE_CHECKING:
    from placet.runtime.services import Services


class WithoutCalls(Ledger):
    """The part of an execution that calls no tool."""

    __slots__ = ("before", "learns", "mark_unit", "page", "state", "unit")

    def __init__(
        self, services: Services, proposal: Proposal, graph: Graph, run: RunInfo, attempt: int
    ) -> None:
        super().__init__(services, proposal, graph, run, attempt)
        self.before: dict[int, dict[str, JsonValue]] = {}
        """State before each action, kept only for trajectories."""
        self.learns = services.trajectories is not None
        self.page = AnswerPage(services.answers)
        self.state = services.state.scoped(run.tenant)
        self.unit = services.state.begin(proposal.id)
        self.mark_unit: Unit | None = None
        """The same for marks, where there are any."""

    def commit(self) -> None:
        """What the proposal wrote stays."""
        self.services.state.commit(self.unit)
        if self.mark_unit is not None:
            self.services.marks.commit(self.mark_unit)

    def take_back(self) -> Sequence[Transition]:
        """Undo what the proposal wrote."""
        if self.mark_unit is not None:
            self.services.marks.undo(self.mark_unit)
        return self.services.state.undo(self.unit)

    # Actions on the state

    def state_output(self, action: Action, changes: dict[str, JsonValue]) -> JsonValue:
        """What an action on the state answers; `changes` gets what it wrote.

        Raises:
            AttemptFailed: an assertion does not hold.
        """
        key = action.parameters["key"]
        if action.type == "state_write":
            value = action.parameters.get("value")
            self.write(action, key, value)
            changes[key] = value
            return "written: " + key
        actual = self.state.get(key)
        if action.type == "state_read":
            return actual
        expected = action.parameters.get("expected")
        if not json_equal(actual, expected):
            raise AttemptFailed(
                f"assertion failed: '{key}' is {show_json(actual)}, expected {show_json(expected)}"
            )
        return {"asserted": key, "value": actual}

    def write(self, action: Action, key: str, value: JsonValue) -> None:
        """Change the state, so that it can be undone."""
        self.state.set(key, value, action_id=action.id, unit=self.unit)

    def keep_before(self, i: int) -> None:
        """Remember the state that the action finds, if somebody learns from it."""
        if not self.learns or i >= self.size:
            return
        reads, writes = self.graph.touched[i]
        keys = [
            k for k in dict.fromkeys((*reads, *writes)) if not k.startswith("\0") and self.state.exists(k)
        ]
        self.before[i] = {k: self.state.get(k) for k in keys}

    # Earlier answers

    def call_key(self, action: Action, tool: Tool) -> CallKey | None:
        """By which an equal call is known, where that matters."""
        if tool.schema.cache_ttl_secs is not None or deduplicates(action, tool):
            return call_key(self.run.tenant, action)
        return None

    def release(self, key: CallKey | None) -> None:
        """The call in flight has come to nothing: whoever waits for it may try."""
        if key is not None:
            self.page.end(key, None)

    def answered_from_memory(self, i: int, action: Action, tool: Tool, key: CallKey, now: float) -> bool:
        """Answer from an earlier equal call, if there is one."""
        if deduplicates(action, tool):
            answer = self.page.get(key)
            if answer is not None:
                self.deduplicate(i, action, answer)
                return True
        if tool.schema.cache_ttl_secs is not None:
            held_back = self.page.lasting.get(key)
            cached = self.services.cache.get(key) if held_back is None else (copy_json(held_back[0]),)
            if cached is not None:
                self.succeed(i, action, cached[0], now, self.effects(action, {}), cached=True)
                return True
        return False

    def deduplicate(self, i: int, action: Action, answer: Answer) -> None:
        """Take an earlier answer instead of a second call."""
        self.note("action_deduplicated", i, {"of": answer.action_id})
        self.succeed(i, action, copy_json(answer.output), 0.0, self.effects(action, {}), cached=True)

    def effects(self, action: Action, changes: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """Write what the plan expects of the action; returns `changes` with it."""
        for name, value in action.expected_effects.items():
            self.write(action, name, value)
            changes[name] = value
        return changes
