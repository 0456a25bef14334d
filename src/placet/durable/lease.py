"""Who holds a run, and whether that process is still there.

A hold ends by itself after a while without a renewal. On the machine of the holder nobody has to wait for
that: a process that has died holds nothing.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from functools import cache

import msgspec

LEASE_S = 30.0
"""How long a hold lasts without a renewal."""


class Holder(msgspec.Struct, frozen=True):
    """A process, named so that it is never taken for another one, not even for one with its number."""

    host: str
    pid: int
    boot: str = ""
    """Which start of the machine; empty where the system does not say."""
    space: str = ""
    """Which numbering of processes; empty where the system does not say."""
    started: str = ""
    """When the process began, in the system's own counting."""
    token: str = ""
    """Tells apart what one process holds twice."""

    @property
    def words(self) -> str:
        """For people."""
        here = holder("")
        place = "" if self.host == here.host else f" on {self.host}"
        return f"process {self.pid}{place}"


def holder(token: str) -> Holder:
    """This process."""
    pid = os.getpid()
    return Holder(socket.gethostname(), pid, _boot(), _space(), _started(pid), token)


def is_dead(other: Holder) -> bool:
    """Whether that process is surely gone. False where it cannot be known from here."""
    here = holder("")
    if other.host != here.host or not other.boot or other.boot != here.boot:
        # Another start of the machine may be another machine of the same name. Its hold will run out.
        return False
    return other.space == here.space and _started(other.pid) != other.started


@cache
def _boot() -> str:
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
    return ""


def _space() -> str:
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid")
    return ""


def _started(pid: int) -> str:
    """When a process began; empty if it is gone, or dead and not yet buried."""
    with suppress(OSError, IndexError), open(f"/proc/{pid}/stat", "rb") as file:
        # The name of the program comes first, in brackets, and may hold anything.
        fields = file.read().rpartition(b")")[2].split()
        return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
    return ""
