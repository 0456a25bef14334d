"""Folders that git outside looks into, because the index has them as submodules.

Git runs itself in each of them, also for a mere `git status`, and obeys the settings that it finds there. So
no command may make a repository of one, or lead it to another.

Keep true:
1. A submodule's `.git` cannot be changed inside. One that has none cannot get one.
2. What gets past that, because a folder above was renamed, is told.
"""

from __future__ import annotations

import os
from contextlib import suppress

from assent.errors import ToolError
from assent.sandbox.git.index import MAYBE_SUBMODULE, read, read_entries, submodules
from assent.sandbox.git.repository import Repository

Pointer = tuple[int, int] | None
"""Device and inode of a `.git`; None for nothing."""


class Submodules:
    """The submodules of a work tree, and what their `.git` was when somebody looked."""

    def __init__(self) -> None:
        self._found: dict[str, Pointer] | None = None

    @property
    def is_known(self) -> bool:
        return self._found is not None

    async def look(self, repository: Repository, index: str) -> None:
        """Find those that an index file has. No process is started for an index that has none."""
        names: list[bytes] = []
        if MAYBE_SUBMODULE in read(index):
            with suppress(ToolError):
                names = submodules(await read_entries(index, repository.git_dir))
        paths = [os.path.join(repository.top, os.fsdecode(name)) for name in names]
        for path in paths:
            _make(path)
        self._found = {path: _pointer(path) for path in paths}

    def binds(self, empty: str) -> list[tuple[str, str, bool]]:
        """What has to be shown so that none can be changed; `empty` is an empty folder."""
        found: list[tuple[str, str, bool]] = []
        for path in self._found or ():
            inner = os.path.join(path, ".git")
            if os.path.realpath(path) != path or not os.path.isdir(path):
                continue
            if os.path.lexists(inner) and not os.path.islink(inner):
                found.append((inner, inner, False))
            else:
                found.append((empty, path, False))
        return found

    def find_swapped(self) -> list[str]:
        """Words about those that are not what they were."""
        said: list[str] = []
        for path, before in list((self._found or {}).items()):
            now = _pointer(path)
            if self._found is not None and now not in (before, None):
                self._found[path] = now
                said.append(
                    f"{path}/.git was put there or changed by a command. Remove it before git runs outside: "
                    "git looks into submodules, and obeys the settings there."
                )
        return said


def _make(path: str) -> None:
    """See that the folder is there, as git does: what is not there cannot be shown as empty."""
    if os.path.realpath(path) == path:
        with suppress(OSError):
            os.makedirs(path, exist_ok=True)


def _pointer(path: str) -> Pointer:
    try:
        found = os.lstat(os.path.join(path, ".git"))
    except OSError:
        return None
    return (found.st_dev, found.st_ino)
