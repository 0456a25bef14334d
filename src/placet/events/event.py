"""One thing that happened, and one stretch of time in which it did."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal, get_args

import msgspec

from placet.ir.json_value import JsonValue

EventKind = Literal[
    "proposal_received",
    "proposal_ended",
    "run_resumed",
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
    "skill_distilled",
    "evolution_triggered",
    "consolidated",
    "checkpoint_saved",
    "sink_failed",
]
KINDS: tuple[str, ...] = get_args(EventKind)


class Event(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One thing that happened. Positional, because the runtime makes several per action."""

    seq: int
    """Orders the log; each log counts from 1."""
    kind: str
    """One of KINDS, or a loop's own (turn_*, check_*, round_*)."""
    time: float
    """Seconds since the epoch."""
    run_id: str | None = None
    proposal_id: str | None = None
    action_id: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    tenant: str | None = None
    data: dict[str, JsonValue] = {}

    @property
    def at(self) -> datetime:
        """When, as a moment in UTC."""
        return datetime.fromtimestamp(self.time, UTC)
