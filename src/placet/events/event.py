"""One thing that happened, and one stretch of time in which it did."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal, get_args

import msgspec

from placet.ir.json_value import JsonValue
from placet.ir.to_dict import ToDict

EventKind = Literal[
    "proposal_received",
    "proposal_ended",
    "run_resumed",
    "run_began",
    "run_left",
    "run_ended",
    "action_validated",
    "action_rejected",
    "policy_violation",
    "action_executing",
    "action_retrying",
    "action_progress",
    "command_ran",
    "model_answered",
    "workspace_snapshot",
    "workspace_restored",
    "action_succeeded",
    "action_failed",
    "action_skipped",
    "action_canceled",
    "action_deduplicated",
    "action_unknown",
    "action_replayed",
    "state_changed",
    "state_snapshot",
    "state_rollback",
    "compensation_started",
    "compensation_succeeded",
    "compensation_failed",
    "replan_attempted",
    "replan_proposal_received",
    "replan_rejected",
    "replan_exhausted",
    "session_scope",
    "isolation_lowered",
    "approval_requested",
    "approval_recorded",
    "permission_decision",
    "posture_changed",
    "skill_offered",
    "skill_outcome",
    "skill_distilled",
    "evolution_triggered",
    "consolidated",
    "checkpoint_saved",
    "sink_failed",
    "rule_warning",
]
"""Kind of an event of the runtime. Turn loops, coding sessions and loops add kinds of their own."""
KINDS: tuple[str, ...] = get_args(EventKind)


class Event(ToDict, msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One thing that happened."""

    seq: int
    """Position in the log, from 1."""
    kind: str
    """Kind of event: an `EventKind`, or one of a turn loop, a coding session or a loop (`turn_*`, `check_*`,
    `round_*`)."""
    time: float
    """Seconds since the epoch."""
    run_id: str | None = None
    """Id of the run."""
    proposal_id: str | None = None
    """Id of the proposal."""
    action_id: str | None = None
    """Id of the action."""
    trace_id: str | None = None
    """Id of the trace; the same for all proposals of a run."""
    span_id: str | None = None
    """Id of the span."""
    tenant: str | None = None
    """Tenant of the run."""
    data: dict[str, JsonValue] = {}
    """Data of the event; which keys there are depends on the kind."""

    @property
    def at(self) -> datetime:
        """The time as a `datetime` in UTC."""
        return datetime.fromtimestamp(self.time, UTC)
