"""Remove a folder with everything beneath it, however deep, and follow no link.

Keep true:
1. One descriptor at a time, and no recursion: a tree may be deeper than either would last.
2. Going up leads to the folder that was left on the way down, or nowhere: it is known by device and inode.
3. Nothing on another mount is changed or removed, and a folder that holds one stays.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress

from placet.sandbox.beneath import O_PATH
from placet.sandbox.spot import Id, id_of
from placet.worktree.snapshot.mounts import OtherMount, stay_on_mount

READ_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OWN = stat.S_IRWXU

Spare = Callable[[int, bytes, os.stat_result], bool]
"""Asked with a folder, a name in it and what that is: whether it must not be removed. It may move it away."""


def open_folder(name: bytes, parent: int) -> int:
    """A folder for reading and changing, by its name in another; made ours to change where it was not.

    Raises:
        OtherMount: something is mounted there.
        OSError: it is no folder, or it is not ours.
    """
    try:
        opened = os.open(name, READ_FOLDER, dir_fd=parent)
    except PermissionError:
        _let_us_in(name, parent)
        opened = os.open(name, READ_FOLDER, dir_fd=parent)
    try:
        stay_on_mount(opened, parent)
        make_ours(opened)
    except BaseException:
        os.close(opened)
        raise
    return opened


def make_ours(opened: int) -> None:
    """Give ourselves every right in an open folder, where we may."""
    mode = os.fstat(opened).st_mode
    if mode & _OWN != _OWN:
        with suppress(PermissionError):
            os.fchmod(opened, stat.S_IMODE(mode) | _OWN)


def _let_us_in(name: bytes, parent: int) -> None:
    """Give ourselves every right in a folder that we may not open."""
    if not O_PATH:
        os.chmod(name, _OWN, dir_fd=parent, follow_symlinks=False)
        return
    held = os.open(name, O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
    try:
        stay_on_mount(held, parent)
        # A descriptor of this kind has no chmod of its own, and by name it could be a link by now.
        os.chmod(f"/proc/self/fd/{held}", stat.S_IMODE(os.fstat(held).st_mode) | _OWN)
    finally:
        os.close(held)


def remove(name: bytes, parent: int, spare: Spare | None = None) -> bool:
    """Remove what has a name in a folder. False if something had to stay.

    Raises:
        OtherMount: something is mounted in it, and stays; the rest is removed.
        OSError: some of it cannot be removed; the rest of that is untouched.
    """
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if spare is not None and spare(parent, name, found):
        return not _is_there(name, parent)
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(name, dir_fd=parent)
        return True
    removal = _Removal(spare)
    is_whole = removal.empty(name, parent)
    if removal.met_mount:
        raise OtherMount
    if is_whole:
        os.rmdir(name, dir_fd=parent)
    return is_whole


class _Removal:
    """A way down and up again."""

    def __init__(self, spare: Spare | None) -> None:
        self._spare = spare
        self.met_mount = False
        self._way: list[tuple[bytes, Id, list[bytes], bool]] = []
        """Folders that we are in: the name of the one below, who it is, its folders still to come, and
        whether all of it went so far."""

    def empty(self, name: bytes, parent: int) -> bool:
        here = open_folder(name, parent)
        try:
            rest, is_whole = self._clear(here)
            while True:
                if rest:
                    below = rest.pop()
                    try:
                        inner = open_folder(below, here)
                    except OtherMount:
                        self.met_mount, is_whole = True, False
                        continue
                    self._way.append((below, id_of(os.fstat(here)), rest, is_whole))
                    here = _moved(here, inner)
                    rest, is_whole = self._clear(here)
                elif self._way:
                    below, above, rest, before = self._way.pop()
                    here = _moved(here, os.open("..", READ_FOLDER, dir_fd=here))
                    if id_of(os.fstat(here)) != above:
                        raise OSError(errno.EBUSY, "somebody moved it while it was being removed")
                    if is_whole:
                        os.rmdir(below, dir_fd=here)
                    is_whole = is_whole and before
                else:
                    return is_whole
        finally:
            os.close(here)

    def _clear(self, here: int) -> tuple[list[bytes], bool]:
        """Remove what is no folder; the folders that are left, and whether nothing had to stay."""
        folders: list[bytes] = []
        is_whole = True
        with os.scandir(here) as names:
            listed = [os.fsencode(each.name) for each in names]
        for name in listed:
            found = os.stat(name, dir_fd=here, follow_symlinks=False)
            if self._spare is not None and self._spare(here, name, found):
                # Unless it was moved away.
                is_whole = is_whole and not _is_there(name, here)
            elif stat.S_ISDIR(found.st_mode):
                folders.append(name)
            else:
                os.unlink(name, dir_fd=here)
        return folders, is_whole


def _moved(here: int, there: int) -> int:
    os.close(here)
    return there


def _is_there(name: bytes, parent: int) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
