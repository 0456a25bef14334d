"""Tools of one layer are in flight together: a barrier that lets nobody pass until all have come."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from placet import Runtime, ToolSchema
from placet.testing import action, proposal
from tests.properties.virtual_time import run

EIGHT = 8
LIMIT_S = 20
"""Reached only if the barrier does not open: then the test fails instead of hanging."""


def eight_calls(tool: str) -> Any:
    return proposal(
        *(action(f"a{n}", tool, parameters={"n": n}, failure_behavior="skip") for n in range(EIGHT))
    )


@pytest.mark.parametrize("schedule", ["levels", "dataflow"])
async def test_eight_async_tools_are_in_flight_together(schedule: Any) -> None:
    barrier = asyncio.Barrier(EIGHT)

    async def meet(parameters: dict[str, Any]) -> int:
        async with asyncio.timeout(LIMIT_S):
            await barrier.wait()
        return int(parameters["n"])

    rt = Runtime(schedule=schedule)
    rt.register(ToolSchema(name="meet"), meet)

    result = await rt.execute(eight_calls("meet"))

    assert [r.output for r in result.results] == list(range(EIGHT))


@pytest.mark.parametrize("schedule", ["levels", "dataflow"])
async def test_eight_sync_tools_are_in_flight_together(schedule: Any) -> None:
    barrier = threading.Barrier(EIGHT)

    def meet(parameters: dict[str, Any]) -> int:
        barrier.wait(LIMIT_S)
        return int(parameters["n"])

    rt = Runtime(schedule=schedule)
    rt.register(ToolSchema(name="meet"), meet)

    result = await rt.execute(eight_calls("meet"))

    assert [r.output for r in result.results] == list(range(EIGHT))


@pytest.mark.parametrize("schedule", ["levels", "dataflow"])
async def test_async_and_sync_tools_meet_each_other(schedule: Any) -> None:
    """Neither kind keeps the event loop or the threads for itself."""
    sync_side = threading.Barrier(EIGHT)
    seen: list[str] = []

    def block(parameters: dict[str, Any]) -> None:
        sync_side.wait(LIMIT_S)

    async def wait(parameters: dict[str, Any]) -> None:
        # Half of the parties come from here, each in a thread of its own making.
        await asyncio.to_thread(sync_side.wait, LIMIT_S)
        seen.append("async")

    rt = Runtime(schedule=schedule)
    rt.register(ToolSchema(name="block"), block)
    rt.register(ToolSchema(name="wait"), wait)
    plan = proposal(
        *(action(f"s{n}", "block", parameters={}, failure_behavior="skip") for n in range(6)),
        *(action(f"w{n}", "wait", parameters={}, failure_behavior="skip") for n in range(2)),
    )

    result = await rt.execute(plan)

    assert result.outcome == "succeeded", result.results
    assert len(seen) == 2


async def test_proposals_of_one_runtime_are_in_flight_together() -> None:
    barrier = asyncio.Barrier(EIGHT)

    async def meet(parameters: dict[str, Any]) -> None:
        async with asyncio.timeout(LIMIT_S):
            await barrier.wait()

    rt = Runtime()
    rt.register(ToolSchema(name="meet"), meet)

    results = await asyncio.gather(*(rt.execute(proposal(action("a", "meet"))) for _ in range(EIGHT)))

    assert [r.outcome for r in results] == ["succeeded"] * EIGHT


async def test_dataflow_keeps_to_its_limit() -> None:
    in_flight = most = 0
    entered = asyncio.Semaphore(0)
    release = asyncio.Event()

    async def slow(parameters: dict[str, Any]) -> None:
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        entered.release()
        await release.wait()
        in_flight -= 1

    rt = Runtime(schedule="dataflow", max_concurrency=3)
    rt.register(ToolSchema(name="slow"), slow)
    running = asyncio.create_task(rt.execute(eight_calls("slow")))

    for _ in range(3):
        await entered.acquire()
    for _ in range(20):
        await asyncio.sleep(0)
    assert in_flight == 3
    release.set()
    result = await running

    assert result.outcome == "succeeded"
    assert most == 3


@pytest.mark.parametrize(
    ("schedule", "expected"), [("dataflow", ["last", "slow"]), ("levels", ["slow", "last"])]
)
def test_only_by_levels_does_a_slow_neighbour_hold_others_up(schedule: Any, expected: list[str]) -> None:
    """By dataflow an action starts as soon as its own dependencies have ended."""
    seen: list[str] = []

    async def slow(parameters: dict[str, Any]) -> None:
        await asyncio.sleep(1)
        seen.append("slow")

    async def quick(parameters: dict[str, Any]) -> None:
        await asyncio.sleep(0.1)

    async def last(parameters: dict[str, Any]) -> None:
        seen.append("last")

    rt = Runtime(schedule=schedule)
    for name, fn in (("slow", slow), ("quick", quick), ("last", last)):
        rt.register(ToolSchema(name=name, risk="read_only"), fn)
    plan = proposal(action("s", "slow"), action("q", "quick"), action("l", "last", dependencies=["q"]))

    result = run(rt.execute(plan))

    assert result.outcome == "succeeded"
    assert seen == expected
