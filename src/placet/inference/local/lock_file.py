"""A lock that the kernel lets go of when its holder dies, and that no forked child keeps by accident.

Keep true:
1. A child that is forked while a lock is held has no part in it: it neither keeps it nor lets it go.
2. What is closed is let go of at once, unless it was handed to another process.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from threading import RLock
from weakref import WeakSet

_FORKING = RLock()
"""Held while a file is opened or closed, and while this process forks: a child knows all that it got."""
_OPEN: WeakSet[LockFile] = WeakSet()


class LockFile:
    """A file that stands for a lock; made where it is not there, for its owner alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _FORKING:
            self._opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            _OPEN.add(self)

    @property
    def is_open(self) -> bool:
        """Whether it is still ours: closed, or on the other side of a fork, it is not."""
        return self._opened >= 0

    def fileno(self) -> int:
        """For handing it to another process."""
        return self._opened

    def try_lock(self, *, shared: bool = False) -> bool:
        """Take the lock, if that can be done at once."""
        import fcntl

        try:
            fcntl.flock(self._opened, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def lock(self) -> None:
        """Take it alone, however long that takes."""
        import fcntl

        fcntl.flock(self._opened, fcntl.LOCK_EX)

    def touch(self) -> None:
        """Let others see that it was taken just now."""
        os.utime(self._opened)

    def sign(self) -> None:
        """Write into it which process holds it, for others to read."""
        os.pwrite(self._opened, f"{os.getpid():<20}\n".encode(), 0)

    def signed_by(self) -> int | None:
        """The process that signed last, if it said so and still lives."""
        try:
            process = int(os.pread(self._opened, 32, 0))
            os.kill(process, 0)
        except (OSError, ValueError, OverflowError):
            return None
        return process if process > 0 else None

    def close(self, *, is_handed_over: bool = False) -> None:
        """Let go. Handed over, the lock stays locked: it is the other process's now. Twice is harmless."""
        import fcntl

        with _FORKING:
            opened, self._opened = self._opened, -1
            if opened < 0:
                return
            _OPEN.discard(self)
            if not is_handed_over:
                with suppress(OSError):
                    fcntl.flock(opened, fcntl.LOCK_UN)
            os.close(opened)

    def forget(self) -> None:
        """In a child: close it, and leave the lock to the parent."""
        self.close(is_handed_over=True)

    def __del__(self) -> None:
        # At the end of the interpreter nothing can be imported any more, and the kernel lets go of it anyway.
        with suppress(ImportError, AttributeError):
            self.close()


def _in_child() -> None:
    for each in list(_OPEN):
        each.forget()
    _FORKING.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_FORKING.acquire, after_in_parent=_FORKING.release, after_in_child=_in_child)
