"""Events as JSON lines: one object a line, so that a file cut off anywhere is still read up to there.

Keep true:
1. Reading never fails on a line that a crash cut short; it is counted, not hidden.
2. A file that ends in half a line is closed off before anything is appended to it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from placet.events.event import Event

_encode = msgspec.json.Encoder().encode


class LineFile:
    """A file that only grows, by whole lines."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Opens the file at once, so that a path that cannot be written fails before anything runs."""
        self.path = Path(path)
        self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        size = os.fstat(self._fd).st_size
        if size and os.pread(self._fd, 1, size - 1) != b"\n":
            os.write(self._fd, b"\n")

    def append(self, records: Iterable[msgspec.Struct]) -> None:
        """Add a line each, in one write where the system takes it, so that two writers do not mix."""
        data = b"".join(_encode(record) + b"\n" for record in records)
        written = 0
        while written < len(data):
            written += os.write(self._fd, data[written:])

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class JsonlSink:
    """Appends events to a file as JSON lines."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the file for appending.

        Args:
            path: The file; it is created if it is missing.
        """
        self._file = LineFile(path)
        self.path: Path = self._file.path
        """The file."""

    def write(self, events: Sequence[Event]) -> None:
        """Append a batch."""
        self._file.append(events)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Recording(NamedTuple):
    """What a file of JSON lines holds."""

    events: list[Event]
    damaged: list[int]
    """Numbers of the lines that could not be read."""


def read_jsonl(path: str | os.PathLike[str]) -> Recording:
    """Everything in a file of JSON lines that can be read."""
    decode = msgspec.json.Decoder(Event).decode
    found = Recording([], [])
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                found.events.append(decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError):
                found.damaged.append(number)
    return found
