"""How much a run may use, and what happens to the rest."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from placet import CostBudget, ReplanConfig, Runtime, ToolContext
from tests.runtime.plans import Recorder, call, claim, kinds, plan, read, statuses, tool_of, write


async def test_tool_calls_over_the_budget_are_skipped(recorder: Recorder, schedule: Any) -> None:
    rt = Runtime(tools=[recorder.tool("note")], budget=CostBudget(max_tool_calls=2), schedule=schedule)

    result = await rt.execute(plan(*(call(f"a{n}", "note") for n in range(4))))

    assert result.outcome == "budget"
    assert result.error == "cost budget exceeded"
    assert list(statuses(result).values()) == ["succeeded", "succeeded", "skipped", "skipped"]
    assert result["a2"].error == result["a3"].error == "cost budget exceeded"
    assert len(recorder.calls) == 2
    assert kinds(rt, "a3") == ["action_skipped"]


async def test_actions_over_the_budget_are_skipped(schedule: Any) -> None:
    rt = Runtime(budget=CostBudget(max_actions=2), schedule=schedule)

    result = await rt.execute(plan(*(write(f"a{n}", f"k{n}", n) for n in range(4))))

    assert result.outcome == "budget"
    assert rt.state.snapshot() == {"k0": 0, "k1": 1}


async def test_a_budget_that_is_just_enough_lets_the_plan_succeed(recorder: Recorder, schedule: Any) -> None:
    rt = Runtime(
        tools=[recorder.tool("note")],
        budget=CostBudget(
            max_tool_calls=2, max_actions=3, max_duration_ms=60_000, max_tokens=1, max_cost=0.1
        ),
        schedule=schedule,
    )

    result = await rt.execute(plan(call("a", "note"), write("b", "k", 1), call("c", "note")))

    assert result.outcome == "succeeded"


async def test_an_action_on_the_state_is_no_tool_call() -> None:
    rt = Runtime(budget=CostBudget(max_tool_calls=0))

    result = await rt.execute(plan(write("a", "k", 1), read("b", "k")))

    assert result.outcome == "succeeded"


async def test_after_the_budget_is_spent_everything_is_skipped_also_what_costs_nothing(
    recorder: Recorder,
) -> None:
    rt = Runtime(tools=[recorder.tool("note")], budget=CostBudget(max_tool_calls=0))

    result = await rt.execute(plan(call("a", "note"), write("b", "k", 1, dependencies=[])))

    assert statuses(result) == {"a": "skipped", "b": "skipped"}
    assert result["b"].error == "cost budget exceeded"


async def test_time_that_is_up_skips_the_rest() -> None:
    rt = Runtime(budget=CostBudget(max_duration_ms=0))

    result = await rt.execute(plan(write("a", "k", 1)))

    assert result.outcome == "budget"
    assert rt.state.snapshot() == {}


async def test_what_the_time_limit_lets_start_may_end(recorder: Recorder) -> None:
    """The limit decides who starts; stopping work in flight is what an action's own time limit is for."""

    async def outlast() -> str:
        await asyncio.sleep(0.12)
        return "done"

    rt = Runtime(tools=[tool_of("outlast", outlast)], budget=CostBudget(max_duration_ms=100))

    result = await rt.execute(plan(call("a", "outlast"), write("b", "k", 1, dependencies=["a"])))

    assert statuses(result) == {"a": "succeeded", "b": "skipped"}
    assert result.outcome == "budget"


@pytest.mark.parametrize("budget", [CostBudget(max_tokens=100), CostBudget(max_cost=0.5)])
async def test_what_tools_say_they_spent_counts(budget: CostBudget) -> None:
    async def think(ctx: ToolContext) -> None:
        ctx.spend(tokens=60, cost=0.3)

    rt = Runtime(tools=[tool_of("think", think)], budget=budget)

    result = await rt.execute(plan(*(call(f"a{n}", "think") for n in range(4))))

    assert list(statuses(result).values()) == ["succeeded", "succeeded", "skipped", "skipped"]


async def test_a_rejected_action_takes_no_share(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("note")], budget=CostBudget(max_actions=1))

    result = await rt.execute(plan(call("a", "unknown", failure_behavior="skip"), call("b", "note")))

    assert statuses(result) == {"a": "rejected", "b": "succeeded"}


async def test_a_failed_action_keeps_its_share(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[recorder.tool("boom", raises=ValueError("no")), recorder.tool("note")],
        budget=CostBudget(max_tool_calls=1),
    )

    result = await rt.execute(plan(call("a", "boom", failure_behavior="skip"), call("b", "note")))

    assert result["b"].error == "cost budget exceeded"


async def test_an_earlier_answer_takes_no_share(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("ask", 1, risk="idempotent")], budget=CostBudget(max_tool_calls=1))

    result = await rt.execute(
        plan(
            call("a", "ask", idempotent=True),
            call("b", "ask", idempotent=True),
            call("c", "ask", idempotent=True),
        )
    )

    assert result.outcome == "succeeded"
    assert len(recorder.calls) == 1


async def test_another_attempt_takes_no_further_share(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[recorder.tool("flaky", raises=[ValueError("no"), None])],
        budget=CostBudget(max_tool_calls=1, max_actions=1),
    )

    result = await rt.execute(plan(call("a", "flaky", failure_behavior="retry")))

    assert result.outcome == "succeeded"
    assert len(recorder.calls) == 2


async def test_a_budget_stop_keeps_the_state_and_undoes_nothing(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("note")], budget=CostBudget(max_tool_calls=0))

    result = await rt.execute(plan(write("a", "k", 1), call("b", "note", dependencies=["a"])))

    assert rt.state.snapshot() == {"k": 1}
    assert not result["a"].rolled_back
    assert "state_rollback" not in kinds(rt)


async def test_the_budget_is_counted_anew_for_each_run(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("note")], budget=CostBudget(max_tool_calls=1))

    outcomes = [(await rt.execute(plan(call("a", "note")))).outcome for _ in range(3)]

    assert outcomes == ["succeeded"] * 3


async def test_the_budget_spans_the_replans_of_a_run(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[recorder.tool("note")],
        budget=CostBudget(max_tool_calls=2),
        replan=lambda ctx: plan(call("b", "note"), call("c", "note"), id="second"),
        replan_config=ReplanConfig(max_replans=1, verify_before_execute=False),
    )

    result = await rt.execute(plan(call("a", "note"), claim("x", "never", 1)))

    assert result.outcome == "budget"
    assert statuses(result) == {"b": "succeeded", "c": "skipped"}
    assert len(recorder.calls) == 2


async def test_a_compensation_needs_no_budget(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[recorder.tool("book", reversibility="compensable"), recorder.tool("unbook")],
        budget=CostBudget(max_tool_calls=1),
    )
    booking = call("a", "book", compensation={"type": "tool", "tool": "unbook", "parameters": {}})

    result = await rt.execute(plan(booking, claim("b", "never", 1)))

    assert result.outcome == "aborted"
    assert recorder.names == ["book", "unbook"]
