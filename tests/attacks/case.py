"""One attack: what a command tries, and which promise it would break.

An attack is judged by its effects, from outside: what was changed, read, met, signalled or left running. What
it says itself counts only where nothing can be seen outside, and then it has to show what it got, through
`reached` (see inside.py). Its exit code and its complaints never count.

Keep true:
1. An attack harms nobody, also where nothing holds it: it is bounded in itself, and what it attacks was made
   for it.
2. An attack that cannot work where nothing holds it proves nothing. Those that can are run so (`bare`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from placet.sandbox.limits import MIB, Limits

Kind = Literal["files", "git", "secrets", "network", "processes", "kernel", "limits", "terminal"]
Protection = Literal[
    "fs_write", "fs_read", "net", "unix_sockets", "proc_kill", "pids", "memory", "disk", "always", "process"
]
"""A field of `Enforced`; or what holds for every command, sandbox or not; or what `process` adds besides."""

SMALL = Limits(time_s=10, output_bytes=1 * MIB, memory_bytes=128 * MIB, processes=40, disk_bytes=16 * MIB)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """An attack."""

    name: str
    kind: Kind
    text: str
    """What runs: for `sh`, or Python after inside.py."""
    language: Literal["sh", "bash", "python"] = "sh"
    breaks: Protection
    """What would be broken."""
    limits: Limits = SMALL
    bare: bool = True
    """Whether it works for an ordinary user where nothing holds it."""
    needs: str = ""
    """What the machine must have; one of `Scene.has`."""
    by_kernel: bool = False
    """Whether only the kernel holds it: a watch does not count so closely."""


class Batch:
    """The attacks of one kind, in order."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.cases: list[Case] = []

    def sh(self, name: str, breaks: Protection, text: str, **more: object) -> None:
        """Add a shell command."""
        self._add(name, breaks, text, "sh", more)

    def bash(self, name: str, breaks: Protection, text: str, **more: object) -> None:
        """Add a command of bash."""
        self._add(name, breaks, text, "bash", more)

    def python(self, name: str, breaks: Protection, text: str, **more: object) -> None:
        """Add a Python program."""
        self._add(name, breaks, text, "python", more)

    def _add(self, name: str, breaks: str, text: str, language: str, more: dict[str, object]) -> None:
        fields = {"name": name, "kind": self.kind, "text": text, "language": language, "breaks": breaks}
        self.cases.append(Case(**fields, **more))  # type: ignore[arg-type]


def by_name(batches: Iterable[Batch]) -> dict[str, Case]:
    """All attacks, each under a name of its own."""
    found: dict[str, Case] = {}
    for batch in batches:
        for case in batch.cases:
            assert case.name not in found, f"two attacks are named {case.name}"
            found[case.name] = case
    return found
