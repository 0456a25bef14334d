"""What came of a proposal, action by action."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal

import msgspec

from placet.errors import UnknownAction
from placet.ir.json_value import JsonValue
from placet.ir.stop_cause import StopCause
from placet.ir.to_dict import ToDict

Status = Literal[
    "proposed", "validated", "executing", "succeeded", "failed", "rejected", "skipped", "unknown"
]
"""State of an action. A finished action has one of the last five.

- `proposed`: not reached yet.
- `validated`: it passed every check, or waits for an approval.
- `executing`: it is running.
- `succeeded`: it succeeded.
- `failed`: it ran and did not succeed.
- `rejected`: a check, a policy or a person refused it; it never started.
- `skipped`: it did not run, or failed with `failure_behavior="skip"`.
- `unknown`: it was started, and it is not known whether its effect happened; counts as failed.
"""
Outcome = Literal["succeeded", "partial", "aborted", "refused", "canceled", "budget", "waiting"]
"""Outcome of a run.

- `succeeded`: every action succeeded.
- `partial`: some action did not succeed, and none of those aborts the plan.
- `aborted`: the plan was aborted and undone.
- `refused`: it was refused before anything ran.
- `canceled`: it was canceled; with a journal it can be resumed.
- `budget`: a limit was reached.
- `waiting`: a person has to decide something; then it can be resumed.
"""

CANCELED_PREFIX = "canceled: "

ExitCode = int | None | msgspec.UnsetType
"""The exit code of a command: None if it ended before it had one, unset where no command is reported."""


def is_nonzero(code: ExitCode) -> bool:
    """Whether a command was reported that did not succeed.

    >>> is_nonzero(1), is_nonzero(None), is_nonzero(0), is_nonzero(msgspec.UNSET)
    (True, True, False, False)
    """
    return code is not msgspec.UNSET and code != 0


class ActionResult(ToDict, msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The result of one action."""

    action_id: str
    """Id of the action."""
    status: Status
    """How it ended."""
    output: JsonValue = None
    """Output of the tool, as JSON; `None` unless it succeeded."""
    error: str | None = None
    """Why it did not succeed."""
    state_changes: dict[str, JsonValue] = {}
    """State keys that this action wrote, with their values."""
    duration_ms: float | None = None
    """Time that it took, in milliseconds; `None` if it never ran."""
    timestamp: datetime
    """When it ended, in UTC."""
    rolled_back: bool = False
    """It took effect, and the plan was aborted afterwards. Set for an action that succeeded, and for one that
    failed because its answer could not be used."""
    exit_code: ExitCode = msgspec.UNSET
    """Set for tools that declare an `exit_code` in what they return. A command that ran and answered with 1
    is a result: the status is `succeeded`."""
    stop_cause: StopCause | msgspec.UnsetType = msgspec.UNSET
    """Set for an action that was skipped because the run was canceled."""


class CostSummary(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """Counters of a run, over all attempts."""

    tool_calls: int = 0
    """Actions whose tool was called, and compensations; results from a cache are not counted."""
    actions_executed: int = 0
    """Actions that succeeded, failed, or have an unknown outcome."""
    actions_rejected: int = 0
    """Actions that a policy, a budget or a person rejected."""
    actions_skipped: int = 0
    """Actions that were skipped."""
    total_duration_ms: float = 0.0
    """Sum of the durations of the actions, in milliseconds."""
    retries: int = 0
    """Attempts after the first."""


class CompensationResult(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """The result of undoing one action."""

    action_id: str
    """Id of the action that was undone."""
    status: Literal["succeeded", "failed", "rejected", "unknown"]
    """How undoing it ended."""
    error: str | None = None
    """Why it did not succeed."""


class Waiting(ToDict, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A decision that a run waits for."""

    kind: Literal["approval", "unknown_outcome", "message"]
    """An approval; the outcome of an action that was in flight; the next message of a chat."""
    action_id: str
    """The action that it is about; empty for a message."""
    reason: str
    """Why the run waits."""
    needs_output: bool = False
    """Whether other actions use the output, so that a `"done"` must come with it."""
    approval: str | None = None
    """Id of the approval, if `kind` is `approval`."""


class ProposalResult(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """The result of a proposal. `results` has the order of the proposal."""

    proposal_id: str
    """Id of the proposal."""
    run_id: str
    """Id of the run, for `Runtime.resume` and `placet explain`."""
    trace_id: str
    """Id of its trace in the event log."""
    outcome: Outcome
    """How the run ended."""
    error: str | None = None
    """Why it did not succeed."""
    results: Sequence[ActionResult] = ()
    """The result of each action."""
    cost: CostSummary = CostSummary()
    """Counters of the run."""
    waiting: Sequence[Waiting] = ()
    """Decisions that the run waits for."""
    irreversible: Sequence[str] = ()
    """Ids of actions that ran in an aborted plan and were not undone."""
    undo_commands: dict[str, str] = {}
    """By id of `irreversible`, the command with which a person can undo it, such as `git restore -- a.txt`.
    Only for edits of files, where one is known."""
    compensations: Sequence[CompensationResult] = ()
    """How undoing each action went, after an abort."""
    replans: int = 0
    """How often another proposal was asked for."""
    loop: dict[str, JsonValue] | msgspec.UnsetType = msgspec.UNSET
    """For a run that a turn loop drove: its status, summary, turns and usage. Unset otherwise."""
    stop_cause: StopCause | msgspec.UnsetType = msgspec.UNSET
    """Why it was stopped, if the outcome is `canceled`. Unset otherwise."""

    @property
    def succeeded(self) -> bool:
        """Whether every action succeeded."""
        return self.outcome == "succeeded"

    def __contains__(self, action_id: object) -> bool:
        """Return whether the proposal has an action with this id.

        Args:
            action_id: The id.
        """
        return any(result.action_id == action_id for result in self.results)

    def __iter__(self) -> Iterator[ActionResult]:
        """The results, in the order of the proposal."""
        return iter(self.results)

    def __len__(self) -> int:
        """The number of actions."""
        return len(self.results)

    def __bool__(self) -> bool:
        """Always true, also for a proposal without actions. Ask `succeeded`."""
        return True

    def __getitem__(self, action_id: str) -> ActionResult:
        """Return the result of one action.

        Args:
            action_id: Id of the action.

        Raises:
            UnknownAction: the proposal has no such action; also a `KeyError`.
        """
        for result in self.results:
            if result.action_id == action_id:
                return result
        raise UnknownAction(action_id, known=[each.action_id for each in self.results])
