"""The body of an HTTP answer: its beginning, unpacked, and read as text.

Keep true:
1. What is kept is bounded after unpacking, and so is each step of unpacking: a small answer cannot become a
   large one, not even for a moment.
2. Bytes that do not fit their character set are replaced, never a failure.
3. A packed body that breaks off is a failure, as one is that is shorter than it was announced.
"""

from __future__ import annotations

import codecs
import re
import zlib
from typing import Any

from placet.errors import ToolError
from placet.truncation import margin, truncate, truncate_bytes

_CHARSETS = (
    "utf",
    "ascii",
    "iso8859",
    "iso2022",
    "cp",
    "koi8",
    "mac",
    "shift_jis",
    "euc_",
    "gb",
    "big5",
    "tis",
)
"""How the names of real character sets begin. Python knows others (punycode, unicode_escape) that are none,
and slow to read."""


class Body:
    """The beginning of a body, unpacked."""

    def __init__(self, encoding: str, most: int) -> None:
        # Grows in place: a server may send single bytes, and each would copy all before it.
        self.kept = bytearray()
        self.is_full = False
        """Whether there was more than may be kept."""
        self._most = most
        kind = encoding.lower()
        if kind not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise ToolError(
                f"The answer is packed as {truncate(encoding, 40)!r}, which is not understood.", retry=False
            )
        self._is_packed = kind not in ("", "identity")
        self._unpacking = self._fresh()
        self._has_begun = False
        """Whether something packed has come."""

    def _fresh(self) -> Any:
        return zlib.decompressobj(wbits=47)  # gzip or zlib, as its first bytes say

    def add(self, chunk: bytes) -> bytes:
        """Take a part of the body as it was sent; returns it unpacked, as far as there is room."""
        # One byte more than is kept tells whether anything is left out; some more, whether a secret is cut.
        room = self._most + 1 + margin() - len(self.kept)
        piece = self._unpack(chunk, room) if self._is_packed else chunk[:room]
        self.kept += piece
        if len(self.kept) > self._most:
            self.kept = bytearray(truncate_bytes(bytes(self.kept), self._most, is_partial=True))
            self.is_full = True
        return piece

    def _unpack(self, chunk: bytes, room: int) -> bytes:
        made: list[bytes] = []
        self._has_begun = self._has_begun or bool(chunk)
        while chunk and room > 0:
            if self._unpacking.eof:
                # A second member may follow the first; anything else behind it is padding.
                if not chunk.startswith(b"\x1f\x8b"):
                    break
                self._unpacking = self._fresh()
            try:
                piece = self._unpacking.decompress(chunk, room)
            except zlib.error as error:
                raise ToolError(f"The answer is packed, and damaged: {error}.") from None
            chunk = self._unpacking.unused_data if self._unpacking.eof else self._unpacking.unconsumed_tail
            room -= len(piece)
            made.append(piece)
        return b"".join(made)

    def end(self) -> None:
        """Say that the body is over.

        Raises:
            ToolError: it is packed, and breaks off in the middle.
        """
        # Nothing at all is what a server sends that has nothing to send, packed or not.
        if self._has_begun and not self._unpacking.eof and not self.is_full:
            raise ToolError("The answer is packed, and breaks off before its end. Try again.")

    def reads_as_text(self) -> bool:
        """Whether bytes of an unknown type are plain UTF-8. A character may be cut off at the end."""
        try:
            codecs.getincrementaldecoder("utf-8")("strict").decode(self.kept)
        except UnicodeDecodeError:
            return False
        return b"\0" not in self.kept

    def text(self, content_type: str) -> str:
        """What was kept, read by the character set that `content_type` names; UTF-8 if it names none."""
        named = re.search(r"charset\s*=\s*[\"']?([\w.:-]+)", content_type, re.IGNORECASE)
        charset = "utf-8"
        if named:
            try:
                found = codecs.lookup(named[1]).name
            except LookupError:
                found = ""
            # Not utf-7: nobody sends it, but to hide something.
            charset = found if found.startswith(_CHARSETS) and found != "utf-7" else "utf-8"
        if self.kept.startswith(codecs.BOM_UTF8) and charset == "utf-8":
            charset = "utf-8-sig"
        # A character that was cut in two at the end is left out instead of shown as damaged.
        return codecs.getincrementaldecoder(charset)("replace").decode(self.kept, final=not self.is_full)
