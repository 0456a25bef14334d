"""One snapshot while it is being taken.

Keep true:
1. Nothing in the workspace is changed, and nothing that stands in it is run.
2. What could not be kept, for whatever reason, is named.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Container, Sequence

import msgspec

from placet.errors import ToolError, UsageError
from placet.sandbox.git_folder import GitFolder
from placet.sandbox.spot import Id
from placet.storage.lease import boot_id
from placet.worktree.git import program
from placet.worktree.snapshot.blobs import Blobs, hash_name
from placet.worktree.snapshot.git_state import git_state, repository_of
from placet.worktree.snapshot.manifest import Entry, LeftOut, Manifest, Tree
from placet.worktree.snapshot.removal import READ_FOLDER
from placet.worktree.snapshot.tree import Bounds, TooMuch, Walk, left_out

STORE = "store"
"""The git folder of a snapshot, beside its manifest."""

WELL_KNOWN = frozenset(
    b"node_modules bower_components .venv venv target __pycache__ .tox .nox .cache .gradle .next .mypy_cache "
    b".ruff_cache .pytest_cache".split()
)
"""Folders that programs fill and can fill again."""
_COARSE = 5
"""CLOCK_REALTIME_COARSE of Linux, which Python does not name."""
_TOO_MUCH = (
    "The workspace {folder} cannot be kept to be restored: it has more than {most}, without what is ignored "
    "and large. Bind a smaller folder, or let git ignore what can be made again."
)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How much is kept, and how."""

    bounds: Bounds = Bounds()
    """Beyond these a folder that can be made again is left out."""
    most: Bounds = Bounds(bytes=4 * 1024**3, entries=300_000)
    """Of all files together, and of everything; with more no snapshot is taken."""
    settle_s: float = 2.0
    """A file that was changed within this time before is compared by content afterwards: its times could
    stay the same when it is changed again."""


class Taking:
    """A workspace on its way into a snapshot."""

    def __init__(self, folder: str, into: str, untouched: Container[Id], settings: Settings) -> None:
        """`into` is the folder of the snapshot, which exists and is empty."""
        self._folder = folder
        self._into = into
        self._untouched = untouched
        self._settings = settings

    def all(self, workspace: int) -> Manifest:
        """Keep everything, and say what it is.

        Raises:
            UsageError: it is too much.
            OSError: it cannot be read, or not be kept.
        """
        began_ns = time.time_ns()
        settled_ns = now_ns() - int(self._settings.settle_s * 1e9)
        repository = repository_of(self._folder) if _has_git() else None
        blobs = Blobs(os.path.join(self._into, STORE), hash_name(repository))
        blobs.make(repository)
        top = os.open(".", READ_FOLDER, dir_fd=workspace)
        try:
            walk = self._walk(top, _may_leave(blobs, repository), settled_ns)
            entries, unread = _keep(blobs, top, walk.entries)
            found = os.fstat(top)
        finally:
            os.close(top)
        left = [*walk.left_out, *unread]
        return Manifest(
            began_ns=began_ns,
            hash_name=hash_name(repository),
            tree=Tree(
                os.fsencode(self._folder), entries, left, walk.own, found.st_dev, found.st_ino, walk.git
            ),
            repository=None if repository is None else git_state(repository),
            boot=boot_id(),
        )

    def _walk(self, opened: int, may_leave: Callable[[bytes, bytes], bool], settled_ns: int) -> Walk:
        settings = self._settings
        walk = Walk(self._untouched, may_leave, settings.bounds, settled_ns, settings.most)
        try:
            walk.all(opened)
        except TooMuch as most:
            raise UsageError(_TOO_MUCH.format(folder=self._folder, most=most)) from None
        return walk


def _has_git() -> bool:
    try:
        program()
    except ToolError:
        return False
    return True


def _may_leave(blobs: Blobs, repository: GitFolder | None) -> Callable[[bytes, bytes], bool]:
    known = None if repository is None else blobs.ignored(repository)
    if known is None:
        return lambda path, name: name in WELL_KNOWN
    return lambda path, name: path in known


def _keep(blobs: Blobs, top: int, entries: Sequence[Entry]) -> tuple[list[Entry], list[LeftOut]]:
    """Keep what the files among the entries hold: all entries with it, and the files that could not be read,
    or were changed meanwhile again and again."""
    kept: dict[bytes, Entry] = {}
    rest = [entry for entry in entries if entry.kind == "file"]
    left_out: list[LeftOut] = []
    for is_last in (False, True):
        again: list[Entry] = []
        for entry, content in zip(rest, blobs.keep(top, [e.path for e in rest]), strict=True):
            now = _restat(top, entry)
            if content is not None and now == entry:
                kept[entry.path] = msgspec.structs.replace(entry, content=content)
            elif now is not None and now != entry and not is_last:
                again.append(now)
            elif now is not None:
                why = "may not be read" if content is None else "changed while it was being kept"
                left_out.append(_left(top, entry.path, why))
        rest = again
        if not rest:
            break
    return [
        kept[e.path] if e.kind == "file" else e for e in entries if e.kind != "file" or e.path in kept
    ], left_out


def _left(top: int, path: bytes, why: str) -> LeftOut:
    try:
        found = os.stat(path, dir_fd=top, follow_symlinks=False)
    except OSError:
        return LeftOut(path, why)
    return left_out(path, why, found)


def _restat(top: int, entry: Entry) -> Entry | None:
    """The entry as it is by now; None if it is no file any more."""
    try:
        found = os.stat(entry.path, dir_fd=top, follow_symlinks=False)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    is_same = (found.st_size, found.st_mtime_ns, found.st_ctime_ns) == (
        entry.size,
        entry.mtime_ns,
        entry.ctime_ns,
    ) and entry.inode in (0, found.st_ino)
    if is_same:
        return entry
    return Entry(
        entry.path,
        "file",
        stat.S_IMODE(found.st_mode),
        found.st_uid,
        found.st_gid,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
        0,
    )


def now_ns() -> int:
    """The time by the clock that stamps files, which runs in larger steps than others: what is stamped from
    now on has no earlier time than this."""
    return time.clock_gettime_ns(_COARSE if sys.platform == "linux" else time.CLOCK_REALTIME)
