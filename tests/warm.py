"""Command lines that start at once: a process that has loaded everything, and forks for each.

So do programs in Python, for whoever only wants what they do.

What a command does is done in a process of its own, with the streams, folder, environment and end that a
fresh one would have. Only the loading of modules is shared, which is most of what a short command costs. How
a fresh process starts, and what signals do to it, is for tests that start one.

Keep true:
1. A command has the descriptors of whoever asked for it, and none of ours: a pipe ends with its last writer.
2. A command ends when whoever asked for it ends.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.command import put_on

ROOT = Path(__file__).resolve().parents[1]
STREAMS = 3
CLIENT = Path(__file__).parent / "warm_client.py"

PYTHON = "python:"
"""First among the arguments where no command follows, but a program: no command is called so."""

BESIDES = (
    "encodings.idna",
    "httpx2",
    "jsonschema_rs",
    "mcp.client.stdio",
    "mcp.client.streamable_http",
    "mcp.server.mcpserver",
    "psycopg",
    "rich.table",
    "tomllib",
)
"""What is loaded besides all of Placet."""


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
        """As `placet`, for whoever starts programs by their names; the arguments follow."""
        return [sys.executable, "-I", "-S", str(CLIENT), str(self.path)]

    @property
    def python(self) -> list[str]:
        """As `python`, where a program in a file follows, and its arguments."""
        return [*self.command, PYTHON]

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
    _compile_rules()
    # What is here now stays: a child that never looks at it again shares it with us.
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as here:
        here.bind(path)
        here.listen()
        print("ready", flush=True)
        _answer_all(here)


def _compile_rules() -> None:
    """Those by which secrets are found: kept once compiled, and most of what a short command would do."""
    from placet.redaction import Redactor

    Redactor()


def _answer_all(here: socket.socket) -> None:
    # Each command by the descriptor that tells its end.
    at_work: dict[int, tuple[int, socket.socket]] = {}
    # Who asked, by the descriptor at which it is seen that they are gone.
    asking: dict[int, int] = {}
    events = select.poll()
    for waited_for in (sys.stdin, here):
        events.register(waited_for, select.POLLIN)
    while True:
        # One at a time: the next may be about a descriptor that is closed by now, and somebody else's.
        number, _ = events.poll()[0]
        if number == sys.stdin.fileno():
            return
        if number == here.fileno():
            asked, _ = here.accept()
            pid = os.fork()
            if pid == 0:
                here.close()
                _answer(asked)
            ended = os.pidfd_open(pid)
            at_work[ended] = pid, asked
            asking[asked.fileno()] = pid
            events.register(ended, select.POLLIN)
            # What they say is for the command to read.
            events.register(asked, select.POLLRDHUP)
        elif number in asking:
            events.unregister(number)
            os.kill(asking.pop(number), signal.SIGKILL)
        else:
            pid, asked = at_work.pop(number)
            events.unregister(number)
            os.close(number)
            if asking.pop(asked.fileno(), None) is not None:
                events.unregister(asked)
            _tell_end(asked, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _tell_end(asked: socket.socket, code: int) -> None:
    with asked, suppress(OSError):
        asked.sendall(str(code).encode())
        # A command that has just been forked may still hold it, too.
        asked.shutdown(socket.SHUT_RDWR)


def _modules() -> Iterator[str]:
    for path in sorted((ROOT / "src" / "placet").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        if not name.endswith("__main__"):
            yield name.removesuffix(".__init__")


def _answer(asked: socket.socket) -> None:
    """Be the command that is asked for."""
    try:
        size, streams, _, _ = socket.recv_fds(asked, 4, STREAMS)
        with asked, asked.makefile("rb") as said:
            text = said.read(int.from_bytes(size, "big"))
        cwd, count, *words = os.fsdecode(text).split("\0")
        environment = dict(word.split("=", 1) for word in words[int(count) :])
        _become(cwd, words[: int(count)], environment, streams)
    finally:
        os._exit(70)


def _become(cwd: str, arguments: list[str], environment: dict[str, str], streams: list[int]) -> None:
    """Never returns."""
    from placet.cli.main import main

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
        code = _run_program(*arguments[1:]) if arguments[:1] == [PYTHON] else main(arguments)
    finally:
        os._exit(code)


def _run_program(path: str, *arguments: str) -> int:
    """As the interpreter does it; what is to be done at its end is done."""
    sys.argv = [path, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    code = 0
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if not isinstance(end.code, int | None):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    return code


if __name__ == "__main__":
    serve(sys.argv[1])
