"""Sinks: they get everything, in batches, and a broken one ends no run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from placet import EventLog, Runtime
from placet.events.event import Event
from tests.runtime.plans import Recorder, call, plan, tool_of, write


class Kept:
    """A sink in memory."""

    def __init__(self) -> None:
        self.batches: list[list[Event]] = []

    @property
    def events(self) -> list[Event]:
        return [event for batch in self.batches for event in batch]

    def write(self, events: Sequence[Event]) -> None:
        self.batches.append(list(events))


class Broken:
    """A sink that fails as long as it is told to."""

    def __init__(self) -> None:
        self.fails = True
        self.tried = 0
        self.seen: list[Event] = []

    def write(self, events: Sequence[Event]) -> None:
        self.tried += 1
        if self.fails:
            raise OSError("disk full")
        self.seen += events


async def test_a_sink_gets_every_event_in_order() -> None:
    sink = Kept()
    rt = Runtime(events=EventLog(sinks=[sink]))

    await rt.execute(plan(write("a", "k", 1), write("b", "k", 2)))

    assert sink.events == list(rt.events)


async def test_a_sink_gets_also_what_memory_no_longer_holds() -> None:
    sink = Kept()
    rt = Runtime(events=EventLog(sinks=[sink], keep=5))

    await rt.execute(plan(*(write(f"a{n}", "k", n) for n in range(50))))

    assert [e.seq for e in sink.events] == list(range(1, len(sink.events) + 1))
    assert len(sink.events) > 150


async def test_actions_that_never_wait_are_handed_over_in_one_batch() -> None:
    sink = Kept()
    rt = Runtime(events=EventLog(sinks=[sink]))

    await rt.execute(plan(*(write(f"a{n}", "k", n) for n in range(20))))

    assert len(sink.batches) < 5


async def test_a_watcher_sees_an_action_start_before_it_ends() -> None:
    sink = Kept()
    seen: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0.02)
        seen.extend(e.kind for e in sink.events)

    rt = Runtime(tools=[tool_of("work", work)], events=EventLog(sinks=[sink]))

    await rt.execute(plan(call("a", "work")))

    assert seen[-1] == "action_executing"


def test_execute_sync_hands_everything_over_before_it_returns() -> None:
    sink = Kept()
    rt = Runtime(events=EventLog(sinks=[sink]))

    rt.execute_sync(plan(write("a", "k", 1)))

    assert sink.events[-1].kind == "proposal_ended"


def test_without_a_loop_events_are_handed_over_at_once() -> None:
    sink = Kept()
    log = EventLog(sinks=[sink])

    log.append("round_started")

    assert [e.kind for e in sink.events] == ["round_started"]


async def test_a_failing_sink_is_one_event_and_the_run_goes_on(recorder: Recorder) -> None:
    broken, good = Broken(), Kept()
    rt = Runtime(tools=[recorder.tool("note")], events=EventLog(sinks=[broken, good]))

    for _ in range(3):
        result = await rt.execute(plan(call("a", "note"), write("b", "k", 1)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert result.outcome == "succeeded"
    assert broken.tried >= 3
    (event,) = rt.events.query(kind="sink_failed")
    assert event.data == {"sink": "Broken", "error": "OSError: disk full"}
    assert event in good.events


async def test_a_sink_that_works_again_and_then_breaks_is_told_again() -> None:
    broken = Broken()
    rt = Runtime(events=EventLog(sinks=[broken]))

    for fails in (True, False, True):
        broken.fails = fails
        await rt.execute(plan(write("a", "k", 1)))
        await asyncio.sleep(0)

    assert len(rt.events.query(kind="sink_failed")) == 2
    assert broken.seen


async def test_a_sink_may_come_and_go(recorder: Recorder) -> None:
    sink = Kept()
    rt = Runtime()
    await rt.execute(plan(write("a", "k", 1), id="before"))

    rt.events.add_sink(sink)
    await rt.execute(plan(write("a", "k", 1), id="during"))
    rt.events.remove_sink(sink)
    await rt.execute(plan(write("a", "k", 1), id="after"))

    assert {e.proposal_id for e in sink.events} == {"during"}


async def test_a_log_that_outlives_the_process_tells_the_plan_too() -> None:
    sink = Kept()
    rt = Runtime(events=EventLog(sinks=[sink]))

    await rt.execute(plan(write("b", "k", 1, dependencies=["a"]), write("a", "j", 1)))

    received: dict[str, Any] = sink.events[0].data
    assert received["order"] == ["a", "b"]
    assert [(a["id"], a["depends_on"]) for a in received["actions"]] == [("b", ["a"]), ("a", [])]
