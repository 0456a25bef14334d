"""A repository to work in, a view of it, and commands that run inside, in a real sandbox."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from placet.sandbox.git.view import View, open_view

ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
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
        ["git", *argv], cwd=folder, env={**ENVIRONMENT, **environment}, capture_output=True, check=False
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
    """A view of a workspace, and commands in it."""

    def __init__(self, workspace: Path, view: View) -> None:
        self.workspace = workspace
        self.view = view
        self.said: list[str] = []

    @classmethod
    async def open(cls, workspace: Path, home: Path) -> Inside:
        view = await open_view(str(workspace), str(home))
        assert view is not None
        return cls(workspace, view)

    async def run(self, *argv: str, fails: bool = False, folder: Path | None = None) -> str:
        """Run a command as the runtime would: refresh, run, bring over."""
        await self.view.refresh()
        said = self.only_run(*argv, fails=fails, folder=folder)
        self.said = await self.view.bring_over()
        return said

    async def sh(self, script: str, *, fails: bool = False) -> str:
        return await self.run("sh", "-ec", script, fails=fails)

    def only_run(self, *argv: str, fails: bool = False, folder: Path | None = None) -> str:
        place = str(self.workspace)
        binds = [(place, place, True), *self.view.binds]
        wrap = ["bwrap", "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--dev", "/dev"]
        wrap += ["--proc", "/proc", "--die-with-parent"]
        for source, destination, writable in binds:
            wrap += ["--bind" if writable else "--ro-bind", source, destination]
        done = subprocess.run(
            [*wrap, "--chdir", str(folder or place), "--", *argv],
            env={**ENVIRONMENT, **self.view.environment},
            capture_output=True,
            check=False,
        )
        assert (done.returncode != 0) == fails, (argv, done.stdout, done.stderr)
        return (done.stdout + done.stderr).decode(errors="replace")

    async def git(self, *argv: str, fails: bool = False) -> str:
        return await self.run("git", *argv, fails=fails)

    async def bring_over(self) -> str:
        """What is said after something was written into the view without git."""
        self.said = await self.view.bring_over()
        return " ".join(self.said)

    @property
    def folder(self) -> Path:
        """The view's folder, as a command inside can write it."""
        return Path(self.view.path)


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
