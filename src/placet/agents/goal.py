"""The goal of an agent: a command that says whether it is reached.

Keep true:
1. The check decides, not what the agent says. It runs in the folder where the agent works, kept in as its
   commands are, and all that it started has ended when its word counts.
2. A check that ends in any other way than by itself with exit code 0 has not passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from placet.errors import ToolError
from placet.ir.to_dict import ToDict
from placet.model_text import LIMIT
from placet.runtime.observation import observe_text
from placet.safe_text import clean

if TYPE_CHECKING:
    from placet.sandbox.confinement import Isolation
    from placet.sandbox.workspace import Workspace
    from placet.turns.ending import End

CHECKED_AFTER: Sequence[End] = ("success", "unsupported", "max_turns", "stuck")
"""How an agent may end and have its goal checked all the same: the check then has the last word."""
_SHELL = "/bin/sh"
_MERGED = 'exec /bin/sh -c "$1" 2>&1'
"""The command comes as an argument, so that it is run as it was written."""


class Checked(NamedTuple):
    """What came of a check."""

    passed: bool
    why: str = ""
    """Why it did not pass, in words."""
    output: str = ""
    """What it wrote, stdout and stderr as they came; of long output the head and the tail."""


class GoalResult(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """How far an agent came with its goal."""

    met: bool
    """Whether the check passed."""
    iterations: int
    """How often the agent tried."""
    reason: str = ""
    """Why the goal is not met; empty if it is."""


async def run_check(command: str, workspace: Workspace, isolation: Isolation, *, timeout_s: float) -> Checked:
    """Run a command in a folder, and say whether it passed. A cancellation ends the command, and passes.

    Raises:
        IsolationMissing: commands are kept from less than is required.
    """
    from placet.sandbox.command import ending, run_command
    from placet.sandbox.environment import clean_environment
    from placet.sandbox.limits import Limits

    limits = Limits(time_s=timeout_s)
    sandbox = await isolation.sandbox(workspace)
    try:
        finished = await run_command(
            [_SHELL, "-c", _MERGED, _SHELL, command],
            folder=workspace.fd,
            environment=clean_environment({}),
            limits=limits,
            sandbox=sandbox,
        )
    except ToolError as error:
        return Checked(False, f"it could not be run: {clean(str(error), 500)}")
    written = (finished.stdout + finished.stderr).decode(errors="replace")
    output = observe_text(written, "check", limit=LIMIT)
    if finished.ended_by != "itself":
        return Checked(False, clean(ending(finished, limits), 500), output)
    if finished.exit_code != 0:
        return Checked(False, f"it ended with exit code {finished.exit_code}", output)
    return Checked(True, "", output)
