"""The tool that tests lean on does what its script says, and remembers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from placet import Runtime
from placet.errors import DecodeError, UsageError
from placet.testing import FakeClock, RecordingTool, action, proposal

KINDS = pytest.mark.parametrize("runs", ["async", "thread", "cheap"])


@KINDS
async def test_answers_come_in_order_then_the_default(runs: Any) -> None:
    tool = RecordingTool("t", answers=[ValueError("first"), {"n": 2}], default="rest", runs=runs)
    rt = Runtime(tools=[tool])
    # One key for all, so that they run one after the other.
    common: Any = {"write_set": ["k"], "failure_behavior": "skip"}

    result = await rt.execute(
        proposal(*(action(f"a{n}", "t", parameters={"n": n}, **common) for n in range(3)))
    )

    assert [r.output for r in result.results] == [None, {"n": 2}, "rest"]
    assert result["a0"].error == "ValueError: first"
    assert tool.calls == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert [context.action_id for context in tool.contexts if context] == ["a0", "a1", "a2"]
    assert (tool.in_flight, tool.most_in_flight) == (0, 1)


@pytest.mark.parametrize("runs", ["async", "thread"])
async def test_a_call_that_hangs_is_seen_while_it_does(runs: Any) -> None:
    tool = RecordingTool("t", default=RecordingTool.HANG, runs=runs, risk="read_only")
    rt = Runtime(tools=[tool])
    running = asyncio.create_task(
        rt.execute(proposal(action("a", "t", timeout_ms=1000, failure_behavior="skip")))
    )

    await asyncio.sleep(0.5)
    assert (tool.calls, tool.in_flight) == ([{}], 1)
    result = await running
    tool.release()

    assert result["a"].error == "action timed out after 1000 ms"


def test_a_cheap_tool_must_not_hang() -> None:
    with pytest.raises(UsageError, match="must not hang"):
        RecordingTool("t", answers=[RecordingTool.HANG], runs="cheap")


def test_it_can_be_called_without_a_runtime() -> None:
    tool = RecordingTool("t", default=5, runs="thread")

    assert tool({"x": 1}) == 5
    assert tool.calls == [{"x": 1}]
    assert tool.contexts == [None]


def test_a_slip_of_the_pen_in_a_plan_is_told() -> None:
    with pytest.raises(DecodeError, match="no field 'dependancies'"):
        action("a", "t", dependancies=["b"])
    with pytest.raises(DecodeError, match="at \\$"):
        action("a", "t", max_retries="three")


def test_a_clock_moves_only_when_told_and_only_forwards() -> None:
    clock = FakeClock(5.0)

    clock.advance(0.5)

    assert clock() == 5.5
    with pytest.raises(UsageError):
        clock.advance(-1)
