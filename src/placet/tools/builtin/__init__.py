"""Tools that come with Placet: files, search, commands, the web, arithmetic, the clock.

files     read_file, write_file, edit_file
search    list_dir, find_files, grep
shell     shell
git       git_commit, where the workspace is a git repository
web       http_get
small     calculate, now, sleep
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from placet.sandbox.confinement import Isolation
    from placet.sandbox.hosts import HostFilter
    from placet.sandbox.limits import Limits
    from placet.sandbox.workspace import Workspace
    from placet.tools.tool import Tool

BASIC = (
    "read_file",
    "write_file",
    "edit_file",
    "list_dir",
    "find_files",
    "grep",
    "shell",
    "http_get",
    "calculate",
    "now",
    "sleep",
)
"""Names of those that `basic_tools` makes in any folder, in its order. Loops may offer these; git_commit,
which is for repositories, they may not: they publish a commit of their own."""

ALL_NAMES = frozenset(
    {
        *BASIC,
        *("git_commit", "replace_function", "replace_lines", "apply_patch", "ask_user"),
        *("infer", "classify", "embed", "transcribe", "synthesize"),
        *("give_verdict", "report_status", "loop_hook"),
        *("loop_apply_patch", "loop_callback", "loop_command", "loop_commit", "loop_record", "loop_webhook"),
    }
)
"""The names of all tools that come with Placet, wherever they are offered: to plans, coders, loops."""


def basic_tools(
    workspace: Workspace | Path | str,
    *,
    hosts: HostFilter | None = None,
    limits: Limits | None = None,
    isolation: Isolation | None = None,
    environment: Mapping[str, str] | None = None,
    only: Sequence[str] | None = None,
) -> list[Tool]:
    """Create the built-in tools for work in one folder, for `Runtime(builtin=...)`.

    Files are read and written only beneath `workspace`, also through links.

    Args:
        workspace: The folder; commands start there.
        hosts: Hosts that `http_get` may contact. `None`: all but private addresses.
        limits: Limits of each command.
        isolation: Protections for commands. `None`: as far as this machine supports them.
        environment: Environment variables for commands, added to those that every command gets.
        only: Names of the tools to create. `None`: all.

    Raises:
        UsageError: there is no such folder, or `only` names an unknown tool.
    """
    from placet.errors import UsageError
    from placet.sandbox.confinement import Isolation, isolation_of
    from placet.sandbox.hosts import HostFilter
    from placet.sandbox.limits import Limits
    from placet.sandbox.workspace import Workspace
    from placet.storage.location import config_folder, user_folder
    from placet.tools.builtin.files import confined_to, file_tools
    from placet.tools.builtin.git import NAME, git_tools, why_no_commits
    from placet.tools.builtin.search import search_tools
    from placet.tools.builtin.shell import shell_tools
    from placet.tools.builtin.small import small_tools
    from placet.tools.builtin.web import web_tools

    where = workspace
    if not isinstance(where, Workspace):
        where = Workspace(where, closed=[config_folder(os.environ), user_folder(os.environ)])
    isolation = isolation_of(isolation) or Isolation()
    if isolation.folder is None:
        isolation.folder = user_folder(os.environ)
    searching = search_tools(where)
    for each in searching:
        each.confinement = confined_to(where)
    commits = git_tools(where) if only is None or NAME in only else []
    made = [
        *file_tools(where),
        *searching,
        *shell_tools(
            where,
            limits=limits or Limits(),
            isolation=isolation,
            environment=environment,
            commits=bool(commits),
        ),
        *commits,
        *web_tools(hosts or HostFilter()),
        *small_tools(),
    ]
    for each in made:
        # What a shell reaches is up to the isolation of its commands.
        if each.name != "shell" or isolation.required == "process":
            each.confined_to = str(where.folder)
    if only is None:
        return made
    names = [tool.name for tool in made]
    if NAME in only and not commits:
        raise UsageError(f"{why_no_commits(str(where.folder))}.")
    if unknown := [name for name in only if name not in names]:
        raise UsageError(f"'{unknown[0]}' is no basic tool. There are: {', '.join(names)}.")
    return [tool for tool in made if tool.name in only]
