"""Several agents at one job: one after the other, side by side, by vote, or led by one of them.

Each is a plain function over `AgentRunner`s, and all that they ask counts for one budget.

Keep true:
1. What one agent has used is not there for the next.
2. An agent that another one calls can use no tool that its caller cannot.
3. The same answers give the same outcome, in whatever order they come: a tie goes to the earliest.
4. What one agent hands to another keeps its provenance: an agent's words are never the person's, and carry
   the labels of what it had read. What the person typed stays theirs, however far down it is handed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import msgspec

from placet.agents.result import AgentResult
from placet.agents.runner import AgentRunner
from placet.agents.spec import AgentSpec
from placet.errors import ToolError, UsageError
from placet.inference.usage import Usage
from placet.ir.json_value import JsonValue
from placet.ir.proposal import Proposal, new_id
from placet.ir.provenance import (
    Labels,
    MessageText,
    SourcedText,
    joined,
    parts_of,
    recorded,
    separated,
    text_of,
    typed_in,
)
from placet.ir.result import Outcome
from placet.ir.to_dict import ToDict
from placet.runtime.stop_requests import linked
from placet.safe_text import clean
from placet.tools.context import Cancel, ToolContext
from placet.tools.tool import Tool, tool
from placet.trace_context import join_trace
from placet.truncation import truncate_repr
from placet.turns.ending import OUTCOMES, End
from placet.turns.stopping import first_error

if TYPE_CHECKING:
    from placet.ir.tool_spec import Risk
    from placet.policy.budget import Budget
    from placet.runtime.open_run import OpenRun
    from placet.runtime.runtime import Runtime
    from placet.turns.limits import TurnLimits

AT_ONCE = 4
_RISKS: tuple[Risk, ...] = ("read_only", "idempotent", "network", "destructive")
_Task = Annotated[
    str,
    msgspec.Meta(min_length=1, max_length=20_000, description="What is to be done, with all that is needed."),
]
_NOBODY = ToolContext(action_id="", run_id="")
_QUOTES = {'"': '"', "'": "'", "“": "”", "„": "“", "‘": "’", "«": "»"}
_MARKED = re.compile(r"(\*{1,3}|`{1,3}|_)([^*`_]+)\1")
_HEADING = re.compile(r"#{1,6} +(?=\S)")
# Behind a number, ! and ? may be part of what is said.
_END = re.compile(r"(?<=\S)(?:[.,;:…。]+|(?<=[^\W\d_])[!?！？]+)$")
_FOR_ALL = frozenset({"tokens", "cost_usd", "time_s"})
"""The limits that hold for several agents together; all others are each agent's own."""
_MADE = "__placet_agent_tool__"
"""Where a tool that is an agent says how it is made for another caller."""


class Step(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """What one agent was given, and what came of it."""

    agent: str
    input: str
    result: AgentResult


class TeamResult(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """What came of all of them."""

    output: str
    status: End
    steps: tuple[Step, ...] = ()
    """In the order of the agents and inputs, not in that of their ends."""
    votes: dict[str, int] = {}
    """How many gave each answer, where there was a vote."""
    run_id: str = ""
    error: str | None = None

    @property
    def labels(self) -> Labels:
        """The labels on `output`: those of any answer, because each had a part in it."""
        return joined(*(step.result.labels for step in self.steps))

    @property
    def sourced(self) -> SourcedText:
        """`output` with its provenance, to pass on to another agent."""
        return SourcedText(self.output, "agent", self.labels)

    @property
    def succeeded(self) -> bool:
        """Whether there is an answer."""
        return self.status == "success"

    @property
    def tokens(self) -> int | None:
        """What all answers took; None where an agent does not say."""
        usages: list[Usage | None] = [step.result.usage for step in self.steps]
        known = [usage.total for usage in usages if usage is not None]
        return sum(known) if len(known) == len(usages) else None

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as a dict that `json.dumps` accepts."""
        return {"succeeded": self.succeeded, "tokens": self.tokens, **ToDict.to_dict(self)}


@asynccontextmanager
async def one_budget(
    runtime: Runtime,
    limits: TurnLimits | None = None,
    *,
    source: str = "agents",
    cancel: Cancel | None = None,
    after: OpenRun | None = None,
) -> AsyncIterator[OpenRun]:
    """A run whose budget several agents share: hand it to each as `budget`. `limits` say how far all of them
    may go together, in tokens, money and time; what the run `after` which this comes has used counts as
    well.

    Raises:
        UsageError: `limits` has one that cannot hold for all of them.
    """
    _check_limits(limits)
    name = new_id()
    about = Proposal(id=name, source=source, actions=())
    with linked(cancel) as inner:
        async with runtime.open_run(
            about, run_id=name, cancel=inner, budget=limits.budget if limits is not None else None
        ) as run:
            if after is not None:
                run.continue_from(after)
            async with run.stopping_on_request(inner):
                yield run
            if run.ended is None:
                # Nobody could take it up again: what its agents did is in runs of their own.
                await run.end("partial" if inner.requested else "succeeded", inner.reason or None)


async def pipeline(
    agents: Sequence[AgentRunner],
    text: MessageText,
    *,
    limits: TurnLimits | None = None,
    budget: OpenRun | None = None,
    cancel: Cancel | None = None,
) -> TeamResult:
    """Each agent works on what the one before it has said; the first that does not succeed ends it. A `text`
    that is a `str` counts as typed by the person.

    Raises:
        UsageError: there is no agent, or nothing to do; or `limits` has one that is each agent's own.
    """

    async def work(run: OpenRun) -> TeamResult:
        steps: list[Step] = []
        given, typed = parts, typed_in(parts)
        for agent in agents:
            steps.append(await _step(agent, given, run, cancel, len(steps) + 1, typed))
            if not steps[-1].result.succeeded:
                return _failed(steps, steps[-1])
            given = (steps[-1].result.sourced,)
        return TeamResult(output=text_of(given), status="success", steps=tuple(steps))

    parts = parts_of(text)
    return await _together(agents, text_of(parts), work, "pipeline", limits, budget, cancel)


async def map_reduce(
    mapper: AgentRunner,
    inputs: Sequence[MessageText],
    reducer: AgentRunner,
    task: MessageText,
    *,
    at_once: int = AT_ONCE,
    limits: TurnLimits | None = None,
    budget: OpenRun | None = None,
    cancel: Cancel | None = None,
) -> TeamResult:
    """One agent works on each input, several at once; another makes one answer of theirs, as `task` says. It
    is not asked if one of them did not succeed. An input, or a `task`, that is a `str` counts as typed by the
    person.

    Raises:
        UsageError: there are no inputs, or nothing to do.
    """
    if not inputs:
        raise UsageError("map_reduce got no inputs. Give at least one text.")
    for number, each in enumerate(inputs, start=1):
        if not text_of(parts_of(each)).strip():
            raise UsageError(f"map_reduce got nothing to do in input {number}: it is empty. Leave it out.")

    async def work(run: OpenRun) -> TeamResult:
        given = [parts_of(each) for each in inputs]
        typed = typed_in(part for each in (*given, asked) for part in each)
        steps = await _side_by_side([(mapper, each) for each in given], run, cancel, at_once)
        for step in steps:
            if not step.result.succeeded:
                return _failed(steps, step)
        answers = (
            (SourcedText(f"Part {n}:\n", "program"), step.result.sourced)
            for n, step in enumerate(steps, start=1)
        )
        message = separated([asked, *answers])
        steps.append(await _step(reducer, message, run, cancel, len(steps) + 1, typed))
        if not steps[-1].result.succeeded:
            return _failed(steps, steps[-1])
        return TeamResult(output=steps[-1].result.output, status="success", steps=tuple(steps))

    asked = parts_of(task)
    return await _together([mapper, reducer], text_of(asked), work, "map_reduce", limits, budget, cancel)


async def vote(
    agents: Sequence[AgentRunner],
    text: MessageText,
    *,
    same: Callable[[str], str] | None = None,
    at_once: int = AT_ONCE,
    limits: TurnLimits | None = None,
    budget: OpenRun | None = None,
    cancel: Cancel | None = None,
) -> TeamResult:
    """All agents answer, and the answer that most gave wins; of several, the one that the earliest agent
    gave. Answers are the same if `same` makes the same text of them: without it, if they differ in nothing
    but case, spaces, quotes, Markdown and the punctuation at the end. An agent that did not succeed has no
    vote.

    Raises:
        UsageError: there is no agent, or nothing to do; or `same` made something else than a text.
    """
    make = same or plain_answer

    def alike(answer: str) -> str:
        made: object = make(answer)
        if not isinstance(made, str):
            raise UsageError(
                f"vote(same=...) made {truncate_repr(made, 80)} of an answer. It must make a text of each."
            )
        return made

    async def work(run: OpenRun) -> TeamResult:
        steps = await _side_by_side([(agent, parts) for agent in agents], run, cancel, at_once)
        answers = [alike(step.result.output) if step.result.succeeded else None for step in steps]
        won = winner(answers)
        if won is None:
            return _failed(steps, steps[0])
        votes: dict[str, int] = {}
        for answer in answers:
            if answer is not None:
                votes[answer] = votes.get(answer, 0) + 1
        output = steps[won].result.output
        return TeamResult(output=output, status="success", steps=tuple(steps), votes=votes)

    parts = parts_of(text)
    return await _together(agents, text_of(parts), work, "vote", limits, budget, cancel)


async def supervisor(
    lead: AgentRunner,
    members: Sequence[AgentRunner],
    text: MessageText,
    *,
    limits: TurnLimits | None = None,
    budget: OpenRun | None = None,
    cancel: Cancel | None = None,
) -> TeamResult:
    """One agent leads: it calls the others as tools, each by its id, and gives the answer. They can use what
    it can use, and no more: what is not on its list, or not in its runtime, is not there for them. What they
    do is judged by the rules and permissions of their own runtimes.

    Raises:
        UsageError: there are no members, two have one id, one has the id of the lead, or nothing is to be
            done.
    """
    ids = [member.spec.id for member in members]
    for name in ids:
        if ids.count(name) > 1:
            raise UsageError(f"Two members have the id '{name}'. Each is called by its own.")
        if name == lead.spec.id:
            raise UsageError(f"'{name}' leads, and a member has the same id. Give one another id.")
        if name in lead.runtime.tools:
            raise UsageError(f"'{name}' is a member and a tool of the lead. Give the agent another id.")

    async def work(run: OpenRun) -> TeamResult:
        steps: list[Step] = []
        tools = [
            agent_tool(member, lead, budget=run, cancel=cancel, heard=steps.append) for member in members
        ]
        spec = msgspec.structs.replace(lead.spec, tools=(*lead.spec.tools, *ids))
        leading = lead.changed(spec, [*_made_for(lead, _usable(lead), run), *tools])
        last = await _step(leading, parts, run, cancel, 0)
        if not last.result.succeeded:
            return _failed((*steps, last), last)
        return TeamResult(output=last.result.output, status="success", steps=(*steps, last))

    if not members:
        raise UsageError("supervisor got no members. Give at least one agent to lead.")
    parts = parts_of(text)
    return await _together([lead, *members], text_of(parts), work, "supervisor", limits, budget, cancel)


# An agent as a tool


def no_wider(spec: AgentSpec, parent: AgentSpec) -> AgentSpec:
    """An agent with those of its tools that its parent can use as well; what either denies is denied.

    >>> child = AgentSpec(id="c", identity="x", tools=("read_file", "shell"))
    >>> no_wider(child, AgentSpec(id="p", identity="x", tools=("read_file", "grep"))).allowed
    ('read_file',)
    """
    within = frozenset(parent.allowed)
    return msgspec.structs.replace(
        spec,
        tools=tuple(name for name in spec.allowed if name in within),
        denied_tools=tuple(dict.fromkeys((*spec.denied_tools, *parent.denied_tools))),
    )


def agent_tool(
    agent: AgentRunner,
    parent: AgentSpec | AgentRunner,
    *,
    budget: OpenRun | None = None,
    cancel: Cancel | None = None,
    heard: Callable[[Step], None] | None = None,
) -> Tool:
    """An agent as a tool that another one, `parent`, can call by its id: it takes a task and gives an answer.

    Its tools are never wider than those of `parent`: than its list, and for a runner than what is there of
    it; the same holds for agents that are tools of `agent`. Its calls are judged one by one as its own, by
    the rules and permissions of its own runtime. `heard` hears what came of each call.
    """
    within = _usable(parent) if isinstance(parent, AgentRunner) else parent
    narrow = _narrowed(agent, within, budget)
    spec = narrow.spec

    @tool(
        name=spec.id,
        risk=_risk_of(narrow),
        description=clean(spec.description or f"The agent {spec.title}.", 500),
    )
    async def call(task: _Task, context: ToolContext = _NOBODY) -> str:
        with linked(cancel, context.cancel) as inner, join_trace(context.traceparent):
            # Named by the call, so that whoever looks at the caller's run finds it.
            name = f"{context.run_id}.{context.action_id}" if context.run_id else new_id()
            result = await narrow.run(
                _asked_by_caller(task, context),
                run_id=name,
                cancel=inner,
                budget=_counted(budget, context.budget),
                parent=context.run_id or None,
                typed=context.typed,
            )
        context.label_output(recorded(result.labels))
        if heard is not None:
            heard(Step(agent=spec.id, input=task, result=result))
        if not result.succeeded:
            why = clean(result.error or result.output, 500)
            raise ToolError(f"agent '{spec.id}' ended as {result.status}: {why}", retry=False)
        return result.output

    def again(closer: AgentSpec, other: OpenRun | None) -> Tool:
        """The same for a caller who may use less."""
        return agent_tool(narrow, closer, budget=budget or other, cancel=cancel, heard=heard)

    setattr(call.fn, _MADE, again)
    call.may_label = True  # By what the agent will have read.
    call.confined_to = "nothing"  # What it does, it does through its own tools, each of which is judged.
    return call


def _counted(team: OpenRun | None, caller: Budget | None) -> OpenRun | Budget | None:
    """For whom an agent counts that is called: for its caller, and so for the team of that one."""
    is_in_team = team is None or (caller is not None and any(each is team.spending for each in caller))
    return caller if caller is not None and is_in_team else team


def _asked_by_caller(task: str, context: ToolContext) -> SourcedText:
    """A task as the caller of an agent wrote it. What the person typed as a whole is passed on as theirs."""
    labels = context.labels_of("task")
    return SourcedText(task, "person" if task in context.typed and not labels else "agent", labels)


def _usable(agent: AgentRunner) -> AgentSpec:
    """A spec that lists what the agent can really use: what is on its list and in its runtime."""
    return msgspec.structs.replace(agent.spec, tools=tuple(agent.offered()))


def _narrowed(agent: AgentRunner, parent: AgentSpec, budget: OpenRun | None) -> AgentRunner:
    """An agent no wider than its parent, and the agents among its tools no wider than that."""
    spec = no_wider(agent.spec, parent)
    there = tuple(name for name in spec.allowed if name in agent.runtime.tools)
    within = msgspec.structs.replace(spec, tools=there)
    return agent.changed(spec, _made_for(agent, within, budget))


def _made_for(agent: AgentRunner, caller: AgentSpec, budget: OpenRun | None) -> list[Tool]:
    """Those tools of an agent that are agents themselves, as `caller` may use them."""
    makers = (getattr(each.fn, _MADE, None) for each in agent.runtime.tools)
    return [make(caller, budget) for make in makers if make is not None]


def _risk_of(agent: AgentRunner) -> Risk:
    """The worst that its tools can do; an agent without tools only answers."""
    risks = [each.schema.risk for each in agent.runtime.tools]
    return max(risks, key=_RISKS.index, default="read_only")


# Parts


def plain_answer(text: str) -> str:
    """An answer as votes are counted: without case, needless spaces, and the quotes, Markdown and punctuation
    around it. What is nothing else stays as it is.

    >>> plain_answer("  **Yes.** "), plain_answer("yes"), plain_answer("'-5'"), plain_answer("C#")
    ('yes', 'yes', '-5', 'c#')
    """
    said = " ".join(text.casefold().split())
    while True:
        less = _HEADING.sub("", _END.sub("", said), count=1) if said.startswith("#") else _END.sub("", said)
        marked = _MARKED.fullmatch(less)
        if marked is not None:
            less = marked[2].strip()
        elif len(less) > 2 and _QUOTES.get(less[0]) == less[-1]:
            less = less[1:-1].strip()
        if less in ("", said):
            return said
        said = less


def winner(answers: Sequence[str | None]) -> int | None:
    """Which answer most gave, by the place of the first that gave it; None if there is none.

    >>> winner(["b", "a", "a", "b", None]), winner([None])
    (0, None)
    """
    first: dict[str, int] = {}
    count: dict[str, int] = {}
    for place, answer in enumerate(answers):
        if answer is not None:
            first.setdefault(answer, place)
            count[answer] = count.get(answer, 0) + 1
    return min(first.values(), key=lambda place: (-count[answers[place] or ""], place), default=None)


def _check_limits(limits: TurnLimits | None) -> None:
    if limits is None:
        return
    otherwise = type(limits)()
    for name in limits.__struct_fields__:
        if name not in _FOR_ALL and getattr(limits, name) != getattr(otherwise, name):
            raise UsageError(
                f"A limit on {name} cannot hold for several agents together: tokens, cost_usd and time_s "
                f"can. Give it to each agent: AgentSpec(..., limits=AgentLimits({name}=...))."
            )


async def _together(
    agents: Sequence[AgentRunner],
    text: str,
    work: Callable[[OpenRun], Awaitable[TeamResult]],
    source: str,
    limits: TurnLimits | None,
    budget: OpenRun | None,
    cancel: Cancel | None,
) -> TeamResult:
    if not agents:
        raise UsageError(f"{source} got no agents. Give at least one.")
    if not text.strip():
        raise UsageError(f"{source} got nothing to do. Say in a sentence what is to be done.")
    if budget is not None:
        if limits is not None:
            raise UsageError(f"{source} got limits and a budget. Give one of them.")
        return msgspec.structs.replace(await work(budget), run_id=budget.run_id)
    async with one_budget(agents[0].runtime, limits, source=source, cancel=cancel) as run:
        result = await work(run)
        outcome: Outcome = OUTCOMES[result.status]
        # Nobody could take it up again: what its agents did is in runs of their own.
        if outcome in ("canceled", "waiting"):
            outcome = "partial"
        await run.end(outcome, None if result.succeeded else result.error)
        return msgspec.structs.replace(result, run_id=run.run_id)


async def _side_by_side(
    work: Sequence[tuple[AgentRunner, Sequence[SourcedText]]],
    run: OpenRun,
    cancel: Cancel | None,
    at_once: int,
) -> list[Step]:
    room = asyncio.Semaphore(max(1, at_once))

    async def one(agent: AgentRunner, parts: Sequence[SourcedText], number: int) -> Step:
        async with room:
            return await _step(agent, parts, run, cancel, number)

    with first_error():
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(*each, n)) for n, each in enumerate(work, start=1)]
    return [task.result() for task in tasks]


async def _step(
    agent: AgentRunner,
    parts: Sequence[SourcedText],
    run: OpenRun,
    cancel: Cancel | None,
    number: int,
    typed: Sequence[str] = (),
) -> Step:
    name = f"{run.run_id}.{new_id()}.{number}"
    result = await agent.run(parts, run_id=name, cancel=cancel, budget=run, typed=typed)
    return Step(agent=agent.spec.id, input=text_of(parts), result=result)


def _failed(steps: Sequence[Step], step: Step) -> TeamResult:
    result = step.result
    error = f"agent '{step.agent}' ended as {result.status}: {clean(result.error or result.output, 500)}"
    return TeamResult(output=result.output, status=result.status, steps=tuple(steps), error=error)
