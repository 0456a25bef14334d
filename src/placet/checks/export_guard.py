"""Guards the files that checks depend on while a check runs, and observes what it reads.

The code under test runs inside the check. It could rewrite a test that is loaded later, or the script that
the next command of the same line runs. In the sandbox these files are read-only; everywhere they are compared
afterwards, and changes that were reverted are noticed by the inode and by inotify.

Keep true:
1. Nothing of the export decides what is guarded: only the seal does.
2. What the baseline itself rewrites is not held against later runs: the check is made that way.
3. If it cannot be told what was read, that is said (`read` is None) and never taken for nothing.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection
from pathlib import Path
from posixpath import join
from typing import TYPE_CHECKING, NamedTuple

from placet.checks.conventions import CACHE, is_code
from placet.checks.file_events import FileEvents

if TYPE_CHECKING:
    from placet.checks.sealing import Seal

MOST_FIXED = 150
"""Files that are mounted read-only. The time that mounts take grows with the square of their number: 150 take
0.1 s. What is beyond is compared only."""
MOST_READ = 2_000
"""Data files that are listed as read."""
_MOST_HASHED = 64 * 1024 * 1024
_LONG_AGO = 10**9
"""An access time from which every file system updates, in nanoseconds: it is older than any change."""
_OWN = ".placet-"

_Print = tuple[int, int, int, int, int, int, str]


class Observed(NamedTuple):
    """What a check did to the files while it ran."""

    touched: tuple[str, ...] = ()
    """Files that the checks depend on and that were changed, or made."""
    read: tuple[str, ...] | None = ()
    """Data files that were read; None if that is not known."""
    rewritten: tuple[str, ...] = ()
    """Files in doubt that were changed or removed, or for which Python may load something else."""


UNOBSERVED = Observed()


class ExportGuard:
    """Watches one export. `begin` comes before the command, `end` after it."""

    def __init__(self, folder: Path, seal: Seal, rewritten: Collection[str] = ()) -> None:
        """`rewritten` are files and folders that the check itself writes."""
        self._folder = folder
        self._seal = seal
        self._rewritten = frozenset(rewritten)
        self._prints: dict[str, _Print] = {}
        self._data: list[str] = []
        self._others: dict[str, _Print | None] = {}
        """What is not sealed, without its contents."""
        self._folders: set[str] = set()
        """Those that were there at the beginning."""
        self._knows_reads = False
        self._events: FileEvents | None = None

    def begin(self) -> None:
        """Record the state of the files. Not on the event loop: it reads them."""
        hashed = 0
        files = self._files()
        for path in files:
            self._folders.update(_above(path))
            if not self._may_change(path) and self._seal.why(path):
                found = _print(self._folder / path, hashes=hashed < _MOST_HASHED)
                if found is not None:
                    hashed += found[3]
                    self._prints[path] = found
            elif not is_code(path):
                self._data.append(path)
        self._knows_reads = _is_told_of_reads(self._folder.parent)
        if self._knows_reads:
            for path in self._data:
                _make_unread(self._folder / path)
        for path in files:
            if path not in self._prints and not self._may_change(path):
                self._others[path] = _print(self._folder / path, hashes=False)

    def listen(self) -> None:
        """Watch from now on, on the running event loop."""
        self._events = FileEvents(str(self._folder))
        self._events.listen()

    @property
    def fixed(self) -> list[str]:
        """The files to be mounted read-only, those first that checks run or load before tests."""
        plain = [path for path in self._prints if stat.S_ISREG(self._prints[path][2])]
        return sorted(plain, key=lambda path: (self._seal.why(path) == "is a test", path))[:MOST_FIXED]

    def end(self) -> Observed:
        """Compare, once nothing is watched any more. Not on the event loop: it reads the files."""
        changed = {
            path
            for path, before in self._prints.items()
            if _print(self._folder / path, hashes=bool(before[-1])) != before
        }
        seen = self._seen()
        for path in seen:
            if not self._may_change(path) and self._seal.bends(path):
                changed.add(self._topmost(path))
        compiled = {_source_of(path) for path in seen if not self._may_change(path)}
        rewritten = [
            path
            for path, before in self._others.items()
            if path in compiled or _print(self._folder / path, hashes=False) != before
        ]
        in_doubt = tuple(sorted(path for path in rewritten if self._seal.may_doubt(path)))
        return Observed(tuple(sorted(changed)), self._read(), in_doubt)

    def close(self) -> None:
        """Stop watching, on the event loop. Calling it twice is harmless."""
        if self._events is not None:
            self._events.close()

    def _files(self) -> list[str]:
        found: list[str] = []
        for top, folders, files in os.walk(self._folder):
            here = os.path.relpath(top, self._folder)
            prefix = "" if here == "." else f"{here}/"
            links = [name for name in folders if os.path.islink(os.path.join(top, name))]
            found += [f"{prefix}{name}" for name in (*files, *links)]
        return found

    def _seen(self) -> list[str]:
        """Paths that were made or changed: as the kernel told, and as they are now."""
        seen: dict[str, None] = {}
        if self._events is not None:
            seen.update(self._events.paths)
            # A new folder that is still there is judged by what is in it.
            gone = (path for path in self._events.folders if not (self._folder / path).is_dir())
            seen.update(dict.fromkeys([*gone, *self._folders.intersection(self._events.folders)]))
        known = self._prints.keys() | set(self._data)
        now = [path for path in self._files() if path not in known]
        seen.update(dict.fromkeys(now))
        # A file of the base that differs was compared already.
        return [path for path in seen if path not in self._prints and not _is_ours(path)]

    def _may_change(self, path: str) -> bool:
        parts = path.split("/")
        above = ("/".join(parts[:end]) for end in range(1, len(parts) + 1))
        return any(each in self._rewritten for each in above)

    def _topmost(self, path: str) -> str:
        """The folder that was new as a whole, else the path."""
        parts = path.split("/")
        for end in range(1, len(parts)):
            folder = "/".join(parts[:end])
            if folder not in self._folders:
                return folder
        return path

    def _read(self) -> tuple[str, ...] | None:
        if not self._knows_reads:
            return None
        found = [path for path in self._data if _was_read(self._folder / path)]
        # A name that is no text cannot be stored in a result.
        is_text = all(map(_is_text, found))
        return tuple(found) if is_text and len(found) <= MOST_READ else None


def _source_of(path: str) -> str:
    """The source in whose place Python would load a file; empty if it is not compiled code."""
    folder, _, name = path.rpartition("/")
    above, _, last = folder.rpartition("/")
    return join(above, f"{name.partition('.')[0]}.py") if last == CACHE else ""


def _is_text(path: str) -> bool:
    return not any("\ud800" <= each <= "\udfff" for each in path)


def _is_ours(path: str) -> bool:
    return path.startswith(_OWN)


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def _print(path: Path, *, hashes: bool) -> _Print | None:
    """By which a file is known to be unchanged; None if it is gone. The change time cannot be set back."""
    try:
        found = os.lstat(path)
        digest = ""
        if stat.S_ISLNK(found.st_mode):
            digest = os.readlink(path)
        elif stat.S_ISREG(found.st_mode) and hashes:
            with open(path, "rb", opener=_without_links) as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
    return (
        found.st_dev,
        found.st_ino,
        found.st_mode,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
        digest,
    )


def _without_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _make_unread(path: Path) -> None:
    try:
        found = os.lstat(path)
        os.utime(path, ns=(_LONG_AGO, found.st_mtime_ns), follow_symlinks=False)
    except OSError:
        return  # It then counts as read, which asks a person rather than nobody.


def _was_read(path: Path) -> bool:
    try:
        return os.lstat(path).st_atime_ns != _LONG_AGO
    except OSError:
        return True


def _is_told_of_reads(folder: Path) -> bool:
    """Whether the file system here records that a file was read. It is tried: a mount may say `noatime`."""
    probe = folder / f"{_OWN}{os.urandom(8).hex()}"
    try:
        probe.write_bytes(b"x")
        _make_unread(probe)
        probe.read_bytes()
        return _was_read(probe)
    except OSError:
        return False
    finally:
        probe.unlink(missing_ok=True)
