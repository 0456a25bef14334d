"""Running an agent: its words, its tools and nothing else, and its limits.

Keep true:
1. Nothing but the tools on the list ever runs: the model is offered no other, a call of any other is answered
   and counted, and the runtime that carries calls out does not know that others exist. A denial wins.
2. A run that was broken off goes on as it began, whatever has become of the agent's file: with the same
   words, tools and limits, and asking no less.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from placet.agents.course import Course, check_said
from placet.agents.kept import AgentKept, agent_of
from placet.agents.prompt import NOT_ALLOWED, system_words
from placet.agents.result import AgentResult, result_of, sum_up
from placet.agents.spec import AgentSpec, check_spec
from placet.errors import UsageError
from placet.inference.model import Intent, Model, Piece, Request
from placet.inference.named import ModelLike, make_ready, model_given
from placet.inference.profile import ProfileLike, profile_given, profile_of
from placet.inference.wrappers.wrapped import Wrapped
from placet.ir.proposal import Proposal, new_id
from placet.ir.provenance import UNRECORDED, MessageText, Provenance, parts_of, text_of, typed
from placet.policy.budget import Budget
from placet.policy.permission import UNASKED, CallByCall, Posture, StanceOf
from placet.runtime.given import check_runtime
from placet.runtime.journal import Choice, Decision
from placet.runtime.scope import Scope
from placet.runtime.sync import refuse_inside_loop, run_sync
from placet.tools.context import Cancel
from placet.tools.deps import check_deps
from placet.turns.basis import router_for
from placet.turns.calls import Offer
from placet.turns.ending import Watch
from placet.turns.guided import guided
from placet.turns.leading import say_started, turns_so_far
from placet.turns.loop import TurnLoop
from placet.turns.memory import turn_memory
from placet.turns.stopping import in_time

if TYPE_CHECKING:
    from placet.runtime.open_run import OpenRun
    from placet.runtime.runtime import Runtime
    from placet.runtime.spill import Spill
    from placet.sandbox.confinement import Isolation
    from placet.sandbox.workspace import Workspace
    from placet.tools.tool import Tool

UNTOLD = Posture.named("read_only")
"""What holds where nobody has said anything."""


class _Steady(Wrapped):
    """A model that answers the same to the same, as far as it can: nobody asked an agent to be inventive."""

    def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        if request.temperature is None:
            request = msgspec.structs.replace(request, temperature=0.0)
        return super().stream(request)


def spending(budget: OpenRun | Budget | None) -> Budget | None:
    """The budget of an open run, or the one that is given."""
    return budget if budget is None or isinstance(budget, Budget) else budget.spending


def stopper(budget: OpenRun | Budget | None) -> Cancel | None:
    """Return the cancel of the open run that something counts for, or None: it stops that as well."""
    return None if budget is None or isinstance(budget, Budget) else budget.cancel


class AgentRunner:
    """Runs one agent with a model and the tools of a runtime that the agent may use.

    >>> from placet import AgentRunner, AgentSpec, Runtime
    >>> from placet.inference import Scripted
    >>> greeter = AgentSpec(id="greeter", identity="You greet people.")
    >>> AgentRunner(Runtime(), Scripted(["Hello!"]), greeter).run_sync("I am Ada.").output
    'Hello!'
    """

    def __init__(
        self,
        runtime: Runtime,
        model: ModelLike,
        spec: AgentSpec,
        *,
        posture: Posture | str | None = None,
        workspace: Workspace | None = None,
        isolation: Isolation | None = None,
        spill: Spill | None = None,
        nobody: str = UNASKED,
        stance: StanceOf | None = None,
        profile: ProfileLike | None = None,
    ) -> None:
        """The agent gets only the tools on its list.

        Args:
            runtime: Executes the calls; people are asked through it.
            model: The model, or its name, such as `"openai:gpt-5"`; a name is opened, with `os.environ`, when
                a run begins.
            spec: The agent.
            posture: The answer to each tier of call. `None`: the runtime's permissions for the agent's id;
                without any, every call that does more than read needs approval.
            workspace: Folder in which the agent's tools work; required for a spec with a goal, whose check
                runs there.
            isolation: Protections for the check of the goal; required for a spec with a goal.
            spill: Folder for results that are too long for a model.
            nobody: Message to the model about a call that needs approval, if there is nobody to ask.
            stance: Approval policy that is asked first.
            profile: How the model is guided: `"small"`, `"large"` or a `ModelProfile`. `None`: the profile
                of the model.

        Raises:
            UsageError: the spec is invalid or has a goal without a workspace, or an argument is not a
                runtime, a model or a posture.
        """
        check_runtime(runtime, "AgentRunner")
        check_spec(spec)
        if spec.goal is not None and (workspace is None or isolation is None):
            raise UsageError(
                f"Agent '{spec.id}' has a goal, whose check is a command. Say where it runs and how it is "
                "kept in: AgentRunner(..., workspace=Workspace(folder), isolation=Isolation('process'))."
            )
        if spec.memory:
            turn_memory(runtime, f"Agent '{spec.id}'")
        self.spec = spec
        """The agent."""
        self.model: Model = model_given(model, "AgentRunner")
        """The model."""
        self.runtime: Runtime = runtime.narrowed(spec.allowed)
        """The runtime, narrowed to the tools that the agent may use."""
        self.missing: Sequence[str] = tuple(name for name in spec.allowed if name not in self.runtime.tools)
        """Tools on the agent's list that the runtime does not have."""
        self._posture = Posture.named(posture) if isinstance(posture, str) else posture
        self._workspace = workspace
        self._isolation = isolation
        self._spill = spill
        self._nobody = nobody
        self._stance = stance
        self._profile = profile_given(profile)

    def changed(self, spec: AgentSpec, tools: Iterable[Tool] = ()) -> AgentRunner:
        """Return a runner for another spec with the same settings, for code that combines agents.

        Args:
            spec: The other agent; it may use tools of this runner.
            tools: Further tools for it.

        Raises:
            UsageError: the spec is invalid.
        """
        runtime = self.runtime.narrowed(self.runtime.tools.names())
        for each in tools:
            runtime.tools.add(each)
        return AgentRunner(
            runtime,
            self.model,
            spec,
            posture=self._posture,
            workspace=self._workspace,
            isolation=self._isolation,
            spill=self._spill,
            nobody=self._nobody,
            stance=self._stance,
            profile=self._profile,
        )

    async def run(
        self,
        text: MessageText,
        *,
        run_id: str | None = None,
        scope: Scope | None = None,
        cancel: Cancel | None = None,
        watch: Watch | None = None,
        budget: OpenRun | Budget | None = None,
        parent: str | None = None,
        typed: Sequence[str] = (),
    ) -> AgentResult:
        """Give the agent a task and return the result.

        An agent with a goal is told what is missing until the check passes or its iterations are used up.

        Args:
            text: The task in words. A `str` counts as typed by the person; of a list of `SourcedText`, only
                the parts that the person typed do.
            run_id: Id of the run. `None`: a new one.
            scope: On whose behalf the agent acts; its caller id is the agent's id if it has none.
            cancel: Request to stop.
            watch: Function that is called with every event as it happens.
            budget: An open run whose budget the usage of this agent also counts against; in a tool,
                `ToolContext.budget`.
            parent: Id of the run that starts this one. `None`: that of `budget`.
            typed: Texts that the person typed in the conversations that led to this task, besides those in
                the task; values in them count as the person's.

        Raises:
            UsageError: the task is empty, or the runtime is in use in another thread.
            RunExists: the journal has a run with this id.
            StorageError: the run cannot be recorded; nothing has run.
        """
        parts = parts_of(text)
        task, provenance = text_of(parts), Provenance.of(parts, typed)
        check_said(task)
        async with self._begun(
            task, run_id, scope, cancel, watch, budget, parent, provenance=provenance
        ) as course:
            await course.put(task, provenance)
            return await course.end(await course.pursue())

    def run_sync(self, text: MessageText, **options: Any) -> AgentResult:
        """`run` for code without an event loop.

        Args:
            text: The task in words.
            options: Further arguments of `run`.
        """
        refuse_inside_loop("run", of="runner")
        return run_sync(self.run(text, **options))

    async def resume(
        self,
        run_id: str,
        *,
        decide: Mapping[str, Decision | Choice] | None = None,
        cancel: Cancel | None = None,
        watch: Watch | None = None,
        budget: OpenRun | Budget | None = None,
    ) -> AgentResult:
        """Resume a run that was interrupted or waits. If it has ended, return its result.

        No answered turn is asked again, and no completed call is made again.

        Takes the arguments of `run` and `Runtime.resume`.

        Args:
            run_id: Id of the run.

        Raises:
            UnknownRun: the journal has no such run.
            RunHeld: another process is executing it.
            UsageError: it is not a run of this agent, or began with another spec.
        """
        counted = spending(budget)
        with in_time(counted, cancel, stopper(budget)) as inner:
            async with self.runtime.reopen_run(
                run_id,
                decide=decide,
                cancel=inner,
                by_call=self._going_on,
                counts_for=counted,
            ) as run:
                if run.ended is not None:
                    if run.ended.loop is msgspec.UNSET and run.ended.outcome == "waiting":
                        turns = turns_so_far(run, self.runtime.tools)
                        result = sum_up(turns, self.spec, absent=self.missing)
                    else:
                        result = result_of(run.ended, self.spec)
                    if counted is not None and result.turns:
                        Budget(parent=counted, name=run_id).charge(result.usage, result.cost_usd)
                    return result
                kept = self._kept_of(run.about)
                course = self._course(run, inner, watch)
                async with run.stopping_on_request(inner):
                    if await course.go_on() is None:
                        known = kept.provenance or _unrecorded(kept, run.parent, kept.task)
                        await course.put(kept.task, known)
                    return await course.end(await course.pursue())

    @asynccontextmanager
    async def conversation(
        self,
        *,
        run_id: str | None = None,
        scope: Scope | None = None,
        cancel: Cancel | None = None,
        watch: Watch | None = None,
        budget: OpenRun | Budget | None = None,
    ) -> AsyncIterator[Course]:
        """Open a run for several messages, for use with `async with`. The check of a goal is not run. Raises
        the errors of `run`.

        Takes the arguments of `run`.
        """
        async with self._begun("", run_id, scope, cancel, watch, budget) as course:
            yield course
            if course.has_begun:
                await course.end(None)

    # Parts

    @asynccontextmanager
    async def _begun(
        self,
        text: str,
        run_id: str | None,
        scope: Scope | None,
        cancel: Cancel | None,
        watch: Watch | None,
        budget: OpenRun | Budget | None,
        parent: str | None = None,
        *,
        provenance: Provenance | None = None,
    ) -> AsyncIterator[Course]:
        make_ready(self.model)
        check_deps(self.runtime.tools, self.offered(), self.runtime.deps)
        spec = msgspec.structs.replace(self.spec, scenarios=())
        posture = self._posture or (UNTOLD if self.runtime.permissions is None else None)
        name = str(getattr(self.model, "name", ""))
        kept = AgentKept(spec=spec, task=text, provenance=provenance, posture=posture, model=name)
        whose = scope or Scope()
        if whose.caller_id is None:
            whose = msgspec.structs.replace(whose, caller_id=spec.id)
        run_id = run_id or new_id()
        counted = spending(budget)
        with in_time(counted, cancel, stopper(budget)) as inner:
            async with self.runtime.open_run(
                kept.about(run_id),
                scope=whose,
                cancel=inner,
                run_id=run_id,
                budget=spec.limits.budget,
                by_call=self._by_call(self._posture),
                parent=parent or (counted.name if counted is not None else None),
                counts_for=counted,
            ) as run:
                say_started(run, task=text, model=name, tools=self.offered(), limits=spec.limits)
                async with run.stopping_on_request(inner):
                    yield self._course(run, inner, watch)

    def offered(self) -> list[str]:
        """Return the names of the tools that the model is offered."""
        return self.runtime.tools.names()

    def _course(self, run: OpenRun, cancel: Cancel, watch: Watch | None) -> Course:
        spec, tools = self.spec, self.runtime.tools
        call_s = spec.limits.call_s
        offer = Offer(
            tools=tools,
            offered=frozenset(tools.names()),
            not_offered=NOT_ALLOWED,
            source=run.about.source,
            timeout_ms=max(1, int(call_s * 1000)) if call_s is not None else None,
            is_strict=True,
            absent=frozenset(self.missing),
        )
        router = router_for(tools, tools.names())
        model: Model = guided(_Steady(self.model), self._profile or profile_of(self.model), router)
        loop = TurnLoop(
            run,
            model,
            offer,
            system=system_words(spec),
            schemas=tools.schemas(),
            limits=spec.limits,
            intent=Intent(task="chat", requires=("tools",) if len(tools) else ()),
            cancel=cancel,
            spill=self._spill,
            watch=watch,
            unrecorded=partial(_unrecorded, agent_of(run.about.context), run.parent),
            memory=turn_memory(self.runtime, f"Agent '{spec.id}'") if spec.memory else None,
            router=router,
        )
        return Course(run, loop, spec, cancel, self._workspace, self._isolation, self.missing)

    def _by_call(self, posture: Posture | None) -> CallByCall:
        return CallByCall(
            self._stance,
            otherwise=posture or UNTOLD,
            overrules=posture is not None,
            nobody=self._nobody,
        )

    def _kept_of(self, about: Proposal) -> AgentKept:
        kept = agent_of(about.context)
        if kept is None:
            raise UsageError(f"Run '{about.id}' is not one of an agent.")
        if kept.spec != msgspec.structs.replace(self.spec, scenarios=()):
            raise UsageError(
                f"Run '{about.id}' was begun by agent '{kept.spec.id}' as it was then. Go on with it as "
                f"that: placet resume {about.id}; in programs AgentRunner(..., spec=agent_of(context).spec)."
            )
        return kept

    def _going_on(self, about: Proposal, scope: Scope | None, since: Posture | None) -> CallByCall:
        """The stricter of what a run was begun with and of what holds now. Nobody sets another posture in the
        run of an agent, so there is none `since`."""
        kept = self._kept_of(about)
        permissions = self.runtime.permissions
        standing = None
        if permissions is not None:
            standing = permissions.posture(scope.caller_id if scope is not None else None)
        posture = None
        if self._posture is not None or kept.posture is not None:
            told = standing or UNTOLD
            posture = (self._posture or told).tightened(kept.posture or told)
        return self._by_call(posture)


def _unrecorded(kept: AgentKept | None, parent: str | None, text: str) -> Provenance:
    """Who wrote a message of a run from before that was recorded. A run that no other has started was begun
    by a person, with its task; or with nothing, and then all messages are theirs."""
    is_typed = kept is not None and parent is None and kept.task in ("", text)
    return typed(text) if is_typed else UNRECORDED
