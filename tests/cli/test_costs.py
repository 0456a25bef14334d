"""`placet log costs`: by day, model, agent, folder and run, in a time range, on a terminal and in a pipe."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from placet import AgentRunner, AgentSpec, Assistant, EventLog, Runtime, SqlEvents, SqlJournal, open_database
from placet.agents.compose import agent_tool
from placet.inference import Result, Scripted, ToolCall, Usage
from tests.cli.test_runs_list import on_terminal

Placet = Callable[..., Any]


def said(text: str = "", cost: float | None = 0.25, tool: str = "") -> Result:
    calls = [ToolCall(id="c", name=tool, arguments={"task": "help"})] if tool else []
    usage = Usage(input=90, output=10) if cost is not None else None
    return Result(text=text, calls=calls, usage=usage, cost=cost, stop="calls" if calls else "end", model="m")


async def _work(url: str, folder: Path) -> None:
    with open_database(url) as database:
        journal = SqlJournal(database, context={"folder": str(folder)})
        log = EventLog(sinks=[SqlEvents(database)])
        helper = AgentRunner(
            Runtime(journal=journal, events=log), Scripted([said("x")]), AgentSpec(id="helper", identity="x")
        )
        spec = AgentSpec(id="lead", identity="x", tools=("helper",))
        runtime = Runtime(journal=journal, events=log, tools=[agent_tool(helper, spec)])
        lead = AgentRunner(runtime, Scripted([said(tool="helper"), said("y")]), spec, posture="full_access")
        await lead.run("go", run_id=f"{folder.name}-1")
        await Assistant(runtime, Scripted([said("z", cost=None)])).run("go", run_id=f"{folder.name}-2")
        await log.settle()
        journal.close()


@pytest.fixture(params=["sqlite", "postgres"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Two folders, in each an agent that calls another and an assistant whose model tells nothing."""
    url = str(tmp_path / "kept.db") if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        asyncio.run(_work(url, tmp_path / name))
    return url


def costs(placet: Placet, db: str, *options: str) -> dict[str | None, Any]:
    done = placet("log", "costs", *options, "--db", db, "--json")
    assert done.code == 0, done.err
    by = done.json["by"]
    return {cost[by]: cost for cost in done.json["costs"]}


def test_costs_by_each_thing(placet: Placet, db: str, tmp_path: Path) -> None:
    today = {f"{datetime.now(UTC):%Y-%m-%d}"}

    folders = costs(placet, db, "--by", "folder")
    runs = costs(placet, db, "--by", "run")
    agents = costs(placet, db)

    assert set(folders) == {str(tmp_path / "here"), str(tmp_path / "there")}
    assert folders[str(tmp_path / "here")]["cost_usd"] == 0.75
    assert folders[str(tmp_path / "here")]["unpriced_answers"] == 1
    assert set(runs) == {"here-1", "here-2", "there-1", "there-2"}, "the helper counts for who called it"
    assert (runs["here-1"]["runs"], runs["here-1"]["cost_usd"], runs["here-1"]["tool_calls"]) == (2, 0.75, 1)
    assert runs["here-2"]["cost_usd"] is runs["here-2"]["input_tokens"] is None
    assert set(agents) == {"agent lead", "agent helper", "assistant"}
    assert agents["agent helper"]["cost_usd"] == 0.5
    assert set(costs(placet, db, "--by", "model")) == {"m"}
    assert set(costs(placet, db, "--by", "day")) >= today


def test_a_range_holds_for_groups_and_total(placet: Placet, db: str) -> None:
    recent = placet("log", "costs", "--since", "7d", "--by", "day", "--db", db, "--json").json
    later = placet("log", "costs", "--since", "2100-01-01", "--db", db, "--json").json
    before = placet("log", "costs", "--until", "1h", "--db", db, "--json").json
    bad = placet("log", "costs", "--since", "soon", "--db", db)

    assert recent["total"]["cost_usd"] == 1.5
    assert time.time() - recent["since"] >= 7 * 86_400
    assert recent["until"] is None
    assert (later["costs"], later["total"]["cost_usd"], later["total"]["runs"]) == ([], None, 0)
    assert before["costs"] == []
    assert bad.code == 2
    assert placet("log", "costs", "--by", "week", "--db", db).code == 2


def test_costs_as_a_table(placet: Placet, db: str, tmp_path: Path) -> None:
    table = placet("log", "costs", "--by", "run", "--db", db)
    nothing = placet("log", "costs", "--since", "2100-01-01", "--db", db)

    lines = table.out.splitlines()
    assert lines[0].split()[0] == "run"
    rows = {line.split()[0]: line for line in lines[1:]}
    assert "$0.7500" in rows["here-1"]
    assert rows["here-2"].split()[-1] == "?", "never an invented 0"
    assert re.search(r"\$1\.5000 \+ \?$", rows["total"])
    assert (nothing.code, nothing.out) == (0, "")
    assert nothing.err
    for width in (80, 100):
        shown = on_terminal(width, tmp_path, "log", "costs", "--by", "folder", "--db", db)
        assert all(len(line) <= width for line in shown if str(tmp_path) not in line)
        assert str(tmp_path / "here") in " ".join(shown).split()


def test_events_without_runs_are_added_up(placet: Placet, tmp_path: Path) -> None:
    """A program may keep only those."""
    with open_database(str(tmp_path / "events.db")) as database:
        log = EventLog(sinks=[SqlEvents(database)])
        asyncio.run(_assist(log))

    assert set(costs(placet, str(tmp_path / "events.db"), "--by", "run")) == {"r"}
    assert set(costs(placet, str(tmp_path / "events.db"), "--by", "folder")) == {None}


async def _assist(log: EventLog) -> None:
    await Assistant(Runtime(events=log), Scripted([said("z")])).run("go", run_id="r")
    await log.settle()
