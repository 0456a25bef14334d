"""The life of one runtime: a hundred thousand actions in one process must not make it slow or fat.

Run as a program it is the child that is measured, so that nothing measured before is in its memory.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import rss_mb
from benchmarks.plans import plan
from benchmarks.report import Floor, Section

PROPOSALS, SIZE, TEN = 100, 1_000, 10
SHAPES = ("sequence", "chain", "state writes", "one key")


async def live(shape: str) -> dict[str, float]:
    from assent.ir.codec import encode
    from benchmarks.subjects import make_runtime

    text = plan(shape, SIZE)
    runtime = make_runtime()
    costs: list[float] = []
    memory: list[float] = []
    for _ in range(PROPOSALS):
        began = time.process_time()
        encode(await runtime.execute(text))
        costs.append(time.process_time() - began)
        memory.append(rss_mb())
    return {
        "first": sum(costs[:TEN]) / TEN / SIZE,
        "last": sum(costs[-TEN:]) / TEN / SIZE,
        "after_ten_mb": memory[TEN - 1],
        "after_half_mb": memory[PROPOSALS // 2 - 1],
        "after_all_mb": memory[-1],
    }


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
        ),
    )
    for shape in SHAPES:
        say(f"life: {shape}")
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.lifetime", shape],
            cwd=Path(__file__).resolve().parents[1],
            capture_output=True,
            text=True,
            check=True,
        )
        got = json.loads(done.stdout)
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
            ]
        )
        section.floors.append(
            Floor(f"life, {shape}: last ten against first ten", got["last"] / got["first"], 1.2)
        )
        section.floors.append(Floor(f"life, {shape}: memory gained in the second half", growth, 5, "MB"))
    return section


if __name__ == "__main__":
    print(json.dumps(asyncio.run(live(sys.argv[1]))))
