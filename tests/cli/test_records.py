"""What is kept of runs, as a person finds it again: `runs`, `log`, `explain RUN`, `resume`, and where."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placet import EventLog, Runtime, SqlEvents, SqlJournal
from placet.app.app import App, open_app
from placet.app.options import RunOptions
from placet.durable.memory import MemoryJournal
from placet.runtime.sync import run_sync
from placet.storage.location import open_database
from placet.tools.context import Cancel

Placet = Callable[..., Any]
Plan = Callable[..., Path]
Start = Callable[..., subprocess.Popen[bytes]]

LOOK = {"id": "a", "tool": "look", "parameters": {"what": "gold"}}
FAIL = {"id": "f", "tool": "fail", "parameters": {"text": "it is broken"}}
MARK = {"id": "m", "tool": "mark", "parameters": {"file": "trace"}}


def _execute(app: App, run_id: str, *actions: dict[str, Any], **more: Any) -> None:
    app.runtime.execute_sync(
        {"id": f"p-{run_id}", "source": "planner", "actions": list(actions)}, run_id=run_id, **more
    )


@pytest.fixture
def kept(tmp_path: Path, tools: Path) -> Path:
    """Where three runs are kept: one that succeeded, one that failed, one that was canceled."""
    path = tmp_path / "kept.db"
    with open_app(RunOptions(tools=str(tools)), db=str(path)) as app:
        _execute(app, "red-1", LOOK, {"id": "w", "type": "state_write", "parameters": {"key": "k"}})
        _execute(app, "red-2", FAIL)
        cancel = Cancel()
        cancel.cancel("enough")
        _execute(app, "blue", LOOK, cancel=cancel)
    return path


def _break_off(app: App, run_id: str, *actions: dict[str, Any], keep: int) -> None:
    """A run of which only the first notes are left, as after the death of its process."""
    assert app.records is not None
    memory = MemoryJournal()
    rt = app.runtime
    rt.events.remove_sink(app.records.events)
    rt._settings = rt._settings._replace(journal=memory)
    _execute(app, run_id, *actions)
    kept = memory._runs[run_id]

    async def copy() -> None:
        assert app.records is not None
        held = await app.records.journal.begin(kept.record)
        for note in kept.notes[:keep]:
            held.note(note)
        held.release()

    run_sync(copy())


@pytest.fixture
def interrupted(tmp_path: Path, tools: Path) -> Path:
    """A run that died while `m` was in flight; what it marked is not there."""
    path = tmp_path / "broken.db"
    after = {"id": "z", "tool": "mark", "parameters": {"file": "after"}, "dependencies": ["m"]}
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        with open_app(RunOptions(tools=str(tools)), db=str(path)) as app:
            _break_off(app, "night-7", MARK, after, keep=1)
    finally:
        os.chdir(here)
    (tmp_path / "trace").unlink()
    (tmp_path / "after").unlink()
    return path


# Where runs are kept


def _run_ids(path: Path) -> list[str]:
    if not path.exists():
        return []
    with sqlite3.connect(path) as connection:
        return [row[0] for row in connection.execute("SELECT run_id FROM runs ORDER BY begun")]


def test_an_id_is_used_once(quick: Placet, plan: Plan, tools: Path, tmp_path: Path) -> None:
    arguments = ("run", plan(MARK), "--tools", tools, "--db", "my.db", "--run-id", "nightly")

    first, second = quick(*arguments), quick(*arguments, "--json")

    assert first.code == 0
    assert "story: placet explain nightly" in first.out
    assert second.code == 2
    assert second.json["error"]["code"] == "run.exists"
    assert "placet resume nightly" in second.json["error"]["message"]
    assert (tmp_path / "trace").read_text() == "marked\n"
    assert _run_ids(tmp_path / "my.db") == ["nightly"]


@pytest.mark.parametrize("run_id", ["", "a\x1b[31mb", "x" * 201])
def test_an_id_that_cannot_be_shown_is_refused_before_anything_runs(
    quick: Placet, plan: Plan, tools: Path, tmp_path: Path, run_id: str
) -> None:
    done = quick("run", plan(MARK), "--tools", tools, "--db", "my.db", "--run-id", run_id)

    assert done.code == 2
    assert ("cannot be the id of a run" if run_id else "'--run-id': it is empty") in done.err
    assert not (tmp_path / "trace").exists()
    assert "\x1b" not in done.out + done.err


@pytest.mark.parametrize(
    ("db", "words"),
    [
        ("", "'--db': it is empty"),
        ("none", "'none' keeps nothing, so there is nothing to look at; name a database."),
    ],
)
def test_nothing_can_be_looked_for_nowhere(quick: Placet, db: str, words: str) -> None:
    for command in (("runs",), ("log", "query"), ("explain", "x"), ("resume", "x")):
        done = quick(*command, "--db", db)

        assert (done.code, done.out) == (2, "")
        assert words in done.err
    if db:
        assert words in quick("runs", PLACET_DB=db).err


def test_a_database_of_a_program_that_keeps_only_one_of_the_two_is_looked_at(
    quick: Placet, tmp_path: Path
) -> None:
    plan = {"actions": [{"id": "w", "type": "state_write", "parameters": {"key": "k"}}]}
    with open_database(str(tmp_path / "events.db")) as database:
        Runtime(events=EventLog(sinks=[SqlEvents(database)])).execute_sync(plan, run_id="r1")
    with open_database(str(tmp_path / "runs.db")) as database:
        Runtime(journal=SqlJournal(database)).execute_sync(plan, run_id="r2")

    assert "It succeeded" in quick("explain", "r1", "--db", "events.db").out
    assert "action_succeeded" in quick("log", "query", "--run", "r1", "--db", "events.db", "--json").out
    assert "✓ succeeded" in quick("runs", "show", "r2", "--db", "runs.db").out


def test_what_is_written_is_not_written_over_the_database(
    quick: Placet, kept: Path, plan: Plan, tools: Path, tmp_path: Path
) -> None:
    before = kept.read_bytes()
    (tmp_path / "link").symlink_to(kept)
    for arguments in (
        ("log", "export", "-o", "link", "--db", kept),
        ("log", "export", "-o", f"{kept}-wal", "--db", f"sqlite://{kept}"),
        ("run", plan(MARK), "--tools", tools, "--svg", kept, "--db", "kept.db"),
        ("run", plan(MARK), "--tools", tools, "--log", "new.db", "--db", "new.db"),
    ):
        done = quick(*arguments)

        assert done.code == 2
        assert "would write over the database" in done.err
    assert kept.read_bytes() == before
    assert not (tmp_path / "trace").exists()
    assert not (tmp_path / "new.db").exists()


def test_a_run_can_be_kept_nowhere(quick: Placet, plan: Plan, tools: Path, tmp_path: Path) -> None:
    done = quick(
        "run", plan(FAIL), "--tools", tools, "--db", "none", "--run-id", "x\x1b", XDG_DATA_HOME=str(tmp_path)
    )

    assert done.code == 1
    assert "run it with --log FILE.jsonl" in done.out
    assert "\x1b" not in done.out + done.err
    assert not list(tmp_path.rglob("*.db"))


def test_where_runs_are_kept_by_default(quick: Placet, plan: Plan, tmp_path: Path) -> None:
    """The option, then PLACET_DB, then the project's folder, then one's own; looking makes nothing."""
    write = plan({"id": "w", "type": "state_write", "parameters": {"key": "k"}})
    share = tmp_path / "share"
    own = {"XDG_DATA_HOME": str(share)}

    nothing = quick("runs", **own)
    assert (nothing.code, nothing.out) == (0, "")
    assert not share.exists()

    assert quick("run", write, "--run-id", "r1", **own).code == 0
    project = tmp_path / ".placet"
    project.mkdir()
    assert quick("run", write, "--run-id", "r2", **own).code == 0
    assert quick("run", write, "--run-id", "r3", **own, PLACET_DB="named.db").code == 0
    assert quick("run", write, "--run-id", "r4", "--db", "given.db", **own, PLACET_DB="named.db").code == 0

    assert _run_ids(share / "placet" / "placet.db") == ["r1"]
    assert _run_ids(project / "data" / "placet.db") == ["r2"]
    assert _run_ids(tmp_path / "named.db") == ["r3"]
    assert _run_ids(tmp_path / "given.db") == ["r4"]
    assert [r["run_id"] for r in quick("runs", "--json", **own).json["runs"]] == ["r2"]


def test_the_project_is_found_from_a_folder_in_it(quick: Placet, plan: Plan, tmp_path: Path) -> None:
    (tmp_path / ".placet").mkdir()
    write = plan({"id": "w", "type": "state_write", "parameters": {"key": "k"}})
    assert quick("run", write, "--run-id", "red-1").code == 0
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)

    done = quick("runs", cwd=deep)

    assert done.code == 0
    assert "red-1" in done.out


COMMANDS = [
    ("runs",),
    ("runs", "show", "red-1"),
    ("runs", "prune", "--before", "2000-01-01"),
    ("log",),
    ("log", "query"),
    ("log", "verify"),
    ("log", "export"),
    ("explain", "red-1"),
    ("approvals",),
    ("approvals", "show", "x"),
    ("approvals", "approve", "x", "--by", "ann"),
    ("resume", "blue"),
]


def test_a_database_that_came_with_the_folder_is_refused_by_every_command(
    quick: Placet, kept: Path, plan: Plan, tools: Path, tmp_path: Path
) -> None:
    theirs = tmp_path / ".placet" / "data" / "placet.db"
    theirs.parent.mkdir(parents=True)
    kept.rename(theirs)
    before = theirs.read_bytes()

    for arguments in (*COMMANDS, ("run", plan(MARK), "--tools", tools)):
        done = quick(*arguments)

        assert done.code == 2, arguments
        assert "was not made by you on this machine: it may have come with the folder" in done.err, arguments
        assert f"--db {theirs}" in done.err
    assert theirs.read_bytes() == before
    assert not (tmp_path / "trace").exists()

    for named in ({"PLACET_DB": str(theirs)}, {}):
        option = () if named else ("--db", str(theirs))
        assert quick("runs", "show", "red-1", *option, **named).code == 0
    assert quick("run", plan(MARK), "--tools", tools, "--db", "none").code == 0
    theirs.rename(tmp_path / "away.db")
    assert quick("run", plan(MARK), "--tools", tools, "--run-id", "new").code == 0
    assert _run_ids(theirs) == ["new"]


def test_a_run_kept_in_a_project_is_resumed_also_from_elsewhere(
    start: Start, quick: Placet, plan: Plan, tools: Path, tmp_path: Path
) -> None:
    """Its process is killed, so the log of the database is left beside it."""
    (tmp_path / ".placet").mkdir()
    after = {"id": "s", "tool": "wait", "parameters": {"seconds": 60}, "dependencies": ["a"]}
    for name in ("r1", "r2"):
        process = start("run", plan(LOOK, after), "--tools", tools, "--run-id", name)
        assert process.stderr is not None
        assert any("s started" in line.decode() for line in process.stderr)
        process.kill()
        process.communicate(timeout=30)
    database = tmp_path / ".placet" / "data" / "placet.db"
    assert Path(f"{database}-wal").stat().st_size > 0
    tools.write_text(tools.read_text().replace("asyncio.sleep(seconds)", "asyncio.sleep(0)"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    listed = quick("runs", "--json")
    here = quick("resume", "r1", "--tools", tools)
    there = quick("resume", "r2", "--db", str(database), "--tools", tools, cwd=elsewhere)

    assert [r["status"] for r in listed.json["runs"]] == ["interrupted", "interrupted"]
    assert (here.code, there.code) == (0, 0), here.err + there.err
    assert [r["status"] for r in quick("runs", "--json").json["runs"]] == ["succeeded", "succeeded"]


def test_an_approval_that_came_with_the_folder_approves_nothing(
    quick: Placet, plan: Plan, tools: Path, tmp_path: Path
) -> None:
    """Somebody else has begun a run with their own code and approved it; the folder is handed on."""
    (tmp_path / "p" / ".placet").mkdir(parents=True)
    (tmp_path / "p" / "theirs.py").write_text(tools.read_text() + "\nopen('ran', 'w').close()\n")
    theirs = {"XDG_DATA_HOME": str(tmp_path / "theirs"), "cwd": tmp_path / "p"}
    asking = ("--permissions", "read_only", "--run-id", "fix", "--json")
    assert quick("run", plan(MARK), "--tools", "theirs.py", *asking, **theirs).code == 4
    [question] = quick("approvals", "--json", **theirs).json["approvals"]
    assert quick("approvals", "approve", question["id"], "--by", "ann", **theirs).code == 0
    (tmp_path / "p" / "ran").unlink()

    done = quick("resume", "fix", cwd=tmp_path / "p")

    assert done.code == 2
    assert "was not made by you on this machine" in done.err
    assert not (tmp_path / "p" / "ran").exists()
    assert not (tmp_path / "p" / "trace").exists()
    assert quick("resume", "fix", **theirs).code == 0
    assert (tmp_path / "p" / "trace").exists()


def test_runs_can_be_kept_on_a_server(quick: Placet, plan: Plan, tools: Path, postgres_url: str) -> None:
    ran = quick("run", plan(MARK), "--tools", tools, "--db", postgres_url, "--run-id", "r")
    listed = quick("runs", "--db", postgres_url, "--json")
    told = quick("explain", "r", PLACET_DB=postgres_url)
    verified = quick("log", "verify", "--db", postgres_url)

    assert [ran.code, listed.code, told.code, verified.code] == [0, 0, 0, 0]
    assert listed.json["runs"][0]["status"] == "succeeded"
    assert "It succeeded" in told.out


def test_a_server_that_is_not_there_is_told_without_the_password(
    quick: Placet, plan: Plan, tools: Path, tmp_path: Path
) -> None:
    url = "postgresql://me:hunter2hunter2@127.0.0.1:1/placet"

    for arguments in (
        ("run", plan(MARK), "--tools", tools),
        ("resume", "r"),
        ("runs", "--json"),
        ("log",),
        ("explain", "r"),
    ):
        done = quick(*arguments, "--db", url)

        assert done.code == 2
        assert "127.0.0.1" in done.out + done.err
        assert "hunter2hunter2" not in done.out + done.err
        assert "Traceback" not in done.err
    assert not (tmp_path / "trace").exists()


# runs


def test_runs_are_listed(quick: Placet, kept: Path) -> None:
    table = quick("runs", "--all", "--db", kept)
    newest = quick("runs", "list", "--all", "--db", kept, "--limit", "1", "--json")
    aborted = quick("runs", "--all", "--db", kept, "--status", "aborted", "--json")
    none = quick("runs", "--db", kept, "--status", "waiting")

    lines = table.out.splitlines()
    assert [line.split()[0] for line in lines] == ["run", "blue", "red-2", "red-1"]
    assert "✗ aborted" in lines[2]
    assert "planner" in lines[2]
    assert [r["run_id"] for r in newest.json["runs"]] == ["blue"]
    assert newest.json["runs"][0]["status"] == "canceled"
    assert set(newest.json["runs"][0]) == {
        "nonzero",
        "run_id",
        "proposal_id",
        "source",
        "tenant",
        "actions",
        "status",
        "begun",
        "ended",
        "holder",
        "parent",
        "folder",
    }
    assert [r["run_id"] for r in aborted.json["runs"]] == ["red-2"]
    assert (none.code, none.out) == (0, "")
    assert "No run in" in none.err
    assert quick("runs", "--db", kept, "--status", "odd").code == 2
    assert quick("runs", "--db", kept, "--limit", "0").code == 2


def test_a_run_that_succeeded_says_so_once(quick: Placet, kept: Path) -> None:
    shown = quick("runs", "show", "red-1", "--db", kept)

    assert shown.code == 0
    assert [line.startswith("✓ succeeded") for line in shown.out.splitlines()].count(True) == 1
    assert shown.out.startswith("begun ")
    assert "PLAN.json" not in shown.out


def test_a_run_is_shown(quick: Placet, kept: Path, interrupted: Path) -> None:
    plain = quick("runs", "show", "red-2", "--db", kept)
    data = quick("runs", "show", "red-1", "--db", kept, "--json").json
    broken = quick("runs", "show", "night", "--db", interrupted)
    unknown = quick("runs", "show", "green", "--db", kept)
    several = quick("runs", "show", "red", "--db", kept)

    assert plain.code == 0
    assert "✗ aborted" in plain.out
    assert "it is broken" in plain.out
    assert (data["status"], data["result"]["outcome"], data["holder"]) == ("succeeded", "succeeded", None)
    assert [r["action_id"] for r in data["result"]["results"]] == ["a", "w"]
    assert "? interrupted  run night-7" in broken.out
    assert "running" not in broken.out
    assert f"To go on where it stood:\n  placet resume night-7 --db {interrupted}\n" in broken.out
    assert (unknown.code, several.code) == (2, 2)
    assert "There is no run 'green'" in unknown.err
    assert "Several runs begin with 'red': 'red-2', 'red-1'" in several.err


# log


def test_the_log_shows_a_run(quick: Placet, kept: Path) -> None:
    newest = quick("log", "--db", kept)
    one = quick("log", "show", "red-2", "--db", kept, "--json").json["events"]
    unknown = quick("log", "show", "green", "--db", kept)

    assert newest.code == 0
    assert "canceled" in newest.out
    assert {e["run_id"] for e in one} == {"red-2"}
    assert (one[0]["kind"], one[-1]["kind"]) == ("proposal_received", "run_ended")
    assert unknown.code == 2


def test_the_log_can_be_searched(quick: Placet, kept: Path) -> None:
    def found(*filters: str) -> list[dict[str, Any]]:
        done = quick("log", "query", *filters, "--db", kept, "--json")
        assert done.code == 0, done.err
        events: list[dict[str, Any]] = done.json["events"]
        return events

    every = found()
    trace = every[0]["trace_id"]
    assert {e["run_id"] for e in every} == {"red-1", "red-2", "blue"}
    assert {e["kind"] for e in found("--kind", "action_failed", "--kind", "state_changed")} == {
        "action_failed",
        "state_changed",
    }
    assert {e["run_id"] for e in found("--run", "bl")} == {"blue"}
    assert {e["trace_id"] for e in found("--trace", trace)} == {trace}
    assert {e["proposal_id"] for e in found("--proposal", "p-red-2")} == {"p-red-2"}
    assert {e["action_id"] for e in found("--action", "f")} == {"f"}
    assert {e["data"]["tool"] for e in found("--tool", "fail")} == {"fail"}
    assert found("--tenant", "acme") == []
    assert found("--until", "2020-01-01") == []
    assert found("--since", "1h") == every
    assert found("--limit", "2") == every[-2:]
    assert found("--run", "red-1", "--kind", "action_failed") == []


def test_what_is_no_moment_or_run_is_told(quick: Placet, kept: Path) -> None:
    moment = quick("log", "query", "--since", "yesterday", "--db", kept)
    run = quick("log", "query", "--run", "green", "--db", kept)
    limited = quick("log", "query", "--limit", "1", "--db", kept)

    assert moment.code == 2
    assert "is no moment" in moment.err
    assert run.code == 2
    assert "green" in run.err
    assert "Only the newest 1 are shown" in limited.err


def test_the_end_of_the_log_is_shown(quick: Placet, kept: Path) -> None:
    two = quick("log", "tail", "-n", "2", "--db", kept, "--json")
    none = quick("log", "tail", "-n", "0", "--db", kept)

    events = [json.loads(line) for line in two.out.splitlines()]
    assert [e["kind"] for e in events][-1] == "run_ended"
    assert len(events) == 2
    assert (none.code, none.out) == (0, "")


def test_the_log_is_followed_until_ctrl_c(start: Start, kept: Path, tools: Path) -> None:
    follower = start("log", "tail", "-n", "1", "--follow", "--json", "--db", kept)
    assert follower.stdout is not None
    first = json.loads(follower.stdout.readline())

    with open_app(RunOptions(tools=str(tools)), db=str(kept)) as app:
        _execute(app, "later", LOOK)
    kinds = []
    while not kinds or kinds[-1] != "run_ended":
        event = json.loads(follower.stdout.readline())
        assert event["run_id"] == "later"
        kinds.append(event["kind"])
    follower.send_signal(signal.SIGINT)
    out, err = follower.communicate(timeout=30)

    assert first["run_id"] == "blue"
    assert kinds[0] == "proposal_received"
    assert follower.returncode == 130
    assert out == b""
    assert b"Traceback" not in err


def test_the_log_is_exported_and_read_back(quick: Placet, kept: Path, tmp_path: Path) -> None:
    whole = quick("log", "export", "--db", kept)
    part = quick("log", "export", "--db", kept, "--run", "red-2", "-o", "part.jsonl")
    told = quick("explain", "part.jsonl")
    nowhere = quick("log", "export", "--db", kept, "-o", "missing/part.jsonl")

    events = [json.loads(line) for line in whole.out.splitlines()]
    assert {e["run_id"] for e in events} == {"red-1", "red-2", "blue"}
    assert part.out == ""
    assert "written to part.jsonl" in part.err
    assert told.code == 0
    assert "It was aborted: action 'f' failed: it is broken" in told.out
    assert nowhere.code == 2
    assert not list(tmp_path.glob(".*.part"))


def test_a_changed_record_is_named(quick: Placet, kept: Path, tmp_path: Path) -> None:
    fine = quick("log", "verify", "--db", kept)
    as_json = quick("log", "verify", "--db", kept, "--json")
    with sqlite3.connect(kept) as connection:
        connection.execute("UPDATE events SET kind = 'action_succeeded' WHERE kind = 'action_failed'")
        (position,) = connection.execute(
            "SELECT position FROM events WHERE run_id = 'red-2' AND kind = 'action_succeeded'"
        ).fetchone()

    changed = quick("log", "verify", "--db", kept)
    found = quick("log", "verify", "--db", kept, "--json")

    assert fine.code == 0
    assert "nothing was changed" in fine.out
    assert as_json.json["valid"] is True
    assert changed.code == 1
    assert "edited" in changed.out
    assert str(position) in changed.out
    assert found.code == 1
    assert [f["position"] for f in found.json["findings"]] == [position]


def test_old_records_are_dropped_on_purpose(quick: Placet, kept: Path) -> None:
    nothing = quick("log", "prune", "--before", "1d", "--db", kept)
    some = quick("log", "prune", "--before", "2100-01-01", "--db", kept, "--json")
    verified = quick("log", "verify", "--db", kept)
    missing = quick("log", "prune", "--db", kept)

    assert "Nothing is that old." in nothing.out
    assert some.json["dropped"] > 5
    assert verified.code == 0
    assert "dropped on purpose" in verified.out
    assert missing.code == 2


def test_old_runs_are_dropped_and_those_that_can_be_resumed_stay(quick: Placet, kept: Path) -> None:
    nothing = quick("runs", "prune", "--before", "1d", "--db", kept)
    some = quick("runs", "prune", "--before", "2100-01-01", "--db", kept, "--json")
    left = quick("runs", "--all", "--db", kept, "--json")

    assert (nothing.code, nothing.out) == (0, "No run ended before that.\n")
    assert some.json == {"dropped": 2}
    assert [run["run_id"] for run in left.json["runs"]] == ["blue"], "it was canceled, so it can be resumed"


def test_a_log_whose_anchor_is_gone_is_not_called_changed(quick: Placet, kept: Path, tmp_path: Path) -> None:
    done = quick("log", "verify", "--db", kept, "--anchor", tmp_path / "elsewhere")

    assert done.code == 1
    assert "records checked: the chain is whole, but its head cannot be checked." in done.out
    assert "Compare with a backup" not in done.out


def test_a_kind_that_no_event_has_is_a_slip_of_the_pen(quick: Placet, kept: Path) -> None:
    for command in ("query", "tail", "export"):
        done = quick("log", command, "--kind", "action_failde", "--db", kept)

        assert done.code == 2
        assert "Did you mean 'action_failed'?" in done.err
    assert quick("log", "query", "--kind", "turn_began", "--db", kept).code == 0


def test_costs_are_added_up_by_source(quick: Placet, kept: Path) -> None:
    plain = quick("log", "costs", "--db", kept)
    data = quick("log", "costs", "--db", kept, "--json").json

    assert plain.out.splitlines()[1].split()[:3] == ["planner", "3", "2"]
    [planner] = data["costs"]
    assert (planner["agent"], planner["runs"], planner["tool_calls"]) == ("planner", 3, 2)
    assert planner["cost_usd"] is None


# explain


def test_a_run_is_told_by_its_id(quick: Placet, kept: Path, interrupted: Path) -> None:
    whole = quick("explain", "red-2", "--db", kept)
    prefix = quick("explain", "bl", "--db", kept, "--json")
    unknown = quick("explain", "green", "--db", kept)
    several = quick("explain", "red", "--db", kept)

    assert "It was aborted" in whole.out
    assert prefix.json["run_id"] == "blue"
    assert (unknown.code, several.code) == (2, 2)
    assert "There is no run 'green'" in unknown.err
    assert unknown.err.startswith("Error: No file is called 'green'. There is no run 'green' in ")
    assert unknown.err.endswith(". See: placet runs\n")
    assert "Several runs begin with 'red'" in several.err


def test_a_run_without_events_is_not_told_as_one_in_which_nothing_happened(
    quick: Placet, interrupted: Path
) -> None:
    for command in (("explain",), ("log", "show")):
        done = quick(*command, "night", "--db", interrupted)

        assert (done.code, done.out) == (2, "")
        assert "Run 'night-7' is kept, but none of its events are" in done.err
        assert f"See: placet runs show night-7 --db {interrupted}\n" in done.err


# resume


def _resume(quick: Placet, interrupted: Path, *arguments: str | Path) -> Any:
    return quick("resume", "night-7", "--db", interrupted, *arguments)


def test_a_run_waits_for_a_decision_and_then_goes_on(
    quick: Placet, interrupted: Path, tmp_path: Path
) -> None:
    waits = _resume(quick, interrupted)
    again = _resume(quick, interrupted, "--json")
    decided = _resume(quick, interrupted, "--decide", 'm=done:{"k": "=done:"}', "--json")
    ended = _resume(quick, interrupted, "--json")
    too_late = _resume(quick, interrupted, "--decide", "m=retry")

    assert waits.code == 4
    assert f"placet resume night-7 --db {interrupted} --decide m=CHOICE" in waits.out
    assert f"story: placet explain night-7 --db {interrupted}\n" in waits.out
    assert again.code == 4
    assert [w["action_id"] for w in again.json["waiting"]] == ["m"]
    assert decided.code == 0
    assert decided.json["results"][0]["output"] == {"k": "=done:"}
    assert (tmp_path / "after").read_text() == "marked\n"
    assert not (tmp_path / "trace").exists(), "it was said to be done"
    assert ended.code == 0
    assert ended.json["results"] == decided.json["results"]
    assert ended.json["state"] == decided.json["state"] == {}
    assert too_late.code == 2
    assert "has ended" in too_late.err


@pytest.mark.parametrize(
    ("choice", "code", "traces"), [("retry", 0, ["after", "trace"]), ("fail", 1, [])], ids=["retry", "fail"]
)
def test_other_decisions(
    quick: Placet, interrupted: Path, tmp_path: Path, choice: str, code: int, traces: list[str]
) -> None:
    done = _resume(quick, interrupted, "--decide", f"m={choice}")

    assert done.code == code
    assert [n for n in ("after", "trace") if (tmp_path / n).exists()] == traces


def test_a_decision_that_means_nothing_changes_nothing(quick: Placet, interrupted: Path) -> None:
    for said in ("m", "m=", "=done", "m=maybe", "m=retry:5", "m=done:{", "m=done:", "x=done", "m=DONE"):
        done = _resume(quick, interrupted, "--decide", said)

        assert done.code == 2, said
        assert done.out == ""
        assert "Traceback" not in done.err
        if said == "x=done":
            assert "does not wait for a decision about 'x'. It waits for 'm' (0-0)." in done.err
    twice = _resume(quick, interrupted, "--decide", "m=done", "--decide", "m=done", "--decide", "m=retry")
    assert twice.code == 2
    assert "two things about 'm'" in twice.err
    with open_database(str(interrupted)) as database:
        rows = database.read(lambda t: t.execute("SELECT count(*) FROM journal"))
    assert rows == [(1,)]


def test_other_tools_and_changed_tools(quick: Placet, interrupted: Path, tools: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text(tools.read_text().replace('"marked"', '"marked otherwise"'))
    tools.write_text(tools.read_text() + "\n# changed\n")

    changed = _resume(quick, interrupted, "--decide", "m=retry")
    done = _resume(quick, interrupted, "--tools", other, "--decide", "m=retry", "--json")

    assert changed.code == 2
    assert (
        f"{tools} is not what it was when the run began. Look at it, then name it: placet resume"
        in changed.err
    )
    assert done.code == 0
    assert done.json["results"][0]["output"] == "marked otherwise"


def test_tools_that_are_gone_are_told_and_the_run_stays(
    quick: Placet, interrupted: Path, tools: Path
) -> None:
    text = tools.read_text()
    tools.unlink()

    gone = _resume(quick, interrupted)
    tools.write_text(text)

    assert gone.code == 2
    assert "tools.py" in gone.err
    assert _resume(quick, interrupted, "--decide", "m=done").code == 0


def test_an_unknown_run_cannot_be_resumed(quick: Placet, kept: Path, tmp_path: Path) -> None:
    unknown = quick("resume", "green", "--db", kept)
    nothing = quick("resume", "green", "--db", "new.db", "--json")

    assert unknown.code == 2
    assert "There is no run 'green'" in unknown.err
    assert nothing.code == 2
    assert nothing.json["error"]["code"] == "storage.unavailable"
    assert not (tmp_path / "new.db").exists()


def test_a_canceled_run_is_resumed(quick: Placet, kept: Path) -> None:
    done = quick("resume", "blue", "--db", kept, "--json")

    assert done.code == 0
    assert done.json["results"][0]["output"] == "found gold"


def test_ctrl_c_leaves_a_run_that_can_be_resumed(
    start: Start, quick: Placet, plan: Plan, tools: Path, tmp_path: Path
) -> None:
    path = plan(MARK, {"id": "s", "tool": "wait", "parameters": {"seconds": 60}, "dependencies": ["m"]})
    process = start("run", path, "--tools", tools, "--db", "my.db", "--run-id", "r")
    while not (tmp_path / "trace").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    tools.write_text(tools.read_text().replace("asyncio.sleep(seconds)", "asyncio.sleep(0)"))

    done = quick("resume", "r", "--tools", tools, "--db", "my.db", "--json")

    assert process.returncode == 130
    assert b"\n  go on: placet resume r --db my.db\n" in out
    assert done.code == 0, done.err
    assert (tmp_path / "trace").read_text() == "marked\n"


def test_done_must_say_what_others_use(quick: Placet, tools: Path, tmp_path: Path) -> None:
    path = tmp_path / "used.db"
    after = {"id": "z", "tool": "mark", "parameters": {"file": "$m.output"}}
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        with open_app(RunOptions(tools=str(tools)), db=str(path)) as app:
            _break_off(app, "night-7", MARK, after, keep=1)
    finally:
        os.chdir(here)

    refused = _resume(quick, path, "--decide", "m=done")
    said = _resume(quick, path, "--decide", 'm=done:"other"')

    assert refused.code == 2
    assert "'done' must say what it was: 'm=done:JSON'" in refused.err
    assert said.code == 0
    assert (tmp_path / "other").exists()


def test_a_log_that_was_replaced_is_an_alarm_until_a_person_accepts_it(
    quick: Placet, plan: Plan, tools: Path, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"
    for run in ("one", "two"):
        assert quick("run", plan(LOOK), "--tools", tools, "--run-id", run, "--db", path).code == 0
    assert quick("log", "verify", "--db", path).code == 0
    for name in ("runs.db", "runs.db-wal", "runs.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    assert quick("run", plan(LOOK), "--tools", tools, "--run-id", "three", "--db", path).code == 0

    found = quick("log", "verify", "--db", path, "--json")
    accepted = quick("log", "accept", "--db", path, "--json")
    after = quick("log", "verify", "--db", path, "--json")

    assert found.code == 1
    assert [each["kind"] for each in json.loads(found.out)["findings"]] == ["replaced"]
    assert accepted.code == 0
    assert [each["kind"] for each in json.loads(accepted.out)["accepted"]] == ["replaced"]
    assert after.code == 0
    assert json.loads(after.out)["anchored"]


def _drop_tables(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        for table in ("events", "events_head", "events_segments"):
            connection.execute(f"DROP TABLE {table}")


def _drop_tables_and_their_version(path: Path) -> None:
    _drop_tables(path)
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM schema_parts WHERE part = 'events'")


def _empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("remove", [_drop_tables, _drop_tables_and_their_version, _empty, Path.unlink])
def test_a_log_that_is_gone_is_an_alarm_and_not_a_database_without_one(
    quick: Placet, kept: Path, tmp_path: Path, remove: Callable[[Path], None]
) -> None:
    remove(kept)

    found = quick("log", "verify", "--db", kept, "--json")
    elsewhere = quick("log", "verify", "--db", tmp_path / "never.db")

    assert found.code == 1
    assert [each["kind"] for each in found.json["findings"]] == ["removed"]
    assert elsewhere.code == 2


def test_a_log_behind_a_link_is_an_alarm_if_it_was_replaced(
    quick: Placet, plan: Plan, tools: Path, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"
    for run in ("one", "two"):
        assert quick("run", plan(LOOK), "--tools", tools, "--run-id", run, "--db", path).code == 0
        path.rename(tmp_path / ".moved.db")
        if run == "two":
            path.symlink_to(".moved.db")

    found = quick("log", "verify", "--db", path, "--json")

    assert found.code == 1
    assert [each["kind"] for each in found.json["findings"]] == ["replaced"]
