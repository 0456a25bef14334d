"""Real git repositories for the coding loop, and what tells whether anything in one was changed."""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.worktree.repositories import outside as outside

FILES: Mapping[str, str] = {
    "app.py": "def add(a, b):\n    return a - b\n",
    "tests/test_app.py": "from app import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
    ".gitignore": "*.log\n__pycache__/\n",
}


def make_repository(folder: Path, files: Mapping[str, str | bytes] | None = None, *init: str) -> Path:
    """A repository with one commit of these files; `init` goes to `git init`."""
    if files is None and not init:
        shutil.copytree(_pattern(), folder, symlinks=True)
        # The index remembers other files, though with the same contents.
        outside(folder, "update-index", "-q", "--refresh")
        return folder
    return _made(folder, FILES if files is None else files, *init)


@cache
def _pattern() -> Path:
    """What those without wishes are copied from: making one takes five commands."""
    kept = tempfile.TemporaryDirectory(prefix="placet-project-")
    atexit.register(kept.cleanup)
    return _made(Path(kept.name) / "pattern", FILES)


def _made(folder: Path, files: Mapping[str, str | bytes], *init: str) -> Path:
    folder.mkdir(parents=True)
    outside(folder, "init", "-q", "-b", "main", *init)
    with open(folder / ".git/config", "a", encoding="utf-8") as config:
        config.write("[user]\nname = Ada\nemail = ada@example.org\n")
    write(folder, files)
    outside(folder, "add", "-A")
    outside(folder, "commit", "-qm", "first")
    return folder


def write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Put files into a folder."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)


def fingerprint(top: Path) -> dict[str, tuple[int, bytes]]:
    """Everything in a repository that must not change: each file with its mode and bytes, each link with its
    text, each folder; of the work tree also the times. Objects are left out: see `objects`."""
    found: dict[str, tuple[int, bytes]] = {}
    pointer = top / ".git"
    for path in _beneath(top):
        if path != pointer and pointer not in path.parents:
            mode, data = _look(path)
            found[str(path.relative_to(top))] = (mode, data + str(path.lstat().st_mtime_ns).encode())
    common = common_folder(top)
    if not pointer.is_dir():
        found[".git"] = _look(pointer)
    for path in _beneath(common):
        inner = path.relative_to(common)
        if inner.parts[0] != "objects":
            found[f".git/{inner}"] = _look(path)
    return found


def objects(top: Path) -> set[str]:
    """The names of the files that hold objects."""
    folder = common_folder(top) / "objects"
    return {str(path.relative_to(folder)) for path in _beneath(folder) if not path.is_dir()}


def files(folder: Path) -> dict[str, str]:
    """The files beneath a folder, but for the git folder at its top; a link as `-> TEXT`."""
    found: dict[str, str] = {}
    for path in _beneath(folder):
        inner = path.relative_to(folder)
        if inner.parts[0] == ".git" or (path.is_dir() and not path.is_symlink()):
            continue
        is_link = path.is_symlink()
        found[str(inner)] = f"-> {os.readlink(path)}" if is_link else path.read_bytes().decode("latin-1")
    return found


def common_folder(top: Path) -> Path:
    """The git folder that all checkouts of a repository share."""
    return (top / outside(top, "rev-parse", "--git-common-dir").strip()).resolve()


def _look(path: Path) -> tuple[int, bytes]:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return mode, os.readlink(path).encode()
    return mode, path.read_bytes() if stat.S_ISREG(mode) else b""


def _beneath(folder: Path) -> list[Path]:
    found: list[Path] = []
    for here, folders, names in os.walk(folder):
        found += [Path(here) / name for name in [*folders, *names]]
    return sorted(found)
