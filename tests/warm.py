"""Command lines that start at once: a process that has loaded everything, and forks for each.

What a command does is done in a process of its own, with the streams, folder, environment and end that a
fresh one would have. Only the loading of modules is shared, which is most of what a short command costs. How
a fresh process starts, and what signals do to it, is for tests that start one.

Keep true:
1. A command has the descriptors of whoever asked for it, and none of ours: a pipe ends with its last writer.
2. A command ends when whoever asked for it ends.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.command import put_on

ROOT = Path(__file__).resolve().parents[1]
STREAMS = 3
CLIENT = Path(__file__).parent / "warm_client.py"

BESIDES = ("httpx2", "jsonschema_rs", "mcp.client.streamable_http", "psycopg", "rich.table", "tomllib")
"""What is loaded besides all of Assent."""


class Warm:
    """A process that waits for command lines, and ends with whoever made this."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.path = folder / "warm"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.warm", str(self.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=environment,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n", "it could not be loaded"

    @property
    def command(self) -> list[str]:
        """As `assent`, for whoever starts programs by their names; the arguments follow."""
        return [sys.executable, "-I", "-S", str(CLIENT), str(self.path)]

    def run(
        self, arguments: Sequence[str], *, cwd: Path, environment: Mapping[str, str], streams: Sequence[int]
    ) -> int:
        """Have a command done, with these descriptors as its streams, and wait for its exit code.

        It is that of a process: below zero, a signal ended it.
        """
        with socket.socket(socket.AF_UNIX) as asked:
            asked.connect(str(self.path))
            names = [f"{name}={value}" for name, value in environment.items()]
            text = b"\0".join(map(os.fsencode, [str(cwd), str(len(arguments)), *arguments, *names]))
            socket.send_fds(asked, [len(text).to_bytes(4, "big")], streams)
            asked.sendall(text)
            return int(asked.makefile().read())

    def close(self) -> None:
        """End it."""
        self._process.communicate(timeout=30)


def serve(path: str) -> None:
    """Do what is asked for at a socket, until stdin ends."""
    put_on()
    for name in (*_modules(), *BESIDES):
        # Whatever cannot be loaded here is told by the commands that need it.
        with suppress(Exception):
            importlib.import_module(name)
    # What is here now stays: a child that never looks at it again shares it with us.
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as here:
        here.bind(path)
        here.listen()
        # Those that wait for a command are waited for by nobody.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        print("ready", flush=True)
        while True:
            if sys.stdin in select.select([sys.stdin, here], [], [])[0]:
                return
            asked, _ = here.accept()
            if os.fork() == 0:
                here.close()
                _answer(asked)
            asked.close()


def _modules() -> Iterator[str]:
    for path in sorted((ROOT / "src" / "assent").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        if not name.endswith("__main__"):
            yield name.removesuffix(".__init__")


def _answer(asked: socket.socket) -> None:
    """Start the command that is asked for, and tell its end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, streams, _, _ = socket.recv_fds(asked, 4, STREAMS)
    cwd, count, *words = os.fsdecode(asked.makefile("rb").read(int.from_bytes(size, "big"))).split("\0")
    pid = os.fork()
    if pid == 0:
        asked.close()
        _become(cwd, words[: int(count)], dict(word.split("=", 1) for word in words[int(count) :]), streams)
    for stream in (*streams, *range(STREAMS)):
        os.close(stream)
    ended = os.pidfd_open(pid)
    if asked in select.select([asked, ended], [], [])[0]:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        asked.sendall(str(code).encode())
    finally:
        os._exit(0)


def _become(cwd: str, arguments: list[str], environment: dict[str, str], streams: list[int]) -> None:
    """Be the command that was asked for."""
    from assent.cli.main import main

    code = 70
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(STREAMS, 256)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environment)
        sys.path[0] = cwd  # as for `python -m`
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        code = main(arguments)
    finally:
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
