"""What each kind of event says, as typed records: the vocabulary of everything that shows a run.

The log stores the data of an event as JSON (`Event.data`). `typed` reads it as the record of its kind. All
records together are one closed union, told apart by `event`, which is also what the API describes.

Keep true:
1. Every kind that is emitted has a record here, and what is emitted decodes as that record.
2. Reading never raises: an event of an unknown kind, or with other data than its kind has, is an `Unknown`.
3. Nothing here is a sentence that somebody has to take apart: what a view needs is a field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from placet.events.event import Event
from placet.ir.result import CompensationResult, CostSummary, Waiting

Json: TypeAlias = Any
"""A JSON value. Records are described by JSON Schema, which has no name for one that holds itself."""


class _Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    pass


class Unknown(_Record, frozen=True, kw_only=True, tag="unknown"):
    """An event that this version does not know."""

    kind: str
    data: dict[str, Json] = {}


# Plans and actions


class PlannedAction(msgspec.Struct, frozen=True):
    """An action of a plan that is about to run."""

    id: str
    type: str = "tool_call"
    tool: str | None = None
    depends_on: tuple[str, ...] = ()


class ProposalReceived(_Record, frozen=True, kw_only=True, tag="proposal_received"):
    """A proposal is about to run."""

    source: str = ""
    action_count: int = 0
    actions: tuple[PlannedAction, ...] = ()
    order: tuple[str, ...] = ()


class ProposalEnded(_Record, frozen=True, kw_only=True, tag="proposal_ended"):
    """A proposal has ended."""

    source: str = ""
    outcome: str
    cost: CostSummary = CostSummary()
    error: str | None = None
    irreversible: tuple[str, ...] = ()
    compensations: tuple[CompensationResult, ...] = ()
    waiting: tuple[Waiting, ...] = ()


class RunResumed(_Record, frozen=True, kw_only=True, tag="run_resumed"):
    """A run that was broken off is resumed."""

    completed: int = 0
    unknown: tuple[str, ...] = ()
    decided: Mapping[str, Json] = {}
    decided_by: Mapping[str, str] = {}


class RunEnded(_Record, frozen=True, kw_only=True, tag="run_ended"):
    """The row of a run is written: it has ended, or waits."""

    outcome: str


class RunBegan(_Record, frozen=True, kw_only=True, tag="run_began"):
    """Work on a run begins in a process; recorded where traces are exported."""

    source: str = ""
    led: bool = False
    """Whether its plans come one after the other: from an agent, an assistant, a coding session, a loop."""
    parent: str | None = None
    """W3C `traceparent` of the caller."""
    stretch: str = ""
    """Tells apart the spans of a run that is resumed."""
    sampled: bool = True


class RunLeft(_Record, frozen=True, kw_only=True, tag="run_left"):
    """Work on a run ends in a process; recorded where traces are exported."""

    outcome: str | None = None
    """The outcome, or `waiting`; `None` if the run was let go of before it had one."""


class ActionValidated(_Record, frozen=True, kw_only=True, tag="action_validated"):
    """An action passed every gate."""


class ActionRejected(_Record, frozen=True, kw_only=True, tag="action_rejected"):
    """A capability or a check said no."""

    error: str = ""
    tool: str | None = None


class PolicyViolation(_Record, frozen=True, kw_only=True, tag="policy_violation"):
    """A policy, a posture or a person said no."""

    error: str = ""
    tool: str | None = None
    mark: str | None = None
    trail: tuple[str, ...] = ()


class ActionExecuting(_Record, frozen=True, kw_only=True, tag="action_executing"):
    """An attempt begins."""

    attempt: int = 1
    tool: str | None = None
    parameters: dict[str, Json] | None = None


class ActionRetrying(_Record, frozen=True, kw_only=True, tag="action_retrying"):
    """Another attempt follows."""

    attempt: int = 1
    delay_ms: float = 0.0
    error: str = ""


class ActionProgress(_Record, frozen=True, kw_only=True, tag="action_progress"):
    """A tool says how far it has come."""

    message: str = ""
    done: float | None = None
    total: float | None = None


class CommandRan(_Record, frozen=True, kw_only=True, tag="command_ran"):
    """A command has ended."""

    program: str | None = None
    isolation: str = "none"
    by: str | None = None
    enforced: dict[str, Json] | None = None
    ended_by: str | None = None
    exit_code: int | None = None
    duration_ms: float | None = None


class ModelAnswered(_Record, frozen=True, kw_only=True, tag="model_answered"):
    """A model has answered a tool."""

    model: str | None = None
    chosen: str | None = None
    role: str | None = None
    because: str | None = None
    stop: str | None = None
    latency_ms: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost: float | None = None


class ActionSucceeded(_Record, frozen=True, kw_only=True, tag="action_succeeded"):
    """An action did what was asked."""

    duration_ms: float | None = None
    tool: str | None = None
    cached: bool = False
    exit_code: int | None = None


class ActionFailed(_Record, frozen=True, kw_only=True, tag="action_failed"):
    """The last attempt failed."""

    error: str = ""
    attempt: int | None = None
    tool: str | None = None
    left_behind: Json = None
    took_effect: bool = False


class ActionSkipped(_Record, frozen=True, kw_only=True, tag="action_skipped"):
    """An action does not run, or its failure is tolerated."""

    error: str = ""


class ActionCanceled(_Record, frozen=True, kw_only=True, tag="action_canceled"):
    """An action does not run because of a cancel."""

    error: str = ""


class ActionDeduplicated(_Record, frozen=True, kw_only=True, tag="action_deduplicated"):
    """An earlier equal call answers."""

    of: str | None = None


class ActionUnknown(_Record, frozen=True, kw_only=True, tag="action_unknown"):
    """Nobody knows whether the effect of an action happened."""

    error: str = ""
    tool: str | None = None
    attempt: int | None = None
    left_behind: Json = None


class ActionReplayed(_Record, frozen=True, kw_only=True, tag="action_replayed"):
    """An action had ended before the run was broken off, and is read back."""

    status: str
    exit_code: int | None = None


class StateChanged(_Record, frozen=True, kw_only=True, tag="state_changed"):
    """An action wrote state."""

    changes: dict[str, Json] = {}


class StateSnapshot(_Record, frozen=True, kw_only=True, tag="state_snapshot"):
    """The values that were put back after an abort."""

    state: dict[str, Json] = {}


class StateRollback(_Record, frozen=True, kw_only=True, tag="state_rollback"):
    """The keys that were put back or removed after an abort."""

    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class WorkspaceSnapshot(_Record, frozen=True, kw_only=True, tag="workspace_snapshot"):
    """A bound folder was kept before anything may change it."""

    snapshot: str | None = None
    folder: str = ""
    files: int = 0
    bytes: int = 0
    left_out: Json = None


class WorkspaceRestored(_Record, frozen=True, kw_only=True, tag="workspace_restored"):
    """A bound folder was brought back after an abort."""

    snapshot: str | None = None
    folder: str = ""
    problems: Json = None
    changed: int | None = None
    removed: int | None = None
    brought_back: int | None = None
    left_out: Json = None
    not_restored: Json = None


class CompensationStarted(_Record, frozen=True, kw_only=True, tag="compensation_started"):
    """An action is being undone."""

    tool: str | None = None
    action: str | None = None


class CompensationSucceeded(_Record, frozen=True, kw_only=True, tag="compensation_succeeded"):
    """An action was undone."""

    tool: str | None = None
    action: str | None = None


class CompensationFailed(_Record, frozen=True, kw_only=True, tag="compensation_failed"):
    """An action was not undone."""

    tool: str | None = None
    action: str | None = None
    error: str = ""


class ReplanAttempted(_Record, frozen=True, kw_only=True, tag="replan_attempted"):
    """Another plan is asked for."""

    attempt: int = 1
    failed_count: int = 0


class ReplanProposalReceived(_Record, frozen=True, kw_only=True, tag="replan_proposal_received"):
    """Another plan will run."""

    attempt: int = 1
    new_proposal_id: str | None = None
    new_action_count: int = 0


class ReplanRejected(_Record, frozen=True, kw_only=True, tag="replan_rejected"):
    """Another plan is sent back."""

    attempt: int = 1
    errors: tuple[str, ...] = ()


class ReplanExhausted(_Record, frozen=True, kw_only=True, tag="replan_exhausted"):
    """Nobody is asked for another plan any more."""

    attempts: int = 0
    reason: str | None = None
    error: str | None = None


class SessionScope(_Record, frozen=True, kw_only=True, tag="session_scope"):
    """On whose behalf a proposal runs."""

    caller_id: str | None = None
    tenant: str | None = None
    claims: dict[str, Json] | None = None


class IsolationLowered(_Record, frozen=True, kw_only=True, tag="isolation_lowered"):
    """A person has lowered what isolation is required."""

    required: str = ""
    lowered_to: str = ""
    until: str | None = None
    because: str = ""


# Gates and people


class PermissionDecision(_Record, frozen=True, kw_only=True, tag="permission_decision"):
    """What the caller's posture answers to a call above read_only."""

    tier: str
    decision: Literal["allow", "ask", "deny"]
    tool: str | None = None


class ApprovalRequested(_Record, frozen=True, kw_only=True, tag="approval_requested"):
    """A person is asked about an action."""

    approval: str
    tool: str = ""
    reasons: tuple[str, ...] = ()
    fingerprint: str | None = None
    expires_at: float | None = None
    mark: str | None = None
    trail: tuple[str, ...] = ()


class ApprovalRecorded(_Record, frozen=True, kw_only=True, tag="approval_recorded"):
    """The answer of a person."""

    approval: str
    decision: str
    by: str | None = None
    reason: str | None = None
    decided_at: float | None = None


class PostureChanged(_Record, frozen=True, kw_only=True, tag="posture_changed"):
    """A person has said what needs no asking from now on."""

    read_only: str = "ask"
    sandbox_edit: str = "ask"
    full_access: str = "ask"


# The log itself, memory


class SinkFailed(_Record, frozen=True, kw_only=True, tag="sink_failed"):
    """Something could not be recorded."""

    sink: str = ""
    error: str = ""


class RuleWarning(_Record, frozen=True, kw_only=True, tag="rule_warning"):
    """A rule names something that nobody knows."""

    kind: str = ""
    rule: str | None = None
    name: str = ""
    nearest: str | None = None
    message: str = ""


class CheckpointSaved(_Record, frozen=True, kw_only=True, tag="checkpoint_saved"):
    """A checkpoint was taken."""

    id: str = ""


class Consolidated(_Record, frozen=True, kw_only=True, tag="consolidated"):
    """Memory was consolidated."""

    expired: int = 0
    superseded: int = 0
    vectors_removed: int = 0
    embedded: int = 0
    total: int = 0
    domains_evolved: tuple[str, ...] = ()
    note: str | None = None


class SkillOffered(_Record, frozen=True, kw_only=True, tag="skill_offered"):
    """Skills fit a message of a run."""

    offered: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()


class SkillOutcome(_Record, frozen=True, kw_only=True, tag="skill_outcome"):
    """Somebody has said how a run went."""

    succeeded: bool = False
    by: str = ""
    skills: tuple[str, ...] = ()


class SkillDistilled(_Record, frozen=True, kw_only=True, tag="skill_distilled"):
    """A model has written a skill from a run, or has repaired one."""

    names: tuple[str, ...] = ()
    how: str = ""
    labels: tuple[str, ...] = ()


class EvolutionTriggered(_Record, frozen=True, kw_only=True, tag="evolution_triggered"):
    """A model has written a skill for a domain in which the others do not help enough."""

    domain: str = ""
    rate: float = 0.0
    names: tuple[str, ...] = ()


# Turns


class TurnLoopStarted(_Record, frozen=True, kw_only=True, tag="turn_loop_started"):
    """A run that a model leads begins."""

    source: str = ""
    task: str = ""
    model: str | None = None
    tools: tuple[str, ...] = ()
    limits: dict[str, Json] | None = None


class TurnAsked(_Record, frozen=True, kw_only=True, tag="turn_asked"):
    """A person has said something to the model."""

    text: str = ""


HARNESS = "harness"
"""In the place of a model's name: the runtime itself asked, for a small model, before that was asked."""


class TurnAnswered(_Record, frozen=True, kw_only=True, tag="turn_answered"):
    """The model has answered."""

    turn: int
    text: str = ""
    calls: tuple[str, ...] = ()
    model: str | None = None
    chosen: str | None = None
    role: str | None = None
    because: str | None = None
    stop: str | None = None
    latency_ms: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost: float | None = None


class TurnFailed(_Record, frozen=True, kw_only=True, tag="turn_failed"):
    """The model gave no answer."""

    turn: int
    error: str = ""
    code: str | None = None


class TurnCallRefused(_Record, frozen=True, kw_only=True, tag="turn_call_refused"):
    """A call that cannot become a plan."""

    turn: int
    tool: str | None = None
    error: str = ""


class TurnCallEnded(_Record, frozen=True, kw_only=True, tag="turn_call_ended"):
    """A call of the model has ended."""

    turn: int
    tool: str | None = None
    status: str = ""
    text: str = ""


class TurnWarned(_Record, frozen=True, kw_only=True, tag="turn_warned"):
    """The model was told that it repeats itself."""

    turn: int


class TurnCompacted(_Record, frozen=True, kw_only=True, tag="turn_compacted"):
    """Room was made in the conversation."""

    turn: int
    results: int = 0
    calls: int = 0
    turns: int = 0
    messages: int = 0


class TurnLoopEnded(_Record, frozen=True, kw_only=True, tag="turn_loop_ended"):
    """No more comes of the task or message for now."""

    status: str
    turns: int = 0
    tools: int = 0
    looked: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    ran: tuple[str, ...] = ()
    lacks: Json = None
    summary: str = ""
    error: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None


class TurnGoalChecked(_Record, frozen=True, kw_only=True, tag="turn_goal_checked"):
    """The check of an agent's goal was run."""

    iteration: int
    most: int = 0
    check: str = ""
    passed: bool = False
    why: str | None = None
    output: str = ""


# Coding sessions


class NamedCheck(msgspec.Struct, frozen=True):
    """A check of a contract."""

    name: str
    command: Json = None


class CodingStarted(_Record, frozen=True, kw_only=True, tag="coding_started"):
    """A coding session begins."""

    intent: str = ""
    repository: str = ""
    model: str | None = None
    begun_on: str | None = None
    included: tuple[str, ...] = ()
    candidates: int = 1


class CodingContract(_Record, frozen=True, kw_only=True, tag="coding_contract"):
    """Which checks decide."""

    drafted: bool = False
    checks: tuple[NamedCheck, ...] = ()


class CodingStateChanged(_Record, frozen=True, kw_only=True, tag="coding_state_changed"):
    """The session is in another state."""

    state: str
    reason: str = ""
    by: str | None = None


class CodingIterationStarted(_Record, frozen=True, kw_only=True, tag="coding_iteration_started"):
    """A fresh conversation begins."""

    attempt: int
    iteration: int
    most: int = 0
    run: str | None = None
    hint: str | None = None


class CodingIterationEnded(_Record, frozen=True, kw_only=True, tag="coding_iteration_ended"):
    """An iteration was checked."""

    attempt: int
    iteration: int
    status: str = ""
    turns: int = 0
    green: bool = False
    red: tuple[str, ...] = ()
    why_no_further: str = ""


class CodingSealBroken(_Record, frozen=True, kw_only=True, tag="coding_seal_broken"):
    """Files were changed that checks depend on, and put back."""

    attempt: int = 0
    iteration: int = 0
    paths: tuple[str, ...] = ()


class CodingQuestionAsked(_Record, frozen=True, kw_only=True, tag="coding_question_asked"):
    """The model asks a person something."""

    attempt: int = 0
    question: str
    text: str = ""


class CodingQuestionClosed(_Record, frozen=True, kw_only=True, tag="coding_question_closed"):
    """Nobody waits for an answer any more: a person has given one, or the time is up."""

    attempt: int = 0
    question: str
    by: str | None = None


class CodingPublished(_Record, frozen=True, kw_only=True, tag="coding_published"):
    """The change is in the person's repository."""

    branch: str = ""
    commit: str = ""


class CheckStarted(_Record, frozen=True, kw_only=True, tag="check_started"):
    """A check begins."""

    name: str
    command: Json = None
    attempt: int | None = None
    when: str | None = None


class CheckCompleted(_Record, frozen=True, kw_only=True, tag="check_completed"):
    """A check has ended."""

    name: str
    passed: bool
    exit_code: int | None = None
    why: str | None = None
    duration_ms: float | None = None
    attempt: int | None = None
    when: str | None = None


# Rounds of loops


class RoundStarted(_Record, frozen=True, kw_only=True, tag="round_started"):
    """A round begins."""

    loop: str
    number: int = 0
    level: str = ""
    base: str | None = None


class RoundPhase(_Record, frozen=True, kw_only=True, tag="round_phase"):
    """A round is in another phase."""

    loop: str = ""
    number: int = 0
    phase: str


class RoundRecallFailed(_Record, frozen=True, kw_only=True, tag="round_recall_failed"):
    """Earlier rounds could not be read."""

    loop: str = ""
    error: str = ""


class RoundWorked(_Record, frozen=True, kw_only=True, tag="round_worked"):
    """Maker or checker has ended."""

    loop: str = ""
    role: str
    run: str | None = None
    status: str = ""
    turns: int = 0
    tokens: int | None = None
    cost: float | None = None


class RoundSealBroken(_Record, frozen=True, kw_only=True, tag="round_seal_broken"):
    """The maker changed files that checks depend on, and they were put back."""

    loop: str = ""
    paths: tuple[str, ...] = ()


class RoundFrozen(_Record, frozen=True, kw_only=True, tag="round_frozen"):
    """The change is a tree from now on."""

    loop: str = ""
    tree: str = ""
    files: int = 0


class RoundJudged(_Record, frozen=True, kw_only=True, tag="round_judged"):
    """Whether the change is verified."""

    loop: str = ""
    verdict: str | None = None
    verified: bool = False
    why: str = ""
    red: tuple[str, ...] = ()


class RoundGated(_Record, frozen=True, kw_only=True, tag="round_gated"):
    """Whether the round may act without a person."""

    loop: str = ""
    proceed: bool = False
    reason: str = ""


class RoundEnded(_Record, frozen=True, kw_only=True, tag="round_ended"):
    """What came of a round."""

    loop: str = ""
    number: int = 0
    outcome: str
    reason: str = ""
    limit: str | None = None
    approval: str | None = None
    receipt: str | None = None
    tokens: int | None = None
    cost: float | None = None


class _Said(_Record, frozen=True, kw_only=True):
    loop: str = ""
    by: str = ""
    reason: str = ""


class LoopRaised(_Said, frozen=True, kw_only=True, tag="loop_raised"):
    """A person lets a loop that was lowered go as far as its file says again."""


class LoopPaused(_Said, frozen=True, kw_only=True, tag="loop_paused"):
    """A person has paused a loop."""


class LoopStopped(_Said, frozen=True, kw_only=True, tag="loop_stopped"):
    """A person has stopped a loop."""


class LoopResumed(_Said, frozen=True, kw_only=True, tag="loop_resumed"):
    """A person lets a loop go on."""


class LoopsStopped(_Said, frozen=True, kw_only=True, tag="loops_stopped"):
    """A person has stopped all loops."""


class LoopsResumed(_Said, frozen=True, kw_only=True, tag="loops_resumed"):
    """A person lets loops go on."""


class RoundDemoted(_Record, frozen=True, kw_only=True, tag="round_demoted"):
    """A loop may do less from now on."""

    loop: str = ""
    level: str = ""
    reason: str = ""


class AgentTested(_Record, frozen=True, kw_only=True, tag="agent_tested"):
    """An agent was tested on its scenarios."""

    agent: str
    k: int
    passed: int = 0
    of: int = 0
    error: str | None = None


EventData: TypeAlias = (
    Unknown
    | ProposalReceived
    | ProposalEnded
    | RunResumed
    | RunBegan
    | RunLeft
    | RunEnded
    | ActionValidated
    | ActionRejected
    | PolicyViolation
    | ActionExecuting
    | ActionRetrying
    | ActionProgress
    | CommandRan
    | ModelAnswered
    | ActionSucceeded
    | ActionFailed
    | ActionSkipped
    | ActionCanceled
    | ActionDeduplicated
    | ActionUnknown
    | ActionReplayed
    | StateChanged
    | StateSnapshot
    | StateRollback
    | WorkspaceSnapshot
    | WorkspaceRestored
    | CompensationStarted
    | CompensationSucceeded
    | CompensationFailed
    | ReplanAttempted
    | ReplanProposalReceived
    | ReplanRejected
    | ReplanExhausted
    | SessionScope
    | IsolationLowered
    | PermissionDecision
    | ApprovalRequested
    | ApprovalRecorded
    | PostureChanged
    | SinkFailed
    | RuleWarning
    | CheckpointSaved
    | Consolidated
    | SkillOffered
    | SkillOutcome
    | SkillDistilled
    | EvolutionTriggered
    | TurnLoopStarted
    | TurnAsked
    | TurnAnswered
    | TurnFailed
    | TurnCallRefused
    | TurnCallEnded
    | TurnWarned
    | TurnCompacted
    | TurnLoopEnded
    | TurnGoalChecked
    | CodingStarted
    | CodingContract
    | CodingStateChanged
    | CodingIterationStarted
    | CodingIterationEnded
    | CodingSealBroken
    | CodingQuestionAsked
    | CodingQuestionClosed
    | CodingPublished
    | CheckStarted
    | CheckCompleted
    | RoundStarted
    | RoundPhase
    | RoundRecallFailed
    | RoundWorked
    | RoundSealBroken
    | RoundFrozen
    | RoundJudged
    | RoundGated
    | RoundEnded
    | LoopRaised
    | LoopPaused
    | LoopStopped
    | LoopResumed
    | LoopsStopped
    | AgentTested
    | LoopsResumed
    | RoundDemoted
)
"""What an event says, told apart by `event`."""

RECORDS: Mapping[str, type[Any]] = {
    str(record.__struct_config__.tag): record for record in get_args(EventData) if record is not Unknown
}
"""The record of each kind."""


def typed(event: Event) -> EventData:
    """What an event says, as the record of its kind.

    >>> typed(Event(1, "action_succeeded", 0.0, data={"duration_ms": 5})).duration_ms
    5.0
    >>> typed(Event(1, "nobody_knows", 0.0))
    Unknown(kind='nobody_knows', data={})
    """
    record = RECORDS.get(event.kind)
    if record is None:
        return Unknown(kind=event.kind, data=event.data)
    try:
        found: EventData = msgspec.convert(event.data, record)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError):
        return Unknown(kind=event.kind, data=event.data)
    return found
