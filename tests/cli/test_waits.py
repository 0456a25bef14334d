"""Whatever a command waits for on a terminal, it says so: the model here never answers, and so do servers,
checks and tools."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import sqlite3
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import environment, warm_command
from tests.cli.test_agent_trials import GREETER
from tests.coder.workbench import make_repository
from tests.inference.wire_server import WireServer, events, reply

STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
MODEL = ("--model", "ollama:slow")
LOOP = 'intent = "keep a.txt right"\n\n[maker]\nprompt = "Look at a.txt."\n'
_LIMIT_S = 60
"""Far more than it takes."""


def calls(name: str, **arguments: Any) -> Any:
    """An answer of the model that asks for a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    message = {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": function}]}
    delta = {**message, "tool_calls": [{"index": 0, **message["tool_calls"][0]}]}
    return events(
        b"data: "
        + json.dumps({"choices": [{"delta": delta, "finish_reason": "tool_calls"}]}).encode()
        + b"\n\n",
        b"data: [DONE]\n\n",
    )


class Desk:
    """A person at a terminal, in a repository of theirs, with a model that never answers."""

    def __init__(self, folder: Path, server: WireServer, placet: Callable[..., Any]) -> None:
        self.repository = make_repository(folder / "repository", {"a.txt": "wrong\n"})
        self.server = server
        homes = {f"XDG_{name.upper()}_HOME": str(folder / name) for name in ("config", "data", "state")}
        self.variables = {**homes, "OLLAMA_HOST": server.url}
        self._placet = placet

    def run(self, *arguments: str) -> Any:
        return self._placet(*arguments, cwd=self.repository, **self.variables)

    def sees(self, words: str, *arguments: str) -> str:
        """Run a command on a terminal until it says these words in a line that is then written anew, and
        end it; returns all that was seen."""
        import fcntl
        import termios

        main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        process = subprocess.Popen(
            warm_command(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=side,
            stderr=side,
            cwd=self.repository,
            env=environment(TERM="xterm", NO_COLOR="1", **self.variables),
        )
        os.close(side)
        seen, end = "", time.monotonic() + _LIMIT_S
        moves = re.compile(rf"{re.escape(words)}[^\r\n]*, \d+ s\r +\r{re.escape(words)}")
        try:
            while not moves.search(seen):
                assert time.monotonic() < end, f"it never said so: {seen}"
                if select.select([main], [], [], 0.1)[0]:
                    seen += STYLE.sub("", os.read(main, 65_536).decode(errors="replace"))
        except OSError:
            raise AssertionError(f"it ended: {seen}") from None
        finally:
            process.kill()
            process.wait()
            os.close(main)
        return seen


@pytest.fixture
def desk(
    tmp_path: Path, placet: Callable[..., Any], known_isolation: Callable[[Path], None]
) -> Iterator[Desk]:
    known_isolation(tmp_path / "data")
    with WireServer() as server:
        server.answers(events(stall=True))
        yield Desk(tmp_path, server, placet)


def test_a_model_that_is_asked(desk: Desk) -> None:
    desk.sees("asking ollama:slow", "do", "x", *MODEL)


def test_a_tool_that_runs(desk: Desk) -> None:
    desk.server.answers(calls("shell", command="sleep 60"))

    desk.sees("running shell", "do", "x", *MODEL, "--yes-to", "full_access")


def test_an_agent_that_is_drafted(desk: Desk) -> None:
    desk.sees("ollama:slow drafts the agent, attempt 1 of 3", "agent", "build", "one that greets", *MODEL)


def test_an_agent_that_is_tried(desk: Desk) -> None:
    draft = {
        "name": "G",
        "description": "d",
        "identity": "i",
        "tools": [],
        "scenarios": [{"input": "a", "expect": "b"}],
    }
    message = {"role": "assistant", "content": json.dumps(draft)}
    desk.server.answers(
        reply({"choices": [{"message": message, "finish_reason": "stop"}]}), events(stall=True)
    )

    desk.sees("trying the draft of attempt 1 of 3, 0 of 1 runs", "agent", "build", "one that greets", *MODEL)


def test_scenarios_of_an_agent(desk: Desk, tmp_path: Path) -> None:
    agents = tmp_path / "config" / "placet" / "agents"
    agents.mkdir(parents=True)
    (agents / "greeter.toml").write_text(GREETER)

    desk.sees("trying 'greeter'", "agent", "test", "greeter", *MODEL)


def test_checks_that_are_drafted(desk: Desk) -> None:
    seen = desk.sees("asking ollama:slow", "code", "make a right", *MODEL)

    assert "── the model drafts checks" in seen


def test_the_baseline_of_a_coding_session(desk: Desk) -> None:
    seen = desk.sees("running the check sleep", "code", "make a right", "--check", "sleep 60", *MODEL)

    assert desk.server.seen == []
    assert "── the checks, before any work" in seen


def test_a_round_of_a_loop(desk: Desk) -> None:
    path = desk.repository / ".placet" / "loops" / "tidy.toml"
    path.parent.mkdir(parents=True)
    path.write_text(LOOP)
    assert desk.run("trust", "--yes", ".").code == 0

    desk.sees("round 1: the maker works", "loop", "run", "tidy", *MODEL)


def test_a_server_of_tools(desk: Desk) -> None:
    desk.sees("connecting to the MCP server 'slow'", "mcp", "add", "slow", "--", "sleep", "60")


def test_a_trial_of_a_model(desk: Desk) -> None:
    desk.sees("asking ollama:slow three questions", "model", "test", "ollama:slow")


def test_a_database_that_another_process_has_locked(desk: Desk, tmp_path: Path) -> None:
    db = str(tmp_path / "kept.db")
    assert desk.run("tools", "call", "now", "--db", db).code == 0
    other = sqlite3.connect(db, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        desk.sees("recording the run", "do", "x", *MODEL, "--db", db)
    finally:
        other.close()
