"""Runs inside the peer's own environment: the same plans, timed the same way, one JSON line for each.

    python peer_worker.py REPETITIONS SECONDS SIZE...

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


def call(_tool: str, parameters: str) -> str:
    return parameters


def measure(shape: str, size: int, repetitions: int, seconds: float) -> tuple[float, int]:
    text = plans.plan(shape, size)
    repeat = plans.executions_per_runtime(size)
    best, spent, done = float("inf"), 0.0, 0
    while done < repetitions and (spent < seconds or not done):
        runtime = car_runtime.CarRuntime()
        runtime.register_tool(plans.READ)
        runtime.register_tool(plans.EFFECT)
        gc.collect()
        began = time.process_time()
        for _ in range(repeat):
            answer = runtime.execute_proposal(text, call)
        took = time.process_time() - began
        best = min(best, took / repeat)
        spent += took
        done += 1
    statuses = {result["status"] for result in json.loads(answer)["results"]}
    if statuses != {"succeeded"}:
        raise SystemExit(f"the peer did not run {shape} of {size}: {statuses}")
    return best, done


def main() -> None:
    repetitions, seconds = int(sys.argv[1]), float(sys.argv[2])
    for shape in plans.SHAPES:
        for size in map(int, sys.argv[3:]):
            best, done = measure(shape, size, repetitions, seconds)
            print(
                json.dumps({"shape": shape, "size": size, "seconds": best, "repetitions": done}), flush=True
            )


if __name__ == "__main__":
    main()
