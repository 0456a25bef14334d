"""CPU time, best of several repetitions, with the garbage collector left on.

The best repetition is the one least disturbed by the rest of the machine. What a ratio compares is measured
in turns, so that a slow minute of the machine falls on both sides.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

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
    """How long to keep repeating."""

    repetitions: int
    seconds: float

    def enough(self, done: int, spent: float) -> bool:
        return done >= self.repetitions or (done >= 3 and spent >= self.seconds)


THOROUGH = Effort(repetitions=40, seconds=1.5)
QUICK = Effort(repetitions=5, seconds=0.3)


async def best_of(contenders: Sequence[Contender], effort: Effort) -> list[float]:
    """The least CPU seconds that one run of each contender took, measured in turns."""
    best = [float("inf")] * len(contenders)
    done, spent = 0, 0.0
    while not effort.enough(done, spent):
        for i, contender in enumerate(contenders):
            run = contender.prepare()
            gc.collect()
            began = time.process_time()
            for _ in range(contender.repeat):
                await run()
            took = time.process_time() - began
            best[i] = min(best[i], took / contender.repeat)
            spent += took
        done += 1
    return best


def rss_mb() -> float:
    """Resident memory of this process now, in megabytes; 0 where the system does not say."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            line = next(line for line in status if line.startswith("VmRSS:"))
    except (OSError, StopIteration):
        return 0.0
    return int(line.split()[1]) / 1024
