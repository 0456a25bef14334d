"""How fast the machine is right now, against the fastest it has been in this run.

A busy neighbour on the same core doubles the CPU time of everything, for seconds or minutes. So each timing
stands between two runs of a fixed piece of work, and counts only if the machine was at full speed for both.
"""

from __future__ import annotations

import time

TOLERANCE = 1.15


class Pace:
    """The machine's speed, as the time that a fixed piece of work takes."""

    def __init__(self, settle_s: float = 1.0) -> None:
        self.best_s = float("inf")
        until = time.perf_counter() + settle_s
        while time.perf_counter() < until:
            self.now_s()

    def now_s(self) -> float:
        """The time it takes now; the better of two, for the first also tells how cold the caches are."""
        took = min(_work(), _work())
        self.best_s = min(self.best_s, took)
        return took


def _work() -> float:
    """Arithmetic only: work that builds objects would also tell how scattered the memory has become."""
    began = time.process_time()
    x = 1
    for i in range(20_000):
        x = (x * 31 + i) & 0xFFFF
    return time.process_time() - began
