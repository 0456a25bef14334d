"""Words for a path that cannot be used, or a file that cannot be read or written.

Keep true:
1. Each says what happened, to which path, and what to do next.
2. None of these is worth trying again.
"""

from __future__ import annotations

import errno
import os
import stat

from placet.errors import ToolError
from placet.truncation import truncate

_SHOWN = 200
"""Characters of a path in a message."""


def cannot(verb: str, path: str, error: OSError) -> ToolError:
    """What the kernel refused: `cannot("read", "a.txt", error)`."""
    match error.errno:
        case errno.ENOENT if verb == "write":
            fix = "A folder of that path does not exist: make it first, or have it made."
        case errno.ENOENT:
            fix = "Look for it with find_files or list_dir."
        case errno.ENOTDIR:
            fix = "A part of that path is a file where a folder must be."
        case errno.ELOOP:
            fix = "Its links lead round in a circle, or are being changed."
        case errno.EISDIR:
            fix = "It is a folder."
        case errno.ENOSPC | errno.EDQUOT:
            fix = "Nothing was changed. Somebody has to make room."
        case _:
            fix = "Nothing was changed."
    return refused(f"Cannot {verb} {shown(path)}: {words(error)}. {fix}")


def no_file(verb: str, path: str, mode: int) -> ToolError:
    """What stands at `path` is no regular file; `mode` says what it is."""
    is_folder = stat.S_ISDIR(mode)
    what = "is a folder" if is_folder else "is no regular file (a link, a pipe, a socket or a device)"
    fix = "List it with list_dir." if is_folder and verb == "read" else "Choose another name."
    return refused(f"Cannot {verb} {shown(path)}: it {what}. {fix}")


def no_write_bit(path: str, mode: int) -> ToolError:
    """What stands at `path` was made so that nobody writes it; also root, who could, is not meant to."""
    return refused(
        f"Cannot write {shown(path)}: its mode {mode & 0o777:04o} lets nobody write it. If it is to be "
        "changed, make it writable first (chmod u+w)."
    )


def outside(path: str, folder: object) -> ToolError:
    """A path that leads out of the workspace `folder`."""
    return refused(
        f"The path {shown(path)} leads outside the workspace {folder}. Use a path beneath it, relative to it."
    )


def refused(message: str) -> ToolError:
    """A failure that trying again cannot help."""
    return ToolError(message, retry=False)


def words(error: OSError) -> str:
    """What the kernel says, without the number and the path."""
    return os.strerror(error.errno).lower() if error.errno else str(error)


def shown(path: str) -> str:
    """A path in quotation marks, not longer than a message can bear."""
    return repr(truncate(path, _SHOWN + 1, "…"))
