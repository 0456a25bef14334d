"""Text in files: which encoding it has, and parts of it by line numbers.

A line ends with a line feed; a carriage return before it belongs to the line.

Keep true:
1. What `decode` gives, `encode` turns back into the same bytes.
2. Only text is given out: bytes that could be anything are refused, never guessed.
3. No more is held in memory than the limits say, however large the file is.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from placet.errors import ToolError
from placet.sandbox.refusals import cannot, refused, shown
from placet.sandbox.workspace import Workspace
from placet.truncation import boundary, margin

Encoding = Literal["utf-8", "utf-8 with BOM", "utf-16-le with BOM", "utf-16-be with BOM", "latin-1"]

MIB = 1 << 20
MOST_BYTES = 10 * MIB
"""A file up to this size is read as a whole, whatever its encoding."""
MOST_STREAMED_BYTES = 1024 * MIB
"""A file up to this size is read in parts, if it is UTF-8."""
MOST_SHOWN_BYTES = 256 * 1024
"""Of text in one answer."""

_BOMS: tuple[tuple[bytes, Encoding, str], ...] = (
    (codecs.BOM_UTF8, "utf-8 with BOM", "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le with BOM", "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be with BOM", "utf-16-be"),
)
_NO_LATIN_1 = re.compile(rb"[\x00\x80-\x9f]")


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Some lines of a text file."""

    text: str
    """With the line ends as they are in the file."""
    start_line: int
    end_line: int
    """The last line that `text` holds; one before `start_line` if it holds none."""
    total_lines: int
    encoding: Encoding
    note: str = ""
    """What was left out and how to get it; empty if everything asked for is there."""


def decode(data: bytes) -> tuple[str, Encoding] | None:
    """The text, without its byte order mark, and its encoding; None if it is no text.

    >>> decode(b"caf\\xe9"), decode(b"\\x89PNG")
    (('café', 'latin-1'), None)
    """
    for bom, name, codec in _BOMS:
        if data.startswith(bom):
            try:
                return data[len(bom) :].decode(codec), name
            except UnicodeDecodeError:
                return None
    try:
        return data.decode(), "utf-8"
    except UnicodeDecodeError:
        # Any bytes at all are Latin-1. What has neither zeros nor C1 controls is likely to be meant as such.
        return None if _NO_LATIN_1.search(data) else (data.decode("latin-1"), "latin-1")


def encode(text: str, encoding: Encoding) -> bytes:
    """The bytes of a file that holds `text`.

    Raises:
        UnicodeEncodeError: the encoding has no such character.
    """
    for bom, name, codec in _BOMS:
        if name == encoding:
            return bom + text.encode(codec)
    return text.encode(encoding)


def read_part(
    workspace: Workspace, path: str, start_line: int, lines: int | None, start_column: int = 1
) -> Part:
    """Some lines of a file, `lines` of them or all the rest; the first one from a character on.

    Raises:
        ToolError: the file cannot be read, is no text, or has no such line or column.
    """
    opened, found = workspace.open_file(path)
    try:
        if found.size > MOST_BYTES:
            return _stream(opened, path, found.size, start_line, lines, start_column)
        data = b"".join(_pieces(opened, MOST_BYTES + 1))
    except OSError as error:
        raise cannot("read", path, error) from None
    finally:
        os.close(opened)
    if len(data) > MOST_BYTES:
        raise refused(f"The file {shown(path)} grew while it was read. Read a part of it.")
    decoded = decode(data)
    if decoded is None:
        raise no_text(path, len(data))
    text, encoding = decoded
    total = count_lines(text)
    _check_start(path, start_line, total)
    rest = text.split("\n", start_line - 1)[-1] if start_line > 1 else text
    skip = start_column - 1
    first = rest[: rest.find("\n") + 1 or None]
    if skip and skip >= len(first):
        raise _no_column(path, start_line, start_column, len(first.removesuffix("\n")))
    return _shorten(_first_lines(rest[skip:].encode(), lines), start_line, start_column, total, encoding)


def no_text(path: str, size: int) -> ToolError:
    """Words for a file that is no text."""
    return refused(
        f"The file {shown(path)} is binary, {size:,} bytes: no UTF-8, no UTF-16 with a byte order mark, no "
        "Latin-1. Look at it with a program made for its kind."
    )


def count_lines(text: str) -> int:
    """How many lines a text has; one that does not end with a line end counts too.

    >>> count_lines(""), count_lines("a\\nb")
    (0, 2)
    """
    return text.count("\n") + (bool(text) and not text.endswith("\n"))


def _check_start(path: str, start_line: int, total: int) -> None:
    if start_line > max(total, 1):
        raise refused(f"The file {shown(path)} has {total:,} lines; there is no line {start_line:,}.")


def _no_column(path: str, line: int, column: int, characters: int) -> ToolError:
    return refused(
        f"Line {line:,} of {shown(path)} has {characters:,} characters; there is no column {column:,}."
    )


def _pieces(opened: int, limit: int) -> Iterator[bytes]:
    while limit > 0:
        piece = os.read(opened, min(MIB, limit))
        if not piece:
            return
        limit -= len(piece)
        yield piece


class _Skip:
    """Leaves out the first characters of a line that comes by in pieces."""

    def __init__(self, characters: int) -> None:
        self.left = characters
        self.passed = 0
        """Characters that were left out."""
        self.is_over = False
        """Whether the line ended before."""
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def rest(self, piece: bytes) -> bytes:
        """What is left of the next piece.

        Raises:
            UnicodeDecodeError: it is not UTF-8.
        """
        if not self.left or self.is_over:
            return b"" if self.is_over else piece
        text = self._decoder.decode(piece)
        end = text.find("\n", 0, self.left)
        self.is_over = end >= 0
        out = min(len(text), self.left) if end < 0 else end
        self.passed += out
        self.left -= out
        if self.left:
            return b""
        # The piece may end within a character, which the decoder still holds.
        return text[out:].encode() + self._decoder.getstate()[0]


def _stream(opened: int, path: str, size: int, start_line: int, lines: int | None, start_column: int) -> Part:
    """The same for a file that is too large to be held: its lines are counted as they pass by."""
    if size > MOST_STREAMED_BYTES:
        raise refused(
            f"The file {shown(path)} has {size:,} bytes; {MOST_STREAMED_BYTES:,} are the most that can be "
            "read. Take a part of it with a command such as tail or sed."
        )
    chosen = bytearray()
    skip = _Skip(start_column - 1)
    ended = 0
    last = b""
    has_bom = False
    try:
        for at, piece in enumerate(_pieces(opened, MOST_STREAMED_BYTES)):
            if at == 0:
                has_bom = piece.startswith(codecs.BOM_UTF8)
                piece = piece.removeprefix(codecs.BOM_UTF8)
            in_piece = piece.count(b"\n")
            if ended + in_piece >= start_line - 1 and len(chosen) <= MOST_SHOWN_BYTES:
                missing = start_line - 1 - ended
                chosen += skip.rest(piece.split(b"\n", missing)[-1] if missing > 0 else piece)
                # One byte more than is shown tells that there is more, and some more whether a secret is cut.
                del chosen[MOST_SHOWN_BYTES + 1 + margin() :]
            ended += in_piece
            last = piece
        total = ended + (not last.endswith(b"\n"))
        _check_start(path, start_line, total)
        if start_column > 1 and not chosen:
            raise _no_column(path, start_line, start_column, skip.passed)
        encoding: Encoding = "utf-8 with BOM" if has_bom else "utf-8"
        return _shorten(_first_lines(bytes(chosen), lines), start_line, start_column, total, encoding)
    except UnicodeDecodeError:
        raise refused(
            f"The file {shown(path)} has {size:,} bytes and is not UTF-8, so it cannot be read in parts."
        ) from None


def _first_lines(data: bytes, lines: int | None) -> bytes:
    if lines is None:
        return data
    rest = data.split(b"\n", lines)
    return data if len(rest) <= lines else data[: len(data) - len(rest[-1])]


def _shorten(chosen: bytes, start_line: int, start_column: int, total: int, encoding: Encoding) -> Part:
    """As much of some lines as may be shown, in whole lines if at all possible."""
    note = ""
    if len(chosen) > MOST_SHOWN_BYTES:
        whole, feed, _ = chosen[:MOST_SHOWN_BYTES].rpartition(b"\n")
        if feed:
            text = (whole + feed).decode()
            note = f"Cut to {len(whole) + 1:,} bytes. Go on with start_line={start_line + count_lines(text)}."
        else:
            text = _cut_in_line(chosen)
            note = (
                f"Cut within line {start_line}, which is longer than {MOST_SHOWN_BYTES:,} bytes. Go on with "
                f"start_line={start_line}, start_column={start_column + len(text)}"
            )
            note += f"; the next line is start_line={start_line + 1}." if start_line < total else "."
    else:
        text = chosen.decode()
    end_line = start_line + count_lines(text) - 1
    return Part(
        text=text, start_line=start_line, end_line=end_line, total_lines=total, encoding=encoding, note=note
    )


def _cut_in_line(data: bytes) -> str:
    """As much as may be shown of valid UTF-8 that was cut anywhere, without the beginning of a secret."""
    whole = codecs.getincrementaldecoder("utf-8")().decode(data[: MOST_SHOWN_BYTES + 4 * margin()])
    shown = codecs.getincrementaldecoder("utf-8")().decode(data[:MOST_SHOWN_BYTES])
    # What comes next is read from where this ends, so it must not be empty.
    return shown[: boundary(whole, len(shown)) or len(shown)]
