"""Files that only their owner can read, replaced as a whole.

Keep true: whoever reads a file to write it again holds the lock of its folder, so that of two processes none
undoes what the other has done, such as revoking a token.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from placet.errors import InputError


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep every other process from changing the files of a folder.

    Raises:
        InputError: the folder cannot be used.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        number = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InputError(
            f"Cannot use {folder}: {error.strerror or error}. The server keeps its tokens there."
        ) from None
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def write_private(path: Path, data: bytes) -> None:
    """Put a file in the place of the one that is there, mode 0600 from the first byte.

    Raises:
        InputError: it cannot be written; the old one stays.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        number = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(number, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise InputError(
            f"Cannot write {path}: {error.strerror or error}. The server keeps it there."
        ) from None
