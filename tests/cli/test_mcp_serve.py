"""`placet mcp serve` as a process: what is on its streams, and how it ends. The protocol: tests/server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from placet.extras import install_command
from tests.cli.conftest import environment
from tests.command import PLACET
from tests.server.serving import COMMAND, Place
from tests.warm import Warm

HELLO: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "by hand", "version": "1"},
    },
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def call(number: int, tool: str, **arguments: Any) -> dict[str, Any]:
    """A request by hand."""
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


class Talk:
    """A server, and what is said to it line by line."""

    def __init__(self, place: Place, command: list[str]) -> None:
        self.place = place
        self.process = subprocess.Popen(
            command,
            cwd=place.folder,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def say(self, *messages: dict[str, Any] | bytes) -> None:
        """Send messages, or lines that are none."""
        assert self.process.stdin is not None
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps(message).encode()
            self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        """The next message."""
        assert self.process.stdout is not None
        heard: dict[str, Any] = json.loads(self.process.stdout.readline())
        return heard

    def until(self, name: str) -> None:
        """Wait for a file that a tool makes."""
        while not (self.place.folder / name).exists():
            assert self.process.poll() is None
            time.sleep(0.01)

    def leave(self) -> tuple[bytes, bytes]:
        """Close stdin; what was still on the other streams."""
        return self.process.communicate(timeout=60)


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    """A server that has been greeted."""
    place = Place(tmp_path)
    with _greeted(Talk(place, place.command())) as talk:
        yield talk


@pytest.fixture
def warm_talk(tmp_path: Path, warm: Warm) -> Iterator[Talk]:
    """As `talk`, for tests to which neither the process nor its end matters: only what is said."""
    place = Place(tmp_path)
    with _greeted(Talk(place, [*warm.command, *place.command()[len(PLACET) :]])) as talk:
        yield talk


@contextmanager
def _greeted(talk: Talk) -> Iterator[Talk]:
    talk.say(HELLO, READY)
    assert talk.hear()["result"]["serverInfo"]["name"] == "placet"
    yield talk
    if talk.process.poll() is None:
        talk.process.kill()
    talk.process.communicate(timeout=60)


def test_only_messages_are_on_stdout_whatever_comes_in_and_whatever_prints(talk: Talk) -> None:
    evil = "\x1b]0;owned\x07\u202e"
    talk.say(b"this is no message", b"[]", b"\xff\xfe", b"")
    complaints = [talk.hear() for _ in range(3)]
    talk.say(call(1, "loud"), call(2, f"no{evil}tool"), call(3, "look", what=evil, **{evil: 1}))
    talk.say({"jsonrpc": "2.0", "method": f"notifications/{evil}", "params": {"x": evil}})
    talk.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [evil]}})
    answers = {answer["id"]: answer["result"] for answer in (talk.hear() for _ in range(3))}
    out, err = talk.leave()

    assert [(c["id"], c["error"]["code"]) for c in complaints] == [(None, -32700)] * 3
    assert answers[1]["content"][0]["text"] == "read ''"
    assert answers[2]["isError"]
    assert "\x1b" not in answers[2]["content"][0]["text"]
    assert answers[3]["isError"]
    assert out == b""
    assert b"python speaks" in err
    assert b"\x1b" not in err
    assert "\u202e".encode() not in err
    assert talk.process.returncode == 0


@pytest.mark.parametrize(
    ("number", "code", "server"), [(signal.SIGTERM, 143, "talk"), (signal.SIGINT, 130, "warm_talk")]
)
def test_a_signal_stops_what_runs_in_good_order(
    number: signal.Signals, code: int, server: str, request: pytest.FixtureRequest
) -> None:
    talk: Talk = request.getfixturevalue(server)
    talk.say(call(1, "hold", name="a"))
    talk.until("a.begun")
    talk.process.send_signal(number)
    talk.process.wait(60)

    assert talk.process.returncode == code
    assert (talk.place.folder / "a.stopped").read_text() == f"stopped by {number.name}"
    assert [status for _, status in talk.place.runs()] == ["canceled"]
    assert len(talk.place.events("action_failed")) == 1


def test_a_tool_that_cannot_be_stopped_does_not_keep_the_server(talk: Talk) -> None:
    talk.say(call(1, "stubborn"))
    talk.until("stubborn.begun")
    talk.leave()

    assert talk.process.returncode == 0
    assert [status for _, status in talk.place.runs()] == ["canceled"]
    assert len(talk.place.events("proposal_ended")) == 1


def test_a_client_that_does_not_read_does_not_keep_the_server(talk: Talk) -> None:
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    talk.say(*[listing | {"id": n} for n in range(1, 60)])
    talk.say(call(100, "mark", file="after"))
    talk.until("after")
    talk.process.send_signal(signal.SIGTERM)

    assert talk.process.wait(60) == 143


def test_without_the_extra_the_error_says_how_to_install_it(tmp_path: Path) -> None:
    code = "import sys; sys.modules['mcp'] = None; from placet.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "mcp", "serve"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    assert install_command("mcp") in done.stderr
    assert done.stdout == ""


def test_bad_input_is_said_on_stderr_alone(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--tools", "missing.py"],
        cwd=tmp_path,
        env=environment(),
        input=b"",
        capture_output=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout) == (2, b"")
    assert b"missing.py" in done.stderr


LISTING = {"jsonrpc": "2.0", "method": "tools/list"}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ('"look"', '{"what": "\\ud800"}'),
        ('"lo\\ud800ok"', "{}"),
        ('"look"', '{"what": ' + "[" * 900 + "]" * 900 + "}"),
        ('"look"', '{"what": ' + "[" * 9000),
        ('"look"', '{"id": 5, "what": nonsense}'),
    ],
    ids=["half a character", "half a character in the name", "deep", "deep and cut off", "no JSON"],
)
def test_a_call_that_cannot_be_read_is_answered_as_the_call_it_is(
    warm_talk: Talk, name: str, arguments: str
) -> None:
    call_of = '{"jsonrpc": "2.0", "method": "tools/call", "id": %s, "params": {"name": %s, "arguments": %s}}'
    warm_talk.say((call_of % (7, name, arguments)).encode(), (call_of % ('"x"', name, arguments)).encode())
    first, second = warm_talk.hear(), warm_talk.hear()
    warm_talk.say(LISTING | {"id": 8})

    assert (first["id"], first["error"]["code"]) == (7, -32700)
    assert (second["id"], second["error"]["code"]) == ("x", -32700)
    assert warm_talk.hear()["id"] == 8


def test_a_client_that_asks_and_never_reads_is_kept_in_bounds(talk: Talk) -> None:
    """It is read only as far as is kept for it: what it writes then stays in the pipe."""
    talk.say(call(1, "hold", name="a"))
    talk.until("a.begun")
    assert talk.process.stdin is not None
    pipe = talk.process.stdin.fileno()
    os.set_blocking(pipe, False)
    lines = b"".join(b'{"jsonrpc": "2.0", "method": "tools/list", "id": %d}\n' % n for n in range(2, 200_000))
    written, stuck = 0, 0
    while written < len(lines) and stuck < 100:
        try:
            written += os.write(pipe, lines[written : written + 65_536])
            stuck = 0
        except BlockingIOError:
            stuck += 1  # For a second the server took nothing.
            time.sleep(0.01)
    memory = Path(f"/proc/{talk.process.pid}/status").read_text().partition("VmRSS:")[2].split()[0]

    assert written < len(lines) / 4
    assert int(memory) < 400_000
    # Once it reads, it gets an answer to each of what was read, in part that it was too much.
    results, codes = 0, set()
    for _ in range(2000):
        message = talk.hear()
        results += "result" in message
        codes |= {message["error"]["code"]} if "error" in message else set()
        if results >= 64 and codes:
            break
    assert results >= 64
    assert codes == {-32000}


def test_many_calls_at_once_are_all_answered(warm_talk: Talk) -> None:
    warm_talk.say(*[call(number, "look", what=str(number)) for number in range(1, 301)])
    answers = [warm_talk.hear() for _ in range(300)]

    assert sorted(answer["id"] for answer in answers) == list(range(1, 301))
    for answer in answers:
        assert answer["result"]["content"][0]["text"] == f"found {answer['id']}"


def test_what_waits_and_what_runs_can_be_taken_back_while_much_is_under_way(warm_talk: Talk) -> None:
    def take_back(number: int) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}

    warm_talk.say(*[call(number, "hold", name="a") for number in range(1, 65)])
    warm_talk.say(call(65, "mark", file="taken-back"), call(66, "mark", file="done"))
    warm_talk.until("a.begun")
    warm_talk.say(take_back(65), *[take_back(number) for number in range(1, 65)])
    answer = warm_talk.hear()
    warm_talk.leave()

    # Only the one that nobody took back is answered, and it had its turn.
    assert answer["id"] == 66
    assert (warm_talk.place.folder / "done").exists()
    assert not (warm_talk.place.folder / "taken-back").exists()
