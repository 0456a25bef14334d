"""Traces that an attack leaves: files, processes and sockets, looked at before and after."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

Seen = dict[str, tuple[object, ...]]
"""What there is, and everything about it."""


def seen(folder: Path, leave_out: Collection[str] = ()) -> Seen:
    """Everything that a change beneath the folder would change."""
    if not os.path.lexists(folder):
        return {}
    # In strings: this is done a thousand times, and paths would be most of the work.
    found = {str(folder): one(str(folder))}
    for inner, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if os.path.join(inner, name) not in leave_out]
        for name in (*folders, *files):
            path = os.path.join(inner, name)
            found[path] = one(path)
    return found


def one(path: str) -> tuple[object, ...]:
    """Everything about one file, folder or link."""
    status = os.lstat(path)
    content: object = None
    if stat.S_ISREG(status.st_mode):
        content = hashlib.sha256(read_bytes(path)).digest()
    elif stat.S_ISLNK(status.st_mode):
        content = os.readlink(path)
    names = attributes(path)
    when = status.st_mtime_ns
    return (status.st_mode, status.st_uid, status.st_gid, status.st_ino, when, content, names)


def attributes(path: str | Path) -> tuple[str, ...]:
    """The names of its extended attributes."""
    with suppress(OSError):
        return tuple(os.listxattr(path, follow_symlinks=False))
    return ()


def state(pid: int) -> tuple[object, ...]:
    """What others may not change about a process."""
    try:
        nice, cores = os.getpriority(os.PRIO_PROCESS, pid), frozenset(os.sched_getaffinity(pid))
        return (read_text(f"/proc/{pid}/limits"), read_text(f"/proc/{pid}/oom_score_adj"), nice, cores)
    except OSError:
        return ("gone",)


def differences(before: Seen, after: Seen) -> list[str]:
    """What is gone, other or new."""
    changed = [path for path in before if after.get(path) != before[path]]
    return changed + [path for path in after if path not in before]


def was_met(listener: socket.socket) -> bool:
    """Whether somebody has come to a socket."""
    try:
        if listener.type == socket.SOCK_DGRAM:
            listener.recv(16)
        else:
            listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def read_bytes(path: str) -> bytes:
    """What a file holds."""
    with open(path, "rb", buffering=0) as file:
        return file.read()


def read_text(path: str) -> str:
    """What a file of the kernel says."""
    with open(path) as file:
        return file.read()
