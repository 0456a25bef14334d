"""Time limits: the attempt fails, and the work has really stopped."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

from placet import Runtime, ToolSchema
from tests.runtime.plans import Recorder, call, data_of, kinds, plan, statuses, tool_of


async def hang(_: dict[str, Any]) -> None:
    await asyncio.Event().wait()


async def test_a_time_limit_fails_the_attempt_and_says_how_long_it_was(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("look", hang, risk="read_only")])

    result = await rt.execute(plan(call("a", "look", timeout_ms=20)))

    assert result["a"].status == "failed"
    assert result["a"].error == "action timed out after 20 ms"


async def test_a_task_that_ran_out_of_time_is_cancelled(recorder: Recorder) -> None:
    stopped: list[str] = []

    async def work(_: dict[str, Any]) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append("work")
            raise

    rt = Runtime(tools=[recorder.tool("look", work, risk="read_only")])

    await rt.execute(plan(call("a", "look", timeout_ms=20)))

    assert stopped == ["work"]


async def test_after_a_time_limit_the_work_goes_no_further(tmp_path: Path) -> None:
    target = tmp_path / "lines"

    async def grow() -> None:
        while True:
            with target.open("a") as file:
                file.write("x")
            await asyncio.sleep(0.002)

    rt = Runtime(tools=[tool_of("grow", grow)])

    await rt.execute(plan(call("a", "grow", timeout_ms=30, failure_behavior="skip")))
    size = target.stat().st_size
    await asyncio.sleep(0.03)

    assert size > 0
    assert target.stat().st_size == size


async def test_a_thread_cannot_be_stopped_so_its_late_answer_is_dropped_and_the_event_says_so() -> None:
    release, done = threading.Event(), threading.Event()

    def slow() -> str:
        release.wait(30)
        done.set()
        return "late"

    rt = Runtime(tools=[tool_of("slow", slow)])

    result = await rt.execute(
        plan(call("a", "slow", timeout_ms=100, failure_behavior="skip", expected_effects={"k": 1}))
    )
    release.set()
    await asyncio.to_thread(done.wait, 30)
    await asyncio.sleep(0.02)

    assert result["a"].status == "unknown"
    assert "late answer is dropped" in data_of(rt, "action_unknown", "a")[0]["left_behind"]
    assert rt.state.snapshot() == {}
    assert "action_succeeded" not in kinds(rt)


async def test_a_thread_that_hangs_does_not_keep_others_from_running() -> None:
    release = threading.Event()

    def slow() -> None:
        release.wait(30)

    def quick() -> str:
        return "ok"

    rt = Runtime(tools=[tool_of("slow", slow, risk="read_only"), tool_of("quick", quick)], max_threads=1)

    result = await rt.execute(
        plan(call("a", "slow", timeout_ms=20, failure_behavior="skip"), call("b", "quick"))
    )
    release.set()

    assert statuses(result) == {"a": "skipped", "b": "succeeded"}


async def test_a_call_that_waited_in_line_for_a_thread_never_began(recorder: Recorder) -> None:
    release = threading.Event()
    entered: list[str] = []

    def slow(name: str) -> None:
        entered.append(name)
        release.wait(30)

    rt = Runtime(tools=[tool_of("slow", slow)], max_threads=1)

    result = await rt.execute(
        plan(
            call("a", "slow", {"name": "a"}, timeout_ms=200, failure_behavior="skip"),
            call("b", "slow", {"name": "b"}, timeout_ms=20, failure_behavior="skip"),
        )
    )
    release.set()

    assert statuses(result) == {"a": "unknown", "b": "skipped"}
    assert entered == ["a"]


async def test_the_limit_is_for_each_attempt(recorder: Recorder) -> None:
    first = True

    async def slow_at_first(_: dict[str, Any]) -> str:
        nonlocal first
        if first:
            first = False
            await asyncio.Event().wait()
        return "ok"

    rt = Runtime(tools=[recorder.tool("look", slow_at_first, risk="read_only")])

    result = await rt.execute(plan(call("a", "look", timeout_ms=100, failure_behavior="retry")))

    assert result["a"].output == "ok"
    assert result.cost.retries == 1


async def test_a_tool_brings_a_limit_of_its_own(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("look", hang, risk="read_only", timeout_ms=20)])

    result = await rt.execute(plan(call("a", "look")))

    assert result["a"].error == "action timed out after 20 ms"


async def test_the_limit_in_the_plan_goes_before_that_of_the_tool(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("look", hang, risk="read_only", timeout_ms=60_000)])

    result = await rt.execute(plan(call("a", "look", timeout_ms=20)))

    assert result["a"].error == "action timed out after 20 ms"


async def test_a_cheap_function_is_held_to_its_limit_too() -> None:
    release = threading.Event()

    def slow() -> None:
        release.wait(30)

    rt = Runtime()
    rt.register(ToolSchema(name="slow", risk="read_only"), slow, cheap=True)

    result = await rt.execute(plan(call("a", "slow", timeout_ms=20)))
    release.set()

    assert result["a"].error == "action timed out after 20 ms"


async def test_a_task_that_will_not_stop_is_left_behind_and_the_event_says_so() -> None:
    release = asyncio.Event()
    ended = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        ended.set()

    rt = Runtime(tools=[tool_of("stubborn", stubborn)])

    result = await rt.execute(plan(call("a", "stubborn", timeout_ms=20, failure_behavior="skip")))
    release.set()
    await ended.wait()

    assert result["a"].status == "unknown"
    assert data_of(rt, "action_unknown", "a")[0]["left_behind"] == "the task did not stop when told to"
    assert "action_succeeded" not in kinds(rt)


async def test_what_ends_in_time_is_not_touched(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("look", "ok")])

    result = await rt.execute(plan(call("a", "look", timeout_ms=60_000)))

    assert result["a"].output == "ok"


async def test_an_error_within_the_limit_is_the_tools_own(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("look", raises=ValueError("no"))])

    result = await rt.execute(plan(call("a", "look", timeout_ms=60_000)))

    assert result["a"].error == "ValueError: no"


async def test_a_timeout_of_an_idempotent_tool_is_tried_again_and_at_the_end_unknown(
    recorder: Recorder,
) -> None:
    rt = Runtime(tools=[recorder.tool("put", hang, risk="idempotent")])

    result = await rt.execute(plan(call("a", "put", timeout_ms=20, failure_behavior="retry", max_retries=1)))

    assert len(recorder.calls) == 2
    assert result["a"].status == "unknown"
