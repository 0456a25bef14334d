"""Schedulers as real processes on one real database: each due time is one round, whoever is killed when; and
a stop from outside ends a round that runs elsewhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from placet.loops.schedule import Every
from placet.loops.timetable import Mark, Slot
from placet.loops.timetable_sql import SqlTimetable
from placet.storage.location import open_database
from tests.coder.nursery import read_trace, running

PATIENCE_S = 60.0
ROOT = Path(__file__).parents[2]

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(database_url: str, tmp_path: Path) -> Iterator[Start]:
    """Starts schedulers, which are ended afterwards."""
    started: list[subprocess.Popen[bytes]] = []

    def starting(**job: Any) -> subprocess.Popen[bytes]:
        whole = {"db": database_url, "trace": str(tmp_path / "trace"), "mark": tmp_path.name, **job}
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.loops.scheduling_child", json.dumps(whole)],
            cwd=ROOT,
            env=dict(os.environ),
        )
        started.append(process)
        return process

    yield starting
    for process in started:
        process.kill()
        process.wait()


def until(happened: Callable[[], Any]) -> Any:
    """What happened, once it has."""
    end = time.monotonic() + PATIENCE_S
    while not (found := happened()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return found


def seed(database_url: str, keys: dict[str, float], now: float) -> None:
    """Slots whose due times are known beforehand: from `now` on, with a step for each."""
    with open_database(database_url, create=True) as database:
        timetable = SqlTimetable(database)
        for key, step in keys.items():
            words = Every(step).words
            slot = Slot(key=key, name=key, repository="/", cadence=words, anchor=now, due=now)
            timetable.change(key, lambda _, __, slot=slot: (slot, None))  # type: ignore[misc]


def test_two_processes_run_each_due_time_once(database_url: str, start: Start, tmp_path: Path) -> None:
    now = time.time()
    seed(database_url, {"a": 0.2, "b": 0.3}, now)
    job = {"loops": {"a": 0.2, "b": 0.3}, "takes_s": 0, "until": now + 1.5}

    processes = [start(**job), start(**job)]
    trace = tmp_path / "trace"
    until(lambda: any(each.poll() is not None for each in processes))

    ended = [line for line in read_trace(trace) if line[0] == "ended"]
    began = [line for line in read_trace(trace) if line[0] == "began"]
    assert max(Counter((line[2], line[4]) for line in began).values()) == 1
    assert max(Counter(line[3] for line in began).values()) == 1
    assert len(ended) >= 2  # More than one due time; how many depends on the machine.
    # One at a time: of one loop, no round begins between the beginning and the end of another.
    for key in ("a", "b"):
        words = [line[0] for line in read_trace(trace) if line[2] == key]
        assert words[:-1:2] == ["began"] * len(words[:-1:2])
        assert words[1::2] == ["ended"] * len(words[1::2])


def test_a_killed_scheduler_loses_no_round_and_repeats_none(
    database_url: str, start: Start, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    trace = tmp_path / "trace"
    now = time.time()
    seed(database_url, {"a": 3600.0}, now)
    job = {"loops": {"a": 3600.0}, "until": now, "takes_s": 30}

    first = start(**job)
    until(lambda: [line for line in read_trace(trace) if line[0] == "began"])
    first.send_signal(signal.SIGKILL)
    first.wait()
    until(lambda: not running(f": {tmp_path.name};"))
    second = start(**{**job, "takes_s": 0})
    until(lambda: second.poll() is not None)

    lines = read_trace(trace)
    assert [(line[0], line[5]) for line in lines] == [("began", False), ("began", True), ("ended", True)]
    assert len({line[3] for line in lines}) == 1, "the round that was taken up is the one that was begun"
    with open_database(database_url) as database:
        slot = SqlTimetable(database).get("a")
    assert slot is not None
    assert (slot.round, slot.last, slot.last_round) == ("", "reported", lines[0][3])
    assert slot.due == pytest.approx(now + 3600)
    record_property("figure", "a scheduler was killed in a round; another took it up under the same id")


def test_the_switch_ends_a_round_that_runs_in_another_process(
    database_url: str, start: Start, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    seed(database_url, {"a": 3600.0}, time.time())
    start(loops={"a": 3600.0}, until=time.time() + 9e9, takes_s=600)
    until(lambda: running(f": {tmp_path.name};"))

    with open_database(database_url) as database:
        timetable = SqlTimetable(database)
        timetable.set_switch(Mark(at=time.time(), by="ann", reason="enough"))
        # The command that sleeps is gone, and the slot says how it ended.
        until(lambda: not running(f": {tmp_path.name};"))
        slot = until(lambda: (found := timetable.get("a")) and found.last and found)

    assert (slot.last, slot.round, slot.failures) == ("stopped", "", 0)
    assert [line[0] for line in read_trace(trace)] == ["began", "cancelled"]
