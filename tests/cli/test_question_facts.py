"""What a person is told about a call before it is allowed: what confines it, what undoes it, what it changes.

Asked in one process and shown by another, so that both say the same.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tools.mcp.conftest import HOSTILE

Placet = Callable[..., Any]
Ask = Callable[..., dict[str, Any]]

STEERS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")

OWN_TOOLS = '''
from placet import tool


@tool(labels=["confined"], reversibility="reversible")
def shell(command: str) -> str:
    """A tool of the user's that is called like one of Placet's, and says that it is confined."""
    return command


@tool
def send(to: str) -> str:
    """Send something."""
    return to
'''

PROGRAM = """
[[tool]]
name = "inside"
command = ["cat"]

[[tool]]
name = "outside"
command = ["cat"]
sandbox = false
"""


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


@pytest.fixture
def ask(placet: Placet, tmp_path: Path) -> Ask:
    """Have a model make a call in a run that lets go of its question; returns the question."""

    def make(made: dict[str, Any], *more: str, folder: Path = tmp_path, run: str = "r1", **env: str) -> Any:
        script = tmp_path / f"{run}.json"
        script.write_text(json.dumps({"turns": [{"calls": [made]}, "Done."]}))
        db = str(tmp_path / "kept.db")
        done = placet(
            "do", "it", "--model", f"scripted:{script}", "--db", db, "--run-id", run, *more, cwd=folder, **env
        )
        assert done.code == 4, done.err
        [asked] = placet("approvals", "--db", db, "--run", run, "--json").json["approvals"]
        return asked

    return make


def git(folder: Path, *words: str) -> None:
    named = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *named, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a file as it was committed, one that was changed since and one that is unknown."""
    top = tmp_path / "repo"
    top.mkdir()
    git(top, "init")
    for name in ("kept.txt", "changed.txt"):
        (top / name).write_text("one\ntwo\n")
    git(top, "add", ".")
    git(top, "commit", "-m", "first")
    (top / "changed.txt").write_text("not committed\n")
    (top / "unknown.txt").write_text("nobody has this\n")
    return top


# Confined, and by what


def test_a_command_is_confined_as_the_question_said(ask: Ask, placet: Placet, tmp_path: Path) -> None:
    asked = ask(call("shell", command="true"))

    placet("approvals", "approve", asked["id"], "--db", "kept.db")
    (tmp_path / "more.json").write_text(json.dumps({"turns": ["Done."]}))
    assert placet("resume", "r1", "--db", "kept.db", "--model", "scripted:more.json").code == 0
    log = placet("log", "query", "--run", "r1", "--kind", "command_ran", "--db", "kept.db", "--json").json
    [ran] = [event["data"] for event in log["events"]]

    said = asked["confinement"]
    assert (said["isolation"], said["by"]) == (ran["isolation"], ran["by"])
    assert (said["network"] == "none") == (ran["enforced"]["net"] != "no")
    assert (said["folder"] == str(tmp_path)) == (ran["enforced"]["fs_write"] != "no")


def test_a_command_without_isolation_runs_as_the_person(ask: Ask, placet: Placet) -> None:
    asked = ask(call("shell", command="true"), "--isolation", "none")

    said = asked["confinement"]
    assert (said["runs_in"], said["isolation"], said["folder"], said["network"]) == (
        "program",
        "none",
        None,
        "any",
    )
    assert "not confined: runs as you" in words(
        placet("approvals", "show", asked["id"], "--db", "kept.db").out
    )


def test_a_command_speaks_to_the_hosts_that_are_named(ask: Ask, tmp_path: Path) -> None:
    config = tmp_path / "config" / "placet"
    config.mkdir(parents=True)
    (config / "settings.toml").write_text('[isolation]\nhosts = ["pypi.org", "*.example.org"]\n')

    said = ask(call("shell", command="true"), XDG_CONFIG_HOME=str(tmp_path / "config"))["confinement"]

    assert said["network"] == "hosts"
    assert said["hosts"] == ["pypi.org", "*.example.org"]


def test_a_file_tool_is_confined_to_its_folder(ask: Ask, placet: Placet, tmp_path: Path) -> None:
    asked = ask(call("write_file", path="a.txt", text="1"))

    said = asked["confinement"]
    assert (said["runs_in"], said["folder"], said["network"]) == ("placet", str(tmp_path), "none")
    shown = placet("approvals", "show", asked["id"], "--db", "kept.db").out
    assert f"confined to the folder {tmp_path}" in words(shown)


def test_tools_of_the_person_are_not_confined_whatever_they_are_called_or_say(
    ask: Ask, placet: Placet, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(OWN_TOOLS)
    (tmp_path / "own.toml").write_text(PROGRAM)

    python = ask(call("shell", command="true"), "--tools", "own.py", run="r1")
    outside = ask(call("outside"), "--tools", "own.toml", run="r2")
    inside = ask(call("inside"), "--tools", "own.toml", run="r3")

    assert (python["confinement"]["runs_in"], python["confinement"]["folder"]) == ("python", None)
    assert (outside["confinement"]["runs_in"], outside["confinement"]["folder"]) == ("program", None)
    assert inside["confinement"]["runs_in"] in ("sandbox", "program")
    assert (
        inside["confinement"]["isolation"]
        == ask(call("shell", command="true"), run="r4")["confinement"]["isolation"]
    )
    shown = placet("approvals", "show", python["id"], "--db", "kept.db").out
    assert "not confined" in words(shown)


def test_a_tool_of_a_server_is_not_confined(ask: Ask, placet: Placet, tmp_path: Path) -> None:
    own = {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    placet("mcp", "add", "files", "--enable", "all", "--", *HOSTILE, "ok", **own)

    said = ask(call("files.do"), **own)["confinement"]

    assert (said["runs_in"], said["isolation"], said["folder"]) == ("server", "none", None)


# Undone, and how


def test_an_edit_of_a_file_that_git_has_is_undone_by_git(ask: Ask, repository: Path) -> None:
    asked = ask(call("edit_file", path="kept.txt", old="one", new="1"), folder=repository)

    undo = asked["recovery"]
    assert (undo["by"], undo["scope"]) == ("git", "all")
    (repository / "kept.txt").write_text("1\ntwo\n")
    subprocess.run(undo["command"], shell=True, cwd=repository, check=True, capture_output=True)
    assert (repository / "kept.txt").read_text() == "one\ntwo\n"


@pytest.mark.parametrize("name", ["changed.txt", "unknown.txt"])
def test_what_git_does_not_have_is_not_said_to_be_undone_by_it(
    ask: Ask, placet: Placet, repository: Path, tmp_path: Path, name: str
) -> None:
    asked = ask(call("write_file", path=name, text="gone\n"), folder=repository)

    assert asked["recovery"]["by"] == "none"
    assert asked["recovery"]["why"]
    shown = words(placet("approvals", "show", asked["id"], "--db", str(tmp_path / "kept.db")).out)
    assert "undo nothing undoes it" in shown


def test_a_new_file_is_undone_by_removing_it(ask: Ask, tmp_path: Path) -> None:
    undo = ask(call("write_file", path="a b/new.txt", text="1"))["recovery"]

    assert undo["by"] == "delete"
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "new.txt").write_text("1")
    subprocess.run(undo["command"], shell=True, cwd=tmp_path, check=True)
    assert not (tmp_path / "a b" / "new.txt").exists()


def test_where_nothing_restores_an_edit_the_question_says_so(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("as it was")

    assert ask(call("write_file", path="a.txt", text="1"))["recovery"]["by"] == "none"


def test_a_plan_that_is_bound_to_its_folder_is_restored_if_it_is_aborted(
    placet: Placet, plan: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("as it was")
    (tmp_path / "own.py").write_text(OWN_TOOLS)
    made = plan(
        {"id": "edit", "tool": "write_file", "parameters": {"path": "a.txt", "text": "1"}},
        {"id": "send", "tool": "send", "parameters": {"to": "ann"}},
    )
    permissions = ("--permissions", "cautious", "--policies", "rules.toml")
    (tmp_path / "rules.toml").write_text(
        '[[rule]]\nname = "ask"\nkind = "deny_tool"\ntool = "*"\nunless_approved = true\n'
    )

    bound = placet(
        "run", made, "--tools", "own.py", "--db", "kept.db", "--workspace", "work", "--run-id", "r1",
        "--permissions", "trusting", *permissions[2:],
    )  # fmt: skip

    assert bound.code == 4, bound.err
    found = placet("approvals", "--db", "kept.db", "--run", "r1", "--json").json["approvals"]
    undo = {one["tool"]: one["recovery"]["by"] for one in found}
    assert undo == {"write_file": "snapshot", "send": "none"}


def test_what_a_compensation_undoes_names_it(
    placet: Placet, plan: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(
        OWN_TOOLS.replace("@tool\ndef send", '@tool(reversibility="compensable")\ndef send')
    )
    made = plan(
        {
            "id": "send",
            "tool": "send",
            "parameters": {"to": "ann"},
            "compensation": {"type": "tool", "tool": "shell", "parameters": {"command": "unsend"}},
        }
    )

    placet("run", made, "--tools", "own.py", "--db", "kept.db", "--run-id", "r1", "--permissions", "balanced")
    [asked] = placet("approvals", "--db", "kept.db", "--json").json["approvals"]

    assert (asked["recovery"]["by"], asked["recovery"]["command"]) == ("compensation", "shell")


def test_in_a_conversation_undo_is_offered_and_only_for_the_folder_where_more_can_be_reached(
    placet: Placet, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("as it was")
    (tmp_path / "own.py").write_text(OWN_TOOLS)
    said: dict[str, Any] = {}
    for made in (
        call("write_file", path="a.txt", text="1"),
        call("send", to="ann"),
        call("http_get", url="http://127.0.0.1:1/"),
    ):
        name = made["name"]
        (tmp_path / f"{name}.json").write_text(json.dumps({"turns": [{"calls": [made]}, "Done."]}))
        done = placet(
            "chat", "--model", f"scripted:{name}.json", "--tools", "own.py", "--db", "kept.db",
            "--run-id", name, stdin="do it\n",
        )  # fmt: skip
        assert done.code == 4, done.err
        [asked] = placet("approvals", "--db", "kept.db", "--run", name, "--json").json["approvals"]
        said[name] = tuple(asked["recovery"][key] for key in ("by", "command", "scope"))

    assert said == {
        "write_file": ("snapshot", "/undo", "all"),
        "send": ("snapshot", "/undo", "folder"),
        "http_get": ("none", "", "all"),
    }


# What would change


def test_show_has_the_diff_that_the_question_had(ask: Ask, placet: Placet, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\ntwo\nthree\n")
    asked = ask(call("edit_file", path="notes.txt", old="two", new="2\x1b[2J"))

    assert asked["edit"]["paths"] == ["notes.txt"]
    assert "-two\n+2\\e[2J\n" in asked["preview"] + "\n"
    shown = placet("approvals", "show", asked["id"], "--db", "kept.db").out
    assert "  │ -two\n  │ +2\\e[2J\n" in shown
    assert not STEERS.search(shown)
    assert "\x1b" not in shown


def test_show_has_the_change_to_the_file_as_it_is_now(ask: Ask, placet: Placet, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\ntwo\n")
    asked = ask(call("edit_file", path="notes.txt", old="two", new="2"))
    (tmp_path / "notes.txt").write_text("zero\ntwo\n")

    shown = placet("approvals", "show", asked["id"], "--db", "kept.db").out
    data = placet("approvals", "show", asked["id"], "--db", "kept.db", "--json").json

    assert "  │  zero\n  │ -two\n  │ +2\n" in shown
    assert " one\n-two\n+2" in data["preview"]
    assert " zero\n-two\n+2" in data["preview_now"]["diff"]


def test_an_edit_that_no_longer_fits_is_said_to_fail(ask: Ask, placet: Placet, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\ntwo\n")
    asked = ask(call("edit_file", path="notes.txt", old="two", new="2"))
    (tmp_path / "notes.txt").write_text("something else\n")

    data = placet("approvals", "show", asked["id"], "--db", "kept.db", "--json").json

    assert data["preview_now"]["diff"] == ""
    assert "notes.txt" in data["preview_now"]["problem"]


def test_what_was_decided_is_shown_as_it_was_asked(ask: Ask, placet: Placet, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\n")
    asked = ask(call("write_file", path="notes.txt", text="two\n"))
    placet("approvals", "approve", asked["id"], "--db", "kept.db")
    (tmp_path / "notes.txt").write_text("two\n")

    shown = placet("approvals", "show", asked["id"], "--db", "kept.db").out

    assert "  │ -one\n  │ +two\n" in shown


def test_a_long_diff_is_cut_with_a_count_and_whole_in_json(ask: Ask, placet: Placet, tmp_path: Path) -> None:
    text = "".join(f"line {n}\n" for n in range(900))
    asked = ask(call("write_file", path="new.txt", text=text))

    shown = placet("approvals", "show", asked["id"], "--db", "kept.db").out

    assert asked["preview"].count("\n+line ") == 900
    assert shown.count("│ +line ") < 300
    assert re.search(r"\d{3} lines", shown)


def test_secrets_are_in_no_diff(ask: Ask, placet: Placet, tmp_path: Path) -> None:
    secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
    (tmp_path / "env.txt").write_text(f"OPENAI_API_KEY={secret}\n")
    asked = ask(call("write_file", path="env.txt", text="none\n"))

    shown = placet("approvals", "show", asked["id"], "--db", "kept.db").out

    assert secret not in json.dumps(asked)
    assert secret not in shown
    assert "│ +none" in shown


def words(text: str) -> str:
    """A text without its line breaks and columns."""
    return " ".join(text.split())


def test_where_no_change_can_be_shown_the_reason_ends_with_one_full_stop(placet: Placet, ask: Ask) -> None:
    asked = ask(call("write_file", path="../x.txt", text="y"))

    shown = placet("approvals", "show", asked["id"], "--db", "kept.db").out

    assert re.search(r"\w\.(?:\s|$)", shown)
    assert not re.search(r"\w\.\.(?:\s|$)", shown)
