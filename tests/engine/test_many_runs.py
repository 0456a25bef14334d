"""Many runs with effects over several workers, of which some are killed and one is frozen."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engine.fleet import Fleet, WorkerProcess
from tests.properties.effort import SOAK
from tests.servers.postgres import PostgresServer
from tests.warm import Warm

RUNS = 1000 if SOAK else 12
ACTIONS = 3
KILLED = 2 if SOAK else 1
HAND_OVER_S = 10.0


@pytest.fixture
def fleet(postgres_server: PostgresServer, tmp_path: Path, warm: Warm) -> Iterator[Fleet]:
    url = postgres_server.create_database()
    with Fleet(url, "many", tmp_path, warm).opened() as made:
        yield made
    postgres_server.drop_database(url)


@pytest.mark.timeout(3600 if SOAK else 300)
async def test_every_run_ends_and_no_effect_happens_twice(
    fleet: Fleet, record_property: Callable[[str, object], None]
) -> None:
    workers = [fleet.start() for _ in range(4 if SOAK else 2)]
    plan = fleet.plan(*(("slow", str(n)) for n in range(ACTIONS)))
    runs = [await fleet.submit(plan, tenant=f"t{n % 3}") for n in range(RUNS)]
    lost: dict[str, float] = {}

    def in_flight(worker: WorkerProcess) -> list[str]:
        return list(fleet.engine.submissions.held_by(worker.id))

    def until_in_flight(worker: WorkerProcess, ended: int) -> list[str]:
        fleet.until(lambda: _ended(fleet) >= ended and len(in_flight(worker)) > 1, patience_s=600.0)
        return in_flight(worker)

    for number, victim in enumerate(workers[:KILLED], start=1):
        at_work = until_in_flight(victim, RUNS * number // 10)
        assert at_work, f"nothing was in flight on worker {number}"
        victim.kill()
        lost |= dict.fromkeys(_unreleased(victim), time.monotonic())
        workers.append(fleet.start())
    if SOAK:
        frozen = workers[KILLED]
        until_in_flight(frozen, RUNS * 3 // 10)
        frozen.signal(signal.SIGSTOP)
        lost |= dict.fromkeys(_unreleased(frozen), time.monotonic())
        # By then somebody else has all that it worked on.
        fleet.until(lambda: not in_flight(frozen))
        frozen.signal(signal.SIGCONT)

    fleet.until(lambda: _settled(fleet) == RUNS, patience_s=3000.0)

    found = {each.run_id: each for each in fleet.engine.submissions.listed(limit=2 * RUNS)}
    effects = Counter(fleet.effects())
    unknown = [each for each in runs if found[each].state == "waiting"]
    assert {found[each].outcome for each in runs} <= {"succeeded", "waiting"}
    assert [found[each] for each in unknown if each not in lost] == [], "no dead worker had them in flight"
    assert max(effects.values()) == 1
    done = [each for each in runs if found[each].state == "ended"]
    assert all(effects[f"slow {n} {each}"] == 1 for each in done for n in range(ACTIONS))
    waits = sorted(_hand_overs(fleet, lost))
    record_property(
        "figure",
        f"{RUNS} runs, {len(lost)} in flight on {KILLED} killed and {int(SOAK)} frozen workers, "
        f"{len(unknown)} unknown; handed over after {waits[0]:.1f} to {waits[-1]:.1f} s "
        f"(median {waits[len(waits) // 2]:.1f})",
    )
    if SOAK:
        assert waits[-1] < HAND_OVER_S


def _ended(fleet: Fleet) -> int:
    return fleet.engine.submissions.depth().get(fleet.queue, {}).get("ended", 0)


def _settled(fleet: Fleet) -> int:
    depth = fleet.engine.submissions.depth().get(fleet.queue, {})
    return depth.get("ended", 0) + depth.get("waiting", 0)


def _unreleased(worker: WorkerProcess) -> set[str]:
    """The runs that a worker had begun to work on when it said its last word."""
    at_work: set[str] = set()
    for event in worker.drained():
        if event["event"] == "claimed":
            at_work.add(event["run_id"])
        elif event["event"] == "released":
            at_work.discard(event["run_id"])
    return at_work


def _hand_overs(fleet: Fleet, lost: dict[str, float]) -> Iterator[float]:
    """How long each run was without a worker, until another claimed it."""
    claims: dict[str, list[float]] = {}
    for worker in fleet.workers:
        for event in worker.drained():
            if event["event"] == "claimed":
                claims.setdefault(event["run_id"], []).append(event["heard"])
    for run_id, since in lost.items():
        later = [at for at in claims.get(run_id, ()) if at > since]
        if later:
            yield min(later) - since
