"""One server for a model, shared by all processes of one person, and gone with the last of them.

Three locks in a private folder say everything, and the kernel lets go of each when its holder dies:

    users     shared, held by every process that uses the model; the server's keeper waits to have it alone
    starting  held while somebody looks whether there is a server, or starts one
    server    handed to the keeper at its birth, and held as long as it or the server lives

Keep true:
1. The users' lock is taken before looking: a server that is found then does not go away for want of users.
2. At most one server lives: it is started only by whoever holds `starting` and has taken `server`.
3. The key is in a private file and in two processes' memory, nowhere else.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from errno import EPERM
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from assent.errors import ModelMissing, ModelTimeout, ModelUnavailable
from assent.inference.local.weights import megabytes
from assent.safe_text import clean
from assent.storage.location import user_folder

if TYPE_CHECKING:
    import subprocess

SLOTS = 2
"""Requests that are answered at the same time."""
CONTEXT = 8192
"""Tokens that each of them may have, answer included."""
MOST_THREADS = 4
START_S = 300.0
_POLL_S = 0.05
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


class _Note(msgspec.Struct, frozen=True):
    """What the server says of itself."""

    pid: int
    url: str
    key: str


class Lease:
    """A server, and the promise that it does not end for want of users while this is held."""

    def __init__(self, note: _Note, users: int) -> None:
        self.pid = note.pid
        self.url = note.url
        self.key = note.key
        self._users = users

    def close(self) -> None:
        """Use it no longer. Twice is harmless."""
        users, self._users = self._users, -1
        if users >= 0:
            os.close(users)

    def __del__(self) -> None:
        self.close()


def server_folder(served: Served, environment: Mapping[str, str]) -> Path:
    """Where the locks of a model are: in the runtime folder of the person, else among their things."""
    runtime = environment.get("XDG_RUNTIME_DIR", "")
    here = Path(runtime) / "assent" if _is_own(runtime) else user_folder(environment) / "run"
    return here / f"{served.name}-{served.id[:16]}"


def _is_own(folder: str) -> bool:
    """Whether this is a folder of this person's: the variable may be left over from somebody else's login."""
    try:
        return os.path.isabs(folder) and os.stat(folder).st_uid == os.geteuid() and os.access(folder, os.W_OK)
    except OSError:
        return False


def is_serving(served: Served, environment: Mapping[str, str]) -> bool:
    """Whether a server for it lives now."""
    try:
        lock = os.open(server_folder(served, environment) / "server.lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _try_lock(lock)
    finally:
        os.close(lock)


async def lease(
    served: Served,
    environment: Mapping[str, str],
    *,
    dead: str | None = None,
    available: Callable[[], int | None] | None = None,
) -> Lease:
    """The server of a model; it is started where none is. `dead` is the key of one that was found to
    answer no more, and `available` says how many bytes of memory there are.

    Raises:
        ModelMissing: the weights are not there, or there is too little memory.
        ModelUnavailable: it did not start; says what is in its log.
        ModelTimeout: it did not start in time.
    """
    folder = server_folder(served, environment)
    try:
        _make_private(folder)
        starting = _opened(folder / "starting.lock")
    except OSError as error:
        raise _unusable(folder, error) from None
    try:
        await _lock(starting)
        users = _opened(folder / "users.lock")
        try:
            # One that is just going holds it alone, for a moment.
            await _lock(users, shared=True)
            note = await _found_or_started(served, folder, environment, dead, available or available_memory)
        except BaseException:
            os.close(users)
            raise
        return Lease(note, users)
    except OSError as error:
        raise _unusable(folder, error) from None
    finally:
        os.close(starting)


async def _found_or_started(
    served: Served,
    folder: Path,
    environment: Mapping[str, str],
    dead: str | None,
    available: Callable[[], int | None],
) -> _Note:
    deadline = asyncio.get_running_loop().time() + START_S
    server = _opened(folder / "server.lock")
    process: subprocess.Popen[bytes] | None = None
    try:
        while asyncio.get_running_loop().time() < deadline:
            note = _read_note(folder)
            if not _try_lock(server):
                # It lives; without a note it is starting, or going.
                if note is not None and note.key != dead:
                    return note
            elif process is not None:
                raise _did_not_start(served, folder, process.wait())
            else:
                _check_possible(served, available)
                (folder / "server.json").unlink(missing_ok=True)
                process = _start(served, folder, environment, server)
                # The lock is the keeper's now: an own one is needed to see it let go.
                os.close(server)
                server = _opened(folder / "server.lock")
            await asyncio.sleep(_POLL_S)
        if process is not None:
            process.kill()
        raise ModelTimeout(
            f"The server of '{served.name}' did not start within {START_S:g} s. {_log(folder)}"
        )
    finally:
        os.close(server)


def _start(
    served: Served, folder: Path, environment: Mapping[str, str], server: int
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
        "users": str(folder / "users.lock"),
        "note": str(folder / "server.json"),
    }
    path = os.pathsep.join(os.path.abspath(each) for each in sys.path)
    passed_on = {name: environment[name] for name in _PASSED_ON if name in environment}
    with open(_opened(folder / "server.log"), "wb") as log:
        log.truncate()
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "assent.inference.local.server"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd="/",
            env={**passed_on, "PYTHONPATH": path},
            pass_fds=(server,),
            # Not in our group, where a signal from the terminal would reach it.
            start_new_session=True,
        )
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin:
        process.stdin.write(msgspec.json.encode(settings))
    # Somebody has to take note of its end, whenever that is, or it stays in the list of processes.
    threading.Thread(target=process.wait, daemon=True, name="assent-local-server").start()
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
        raise ModelMissing(f"{served.path} is gone. Fetch it again: assent model pull {served.name}")
    free = available()
    if free is not None and free < served.memory:
        raise ModelMissing(
            f"'{served.name}' needs {megabytes(served.memory)} of memory, and {megabytes(free)} are free. "
            "End other programs, or choose a model that runs elsewhere."
        )


def _did_not_start(served: Served, folder: Path, code: int) -> ModelUnavailable:
    killed = " It was killed: there may be too little memory." if code in (137, -9) else ""
    return ModelUnavailable(
        f"The server of '{served.name}' did not start (exit code {code}).{killed} {_log(folder)} If the file "
        f"is damaged, fetch it again: assent model rm {served.name}, then assent model pull {served.name}"
    )


def _log(folder: Path) -> str:
    """The end of what the server said."""
    try:
        with open(folder / "server.log", "rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 4096))
            lines = log.read().decode(errors="replace").split("\n")
    except OSError:
        lines = []
    said = [clean(line.strip(), 300) for line in lines if line.strip()][-_LOG_LINES:]
    return f"The end of its log: {' / '.join(said).rstrip('.')}." if said else "Its log is empty."


def _read_note(folder: Path) -> _Note | None:
    try:
        return msgspec.json.decode((folder / "server.json").read_bytes(), type=_Note)
    except (OSError, msgspec.DecodeError):
        return None


async def _lock(opened: int, *, shared: bool = False) -> None:
    # Asked for again and again: a thread that waits in the kernel could not be cancelled.
    while True:
        if _try_lock(opened, shared=shared):
            return
        await asyncio.sleep(_POLL_S)


def _try_lock(opened: int, *, shared: bool = False) -> bool:
    import fcntl

    try:
        fcntl.flock(opened, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _make_private(folder: Path) -> None:
    """The folder, this person's alone: who could change what is in it could hand out another server.

    Raises:
        OSError: it cannot be made, or it is somebody else's.
    """
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    for each in (folder.parent, folder):
        found = os.lstat(each)
        if found.st_uid != os.geteuid():
            raise PermissionError(EPERM, "it belongs to somebody else", str(each))
        if found.st_mode & 0o077:
            each.chmod(0o700)


def _unusable(folder: Path, error: OSError) -> ModelUnavailable:
    return ModelUnavailable(
        f"The server's folder {folder} cannot be used: {error.strerror or error}. Mend its rights, or set "
        "XDG_RUNTIME_DIR to a private folder of yours."
    )
