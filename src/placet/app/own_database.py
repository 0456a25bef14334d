"""The database that a project's folder has by default: used only where this person has made it.

It lies among files that came from somebody else, and it is obeyed: it holds approvals, and what a run is
resumed with. So it is known by more than its name: by its number on the disk, and by a mark in its head that
nobody else knows. What SQLite plays back into it when it is opened is looked at too.

Keep true:
1. A file that is not remembered is not opened, for whatever purpose; looking at it makes nothing.
2. It is remembered before it stands under its name: no crash leaves one of ours that is refused.
3. What a person names is theirs to judge; none of this is asked about it.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from secrets import randbelow
from typing import NoReturn

import msgspec

from placet.app.private_record import PrivateRecord
from placet.errors import TrustError
from placet.storage.location import user_folder

FILE_NAME = "databases.json"
_MARK_AT = 60
"""Where SQLite keeps `user_version` in a file, four bytes."""


class Made(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is remembered of a database."""

    inode: int
    mark: int
    log: int | None = None
    """The inode of the write-ahead log that belongs to it, while there is one."""
    time: str
    """UTC, ISO 8601."""


def check_own(path: Path, environment: Mapping[str, str], *, create: bool) -> None:
    """Make sure that a project's default database is this person's own; with `create` it is made if need be.

    Raises:
        TrustError: it was not made by this person, or whether it was cannot be told.
        StorageError: it cannot be made.
    """
    for place in (path.parent.parent, path.parent, path):
        if os.path.islink(place):
            _refuse(place, path, "is a link, so it is not known whose files it leads to")
    record = _record(environment)
    # What may not be looked at counts as not there: whoever opens it says why that cannot be.
    if create and not os.path.exists(path):
        _make(path, record)
    elif os.path.exists(path):
        known = record.load().get(_name(path))
        inode, mark = _identity(path)
        if known is None or (known.inode, known.mark) != (inode, mark):
            _refuse(path, path, "was not made by you on this machine: it may have come with the folder")
        if _strange_beside(path, known):
            # Another process may have begun its log since the record was read. None can while we are alone.
            with record.alone():
                _check_beside(path, record.load().get(_name(path)))


def note_log(path: Path, environment: Mapping[str, str]) -> None:
    """Remember which log is the database's own: call it once the file is open for writing, and once it has
    been closed. Does nothing for a database that is not remembered.

    What cannot be noted is no reason to stop: should a crash leave the log behind, it is refused then.
    """
    record = _record(environment)
    with suppress(TrustError):
        if _name(path) not in record.load():
            return
        with record.alone():
            entries = record.load()
            known = entries[_name(path)]
            log, *_ = _beside(path)
            try:
                inode = log.stat().st_ino
            except FileNotFoundError:
                inode = None  # Its number will be given to another file.
            if inode != known.log:
                record.write({**entries, _name(path): msgspec.structs.replace(known, log=inode)})


def _record(environment: Mapping[str, str]) -> PrivateRecord[Made]:
    return PrivateRecord(
        user_folder(environment) / FILE_NAME,
        Made,
        key="databases",
        otherwise="it is not known which databases you have made",
        again="name your databases with --db",
    )


def _name(path: Path) -> str:
    return os.path.realpath(path)


def _make(path: Path, record: PrivateRecord[Made]) -> None:
    from placet.storage.sqlite import make_marked

    with record.alone():
        if os.path.exists(path):
            return  # Another process was quicker, and has remembered it.
        _check_beside(path, None)
        draft = path.with_name(f"{path.name}.part")
        for left in (draft, *_beside(draft)):
            with suppress(OSError):
                left.unlink()
        make_marked(draft, 1 + randbelow(2**31 - 1))
        inode, mark = _identity(draft)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        record.write({**record.load(), _name(path): Made(inode=inode, mark=mark, time=now)})
        draft.rename(path)


def _beside(path: Path) -> list[Path]:
    """What SQLite would play back into the file: its log first."""
    return [path.with_name(f"{path.name}{end}") for end in ("-wal", "-journal")]


def _strange_beside(path: Path, known: Made | None) -> Path | None:
    """A file that would be played back although it is not the database's own."""
    for file in _beside(path):
        try:
            found = file.lstat()
        except OSError:
            continue
        # A log is empty until its number is remembered; a journal we never leave.
        is_log = file.name.endswith("-wal") and stat.S_ISREG(found.st_mode)
        if not is_log or (found.st_size and (known is None or known.log != found.st_ino)):
            return file
    return None


def _check_beside(path: Path, known: Made | None) -> None:
    file = _strange_beside(path, known)
    if file is not None:
        raise TrustError(
            str(file),
            "would be played back into the database, and it is not known who wrote it: it may have come with "
            "the folder, or be from a program of yours that names the database itself",
            f"In the first case move it away; else name the database: {_by_name(path)}",
        )


def _identity(path: Path) -> tuple[int, int]:
    """The file's number on its disk, and its mark."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                return 0, 0
            return found.st_ino, int.from_bytes(os.pread(file, 4, _MARK_AT), "big", signed=True)
        finally:
            os.close(file)
    except OSError as error:
        raise TrustError(
            str(path), f"cannot be read: {error.strerror or error}", "Check its permissions."
        ) from None


def _refuse(found: Path, path: Path, problem: str) -> NoReturn:
    raise TrustError(
        str(found),
        f"{problem}. It could hold approvals that nobody gave, and runs that nobody began",
        f"Move it away, and a new one is made. To use it all the same, name it: {_by_name(path)}",
    )


def _by_name(path: Path) -> str:
    return f"--db {shlex.quote(str(path))}"
