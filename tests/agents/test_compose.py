"""Agents together: who gets what, what a tie means, one budget over all, no tool that a caller lacks."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet import MemoryApprovals, MemoryJournal, Runtime, TurnLimits, tool
from placet.agents.compose import (
    agent_tool,
    map_reduce,
    no_wider,
    one_budget,
    pipeline,
    plain_answer,
    supervisor,
    vote,
    winner,
)
from placet.agents.runner import AgentRunner
from placet.agents.spec import AgentLimits, AgentSpec
from placet.errors import UsageError
from placet.inference import Scripted
from placet.inference.messages import ToolResult
from placet.inference.model import Request, Result
from placet.inference.usage import Usage
from tests.agents.trying import call, last_said, told


def agent(id: str, answer: Any, *tools: str, runtime: Runtime | None = None, **more: Any) -> AgentRunner:
    model = answer if hasattr(answer, "generate") else Scripted(answer if callable(answer) else [answer] * 20)
    made = AgentSpec(id=id, identity=f"You are {id}.", tools=tools, **more)
    return AgentRunner(runtime or Runtime(), model, made, posture="full_access")


def echo(mark: str) -> Any:
    return lambda request: f"{mark}({last_said(request)})"


async def test_a_pipeline_hands_each_the_answer_of_the_one_before() -> None:
    result = await pipeline([agent("a", echo("a")), agent("b", echo("b"))], "x")

    assert result.succeeded
    assert result.output == "b(a(x))"
    assert [(step.agent, step.input) for step in result.steps] == [("a", "x"), ("b", "a(x)")]


async def test_a_pipeline_ends_at_the_first_that_fails() -> None:
    last = Scripted(["never"])

    result = await pipeline([agent("a", "fine"), agent("b", Scripted([])), agent("c", last)], "x")

    assert result.status == "error"
    assert "agent 'b' ended as error" in (result.error or "")
    assert last.requests == []


async def test_what_one_has_used_is_gone_for_the_next() -> None:
    third = Scripted([told("third", 1)])
    agents = [agent("a", told("one", 60)), agent("b", told("two", 60)), agent("c", third)]

    result = await pipeline(agents, "x", limits=TurnLimits(tokens=100))

    assert result.status == "budget"
    assert "tokens" in (result.error or "")
    assert third.requests == []
    assert [step.result.status for step in result.steps] == ["success", "success", "budget"]


async def test_map_reduce_works_side_by_side_and_keeps_the_order() -> None:
    barrier = asyncio.Barrier(3)

    async def mapped(request: Request) -> str:
        await asyncio.wait_for(barrier.wait(), 20)
        said = last_said(request)
        for _ in range(9 - int(said)):  # The first is the last to answer.
            await asyncio.sleep(0)
        return f"got {said}"

    result = await map_reduce(agent("m", mapped), ["1", "2", "3"], agent("r", echo("r")), "Join them.")

    assert result.output == "r(Join them.\n\nPart 1:\ngot 1\n\nPart 2:\ngot 2\n\nPart 3:\ngot 3)"


async def test_map_reduce_asks_nobody_to_join_what_is_not_whole() -> None:
    reducer = Scripted(["never"])

    def mapped(request: Request) -> Any:
        return RuntimeError("broken") if last_said(request) == "2" else "fine"

    result = await map_reduce(agent("m", mapped), ["1", "2"], agent("r", reducer), "Join.")

    assert not result.succeeded
    assert reducer.requests == []


async def test_most_votes_win_whatever_the_spelling() -> None:
    agents = [agent("a", "No"), agent("b", "**Yes.**"), agent("c", "yes")]

    result = await vote(agents, "x")

    assert result.output == "**Yes.**"
    assert result.votes == {"no": 1, "yes": 2}


async def test_a_tie_goes_to_the_earliest_agent_however_late_it_answers() -> None:
    async def slow(_: Request) -> str:
        for _ in range(50):
            await asyncio.sleep(0)
        return "slow"

    result = await vote([agent("a", slow), agent("b", "quick")], "x")

    assert result.output == "slow"


async def test_who_fails_has_no_vote() -> None:
    agents = [agent("a", Scripted([])), agent("b", "yes")]

    assert (await vote(agents, "x")).output == "yes"
    assert (await vote([agent("a", Scripted([]))], "x")).status == "error"


@pytest.mark.parametrize(
    ("answers", "won"),
    [
        (["-5", "5", "5"], "5"),
        (["👎", "👍", "👍"], "👍"),
        (["C#", "C++", "C++."], "C++"),
        (["5!", "5", "5."], "5"),
        (["?", "!", "!"], "!"),
        (["~~no~~", "“No”", "# No"], "“No”"),
    ],
)
async def test_answers_that_differ_are_not_counted_as_one(answers: list[str], won: str) -> None:
    result = await vote([agent(f"a{n}", each) for n, each in enumerate(answers)], "x")

    assert result.output == won
    assert sorted(result.votes.values()) == [1, 2]


@given(st.text())
def test_no_answer_is_counted_as_nothing(text: str) -> None:
    plain = plain_answer(text)

    assert bool(plain) == bool(text.split())
    assert plain_answer(plain) == plain


async def test_what_makes_answers_the_same_must_make_texts_of_them() -> None:
    with pytest.raises(UsageError, match=r"vote\(same=...\) made None of an answer"):
        await vote([agent("a", "yes")], "x", same=lambda _: None)  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("limits", [{"turns": 1}, {"tool_calls": 1}, {"call_s": 1}, {"answer_tokens": 9}])
async def test_a_limit_that_would_not_hold_for_all_is_refused(limits: dict[str, Any]) -> None:
    model = Scripted(["never"])

    with pytest.raises(UsageError, match=f"A limit on {next(iter(limits))} cannot hold for several"):
        await pipeline([agent("a", model)], "x", limits=TurnLimits(**limits))
    assert model.requests == []


@given(st.lists(st.sampled_from(["a", "b", "c", None]), max_size=9))
def test_the_winner_is_the_earliest_of_those_with_most_votes(answers: list[str | None]) -> None:
    won = winner(answers)

    counts = [answers.count(each) for each in answers if each is not None]
    if not counts:
        assert won is None
        return
    assert won is not None
    assert answers.count(answers[won]) == max(counts)
    assert all(each is None or answers.count(each) < max(counts) for each in answers[:won])


# One leads


def leader(*calls: Any) -> Any:
    def answer(request: Request) -> Any:
        results = [each.text for each in request.messages if isinstance(each, ToolResult)]
        return calls[len(results)] if len(results) < len(calls) else f"they said: {' & '.join(results)}"

    return answer


async def test_a_member_with_the_id_of_the_lead_is_refused() -> None:
    with pytest.raises(UsageError):
        await supervisor(agent("lead", "1"), [agent("lead", "2")], "do it")


async def test_a_supervisor_calls_members_by_their_ids_and_answers() -> None:
    lead = agent("lead", leader(call("maths", task="1+1"), call("words", task="hi")))

    result = await supervisor(lead, [agent("maths", "2"), agent("words", echo("w"))], "do it")

    assert result.output == "they said: 2 & w(hi)"
    assert [step.agent for step in result.steps] == ["maths", "words", "lead"]


async def test_a_member_cannot_use_a_tool_that_the_lead_cannot() -> None:
    ran: list[str] = []

    @tool
    def danger() -> str:
        """Do harm."""
        ran.append("danger")
        return "done"

    @tool(risk="read_only")
    def look() -> str:
        """Look."""
        ran.append("look")
        return "seen"

    runtime = Runtime(tools=[danger, look])
    member = agent("member", leader(call("danger"), call("look")), "danger", "look", runtime=runtime)
    lead = agent("lead", leader(call("member", task="go")), "look", runtime=runtime)

    result = await supervisor(lead, [member], "do it")

    assert ran == ["look"]
    assert "tool 'danger' is not allowed for this agent" in result.output
    assert result.steps[0].result.refused == {"danger": 1}


@pytest.fixture
def ran() -> list[str]:
    return []


@pytest.fixture
def boom(ran: list[str]) -> Any:
    @tool
    def boom() -> str:
        """Do harm."""
        ran.append("boom")
        return "done"

    return boom


async def test_what_is_on_the_list_of_the_lead_and_not_there_is_not_there_for_members(
    ran: list[str], boom: Any
) -> None:
    member = agent("member", leader(call("boom")), "boom", runtime=Runtime(tools=[boom]))
    lead = agent("lead", leader(call("member", task="go")), "boom")

    result = await supervisor(lead, [member], "do it")

    assert ran == []
    assert result.steps[0].result.refused == {"boom": 1}


async def test_an_agent_among_the_tools_of_a_member_is_no_wider_than_the_lead(
    ran: list[str], boom: Any
) -> None:
    wide = Runtime(tools=[boom])
    grand = agent("grand", leader(call("boom")), "boom", runtime=wide)
    its = AgentSpec(id="member", identity="x", tools=("boom", "grand"))
    runtime = Runtime(tools=[boom, agent_tool(grand, its)])

    def tries() -> AgentRunner:
        return agent("member", leader(call("grand", task="go")), "boom", "grand", runtime=runtime)

    async def led_by(*tools: str) -> None:
        lead = agent("lead", leader(call("member", task="go")), *tools, runtime=runtime)
        await supervisor(lead, [tries()], "do it")

    await led_by("grand")
    assert ran == []
    await led_by("grand", "boom")
    assert ran == ["boom"]


async def test_lead_and_members_spend_one_budget() -> None:
    member = Scripted(lambda _: told("fine", 40))

    def leads(request: Request) -> Any:
        from placet.inference.model import Result
        from placet.inference.usage import Usage

        asks = call("m", task="again")
        return Result(calls=[asks], usage=Usage(input=9, output=1), cost=0.0, stop="calls")

    result = await supervisor(agent("lead", leads), [agent("m", member)], "go", limits=TurnLimits(tokens=100))

    assert result.status == "budget"
    assert len(member.requests) == 2


async def test_a_failed_member_is_told_to_the_lead_and_not_the_end() -> None:
    lead = agent("lead", leader(call("m", task="x")))

    result = await supervisor(lead, [agent("m", Scripted([]))], "go")

    assert result.succeeded
    assert "agent 'm' ended as error" in result.output


@pytest.mark.parametrize(
    ("work", "says"),
    [
        (lambda: pipeline([], "x"), "no agents"),
        (lambda: pipeline([agent("a", "b")], " "), "nothing to do"),
        (lambda: vote([], "x"), "no agents"),
        (lambda: map_reduce(agent("a", "b"), [], agent("c", "d"), "x"), "no inputs"),
        (
            lambda: map_reduce(agent("a", "b"), ["x", " "], agent("c", "d"), "x"),
            "map_reduce got nothing to do in input 2",
        ),
        (lambda: supervisor(agent("a", "b"), [], "x"), "no members"),
        (lambda: supervisor(agent("a", "b"), [agent("m", "x"), agent("m", "y")], "x"), "Two members"),
    ],
)
async def test_what_cannot_work_is_refused(work: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        await work()


NAMES = st.lists(st.sampled_from(["a", "b", "c", "d", "A", "á", "a\u0301", "b "]), unique=True, max_size=6)


@given(NAMES, NAMES, NAMES, NAMES)
def test_a_child_is_never_wider_than_its_parent(
    mine: list[str], denied: list[str], parents: list[str], parent_denied: list[str]
) -> None:
    child = AgentSpec(id="c", identity="x", tools=tuple(mine), denied_tools=tuple(denied))
    parent = AgentSpec(id="p", identity="x", tools=tuple(parents), denied_tools=tuple(parent_denied))

    narrow = no_wider(child, parent)

    assert set(narrow.allowed) == set(child.allowed) & set(parent.allowed)
    grandchild = no_wider(AgentSpec(id="g", identity="x", tools=tuple(parents + mine)), narrow)
    assert set(grandchild.allowed) <= set(parent.allowed)


async def test_the_risk_of_an_agent_as_a_tool_is_the_worst_of_its_own() -> None:
    @tool
    def danger() -> str:
        """Do harm."""
        return ""

    runtime = Runtime(tools=[danger])
    wide = AgentSpec(id="p", identity="x", tools=("danger",))
    member = agent("m", "x", "danger", runtime=runtime)

    assert agent_tool(member, wide).schema.risk == "destructive"
    assert agent_tool(member, AgentSpec(id="p", identity="x")).schema.risk == "read_only"


async def test_a_budget_goes_on_from_what_was_used_before() -> None:
    runtime, limits = Runtime(), TurnLimits(tokens=150, cost_usd=1.0, time_s=1000)
    async with one_budget(runtime, limits) as first:
        first.spend(100, 0.75)
        began = perf_counter()

    async with one_budget(runtime, limits, after=first) as second:
        assert (second.tokens, second.cost_usd) == (100, 0.75)
        passed_ms = (perf_counter() - began) * 1000
        assert second.elapsed_ms >= passed_ms
        second.spend(50, 0.0)
        assert second.used_up() == "max_tokens"


def spends(tokens: int, *calls: Any) -> Any:
    """A model that makes one more of these calls each time, then is done; an answer takes so many tokens."""

    def answer(request: Request) -> Result:
        made = sum(isinstance(message, ToolResult) for message in request.messages)
        usage = Usage(input=tokens, output=0)
        if made < len(calls):
            return Result(calls=[calls[made]], usage=usage, cost=0.0, stop="calls")
        return Result(text="done", usage=usage, cost=0.0)

    return answer


async def test_what_a_grandchild_uses_counts_for_its_caller_and_for_the_team() -> None:
    grand = agent("grand", spends(30))
    runtime = Runtime(tools=[agent_tool(grand, AgentSpec(id="child", identity="x", tools=("grand",)))])
    child = agent("child", spends(10, call("grand", task="go")), "grand", runtime=runtime)
    lead = agent("lead", spends(5, call("child", task="go")), "grand", runtime=runtime)

    async with one_budget(Runtime(), TurnLimits(tokens=1000)) as team:
        result = await supervisor(lead, [child], "go", budget=team)

    # Twice the lead, twice the child, once the grandchild; no answer counts twice.
    assert result.succeeded
    assert team.tokens == 5 * 2 + 10 * 2 + 30


@pytest.mark.parametrize("most", [39, 1000])
async def test_a_limit_of_the_caller_holds_for_the_agents_it_calls(most: int) -> None:
    grand = Scripted(spends(30, *[call("nothing")] * 3))
    child = agent("child", grand)
    runtime = Runtime(tools=[agent_tool(child, AgentSpec(id="lead", identity="x", tools=("child",)))])
    lead = agent(
        "lead",
        spends(10, call("child", task="go")),
        "child",
        runtime=runtime,
        limits=AgentLimits(tokens=most),
    )

    result = await lead.run("go")

    asked = len(grand.requests)
    assert (result.status, asked) == (("budget", 1) if most == 39 else ("success", 4))


async def test_an_agent_that_is_resumed_counts_no_answer_again() -> None:
    @tool(risk="destructive")
    def asks() -> str:
        """Needs a person."""
        return "asked"

    approvals = MemoryApprovals()
    runtime = Runtime(tools=[asks], journal=MemoryJournal(), approvals=approvals, patience_s=0)
    spec = AgentSpec(id="a", identity="x", tools=("asks",))
    runner = AgentRunner(runtime, Scripted(spends(20, call("asks"))), spec)

    async with one_budget(runtime, TurnLimits(tokens=100)) as team:
        waits = await runner.run("go", run_id="r", budget=team)
        assert (waits.status, team.tokens) == ("waiting", 20)
        (asked,) = approvals.pending(run="r")
        approvals.decide(asked.id, "once", by="a person")

        done = await runner.resume("r", budget=team)

        assert (done.status, team.tokens) == ("success", 40)
    async with one_budget(runtime, TurnLimits(tokens=100)) as other:
        # Whoever has not counted it yet counts what the journal says, once.
        again = await runner.resume("r", budget=other)
        assert (again.status, other.tokens) == ("success", 40)


async def test_an_empty_input_is_refused_by_its_number_before_anything_is_asked() -> None:
    model = Scripted(["x", "y"])
    agent = AgentRunner(Runtime(), model, AgentSpec(id="m", identity="You map."))

    with pytest.raises(UsageError, match="input 2"):
        await map_reduce(agent, ["a", ""], agent, "sum up")

    assert model.requests == []
