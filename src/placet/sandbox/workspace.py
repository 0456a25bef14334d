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
import sys
import weakref
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Literal

import msgspec

from placet.errors import ToolError, UsageError
from placet.sandbox.beneath import FOLDER, MAX_LINKS, MAX_PATH, names_of, open_beneath, split
from placet.sandbox.places import is_beneath
from placet.sandbox.refusals import cannot, no_file, no_write_bit, outside, refused, shown, words
from placet.sandbox.spot import (
    NOT_READ,
    WAIT_S,
    Around,
    Closed,
    Id,
    Seen,
    Spot,
    Turns,
    guard,
    id_in,
    id_of,
    look,
    records_around,
    replace,
    seen,
)

Kind = Literal["file", "folder", "link", "other"]

MAX_NAME = 255
"""Bytes of one name in a path."""

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_WRITE_BITS = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
_PIECE = 1 << 20

_Made = list[tuple[str, Id]]
"""Folders that were made, as paths, and which they are."""

_SEALED = (
    "is what this run was started with: its plan, rules, tools, state or log. No tool changes it. Whoever "
    "wants that changed does it by hand, when the run has ended."
)


_OWN = (
    "belongs to the program that Placet itself is: its interpreter, packages or code. No tool changes it. "
    "Whoever wants that changed does it by hand, or installs Placet outside of the workspace."
)


_PACKAGE = Path(__file__).parents[1]


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
    `closed` are files and folders that are neither read nor written, wherever they are; `sealed` are not
    written: what the work itself was started with. `wait_s` is how long
    a write waits until other processes have written.
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
        sealed: Iterable[str | Path] = (),
        wait_s: float = WAIT_S,
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
        self._turns = Turns(wait_s)
        self._around = Around.of(self.fd, self.folder.parts)
        self._spellings = [names_of(str(self.folder)), names_of(os.path.abspath(folder))]
        self._readable = [os.path.abspath(each) for each in readable]
        self._closed = [os.path.abspath(each) for each in closed]
        self._sealed = [os.path.abspath(each) for each in sealed]
        self._own = [path for path in _own_program() if is_beneath(path, str(self.folder))]
        """Our own interpreter and code. One that was changed would run outside of every sandbox."""
        self._by_hand = by_hand

    def close(self) -> None:
        """Give the descriptor back; nothing can be opened any more. Calling it twice is harmless."""
        self.fd = -1
        self._close()

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Hold it while something is read and then written: `with workspace.lock:`.

        One thread of one process has it, of all that work in this folder. Whoever has it may take it again.
        """
        return self._turns.take(self.fd, f"The workspace {self.folder}")

    def kept_names(self) -> list[str]:
        """What commands must neither change nor put something else in the place of, as it is named."""
        return [str(self.folder / ".placet"), *self._closed, *self._sealed, sys.prefix, str(_PACKAGE)]

    def apart(self) -> tuple[list[str], list[str]]:
        """What beneath the folder is kept from commands: what they do not see, and what they do not write.

        Only what is there: whatever is confined by mounts can cover no name that does not exist.
        """
        closed = [str(self.folder / ".placet"), *self._closed]
        beneath = str(self.folder) + os.sep

        def there(paths: Iterable[str], covered: Iterable[str] = ()) -> list[str]:
            found: list[str] = []
            # What lies in another one is covered with it, and there is nothing left to cover.
            for path in sorted({os.path.realpath(path) for path in paths}):
                if path.startswith(beneath) and os.path.exists(path):
                    if not any(is_beneath(path, other) for other in (*found, *covered)):
                        found.append(path)
            return found

        hidden = there(closed)
        return hidden, there([*self._sealed, *self._own], hidden)

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
        names = names_of(path)
        if path.startswith("/"):
            own = next((own for own in self._spellings if names[: len(own)] == own), None)
            if own is None:
                raise outside(path, self.folder)
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
                with self._folders_of(path) if create_folders else nullcontext():
                    return self._write(path, data, if_unchanged)
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
        # The second: the workspace may be the `.placet` of the folder around it.
        records = (id_in(self.fd, NOT_READ), id_in(self.fd, f"../{NOT_READ}"))
        return Closed((*filter(None, records), *found.ids), found.births)

    def hidden(self, start: int) -> tuple[Id, ...]:
        """What a walk that begins at a descriptor passes over. It finds records further down by itself."""
        return (*self.closed().ids, *records_around(start))

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
            head, name = split(inside)
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
                    raise outside(path, self.folder) from None
                if parent >= 0 and error.errno == errno.EINVAL:
                    continue  # no longer a link
                raise
            os.close(parent)
            if target.startswith("/"):
                raise outside(path, self.folder)
            inside = f"{head}/{target}"
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)

    def _write(self, path: str, data: bytes, if_unchanged: Seen | None) -> Written:
        with self._spot(path, follow=True) as spot:
            self._guard(spot, path, writing=True)
            if spot.found is not None and not stat.S_ISREG(spot.found.st_mode):
                raise no_file("write", path, spot.found.st_mode)
            if spot.found is not None and not spot.found.st_mode & _WRITE_BITS:
                raise no_write_bit(path, spot.found.st_mode)
            replace(spot, data, path, if_unchanged, self._turns)
            return Written(path=self.relative(path), created=spot.found is None)

    @contextmanager
    def _folders_of(self, path: str) -> Iterator[None]:
        """The folders of a path, made where they are missing, and gone again if what follows fails."""
        made: _Made = []
        try:
            self._make_folders(path, made)
            yield
        except BaseException:
            for head, own in reversed(made):
                # One that holds something by now stays: rmdir takes none but empty folders.
                with suppress(OSError, ToolError), self._spot(head, follow=False) as spot:
                    if spot.found is not None and id_of(spot.found) == own:
                        os.rmdir(spot.name, dir_fd=spot.parent)
            raise

    def _make_folders(self, path: str, made: _Made) -> None:
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
                        if (own := id_in(spot.parent, spot.name)) is not None:
                            made.append((head, own))

    def _guard(self, spot: Spot, path: str, *, writing: bool) -> None:
        closed = self.closed()
        self._around.guard(str(self.folder), writing=writing, closed=closed)
        try:
            guard(self.fd, spot, self.relative(path), writing=writing, closed=closed)
            for paths, why in ((self._sealed, _SEALED), (self._own, _OWN)):
                if writing and paths:
                    apart = Closed.of(paths, why)
                    guard(self.fd, spot, self.relative(path), writing=True, closed=apart)
        except OSError as error:
            if error.errno == errno.EXDEV:
                raise outside(path, self.folder) from None
            raise

    def _elsewhere(self, path: str) -> Workspace | None:
        """The readable folder that an absolute path is in, if it is in one and not in the workspace."""
        folder = self._readable_at(path)
        if folder is not None:
            with suppress(UsageError):
                found = Workspace(folder, closed=self._closed, by_hand=self._by_hand)
                # Who allowed it knows where it is: long outputs lie in a folder that is closed.
                found._around = Around()
                return found
        return None

    def _readable_at(self, path: str) -> str | None:
        names = names_of(path)
        if not path.startswith("/") or any(names[: len(own)] == own for own in self._spellings):
            return None
        return next((each for each in self._readable if names[: len(own := names_of(each))] == own), None)


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


def _own_program() -> list[str]:
    """Where the interpreter that runs this, its packages and this very code are."""
    return list({os.path.realpath(path) for path in (sys.prefix, sys.base_prefix, _PACKAGE)})
