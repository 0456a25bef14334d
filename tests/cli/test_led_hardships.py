"""Runs that an assistant leads, where files, streams and people are in the way."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import command, environment

Placet = Callable[..., Any]
Script = Callable[..., str]
Start = Callable[..., subprocess.Popen[bytes]]

LIMIT_S = 60
BASE = ("--db", "kept.db", "--yes-to", "full_access")


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """A scripted model that answers with these turns."""

    def make(*turns: Any, name: str = "script.json") -> str:
        (tmp_path / name).write_text(json.dumps({"turns": turns}))
        return f"scripted:{tmp_path / name}"

    return make


def lines(*words: str) -> str:
    return "".join(f"{word}\n" for word in words)


# Its own files


def test_a_recording_is_nobody_elses(placet: Placet, script: Script, tmp_path: Path) -> None:
    model = script(
        {
            "calls": [
                call("write_file", path="new.txt", text="new"),
                call("read_file", path="answers.jsonl"),
                call("write_file", path="answers.jsonl", text="mine"),
                call("write_file", path="script.json", text="mine"),
            ]
        },
        "Tried.",
        "More.",
    )
    before = (tmp_path / "script.json").read_bytes()

    done = placet(
        *("chat", "--model", model, *BASE, "--record", "answers.jsonl"), stdin=lines("go", "/undo", "more")
    )
    again = placet("replay", "answers.jsonl")

    assert done.code == 0
    assert "✗ read_file" in done.err
    assert done.err.count("✗ write_file") == 2
    assert "Taken back: new.txt." in done.err
    assert (tmp_path / "script.json").read_bytes() == before
    assert (again.code, again.out[:23]) == (0, "The same: 3 requests an"), again


def test_a_command_finds_no_recording(placet: Placet, script: Script, tmp_path: Path) -> None:
    tried = "cat answers.jsonl | head -c 20; rm -f answers.jsonl; echo mine > script.json"
    model = script({"calls": [call("shell", command=tried)]}, "Tried.")
    before = (tmp_path / "script.json").read_bytes()

    done = placet("do", "x", "--model", model, *BASE, "--record", "answers.jsonl", "--log", "run.jsonl")

    if "isolation: " in done.err:
        pytest.skip("nothing keeps commands in on this machine")
    assert (tmp_path / "script.json").read_bytes() == before
    assert placet("replay", "answers.jsonl").code == 0
    told = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    [ran] = [each for each in told if each["kind"] == "turn_call_ended"]
    assert '"kind' not in json.dumps(ran["data"]).replace("\\", "")


def test_a_run_whose_recording_is_gone_goes_on_without(
    placet: Placet, script: Script, tmp_path: Path
) -> None:
    begun = ("--db", "kept.db", "--record", "answers.jsonl")
    waits = {"calls": [call("write_file", path="a.txt", text="1")]}
    placet("do", "x", "--model", script(waits), *begun, "--run-id", "r1")
    [asked] = placet("approvals", "--db", "kept.db", "--json").json["approvals"]
    placet("approvals", "approve", asked["id"], "--db", "kept.db")
    (tmp_path / "answers.jsonl").unlink()

    done = placet("resume", "r1", "--db", "kept.db", "--model", script("Written.", name="b.json"))

    assert (done.code, done.out) == (0, "Written.\n")
    assert "answers.jsonl is gone. The run goes on, and is not recorded any more." in done.err
    assert not (tmp_path / "answers.jsonl").exists()
    assert (tmp_path / "a.txt").read_text() == "1"


def test_a_recorded_conversation_in_which_nothing_was_said_goes_on(placet: Placet, script: Script) -> None:
    begun = ("--db", "kept.db", "--record", "answers.jsonl")
    placet("chat", "--model", script("Yes."), *begun, "--run-id", "c1", stdin="")

    done = placet("chat", "--resume", "c1", "--db", "kept.db", stdin=lines("hello"))

    assert (done.code, done.out) == (0, "Yes.\n"), done
    assert placet("replay", "answers.jsonl").code == 0


# Streams


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device")
@pytest.mark.parametrize("name", ["do", "chat"])
def test_words_that_cannot_be_written_end_nothing(
    start: Start, placet: Placet, script: Script, tmp_path: Path, name: str
) -> None:
    model = script({"text": "First.\n", "calls": [call("write_file", path="a.txt", text="1")]}, "Second.\n")
    words = ["do", "x"] if name == "do" else ["chat"]
    with open("/dev/full", "wb") as full:
        process = start(
            *(*words, "--model", model, *BASE, "--run-id", "r1"), stdin=subprocess.PIPE, stdout=full
        )
        _, said = process.communicate(b"x\n", timeout=LIMIT_S)

    told = said.decode()
    assert process.returncode == 1
    assert "Cannot write the result" in told
    assert "failed" not in told
    assert (tmp_path / "a.txt").read_text() == "1"
    [run] = placet("runs", "--db", "kept.db", "--json").json["runs"]
    assert run["status"] == ("succeeded" if name == "do" else "waiting")


def test_a_task_from_a_closed_stdin_is_none(placet: Placet, script: Script, tmp_path: Path) -> None:
    words = command("do", "-", "--model", script("Done."), "--db", "none")
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *words],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "there is no task" in done.stderr


# Conversations


def test_what_was_changed_before_cannot_be_taken_back(placet: Placet, script: Script) -> None:
    model = script({"calls": [call("write_file", path="a.txt", text="1")]}, "Written.")
    placet("chat", "--model", model, *BASE, "--run-id", "c1", stdin=lines("write"))

    more = script("Yes.", name="b.json")
    done = placet(
        *("chat", "--resume", "c1", "--db", "kept.db", "--model", more), stdin=lines("/undo", "and?", "/undo")
    )

    past = "What was changed before this conversation was taken up again cannot be taken back here."
    assert past in done.err
    assert "Nothing was changed." in done.err.partition(past)[2]


def test_what_others_change_after_an_old_message_is_not_lost(
    start: Start, placet: Placet, script: Script, tmp_path: Path
) -> None:
    (tmp_path / "mine.txt").write_text("one")
    waits = {"calls": [call("shell", command="echo 1 > a.txt")]}
    placet("chat", "--model", script(waits), "--db", "kept.db", "--run-id", "c1", stdin=lines("go"))
    [asked] = placet("approvals", "--db", "kept.db", "--json").json["approvals"]
    placet("approvals", "approve", asked["id"], "--db", "kept.db")
    more = script("Done.", name="b.json")
    process = start(*("chat", "--resume", "c1", "--db", "kept.db", "--model", more), stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(b"/cost\n")
    process.stdin.flush()
    while b"tokens in this conversation" not in (line := process.stderr.readline()):
        assert line, "it ended too early"

    (tmp_path / "mine.txt").write_text("work after the answer")
    _, said = process.communicate(lines("/undo", "/undo anyway", "/undo").encode(), timeout=LIMIT_S)

    told = said.decode()
    assert "Nothing was taken back: mine.txt changed after the answer ended" in told
    assert "Taken back: a.txt, mine.txt. Until the next message, /undo puts it back." in told
    assert "As before it was taken back: a.txt, mine.txt." in told
    assert (tmp_path / "mine.txt").read_text() == "work after the answer"


def test_a_line_that_begins_with_a_path_is_a_message(placet: Placet, script: Script, tmp_path: Path) -> None:
    model = script("One.", "Two.", "Three.")

    done = placet(
        *("chat", "--model", model, "--db", "none", "--log", "run.jsonl"),
        stdin=lines("/etc/passwd what is it?", "//help me", "/nonsense x/y", "/", "/tmp/ ?"),
    )

    assert (done.code, done.out) == (0, "One.\nTwo.\nThree.\n")
    assert "There is no command /nonsense." in done.err
    told = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    asked = [each["data"]["text"] for each in told if each["kind"] == "turn_asked"]
    assert asked == ["/etc/passwd what is it?", "/help me", "/tmp/ ?"]
