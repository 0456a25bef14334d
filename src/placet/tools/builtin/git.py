"""The tool `git_commit`: a commit is an effect, so it is a call and not something that happens in a shell.

Keep true:
1. Whoever approves a call sees the diff of the commit, and the commit is that or none, as long as the process
   lives that asked.
2. What is expected to fail says what to do instead.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from placet.errors import PlacetError, ToolError, UsageError
from placet.ir.call_facts import Recovery
from placet.ir.json_value import JsonValue
from placet.sandbox.git_folder import look_up
from placet.sandbox.workspace import Workspace
from placet.tools.builtin.files import confined_to
from placet.tools.tool import Tool, tool
from placet.worktree.commit import commit, is_repository, show
from placet.worktree.snapshot.git_state import repository_of, tip_of

NAME = "git_commit"
_TIMEOUT_MS = 600_000


def git_tools(workspace: Workspace) -> list[Tool]:
    """git_commit, if the workspace is the top of a git repository; else nothing."""
    folder = str(workspace.folder)
    if not is_repository(folder):
        return []

    shown: dict[tuple[str, ...], str] = {}
    """The tree of each commit that a person was asked about."""

    @tool(risk="destructive", labels=("confined",), timeout_ms=_TIMEOUT_MS)
    async def git_commit(
        paths: Annotated[
            list[str],
            Meta(min_length=1, description="Files and folders to commit, relative to the workspace."),
        ],
        message: Annotated[str, Meta(min_length=1, max_length=20_000)],
    ) -> dict[str, JsonValue]:
        """Commit files as they are now to the branch that is checked out. Other changes stay as they are,
        staged or not. New and deleted files beneath the paths are committed too, ignored ones are not.

        Args:
            message: The commit message: a short first line, then an empty line, then the reason if needed.
        """
        if not message.strip():
            raise ToolError("The commit message is empty. Say what the commit changes.", retry=False)
        try:
            made = await commit(
                Path(folder),
                paths,
                message,
                closed=workspace.apart()[0],
                shown=shown.pop((message, *paths), ""),
            )
        except UsageError as error:
            raise ToolError(str(error), retry=False) from error
        return {
            "commit": made.commit,
            "parent": made.parent,
            "branch": made.branch,
            # A name that is no text is told as nearly as JSON can.
            "paths": [os.fsencode(path).decode(errors="replace") for path in made.paths],
        }

    def explain(parameters: Mapping[str, JsonValue], _tenant: str | None) -> str:
        paths = parameters.get("paths")
        named = [path for path in paths if isinstance(path, str)] if isinstance(paths, list) else []
        try:
            # On a thread of its own, on which no event loop runs.
            found = asyncio.run(show(Path(folder), named, closed=workspace.apart()[0]))
            shown[(str(parameters.get("message")), *named)] = found.tree
            return found.diff
        except PlacetError as error:
            return f"(no diff: {error})"

    git_commit.explain = explain
    git_commit.recovery = lambda: Recovery(by="git", command=_reset(folder))
    git_commit.confinement = confined_to(workspace)
    return [git_commit]


def why_no_commits(folder: str) -> str:
    """Why git_commit is not offered in a folder, and where it is."""
    found = look_up(folder)
    where = f"lies inside the repository {found.top}" if found is not None else "is in no git repository"
    return (
        f"'{NAME}' is offered only where the workspace is the top of a git repository, and {folder} {where}; "
        f"work in {'that folder' if found is not None else 'one'} to commit"
    )


def _reset(folder: str) -> str:
    """The command that takes back the commit to be made now, as long as it is the tip, and no other."""
    from shlex import join

    here = [] if os.path.realpath(folder) == os.path.realpath(os.curdir) else ["-C", folder]
    git, found = join(["git", *here]), repository_of(folder)
    parent = tip_of(found)[1] if found is not None else ""
    return f'test "$({git} rev-parse HEAD~1)" = {parent} && {git} reset {parent}'
