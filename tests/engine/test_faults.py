"""Workers on Postgres while something fails: the server, a connection, a clock, a tenant's manners."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from placet.engine.dbos_transport import KEEP_S
from tests.engine.fleet import Fleet
from tests.servers.postgres import PostgresServer
from tests.storage.proxy import Proxy
from tests.warm import Warm

_NUMBERS = count()


@pytest.fixture(scope="module")
def own_server() -> Iterator[tuple[PostgresServer, str]]:
    """A server that tests may stop."""
    with PostgresServer() as server:
        yield server, server.create_database()


@pytest.fixture
def fleet(own_server: tuple[PostgresServer, str], tmp_path: Path, warm: Warm) -> Iterator[Fleet]:
    """No worker is started yet."""
    with Fleet(own_server[1], f"f{next(_NUMBERS)}", tmp_path, warm).opened() as made:
        yield made


async def test_runs_outlast_a_restart_of_the_database(
    fleet: Fleet, own_server: tuple[PostgresServer, str]
) -> None:
    fleet.start()
    held = [await fleet.submit(fleet.plan(("look", f"w{n}"), ("act", f"a{n}"))) for n in range(3)]
    fleet.until(lambda: len(fleet.effects()) == 3)

    own_server[0].restart()
    for n in range(3):
        fleet.go(f"w{n}")
    later = await fleet.submit(fleet.plan(("act", "later")))

    assert [fleet.stands(each, "ended").outcome for each in (*held, later)] == ["succeeded"] * 4
    assert Counter(each for each in fleet.effects() if each.startswith("act")) == {
        **{f"act a{n} {run_id}": 1 for n, run_id in enumerate(held)},
        f"act later {later}": 1,
    }


async def test_worker_whose_connections_are_cut_goes_on(fleet: Fleet) -> None:
    with Proxy(fleet.url) as proxy:
        worker = fleet.start(url=proxy.url)
        run_id = await fleet.submit(fleet.plan(("look", "a"), ("act", "b")))
        fleet.until(fleet.effects)

        proxy.cut_all()
        fleet.go("a")
        ended = fleet.stands(run_id, "ended")
        other = await fleet.submit(fleet.plan(("act", "c")))
        fleet.stands(other, "ended")
        worker.end()

    assert ended.outcome == "succeeded"
    assert fleet.effects().count(f"act b {run_id}") == 1
    assert fleet.effects().count(f"act c {other}") == 1


async def test_worker_whose_clock_is_off_is_neither_given_up_nor_gives_up_others(fleet: Fleet) -> None:
    workers = [fleet.start(concurrency=1, clock_off_s=hours * 3600) for hours in (0, -2, 2)]
    held = [await fleet.submit(fleet.plan(("hold", f"h{n}"))) for n in range(3)]
    fleet.until(lambda: len(fleet.effects()) == 3)
    # Longer than a lease: whoever took another for dead would have said so.
    await asyncio.sleep(fleet.engine.submissions.lease_s + 1)
    for n in range(3):
        fleet.go(f"h{n}")

    ended = [fleet.stands(each, "ended", "waiting") for each in held]

    assert {each.outcome for each in ended} == {"succeeded"}
    assert {each.worker for each in ended} == {each.id for each in workers}
    heard = [event["event"] for each in workers for event in each.drained()]
    assert "handed_over" not in heard
    assert "taken_over" not in heard


@pytest.mark.parametrize(
    "limit", [("--tenant-concurrency", "2"), ("--tenant-rate", "2/3600")], ids=["concurrency", "rate"]
)
async def test_tenants_limit_holds_over_all_workers(fleet: Fleet, limit: tuple[str, str]) -> None:
    for _ in range(2):
        fleet.start(*limit, concurrency=4)
    mine = [await fleet.submit(fleet.plan(("look", "x")), tenant="a") for _ in range(5)]
    other = await fleet.submit(fleet.plan(("look", "x")), tenant="b")
    fleet.until(lambda: fleet.stands(other, "running") and len(fleet.effects()) == 3)
    # Several looks into the queue later it is no more.
    await asyncio.sleep(1.0)
    before = Counter(line.split()[2] in mine for line in fleet.effects())

    fleet.go("x")
    fleet.until(lambda: len(_ended(fleet, *mine, other)) >= 3)
    if limit[0] == "--tenant-rate":
        await asyncio.sleep(1.0)
    else:
        fleet.until(lambda: len(_ended(fleet, *mine, other)) == 6)
    after = _ended(fleet, *mine)

    assert before == {True: 2, False: 1}
    assert len(after) == (2 if limit[0] == "--tenant-rate" else 5)


def _ended(fleet: Fleet, *run_ids: str) -> list[str]:
    found = [fleet.engine.submissions.get(each) for each in run_ids]
    return [each.run_id for each in found if each is not None and each.state == "ended"]


async def test_busy_worker_is_not_taken_for_dead(fleet: Fleet) -> None:
    """The lease is renewed by a thread: an event loop that is busy for longer than it lasts loses nothing."""
    worker = fleet.start()
    run_id = await fleet.submit(fleet.plan(("busy", str(fleet.engine.submissions.lease_s + 2))))
    fleet.until(fleet.effects)
    fleet.start()
    ended = fleet.stands(run_id, "ended", "waiting")

    assert ended.outcome == "succeeded"
    assert len(fleet.effects()) == 1
    assert ended.worker == worker.id


async def test_tickets_that_were_used_up_long_ago_are_forgotten(fleet: Fleet) -> None:
    old, new = [await fleet.submit(fleet.plan(("act", "a"))) for _ in range(2)]
    fleet.start()
    for each in (old, new):
        fleet.stands(each, "ended")
    age = (
        "UPDATE placet_dbos.workflow_status SET created_at = created_at - ?, completed_at = completed_at - ?"
    )
    month_ms = int(KEEP_S * 1000)

    def known(run_id: str) -> bool:
        sql = "SELECT 1 FROM placet_dbos.workflow_status WHERE workflow_uuid = ? AND status = 'SUCCESS'"
        return bool(fleet.records.database.read(lambda t: t.execute(sql, (f"{run_id}#1",))))

    fleet.until(lambda: known(old) and known(new))
    aged = (month_ms, month_ms, f"{old}#1")
    fleet.records.database.write(lambda t: t.execute(f"{age} WHERE workflow_uuid = ?", aged)).result()
    fleet.start()

    fleet.until(lambda: not known(old))
    assert known(new)
