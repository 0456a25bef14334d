"""Answers that a tool declares good for a while."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from placet import Runtime, ToolSchema, tool
from placet.errors import ToolDeclarationError
from tests.runtime.plans import Recorder, call, claim, kinds, plan


async def test_an_answer_is_good_for_as_long_as_the_tool_says(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("price", 10, risk="network", cache_ttl_secs=600)])

    await rt.execute(plan(call("a", "price")))
    result = await rt.execute(plan(call("b", "price")))

    assert len(recorder.calls) == 1
    assert result["b"].output == 10
    assert result["b"].duration_ms == 0
    assert kinds(rt, "b") == ["action_validated", "action_succeeded"]


async def test_an_answer_that_is_too_old_is_asked_for_again(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("price", 10, risk="network", cache_ttl_secs=0.02)])

    await rt.execute(plan(call("a", "price")))
    await asyncio.sleep(0.03)
    await rt.execute(plan(call("b", "price")))

    assert len(recorder.calls) == 2


async def test_other_parameters_are_another_question(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("price", 10, risk="network", cache_ttl_secs=600)])

    await rt.execute(plan(call("a", "price", {"of": "tea"}), call("b", "price", {"of": "milk"})))
    await rt.execute(plan(call("c", "price", {"of": "tea"})))

    assert len(recorder.calls) == 2


async def test_null_is_an_answer_worth_keeping(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("price", None, risk="network", cache_ttl_secs=600)])

    await rt.execute(plan(call("a", "price")))
    await rt.execute(plan(call("b", "price")))

    assert len(recorder.calls) == 1


async def test_a_failure_is_not_cached(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[
            recorder.tool("price", 10, raises=[ValueError("no"), None], risk="network", cache_ttl_secs=600)
        ]
    )

    await rt.execute(plan(call("a", "price")))
    result = await rt.execute(plan(call("b", "price")))

    assert result["b"].output == 10


async def test_an_answer_that_does_not_fit_is_not_cached(recorder: Recorder) -> None:
    answers = iter(["ten", 10])
    rt = Runtime(
        tools=[
            recorder.tool(
                "price",
                lambda _: next(answers),
                risk="network",
                cache_ttl_secs=600,
                returns={"type": "integer"},
            )
        ]
    )

    await rt.execute(plan(call("a", "price")))
    result = await rt.execute(plan(call("b", "price")))

    assert result["b"].output == 10


async def test_a_cached_answer_writes_the_actions_own_effects_and_is_no_call(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("price", 10, risk="network", cache_ttl_secs=600)])
    await rt.execute(plan(call("a", "price")))

    result = await rt.execute(plan(call("b", "price", expected_effects={"asked": True})))

    assert rt.state.snapshot() == {"asked": True}
    assert result["b"].state_changes == {"asked": True}
    assert result.cost.tool_calls == 0
    assert result.cost.actions_executed == 1


async def test_the_effects_of_a_cached_answer_are_undone_with_their_plan(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("price", 10, risk="network", cache_ttl_secs=600)])
    await rt.execute(plan(call("a", "price")))

    await rt.execute(plan(call("b", "price", expected_effects={"asked": True}), claim("x", "never", 1)))

    assert rt.state.snapshot() == {}


@pytest.mark.parametrize("risk", [{"risk": "destructive"}, {}], ids=["destructive", "nothing declared"])
def test_caching_is_refused_at_registration_for_destructive_tools(risk: dict[str, Any]) -> None:
    with pytest.raises(ToolDeclarationError, match="destructive"):
        Runtime().register(ToolSchema(name="pay", cache_ttl_secs=60, **risk), lambda: None)
    with pytest.raises(ToolDeclarationError, match="destructive"):
        tool(name="pay", cache_ttl_secs=60, **risk)(lambda: None)


async def test_changing_a_result_does_not_change_what_is_cached(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("list", lambda _: [1], risk="read_only", cache_ttl_secs=600)])
    first = await rt.execute(plan(call("a", "list")))
    first["a"].output.append(2)

    second = await rt.execute(plan(call("b", "list")))
    second["b"].output.append(3)
    third = await rt.execute(plan(call("c", "list")))

    assert third["c"].output == [1]


async def test_the_cache_is_bounded(recorder: Recorder) -> None:
    asked: list[int] = []

    def answer(parameters: dict[str, Any]) -> int:
        asked.append(parameters["n"])
        return 1

    rt = Runtime()
    rt.register(ToolSchema(name="ask", risk="read_only", cache_ttl_secs=600), answer, cheap=True)
    await rt.execute(plan(*(call(f"a{n}", "ask", {"n": n}) for n in range(10_001))))

    await rt.execute(plan(call("last", "ask", {"n": 10_000}), call("first", "ask", {"n": 0})))

    assert asked[10_001:] == [0]
