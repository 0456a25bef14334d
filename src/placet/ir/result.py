"""What came of a proposal, action by action."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import msgspec

from placet.ir.json_value import JsonValue

Status = Literal[
    "proposed", "validated", "executing", "succeeded", "failed", "rejected", "skipped", "unknown"
]
Outcome = Literal["succeeded", "partial", "aborted", "refused", "canceled", "budget", "waiting"]

CANCELED_PREFIX = "canceled: "

ExitCode = int | None | msgspec.UnsetType
"""The exit code of a command: None if it ended before it had one, unset where no command is reported."""


def is_nonzero(code: ExitCode) -> bool:
    """Whether a command was reported that did not succeed.

    >>> is_nonzero(1), is_nonzero(None), is_nonzero(0), is_nonzero(msgspec.UNSET)
    (True, True, False, False)
    """
    return code is not msgspec.UNSET and code != 0


class ActionResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How one action ended."""

    action_id: str
    status: Status
    output: JsonValue = None
    error: str | None = None
    state_changes: dict[str, JsonValue] = {}
    """What this action wrote, and nothing of its neighbours'."""
    duration_ms: float | None = None
    timestamp: datetime
    rolled_back: bool = False
    """It succeeded, and the plan was aborted afterwards."""
    exit_code: ExitCode = msgspec.UNSET
    """Set for tools that declare an `exit_code` in what they return. A command that ran and answered with 1
    is a result: the status is `succeeded`."""


class CostSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a proposal cost, all attempts together."""

    tool_calls: int = 0
    """Tools that really ran; a cached or deduplicated answer is no call."""
    actions_executed: int = 0
    """Succeeded and failed ones."""
    actions_rejected: int = 0
    actions_skipped: int = 0
    total_duration_ms: float = 0.0
    """The sum of the actions' own times."""
    retries: int = 0


class CompensationResult(msgspec.Struct, frozen=True, kw_only=True):
    """How taking one action back went."""

    action_id: str
    status: Literal["succeeded", "failed", "rejected", "unknown"]
    error: str | None = None


class Waiting(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something a person has to decide."""

    kind: Literal["approval", "unknown_outcome", "message"]
    action_id: str
    reason: str
    needs_output: bool = False
    """Whether others refer to what the action answered, so that `done` must say what that was."""
    approval: str | None = None
    """The id under which the question is put, of kind `approval`."""


class ProposalResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a proposal. `results` has the proposal's order."""

    proposal_id: str
    run_id: str
    trace_id: str
    outcome: Outcome
    error: str | None = None
    results: Sequence[ActionResult] = ()
    cost: CostSummary = CostSummary()
    waiting: Sequence[Waiting] = ()
    irreversible: Sequence[str] = ()
    """Ids that ran in an aborted plan and cannot be taken back."""
    compensations: Sequence[CompensationResult] = ()
    replans: int = 0
    loop: dict[str, JsonValue] | msgspec.UnsetType = msgspec.UNSET
    """Of a run that a loop of turns led: its status, summary, turns and usage."""

    @property
    def succeeded(self) -> bool:
        """Whether everything that was asked for happened."""
        return self.outcome == "succeeded"

    def __getitem__(self, action_id: str) -> ActionResult:
        """The result of one action.

        Raises:
            KeyError: the proposal has no such action.
        """
        for result in self.results:
            if result.action_id == action_id:
                return result
        raise KeyError(action_id)
