"""Runs as a list needs them: by time, folder and status, each with the runs that it started."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from placet import AgentRunner, AgentSpec, Runtime, SqlJournal, TurnLimits, open_database
from placet.agents.compose import agent_tool, pipeline
from placet.durable.sql import MIGRATIONS, RunSummary
from placet.inference import Result, Scripted, ToolCall
from placet.ir.proposal import Proposal
from placet.runtime.journal import RunRecord
from placet.storage.database import Database
from placet.storage.migrate import Migrations, migrate
from tests.storage.children import ask, say


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with open_database(database_url) as opened:
        yield opened


@pytest.fixture
def journal(database: Database) -> Iterator[SqlJournal]:
    made = SqlJournal(database)
    yield made
    made.close()


async def begin(
    database: Database,
    run_id: str,
    *,
    parent: str | None = None,
    folder: str | None = None,
    begun: float | None = None,
    status: str = "succeeded",
) -> None:
    """Keep a run that began so long ago, in seconds."""
    journal = SqlJournal(database, context={} if folder is None else {"folder": folder})
    record = RunRecord(run_id=run_id, trace_id="0" * 32, proposal=Proposal(id=run_id), parent=parent)
    (await journal.begin(record)).release()
    journal.close()
    at = time.time() - begun if begun is not None else None
    say(database, f"UPDATE runs SET status = '{status}' WHERE run_id = '{run_id}'")
    if at is not None:
        say(database, f"UPDATE runs SET begun = {at} WHERE run_id = '{run_id}'")


def ids(found: list[RunSummary]) -> list[str]:
    return [each.run_id for each in found]


async def test_each_run_comes_with_the_runs_that_it_started(database: Database, journal: SqlJournal) -> None:
    await begin(database, "old", begun=500)
    await begin(database, "top", begun=400)
    await begin(database, "top.1", parent="top", begun=300)
    await begin(database, "new", begun=250)
    await begin(database, "top.1.a", parent="top.1", begun=200)
    await begin(database, "top.2", parent="top", begun=100)
    await begin(database, "orphan", parent="pruned", begun=50)

    every = journal.listed()
    two = journal.listed(limit=3)

    assert ids(every.runs) == ["orphan", "new", "top", "top.1", "top.1.a", "top.2", "old"]
    assert [each.parent for each in every.runs[2:6]] == [None, "top", "top.1", "top"]
    assert every.elsewhere == 0
    assert ids(two.runs) == ["orphan", "new", "top", "top.1", "top.1.a", "top.2"]


async def test_a_folder_is_itself_and_all_that_is_in_it(database: Database, journal: SqlJournal) -> None:
    for n, folder in enumerate(["/w/a", "/w/a/b", "/w/ab", "/w", None]):
        await begin(database, f"r{n}", folder=folder, begun=100 - n)
    await begin(database, "r0.1", parent="r0", folder="/elsewhere")

    here = journal.listed(folder="/w/a")
    project = journal.listed(folder="/w/a", with_unknown=True)
    root = journal.listed(folder="/")

    assert (ids(here.runs), here.elsewhere) == (["r1", "r0", "r0.1"], 3)
    assert (ids(project.runs), project.elsewhere) == (["r4", "r1", "r0", "r0.1"], 2)
    assert ids(root.runs) == ["r3", "r2", "r1", "r0", "r0.1"]
    assert here.runs[0].folder == "/w/a/b"


async def test_a_time_range_is_of_when_runs_began(database: Database, journal: SqlJournal) -> None:
    for n in (10, 1000, 100_000):
        await begin(database, f"r{n}", begun=n, folder="/w")
    now = time.time()

    assert ids(journal.listed(since=now - 5000).runs) == ["r10", "r1000"]
    assert ids(journal.listed(since=now - 5000, until=now - 500).runs) == ["r1000"]
    assert journal.listed(since=now - 5000, folder="/v").elsewhere == 2


async def test_a_status_finds_runs_wherever_they_are_in_the_tree(
    database: Database, journal: SqlJournal
) -> None:
    await begin(database, "top", begun=400, status="partial")
    await begin(database, "top.1", parent="top", begun=300, status="waiting", folder="/v")
    await begin(database, "top.1.a", parent="top.1", begun=200, status="waiting", folder="/w")
    await begin(database, "gone", begun=100, status="running")

    assert ids(journal.listed(status="waiting").runs) == ["top.1", "top.1.a"]
    assert ids(journal.listed(status="waiting", folder="/w").runs) == ["top.1.a"]
    assert journal.listed(status="waiting", folder="/w").elsewhere == 1
    assert ids(journal.listed(status="interrupted").runs) == ["gone"]
    assert ids(journal.listed(status="running").runs) == []


async def test_a_circle_of_parents_does_not_keep_a_list_from_its_end(
    database: Database, journal: SqlJournal
) -> None:
    """Nobody makes one, and no run is its own parent; but somebody may have changed the table."""
    await begin(database, "a", parent="b", begun=100)
    await begin(database, "b", parent="a", begun=50)
    await begin(database, "self", parent="self", begun=10)

    assert ids(journal.listed().runs) == ["self"]
    assert ids(journal.listed(status="succeeded").runs) == ["self"]
    assert ids(journal.runs()) == ["self", "b", "a"]


# Who says whose a run is


def asks(tool: str, **arguments: Any) -> Result:
    return Result(calls=[ToolCall(id="c", name=tool, arguments=arguments)], stop="calls")


def agent(runtime: Runtime, id: str, *turns: Any, tools: tuple[str, ...] = ()) -> AgentRunner:
    return AgentRunner(runtime, Scripted(list(turns)), AgentSpec(id=id, identity="x", tools=tools))


async def test_an_agent_that_is_a_tool_runs_under_its_caller(journal: SqlJournal) -> None:
    helper = agent(Runtime(journal=journal), "helper", "Here.")
    spec = AgentSpec(id="lead", identity="x", tools=("helper",))
    runtime = Runtime(journal=journal, tools=[agent_tool(helper, spec)])
    lead = AgentRunner(runtime, Scripted([asks("helper", task="help"), "Done."]), spec, posture="full_access")

    await lead.run("go", run_id="lead-1")

    assert [(each.run_id, each.parent) for each in journal.listed().runs] == [
        ("lead-1", None),
        ("lead-1.t1c1", "lead-1"),
    ]


async def test_agents_of_a_team_run_under_the_run_of_the_team(journal: SqlJournal) -> None:
    runtime = Runtime(journal=journal)
    team = [agent(runtime, "a", "One."), agent(runtime, "b", "Two.")]

    result = await pipeline(team, "go", limits=TurnLimits(tokens=10_000))

    listed = journal.listed().runs
    assert [each.parent for each in listed] == [None, result.run_id, result.run_id]
    assert listed[0].run_id == result.run_id


# Earlier tables


def _put_in_the_first_tables(database: Database) -> None:
    migrate(database, Migrations("runs", MIGRATIONS.steps[:1]))
    rows = [
        ("s1", 0, '{"schedule":"levels","folder":"/w/é x"}', 1.0),
        ("s1.1.1", 0, '{"schedule":"levels","folder":"/w/é x"}', 2.0),
        ("night.2", 3, '{"schedule":"levels"}', 3.0),
        ("night", 3, "{}", 4.0),
        ("v1.2", 0, "no JSON", 5.0),
    ]
    for run_id, actions, context, begun in rows:
        say(
            database,
            "INSERT INTO runs (run_id, proposal_id, source, actions, status, begun, ended, hold, held_until,"
            f" context, record) VALUES ('{run_id}', 'p', 's', {actions}, 'succeeded', {begun}, 9, 1, 0,"
            f" '{context}', '{{}}')",
        )


def test_runs_of_the_first_tables_get_their_folders_and_parents(database: Database) -> None:
    """A plan whose id only looks like one of a sub-run stays where it is."""
    _put_in_the_first_tables(database)

    migrate(database, MIGRATIONS)

    assert ask(database, "SELECT run_id, parent, folder FROM runs ORDER BY begun") == [
        ("s1", None, "/w/é x"),
        ("s1.1.1", "s1", "/w/é x"),
        ("night.2", None, None),
        ("night", None, None),
        ("v1.2", None, None),
    ]


def test_the_first_tables_can_be_read_without_changing_them(database_url: str) -> None:
    with open_database(database_url) as database:
        _put_in_the_first_tables(database)
        say(database, "UPDATE runs SET context = '{}' WHERE run_id = 'v1.2'")

    with open_database(database_url, read_only=True) as database:
        journal = SqlJournal(database)
        listed = journal.listed(folder="/nowhere", with_unknown=True)

        assert ids(listed.runs) == ids(journal.runs()) == ["v1.2", "night", "night.2", "s1.1.1", "s1"]
        assert journal.find("s1.1").run_id == "s1.1.1"
        assert ask(database, "SELECT version FROM schema_parts WHERE part = 'runs'") == [(1,)]


async def test_the_second_tables_can_be_read_with_the_runs_that_others_started(database_url: str) -> None:
    with open_database(database_url) as database:
        migrate(database, Migrations("runs", MIGRATIONS.steps[:2]))
        for run_id, parent in (("main", "NULL"), ("sub", "'main'")):
            say(
                database,
                "INSERT INTO runs (run_id, proposal_id, source, actions, status, begun, ended, hold,"
                f" held_until, context, record, parent) VALUES ('{run_id}', 'p', 's', 0, 'succeeded', 1, 9,"
                f" 1, 0, '{{}}', '{{}}', {parent})",
            )

    with open_database(database_url, read_only=True) as database:
        listed = SqlJournal(database).listed().runs

        assert [(each.run_id, each.parent, each.nonzero) for each in listed] == [
            ("main", None, 0),
            ("sub", "main", 0),
        ]
