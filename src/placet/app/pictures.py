"""Pictures in files, told by what they hold: a name may say anything.

Keep true: what is no picture that models take is refused before anything is sent or kept.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from placet.errors import InputError

if TYPE_CHECKING:
    from placet.inference.messages import Image, ImageType

MOST_BYTES = 5 * 2**20
"""Of one picture: the least that any of the big providers takes."""
MOST = 20

_BEGINNINGS: Sequence[tuple[bytes, ImageType]] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def load_pictures(paths: Sequence[str]) -> list[Image]:
    """The pictures in these files, in order.

    Raises:
        InputError: a file cannot be read, is too large, or is no picture that models take; or there are too
            many.
    """
    if len(paths) > MOST:
        raise InputError(f"There are {len(paths)} pictures, and {MOST} at most can be given.")
    return [_load(path) for path in paths]


def _load(path: str) -> Image:
    from placet.app.files import unusable
    from placet.inference.messages import Image
    from placet.inference.regular_file import open_regular

    try:
        with open(open_regular(Path(path), os.O_RDONLY, most_bytes=MOST_BYTES), "rb") as file:
            data = file.read(MOST_BYTES)
    except (OSError, ValueError) as error:
        raise unusable("use the picture", path, error) from None
    kind = type_of(data)
    if kind is None:
        raise InputError(f"{path} is no picture that models take. Give a PNG, JPEG, GIF or WebP file.")
    return Image(data=data, type=kind)


def type_of(data: bytes) -> ImageType | None:
    """What kind of picture it is, by its first bytes; None if it is none that models take.

    >>> type_of(b"GIF89a..."), type_of(b"<svg>")
    ('image/gif', None)
    """
    for beginning, kind in _BEGINNINGS:
        if data.startswith(beginning):
            return kind
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None
