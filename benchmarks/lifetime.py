"""The life of one runtime: a hundred thousand actions in one process must not make it slow or fat.

Run as a program it is the child that is measured, so that nothing measured before is in its memory.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import rss_mb
from benchmarks.pace import TOLERANCE, Pace
from benchmarks.plans import plan
from benchmarks.report import Floor, Section

PROPOSALS, SIZE, TEN = 100, 1_000, 10
ENOUGH, ATTEMPTS = 3, 5
SHAPES = ("sequence", "chain", "state writes", "one key")


async def live(shape: str) -> dict[str, float]:
    from benchmarks.subjects import make_runtime
    from placet.ir.codec import encode

    text = plan(shape, SIZE)
    runtime = make_runtime()
    pace = Pace()
    costs: list[float] = []
    paces: list[float] = []
    memory: list[float] = []
    for _ in range(PROPOSALS):
        before = pace.now_s()
        began = time.process_time()
        encode(await runtime.execute(text))
        costs.append(time.process_time() - began)
        paces.append(max(before, pace.now_s()))
        memory.append(rss_mb())
    clean = [took <= pace.best_s * TOLERANCE for took in paces]
    return {
        "first": _typical(costs[:TEN], clean[:TEN]) / SIZE,
        "last": _typical(costs[-TEN:], clean[-TEN:]) / SIZE,
        "busy": min(sum(clean[:TEN]), sum(clean[-TEN:])) < ENOUGH,
        "after_ten_mb": memory[TEN - 1],
        "after_half_mb": memory[PROPOSALS // 2 - 1],
        "after_all_mb": memory[-1],
    }


def _typical(costs: list[float], clean: list[bool]) -> float:
    """The median of those measured at full machine speed, or of all if those are too few."""
    kept = [cost for cost, good in zip(costs, clean, strict=True) if good]
    return statistics.median(kept if len(kept) >= ENOUGH else costs)


def _child(shape: str) -> dict[str, float]:
    """One life in a process of its own; lived again if the machine was busy at its beginning or end."""
    for _ in range(ATTEMPTS):
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.lifetime", shape],
            cwd=Path(__file__).resolve().parents[1],
            capture_output=True,
            text=True,
            check=True,
        )
        got: dict[str, float] = json.loads(done.stdout)
        if not got["busy"]:
            break
    return got


def run(say: Callable[[str], None]) -> Section:
    section = Section(
        f"Life of one runtime: {PROPOSALS} proposals of {SIZE:,} actions in one process",
        (
            "shape",
            "first ten us",
            "last ten us",
            "ratio",
            "MB at 10%",
            "MB at 50%",
            "MB at 100%",
            "growth MB",
            "machine",
        ),
    )
    for shape in SHAPES:
        say(f"life: {shape}")
        got = _child(shape)
        growth = got["after_all_mb"] - got["after_half_mb"]
        section.rows.append(
            [
                shape,
                got["first"] * 1e6,
                got["last"] * 1e6,
                got["last"] / got["first"],
                got["after_ten_mb"],
                got["after_half_mb"],
                got["after_all_mb"],
                got["after_all_mb"] - got["after_ten_mb"],
                "busy" if got["busy"] else "",
            ]
        )
        section.floors.append(
            Floor(
                f"life, {shape}: last ten against first ten",
                got["last"] / got["first"],
                1.2,
                busy=bool(got["busy"]),
            )
        )
        section.floors.append(Floor(f"life, {shape}: memory gained in the second half", growth, 5, "MB"))
    return section


if __name__ == "__main__":
    print(json.dumps(asyncio.run(live(sys.argv[1]))))
