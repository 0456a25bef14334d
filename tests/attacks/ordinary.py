"""What people do all day, which has to work in a sandbox as it does outside.

A sandbox that does not start at all holds every attack. So these are run beside the attacks, on the same
machines, and each is judged by what it made.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Literal

import msgspec

from placet.sandbox.limits import Limits


class Ordinary(msgspec.Struct, frozen=True, kw_only=True):
    """A command of everyday work."""

    name: str
    text: str
    """For bash."""
    files: dict[str, str] = {}
    """What the project holds."""
    repository: Literal["", "main", "worktree"] = ""
    """Whether the project is in git, and how."""
    needs: str = ""
    """A program without which it cannot be tried."""
    says: tuple[str, ...] = ()
    """What it has to write."""
    makes: dict[str, str] = {}
    """Files that are there afterwards, and what is in them."""
    home: str = ""
    """The home of whoever runs it, where that is another than that of the tests."""
    limits: Limits = Limits(time_s=60)

    def prepare(self, folder: Path, home: Path) -> Path | None:
        """Make the project; None if the program that it needs is not installed."""
        if self.needs and shutil.which(self.needs) is None:
            return None
        project = folder / "project"
        if self.repository:
            where = folder / "parent" if self.repository == "worktree" else project
            where.mkdir()
            _write(where, {"README": "first\n", **self.files})
            _git(where, "init", "-q", "-b", "main")
            _git(where, "add", "-A")
            _git(where, "commit", "-q", "-m", "first")
            if self.repository == "worktree":
                _git(where, "worktree", "add", "-q", "-b", "agent", str(project))
        else:
            project.mkdir()
            _write(project, self.files)
        if "PYENV" in self.text:
            _make_pyenv(home)
        return project

    def missing(self, project: Path, said: str) -> list[str]:
        """What it should have done and did not."""
        found = [f"did not say {text!r}" for text in self.says if text not in said]
        for name, text in self.makes.items():
            path = project / name
            if not path.is_file():
                found.append(f"did not make {name}")
            elif text not in path.read_text(errors="replace"):
                found.append(f"did not put {text!r} into {name}")
        return found


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _git(folder: Path, *arguments: str) -> str:
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    who = ["-c", "user.name=Anna", "-c", "user.email=anna@example.org", "-c", "safe.directory=*"]
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def _make_pyenv(home: Path) -> None:
    """A Python below the home, as pyenv keeps them, with the small program that finds it."""
    root = home / ".pyenv"
    if root.exists():
        return
    version = root / "versions" / "3.99"
    subprocess.run([sys.executable, "-m", "venv", "--copies", "--without-pip", str(version)], check=True)
    shim = root / "shims" / "python-of-pyenv"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{version}/bin/python" "$@"\n')
    shim.chmod(0o755)
