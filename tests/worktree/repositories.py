"""A repository to work in, and commands that run in it, in a real sandbox."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from placet.sandbox.command import run_command
from placet.sandbox.isolation import By, Facts
from placet.sandbox.limits import Limits
from placet.sandbox.sandbox import Sandbox
from placet.sandbox.workspace import Workspace

ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
}
OUTSIDE = ENVIRONMENT | {
    "GIT_CONFIG_COUNT": "1",  # No housekeeping after a commit: it takes longer than the commit.
    "GIT_CONFIG_KEY_0": "maintenance.auto",
    "GIT_CONFIG_VALUE_0": "false",
}

needs_bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap") is None
    or subprocess.run(
        ["bwrap", "--unshare-user", "--ro-bind", "/", "/", "true"], capture_output=True, check=False
    ).returncode
    != 0,
    reason="bubblewrap does not work here",
)


def outside(folder: Path, *argv: str, fails: bool = False, **environment: str) -> str:
    """What git says to a person outside."""
    done = subprocess.run(
        ["git", *argv], cwd=folder, env={**OUTSIDE, **environment}, capture_output=True, check=False
    )
    assert (done.returncode != 0) == fails, (argv, done.stdout, done.stderr)
    return done.stdout.decode()


def make_repository(folder: Path, *init: str) -> Path:
    """A small repository with two commits, a tag, a branch, and settings that are somebody's own."""
    shutil.copytree(_pattern(init), folder, symlinks=True)
    # The index remembers other files, though with the same contents.
    outside(folder, "update-index", "-q", "--refresh")
    return folder


@cache
def _pattern(init: tuple[str, ...]) -> Path:
    """What each of them is copied from: made once, for making one takes nine commands."""
    kept = tempfile.TemporaryDirectory(prefix="placet-repository-")
    atexit.register(kept.cleanup)
    folder = Path(kept.name) / "pattern"
    folder.mkdir()
    outside(folder, "init", "-q", "-b", "main", *init)
    outside(folder, "config", "user.name", "Ada")
    outside(folder, "config", "user.email", "ada@example.org")
    outside(folder, "remote", "add", "origin", "https://me:secret@example.org/a.git")
    (folder / "a.txt").write_text("one\n")
    (folder / "sub").mkdir()
    (folder / "sub/b.txt").write_text("two\n")
    outside(folder, "add", ".")
    outside(folder, "commit", "-qm", "first")
    outside(folder, "tag", "-a", "v1", "-m", "version 1")
    outside(folder, "branch", "other")
    (folder / "a.txt").write_text("one\nmore\n")
    outside(folder, "commit", "-qam", "second")
    return folder


class Inside:
    """Commands in a workspace, in a real sandbox."""

    def __init__(self, workspace: Path, by: By = "bubblewrap", *, hidden: Path | None = None) -> None:
        self.workspace = workspace
        self._by = by
        self._hidden = None if hidden is None else str(hidden)
        self.note = ""
        """What is said of the newest command besides its output."""

    async def sh(self, script: str, *, fails: bool | None = False) -> str:
        """Run a script; what it writes. With `fails` None it may end as it likes."""
        workspace = Workspace(self.workspace)
        try:
            finished = await run_command(
                ["/bin/sh", "-c", script],
                folder=workspace.fd,
                environment=ENVIRONMENT,
                limits=Limits(time_s=60),
                sandbox=Sandbox(workspace, self._by, Facts(), keep_out=self._hidden),
            )
        finally:
            workspace.close()
        assert fails is None or (finished.exit_code != 0) == fails, (script, finished)
        self.note = finished.note
        return (finished.stdout + finished.stderr).decode(errors="replace")

    async def git(self, *argv: str, fails: bool | None = False) -> str:
        return await self.sh(shlex.join(["git", *argv]), fails=fails)


def everything(folder: Path, leave_out: tuple[str, ...] = ()) -> dict[str, tuple[int, bytes]]:
    """Every file beneath a folder, with its mode and contents; a folder without contents."""
    found: dict[str, tuple[int, bytes]] = {}
    for here, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(here) / name
            relative = str(path.relative_to(folder))
            if relative.startswith(leave_out):
                continue
            if path.is_symlink():
                data = os.readlink(path).encode()
            else:
                data = path.read_bytes() if path.is_file() else b""
            found[relative] = (path.lstat().st_mode, data)
    return found
