"""Hooks of a loop: commands of its file that run before and after a round, in the repository.

Keep true:
1. Where isolation `process` is required, a hook runs in the sandbox and cannot change the repository. Only
   the person's own settings lift that, never the loop's file.
2. A hook gets the clean environment of every command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from placet.sandbox.command import run_command
from placet.sandbox.environment import clean_environment
from placet.sandbox.workspace import Workspace

if TYPE_CHECKING:
    from placet.sandbox.confinement import Isolation
    from placet.sandbox.finished import Finished
    from placet.sandbox.limits import Limits

HOOK = "loop_hook"
"""Name of the hook as a tool, by which a person trusts it in their settings."""


def is_confined(isolation: Isolation) -> bool:
    """Whether hooks run in the sandbox."""
    return isolation.required == "process" and HOOK not in isolation.trusted


async def run_hook(
    command: str, folder: str, *, isolation: Isolation, limits: Limits, stdin: bytes = b""
) -> Finished:
    """Run a hook in `folder` and wait for its end.

    Raises:
        IsolationMissing: it has to be confined, and cannot be here.
        ToolError: it cannot be started.
    """
    argv = ["/bin/sh", "-c", command]
    environment = clean_environment()
    if not is_confined(isolation):
        return await run_command(argv, folder=folder, environment=environment, limits=limits, stdin=stdin)
    workspace = Workspace(folder)
    try:
        sandbox = await isolation.reading(workspace)
        return await run_command(
            argv,
            folder=workspace.fd,
            environment=environment,
            limits=limits,
            stdin=stdin,
            sandbox=sandbox,
        )
    finally:
        workspace.close()
