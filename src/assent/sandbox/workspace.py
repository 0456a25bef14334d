"""Files beneath one folder, whatever links and a model's spelling of a path say.

A path is resolved to the folder that holds the last name, by `open_beneath`. Everything then happens to that
name in that descriptor: it is opened, replaced or made there, and nothing that is swapped meanwhile moves it.

Keep true:
1. No answer depends on a path that was looked at before: only on descriptors and on single names in them.
2. Whatever is opened or written passes `guard` first, which knows the folders that tools leave alone.
3. A path comes as a model wrote it. What is wrong with it is a `ToolError` that says what to write instead.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec

from assent.errors import ToolError, UsageError
from assent.sandbox.beneath import FOLDER, MAX_LINKS, MAX_PATH, open_beneath
from assent.sandbox.refusals import cannot, no_file, refused, shown, words
from assent.sandbox.spot import NOT_READ, Closed, Seen, Spot, guard, id_in, look, replace, seen

Kind = Literal["file", "folder", "link", "other"]

MAX_NAME = 255
"""Bytes of one name in a path."""

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PIECE = 1 << 20


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One name in a folder. A name that is no UTF-8 holds lone surrogates, as everywhere in Python."""

    name: str
    kind: Kind
    size: int
    """Bytes; of a link, those of its text."""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What a write did."""

    path: str
    """Relative to the workspace, as `Workspace.relative` gives it."""
    created: bool
    """Whether there was no such file before."""


class Workspace:
    """A folder that tools may work in, and nothing outside of it.

    `readable` are folders elsewhere, given as absolute paths, that may be read too; they need not exist yet.
    `closed` are files and folders that are neither read nor written, wherever they are.
    `by_hand` chooses how paths are resolved, for tests; None takes the kernel's way where there is one.

    Raises:
        UsageError: there is no such folder, or it may not be entered.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        readable: Iterable[str | Path] = (),
        closed: Iterable[str | Path] = (),
        by_hand: bool | None = None,
    ) -> None:
        try:
            self.folder = Path(folder).resolve(strict=True)
            self.fd = os.open(self.folder, FOLDER)
        except (OSError, ValueError, RuntimeError) as error:
            why = words(error) if isinstance(error, OSError) else str(error)
            raise UsageError(
                f"The workspace {folder} cannot be opened: {why}. Name a folder that exists."
            ) from None
        self._close = weakref.finalize(self, os.close, self.fd)
        self.lock = threading.RLock()
        """Hold it while something is read and then written."""
        self._spellings = [_names(str(self.folder)), _names(os.path.abspath(folder))]
        self._readable = [os.path.abspath(each) for each in readable]
        self._closed = [os.path.abspath(each) for each in closed]
        self._by_hand = by_hand

    def close(self) -> None:
        """Give the descriptor back; nothing can be opened any more. Calling it twice is harmless."""
        self.fd = -1
        self._close()

    def __repr__(self) -> str:
        return f"<Workspace {self.folder}>"

    def relative(self, path: str) -> str:
        """`path` relative to the workspace, without doubled slashes and single dots; "." for the folder.

        An absolute path is fine if it begins with the workspace's own. `..` stays: where it leads depends on
        links, and is found out when the path is opened.

        Raises:
            ToolError: it is no path at all, or absolute and elsewhere.
        """
        if not path:
            raise refused("The path is empty. Give one relative to the workspace, or '.' for its folder.")
        if "\0" in path:
            raise refused(f"The path {shown(path)} holds a zero character, which no path can. Leave it out.")
        try:
            size = len(path.encode())
        except UnicodeEncodeError:
            raise refused(
                f"The path {shown(path)} holds half of a surrogate pair. Write it in valid Unicode."
            ) from None
        names = _names(path)
        if path.startswith("/"):
            own = next((own for own in self._spellings if names[: len(own)] == own), None)
            if own is None:
                raise self._outside(path)
            names = names[len(own) :]
        if size >= MAX_PATH or any(len(name.encode()) > MAX_NAME for name in names):
            raise refused(
                f"The path {shown(path)} is too long. A name may have {MAX_NAME} bytes, "
                f"a path {MAX_PATH - 1}."
            )
        return "/".join(names) or "."

    def open(self, path: str, flags: int, mode: int = 0) -> int:
        """A descriptor of what lies at `path`; it is the caller's to close. Never waits, also not for a pipe.

        Raises:
            OSError: in the kernel's words; `cannot` makes a ToolError of it.
            ToolError: the path leads outside, or to what these tools leave alone.
        """
        elsewhere = None if flags & _WRITES else self._elsewhere(path)
        if elsewhere is not None:
            with closing(elsewhere):
                return elsewhere.open(path, flags)
        follow = not flags & os.O_NOFOLLOW
        flags |= os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
        for _ in range(MAX_LINKS):
            with self._spot(path, follow=follow) as spot:
                self._guard(spot, path, writing=bool(flags & _WRITES))
                try:
                    opened = os.open(spot.name, flags, mode, dir_fd=spot.parent)
                except OSError as error:
                    if follow and error.errno in (errno.ELOOP, errno.EMLINK):
                        continue
                    raise
                if not (follow and stat.S_ISLNK(os.fstat(opened).st_mode)):
                    return opened
                # It became a link after we looked, and was opened as one, for O_PATH. Look again.
                os.close(opened)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)

    def open_file(self, path: str) -> tuple[int, Seen]:
        """A descriptor for reading a regular file, and what tells it from a later one of that name.

        Raises:
            ToolError: there is no such file, it may not be read, or it is no regular file.
        """
        try:
            opened = self.open(path, os.O_RDONLY)
        except OSError as error:
            raise cannot("read", path, error) from None
        try:
            found = os.fstat(opened)
            if not stat.S_ISREG(found.st_mode):
                raise no_file("read", path, found.st_mode)
        except BaseException:
            os.close(opened)
            raise
        return opened, seen(found)

    def read(self, path: str, limit: int) -> tuple[bytes, Seen]:
        """The whole of a regular file, and what tells it from a later one of that name.

        Raises:
            ToolError: there is no such file, it may not be read, is no regular file, or has more than `limit`
                bytes.
        """
        opened, found = self.open_file(path)
        try:
            pieces: list[bytes] = []
            size = 0
            while size <= limit:
                piece = os.read(opened, min(_PIECE, limit + 1 - size))
                if not piece:
                    return b"".join(pieces), found
                pieces.append(piece)
                size += len(piece)
        except OSError as error:
            raise cannot("read", path, error) from None
        finally:
            os.close(opened)
        raise refused(
            f"The file {shown(path)} has {max(found.size, size):,} bytes, and at most {limit:,} can be taken "
            "at once. Take a part of it."
        )

    def read_bytes(self, path: str, limit: int) -> bytes:
        """The whole of a regular file; a ToolError as for `read`."""
        return self.read(path, limit)[0]

    def write_bytes(
        self, path: str, data: bytes, *, if_unchanged: Seen | None = None, create_folders: bool = False
    ) -> Written:
        """Make or replace a file, whole. Where a link stands, the file it leads to is replaced.

        The mode of what is replaced is kept, without setuid and setgid.

        Raises:
            ToolError: nothing was written; the message says why. With `if_unchanged` also because the file is
                no longer that one: then, and then only, trying again may help.
        """
        if self.relative(path) == "." or path.endswith(("/", "/.")):
            raise refused(f"The path {shown(path)} names a folder. Give the name of a file.")
        with self.lock:
            try:
                if create_folders:
                    self._make_folders(path)
                with self._spot(path, follow=True) as spot:
                    self._guard(spot, path, writing=True)
                    if spot.found is not None and not stat.S_ISREG(spot.found.st_mode):
                        raise no_file("write", path, spot.found.st_mode)
                    replace(spot, data, path, if_unchanged)
                    return Written(path=self.relative(path), created=spot.found is None)
            except OSError as error:
                raise cannot("write", path, error) from None

    def list(self, path: str) -> list[Entry]:
        """What a folder holds, by name.

        Raises:
            OSError: there is no such folder, or it may not be read; `cannot` makes a ToolError of it.
            ToolError: the path leads outside, or to what these tools leave alone.
        """
        opened = self.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return _entries(opened)
        finally:
            os.close(opened)

    def closed(self) -> Closed:
        """What is neither read nor written, as it is on the disk now."""
        found = Closed.of(self._closed)
        records = id_in(self.fd, NOT_READ)
        return found if records is None else Closed((records, *found.ids), found.births)

    def told(self, path: str) -> str:
        """How a path is told in an answer: relative to the workspace, or as it is if it lies elsewhere.

        Raises:
            ToolError: as `relative`.
        """
        return path.rstrip("/") if self._readable_at(path) is not None else self.relative(path)

    def _beneath(self, path: str) -> int:
        return open_beneath(self.fd, path, FOLDER, by_hand=self._by_hand)

    @contextmanager
    def _spot(self, path: str, *, follow: bool) -> Iterator[Spot]:
        """Where a path's last name is. With `follow`, links of that name are followed, one by one."""
        spot = self._find(path, self.relative(path), follow=follow)
        try:
            yield spot
        finally:
            os.close(spot.parent)

    def _find(self, path: str, inside: str, *, follow: bool) -> Spot:
        for _ in range(MAX_LINKS + 1):
            head, name = _split(inside)
            parent = -1
            try:
                parent = self._beneath(head)
                found = look(name, parent)
                if not (follow and found is not None and stat.S_ISLNK(found.st_mode)):
                    return Spot(parent=parent, name=name, found=found)
                target = os.readlink(name, dir_fd=parent)
            except OSError as error:
                if parent >= 0:
                    os.close(parent)
                if error.errno == errno.EXDEV:
                    raise self._outside(path) from None
                if parent >= 0 and error.errno == errno.EINVAL:
                    continue  # no longer a link
                raise
            os.close(parent)
            if target.startswith("/"):
                raise self._outside(path)
            inside = f"{head}/{target}"
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)

    def _make_folders(self, path: str) -> None:
        *heads, _ = self.relative(path).split("/")
        for at, name in enumerate(heads):
            head = "/".join(heads[: at + 1])
            if name == "..":
                continue
            with self._spot(head, follow=False) as spot:
                if spot.found is None:
                    self._guard(spot, path, writing=True)
                    with suppress(FileExistsError):
                        os.mkdir(spot.name, dir_fd=spot.parent)

    def _guard(self, spot: Spot, path: str, *, writing: bool) -> None:
        try:
            guard(self.fd, spot, self.relative(path), writing=writing, closed=self.closed())
        except OSError as error:
            if error.errno == errno.EXDEV:
                raise self._outside(path) from None
            raise

    def _elsewhere(self, path: str) -> Workspace | None:
        """The readable folder that an absolute path is in, if it is in one and not in the workspace."""
        folder = self._readable_at(path)
        if folder is not None:
            with suppress(UsageError):
                return Workspace(folder, by_hand=self._by_hand)
        return None

    def _readable_at(self, path: str) -> str | None:
        names = _names(path)
        if not path.startswith("/") or any(names[: len(own)] == own for own in self._spellings):
            return None
        return next((each for each in self._readable if names[: len(own := _names(each))] == own), None)

    def _outside(self, path: str) -> ToolError:
        return refused(
            f"The path {shown(path)} leads outside the workspace {self.folder}. Use a path beneath it, "
            "relative to it."
        )


def _names(path: str) -> tuple[str, ...]:
    return tuple(name for name in path.split("/") if name not in ("", "."))


def _split(path: str) -> tuple[str, str]:
    """The folder part and the last name; the name is "." for a path that can only be a folder."""
    *head, name = _names(path) or (".",)
    if name == "..":
        return "/".join([*head, name]), "."
    return "/".join(head) or ".", name


def _entries(folder: int) -> list[Entry]:
    found: list[Entry] = []
    with os.scandir(folder) as names:
        for name in names:
            try:
                entry = name.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            found.append(Entry(name=name.name, kind=_kind(entry.st_mode), size=entry.st_size))
    return sorted(found, key=lambda entry: entry.name)


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"
