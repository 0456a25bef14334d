"""A note of the lock that we hold in a repository, so that it can be removed when we are killed.

Keep true:
1. The note is there before the lock is, and names the very file that becomes the lock.
2. A lock is removed only if it is that file and the process of the note is surely gone.
"""

from __future__ import annotations

import os
from contextlib import suppress

import msgspec

from placet.sandbox.snapshot.owner import Owner, is_gone, this_process


class _Note(msgspec.Struct, frozen=True, kw_only=True):
    lock: str
    spare: str
    """The name that the file has before it is the lock."""
    device: int
    inode: int
    owner: Owner


def take_lock(lock: str, note: str) -> bool:
    """Make the file `lock`; whether it was free. What is needed to remove it later is in the file `note`.

    Raises:
        OSError: it cannot be made.
    """
    spare = f"{lock}-{os.urandom(6).hex()}"
    number = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        found = os.fstat(number)
        owner = this_process("")
        _write(
            note,
            _Note(lock=lock, spare=spare, device=found.st_dev, inode=found.st_ino, owner=owner),
        )
        try:
            os.link(spare, lock)
        except FileExistsError:
            drop_note(note)
            return False
        except OSError:
            # A disk without hard links. What is left behind there has to be removed by hand.
            try:
                os.close(os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
            except FileExistsError:
                drop_note(note)
                return False
        return True
    finally:
        os.close(number)
        with suppress(FileNotFoundError):
            os.unlink(spare)


def drop_note(note: str) -> None:
    """The lock is gone, or not ours any more."""
    with suppress(FileNotFoundError):
        os.unlink(note)


def remove_left_lock(note: str, git_dir: str) -> None:
    """Remove the lock that a note is about, if whoever held it was killed."""
    try:
        with open(note, "rb") as file:
            said = msgspec.msgpack.decode(file.read(), type=_Note)
    except FileNotFoundError:
        return
    except (OSError, msgspec.DecodeError):
        return drop_note(note)
    if not is_gone(said.owner) and said.owner.pid != os.getpid():
        return
    for path in (said.spare, said.lock):
        if os.path.dirname(path) == git_dir:
            with suppress(OSError):
                found = os.lstat(path)
                if (found.st_dev, found.st_ino) == (said.device, said.inode):
                    os.unlink(path)
    drop_note(note)


def _write(path: str, note: _Note) -> None:
    with open(f"{path}.tmp", "wb") as file:
        file.write(msgspec.msgpack.encode(note))
    os.replace(f"{path}.tmp", path)
