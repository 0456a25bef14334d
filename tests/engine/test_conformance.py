"""What every engine promises, with workers that are processes of their own."""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from placet.engine.protocol import Ticket
from placet.engine.submission import WorkerInfo
from placet.engine.temporal_transport import TemporalTransport
from placet.errors import UsageError
from placet.storage.lease import holder
from tests.engine.fleet import EFFECTS, PATIENCE_S, Fleet
from tests.servers.temporal import TemporalServer


async def test_submitted_run_is_done_once_by_a_worker(fleet: Fleet) -> None:
    run_id = await fleet.submit(fleet.plan(("act", "a"), ("act", "b")))
    before = fleet.engine.submissions.get(run_id)
    fleet.start()

    ended = fleet.stands(run_id, "ended")

    assert before is not None
    assert before.state == "queued"
    assert ended.outcome == "succeeded"
    assert fleet.effects() == [f"act a {run_id}", f"act b {run_id}"]
    assert fleet.records.journal.find(run_id).status == "succeeded"


async def test_one_key_makes_one_run(fleet: Fleet) -> None:
    job = fleet.plan(("act", "a"))
    first = await fleet.submit(job, key=f"{fleet.queue}-k")
    second = await fleet.submit(job, key=f"{fleet.queue}-k")
    fleet.start()
    fleet.stands(first, "ended")
    third = await fleet.submit(job, key=f"{fleet.queue}-k")

    with pytest.raises(UsageError, match="another job"):
        await fleet.submit(fleet.plan(("act", "b")), key=f"{fleet.queue}-k")

    assert first == second == third
    assert fleet.effects() == [f"act a {first}"]


async def test_run_that_waits_for_a_person_holds_no_worker_and_goes_on_once_decided(fleet: Fleet) -> None:
    worker = fleet.start(concurrency=1)
    asks = await fleet.submit(fleet.plan(("act", "a"), permissions="read_only"))
    fleet.stands(asks, "waiting")
    other = await fleet.submit(fleet.plan(("act", "b")))
    fleet.stands(other, "ended")
    before = fleet.effects()

    (asked,) = [each for each in fleet.records.approvals.pending() if each.run_id == asks]
    fleet.records.approvals.decide(asked.id, "once", by="ann")
    fleet.engine.decided(asks)
    ended = fleet.stands(asks, "ended")

    assert before == [f"act b {other}"]
    assert ended.outcome == "succeeded"
    assert fleet.effects() == [f"act b {other}", f"act a {asks}"]
    assert worker.end() == 0


async def test_canceled_in_the_queue_it_never_begins(fleet: Fleet) -> None:
    run_id = await fleet.submit(fleet.plan(("act", "a")))
    accepted = await fleet.engine.cancel(run_id, "changed my mind")
    fleet.start()
    later = await fleet.submit(fleet.plan(("act", "b")))
    fleet.stands(later, "ended")

    assert accepted
    assert fleet.stands(run_id, "canceled").stop == "changed my mind"
    assert fleet.effects() == [f"act b {later}"]
    assert not await fleet.engine.cancel(run_id, "again")


async def test_canceled_while_it_runs_it_stops(fleet: Fleet) -> None:
    fleet.start()
    run_id = await fleet.submit(fleet.plan(("look", "a"), ("act", "b")))
    fleet.until(fleet.effects)

    assert await fleet.engine.cancel(run_id, "stop it")

    assert fleet.stands(run_id, "canceled").error == "stop it"
    assert fleet.effects() == [f"look a {run_id}"]


async def test_canceled_while_it_waits_for_a_person_it_ends(fleet: Fleet) -> None:
    fleet.start()
    run_id = await fleet.submit(fleet.plan(("act", "a"), permissions="read_only"))
    fleet.stands(run_id, "waiting")

    assert await fleet.engine.cancel(run_id, "no longer wanted")

    found = fleet.engine.submissions.get(run_id)
    assert found is not None
    assert (found.state, found.outcome, found.error) == ("canceled", "canceled", "no longer wanted")
    assert fleet.records.journal.find(run_id).status == "canceled"
    assert fleet.effects() == []
    assert [each for each in fleet.records.approvals.pending() if each.run_id == run_id] == []


async def test_scheduled_run_begins_when_it_is_due_and_once(fleet: Fleet) -> None:
    job = fleet.plan(("act", "a"))
    first = await fleet.submit(job, key=f"{fleet.queue}-9:00", delay_s=1.0)
    second = await fleet.submit(job, key=f"{fleet.queue}-9:00", delay_s=1.0)
    fleet.start()
    fleet.start()

    ended = fleet.stands(first, "ended")

    assert first == second
    assert ended.due >= ended.submitted + 1.0
    assert fleet.records.journal.find(first).begun >= ended.due
    assert fleet.effects() == [f"act a {first}"]


async def test_drained_worker_leaves_its_run_to_the_next_and_says_that_it_has_gone(fleet: Fleet) -> None:
    first = fleet.start()
    up = {each.id: each for each in fleet.engine.submissions.workers()}[first.id]
    run_id = await fleet.submit(fleet.plan(("look", "a"), ("act", "b")))
    fleet.until(fleet.effects)

    code = first.end()
    gone = {each.id: each for each in fleet.engine.submissions.workers()}[first.id]
    left = fleet.engine.submissions.get(run_id)
    fleet.go("a")
    fleet.start()
    ended = fleet.stands(run_id, "ended")

    assert code == 0
    assert left is not None
    assert left.state == "queued"
    assert ended.outcome == "succeeded"
    assert fleet.effects().count(f"act b {run_id}") == 1
    assert (up.state, up.queue, up.concurrency) == ("up", fleet.queue, 4)
    assert up.holder.host == os.uname().nodename
    assert gone.state == "gone"


async def test_killed_workers_run_is_handed_over_and_does_not_wait_behind_the_backlog(fleet: Fleet) -> None:
    first = fleet.start(concurrency=1)
    run_id = await fleet.submit(fleet.plan(("look", "a"), ("act", "d")), priority=5)
    fleet.until(fleet.effects)
    before = await fleet.submit(fleet.plan(("look", "b")), priority=1)
    backlog = [await fleet.submit(fleet.plan(("act", "c"))) for _ in range(4)]
    fleet.are_enqueued(before, *backlog)
    first.kill()

    second = fleet.start(concurrency=1)
    second.until("handed_over", runs=1)
    fleet.are_enqueued(run_id)
    for name in ("a", "b"):
        fleet.go(name)
    ended = [fleet.stands(each, "ended") for each in (run_id, before, *backlog)]

    mine = [f"look a {run_id}", f"look a {run_id}", f"act d {run_id}"]
    assert ended[0].outcome == "succeeded"
    assert [each for each in fleet.effects() if run_id in each] == mine
    assert sorted(fleet.effects()[:4]) == sorted([*mine, f"look b {before}"])


async def test_flooding_tenant_leaves_another_its_share(fleet: Fleet) -> None:
    floods = [await fleet.submit(fleet.plan(("act", "f")), tenant="flood") for _ in range(24)]
    fleet.start(concurrency=2)
    fleet.until(fleet.effects)

    small = [await fleet.submit(fleet.plan(("act", "s")), tenant="small") for _ in range(3)]
    for each in small:
        fleet.stands(each, "ended")

    left = [each for each in floods if fleet.engine.submissions.get(each).state != "ended"]  # type: ignore[union-attr]
    assert left, "the other tenant had to wait until the flood was over"


async def test_priority_goes_first_within_a_tenant(fleet: Fleet) -> None:
    fleet.start(concurrency=1)
    at_work = await fleet.submit(fleet.plan(("look", "a")))
    fleet.until(fleet.effects)
    last = [await fleet.submit(fleet.plan(("act", f"last{n}")), priority=5) for n in range(3)]
    first = await fleet.submit(fleet.plan(("act", "first")), priority=1)
    fleet.are_enqueued(*last, first)
    fleet.go("a")
    for each in (*last, first):
        fleet.stands(each, "ended")

    assert fleet.effects()[:2] == [f"look a {at_work}", f"act first {first}"]


async def test_effect_in_flight_of_a_killed_worker_is_unknown_and_not_repeated(fleet: Fleet) -> None:
    first = fleet.start()
    run_id = await fleet.submit(fleet.plan(("hold", "a"), ("act", "b")))
    fleet.until(fleet.effects)
    first.kill()
    fleet.go("a")
    fleet.start()

    fleet.stands(run_id, "waiting")

    assert fleet.effects() == [f"hold a {run_id}"]


async def test_run_that_kills_its_workers_is_dead_and_can_be_retried(fleet: Fleet) -> None:
    run_id = await fleet.submit(fleet.plan(("poison", "")))
    for _ in range(3):
        worker = fleet.start()
        fleet.until(lambda: worker._process.poll() is not None)  # noqa: B023
    fleet.start()
    dead = fleet.stands(run_id, "dead")
    deaths = len(fleet.effects())

    is_queued = fleet.engine.submissions.retry(run_id)

    assert deaths == 3
    assert dead.error
    assert is_queued
    fleet.until(lambda: len(fleet.effects()) == 4)


async def test_frozen_worker_finds_its_run_taken_over_and_does_nothing(fleet: Fleet) -> None:
    # A short lease can do no harm: while there are two workers one of them is frozen.
    first = fleet.start(lease_s=2.0)
    run_id = await fleet.submit(fleet.plan(("look", "a"), ("act", "b")))
    fleet.until(fleet.effects)
    fleet.freeze(first)
    fleet.start(lease_s=2.0)
    fleet.until(lambda: fleet.effects().count(f"look a {run_id}") == 2)
    fleet.go("a")
    ended = fleet.stands(run_id, "ended")

    first.signal(signal.SIGCONT)
    first.until("released", run_id=run_id)

    assert ended.outcome == "succeeded"
    assert fleet.effects().count(f"act b {run_id}") == 1
    assert fleet.stands(run_id, "ended").worker != first.id


async def test_run_that_needs_a_tool_is_left_to_a_worker_that_has_it(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start()
    run_id = await fleet.submit(fleet.plan(("mail_send", "ann")))
    left = fleet.stands(run_id, "unplaced")
    why = fleet.engine.why_queued(left)
    tools = tmp_path / "mail.py"
    tools.write_text(EFFECTS.read_text().replace("async def act(", "async def mail_send("))

    able = fleet.start("--tools", str(tools))
    ended = fleet.stands(run_id, "ended")

    assert left.needs == ("tool mail_send",)
    assert why is not None
    assert "mail_send" in why
    assert (ended.outcome, ended.worker) == ("succeeded", able.id)


async def test_run_in_a_folder_of_another_host_or_begun_by_another_version_is_left_to_it(
    fleet: Fleet,
) -> None:
    runs = {
        name: await fleet.submit(fleet.plan(("act", "a")))
        for name in ("host = 'elsewhere'", "version = '0.0.9'")
    }
    for change, run_id in runs.items():
        sql = f"UPDATE submissions SET {change} WHERE run_id = ?"
        fleet.engine.submissions._write(lambda t: t.execute(sql, (run_id,)))  # noqa: B023
    fleet.start()
    mine = await fleet.submit(fleet.plan(("act", "b")))
    fleet.stands(mine, "ended")

    why = [fleet.engine.why_queued(fleet.stands(each, "queued")) or "" for each in runs.values()]

    assert "'elsewhere'" in why[0]
    assert "0.0.9" in why[1]
    assert fleet.effects() == [f"act b {mine}"]


async def test_queued_runs_outlast_the_worker_that_placed_them(fleet: Fleet) -> None:
    first = fleet.start(concurrency=1)
    held = await fleet.submit(fleet.plan(("look", "a")))
    fleet.until(fleet.effects)
    queued = await fleet.submit(fleet.plan(("act", "b")))
    fleet.are_enqueued(queued)
    first.end()
    fleet.go("a")
    fleet.start()

    ended = [fleet.stands(each, "ended").outcome for each in (held, queued)]

    assert ended == ["succeeded", "succeeded"]


async def test_what_workers_of_a_gone_version_placed_is_placed_anew(fleet: Fleet) -> None:
    old = WorkerInfo(id="old", holder=holder(""), queue=fleet.queue, concurrency=1, version="0.0.9")
    run_id = await fleet.submit(fleet.plan(("act", "a")))
    fleet.engine.submissions.heartbeat(old)
    fleet.engine.submissions.to_place(old.id, fleet.queue, 10)
    fleet.engine.submissions.heartbeat(replace(old, state="gone"))
    fleet.start()

    ended = fleet.stands(run_id, "ended")

    assert (ended.outcome, ended.number) == ("succeeded", 2)


async def test_ticket_that_the_transport_does_not_know_is_replaced(fleet: Fleet) -> None:
    if fleet.url.startswith("sqlite"):
        pytest.skip("its tickets are gone with their worker")
    run_id = await fleet.submit(fleet.plan(("act", "a")))
    fleet.engine.submissions.to_place("forgotten", fleet.queue, 10)
    fleet.records.database.write(
        lambda t: t.execute(
            "UPDATE submissions SET changed = changed - 60, due = due - 60 WHERE run_id = ?", (run_id,)
        )
    ).result()

    worker = fleet.start()

    assert fleet.stands(run_id, "ended").outcome == "succeeded"
    assert worker.until("renewed")["runs"] == 1
    assert fleet.effects() == [f"act a {run_id}"]


def test_temporal_brings_as_many_tickets_as_there_are_slots_and_no_more(
    temporal_server: TemporalServer,
) -> None:
    """Also in the queue that was polled last, while the others are empty."""
    transport = TemporalTransport(temporal_server.address, version="slots")
    brought: queue.Queue[str] = queue.Queue()
    may_end = threading.Event()

    def work(ticket: Ticket) -> None:
        brought.put(ticket.id)
        may_end.wait(PATIENCE_S)

    transport.listen("me", ["slots-a", "slots-b", "slots-c"], 2, work)
    transport.enqueue([Ticket(run_id=f"r{n}", number=1, queue="slots-c", version="slots") for n in range(4)])
    try:
        first = {brought.get(timeout=20) for _ in range(2)}
        time.sleep(0.5)
        is_full = brought.empty()
        may_end.set()
        then = {brought.get(timeout=20) for _ in range(2)}
    finally:
        may_end.set()
        transport.close()

    assert is_full
    assert len(first | then) == 4
