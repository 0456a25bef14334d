"""A worker on Postgres that is killed at the worst moment: between two steps that belong together."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from tests.engine.fleet import Fleet
from tests.engine.killed import POINTS
from tests.properties.effort import SOAK
from tests.warm import Warm

KILLED = Path(__file__).with_name("killed.py")


@pytest.mark.parametrize("point", POINTS if SOAK else ("enqueued", "claimed"))
async def test_run_of_a_worker_that_was_killed_is_done_once(
    point: str, fleet_server: str, tmp_path: Path, warm: Warm
) -> None:
    with Fleet(fleet_server, f"k-{point}", tmp_path, warm).opened() as fleet:
        run_id = await fleet.submit(fleet.plan(("act", "a")))
        command = [*warm.python, str(KILLED), point, "worker", "--db", fleet.url]
        command += ["--queue", fleet.queue, "--json"]
        doomed = await asyncio.to_thread(subprocess.run, command, cwd=fleet.folder, timeout=60)
        fleet.start()

        ended = fleet.stands(run_id, "ended")

        assert doomed.returncode != 0
        assert ended.outcome == "succeeded"
        assert fleet.effects() == [f"act a {run_id}"]
