"""Commit some paths of a work tree to the branch that is checked out.

A commit is made from the files as they are, by our own git: no hook, filter, signature or monitor is run. It
holds the given paths on top of HEAD, so what a person has staged elsewhere is neither in it nor lost.

Keep true:
1. The branch moves last, from the value that was looked at. Killed before, the paths are staged, no more.
2. Of the index only the entries of the committed paths change.
3. The reflog says which commits were made here: a restore of the folder takes back no others.
4. What is kept from commands, such as `.placet`, is not committed: they could read it in the repository.
5. A commit that was shown to a person is made as it was shown, or not at all.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from placet.errors import ToolError
from placet.safe_text import clean
from placet.sandbox.git_folder import look_up
from placet.sandbox.lookalikes import is_read_as
from placet.storage.location import PROJECT_FOLDER
from placet.worktree.checkout import copy_index, take_in
from placet.worktree.git import REFLOG, git, index_lines
from placet.worktree.objects import ObjectStore
from placet.worktree.publish import send
from placet.worktree.repository import find_repository, identity, settings_of
from placet.worktree.scratch import Scratch

_UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
}
_MOST_NAMED = 10


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """A commit that was made."""

    commit: str
    parent: str
    branch: str | None
    """Without `refs/heads/`; None when HEAD is on no branch."""
    paths: Sequence[str]
    """The files that it changes."""


def is_repository(folder: str) -> bool:
    """Whether a folder is the top of a checkout."""
    found = look_up(folder)
    return found is not None and found.top == os.path.realpath(folder)


class Shown(NamedTuple):
    """A commit that would be made."""

    tree: str
    diff: str


async def commit(
    folder: Path, paths: Collection[str], message: str, *, closed: Collection[str] = (), shown: str = ""
) -> Committed:
    """Commit files and folders, relative to the top of the repository `folder`, as they are now.

    `closed` are files and folders, as absolute paths, that are left out. `shown` is the tree that a person
    has agreed to.

    Raises:
        UsageError: there is no repository with a commit, or a file goes through a filter of git.
        ToolError: nothing is to be committed, a merge is going on, nobody is known to commit, or git fails.
    """
    async with _staged(folder, paths, closed) as (store, tree, changed):
        if shown and tree != shown:
            raise ToolError(
                "Files have changed since the diff of this commit was shown, so nothing was committed. Call "
                "it again: the new diff is shown then.",
                retry=False,
            )
        repository = store.repository
        name, mail = await identity(repository.found)
        if not (name and mail):
            raise ToolError(
                "git does not know who commits here. Somebody has to set it: git config user.name NAME, and "
                "git config user.email ADDRESS.",
                retry=False,
            )
        made = await store.commit(
            tree,
            repository.head,
            message,
            when=int(time.time()),
            author=f"{name} <{mail}>",
            zone=time.strftime("%z"),
        )
        await send(store, made)
        await git(
            ["update-index", "-z", "--index-info"],
            git_dir=repository.git_dir,
            stdin=index_lines(await store.entries(tree), changed, len(made)),
        )
        subject = clean(message.strip().split("\n")[0], 100)
        await git(
            # Also where nobody else keeps a reflog: without it the commit could not be told from others.
            ["update-ref", "--create-reflog", "-m", f"{REFLOG}: {subject}", "HEAD", made, repository.head],
            git_dir=repository.git_dir,
            environment={"GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": mail},
        )
        return Committed(
            commit=made,
            parent=repository.head,
            branch=repository.branch,
            paths=[os.fsdecode(path) for path in changed],
        )


async def show(folder: Path, paths: Collection[str], *, closed: Collection[str] = ()) -> Shown:
    """Show what a commit of the paths would change, as a unified diff.

    Raises: as `commit`.
    """
    async with _staged(folder, paths, closed) as (store, tree, _):
        return Shown(tree, await store.diff(await _tree_of(store, store.repository.head), tree))


@asynccontextmanager
async def _staged(
    folder: Path, paths: Collection[str], closed: Collection[str]
) -> AsyncIterator[tuple[ObjectStore, str, list[bytes]]]:
    """A store with the tree of HEAD in which the paths are as in the files, and the paths that differ."""
    repository = await find_repository(folder)
    if not is_repository(str(folder)):
        raise ToolError(f"{folder} is not the top of its repository, {repository.top}.", retry=False)
    if what := _under_way(repository.git_dir):
        raise ToolError(f"{what} is going on in the repository. Somebody has to end it first.", retry=False)
    wanted = [_inside(path) for path in paths]
    top = f"{repository.top}/"
    left_out = [os.fsencode(path.removeprefix(top)) for path in closed if path.startswith(top)]
    with tempfile.TemporaryDirectory(prefix="placet-commit-", ignore_cleanup_errors=True) as aside:
        settings = await settings_of(repository)
        store = ObjectStore(Path(aside, "repository"), repository, Scratch(Path(aside, "scratch")))
        await store.open(settings)
        index = Path(aside, "index")
        if not copy_index(repository, index, store.path):
            await store.run(["read-tree", repository.head], index=index)

        def is_wanted(path: bytes) -> bool:
            if any(is_read_as(part, PROJECT_FOLDER) for part in path.split(b"/")):
                return False
            return _is_in(path, wanted) and not _is_in(path, left_out)

        base = await _tree_of(store, repository.head)
        files = await take_in(
            store, repository.top, index, ours=False, filters=settings.filters, only=is_wanted
        )
        changed = [
            os.fsencode(each.path)
            for each in await store.changed(base, files)
            if is_wanted(os.fsencode(each.path))
        ]
        if not changed:
            raise ToolError(_why_nothing(wanted, repository.top, await store.entries(base)), retry=False)
        tree = await store.with_base(base, files, [os.fsdecode(path) for path in changed])
        yield store, tree, changed


def _why_nothing(wanted: Sequence[bytes], top: Path, entries: Collection[bytes]) -> str:
    """Why there is nothing to commit, first of all paths that are nowhere."""
    absent = [
        path
        for path in wanted
        if not os.path.lexists(os.path.join(os.fsencode(top), path))
        and not any(_is_in(entry, [path]) for entry in entries)
    ]
    names = ", ".join(clean(os.fsdecode(path), 200) for path in absent[:_MOST_NAMED])
    if len(absent) > _MOST_NAMED:
        names += f" and {len(absent) - _MOST_NAMED:,} more"
    nowhere = f"{names} {'is' if len(absent) == 1 else 'are'} neither in {top} nor in its last commit"
    if len(absent) == len(wanted):
        return f"Nothing to commit: {nowhere}. Name paths that are, relative to that folder."
    these = f"{nowhere}; the other paths" if absent else "these paths"
    return (
        f"Nothing to commit: {these} are as in the last commit, are submodules, are Placet's own, "
        "or git ignores them. Look with `git status`."
    )


def _under_way(git_dir: str) -> str:
    return next((what for name, what in _UNDER_WAY.items() if os.path.lexists(f"{git_dir}/{name}")), "")


def _inside(path: str) -> bytes:
    """A path as git has it, relative to the top; empty for the top itself."""
    name = os.path.normpath(path)
    try:
        if os.path.isabs(name) or name == ".." or name.startswith("../") or "\0" in name:
            raise ValueError
        return b"" if name == "." else os.fsencode(name)
    except ValueError:
        raise ToolError(
            f"{clean(path, 200)!r} is no path in the repository. Name it relative to its top.", retry=False
        ) from None


def _is_in(path: bytes, folders: Collection[bytes]) -> bool:
    return any(not each or path == each or path.startswith(each + b"/") for each in folders)


async def _tree_of(store: ObjectStore, commit: str) -> str:
    said = await store.run(["rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}"])
    return said.decode().strip()
