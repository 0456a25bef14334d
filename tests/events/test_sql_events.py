"""Events in a database: written by many at once, read while that goes on, and there after a crash."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from placet import EventLog, Runtime
from placet.events.event import Event
from placet.events.rows import Filter, encode_event
from placet.events.sql import SqlEvents
from placet.storage.database import Database
from placet.storage.location import open_database
from placet.storage.transaction import Rows, Transaction, Value
from tests.events.conftest import some_events
from tests.events.intruder import Intruder
from tests.runtime.plans import claim, plan, write
from tests.storage.children import start


async def test_a_run_is_read_back_as_memory_holds_it(database_url: str) -> None:
    with open_database(database_url) as database:
        store = SqlEvents(database)
        rt = Runtime(events=EventLog(sinks=[store]))
        await rt.execute(plan(write("a", "k", 1), claim("b", "k", 2)))
        await rt.events.settle()

        assert store.query() == list(rt.events)
        assert store.cost_by_agent() == rt.events.cost_by_agent()
        assert store.counts() == rt.events.counts()
        assert store.last_position() == len(rt.events)


async def test_two_runtimes_share_one_log_whose_positions_are_its_own(database_url: str) -> None:
    with open_database(database_url) as database:
        stores = [SqlEvents(database), SqlEvents(database)]
        runtimes = [Runtime(events=EventLog(sinks=[store])) for store in stores]
        for n in range(6):
            await runtimes[n % 2].execute(plan(write("a", "k", n)), run_id=f"r{n}")
        for rt in runtimes:
            await rt.events.settle()

        events = stores[0].query()
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert len(events) == sum(len(rt.events) for rt in runtimes)
        assert stores[1].verify().valid


def test_batches_that_wait_share_one_append(tmp_path: Path) -> None:
    url = str(tmp_path / "a.db")
    with open_database(url) as database:
        store = SqlEvents(database)
        hold = threading.Event()
        database.write(lambda t: hold.wait())
        batches = [store.write(some_events(n, n)) for n in range(1, 101)]
        hold.set()
        for batch in batches:
            batch.result()

        assert [event.run_id for event in store.query()] == [f"r{n}" for n in range(1, 101)]
        assert store.verify().valid


def test_work_beside_that_fails_takes_no_event_with_it(database_url: str) -> None:
    with open_database(database_url) as database:
        store = SqlEvents(database)
        hold = threading.Event()
        database.write(lambda t: hold.wait())
        before = store.write(some_events(1, 3))
        bad = database.write(lambda t: t.execute("SELECT nonsense FROM nowhere"))
        after = store.write(some_events(4, 6))
        hold.set()

        assert bad.exception() is not None
        before.result()
        after.result()
        assert [event.run_id for event in store.query()] == [f"r{n}" for n in range(1, 7)]
        assert store.verify().valid


def test_an_event_that_cannot_be_encoded_costs_only_its_own_data(database_url: str) -> None:
    loop: list[object] = []
    loop.append(loop)
    odd = [
        Event(1, "turn_note", 1.0, data={"x": object()}),
        Event(2, "turn_note", 1.0, data={"x": loop}),
        Event(3, "turn_note", 1.0, "half \ud800 pair", data={"text": "\ud800"}),
        Event(4, "turn\0note", 1.0, "null \0 here", "\0", "\0", "\0", "\0", "\0", {"tool": "\0", "x": "\0"}),
    ]
    with open_database(database_url) as database:
        store = SqlEvents(database)
        store.write([*odd, *some_events(5, 5)]).result()

        events = store.query()
        assert [event.seq for event in events] == [1, 2, 3, 4, 5]
        assert all("not_stored" in event.data for event in events[:3])
        assert events[3].data == {"tool": "\0", "x": "\0"}
        assert store.query(run="null \0 here", tool="\0") == [events[3]]
        assert store.verify().valid


def test_a_row_that_somebody_spoilt_can_still_be_read(store: SqlEvents, intruder: Intruder) -> None:
    intruder.change(3, data="{not json")
    intruder.change(4, data="[1]")

    events = store.query()

    assert len(events) == 20
    assert events[2].data == {"unreadable": "{not json"}
    assert events[3].data == {"unreadable": "[1]"}


def test_a_scan_is_what_there_was_when_it_began(store: SqlEvents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placet.events.sql.PAGE", 6)
    seen: list[int] = []
    for event in store.scan():
        seen.append(event.seq)
        if len(seen) % 5 == 0:
            store.write(some_events(1, 3)).result()

    assert seen == list(range(1, 21))


# Failures


async def test_a_database_that_was_closed_is_one_event_and_memory_has_all(database_url: str) -> None:
    database = open_database(database_url)
    log = EventLog(sinks=[SqlEvents(database)])
    rt = Runtime(events=log)
    await rt.execute(plan(write("a", "k", 1)))
    await log.settle()
    database.close()

    for n in range(3):
        result = await rt.execute(plan(write("a", "k", n)))
        await log.settle()

    assert result.succeeded
    (told,) = log.query(kind="sink_failed")
    assert told.data["sink"] == "SqlEvents"
    assert "has been closed" in told.data["error"]
    assert len(log.query(kind="proposal_ended")) == 4
    assert log.lost > 0


async def test_a_database_without_space_is_one_event_until_there_is_some(tmp_path: Path) -> None:
    with open_database(str(tmp_path / "a.db")) as database:
        store = SqlEvents(database)
        log = EventLog(sinks=[store])
        pages = database.write(lambda t: t.execute("PRAGMA page_count")[0][0]).result()
        database.write(lambda t: t.execute(f"PRAGMA max_page_count = {pages + 8}")).result()

        for _ in range(40):
            log.append("turn_note", data={"text": "x" * 1_000})
            await log.settle()

        (told,) = log.query(kind="sink_failed")
        assert "no space left" in told.data["error"]
        assert len(log) == 41
        lost = log.lost
        assert 0 < lost < 41
        assert store.last_position() == 41 - lost
        assert store.verify().valid

        database.write(lambda t: t.execute("PRAGMA max_page_count = 1000000")).result()
        log.append("turn_note")
        await log.settle()
        assert log.lost == lost
        assert len(log.query(kind="sink_failed")) == 1


async def test_a_table_that_somebody_dropped_is_one_event(database_url: str, intruder: Intruder) -> None:
    with open_database(database_url) as database:
        log = EventLog(sinks=[SqlEvents(database)])
        intruder.sql("DROP TABLE events")
        for _ in range(3):
            log.append("turn_note")
            await log.settle()

    assert len(log.query(kind="sink_failed")) == 1
    assert len(log.query(kind="turn_note")) == 3


# Many at once

WRITER = """
import asyncio, sys
from placet import EventLog
from placet.events.sql import SqlEvents
from placet.storage.location import open_database

url, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

async def main():
    with open_database(url) as database:
        log = EventLog(sinks=[SqlEvents(database, durable=True)])
        done = 0
        while done < count:
            for _ in range(7):
                log.append("turn_note", name, data={"n": done})
                done += 1
            await log.settle()
            if log.lost:
                sys.exit(f"lost {log.lost}: {log.query(kind='sink_failed')}")
            print(done, flush=True)

asyncio.run(main())
"""


@pytest.mark.usefixtures("warm")
def test_four_processes_append_to_one_fresh_log_without_a_gap(database_url: str) -> None:
    writers = [start(WRITER, database_url, f"w{n}", 350) for n in range(4)]
    for writer in writers:
        writer.communicate(timeout=100)

    assert [writer.returncode for writer in writers] == [0, 0, 0, 0]
    with open_database(database_url) as database:
        store = SqlEvents(database)
        report = store.verify()
        assert (report.valid, report.checked, report.last) == (True, 1_400, 1_400)
        assert [event.seq for event in store.query()] == list(range(1, 1_401))
        for n in range(4):
            # Each process's own order is kept.
            assert [event.data["n"] for event in store.query(run=f"w{n}")] == list(range(350))


@pytest.mark.usefixtures("warm")
def test_whatever_was_acknowledged_survives_the_death_of_the_process(database_url: str) -> None:
    for round in range(3):
        writer = start(WRITER, database_url, f"w{round}", 1_000_000)
        assert writer.stdout is not None
        acknowledged = 0
        for line in writer.stdout:
            acknowledged = int(line)
            if acknowledged >= 70 * (round + 1):
                writer.kill()
                break
        # It may have said more before the signal came.
        acknowledged = max([acknowledged, *map(int, writer.stdout.read().split())])
        writer.communicate()

        with open_database(database_url) as database:
            store = SqlEvents(database)
            kept = [event.data["n"] for event in store.query(run=f"w{round}")]
            assert kept == list(range(len(kept)))
            assert len(kept) >= acknowledged
            assert store.verify().valid


SIZES = (3, 1, 8)


def _write_on(store: SqlEvents, stop: threading.Event) -> None:
    n = 0
    while not stop.is_set():
        size = SIZES[n % 3]
        store.write([Event(1, "turn_note", 1.0, f"b{n}", data={"of": size}) for _ in range(size)]).result()
        n += 1


def test_a_reader_beside_a_writer_sees_whole_batches(database_url: str) -> None:
    with open_database(database_url) as writing, open_database(database_url) as reading:
        writer, reader = SqlEvents(writing), SqlEvents(reading)
        stop = threading.Event()
        thread = threading.Thread(target=_write_on, args=(writer, stop))
        thread.start()
        try:
            seen = 0
            while seen < 400:
                batches: dict[str | None, int] = {}
                for event in reader.query(after=seen):
                    batches[event.run_id] = batches.get(event.run_id, 0) + 1
                    assert event.seq == seen + 1
                    seen = event.seq
                assert all(count == SIZES[int(str(name)[1:]) % 3] for name, count in batches.items())
        finally:
            stop.set()
            thread.join()


def test_a_reader_waits_for_no_writer_and_sees_the_state_before_an_open_write(database_url: str) -> None:
    """Deterministic, where the test above only tries."""
    with open_database(database_url) as writing, open_database(database_url) as reading:
        writer, reader = SqlEvents(writing), SqlEvents(reading)
        writer.write(some_events(1, 2)).result()
        hold = threading.Event()
        inside = threading.Event()

        def wait() -> None:
            inside.set()
            hold.wait(timeout=30)

        slow = hold_with(writing, writer, wait)
        inside.wait(timeout=30)
        seen = [event.seq for event in reader.query()]
        report = reader.verify()
        hold.set()
        slow.result(timeout=30)

        assert seen == [1, 2]
        assert report.valid
        assert len(reader.query()) == 5


def hold_with(database: Database, store: SqlEvents, wait: Callable[[], object]) -> Future[None]:
    """A transaction that stays open, with a batch already in it, until `wait` returns."""

    def work(t: Transaction) -> None:
        store._append(t, [encode_event(event) for event in some_events(3, 5)])
        wait()

    return database.write(work)


async def test_fifty_producers_at_once_lose_nothing(database_url: str) -> None:
    with open_database(database_url) as database:
        store = SqlEvents(database, durable=True)
        log = EventLog(sinks=[store])

        async def produce(name: str) -> None:
            for n in range(20):
                log.append("turn_note", name, data={"n": n})
                await log.settle()
                assert log.lost == 0

        await asyncio.gather(*(produce(f"p{n}") for n in range(50)))

        assert store.last_position() == 1_000
        assert [event.data["n"] for event in store.query(run="p7")] == list(range(20))
        assert store.verify().valid


@pytest.mark.parametrize("newest", [False, True])
def test_a_trace_goes_by_its_index_on_postgres(store: SqlEvents, newest: bool) -> None:
    """Also in a prepared statement, which knows no positions. A small table would else be read whole."""
    wanted = Filter.of("action_executing", None, "t1", None, None, None, None, None, None)

    class Explaining(NamedTuple):
        t: Transaction
        dialect: str

        def execute(self, sql: str, values: Sequence[Value]) -> Rows:
            numbers = iter(range(1, 100))
            numbered = "".join(f"${next(numbers)}" if each == "?" else each for each in sql)
            self.t.execute("SET LOCAL enable_seqscan = off")
            self.t.execute("SET LOCAL plan_cache_mode = force_generic_plan")
            self.t.execute(f"PREPARE of_trace (bigint, bigint, text, text) AS {numbered}")
            found = self.t.execute("EXPLAIN EXECUTE of_trace (1, 9, 'action_executing', 't1')")
            self.t.execute("DEALLOCATE of_trace")
            return found

    def explain(t: Transaction) -> Rows | None:
        if t.dialect != "postgres":
            return None
        return wanted.page(1, 9, 10, newest, cast(Transaction, Explaining(t, t.dialect)))

    steps = store._database.read(explain)

    assert steps is None or any("events_trace" in line for (line,) in steps), steps
