"""kill -9 at random instants, for real."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command import PLACET
from tests.durable.kill_run import PHASES, KillRun
from tests.properties.effort import SOAK
from tests.warm import Warm

KILLS = 200 if SOAK else 4


@pytest.mark.timeout(3600 if SOAK else 400)
def test_killed_at_any_instant_nothing_is_lost_or_repeated(
    tmp_path: Path, database_url: str, warm: Warm, record_property: Callable[[str, object], None]
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    chance = random.Random(seed)
    # In turns: by one of them alone, a phase may never be met.
    schedules = chance.sample(["levels", "dataflow"], 2)
    # Every day without the loading, in which nothing is written that could be lost.
    placet = PLACET if SOAK else warm.command
    phases: Counter[str] = Counter()
    kills = unknown = runs = 0

    # More than asked for, if by chance one of the phases was not met.
    while kills < KILLS or (any(not phases[p] for p in PHASES) and kills < KILLS * 4):
        schedule = schedules[runs % 2]
        run = KillRun(tmp_path, database_url, f"kill-{runs}", chance, schedule=schedule, placet=placet)
        run.check(run.through(max_kills=max(5, KILLS // 20)))
        phases += run.phases
        kills += run.kills
        unknown += run.unknown_seen
        runs += 1

    met = ", ".join(f"{p} {phases[p]}" for p in PHASES)
    record_property(
        "figure",
        f"{kills} kills in {runs} runs; met {met}; {unknown} unknown outcomes decided (seed {seed})",
    )
    assert all(phases[p] for p in PHASES), met
    assert unknown
