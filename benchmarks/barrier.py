"""Eight tools that wait for each other: they end only if all eight are in flight at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Literal

from benchmarks.report import Floor, Section
from placet import Runtime, tool

EIGHT = 8
PATIENCE_S = 5.0
Schedule = Literal["levels", "dataflow"]


def _async_tool() -> Any:
    barrier = asyncio.Barrier(EIGHT)

    @tool(name="meet", risk="read_only")
    async def meet(i: int) -> int:
        """Wait for the others."""
        async with asyncio.timeout(PATIENCE_S):
            await barrier.wait()
        return i

    return meet


def _sync_tool() -> Any:
    barrier = threading.Barrier(EIGHT)

    @tool(name="meet", risk="read_only")
    def meet(i: int) -> int:
        """Wait for the others."""
        barrier.wait(PATIENCE_S)
        return i

    return meet


async def passes(make: Callable[[], Any], schedule: Schedule) -> bool:
    runtime = Runtime(tools=[make()], schedule=schedule, max_concurrency=EIGHT)
    plan = {
        "actions": [
            {"id": f"a{i}", "type": "tool_call", "tool": "meet", "parameters": {"i": i}} for i in range(EIGHT)
        ]
    }
    result = await runtime.execute(plan)
    return result.outcome == "succeeded"


async def run(say: Callable[[str], None]) -> Section:
    section = Section("Eight tools that wait for each other", ("tools", "schedule", "all in flight"))
    for name, make in (("async", _async_tool), ("sync", _sync_tool)):
        for schedule in ("levels", "dataflow"):
            say(f"barrier: {name} tools, {schedule}")
            passed = await passes(make, schedule)
            section.rows.append([name, schedule, "pass" if passed else "FAIL"])
            what = f"eight {name} tools at a barrier, {schedule} (1 = pass)"
            section.floors.append(Floor(what, float(passed), 1, "", at_least=True))
    return section
