"""Where a coding session works: attempts, exports, the difference, and the commit that comes of it.

A session has a folder, its home:

    repository/         the private git repository, which borrows the person's objects
    attempt-N/          the files of one attempt, with a git folder for commands that nobody here reads
    attempt-N.index     what we remember of those files
    exports/            folders for the moment

Keep true:
1. Nothing of the person's is written, but by `publish`.
2. What a name in the home stands for is whole: it is made aside and then renamed.
3. One process works in a home at a time; others may read. Whoever starts one sees to that.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from placet.errors import ToolError
from placet.worktree.checkout import copy_index, put_back, take_in, uncommitted, write_out
from placet.worktree.objects import Changed as Changed
from placet.worktree.objects import ObjectStore, alternates_text, checked, config_text, write_git_folder
from placet.worktree.publish import publish
from placet.worktree.repository import NOBODY, Repository, Settings, settings_of
from placet.worktree.repository import find_repository as find_repository
from placet.worktree.repository import find_workable as find_workable
from placet.worktree.scratch import Scratch, remove_tree

WORK_BRANCH = "placet/work"
_STARTED = "The state that this session began from"


class Worktree:
    """The folder of one session. `await open()` comes first."""

    def __init__(self, home: Path, repository: Repository) -> None:
        self.home = home
        self.repository = repository
        self._scratch = Scratch(home / "exports")
        self._trees = ObjectStore(home / "repository", repository, self._scratch)
        self._settings: Settings | None = None
        self._start: tuple[str, int] | None = None
        """The tree and the time of the commit that the person is on."""

    async def open(self) -> None:
        """Make what is needed, or take up what is there. Leftovers of killed processes are removed.

        Raises:
            ToolError: git fails.
        """
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        await self._scratch.clear_up()
        self._settings = await settings_of(self.repository)
        await self._trees.open(self._settings)

    # The person's side

    async def changes(self) -> list[str]:
        """What the person has not committed, staged or not; new files too, ignored ones not."""
        async with self._persons_index() as index:
            top, head = self.repository.top, self.repository.head
            return await uncommitted(self._trees, top, index, head, (await self._looked_up()).filters)

    async def begin(self, include_changes: bool) -> str:
        """The tree to start from: that of HEAD, or of the person's files as they are.

        Raises:
            UsageError: a changed file goes through a filter of git, so it cannot be taken as it is.
        """
        if not include_changes:
            return (await self._started())[0]
        async with self._persons_index() as index:
            filters = (await self._looked_up()).filters
            return await take_in(self._trees, self.repository.top, index, ours=False, filters=filters)

    async def author(self) -> str:
        """Whoever would commit in the person's repository, as `Name <mail>`."""
        return (await self._looked_up()).author

    async def publish(self, commit: str, branch: str) -> None:
        """Make a branch of the person's repository with a commit of ours. Done twice it is done once.

        Raises:
            UsageError: the branch is there with another commit, or cannot be called so.
        """
        await publish(self._trees, commit, branch, self.home / "publishing.note")

    # Attempts

    def folder(self, number: int) -> Path:
        """Where the files of an attempt are."""
        return self.home / f"attempt-{number:d}"

    async def check_out(self, number: int, tree: str, *, anew: bool = False) -> Path:
        """The folder of an attempt, with exactly the files of a tree; one that is there is left as it is.

        With `anew` it is made again. What was in it is lost.
        """
        folder = self.folder(number)
        if folder.is_dir() and not anew:
            return folder
        async with self._scratch.folder() as aside:
            made = aside / "files"
            made.mkdir()
            await write_out(self._trees, tree, made, aside / "index")
            await self._add_git_folder(made, tree, aside / "index")
            os.replace(aside / "index", self._index(number))
            _put(made, folder, aside / "old")
        return folder

    async def tree_of(self, number: int) -> str:
        """The tree of the files that an attempt has now, ignored ones left out."""
        async with self._scratch.folder() as aside:
            # A copy: a killed process leaves its lock, and a changed index is put in place whole.
            index = aside / "index"
            shutil.copy2(self._index(number), index)
            tree = await take_in(self._trees, self.folder(number), index)
            os.replace(index, self._index(number))
            return tree

    async def put_back(self, number: int, base: str, paths: Collection[str]) -> None:
        """Make some files of an attempt as they are in a tree: also those that are not there."""
        await put_back(self._trees, self.folder(number), base, paths)

    async def remove_attempts(self) -> None:
        """Remove the files of all attempts. The trees stay."""
        from placet.thread_work import finish_in_thread

        for path in sorted(self.home.glob("attempt-*")):
            await finish_in_thread(partial(remove_tree, path))

    async def remove(self) -> None:
        """Remove all that the session has here."""
        from placet.thread_work import finish_in_thread

        await finish_in_thread(partial(remove_tree, self.home))

    # Trees

    async def paths(self, tree: str) -> list[str]:
        """The files of a tree, without submodules."""
        return await self._trees.paths(tree)

    async def texts(self, tree: str, paths: Collection[str], *, most: int = 500) -> dict[str, str]:
        """What stands in some files of a tree, at most so many; long ones, and links, are left out."""
        return await self._trees.texts(tree, paths, most=most)

    async def changed(self, old: str, new: str) -> list[Changed]:
        """What differs between two trees, by path."""
        return await self._trees.changed(old, new)

    async def with_base(self, tree: str, base: str, paths: Collection[str]) -> str:
        """The tree in which some paths are as in another: also those that are not there."""
        return await self._trees.with_base(tree, base, paths)

    async def diff(self, old: str, new: str, *, context: int = 3) -> str:
        """The difference of two trees as a unified diff; of a long one the beginning, and how much is left
        out. It is text of whoever wrote the files."""
        return await self._trees.diff(old, new, context=context)

    async def commit(
        self, tree: str, parent: str, message: str, *, when: int, author: str | None = None
    ) -> str:
        """A commit of a tree in the private repository. The same arguments give the same commit.

        `when` is in seconds since 1970. Without an `author` it is whoever `author()` says.
        """
        named = await self.author() if author is None else author
        return await self._trees.commit(tree, parent, message, when=when, author=named)

    async def merges(self, tree: str, base: str, other: str) -> bool:
        """Whether a tree that was made from one commit goes together with another commit, line by line."""
        ours = await self._trees.commit(tree, base, _STARTED, when=0, author=NOBODY)
        try:
            await self._trees.run(["merge-tree", "--write-tree", "--name-only", checked(other), ours])
        except ToolError:
            return False
        return True

    @asynccontextmanager
    async def export(self, tree: str) -> AsyncIterator[Path]:
        """A new folder with the files of a tree and nothing else. It is removed afterwards."""
        async with self._scratch.folder() as aside:
            files = aside / "files"
            files.mkdir()
            await write_out(self._trees, tree, files, aside / "index")
            yield files

    def _index(self, number: int) -> Path:
        return self.home / f"attempt-{number:d}.index"

    @asynccontextmanager
    async def _persons_index(self) -> AsyncIterator[Path]:
        """A copy of the person's index, to be changed at will."""
        async with self._scratch.folder() as aside:
            index = aside / "index"
            if not copy_index(self.repository, index, self._trees.path):
                await self._trees.run(["read-tree", checked(self.repository.head)], index=index)
            yield index

    async def _looked_up(self) -> Settings:
        if self._settings is None:
            self._settings = await settings_of(self.repository)
        return self._settings

    async def _started(self) -> tuple[str, int]:
        if self._start is None:
            head = checked(self.repository.head)
            said = await self._trees.run(["rev-list", "-1", "--format=%T %ct", head])
            tree, when = said.decode().splitlines()[1].split()
            self._start = tree, int(when)
        return self._start

    async def _add_git_folder(self, files: Path, tree: str, index: Path) -> None:
        """A git folder for commands that run in an attempt: the person's history, and our tree on top."""
        start, when = await self._started()
        commit = self.repository.head
        if tree != start:
            commit = await self._trees.commit(tree, commit, _STARTED, when=when, author=NOBODY)
        private = self._trees.path
        found = self.repository.found
        shallow = _read(private / "shallow")
        author = await self.author()
        data = (await self._looked_up()).data
        write_git_folder(
            files / ".git",
            {
                "HEAD": f"ref: refs/heads/{WORK_BRANCH}\n".encode(),
                f"refs/heads/{WORK_BRANCH}": commit.encode() + b"\n",
                "config": config_text(found.is_sha256, data, bare=False, author=author),
                "objects/info/alternates": alternates_text(
                    [str(private / "objects"), found.objects, *found.borrowed]
                ),
                "info/exclude": _read(private / "info/exclude"),
                "index": _read(index),
                **({"shallow": shallow} if shallow else {}),
            },
        )


def _put(made: Path, folder: Path, old: Path) -> None:
    """Let a folder take the place of another, which goes aside."""
    with suppress(FileNotFoundError):
        os.rename(folder, old)
    os.rename(made, folder)


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""
