"""CPU time, best of several repetitions, with the garbage collector left on.

The best repetition is the one least disturbed by the rest of the machine. What a ratio compares is measured
in turns, so that a slow minute of the machine falls on both sides; a turn during which the machine was not at
full speed does not count, unless there was no other in all the time allowed.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from benchmarks.pace import Pace

Prepared = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Contender:
    """One side of a comparison."""

    prepare: Callable[[], Prepared]
    """Builds, off the clock, what is then awaited on the clock."""
    repeat: int = 1
    """How often it is awaited within one timing."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to keep repeating: until so many undisturbed turns, or so many seconds of wall clock."""

    turns: int
    seconds: float


THOROUGH = Effort(turns=10, seconds=4.0)
QUICK = Effort(turns=4, seconds=1.0)


class Measure:
    """Times contenders at full machine speed, and remembers how often that could not be had."""

    def __init__(self, effort: Effort) -> None:
        self.effort = effort
        self.pace = Pace()
        self.measured = 0
        self.disturbed = 0

    async def best_of(self, *contenders: Contender) -> list[float]:
        """The least CPU seconds that one run of each contender took, measured in turns."""
        clean = [float("inf")] * len(contenders)
        rough = list(clean)
        turns = 0
        until = time.perf_counter() + self.effort.seconds
        while turns < self.effort.turns and (time.perf_counter() < until or max(rough) == float("inf")):
            undisturbed = True
            for i, contender in enumerate(contenders):
                run = contender.prepare()
                gc.collect()
                undisturbed &= self.pace.full()
                began = time.process_time()
                for _ in range(contender.repeat):
                    await run()
                took = (time.process_time() - began) / contender.repeat
                undisturbed &= self.pace.full()
                rough[i] = min(rough[i], took)
                if undisturbed:
                    clean[i] = min(clean[i], took)
            turns += undisturbed
        self.measured += 1
        self.disturbed += not turns
        return clean if turns else rough

    def remark(self) -> str:
        """One sentence on how far the figures can be trusted."""
        if not self.disturbed:
            return "Every figure was measured at full machine speed."
        return f"{self.disturbed} of {self.measured} figures are too high: the machine was busy all the time."


def rss_mb() -> float:
    """Resident memory of this process now, in megabytes; 0 where the system does not say."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            line = next(line for line in status if line.startswith("VmRSS:"))
    except (OSError, StopIteration):
        return 0.0
    return int(line.split()[1]) / 1024
