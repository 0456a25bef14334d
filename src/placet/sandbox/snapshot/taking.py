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
from contextlib import ExitStack, suppress

import msgspec

from placet.errors import UsageError
from placet.sandbox.beneath import open_beneath
from placet.sandbox.snapshot.contents import Contents, Copies
from placet.sandbox.snapshot.databases import Files, NotLinked, keep_objects
from placet.sandbox.snapshot.git_store import GitStore, find_git
from placet.sandbox.snapshot.manifest import Branch, Entry, LeftOut, Manifest, Objects, Tree
from placet.sandbox.snapshot.owner import boot_id
from placet.sandbox.snapshot.removal import READ_FOLDER
from placet.sandbox.snapshot.repository import (
    OBJECTS,
    WELL_KNOWN,
    Linked,
    branch_of,
    head_of,
    ignored,
    is_git_folder,
    is_long_name,
    linked_worktree,
    other_worktrees,
)
from placet.sandbox.snapshot.tree import Bounds, TooMuch, Walk, left_out
from placet.sandbox.spot import Id

STORE, COPIES, OBJECTS_FOLDER = "store", "files", "objects"
"""What a snapshot is made of, besides its manifest."""

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
    most_copied: int = 200 * 1024**2
    """Of objects that cannot be linked; with more they are left out."""
    settle_s: float = 2.0
    """A file that was changed within this time before is compared by content afterwards: its times could
    stay the same when it is changed again."""
    uses_git: bool = True
    """Whether contents are kept by git where there is a repository."""


class Taking:
    """A workspace on its way into a snapshot."""

    def __init__(self, folder: str, into: str, untouched: Container[Id], settings: Settings) -> None:
        """`into` is the folder of the snapshot, which exists and is empty."""
        self._folder = folder
        self._into = into
        self._untouched = untouched
        self._settings = settings
        self._may_copy = settings.most_copied
        self._linked: Linked | None = None
        self._store: GitStore | None = None
        self._elsewhere: list[LeftOut] = []
        self._trees: list[Tree] = []
        self._objects: list[Objects] = []

    def all(self, workspace: int) -> Manifest:
        """Keep everything, and say what it is.

        Raises:
            UsageError: it is too much.
            OSError: it cannot be read, or not be kept.
        """
        began_ns = time.time_ns()
        settled_ns = now_ns() - int(self._settings.settle_s * 1e9)
        with ExitStack() as stack:
            top = os.open(".", READ_FOLDER, dir_fd=workspace)
            stack.callback(os.close, top)
            hash_name = self._prepare(top)
            walks = [(top, os.fsencode(self._folder), self._walk(top, self._may_leave(), settled_ns))]
            if self._linked is not None:
                private = os.open(self._linked.private, READ_FOLDER)
                stack.callback(os.close, private)
                walk = self._walk(private, lambda path, name: False, settled_ns)
                walks.append((private, os.fsencode(self._linked.private), walk))
            self._link(walks)
            contents: Contents = self._store or Copies(os.path.join(self._into, COPIES))
            for opened, where, walk in walks:
                entries, unread = _keep(contents, opened, where, walk.entries)
                left = [*walk.left_out, *unread]
                found = os.fstat(opened)
                self._trees.append(Tree(where, entries, left, walk.own, found.st_dev, found.st_ino))
            head, others = head_of(top), other_worktrees(top, os.fsencode(self._folder))
        branch = self._branch()
        self._trees[0] = msgspec.structs.replace(
            self._trees[0], left_out=[*self._trees[0].left_out, *self._elsewhere]
        )
        return Manifest(
            began_ns=began_ns,
            keeps="copies" if self._store is None else "git",
            hash_name=hash_name,
            trees=self._trees,
            objects=self._objects,
            branch=branch,
            ended_ns=now_ns(),
            head=head,
            others=list(others.branches.items()),
            boot=boot_id(),
        )

    # What kind of folder it is

    def _prepare(self, top: int) -> str:
        """Find the repository, if there is one, and make a store for it; how its objects are named."""
        git_folder = os.path.join(self._folder, ".git")
        try:
            mode = os.stat(".git", dir_fd=top, follow_symlinks=False).st_mode
        except OSError:
            return "sha1"
        objects = ""
        if stat.S_ISDIR(mode):
            if is_git_folder(frozenset(os.fsencode(name) for name in os.listdir(git_folder))):
                objects = os.path.join(git_folder, "objects")
        else:
            self._linked = linked_worktree(self._folder) if stat.S_ISREG(mode) else None
            if self._linked is None:
                self._leave(".git (what it points to)", "outside of the workspace, and no worktree of it")
                return "sha1"
            objects = os.path.join(self._linked.common, "objects")
        git = find_git(self._folder) if self._settings.uses_git and objects else None
        hash_name = _hash_name(objects)
        if git is not None:
            self._store = GitStore(git, os.path.join(self._into, STORE), hash_name)
        return hash_name

    def _may_leave(self) -> Callable[[bytes, bytes], bool]:
        found: set[bytes] | None = None
        if self._store is not None:
            own = os.path.join(self._folder, ".git")
            private, common = self._linked or (own, own)
            found = ignored(self._store, self._folder, private, common)
        if found is None:
            return lambda path, name: name in WELL_KNOWN
        known = found
        return lambda path, name: path in known

    def _walk(self, opened: int, may_leave: Callable[[bytes, bytes], bool], settled_ns: int) -> Walk:
        settings = self._settings
        walk = Walk(self._untouched, may_leave, settings.bounds, settled_ns, settings.most)
        try:
            walk.all(opened)
        except TooMuch as most:
            raise UsageError(_TOO_MUCH.format(folder=self._folder, most=most)) from None
        return walk

    def _leave(self, what: str, why: str) -> None:
        self._elsewhere.append(LeftOut(os.fsencode(what), why))

    # Repositories

    def _link(self, walks: Sequence[tuple[int, bytes, Walk]]) -> None:
        """Link the objects of every repository into the snapshot."""
        for number, (opened, _, walk) in enumerate(walks):
            for path, files in walk.objects.items():
                database = open_beneath(opened, os.fsdecode(path), READ_FOLDER)
                try:
                    is_own = (number, path) in ((0, b".git/objects"), (1, b"objects"))
                    self._link_one(database, number, path, files, is_own)
                finally:
                    os.close(database)
        if self._linked is not None and self._linked.common != self._linked.private:
            where = os.path.join(self._linked.common, "objects")
            database = os.open(where, READ_FOLDER)
            try:
                self._link_one(database, -1, os.fsencode(where), _object_files(database), True)
            finally:
                os.close(database)

    def _link_one(self, database: int, tree: int, path: bytes, files: Files, is_own: bool) -> None:
        target = os.path.join(self._into, OBJECTS_FOLDER, str(len(self._objects)))
        # A repository within is a folder like any other to a command, and its objects are not out of reach.
        size = sum(found.st_size for _, found in files)
        copies = not is_own and size <= self._may_copy
        self._may_copy -= size if copies else 0
        try:
            kept = keep_objects(
                database, files, target, most_copied=self._settings.most_copied, copies=copies
            )
        except NotLinked:
            self._leave(
                os.fsdecode(path) + "/*", "objects of git that cannot be linked, and are too many to copy"
            )
            kept = []
        self._objects.append(Objects(tree, path, kept))
        if is_own and kept and self._store is not None:
            self._store.borrow(target)

    def _branch(self) -> Branch | None:
        if self._linked is None or self._linked.common == self._linked.private:
            return None
        found = branch_of(self._linked)
        if found is None:
            self._leave(".git (its branch)", "on no branch, or branches are kept in another way here")
        return found


def _keep(
    contents: Contents, top: int, where: bytes, entries: Sequence[Entry]
) -> tuple[list[Entry], list[LeftOut]]:
    """Keep what the files among the entries hold: all entries with it, and the files that could not be read,
    or were changed meanwhile again and again."""
    kept: dict[bytes, Entry] = {}
    rest = [entry for entry in entries if entry.kind == "file"]
    left_out: list[LeftOut] = []
    for is_last in (False, True):
        again: list[Entry] = []
        for entry, content in zip(rest, contents.keep(top, where, [e.path for e in rest]), strict=True):
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


def _object_files(database: int) -> list[tuple[bytes, os.stat_result]]:
    """The files of a database that hold objects, relative to it."""
    files: list[tuple[bytes, os.stat_result]] = []
    for folder in sorted(os.fsencode(name) for name in os.listdir(database)):
        place = OBJECTS.below(folder)
        if place is None:
            continue
        with suppress(OSError):
            opened = os.open(folder, READ_FOLDER, dir_fd=database)
            try:
                for name in sorted(os.fsencode(each) for each in os.listdir(opened)):
                    found = os.stat(name, dir_fd=opened, follow_symlinks=False)
                    if place.holds(name) and stat.S_ISREG(found.st_mode):
                        files.append((folder + b"/" + name, found))
            finally:
                os.close(opened)
    return files


def _hash_name(objects: str) -> str:
    """How the objects of a database are named, told by the first of them."""
    with suppress(OSError):
        for folder in sorted(os.listdir(objects), reverse=True):
            place = OBJECTS.below(os.fsencode(folder))
            names = os.listdir(os.path.join(objects, folder)) if place is not None else []
            for name in map(os.fsencode, names):
                if place is not None and place.holds(name) and not name.startswith((b"tmp_", b".tmp-")):
                    return "sha256" if is_long_name(name) else "sha1"
    return "sha1"


def now_ns() -> int:
    """The time by the clock that stamps files, which runs in larger steps than others: what is stamped from
    now on has no earlier time than this."""
    return time.clock_gettime_ns(_COARSE if sys.platform == "linux" else time.CLOCK_REALTIME)
