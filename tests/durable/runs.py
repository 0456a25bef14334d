"""Runs in processes of their own, with tools that wait for files and leave a line when they take effect."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from placet.storage.location import sqlite_path
from tests.command import PLACET
from tests.events.intruder import Intruder
from tests.warm import Warm, WarmProcess

PATIENCE_S = 60.0

TOOLS = '''
import asyncio
import os
import time
from pathlib import Path

from placet import ToolContext, tool

HERE = Path(os.environ["RUNS_FOLDER"])


def leave(line):
    handle = os.open(HERE / "effects", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(handle, f"{line}\\n".encode())
    os.close(handle)


# A line at which processes wait for each other, before they look at any database.
if os.environ.get("RUNS_BARRIER"):
    (HERE / f"ready-{os.getpid()}").touch()
    while not (HERE / os.environ["RUNS_BARRIER"]).exists():
        time.sleep(0.001)


@tool(reversibility="compensable")
async def act(name: str) -> str:
    """Must not happen twice."""
    leave(name)
    return name


@tool
async def slow(name: str, seconds: float) -> str:
    """Must not happen twice, and takes a while."""
    leave(name)
    await asyncio.sleep(seconds)
    return name


@tool(risk="idempotent", idempotent=True, reversibility="reversible")
async def safe(name: str) -> str:
    """May happen twice."""
    leave(name)
    return name


@tool(risk="read_only")
async def gate(name: str) -> str:
    """Wait for a file, and do what it says."""
    (HERE / f"{name}-entered").touch()
    while not (HERE / name).exists():
        await asyncio.sleep(0.002)
    if (HERE / name).read_text() == "fail":
        raise ValueError("the gate fell shut")
    return name
'''


class Runs:
    """A folder with tools and effects, and a database."""

    def __init__(self, folder: Path, url: str, warm: Warm) -> None:
        self.folder = folder
        self.url = url
        self._warm = warm
        self.tools = folder / "tools.py"
        self.tools.write_text(TOOLS)
        self._children: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: object, **environment: str) -> WarmProcess[bytes]:
        """Start the command line in a process of its own."""
        process: WarmProcess[bytes] = WarmProcess(
            [*self._warm.command, *map(str, arguments)], **self._options(environment)
        )
        self._children.append(process)
        return process

    def start_fresh(self, *arguments: object, **environment: str) -> subprocess.Popen[bytes]:
        """As `start`, as a child of this process, which is there until somebody waits for it."""
        process = subprocess.Popen([*PLACET, *map(str, arguments)], **self._options(environment))
        self._children.append(process)
        return process

    def _options(self, environment: dict[str, str]) -> dict[str, Any]:
        names = {
            **os.environ,
            "RUNS_FOLDER": str(self.folder),
            "XDG_DATA_HOME": str(self.folder / "share"),
            "PLACET_DB": self.url,
            **environment,
        }
        return {"env": names, "cwd": self.folder, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}

    def run(self, *actions: dict[str, Any], run_id: str = "r", **environment: str) -> WarmProcess[bytes]:
        """Start a run of these actions."""
        return self.start(*self.plan(*actions, run_id=run_id), **environment)

    def plan(self, *actions: dict[str, Any], run_id: str = "r") -> list[object]:
        """The command that runs these actions."""
        plan = self.folder / f"{run_id}.json"
        plan.write_text(json.dumps({"id": "p", "source": "test", "actions": actions}))
        return ["run", plan, "--tools", self.tools, "--run-id", run_id]

    def placet(self, *arguments: object, **environment: str) -> tuple[int, str, str]:
        """Run a command to its end: exit code, stdout, stderr."""
        return end(self.start(*arguments, **environment))

    def effects(self) -> list[str]:
        """What has happened, in order."""
        path = self.folder / "effects"
        return path.read_text().split() if path.exists() else []

    def say(self, gate: str, word: str = "open") -> None:
        """Let a gate go on, or fail."""
        draft = self.folder / f".{gate}"
        draft.write_text(word)
        draft.rename(self.folder / gate)

    def entered(self, gate: str, *, noted: int) -> None:
        """Wait until somebody stands at a gate, and that many notes are on disk."""
        until(lambda: (self.folder / f"{gate}-entered").exists())
        until(lambda: self.sql("SELECT count(*) FROM journal")[0][0] >= noted)

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Past all code of ours."""
        with closing(Intruder(self.url)) as intruder:
            return intruder.sql(statement, values)

    def freeze(self, process: WarmProcess[bytes]) -> None:
        """Stop a process where it stands, but not within a transaction: that would stop everybody else."""
        stat = Path(f"/proc/{process.command_pid}/stat")
        while True:
            time.sleep(0.05)
            process.send_signal(signal.SIGSTOP)
            until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
            if self._is_quiet():
                return
            process.send_signal(signal.SIGCONT)

    def _is_quiet(self) -> bool:
        if self.url.startswith("postgres"):
            busy = "SELECT 1 FROM pg_stat_activity WHERE left(application_name, 6) = ? AND state <> 'idle'"
            return not self.sql(busy, "placet")
        with closing(sqlite3.connect(sqlite_path(self.url), timeout=0)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return False
            return True

    def end_lease(self) -> None:
        """As if the time of every hold were over."""
        self.sql("UPDATE runs SET held_until = 1")

    def close(self) -> None:
        """Leave no process behind."""
        for process in self._children:
            if process.poll() is None:
                process.kill()
            process.communicate()


def end(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    """Wait for a process: exit code, stdout, stderr."""
    out, err = process.communicate(timeout=PATIENCE_S)
    assert b"Traceback" not in err, err.decode()
    return process.returncode, out.decode(), err.decode()


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that is about to happen."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.005)


def act(name: str, *after: str, **more: Any) -> dict[str, Any]:
    """An action that must not happen twice."""
    undo = {"type": "tool", "tool": "safe", "parameters": {"name": f"undo-{name}"}}
    made = {"id": name, "tool": "act", "parameters": {"name": name}, "dependencies": list(after)}
    return {**made, "compensation": undo, **more}


def gate(name: str, *after: str, **more: Any) -> dict[str, Any]:
    """An action that waits until it is told to go on."""
    return {"id": name, "tool": "gate", "parameters": {"name": name}, "dependencies": list(after), **more}
