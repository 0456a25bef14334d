"""`placet chat`: several messages, its commands, what is taken back, and how it goes on another time."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placet.sandbox.workspace import Workspace
from placet.storage.location import user_folder
from placet.worktree.snapshot.store import Snapshots
from tests.inference.wire_server import Seen, WireServer, events

Placet = Callable[..., Any]
Script = Callable[..., str]
Start = Callable[..., subprocess.Popen[bytes]]

LIMIT_S = 60
BASE = ("--db", "kept.db", "--yes-to", "sandbox_edit")


def write(path: str, text: str) -> dict[str, Any]:
    return {"name": "write_file", "arguments": {"path": path, "text": text}}


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """A scripted model that answers with these turns."""

    def make(*turns: Any, name: str = "script.json") -> str:
        (tmp_path / name).write_text(json.dumps({"turns": turns}))
        return f"scripted:{tmp_path / name}"

    return make


def lines(*words: str) -> str:
    return "".join(f"{word}\n" for word in words)


def test_each_line_of_a_pipe_is_a_message(placet: Placet, script: Script) -> None:
    model = script("Good morning.", "Good night.")

    done = placet("chat", "--model", model, *BASE, "--run-id", "c1", stdin=lines("hello", "", "bye"))

    assert (done.code, done.out) == (0, "Good morning.\nGood night.\n")
    assert "To go on: placet chat --resume c1 --db kept.db" in done.err


def test_a_message_that_fails_does_not_end_it(placet: Placet, script: Script) -> None:
    done = placet("chat", "--model", script("Yes."), "--db", "none", stdin=lines("one", "two", "/cost"))

    assert (done.code, done.out) == (1, "Yes.\n")
    assert "✗ failed" in done.err
    assert "2 turns since it was opened" in done.err
    assert "the model does not tell how many tokens it takes" in done.err


def test_it_goes_on_with_all_that_was_said(placet: Placet, tmp_path: Path) -> None:
    def answer(asked: Seen) -> Any:
        said = [each["content"] for each in asked.json["messages"] if each["role"] != "system"]
        piece = {
            "model": "m",
            "choices": [{"index": 0, "delta": {"content": f"{said}"}, "finish_reason": "stop"}],
        }
        return events(f"data: {json.dumps(piece)}\n\ndata: [DONE]\n\n".encode())

    with WireServer() as server:
        server.answers(answer)
        env = {"OPENAI_API_KEY": "sk-test-key-of-nobody", "OPENAI_BASE_URL": server.url}
        base = ("--model", "openai:gpt-test", "--db", "kept.db")
        placet("chat", *base, "--run-id", "c1", stdin=lines("first"), **env)
        placet("chat", *base, "--run-id", "c2", stdin=lines("other"), **env)
        placet("do", "a job", *base, "--run-id", "r1", **env)
        newest = placet("chat", "--resume", "--db", "kept.db", stdin=lines("second"), **env)
        named = placet("chat", "--resume", "c1", "--db", "kept.db", stdin=lines("third"), **env)
        resumed = placet("resume", "c1", "--db", "kept.db", stdin=lines("fourth"), **env)

    assert newest.out == "['other', \"['other']\", 'second']\n"
    assert named.out.startswith("['first', \"['first']\", 'third'")
    assert "third" in resumed.out
    assert "fourth" in resumed.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--resume"], "No conversation"),
        (["--resume", "r1"], "is no conversation"),
        (["--resume", "nothing"], "nothing"),
        (["--resume", "r1", "--yes-to", "none"], "--yes-to is as it was"),
    ],
)
def test_what_is_no_conversation_is_not_taken_up(
    placet: Placet, script: Script, words: list[str], says: str
) -> None:
    placet("do", "a job", "--model", script("Done."), "--db", "kept.db", "--run-id", "r1")

    done = placet("chat", *words, "--db", "kept.db")

    assert done.code == 2
    assert says in done.err


def test_what_needs_asking_ends_it_as_waiting_and_it_goes_on(
    placet: Placet, script: Script, tmp_path: Path
) -> None:
    model = script({"calls": [write("a.txt", "1")]}, "Not reached.")
    waits = placet(
        "chat", "--model", model, "--db", "kept.db", "--run-id", "c1", stdin=lines("write", "more")
    )
    [asked] = placet("approvals", "--db", "kept.db", "--json").json["approvals"]
    placet("approvals", "approve", asked["id"], "--db", "kept.db")

    more = script("Written.", "And more.", name="b.json")
    done = placet("chat", "--resume", "c1", "--db", "kept.db", "--model", more, stdin=lines("go on"))

    assert waits.code == 4
    assert f"placet approvals approve {asked['id']} --db kept.db" in waits.err
    assert "placet chat --resume c1 --db kept.db" in waits.err
    assert (done.code, done.out) == (0, "Written.\nAnd more.\n")
    assert (tmp_path / "a.txt").read_text() == "1"


# Taking back


def test_undo_takes_back_the_newest_message_and_nothing_else(
    placet: Placet, script: Script, tmp_path: Path
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "old.txt").write_text("old")
    model = script(
        {"calls": [write("first.txt", "1")]},
        "One.",
        {"calls": [write("old.txt", "new"), write("second.txt", "2")]},
        "Two.",
        "I know.",
    )

    done = placet(
        *("chat", "--model", model, *BASE, "--run-id", "c1", "--log", "run.jsonl"),
        stdin=lines("one", "two", "/undo", "and?", "/undo"),
    )

    assert done.code == 0
    assert "Taken back: old.txt, second.txt." in done.err
    assert "Nothing was changed." in done.err
    assert (tmp_path / "old.txt").read_text() == "old"
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert (tmp_path / "first.txt").read_text() == "1"
    assert not (tmp_path / "second.txt").exists()
    told = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert "workspace_restored" in [each["kind"] for each in told]
    last = [each["data"]["text"] for each in told if each["kind"] == "turn_asked"][-1]
    assert "has been taken back" in last
    assert last.endswith("and?")


def test_undo_says_so_where_nothing_was_changed(placet: Placet, script: Script) -> None:
    done = placet("chat", "--model", script("Yes."), *BASE, stdin=lines("/undo", "hello", "/undo"))

    assert done.err.count("Nothing was changed.") == 2


def test_undo_leaves_what_others_changed_since(start: Start, script: Script, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    model = script({"calls": [write("a.txt", "1")]}, "One.")
    process = start("chat", "--model", model, *BASE, stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(lines("write", "/cost").encode())
    process.stdin.flush()
    while b"since it was opened here" not in (line := process.stderr.readline()):
        assert line, "it ended too early"

    (tmp_path / "mine.txt").write_text("mine, edited")
    (tmp_path / "a.txt").write_text("1, edited")
    _, said = process.communicate(lines("/undo", "/undo anyway").encode(), timeout=LIMIT_S)

    told = said.decode()
    assert "Nothing was taken back: a.txt changed after the answer ended" in told
    assert "Taken back: a.txt." in told
    assert not (tmp_path / "a.txt").exists()
    assert (tmp_path / "mine.txt").read_text() == "mine, edited"


def test_what_cannot_be_kept_is_told_and_stops_nothing(
    placet: Placet, script: Script, tmp_path: Path
) -> None:
    snapshots = Snapshots(user_folder(os.environ) / "snapshots")
    workspace = Workspace(tmp_path)
    claim = snapshots.claim(workspace, "another")
    try:
        model = script({"calls": [write("a.txt", "1")]}, "One.")
        done = placet("chat", "--model", model, *BASE, stdin=lines("write", "/undo"))
    finally:
        claim.release()
        workspace.close()

    assert done.out == "One.\n"
    assert "It cannot be taken back" in done.err
    assert "another" in done.err
    assert (tmp_path / "a.txt").read_text() == "1"


def test_a_refused_call_leaves_nothing_to_take_back(placet: Placet, script: Script, tmp_path: Path) -> None:
    model = script({"calls": [write("/etc/nobody", "1")]}, "Then not.")

    done = placet("chat", "--model", model, "--db", "none", stdin=lines("write", "/undo"))

    assert "refused" in done.err
    assert "Nothing was changed." in done.err


# Commands


def test_commands_say_what_there_is(placet: Placet, script: Script, tmp_path: Path) -> None:
    other = script("From the other.", name="other.json")
    usage = {"text": "From the first.", "usage": {"input": 100, "output": 20}, "cost": 0.25}

    done = placet(
        *("chat", "--model", script(usage), *BASE),
        stdin=lines(
            *("/help", "/tols", "/nonsense", "/tools", "/model", "one", "/cost"),
            *(f"/model {other}", "two", "/model opnai:x", "/approvals", "/quit", "not said"),
        ),
    )

    assert (done.code, done.out) == (0, "From the first.\nFrom the other.\n")
    for words in (
        "/undo [anyway]",
        "Did you mean /tools?",
        "There is no command /nonsense. See: /help",
        "write_file",
        "script.json answers (--model names it)",
        "120 tokens in this conversation; $0.2500",
        "1 turn since it was opened here",
        "other.json answers from now on",
        "Did you mean 'openai:x'?",
        "Nothing waits to be decided.",
        "Nothing is approved for always.",
    ):
        assert words in done.err


def test_approvals_are_listed_with_how_to_take_them_back(placet: Placet, script: Script) -> None:
    for run, text in (("r1", "1"), ("r2", "2")):
        model = script({"calls": [write("a.txt", text)]})
        placet("do", "x", "--model", model, "--db", "kept.db", "--run-id", run)
    first, second = placet("approvals", "--db", "kept.db", "--json").json["approvals"]
    placet("approvals", "approve", first["id"], "--always", "--db", "kept.db")

    done = placet("chat", "--model", script("Yes."), "--db", "kept.db", stdin=lines("/approvals"))

    assert f"waits: {second['id']}  write_file" in done.err
    assert f"always: {first['id']}  write_file" in done.err
    assert "placet approvals revoke ID --db kept.db" in done.err


# What needs no asking


def test_what_needs_no_asking_is_said_in_the_conversation_and_kept_with_it(
    placet: Placet, script: Script, tmp_path: Path
) -> None:
    model = script({"calls": [write("a.txt", "1")]}, "Written.")
    words = ("chat", "--db", "kept.db")

    done = placet(
        *words, "--model", model, "--run-id", "c1", stdin=lines("/yes-to sandbox_edit", "write", "/yes-to")
    )

    assert done.code == 0, done.err
    assert (tmp_path / "a.txt").read_text() == "1"
    assert "sandbox_edit" in done.err.splitlines()[-2]
    again = script({"calls": [write("a.txt", "2")]}, "Again.", name="again.json")
    assert placet(*words, "--resume", "c1", "--model", again, stdin=lines("again")).code == 0
    assert (tmp_path / "a.txt").read_text() == "2"
    log = placet("log", "query", "--run", "c1", "--kind", "posture_changed", "--db", "kept.db", "--json").json
    assert [event["data"]["sandbox_edit"] for event in log["events"]] == ["allow"]
    assert "sandbox_edit" in placet("explain", "c1", "--db", "kept.db").out


def test_it_can_be_made_stricter_and_that_is_kept_too(placet: Placet, script: Script) -> None:
    read = {"calls": [{"name": "list_dir", "arguments": {"path": "."}}]}
    model = script(read, "Listed.", {"calls": [write("a.txt", "1")]}, "Not reached.")

    done = placet(
        "chat", "--model", model, *BASE, "--run-id", "c1", stdin=lines("list", "/yes-to read_only", "write")
    )

    assert done.code == 4, done.err
    [asked] = placet("approvals", "--db", "kept.db", "--json").json["approvals"]
    assert asked["tool"] == "write_file"
    stricter = placet(
        "chat", "--model", script(read, "Not reached.", name="two.json"), *BASE, "--run-id", "c2",
        stdin=lines("/yes-to none", "list"),
    )  # fmt: skip
    assert stricter.code == 4, stricter.err
    resumed = placet("chat", "--resume", "c2", "--db", "kept.db", "--model", script("x", name="three.json"))
    assert resumed.code == 4, resumed.err


def test_a_rule_that_denies_and_one_that_asks_stand_above_it(
    placet: Placet, script: Script, tmp_path: Path
) -> None:
    (tmp_path / "rules.toml").write_text(
        '[[rule]]\nname = "never"\nkind = "deny_tool"\ntool = "write_file"\n\n'
        '[[rule]]\nname = "ask"\nkind = "deny_tool"\ntool = "shell"\nunless_approved = true\n'
    )
    shell = {"calls": [{"name": "shell", "arguments": {"command": "true"}}]}
    model = script({"calls": [write("a.txt", "1")]}, shell, "Not reached.")

    done = placet(
        "chat", "--model", model, "--db", "kept.db", "--policies", "rules.toml", "--run-id", "c1",
        stdin=lines("/yes-to full_access", "go"),
    )  # fmt: skip

    assert done.code == 4, done.err
    assert not (tmp_path / "a.txt").exists()
    assert "policy 'never'" in done.err
    [asked] = placet("approvals", "--db", "kept.db", "--json").json["approvals"]
    assert asked["tool"] == "shell"


@pytest.mark.parametrize("word", ["everything", "sandbox_edit please"])
def test_what_is_no_tier_changes_nothing(placet: Placet, script: Script, word: str) -> None:
    model = script({"calls": [write("a.txt", "1")]}, "Not reached.")

    done = placet(
        "chat", "--model", model, "--db", "kept.db", "--run-id", "c1", stdin=lines(f"/yes-to {word}", "write")
    )

    assert done.code == 4, done.err
    assert "full_access" in done.err


def test_all_edits_are_allowed_from_elsewhere_listed_in_the_conversation_and_revoked(
    placet: Placet, script: Script, tmp_path: Path
) -> None:
    place = ("--db", "kept.db")
    first = script({"calls": [write("a.txt", "1")]}, "Not reached.")
    assert placet("chat", "--model", first, *place, "--run-id", "c1", stdin=lines("write")).code == 4
    [asked] = placet("approvals", *place, "--json").json["approvals"]
    made = placet("approvals", "approve", asked["id"], "--edits", *place, "--json").json
    assert (made["decision"], made["status"]) == ("edits", "approved")

    again = script("Written.", {"calls": [write("b.txt", "2")]}, "Again.", name="again.json")
    done = placet("chat", "--resume", "c1", *place, "--model", again, stdin=lines("more", "/approvals"))

    assert done.code == 0, done.err
    assert (tmp_path / "b.txt").read_text() == "2"
    assert f"placet approvals revoke {asked['id']} --db kept.db" in done.err
    assert placet("approvals", "revoke", asked["id"], *place, "--json").json["status"] == "revoked"
    last = script({"calls": [write("c.txt", "3")]}, "Not reached.", name="last.json")
    assert placet("chat", "--resume", "c1", *place, "--model", last, stdin=lines("third")).code == 4
    assert not (tmp_path / "c.txt").exists()
