"""The runtime: the one choke point through which everything an agent does must pass.

Keep true:
1. `execute` raises for misuse and for input that cannot be read, never for what a plan or a tool does.
2. Verify and execute ask the same gate.
3. One event loop at a time: the state and the log have no locks because nothing else touches them.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from placet.approvals.ledger import ApprovalLedger
from placet.approvals.memory import MemoryApprovals
from placet.errors import ToolDeclarationError, UsageError
from placet.events.log import EventLog
from placet.ir.codec import decode_proposal
from placet.ir.json_value import JsonValue
from placet.ir.proposal import Proposal, new_id, with_source
from placet.ir.result import ProposalResult
from placet.ir.tool_spec import ToolSchema
from placet.planner.score import Feedback, rank
from placet.policy.budget import Budget, CostBudget
from placet.policy.capabilities import CapabilitySet
from placet.policy.case import Rule
from placet.policy.engine import PolicyCallable, PolicySet
from placet.policy.gate import Gate, Opinion
from placet.policy.permission import CallByCall, Permissions, Posture, permissions_of
from placet.runtime import checkpoint as checkpoints
from placet.runtime.asking import Desk, Person
from placet.runtime.at_work import AtWork
from placet.runtime.attached_memory import NOT_ATTACHED, AttachedMemory
from placet.runtime.binding import binding_of
from placet.runtime.call_facts import RecoveryOf
from placet.runtime.candidates import first_success, not_run
from placet.runtime.checkpoint import Checkpoint
from placet.runtime.executor import ToolExecutor, check_executor, executed_by
from placet.runtime.guards.idempotency import AnswerBook
from placet.runtime.guards.rate_limit import RateLimiter
from placet.runtime.guards.result_cache import ResultCache
from placet.runtime.journal import Choice, Decision, Journal, Replay, RunRecord, Taken
from placet.runtime.keeping import Request
from placet.runtime.marks import marks_of
from placet.runtime.open_run import OpenRun
from placet.runtime.plans import Settings, passing_on_cancellation
from placet.runtime.replan import MAX_ACTIONS, ReplanCallback, ReplanConfig
from placet.runtime.run import Run
from placet.runtime.run_info import RunInfo, run_info
from placet.runtime.schedule import Schedule
from placet.runtime.scope import Scope, scope_data, tenant_of
from placet.runtime.services import Services
from placet.runtime.sessions import Sessions
from placet.runtime.stop_requests import linked
from placet.runtime.sync import Turns
from placet.runtime.taking_up import check_place, take
from placet.runtime.trajectory import TrajectoryStore
from placet.runtime.workers import Workers
from placet.state.memory import MemoryState
from placet.state.store import ReadOnly, StateStore
from placet.tools.context import Cancel
from placet.tools.declaration import read_rate
from placet.tools.deps import check_deps
from placet.tools.given import tools_given
from placet.tools.registry import Registry
from placet.tools.tool import Tool
from placet.truncation import truncate_repr
from placet.verify.names import NameWarning, capability_warnings, rule_warnings
from placet.verify.report import Report
from placet.verify.verify import verify

if TYPE_CHECKING:
    from placet.inference.named import ModelLike
    from placet.sandbox.confinement import Isolation
    from placet.sandbox.workspace import Workspace
    from placet.tools.mcp.declared import McpTools
    from placet.worktree.snapshot.store import Snapshots

ProposalLike = Proposal | str | bytes | dict[str, Any]
"""A proposal in any form that the runtime accepts: a `Proposal`, JSON text, or a dict."""
PolicyLike = Rule | PolicyCallable | tuple[str, Rule | PolicyCallable]
"""A rule or a policy function, or either with its name."""


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
        model: ModelLike | None = None,
        deps: Any = None,
        mcp: Iterable[McpTools] = (),
        memory: AttachedMemory | None = None,
        auto_distill: bool | CostBudget = False,
    ) -> None:
        """A state store, an event log and a policy set may be shared between runtimes of one event loop.

        Args:
            tools: Tools made with `@tool`, or typed functions. Two of one name are an error.
            state: Initial state as a mapping, or a store to share.
            policies: Rules, functions, `(name, rule)` pairs, or a policy set to share.
            schedule: `"levels"` runs a plan layer by layer; `"dataflow"` starts each action as soon as its
                dependencies have succeeded.
            max_concurrency: Maximum number of actions at once under the schedule `dataflow`.
            events: The event log, with its sinks; a new one if absent.
            capabilities: Tools and state keys that may be used at all.
            budget: Limits on each run.
            replan: Callback that is asked for another proposal after a failure.
            replan_config: How often `replan` is asked; without it, never.
            trajectories: Store that receives one trajectory per proposal.
            journal: Store that records runs, so that they can be resumed after the process has ended.
            max_threads: Maximum number of threads for tools that are plain functions.
            permissions: Which tiers of action need an approval: `Permissions`, a `Posture`, or the name of
                one, such as `"balanced"`. `None`: none do.
            approvals: Where people are asked: `SqlApprovals` or `MemoryApprovals`. Without it (and without
                `person`), an action that needs an approval is denied.
            patience_s: How long a run waits for an answer before it ends as `waiting`, to be resumed later.
                Requires a `journal`. `0`: do not wait. `None`: wait indefinitely.
            approvals_expire_s: How long a question can be answered; after that the action is rejected.
                `None`: no limit.
            folder: Absolute path of the folder in which the work is done. Paths outside it raise the tier of
                an action, and an approval is valid for this folder only.
            person: Function that asks somebody directly. It takes an `Approval` and returns a `Reply`, or
                `None` to leave the question to others; one that raises counts as `None`.
            builtin: Tools such as those of `basic_tools`; a tool in `tools` with the same name hides them.
            workspace: Folder that every plan is bound to: an abort restores it to its state before the plan.
                Tools that are known to change nothing else, such as the file tools, are then reversible. Only
                one run at a time may use it, across processes. Give `basic_tools` the same folder; another
                one is a `UsageError`.
            snapshots: Folder for snapshots of the workspace. `None`: the user's data folder.
            isolation: Protections that must be enforced before anything runs; otherwise `execute` and
                `resume` raise `IsolationMissing`. Give `basic_tools` the same object. Under `"process"`, only
                tools that come with Placet, programs in a sandbox and trusted tools are offered;
                `tools.withheld` lists the others.
            model: A model, or its name, such as `"openai:gpt-5"`; a name is opened, with `os.environ`, at the
                first call. Plans can then call `infer` and `classify`, and `embed` if the model makes
                vectors.
            deps: Your own objects for tools that take a `ToolContext[Deps]`: connections, clients, settings.
                They are handed on as they are, and never stored or logged. A call can bring others.
            mcp: MCP servers whose tools are used. They are started or connected to here, all at once, and
                asked for their tools; this waits until all have answered, so in an event loop create the
                runtime with `await asyncio.to_thread(...)`, or before. Close the runtime to end them: use it
                with `with` or `async with`, or call `close`.
            memory: Facts that plans can store with `remember` and find with `recall`: a `Memory`. With a
                `model`, plans can also call `infer.grounded`. `memory.trust` always needs an approval.
            auto_distill: Make skills from runs: the `model` writes them after runs that succeeded, and after
                outcomes that show that one does not help. Requires `memory` and `model`. A budget limits what
                that may use in the life of this runtime; `True`: 50,000 tokens.

        Raises:
            DuplicateTool: two of `tools`, or two of `builtin`, have one name.
            McpUnreachable: an MCP server cannot be started or reached; names it. No other is left connected.
            ToolDeclarationError: one of `tools` is no function, or cannot be made a tool.
            UsageError: a parameter has a value that cannot work, such as `patience_s` without a `journal`.
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
        """Tools and state keys that may be used at all. May be replaced between runs."""
        self.permissions: Permissions | None = permissions_of(permissions)
        """The permissions; the name of a posture has become `Permissions`. May be replaced between runs."""
        self.budget = budget
        """Limits on each run. May be replaced between runs."""
        self.counts_for: Budget | None = None
        """Budget that every run counts against as well, unless its call names another. May be replaced
        between runs."""
        self._isolation = None if isolation is None else _isolation_of(isolation)
        self.tools: Registry = Registry(None if isolation is None else _withholding(isolation))
        """The registered tools."""
        self.state: StateStore = MemoryState(state) if state is None or isinstance(state, Mapping) else state
        """The state store."""
        self.events: EventLog = events if events is not None else EventLog()
        """The event log."""
        self.policies: PolicySet = policies if isinstance(policies, PolicySet) else PolicySet(time.monotonic)
        """The policies that hold for every proposal."""
        if person is not None and not callable(person):
            raise UsageError(
                f"Runtime(person={truncate_repr(person, 80)}) is no function. Give one that asks somebody."
            )
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
        self.deps: Any = deps
        """The objects that tools get as `ToolContext.deps`, unless a call brings others."""
        self._folder = folder
        self._settings = Settings(
            schedule, max_concurrency, replan, replan_config or ReplanConfig(), journal, self._binding
        )
        self._sessions = Sessions(time.monotonic)
        self._rule_names: tuple[object, list[NameWarning]] | None = None
        """What is wrong with the names in rules, and of which rules and tools that was found."""
        self._said_names: set[NameWarning] = set()
        """Those that the log has."""
        self._turns = Turns()
        self._at_work = AtWork(self._bound_to)
        self._close: Callable[[], None] = _nothing
        self._executor: ToolExecutor | None = None
        own = tools_given(tools)
        for made in own:
            self._add_tool(made)
        for made in tools_given(builtin, "builtin"):
            self._add_tool(made, builtin=True)
        self.memory: AttachedMemory | None = memory
        """The memory, or `None`."""
        if model is not None:
            self._attach(model)
        self._attach_memory(memory)
        if auto_distill is not False:
            self._learn(model, auto_distill, trajectories)
        if not isinstance(policies, PolicySet):
            for policy in listed(policies, "policies", "Runtime(policies=[DenyTool(...)])"):
                if isinstance(policy, tuple):
                    name, rule = policy
                    self.policies.add(name, rule)
                else:
                    self.policies.add_unnamed(policy)
        if mcp:
            # Last: whatever else is wrong leaves no server behind.
            self._connect(mcp, own)

    # Set-up

    def _connect(self, mcp: Iterable[McpTools], own: Sequence[Tool]) -> None:
        from placet.tools.mcp.declared import connect

        connected = connect(mcp, os.environ)
        try:
            for secret in connected.secrets:
                self.events.redactor.add_secret(secret)
            for made in tools_given([*own, *connected.tools])[len(own) :]:
                self._add_tool(made)
        except BaseException:
            connected.close()
            raise
        self._close = connected.close

    def close(self) -> None:
        """End the connections to MCP servers, and the servers that were started.

        Calling it twice is harmless, and a runtime without `mcp` has nothing to close. Databases and logs
        that were given to the runtime stay open.
        """
        self._close()

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Runtime:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    def beside(
        self,
        tools: Iterable[Tool],
        *,
        folder: str,
        isolation: Isolation | None = None,
        asks: bool = True,
        waits: bool = True,
        expires_s: float | None = None,
        recovery: RecoveryOf | None = None,
    ) -> Runtime:
        """Create a runtime for work in another folder.

        It has its own tools, and shares the policies, permissions, log, journal and approvals of this one.
        `Coder` and `LoopEngine` use it.

        Args:
            tools: The tools of the new runtime.
            folder: Absolute path of the other folder.
            isolation: Protections that must be enforced there.
            asks: `False`: an action that needs an approval is denied without asking.
            waits: `False`: a run that asks a question ends as `waiting` immediately.
            expires_s: How long a question can be answered, if that is shorter than in this runtime.
            recovery: Function that returns how a call there can be undone.
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
            deps=self.deps,
        )
        made.counts_for = self.counts_for
        made.tools.elsewhere |= self.tools.all_known()
        desk = self._services.desk
        if desk is not None and asks:
            made._services = made._services._replace(
                desk=desk.for_folder(made._folder, waits=waits, expires_s=expires_s)
            )
            made.recovery = recovery
        return made

    def narrowed(self, names: Iterable[str]) -> Runtime:
        """Create a runtime that has only the named tools of this one.

        Other tools are unknown to it. `AgentRunner` uses it.

        Args:
            names: Names of tools; names that this runtime does not have are ignored.
        """
        made = Runtime(
            state=self.state,
            policies=self.policies,
            events=self.events,
            capabilities=self.capabilities,
            budget=self.budget,
            permissions=self.permissions,
            folder=self._folder,
            deps=self.deps,
        )
        found = (self.tools.get(name) for name in dict.fromkeys(names))
        for each in found:
            if each is not None:
                made.tools.add(each)
        made.counts_for = self.counts_for
        made.tools.elsewhere |= self.tools.all_known()
        made._services = self._services._replace(tools=made.tools)
        made._settings = self._settings._replace(replan=None, binding=None)
        made._isolation = self._isolation
        made.memory = self.memory
        return made

    @property
    def approvals(self) -> ApprovalLedger | None:
        """The approval store, or `None`."""
        return self._services.desk.ledger if self._services.desk is not None else None

    @property
    def recovery(self) -> RecoveryOf | None:
        """What says in a question how a call can be undone from outside of its plan, such as by a person with
        git. None where nobody is asked, or nothing is known of it."""
        return self._services.desk.recovery if self._services.desk is not None else None

    @recovery.setter
    def recovery(self, recovery: RecoveryOf | None) -> None:
        if self._services.desk is not None:
            self._services.desk.recovery = recovery

    @property
    def journal(self) -> Journal | None:
        """The journal, or `None`."""
        return self._settings.journal

    def register(
        self,
        schema: ToolSchema | Tool,
        fn: Callable[..., Any] | None = None,
        *,
        cheap: bool = False,
        timeout_ms: int | None = None,
    ) -> Tool:
        """Register a tool with a JSON Schema of its own. See `Tool.from_schema` for how `fn` is called.

        Takes the arguments of `Tool.from_schema`. A finished tool, such as one from `program_tool`, is
        registered as it is.

        Raises:
            UsageError: it is neither a schema nor a tool.
        """
        if isinstance(schema, Tool) and fn is None:
            return self._add_tool(schema)
        if not isinstance(schema, ToolSchema):
            raise UsageError(
                f"register got {truncate_repr(schema, 80)}. It takes a ToolSchema and a function, or a Tool; "
                "give tools and functions to Runtime(tools=[...])."
            )
        return self._add_tool(Tool.from_schema(schema, fn, cheap=cheap, timeout_ms=timeout_ms))

    def _attach(self, model: ModelLike) -> None:
        from placet.inference.named import model_given
        from placet.inference.tools import NOT_OFFERED, inference_tools

        ground = self.memory.ground if self.memory is not None else None
        for made in inference_tools(model_given(model, "Runtime"), ground=ground):
            self._add_tool(made, builtin=True)
        self.tools.hints.update(NOT_OFFERED)

    def _attach_memory(self, memory: AttachedMemory | None) -> None:
        if memory is None:
            self.tools.hints.update(NOT_ATTACHED)
            return
        for made in memory.runtime_tools(self.events):
            self._add_tool(made, builtin=True)
        for name, rule in memory.runtime_rules():
            if name not in self.policies.names():
                self.policies.add(name, rule)

    def _learn(
        self, model: ModelLike | None, budget: CostBudget | bool, trajectories: TrajectoryStore | None
    ) -> None:
        from placet.inference.named import model_given

        if self.memory is None or model is None:
            raise UsageError(
                "Runtime(auto_distill=...) needs a memory and a model. Give both, or leave it out."
            )
        learner = self.memory.learn_with(
            model_given(model, "Runtime"),
            self.events,
            budget=budget if isinstance(budget, CostBudget) else None,
            trajectories=trajectories,
        )
        self._services = self._services._replace(trajectories=learner, after_run=learner.after_run)

    async def _check_isolation(self) -> None:
        if self._isolation is not None:
            await self._isolation.check(self._binding.workspace if self._binding is not None else None)

    def _add_tool(self, made: Tool, *, builtin: bool = False) -> Tool:
        found = made if self._binding is None else self._binding.declared(made)
        self.tools.add(found, builtin=builtin)
        return found

    def set_rate_limit(self, tool: str, limit: tuple[int, float] | None) -> None:
        """Limit how often a tool may start, from now on and in this runtime only. Callers wait.

        An `AgentRunner` that was made before keeps the tools as they were.

        Args:
            tool: Name of the tool.
            limit: Number of calls and seconds, such as `(10, 60.0)`. `None`: no limit.

        Raises:
            ToolDeclarationError: that is no limit.
            UnknownTool: there is no such tool.
        """
        self.tools.redeclare(tool, rate_limit=read_rate(limit, f"Tool '{tool}'"))

    def enable_tool_cache(self, tool: str, ttl_s: float | None) -> None:
        """Answer equal calls of a tool from its earlier output, from now on and in this runtime only.

        Callers of one tenant share what is cached. An `AgentRunner` that was made before keeps the tools as
        they were.

        Args:
            tool: Name of the tool, such as `"infer"`. A destructive tool is refused.
            ttl_s: Seconds for which an output is used. `None`: no longer answer from earlier outputs.

        Raises:
            ToolDeclarationError: the tool is destructive, its output depends on who asks (it labels its
                outputs itself, as `recall` does), or `ttl_s` is not above 0.
            UnknownTool: there is no such tool.
        """
        if ttl_s is not None and self.tools.require(tool).may_label:
            raise ToolDeclarationError(
                f"Tool '{tool}': its output depends on who asks, so it is no answer for another caller. It "
                "cannot be cached."
            )
        self.tools.redeclare(tool, cache_ttl_secs=ttl_s)

    @property
    def executor(self) -> ToolExecutor | None:
        """Function that executes the calls of all tools instead of their own functions. May be replaced
        between runs; a call that has begun ends as it began, and an `AgentRunner` that was made before keeps
        the tools as they were."""
        return self._executor

    @executor.setter
    def executor(self, executor: ToolExecutor | None) -> None:
        check_executor(executor)
        self._executor = executor
        self.tools.call_instead(None if executor is None else partial(executed_by, executor))

    @property
    def replan(self) -> ReplanCallback | None:
        """Callback that is asked for another proposal after a failure. May be replaced between runs."""
        return self._settings.replan

    @replan.setter
    def replan(self, replan: ReplanCallback | None) -> None:
        self._settings = self._settings._replace(replan=replan)

    @property
    def replan_config(self) -> ReplanConfig:
        """How often `replan` is asked. May be replaced between runs."""
        return self._settings.replan_config

    @replan_config.setter
    def replan_config(self, config: ReplanConfig) -> None:
        self._settings = self._settings._replace(replan_config=config)

    def add_policy(
        self,
        name: str,
        rule: Rule | PolicyCallable,
        *,
        session: str | None = None,
        reads: Iterable[str] | None = None,
    ) -> None:
        """Add a policy for every proposal, or for the proposals of one session.

        A function that takes `(action, state)` may read any key, so actions that write state run one after
        the other. Declare the keys in `reads` to allow concurrency.

        Args:
            name: Name of the policy in messages and events.
            rule: A rule, or a function `(action)` or `(action, state)` that returns a reason to deny, or
                `None`.
            session: Session for which the policy holds. `None`: every proposal.
            reads: State keys that the function reads. `None`: any key.

        Raises:
            UnknownSession: the session is not open.
            UsageError: the name is in use, or `rule` is neither a rule nor a function.
        """
        target = self.policies if session is None else self._sessions.get(session).policies
        target.add(name, rule, reads=reads)

    def open_session(self) -> str:
        """Open a session, which has policies of its own, and return its id."""
        return self._sessions.open()

    def close_session(self, session: str) -> bool:
        """Close a session. From then on, its id rejects every action.

        Args:
            session: Id from `open_session`.

        Returns:
            `False` if the session was not open.
        """
        return self._sessions.close(session)

    def session_exists(self, session: str) -> bool:
        """Return whether a session is open.

        Args:
            session: Id from `open_session`.
        """
        return session in self._sessions

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
        """Report what `execute` would refuse, reject or skip. Nothing runs.

        Args:
            proposal: JSON text, a dict, or a `Proposal`.
            session: Session whose policies also hold.
            scope: On whose behalf the proposal would run.
            budget: Limits of this proposal; the tighter of these and the runtime's hold.
            max_actions: Report a proposal with more actions as an error.

        Raises:
            DecodeError: the proposal cannot be decoded.
        """
        names = self.rule_warnings(session=session)
        return self._verify(proposal, self._gate(session, scope), scope, budget, max_actions, names)

    def rule_warnings(self, *, session: str | None = None) -> list[NameWarning]:
        """Return the rules that name an unknown tool or parameter, each with the nearest known name.

        `verify` reports the same. Rules of the capabilities count too.

        Args:
            session: Session whose rules are checked as well.
        """
        tools = self.tools
        known = tools.revision, len(tools.withheld), len(tools.hints), len(tools.elsewhere)
        key = self.policies.revision, self.policies.general, self.capabilities, known
        if self._rule_names is None or self._rule_names[0] != key:
            found = rule_warnings(self.policies, tools, general=self.policies.general)
            self._rule_names = key, [*found, *capability_warnings(self.capabilities, tools)]
        of_session = self._sessions.find(session)
        more = rule_warnings(of_session.policies, tools) if of_session is not None else []
        return [*self._rule_names[1], *more]

    def _say_rule_warnings(self) -> None:
        """Record what is wrong with the names in rules, each once."""
        for each in self.rule_warnings():
            if each not in self._said_names:
                self._said_names.add(each)
                data = {"kind": each.kind, "rule": each.rule, "name": each.name, "nearest": each.nearest}
                self.events.append("rule_warning", data={**data, "message": each.message})

    def _verify(
        self,
        proposal: ProposalLike,
        gate: Gate,
        scope: Scope | None,
        budget: CostBudget | None,
        max_actions: int | None,
        rule_names: Sequence[NameWarning] = (),
    ) -> Report:
        return verify(
            decode_proposal(proposal),
            tools=self.tools,
            max_actions=max_actions,
            gate=gate,
            view=ReadOnly(self.state.scoped(tenant_of(scope))),
            budget=self._budget(budget),
            rule_names=rule_names,
        )

    def opinions(
        self, proposal: ProposalLike, *, session: str | None = None, scope: Scope | None = None
    ) -> list[tuple[str, Opinion]]:
        """Return the answer of each policy, and of the permission gate, to each action. Nothing runs.

        Takes the arguments of `verify`.

        Returns:
            Pairs of action id and opinion, in the order in which the policies are asked.

        Raises:
            DecodeError: the proposal cannot be decoded.
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
        deps: Any = None,
    ) -> ProposalResult:
        """Execute a proposal and return the result of every action.

        Args:
            proposal: JSON text, a dict, or a `Proposal`.
            session: Session whose policies also hold.
            scope: On whose behalf the proposal runs.
            cancel: Request to stop; call its `cancel` method from anywhere. With a journal, the run then also
                stops when another process asks for it (`placet runs cancel`).
            run_id: Id of the run in the log and in the journal. `None`: a new one.
            budget: Limits of this run; the tighter of these and the runtime's hold.
            deps: Your own objects for tools that take a `ToolContext[Deps]`. `None`: those of the runtime.

        Raises:
            DecodeError: the proposal cannot be decoded; nothing has run.
            DepsError: a tool of the proposal asks for `deps` that are not there; nothing has run.
            UsageError: the runtime is in use in another thread.
            RunExists: the journal has a run with this id.
            StorageError: the journal cannot be written; nothing has run.
            IsolationMissing: less is enforced than required; nothing has run.
        """
        decoded = with_source(decode_proposal(proposal))
        self._check_deps(decoded, deps)
        if len(self.policies) or self.capabilities is not None:
            self._say_rule_warnings()
        with self._at_work.one_more():
            await self._check_isolation()
            with self._own_cancel(cancel) as inner:
                run = self._run(session, scope, inner, run_id, budget, deps=deps)
                with run.traced(decoded):
                    async with run.stopping_on_request(inner):
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
        deps: Any = None,
    ) -> ProposalResult:
        """`execute` for code without an event loop. Calls from several threads run one after the other.

        Takes the arguments of `execute`.

        Raises:
            UsageError: this thread runs an event loop, or executes a tool of this runtime; await `execute`
                there.
        """
        return self._turns.run(
            "execute",
            lambda: self.execute(
                proposal, session=session, scope=scope, cancel=cancel, run_id=run_id, budget=budget, deps=deps
            ),
        )

    async def resume(
        self,
        run_id: str,
        *,
        decide: Mapping[str, Decision | Choice] | None = None,
        session: str | None = None,
        cancel: Cancel | None = None,
        deps: Any = None,
    ) -> ProposalResult:
        """Resume an interrupted run. If the run has ended, return its result.

        Completed actions are read from the journal. An action that was in flight is repeated if its tool is
        `read_only` or `idempotent`; otherwise the result is `waiting` and names the action, until `decide`
        says what happened to it. Scope, budget and tenant are those of the original call; a session must be
        given again.

        Args:
            run_id: Id of the run.
            decide: By action id, the outcome of an action that was in flight: `"done"` (it happened),
                `"retry"` (execute it again), `"fail"` (it did not happen, and must not), or a `Decision`,
                which also carries the output.
            session: Session whose policies also hold.
            cancel: Request to stop.
            deps: Your own objects for tools, which are not stored with a run. `None`: those of the runtime.

        Raises:
            UnknownRun: the journal has no such run.
            RunHeld: another process is executing it.
            StorageError: the journal cannot be read or written.
            UsageError: there is no journal, a tool that the run used is missing, `decide` names an action
                that is not in flight or says a bare `"done"` where other actions use the output, a session is
                needed, or another run uses the workspace.
        """
        with self._at_work.one_more():
            await self._check_isolation()
            taken = await self._take(run_id, session, decide)
            if isinstance(taken, ProposalResult):
                return taken
            check_place(taken, self._bound_to)
            record = taken.record
            with self._own_cancel(cancel) as inner:
                run = self._run(
                    session,
                    record.scope,
                    inner,
                    run_id,
                    record.budget,
                    record=record,
                    elapsed_ms=Replay(taken.notes).tally.elapsed_ms,
                    deps=deps,
                )
                with run.traced(record.proposal):
                    async with run.stopping_on_request(inner):
                        return await passing_on_cancellation(run.resume(taken, decide or {}))

    def _own_cancel(self, cancel: Cancel | None) -> AbstractContextManager[Cancel | None]:
        """Return a cancel for one run alone, where another process can ask to stop it."""
        if cancel is None or self._settings.journal is None:
            return nullcontext(cancel)
        return linked(cancel)

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
        deps: Any = None,
    ) -> ProposalResult:
        """`resume` for code without an event loop. Also raises the errors of `execute_sync`.

        Takes the arguments of `resume`.
        """
        return self._turns.run(
            "resume", lambda: self.resume(run_id, decide=decide, session=session, cancel=cancel, deps=deps)
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
        counts_for: Budget | None = None,
        deps: Any = None,
    ) -> AsyncIterator[OpenRun]:
        """Open a run that receives its plans one after the other.

        For code that drives its own loop; `Assistant` uses it. Use it with `async with`. A run that is left
        without being ended can be resumed. Its plans are not bound to a workspace. Raises the errors of
        `execute`.

        Takes the arguments of `execute`.

        Args:
            about: A proposal without actions that describes the run.
            by_call: Answers for single calls, asked before the permissions.
            parent: Id of the run that starts this one; lists show it below that run.
            counts_for: `OpenRun.spending` of the run whose limits this one counts against as well.
        """
        with self._at_work.one_more():
            await self._check_isolation()
            run = self._open(
                session,
                scope,
                cancel,
                run_id or new_id(),
                budget,
                by_call,
                parent=parent,
                counts_for=counts_for,
                deps=deps,
            )
            await run.begin(about)
            try:
                with run.traced(run.about):
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
        by_call: CallByCall | Callable[[Proposal, Scope | None, Posture | None], CallByCall] | None = None,
        counts_for: Budget | None = None,
        deps: Any = None,
    ) -> AsyncIterator[OpenRun]:
        """Open a run of `open_run` again, after it was interrupted or while it waits.

        The caller must bring the same plans again; completed actions are read from the journal.
        `OpenRun.ended` tells whether the run has ended or what it waits for. Raises the errors of `resume`.

        Takes the arguments of `resume`.

        Args:
            by_call: Answers for single calls, or a function that makes them from the proposal and the scope
                with which the run began, and the posture that a person has set since.
            counts_for: As for `open_run`; what the run used before counts once.
        """
        with self._at_work.one_more():
            await self._check_isolation()
            taken = await self._take(run_id, session, decide)
            if isinstance(taken, ProposalResult):
                run = self._open(session, None, cancel, run_id, None, None)
                run.ended = taken
                yield run
                return
            record, replay = taken.record, Replay(taken.notes)
            try:
                if by_call is not None and not isinstance(by_call, CallByCall):
                    by_call = by_call(record.proposal, record.scope, replay.posture)
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
                record=record,
                elapsed_ms=replay.elapsed_ms,
                counts_for=counts_for,
                deps=deps,
            )
            try:
                await run.take_up(taken, decide or {})
                with run.traced(run.about):
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
        record: RunRecord | None = None,
        elapsed_ms: float = 0.0,
        parent: str | None = None,
        counts_for: Budget | None = None,
        deps: Any = None,
    ) -> OpenRun:
        gate = self._gate(session, scope, by_call)
        info = self._info(scope, cancel, run_id, deps, record, elapsed_ms)
        limits = self._budget(budget)
        return OpenRun(
            self._services,
            self._settings._replace(replan=None, binding=None),
            gate,
            info,
            self._spending(limits, info, counts_for),
            limits,
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
        deps: Any = None,
    ) -> ProposalResult:
        """Execute the best candidate that verifies. If it does not succeed, undo it and execute the next.

        Takes the arguments of `execute`.

        Args:
            candidates: Alternative proposals.
            feedback: Success rates of tools, by which candidates are ranked; it learns from each attempt.
            cost_weight: How much cost counts against likelihood of success, from 0 to 1.

        Returns:
            The first success, otherwise the first failure; or a result that waits for a person, because
                others would run beside it. Without candidates, an empty result named `"empty"`.
        """
        proposals = [decode_proposal(c) for c in candidates]
        for each in proposals:
            self._check_deps(each, deps)
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
                run = self._run(session, scope, cancel, None, None, replans=False, deps=deps)
                with run.traced(proposal):
                    return await passing_on_cancellation(Run.execute(run, proposal, must_succeed=True))

        return await first_success(proposals, ranked, attempt, feedback=feedback, cancel=cancel)

    def _check_deps(self, proposal: Proposal, deps: Any) -> None:
        if self.tools.needs_deps:
            names = (action.tool or "" for action in proposal.actions)
            check_deps(self.tools, names, self.deps if deps is None else deps)

    def _run(
        self,
        session: str | None,
        scope: Scope | None,
        cancel: Cancel | None,
        run_id: str | None,
        budget: CostBudget | None,
        *,
        replans: bool = True,
        record: RunRecord | None = None,
        elapsed_ms: float = 0.0,
        deps: Any = None,
    ) -> Run:
        settings = self._settings if replans else self._settings._replace(replan=None)
        gate = self._gate(session, scope)
        info = self._info(scope, cancel, run_id, deps, record, elapsed_ms)
        return Run(
            self._services,
            settings,
            gate,
            info,
            self._spending(self._budget(budget), info),
            # By the run's own gate, which knows what has run so far.
            lambda p: self._verify(p, gate, scope, budget, MAX_ACTIONS),
            self._request(gate, session, scope, budget),
        )

    def _info(
        self,
        scope: Scope | None,
        cancel: Cancel | None,
        run_id: str | None,
        deps: Any,
        record: RunRecord | None,
        elapsed_ms: float,
    ) -> RunInfo:
        deps = self.deps if deps is None else deps
        tracer = self.events.tracer
        return run_info(scope, cancel, run_id, record=record, elapsed_ms=elapsed_ms, deps=deps, tracer=tracer)

    def _spending(self, limits: CostBudget | None, info: RunInfo, counts_for: Budget | None = None) -> Budget:
        parent = counts_for or self.counts_for
        return Budget(limits, parent=parent, name=info.run_id, clock=perf_counter, started=info.started)

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
        """Return what this runtime remembers now: state, events, tool schemas and names of policies.

        Args:
            path: File to write the checkpoint to.
            metadata: JSON values to store with it.

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
        """Restore state, events and tools from a checkpoint. Cached results are discarded.

        A tool that this runtime knows keeps its own declaration; of any other tool only the schema is known.
        Tools that the checkpoint does not name are removed.

        Args:
            source: A checkpoint, or the file that holds one.

        Raises:
            CheckpointError: the file is damaged, holds values that cannot be restored, or names a policy that
                this runtime does not have; nothing has changed.
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


def _nothing() -> None:
    pass


def listed(given: Any, option: str, example: str) -> Iterable[Any]:
    """What a caller gave as a list.

    Raises:
        UsageError: it is none.
    """
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise UsageError(
            f"Runtime({option}=...) got {truncate_repr(given, 80)}, which is no list. Write {example}."
        )
    return given


def _isolation_of(given: Isolation) -> Isolation | None:
    from placet.sandbox.confinement import isolation_of

    return isolation_of(given)


def _withholding(isolation: Isolation) -> Callable[[Tool], str | None]:
    def why_not(made: Tool) -> str | None:
        return isolation.refusal_of(
            made.name, is_confined=made.confined_to is not None, is_trusted=made.trusted
        )

    return why_not
