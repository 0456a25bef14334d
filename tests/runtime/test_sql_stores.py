"""Trajectories and checkpoints in a database: what was kept comes back, and what is damaged does not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from placet import Runtime
from placet.errors import CheckpointError, StorageError
from placet.redaction import Redactor
from placet.runtime.checkpoint import Checkpoint
from placet.runtime.sql import SqlCheckpoints, SqlTrajectories
from placet.runtime.trajectory import Trajectory, TrajectoryStep
from placet.storage.database import Database
from placet.storage.location import open_database
from placet.testing import FakeClock
from tests.runtime.plans import plan, write
from tests.storage.children import ask, say

NOW = datetime(2025, 6, 1, 12, 30, 0, 123456, tzinfo=UTC)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with open_database(database_url) as opened:
        yield opened


def trajectory(number: int, run: str = "r1", **state: Any) -> Trajectory:
    step = TrajectoryStep(kind="action_succeeded", action_id="a", state_after=state, reward=1.0)
    return Trajectory(
        proposal_id=f"p{number}",
        run_id=run,
        source="a model",
        outcome="success",
        timestamp=NOW,
        duration_ms=1.5,
        attempts=1,
        steps=[step],
    )


# Trajectories


def test_trajectories_come_back_in_the_order_of_arrival(database: Database) -> None:
    """Also when the clock stands still, or is set back."""
    clock = FakeClock(1_000.0)
    store = SqlTrajectories(database, clock=clock)
    kept = [trajectory(n, f"r{n % 2}", text="a\0b \U0001f600") for n in range(20)]

    for number, one in enumerate(kept):
        clock.now = 1_000.0 - number // 10
        store.append(one)

    assert store.read() == kept
    assert store.read(run="r1") == kept[1::2]
    assert store.read(limit=3) == kept[-3:]
    assert store.read(run="r0", limit=1) == [kept[18]]
    assert store.read(run="no such run") == []
    assert SqlTrajectories(database).read() == kept


async def test_a_runtime_keeps_its_trajectories_there(database: Database) -> None:
    store = SqlTrajectories(database)
    rt = Runtime(trajectories=store)

    result = await rt.execute(plan(write("a", "k", 1)))

    (told,) = store.read(run=result.run_id)
    assert (told.outcome, [s.action_id for s in told.steps]) == ("success", ["a"])


def test_secrets_do_not_reach_the_disk(database: Database) -> None:
    plain, redacted = SqlTrajectories(database), SqlTrajectories(database, Redactor(["open sesame"]))
    secret = trajectory(1, "r1", words="say open sesame", password="hunter2hunter2", n=5)

    redacted.append(secret)
    assert redacted.read()[0].steps[0].state_after == {
        "words": "say [redacted]",
        "password": "[redacted]",
        "n": 5,
    }
    ((body,),) = ask(database, "SELECT body FROM trajectories")
    assert "sesame" not in body
    assert "hunter2" not in body

    plain.append(secret)
    assert plain.read()[1] == secret


def test_appending_does_not_wait_for_the_disk(database: Database) -> None:
    store = SqlTrajectories(database)
    begun, go = threading.Event(), threading.Event()
    slow = database.write(lambda _: (begun.set(), go.wait(30)))
    begun.wait(30)

    store.append(trajectory(1))

    assert not slow.done()
    go.set()
    assert store.read() == [trajectory(1)]


def test_an_earlier_failure_is_reported_once_at_the_next_append(database: Database) -> None:
    store = SqlTrajectories(database)
    say(database, "ALTER TABLE trajectories RENAME TO elsewhere")
    store.append(trajectory(1))
    database.write(lambda _: None).result(30)
    say(database, "ALTER TABLE elsewhere RENAME TO trajectories")

    with pytest.raises(StorageError, match="trajectories"):
        store.append(trajectory(2))
    store.append(trajectory(3))

    assert store.read() == [trajectory(2), trajectory(3)]


async def test_a_store_that_fails_does_not_fail_the_run(database: Database) -> None:
    store = SqlTrajectories(database)
    rt = Runtime(trajectories=store)
    say(database, "DROP TABLE trajectories")

    for number in range(2):
        result = await rt.execute(plan(write("a", "k", number)))
        assert [one.status for one in result.results] == ["succeeded"]
        database.write(lambda _: None).result(30)

    assert "sink_failed" in {event.kind for event in rt.events}


def test_a_row_that_cannot_be_read_is_left_out(database: Database) -> None:
    store = SqlTrajectories(database)
    for number in range(3):
        store.append(trajectory(number))
    store.read()
    say(database, "UPDATE trajectories SET body = substr(body, 1, 20) WHERE body LIKE ?", ('%"p1"%',))

    assert store.read() == [trajectory(0), trajectory(2)]


# Checkpoints


def checkpoint(id: str = "c1", **state: Any) -> Checkpoint:
    return Checkpoint(
        id=id,
        created=NOW,
        state=state,
        tenants={"t": {"k": 1}},
        events=[],
        tools=[],
        policies=["quiet hours"],
        metadata={"why": "a\0b"},
    )


def test_a_checkpoint_comes_back_whole(database: Database) -> None:
    store = SqlCheckpoints(database)
    kept = checkpoint(k=[None, 12345678901234567890, 1.5, "é\0"])

    assert store.save(kept) == "c1"

    assert store.load("c1") == kept
    assert SqlCheckpoints(database).load("c1") == kept


async def test_a_runtime_is_restored_from_one(database: Database) -> None:
    store = SqlCheckpoints(database)
    first = Runtime(state={"k": 1})
    await first.execute(plan(write("a", "k", 2)))
    id = store.save(first.checkpoint(metadata={"why": "before"}))
    second = Runtime()

    second.restore(store.load(id))

    assert second.state.snapshot() == {"k": 2}


def test_the_list_tells_what_there_is_and_forgets_what_was_deleted(database: Database) -> None:
    store = SqlCheckpoints(database)
    for id in ("c2", "c1"):
        store.save(checkpoint(id))

    assert [tuple(one) for one in store.list()] == [
        ("c1", NOW, {"why": "a\0b"}),
        ("c2", NOW, {"why": "a\0b"}),
    ]
    assert store.delete("c1") is True
    assert store.delete("c1") is False
    assert [one.id for one in store.list()] == ["c2"]
    with pytest.raises(CheckpointError, match=r"'c1' in .* does not exist"):
        store.load("c1")


def test_saving_under_the_same_id_replaces(database: Database) -> None:
    store = SqlCheckpoints(database)
    store.save(checkpoint(k=1))

    store.save(checkpoint(k=2))

    assert store.load("c1") == checkpoint(k=2)
    assert len(store.list()) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("body = replace(body, ':1', ':2')", "is damaged: its digest does not fit. Use an older one."),
        ("body = ''", "is damaged: its digest does not fit."),
        ("sha256 = ''", "is damaged: its digest does not fit."),
        ("format = 99", "has format 99, this version reads 1. Use the version that wrote it."),
        (
            "body = '{}', sha256 = '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a'",
            "is damaged: Object missing required field",
        ),
    ],
)
def test_a_damaged_checkpoint_is_refused(database: Database, change: str, words: str) -> None:
    store = SqlCheckpoints(database)
    store.save(checkpoint(k=1))
    say(database, f"UPDATE checkpoints SET {change}")

    with pytest.raises(CheckpointError) as caught:
        store.load("c1")

    assert words in str(caught.value)


def test_a_damaged_entry_is_named_by_the_list_and_can_be_deleted(database: Database) -> None:
    store = SqlCheckpoints(database)
    store.save(checkpoint())
    say(database, "UPDATE checkpoints SET metadata = '['")

    with pytest.raises(CheckpointError, match=r"'c1' .* is damaged: .* Delete it"):
        store.list()
    assert store.delete("c1")
    assert store.list() == []
