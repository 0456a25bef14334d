"""The state of a run, folded from its events: what the page and the static export draw.

A fold takes events one at a time, so the same code serves a run that goes on right now and one that ended a
year ago. `changes` is what became different since it was last asked for, so that a live view gets what
changed and not everything.

Keep true:
1. Pure: the view is a function of the events, in the order of the log, however they are batched.
2. An event that was taken already changes nothing: a watcher may get some twice.
3. Taking an event never raises and never guesses: what the events do not say stays null.
4. Changes, merged one after the other, make the view.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from placet.events import schema
from placet.events.event import Event
from placet.ir.proposal import Proposal
from placet.ir.result import CostSummary
from placet.ir.to_dict import ToDict

ViewKind = Literal["unknown", "plan", "turns", "code", "round"]
"""What leads a run: a plan, a model in turns, a coding session, a round of a loop."""
ViewStatus = Literal["running", "waiting", "ended"]
ActionStatus = Literal[
    "proposed",
    "validated",
    "waiting",
    "executing",
    "succeeded",
    "failed",
    "rejected",
    "skipped",
    "canceled",
    "unknown",
]
_REPLAYED: Mapping[str, ActionStatus] = {
    "succeeded": "succeeded",
    "failed": "failed",
    "rejected": "rejected",
    "skipped": "skipped",
    "unknown": "unknown",
}
MOST_NOTES = 1_000
"""Notes that are kept, the first ones; the log has them all."""


class Gate(msgspec.Struct, frozen=True):
    """Something that decided about an action."""

    by: Literal["policy", "permission", "person", "check"]
    decision: Literal["allow", "ask", "deny"]
    text: str = ""
    """The rule with its reason, the tier, or the person with theirs."""


class ProgressView(msgspec.Struct, frozen=True):
    """How far a tool has come."""

    message: str = ""
    done: float | None = None
    total: float | None = None


class ActionView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How an action stands. There may be thousands: a field at its default is left out."""

    key: str
    """`PROPOSAL/ACTION`: ids of actions are unique in their proposal."""
    id: str
    proposal: str
    type: str | None = None
    tool: str | None = None
    deps: list[str] = []
    """Keys of the actions that must end first."""
    status: ActionStatus = "proposed"
    attempt: int = 0
    begun: float | None = None
    ended: float | None = None
    duration_ms: float | None = None
    error: str | None = None
    parameters: dict[str, Any] | None = None
    """Of a call that ran, cut and without secrets."""
    exit_code: int | None = None
    cached: bool = False
    """Whether an earlier equal call answered."""
    rolled_back: bool = False
    """Whether it succeeded in a proposal that was aborted."""
    irreversible: bool = False
    """Whether it did so and cannot be undone."""
    compensation: Literal["started", "succeeded", "failed"] | None = None
    tier: str | None = None
    gates: list[Gate] = []
    approval: str | None = None
    progress: ProgressView | None = None
    isolation: str | None = None
    """What held for its command."""
    changes: list[str] = []
    """Keys of the state that it wrote."""
    turn: int | None = None
    text: str | None = None
    """The beginning of what a model saw of its result."""


class ProposalView(msgspec.Struct, kw_only=True):
    """How a proposal stands."""

    id: str
    source: str = ""
    count: int = 0
    outcome: str | None = None
    error: str | None = None
    begun: float | None = None
    ended: float | None = None
    order: list[str] = []
    """Keys of its actions in serial order, where the log knows it."""


class ApprovalView(msgspec.Struct, kw_only=True):
    """A question to a person, and the answer."""

    id: str
    action: str | None = None
    """Key of the action."""
    tool: str = ""
    reasons: list[str] = []
    mark: str | None = None
    trail: list[str] = []
    """The path by which labelled data came to the call."""
    asked_at: float | None = None
    expires_at: float | None = None
    decision: str | None = None
    by: str | None = None
    reason: str | None = None
    decided_at: float | None = None


class TurnView(msgspec.Struct, kw_only=True):
    """One answer of the model."""

    turn: int
    at: float
    text: str = ""
    calls: list[str] = []
    """The tools that it asked for, in order."""
    actions: list[str | None] = []
    """Keys of the actions that these calls became, in the same order; null as long as a call became none."""
    model: str | None = None
    stop: str | None = None
    latency_ms: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    error: str | None = None


class UserMessage(msgspec.Struct, frozen=True):
    """Something that a person has said to the model."""

    text: str
    at: float


class CheckView(msgspec.Struct, kw_only=True):
    """How a check stands."""

    name: str
    at: float
    attempt: int | None = None
    when: str | None = None
    command: Any = None
    status: Literal["running", "passed", "failed"] = "running"
    exit_code: int | None = None
    why: str | None = None
    duration_ms: float | None = None


class IterationView(msgspec.Struct, kw_only=True):
    """One conversation of a coding session, and its checks."""

    attempt: int
    iteration: int
    at: float
    run: str | None = None
    status: str | None = None
    turns: int | None = None
    green: bool | None = None
    red: list[str] = []
    why_no_further: str = ""


class QuestionView(msgspec.Struct, frozen=True):
    """A question of a model to a person."""

    id: str
    text: str
    at: float
    answered_by: str | None = None


class CodingView(msgspec.Struct, kw_only=True):
    """How a coding session stands."""

    state: str = "created"
    reason: str = ""
    intent: str = ""
    repository: str = ""
    model: str | None = None
    candidates: int = 1
    drafted: bool = False
    contract: list[schema.NamedCheck] = []
    iterations: list[IterationView] = []
    questions: list[QuestionView] = []
    branch: str | None = None
    commit: str | None = None


class PhaseView(msgspec.Struct, frozen=True):
    """A phase of a round."""

    phase: str
    at: float


class WorkerView(msgspec.Struct, frozen=True):
    """What a maker or checker has used."""

    role: str
    run: str | None
    status: str
    turns: int
    tokens: int | None
    cost: float | None


class RoundView(msgspec.Struct, kw_only=True):
    """How a round of a loop stands."""

    loop: str = ""
    number: int = 0
    level: str = ""
    phase: str | None = None
    phases: list[PhaseView] = []
    workers: list[WorkerView] = []
    tree: str | None = None
    files: int | None = None
    verdict: str | None = None
    verified: bool | None = None
    why: str = ""
    red: list[str] = []
    proceed: bool | None = None
    gate_reason: str = ""
    outcome: str | None = None
    reason: str = ""
    limit: str | None = None
    approval: str | None = None
    tokens: int | None = None
    cost: float | None = None


class NoteView(msgspec.Struct, frozen=True):
    """Something that happened to the run as a whole."""

    seq: int
    kind: str
    at: float
    action: str | None
    data: dict[str, Any]


class CostView(msgspec.Struct, kw_only=True):
    """What the run came to, as far as it is known."""

    tool_calls: int = 0
    actions_executed: int = 0
    actions_rejected: int = 0
    actions_skipped: int = 0
    retries: int = 0
    total_duration_ms: float = 0.0
    answers: int = 0
    """Answers of models."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    unknown_cost: int = 0
    """Answers of which nobody knows the price."""


class RunView(ToDict, msgspec.Struct, kw_only=True):
    """The state of a run."""

    run_id: str
    seq: int = 0
    """Position in the log of the newest event that it knows."""
    kind: ViewKind = "unknown"
    status: ViewStatus = "running"
    outcome: str | None = None
    """How it ended, or what it waits for, in the word of whatever leads it."""
    error: str | None = None
    source: str | None = None
    task: str | None = None
    model: str | None = None
    summary: str | None = None
    """The last words of a model that led it."""
    tenant: str | None = None
    caller: str | None = None
    begun: float | None = None
    ended: float | None = None
    resumed: int = 0
    """How often it was resumed."""
    counts: dict[str, int] = {}
    """Number of actions by status."""
    cost: CostView = msgspec.field(default_factory=CostView)
    proposals: list[ProposalView] = []
    actions: dict[str, ActionView] = {}
    """By key."""
    approvals: dict[str, ApprovalView] = {}
    """By id."""
    asked: list[UserMessage] = []
    turns: list[TurnView] = []
    checks: list[CheckView] = []
    coding: CodingView | None = None
    round: RoundView | None = None
    notes: list[NoteView] = []


class RunDelta(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What became different in a `RunView`. Merge it: put items in by their keys where a field holds items by
    key or by position, and replace all else."""

    run_id: str
    seq: int
    kind: ViewKind | msgspec.UnsetType = msgspec.UNSET
    status: ViewStatus | msgspec.UnsetType = msgspec.UNSET
    outcome: str | msgspec.UnsetType | None = msgspec.UNSET
    error: str | msgspec.UnsetType | None = msgspec.UNSET
    source: str | msgspec.UnsetType | None = msgspec.UNSET
    task: str | msgspec.UnsetType | None = msgspec.UNSET
    model: str | msgspec.UnsetType | None = msgspec.UNSET
    summary: str | msgspec.UnsetType | None = msgspec.UNSET
    tenant: str | msgspec.UnsetType | None = msgspec.UNSET
    caller: str | msgspec.UnsetType | None = msgspec.UNSET
    begun: float | msgspec.UnsetType | None = msgspec.UNSET
    ended: float | msgspec.UnsetType | None = msgspec.UNSET
    resumed: int | msgspec.UnsetType = msgspec.UNSET
    counts: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    cost: CostView | msgspec.UnsetType = msgspec.UNSET
    proposals: dict[int, ProposalView] | msgspec.UnsetType = msgspec.UNSET
    """By position in the list."""
    actions: dict[str, ActionView] | msgspec.UnsetType = msgspec.UNSET
    approvals: dict[str, ApprovalView] | msgspec.UnsetType = msgspec.UNSET
    asked: dict[int, UserMessage] | msgspec.UnsetType = msgspec.UNSET
    """By position in the list."""
    turns: dict[int, TurnView] | msgspec.UnsetType = msgspec.UNSET
    """By position in the list."""
    checks: dict[int, CheckView] | msgspec.UnsetType = msgspec.UNSET
    """By position in the list."""
    coding: CodingView | msgspec.UnsetType | None = msgspec.UNSET
    round: RoundView | msgspec.UnsetType | None = msgspec.UNSET
    notes: dict[int, NoteView] | msgspec.UnsetType = msgspec.UNSET
    """By position in the list."""


_KEYED = ("actions", "approvals", "proposals", "asked", "turns", "checks", "notes")
"""Fields of which only the items that changed are told."""


class RunFold:
    """Folds the events of one run.

    >>> fold = RunFold("r")
    >>> fold.take(Event(1, "proposal_received", 5.0, "r", "p", data={"source": "me", "action_count": 1}))
    >>> fold.take(Event(2, "action_succeeded", 6.0, "r", "p", "a", data={"duration_ms": 3.0}))
    >>> fold.view.actions["p/a"].status, fold.view.counts
    ('succeeded', {'succeeded': 1})
    """

    def __init__(self, run_id: str) -> None:
        self.view = RunView(run_id=run_id)
        self.has_plan = False
        """Whether it was given a plan."""
        self._changed: set[str] = set()
        self._keys: dict[str, dict[str | int, None]] = {name: {} for name in _KEYED}
        """The items that changed, in the order in which they first did."""
        self._told: dict[str, float] = {}
        """The cost so far, as the newest proposal told it."""
        self._proposals: dict[str, int] = {}
        """Positions of the proposals."""
        self._called: dict[str, tuple[int, int]] = {}
        """Of the id of each call of a model: the position of its turn, and its own position there."""

    @classmethod
    def of(cls, run_id: str, events: Iterable[Event]) -> RunFold:
        """The fold of these events."""
        fold = cls(run_id)
        for event in events:
            fold.take(event)
        return fold

    def copy(self) -> RunFold:
        """The same fold, which goes on by itself; it has told nothing yet."""
        made = RunFold(self.view.run_id)
        made.view = msgspec.msgpack.decode(msgspec.msgpack.encode(self.view), type=RunView)
        made._told, made._proposals = dict(self._told), dict(self._proposals)
        made._called = dict(self._called)
        return made

    def plan(self, proposal: Proposal) -> None:
        """Know the actions of a proposal that the log does not list because there are too many."""
        self.has_plan = True
        view = self._proposal(proposal.id)
        view.source, view.count = view.source or proposal.source, len(proposal.actions)
        for action in proposal.actions:
            made = self._action(proposal.id, action.id)
            made.type, made.tool = action.type, made.tool or action.tool
            made.deps = [f"{proposal.id}/{each}" for each in action.dependencies]
        self._changed.add("counts")

    def changes(self) -> RunDelta | None:
        """What became different since this was last asked; None if nothing did."""
        if not self._changed:
            return None
        found: dict[str, Any] = {}
        for name in self._changed:
            if name in _KEYED:
                whole = getattr(self.view, name)
                found[name] = {key: whole[key] for key in self._keys[name]}
                self._keys[name] = {}
            else:
                found[name] = getattr(self.view, name)
        self._changed = set()
        return RunDelta(**(found | {"run_id": self.view.run_id, "seq": self.view.seq}))

    def whole(self) -> RunDelta:
        """Everything, for somebody who has nothing or does not know since when."""
        found: dict[str, Any] = {}
        for name in RunView.__struct_fields__:
            items = getattr(self.view, name)
            found[name] = dict(enumerate(items)) if name in _KEYED and isinstance(items, list) else items
        return RunDelta(**found)

    # Events

    def take(self, event: Event) -> None:
        """Take the next event of the run."""
        view = self.view
        if event.seq <= view.seq:
            return
        self._set(seq=event.seq)
        if view.begun is None:
            self._set(begun=event.time)
        if event.tenant is not None and view.tenant is None:
            self._set(tenant=event.tenant)
        said = schema.typed(event)
        match said:
            case (
                schema.ActionValidated()
                | schema.ActionRejected()
                | schema.PolicyViolation()
                | schema.ActionExecuting()
                | schema.ActionRetrying()
                | schema.ActionProgress()
                | schema.CommandRan()
                | schema.ActionSucceeded()
                | schema.ActionFailed()
                | schema.ActionSkipped()
                | schema.ActionCanceled()
                | schema.ActionDeduplicated()
                | schema.ActionUnknown()
                | schema.ActionReplayed()
                | schema.StateChanged()
                | schema.CompensationStarted()
                | schema.CompensationSucceeded()
                | schema.CompensationFailed()
                | schema.PermissionDecision()
                | schema.TurnCallRefused()
                | schema.TurnCallEnded()
            ):
                if event.action_id is not None:
                    self._take_action(event, event.action_id, said)
            case schema.ApprovalRequested() | schema.ApprovalRecorded():
                self._take_approval(event, said)
            case schema.CheckStarted() | schema.CheckCompleted():
                self._take_check(event, said)
            case _:
                self._take_proposal(event, said)
                self._take_turn(event, said)
                self._take_coding(event, said)
                self._take_round(event, said)
        if event.kind in _NOTED:
            self._note(event)
        if isinstance(said, schema.ModelAnswered):
            self._spend(said)

    def _take_proposal(self, event: Event, said: schema.EventData) -> None:
        view = self.view
        name = event.proposal_id or view.run_id
        match said:
            case schema.ProposalReceived():
                made = self._proposal(name)
                made.source, made.count, made.begun = said.source, said.action_count, made.begun or event.time
                made.order = [f"{name}/{each}" for each in said.order]
                for planned in said.actions:
                    action = self._action(name, planned.id)
                    action.type, action.tool = planned.type, action.tool or planned.tool
                    action.deps = [f"{name}/{each}" for each in planned.depends_on]
                if view.kind == "unknown":
                    self._set(kind="plan")
                if view.kind == "plan":
                    self._set(status="running", source=view.source or said.source, ended=None)
            case schema.ProposalEnded():
                made = self._proposal(name)
                made.outcome, made.error, made.ended = said.outcome, said.error, event.time
                self._add_up(said)
                for action in list(view.actions.values()) if said.outcome == "aborted" else ():
                    if action.proposal == name and action.status == "succeeded":
                        action.rolled_back = True
                        action.irreversible = action.id in said.irreversible
                        self._touch("actions", action.key)
                for wait in said.waiting:
                    if wait.kind == "unknown_outcome":
                        self._stand(self._action(name, wait.action_id), "unknown")
                if view.kind in ("unknown", "plan"):
                    self._set(kind="plan")
                    self._end(event, said.outcome, said.error)
            case schema.RunResumed():
                self._set(status="running", outcome=None, ended=None, resumed=view.resumed + 1)
            case schema.SessionScope():
                self._set(caller=said.caller_id)
            case _:
                pass

    def _take_turn(self, event: Event, said: schema.EventData) -> None:
        view = self.view
        match said:
            case schema.TurnLoopStarted():
                self._set(kind="turns", status="running", outcome=None, error=None, ended=None)
                self._set(source=said.source, task=said.task or view.task, model=said.model)
            case schema.TurnAsked():
                self._append("asked", UserMessage(said.text, event.time))
                self._set(status="running", outcome=None, ended=None)
            case schema.TurnAnswered():
                made = TurnView(
                    turn=said.turn,
                    at=event.time,
                    text=said.text,
                    calls=list(said.calls),
                    actions=[None] * len(said.calls),
                    model=said.model,
                    stop=said.stop,
                    latency_ms=said.latency_ms,
                    input_tokens=said.input_tokens,
                    output_tokens=said.output_tokens,
                    cost=said.cost,
                )
                for number in range(len(said.calls)):
                    self._called[f"t{said.turn}c{number + 1}"] = (len(view.turns), number)
                self._append("turns", made)
                self._spend(said)
            case schema.TurnFailed():
                self._append("turns", TurnView(turn=said.turn, at=event.time, error=said.error))
            case schema.TurnLoopEnded():
                self._set(summary=said.summary)
                self._end(event, said.status, said.error)
            case _:
                pass

    def _take_coding(self, event: Event, said: schema.EventData) -> None:
        coding = self.view.coding or CodingView()
        match said:
            case schema.CodingStarted():
                coding.intent, coding.repository, coding.model = said.intent, said.repository, said.model
                coding.candidates = said.candidates
                self._set(kind="code", task=said.intent, model=said.model, source="coder")
            case schema.CodingContract():
                coding.drafted, coding.contract = said.drafted, list(said.checks)
            case schema.CodingStateChanged():
                coding.state, coding.reason = said.state, said.reason
                self._set(kind="code")
                if said.state in ("contract_proposed", "needs_approval"):
                    self._set(status="waiting", outcome=said.state, ended=None)
                elif said.state in ("merged", "failed", "abandoned"):
                    self._end(event, said.state, said.reason or None)
                else:
                    self._set(status="running", outcome=None, ended=None)
            case schema.CodingIterationStarted():
                coding.iterations.append(
                    IterationView(attempt=said.attempt, iteration=said.iteration, at=event.time, run=said.run)
                )
            case schema.CodingIterationEnded():
                for each in coding.iterations:
                    if (each.attempt, each.iteration) == (said.attempt, said.iteration):
                        each.status, each.turns, each.green = said.status, said.turns, said.green
                        each.red, each.why_no_further = list(said.red), said.why_no_further
            case schema.CodingQuestionAsked():
                coding.questions.append(QuestionView(said.question, said.text, event.time))
            case schema.CodingQuestionClosed():
                coding.questions = [
                    msgspec.structs.replace(each, answered_by=said.by) if each.id == said.question else each
                    for each in coding.questions
                ]
            case schema.CodingPublished():
                coding.branch, coding.commit = said.branch, said.commit
            case _:
                return
        self._set(coding=coding)

    def _take_round(self, event: Event, said: schema.EventData) -> None:
        found = self.view.round or RoundView()
        match said:
            case schema.RoundStarted():
                found.loop, found.number, found.level = said.loop, said.number, said.level
                self._set(kind="round", source="loop", task=said.loop)
            case schema.RoundPhase():
                found.phase = said.phase
                found.phases.append(PhaseView(said.phase, event.time))
            case schema.RoundWorked():
                found.workers.append(
                    WorkerView(said.role, said.run, said.status, said.turns, said.tokens, said.cost)
                )
            case schema.RoundFrozen():
                found.tree, found.files = said.tree, said.files
            case schema.RoundJudged():
                found.verdict, found.verified, found.why = said.verdict, said.verified, said.why
                found.red = list(said.red)
            case schema.RoundGated():
                found.proceed, found.gate_reason = said.proceed, said.reason
            case schema.RoundEnded():
                found.outcome, found.reason, found.limit = said.outcome, said.reason, said.limit
                found.approval, found.tokens, found.cost = said.approval, said.tokens, said.cost
                self._end(event, said.outcome, said.reason or None)
                if said.outcome == "escalated":
                    self._set(status="waiting", ended=None)
            case _:
                return
        self._set(round=found)

    def _take_check(self, event: Event, said: schema.CheckStarted | schema.CheckCompleted) -> None:
        checks = self.view.checks
        if isinstance(said, schema.CheckStarted):
            made = CheckView(name=said.name, at=event.time, attempt=said.attempt, when=said.when)
            made.command = said.command
            self._append("checks", made)
            return
        which = (said.name, said.attempt, said.when, "running")
        place = next(
            (
                place
                for place in range(len(checks) - 1, -1, -1)
                if (checks[place].name, checks[place].attempt, checks[place].when, checks[place].status)
                == which
            ),
            None,
        )
        if place is None:
            place = len(checks)
            self._append(
                "checks", CheckView(name=said.name, at=event.time, attempt=said.attempt, when=said.when)
            )
        found = checks[place]
        found.status = "passed" if said.passed else "failed"
        found.exit_code, found.why, found.duration_ms = said.exit_code, said.why, said.duration_ms
        self._touch("checks", place)

    def _take_action(self, event: Event, id: str, said: schema.EventData) -> None:
        action = self._action(event.proposal_id or self.view.run_id, id)
        match said:
            case schema.TurnCallRefused():
                action.turn = said.turn
                action.gates = [*action.gates, Gate("check", "deny", said.error)]
                self._over(action, event, "rejected", said.error, said.tool)
            case schema.ActionValidated():
                self._stand(action, "validated")
            case schema.ActionExecuting():
                self._stand(action, "executing")
                action.attempt, action.tool = said.attempt, said.tool or action.tool
                action.begun = action.begun if action.begun is not None else event.time
                action.parameters = said.parameters if said.parameters is not None else action.parameters
                action.error = None
            case schema.ActionRetrying():
                action.attempt, action.error = said.attempt, said.error
            case schema.ActionProgress():
                action.progress = ProgressView(said.message, said.done, said.total)
            case schema.CommandRan():
                action.isolation, action.exit_code = said.isolation, said.exit_code
            case schema.ActionDeduplicated():
                action.cached = True
            case schema.StateChanged():
                action.changes = sorted({*action.changes, *said.changes})
            case schema.PermissionDecision():
                action.tier, action.tool = said.tier, said.tool or action.tool
                action.gates = [*action.gates, Gate("permission", said.decision, said.tier)]
            case schema.PolicyViolation():
                action.gates = [*action.gates, Gate("policy", "deny", said.error)]
                self._over(action, event, "rejected", said.error, said.tool)
            case schema.ActionRejected():
                if action.status != "rejected":
                    action.gates = [*action.gates, Gate("check", "deny", said.error)]
                self._over(action, event, "rejected", said.error, said.tool)
            case schema.ActionSucceeded():
                self._over(action, event, "succeeded", None, said.tool)
                action.duration_ms, action.cached = said.duration_ms, action.cached or said.cached
                action.exit_code = said.exit_code if said.exit_code is not None else action.exit_code
            case schema.ActionFailed():
                self._over(action, event, "failed", said.error, said.tool)
                action.attempt = said.attempt or action.attempt
            case schema.ActionUnknown():
                self._over(action, event, "unknown", said.error, said.tool)
            case schema.ActionSkipped():
                self._over(action, event, "skipped", said.error, None)
            case schema.ActionCanceled():
                self._over(action, event, "canceled", said.error, None)
            case schema.ActionReplayed():
                self._stand(action, _REPLAYED.get(said.status, action.status))
                action.exit_code = said.exit_code if said.exit_code is not None else action.exit_code
            case schema.CompensationStarted():
                action.compensation = "started"
            case schema.CompensationSucceeded():
                action.compensation = "succeeded"
            case schema.CompensationFailed():
                action.compensation = "failed"
            case schema.TurnCallEnded():
                action.turn, action.text = said.turn, said.text
                action.tool = action.tool or said.tool
            case _:
                pass
        self._touch("actions", action.key)

    def _take_approval(self, event: Event, said: schema.ApprovalRequested | schema.ApprovalRecorded) -> None:
        found = self.view.approvals.get(said.approval) or ApprovalView(id=said.approval)
        self.view.approvals[said.approval] = found
        action = None
        if event.action_id is not None:
            action = self._action(event.proposal_id or self.view.run_id, event.action_id)
            found.action = action.key
        if isinstance(said, schema.ApprovalRequested):
            found.tool, found.reasons = said.tool, list(said.reasons)
            found.mark, found.trail = said.mark, list(said.trail)
            found.asked_at, found.expires_at = event.time, said.expires_at
            if action is not None:
                action.approval, action.tool = said.approval, action.tool or said.tool
                action.gates = [*action.gates, *(Gate("policy", "ask", each) for each in said.reasons)]
                if found.decision is None:
                    self._stand(action, "waiting")
        elif found.decision is None:
            found.decision, found.by, found.reason = said.decision, said.by, said.reason
            found.decided_at = said.decided_at if said.decided_at is not None else event.time
            if action is not None:
                is_given = said.decision in ("once", "always", "edits")
                words = said.by or said.decision
                action.gates = [*action.gates, Gate("person", "allow" if is_given else "deny", words)]
                if is_given and action.status == "waiting":
                    self._stand(action, "validated")
        self._touch("approvals", found.id)
        if action is not None:
            self._touch("actions", action.key)

    # Parts

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            setattr(self.view, name, value)
            self._changed.add(name)

    def _touch(self, part: str, key: str | int) -> None:
        self._changed.add(part)
        self._keys[part][key] = None

    def _append(self, part: str, item: object) -> None:
        items = getattr(self.view, part)
        self._touch(part, len(items))
        items.append(item)

    def _end(self, event: Event, outcome: str, error: str | None) -> None:
        is_waiting = outcome == "waiting"
        self._set(
            status="waiting" if is_waiting else "ended",
            outcome=outcome,
            error=error,
            ended=None if is_waiting else event.time,
        )

    def _proposal(self, id: str) -> ProposalView:
        place = self._proposals.get(id)
        if place is None:
            place = self._proposals[id] = len(self.view.proposals)
            self._append("proposals", ProposalView(id=id))
        self._touch("proposals", place)
        return self.view.proposals[place]

    def _action(self, proposal: str, id: str) -> ActionView:
        key = f"{proposal}/{id}"
        at = self._called.get(id)
        if at is not None:
            # The loop tells of a call under its own name, the plan of the call under that of the plan.
            turn = self.view.turns[at[0]]
            known = turn.actions[at[1]]
            if known is None:
                turn.actions[at[1]] = key
                self._touch("turns", at[0])
            elif proposal == self.view.run_id:
                key = known
        found = self.view.actions.get(key)
        if found is None:
            found = self.view.actions[key] = ActionView(key=key, id=id, proposal=proposal)
            self._count("proposed", 1)
        self._touch("actions", key)
        return found

    def _stand(self, action: ActionView, status: ActionStatus) -> None:
        if action.status != status:
            self._count(action.status, -1)
            self._count(status, 1)
            action.status = status
        self._touch("actions", action.key)

    def _over(
        self, action: ActionView, event: Event, status: ActionStatus, error: str | None, tool: str | None
    ) -> None:
        self._stand(action, status)
        action.ended, action.error, action.tool = event.time, error, tool or action.tool
        action.progress = None

    def _count(self, status: str, more: int) -> None:
        counts = self.view.counts
        left = counts.get(status, 0) + more
        if left > 0:
            counts[status] = left
        else:
            counts.pop(status, None)
        self._changed.add("counts")

    def _add_up(self, said: schema.ProposalEnded) -> None:
        # Each end of a proposal tells the cost of the run so far; resumed, a run counts from nothing.
        for name in CostSummary.__struct_fields__:
            given, told = getattr(said.cost, name), self._told.get(name, 0)
            if given > told:
                self._told[name] = given
                setattr(self.view.cost, name, getattr(self.view.cost, name) + given - told)
        self._changed.add("cost")

    def _spend(self, said: schema.TurnAnswered | schema.ModelAnswered) -> None:
        cost = self.view.cost
        cost.answers += 1
        cost.input_tokens += said.input_tokens or 0
        cost.output_tokens += said.output_tokens or 0
        cost.cost_usd += said.cost or 0.0
        cost.unknown_cost += said.cost is None
        self._changed.add("cost")

    def _note(self, event: Event) -> None:
        if len(self.view.notes) < MOST_NOTES:
            action = f"{event.proposal_id}/{event.action_id}" if event.action_id is not None else None
            self._append("notes", NoteView(event.seq, event.kind, event.time, action, event.data))


_NOTED = frozenset(
    {
        *("run_resumed", "sink_failed", "rule_warning", "isolation_lowered", "posture_changed"),
        *("state_rollback", "workspace_snapshot", "workspace_restored", "checkpoint_saved", "consolidated"),
        *("skill_offered", "skill_outcome", "skill_distilled", "evolution_triggered"),
        *("replan_attempted", "replan_proposal_received", "replan_rejected", "replan_exhausted"),
        *("compensation_started", "compensation_succeeded", "compensation_failed"),
        *("turn_failed", "turn_call_refused", "turn_warned", "turn_compacted", "turn_goal_checked"),
        *("coding_seal_broken", "coding_published", "round_seal_broken", "round_recall_failed"),
    }
)
"""Kinds that are told of the run as a whole, in the order in which they came."""
