"""Changes to several files of a workspace: all of them are made, or none.

Keep true:
1. Whoever calls holds the workspace's lock, so that what was read is still there.
2. What was done before a failure is undone, folders included.
3. A file goes only if it is the one that was read, and one that may be written.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from placet.errors import ToolError
from placet.sandbox.refusals import cannot, no_file, no_write_bit, refused, shown
from placet.sandbox.spot import Seen, id_of, look, seen
from placet.sandbox.workspace import Workspace

_WRITE_BITS = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What is to become of one file."""

    path: str
    before: bytes | None = None
    """None if there is no such file."""
    was: Seen | None = None
    """What tells whether it is still the one that was read."""
    after: bytes | None = None
    """None if it is to go."""


def write_changes(workspace: Workspace, changes: Sequence[Change]) -> None:
    """Make all of these changes.

    Raises:
        ToolError: one of them could not be made, and none is.
    """
    done: list[tuple[Change, list[str]]] = []
    try:
        # What goes, goes last: putting it back could not give it its mode again.
        for each in sorted(changes, key=lambda change: change.after is None):
            folders = _missing_folders(workspace, each.path) if each.before is None else []
            if each.after is None:
                _remove(workspace, each.path, each.was)
            else:
                workspace.write_bytes(each.path, each.after, if_unchanged=each.was, create_folders=True)
            done.append((each, folders))
    except BaseException:
        for each, folders in reversed(done):
            with suppress(ToolError, OSError):
                _undo(workspace, each, folders)
        raise


def is_there(workspace: Workspace, path: str) -> bool:
    """Whether something has this name.

    Raises:
        ToolError: it is no path in the workspace, or may not be looked at.
    """
    try:
        os.close(workspace.open(path, os.O_RDONLY))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise cannot("read", path, error) from None
    return True


def _missing_folders(workspace: Workspace, path: str) -> list[str]:
    names = workspace.relative(path).split("/")[:-1]
    heads = ["/".join(names[: at + 1]) for at in range(len(names))]
    return [head for head in heads if not is_there(workspace, head)]


def _undo(workspace: Workspace, change: Change, folders: Sequence[str]) -> None:
    if change.before is not None:
        workspace.write_bytes(change.path, change.before, create_folders=True)
        return
    _remove(workspace, change.path, None)
    for folder in reversed(folders):
        head, _, name = folder.rpartition("/")
        opened = workspace.open(head or ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.rmdir(name, dir_fd=opened)
        finally:
            os.close(opened)


def _remove(workspace: Workspace, path: str, was: Seen | None) -> None:
    head, _, name = workspace.relative(path).rpartition("/")
    folder = -1
    try:
        # Opened as if to write it, which is refused for all that tools leave alone.
        opened = workspace.open(path, os.O_WRONLY | os.O_NOFOLLOW)
        try:
            mine = os.fstat(opened)
            if not stat.S_ISREG(mine.st_mode):
                raise no_file("delete", path, mine.st_mode)
            if not mine.st_mode & _WRITE_BITS:
                raise no_write_bit(path, mine.st_mode)
            folder = workspace.open(head or ".", os.O_RDONLY | os.O_DIRECTORY)
            found = look(name, folder)
            # Looked at in the very folder in which it goes: what leads there may change meanwhile.
            if found is None or id_of(found) != id_of(mine) or (was is not None and seen(found) != was):
                raise ToolError(
                    f"The file {shown(path)} changed meanwhile; nothing was written. Read it again first."
                )
            os.unlink(name, dir_fd=folder)
        finally:
            os.close(opened)
            if folder >= 0:
                os.close(folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise refused(f"Cannot delete {shown(path)}: it is a link. Only files are deleted.") from None
        raise cannot("delete", path, error) from None
