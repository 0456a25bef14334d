"""How much a command has written to disk.

No rlimit counts what many files hold together. So the keeper looks: first at the free space, which costs
next to nothing, and closely only when that has fallen by more than the command may write. Other programs fill
the disk too, so only what is then found counts: what has changed beneath the command's folders since its
start, and what its processes keep of files that are deleted.

It is a watch, not a wall: between two looks more can be written, and a process that is not root sees only
how much of a deleted file is mapped, not how much there is. A file that was there before counts whole once it
is changed, since nobody knows how long it was.

Keep true:
1. The keeper runs this on a bare interpreter: it imports nothing that the keeper does not have already.
2. No link is followed, and no look takes long, whatever the command has laid out.
3. What cannot be looked into, although the command changed it, counts as too much. Hiding is no way out.
"""

from __future__ import annotations

import os
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    Levels = list[tuple[int, Any]]
    """The folders that are being looked at, each within the one before: a descriptor, and what is left."""

SLICE = 20_000
"""Entries in one look. The next look goes on from there, so that all is seen in the end."""
REST = 10
"""For so many times as long as it took there is no other look."""
HELD_S = 0.3
"""Between two looks at deleted files where the free space has not fallen."""
DEPTH = 200
"""Folders within folders. Each takes two descriptors while it is looked at; no project is that deep."""
_BLOCK = 512
"""What the system counts in, whatever the blocks of a file system are."""
_CLOCK_REALTIME_COARSE = 5
"""What file systems take their times from. The other clock is some milliseconds ahead of it."""
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class DiskWatch:
    """Looks at what is written beneath `folders` from now on. More than `limit` bytes is too much."""

    def __init__(self, folders: Sequence[str], limit: int) -> None:
        self.folders = folders
        self.limit = limit
        self.began_ns = _now_ns()
        self.free: dict[int, tuple[str, int]] = {}
        """For each file system, a folder on it and the most space that was free."""
        for folder in folders:
            try:
                self.free[os.stat(folder).st_dev] = folder, _free(folder)
            except OSError:
                continue  # It is not there, so nothing can be written there.
        self.rest_until = 0.0
        self._walk: Iterator[int] | None = None
        self._found = 0
        self._held_at = 0.0

    def exceeded(self, pids: Sequence[int]) -> bool:
        """Whether more than the limit was found. `pids` are the processes of the command."""
        began = time.monotonic()
        if began < self.rest_until:
            return False
        if self.has_fallen():
            is_over = self._look(pids)
        else:
            self._walk = None
            if began < self._held_at:
                return False
            # Cheap enough to be looked at in any case: somebody else may free what the command fills.
            is_over = self._held(pids) > self.limit
            self._held_at = began + HELD_S
        now = time.monotonic()
        self.rest_until = now + REST * (now - began)
        return is_over

    def has_fallen(self) -> bool:
        """Whether the free space of a file system is lower by more than the limit than it has been."""
        has_fallen = False
        for device, (folder, most) in self.free.items():
            try:
                free = _free(folder)
            except OSError:
                continue
            # What others free meanwhile must not make room for the command.
            self.free[device] = folder, max(free, most)
            has_fallen = has_fallen or most - free > self.limit
        return has_fallen

    def _look(self, pids: Sequence[int]) -> bool:
        if self._walk is None:
            self._walk = self._sizes()
            self._found = 0
        for _ in range(SLICE):
            size = next(self._walk, None)
            if size is None:
                self._walk = None
                break
            self._found += size
            if self._found > self.limit:
                self._walk = None
                return True
        return self._found + self._held(pids) > self.limit

    def _sizes(self) -> Iterator[int]:
        """What each file and folder holds that is new or changed; 0 for the others."""
        linked: set[tuple[int, int]] = set()
        for folder in self.folders:
            levels: Levels = []
            try:
                _enter(levels, folder, None)
            except OSError:
                continue  # It is not there, or was never ours to see.
            try:
                while levels:
                    entry = _next(levels)
                    if entry is None:
                        continue
                    try:
                        found = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue  # It has gone.
                    is_new = found.st_ctime_ns >= self.began_ns
                    if is_new and found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
                        if (found.st_dev, found.st_ino) in linked:
                            yield 0
                            continue
                        linked.add((found.st_dev, found.st_ino))
                    yield found.st_blocks * _BLOCK if is_new else 0
                    if stat.S_ISDIR(found.st_mode) and not self._can_enter(levels, entry.name, is_new):
                        yield self.limit + 1
            finally:
                while levels:
                    _leave(levels)

    def _can_enter(self, levels: Levels, name: str, is_new: bool) -> bool:
        """Go into a folder. False if the command keeps us from looking there."""
        if len(levels) >= DEPTH:
            return False
        try:
            _enter(levels, name, levels[-1][0])
        except (FileNotFoundError, NotADirectoryError):
            return True  # It has gone, or is something else by now.
        except OSError:
            return not is_new
        return True

    def _held(self, pids: Sequence[int]) -> int:
        """What the processes keep of files that have no name any more."""
        sizes: dict[tuple[int, int], int] = {}
        left = SLICE
        for pid in pids:
            for path in _open_files(pid):
                left -= 1
                found = _stat(path)
                if found is not None and not found.st_nlink and stat.S_ISREG(found.st_mode):
                    sizes[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK
            if left < 0:
                break
            for path, key, size in _mapped_files(pid):
                # An open file need not stay open to be kept. Only root sees how much of it there is; others
                # see how much is mapped.
                found = _stat(path)
                if found is not None:
                    sizes[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK
                elif key not in sizes:
                    sizes[key] = size
        return sum(size for (device, _), size in sizes.items() if device in self.free)


def _enter(levels: Levels, name: str, above: int | None) -> None:
    """Go into a folder.

    Raises:
        OSError: there is none, or it may not be looked into.
    """
    fd = os.open(name, _FLAGS, dir_fd=above)
    try:
        levels.append((fd, os.scandir(fd)))
    except OSError:
        os.close(fd)
        raise


def _next(levels: Levels) -> os.DirEntry[str] | None:
    """The next entry of the folder that was entered last. At its end it is left."""
    try:
        entry: os.DirEntry[str] | None = next(levels[-1][1], None)
    except OSError:
        entry = None
    if entry is None:
        _leave(levels)
    return entry


def _leave(levels: Levels) -> None:
    fd, entries = levels.pop()
    entries.close()
    os.close(fd)


def _open_files(pid: int) -> list[str]:
    try:
        return [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return []


def _mapped_files(pid: int) -> list[tuple[str, tuple[int, int], int]]:
    """The deleted files that a process has mapped: a path to each, its device and number, and how much."""
    found = []
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            for line in file:
                if line.endswith(b" (deleted)\n"):
                    span, _, _, device, number, _ = line.split(None, 5)
                    begin, end = (int(part, 16) for part in span.split(b"-"))
                    major, minor = (int(part, 16) for part in device.split(b":"))
                    key = os.makedev(major, minor), int(number)
                    found.append((f"/proc/{pid}/map_files/{begin:x}-{end:x}", key, end - begin))
    except (OSError, ValueError):
        pass  # It has ended, or is not ours to see.
    return found


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _free(folder: str) -> int:
    found = os.statvfs(folder)
    return found.f_bfree * found.f_frsize


def _now_ns() -> int:
    try:
        return time.clock_gettime_ns(_CLOCK_REALTIME_COARSE)
    except (AttributeError, OSError):
        return time.time_ns()
