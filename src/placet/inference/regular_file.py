"""A file that somebody named, opened without trusting the name.

Keep true:
1. Nothing waits: a pipe or a device is told from a file before it is opened, and again once it is.
2. What is too large to be read is refused before any of it is.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path


def open_regular(path: Path, flags: int, *, most_bytes: int) -> int:
    """The number of the open file, which is for its owner alone if it is made.

    Raises:
        OSError: it cannot be opened.
        ValueError: it is no regular file, or larger than `most_bytes`; says so.
    """
    # Opened for reading, a pipe already wakes up whoever writes to it, and a device may do anything.
    try:
        _check(os.stat(path), most_bytes)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    opened = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o600)
    try:
        _check(os.fstat(opened), most_bytes)
    except BaseException:
        os.close(opened)
        raise
    return opened


def check_size(size: int, most_bytes: int) -> None:
    """
    Raises:
        ValueError: it is more than that; says so.
    """
    if size > most_bytes:
        raise ValueError(f"it has {size:,} bytes, and may have {most_bytes:,}")


def _check(found: os.stat_result, most_bytes: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("it is no regular file")
    check_size(found.st_size, most_bytes)
