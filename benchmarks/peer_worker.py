"""Runs inside the peer's own environment: the same plans, timed the same way, one JSON line for each.

    python peer_worker.py TURNS SECONDS SIZE...

A shape whose cost per action grows with size would take minutes: once a plan has taken longer than the effort
allows, it is not repeated.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time

os.environ.setdefault("CAR_FFI_NO_DAEMON_WARNING", "1")
os.environ.setdefault("CAR_FFI_MODE", "embedded")

import car_runtime

import plans
from pace import Pace


def call(_tool: str, parameters: str) -> str:
    return parameters


def measure(shape: str, size: int, turns: int, seconds: float, pace: Pace) -> float:
    text = plans.plan(shape, size)
    repeat = plans.executions_per_runtime(size)
    clean = rough = float("inf")
    done = 0
    until = time.perf_counter() + seconds
    while done < turns and (time.perf_counter() < until or rough == float("inf")):
        runtime = car_runtime.CarRuntime()
        runtime.register_tool(plans.READ)
        runtime.register_tool(plans.EFFECT)
        gc.collect()
        undisturbed = pace.full()
        began = time.process_time()
        for _ in range(repeat):
            answer = runtime.execute_proposal(text, call)
        took = (time.process_time() - began) / repeat
        undisturbed &= pace.full()
        rough = min(rough, took)
        if undisturbed:
            clean = min(clean, took)
            done += 1
    statuses = {result["status"] for result in json.loads(answer)["results"]}
    if statuses != {"succeeded"}:
        raise SystemExit(f"the peer did not run {shape} of {size}: {statuses}")
    return clean if done else rough


def main() -> None:
    turns, seconds = int(sys.argv[1]), float(sys.argv[2])
    pace = Pace()
    for shape in plans.SHAPES:
        for size in map(int, sys.argv[3:]):
            took = measure(shape, size, turns, seconds, pace)
            print(json.dumps({"shape": shape, "size": size, "seconds": took}), flush=True)


if __name__ == "__main__":
    main()
