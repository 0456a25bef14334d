"""A run has one holder: real processes that want the same run, freeze, die, or are taken for another."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from placet import Runtime, open_database, tool
from placet.durable.sql import SqlJournal
from placet.errors import RunHeld
from placet.runtime.journal import RunRecord, Taken
from placet.storage.lease import Holder, holder, is_dead
from placet.testing import action, proposal
from tests.durable.runs import Runs, act, end, gate, until
from tests.storage import children
from tests.warm import Warm


@pytest.fixture
def runs(tmp_path: Path, database_url: str, warm: Warm) -> Iterator[Runs]:
    made = Runs(tmp_path, database_url, warm)
    yield made
    made.close()


def test_of_two_who_resume_at_the_same_instant_one_goes_on(runs: Runs) -> None:
    """Three times: the other exits with 2 and names the process; what must happen once happens once."""
    slow = {"id": "b", "tool": "slow", "parameters": {"name": "b", "seconds": 0.6}, "dependencies": ["g"]}
    process = runs.run(act("a"), gate("g", "a"), slow)
    runs.entered("g", noted=2)
    process.kill()
    runs.say("g")
    refused = 0
    rounds = ["r"]
    for n in range(1, 3):
        # More runs that look the same, without a process for each.
        rounds.append(f"r{n}")
        for table, columns in (
            (
                "runs",
                "proposal_id, source, actions, status, begun, hold, holder, held_until, context, record",
            ),
            ("journal", "number, note"),
        ):
            runs.sql(
                f"INSERT INTO {table} (run_id, {columns}) SELECT 'r{n}', {columns} FROM {table} "
                "WHERE run_id = 'r'"
            )

    for n, run_id in enumerate(rounds):
        before = len(runs.effects())
        pair = [runs.start("resume", run_id, "--json", RUNS_BARRIER=f"go-{n}") for _ in range(2)]
        for each in pair:
            until((runs.folder / f"ready-{each.command_pid}").exists)
        runs.say(f"go-{n}")
        codes = {p.command_pid: end(p) for p in pair}

        effects = runs.effects()[before:]
        assert effects == ["b"], codes
        winner = next(pid for pid, (code, _, _) in codes.items() if code == 0)
        assert json.loads(codes[winner][1])["outcome"] == "succeeded"
        (other,) = [done for pid, done in codes.items() if pid != winner]
        if other[0] == 0:
            # It came when the winner was through, and was shown the result.
            assert json.loads(other[1])["outcome"] == "succeeded"
        else:
            assert other[0] == 2
            refused += 1
            assert f"process {winner}" in json.loads(other[1])["error"]["message"]
    assert runs.effects().count("a") == 1
    assert refused >= 1


def test_a_run_that_somebody_is_at_work_on_is_left_alone(runs: Runs) -> None:
    process = runs.run(act("a"), gate("g", "a"), act("b", "g"))
    runs.entered("g", noted=2)

    code, out, err = runs.placet("resume", "r")
    listed = runs.placet("runs", "--json")[1]

    assert (code, out) == (2, "")
    assert f"Run 'r' is being worked on by process {process.command_pid}." in err
    (seconds,) = re.findall(r"its hold ends in (\d+) s", err)
    assert 15 <= int(seconds) <= 30
    (row,) = json.loads(listed)["runs"]
    assert (row["status"], row["holder"]) == ("running", f"process {process.command_pid}")
    runs.say("g")
    assert end(process)[0] == 0
    assert runs.effects() == ["a", "b"]


def test_a_process_that_froze_and_lost_its_run_does_nothing_more(runs: Runs) -> None:
    frozen = runs.run(act("a"), gate("g", "a"), act("b", "g"))
    runs.entered("g", noted=2)
    runs.freeze(frozen)

    assert runs.placet("resume", "r")[0] == 2, "it is alive, and its hold has not ended"
    runs.end_lease()
    runs.say("g")
    code, out, _ = runs.placet("resume", "r", "--json")
    assert (code, json.loads(out)["outcome"]) == (0, "succeeded")
    assert runs.effects() == ["a", "b"]

    frozen.send_signal(signal.SIGCONT)
    code, out, err = end(frozen)

    assert (code, out) == (2, "")
    assert "Run 'r' has been taken over by another process, so this one does nothing more." in err
    assert runs.effects() == ["a", "b"]
    assert json.loads(runs.placet("runs", "show", "r", "--json")[1])["status"] == "succeeded"
    story = json.loads(runs.placet("explain", "r", "--json")[1])
    print(*story["story"], sep="\n")
    assert story["proposals"][-1]["outcome"] == "succeeded", "who lost the run has no say in how it ended"
    assert runs.placet("log", "verify")[0] == 0


def test_a_process_that_froze_and_lost_its_run_takes_nothing_back(runs: Runs) -> None:
    """It wakes up to a failure and would abort: what it would take back is another's success now."""
    frozen = runs.run(act("a"), gate("g", "a"), act("b", "g"))
    runs.entered("g", noted=2)
    runs.freeze(frozen)
    runs.end_lease()
    runs.say("g")
    assert runs.placet("resume", "r")[0] == 0
    runs.say("g", "fail")

    frozen.send_signal(signal.SIGCONT)
    code, _, err = end(frozen)

    assert runs.effects() == ["a", "b"]
    assert code == 2
    assert "has been taken over" in err


def test_the_run_of_a_killed_process_can_be_resumed_at_once(runs: Runs) -> None:
    """Also while nobody has taken note of its death, as that of a child whose parent sleeps."""
    process = runs.start_fresh(*runs.plan(act("a"), gate("g", "a"), act("b", "g")))
    runs.entered("g", noted=2)
    os.kill(process.pid, signal.SIGKILL)
    runs.say("g")

    code, _, err = runs.placet("resume", "r")

    assert code == 0, err
    assert runs.effects() == ["a", "b"]


FREEZING = """
import asyncio, os, sys
from placet import Runtime, SqlJournal, open_database, tool
from placet.errors import RunHeld

@tool(risk="read_only")
async def wait() -> str:
    print("waiting", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    return "waited"

@tool
async def act() -> None:
    print("acted", flush=True)

journal = SqlJournal(open_database(sys.argv[1]), lease_s=1.5)
runtime = Runtime(tools=[wait, act], journal=journal)
plan = {"actions": [{"id": "w", "tool": "wait"}, {"id": "a", "tool": "act", "dependencies": ["w"]}]}
try:
    print(runtime.execute_sync(plan, run_id="r").outcome, flush=True)
except RunHeld as error:
    print(error, flush=True)
"""


@pytest.mark.usefixtures("warm")
async def test_a_hold_is_renewed_while_its_process_lives_and_ends_by_itself_when_it_freezes(
    database_url: str,
) -> None:
    """By the real clock, with a hold long enough for a busy machine to renew it in time."""
    acted: list[str] = []

    @tool(risk="read_only")
    def wait() -> str:
        return "waited"

    @tool
    def act() -> None:
        acted.append("here")

    child = children.start(FREEZING, database_url)
    with open_database(database_url) as database:
        journal = SqlJournal(database)
        runtime = Runtime(tools=[wait, act], journal=journal)
        try:
            assert children.hear(child) == "waiting"
            await asyncio.sleep(2.2)
            with pytest.raises(RunHeld):
                await runtime.resume("r")

            child.send_signal(signal.SIGSTOP)
            await asyncio.sleep(1.7)
            result = await runtime.resume("r")
            child.send_signal(signal.SIGCONT)
            children.tell(child, "go on")

            assert result.succeeded
            assert acted == ["here"]
            assert "has been taken over by another process" in children.hear(child)
        finally:
            child.send_signal(signal.SIGCONT)
            child.communicate(timeout=30)
            journal.close()


# Who is dead, and who only looks so

PLAN = proposal(action("a", "t"))


async def _held_by(url: str, **changes: Any) -> SqlJournal:
    """A run that is held by this process, as changed."""
    journal = SqlJournal(open_database(url))
    await journal.begin(RunRecord(run_id="r", trace_id="0", proposal=PLAN))
    rows = journal.database.read(lambda t: t.execute("SELECT holder FROM runs"))
    changed = json.dumps({**json.loads(rows[0][0]), **changes})
    journal.database.write(lambda t: t.execute("UPDATE runs SET holder = ?", (changed,))).result(30)
    return journal


def _shut(journal: SqlJournal) -> None:
    journal.close()
    journal.database.close()


async def test_a_holder_on_another_machine_is_waited_for(database_url: str) -> None:
    journal = await _held_by(database_url, host="elsewhere", pid=1, started="0")

    with pytest.raises(RunHeld, match=r"process 1 on elsewhere\. .* its hold ends in (29|30) s"):
        await journal.take("r")
    assert journal.find("r").holder == "process 1 on elsewhere"

    journal.database.write(lambda t: t.execute("UPDATE runs SET held_until = ?", (t.now() - 1,))).result(30)
    assert journal.find("r").status == "interrupted"
    assert isinstance(await journal.take("r"), Taken)
    _shut(journal)


@pytest.mark.parametrize(
    ("changes", "dead"),
    [
        ({}, False),
        ({"started": "1"}, True),
        ({"pid": 2**22 + 1}, True),
        ({"boot": "another start, or another machine of the same name"}, False),
        ({"space": "pid:[1]", "pid": 2**22 + 1}, False),
        ({"boot": ""}, False),
        ({"host": "elsewhere", "pid": 2**22 + 1}, False),
    ],
    ids=["itself", "number used again", "gone", "before a restart", "in a container", "unsaid", "elsewhere"],
)
async def test_only_who_is_surely_dead_holds_nothing(
    tmp_path: Path, changes: dict[str, Any], dead: bool
) -> None:
    journal = await _held_by(str(tmp_path / "placet.db"), **changes)

    assert journal.find("r").status == ("interrupted" if dead else "running")
    if dead:
        assert isinstance(await journal.take("r"), Taken)
    else:
        with pytest.raises(RunHeld):
            await journal.take("r")
    _shut(journal)


def test_a_dead_process_that_nobody_has_buried_is_dead() -> None:
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    alive = _holder_of(child.pid)
    assert not is_dead(alive)

    child.kill()

    until(lambda: is_dead(alive))
    child.communicate()


def _holder_of(pid: int) -> Holder:
    here = holder("")
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return Holder(here.host, pid, here.boot, here.space, fields[19], "")
