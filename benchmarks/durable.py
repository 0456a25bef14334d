"""What it costs to keep things: events on disk against bare sqlite3, and a run with and without a journal.

Both sides of each comparison sync every commit (synchronous = FULL) on the same disk, in turns.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.report import Floor, Section
from placet import EventLog, Runtime, SqlEvents, SqlJournal, open_database, tool

ONE, MANY = 1, 50
DATA = {"tool": "send_mail", "duration_ms": 12.5, "note": "x" * 150}
"""With ids, time and digests, a row of about 300 bytes."""
PLAN = 100


def bare_loop(path: Path, seconds: float) -> float:
    """Events a second of the plainest thing that works: insert, commit, again."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS events (position INTEGER PRIMARY KEY, kind TEXT, data TEXT)"
    )
    text = "y" * 300
    began = time.perf_counter()
    written = 0
    while time.perf_counter() - began < seconds:
        connection.execute("INSERT INTO events (kind, data) VALUES (?, ?)", ("action_succeeded", text))
        written += 1
    took = time.perf_counter() - began
    connection.close()
    return written / took


async def kept_events(path: Path, producers: int, seconds: float) -> float:
    """Events a second through the log, each producer waiting until its own event is on disk."""
    with open_database(str(path)) as database:
        log = EventLog(sinks=[SqlEvents(database, durable=True)], keep=1000)
        until = time.perf_counter() + seconds
        written = 0

        async def produce() -> None:
            nonlocal written
            while time.perf_counter() < until:
                log.append(
                    "action_succeeded", "run-1", "proposal-1", "action-1", "trace-1", "span-1", None, DATA
                )
                await log.settle()
                written += 1

        began = time.perf_counter()
        await asyncio.gather(*(produce() for _ in range(producers)))
        return written / (time.perf_counter() - began)


@tool(cheap=True)
def unsafe(i: int) -> int:
    """Must not be repeated."""
    return i


@tool(idempotent=True, cheap=True)
def repeatable(i: int) -> int:
    """May be repeated."""
    return i


def _plan(name: str, *, chained: bool) -> dict[str, Any]:
    return {
        "actions": [
            {
                "id": f"a{i}",
                "tool": name,
                "parameters": {"i": i},
                "dependencies": [f"a{i - 1}"] if chained and i else [],
                "failure_behavior": "abort" if chained else "skip",
            }
            for i in range(PLAN)
        ]
    }


SHAPES = {
    "repeatable, one after the other": _plan("repeatable", chained=True),
    "unsafe, one after the other": _plan("unsafe", chained=True),
    "unsafe, all at once": _plan("unsafe", chained=False),
}


async def _per_action(runtime: Runtime, plan: dict[str, Any], turns: int) -> tuple[float, float]:
    """Microseconds per action: CPU, and by the wall clock."""
    best_cpu = best_wall = float("inf")
    await runtime.execute(plan)
    for _ in range(turns):
        cpu, wall = time.process_time(), time.perf_counter()
        result = await runtime.execute(plan)
        best_cpu = min(best_cpu, time.process_time() - cpu)
        best_wall = min(best_wall, time.perf_counter() - wall)
        assert result.succeeded
    return best_cpu / PLAN * 1e6, best_wall / PLAN * 1e6


async def run(say: Callable[[str], None], *, quick: bool) -> list[Section]:
    """Both tables."""
    seconds = 0.5 if quick else 2.0
    events = Section("Events on disk, synchronous = FULL", ("what", "events/s", "x bare loop"))
    journal = Section(
        "Per action of a plan of 100, journal off and on (us)",
        ("plan", "cpu off", "cpu on", "cpu x", "wall off", "wall on"),
    )
    with TemporaryDirectory(prefix="placet-bench-") as folder:
        place = Path(folder)
        figures: dict[str, float] = {}
        for turn in range(2 if quick else 3):
            say(f"durable: bare sqlite3 loop, turn {turn + 1}")
            rate = bare_loop(place / "bare.db", seconds)
            figures["bare"] = max(figures.get("bare", 0.0), rate)
            for producers in (ONE, MANY):
                say(f"durable: {producers} producers, turn {turn + 1}")
                rate = await kept_events(place / f"log-{producers}.db", producers, seconds)
                figures[str(producers)] = max(figures.get(str(producers), 0.0), rate)
        bare = figures["bare"]
        events.rows.append(["bare sqlite3, one commit each", bare, 1.0])
        for producers in (ONE, MANY):
            rate = figures[str(producers)]
            events.rows.append([f"event log, {producers} waiting producers", rate, rate / bare])
        events.floors.append(
            Floor(f"events kept a second, {MANY} producers", figures[str(MANY)], 20_000, "/s", at_least=True)
        )
        for name, plan in SHAPES.items():
            say(f"durable: {name}")
            turns = 3 if quick else 8
            cpu_off, wall_off = await _per_action(Runtime(tools=[unsafe, repeatable]), plan, turns)
            with open_database(str(place / "journal.db")) as database:
                store = SqlJournal(database)
                runtime = Runtime(tools=[unsafe, repeatable], journal=store)
                cpu_on, wall_on = await _per_action(runtime, plan, turns)
                store.close()
            journal.rows.append([name, cpu_off, cpu_on, cpu_on / cpu_off, wall_off, wall_on])
    journal.notes.append(
        "An unsafe action waits for the disk before it begins; those that begin at once share a sync."
    )
    return [events, journal]
