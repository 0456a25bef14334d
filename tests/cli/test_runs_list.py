"""`placet runs` and `placet code list`: which are listed, in which order, and how that looks."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placet import Runtime, SqlJournal, open_database
from placet.render.runs import draw_runs
from tests.cli.conftest import environment, warm_command
from tests.cli.test_code import CHECK, write
from tests.cli.test_code import Desk as CodeDesk
from tests.cli.test_loop import REPORTED
from tests.cli.test_loop import Desk as LoopDesk

Placet = Callable[..., Any]

WRITE = {"id": "w", "type": "state_write", "parameters": {"key": "k", "value": 1}}


def on_terminal(width: int, cwd: Path, *arguments: str, **env: str) -> list[str]:
    """What a command prints on a terminal of so many columns, line by line, without colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    done = subprocess.Popen(
        warm_command(*arguments),
        cwd=cwd,
        env={**environment(**env), "NO_COLOR": "1", "TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            some = os.read(ours, 65536)
        except OSError:  # The other end is closed.
            break
        if not some:
            break
        said += some
    os.close(ours)
    assert done.wait(60) == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", said.decode())
    return plain.replace("\r\n", "\n").splitlines()


def ids(done: Any) -> list[str]:
    assert done.code == 0, done.err
    return [run["run_id"] for run in done.json["runs"]]


@pytest.fixture
def folders(placet: Placet, tmp_path: Path) -> Path:
    """A project with a folder in it, and another project; all their runs in one database."""
    for name in ("here/.git", "here/deep", "there"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "plan.json").write_text(json.dumps({"actions": [WRITE]}))
    for name in ("here", "here/deep", "there"):
        ran = placet(
            *("run", tmp_path / "plan.json", "--run-id", name.replace("/", "-")),
            cwd=tmp_path / name,
            PLACET_DB=str(tmp_path / "all.db"),
        )
        assert ran.code == 0, ran.err
    return tmp_path


# Which


@pytest.mark.parametrize("db", ["option", "variable"])
def test_the_runs_of_this_project_are_listed_and_how_many_are_elsewhere(
    placet: Placet, folders: Path, db: str
) -> None:
    named = ("--db", str(folders / "all.db")) if db == "option" else ()
    env = {} if db == "option" else {"PLACET_DB": str(folders / "all.db")}

    here = placet("runs", *named, cwd=folders / "here" / "deep", **env)
    data = placet("runs", *named, "--json", cwd=folders / "here" / "deep", **env)
    every = placet("runs", *named, "--all", "--json", cwd=folders / "here", **env)
    nothing = placet("runs", *named, cwd=folders, **{**env})

    assert [line.split()[0] for line in here.out.splitlines()] == ["run", "here-deep", "here"]
    assert here.err == "1 more in other folders: --all\n"
    assert ids(data) == ["here-deep", "here"]
    assert data.json["elsewhere"] == 1
    assert data.json["runs"][1]["folder"] == str(folders / "here")
    assert ids(every) == ["there", "here-deep", "here"]
    assert every.json["elsewhere"] == 0
    assert len(nothing.out.splitlines()) == 4, "all are below it"


def test_where_nothing_is_listed_it_says_what_there_is(placet: Placet, folders: Path) -> None:
    empty = folders / "empty"
    empty.mkdir()

    done = placet("runs", cwd=empty, PLACET_DB=str(folders / "all.db"))

    assert (done.code, done.out) == (0, "")
    assert "3 in other folders: --all" in done.err


def test_a_folder_can_be_named(placet: Placet, folders: Path) -> None:
    env = {"PLACET_DB": str(folders / "all.db")}

    assert ids(placet("runs", "--folder", "there", "--json", **env)) == ["there"]
    assert ids(placet("runs", "--folder", "here", "--json", cwd=folders, **env)) == ["here-deep", "here"]
    assert ids(placet("runs", "--folder", "here/deep", "--status", "succeeded", "--json", **env)) == [
        "here-deep"
    ]
    assert placet("runs", "--folder", "here", "--all", **env).code == 2


def test_a_time_range_can_be_given(placet: Placet, folders: Path) -> None:
    env = {"PLACET_DB": str(folders / "all.db")}

    assert len(ids(placet("runs", "--since", "1h", "--json", **env))) == 3
    assert ids(placet("runs", "--since", "2100-01-01", "--json", **env)) == []
    assert ids(placet("runs", "--until", "1h", "--json", **env)) == []
    assert placet("runs", "--since", "soon", **env).code == 2


def test_runs_of_a_program_belong_to_no_folder_and_are_always_listed(placet: Placet, tmp_path: Path) -> None:
    with open_database(str(tmp_path / "all.db")) as database:
        Runtime(journal=SqlJournal(database)).execute_sync({"actions": [WRITE]}, run_id="by-program")

    listed = placet("runs", "--db", "all.db", "--json").json

    assert [(run["run_id"], run["folder"]) for run in listed["runs"]] == [("by-program", None)]
    assert ids(placet("runs", "--db", "all.db", "--folder", ".", "--json")) == []


# Sub-runs


def parents(done: Any) -> dict[str, str | None]:
    return {run["run_id"]: run["parent"] for run in done.json["runs"]}


def test_the_turns_of_the_coder_are_under_their_session(placet: Placet, tmp_path: Path) -> None:
    desk = CodeDesk(tmp_path, placet)
    model = desk.script(write(text="left\n"), "Left.", write(), "Done.")
    desk.code("make a right", "--check", CHECK, "--model", model)
    id = desk.session()["id"]

    listed = desk.run("runs", "--db", desk.db, "--json")
    shown = desk.run("runs", "--db", desk.db).out.splitlines()
    one = desk.run("runs", "show", id, "--db", desk.db)

    assert parents(listed) == {id: None, f"{id}.1.1": id, f"{id}.1.2": id}
    assert ids(listed) == [id, f"{id}.1.1", f"{id}.1.2"]
    assert [line.split()[0] for line in shown[1:]] == ids(listed)
    assert [len(line) - len(line.lstrip()) for line in shown[1:]] == [0, 2, 2]
    assert f"{id}.1.2" in one.out
    assert [
        run["run_id"] for run in desk.run("runs", "show", id, "--db", desk.db, "--json").json["started"]
    ] == [
        f"{id}.1.1",
        f"{id}.1.2",
    ]


def test_maker_and_checker_are_under_their_round(placet: Placet, tmp_path: Path) -> None:
    desk = LoopDesk(tmp_path, placet)
    desk.put("tidy")
    assert desk.loop("run", "tidy", "--model", desk.script(*REPORTED)).code == 0
    [round] = desk.data("log")["rounds"]
    id = round["id"]

    listed = desk.run("runs", "--db", desk.db, "--json")

    assert parents(listed) == {id: None, f"{id}.maker": id, f"{id}.checker": id}


# How it looks


LONG = "mend the test that fails since the clock went back an hour in autumn, " + "and say why " * 9 + "once"


@pytest.fixture
def many(placet: Placet, tmp_path: Path) -> Path:
    """Runs with ids and tasks of any length."""
    (tmp_path / "plan.json").write_text(json.dumps({"actions": [WRITE]}))
    (tmp_path / "script.json").write_text(json.dumps({"turns": ["Done."]}))
    for name in ("short", "a-name-" + "x" * 60):
        assert placet("run", "plan.json", "--db", "all.db", "--run-id", name).code == 0
    for _ in range(2):
        assert placet("do", LONG, "--model", "scripted:script.json", "--db", "all.db").code == 0
    return tmp_path


@pytest.mark.parametrize("width", [80, 100, 140])
def test_on_a_terminal_ids_are_whole_and_lines_fit(placet: Placet, many: Path, width: int) -> None:
    lines = on_terminal(width, many, "runs", "--db", "all.db")

    listed = ids(placet("runs", "--db", "all.db", "--json"))
    assert [word for line in lines for word in line.split() if word in listed] == listed
    assert all(len(line) <= width for line in lines)
    [cut] = {line[line.index("assistant: ") :] for line in lines if "assistant: " in line}
    assert cut.endswith("…")
    assert f"assistant: {LONG}".startswith(cut[:-1])
    assert f"assistant: {LONG}"[len(cut) - 1] == " ", "cut between words"


def test_in_a_pipe_nothing_is_cut(placet: Placet, many: Path) -> None:
    for env in ({}, {"COLUMNS": "60"}):
        lines = placet("runs", "--db", "all.db", **env).out.splitlines()

        assert lines[0].split() == ["run", "status", "begun", "(UTC)", "took", "actions", "source"]
        assert [line.split()[0] for line in lines[1:]] == ids(placet("runs", "--db", "all.db", "--json"))
        assert lines[1].endswith(f"assistant: {LONG}")


def test_of_many_sub_runs_a_terminal_shows_some_and_says_where_the_others_are(
    placet: Placet, tmp_path: Path
) -> None:
    import sqlite3

    (tmp_path / "plan.json").write_text(json.dumps({"actions": [WRITE]}))
    for n in range(15):
        assert placet("run", "plan.json", "--db", "all.db", "--run-id", f"r{n:02}").code == 0
    with sqlite3.connect(tmp_path / "all.db") as connection:
        connection.execute("UPDATE runs SET parent = 'r00' WHERE run_id <> 'r00'")

    lines = on_terminal(80, tmp_path, "runs", "--db", "all.db")

    assert [line.split()[1] for line in lines if "├ r" in line] == [f"r{n:02}" for n in range(1, 10)]
    assert lines[-1] == "└ 5 more: placet runs show r00 --db all.db"
    assert len(placet("runs", "--db", "all.db").out.splitlines()) == 16


# Sessions


def test_sessions_of_this_repository_are_listed(placet: Placet, tmp_path: Path) -> None:
    one, other = CodeDesk(tmp_path / "one", placet), CodeDesk(tmp_path / "two", placet)
    for desk in (one, other):
        desk.db = str(tmp_path / "all.db")
        desk.code(LONG, "--check", CHECK, "--model", desk.script(write(), "Done."))
    (one.repository / "deep").mkdir()

    here = one.code("list", cwd=one.repository / "deep")
    data = one.code("list", "--json").json
    every = one.code("list", "--all", "--json").json
    nothing = placet("code", "list", "--db", one.db, cwd=tmp_path / "one" / "state")
    lines = on_terminal(80, one.repository, "code", "list", "--db", one.db)

    assert len(here.out.splitlines()) == 2
    assert here.err == "1 more in other folders: --all\n"
    assert here.out.rstrip().endswith(LONG), "in a pipe nothing is cut"
    assert [each["repository"] for each in data["sessions"]] == [str(one.repository)]
    assert (data["elsewhere"], every["elsewhere"]) == (1, 0)
    assert {each["repository"] for each in every["sessions"]} == {str(one.repository), str(other.repository)}
    assert (nothing.code, nothing.out) == (0, "")
    assert "2 in other folders: --all" in nothing.err
    assert data["sessions"][0]["id"] in lines[1].split()
    assert all(len(line) <= 80 for line in lines)
    assert lines[1].endswith("…")


@pytest.mark.parametrize(
    "words",
    [
        ("runs",),
        ("log",),
        ("log", "query"),
        ("log", "costs"),
        ("approvals",),
        ("approvals", "--standing"),
        ("code", "list"),
        ("memory",),
    ],
    ids=lambda words: "-".join(words).replace("---", "-"),
)
@pytest.mark.parametrize("has_agents", [False, True], ids=["fresh", "agents-only"])
def test_where_nothing_is_recorded_a_list_is_empty(
    placet: Placet, tmp_path: Path, words: tuple[str, ...], has_agents: bool
) -> None:
    own = {f"XDG_{name}_HOME": str(tmp_path / name) for name in ("DATA", "CONFIG", "STATE")}
    own["PLACET_DB"] = str(tmp_path / "default.db")
    if has_agents:
        assert placet("agent", "new", "first", "--user", **own).code == 0

    done = placet(*words, **own)
    whole = placet(*words, "--json", **own)

    assert (done.code, done.out) == (0, "")
    assert done.err
    assert whole.code == 0
    assert [] in whole.json.values()
    assert placet(*words, "--db", tmp_path / "mistyped.db", **own).code == 2


@pytest.mark.parametrize(("since", "code"), [("٧d", 2), ("7d", 0), ("99999999d", 0)])
def test_how_long_ago_is_written_with_plain_digits_however_many(
    placet: Placet, tmp_path: Path, since: str, code: int
) -> None:
    assert placet("runs", "--since", since, PLACET_DB=str(tmp_path / "d.db")).code == code


def test_only_the_last_of_several_sub_runs_closes_the_branch() -> None:
    def run(name: str, parent: str | None = None) -> dict[str, Any]:
        run = dict.fromkeys(("proposal_id", "source", "tenant", "holder", "folder"), "")
        times = {"begun": 1.0, "ended": 2.0, "actions": 0, "status": "succeeded"}
        return {**run, **times, "run_id": name, "parent": parent}

    found = [run("lead"), run("first", "lead"), run("second", "lead")]

    lines = [line.plain for line in draw_runs(found, {}, width=80, now=3.0)]

    assert [line.split()[0] for line in lines[1:]] == ["lead", "├", "└"]


def test_without_colour_no_escape_is_sent(placet: Placet, plan: Callable[..., Path], tmp_path: Path) -> None:
    placet("run", plan(WRITE), "--db", "kept.db")
    ours, theirs = pty.openpty()
    done = subprocess.run(
        warm_command("runs", "--db", "kept.db"),
        cwd=tmp_path,
        env={**environment(), "NO_COLOR": "1", "TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    os.close(theirs)

    said = os.read(ours, 65536)
    os.close(ours)

    assert done.returncode == 0
    assert b"succeeded" in said
    assert b"\x1b" not in said
