"""A workspace on its way back to a snapshot: its tree, its repositories, and what is told of the rest.

Keep true:
1. What could not be brought back is told, and the rest is brought back all the same.
2. What other worktrees of a repository have in it is theirs, but for what is gone.
3. The branch of a linked worktree is put back before the log that says who moved it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress

import msgspec

from placet.sandbox.beneath import open_beneath
from placet.sandbox.snapshot.branch import hold_branch, restore_branch
from placet.sandbox.snapshot.contents import Contents
from placet.sandbox.snapshot.databases import bring_back
from placet.sandbox.snapshot.manifest import LeftOut, Manifest, Tree, shown
from placet.sandbox.snapshot.mounts import stay_on_mount
from placet.sandbox.snapshot.removal import READ_FOLDER, open_folder
from placet.sandbox.snapshot.repository import Others, leads_back, other_worktrees
from placet.sandbox.snapshot.restoring import NO_ROOM, Restoring
from placet.sandbox.snapshot.taking import OBJECTS_FOLDER
from placet.sandbox.snapshot.tree import has_become_other
from placet.sandbox.spot import Id


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

    def __init__(self, manifest: Manifest, folder: str, contents: Contents, untouched: frozenset[Id]) -> None:
        self._manifest = manifest
        self._folder = folder
        self._contents = contents
        self._untouched = untouched
        self._brought_back = 0
        self._problems: list[str] = []
        self._not_restored: list[str] = []

    def all(self, workspace: int) -> Restored:
        """Bring everything back beneath an open workspace, and say what came of it."""
        manifest = self._manifest
        top = manifest.trees[0].top
        others = self._others(workspace)
        for name, value in others.branches.items():
            # Before: broken off later, nothing else would know what it named. Without room it is done below.
            hold_branch(os.path.join(top, b".git"), name, value)
        done = [self._tree(0, manifest.trees[0], workspace, others.paths())]
        self._leave_to(others, os.path.join(top, b".git"))
        if manifest.branch is not None:
            # While the worktree's own log still says what was done to it; and after there was made room.
            was_moved, problem = restore_branch(manifest.branch)
            self._brought_back += was_moved
            self._problems += [problem] if problem is not None else []
        done += [self._tree(number, tree, None) for number, tree in enumerate(manifest.trees) if number]
        for number, each in enumerate(manifest.objects):
            if each.tree < 0:
                with self._reported(each.path):
                    self._problems += self._objects(number, os.open(each.path, READ_FOLDER))[1]
        return Restored(
            changed=sum(part.changed for part in done),
            removed=sum(part.removed for part in done),
            brought_back=self._brought_back + sum(part.brought_back for part in done),
            left_out=[shown(each.path) for tree in manifest.trees for each in tree.left_out],
            not_restored=self._not_restored,
            problems=list(dict.fromkeys([*self._problems, *(p for part in done for p in part.problems)])),
        )

    def some(self, workspace: int, only: Collection[bytes]) -> Restored:
        """Bring these files back beneath an open workspace, and leave all else as it is."""
        tree = self._manifest.trees[0]
        around = {folder for path in only for folder in folders_of_path(path)}
        kept = {entry.path: entry for entry in tree.entries}
        chosen = [entry for path, entry in kept.items() if path in only or path in around]
        restoring = Restoring(msgspec.structs.replace(tree, entries=chosen), self._contents, self._untouched)
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

    def _others(self, workspace: int) -> Others:
        """What is left to other worktrees; but not the branch that the workspace itself was on."""
        found = other_worktrees(workspace, self._manifest.trees[0].top)
        own = self._manifest.head
        return found._replace(branches={k: v for k, v in found.branches.items() if k != own})

    def _leave_to(self, others: Others, common: bytes) -> None:
        """Branches that other worktrees are on stay what they are. What is not as before because of that is
        told."""
        manifest = self._manifest
        before = dict(manifest.others)
        for name, value in others.branches.items():
            problem = hold_branch(common, name, value)
            self._problems += [problem] if problem is not None else []
            if before.get(name) != value:
                self._not_restored.append(f"{shown(name)} (another worktree is on it)")
        known = {entry.path for entry in manifest.trees[0].entries}
        self._not_restored += [
            f".git/worktrees/{shown(name)} (a worktree that came since)"
            for name in sorted(others.worktrees)
            if b".git/worktrees/" + name not in known
        ]

    def _tree(
        self, number: int, tree: Tree, workspace: int | None, others: Collection[bytes] = ()
    ) -> Restoring:
        name = "" if workspace is not None else f"{shown(tree.top)}/"
        restoring = Restoring(tree, self._contents, self._untouched, name, others)
        with self._reported(tree.top):
            top = open_folder(b".", workspace) if workspace is not None else _open_again(tree.top)
            try:
                if workspace is None and not leads_back(tree.top, self._manifest.trees[0].top):
                    raise OSError(errno.EEXIST, "another worktree has its name now, and was left alone")
                restoring.bring(top)
                is_short, problems = self._databases(number, top)
                if restoring.is_short or is_short:
                    restoring.make_room(top)
                    restoring.bring(top)
                    _, problems = self._databases(number, top)
                self._problems += problems
                restoring.clear(top)
                self._look(tree.left_out, top)
                self._not_restored += [shown(path) for path in restoring.left]
            finally:
                os.close(top)
        return restoring

    def _databases(self, number: int, top: int) -> tuple[bool, list[str]]:
        """Bring the objects in a tree back: whether there was no room, and what could not be."""
        is_short = False
        problems: list[str] = []
        for at, each in enumerate(self._manifest.objects):
            if each.tree == number:
                with self._reported(each.path):
                    database = open_beneath(top, os.fsdecode(each.path), READ_FOLDER)
                    was_short, more = self._objects(at, database, top)
                    is_short = is_short or was_short
                    problems += more
        return is_short, problems

    def _objects(self, number: int, database: int, top: int | None = None) -> tuple[bool, list[str]]:
        try:
            if top is not None:
                stay_on_mount(database, top)
            source = os.path.join(self._folder, OBJECTS_FOLDER, str(number))
            files = self._manifest.objects[number].files
            brought, problems = bring_back(files, source, database, self._manifest.ended_ns)
        finally:
            os.close(database)
        self._brought_back += brought
        told = [f"{shown(path)}: {error.strerror or error}" for path, error in problems]
        return any(error.errno in NO_ROOM for _, error in problems), told

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


def _open_again(path: bytes) -> int:
    """A folder outside of the workspace; made again if it is gone."""
    above, name = os.path.split(path)
    os.makedirs(above, exist_ok=True)
    parent = os.open(above, READ_FOLDER)
    try:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)
        return open_folder(name, parent)
    finally:
        os.close(parent)
