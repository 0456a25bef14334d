"""Runs inside the peer's own environment and executes plans on request.

Each line on stdin is {"shape", "size"}; each line on stdout the CPU seconds that one execution of that plan
took, on a new runtime that has run one action. Only the standard library and the peer are imported.
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


def execute(text: str, size: int, first: str) -> float:
    runtime = car_runtime.CarRuntime()
    runtime.register_tool(plans.READ)
    runtime.register_tool(plans.EFFECT)
    runtime.execute_proposal(first, call)
    repeat = plans.executions_per_runtime(size)
    gc.collect()
    began = time.process_time()
    for _ in range(repeat):
        answer = runtime.execute_proposal(text, call)
    took = (time.process_time() - began) / repeat
    statuses = [result["status"] for result in json.loads(answer)["results"]]
    if statuses != ["succeeded"] * size:
        raise RuntimeError(f"the peer did not succeed: {set(statuses)}")
    return took


def main() -> None:
    texts: dict[tuple[str, int], str] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        case = asked["shape"], asked["size"]
        if case not in texts:
            texts[case] = plans.plan(*case)
        print(json.dumps(execute(texts[case], case[1], plans.plan(case[0], 1))), flush=True)


if __name__ == "__main__":
    main()
