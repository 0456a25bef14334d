"""What the log says when an effect happens: at least that it is about to."""

from __future__ import annotations

import asyncio
import time

import pytest

from placet import EventLog, Runtime, SqlEvents, SqlJournal, ToolContext, open_database, tool
from placet.runtime.journal import Ended, key_of
from placet.testing import action, proposal
from tests.storage.children import hear, start


@pytest.mark.parametrize("schedule", ["levels", "dataflow"])
async def test_an_effect_never_precedes_its_own_record(database_url: str, schedule: str) -> None:
    unrecorded: list[str] = []
    with open_database(database_url) as database, open_database(database_url, read_only=False) as other:
        looking = SqlEvents(other)
        journal = SqlJournal(database)

        @tool(cheap=True)
        def act(context: ToolContext) -> None:
            """Looks into the log at the moment of its effect."""
            if not looking.query(action=context.action_id, kind="action_executing"):
                unrecorded.append(context.action_id)

        rt = Runtime(
            tools=[act],
            events=EventLog(sinks=[SqlEvents(database)]),
            journal=journal,
            schedule=schedule,  # type: ignore[arg-type]
        )
        plan = proposal(
            *(action(f"a{k}", "act", dependencies=[f"a{k - 2}"] if k > 1 else []) for k in range(20))
        )

        result = await rt.execute(plan)
        journal.close()

    assert result.succeeded
    assert unrecorded == []


async def test_nothing_is_left_of_the_notes_of_a_run_that_has_ended(database_url: str) -> None:
    """They hold values as they are, secrets included."""
    with open_database(database_url) as database:
        journal = SqlJournal(database)

        @tool
        def thread(n: int) -> int:
            """In a thread."""
            return n

        rt = Runtime(tools=[thread], journal=journal)
        plan = proposal(
            *(action(f"w{k}", type="state_write", parameters={"key": "k", "value": k}) for k in range(50)),
            action("t", "thread", parameters={"n": 1}),
        )

        result = await rt.execute(plan)
        await database_is_quiet(journal)
        left = database.read(lambda t: t.execute("SELECT count(*) FROM journal"))
        journal.close()

    assert result.succeeded
    assert left == [(0,)]


async def database_is_quiet(journal: SqlJournal) -> None:
    """Everything that was planned or handed over is done."""
    for _ in range(3):
        await asyncio.sleep(0)
    await asyncio.wrap_future(journal.database.write(lambda t: None))


CHAIN = """
import asyncio, sys
from placet import EventLog, Runtime, SqlEvents, SqlJournal, open_database, tool

@tool(idempotent=True, cheap=True)
def put(x: int) -> int:
    "Instant."
    return x

@tool(risk="read_only")
async def stay() -> None:
    "A run that has ended leaves no notes: this one does not end."
    await asyncio.sleep(600)

with open_database(sys.argv[1]) as database:
    log = EventLog(sinks=[SqlEvents(database)])
    rt = Runtime(tools=[put, stay], journal=SqlJournal(database), events=log)
    print("go", flush=True)
    rt.execute_sync(
        {"actions": [
            {"id": f"a{i}", "tool": "put", "parameters": {"x": i}, "dependencies": [f"a{i - 1}"] if i else []}
            for i in range(5000)
        ] + [{"id": "last", "tool": "stay", "dependencies": ["a4999"]}]},
        run_id="r",
    )
"""


@pytest.mark.usefixtures("warm")
def test_no_note_is_on_disk_before_the_events_that_tell_of_the_same(database_url: str) -> None:
    """Else what ended would be read back, and the log would never have heard of it."""
    child = start(CHAIN, database_url)
    assert hear(child) == "go"
    with open_database(database_url) as database:
        journal, events = SqlJournal(database), SqlEvents(database)
        until = time.monotonic() + 60
        while not _count(journal, "journal") and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.1)

        child.kill()
        child.communicate()

        ended = {key_of(0, int((e.action_id or "a")[1:])) for e in events.scan(kind="action_succeeded")}
        noted = {note.key for note in journal.notes("r") if isinstance(note, Ended)}
    assert noted
    assert noted <= ended


def _count(journal: SqlJournal, table: str) -> int:
    rows = journal.database.read(lambda t: t.execute(f"SELECT count(*) FROM {table}"))
    count: int = rows[0][0]
    return count
