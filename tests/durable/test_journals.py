"""What every journal promises, and what only those in a database can break."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet import open_database
from placet.durable.memory import MemoryJournal
from placet.durable.sql import SqlJournal
from placet.errors import StorageFull, UnknownRun, UsageError
from placet.ir.proposal import Proposal
from placet.ir.result import ActionResult, ProposalResult, Status
from placet.runtime.journal import (
    CHOICES,
    Aborted,
    Beginning,
    Decided,
    Decision,
    Ended,
    Note,
    Replaced,
    RunRecord,
    Started,
    Taken,
    Tally,
    Tried,
)
from placet.testing import action, journal_suite, proposal
from tests.events.intruder import Intruder
from tests.properties.effort import examples
from tests.storage.children import say


class MemoryPlace:
    def __init__(self) -> None:
        self._journal = MemoryJournal()

    def open(self) -> MemoryJournal:
        return self._journal

    async def lose_holders(self) -> None:
        self._journal.lose_holders()


class SqlPlace:
    """A database; every journal in it has a connection of its own, as processes do."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._open: list[SqlJournal] = []

    def open(self, **options: Any) -> SqlJournal:
        self._open.append(SqlJournal(open_database(self.url), **options))
        return self._open[-1]

    async def lose_holders(self) -> None:
        with closing(Intruder(self.url)) as intruder:
            intruder.sql("UPDATE runs SET held_until = 0")

    def close(self) -> None:
        for journal in self._open:
            journal.close()
            journal.database.close()


@pytest.fixture
def sql_place(database_url: str) -> Iterator[SqlPlace]:
    place = SqlPlace(database_url)
    yield place
    place.close()


@pytest.mark.parametrize("check", journal_suite, ids=lambda check: check.__name__)
async def test_memory(check: Any) -> None:
    await check(MemoryPlace())


@pytest.mark.parametrize("check", journal_suite, ids=lambda check: check.__name__)
async def test_databases(sql_place: SqlPlace, check: Any) -> None:
    await check(sql_place)


# Any notes at all

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["\0", "a\0b", "'?%s"]
)
NUMBERS = (
    st.integers(-(10**30), 10**30)
    | st.sampled_from([10**300, 2**64, -(2**63) - 1])
    | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=3)
COUNTS = st.integers(0, 2**40)
KEYS = st.builds("{}-{}{}".format, st.integers(0, 9), COUNTS, st.sampled_from(["", "-undo"]))
MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1)).map(
    lambda m: m.replace(tzinfo=UTC, fold=0)
)
RESULTS = st.builds(
    ActionResult,
    action_id=TEXTS,
    status=st.sampled_from(get_args(Status)),
    output=VALUES,
    error=st.none() | TEXTS,
    state_changes=OBJECTS,
    duration_ms=st.none() | st.floats(0, 1e12),
    timestamp=MOMENTS,
    rolled_back=st.booleans(),
)
PLANS = st.builds(
    lambda source, context, parameters: Proposal(
        source=source, context=context, actions=[action("a", "t", parameters=parameters)]
    ),
    TEXTS,
    OBJECTS,
    OBJECTS,
)
TALLIES = st.builds(Tally, COUNTS, COUNTS, st.floats(0, 1e12), COUNTS, st.floats(0, 1e12))
BEGINNINGS = st.builds(
    Beginning, values=OBJECTS, version=COUNTS, versions=st.dictionaries(TEXTS, COUNTS, max_size=2)
)
NOTES: st.SearchStrategy[Note] = st.one_of(
    st.builds(Started, KEYS, COUNTS),
    st.builds(Tried, KEYS, COUNTS),
    st.builds(Ended, KEYS, RESULTS, TALLIES, st.booleans()),
    st.builds(Aborted, COUNTS, TEXTS),
    st.builds(Replaced, COUNTS, COUNTS, PLANS, BEGINNINGS),
    st.builds(Decided, KEYS, st.builds(Decision, choice=st.sampled_from(CHOICES), output=VALUES)),
)


def _check_any_notes(place: Any, count: int) -> None:
    """Each in a run of its own, with some of the notes settled and some left to the end of the hold."""
    numbers = iter(range(100_000))
    journal = place.open()

    @examples(count)
    @given(st.lists(NOTES, max_size=6), st.integers(0, 6), PLANS, BEGINNINGS)
    def check(notes: list[Note], settled: int, plan: Proposal, beginning: Beginning) -> None:
        async def go() -> Taken | ProposalResult:
            record = RunRecord(run_id=f"r{next(numbers)}", trace_id="0", proposal=plan, beginning=beginning)
            held = await journal.begin(record)
            for note in notes[:settled]:
                held.note(note)
            await held.settle()
            for note in notes[settled:]:
                held.note(note)
            held.release()
            taken = await journal.take(record.run_id)
            assert isinstance(taken, Taken)
            assert repr(taken.record) == repr(record)
            taken.journal.release()
            return taken

        taken = asyncio.run(go())

        assert isinstance(taken, Taken)
        assert list(taken.notes) == notes
        assert repr(list(taken.notes)) == repr(notes), "1 is neither true nor 1.0"

    check()


def test_any_notes_come_back_from_memory() -> None:
    _check_any_notes(MemoryPlace(), 20)


def test_any_notes_come_back_from_a_database(sql_place: SqlPlace) -> None:
    _check_any_notes(sql_place, 40)


# Only in a database

PLAN = proposal(action("a", "t"), action("b", "t"))
RECORD = RunRecord(run_id="r", trace_id="0", proposal=PLAN)


@pytest.mark.parametrize("run_id", ["", " r", "r\n", "a\x1b[31mb", "x" * 201, "\u202er", "\ud800", "a\0"])
async def test_an_id_that_could_not_be_shown_or_typed_is_refused(sql_place: SqlPlace, run_id: str) -> None:
    with pytest.raises(UsageError, match="cannot be the id of a run"):
        await sql_place.open().begin(RunRecord(run_id=run_id, trace_id="0", proposal=PLAN))

    assert sql_place.open().runs() == []


async def test_no_note_overtakes_one_that_could_not_be_kept(tmp_path: Path) -> None:
    """The disk is full for one note and not for the next: on disk is a beginning, and later all of it."""
    place = SqlPlace(str(tmp_path / "placet.db"))
    journal = place.open()
    held = await journal.begin(RECORD)
    held.note(Started("0-0", 1))
    await held.settle()
    pages = say(journal.database, "PRAGMA page_count")[0][0]
    say(journal.database, f"PRAGMA max_page_count = {pages}")
    result = ActionResult(
        action_id="a", status="succeeded", output="x" * 100_000, timestamp=datetime.now(UTC)
    )
    large, small = Ended("0-0", result, Tally()), Started("0-1", 1)

    held.note(large)
    with pytest.raises(StorageFull):
        await held.settle()
    held.note(small)
    with pytest.raises(StorageFull):
        await held.settle()
    assert list(journal.notes("r")) == [Started("0-0", 1)]

    say(journal.database, "PRAGMA max_page_count = 1000000")
    await held.settle()
    assert list(journal.notes("r")) == [Started("0-0", 1), large, small]
    held.release()
    say(journal.database, "PRAGMA page_count")  # Behind the release in the writer's queue.
    taken = await place.open().take("r")
    assert isinstance(taken, Taken)
    taken.journal.note(Started("0-2", 1))
    await taken.journal.settle()
    assert [type(n) for n in journal.notes("r")] == [Started, Ended, Started, Started]
    place.close()


async def test_how_a_run_ended_is_kept_although_its_notes_were_not(tmp_path: Path) -> None:
    place = SqlPlace(str(tmp_path / "placet.db"))
    journal = place.open()
    held = await journal.begin(RECORD)
    pages = say(journal.database, "PRAGMA page_count")[0][0]
    say(journal.database, f"PRAGMA max_page_count = {pages}")
    held.note(Replaced(1, 1, proposal(action("a", "t", parameters={"x": "x" * 100_000})), Beginning()))
    with pytest.raises(StorageFull):
        await held.settle()
    ending = ProposalResult(proposal_id="p", run_id="r", trace_id="0", outcome="partial", error="it broke")

    await held.end(ending)

    kept = await place.open().take("r")
    assert isinstance(kept, ProposalResult)
    assert kept.error == "it broke"
    place.close()


async def test_runs_are_listed_newest_first_and_by_how_they_stand(sql_place: SqlPlace) -> None:
    """Also where those that stand so lie behind many that look alike in the table."""
    journal = sql_place.open()
    for number in range(30):
        held = await journal.begin(RunRecord(run_id=f"run-{number:02}", trace_id="0", proposal=PLAN))
        if number == 7:
            await held.end(ProposalResult(proposal_id="p", run_id="", trace_id="", outcome="partial"))
        elif number != 3:
            held.release()
    await journal.take("run-29")

    def listed(**options: Any) -> list[str]:
        return [s.run_id for s in journal.runs(**options)]

    assert listed(limit=3) == ["run-29", "run-28", "run-27"]
    assert listed(status="running", limit=2) == ["run-29", "run-03"]
    assert listed(status="partial", limit=1) == ["run-07"]
    assert len(listed(status="interrupted")) == 27
    assert listed(status="succeeded") == []
    assert journal.find("run-07").status == "partial"
    assert journal.find("run-03").holder == f"process {os.getpid()}"
    assert journal.find("run-04").holder is None
    with pytest.raises(UnknownRun, match=r"Several runs begin with 'run-1': 'run-19'"):
        journal.find("run-1")
    for nothing in ("", "%", "run_", "RUN-07"):
        with pytest.raises(UnknownRun, match="There is no run"):
            journal.find(nothing)


async def test_a_list_of_runs_holds_no_secret_while_the_run_itself_does(sql_place: SqlPlace) -> None:
    token = "ghp_" + "a1B2" * 9
    plan = Proposal(id=f"plan {token}", source=f"me {token}", actions=PLAN.actions)
    journal = sql_place.open()

    await journal.begin(RunRecord(run_id="r", trace_id="0", proposal=plan))

    with closing(Intruder(sql_place.url)) as intruder:
        (row,) = intruder.sql("SELECT * FROM runs")
    named = [str(value) for value in row if value is not None]
    assert sum(token in value for value in named) == 1
    assert json.loads(next(value for value in named if token in value))["proposal"]["id"] == plan.id
    assert journal.record("r").proposal == plan


async def test_notes_survive_a_process_that_ends_without_a_word(tmp_path: Path) -> None:
    """What was settled is on disk, whoever looks, without any closing."""
    place = SqlPlace(str(tmp_path / "placet.db"))
    held = await place.open().begin(RECORD)
    held.note(Started("0-0", 1))
    await held.settle()

    connection = sqlite3.connect(f"file:{tmp_path / 'placet.db'}?mode=ro", uri=True)
    rows = connection.execute("SELECT number, note FROM journal").fetchall()
    connection.close()

    assert rows == [(1, msgspec.json.encode(Started("0-0", 1)).decode())]
    place.close()
