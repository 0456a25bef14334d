"""What a proposal cost."""

from __future__ import annotations

import asyncio
import time

import pytest

from placet import Runtime, ToolError, ToolSchema, tool
from tests.runtime.plans import Recorder, call, claim, plan, read, write


async def test_each_ending_is_counted_once(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[recorder.tool("good"), recorder.tool("bad", raises=ToolError("no", retry=False))],
    )

    result = await rt.execute(
        plan(
            call("a", "good"),
            call("b", "bad", failure_behavior="retry"),
            call("c", "unknown", failure_behavior="skip"),
            call("d", "good", dependencies=["c"]),
            write("e", "k", 1),
            claim("f", "k", 2, failure_behavior="skip"),
        )
    )

    cost = result.cost
    assert cost.tool_calls == 2
    assert cost.actions_executed == 3
    assert cost.actions_rejected == 1
    assert cost.actions_skipped == 2
    assert cost.retries == 0


async def test_a_tool_call_is_a_tool_that_really_ran(recorder: Recorder) -> None:
    """An action that was tried three times is one call with two retries."""
    rt = Runtime(tools=[recorder.tool("flaky", raises=[ValueError("1"), ValueError("2"), None])])

    result = await rt.execute(plan(call("a", "flaky", failure_behavior="retry"), write("b", "k", 1)))

    assert (result.cost.tool_calls, result.cost.retries) == (1, 2)


@pytest.mark.parametrize("cheap", [True, False])
async def test_a_tool_that_failed_has_run(cheap: bool) -> None:
    def fail() -> None:
        raise ValueError("no")

    rt = Runtime()
    rt.register(ToolSchema(name="fail"), fail, cheap=cheap)

    result = await rt.execute(plan(call("a", "fail")))

    assert result.cost.tool_calls == 1


async def test_an_unknown_outcome_counts_as_executed(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("pay", raises=ConnectionResetError("gone"))])

    result = await rt.execute(plan(call("a", "pay")))

    assert result.cost.actions_executed == 1


async def test_reads_and_assertions_are_actions_and_no_calls() -> None:
    result = await Runtime().execute(plan(write("a", "k", 1), read("b", "k"), claim("c", "k", 1)))

    assert (result.cost.tool_calls, result.cost.actions_executed) == (0, 3)


async def test_a_refused_proposal_cost_nothing_but_rejections(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("good")])

    result = await rt.execute(plan(call("a", "good"), call("a", "good")))

    assert result.cost.actions_rejected == 2
    assert result.cost.tool_calls == result.cost.actions_executed == 0
    assert result.cost.total_duration_ms == 0


async def test_the_duration_is_the_sum_of_the_actions_own(recorder: Recorder) -> None:
    async def nap(_: object) -> None:
        await asyncio.sleep(0.02)

    rt = Runtime(tools=[recorder.tool("nap", nap, risk="read_only")])

    result = await rt.execute(plan(call("a", "nap"), call("b", "nap")))

    assert result.cost.total_duration_ms == pytest.approx(sum(r.duration_ms or 0 for r in result.results))
    assert result.cost.total_duration_ms > 0


async def test_the_time_of_a_compensation_is_counted_once(recorder: Recorder) -> None:
    async def nap(_: object) -> None:
        await asyncio.sleep(0.02)

    rt = Runtime(tools=[recorder.tool("book", reversibility="compensable"), recorder.tool("unbook", nap)])

    result = await rt.execute(
        plan(
            call("a", "book", compensation={"type": "action_ref", "action_id": "undo"}),
            call("undo", "unbook"),
            claim("x", "never", 1),
        )
    )

    assert result.cost.total_duration_ms == pytest.approx(sum(r.duration_ms or 0 for r in result.results))


async def test_the_cost_is_told_when_the_proposal_ends(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("good")])

    result = await rt.execute(plan(call("a", "good")))

    (ended,) = rt.events.query(kind="proposal_ended")
    assert ended.data["outcome"] == "succeeded"
    assert ended.data["cost"]["tool_calls"] == result.cost.tool_calls == 1


async def test_time_in_line_is_no_work() -> None:
    """With one thread, or one event loop that a tool blocks, the actions' own times cannot overlap: together
    they take no longer than the run."""

    @tool(risk="read_only")
    def in_thread() -> None:
        time.sleep(0.002)

    @tool(risk="read_only")
    async def in_loop() -> None:
        time.sleep(0.002)  # noqa: ASYNC251 (it blocks the loop on purpose)

    for name in ("in_thread", "in_loop"):
        rt = Runtime([in_thread, in_loop], max_threads=1)
        began = time.perf_counter()
        result = await rt.execute({"actions": [{"id": f"a{n}", "tool": name} for n in range(50)]})

        assert result.succeeded
        assert result.cost.total_duration_ms <= (time.perf_counter() - began) * 1000
