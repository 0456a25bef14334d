"""The dataflow schedule on graphs of real workflows: how close to the critical path.

Each file holds one recorded workflow, {"name", "tasks": [{"runtime_s", "parents": [index]}]}, as derived from
the traces that WfCommons publishes. They are not part of this project; --workflows names a folder of them.
Their run times are scaled so that the critical path takes half a second; a tool sleeps through each task.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.report import Floor, Section
from placet import Runtime, tool

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "workflows"
CRITICAL_PATH_S = 0.5
ROUNDS = 3


@tool(risk="read_only")
async def work(seconds: float) -> None:
    """Take as long as the task took."""
    await asyncio.sleep(seconds)


def critical_path_s(tasks: list[dict[str, Any]]) -> float:
    """The longest way through the graph; parents may stand after their children."""
    ends: dict[int, float] = {}
    waiting = set(range(len(tasks)))
    while waiting:
        ready = [i for i in waiting if all(parent in ends for parent in tasks[i]["parents"])]
        if not ready:
            raise ValueError("the tasks wait for each other")
        for i in ready:
            before = max((ends[parent] for parent in tasks[i]["parents"]), default=0.0)
            ends[i] = before + tasks[i]["runtime_s"]
        waiting.difference_update(ready)
    return max(ends.values(), default=0.0)


async def _ours(tasks: list[dict[str, Any]], scale: float) -> float:
    plan = {
        "actions": [
            {
                "id": f"t{i}",
                "type": "tool_call",
                "tool": "work",
                "parameters": {"seconds": task["runtime_s"] * scale},
                "dependencies": [f"t{parent}" for parent in task["parents"]],
            }
            for i, task in enumerate(tasks)
        ]
    }
    text = json.dumps(plan)
    runtime = Runtime(tools=[work], schedule="dataflow", max_concurrency=max(1, len(tasks)))
    began = time.perf_counter()
    result = await runtime.execute(text)
    took = time.perf_counter() - began
    if result.outcome != "succeeded":
        raise SystemExit(f"the workflow did not succeed: {result.outcome} {result.error}")
    return took


async def _bare(tasks: list[dict[str, Any]], scale: float) -> float:
    """One asyncio task per task of the workflow, each waiting for its parents: what the machine can do."""
    done = [asyncio.Event() for _ in tasks]

    async def one(i: int) -> None:
        for parent in tasks[i]["parents"]:
            await done[parent].wait()
        await asyncio.sleep(tasks[i]["runtime_s"] * scale)
        done[i].set()

    began = time.perf_counter()
    await asyncio.gather(*(one(i) for i in range(len(tasks))))
    return time.perf_counter() - began


def _load(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]


async def run(folder: Path, say: Callable[[str], None]) -> Section:
    section = Section(
        f"Dataflow schedule on recorded workflows: makespan against a critical path of {CRITICAL_PATH_S} s",
        ("workflow", "tasks", "placet", "bare asyncio"),
    )
    recorded = _load(folder)
    if not recorded:
        section.notes.append("skipped: no workflow graphs here; name a folder of them with --workflows")
        return section
    worst = 0.0
    for workflow in recorded:
        name, tasks = workflow["name"], workflow["tasks"]
        say(f"workflow: {name}")
        scale = CRITICAL_PATH_S / critical_path_s(tasks)
        ours = min([await _ours(tasks, scale) for _ in range(ROUNDS)])
        bare = min([await _bare(tasks, scale) for _ in range(ROUNDS)])
        section.rows.append([name, len(tasks), ours / CRITICAL_PATH_S, bare / CRITICAL_PATH_S])
        worst = max(worst, ours / CRITICAL_PATH_S)
    section.floors.append(Floor("makespan against critical path, worst workflow", worst, 1.05))
    return section
