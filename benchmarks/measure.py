"""CPU time, best of several repetitions, with the garbage collector left on.

The best repetition is the one least disturbed by the rest of the machine. What is compared is measured in
turns, so that a slow minute of the machine falls on all sides. A turn during which the machine was not at
full speed does not count; where no other was to be had, the figure is measured again later, and marked if
that did not help.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from benchmarks.pace import TOLERANCE, Pace

Prepared = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Contender:
    """One side of a comparison."""

    prepare: Callable[[], Awaitable[Prepared]]
    """Builds and warms up, off the clock, what is then awaited on the clock."""
    repeat: int = 1
    """How often it is awaited within one timing."""

    async def time(self) -> float:
        run = await self.prepare()
        gc.collect()
        began = time.process_time()
        for _ in range(self.repeat):
            await run()
        return (time.process_time() - began) / self.repeat


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A side that runs in another process, which does its own timing."""

    ask: Callable[[], float]

    async def time(self) -> float:
        return self.ask()


Side = Contender | Elsewhere


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to keep repeating: until so many undisturbed turns, or so many seconds of wall clock."""

    turns: int
    seconds: float


THOROUGH = Effort(turns=10, seconds=3.0)
QUICK = Effort(turns=4, seconds=1.0)
SECOND_CHANCE_S = 45.0
"""How long, for a whole table, figures taken on a busy machine are measured again."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The least CPU seconds of each side, and how slow the machine was meanwhile."""

    seconds: tuple[float, ...]
    pace_s: float
    pace: Pace

    @property
    def busy(self) -> bool:
        """Whether the machine had other work, judged by the fastest it has been by now."""
        return self.pace_s > self.pace.best_s * TOLERANCE

    @property
    def mark(self) -> str:
        return "busy" if self.busy else ""


class Measure:
    """Times things at full machine speed, as far as that can be had."""

    def __init__(self, effort: Effort) -> None:
        self.effort = effort
        self.pace = Pace()

    async def in_turns(self, *sides: Side) -> Timing:
        """The least CPU seconds that one run of each side took."""
        endless = [float("inf")] * len(sides)
        clean, rough = list(endless), list(endless)
        turns, clean_pace, rough_pace = 0, 0.0, float("inf")
        until = time.perf_counter() + self.effort.seconds
        while turns < self.effort.turns and (time.perf_counter() < until or rough == endless):
            slowest = self.pace.now_s()
            took = []
            for side in sides:
                took.append(await side.time())
                slowest = max(slowest, self.pace.now_s())
            rough = [min(pair) for pair in zip(rough, took, strict=True)]
            rough_pace = min(rough_pace, slowest)
            if slowest <= self.pace.best_s * TOLERANCE:
                clean = [min(pair) for pair in zip(clean, took, strict=True)]
                clean_pace = max(clean_pace, slowest)
                turns += 1
        if turns:
            return Timing(tuple(clean), clean_pace, self.pace)
        return Timing(tuple(rough), max(rough_pace, self.pace.best_s * TOLERANCE * 1.01), self.pace)

    async def all_of(
        self,
        cases: Sequence[tuple[str, int]],
        sides: Callable[[str, int], Sequence[Side]],
        say: Callable[[str], None],
    ) -> dict[tuple[str, int], Timing]:
        """A timing for every shape and size; those taken on a busy machine are tried a second time."""
        timings: dict[tuple[str, int], Timing] = {}
        for case in cases:
            say(f"{case[0]} of {case[1]:,}")
            timings[case] = await self.in_turns(*sides(*case))
        until = time.perf_counter() + SECOND_CHANCE_S
        for case in cases:
            if timings[case].busy and time.perf_counter() < until:
                say(f"{case[0]} of {case[1]:,}, again")
                again = await self.in_turns(*sides(*case))
                if not again.busy or again.pace_s < timings[case].pace_s:
                    timings[case] = again
        return timings


def rss_mb() -> float:
    """Resident memory of this process now, in megabytes; 0 where the system does not say."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            line = next(line for line in status if line.startswith("VmRSS:"))
    except (OSError, StopIteration):
        return 0.0
    return int(line.split()[1]) / 1024
