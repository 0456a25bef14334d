"""A time limit stops the work, and where it cannot, it says so and lets nothing of it through."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from itertools import pairwise
from typing import Any

import pytest

from placet import Runtime, ToolSchema
from placet.testing import RecordingTool, action, proposal
from tests.properties.virtual_time import run


def ended(rt: Runtime, name: str) -> dict[str, Any]:
    """What the event that ended an action says."""
    kinds = ("action_failed", "action_unknown", "action_succeeded")
    (event,) = rt.events.query(kind=kinds, action=name)
    return event.data


async def test_the_work_of_an_async_tool_stops_with_its_time() -> None:
    ticks = 0

    async def count(parameters: dict[str, Any]) -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.001)

    rt = Runtime()
    rt.register(ToolSchema(name="count", risk="read_only"), count)

    result = await rt.execute(proposal(action("a", "count", timeout_ms=30)))
    after = ticks
    await asyncio.sleep(0.05)

    assert result["a"].status == "failed"
    assert result["a"].error == "action timed out after 30 ms"
    assert after > 0
    assert ticks == after, "it goes on counting"
    assert "left_behind" not in ended(rt, "a")


async def test_every_attempt_has_the_whole_time_and_is_stopped() -> None:
    running = 0

    async def hang(parameters: dict[str, Any]) -> None:
        nonlocal running
        running += 1
        try:
            await asyncio.Event().wait()
        finally:
            running -= 1

    rt = Runtime()
    rt.register(ToolSchema(name="hang", risk="read_only"), hang)

    result = await rt.execute(
        proposal(action("a", "hang", timeout_ms=5, failure_behavior="retry", max_retries=1))
    )

    assert result["a"].status == "failed"
    assert result.cost.retries == 1
    assert running == 0


@pytest.mark.parametrize(
    ("declared", "status", "attempts"),
    [({"risk": "read_only"}, "failed", 2), ({"risk": "idempotent"}, "unknown", 2), ({}, "unknown", 1)],
    ids=["read_only", "idempotent", "undeclared"],
)
async def test_what_may_have_happened_is_repeated_only_where_that_is_safe(
    declared: dict[str, Any], status: str, attempts: int
) -> None:
    tool = RecordingTool("t", default=RecordingTool.HANG, **declared)
    rt = Runtime(tools=[tool])

    result = await rt.execute(
        proposal(action("a", "t", timeout_ms=5, failure_behavior="retry", max_retries=1))
    )

    assert result["a"].status == status
    assert len(tool.calls) == attempts
    assert tool.in_flight == 0


async def test_the_late_answer_of_a_thread_is_dropped_and_the_event_says_so() -> None:
    """A thread cannot be killed. What it still does is its own affair."""
    go_on = threading.Event()
    finished = threading.Event()

    def slow(parameters: dict[str, Any]) -> str:
        go_on.wait(20)
        finished.set()
        return "late"

    rt = Runtime()
    rt.register(ToolSchema(name="slow"), slow)

    result = await rt.execute(
        proposal(action("a", "slow", timeout_ms=1000, expected_effects={"k": 1}, failure_behavior="skip"))
    )
    logged = len(rt.events)
    go_on.set()
    await asyncio.to_thread(finished.wait, 20)
    await asyncio.sleep(0.02)

    assert result["a"].status == "unknown"
    assert "thread" in ended(rt, "a")["left_behind"]
    assert rt.state.snapshot() == {}
    assert len(rt.events) == logged


async def test_threads_that_hang_take_no_place_from_others() -> None:
    release = threading.Event()
    rt = Runtime(max_threads=2)
    rt.register(ToolSchema(name="hang", risk="read_only"), lambda parameters: release.wait(20))
    rt.register(ToolSchema(name="quick", risk="read_only"), lambda parameters: "done")
    hanging = [action(f"h{n}", "hang", timeout_ms=20, failure_behavior="skip") for n in range(6)]
    try:
        await rt.execute(proposal(*hanging))
        async with asyncio.timeout(20):
            result = await rt.execute(proposal(action("q", "quick")))
    finally:
        release.set()

    assert result["q"].output == "done"


async def test_a_call_that_never_began_has_no_unknown_outcome() -> None:
    """All threads are busy: the time was spent in line, and nothing has happened."""
    release = threading.Event()
    tool = RecordingTool("waits", runs="thread")
    rt = Runtime(tools=[tool], max_threads=1)
    rt.register(ToolSchema(name="hang", risk="read_only"), lambda parameters: release.wait(20))
    blocking = asyncio.create_task(rt.execute(proposal(action("h", "hang"))))
    await asyncio.sleep(0.02)
    try:
        result = await rt.execute(proposal(action("a", "waits", timeout_ms=30, failure_behavior="skip")))
    finally:
        release.set()
        await blocking

    assert result["a"].status == "skipped"
    assert result["a"].error == "action timed out after 30 ms"
    assert result.cost.tool_calls == 0
    await asyncio.sleep(0.02)
    assert tool.calls == [], "a call that was given up began all the same"


HANGS = """
import asyncio, threading
from placet import Cancel, Runtime, ToolSchema

def hang(parameters):
    threading.Event().wait()

async def swallow(parameters):
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

rt = Runtime()
rt.register(ToolSchema(name="hang"), hang)
rt.register(ToolSchema(name="swallow"), swallow)
"""
TIME_LIMIT = """
action = {"id": "a", "tool": TOOL, "timeout_ms": 50, "failure_behavior": "skip"}
print(rt.execute_sync({"actions": [action]})["a"].status)
"""
HARD_CANCEL = """
cancel = Cancel()
threading.Timer(0.2, lambda: cancel.cancel("enough", hard=True)).start()
print(rt.execute_sync({"actions": [{"id": "a", "tool": TOOL}]}, cancel=cancel)["a"].status)
"""


@pytest.mark.parametrize("tool", ["hang", "swallow"])
@pytest.mark.parametrize("stop", [TIME_LIMIT, HARD_CANCEL], ids=["time limit", "hard cancel"])
def test_the_process_ends_although_a_tool_does_not(stop: str, tool: str) -> None:
    """A thread that hangs, and a coroutine that swallows its cancellation, for good."""
    script = HANGS + stop.replace("TOOL", repr(tool))
    start = time.monotonic()

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "unknown\n", "")
    assert time.monotonic() - start < 30


async def test_a_tool_that_swallows_its_cancellation_is_left_behind_and_said_to_be() -> None:
    stop = asyncio.Event()

    async def swallow(parameters: dict[str, Any]) -> str:
        while not stop.is_set():
            try:
                await stop.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    rt = Runtime()
    rt.register(ToolSchema(name="swallow"), swallow)

    async with asyncio.timeout(20):
        result = await rt.execute(
            proposal(
                action("a", "swallow", timeout_ms=20, expected_effects={"k": 1}, failure_behavior="skip")
            )
        )
    logged = len(rt.events)
    stop.set()
    await asyncio.sleep(0.02)

    assert result["a"].status == "unknown"
    assert "did not stop" in ended(rt, "a")["left_behind"]
    assert rt.state.snapshot() == {}
    assert len(rt.events) == logged


def test_waits_between_attempts_double() -> None:
    """Read off the events; nothing is patched, and virtual time makes it quick."""
    tool = RecordingTool("t", default=ConnectionError("down"), risk="read_only")
    rt = Runtime(tools=[tool])

    result = run(rt.execute(proposal(action("a", "t", failure_behavior="retry", max_retries=5))))

    told = rt.events.query(kind="action_retrying")
    assert [e.data["delay_ms"] for e in told] == [100 * 2 ** (n - 1) for n in range(1, 6)]
    assert [e.data["attempt"] for e in told] == [2, 3, 4, 5, 6]
    assert len(tool.calls) == 6
    assert result["a"].status == "failed"
    assert result.cost.retries == 5


def test_waiting_between_attempts_really_takes_that_long() -> None:
    moments: list[float] = []

    async def fail(parameters: dict[str, Any]) -> None:
        moments.append(asyncio.get_running_loop().time())
        raise ConnectionError("down")

    rt = Runtime()
    rt.register(ToolSchema(name="t", risk="read_only"), fail)

    run(rt.execute(proposal(action("a", "t", failure_behavior="retry", max_retries=3))))

    waits = [later - earlier for earlier, later in pairwise(moments)]
    assert waits == pytest.approx([0.1, 0.2, 0.4])
