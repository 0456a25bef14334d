"""A database that fails before or while a run goes on: nothing unsafe begins unnoted, the result is told."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from placet import Runtime, open_database, tool
from placet.durable.sql import SqlJournal
from placet.events.log import EventLog
from placet.events.sql import SqlEvents
from placet.storage import sqlite
from placet.testing import action, proposal
from tests.durable.runs import Runs, act
from tests.storage import children
from tests.warm import Warm

DISK_TOOLS = '''
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from placet import tool

DISK = Path(os.environ["RUNS_DISK"])


@tool(risk="read_only")
def fill() -> str:
    """Leave no space on the disk, once."""
    time.sleep(0.3)  # What went before is to be on disk.
    size = 0 if (HERE / "filled").exists() else 4096
    (HERE / "filled").touch()
    with (DISK / "ballast").open("ab", buffering=0) as file:
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2
    return "full"

'''


@pytest.fixture
def runs(tmp_path: Path, warm: Warm) -> Iterator[Runs]:
    made = Runs(tmp_path, str(tmp_path / "placet.db"), warm)
    yield made
    made.close()


def _step(name: str, *after: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "tool": name, "dependencies": list(after), **more}


def _many(count: int, *after: str) -> list[dict[str, Any]]:
    """Actions that leave much to be noted."""
    big = {"k": "x" * 20_000}
    return [
        {"id": f"s{n}", "tool": "safe", "parameters": {"name": f"s{n}"}, "expected_effects": big}
        | {"dependencies": list(after)}
        for n in range(count)
    ]


def test_on_a_full_disk_nothing_unsafe_begins_and_the_result_is_told(runs: Runs) -> None:
    """Once there is space again the run can be looked at, and goes on where it stood."""
    disk = runs.folder / "disk"
    disk.mkdir()
    runs.tools.write_text(runs.tools.read_text() + DISK_TOOLS)
    script = f"""
        mount -t tmpfs -o size=3m none {disk}
        "$@" run plan.json --tools tools.py --run-id r --json >run.out 2>run.err || echo $? >run.code
        cp effects effects.then
        rm {disk}/ballast
        "$@" runs --json >runs.out
        "$@" runs show r >show.out
        "$@" resume r --json >resume.out 2>resume.err || echo $? >resume.code
        "$@" log verify >verify.out
        "$@" runs --json >runs.after
    """
    names = [f"s{n}" for n in range(8)]
    actions = [act("a"), _step("fill", "a"), *_many(8, "fill"), act("b", *names)]
    (runs.folder / "plan.json").write_text(json.dumps({"actions": actions}))

    done = subprocess.run(
        [*children.in_namespace(script)[:-2], script, "sh", sys.executable, "-m", "placet.cli.main"],
        cwd=runs.folder,
        env={
            **os.environ,
            "RUNS_FOLDER": str(runs.folder),
            "RUNS_DISK": str(disk),
            "PLACET_DB": str(disk / "placet.db"),
            "XDG_DATA_HOME": str(runs.folder / "share"),
        },
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    files = {path.name: path.read_text() for path in runs.folder.iterdir() if path.is_file()}
    assert "Traceback" not in files["run.err"] + files["resume.err"]
    assert files["run.code"] == "1\n"
    result = json.loads(files["run.out"])
    last = result["results"][-1]
    assert (result["outcome"], last["action_id"], last["status"]) == ("canceled", "b", "skipped")
    assert "not started, because that cannot be noted beforehand: The database" in last["error"]
    assert "has no space left to grow" in last["error"]
    assert "Warning: not everything could be recorded" in files["run.err"]
    assert sorted(files["effects.then"].split()) == ["a", *names]
    assert json.loads(files["runs.out"])["runs"][0]["status"] in ("interrupted", "canceled")
    assert "run r" in files["show.out"]
    assert json.loads(files["resume.out"])["outcome"] == "succeeded"
    effects = runs.effects()
    assert [effects.count(name) for name in ("a", "b")] == [1, 1]
    assert json.loads(files["runs.after"])["runs"][0]["status"] == "succeeded", files["resume.err"]


async def test_a_database_that_stays_locked_lets_nothing_unsafe_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.3)
    path = tmp_path / "placet.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    acted: list[str] = []

    @tool(risk="read_only", cheap=True)
    def lock() -> None:
        other.execute("BEGIN IMMEDIATE")

    @tool(cheap=True)
    def act(name: str) -> None:
        acted.append(name)

    with open_database(str(path)) as database:
        journal = SqlJournal(database)
        events = EventLog(sinks=[SqlEvents(database)])
        rt = Runtime(tools=[lock, act], journal=journal, events=events)
        result = await rt.execute(
            proposal(
                action("a", "act", parameters={"name": "a"}),
                action("l", "lock", dependencies=["a"]),
                action("b", "act", parameters={"name": "b"}, dependencies=["l"]),
            ),
            run_id="r",
        )
        other.execute("ROLLBACK")
        other.close()

        assert acted == ["a"]
        assert (result.outcome, result["b"].status) == ("canceled", "skipped")
        assert "stays locked by another process" in (result["b"].error or "")
        assert events.query(kind="sink_failed")
        assert journal.find("r").status in ("running", "canceled")
        journal.close()


def test_a_database_that_is_deleted_under_a_run_is_no_end_of_it(runs: Runs) -> None:
    """What was noted went with the file; the result is told, and the next run begins a new one."""
    runs.tools.write_text(
        runs.tools.read_text()
        + '''
@tool(risk="read_only")
def delete() -> str:
    """Delete the database."""
    for path in HERE.glob("placet.db*"):
        path.unlink()
    return "gone"
'''
    )
    first = runs.run(act("a"), _step("delete", "a"), act("b", "delete"))
    out, err = first.communicate(timeout=60)
    second = runs.run(act("c"), run_id="second").wait(timeout=60)

    assert b"Traceback" not in err
    assert b"succeeded" in out or b"not started, because" in out
    assert runs.effects()[0] == "a"
    assert second == 0
    assert runs.sql("SELECT run_id, status FROM runs") == [("second", "succeeded")]


COMMANDS = [
    ("run", "plan.json"),
    ("resume", "r"),
    ("runs",),
    ("runs", "show", "r"),
    ("log",),
    ("log", "verify"),
    ("explain", "r"),
]


@pytest.fixture
def one_run(runs: Runs) -> Runs:
    (runs.folder / "plan.json").write_text(
        json.dumps({"actions": [{"id": "w", "type": "state_write", "parameters": {"key": "k"}}]})
    )
    with open_database(runs.url) as database:
        events = EventLog(sinks=[SqlEvents(database)])
        journal = SqlJournal(database)
        rt = Runtime(journal=journal, events=events)
        for n in range(40):
            rt.execute_sync(
                {"actions": [{"type": "state_write", "parameters": {"key": "k", "value": "x" * 500}}]},
                run_id=f"r{n}" if n else "r",
            )
        journal.close()
    return runs


def _each_says(runs: Runs, *words: str) -> None:
    children_ = [(c, runs.start(*c)) for c in COMMANDS]
    for command, process in children_:
        out, err = process.communicate(timeout=60)
        text = err.decode()
        assert process.returncode == 2, (command, out, text)
        assert out == b""
        lines = [line for line in text.splitlines() if not line.startswith("Run ")]
        assert len(lines) == 1, text
        assert lines[0].startswith(f"Error: The database {runs.url} ")
        assert any(each in text for each in words), text


def test_a_file_that_is_no_database_is_told_by_every_command(one_run: Runs) -> None:
    path = Path(one_run.url)
    path.write_bytes(b"not a database " * 1000)

    _each_says(one_run, "is no SQLite file")

    assert path.read_bytes() == b"not a database " * 1000


def test_a_damaged_file_is_told_by_every_command(one_run: Runs) -> None:
    path = Path(one_run.url)
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))

    _each_says(one_run, "is damaged", "is no SQLite file")


def test_a_newer_database_is_left_alone_by_every_command(one_run: Runs) -> None:
    one_run.sql("UPDATE schema_parts SET version = 99")

    _each_says(one_run, "tables of version 99")

    assert one_run.sql("SELECT count(*) FROM runs") == [(40,)]


def test_a_run_that_was_changed_by_hand_is_told(one_run: Runs) -> None:
    one_run.sql("UPDATE runs SET record = ? WHERE run_id = 'r'", '{"password": "hunter2hunter2"}')
    one_run.sql("UPDATE runs SET result = ? WHERE run_id = 'r1'", '{"outcome": "hunter2hunter2')

    for command in (("resume", "r"), ("runs", "show", "r"), ("resume", "r1"), ("runs", "show", "r1")):
        code, out, err = one_run.placet(*command)

        assert (code, out) == (2, "")
        assert "holds a run that cannot be read" in err
        assert "hunter2" not in err
    assert one_run.placet("runs")[0] == 0


AS_SOMEBODY_ELSE = """
import os, sys
from placet.cli.main import main
url = sys.argv[1]
commands = [["runs"], ["runs", "show", "r"], ["log", "show", "r"], ["explain", "r"], ["log", "query"]]
# Everything is loaded while we may read it.
before = [main([*c, "--db", url]) for c in commands]
sys.stdout.flush()
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
# Also what is theirs is elsewhere: anchors in the folder of the first one cannot even be looked at.
os.environ["XDG_DATA_HOME"] = os.getcwd()
print("now", flush=True)
writing = ["log", "prune", "--before", "2100-01-01"]
print([main([*c, "--db", url]) for c in commands], main([*writing, "--db", url]))
"""


def test_somebody_who_may_only_read_can_look_and_change_nothing(one_run: Runs) -> None:
    # Not below the folders of pytest: each run of it that begins closes them to others.
    with TemporaryDirectory() as folder:
        path = Path(shutil.copy(one_run.url, folder))
        changed = [(p, p.stat().st_mode) for p in path.parents if p.stat().st_mode & 0o005 != 0o005]
        for each, mode in changed:
            each.chmod(mode | 0o055)
        try:
            with closing(sqlite3.connect(path)) as owner:
                owner.execute("SELECT count(*) FROM runs").fetchone()
                for each in path.parent.glob("placet.db*"):
                    each.chmod(0o644)
                done = children.run(AS_SOMEBODY_ELSE, path, cwd=folder)
                runs = owner.execute("SELECT count(*) FROM runs").fetchall()
        finally:
            for each, mode in changed:
                each.chmod(mode)

    last = done.stdout.splitlines()[-1]
    assert last == "[0, 0, 0, 0, 0] 2", done.stdout[-3000:] + done.stderr
    assert "may be read but not written" in done.stderr
    assert runs == [(40,)]
