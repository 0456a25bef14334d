"""What is kept of a run that an assistant leads: what it was begun with.

Keep true: what a run needs to go on as it began is here, except what no file can hold, such as a function or
a type; of that it is kept that there was one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from placet.errors import UsageError
from placet.inference.messages import User
from placet.ir.json_value import JsonValue
from placet.ir.proposal import Proposal
from placet.ir.provenance import Provenance
from placet.policy.permission import Posture
from placet.runtime.journal import LED_BY
from placet.turns.limits import TurnLimits

LEADER = "assistant"


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What a run needs to go on as it began."""

    led_by: str = LEADER
    is_chat: bool = False
    system: str
    tools: Sequence[str]
    limits: TurnLimits
    model: str = ""
    task: User | None = None
    """Kept with the run itself: also one that breaks off right after its beginning knows what it is for."""
    provenance: Provenance | None = None
    """Who wrote which part of the task; None in records from before that was recorded, when a person had
    typed it."""
    output: Mapping[str, JsonValue] | None = None
    """JSON Schema of the type that the answer is to have, if there was one."""
    posture: Posture | None = None
    """None where the permissions of the runtime held."""
    memory: bool = False
    """Whether each message comes with what memory holds about it."""
    gated: Sequence[str] = ()
    has_policy: bool = False
    """An approval policy was asked first."""

    def about(self, run_id: str, source: str) -> Proposal:
        """The same as a run is begun with it: a plan without actions."""
        context: dict[str, JsonValue] = msgspec.to_builtins(self)
        assert LED_BY in context
        return Proposal(id=run_id, source=source, actions=(), context=context)


def kept_of(about: Proposal) -> Kept:
    """What a run was begun with.

    Raises:
        UsageError: it is no run of an assistant.
    """
    try:
        kept = msgspec.convert(about.context, Kept)
    except msgspec.ValidationError:
        kept = None
    if kept is None or kept.led_by != LEADER:
        raise UsageError(f"Run '{about.id}' is not one of an assistant.")
    return kept
