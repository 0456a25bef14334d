"""Whether a skill earns its place: arithmetic on the runs with it and the runs without it.

Keep true:
1. Pure: the arm of a run follows from its id, so that a run that is resumed, anywhere, is in the same arm.
2. Only runs with a known outcome count.
3. The bound is looked at a few times, after fixed numbers of outcomes, and its confidence allows for all of
   these looks: over a whole trial a skill that does nothing is kept in at most one of ten. More looks need a
   larger `_Z`; `python -m evals skills --rule-only` measures what it is.
"""

from __future__ import annotations

from hashlib import sha256
from math import sqrt
from typing import Literal

import msgspec

from placet.ir.to_dict import ToDict

Arm = Literal["with", "without"]
"""Whether a matching run was offered the skill."""
SkillState = Literal["provisional", "kept", "retired"]
"""State of a skill.

- `provisional`: offered in half of the matching runs.
- `kept`: offered in all of them.
- `retired`: not offered any more.
"""
LOOKS = (16, 32, 48, 60)
"""Outcomes after which the trial is looked at. A look that two outcomes at once step over is left out, which
keeps fewer skills, never more; the last is always made."""
LEAST_PER_ARM, MOST_RUNS = 8, LOOKS[-1]
DEGRADED_BY = 2
"""A skill is degraded when its failures exceed its successes by more than this."""
_Z = 1.7
"""95.5 % of a normal distribution lie below this: the bounds of four looks together hold with 90 %."""


class Counts(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """Outcomes of the runs of one arm."""

    successes: int = 0
    """Runs that succeeded."""
    failures: int = 0
    """Runs that failed."""

    @property
    def runs(self) -> int:
        """All of them."""
        return self.successes + self.failures

    @property
    def rate(self) -> float | None:
        """Share of the runs that succeeded; `None` without runs."""
        return self.successes / self.runs if self.runs else None


class Trial(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """Outcomes of the matching runs of a skill."""

    offered: Counts = Counts()
    """Runs that were offered the skill."""
    withheld: Counts = Counts()
    """Runs that matched and were not offered it."""

    @property
    def runs(self) -> int:
        """All runs with an outcome."""
        return self.offered.runs + self.withheld.runs

    @property
    def is_degraded(self) -> bool:
        """Whether failures exceed successes by more than two, in runs that were offered the skill."""
        return self.offered.failures - self.offered.successes > DEGRADED_BY


def arm_of(run_id: str, name: str, version: int) -> Arm:
    """The arm that a run is in for a version of a skill: one half of all runs is in each.

    >>> arm_of("run-1", "deploy", 1) == arm_of("run-1", "deploy", 1)
    True
    """
    digest = sha256(f"{version}\0{name}\0{run_id}".encode(errors="replace")).digest()
    return "with" if digest[0] & 1 else "without"


def interval(counts: Counts) -> tuple[float, float]:
    """Where a success rate lies: each bound holds with 95.5 % (Wilson's score interval).

    >>> [round(bound, 2) for bound in interval(Counts(successes=8))]
    [0.73, 1.0]
    """
    n = counts.runs
    if not n:
        return 0.0, 1.0
    rate = counts.successes / n
    centre = (rate + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * sqrt(rate * (1 - rate) / n + _Z**2 / (4 * n**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def lower_bound(trial: Trial) -> float:
    """The difference of the success rates is above this, with 90 % over all looks (Newcombe's method on
    Wilson's intervals).

    >>> lower_bound(Trial())
    -1.0
    >>> lower_bound(Trial(offered=Counts(successes=8), withheld=Counts(failures=8))) > 0.6
    True
    """
    a, b = trial.offered, trial.withheld
    if a.rate is None or b.rate is None:
        return -1.0
    low, high = interval(a)[0], interval(b)[1]
    return max(-1.0, a.rate - b.rate - sqrt((a.rate - low) ** 2 + (high - b.rate) ** 2))


def next_look(trial: Trial) -> int:
    """The number of outcomes after which a trial is looked at next; the last one, if that has passed.

    >>> next_look(Trial()), next_look(Trial(offered=Counts(successes=16)))
    (16, 32)
    """
    return next((look for look in LOOKS if look > trial.runs), MOST_RUNS)


def judged(trial: Trial) -> SkillState:
    """The state of a provisional skill after these runs; it changes only at a look."""
    is_look = trial.runs in LOOKS or trial.runs > MOST_RUNS
    if is_look and min(trial.offered.runs, trial.withheld.runs) >= LEAST_PER_ARM and lower_bound(trial) > 0:
        return "kept"
    return "retired" if trial.runs >= MOST_RUNS else "provisional"
