"""`placet replay`: the same is 0, another way is 1, bad input is 2; no text of a file steers a terminal."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from placet import Assistant, Runtime, basic_tools
from placet.inference import Recording, Scripted, ToolCall
from placet.inference.messages import User
from placet.inference.model import Request
from tests.cli.conftest import Placet


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """The file of a run that read a file in the folder."""
    (tmp_path / "a.txt").write_text("alpha\nbeta\n")
    path = tmp_path / "run.jsonl"
    model = Scripted([ToolCall(name="read_file", arguments={"path": "a.txt"}), "Read.\x1b[31m"])
    assistant = Assistant(Runtime(builtin=basic_tools(tmp_path, only=["read_file"])), model)
    asyncio.run(assistant.run("Read a.txt.", record=path))
    return path


def test_the_same_is_said_with_exit_code_0(placet: Placet, recorded: Path) -> None:
    done = placet("replay", "run.jsonl")
    as_json = placet("replay", "run.jsonl", "--json").json

    assert (done.code, done.err) == (0, "")
    assert "The same: 2 requests and 1 result of calls are as recorded." in done.out
    assert "It ended: success. Read.\\e[31m" in done.out
    assert (as_json["same"], as_json["divergence"], as_json["ending"]["turns"]) == (True, None, 2)


def test_another_way_is_told_with_exit_code_1(placet: Placet, recorded: Path) -> None:
    lines = recorded.read_bytes().splitlines()
    answer = next(at for at, line in enumerate(lines) if line.startswith(b'{"kind":"answer"'))
    lines[answer] = lines[answer].replace(b'"result":{"text":""', b'"result":{"text":"One.\\u001b[2J\\nTwo."')
    recorded.write_bytes(b"\n".join(lines))

    done = placet("replay", "run.jsonl")
    shown = placet("replay", "run.jsonl", "--diff")
    as_json = placet("replay", "run.jsonl", "--json")

    assert (done.code, shown.code, as_json.code) == (1, 1, 1)
    assert "It goes another way (request), after 1 request and 1 result" in done.out
    assert "Turn 2, the request, message 3 (assistant)" in done.out
    assert "Show both texts with --diff." in done.out
    assert "+One.\\e[2J\n+Two." in shown.out
    assert "\x1b" not in done.out + shown.out + as_json.out
    found = as_json.json["divergence"]
    assert (found["kind"], found["turn"]) == ("request", 2)
    assert found["now"].endswith("One.\x1b[2J\nTwo.")


def test_tools_that_only_read_are_called_on_request(placet: Placet, recorded: Path, tmp_path: Path) -> None:
    same = placet("replay", "run.jsonl", "--run-tools", "--workspace", ".")
    (tmp_path / "a.txt").write_text("alpha\ngamma\n")
    other = placet("replay", "run.jsonl", "--run-tools", "--workspace", ".", "--diff")

    assert same.code == 0, same
    assert "1 call made once more" in same.out
    assert other.code == 1
    assert "(tool result)" in other.out
    assert "-beta\n+gamma" in other.out


def test_what_breaks_off_is_followed_as_far_as_it_goes(placet: Placet, recorded: Path) -> None:
    lines = recorded.read_bytes().splitlines(keepends=True)
    recorded.write_bytes(b"".join(lines[:-2]) + lines[-2][:50])

    done = placet("replay", "run.jsonl")

    assert done.code == 0
    assert "1 request and 0 results" in done.out
    assert "breaks off" in done.out


def test_no_recording_of_a_run_is_bad_input(placet: Placet, recorded: Path, tmp_path: Path) -> None:
    async def ask() -> None:
        recording = Recording(Scripted(["Hello."]), tmp_path / "model.jsonl")
        await recording.generate(Request(messages=[User("Hello?")]))
        await recording.close()

    asyncio.run(ask())
    (tmp_path / "notes.txt").write_text("mine")

    for arguments, words in (
        (["none.jsonl"], "No such file"),
        (["notes.txt"], "no recording"),
        (["model.jsonl"], "holds no run"),
        (["run.jsonl", "--workspace", "."], "--run-tools"),
    ):
        done = placet("replay", *arguments)

        assert (done.code, done.out) == (2, ""), arguments
        assert words in done.err
    assert msgspec.json.decode(placet("replay", "none.jsonl", "--json").out)["error"]
