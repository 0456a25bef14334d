"""One server for a model, shared by all processes of one person, and gone some time after the last of them.

Three locks in a private folder say everything, and the kernel lets go of each when its holder dies:

    users     shared, held by every process that uses the model; the server's keeper waits to have it alone
    starting  held while somebody looks whether there is a server, or starts one
    server    handed to the keeper at its birth, and held as long as it or the server lives

Keep true:
1. The users' lock is taken before looking: a server that is found then does not go away for want of users.
2. At most one server lives: it is started only by whoever holds `starting` and has taken `server`.
3. The key is in a private file and in two processes' memory, nowhere else.
4. Whoever finds a server needs nobody's help for it: one that starts another and hangs holds up no user.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from placet.errors import ModelMissing, ModelTimeout, ModelUnavailable
from placet.inference.local.lock_file import LockFile
from placet.inference.local.server import CANNOT_TELL
from placet.inference.local.server_folder import make_private, server_folder, unusable
from placet.inference.local.weights import megabytes
from placet.safe_text import clean
from placet.truncation import margin, truncate_bytes_tail

if TYPE_CHECKING:
    import subprocess

SLOTS = 2
"""Requests that are answered at the same time."""
CONTEXT = 8192
"""Tokens that each of them may have, answer included."""
MOST_THREADS = 4
START_S = 300.0
_POLL_S = 0.05
_HEALTH_S = 5.0
_LOG_LINES = 6
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Of the environment. Other people's keys are not the server's business."""


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """A model to be served."""

    name: str
    path: Path
    id: str
    """Whoever names the same one, shares the server."""
    memory: int
    """Bytes that must be available before it is started."""
    linger_s: float = 0.0
    """How long the server stays after its last user, where this one starts it."""


class _Note(msgspec.Struct, frozen=True):
    """What the server says of itself."""

    pid: int
    url: str
    key: str
    model: str = ""
    """The file that it has loaded."""
    keeper: int = 0


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """A server that lives."""

    pid: int | None
    """None while it starts."""
    path: Path | None
    """The file that it has loaded; None while it starts."""
    users: tuple[int, ...]
    """Processes that use it, as far as the kernel tells."""


class Lease:
    """A server, and the promise that it does not end for want of users while this is held."""

    def __init__(self, note: _Note, users: LockFile) -> None:
        self.pid = note.pid
        self.url = note.url
        self.key = note.key
        self._users = users

    @property
    def is_held(self) -> bool:
        """Whether the promise holds here: not after closing, and not in a forked child."""
        return self._users.is_open

    def close(self) -> None:
        """Use it no longer. Twice is harmless."""
        self._users.close()


def is_serving(served: Served, environment: Mapping[str, str]) -> bool:
    """Whether a server for it lives now."""
    return _is_living(server_folder(served, environment))


def serving(served: Served, environment: Mapping[str, str]) -> Serving | None:
    """The server that lives now, and who uses it; None where there is none."""
    folder = server_folder(served, environment)
    if not _is_living(folder):
        return None
    note = _read_note(folder)
    if note is None:
        return Serving(pid=None, path=None, users=_users(folder, set()))
    path = Path(note.model) if note.model else None
    return Serving(pid=note.pid, path=path, users=_users(folder, {note.pid, note.keeper}))


def stop(served: Served, environment: Mapping[str, str], *, wait_s: float = 10.0) -> bool:
    """End the server that lives now, whoever uses it; whether there was one that answers."""
    import signal
    import time

    folder = server_folder(served, environment)
    note = _read_note(folder)
    if note is None or not note.keeper or not _is_living(folder) or not _is_keeper(note.keeper):
        return False
    with suppress(ProcessLookupError):
        os.kill(note.keeper, signal.SIGTERM)
    ends = time.monotonic() + wait_s
    while _is_living(folder) and time.monotonic() < ends:
        time.sleep(_POLL_S)
    return True


def _is_keeper(pid: int) -> bool:
    """Whether the process is one of ours: a number may have become another's."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return not Path("/proc/self").exists()
    return b"placet.inference.local.server" in line


def _is_living(folder: Path) -> bool:
    if not (folder / "server.lock").is_file():
        return False  # Looking makes nothing.
    try:
        lock = LockFile(folder / "server.lock")
    except OSError:
        return False
    try:
        # Shared: two that look at the same time must not take each other for a server.
        return not lock.try_lock(shared=True)
    finally:
        lock.close()


def _users(folder: Path, beside: set[int]) -> tuple[int, ...]:
    """The processes that have the users' lock open, without those `beside` them and this one."""
    wanted = os.path.realpath(folder / "users.lock")
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if any(os.readlink(link) == wanted for link in (each / "fd").iterdir()):
                found.append(int(each.name))
    return tuple(sorted({*found} - beside - {os.getpid()}))


async def lease(
    served: Served,
    environment: Mapping[str, str],
    *,
    dead: str | None = None,
    available: Callable[[], int | None] | None = None,
    start_s: float = START_S,
) -> Lease:
    """The server of a model; it is started where none is.

    `dead` is the key of one that was lost: it is handed out again only if it says that it is well.
    `available` says how many bytes of memory there are.

    Raises:
        ModelMissing: the weights are not there, there is too little memory, or the folder in which processes
            meet cannot be used.
        ModelUnavailable: it did not start; says what is in its log.
        ModelTimeout: it did not start within `start_s`, or somebody else who starts it did not come to an
            end; says who.
    """
    folder = server_folder(served, environment)
    deadline = asyncio.get_running_loop().time() + start_s
    users: LockFile | None = None
    try:
        make_private(folder)
        users = LockFile(folder / "users.lock")
        # A server that is just going holds it alone, for a moment.
        while not users.try_lock(shared=True):
            await _wait(deadline, served, start_s, None)
        users.touch()
        note = await _found_or_started(
            served, folder, environment, dead, available or available_memory, deadline, start_s
        )
        held = Lease(note, users)
        users = None
        return held
    except OSError as error:
        raise unusable(folder, error) from None
    finally:
        if users is not None:
            users.close()


async def _found_or_started(
    served: Served,
    folder: Path,
    environment: Mapping[str, str],
    dead: str | None,
    available: Callable[[], int | None],
    deadline: float,
    start_s: float,
) -> _Note:
    starting = LockFile(folder / "starting.lock")
    try:
        while not starting.try_lock():
            note = _read_note(folder)
            if note is not None and _is_living(folder) and await _is_well(note, dead):
                return note
            await _wait(deadline, served, start_s, starting)
        starting.sign()
        return await _started(served, folder, environment, dead, available, deadline, start_s)
    finally:
        starting.close()


async def _wait(deadline: float, served: Served, start_s: float, starting: LockFile | None) -> None:
    # Asked for again and again: a thread that waits in the kernel could not be cancelled.
    if asyncio.get_running_loop().time() >= deadline:
        holder = starting.signed_by() if starting is not None else None
        who = f"process {holder}" if holder is not None else "another process"
        fix = f"end it: kill {holder}" if holder is not None else "end it"
        raise ModelTimeout(
            f"'{served.name}' is being started or ended by {who}, which has not come to an end within "
            f"{start_s:g} s. If that one is stopped or hangs, {fix}"
        )
    await asyncio.sleep(_POLL_S)


async def _is_well(note: _Note, dead: str | None) -> bool:
    """Whether a server can be handed out. One that somebody has lost may only have hung up once: it is asked
    how it is."""
    if note.key != dead:
        return True
    from urllib.parse import urlsplit

    parts = urlsplit(note.url)
    try:
        async with asyncio.timeout(_HEALTH_S):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            try:
                writer.write(b"GET /health HTTP/1.0\r\n\r\n")
                return b" 200 " in await reader.readline()
            finally:
                writer.close()
    except (OSError, ValueError):
        return False


async def _started(
    served: Served,
    folder: Path,
    environment: Mapping[str, str],
    dead: str | None,
    available: Callable[[], int | None],
    deadline: float,
    start_s: float,
) -> _Note:
    server = LockFile(folder / "server.lock")
    process: subprocess.Popen[bytes] | None = None
    try:
        while asyncio.get_running_loop().time() < deadline:
            note = _read_note(folder)
            if not server.try_lock():
                # It lives; without a note it is starting, or going.
                if note is not None and _is_living(folder) and await _is_well(note, dead):
                    return note
            elif process is not None:
                raise _did_not_start(served, folder, process.wait())
            else:
                _check_possible(served, available)
                (folder / "server.json").unlink(missing_ok=True)
                process = _start(served, folder, environment, server)
                # The lock is the keeper's now: an own one is needed to see it let go.
                server.close(is_handed_over=True)
                server = LockFile(folder / "server.lock")
            await asyncio.sleep(_POLL_S)
        if process is not None:
            process.kill()
        raise ModelTimeout(
            f"The server of '{served.name}' did not start within {start_s:g} s. {_log(folder)}"
        )
    finally:
        server.close()


def _start(
    served: Served, folder: Path, environment: Mapping[str, str], server: LockFile
) -> subprocess.Popen[bytes]:
    """Start the keeper, and hand it the lock, which this process holds."""
    import secrets
    import subprocess
    import threading

    settings = {
        "name": served.name,
        "model": str(served.path),
        "key": secrets.token_urlsafe(32),
        "context": CONTEXT,
        "slots": SLOTS,
        "threads": threads(),
        "linger": served.linger_s,
        "users": str(folder / "users.lock"),
        "note": str(folder / "server.json"),
    }
    path = os.pathsep.join(os.path.abspath(each) for each in sys.path)
    passed_on = {name: environment[name] for name in _PASSED_ON if name in environment}
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    with open(os.open(folder / "server.log", flags, 0o600), "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "placet.inference.local.server"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd="/",
            env={**passed_on, "PYTHONPATH": path},
            pass_fds=(server.fileno(),),
            # Not in our group, where a signal from the terminal would reach it.
            start_new_session=True,
        )
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin:
        process.stdin.write(msgspec.json.encode(settings))
    # Somebody has to take note of its end, whenever that is, or it stays in the list of processes.
    threading.Thread(target=process.wait, daemon=True, name="placet-local-server").start()
    return process


def threads() -> int:
    """How many it should use: all cores up to four, and one where others are at work."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 1 if os.getloadavg()[0] >= cores else min(cores, MOST_THREADS)


def available_memory() -> int | None:
    """Bytes that can be had without pushing others out; None where the kernel does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _check_possible(served: Served, available: Callable[[], int | None]) -> None:
    if not served.path.is_file():
        raise ModelMissing(f"{served.path} is gone. Fetch it again: placet model pull {served.name}")
    free = available()
    if free is not None and free < served.memory:
        raise ModelMissing(
            f"'{served.name}' needs {megabytes(served.memory)} of memory, and {megabytes(free)} are free. "
            "End other programs, or choose a model that runs elsewhere."
        )


def _did_not_start(served: Served, folder: Path, code: int) -> ModelMissing | ModelUnavailable:
    if code == CANNOT_TELL:
        return ModelMissing(
            f"The server of '{served.name}' has loaded, and cannot write to its folder {clean(folder)}: "
            "there is no space, or the rights are wrong. Make room there, or set XDG_RUNTIME_DIR to another "
            "private folder of yours."
        )
    killed = " It was killed: there may be too little memory." if code in (137, -9) else ""
    return ModelUnavailable(
        f"The server of '{served.name}' did not start (exit code {code}).{killed} {_log(folder)} If the file "
        f"is damaged, fetch it again: placet model rm {served.name}, then placet model pull {served.name}"
    )


def _log(folder: Path) -> str:
    """The end of what the server said."""
    try:
        with open(folder / "server.log", "rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 4096 - margin()))
            lines = truncate_bytes_tail(log.read(), 4096).decode(errors="replace").split("\n")
    except OSError:
        lines = []
    said = [clean(line.strip(), 300) for line in lines if line.strip()][-_LOG_LINES:]
    return f"The end of its log: {' / '.join(said).rstrip('.')}." if said else "Its log is empty."


def _read_note(folder: Path) -> _Note | None:
    try:
        return msgspec.json.decode((folder / "server.json").read_bytes(), type=_Note)
    except (OSError, msgspec.DecodeError):
        return None
