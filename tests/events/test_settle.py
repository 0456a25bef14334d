"""Waiting until what was recorded is on disk: for sinks that take their time, fail late, or fail at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from placet import EventLog
from placet.events.event import Event


class Slow:
    """A sink whose batches arrive when the test says so."""

    def __init__(self) -> None:
        self.batches: list[list[Event]] = []
        self.futures: list[Future[Any]] = []

    def write(self, events: Sequence[Event]) -> Future[Any]:
        self.batches.append(list(events))
        self.futures.append(Future())
        return self.futures[-1]

    def arrive(self, value: object = None) -> None:
        """The oldest batch that is still on its way has arrived; on another thread, as it would be."""
        self._on_a_thread(lambda future: future.set_result(value))

    def fail(self, error: Exception) -> None:
        self._on_a_thread(lambda future: future.set_exception(error))

    def _on_a_thread(self, end: Any) -> None:
        future = next(each for each in self.futures if not each.done())
        thread = threading.Thread(target=end, args=(future,))
        thread.start()
        thread.join()


class Broken:
    def write(self, events: Sequence[Event]) -> None:
        raise OSError("disk full")


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def failures(log: EventLog) -> list[str]:
    return [event.data["error"] for event in log.query(kind="sink_failed")]


async def test_settle_waits_until_the_batch_has_arrived() -> None:
    sink = Slow()
    log = EventLog(sinks=[sink])
    log.append("turn_note")

    settled = asyncio.create_task(log.settle())
    await turns()
    assert len(sink.batches) == 1
    assert not settled.done()
    sink.arrive()

    await settled
    assert (failures(log), log.lost) == ([], 0)


async def test_settle_waits_for_earlier_batches_too() -> None:
    sink = Slow()
    log = EventLog(sinks=[sink])
    for _ in range(3):
        log.append("turn_note")
        log.flush()

    settled = asyncio.create_task(log.settle())
    for _ in range(3):
        await turns()
        assert not settled.done()
        sink.arrive()

    await settled


async def test_settle_waits_for_every_sink() -> None:
    one, other = Slow(), Slow()
    log = EventLog(sinks=[one, other])
    log.append("turn_note")

    settled = asyncio.create_task(log.settle())
    await turns()
    one.arrive()
    await turns()
    assert not settled.done()
    other.arrive()

    await settled


async def test_without_anything_on_its_way_settle_returns() -> None:
    await EventLog().settle()
    await EventLog(sinks=[Slow()]).settle()
    await EventLog(sinks=[Broken()]).settle()


async def test_many_who_wait_share_one_batch() -> None:
    sink = Slow()
    log = EventLog(sinks=[sink])

    async def produce(n: int) -> None:
        log.append("turn_note", data={"n": n})
        await log.settle()

    producers = [asyncio.create_task(produce(n)) for n in range(50)]
    await turns()
    assert [len(batch) for batch in sink.batches] == [50]
    sink.arrive()

    await asyncio.gather(*producers)
    assert len(sink.futures) == 1


async def test_whoever_comes_later_waits_for_the_next_batch() -> None:
    sink = Slow()
    log = EventLog(sinks=[sink])
    log.append("turn_note")
    first = asyncio.create_task(log.settle())
    await turns()
    log.append("turn_note")
    second = asyncio.create_task(log.settle())
    await turns()

    sink.arrive()
    await first
    assert not second.done()
    sink.arrive()

    await second


async def test_whoever_is_cancelled_while_waiting_disturbs_nobody() -> None:
    sink = Slow()
    log = EventLog(sinks=[sink])
    log.append("turn_note")
    waiting = [asyncio.create_task(log.settle()) for _ in range(3)]
    await turns()

    waiting[1].cancel()
    await turns()
    sink.arrive()

    await waiting[0]
    await waiting[2]
    with pytest.raises(asyncio.CancelledError):
        await waiting[1]


async def test_a_batch_that_fails_late_is_one_event_and_no_exception() -> None:
    sink = Slow()
    log = EventLog(sinks=[sink])
    log.append("turn_note")
    log.append("turn_note")

    settled = asyncio.create_task(log.settle())
    await turns()
    sink.fail(OSError("disk full"))
    await settled

    assert failures(log) == ["OSError: disk full"]
    assert log.lost == 2
    assert log.query(kind="sink_failed")[0].data["sink"] == "Slow"


async def test_an_outage_is_told_once_and_the_next_one_again() -> None:
    sink = Slow()
    log = EventLog(sinks=[sink])
    for fails in (True, True, False, True):
        log.append("turn_note")
        log.flush()
        if fails:
            sink.fail(OSError("disk full"))
        else:
            sink.arrive()
    log.flush()

    assert len(failures(log)) == 2
    # Three of ours, and the first telling, which went with the second.
    assert log.lost == 4


async def test_that_a_failure_could_be_told_does_not_end_the_outage() -> None:
    """A disk that is nearly full takes the small event that says so, and then fails again, and again."""
    sink = Slow()
    log = EventLog(sinks=[sink])
    for _ in range(3):
        log.append("turn_note", data={"large": "x"})
        log.flush()
        sink.fail(OSError("disk full"))
        log.flush()
        if not sink.futures[-1].done():
            sink.arrive()

    assert len(failures(log)) == 1
    assert log.lost == 3


async def test_a_late_failure_is_noticed_at_the_next_flush_though_nobody_waits() -> None:
    sink = Slow()
    log = EventLog(sinks=[sink])
    log.append("turn_note")
    log.flush()
    sink.fail(OSError("disk full"))
    assert failures(log) == []

    log.flush()

    assert failures(log) == ["OSError: disk full"]


async def test_what_fails_beside_a_batch_is_told_but_loses_nothing() -> None:
    sink = Slow()
    log = EventLog(sinks=[sink])
    for _ in range(2):
        log.append("turn_note")
        log.flush()
        sink.arrive(value=OSError("no anchor"))
    log.flush()
    assert (failures(log), log.lost) == (["OSError: no anchor"], 0)

    # Of another kind, and worse: the first must not keep it quiet.
    log.append("turn_note")
    log.flush()
    sink.fail(OSError("disk full"))
    log.flush()

    assert failures(log) == ["OSError: no anchor", "OSError: disk full"]


async def test_a_sink_that_fails_at_once_counts_what_is_lost() -> None:
    log = EventLog(sinks=[Broken()])
    for _ in range(3):
        log.append("turn_note")
        await log.settle()

    assert failures(log) == ["OSError: disk full"]
    # The event that tells it is lost to that sink as well.
    assert log.lost == len(log)


async def test_a_sink_that_was_removed_is_still_waited_for_and_heard() -> None:
    sink = Slow()
    log = EventLog(sinks=[sink])
    log.append("turn_note")
    log.remove_sink(sink)

    settled = asyncio.create_task(log.settle())
    await turns()
    assert not settled.done()
    sink.fail(OSError("disk full"))
    await settled

    assert failures(log) == ["OSError: disk full"]
    assert log.lost == 1


def test_a_log_may_be_settled_in_one_loop_after_another() -> None:
    sink = Slow()
    log = EventLog(sinks=[sink])

    async def abandon() -> None:
        log.append("turn_note")
        asyncio.create_task(log.settle())  # noqa: RUF006
        await asyncio.sleep(0)

    async def settle() -> None:
        log.append("turn_note")
        waiting = asyncio.create_task(log.settle())
        await turns()
        for _ in sink.futures:
            sink.arrive()
        await waiting

    asyncio.run(abandon())
    asyncio.run(settle())

    assert sum(map(len, sink.batches)) == 2
