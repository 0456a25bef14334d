"""The process that has everything loaded does commands as a fresh one would."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Placet, environment
from tests.warm import Warm, WarmProcess

SLEEPER = """
import os, time
from placet import tool

@tool
def rest() -> str:
    with open("pid.part", "w") as file:
        file.write(str(os.getpid()))
    os.rename("pid.part", "pid")
    time.sleep(100)
    return "rested"
"""


@pytest.fixture
def resting(tmp_path: Path, warm: Warm, plan: Callable[..., Path]) -> tuple[subprocess.Popen[bytes], int]:
    """A command that was asked for by name and is at work, and the process that does it."""
    (tmp_path / "tools.py").write_text(SLEEPER, encoding="utf-8")
    path = plan({"id": "a", "tool": "rest"})
    asking = subprocess.Popen(
        [*warm.command, "run", str(path), "--tools", "tools.py", "--db", "none"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _wait(lambda: (tmp_path / "pid").exists())
    return asking, int((tmp_path / "pid").read_text())


def test_streams_folder_environment_and_code_are_those_of_whoever_asks(tmp_path: Path, warm: Warm) -> None:
    done = subprocess.run(
        [*warm.command, "run", "-", "--json"],
        cwd=tmp_path,
        env=environment(XDG_DATA_HOME=str(tmp_path / "data")),
        input=b'{"actions": [{"id": "a", "tool": "nowhere"}]}',
        capture_output=True,
        timeout=60,
    )

    assert done.returncode == 1
    assert b'"aborted"' in done.stdout
    assert done.stderr.startswith(b"Run ")
    assert (tmp_path / "data" / "placet").is_dir()


def test_it_says_what_a_fresh_process_says(placet: Placet, fresh: Placet) -> None:
    for arguments in (("--version",), ("tools",), ("verify", "missing.json")):
        assert placet(*arguments) == fresh(*arguments)


def test_a_command_ends_with_whoever_asked_for_it(resting: tuple[subprocess.Popen[bytes], int]) -> None:
    asking, pid = resting

    asking.kill()
    asking.wait()

    _wait(lambda: not os.path.exists(f"/proc/{pid}"))


def test_a_command_that_is_killed_is_seen_to_be(resting: tuple[subprocess.Popen[bytes], int]) -> None:
    asking, pid = resting

    os.kill(pid, signal.SIGKILL)

    assert asking.wait(60) == -signal.SIGKILL


def test_a_program_can_be_a_text_and_has_the_signals_that_are_sent_to_it(warm: Warm) -> None:
    code = "import os, sys; print(__name__, sys.argv, os.getpid(), flush=True); sys.stdin.read()"
    process: WarmProcess[str] = WarmProcess(
        [*warm.python, "-c", code, "x"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    said = process.stdout.readline()

    process.send_signal(signal.SIGSTOP)
    _wait(lambda: Path(f"/proc/{process.command_pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    process.kill()

    assert said == f"__main__ ['-c', 'x'] {process.command_pid}\n"
    assert process.wait(60) == -signal.SIGKILL
    process.communicate()


def test_what_is_to_be_loaded_is_there_for_all_that_come_after(warm: Warm) -> None:
    ask = [*warm.python, "-c", "import sys; print('wave' in sys.modules)"]

    def said() -> str:
        return subprocess.run(ask, capture_output=True, text=True, timeout=60, check=True).stdout

    before = said()
    warm.load("wave", "no.such.module")

    assert before == "False\n"
    assert said() == "True\n"


def _wait(until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.01)
