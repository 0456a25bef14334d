"""What is beneath an open folder.

It also runs in grep's own process, so it imports nothing but the standard library.

Keep true:
1. Everything is opened by one name at a time, from the descriptor of its folder, and never through a link.
   So nothing outside the folder is read, whatever somebody renames or links meanwhile.
2. Records of Placet, the folder `.placet/data` of any folder on the way, are not entered under any name.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterator

SKIPPED = frozenset(
    {
        ".placet",
        ".git",
        ".hypothesis",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".venv",
        "__pycache__",
        "node_modules",
        "venv",
    }
)
"""Folders that are not entered: programs made what is in them, and there is much of it."""

_HOLDS_RECORDS = ".placet"
_RECORDS = "data"

MOST_ENTRIES = 200_000
"""Names looked at in one walk."""
MOST_DEPTH = 100
"""Folders within folders. Each level holds a descriptor."""

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_OUT_OF = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class Walk:
    """Every file beneath an open folder, by name. Folders are entered, not told.

    `for path, kind, folder, name in Walk(fd)`: the path from where the walk began; "file", "link" or "other";
    the descriptor of the folder that holds it, open until the next step; its name there.
    """

    def __init__(
        self, start: int, *, hidden: Collection[tuple[int, int]] = (), most: int = MOST_ENTRIES
    ) -> None:
        self._start = start
        self.hidden = set(hidden)
        """Device and inode of what is passed over, whatever it is called. Grows as records are met."""
        self._most = most
        self.looked_at = 0
        self.is_cut_short = False
        """Whether something was passed over because there is too much of it."""
        self.unreadable = 0
        """Folders that we may not read."""

    def __iter__(self) -> Iterator[tuple[str, str, int, str]]:
        return self._beneath(self._start, "", 0)

    def _beneath(self, folder: int, before: str, depth: int) -> Iterator[tuple[str, str, int, str]]:
        for name, kind in sorted(self._names(folder)):
            if kind != "folder":
                yield before + name, kind, folder, name
            elif name in SKIPPED:
                continue
            elif depth == MOST_DEPTH:
                self.is_cut_short = True
            else:
                inner = self._enter(folder, name)
                if inner is None:
                    continue
                try:
                    yield from self._beneath(inner, f"{before}{name}/", depth + 1)
                finally:
                    os.close(inner)

    def _enter(self, folder: int, name: str) -> int | None:
        try:
            inner = os.open(name, _OPEN | os.O_DIRECTORY, dir_fd=folder)
        except OSError as error:
            self._note(error)
            return None
        found = os.fstat(inner)
        if (found.st_dev, found.st_ino) in self.hidden:
            os.close(inner)
            return None
        return inner

    def _names(self, folder: int) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if self.looked_at >= self._most:
                        self.is_cut_short = True
                        break
                    self.looked_at += 1
                    found.append((entry.name, _kind(entry)))
                    if entry.name.casefold() == _HOLDS_RECORDS:
                        self._hide_records(folder, entry.name)
        except OSError as error:
            self._note(error)
        return found

    def _hide_records(self, folder: int, name: str) -> None:
        """By what they are: the name may be a link to a folder that is entered under its own."""
        try:
            found = os.stat(f"{name}/{_RECORDS}", dir_fd=folder)
        except OSError:
            return
        self.hidden.add((found.st_dev, found.st_ino))

    def _note(self, error: OSError) -> None:
        refuse_if_out(error)
        # Whatever else it is: the folder was taken away, or became a link, since its name was read.
        self.unreadable += isinstance(error, PermissionError)


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def refuse_if_out(error: OSError) -> None:
    """Raise an error that would be met again at the next file: an answer would look whole, and be wrong."""
    if error.errno in _OUT_OF:
        raise error


def open_file(folder: int, name: str) -> int:
    """A descriptor of a name in a folder, which is no link; opening never waits."""
    return os.open(name, _OPEN, dir_fd=folder)


def read_file(opened: int, most: int) -> bytes:
    """What an open file holds, up to `most` bytes; nothing if it is no regular file. Closes it."""
    with os.fdopen(opened, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return b""
        parts: list[bytes] = []
        while most and (part := file.read(most)):
            parts.append(part)
            most -= len(part)
    return b"".join(parts)


def shown(name: str) -> str:
    r"""A file name as text that JSON can carry: bytes that are no UTF-8 are written `\xff`."""
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "backslashreplace")
