"""The head of a log, kept outside it: what was cut off the end, or written anew, is noticed by this.

One line in one file per log (`.head`). It tells a position that the log has reached for certain. A second
file (`.next`) tells what the commit that was begun last reaches, so the log is at one of the two: records
beyond were written by somebody else. A third one, per name of a database (`.database`), tells which log is in
it: a file is known by its path as given and by its real path. Keep the folder where those who can write the
log cannot.

Keep true:
1. The head only ever moves forwards, whoever writes it.
2. It never runs ahead of the log: a head is kept after its commit. A segment is kept before its own, because
   one that was dropped but is not here would be an alarm for ever.
3. A commit is announced before it is made, so that no record of ours is ever taken for somebody else's.
4. A database is never known by another log, and a stretch of foreign records never forgotten, unless a person
   accepts that.
5. A database is known last, when all other files are there. So where one is missing, it was lost.
6. Nothing is made before something is to be kept; what is made is for its owner alone.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from placet.events.chain import Anchored, Segment, is_log_id
from placet.truncation import truncate_repr

_LINE = re.compile(rb"([0-9]{20}) ([0-9a-f]{64})\n")
_LENGTH = 20 + 1 + 64 + 1
_STRETCH = re.compile(rb"^([0-9]{1,19}) ([0-9]{1,19})$", re.MULTILINE)
_UNREADABLE = "unreadable"
"""Stands for the id of a log where the file that names it cannot be read."""


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

    def announce(self, log_id: str, position: int, digest: str) -> None:
        """Remember what the log will have reached with a commit that is about to be made.

        Raises:
            OSError: that cannot be written.
            ValueError: the id is none.
        """
        with self._open(self._file(log_id, "next"), os.O_RDWR) as file:
            os.pwrite(file, b"%020d %b\n" % (position, digest.encode()), 0)

    def know(self, databases: Iterable[str], log_id: str) -> None:
        """Remember which log is in a database, under each of its names, unless another one is known to be.

        Raises:
            OSError: that cannot be written.
            ValueError: the id is none.
        """
        for database in databases:
            if self.log_of(database) is None:
                self._keep_log(database, log_id)

    def log_of(self, database: str) -> str | None:
        """The id of the log that is known to be in a database; None if the database is not known."""
        try:
            first = self._database_file(database).read_text(errors="replace").partition("\n")[0]
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            return _UNREADABLE
        return first if is_log_id(first) else _UNREADABLE

    def names_of(self, databases: Sequence[str]) -> list[str]:
        """Add all other names by which the same file is known: other spellings, links, mounts."""
        names = list(databases)
        here = {_file_of(name) for name in databases} - {None}
        if here:
            names += (name for _, name in self._known() if name not in databases and _file_of(name) in here)
        return names

    def _known(self) -> Iterator[tuple[str, str]]:
        """Ids of logs with the name of the database that each is in, for all that are known."""
        for file in sorted(self.folder.glob("*.database")):
            with suppress(OSError):
                log_id, _, name = file.read_bytes().decode(errors="surrogateescape").partition("\n")
                yield log_id, name.removesuffix("\n")

    def note_foreign(self, log_id: str, first: int, last: int) -> None:
        """Remember a stretch of records that no writer with this anchor has written.

        Raises:
            OSError: that cannot be written.
            ValueError: the id is none.
        """
        with self._open(self._file(log_id, "foreign"), os.O_WRONLY | os.O_APPEND) as file:
            os.write(file, b"%d %d\n" % (first, last))

    def share(self, log_id: str) -> None:
        """Remember that others write to the log as well, with anchors of their own or none.

        Raises:
            OSError: that cannot be written.
            ValueError: the id is none.
        """
        with self._open(self._file(log_id, "shared"), os.O_WRONLY):
            pass

    def accept(
        self, databases: Sequence[str], log_id: str, position: int, digest: str, *, shared: bool
    ) -> None:
        """Take a log as it is now, whatever was known of it or of its database. That is a person's to decide.

        Raises:
            OSError: that cannot be written.
            ValueError: the id is none.
        """
        known = self.read(log_id, databases, search=True)
        with self._open(self.folder / "accepted", os.O_WRONLY | os.O_APPEND) as file:
            before = f"{known.database_log} {known.position} {known.digest} {list(known.foreign)}"
            when = datetime.now(UTC).isoformat(timespec="seconds")
            os.write(file, f"{when} {log_id} {position} {digest} shared={shared} before: {before}\n".encode())
            os.fsync(file)
        for kind in ("head", "next"):
            with self._open(self._file(log_id, kind), os.O_RDWR | os.O_TRUNC) as file:
                os.pwrite(file, b"%020d %b\n" % (position, digest.encode()), 0)
        with suppress(FileNotFoundError):
            self._file(log_id, "foreign").unlink()
        if shared:
            self.share(log_id)
        else:
            with suppress(FileNotFoundError):
                self._file(log_id, "shared").unlink()
        for name in self.names_of(databases):
            self._keep_log(name, log_id)

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

    def read(self, log_id: str, databases: Sequence[str] = (), *, search: bool = False) -> Anchored:
        """Return what is known of a log; nothing if the file is missing or incomplete.

        Args:
            log_id: Id of the log.
            databases: Names of the database that it is in. Empty: nothing is said of the database.
            search: Look through everything that is known: for other names of the database, and for other
                databases that hold the log.
        """
        # First: these files are written last, so whatever they vouch for is there.
        names = self.names_of(databases) if search else databases
        logs = [log for name in names if (log := self.log_of(name)) is not None]
        in_it = next((log for log in logs if log != log_id), log_id if logs else None)
        is_named = log_id in logs or (search and any(log == log_id for log, _ in self._known()))
        try:
            place = self.head_file(log_id)
        except ValueError:
            place_of_none = f"{self.folder} (the log's id is damaged)"
            return Anchored(place_of_none, None, "", frozenset(), database_log=in_it)
        head, seals, ahead, strangers = b"", b"", b"", b""
        with suppress(OSError):
            ahead = self._file(log_id, "next").read_bytes()
        with suppress(OSError):
            strangers = self._file(log_id, "foreign").read_bytes()
        with suppress(OSError):
            head = place.read_bytes()
        with suppress(OSError):
            seals = self._segments_file(log_id).read_bytes()
        known = _LINE.fullmatch(head)
        # The last word of each line; half a line, left by a crash, is no seal of anything.
        closed = frozenset(line.split()[-1] for line in seals.decode("ascii", "replace").splitlines() if line)
        next_one = _LINE.fullmatch(ahead)
        return Anchored(
            str(place),
            None if known is None else int(known[1]),
            "" if known is None else known[2].decode(),
            closed,
            None if next_one is None else (int(next_one[1]), next_one[2].decode()),
            [(int(first), int(last)) for first, last in _STRETCH.findall(strangers)],
            self._file(log_id, "shared").exists(),
            in_it,
            is_named,
        )

    def _segments_file(self, log_id: str) -> Path:
        return self._file(log_id, "segments")

    def _file(self, log_id: str, kind: str) -> Path:
        return self.folder / f"{_checked(log_id)}.{kind}"

    def _database_file(self, database: str) -> Path:
        return self.folder / f"{sha256(database.encode(errors='surrogateescape')).hexdigest()[:32]}.database"

    def _keep_log(self, database: str, log_id: str) -> None:
        text = f"{_checked(log_id)}\n{database}\n".encode(errors="surrogateescape")
        with self._open(self._database_file(database), os.O_WRONLY | os.O_TRUNC) as file:
            os.write(file, text)

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


def _file_of(database: str) -> tuple[int, int] | None:
    """Which file stands under a name, as the system counts them; None if there is none, or it is a server."""
    if "://" in database:
        return None
    try:
        found = os.stat(database)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _checked(log_id: str) -> str:
    if not is_log_id(log_id):
        raise ValueError(f"{truncate_repr(log_id, 80)} is no id of a log")
    return log_id
