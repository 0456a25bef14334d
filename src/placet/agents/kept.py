"""What is kept of an agent's run: what it was begun with.

Keep true: what a run needs to go on as it began is here, whatever becomes of the agent's file.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from placet.agents.spec import AgentSpec
from placet.errors import UsageError
from placet.ir.json_value import JsonValue
from placet.ir.proposal import Proposal
from placet.ir.provenance import Provenance
from placet.policy.permission import Posture
from placet.runtime.journal import LED_BY

LEADER = "agent"


class AgentKept(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of an agent's run: what it needs to go on as it began."""

    led_by: str = LEADER
    spec: AgentSpec
    """Without its scenarios."""
    task: str
    provenance: Provenance | None = None
    """Who wrote which part of the task; None in records from before that was recorded."""
    posture: Posture | None = None
    """None where the permissions of the runtime held."""
    model: str = ""

    def about(self, run_id: str) -> Proposal:
        """The same as a run is begun with it: a plan without actions."""
        context: dict[str, JsonValue] = msgspec.to_builtins(self)
        context["agent"] = self.spec.id
        return Proposal(id=run_id, source=f"agent {self.spec.id}", actions=(), context=context)


def agent_of(context: Mapping[str, JsonValue]) -> AgentKept | None:
    """What an agent's run was begun with, by what is kept with it; None for a run of another kind."""
    if context.get(LED_BY) != LEADER:
        return None
    try:
        return msgspec.convert(dict(context), AgentKept)
    except msgspec.ValidationError:
        raise UsageError(
            "What this agent's run was begun with cannot be read here: it is from another version of Placet."
        ) from None
