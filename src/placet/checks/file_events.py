"""Names that appear, change or vanish beneath a folder while a command runs there, as the kernel tells them.

A comparison at the end does not see a file that was made, used and removed in between. inotify does, for
every process and through every mount, and needs no rights.

Keep true:
1. Watching is best effort: what cannot be watched is not reported, and nothing fails for it.
2. No descriptor stays open after `close`, and none is closed twice: its number may be another's by then. So
   only the event loop's thread calls `close`.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from functools import cache
from typing import Any

_MODIFY, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x40, 0x80, 0x100, 0x200
_IS_FOLDER = 0x40000000
_ONLY_FOLDERS, _NO_LINKS = 0x01000000, 0x02000000
_MASK = _MODIFY | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLY_FOLDERS | _NO_LINKS
_EVENT = struct.Struct("iIII")
_CHUNK = 1 << 16
_MOST_FOLDERS = 5_000
_MOST_PATHS = 100_000


class FileEvents:
    """Collects the paths beneath `folder`, relative to it, that change from now on."""

    def __init__(self, folder: str) -> None:
        self._top = folder
        self._folders: dict[int, str] = {}
        """The watched folders, relative, by the number of their watch."""
        self.paths: dict[str, None] = {}
        """The paths that changed, in the order of their first change; without folders."""
        self.folders: dict[str, None] = {}
        """The folders that were made, moved or removed."""
        self._loop: Any = None
        self._fd = -1
        libc = _libc()
        if libc is not None:
            self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd >= 0:
            self._watch("")

    def listen(self) -> None:
        """Read events as they come, on the running event loop: the kernel's queue is short."""
        import asyncio

        if self._fd >= 0:
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._fd, self.read)

    def read(self) -> None:
        """Take the events that have come so far."""
        with suppress(BlockingIOError):
            while data := os.read(self._fd, _CHUNK):
                self._take(data)

    def close(self) -> None:
        """Take the last events, and stop watching."""
        if self._fd < 0:
            return
        if self._loop is not None:
            self._loop.remove_reader(self._fd)
        with suppress(OSError):
            self.read()
        number, self._fd = self._fd, -1
        os.close(number)

    def _take(self, data: bytes) -> None:
        at = 0
        while at + _EVENT.size <= len(data):
            watch, mask, _, length = _EVENT.unpack_from(data, at)
            name = data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0")
            at += _EVENT.size + length
            if watch not in self._folders or not name:
                continue  # Too many events at once, or a folder that is gone.
            path = _joined(self._folders[watch], os.fsdecode(name))
            self._add(path, is_folder=bool(mask & _IS_FOLDER))
            if mask & _IS_FOLDER and mask & (_CREATE | _MOVED_TO):
                self._watch(path, is_new=True)

    def _add(self, path: str, *, is_folder: bool) -> None:
        into = self.folders if is_folder else self.paths
        if len(into) < _MOST_PATHS:
            into.setdefault(path)

    def _watch(self, folder: str, *, is_new: bool = False) -> None:
        """Watch a folder and all beneath it. What is in a new one came with it."""
        left = [folder]
        while left and len(self._folders) < _MOST_FOLDERS:
            here = left.pop()
            place = os.path.join(self._top, here)
            number = _libc().inotify_add_watch(self._fd, os.fsencode(place), _MASK)
            if number < 0:
                continue
            self._folders[number] = here
            with suppress(OSError), os.scandir(place) as entries:
                for entry in entries:
                    path = _joined(here, entry.name)
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if is_new:
                        self._add(path, is_folder=is_folder)
                    if is_folder:
                        left.append(path)


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


@cache
def _libc() -> Any:
    """The C library, if it has inotify."""
    import ctypes

    found = ctypes.CDLL(None, use_errno=True)
    return found if hasattr(found, "inotify_init1") else None
