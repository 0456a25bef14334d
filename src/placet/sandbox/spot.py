"""A name in an open folder: what stands there, whether tools may touch it, and how it is replaced.

Whoever holds the folder's descriptor holds the folder itself. Swapping its name, or one above it, for a link
changes nothing for him.

Keep true:
1. A file is replaced whole or not at all, and no temporary file stays behind. When that is told, it is on
   the disk.
2. `.git` and `.placet`, at the top, above it or further down, are not written, and what is closed, such as
   `.placet/data`, is not read either, except the `spill` at the top. They are known by device and inode, so
   another spelling or a link is no way in.
3. Nothing comes between the last look at a file and its replacement, if it takes turns as we do. Whoever
   holds a folder's turn asks only for those of folders beneath it, so no two wait for each other.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

import msgspec

from placet.errors import ToolError
from placet.sandbox.beneath import FOLDER
from placet.sandbox.lookalikes import is_read_as
from placet.sandbox.refusals import refused, shown

Id = tuple[int, int]
"""Device and inode: the same file or folder under any name."""

TEMPORARY = ".placet-"
"""How the names of temporary files begin; they end in `.tmp`."""
NOT_READ = ".placet/data"

WAIT_S = 10.0
"""How long a write waits for its turn."""

_NOT_WRITTEN = (".git", ".placet")
_BUT_READ = ".placet/data/spill"
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.0005, 0.02


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What tells whether a file is still the one that was read."""

    device: int
    inode: int
    size: int
    mtime_ns: int


class Spot(msgspec.Struct, frozen=True, kw_only=True):
    """A name in an open folder. The name is no link, unless a link itself was asked for."""

    parent: int
    """A descriptor of the folder."""
    name: str
    found: os.stat_result | None
    """What has that name; None if nothing has."""


def look(name: str, parent: int) -> os.stat_result | None:
    """What has a name in a folder, a link being a link; None if nothing has."""
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def id_of(found: os.stat_result) -> Id:
    return (found.st_dev, found.st_ino)


def id_in(folder: int, path: str) -> Id | None:
    """Which file or folder a path stands for; the question is who it is, not what it holds."""
    try:
        return id_of(os.stat(path, dir_fd=folder))
    except OSError:
        return None


def seen(found: os.stat_result) -> Seen:
    return Seen(device=found.st_dev, inode=found.st_ino, size=found.st_size, mtime_ns=found.st_mtime_ns)


class Closed(msgspec.Struct, frozen=True):
    """Files and folders that are neither read nor written."""

    ids: tuple[Id, ...]
    births: tuple[tuple[Id, str], ...]
    """Of those that do not exist: the folder, and the name in it, that would have to be made first."""
    why: str = ""
    """What they are, as the rest of a sentence; empty for what Placet keeps."""

    @classmethod
    def of(cls, paths: Iterable[str], why: str = "") -> Closed:
        """Absolute paths, as they are on the disk now."""
        ids: list[Id] = []
        births: list[tuple[Id, str]] = []
        for path in paths:
            name = ""
            while (found := _id_at(path)) is None and path != "/":
                path, _, name = path.rpartition("/")
                path = path or "/"
            if found is not None and name:
                births.append((found, name))
            elif found is not None:
                ids.append(found)
        return cls(tuple(ids), tuple(births), why)


class Around(msgspec.Struct, frozen=True):
    """Where a workspace lies, which decides about everything in it."""

    ids: tuple[Id, ...] = ()
    """The workspace's own folder and those above it."""
    is_left_alone: bool = False
    """Whether one of them is a `.git` or a `.placet`."""
    is_record: bool = False
    """Whether one of them is a `.placet/data`, and none its `spill`."""

    @classmethod
    def of(cls, folder: int, names: Iterable[str]) -> Around:
        """By a descriptor of the folder, and by the names of its path."""
        ids: list[Id] = []
        is_left_alone = any(_is_not_written(name) for name in names)
        is_record = False
        # Above a folder that we may not enter nothing can be told, except by the names.
        with suppress(OSError):
            for here in _up(folder, None):
                is_left_alone = is_left_alone or _holds(here, ids)
                records = id_in(here, NOT_READ)
                if records in ids and id_in(here, _BUT_READ) not in ids[: ids.index(records)]:
                    is_record = True
                ids.append(id_of(os.fstat(here)))
        return cls(tuple(ids), is_left_alone, is_record)

    def guard(self, folder: str, *, writing: bool, closed: Closed) -> None:
        """Refuse what may not be done anywhere in the workspace `folder`.

        Raises:
            ToolError: the workspace lies in a folder that tools leave alone.
        """
        if self.is_record or any(each in closed.ids for each in self.ids):
            raise refused(
                f"The workspace {folder} lies where Placet keeps its records and settings. No tool touches "
                "them. Work in another folder."
            )
        if writing and self.is_left_alone:
            raise refused(
                f"The workspace {folder} lies in a folder .git or .placet. These tools do not write there. "
                "Whoever wants that changed does it by hand."
            )


class Turns:
    """Who may change files in a folder now: one at a time, of all threads and of all processes that ask.

    A turn is an advisory lock (`flock`) on the folder itself, so nothing has to be made for it. Where the
    folder may not be read, or its file system has no such locks, turns are taken within the process only.
    """

    def __init__(self, wait_s: float = WAIT_S) -> None:
        self._wait_s = wait_s
        self._threads = threading.RLock()
        self._held: dict[Id, int] = {}

    @contextmanager
    def take(self, folder: int, what: str) -> Iterator[int | None]:
        """Hold the turn; whoever holds it may take it again. `what` is what is busy, in words.

        Gives a descriptor for reading the folder, or None if it may not be read.

        Raises:
            ToolError: others held it too long. Trying again may help.
        """
        if not self._threads.acquire(timeout=self._wait_s):
            raise self._busy(what)
        try:
            # Opened for each turn: two that share what was opened, as after a fork, would share the turn.
            opened = _open_to_read(folder)
            if opened is None:
                yield None
                return
            try:
                own = id_of(os.fstat(opened))
                if own in self._held:
                    yield opened
                    return
                self._wait(opened, what)
                self._held[own] = opened
                try:
                    yield opened
                finally:
                    del self._held[own]
                    # Closing does not do if a program that was forked meanwhile still has it open.
                    with suppress(OSError):
                        fcntl.flock(opened, fcntl.LOCK_UN)
            finally:
                os.close(opened)
        finally:
            self._threads.release()

    def _wait(self, opened: int, what: str) -> None:
        # Asked again and again: a call that waits in the kernel could not be given up.
        end = time.monotonic() + self._wait_s
        pause = _FIRST_PAUSE_S
        while True:
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise self._busy(what) from None
                time.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE_S)
            except OSError:
                return  # The file system has no such locks.
            else:
                return

    def _busy(self, what: str) -> ToolError:
        return ToolError(
            f"{what} is busy: others have been writing there for more than {self._wait_s:g} s. Nothing was "
            "written. Try again later."
        )


def _is_not_written(name: str) -> bool:
    """Whether tools leave it alone, in whatever spelling."""
    return any(is_read_as(name, each) for each in _NOT_WRITTEN)


def guard(top: int, spot: Spot, path: str, *, writing: bool, closed: Closed) -> None:
    """Refuse what tools leave alone; the spot was found by `path` beneath the folder `top`.

    Raises:
        ToolError: the spot is in such a folder.
        OSError: with EXDEV, the spot's folder was moved out of `top` meanwhile.
    """
    if writing and any(_is_not_written(name) for name in (spot.name, *path.split("/"))):
        raise _left_alone(path)
    if writing and closed.births and (id_of(os.fstat(spot.parent)), spot.name) in closed.births:
        raise _closed(path, closed.why)
    # Every folder from the spot to the top: the way it was spelled says nothing about where it is.
    ids = [] if spot.found is None else [id_of(spot.found)]
    shut = [*closed.ids]
    for here in _up(spot.parent, top):
        if writing and _holds(here, ids):
            raise _left_alone(path)
        records = id_in(here, NOT_READ)
        if records is not None:
            shut.append(records)
        ids.append(id_of(os.fstat(here)))
    inner = next((at for at, each in enumerate(ids) if each in shut), None)
    if inner is not None and (writing or id_in(top, _BUT_READ) not in ids[:inner]):
        raise _closed(path, closed.why)


def records_around(folder: int) -> Iterator[Id]:
    """Every `.placet/data` that lies in an open folder or in one above it."""
    with suppress(OSError):
        for here in _up(folder, None):
            records = id_in(here, NOT_READ)
            if records is not None:
                yield records


def replace(spot: Spot, data: bytes, path: str, if_unchanged: Seen | None, turns: Turns) -> None:
    """Write beside the spot's name, then take its place in one step.

    Raises:
        OSError: nothing was changed.
        ToolError: the file is no longer the one that was seen, or its folder is busy; nothing was changed.
    """
    temporary = f"{TEMPORARY}{os.urandom(8).hex()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    was = spot.found
    # Nobody else may read the new text under its temporary name if the old one was private.
    opened = os.open(temporary, flags, 0o666 if was is None else 0o600, dir_fd=spot.parent)
    try:
        try:
            write_all(opened, data)
            if was is not None:
                _take_after(opened, was)
            os.fsync(opened)
        finally:
            os.close(opened)
        # The folder's own turn: a workspace that begins further up or down has another one than ours.
        with turns.take(spot.parent, f"The folder of {shown(path)}") as folder:
            if if_unchanged is not None:
                now = look(spot.name, spot.parent)
                if now is None or seen(now) != if_unchanged:
                    raise ToolError(
                        f"The file {shown(path)} changed meanwhile; nothing was written. Read it again first."
                    )
            os.rename(temporary, spot.name, src_dir_fd=spot.parent, dst_dir_fd=spot.parent)
            if folder is not None:
                # The new file stands already: that its name is not on the disk yet is no failure.
                with suppress(OSError):
                    os.fsync(folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=spot.parent)
        raise


def _open_to_read(folder: int) -> int | None:
    try:
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None


def _holds(folder: int, ids: Sequence[Id]) -> bool:
    """Whether one of these is a folder's `.git` or `.placet`."""
    return any(id_in(folder, name) in ids for name in _NOT_WRITTEN)


def _up(folder: int, top: int | None) -> Iterator[int]:
    """A descriptor of each folder from `folder` up to `top`, both included; open until the next one.

    Without `top` it goes up to the top of the machine.
    """
    last = None if top is None else id_of(os.fstat(top))
    here = os.dup(folder)
    try:
        while True:
            yield here
            own = id_of(os.fstat(here))
            if own == last:
                return
            above = os.open("..", FOLDER, dir_fd=here)
            os.close(here)
            here = above
            if id_of(os.fstat(here)) == own:
                if last is None:
                    return
                # The top of the machine: the folder was moved away while we held it.
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    finally:
        os.close(here)


def _id_at(path: str) -> Id | None:
    try:
        return id_of(os.stat(path))
    except OSError:
        return None


def _closed(path: str, why: str) -> ToolError:
    if why:
        return refused(f"The path {shown(path)} {why}")
    return refused(
        f"The path {shown(path)} is where Placet keeps its records and settings. No tool touches them; only "
        "long outputs that were kept in a spill folder may be read."
    )


def _left_alone(path: str) -> ToolError:
    return refused(
        f"The path {shown(path)} is in a folder .git or .placet, or is one. These tools do not write there. "
        "Whoever wants that changed does it by hand."
    )


def _take_after(opened: int, was: os.stat_result) -> None:
    """Give a file the owner and the mode of another, but no powers: its program is a new one."""
    if (was.st_uid, was.st_gid) != (os.geteuid(), os.getegid()):
        with suppress(PermissionError):
            os.fchown(opened, was.st_uid, was.st_gid)
    os.fchmod(opened, was.st_mode & 0o777)


def write_all(opened: int, data: bytes) -> None:
    """Write all of it, also when the system takes it in parts."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(opened, rest) :]
