"""Restore a workspace: its files, the commits that were made in it, and a report of the rest.

Keep true:
1. What could not be brought back is told, and the rest is brought back all the same.
2. The git folder is not restored: only commits of git_commit are taken back.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from placet.sandbox.spot import Id
from placet.worktree.snapshot.blobs import Blobs
from placet.worktree.snapshot.git_state import repository_of, revert
from placet.worktree.snapshot.manifest import LeftOut, Manifest, shown
from placet.worktree.snapshot.removal import open_folder
from placet.worktree.snapshot.restoring import Restoring
from placet.worktree.snapshot.tree import has_become_other


class Restored(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What restoring a workspace came to."""

    changed: int = 0
    """Files, folders and links that were other than before, and are as before now."""
    removed: int = 0
    """Things that had come since; a folder with all in it is one."""
    brought_back: int = 0
    left_out: Sequence[str] = ()
    """What was not kept, and so was not touched."""
    not_restored: Sequence[str] = ()
    """Those of them that were changed since, or are gone."""
    problems: Sequence[str] = ()
    """What should be as before and is not: `PATH: REASON`."""


class Recovery:
    """One restore."""

    def __init__(self, manifest: Manifest, blobs: Blobs, untouched: frozenset[Id], index: str) -> None:
        """`index` is the copy of the repository's index of then."""
        self._manifest = manifest
        self._blobs = blobs
        self._untouched = untouched
        self._index = index
        self._problems: list[str] = []
        self._not_restored: list[str] = []

    def all(self, workspace: int) -> Restored:
        """Bring everything back beneath an open workspace, and say what came of it."""
        tree = self._manifest.tree
        restoring = Restoring(tree, self._blobs, self._untouched)
        with self._reported(tree.top):
            top = open_folder(b".", workspace)
            try:
                restoring.bring(top)
                if restoring.is_short:
                    restoring.make_room(top)
                    restoring.bring(top)
                restoring.clear(top)
                self._look(tree.left_out, top)
                self._not_restored += [shown(path) for path in restoring.left]
            finally:
                os.close(top)
        # Last: files have room by now, and `.git` is home again if it was moved.
        commits = self._repository()
        return Restored(
            changed=restoring.changed,
            removed=restoring.removed,
            brought_back=restoring.brought_back + commits,
            left_out=[shown(each.path) for each in tree.left_out],
            not_restored=self._not_restored,
            problems=list(dict.fromkeys([*self._problems, *restoring.problems])),
        )

    def _repository(self) -> int:
        """Take back the commits that were made by git_commit; how many."""
        before = self._manifest.repository
        if before is None:
            return 0
        done = revert(before, repository_of(os.fsdecode(self._manifest.tree.top)), self._index)
        self._not_restored += done.not_restored
        return done.commits

    def some(self, workspace: int, only: Collection[bytes]) -> Restored:
        """Bring these files back beneath an open workspace, and leave all else as it is."""
        tree = self._manifest.tree
        around = {folder for path in only for folder in folders_of_path(path)}
        kept = {entry.path: entry for entry in tree.entries}
        chosen = [entry for path, entry in kept.items() if path in only or path in around]
        restoring = Restoring(msgspec.structs.replace(tree, entries=chosen), self._blobs, self._untouched)
        left_out = {each.path for each in tree.left_out}
        self._not_restored += [
            shown(path) for path in sorted(only) if not left_out.isdisjoint((path, *folders_of_path(path)))
        ]
        with self._reported(tree.top):
            top = open_folder(b".", workspace)
            try:
                restoring.bring(top)
                folders = {path for path, entry in kept.items() if entry.kind == "folder"}
                for path in sorted(only):
                    if path not in kept and shown(path) not in self._not_restored:
                        restoring.remove_new(path, top, folders)
                restoring.settle(top)
            finally:
                os.close(top)
        return Restored(
            changed=restoring.changed,
            removed=restoring.removed,
            brought_back=restoring.brought_back,
            not_restored=self._not_restored,
            problems=[*self._problems, *restoring.problems],
        )

    def _look(self, left_out: Sequence[LeftOut], top: int) -> None:
        """Which of the things that were left out are not what they were."""
        self._not_restored += [
            shown(each.path)
            for each in left_out
            if each.inode and has_become_other(each, top, self._manifest.began_ns)
        ]

    @contextmanager
    def _reported(self, path: bytes) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._problems.append(f"{shown(path)}: {error.strerror or error}")


def folders_of_path(path: bytes) -> Iterator[bytes]:
    """The folders on the way to a path, the innermost first."""
    while path := path.rpartition(b"/")[0]:
        yield path
