"""A name in an open folder: what stands there, whether tools may touch it, and how it is replaced.

Whoever holds the folder's descriptor holds the folder itself. Swapping its name, or one above it, for a link
changes nothing for him.

Keep true:
1. A file is replaced whole or not at all, and no temporary file stays behind.
2. `.git` and `.assent`, at the top or further down, are not written, and what is closed, such as
   `.assent/data`, is not read either, except its `spill`. They are known by device and inode, so another
   spelling or a link is no way in.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

import msgspec

from assent.errors import ToolError
from assent.sandbox.beneath import FOLDER
from assent.sandbox.refusals import refused, shown

Id = tuple[int, int]
"""Device and inode: the same file or folder under any name."""

TEMPORARY = ".assent-"
"""How the names of temporary files begin; they end in `.tmp`."""
NOT_READ = ".assent/data"

_NOT_WRITTEN = (".git", ".assent")
_BUT_READ = ".assent/data/spill"


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

    @classmethod
    def of(cls, paths: Iterable[str]) -> Closed:
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
        return cls(tuple(ids), tuple(births))


def guard(top: int, spot: Spot, path: str, *, writing: bool, closed: Closed) -> None:
    """Refuse what tools leave alone; the spot was found by `path` beneath the folder `top`.

    Raises:
        ToolError: the spot is in such a folder.
        OSError: with EXDEV, the spot's folder was moved out of `top` meanwhile.
    """
    if writing and any(name.casefold() in _NOT_WRITTEN for name in (spot.name, *path.split("/"))):
        raise _left_alone(path)
    if not writing and not closed.ids:
        return
    if writing and closed.births and (id_of(os.fstat(spot.parent)), spot.name) in closed.births:
        raise _closed(path)
    # Every folder from the spot to the top: the way it was spelled says nothing about where it is.
    ids = [] if spot.found is None else [id_of(spot.found)]
    for here in _up(spot.parent, top):
        if writing and any(id_in(here, name) in ids for name in _NOT_WRITTEN):
            raise _left_alone(path)
        ids.append(id_of(os.fstat(here)))
    inner = next((at for at, each in enumerate(ids) if each in closed.ids), None)
    if inner is not None and (writing or id_in(top, _BUT_READ) not in ids[:inner]):
        raise _closed(path)


def replace(spot: Spot, data: bytes, path: str, if_unchanged: Seen | None) -> None:
    """Write beside the spot's name, then take its place in one step.

    Raises:
        OSError: nothing was changed.
        ToolError: the file is no longer the one that was seen, and nothing was changed.
    """
    temporary = f"{TEMPORARY}{os.urandom(8).hex()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    was = spot.found
    # Nobody else may read the new text under its temporary name if the old one was private.
    opened = os.open(temporary, flags, 0o666 if was is None else 0o600, dir_fd=spot.parent)
    try:
        try:
            _write_all(opened, data)
            if was is not None:
                _take_after(opened, was)
            os.fsync(opened)
        finally:
            os.close(opened)
        if if_unchanged is not None:
            now = look(spot.name, spot.parent)
            if now is None or seen(now) != if_unchanged:
                raise ToolError(
                    f"The file {shown(path)} changed meanwhile; nothing was written. Read it again first."
                )
        os.rename(temporary, spot.name, src_dir_fd=spot.parent, dst_dir_fd=spot.parent)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=spot.parent)
        raise


def _up(folder: int, top: int) -> Iterator[int]:
    """A descriptor of each folder from `folder` up to `top`, both included; open until the next one."""
    last = id_of(os.fstat(top))
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
                # The top of the machine: the folder was moved away while we held it.
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    finally:
        os.close(here)


def _id_at(path: str) -> Id | None:
    try:
        return id_of(os.stat(path))
    except OSError:
        return None


def _closed(path: str) -> ToolError:
    return refused(
        f"The path {shown(path)} is where Assent keeps its records and settings. No tool touches them; only "
        "long outputs that were kept in a spill folder may be read."
    )


def _left_alone(path: str) -> ToolError:
    return refused(
        f"The path {shown(path)} is in a folder .git or .assent, or is one. These tools do not write there. "
        "Whoever wants that changed does it by hand."
    )


def _take_after(opened: int, was: os.stat_result) -> None:
    """Give a file the owner and the mode of another, but no powers: its program is a new one."""
    if (was.st_uid, was.st_gid) != (os.geteuid(), os.getegid()):
        with suppress(PermissionError):
            os.fchown(opened, was.st_uid, was.st_gid)
    os.fchmod(opened, was.st_mode & 0o777)


def _write_all(opened: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(opened, rest) :]
