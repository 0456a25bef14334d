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
from collections.abc import Collection, Mapping, Sequence
from functools import cache

from placet.errors import ToolError
from placet.safe_text import clean
from placet.sandbox.command import ending, run_command
from placet.sandbox.limits import MIB, Limits

_SYSTEM = ("/usr/local/bin", "/usr/bin", "/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin")
SYSTEM_PATH = ":".join(_SYSTEM)
"""Where git may be. Not PATH: it may lead into a folder of the workspace, where a command can put a `git`."""

Entries = Mapping[bytes, tuple[bytes, bytes]]
"""Files by path: the mode and the hash."""
REFLOG = "placet git_commit"
"""What the reflog says of a commit that git_commit made."""

LIMITS = Limits(time_s=120.0, output_bytes=512 * MIB, memory_bytes=None, processes=64)

OVERRULED: dict[str, str] = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "core.splitIndex": "false",
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
    attributes: str = "/dev/null",
    with_persons_settings: bool = False,
    limits: Limits = LIMITS,
) -> bytes:
    """What git writes, run on one git folder: `await git(["rev-parse", "HEAD"], git_dir=folder)`.

    `environment` goes before what is set here. With a `work_tree` git looks at the files there, and
    `git_dir` must be one whose config we wrote: attributes of those files can name any filter that stands in
    it. `attributes` is a file of attributes that yield to those of the work tree. `with_persons_settings` is
    for looking up data in the settings of the person and of the machine, and for nothing else.

    Raises:
        ToolError: git is not there, fails, or was ended.
    """
    own = _persons_settings() if with_persons_settings else {}
    files = {} if work_tree is None else {"GIT_WORK_TREE": work_tree}
    finished = await run_command(
        arguments(argv, attributes),
        # A git folder that is named is taken as it is: whose it is, git asks only of one that it has found.
        folder=_absolute(git_dir),
        stdin=stdin,
        environment={**variables(git_dir, has_settings=with_persons_settings), **own, **files, **environment},
        limits=limits,
    )
    if finished.exit_code == 0 and not finished.left_behind:
        return finished.stdout
    said = clean(finished.stderr.decode(errors="replace").strip(), 300)
    unusual = ending(finished, limits) or f"it ended with {finished.exit_code}"
    raise ToolError(f"git {argv[0]} failed: {said or unusual}.", retry=False)


def git_sync(
    argv: Sequence[str], *, git_dir: str, stdin: bytes = b"", environment: Mapping[str, str] = {}
) -> bytes:
    """What git writes, for a thread without an event loop. Otherwise as `git`.

    Raises:
        ToolError: git is not there, fails, or takes too long.
    """
    import subprocess

    try:
        done = subprocess.run(
            arguments(argv),
            cwd=_absolute(git_dir),
            input=stdin,
            env={**variables(git_dir), **environment},
            capture_output=True,
            timeout=LIMITS.time_s,
            # A signal from the terminal is for us, and we then decide what becomes of it.
            start_new_session=True,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError(f"git {argv[0]} failed: {clean(error, 300)}.", retry=False) from error
    if done.returncode == 0:
        return done.stdout
    said = clean(done.stderr.decode(errors="replace").strip(), 300)
    raise ToolError(f"git {argv[0]} failed: {said or f'it ended with {done.returncode}'}.", retry=False)


def arguments(argv: Sequence[str], attributes: str = "/dev/null") -> list[str]:
    """The whole command, with settings that start a program overruled."""
    settings = {**OVERRULED, "core.attributesFile": attributes}
    overruled = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
    return [program(), "--no-pager", *overruled, *argv]


def variables(git_dir: str, *, has_settings: bool = False) -> dict[str, str]:
    """The environment of our own git: nothing of the host's, and no settings but those of the git folder."""
    return {**_ENVIRONMENT, **({} if has_settings else _NO_SETTINGS), "GIT_DIR": git_dir}


def _absolute(git_dir: str) -> str:
    if not os.path.isabs(git_dir):
        raise ToolError(f"The git folder {git_dir!r} is no absolute path.", retry=False)
    return git_dir


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


def index_lines(entries: Entries, paths: Collection[bytes], digits: int) -> bytes:
    """What `git update-index --index-info` reads so that the index has these paths as `entries` has them.

    Paths that `entries` has not are removed. `digits` is the length of the name of an object.
    """
    # What goes away goes first, or a file could stand in the way of a folder.
    lines = [b"0 " + b"0" * digits + b"\t" + path for path in paths]
    lines += [b" ".join(entries[path]) + b"\t" + path for path in paths if path in entries]
    return b"".join(line + b"\0" for line in lines)


def quoted(path: bytes) -> bytes:
    """A path as git reads it from a list: in quotes, so that any byte can stand in it.

    >>> quoted(b'a "b"\\n')
    b'"a \\\\"b\\\\"\\\\n"'
    """
    escaped = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + escaped + b'"'
