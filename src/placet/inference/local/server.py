"""The program that serves a model to all processes of one person on one machine.

Two processes. The keeper, which is started, waits until nobody uses the model any more, and then for a while
longer, so that the next command finds it loaded. The server, its child, loads and answers: while it loads it
hears nothing, so it could not keep watch over itself.

Everything that it has to know comes through standard input: a key in an argument or a variable can be seen by
others.

Keep true:
1. When the last process that holds the users' lock is gone, however it went, keeper and server are gone too,
   after the time that they linger; at once if memory is short, or on SIGTERM.
2. The server goes with its keeper, also when that one is killed, also while it loads.
3. The note of where it listens exists only while it answers, and is gone before the lock is let go.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from placet.inference.local.orphan import die_with

LOG_BYTES = 1 << 20
CANNOT_TELL = 3
"""Exit code of a server that has loaded and cannot say where it listens."""
BATCH = 128
"""Tokens of a prompt that are read at a stretch: a request that is given up goes on for one of them."""
_LOOK_S = 1.0
_LEAST_BYTES = 512 * 2**20
_LEAST_PART = 0.05
"""Of all memory: with less available, a server that nobody uses ends."""
_PROMPTS_MIB = 256
"""What is kept of earlier prompts beside the slots."""


def main() -> None:
    """Serve what the settings on standard input say, as long as anybody uses it."""
    settings: dict[str, Any] = json.load(sys.stdin)
    note = Path(settings["note"])
    _limit()
    keeper = os.getpid()

    def ended(number: int, frame: FrameType | None) -> None:
        _, status = os.waitpid(server, 0)
        note.unlink(missing_ok=True)
        code = os.waitstatus_to_exitcode(status)
        # A shell's way of telling which signal it was.
        os._exit(code if code >= 0 else 128 - code)

    def end() -> NoReturn:
        # Whoever comes now finds no note, and waits until this process is gone.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        note.unlink(missing_ok=True)
        with suppress(ProcessLookupError):
            os.kill(server, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(server, 0)
        os._exit(0)

    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    server = os.fork()
    if server == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        die_with(keeper)
        _serve(settings, note)
    signal.signal(signal.SIGCHLD, ended)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    signal.signal(signal.SIGTERM, lambda number, frame: end())
    _wait_for_nobody(settings["users"], float(settings.get("linger", 0.0)))
    end()


def _limit() -> None:
    """Keep the log short, and memory, in which the key is, out of files."""
    import resource

    for what, most in ((resource.RLIMIT_FSIZE, LOG_BYTES), (resource.RLIMIT_CORE, 0)):
        with suppress(OSError, ValueError):
            resource.setrlimit(what, (most, most))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def _wait_for_nobody(users: str, linger_s: float) -> None:
    """Return once no process has held the users' lock for `linger_s`; sooner if memory is short."""
    import fcntl

    opened = os.open(users, os.O_RDWR | os.O_CLOEXEC)
    while True:
        fcntl.flock(opened, fcntl.LOCK_EX)
        if linger_s <= 0:
            return
        # Whoever takes the lock touches the file: also one that came and went between two looks.
        used = os.fstat(opened).st_mtime_ns
        fcntl.flock(opened, fcntl.LOCK_UN)
        if _stays_unused(opened, used, linger_s):
            return


def _stays_unused(opened: int, used: int, linger_s: float) -> bool:
    """Whether nobody came in that time; the lock is then held alone."""
    import fcntl

    ends = time.monotonic() + linger_s
    while time.monotonic() < ends and not is_memory_short():
        time.sleep(min(_LOOK_S, linger_s / 4))
        if os.fstat(opened).st_mtime_ns != used:
            return False
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return os.fstat(opened).st_mtime_ns == used


def is_memory_short(path: str = "/proc/meminfo") -> bool:
    """Whether others need the memory: little of it can be had without pushing something out."""
    found: dict[str, int] = {}
    try:
        with open(path, encoding="ascii") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name in ("MemTotal", "MemAvailable"):
                    found[name] = int(value.split()[0]) * 1024
        return found["MemAvailable"] < max(_LEAST_BYTES, found["MemTotal"] * _LEAST_PART)
    except (OSError, ValueError, IndexError, KeyError):
        return False


def _serve(settings: dict[str, Any], note: Path) -> None:
    """Load the model, answer, and say where. Does not return."""
    try:
        import xllamacpp  # type: ignore[import-untyped,unused-ignore]

        parameters = xllamacpp.CommonParams()
        parameters.model.path = settings["model"]
        parameters.model_alias = {settings["name"]}
        parameters.n_ctx = settings["context"] * settings["slots"]
        parameters.n_parallel = settings["slots"]
        parameters.n_batch = parameters.n_ubatch = BATCH
        parameters.cpuparams.n_threads = settings["threads"]
        parameters.cpuparams_batch.n_threads = settings["threads"]
        parameters.hostnames = ["127.0.0.1"]
        parameters.port = 0
        parameters.api_keys = [settings["key"]]
        parameters.use_jinja = True
        parameters.cache_prompt = True
        parameters.cache_ram_mib = _PROMPTS_MIB
        parameters.ui = False
        parameters.endpoint_slots = False
        parameters.endpoint_metrics = False
        parameters.endpoint_props = False
        parameters.offline = True
        parameters.verbosity = 1
        server = xllamacpp.Server(parameters)
        url = server.listening_address
        _ask_health(url)
    except BaseException as error:
        _leave(error, 1)
    told = {"pid": os.getpid(), "keeper": os.getppid(), "url": url, "key": settings["key"]}
    try:
        _announce(note, {**told, "model": settings["model"]})
    except BaseException as error:
        _leave(error, CANNOT_TELL)
    while True:
        signal.pause()


def _leave(error: BaseException, code: int) -> NoReturn:
    # The log lies where there may be no space.
    with suppress(OSError):
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    os._exit(code)


def _ask_health(url: str) -> None:
    """Raise unless it answers that it is well."""
    from http.client import HTTPConnection
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    try:
        connection.request("GET", "/health")
        status = connection.getresponse().status
    finally:
        connection.close()
    if status != 200:
        raise RuntimeError(f"it loaded, and answers /health with status {status}")


def _announce(note: Path, told: dict[str, Any]) -> None:
    """Write the note, all of it at once, for its owner alone."""
    draft = note.with_suffix(".part")
    draft.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with open(os.open(draft, flags, 0o600), "w") as file:
        json.dump(told, file)
    draft.replace(note)


if __name__ == "__main__":
    main()
