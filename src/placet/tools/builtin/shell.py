"""The tool `shell`: a command line, run in the workspace, with all that it starts ended when it has.

Keep true:
1. However a command ends, a model gets an answer that says so: only one that cannot be started is a failure.
2. A model can shorten its time, never lengthen it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from placet.ir.json_value import JsonValue
from placet.sandbox.command import ending, run_command
from placet.sandbox.confined import GIT_IS_READ_ONLY
from placet.sandbox.confinement import Isolation
from placet.sandbox.environment import clean_environment
from placet.sandbox.finished import account
from placet.sandbox.limits import Limits
from placet.sandbox.workspace import Workspace
from placet.tools.context import ToolContext
from placet.tools.tool import Tool, tool

_DEFAULT = Limits()
_SHELL = "/bin/sh"
_NOBODY = ToolContext(action_id="", run_id="")
_DESCRIPTION = (
    "Run a command line with /bin/sh in the workspace folder, and wait until it has ended. "
    "Answers with exit_code (0 usually means success), stdout and stderr. If it was ended early, exit_code "
    "is null, and ended_by and note say why. It has no terminal, and nobody answers its questions. "
    "What still runs in the background when it ends is ended too. It has {time_s:g} seconds."
)
_RETURNS: dict[str, JsonValue] = {
    "type": "object",
    "properties": {
        "exit_code": {"type": ["integer", "null"]},
        "stdout": {"type": "string"},
        "stderr": {"type": "string"},
    },
    "required": ["exit_code", "stdout", "stderr"],
}


def shell_tools(
    workspace: Workspace,
    *,
    isolation: Isolation | None = None,
    limits: Limits = _DEFAULT,
    environment: Mapping[str, str] | None = None,
    commits: bool = False,
) -> list[Tool]:
    """shell. Its commands get `environment` besides what every command gets. With `commits`, git_commit is
    offered beside it."""
    confined = Isolation() if isolation is None else isolation
    more = {} if environment is None else dict(environment)

    @tool(
        risk="destructive",
        description=_DESCRIPTION.format(time_s=limits.time_s),
        labels=["confined"] if confined.is_certain else [],
        returns=_RETURNS,
    )
    async def shell(
        command: Annotated[str, msgspec.Meta(min_length=1, description="Such as: ls -l src | wc -l")],
        stdin: Annotated[str, "Text that the command reads from its standard input."] = "",
        timeout_s: Annotated[
            float,
            msgspec.Meta(gt=0, description="End it after so many seconds; never later than the default."),
        ] = limits.time_s,
        *,
        context: ToolContext = _NOBODY,
    ) -> dict[str, JsonValue]:
        within = msgspec.structs.replace(limits, time_s=min(timeout_s, limits.time_s))
        finished = await run_command(
            [_SHELL, "-c", command],
            folder=workspace.fd,
            stdin=stdin.encode(errors="replace"),
            environment=clean_environment(more),
            limits=within,
            sandbox=await confined.sandbox(workspace),
        )
        if context.on_command is not None:
            context.on_command(account(finished, _SHELL))
        answer: dict[str, JsonValue] = {
            "exit_code": finished.exit_code,
            "stdout": finished.stdout.decode(errors="replace"),
            "stderr": finished.stderr.decode(errors="replace"),
            "isolation": finished.facts.isolation,
        }
        if finished.ended_by != "itself":
            answer["ended_by"] = finished.ended_by
        if note := ending(finished, within):
            hint = "; to commit, call git_commit" if commits and GIT_IS_READ_ONLY in note else ""
            answer["note"] = note + hint
        return answer

    shell.confinement = lambda: confined.confinement(workspace)
    return [shell]
