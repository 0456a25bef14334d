"""A tree as it is now, read by descriptors: what is in it, and what of it is left out.

Keep true:
1. No link is followed, and nothing is changed, not even an access right.
2. Whatever is no entry is named as left out, but for what belongs to Placet and the `.git` at the top.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Container
from contextlib import suppress

import msgspec

from placet.sandbox.beneath import open_beneath
from placet.sandbox.spot import Id, id_of
from placet.worktree.snapshot.manifest import Entry, LeftOut, joined
from placet.worktree.snapshot.mounts import OtherMount, stay_on_mount
from placet.worktree.snapshot.removal import READ_FOLDER

DEEPEST = 200
"""Folders within folders; what is deeper is left out. Each of them costs a descriptor."""
_OWN = b".placet"
GIT = b".git"
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def is_placets(name: bytes, found: os.stat_result, untouched: Container[Id]) -> bool:
    """Whether it belongs to Placet, or to whoever started the work, and is nobody's to keep or bring back."""
    return name.lower() == _OWN or id_of(found) in untouched


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How much is kept: by default, of a folder that can be made again."""

    bytes: int = 50 * 1024 * 1024
    entries: int = 10_000


class TooMuch(Exception):
    """There is more than is kept at all; says how much that is."""


class _TooLarge(Exception):
    pass


class _Room:
    """How much of a folder that may be left out has been seen."""

    def __init__(self, bounds: Bounds) -> None:
        self._bytes = bounds.bytes
        self._entries = bounds.entries

    def take(self, size: int) -> None:
        self._bytes -= size
        self._entries -= 1
        if self._bytes < 0 or self._entries < 0:
            raise _TooLarge


class Walk:
    """One walk over a tree."""

    def __init__(
        self,
        untouched: Container[Id],
        may_leave: Callable[[bytes, bytes], bool],
        bounds: Bounds,
        settled_ns: int,
        most: Bounds,
    ) -> None:
        """`may_leave` says of a path and its last name whether it can be left out if it is larger than
        `bounds`. What was changed after `settled_ns` could be changed again without showing it. With more
        than `most` in all the walk is given up."""
        self._untouched = untouched
        self._may_leave = may_leave
        self._bounds = bounds
        self._settled_ns = settled_ns
        self._most = most
        self._bytes = 0
        self._seen = 0
        self.own: list[bytes] = []
        self.entries: list[Entry] = []
        self.left_out: list[LeftOut] = []
        self.git: LeftOut | None = None
        """The `.git` at the top."""

    def all(self, opened: int) -> None:
        """Go over everything beneath an open folder.

        Raises:
            TooMuch: there is more than is kept.
            OSError: that folder cannot be read.
        """
        found = os.fstat(opened)
        self._add(b"", "folder", found)
        self._folder(opened, b"", 0, None)

    def _folder(self, opened: int, path: bytes, depth: int, room: _Room | None) -> None:
        with os.scandir(opened) as listed:
            names = sorted(os.fsencode(each.name) for each in listed)
        for name in names:
            try:
                found = os.stat(name, dir_fd=opened, follow_symlinks=False)
            except FileNotFoundError:
                continue
            at = joined(path, name)
            if is_placets(name, found, self._untouched):
                self.own.append(at)
                continue
            if at == GIT:
                self.git = left_out(at, "the repository", found)
                continue
            kind = stat.S_IFMT(found.st_mode)
            if room is not None:
                room.take(found.st_size if kind == stat.S_IFREG else 0)
            if kind == stat.S_IFDIR:
                leaves = room is None and self._may_leave(at, name)
                self._enter(
                    opened,
                    name,
                    at,
                    found,
                    depth + 1,
                    room=_Room(self._bounds) if leaves else room,
                    leaves=leaves,
                )
            elif kind == stat.S_IFLNK:
                with suppress(FileNotFoundError):
                    self._add(at, "link", found, os.readlink(name, dir_fd=opened))
            elif kind != stat.S_IFREG:
                self._leave(at, _KINDS.get(kind, "no file, folder or link"), found)
            elif room is None and found.st_size > self._bounds.bytes and self._may_leave(at, name):
                self._leave(at, "ignored and large", found)
            else:
                self._add(at, "file", found)

    def _enter(
        self,
        parent: int,
        name: bytes,
        at: bytes,
        found: os.stat_result,
        depth: int,
        *,
        room: _Room | None,
        leaves: bool,
    ) -> None:
        if depth > DEEPEST:
            self._leave(at, f"more than {DEEPEST} folders deep", found)
            return
        try:
            opened = os.open(name, READ_FOLDER, dir_fd=parent)
        except FileNotFoundError:
            return
        except OSError:
            self._leave(at, "may not be read", found)
            return
        try:
            stay_on_mount(opened, parent)
        except OtherMount:
            os.close(opened)
            self._leave(at, "on another file system, or mounted there", found)
            return
        lengths = len(self.entries), len(self.left_out)
        counted = self._bytes, self._seen
        self._add(at, "folder", found)
        try:
            self._folder(opened, at, depth, room)
        except (_TooLarge, TooMuch):
            if not leaves:
                raise
            del self.entries[lengths[0] :], self.left_out[lengths[1] :]
            self._bytes, self._seen = counted
            self._leave(at, "ignored and large", found)
        finally:
            os.close(opened)

    def _leave(self, at: bytes, why: str, found: os.stat_result) -> None:
        self.left_out.append(left_out(at, why, found))

    def _count(self, size: int) -> None:
        self._bytes += size
        self._seen += 1
        if self._bytes > self._most.bytes:
            raise TooMuch(f"{self._most.bytes:,} bytes")
        if self._seen > self._most.entries:
            raise TooMuch(f"{self._most.entries:,} files and folders")

    def _add(self, at: bytes, kind: str, found: os.stat_result, content: bytes = b"") -> None:
        self._count(found.st_size if kind == "file" else 0)
        is_settled = max(found.st_ctime_ns, found.st_mtime_ns) < self._settled_ns
        self.entries.append(
            Entry(
                at,
                kind,  # type: ignore[arg-type]
                stat.S_IMODE(found.st_mode),
                found.st_uid,
                found.st_gid,
                found.st_size,
                found.st_mtime_ns,
                found.st_ctime_ns,
                found.st_ino if is_settled else 0,
                content,
            )
        )


def left_out(at: bytes, why: str, found: os.stat_result) -> LeftOut:
    """It, with what is known of it."""
    return LeftOut(at, why, found.st_dev, found.st_ino, stat.S_IFMT(found.st_mode))


def has_become_other(left: LeftOut, top: int, since_ns: int) -> bool:
    """Whether something that was left out is gone, is another thing now, or was changed after a moment.

    Of pipes, sockets and devices only the first two: to use one is not to change it.
    """
    folder, _, last = left.path.rpartition(b"/")
    try:
        home = open_beneath(top, os.fsdecode(folder) or ".", READ_FOLDER)
    except OSError:
        return True
    try:
        found = os.stat(last, dir_fd=home, follow_symlinks=False)
        # Devices are counted anew when the machine starts, and an inode may be used again.
        if (found.st_ino, stat.S_IFMT(found.st_mode)) != (left.inode, left.kind):
            return True
        if stat.S_ISREG(found.st_mode):
            return found.st_ctime_ns > since_ns
        if not stat.S_ISDIR(found.st_mode):
            return False
        if found.st_ctime_ns > since_ns:
            return True  # Also of one that may not be opened.
        opened = os.open(last, READ_FOLDER, dir_fd=home)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    finally:
        os.close(home)
    try:
        return _has_changed(opened, since_ns)
    finally:
        os.close(opened)


def _has_changed(opened: int, since_ns: int, depth: int = 0) -> bool:
    """Whether anything in an open folder was changed after a moment.

    What is too deep to be looked at has.
    """
    found = os.fstat(opened)
    if found.st_ctime_ns > since_ns or depth > DEEPEST:
        return True
    try:
        with os.scandir(opened) as listed:
            each = [os.fsencode(entry.name) for entry in listed]
    except OSError:
        return False
    for name in each:
        try:
            inner = os.stat(name, dir_fd=opened, follow_symlinks=False)
            if inner.st_ctime_ns > since_ns:
                return True
            if stat.S_ISDIR(inner.st_mode) and inner.st_dev == found.st_dev:
                below = os.open(name, READ_FOLDER, dir_fd=opened)
                try:
                    if _has_changed(below, since_ns, depth + 1):
                        return True
                finally:
                    os.close(below)
        except OSError:
            continue
    return False
