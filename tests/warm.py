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
import ctypes
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
from types import ModuleType
from typing import Any, AnyStr, ClassVar

from tests.command import put_on

ROOT = Path(__file__).resolve().parents[1]
STREAMS = 3
PID_SIZE = 8
"""Digits of the number of its process, which come first, for whoever wants to send it signals."""
HUGE = 2 << 20
"""Bytes of a huge page."""
MADV_COLLAPSE = 25
"""From the header of the kernel: `mmap` has no name for it."""
CLIENT = Path(__file__).parent / "warm_client.py"

PYTHON = "python:"
"""First among the arguments where no command follows, but a program: no command is called so."""
CODE = "-c"
"""In the place of a program's file, where its text follows."""

BESIDES = (
    "anyio._backends._asyncio",
    "click._textwrap",
    "encodings.ascii",
    "encodings.idna",
    "httpx2",
    "jsonschema_rs",
    "mcp.client.stdio",
    "mcp.client.streamable_http",
    "mcp.server.mcpserver",
    "psycopg",
    "rich._unicode_data.unicode17-0-0",
    "rich.table",
    "tomllib",
)
"""What is loaded besides all of Placet."""


class Warm:
    """A process that waits for command lines, and ends with whoever made this."""

    last: ClassVar[Warm]
    """The one that was made last: that of the tests of this worker."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.path = folder / "warm"
        Warm.last = self
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.warm", str(self.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=environment,
        )
        self._loaded: set[str] = set()
        self._until_ready()

    @property
    def command(self) -> list[str]:
        """As `placet`, for whoever starts programs by their names; the arguments follow."""
        return [sys.executable, "-I", "-S", str(CLIENT), str(self.path)]

    @property
    def python(self) -> list[str]:
        """As `python`, where a program in a file follows, or `-c` and its text, and its arguments."""
        return [*self.command, PYTHON]

    def run(
        self, arguments: Sequence[str], *, cwd: Path, environment: Mapping[str, str], streams: Sequence[int]
    ) -> int:
        """Have a command done, with these descriptors as its streams, and wait for its exit code.

        It is that of a process: below zero, a signal ended it.
        """
        with socket.socket(socket.AF_UNIX) as asked:
            asked.connect(str(self.path))
            asked.recv(PID_SIZE, socket.MSG_WAITALL)
            names = [f"{name}={value}" for name, value in environment.items()]
            text = b"\0".join(map(os.fsencode, [str(cwd), str(len(arguments)), *arguments, *names]))
            socket.send_fds(asked, [len(text).to_bytes(4, "big")], streams)
            asked.sendall(text)
            return int(asked.makefile().read())

    def load(self, *modules: str) -> None:
        """Have these loaded for all commands from now on: for tests of which each would load them anew.

        Every fork becomes a little dearer, so they are not loaded before somebody asks.
        """
        wanted = [name for name in modules if name not in self._loaded]
        if wanted:
            assert self._process.stdin is not None
            self._process.stdin.write(f"{' '.join(wanted)}\n".encode())
            self._process.stdin.flush()
            self._until_ready()
            self._loaded.update(wanted)

    def _until_ready(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n", "it could not be loaded"

    def close(self) -> None:
        """End it."""
        self._process.communicate(timeout=30)


class WarmProcess(subprocess.Popen[AnyStr]):
    """What a warm process was asked for: signals that are sent to it reach the command itself."""

    command_pid: int
    """The number of the command's process, as the command knows it. `pid` is that of who asked for it."""

    def __init__(self, words: Sequence[str], **options: Any) -> None:
        """`words` begin with `Warm.command` or `Warm.python`; the options are those of `Popen`."""
        place = words.index(str(CLIENT)) + 1
        with socket.socket(socket.AF_UNIX) as asked:
            asked.connect(words[place])
            self.command_pid = int(asked.recv(PID_SIZE, socket.MSG_WAITALL))
            given = f"{asked.fileno()}:{self.command_pid}"
            super().__init__(
                [*words[:place], given, *words[place + 1 :]], pass_fds=[asked.fileno()], **options
            )

    def send_signal(self, sig: int) -> None:
        """Once the command has ended this does nothing."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.command_pid, sig)


def serve(path: str) -> None:
    """Do what is asked for at a socket, until stdin ends; each of its lines names modules to load."""
    put_on()
    # Nothing of what is loaded is garbage, and each search would look at all of it.
    gc.disable()
    _load(*_modules(), *BESIDES)
    _compile_rules()
    _read_tools(Path(path).parent)
    _try_other_user(Path(path).parent)
    # What is here now stays: a child that never looks at it again shares it with us.
    gc.freeze()
    _join_pages()
    with socket.socket(socket.AF_UNIX) as here:
        here.bind(path)
        here.listen()
        print("ready", flush=True)
        _answer_all(here)


def _load(*modules: str) -> None:
    for name in modules:
        # Whatever cannot be loaded here is told by the commands that need it.
        with suppress(Exception):
            importlib.import_module(name)


def _compile_rules() -> None:
    """Those by which secrets are found: kept once compiled, and most of what a short command would do."""
    from placet.redaction import Redactor

    Redactor()


def _read_tools(folder: Path) -> None:
    """Those that come with Placet, of which each command would read the signatures."""
    from placet.sandbox.workspace import Workspace
    from placet.tools.builtin import basic_tools

    workspace = Workspace(folder)
    basic_tools(workspace)
    # A command closes all descriptors that are not its own, and would close this one again at its end.
    workspace.close()


def _try_other_user(folder: Path) -> None:
    """Whether root can become another user in folders like those of tests: each command would start an
    interpreter to know it."""
    from placet.sandbox.other_user import can_become

    for number, mode in enumerate((0o700, 0o755)):
        tried = folder / f"tried-{number}"
        tried.mkdir(mode=mode)
        can_become(str(tried))


def _join_pages() -> None:
    """Have the kernel keep what is loaded in huge pages, where it can.

    A fork and the end of a child look at every page there is, which is half of what they cost.
    """
    if sys.platform != "linux":
        return
    join = ctypes.CDLL(None).madvise
    join.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, rights, _, _, _, *name = line.split()
        if "w" not in rights or name not in ([], ["[heap]"]):
            continue
        first, end = (int(number, 16) for number in place.split("-"))
        for page in range(-(-first // HUGE) * HUGE, end // HUGE * HUGE, HUGE):
            # An older kernel refuses, and a fork then takes longer.
            join(page, HUGE, MADV_COLLAPSE)


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
            if not (line := sys.stdin.readline()):
                return
            _load(*line.split())
            gc.freeze()
            print("ready", flush=True)
        elif number == here.fileno():
            asked, _ = here.accept()
            pid = os.fork()
            if pid == 0:
                gc.enable()
                here.close()
                _answer(asked)
            with suppress(OSError):
                asked.sendall(f"{pid:{PID_SIZE}}".encode())
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
    code = 0
    try:
        if path == CODE:
            sys.argv = [path, *arguments[1:]]
            exec(compile(arguments[0], "<string>", "exec"), _main_module())
        else:
            sys.argv = [path, *arguments]
            sys.path[0] = os.path.dirname(os.path.abspath(path))
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


def _main_module() -> dict[str, Any]:
    """The names of a new `__main__`, where decorators and picklers look for them."""
    made = sys.modules["__main__"] = ModuleType("__main__")
    return vars(made)


if __name__ == "__main__":
    serve(sys.argv[1])
