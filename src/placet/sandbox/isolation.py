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
LEVELS: tuple[Level, ...] = ("none", "changes", "process")
"""From the weakest to the strongest."""

How = Literal["kernel", "watchdog", "no"]
"""Who holds a limit: the kernel; a look every now and then, after which the command is ended; or nobody."""

By = Literal["bubblewrap", "landlock", "nothing"]


class Enforced(msgspec.Struct, frozen=True, kw_only=True):
    """What is held, and by whom."""

    fs_write: How = "no"
    """Nothing is changed outside the workspace: contents, names, modes, times."""
    fs_read: How = "no"
    """Home folders, other projects, sockets and what other processes hold are not read."""
    net: How = "no"
    """Nothing is sent to any host that was not allowed."""
    unix_sockets: How = "no"
    """No socket of another program is spoken to: Docker, ssh-agent, D-Bus."""
    proc_kill: How = "no"
    """No process outside is signalled or traced."""
    pids: How = "no"
    memory: How = "no"
    disk: How = "no"


PROCESS = ("fs_write", "fs_read", "net", "unix_sockets", "proc_kill")
"""What the level `process` is made of."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for a command."""

    isolation: Level = "none"
    by: By = "nothing"
    enforced: Enforced = Enforced()


NOTHING = Facts()


def is_at_least(level: Level, required: Level) -> bool:
    """Whether `level` is enough where `required` is asked for.

    >>> is_at_least("process", "changes"), is_at_least("none", "changes")
    (True, False)
    """
    return LEVELS.index(level) >= LEVELS.index(required)
