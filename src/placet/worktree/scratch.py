"""Folders that last as long as one piece of work, and the removal of what killed processes have left.

The lock is on a file, not a lease: these folders are made and removed where no database is open.

Keep true:
1. A folder of a process that lives is never removed by another: a lock beside it says that it is in use, and
   the system lets go of the lock when the process ends, however it ends.
2. Whatever commands have made in a folder, removing follows no link and needs no rights that we can give
   ourselves.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from placet.worktree.snapshot.mounts import OtherMount
from placet.worktree.snapshot.removal import remove

_LOCK = ".lock"


class Scratch:
    """A folder in which such folders are made."""

    def __init__(self, place: Path) -> None:
        self.place = place

    @asynccontextmanager
    async def folder(self) -> AsyncIterator[Path]:
        """A new empty folder, removed afterwards with all that is in it."""
        self.place.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.place / os.urandom(8).hex()
        held = _take(path)
        assert held is not None
        try:
            path.mkdir(mode=0o700)
            yield path
        finally:
            await _removed(path, held)

    async def clear_up(self) -> None:
        """Remove what processes have left that are gone."""
        if not self.place.is_dir():
            return
        for name in {each.removesuffix(_LOCK) for each in os.listdir(self.place)}:
            path = self.place / name
            held = _take(path)
            if held is not None:
                await _removed(path, held)


def remove_tree(path: Path) -> None:
    """See that nothing has that name: a file, a link, or a folder however deep."""
    with suppress(FileNotFoundError):
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            remove(os.fsencode(path.name), parent)
        finally:
            os.close(parent)


async def _removed(path: Path, held: int) -> None:
    """Remove a folder to the end, however often this is cancelled meanwhile, and release its lock."""
    from placet.thread_work import finish_in_thread

    try:
        await finish_in_thread(partial(_remove_quietly, path))
    finally:
        _let_go(path, held)


def _remove_quietly(path: Path) -> None:
    # What cannot be removed now is tried again by the next one that clears up.
    with suppress(OSError, OtherMount):
        remove_tree(path)


def _take(path: Path) -> int | None:
    """A descriptor that holds the lock of a folder; None if somebody else has it."""
    held = os.open(f"{path}{_LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        return None
    return held


def _let_go(path: Path, held: int) -> None:
    if not os.path.lexists(path):
        with suppress(OSError):
            os.unlink(f"{path}{_LOCK}")
    os.close(held)
