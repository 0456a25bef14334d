"""Other processes at work on coding sessions, and what they have left running."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PATIENCE_S = 60.0
ROOT = Path(__file__).parents[2]


class Nursery:
    """Starts processes that have everything loaded: see `coding_child`."""

    def __init__(self, temporary: Path, module: str = "tests.coder.coding_child") -> None:
        """`temporary` is where they make temporary folders. Not beneath the folder of a test: a socket in
        there could not be named, the path is too long."""
        self.temporary = temporary
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(temporary)},
        )

    def start(self, job: dict[str, Any]) -> int:
        """The id of a process that is at work on it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return int(self._line())

    def code(self) -> int:
        """How it ended, once it has. Not of one that was started `beside` others."""
        return int(self._line())

    @property
    def has_ended(self) -> bool:
        """Whether `code` would not wait."""
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], 0)[0])

    def _line(self) -> str:
        assert self._process.stdout is not None
        assert select.select([self._process.stdout], [], [], PATIENCE_S)[0], "nothing was heard of it"
        return self._process.stdout.readline()

    def close(self) -> None:
        """End it."""
        self._process.communicate(timeout=PATIENCE_S)


def read_trace(path: Path) -> list[list[Any]]:
    """All that has happened. A line that was cut off by a kill has not."""
    data = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in data.splitlines(keepends=True) if line.endswith(b"\n")]


def running(mark: str) -> list[str]:
    """The programs that have a word in their command lines, or the folder in which they are at work."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(os.getpid()):
            try:
                place, words = os.readlink(entry / "cwd"), (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if mark in place or os.fsencode(mark) in words:
                found.append(words.replace(b"\0", b" ").decode(errors="replace"))
    return found


def until_nothing_runs(mark: str) -> None:
    """Wait until nothing does any more: what was killed takes a moment to go."""
    deadline = time.monotonic() + PATIENCE_S
    while left := running(mark):
        assert time.monotonic() < deadline, left
        time.sleep(0.01)
