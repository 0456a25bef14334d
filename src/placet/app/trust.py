"""Which folders a person has trusted: what a repository brings takes effect after somebody has looked.

Trust is for what is there now. It is remembered by the digest of everything in the folder's `.placet`, so any
change takes it away. `data` is left out: Placet itself writes there, and nothing that lies in it is obeyed.

Keep true:
1. A file is read once, into a Snapshot: what was digested is what whoever asks gets to use.
2. No link is followed on the way, so nothing outside the folder can change what was trusted.
3. A record of trust that cannot be read trusts nobody.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from errno import ELOOP, ENOTDIR
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn

import msgspec

from placet.app.private_record import PrivateRecord
from placet.errors import TrustError
from placet.storage.location import PROJECT_FOLDER, user_folder

FILE_NAME = "trust.json"
FILES_AT_MOST = 1_000
"""Also folders: all that is looked at."""
BYTES_AT_MOST = 16 * 1024 * 1024
_DEPTH_AT_MOST = 20
_LEFT_OUT = "data"

Degree = Literal["trusted", "changed", "unknown"]


class Snapshot(NamedTuple):
    """What a folder brings, as it was at one moment."""

    folder: Path
    """The real path of the folder that holds `.placet`."""
    files: Mapping[str, bytes]
    """What each file holds, by its path inside `.placet`, sorted."""
    digest: str


class Trusted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is remembered of a folder."""

    digest: str
    time: str
    """UTC, ISO 8601."""


def snapshot(folder: Path) -> Snapshot:
    """Everything that a folder's `.placet` holds, but for `data`.

    Raises:
        TrustError: there is no such folder; something in it is a link, no plain file or cannot be read; or
            it holds too much to be looked at.
    """
    home = real(folder)
    files = read_files(home / PROJECT_FOLDER)
    whole = sha256()
    for name, data in files.items():
        # Lengths and digests between the names: no two folders can give the same bytes here.
        path = os.fsencode(name)
        whole.update(b"%d %b %b\n" % (len(path), path, sha256(data).hexdigest().encode()))
    return Snapshot(home, files, whole.hexdigest())


def read_files(folder: Path, below: str = "") -> dict[str, bytes]:
    """The files under a `.placet` folder by their paths, sorted; of `below` alone, if that is named.

    Raises:
        TrustError: as `snapshot`.
    """
    found: dict[str, bytes] = {}
    _Walk(folder, found).into(folder, None, below)
    return dict(sorted(found.items(), key=lambda item: os.fsencode(item[0])))


class _Walk:
    """One pass through a folder, by descriptors: what is swapped for a link meanwhile is noticed."""

    def __init__(self, root: Path, found: dict[str, bytes]) -> None:
        self._root = root
        self._found = found
        self._seen = 0
        self._left = BYTES_AT_MOST

    def into(self, path: Path, parent: int | None, only: str = "") -> None:
        """Read a folder; `only` one entry of it, which need not be there."""
        if len(path.parts) - len(self._root.parts) > _DEPTH_AT_MOST:
            self._refuse_size(f"folders more than {_DEPTH_AT_MOST} deep")
        try:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            here = os.open(path if parent is None else path.name, flags, dir_fd=parent)
        except OSError as error:
            self._refuse(path, error)
        try:
            for name in [only] if only else self._names(here):
                if path != self._root or name != _LEFT_OUT:
                    self._take(path / name, here, is_optional=bool(only))
        except OSError as error:
            self._refuse(path, error)
        finally:
            os.close(here)

    def _names(self, folder: int) -> list[str]:
        with os.scandir(folder) as entries:
            # No more than tell that there are too many.
            return sorted(entry.name for entry in islice(entries, FILES_AT_MOST + 2))

    def _take(self, path: Path, parent: int, *, is_optional: bool) -> None:
        self._seen += 1
        if self._seen > FILES_AT_MOST:
            self._refuse_size(f"more than {FILES_AT_MOST:,} files and folders")
        try:
            kind = os.stat(path.name, dir_fd=parent, follow_symlinks=False).st_mode
        except FileNotFoundError:
            if is_optional:
                return
            raise
        if stat.S_ISDIR(kind):
            self.into(path, parent)
        elif stat.S_ISREG(kind):
            self._found[path.relative_to(self._root).as_posix()] = self._read(path, parent)
        else:
            _refuse_kind(path, "link" if stat.S_ISLNK(kind) else "thing that is no file")

    def _read(self, path: Path, parent: int) -> bytes:
        try:
            # Not to wait for ever, should it have become a pipe since it was looked at.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            file = os.open(path.name, flags, dir_fd=parent)
        except OSError as error:
            self._refuse(path, error)
        with open(file, "rb") as opened:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                _refuse_kind(path, "thing that is no file")
            data = opened.read(self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            self._refuse_size(f"more than {BYTES_AT_MOST // 1024**2} MB")
        return data

    def _refuse_size(self, what: str) -> NoReturn:
        raise TrustError(
            str(self._root),
            f"holds {what}, which nobody can look through",
            f"Keep there only what Placet reads; what it writes belongs in {self._root / _LEFT_OUT}.",
        )

    def _refuse(self, path: Path, error: OSError) -> NoReturn:
        if error.errno == ELOOP or (error.errno == ENOTDIR and path.is_symlink()):
            _refuse_kind(path, "link")
        if path == self._root and isinstance(error, FileNotFoundError | NotADirectoryError):
            raise TrustError(
                str(path.parent),
                f"has no {PROJECT_FOLDER} folder, so there is nothing to trust in it",
                "Name the folder that has one.",
            ) from None
        raise TrustError(
            str(path), f"cannot be read: {error.strerror or error}", "Check its permissions, or take it away."
        ) from None


def _refuse_kind(path: Path, kind: str) -> NoReturn:
    raise TrustError(
        str(path),
        f"is a {kind}, so what it brings could change unseen",
        "Put a plain file or folder in its place, or take it away.",
    ) from None


def real(folder: Path) -> Path:
    """A folder under the one name by which it is remembered.

    Raises:
        TrustError: no folder can be called so.
    """
    try:
        return folder.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        # ValueError: a null character; RuntimeError: links that lead in a circle.
        raise TrustError(ascii(str(folder)), f"is no folder ({error})", "Check the path.") from None


# What is remembered


def how_trusted(seen: Snapshot, environment: Mapping[str, str]) -> Degree:
    """How a person stands to what a folder brings: trusted as it is, trusted before it changed, or never.

    Raises:
        TrustError: the record of trust is damaged.
    """
    known = trusted_folders(environment).get(str(seen.folder))
    if known is None:
        return "unknown"
    return "trusted" if known.digest == seen.digest else "changed"


def is_trusted(seen: Snapshot, environment: Mapping[str, str]) -> bool:
    """Whether somebody has trusted exactly this.

    Raises:
        TrustError: the record of trust is damaged.
    """
    return how_trusted(seen, environment) == "trusted"


def trusted_folders(environment: Mapping[str, str]) -> dict[str, Trusted]:
    """What is remembered, by the real path of each folder.

    Raises:
        TrustError: the record of trust is damaged.
    """
    return _record(environment).load()


def trust(seen: Snapshot, environment: Mapping[str, str]) -> None:
    """Remember that somebody has trusted exactly this. On disk when it returns.

    Raises:
        TrustError: that cannot be written, or what is there is damaged.
    """
    with _record(environment).changing() as folders:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        folders[str(seen.folder)] = Trusted(digest=seen.digest, time=now)


def forget(folder: Path, environment: Mapping[str, str]) -> bool:
    """Take trust back, also from a folder that is gone; false if there was none.

    Raises:
        TrustError: that cannot be written, or what is there is damaged.
    """
    name = str(real(folder))
    if name not in trusted_folders(environment):
        return False
    with _record(environment).changing() as folders:
        return folders.pop(name, None) is not None


def record_file(environment: Mapping[str, str]) -> Path:
    """Where trust is remembered: in the person's own data folder, never in a project."""
    return user_folder(environment) / FILE_NAME


def _record(environment: Mapping[str, str]) -> PrivateRecord[Trusted]:
    return PrivateRecord(
        record_file(environment),
        Trusted,
        key="folders",
        otherwise="no folder is trusted",
        again="trust your folders again with `placet trust PATH`",
    )
