"""A folder into which others write, handled by descriptor.

What a command leaves in the view can be anything: a link in place of a folder, a pipe in place of a file, a
file without end. Everything that we read, write or remove there goes through here.

Keep true:
1. No link is followed, neither the last name of a path nor one before it. So nothing outside is reached.
2. Reading never waits, and never takes more than was asked for.
3. A file is replaced whole or not at all.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType

from placet.sandbox.snapshot.removal import remove

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 1 << 20
_DEPTH = 64

Signature = tuple[int, int, int, int]
"""Inode, size, and the times of the last change of contents and of anything. The last one cannot be set."""


class Damaged(Exception):
    """Something in a git folder is not what git would have written. It never leaves this package."""


class Folder:
    """An open folder. Paths are relative to it, with `/` between names."""

    def __init__(self, path: str) -> None:
        """Raises OSError: it cannot be opened, or is a link."""
        self.path = path
        self._fd = os.open(path, _FOLDER)

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def read(self, path: str, most: int) -> bytes | None:
        """What is in a file; None if nothing has that name.

        Raises:
            Damaged: it is no regular file, cannot be read, or holds more than `most` bytes.
        """
        with self._open(path) as number:
            return None if number is None else _read(number, path, most)

    def signature(self, path: str) -> Signature | None:
        """What tells whether a file was changed; None if there is no such regular file."""
        with suppress(Damaged), self._parent(path) as parent:
            if parent is not None:
                with suppress(OSError):
                    found = os.stat(_last(path), dir_fd=parent, follow_symlinks=False)
                    return signature(found) if stat.S_ISREG(found.st_mode) else None
        return None

    def exists(self, path: str) -> bool:
        """Whether anything has that name."""
        with suppress(Damaged, OSError), self._parent(path) as parent:
            if parent is not None:
                os.stat(_last(path), dir_fd=parent, follow_symlinks=False)
                return True
        return False

    def write(self, path: str, data: bytes, mode: int = 0o644) -> Signature:
        """Put a file there, and the folders that it needs. What has the name is replaced.

        Raises:
            Damaged: a folder of the path is something else, or what has the name is a folder.
        """
        name = _last(path)
        with self._parent(path, make=True) as parent:
            assert parent is not None
            temporary = f"{name[:100]}.{os.urandom(6).hex()}.tmp"
            try:
                number = os.open(temporary, _WRITE, mode, dir_fd=parent)
                try:
                    rest = memoryview(data)
                    while rest:
                        rest = rest[os.write(number, rest[:_PIECE]) :]
                    os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
                    return signature(os.fstat(number))
                finally:
                    os.close(number)
            except OSError as error:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=parent)
                raise Damaged(f"{path} cannot be written ({error.strerror})") from error

    def make(self, path: str) -> None:
        """See that there is a folder of that name.

        Raises:
            Damaged: something else has it.
        """
        with self._parent(f"{path}/.", make=True):
            pass

    def remove(self, path: str) -> None:
        """See that nothing has that name: a file, a link, or a folder with all that is in it."""
        with suppress(Damaged), self._parent(path) as parent:
            if parent is not None:
                with suppress(OSError):
                    remove(os.fsencode(_last(path)), parent)

    def walk(self, path: str, most: int) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Each name beneath a folder that is no folder, with the path of its folder.

        Raises:
            Damaged: the folder is none, folders lie too deep, or there are more than `most` names.
        """
        left = [path]
        seen = 0
        while left:
            here = left.pop()
            if here.count("/") > _DEPTH:
                raise Damaged(f"folders beneath {path} lie too deep")
            with self._parent(f"{here}/.") as number:
                if number is None:
                    continue
                with os.scandir(number) as entries:
                    for entry in entries:
                        seen += 1
                        if seen > most:
                            raise Damaged(f"there are more than {most} names beneath {path}")
                        if entry.is_dir(follow_symlinks=False):
                            left.append(f"{here}/{entry.name}")
                        else:
                            yield here, entry

    def names(self, path: str) -> list[str]:
        """The names in a folder, of which "" is this one; none if there is no such folder."""
        with suppress(Damaged), self._parent(f"{path}/." if path else ".") as number:
            if number is not None:
                return sorted(os.listdir(number))
        return []

    def copy_out(self, path: str, into: str, most: int) -> int:
        """Copy a regular file to a new file outside; how many bytes it had.

        Raises:
            Damaged: there is none, or it holds more than `most` bytes.
        """
        with self._open(path) as number:
            if number is None:
                raise Damaged(f"{path} is not there")
            copied = 0
            with open(into, "xb") as file:
                while data := os.read(number, _PIECE):
                    copied += len(data)
                    if copied > most:
                        raise Damaged(f"{path} is too large")
                    file.write(data)
            return copied

    @contextmanager
    def _open(self, path: str) -> Iterator[int | None]:
        number: int | None = None
        with self._parent(path) as parent:
            if parent is not None:
                try:
                    number = os.open(_last(path), _READ, dir_fd=parent)
                except FileNotFoundError:
                    number = None
                except OSError as error:
                    raise Damaged(f"{path} cannot be read ({error.strerror})") from error
        try:
            if number is not None and not stat.S_ISREG(os.fstat(number).st_mode):
                raise Damaged(f"{path} is no regular file")
            yield number
        finally:
            if number is not None:
                os.close(number)

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[int | None]:
        """A descriptor of the folder that holds the last name; None if there is none."""
        here: int | None = self._fd
        opened = -1
        try:
            for name in path.split("/")[:-1]:
                if name in ("", ".", ".."):
                    raise Damaged(f"{path!r} is no path in a git folder")
                assert here is not None
                found = _enter(here, name, path, make=make)
                if opened >= 0:
                    os.close(opened)
                here, opened = found, -1 if found is None else found
                if here is None:
                    break
            yield here
        finally:
            if opened >= 0:
                os.close(opened)


def signature(found: os.stat_result) -> Signature:
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _enter(here: int, name: str, path: str, *, make: bool) -> int | None:
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=here)
    try:
        return os.open(name, _FOLDER, dir_fd=here)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Damaged(f"{path}: {name} is no folder that can be entered ({error.strerror})") from error


def _read(number: int, path: str, most: int) -> bytes:
    pieces: list[bytes] = []
    # One that says that it is too large need not be read to find out.
    left = most + 1 if os.fstat(number).st_size <= most else 0
    while left > 0 and (data := os.read(number, min(left, _PIECE))):
        pieces.append(data)
        left -= len(data)
    if left <= 0:
        raise Damaged(f"{path} is larger than {most} bytes")
    return b"".join(pieces)
