"""A cancel is looked at before each start; a hard one also stops what is in flight. The state is kept."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from contextlib import suppress
from typing import Any

import pytest

from placet import Cancel, Runtime, ToolSchema
from placet.testing import RecordingTool, action, proposal
from tests.properties.virtual_time import run

SCHEDULES = pytest.mark.parametrize("schedule", ["levels", "dataflow"])


def closing_events(rt: Runtime, name: str) -> list[str]:
    kinds = ("succeeded", "failed", "rejected", "skipped", "canceled", "unknown")
    return [e.kind for e in rt.events.query(kind=[f"action_{k}" for k in kinds], action=name)]


def all_spans_ended(rt: Runtime) -> bool:
    return all(span.end is not None for span in rt.events.spans())


@SCHEDULES
def test_a_soft_cancel_lets_what_has_started_end_and_starts_nothing_more(schedule: Any) -> None:
    cancel = Cancel()

    async def slow(parameters: dict[str, Any]) -> str:
        await asyncio.sleep(1)
        cancel.cancel("enough")
        await asyncio.sleep(1)
        return "done"

    rt = Runtime(schedule=schedule)
    rt.register(ToolSchema(name="slow"), slow)
    plan = proposal(
        action("a", "slow", expected_effects={"k": 1}),
        action("b", "slow", dependencies=["a"]),
        action("c", type="state_write", parameters={"key": "j"}, dependencies=["b"]),
    )

    result = run(rt.execute(plan, cancel=cancel))

    assert result.outcome == "canceled"
    assert [r.status for r in result.results] == ["succeeded", "skipped", "skipped"]
    assert [r.error for r in result.results[1:]] == ["canceled: enough"] * 2
    assert rt.state.snapshot() == {"k": 1}, "what was done stays"


@SCHEDULES
@pytest.mark.parametrize("declared", [{}, {"risk": "read_only"}], ids=["with effect", "read only"])
async def test_a_hard_cancel_from_another_thread_stops_the_work(schedule: Any, declared: Any) -> None:
    ticks = 0
    cancel = Cancel()

    async def count(parameters: dict[str, Any]) -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.001)

    rt = Runtime(schedule=schedule)
    rt.register(ToolSchema(name="count", **declared), count)
    threading.Timer(0.05, lambda: cancel.cancel("stop it", hard=True)).start()

    async with asyncio.timeout(20):
        result = await rt.execute(proposal(action("a", "count"), action("b", "count")), cancel=cancel)
    after = ticks
    await asyncio.sleep(0.02)

    assert result.outcome == "canceled"
    assert ticks == after > 0
    assert {r.status for r in result.results} <= {"failed" if declared else "unknown", "skipped"}
    assert all(r.error is not None and r.error.startswith("canceled: stop it") for r in result.results)
    assert all_spans_ended(rt)


async def test_a_cancel_before_the_start_runs_nothing() -> None:
    tool = RecordingTool("t")
    rt = Runtime(tools=[tool])
    cancel = Cancel()
    cancel.cancel("changed my mind", hard=True)

    result = await rt.execute(proposal(action("a", "t")), cancel=cancel)

    assert result.outcome == "canceled"
    assert tool.calls == []


@SCHEDULES
def test_a_tool_that_swallows_the_callers_cancellation_does_not_save_the_rest_of_the_plan(
    schedule: Any,
) -> None:
    async def deaf(parameters: dict[str, Any]) -> str:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(10)
        return "done"

    later = RecordingTool("later")
    rt = Runtime(tools=[later], schedule=schedule)
    rt.register(ToolSchema(name="deaf"), deaf)
    plan = proposal(action("a", "deaf"), action("b", "later", dependencies=["a"]))

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(rt.execute(plan), 1)

    run(main())

    assert later.calls == []
    assert closing_events(rt, "a") == ["action_succeeded"]
    assert closing_events(rt, "b") == ["action_canceled"]
    assert all_spans_ended(rt)


@SCHEDULES
@pytest.mark.parametrize("width", [1, 3], ids=["alone", "with others"])
def test_what_a_tool_cancels_inside_itself_is_its_own_affair(schedule: Any, width: int) -> None:
    """Time limits and task groups work by cancelling the task they are in, and take that back."""

    async def limited(parameters: dict[str, Any]) -> None:
        async with asyncio.timeout(1):
            await asyncio.sleep(10)

    async def grouped(parameters: dict[str, Any]) -> None:
        async def fail() -> None:
            raise RuntimeError("one of them")

        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            group.create_task(asyncio.sleep(10))

    last = RecordingTool("last", risk="read_only")
    rt = Runtime(tools=[last], schedule=schedule)
    rt.register(ToolSchema(name="limited", risk="read_only"), limited)
    rt.register(ToolSchema(name="grouped", risk="read_only"), grouped)
    tools = ["limited", "grouped"]
    plan = proposal(
        *(action(f"{t}{n}", t, read_set=["k"], failure_behavior="skip") for t in tools for n in range(width)),
        action("z", "last", write_set=["k"]),
    )

    result = run(rt.execute(plan))

    assert result.outcome == "partial"
    assert result["limited0"].error == "TimeoutError"
    assert "ExceptionGroup" in str(result["grouped0"].error)
    assert len(last.calls) == 1


@SCHEDULES
def test_a_cancellation_in_the_very_moment_in_which_all_is_done(schedule: Any) -> None:
    """The last tool ends in the turn of the event loop in which the caller gives up."""

    async def slow(parameters: dict[str, Any]) -> None:
        await asyncio.sleep(parameters["s"])

    rt = Runtime(schedule=schedule)
    rt.register(ToolSchema(name="slow", risk="read_only"), slow)
    plan = proposal(*(action(f"a{n}", "slow", parameters={"s": n}, failure_behavior="skip") for n in (1, 2)))

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(rt.execute(plan), 2)

    run(main())

    assert all_spans_ended(rt)


def test_being_cancelled_twice_still_ends_everything() -> None:
    """The second cancellation comes while the first waits for a tool that takes its time to stop."""

    async def reluctant(parameters: dict[str, Any]) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(0.5)

    rt = Runtime(state={"k": 0})
    rt.register(ToolSchema(name="slow"), reluctant)
    plan = proposal(*(action(f"a{n}", "slow", failure_behavior="skip") for n in range(3)))

    async def main() -> None:
        task = asyncio.create_task(rt.execute(plan))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(5)

    run(main())

    assert all(len(closing_events(rt, f"a{n}")) == 1 for n in range(3))
    assert all_spans_ended(rt)


def test_an_action_that_was_left_behind_ends_once() -> None:
    """Scheduler and attempt both wait for the tool to stop, and give up on it one after the other."""
    cancel = Cancel()

    async def stubborn(parameters: dict[str, Any]) -> None:
        for _ in range(5):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(3)

    rt = Runtime()
    rt.register(ToolSchema(name="stubborn", risk="read_only"), stubborn)

    async def main() -> None:
        asyncio.get_running_loop().call_later(0.5, lambda: cancel.cancel("enough", hard=True))
        await rt.execute(proposal(action("a", "stubborn", timeout_ms=60_000)), cancel=cancel)
        await asyncio.sleep(60)

    run(main())

    assert closing_events(rt, "a") == ["action_failed"]


def test_a_tool_whose_task_never_began_was_never_called() -> None:
    """Stopped between its start and its first step: nothing ran, nothing is counted, nothing is left open."""
    tool = RecordingTool("never")
    rt = Runtime(tools=[tool], schedule="dataflow")

    def fail(parameters: dict[str, Any]) -> None:
        raise RuntimeError("at once")

    rt.register(ToolSchema(name="fail"), fail, cheap=True)

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        result = run(rt.execute(proposal(action("a", "never"), action("b", "never"), action("c", "fail"))))
        gc.collect()

    assert result.outcome == "aborted"
    assert tool.calls == []
    assert result.cost.tool_calls == 1
    assert [r.status for r in result.results] == ["skipped", "skipped", "failed"]
    assert [str(w.message) for w in warned] == []


def test_compensations_go_on_when_the_caller_gives_up() -> None:
    """Somebody who stops waiting has not asked for half an undo."""
    undone: list[str] = []

    async def undo(parameters: dict[str, Any]) -> None:
        await asyncio.sleep(1)
        undone.append(parameters["of"])

    async def fail(parameters: dict[str, Any]) -> None:
        raise RuntimeError("no")

    rt = Runtime(tools=[RecordingTool("do", reversibility="compensable", default="x")], state={"k": 0})
    rt.register(ToolSchema(name="undo"), undo)
    rt.register(ToolSchema(name="fail"), fail)

    def doing(n: int) -> Any:
        undo = {"type": "tool", "tool": "undo", "parameters": {"of": f"a{n}"}}
        return action(f"a{n}", "do", compensation=undo, expected_effects={"k": n})

    plan = proposal(doing(1), doing(2), doing(3), action("z", "fail", dependencies=["a1", "a2", "a3"]))

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(rt.execute(plan), 1.5)

    run(main())

    assert undone == ["a3", "a1"], "the one in flight was stopped; the others ran"
    assert len(rt.events.query(kind=["compensation_succeeded", "compensation_failed"])) == 3
    assert rt.state.snapshot() == {"k": 0}
    assert all_spans_ended(rt)
