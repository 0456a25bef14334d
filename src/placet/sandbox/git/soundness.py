"""Whether git inside can use a view: kinds and modes of what is in it.

A command may leave a pipe where git expects a file, and git would wait at it for good. It may also take away
its own right to enter a folder. Root outside does not notice that, since it may enter all the same.

Keep true:
1. What is mended is the owner's rights in folders and files of the view, and nothing else.
2. Nothing is opened here but folders, and no link is followed.
"""

from __future__ import annotations

import os
import stat

from placet.sandbox.beneath import O_PATH
from placet.sandbox.git.checkout import HASHES, TEXTS
from placet.sandbox.git.folder import Damaged
from placet.sandbox.snapshot.removal import READ_FOLDER, open_folder

_FILES = (
    *("HEAD", "FETCH_HEAD", "COMMIT_EDITMSG", "config", "config.worktree", "commondir", "gitdir", "index"),
    *("packed-refs", "shallow", *HASHES, *TEXTS),
)
"""What is a file, if it is there, at the top of a git folder or of a checkout's part of it."""
_FOLDERS = ("hooks", "info", "logs", "objects", "refs", "shared-objects", "worktrees")
_OBJECTS = "objects/"
"""Many files may be beneath. Each is looked at when it is brought over, and git makes them read-only."""
_READ_WRITE = stat.S_IRUSR | stat.S_IWUSR
_DEPTH = 64
_MOST = 50_000


def make_sound(path: str, inner: str) -> None:
    """See that the owner can use the folders and files of a view; `inner` is the checkout's part of it.

    Raises:
        Damaged: something is not of the kind that git expects, or there is too much of it.
    """
    try:
        above = os.open(os.path.dirname(path), READ_FOLDER)
        try:
            opened = open_folder(os.fsencode(os.path.basename(path)), above)
        finally:
            os.close(above)
        try:
            _Look(inner.rstrip("/")).at(opened, "")
        finally:
            os.close(opened)
    except OSError as error:
        raise Damaged(f"the view cannot be used ({error.strerror})") from error


class _Look:
    def __init__(self, inner: str) -> None:
        self._tops = ("", inner)
        self._left = _MOST

    def at(self, folder: int, where: str) -> None:
        """Look at everything in an open folder."""
        if where.count("/") >= _DEPTH:
            raise Damaged("folders in it lie too deep")
        is_top = where in self._tops
        has_files = not f"{where}/".startswith(_OBJECTS) or where == "objects/info"
        with os.scandir(folder) as entries:
            listed = list(entries)
        self._left -= len(listed)
        if self._left < 0:
            raise Damaged(f"there are more than {_MOST} names in it")
        for entry in listed:
            path = f"{where}/{entry.name}" if where else entry.name
            if entry.is_dir(follow_symlinks=False):
                if is_top and entry.name in _FILES:
                    raise Damaged(f"{path} is no regular file")
                self._enter(folder, entry.name, path)
            elif is_top and entry.name in _FOLDERS:
                raise Damaged(f"{path} is no folder")
            elif not entry.is_file(follow_symlinks=False):
                self._judge(entry, path, is_needed=is_top and entry.name in _FILES)
            elif has_files:
                _mend(folder, entry)

    def _enter(self, folder: int, name: str, path: str) -> None:
        opened = open_folder(os.fsencode(name), folder)
        try:
            self.at(opened, path)
        finally:
            os.close(opened)

    def _judge(self, entry: os.DirEntry[str], path: str, *, is_needed: bool) -> None:
        """Links and sockets do no harm where git needs no file: a monitor of git's leaves a socket."""
        if is_needed or stat.S_ISFIFO(entry.stat(follow_symlinks=False).st_mode):
            raise Damaged(f"{path} is no regular file")


def _mend(folder: int, entry: os.DirEntry[str]) -> None:
    mode = entry.stat(follow_symlinks=False).st_mode
    if mode & _READ_WRITE == _READ_WRITE or not O_PATH:
        return
    held = os.open(entry.name, O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        mode = os.fstat(held).st_mode
        if stat.S_ISREG(mode):
            # A descriptor of this kind has no chmod of its own, and by name it could be a link by now.
            os.chmod(f"/proc/self/fd/{held}", stat.S_IMODE(mode) | _READ_WRITE)
    finally:
        os.close(held)
