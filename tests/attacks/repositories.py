"""The repositories of a scene: the parent of the workspace, another project, and one to push to."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

BRANCH = "agent"
"""What is checked out in the workspace."""
_PLACES = ("home/projects/parent", "home/projects/work", "home/projects/other", "remote.git")
_made: dict[Path, bytes] = {}
"""As they were made first, packed."""


def make_repositories(base: Path) -> None:
    """Make them below `base`. The second time they are only unpacked: git takes longer than all the rest."""
    if base not in _made:
        _make(base)
        with io.BytesIO() as kept:
            with tarfile.open(fileobj=kept, mode="w") as archive:
                for place in _PLACES:
                    archive.add(base / place, arcname=place)
            _made[base] = kept.getvalue()
    else:
        with tarfile.open(fileobj=io.BytesIO(_made[base])) as archive:
            archive.extractall(base, filter="fully_trusted")


def _make(base: Path) -> None:
    parent, work, other, remote = (base / place for place in _PLACES)

    def git(*arguments: str, folder: Path = parent) -> None:
        who = ["-c", "user.name=Anna", "-c", "user.email=anna@example.org", "-c", "safe.directory=*"]
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }
        command = ["git", *who, *arguments]
        subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)

    git("init", "-q", "--template=", "-b", "main", str(parent), folder=base)
    (parent / "README").write_text("the parent\n")
    (parent / "program.py").write_text("print('hello')\n")
    git("add", "-A")
    git("commit", "-q", "-m", "first")
    git("branch", "release")
    (parent / "README").write_text("put aside\n")
    git("stash", "push", "-q")
    git("tag", "v1")
    git("config", "remote.origin.url", f"file://{remote}")
    git("init", "-q", "--template=", "--bare", "-b", "main", str(remote), folder=base)
    git("init", "-q", "--template=", str(other), folder=base)
    git("worktree", "add", "-q", "-b", BRANCH, str(work))
    for name in ("hooks", "info"):
        (parent / ".git" / name).mkdir()
    hook = parent / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\nexit 0\n")
    hook.chmod(0o777)
    (work / "notes.txt").write_text("of the workspace\n")
    for folder, folders, files in os.walk(parent.parent):
        for name in (*folders, *files):
            path = Path(folder, name)
            path.chmod(path.stat().st_mode | (0o777 if path.is_dir() else 0o666))
