"""The file of a recording: JSON lines, the first of which says what it is.

    {"kind": "recording", "version": 1}
    {"kind": "tools", "id": ..., "tools": [...]}
    {"kind": "settings", "id": ..., "settings": {...}}
    {"kind": "answer", "after": ..., "messages": [...], "at": ..., "tools": ..., "settings": ...,
     "result": {...}}
    {"kind": "run", "data": {...}}

An answer holds the messages that no line before it holds; `after` is the digest of the conversation that they
continue, empty at its beginning, and `at` the digest of that with them. Where the model failed, there is an
`error` in place of the `result`. What a whole run adds between the answers is told in its leader's own words.

Keep true:
1. Lines are whole: one write each, while no other recorder writes, behind a line break.
2. A line that a crash cut short costs that line, and what continues it; the rest can be read.
3. A file that is no recording is never written to.
4. No recording grows larger than one that is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, BinaryIO, TypeAlias

import msgspec

from placet import errors
from placet.errors import InputError, ModelError
from placet.inference.model import Result
from placet.inference.regular_file import check_size, open_regular
from placet.inference.wrappers.digests import plain
from placet.safe_text import clean

VERSION = 1
MOST_BYTES = 2**30

_LONGEST_HEADER = 4096
_HEADER = b'{"kind":"recording","version":1}\n'


class Header(msgspec.Struct, frozen=True, tag="recording", tag_field="kind"):
    """The first line."""

    version: int


class Tools(msgspec.Struct, frozen=True, tag="tools", tag_field="kind"):
    """A list of tools that answers refer to."""

    id: str
    tools: msgspec.Raw


class Settings(msgspec.Struct, frozen=True, tag="settings", tag_field="kind"):
    """What else was asked for, which answers refer to."""

    id: str
    settings: msgspec.Raw


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error that a model answered with."""

    code: str
    message: str
    status: int | None = None
    retry_after_s: Annotated[float, msgspec.Meta(ge=0)] | None = None
    may_pass: bool | None = None
    """None where it is what its class says. A server may have said otherwise."""

    @classmethod
    def of(cls, error: ModelError) -> Failure:
        """What is kept of an error."""
        is_usual = error.may_pass == _KINDS.get(error.code, ModelError).may_pass
        return cls(
            code=error.code,
            message=str(error),
            status=error.status,
            retry_after_s=error.retry_after_s,
            may_pass=None if is_usual else error.may_pass,
        )

    def error(self) -> ModelError:
        """The same error again; a plain ModelError where its class is not one of ours."""
        kind = _KINDS.get(self.code, ModelError)
        error = kind(self.message, status=self.status, retry_after_s=self.retry_after_s)
        if self.may_pass is not None:
            error.may_pass = self.may_pass
        return error


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag="answer", tag_field="kind", omit_defaults=True):
    """One request, and what came of it."""

    after: str
    messages: Sequence[msgspec.Raw]
    tools: str
    settings: str
    at: str = ""
    result: Result | None = None
    error: Failure | None = None


class Told(msgspec.Struct, frozen=True, tag="run", tag_field="kind"):
    """What a run tells of itself: what no request holds."""

    data: msgspec.Raw


Line: TypeAlias = Header | Tools | Settings | Answer | Told

_KINDS: dict[str, type[ModelError]] = {
    each.code: each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, ModelError)
}
_encode = msgspec.json.Encoder(enc_hook=plain).encode
_decode = msgspec.json.Decoder(Line).decode


class RecordFile:
    """A recording that grows. Others may write to it at the same time, from this process or another."""

    def __init__(self, path: Path) -> None:
        """Opens the file at once, so that a path that cannot be written fails before anything is asked.

        Raises:
            InputError: it cannot be written, or is no recording.
        """
        self.path = path
        try:
            opened = open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, most_bytes=MOST_BYTES)
            self._file: BinaryIO = open(opened, "ab", buffering=0)  # noqa: SIM115
        except (OSError, ValueError) as error:
            raise _unusable("write", path, _words(error)) from None
        try:
            self.append([])
        except BaseException:
            self._file.close()
            raise

    def append(self, lines: Sequence[Line]) -> None:
        """Add a line each. What was added is out of this process when it returns.

        Raises:
            InputError: it cannot be written, is no recording, or would be too large to be read.
        """
        import fcntl

        try:
            data = b"".join(_encode(line) + b"\n" for line in lines)
            opened = self._file.fileno()
            fcntl.flock(opened, fcntl.LOCK_EX)
            try:
                data = self._beginning(opened) + data
                # Found out much later, it would be of no use to anybody.
                check_size(os.fstat(opened).st_size + len(data), MOST_BYTES)
                while data:
                    data = data[os.write(opened, data) :]
            finally:
                fcntl.flock(opened, fcntl.LOCK_UN)
        except (OSError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise _unusable("write", self.path, _words(error)) from None

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        self._file.close()

    def _beginning(self, opened: int) -> bytes:
        """What has to stand before the next line."""
        size = os.fstat(opened).st_size
        first = os.pread(opened, _LONGEST_HEADER, 0)
        if size < len(_HEADER) and _HEADER.startswith(first):
            # Nothing, or a header that was cut short: there is nothing yet that could be lost.
            os.ftruncate(opened, 0)
            return _HEADER
        _check_header(first.partition(b"\n")[0], self.path)
        return b"" if os.pread(opened, 1, size - 1) == b"\n" else b"\n"


def read_lines(path: Path) -> Iterator[tuple[int, Line | None]]:
    """The lines of a recording after the first, with their numbers; None for one that cannot be read.

    Raises:
        InputError: there is no such file, it is no recording, or it is too large.
    """
    try:
        with open(open_regular(path, os.O_RDONLY, most_bytes=MOST_BYTES), "rb") as file:
            _check_header(file.readline(_LONGEST_HEADER), path)
            for number, line in enumerate(file, start=2):
                if not line.strip():
                    continue
                try:
                    yield number, _decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    yield number, None
    except (OSError, ValueError) as error:
        raise _unusable("read", path, _words(error)) from None


def _check_header(line: bytes, path: Path) -> None:
    try:
        header = msgspec.json.decode(line, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _unusable("use", path, "it is no recording of a model") from None
    if header.version != VERSION:
        raise _unusable(
            "use", path, f"it has version {header.version}, and this version of Placet reads {VERSION}"
        )


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _unusable(verb: str, path: Path, problem: str) -> InputError:
    return InputError(f"Cannot {verb} the recording {clean(path)}: {problem}.")
