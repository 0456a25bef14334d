"""Running an agent: its words, its tools and nothing else, its limits, and its goal until it is met.

A run holds all that comes of one message, and what is said to the agent while its goal is not met.

Keep true:
1. Nothing but the tools on the list ever runs: the model is offered no other, a call of any other is answered
   and counted, and the runtime that carries calls out does not know that others exist. A denial wins.
2. A run that was broken off goes on as it began, whatever has become of the agent's file: with the same
   words, tools and limits, and asking no less.
3. With a goal its check decides, and the result says how it stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Container, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from assent.agents.goal import Checked, GoalResult, run_check
from assent.agents.prompt import NOT_ALLOWED, again_words, system_words
from assent.agents.spec import AgentSpec, Goal, check_spec
from assent.errors import UsageError
from assent.inference.messages import User
from assent.inference.model import Intent, Model, Piece, Request, Result, stream
from assent.inference.usage import Usage
from assent.inference.wrappers.wrapped import Wrapped
from assent.ir.json_value import JsonValue
from assent.ir.proposal import Proposal, new_id
from assent.ir.result import ProposalResult, Waiting
from assent.policy.permission import CallByCall, Posture, StanceOf
from assent.runtime.journal import LED_BY, Choice, Decision
from assent.runtime.scope import Scope
from assent.runtime.sync import run_sync
from assent.tools.context import Cancel
from assent.turns.calls import Offer
from assent.turns.ending import OUTCOMES, End, Ending, Watch
from assent.turns.leading import ending_of, say_started, turns_so_far
from assent.turns.limits import used_up_words
from assent.turns.loop import TurnLoop
from assent.turns.on_budget import OnBudget
from assent.turns.stopping import in_time, stopped_by

if TYPE_CHECKING:
    from assent.runtime.open_run import OpenRun
    from assent.runtime.runtime import Runtime
    from assent.runtime.spill import Spill
    from assent.sandbox.confinement import Isolation
    from assent.sandbox.workspace import Workspace
    from assent.tools.tool import Tool

LEADER = "agent"
UNTOLD = Posture.named("read_only")
"""What holds where nobody has said anything."""
NOBODY = (
    "it needs an approval, and there is nobody to ask. To allow it, give the AgentRunner a posture such as "
    "posture='sandbox_edit' or 'full_access', or give its Runtime a person to ask"
)
_GOAL = "goal"
_TIME = "max_duration_ms"
_MISSING = "missing"
_CHECKED = ("success", "max_turns", "stuck")
"""Endings after which the check of a goal still has the last word."""


class AgentResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an agent's run, or of one message to it."""

    output: str
    """What it said last; where it said nothing, a sentence about how it ended."""
    status: End
    turns: int = 0
    called: tuple[str, ...] = ()
    """The tools that ran, in order, whatever came of it."""
    refused: Mapping[str, int] = {}
    """Tools that it called and may not use, and how often. None of these calls ran."""
    denied: tuple[str, ...] = ()
    """Calls of tools that it may use, which a rule or a person refused."""
    missing: Mapping[str, int] = {}
    """Tools on its list that it called and that are not there, and how often."""
    goal: GoalResult | None = None
    """None for an agent without a goal."""
    usage: Usage | None = None
    cost_usd: float | None = None
    run_id: str = ""
    error: str | None = None
    """Why it did not end in success."""
    waiting: tuple[Waiting, ...] = ()
    is_cut_off: bool = False

    @property
    def succeeded(self) -> bool:
        """Whether it was done, and its goal met if it has one."""
        return self.status == "success"

    def as_json(self) -> dict[str, JsonValue]:
        """The same as JSON."""
        data: dict[str, JsonValue] = msgspec.to_builtins(self)
        return {"succeeded": self.succeeded, **data}

    @property
    def ending(self) -> Ending:
        """The same as any loop of turns ends."""
        counted = (*self.refused.items(), *self.missing.items())
        refused = [name for name, times in counted for _ in range(times)]
        return Ending(
            status=self.status,
            summary=self.output,
            turns=self.turns,
            called=self.called,
            refused=(*refused, *self.denied),
            usage=self.usage,
            cost_usd=self.cost_usd,
            run_id=self.run_id,
            error=self.error,
            waiting=self.waiting,
            is_cut_off=self.is_cut_off,
        )


class AgentKept(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of an agent's run: what it needs to go on as it began."""

    led_by: str = LEADER
    spec: AgentSpec
    """Without its scenarios."""
    task: str
    posture: Posture | None = None
    """None where the permissions of the runtime held."""
    model: str = ""

    def about(self, run_id: str) -> Proposal:
        """The same as a run is begun with it: a plan without actions."""
        context: dict[str, JsonValue] = msgspec.to_builtins(self)
        context["agent"] = self.spec.id
        return Proposal(id=run_id, source=f"agent {self.spec.id}", actions=(), context=context)


def agent_of(context: Mapping[str, JsonValue]) -> AgentKept | None:
    """What an agent's run was begun with, by what is kept with it; None for a run of another kind."""
    if context.get(LED_BY) != LEADER:
        return None
    try:
        return msgspec.convert(dict(context), AgentKept)
    except msgspec.ValidationError:
        raise UsageError(
            "What this agent's run was begun with cannot be read here: it is from another version of Assent."
        ) from None


class _Steady(Wrapped):
    """A model that answers the same to the same, as far as it can: nobody asked an agent to be inventive."""

    async def generate(self, request: Request) -> Result:
        return await self.model.generate(_steady(request))

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        async with aclosing(stream(self.model, _steady(request))) as pieces:
            async for piece in pieces:
                yield piece


def _steady(request: Request) -> Request:
    if request.temperature is not None:
        return request
    return msgspec.structs.replace(request, temperature=0.0)


class AgentRunner:
    """Runs one agent with a model and those tools of a runtime that the agent may use.

    >>> from assent import AgentRunner, AgentSpec, Runtime
    >>> from assent.inference import Scripted
    >>> greeter = AgentSpec(id="greeter", identity="You greet people.")
    >>> AgentRunner(Runtime(), Scripted(["Hello!"]), greeter).run_sync("I am Ada.").output
    'Hello!'
    """

    def __init__(
        self,
        runtime: Runtime,
        model: Model,
        spec: AgentSpec,
        *,
        posture: Posture | str | None = None,
        workspace: Workspace | None = None,
        isolation: Isolation | None = None,
        spill: Spill | None = None,
        nobody: str = NOBODY,
        stance: StanceOf | None = None,
    ) -> None:
        """What needs asking is said by `posture`, else by the runtime's permissions for the agent's id;
        without either, all that is more than reading is asked about. `stance` comes before all of them, for
        single calls. People are asked through the runtime.

        `workspace` and `isolation` are for the check of a goal: the folder where the agent's tools work, and
        how commands there are kept in. Long results are kept in `spill`.

        Raises:
            UsageError: the spec cannot be used, has a goal and there is no workspace for it; or something
                that is no model or posture.
        """
        if isinstance(model, type) or not callable(getattr(model, "generate", None)):
            raise UsageError(
                f"AgentRunner(model=...) got {model!r:.80}. A model is an object with an async method "
                "`generate(request)`: open one with assent.inference.open_model, or bring your own."
            )
        check_spec(spec)
        if spec.goal is not None and (workspace is None or isolation is None):
            raise UsageError(
                f"Agent '{spec.id}' has a goal, whose check is a command. Say where it runs and how it is "
                "kept in: AgentRunner(..., workspace=Workspace(folder), isolation=Isolation('process'))."
            )
        self.spec = spec
        self.model = model
        self.runtime = runtime.narrowed(spec.allowed)
        self.missing: Sequence[str] = tuple(name for name in spec.allowed if name not in self.runtime.tools)
        """Tools that the agent may use and the runtime does not have."""
        self._posture = Posture.named(posture) if isinstance(posture, str) else posture
        self._workspace = workspace
        self._isolation = isolation
        self._spill = spill
        self._nobody = nobody
        self._stance = stance

    def changed(self, spec: AgentSpec, tools: Iterable[Tool] = ()) -> AgentRunner:
        """The same with another spec, for whoever combines agents: its tools are among those of this one, and
        `tools` that come with it.

        Raises:
            UsageError: the spec cannot be used.
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
        )

    async def run(
        self,
        text: str,
        *,
        run_id: str | None = None,
        scope: Scope | None = None,
        cancel: Cancel | None = None,
        watch: Watch | None = None,
        budget: OpenRun | None = None,
    ) -> AgentResult:
        """Give the agent something to do, and say what came of it. With a goal it is told what is missing
        until the check passes or its iterations are used up. What its model takes also counts for the run
        `budget`, if there is one, and nothing is asked once that has nothing left.

        Raises:
            UsageError: there is nothing to do, or the runtime is at work in another thread.
            RunExists: there is a run with this id.
            StorageError: the run cannot be kept; nothing has run.
        """
        check_said(text)
        async with self._begun(text, run_id, scope, cancel, watch, budget) as course:
            await course.say(text)
            return await course.end(await course.pursue())

    def run_sync(self, text: str, **options: Any) -> AgentResult:
        """`run` for people without an event loop."""
        return run_sync(self.run(text, **options))

    async def resume(
        self,
        run_id: str,
        *,
        decide: Mapping[str, Decision | Choice] | None = None,
        cancel: Cancel | None = None,
        watch: Watch | None = None,
        budget: OpenRun | None = None,
    ) -> AgentResult:
        """Go on with a run that was broken off, or waits, from where it stood; what came of it, if it has
        ended. No answered turn is asked again, and no call that has ended is made again.

        Raises:
            UnknownRun: no such run is kept.
            RunHeld: another process is at work on it.
            UsageError: it is no run of this agent, or began with other tools or words.
        """
        with in_time(budget, cancel) as inner:
            async with self.runtime.reopen_run(
                run_id, decide=decide, cancel=inner, by_call=self._going_on
            ) as run:
                if run.ended is not None:
                    if run.ended.loop is msgspec.UNSET and run.ended.outcome == "waiting":
                        turns = turns_so_far(run, self.runtime.tools)
                        return _result(turns, self.spec, None, absent=self.missing)
                    return result_of(run.ended, self.spec)
                kept = self._kept_of(run.about)
                course = self._course(run, inner, watch, budget)
                if await course.go_on() is None:
                    await course.say(kept.task)
                return await course.end(await course.pursue())

    @asynccontextmanager
    async def conversation(
        self,
        *,
        run_id: str | None = None,
        scope: Scope | None = None,
        cancel: Cancel | None = None,
        watch: Watch | None = None,
        budget: OpenRun | None = None,
    ) -> AsyncIterator[Course]:
        """Several messages in one run: `await conversation.say(text)` is what came of each, and
        `conversation.result` of all so far. The check of a goal is left to whoever leads it.

        Raises: what `run` raises.
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
        budget: OpenRun | None,
    ) -> AsyncIterator[Course]:
        spec = msgspec.structs.replace(self.spec, scenarios=())
        posture = self._posture or (UNTOLD if self.runtime.permissions is None else None)
        name = str(getattr(self.model, "name", ""))
        kept = AgentKept(spec=spec, task=text, posture=posture, model=name)
        whose = scope or Scope()
        if whose.caller_id is None:
            whose = msgspec.structs.replace(whose, caller_id=spec.id)
        run_id = run_id or new_id()
        with in_time(budget, cancel) as inner:
            async with self.runtime.open_run(
                kept.about(run_id),
                scope=whose,
                cancel=inner,
                run_id=run_id,
                budget=spec.limits.budget,
                by_call=self._by_call(self._posture),
            ) as run:
                say_started(run, task=text, model=name, tools=self.offered(), limits=spec.limits)
                yield self._course(run, inner, watch, budget)

    def offered(self) -> list[str]:
        """The tools that the model is offered."""
        return self.runtime.tools.names()

    def _course(self, run: OpenRun, cancel: Cancel, watch: Watch | None, budget: OpenRun | None) -> Course:
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
        model: Model = _Steady(self.model)
        if budget is not None:
            model = OnBudget(model, budget)
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
        )
        return Course(run, loop, spec, cancel, self._workspace, self._isolation, self.missing, budget)

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
                f"that: assent resume {about.id}; in programs AgentRunner(..., spec=agent_of(context).spec)."
            )
        return kept

    def _going_on(self, about: Proposal, scope: Scope | None) -> CallByCall:
        """The stricter of what a run was begun with and of what holds now."""
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


def check_said(text: str) -> None:
    """Make sure that something can be said to an agent.

    Raises:
        UsageError: it is nothing, or no text that could be kept or sent.
    """
    if not text.strip():
        raise UsageError("There is nothing to do. Say in a sentence what the agent is to do.")
    if any("\ud800" <= each <= "\udfff" for each in text):
        raise UsageError("What is said to the agent holds half of a surrogate pair. Write valid Unicode.")


class Stop(NamedTuple):
    """Why an agent was stopped from outside."""

    status: End
    reason: str


class Course(NamedTuple):
    """A run of an agent that is under way."""

    run: OpenRun
    loop: TurnLoop
    spec: AgentSpec
    cancel: Cancel
    workspace: Workspace | None
    isolation: Isolation | None
    absent: Sequence[str]
    """Tools on the agent's list that are not there."""
    budget: OpenRun | None = None
    """The run for which it counts besides."""

    async def say(self, text: str) -> AgentResult:
        """Say something to the agent; what came of it.

        Raises:
            UsageError: there is nothing to say.
        """
        check_said(text)
        return _result([await self.loop.say(User(text))], self.spec, None, self._stop, absent=self.absent)

    async def go_on(self) -> Ending | None:
        """Bring it to where it stood; None if nothing had been said."""
        return await self.loop.go_on()

    @property
    def run_id(self) -> str:
        """By which the run is known."""
        return self.run.run_id

    @property
    def has_begun(self) -> bool:
        """Whether anything was said."""
        return bool(self.loop.endings)

    @property
    def result(self) -> AgentResult:
        """What came of all messages so far."""
        return _result(self.loop.endings, self.spec, None, self._stop, absent=self.absent)

    @property
    def _stop(self) -> Stop | None:
        """What keeps it from going on, if anything does."""
        for run in (self.run, self.budget):
            if run is not None and run.budget is not None and run.used_up() == _TIME:
                return Stop("budget", used_up_words(_TIME, run.budget))
        return Stop("cancelled", self.cancel.reason) if self.cancel.requested else None

    async def pursue(self) -> GoalResult | None:
        """Drive the agent on until its goal is met, or it may try no more; None without a goal."""
        goal = self.spec.goal
        if goal is None:
            return None
        while True:
            tries = len(self.loop.endings)
            latest = self.loop.endings[-1]
            if latest.status not in _CHECKED:
                return GoalResult(met=False, iterations=tries, reason=latest.error or latest.summary)
            checked = await self._check(goal)
            if checked is None:
                stop = self._stop
                return GoalResult(met=False, iterations=tries, reason=stop.reason if stop else "")
            self.run.say(
                "turn_goal_checked",
                {
                    "iteration": tries,
                    "most": goal.max_iterations,
                    "check": goal.check[:2_000],
                    "passed": checked.passed,
                    "why": checked.why or None,
                    "output": checked.output[-2_000:],
                },
            )
            if checked.passed:
                return GoalResult(met=True, iterations=tries)
            if tries >= goal.max_iterations:
                return GoalResult(met=False, iterations=tries, reason=checked.why)
            await self.loop.say(User(again_words(checked)))

    async def _check(self, goal: Goal) -> Checked | None:
        """What came of the check; None if it was stopped, by somebody or because the time is over."""
        assert self.workspace is not None
        assert self.isolation is not None
        found: list[Checked] = []

        async def check() -> None:
            assert self.workspace is not None
            assert self.isolation is not None
            found.append(
                await run_check(goal.check, self.workspace, self.isolation, timeout_s=goal.timeout_s)
            )

        with in_time(self.run, self.cancel) as cancel:
            if cancel.requested or await stopped_by(cancel, check()):
                return None
        return found[0]

    async def end(self, goal: GoalResult | None) -> AgentResult:
        """End the run, with all that came of it."""
        result = _result(self.loop.endings, self.spec, goal, self._stop, absent=self.absent)
        loop = {**result.ending.as_json(), "tools": list(result.called)}
        if goal is not None:
            loop[_GOAL] = msgspec.to_builtins(goal)
        if result.missing:
            loop[_MISSING] = dict(result.missing)
        await self.run.end(
            OUTCOMES[result.status],
            None if result.succeeded else result.error,
            loop=loop,
            waiting=result.waiting or None,
        )
        return result


def result_of(ended: ProposalResult, spec: AgentSpec) -> AgentResult:
    """How an agent's run had ended, or what it waits for.

    Raises:
        UsageError: it is no run of an agent.
    """
    ending = ending_of(ended)
    loop = ended.loop if isinstance(ended.loop, Mapping) else {}
    kept = loop.get(_GOAL)
    goal = msgspec.convert(kept, GoalResult) if kept is not None else None
    missing = msgspec.convert(loop.get(_MISSING, {}), dict[str, int])
    result = _result([ending], spec, None, absent=missing)
    return msgspec.structs.replace(result, goal=goal)


def _result(
    endings: Sequence[Ending],
    spec: AgentSpec,
    goal: GoalResult | None,
    stop: Stop | None = None,
    *,
    absent: Container[str] = (),
) -> AgentResult:
    last = endings[-1]
    status, error = last.status, last.error
    if goal is not None and goal.met:
        status, error = "success", None
    elif stop is not None and status == "cancelled":
        # The time of all is over for each of them, who only hears that it is to stop.
        status, error = stop
    elif goal is not None and status in _CHECKED:
        if stop is not None:
            status, error = stop
        else:
            times = f"{goal.iterations} iterations" if goal.iterations != 1 else "1 iteration"
            status, error = "unmet", f"the goal is not met after {times}: {goal.reason}"
    allowed = frozenset(spec.allowed)
    refused = [name for ending in endings for name in ending.refused]
    return AgentResult(
        output=last.summary,
        status=status,
        turns=sum(ending.turns for ending in endings),
        called=tuple(name for ending in endings for name in ending.called),
        refused=dict(Counter(name for name in refused if name not in allowed)),
        denied=tuple(name for name in refused if name in allowed and name not in absent),
        missing=dict(Counter(name for name in refused if name in allowed and name in absent)),
        goal=goal,
        usage=_sum(endings),
        cost_usd=_costs(endings),
        run_id=last.run_id,
        error=error,
        waiting=last.waiting,
        is_cut_off=last.is_cut_off and status == "success",
    )


def _sum(endings: Sequence[Ending]) -> Usage | None:
    known = [ending.usage for ending in endings if ending.usage is not None]
    if not known:
        return None

    def total(name: str) -> int | None:
        told = [value for usage in known if (value := getattr(usage, name)) is not None]
        return sum(told) if told else None

    return Usage(**{name: total(name) for name in Usage.__struct_fields__})


def _costs(endings: Sequence[Ending]) -> float | None:
    costs = [ending.cost_usd for ending in endings]
    if any(cost is None for cost in costs):
        return None
    return sum(cost for cost in costs if cost is not None)
