"""The runtime: the one choke point through which everything an agent does must pass.

Keep true:
1. `execute` raises for misuse and for input that cannot be read, never for what a plan or a tool does.
2. Verify and execute ask the same gate.
3. One event loop at a time: the state and the log have no locks because nothing else touches them.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from placet.approvals.ledger import ApprovalLedger
from placet.approvals.memory import MemoryApprovals
from placet.errors import UsageError
from placet.events.log import EventLog
from placet.ir.codec import decode_proposal
from placet.ir.json_value import JsonValue
from placet.ir.proposal import Proposal, new_id
from placet.ir.result import ProposalResult
from placet.ir.tool_spec import ToolSchema
from placet.planner.score import Feedback, rank
from placet.policy.budget import Allowance, CostBudget
from placet.policy.capabilities import CapabilitySet
from placet.policy.case import Rule
from placet.policy.engine import PolicyCallable, PolicySet
from placet.policy.gate import Gate, Opinion
from placet.policy.permission import CallByCall, Permissions, Posture, permissions_of
from placet.runtime import checkpoint as checkpoints
from placet.runtime.asking import Desk, Person
from placet.runtime.at_work import AtWork
from placet.runtime.binding import binding_of
from placet.runtime.candidates import first_success, not_run
from placet.runtime.checkpoint import Checkpoint
from placet.runtime.guards.idempotency import AnswerBook
from placet.runtime.guards.rate_limit import RateLimiter
from placet.runtime.guards.result_cache import ResultCache
from placet.runtime.journal import Choice, Decision, Journal, Replay, Taken
from placet.runtime.keeping import Request
from placet.runtime.marks import marks_of
from placet.runtime.open_run import OpenRun
from placet.runtime.plans import Settings, passing_on_cancellation
from placet.runtime.replan import MAX_ACTIONS, ReplanCallback, ReplanConfig
from placet.runtime.run import Run
from placet.runtime.run_info import run_info
from placet.runtime.schedule import Schedule
from placet.runtime.scope import Scope, scope_data, tenant_of
from placet.runtime.services import Services
from placet.runtime.sessions import Sessions
from placet.runtime.sync import Turns
from placet.runtime.taking_up import check_place, take
from placet.runtime.trajectory import TrajectoryStore
from placet.runtime.workers import Workers
from placet.state.memory import MemoryState
from placet.state.store import ReadOnly, StateStore
from placet.tools.context import Cancel
from placet.tools.registry import Registry
from placet.tools.tool import Tool, tool
from placet.verify.report import Report
from placet.verify.verify import verify

if TYPE_CHECKING:
    from placet.inference.model import Model
    from placet.sandbox.confinement import Isolation
    from placet.sandbox.snapshot.store import Snapshots
    from placet.sandbox.workspace import Workspace

ProposalLike = Proposal | str | bytes | dict[str, Any]
PolicyLike = Rule | PolicyCallable | tuple[str, Rule | PolicyCallable]


class Runtime:
    """Verifies, gates, executes and records proposals.

    >>> from placet import Runtime, tool
    >>> @tool(risk="read_only")
    ... def double(x: int) -> int:
    ...     "Twice the number."
    ...     return 2 * x
    >>> rt = Runtime(tools=[double])
    >>> result = rt.execute_sync({"actions": [{"id": "a1", "tool": "double", "parameters": {"x": 21}}]})
    >>> result.outcome, result["a1"].output
    ('succeeded', 42)
    """

    def __init__(
        self,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        state: Mapping[str, JsonValue] | StateStore | None = None,
        policies: Iterable[PolicyLike] | PolicySet = (),
        *,
        schedule: Schedule = "levels",
        max_concurrency: int = 64,
        events: EventLog | None = None,
        capabilities: CapabilitySet | None = None,
        budget: CostBudget | None = None,
        replan: ReplanCallback | None = None,
        replan_config: ReplanConfig | None = None,
        trajectories: TrajectoryStore | None = None,
        journal: Journal | None = None,
        max_threads: int = 32,
        permissions: Permissions | Posture | str | None = None,
        approvals: ApprovalLedger | None = None,
        patience_s: float | None = None,
        approvals_expire_s: float | None = None,
        folder: str | None = None,
        person: Person | None = None,
        builtin: Iterable[Tool] = (),
        workspace: Workspace | os.PathLike[str] | str | None = None,
        snapshots: Snapshots | os.PathLike[str] | str | None = None,
        isolation: Isolation | None = None,
        model: Model | None = None,
    ) -> None:
        """A state store, event log or policy set may be shared between runtimes of one event loop.

        `max_concurrency` bounds the dataflow schedule; `max_threads` bounds tools that are plain functions.
        With a `journal` every run can be resumed after the death of the process.

        `permissions` say what needs asking, tier by tier: a posture or its name, such as "balanced". People
        are asked through `approvals`; without it, what needs asking is denied. A run waits `patience_s` for
        an answer, then it ends as `waiting`, to be resumed; None is as long as it takes. A question that
        nobody answers within `approvals_expire_s` is denied. `folder` is where the work is done: an approval
        is good for no other. A `person` can be asked right here: an async function that takes an Approval and
        returns a Reply, or None to leave the question to others.

        `builtin` are tools such as `basic_tools` makes: one of `tools` with the same name hides them.

        With a `workspace` every plan is bound to that folder: an abort leaves it as the plan found it. So
        what tools do that are known to change nothing else, such as file tools, is taken back; they must be
        made for the same folder. One run at a time, also of other processes. Snapshots are kept in
        `snapshots`, else in the person's data folder.

        `isolation` is what must be enforced before anything runs; hand the same to `basic_tools`. Where it
        requires "process", only tools that come with Placet, programs in a sandbox and tools that are marked
        as trusted are offered: `tools.withheld` names the others.

        With a `model` plans can call infer and classify, and embed where it makes vectors.
        """
        if schedule not in ("levels", "dataflow"):
            raise UsageError(f"schedule is {schedule!r}; use 'levels' or 'dataflow'.")
        if max_concurrency < 1 or max_threads < 1:
            raise UsageError("max_concurrency and max_threads must be at least 1.")
        if patience_s is not None and (journal is None or patience_s < 0):
            raise UsageError(
                "patience_s is for runs that can be resumed, and not below 0. Give a journal, or leave it "
                "out: runs then wait for people as long as it takes."
            )
        self._binding = binding_of(workspace, snapshots)
        self._bound_to = self._binding.folder if self._binding is not None else None
        folder = self._bound_to if folder is None else folder
        folder = os.path.abspath(folder) if folder is not None else None
        nobody_else = approvals is None
        if approvals is None and person is not None:
            approvals = MemoryApprovals()
        if approvals_expire_s is not None and approvals_expire_s <= 0:
            raise UsageError("approvals_expire_s must be above 0; leave it out for questions that stay open.")
        self.capabilities = capabilities
        self.permissions = permissions_of(permissions)
        self.budget = budget
        self._isolation = None if isolation is None else _isolation_of(isolation)
        self.tools = Registry(None if isolation is None else _withholding(isolation))
        self.state: StateStore = MemoryState(state) if state is None or isinstance(state, Mapping) else state
        self.events = events if events is not None else EventLog()
        self.policies = policies if isinstance(policies, PolicySet) else PolicySet(time.monotonic)
        self._services = Services(
            state=self.state,
            events=self.events,
            tools=self.tools,
            answers=AnswerBook(),
            cache=ResultCache(time.monotonic),
            limiter=RateLimiter(time.monotonic),
            workers=Workers(max_threads),
            trajectories=trajectories,
            marks=marks_of(self.state),
            desk=None
            if approvals is None
            else Desk(
                approvals,
                patience_s=patience_s,
                expires_s=approvals_expire_s,
                folder=folder,
                person=person,
                nobody_else=nobody_else,
            ),
        )
        self._folder = folder
        self._settings = Settings(
            schedule, max_concurrency, replan, replan_config or ReplanConfig(), journal, self._binding
        )
        self._sessions = Sessions(time.monotonic)
        self._turns = Turns()
        self._at_work = AtWork(self._bound_to)
        for item in tools:
            self._add_tool(item if isinstance(item, Tool) else tool(item))
        for made in builtin:
            self._add_tool(made, builtin=True)
        if model is not None:
            self._attach(model)
        if not isinstance(policies, PolicySet):
            for policy in policies:
                if isinstance(policy, tuple):
                    name, rule = policy
                    self.policies.add(name, rule)
                else:
                    self.policies.add_unnamed(policy)

    # Set-up

    def beside(
        self,
        tools: Iterable[Tool],
        *,
        folder: str,
        isolation: Isolation | None = None,
        asks: bool = True,
        waits: bool = True,
        expires_s: float | None = None,
    ) -> Runtime:
        """Another runtime for work in another folder: with tools of its own, and the policies, permissions,
        log, journal and people of this one.

        Without `asks` there is nobody to ask: what needs an approval is denied. Without `waits` a question is
        left for people, and the run lets go at once. `expires_s` is how long one can be answered, where that
        is less than here.
        """
        made = Runtime(
            policies=self.policies,
            events=self.events,
            capabilities=self.capabilities,
            journal=self._settings.journal,
            permissions=self.permissions,
            max_concurrency=self._settings.max_concurrency,
            folder=folder,
            builtin=tools,
            isolation=isolation,
        )
        desk = self._services.desk
        if desk is not None and asks:
            made._services = made._services._replace(
                desk=desk.for_folder(made._folder, waits=waits, expires_s=expires_s)
            )
        return made

    def narrowed(self, names: Iterable[str]) -> Runtime:
        """The same runtime with no tools but these, as far as it has them: of all others it does not know
        that they exist."""
        made = Runtime(
            state=self.state,
            policies=self.policies,
            events=self.events,
            capabilities=self.capabilities,
            budget=self.budget,
            permissions=self.permissions,
            folder=self._folder,
        )
        found = (self.tools.get(name) for name in dict.fromkeys(names))
        for each in found:
            if each is not None:
                made.tools.add(each)
        made._services = self._services._replace(tools=made.tools)
        made._settings = self._settings._replace(replan=None, binding=None)
        made._isolation = self._isolation
        return made

    @property
    def approvals(self) -> ApprovalLedger | None:
        """Where people are asked, if they are."""
        return self._services.desk.ledger if self._services.desk is not None else None

    @property
    def journal(self) -> Journal | None:
        """Where runs are kept, if they are."""
        return self._settings.journal

    def register(
        self,
        schema: ToolSchema,
        fn: Callable[..., Any] | None = None,
        *,
        cheap: bool = False,
        timeout_ms: int | None = None,
    ) -> Tool:
        """Register a tool that brings its own JSON Schema; see `Tool.from_schema` for how `fn` is called."""
        return self._add_tool(Tool.from_schema(schema, fn, cheap=cheap, timeout_ms=timeout_ms))

    def _attach(self, model: Model) -> None:
        from placet.inference.model import check_model
        from placet.inference.tools import NOT_OFFERED, inference_tools

        check_model(model, "Runtime")
        for made in inference_tools(model):
            self._add_tool(made, builtin=True)
        self.tools.hints.update(NOT_OFFERED)

    async def _check_isolation(self) -> None:
        if self._isolation is not None:
            await self._isolation.check(self._binding.workspace if self._binding is not None else None)

    def _add_tool(self, made: Tool, *, builtin: bool = False) -> Tool:
        found = made if self._binding is None else self._binding.declared(made)
        self.tools.add(found, builtin=builtin)
        return found

    def add_policy(
        self,
        name: str,
        rule: Rule | PolicyCallable,
        *,
        session: str | None = None,
        reads: Iterable[str] | None = None,
    ) -> None:
        """Add a policy for every proposal, or for those under one session.

        A function that takes (action, state) may read any key, so actions that write state wait for each
        other; `reads` names the keys it looks at and gives that concurrency back.

        Raises:
            UnknownSession: no such session is open.
        """
        target = self.policies if session is None else self._sessions.get(session).policies
        target.add(name, rule, reads=reads)

    def open_session(self) -> str:
        """Open a session with policies of its own, and return its id."""
        return self._sessions.open()

    def close_session(self, session: str) -> bool:
        """Close a session; false if it was not open. Its id rejects every action from now on."""
        return self._sessions.close(session)

    def _gate(self, session: str | None, scope: Scope | None, by_call: CallByCall | None = None) -> Gate:
        policies = [self.policies]
        found = self._sessions.find(session)
        if found is not None:
            policies.append(found.policies)
        posture = None
        if self.permissions is not None:
            posture = self.permissions.posture(scope.caller_id if scope is not None else None)
        gate = Gate(
            self.tools,
            capabilities=self.capabilities,
            policies=policies,
            session=session,
            is_open=self._sessions.__contains__,
            trace=found.trace if found is not None else None,
            posture=posture,
            folder=self._folder,
            can_ask=self._services.desk is not None,
            by_call=by_call,
        )
        marks = self._services.marks
        if self.tools.has_marks or gate.has_marks or not marks.is_empty:
            gate.state_marks = marks.scoped(tenant_of(scope))
        return gate

    # Judging

    def verify(
        self,
        proposal: ProposalLike,
        *,
        session: str | None = None,
        scope: Scope | None = None,
        budget: CostBudget | None = None,
        max_actions: int | None = None,
    ) -> Report:
        """Say beforehand what `execute` would refuse, reject or skip. Nothing runs.

        Raises:
            DecodeError: the proposal cannot be read.
        """
        return self._verify(proposal, self._gate(session, scope), scope, budget, max_actions)

    def _verify(
        self,
        proposal: ProposalLike,
        gate: Gate,
        scope: Scope | None,
        budget: CostBudget | None,
        max_actions: int | None,
    ) -> Report:
        return verify(
            decode_proposal(proposal),
            tools=self.tools,
            max_actions=max_actions,
            gate=gate,
            view=ReadOnly(self.state.scoped(tenant_of(scope))),
            budget=self._budget(budget),
        )

    def opinions(
        self, proposal: ProposalLike, *, session: str | None = None, scope: Scope | None = None
    ) -> list[tuple[str, Opinion]]:
        """What each policy, and the permission gate, says to each action: (action id, opinion), in the order
        in which they are asked. Nothing runs.

        Raises:
            DecodeError: the proposal cannot be read.
        """
        found: list[tuple[str, Opinion]] = []
        gate = self._gate(session, scope)
        gate.listen = lambda action, opinion: found.append((action.id, opinion))
        self._verify(proposal, gate, scope, None, None)
        return found

    def _budget(self, budget: CostBudget | None) -> CostBudget | None:
        return budget if self.budget is None else self.budget.tightened(budget)

    # Acting

    async def execute(
        self,
        proposal: ProposalLike,
        *,
        session: str | None = None,
        scope: Scope | None = None,
        cancel: Cancel | None = None,
        run_id: str | None = None,
        budget: CostBudget | None = None,
    ) -> ProposalResult:
        """Execute a proposal, and report what came of every action.

        Raises:
            DecodeError: the proposal cannot be read; nothing has run.
            UsageError: the runtime is at work in another thread.
            RunExists: there is a run with this id in the journal.
            StorageError: the journal cannot be written; nothing has run.
            IsolationMissing: less is enforced than is required; nothing has run.
        """
        decoded = decode_proposal(proposal)
        with self._at_work.one_more():
            await self._check_isolation()
            run = self._run(session, scope, cancel, run_id, budget)
            return await passing_on_cancellation(Run.execute(run, decoded))

    def execute_sync(
        self,
        proposal: ProposalLike,
        *,
        session: str | None = None,
        scope: Scope | None = None,
        cancel: Cancel | None = None,
        run_id: str | None = None,
        budget: CostBudget | None = None,
    ) -> ProposalResult:
        """`execute` for people without an event loop. Callers from several threads take turns.

        Raises:
            UsageError: this thread has an event loop running, or serves a tool of this very runtime; await
                `execute` there.
        """
        return self._turns.run(
            "execute",
            lambda: self.execute(
                proposal, session=session, scope=scope, cancel=cancel, run_id=run_id, budget=budget
            ),
        )

    async def resume(
        self,
        run_id: str,
        *,
        decide: Mapping[str, Decision | Choice] | None = None,
        session: str | None = None,
        cancel: Cancel | None = None,
    ) -> ProposalResult:
        """Go on with a run that was broken off, from where it stood; how it ended, if it has.

        What has ended is read back. What was in flight is done again if its tool is read_only or idempotent;
        otherwise the result is `waiting`, and names it. `decide` then says by action id what became of it:
        "done" (it happened), "retry" (do it again), "fail" (it did not happen, and shall not). A Decision
        carries the output of what is done.

        Raises:
            UnknownRun: no such run is kept.
            RunHeld: another process is at work on it.
            StorageError: the journal cannot be read or written.
            UsageError: there is no journal, or nothing to decide about what `decide` names, or a session is
                needed, or another run is at work in the workspace.
        """
        with self._at_work.one_more():
            await self._check_isolation()
            taken = await self._take(run_id, session, decide)
            if isinstance(taken, ProposalResult):
                return taken
            check_place(taken, self._bound_to)
            record = taken.record
            run = self._run(
                session,
                record.scope,
                cancel,
                run_id,
                record.budget,
                trace_id=record.trace_id,
                elapsed_ms=Replay(taken.notes).tally.elapsed_ms,
            )
            return await passing_on_cancellation(run.resume(taken, decide or {}))

    async def _take(
        self, run_id: str, session: str | None, decide: Mapping[str, Decision | Choice] | None
    ) -> Taken | ProposalResult:
        """Hold a run that was broken off; or how it ended, if it has."""
        return await take(
            self._settings.journal,
            run_id,
            decide,
            can_ask=self._services.desk is not None,
            has_session=session is not None,
        )

    def resume_sync(
        self,
        run_id: str,
        *,
        decide: Mapping[str, Decision | Choice] | None = None,
        session: str | None = None,
        cancel: Cancel | None = None,
    ) -> ProposalResult:
        """`resume` for people without an event loop; raises what `execute_sync` raises, too."""
        return self._turns.run(
            "resume", lambda: self.resume(run_id, decide=decide, session=session, cancel=cancel)
        )

    @asynccontextmanager
    async def open_run(
        self,
        about: Proposal,
        *,
        session: str | None = None,
        scope: Scope | None = None,
        cancel: Cancel | None = None,
        run_id: str | None = None,
        budget: CostBudget | None = None,
        by_call: CallByCall | None = None,
        parent: str | None = None,
    ) -> AsyncIterator[OpenRun]:
        """A run that takes its plans one after the other, for whoever leads a loop; `about` says what it is
        for. If it is left without being ended, it can be resumed. Its plans are not bound to a workspace.
        `parent` is the id of the run that starts it: lists show it under that one.

        Raises: what `execute` raises.
        """
        with self._at_work.one_more():
            await self._check_isolation()
            run = self._open(session, scope, cancel, run_id or new_id(), budget, by_call, parent=parent)
            await run.begin(about)
            try:
                yield run
            finally:
                run.release()

    @asynccontextmanager
    async def reopen_run(
        self,
        run_id: str,
        *,
        decide: Mapping[str, Decision | Choice] | None = None,
        session: str | None = None,
        cancel: Cancel | None = None,
        by_call: CallByCall | Callable[[Proposal, Scope | None], CallByCall] | None = None,
    ) -> AsyncIterator[OpenRun]:
        """An open run again, that was broken off or waits. Whoever leads it brings the plans again that it
        had brought before; `ended` says that it has ended, or what it still waits for. `by_call` may depend
        on what the run was begun with.

        Raises: what `resume` raises.
        """
        with self._at_work.one_more():
            await self._check_isolation()
            taken = await self._take(run_id, session, decide)
            if isinstance(taken, ProposalResult):
                run = self._open(session, None, cancel, run_id, None, None)
                run.ended = taken
                yield run
                return
            record = taken.record
            try:
                if by_call is not None and not isinstance(by_call, CallByCall):
                    by_call = by_call(record.proposal, record.scope)
            except BaseException:
                taken.journal.release()
                raise
            run = self._open(
                session,
                record.scope,
                cancel,
                run_id,
                record.budget,
                by_call,
                trace_id=record.trace_id,
                elapsed_ms=Replay(taken.notes).elapsed_ms,
            )
            try:
                await run.take_up(taken, decide or {})
                yield run
            finally:
                run.release()

    def _open(
        self,
        session: str | None,
        scope: Scope | None,
        cancel: Cancel | None,
        run_id: str,
        budget: CostBudget | None,
        by_call: CallByCall | None,
        *,
        trace_id: str | None = None,
        elapsed_ms: float = 0.0,
        parent: str | None = None,
    ) -> OpenRun:
        gate = self._gate(session, scope, by_call)
        return OpenRun(
            self._services,
            self._settings._replace(replan=None, binding=None),
            gate,
            run_info(scope, cancel, run_id, trace_id=trace_id, elapsed_ms=elapsed_ms),
            Allowance(self._budget(budget)),
            self._request(gate, session, scope, budget)._replace(workspace=None, parent=parent),
        )

    async def plan_and_execute(
        self,
        candidates: Sequence[ProposalLike],
        *,
        feedback: Feedback | None = None,
        cost_weight: float = 0.2,
        session: str | None = None,
        scope: Scope | None = None,
        cancel: Cancel | None = None,
    ) -> ProposalResult:
        """Run the best candidate that verifies; undo it and take the next if it does not succeed entirely.

        Returns the first success, else the first failure; or one that waits for a person, because others
        would run beside it. Without candidates: an empty result named "empty".
        """
        proposals = [decode_proposal(c) for c in candidates]
        if not proposals:
            return not_run("empty", "refused", "there were no candidates")
        ranked = rank(
            proposals,
            tools=self.tools,
            gate=self._gate(session, scope),
            view=ReadOnly(self.state.scoped(tenant_of(scope))),
            feedback=feedback,
            cost_weight=cost_weight,
        )

        async def attempt(proposal: Proposal) -> ProposalResult:
            with self._at_work.one_more():
                await self._check_isolation()
                run = self._run(session, scope, cancel, None, None, replans=False)
                return await passing_on_cancellation(Run.execute(run, proposal, must_succeed=True))

        return await first_success(proposals, ranked, attempt, feedback=feedback, cancel=cancel)

    def _run(
        self,
        session: str | None,
        scope: Scope | None,
        cancel: Cancel | None,
        run_id: str | None,
        budget: CostBudget | None,
        *,
        replans: bool = True,
        trace_id: str | None = None,
        elapsed_ms: float = 0.0,
    ) -> Run:
        settings = self._settings if replans else self._settings._replace(replan=None)
        gate = self._gate(session, scope)
        return Run(
            self._services,
            settings,
            gate,
            run_info(scope, cancel, run_id, trace_id=trace_id, elapsed_ms=elapsed_ms),
            Allowance(self._budget(budget)),
            # By the run's own gate, which knows what has run so far.
            lambda p: self._verify(p, gate, scope, budget, MAX_ACTIONS),
            self._request(gate, session, scope, budget),
        )

    def _request(
        self, gate: Gate, session: str | None, scope: Scope | None, budget: CostBudget | None
    ) -> Request:
        return Request(
            scope,
            budget,
            scope_data(scope),
            gate.names,
            session is not None,
            self._bound_to,
            self._isolation.lowered() if self._isolation is not None else {},
        )

    # Checkpoints

    def checkpoint(
        self, path: str | os.PathLike[str] | None = None, *, metadata: Mapping[str, JsonValue] | None = None
    ) -> Checkpoint:
        """What this runtime remembers, now; written to `path` if one is given.

        Raises:
            CheckpointError: the file cannot be written.
        """
        made = checkpoints.take(
            self.state, self._services.marks, self.events, self.tools, self.policies, metadata or {}
        )
        if path is not None:
            checkpoints.save(made, path)
        self.events.append("checkpoint_saved", data={"id": made.id})
        return made

    def restore(self, source: Checkpoint | str | os.PathLike[str]) -> Checkpoint:
        """Take up where a checkpoint left off: its state, events and tools. Earlier answers are forgotten.

        A tool that this runtime knows by name stays as it is declared here, whatever the checkpoint says of
        it; of any other only the schema is known. Tools that the checkpoint does not name are taken out.

        Raises:
            CheckpointError: the file is damaged, holds what cannot be restored, or names a policy that this
                runtime does not have; nothing has changed then.
            UsageError: a proposal is running.
        """
        loaded = source if isinstance(source, Checkpoint) else checkpoints.load(source)
        if self._at_work.is_busy:
            raise UsageError("Cannot restore while a proposal is running. Wait for it, or cancel it first.")
        origin = "The checkpoint" if isinstance(source, Checkpoint) else f"Checkpoint {os.fspath(source)}"
        checkpoints.put_back(
            loaded, origin, self.state, self._services.marks, self.events, self.tools, self.policies
        )
        self._services.answers.clear()
        self._services.cache.clear()
        return loaded


def _isolation_of(given: Isolation) -> Isolation | None:
    from placet.sandbox.confinement import isolation_of

    return isolation_of(given)


def _withholding(isolation: Isolation) -> Callable[[Tool], str | None]:
    def why_not(made: Tool) -> str | None:
        return isolation.refusal_of(
            made.name, is_confined=made.confined_to is not None, is_trusted=made.trusted
        )

    return why_not
