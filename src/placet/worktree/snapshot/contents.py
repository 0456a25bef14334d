"""What files hold, kept so that it can be written again: the seam, and plain copies.

Keep true:
1. What is kept does not change when the file does: a copy shares no inode with what it was made of.
2. A file is opened beneath its tree and never through a link.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from placet.sandbox.beneath import open_beneath

PIECE = 1 << 20
_READ_FILE = os.O_RDONLY | os.O_NOFOLLOW
_FICLONE = 0x40049409
"""Let a file share the blocks of another until one of them is written."""


class Contents(Protocol):
    """Where contents are kept."""

    def keep(self, top: int, where: bytes, paths: Sequence[bytes]) -> list[bytes | None]:
        """Keep what these files hold, and say under what; None for one that cannot be read.

        Paths are relative to the folder `top` is a descriptor of, and `where` is its path.

        Raises:
            OSError: it cannot be kept at all.
        """
        ...

    def is_same(self, content: bytes, opened: int) -> bool:
        """Whether an open file holds just that.

        Raises:
            OSError: the file, or what was kept, cannot be read.
        """
        ...

    def write(self, content: bytes, opened: int) -> None:
        """Write it to an empty file.

        Raises:
            OSError: it cannot be written, or is not there any more.
        """
        ...

    def close(self) -> None:
        """Let go of what is open."""
        ...


def open_file(top: int, path: bytes) -> int | None:
    """A regular file beneath a folder, for reading; None if there is none, or it may not be read."""
    try:
        opened = open_beneath(top, os.fsdecode(path), _READ_FILE)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(opened).st_mode):
        return opened
    os.close(opened)
    return None


class Copies:
    """One file for each file."""

    def __init__(self, folder: str) -> None:
        """`folder` is made if need be."""
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._folder = folder
        self._count = 0

    def keep(self, top: int, where: bytes, paths: Sequence[bytes]) -> list[bytes | None]:
        """Copy them; where the file system can, by sharing their blocks."""
        return [self._keep(top, path) for path in paths]

    def _keep(self, top: int, path: bytes) -> bytes | None:
        source = open_file(top, path)
        if source is None:
            return None
        content = b"%d" % self._count
        self._count += 1
        try:
            target = os.open(self._path(content), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                copy(source, target)
            finally:
                os.close(target)
        finally:
            os.close(source)
        return content

    def is_same(self, content: bytes, opened: int) -> bool:
        """Compare them piece by piece."""
        with open(self._path(content), "rb", buffering=0) as kept:
            if os.fstat(kept.fileno()).st_size != os.fstat(opened).st_size:
                return False
            while True:
                piece = kept.read(PIECE)
                if piece != _read(opened, len(piece) or 1):
                    return False
                if not piece:
                    return True

    def write(self, content: bytes, opened: int) -> None:
        """Copy it back."""
        with open(self._path(content), "rb", buffering=0) as kept:
            copy(kept.fileno(), opened)

    def close(self) -> None:
        """Nothing stays open."""

    def _path(self, content: bytes) -> str:
        return os.path.join(self._folder, str(int(content)))


def copy(source: int, target: int) -> None:
    """Copy an open file to an empty one; the blocks are shared where the file system can.

    Raises:
        OSError: it cannot be read, or not be written.
    """
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        while piece := os.read(source, PIECE):
            write_all(target, piece)


def write_all(opened: int, data: bytes | memoryview) -> None:
    """Write all of it, also when the system takes it in parts."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(opened, rest) :]


def _read(opened: int, size: int) -> bytes:
    """So many bytes, or all that are left."""
    pieces: list[bytes] = []
    while size > 0 and (piece := os.read(opened, size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def sync(folder: str) -> None:
    """Have the file system of a folder write everything to the disk."""
    import sys

    if sys.platform == "linux":
        import ctypes

        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with suppress(AttributeError):
                ctypes.CDLL(None, use_errno=True).syncfs(opened)
                return
        finally:
            os.close(opened)
    os.sync()
