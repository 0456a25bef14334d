"""Facts about a call that a person needs before saying yes: what confines it, what undoes it, what it edits.

Keep true:
1. A fact is established by whoever enforces or declares it. None is read off the name of a tool.
2. What is not known is said to be unknown; it never counts as confined, nor as undone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from placet.ir.to_dict import ToDict

RunsIn = Literal["placet", "sandbox", "program", "python", "server", "model", "state", "unknown"]
"""Where a call runs: in a tool that comes with Placet; in a sandboxed program; in a program, a Python
function or an MCP server outside of every sandbox; at a model; in the run's state alone; or nobody knows."""

Network = Literal["none", "hosts", "any"]
"""Whom a call can reach: nobody, the hosts that are named, or anybody."""

UndoneBy = Literal[
    "not_needed", "rollback", "compensation", "snapshot", "git", "delete", "copy", "declared", "none"
]
"""There is nothing to undo; the state is rolled back; a compensation runs; the folder is restored from a
snapshot; git has the file; the new file is deleted; the work is done in a private copy; the tool declares
that it can be undone, and nobody knows how; nothing undoes it."""


class Confinement(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """What is enforced around a call while it runs."""

    runs_in: RunsIn
    """Where the call runs."""
    isolation: Literal["none", "changes", "process"] = "none"
    """The level that holds for a program."""
    by: str = "nothing"
    """The backend that enforces it, such as "bubblewrap"."""
    folder: str | None = None
    """Nothing is written outside of it. None where that is not enforced."""
    network: Network = "any"
    """Whom the call can reach."""
    hosts: Sequence[str] = ()
    """Patterns, where `network` is "hosts"."""
    why: str = ""
    """Why it is not known; of a server, which one."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "hosts", tuple(self.hosts))

    @property
    def is_confined(self) -> bool:
        """Whether something keeps the call from acting with all rights of the person."""
        return (
            self.folder is not None
            or self.isolation == "process"
            or self.runs_in in ("placet", "model", "state")
        )


class Recovery(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """How the effect of a call can be undone."""

    by: UndoneBy
    """What undoes it."""
    command: str = ""
    """A person's way to undo it, such as "/undo" or "git restore -- a.txt"; of a compensation its tool. Empty
    where it happens by itself, or not at all."""
    scope: Literal["all", "folder"] = "all"
    """With "folder" only what the call changes there is undone, and the rest stays."""
    why: str = ""
    """Why nothing undoes it, where something usually does."""

    @property
    def is_by_hand(self) -> bool:
        """Whether a person can undo it at any time with `command`."""
        return self.by in ("git", "delete")


class FileEdit(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """Says that a call is one of Placet's own file tools, which changes files beneath one folder."""

    folder: str
    """The folder."""
    paths: Sequence[str] = ()
    """Relative to the folder. Empty where they cannot be told."""
    shows: Sequence[str] = ()
    """Parameters that the diff shows in full."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "paths", tuple(self.paths))
        msgspec.structs.force_setattr(self, "shows", tuple(self.shows))


class Preview(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """What a call of a file tool would change, with the files as they are now."""

    paths: Sequence[str] = ()
    """Files that it would change, relative to the folder."""
    created: Sequence[str] = ()
    """Those of the paths that do not exist yet."""
    diff: str = ""
    """A unified diff, cleaned of what steers a terminal and of secrets. Empty where nothing would change."""
    shows: Sequence[str] = ()
    """Parameters that the diff shows in full."""
    problem: str = ""
    """Why the call would fail, or why there is no diff."""
