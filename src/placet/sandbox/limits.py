"""How much a command may use up before it is ended."""

from __future__ import annotations

from math import inf
from typing import Any

import msgspec

from placet.errors import UsageError
from placet.truncation import truncate_repr

KIB = 1024
MIB = 1024 * KIB

MOST: dict[str, int] = {
    "time_s": 10_000_000,
    "output_bytes": 1024 * MIB,
    "memory_bytes": 1024**2 * 1024 * MIB,
    "processes": 4 * MIB,
    "disk_bytes": 1024**2 * 1024 * MIB,
}
"""The largest value of each. Output is held in memory; a Linux machine has no more processes; and the system
takes no number of bytes that is far above any real one."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Resources that one command may use, with all processes that it starts."""

    time_s: float = 120.0
    """Wall-clock time in seconds, up to 10,000,000; `math.inf` is no limit."""
    output_bytes: int = 10 * MIB
    """Bytes of standard output and of standard error, each, up to 1 GiB. A command that writes more is
    stopped."""
    memory_bytes: int | None = 4 * 1024 * MIB
    """Memory of all its processes together, up to 1 PiB. `None`: no limit."""
    processes: int | None = 2048
    """Processes at one time, up to 4,194,304. Where the kernel enforces it (`pids: kernel`), threads count as
    well. `None`: no limit."""
    disk_bytes: int | None = 2 * 1024 * MIB
    """Bytes that it writes into the workspace and into temporary files, up to 1 PiB; enforced in a sandbox
    only. `None`: no limit."""

    def __post_init__(self) -> None:
        for name, most in MOST.items():
            # Built in Python, nothing has looked at the types yet.
            value: Any = getattr(self, name)
            is_time = name == "time_s"
            if (value is None and name not in ("time_s", "output_bytes")) or (is_time and value == inf):
                continue
            if type(value) is int and value > most:
                # Not shown: Python writes out no number of many thousand digits.
                raise UsageError(f"Limits: {name} is above {most:,}, which is the most.")
            if type(value) not in ((int, float) if is_time else (int,)) or not 0 < value <= most:
                kind = "number" if is_time else "whole number"
                raise UsageError(
                    f"Limits: {name} is {truncate_repr(value, 80)}. It is a {kind} above zero, up to "
                    f"{most:,}."
                )


def most_threads(processes: int) -> int:
    """How many threads `RLIMIT_NPROC` allows where so many processes may run.

    It counts threads, and a process may well have a few. That there are no more processes than allowed is
    watched, or held by a cgroup; this bound is for what grows faster than anybody can look, and is claimed
    nowhere.
    """
    return processes * 8 + 64
