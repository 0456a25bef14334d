"""Files that only their owner can read, replaced as a whole."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from placet.errors import InputError


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
