"""The best sandbox that there is for a workspace.

Keep true:
1. Where commands cannot be confined to a workspace, the facts say so, whatever the machine could do.
2. The commands of root are another user's, or bubblewrap is not used for them: as root they would own the
   machine's settings.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from placet.sandbox.git_folder import look_up
from placet.sandbox.isolation import NOTHING, Facts, is_at_least
from placet.sandbox.places import unfit
from placet.sandbox.sandbox import Sandbox
from placet.sandbox.self_test import Tested, self_test

if TYPE_CHECKING:
    from placet.sandbox.hosts import HostFilter
    from placet.sandbox.ladder import Ladder
    from placet.sandbox.workspace import Workspace


async def open_sandbox(
    workspace: Workspace,
    ladder: Ladder,
    *,
    hosts: HostFilter | None = None,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    reads_only: bool = False,
) -> Sandbox:
    """The sandbox for the commands of a workspace.

    `folder` is Placet's own, and never shown. With `reads_only` commands can change nothing in the workspace.
    """
    place = str(workspace.folder)
    best = await _usable(place, ladder, environment)
    facts = best.facts
    match unfit(place, os.environ if environment is None else environment):
        case "system":
            best = Tested(by="nothing", facts=NOTHING)
            facts = NOTHING
        case "home":
            open_ones = msgspec.structs.replace(facts.enforced, fs_read="no", fs_write="no")
            facts = Facts(isolation="none", by=facts.by, enforced=open_ones)
        case _:
            pass
    if not is_at_least(facts.isolation, "changes") and _is_worktree(place):
        facts = msgspec.structs.replace(facts, isolation="changes")
    return Sandbox(
        workspace,
        best.by,
        facts,
        hosts=hosts,
        keep_out=None if folder is None else str(folder),
        reads_only=reads_only,
        environment=environment,
    )


async def _usable(place: str, ladder: Ladder, environment: Mapping[str, str] | None) -> Tested:
    """The best means for this very folder: its file system may not be the one that was tried."""
    best = ladder.best
    if best.by != "bubblewrap" or os.geteuid() != 0:
        return best
    from placet.sandbox.other_user import can_become

    if can_become(place) is None:
        return best
    other = await self_test("landlock", environment=environment)
    return other if other.is_whole else Tested(by="nothing", facts=NOTHING)


def _is_worktree(folder: str) -> bool:
    """Whether a folder is in a linked worktree: a copy of the files, which can be thrown away."""
    found = look_up(folder)
    return found is not None and found.git_dir != found.common
