"""Who is at work in a folder, and who has been since a snapshot of it was taken.

This is no lease of `storage.lease`: a runtime that is bound to a folder may have no database, and folders
that lie within each other exclude each other, which no row of one can say. So a file is locked.

Keep true:
1. Of runs whose folders overlap one is at work. A claim is a lock of the kernel's, so it goes with its
   process, however that ends; a file alone claims nothing.
2. Claims are looked at and made in turn, so two that come at once do not both find the folder free.
3. A mark of later work stands in the snapshot that it concerns, and goes with it.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import msgspec

from placet.errors import UsageError
from placet.sandbox.places import is_beneath
from placet.worktree.snapshot.manifest import shown
from placet.worktree.snapshot.owner import Owner, read_owner, this_process

GATE = "lock"
"""Held while claims are looked at. It stays: one that is removed could be locked by two."""
_CLAIM = re.compile(r"claim-[0-9a-f]{16}\Z")
_LATER = "later-"


class Claim:
    """A folder that is a run's to work in, until it is released or the process has ended."""

    def __init__(self, path: str, opened: int) -> None:
        self._path = path
        self._opened = opened

    def release(self) -> None:
        """Let others have it. Calling it twice is harmless."""
        if self._opened < 0:
            return
        with suppress(OSError):
            os.unlink(self._path)
        # Not by closing alone: a child that was forked meanwhile has the descriptor, too.
        with suppress(OSError):
            fcntl.flock(self._opened, fcntl.LOCK_UN)
        os.close(self._opened)
        self._opened = -1


def folders_of(workspace: str) -> list[str]:
    """What restoring a workspace changes, as text."""
    return [shown(os.fsencode(workspace))]


def overlap(some: Sequence[str], others: Sequence[str]) -> bool:
    """Whether a folder of one lies in one of the other, or is the same.

    >>> overlap(["/a/b"], ["/a"]), overlap(["/a"], ["/ab"])
    (True, False)
    """
    return any(is_beneath(a, b) or is_beneath(b, a) for a in some for b in others)


def claim(folder: str, workspace: str, run_id: str) -> Claim:
    """Claim a workspace for a run. Claims are kept in `folder`, which is there.

    Raises:
        UsageError: another run is at work in it, or around or beneath it.
        OSError: claims cannot be kept.
    """
    wanted = folders_of(workspace)
    with _gate(folder):
        for owner in _held(folder):
            if overlap(wanted, owner.folders):
                raise UsageError(_taken(wanted[0], owner))
        path = os.path.join(folder, f"claim-{os.urandom(8).hex()}")
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        made = Claim(path, opened)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(opened, msgspec.json.encode(this_process(run_id, wanted)))
        except BaseException:
            made.release()
            raise
        return made


def tidy(folder: str) -> None:
    """Remove the claims of processes that are gone.

    Raises:
        OSError: the folder cannot be read.
    """
    with _gate(folder):
        _held(folder)


@contextmanager
def _gate(folder: str) -> Iterator[None]:
    opened = os.open(os.path.join(folder, GATE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def _held(folder: str) -> list[Owner]:
    """Whose the claims are that hold; the others are removed."""
    found: list[Owner | None] = []
    for name in sorted(os.listdir(folder)):
        if _CLAIM.match(name) is None:
            continue
        path = os.path.join(folder, name)
        with suppress(FileNotFoundError):
            opened = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            except BlockingIOError:
                found.append(read_owner(path))
            finally:
                os.close(opened)
    return [owner for owner in found if owner is not None]


def _taken(workspace: str, owner: Owner) -> str:
    where = "it" if workspace in owner.folders else owner.folders[0]
    return (
        f"The workspace {workspace} is taken: run '{owner.run_id}' ({owner.holder.words}) is at work in "
        f"{where}. One run at a time, or what one takes back would be another's work. Nothing was started. "
        "Wait until that run has ended, then try again."
    )


def mark_later(snapshot: str, by: str, run_id: str) -> None:
    """Note in the folder of a snapshot that a run works there since, from its own snapshot `by` on.

    Raises:
        OSError: it cannot be noted; FileNotFoundError, if the snapshot is gone.
    """
    opened = os.open(os.path.join(snapshot, _LATER + by), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(opened, msgspec.json.encode(this_process(run_id)), 0)
        os.fsync(opened)
    finally:
        os.close(opened)


def unmark_later(snapshot: str, by: str) -> None:
    """Take that back; nothing happens if it was not noted."""
    with suppress(OSError):
        os.unlink(os.path.join(snapshot, _LATER + by))


def later_runs(snapshot: str) -> list[str]:
    """Which runs have worked there since, by what is noted in the folder of a snapshot.

    Raises:
        OSError: it cannot be read.
    """
    found: dict[str, None] = {}
    for name in sorted(os.listdir(snapshot)):
        if name.startswith(_LATER):
            owner = read_owner(os.path.join(snapshot, name))
            # Also one that cannot be read is there because somebody was about to change something.
            found["?" if owner is None else owner.run_id] = None
    return list(found)
