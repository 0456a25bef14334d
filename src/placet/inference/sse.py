"""Server-sent events out of bytes, however they are cut.

Keep true:
1. The events do not depend on where the bytes were cut, not even inside of a character or of CR LF.
2. What is held back is bounded: an event of more than `MOST_BYTES` is refused.
3. The work grows with the bytes, not with the square of them: no byte is looked at twice for being late.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

MOST_BYTES = 16 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_ENDS = (b"\n", b"\r")


class TooLong(ValueError):
    """One event of more bytes than anybody would send."""


class Event(NamedTuple):
    """One event."""

    name: str
    """What kind it is; empty where the server does not say."""
    data: str


class EventDecoder:
    """Turns what arrives into events.

    >>> decoder = EventDecoder()
    >>> list(decoder.feed(b"event: a\\ndata: 1\\n")), list(decoder.feed(b"\\n"))
    ([], [Event(name='a', data='1')])
    """

    __slots__ = ("_data", "_held", "_is_first", "_name", "_skips_lf", "_taken")

    def __init__(self) -> None:
        self._held = bytearray()
        """The beginning of a line whose end is not there yet."""
        self._skips_lf = False
        """The last byte was a CR: an LF that follows belongs to it."""
        self._is_first = True
        self._name = ""
        self._data: list[bytes] = []
        self._taken = 0

    def feed(self, data: bytes) -> Iterator[Event]:
        """The events that are complete now. Whoever stops reading them has lost the rest of `data`.

        Raises:
            TooLong: an event is longer than it may be.
        """
        for line in self._lines(data):
            event = self._take(line)
            if event is not None:
                yield event

    def finish(self) -> Iterator[Event]:
        """The last event, where the server hung up without the empty line behind it."""
        if self._held:
            self._take(self._joined(b""))
        event = self._take(b"")
        if event is not None:
            yield event

    def _lines(self, data: bytes) -> Iterator[bytes]:
        start = 0
        if self._skips_lf and data:
            self._skips_lf = False
            start = 1 if data.startswith(b"\n") else 0
        # Both are looked for once: a search that fails has read all that there is.
        lf, cr = (data.find(end, start) for end in _ENDS)
        while lf >= 0 or cr >= 0:
            if cr < 0 or 0 <= lf < cr:
                end, after = lf, lf + 1
            else:
                end, after = cr, cr + 1
                if after == len(data):
                    self._skips_lf = True
                elif lf == after:
                    after += 1
            yield self._joined(data[start:end])
            start = after
            if 0 <= lf < start:
                lf = data.find(b"\n", start)
            if 0 <= cr < start:
                cr = data.find(b"\r", start)
        if start < len(data):
            self._held += data[start:]
            self._bound()

    def _joined(self, rest: bytes) -> bytes:
        """A whole line: what was held back, and the rest of it."""
        if self._held:
            rest = bytes(self._held) + rest
            self._held.clear()
        if self._is_first:
            self._is_first = False
            rest = rest.removeprefix(_BOM)
        return rest

    def _take(self, line: bytes) -> Event | None:
        if not line:
            name, data = self._name, self._data
            self._name, self._data, self._taken = "", [], 0
            return Event(name, b"\n".join(data).decode(errors="replace")) if data else None
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
            # An empty line of data takes memory too.
            self._taken += len(line)
            self._bound()
        elif field == b"event":
            self._name = value.removeprefix(b" ").decode(errors="replace")
        return None

    def _bound(self) -> None:
        if len(self._held) + self._taken > MOST_BYTES:
            raise TooLong
