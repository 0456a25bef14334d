"""How fast the machine is right now, against the fastest it has been in this run.

A busy neighbour on the same core doubles the CPU time of everything, for seconds. So each timing stands
between two runs of a fixed piece of work, and counts only if the machine was at full speed for both.

Only the standard library: the peer's environment uses it too.
"""

from __future__ import annotations

import gc
import time

TOLERANCE = 1.2


class Pace:
    """The machine's speed, as the time that a fixed piece of work takes."""

    def __init__(self, settle_s: float = 1.0) -> None:
        self._best = float("inf")
        until = time.perf_counter() + settle_s
        while time.perf_counter() < until:
            self.full()

    def full(self) -> bool:
        """Whether the machine is at full speed.

        Asked twice at most: the first answer also tells how cold the caches are after a large plan.
        """
        took = _work()
        if took > self._best * TOLERANCE:
            took = min(took, _work())
        self._best = min(self._best, took)
        return took <= self._best * TOLERANCE


def _work() -> float:
    # The collector would make this piece depend on how much else is alive.
    collecting = gc.isenabled()
    gc.disable()
    began = time.process_time()
    made = {}
    for i in range(4_000):
        made[f"key{i}"] = (i, [i])
    took = time.process_time() - began
    if collecting:
        gc.enable()
    return took
