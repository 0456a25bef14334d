"""kill -9 during an import and a consolidation, and a full disk: all or nothing, and no fact is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from placet.memory.sql import SqlFacts
from placet.storage.location import open_database
from placet.testing.fact_store import at, found
from tests.memory.kill_child import batch
from tests.storage.children import hear, in_namespace, run, tell
from tests.warm import Warm

ROOT = Path(__file__).parents[2]
CHILD = Path(__file__).with_name("kill_child.py")
KILLS = 60 if os.environ.get("PLACET_SOAK") else 6


@pytest.fixture
def child(database_url: str, warm: Warm) -> Iterator[subprocess.Popen[str]]:
    with open_database(database_url) as database:
        SqlFacts(database)
    started = subprocess.Popen(
        [*warm.python, str(CHILD), database_url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert hear(started) == "ready"
    with started:
        yield started
        assert started.stdin is not None
        started.stdin.close()


def killed(child: subprocess.Popen[str], job: str, delay_s: float | None) -> bool:
    """Start a job and kill it after a while, if at all; whether it had been acknowledged."""
    tell(child, job)
    pid = int(hear(child))
    if delay_s is not None:
        time.sleep(delay_s)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    was_done = False
    while (line := hear(child)) != "ended":
        was_done = was_done or line == "done"
    return was_done


def test_an_import_is_there_whole_or_not_at_all(database_url: str, child: subprocess.Popen[str]) -> None:
    chance = random.Random(7)
    whole: list[int] = []

    for number in range(1, KILLS + 1):
        # The last is let through, so that both ends are seen.
        delay_s = None if number == KILLS else chance.uniform(0.0, 0.15)
        acknowledged = killed(child, str(number), delay_s)
        with open_database(database_url) as database:
            store = SqlFacts(database)
            ids = {fact.id for fact in batch(number)}
            stored = {fact.id for fact in store.get(None, sorted(ids))}
            assert stored in (set(), ids)
            assert stored or not acknowledged
            assert bool(found(store, f"zebra{number}", at(149.0))) is bool(stored)
            whole += [number] if stored else []
            newest = store.believed_values(at(), "batches", "newest")
            assert [fact.id for fact in newest] == [f"{number}-count" for number in whole[-1:]]
            assert store.frequencies(None, ["batch"]).total == len(whole) * len(ids)
    assert KILLS in whole


def test_a_killed_consolidation_loses_nothing_and_can_be_done_again(
    database_url: str, child: subprocess.Popen[str]
) -> None:
    with open_database(database_url) as database:
        SqlFacts(database).add([*batch(1, 1_500), *batch(2)])
    chance = random.Random(11)

    for number in range(KILLS + 1):
        done = killed(child, "consolidate", None if number == KILLS else chance.uniform(0.0, 0.1))
        with open_database(database_url) as database:
            store = SqlFacts(database)
            assert len(store.listed(None)) == 1_500 + 400 + 2
            assert len(store.listed(at())) == 1_266 + 1
            assert len(found(store, "zebra1", at(140.0, is_past=True))) == 100
            assert {fact.id for fact in store.believed_values(at(), "batches", "newest")} == {"2-count"}
    assert done


def test_a_full_disk_loses_no_fact_that_was_acknowledged(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()

    done = run(
        """
        import sys
        from pathlib import Path
        from placet.errors import StorageFull
        from placet.memory.sql import SqlFacts
        from placet.storage.location import open_database
        from placet.testing.fact_store import found
        from tests.memory.kill_child import batch

        disk = Path(sys.argv[1])
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(200_000))
        acknowledged = []
        with open_database(str(disk / "placet.db")) as database:
            store = SqlFacts(database)
            for number in range(1, 100):
                try:
                    store.add(batch(number, 50))
                except StorageFull:
                    break
                acknowledged.append(number)
            assert 0 < len(acknowledged) < 99, acknowledged
            ids = [fact.id for each in acknowledged for fact in batch(each, 50)]
            assert len(store.get(None, ids)) == len(ids)
            assert store.get(None, [f"{number}-0"]) == []
            ballast.unlink()
            store.add(batch(200, 5))
            assert found(store, "zebra200")
        with open_database(str(disk / "placet.db")) as database:
            assert len(SqlFacts(database).get(None, ids)) == len(ids)
        print(len(acknowledged))
        """,
        disk,
        before=in_namespace(f"mount -t tmpfs -o size=2m none {disk}"),
        cwd=ROOT,
    )

    assert int(done.stdout) > 0
