"""The only way our own side runs git: nothing that a command wrote can make it run a program.

Git starts programs that its settings and attributes name: hooks, filters, diff and merge drivers, pagers,
editors, monitors, helpers for passwords and signing. So nothing of the person's environment and settings is
read, but for the one file of the repository itself; what is dangerous in there is overruled, since what
stands on the command line wins. And only plumbing is run, which asks for no work tree, no attributes and no
driver; where it must look at files, it is with a git folder of our own, whose settings name no program.

Keep true:
1. No GIT_ variable of the host reaches git, and git is never looked for in a folder of the person's.
2. The git folder is always named. Git that looks for one itself finds what somebody has put in its way.
3. No command is run here that speaks to another repository, or that looks at files of a work tree with
   settings that we have not written ourselves.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache

from placet.errors import ToolError
from placet.safe_text import clean
from placet.sandbox.command import ending, run_command
from placet.sandbox.limits import MIB, Limits

_SYSTEM = ("/usr/local/bin", "/usr/bin", "/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin")
SYSTEM_PATH = ":".join(_SYSTEM)
"""Where git may be. Not PATH: it may lead into a folder of the workspace, where a command can put a `git`."""

LIMITS = Limits(time_s=120.0, output_bytes=512 * MIB, memory_bytes=None, processes=64)

OVERRULED: dict[str, str] = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "core.splitIndex": "false",
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "core.pager": "cat",
    "core.editor": "false",
    "sequence.editor": "false",
    "core.askPass": "false",
    "core.sshCommand": "false",
    "core.gitProxy": "",
    "core.alternateRefsCommand": "false",
    "credential.helper": "",
    "diff.external": "",
    "interactive.diffFilter": "",
    "gpg.program": "false",
    "gpg.ssh.program": "false",
    "gpg.ssh.defaultKeyCommand": "",
    "gpg.x509.program": "false",
    "commit.gpgSign": "false",
    "tag.gpgSign": "false",
    "uploadpack.packObjectsHook": "",
    "protocol.allow": "never",
    "gc.auto": "0",
    "gc.autoDetach": "false",
    "maintenance.auto": "false",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
}
"""Settings that start a program, write a file of somebody's choosing, or reach out. Whatever the repository
says of them does not count. Filters and drivers have names of their own and cannot be listed: no command that
would use one is run."""

_ENVIRONMENT: dict[str, str] = {
    "PATH": SYSTEM_PATH,
    "LC_ALL": "C",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "GIT_SSH_COMMAND": "false",
    "GIT_EDITOR": "false",
    "GIT_PAGER": "cat",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_LITERAL_PATHSPECS": "1",
}

_NO_SETTINGS: dict[str, str] = {
    # There is no such home, so there are no settings in it. Older versions of git know only this.
    "HOME": "/dev/null",
    "XDG_CONFIG_HOME": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
}


async def git(
    argv: Sequence[str],
    *,
    git_dir: str,
    stdin: bytes = b"",
    environment: Mapping[str, str] = {},
    work_tree: str | None = None,
    with_persons_settings: bool = False,
    limits: Limits = LIMITS,
) -> bytes:
    """What git writes, run on one git folder: `await git(["rev-parse", "HEAD"], git_dir=folder)`.

    `environment` goes before what is set here. With a `work_tree` git looks at the files there, and
    `git_dir` must be one whose config we wrote: attributes of those files can name any filter that stands in
    it. `with_persons_settings` is for looking up data in the settings of the person and of the machine, and
    for nothing else.

    Raises:
        ToolError: git is not there, fails, or was ended.
    """
    if not os.path.isabs(git_dir):
        raise ToolError(f"The git folder {git_dir!r} is no absolute path.", retry=False)
    overruled = [part for key, value in OVERRULED.items() for part in ("-c", f"{key}={value}")]
    own = _persons_settings() if with_persons_settings else _NO_SETTINGS
    files = {} if work_tree is None else {"GIT_WORK_TREE": work_tree}
    finished = await run_command(
        [program(), "--no-pager", *overruled, *argv],
        # A git folder that is named is taken as it is: whose it is, git asks only of one that it has found.
        folder=git_dir,
        stdin=stdin,
        environment={**_ENVIRONMENT, **own, "GIT_DIR": git_dir, **files, **environment},
        limits=limits,
    )
    if finished.exit_code == 0 and not finished.left_behind:
        return finished.stdout
    said = clean(finished.stderr.decode(errors="replace").strip(), 300)
    unusual = ending(finished, limits) or f"it ended with {finished.exit_code}"
    raise ToolError(f"git {argv[0]} failed: {said or unusual}.", retry=False)


def _persons_settings() -> dict[str, str]:
    names = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL")
    return {name: value for name in names if (value := os.environ.get(name))}


@cache
def program() -> str:
    """Where git is.

    Raises:
        ToolError: it is in none of the folders where programs of the system are.
    """
    for folder in _SYSTEM:
        path = f"{folder}/git"
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise ToolError(
        f"git was not found in {', '.join(_SYSTEM)}. Install git.",
        retry=False,
    )
