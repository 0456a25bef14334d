"""Limits are enforced while a run is at work, and what was done until then is kept."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from placet import CostBudget, Reply, ToolContext, tool
from placet.approvals.approval import Approval
from placet.errors import BudgetSpent, UsageError
from placet.inference.model import Request, Result
from placet.tools import Tool
from placet.turns.ending import Ending
from placet.turns.limits import TurnLimits
from tests.turns.workroom import Workroom, asked_of, call, kept_in, orphans, results, spent, write

PATIENCE_S = 20.0


@pytest.fixture
def room(tmp_path: Path) -> Workroom:
    return Workroom(tmp_path)


def hour(risk: Any = "destructive") -> Tool:
    """A tool that takes much longer than anybody has."""

    @tool(name="hour", risk=risk)
    async def wait() -> str:
        """Take an hour."""
        await asyncio.sleep(3600)
        return "an hour later"

    return wait


@pytest.mark.parametrize("name", ["turns", "tokens", "cost_usd", "time_s", "tool_calls", "call_s"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), True, "10"])
def test_a_limit_is_above_zero(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=name):
        TurnLimits(**{name: value})


@pytest.mark.parametrize("name", ["turns", "tokens", "tool_calls", "answer_tokens", "context_tokens"])
@pytest.mark.parametrize("value", [1.5, 2.0, float("inf"), float("nan"), False, -1])
def test_what_is_counted_is_a_whole_number(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=name):
        TurnLimits(**{name: value})
    assert getattr(TurnLimits(**{name: 7}), name) == 7


@pytest.mark.parametrize("name", ["cost_usd", "time_s", "call_s"])
@pytest.mark.parametrize("value", [float("inf"), -float("inf"), float("nan")])
def test_no_limit_is_none_and_nothing_endless(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"{name}.*None is no limit"):
        TurnLimits(**{name: value})
    assert getattr(TurnLimits(**{name: 0.5}), name) == 0.5


def counting(**spent_by_each: Any) -> Any:
    """A model that goes on for ever, and says what each answer took."""
    turns = iter(range(10_000))
    return lambda _: spent(write(f"{next(turns)}.txt", "x"), text="On it.", **spent_by_each)


def _is_partial(ending: Ending, room: Workroom) -> None:
    assert ending.status == "budget"
    assert ending.summary == "On it."
    assert list(ending.tools) == ["write_file"] * len(room.files())


async def test_tokens(room: Workroom) -> None:
    assistant = room.assistant(counting(tokens=30), limits=TurnLimits(tokens=100))

    ending = await assistant.run("x")

    _is_partial(ending, room)
    assert ending.error == "the limit on tokens was reached (100 tokens)"
    assert (ending.turns, len(room.files())) == (4, 3), "nothing is started with what is used up"
    assert ending.usage is not None
    assert ending.usage.total == 120
    assert [request.max_tokens for request in asked_of(assistant)] == [100, 70, 40, 10], (
        "no longer than is left"
    )
    assert orphans(asked_of(assistant)[-1].messages) == []


async def test_the_length_of_one_answer(room: Workroom) -> None:
    assistant = room.assistant(counting(tokens=30), limits=TurnLimits(tokens=100, answer_tokens=50))

    await assistant.run("x")

    assert [request.max_tokens for request in asked_of(assistant)] == [50, 50, 40, 10]


async def test_money(room: Workroom) -> None:
    ending = await room.assistant(counting(cost=0.25), limits=TurnLimits(cost_usd=1)).run("x")

    _is_partial(ending, room)
    assert ending.error == "the limit on money was reached ($1)"
    assert (ending.turns, ending.cost_usd) == (4, 1.0)


@pytest.mark.parametrize("limits", [TurnLimits(tokens=10**6), TurnLimits(cost_usd=1000)])
async def test_an_answer_that_does_not_say_what_it_took_uses_its_limit_up(
    room: Workroom, limits: TurnLimits
) -> None:
    ending = await room.assistant(counting(tokens=None), limits=limits).run("x")

    _is_partial(ending, room)
    assert (ending.turns, room.files()) == (1, {})


async def test_what_tools_use_counts_too(room: Workroom) -> None:
    @tool(risk="read_only")
    async def dear(context: ToolContext) -> str:
        """Costs tokens."""
        context.spend(tokens=60)
        return "x"

    assistant = room.assistant(lambda _: spent(call("dear"), tokens=1), [dear], limits=TurnLimits(tokens=100))

    ending = await assistant.run("x")

    assert (ending.status, ending.turns, list(ending.tools)) == ("budget", 2, ["dear", "dear"])


async def test_calls_of_tools(room: Workroom) -> None:
    turn = [write(f"{n}.txt", "x") for n in range(5)]
    assistant = room.assistant([turn, turn, "Done."], limits=TurnLimits(tool_calls=7))

    ending = await assistant.run("x")

    assert (ending.status, ending.turns, len(ending.tools)) == ("budget", 2, 7)
    assert ending.error == "the limit on tool calls was reached"
    assert orphans(asked_of(assistant)[-1].messages) == []


async def test_calls_that_run_together_share_what_is_left(room: Workroom) -> None:
    @tool(risk="read_only")
    async def look() -> str:
        """Look."""
        await asyncio.sleep(0)
        return "x"

    assistant = room.assistant(
        [[call("look") for _ in range(5)], "x"], [look], limits=TurnLimits(tool_calls=3)
    )

    ending = await assistant.run("x")

    assert (ending.status, len(ending.tools)) == ("budget", 3)


@pytest.mark.parametrize("limits", [TurnLimits(tokens=500), TurnLimits(cost_usd=0.05)])
@pytest.mark.parametrize("waits", [True, False], ids=["side by side", "at once"])
async def test_what_calls_of_one_turn_use_holds_those_after_them(
    room: Workroom, limits: TurnLimits, waits: bool
) -> None:
    @tool(name="dear", risk="read_only")
    async def dear(n: int, context: ToolContext) -> int:
        """Costs tokens and money."""
        if waits:
            await asyncio.sleep(0)
        context.spend(tokens=100, cost=0.01)
        return n

    @tool(name="dear", risk="read_only", cheap=True)
    def instant(n: int, context: ToolContext) -> int:
        """The same, without waiting for anything."""
        context.spend(tokens=100, cost=0.01)
        return n

    asks = [spent(*(call("dear", n=n) for n in range(40)), tokens=1, cost=0.0), "Done."]
    runtime = room.runtime([dear if waits else instant], max_concurrency=2)
    assistant = room.assistant(asks, runtime=runtime, limits=limits)

    ending = await assistant.run("x")

    assert ending.status == "budget"
    assert 5 <= len(ending.tools) <= 6, "those that are under way when it is reached are not stopped"
    messages = asked_of(assistant)[-1].messages
    assert orphans(messages) == []
    assert [each.is_error for each in results(messages)] == [False] * len(ending.tools) + [True] * (
        40 - len(ending.tools)
    )
    assert results(messages)[-1].text.startswith("skipped: this call was not run, because the limit on ")
    assert len(runtime.events.query(kind="action_succeeded")) == len(ending.tools)


async def test_as_many_calls_at_once_as_the_runtime_allows(room: Workroom) -> None:
    at_work, most = 0, 0

    @tool(risk="read_only")
    async def look(n: int) -> int:
        """Look."""
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        for _ in range(3):
            await asyncio.sleep(0)
        at_work -= 1
        return n

    runtime = room.runtime([look], max_concurrency=3)
    assistant = room.assistant([[call("look", n=n) for n in range(20)], "Done."], runtime=runtime)

    ending = await assistant.run("x")

    assert (ending.status, len(ending.tools), most) == ("success", 20, 3)
    assert [told.text for told in results(asked_of(assistant)[-1].messages)] == [str(n) for n in range(20)]


@pytest.mark.parametrize("risk", ["destructive", "read_only"])
async def test_time_stops_a_tool(room: Workroom, risk: Any) -> None:
    turn = [write("a.txt", "kept"), call("hour"), write("b.txt", "never")]
    assistant = room.assistant(
        [Result(text="On it.", calls=turn), "Done."], [hour(risk)], limits=TurnLimits(time_s=1)
    )

    ending = await asyncio.wait_for(assistant.run("x"), PATIENCE_S)

    assert (ending.status, ending.error) == ("budget", "the limit on time was reached (1 s)")
    assert (ending.summary, list(ending.tools)) == ("On it.", ["write_file"])
    assert room.files() == {"a.txt": "kept"}
    messages = asked_of(assistant)[-1].messages
    assert orphans(messages) == []
    _, stopped, skipped = results(messages)
    assert stopped.text.startswith("unknown: " if risk == "destructive" else "failed: ")
    assert skipped.text.startswith("skipped: this call was not run, because the limit on time")


@pytest.mark.parametrize("where", ["limits", "the runtime's budget"])
async def test_time_stops_a_model(room: Workroom, where: str) -> None:
    stopped = []

    async def never(request: Request) -> str:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            stopped.append(1)
            raise
        return "too late"

    if where == "limits":
        assistant = room.assistant(never, limits=TurnLimits(time_s=1.0))
    else:
        assistant = room.assistant(never, runtime=room.runtime(budget=CostBudget(max_duration_ms=1000)))

    ending = await asyncio.wait_for(assistant.run("x"), PATIENCE_S)

    assert (ending.status, ending.turns, stopped) == ("budget", 1, [1])


async def test_waiting_for_a_person_takes_no_time(room: Workroom) -> None:
    async def person(approval: Approval) -> Reply:
        await asyncio.sleep(1.3)
        return Reply("once")

    assistant = room.assistant(
        [write("a.txt", "1"), "Done."],
        runtime=room.runtime(person=person),
        posture="read_only",
        limits=TurnLimits(time_s=1.2),
    )

    ending = await assistant.run("x")

    assert ending.status == "success"
    assert room.files() == {"a.txt": "1"}


async def test_one_call_has_a_limit_of_its_own(room: Workroom) -> None:
    assistant = room.assistant(
        [[call("hour"), write("a.txt", "1")], "Done."], [hour("read_only")], limits=TurnLimits(call_s=0.5)
    )

    ending = await asyncio.wait_for(assistant.run("x"), PATIENCE_S)

    assert (ending.status, list(ending.tools)) == ("success", ["write_file"])
    slow, _ = results(asked_of(assistant)[-1].messages)
    assert slow.is_error
    assert "timed out" in slow.text or "time" in slow.text


async def test_how_a_limit_ended_a_run_is_kept(room: Workroom, tmp_path: Path) -> None:
    with kept_in(tmp_path) as kept:
        assistant = room.assistant(
            counting(tokens=30), runtime=room.runtime(**kept.parts()), limits=TurnLimits(tokens=100)
        )
        ending = await assistant.run("x", run_id="r")
        asked = len(asked_of(assistant))

        again = await assistant.resume("r")

        assert again == ending
        assert len(asked_of(assistant)) == asked
        (row,) = kept.journal.runs()
        assert row.status == "budget"


async def test_a_model_whose_own_budget_is_spent_ends_the_run(room: Workroom) -> None:
    assistant = room.assistant([write("a.txt", "1"), BudgetSpent("nothing is left this month")], failures=3)

    ending = await assistant.run("x")

    assert (ending.status, ending.error) == ("budget", "nothing is left this month")
    assert list(ending.tools) == ["write_file"]
