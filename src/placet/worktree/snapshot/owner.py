"""Whose a snapshot is: the run it was taken for, and the process that holds it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

import msgspec


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """A process, named so that it is not taken for another one with its number."""

    run_id: str
    host: str
    boot: str
    """Which start of the machine; empty where the system does not say."""
    pid: int
    started: str
    folders: Sequence[str] = ()
    """Where it works."""


def this_process(run_id: str, folders: Sequence[str] = ()) -> Owner:
    """This one, at work on a run."""
    pid, host = os.getpid(), os.uname().nodename
    return Owner(
        run_id=run_id, host=host, boot=boot_id(), pid=pid, started=_started(pid), folders=list(folders)
    )


def read_owner(path: str) -> Owner | None:
    """What stands in a file; None if it cannot be read, or is something else."""
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=Owner)
    except (OSError, msgspec.DecodeError):
        return None


def is_gone(owner: Owner) -> bool:
    """Whether that process is surely gone. False where it cannot be known from here."""
    here = this_process("")
    if owner.host != here.host or not owner.boot:
        return False
    return owner.boot != here.boot or _started(owner.pid) != owner.started


def boot_id() -> str:
    """Which start of the machine this is; empty where the system does not say."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
    return ""


def _started(pid: int) -> str:
    """When a process began, in the system's own counting; empty if it is gone, or dead and not yet buried."""
    with suppress(OSError, IndexError), open(f"/proc/{pid}/stat", "rb") as file:
        # The name of the program comes first, in brackets, and may hold anything.
        fields = file.read().rpartition(b")")[2].split()
        return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
    return ""
