"""How a person can undo what a call changes in a folder: with git, or by deleting a file that was not there.

Keep true:
1. Git is only named where it has the very contents that the file has now.
2. Nothing is run but git's own plumbing, on a git folder that is named.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING

from placet.errors import ToolError
from placet.ir.call_facts import Recovery

if TYPE_CHECKING:
    from placet.runtime.call_facts import Effect
    from placet.sandbox.workspace import Workspace

_MOST_BYTES = 64 * 2**20
_REGULAR = b"100"
"""How the mode of a regular file begins in an index."""
_MOST_NAMED = 20
"""Files in one command."""


class FolderRecovery:
    """Says how edits of files in a workspace can be undone by the person who owns it."""

    def __init__(self, workspace: Workspace) -> None:
        self._folder = str(workspace.folder)
        self._is_here = os.path.realpath(self._folder) == os.path.realpath(Path.cwd())

    async def __call__(self, effect: Effect) -> Recovery | None:
        """How it is undone; None where the call is no edit of known files, or git is not used there."""
        preview = effect.preview
        if preview is None or not preview.paths:
            return None
        created = [path for path in preview.paths if path in preview.created]
        changed = [path for path in preview.paths if path not in preview.created]
        if len(preview.paths) > _MOST_NAMED:
            return None
        commands: list[str] = []
        if changed:
            why = await self._why_not(changed)
            if why is None:
                return None
            if why:
                return Recovery(by="none", why=why)
            here = [] if self._is_here else ["-C", self._folder]
            commands.append(join(["git", *here, "restore", "--", *changed]))
        if created:
            named = created if self._is_here else [os.path.join(self._folder, path) for path in created]
            commands.append(join(["rm", "--", *named]))
        return Recovery(by="git" if changed else "delete", command=" && ".join(commands))

    async def _why_not(self, paths: Sequence[str]) -> str | None:
        """Why git cannot bring these files back; None where they are in no repository."""
        for path in paths:
            why = await why_not_restored_by_git(os.path.join(self._folder, path))
            if why is None or why:
                return why
        return ""


async def why_not_restored_by_git(path: str) -> str | None:
    """Why `git restore` would not bring a file back to what it is now, empty if it would; None where it is in
    no repository."""
    from placet.worktree.git import git
    from placet.worktree.repository import find_checkout

    real = await asyncio.to_thread(os.path.realpath, path)
    try:
        repository = await find_checkout(os.path.dirname(real))
        if repository is None:
            return None
        name = real.removeprefix(repository.top).lstrip(os.sep)
        listed = await git(["ls-files", "--stage", "-z", "--", name], git_dir=repository.git_dir)
    except ToolError:
        return "git cannot be asked about it"
    entries = [line for line in listed.split(b"\0") if line]
    if not entries:
        return "git does not track this file"
    mode, digest, stage = entries[0].partition(b"\t")[0].split(b" ")
    if len(entries) > 1 or stage != b"0" or not mode.startswith(_REGULAR):
        return "git has no single version of this file"
    algorithm = "sha256" if repository.is_sha256 else "sha1"
    if await asyncio.to_thread(_digest, real, algorithm) != digest.decode():
        return "the file has changes that git does not have"
    return ""


def _digest(path: str, algorithm: str) -> str | None:
    """What git would call the contents of a file; None if it is too large, or cannot be read."""
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError:
        return None
    if len(data) > _MOST_BYTES:
        return None
    return hashlib.new(algorithm, b"blob %d\0" % len(data) + data).hexdigest()
