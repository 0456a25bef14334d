"""The head of a log, kept outside it: what was cut off the end, or written anew, is noticed by this.

One line in one file per log. It tells a position that the log has reached for certain; it may be further.
Keep the folder where those who can write the log cannot.

Keep true:
1. The head only ever moves forwards, whoever writes it.
2. It never runs ahead of the log: a head is kept after its commit. A segment is kept before its own, because
   one that was dropped but is not here would be an alarm for ever.
3. Nothing is made before something is to be kept; what is made is for its owner alone.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from placet.events.chain import Anchored, Segment

_LINE = re.compile(rb"([0-9]{20}) ([0-9a-f]{64})\n")
_LENGTH = 20 + 1 + 64 + 1
_LOG_ID = re.compile(r"[0-9a-f]{32}")


class Anchor:
    """A folder that holds the newest digest of each log. Put it where those who can write the log cannot
    write.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Describe the folder; it is created when something is stored.

        Args:
            folder: The folder.
        """
        self.folder: Path = Path(folder)
        """The folder."""

    def head_file(self, log_id: str) -> Path:
        """Where the head of a log is kept.

        Raises:
            ValueError: that is no id of a log. It comes from the log's own table, and must lead nowhere else.
        """
        return self.folder / f"{_checked(log_id)}.head"

    def advance(self, log_id: str, position: int, digest: str) -> None:
        """Remember that the log has come this far, unless it is known to have come further.

        Raises:
            OSError: that cannot be written.
            ValueError: the id is none.
        """
        with self._open(self.head_file(log_id), os.O_RDWR) as file:
            # Others may anchor the same log; whoever comes late with less must not set it back.
            fcntl.flock(file, fcntl.LOCK_EX)
            known = _LINE.fullmatch(os.pread(file, _LENGTH, 0))
            if known is None or int(known[1]) < position:
                os.pwrite(file, b"%020d %b\n" % (position, digest.encode()), 0)

    def close_segment(self, log_id: str, segment: Segment) -> None:
        """Remember that a segment was dropped on purpose. On disk when this returns.

        Raises:
            OSError: that cannot be written.
            ValueError: the id is none.
        """
        line = f"{segment.first} {segment.last} {segment.digest} {segment.seal}\n"
        with self._open(self._segments_file(log_id), os.O_WRONLY | os.O_APPEND) as file:
            os.write(file, line.encode())
            os.fsync(file)

    def read(self, log_id: str) -> Anchored:
        """Return what is known of a log; nothing if the file is missing or incomplete.

        Args:
            log_id: Id of the log.
        """
        try:
            place = self.head_file(log_id)
        except ValueError:
            return Anchored(f"{self.folder} (the log's id is damaged)", None, "", frozenset())
        head, seals = b"", b""
        with suppress(OSError):
            head = place.read_bytes()
        with suppress(OSError):
            seals = self._segments_file(log_id).read_bytes()
        known = _LINE.fullmatch(head)
        # The last word of each line; half a line, left by a crash, is no seal of anything.
        closed = frozenset(line.split()[-1] for line in seals.decode("ascii", "replace").splitlines() if line)
        if known is None:
            return Anchored(str(place), None, "", closed)
        return Anchored(str(place), int(known[1]), known[2].decode(), closed)

    def _segments_file(self, log_id: str) -> Path:
        return self.folder / f"{_checked(log_id)}.segments"

    @contextmanager
    def _open(self, path: Path, flags: int) -> Iterator[int]:
        # Anew each time, which costs little beside a commit: a folder that was moved is noticed.
        if not self.folder.exists():
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            yield file
        finally:
            os.close(file)


def _checked(log_id: str) -> str:
    if not _LOG_ID.fullmatch(log_id):
        raise ValueError(f"{log_id!r:.80} is no id of a log")
    return log_id
