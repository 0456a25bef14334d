"""How far a command is kept from everything else, as a fact that was established and not as a hope.

`none` is a command with the rights of whoever started Placet. `changes` is work on a copy, such as a git
worktree: what it does to files can be thrown away, and nothing else is held. `process` is confinement by the
kernel: files, network and other processes.

Keep true:
1. A protection is `kernel` only if the self-test tried to break it, on this machine, and could not.
2. `process` means that none of `PROCESS` is `no`: a claim that one case breaks is no claim.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Level = Literal["none", "changes", "process"]
"""How far commands are confined, from the weakest to the strongest.

- `none`: a command has all rights of the user.
- `changes`: it works on a copy whose changes can be discarded.
- `process`: the kernel confines files, network and other processes.
"""
LEVELS: tuple[Level, ...] = ("none", "changes", "process")
"""From the weakest to the strongest."""

How = Literal["kernel", "watchdog", "no"]
"""Mechanism that enforces a protection.

- `kernel`: the kernel; a self-test tried to break it on this machine.
- `watchdog`: a periodic check, which stops the command.
- `no`: nothing.
"""

By = Literal["bubblewrap", "landlock", "nothing"]
"""The mechanism that confines commands."""


class Enforced(msgspec.Struct, frozen=True, kw_only=True):
    """Which protections hold, and what enforces each."""

    fs_write: How = "no"
    """Nothing outside the workspace is changed: contents, names, modes, times."""
    fs_read: How = "no"
    """Home folders, other projects, sockets and memory of other processes are not read."""
    net: How = "no"
    """Nothing is sent to a host that is not allowed."""
    unix_sockets: How = "no"
    """No socket of another program is contacted: Docker, ssh-agent, D-Bus."""
    proc_kill: How = "no"
    """No process outside is signalled or traced."""
    pids: How = "no"
    """No more processes run than allowed."""
    memory: How = "no"
    """No more memory is used than allowed."""
    disk: How = "no"
    """No more is written than allowed."""


PROCESS = ("fs_write", "fs_read", "net", "unix_sockets", "proc_kill")
"""What the level `process` is made of."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The protections that hold for a command."""

    isolation: Level = "none"
    """The level that is reached."""
    by: By = "nothing"
    """The mechanism."""
    enforced: Enforced = Enforced()
    """Each protection."""


NOTHING = Facts()


def is_at_least(level: Level, required: Level) -> bool:
    """Whether `level` is enough where `required` is asked for.

    >>> is_at_least("process", "changes"), is_at_least("none", "changes")
    (True, False)
    """
    return LEVELS.index(level) >= LEVELS.index(required)
