"""Leases: one holder at a time, fencing numbers, liveness, and requests to stop; in both databases alike."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from placet import open_database
from placet.ir.stop_cause import StopCause
from placet.storage.database import Database
from placet.storage.lease import Lease, LeaseTable, Renewals, StopRequest, holder, lease_values, read_lease

TABLE = LeaseTable("work", "name")
ME, OTHER = holder("me"), holder("other")
STOP = StopRequest(reason="enough")


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with open_database(database_url) as database:
        database.write(
            lambda t: t.execute(
                "CREATE TABLE work (name TEXT PRIMARY KEY, hold BIGINT NOT NULL, holder TEXT,"
                " held_until DOUBLE PRECISION NOT NULL, stop TEXT)"
            )
        ).result()
        for name in ("a", "b"):
            database.write(
                lambda t, name=name: t.execute(
                    "INSERT INTO work (name, hold, holder, held_until, stop) VALUES (?, ?, ?, ?, ?)",
                    (name, *lease_values(Lease())),
                )
            ).result()
        yield database


def stored(database: Database, name: str = "a") -> Lease:
    found = database.read(lambda t: TABLE.get(t, name))
    assert found is not None
    return found


def put(database: Database, lease: Lease) -> None:
    database.write(lambda t: TABLE.put(t, "a", lease)).result()


def test_a_lease_is_stored_as_it_is(database: Database) -> None:
    lease = Lease(fence=7, holder=ME, until=12.5, stop=StopRequest(reason="é", cause=StopCause.SIGNAL))

    put(database, lease)

    assert stored(database) == lease
    assert stored(database, "b") == Lease()
    assert database.read(lambda t: TABLE.get(t, "c")) is None


def test_whoever_lost_a_lease_is_refused(database: Database) -> None:
    mine = Lease().claimed(ME, 0.0, 30.0)
    put(database, mine)
    assert database.write(lambda t: TABLE.is_ours(t, "a", mine.fence)).result()

    put(database, stored(database).claimed(OTHER, 100.0, 30.0))

    assert not database.write(lambda t: TABLE.is_ours(t, "a", mine.fence)).result()
    assert database.write(lambda t: TABLE.is_ours(t, "a", mine.fence + 1)).result()
    assert not database.write(lambda t: TABLE.is_ours(t, "nobody", 1)).result()


def test_a_request_to_stop_outlasts_release_and_claim_and_the_first_one_counts(database: Database) -> None:
    asked = [
        database.write(lambda t, name=name, reason=reason: TABLE.request_stop(t, name, reason)).result()
        for name, reason in (("a", STOP), ("a", StopRequest(reason="really")), ("nobody", STOP))
    ]
    database.write(lambda t: TABLE.release(t, "a")).result()
    put(database, stored(database).claimed(ME, 0.0, 30.0))

    assert asked == [True, True, False]
    assert stored(database).stop == STOP
    assert stored(database, "b").stop is None


def test_a_renewal_lengthens_it_and_a_release_ends_it(database: Database) -> None:
    put(database, Lease().claimed(ME, 0.0, 30.0))
    database.write(lambda t: TABLE.renew(t, "a", 30.0)).result()
    now = database.read(lambda t: t.now())
    assert stored(database).is_held(now)

    database.write(lambda t: TABLE.release(t, "a")).result()

    assert not stored(database).is_held(now)
    assert stored(database).fence == 1


def test_one_of_many_that_claim_at_once_gets_it(database: Database) -> None:
    won: list[int] = []
    ready = threading.Barrier(4)

    def claim() -> None:
        ready.wait()
        me = holder("x")

        def work(t: object) -> int | None:
            lease = TABLE.lock(t, "a")  # type: ignore[arg-type]
            assert lease is not None
            if lease.is_held(1.0):
                return None
            TABLE.put(t, "a", lease.claimed(me, 1.0, 30.0))  # type: ignore[arg-type]
            return lease.fence + 1

        fence = database.write(work).result()  # type: ignore[arg-type]
        if fence is not None:
            won.append(fence)

    threads = [threading.Thread(target=claim) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert won == [1]


def test_a_process_that_has_died_holds_nothing_and_one_elsewhere_may_live() -> None:
    lease = Lease().claimed(ME, 0.0, 30.0)

    assert lease.is_held(29.9)
    assert not lease.is_held(30.0)
    assert not replace(lease, holder=replace(ME, started="1")).is_held(1.0)
    assert replace(lease, holder=replace(ME, started="1", host="elsewhere")).is_held(1.0)
    assert read_lease(1, "no holder", 30.0).is_held(1.0), "who cannot be read may live"
    assert read_lease(1, None, 0.0, "no request").stop is not None


@given(st.lists(st.sampled_from(["claim", "renew", "release", "stop"]), max_size=30))
def test_fencing_numbers_only_rise_and_a_stop_stays(steps: list[str]) -> None:
    lease = Lease()
    for at, step in enumerate(steps):
        before = lease
        match step:
            case "claim":
                lease = lease.claimed(ME, float(at), 5.0)
            case "renew":
                lease = lease.renewed(float(at), 5.0)
            case "release":
                lease = lease.released()
            case _:
                lease = lease.asked_to_stop(StopRequest(reason=str(at)))
        assert lease.fence == before.fence + (step == "claim")
        assert before.stop is None or lease.stop == before.stop
        assert step != "release" or not lease.is_held(float(at))
        assert step != "claim" or lease.is_held(float(at))


def test_what_is_held_is_renewed_from_a_thread_until_that_is_closed() -> None:
    class Held:
        def __init__(self) -> None:
            self.renewed = threading.Event()
            self.by: set[str] = set()

        def renew(self) -> None:
            self.by.add(threading.current_thread().name)
            self.renewed.set()

    renewals, held = Renewals(0.03), Held()

    renewals.add(held)
    assert held.renewed.wait(20)
    renewals.close()
    held.renewed.clear()

    assert held.by == {"placet-lease"}
    assert not held.renewed.is_set()
