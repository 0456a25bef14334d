"""Find the git folder of a checkout by reading files alone: no git process is started.

A checkout is one of these:

- main: the folder `.git` at the top of the work tree;
- linked: `.git` is a file that leads to `worktrees/NAME` in the git folder of another checkout;
- a submodule: `.git` is a file that leads to a git folder of its own, and counts as a main checkout of it.

Keep true:
1. A file `.git`, or a list of borrowed objects, leads out of the work tree only if what it leads to says so
   too: anybody can write such a file, and what it leads to is shown inside.
2. Nothing is a link: what is behind one can be swapped.
3. No home folder is a work tree for us: what is below one is not a part of it.
4. What is read here may have been written by anybody: nothing waits, and nothing large is read.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from typing import NamedTuple

from placet.sandbox.places import is_beneath

_MOST_POINTER = 8192
_MOST_CONFIG = 1 << 20
_MOST_ALTERNATES = 16
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
LENDS = "placet-lends"
"""A file in a git folder: folders, a line for each, in which work trees may borrow its objects."""
_WORK_TREE = re.compile(rb'^[ \t]*worktree[ \t]*=[ \t]*"?([^"\n]+?)"?[ \t]*$', re.MULTILINE | re.IGNORECASE)


class GitFolder(NamedTuple):
    """Where git looks for a checkout. All paths are absolute and free of links."""

    top: str
    """The work tree."""
    git_dir: str
    """Where HEAD and the index of this checkout are: `common`, or `common/worktrees/NAME`."""
    common: str
    """The git folder that all checkouts share."""


def look_up(folder: str) -> GitFolder | None:
    """Find the checkout that a folder is in; None if there is none that can be relied on."""
    top = os.path.realpath(folder)
    home = os.path.realpath(os.path.expanduser("~"))
    is_first = True
    while is_first or not f"{home}/".startswith(f"{top}/".replace("//", "/")):
        path = os.path.join(top, ".git")
        if os.path.lexists(path):
            found = where(top, path)
            return None if found is None else GitFolder(top, *found)
        top, is_first = os.path.dirname(top), False
    return None


def where(top: str, path: str) -> tuple[str, str] | None:
    """Return the git folder of a checkout and the common one; None if its `.git` cannot be relied on."""
    if os.path.islink(path):
        return None
    if os.path.isdir(path):
        return (path, path) if is_git_folder(path) else None
    line = pointed(top)
    if line is None:
        return None
    git_dir = os.path.realpath(os.path.join(top, line))
    named = os.path.normpath(os.path.join(top, line))
    if named != git_dir and named.startswith(f"{top}/"):
        # A link in the work tree, which a command can lead elsewhere.
        return None
    common = read_line(git_dir, "commondir")
    if common is None:
        # Whether it is the git folder of this work tree stands in its config.
        return (git_dir, git_dir) if is_git_folder(git_dir) else None
    common = os.path.realpath(os.path.join(git_dir, common))
    back = read_line(git_dir, "gitdir")
    is_ours = (
        os.path.dirname(git_dir) == os.path.join(common, "worktrees")
        and back is not None
        and os.path.realpath(os.path.join(git_dir, back)) == path
        and is_git_folder(common)
    )
    return (git_dir, common) if is_ours else None


def read_elsewhere(top: str) -> list[str]:
    """List the folders outside of a work tree that git has to read for it.

    They are the git folder of a linked worktree or a submodule, and the objects that it borrows. A pointer
    counts only if what it leads to leads back: a command may have written it. So does what a git folder in
    the work tree borrows: an earlier command may have made that folder, to have itself shown any other.
    """
    top = os.path.realpath(top)
    found = where(top, os.path.join(top, ".git"))
    if found is None:
        return []
    git_dir, common = found
    if git_dir == common and not leads_back(top, git_dir, named_work_tree(git_dir)):
        return []
    is_inside = is_beneath(common, top)
    named = _alternates(os.path.realpath(os.path.join(common, "objects")))
    lenders = [path for path in named if _lends(path, top)] if is_inside else named
    borrowed = [path for path in _with_theirs(lenders) if is_git_folder(os.path.dirname(path))]
    return [*([] if is_inside else [common]), *borrowed]


def _lends(objects: str, top: str) -> bool:
    """Whether the owner of a folder of objects lets a work tree borrow them."""
    lender = os.path.dirname(objects)
    if os.path.realpath(objects) != objects or is_beneath(lender, top):
        return False
    lines = (read(lender, LENDS, _MOST_POINTER) or b"").split(b"\n")
    return any(line and is_beneath(top, os.fsdecode(line)) for line in lines)


def leads_back(top: str, git_dir: str, work_tree: str | None) -> bool:
    """Whether a git folder belongs to a work tree: it lies in it, or it says so."""
    if work_tree is None:
        return git_dir == os.path.join(top, ".git")
    return os.path.realpath(os.path.join(git_dir, work_tree)) == top


def named_work_tree(git_dir: str) -> str | None:
    """Return the work tree that the config of a git folder names, as it is written there."""
    said = _WORK_TREE.findall(read(git_dir, "config", _MOST_CONFIG) or b"")
    return os.fsdecode(said[-1]) if said else None


def objects_of(common: str) -> tuple[str, tuple[str, ...]]:
    """Return the folder of the objects, and the folders of objects that it borrows from, at any distance."""
    objects = os.path.realpath(os.path.join(common, "objects"))
    return objects, tuple(_with_theirs(_alternates(objects)))


def _alternates(objects: str) -> list[str]:
    """The folders that a folder of objects borrows from."""
    lines = (read(os.path.join(objects, "info"), "alternates", 1 << 16) or b"").split(b"\n")
    named = [line for line in lines if line and not line.startswith(b"#")]
    paths = [os.path.normpath(os.path.join(objects, os.fsdecode(line))) for line in named]
    return [path for path in paths if os.path.isdir(path)]


def _with_theirs(folders: list[str]) -> list[str]:
    """Folders of objects, and those that they borrow from in turn."""
    found: list[str] = []
    left = folders[::-1]
    while left and len(found) < _MOST_ALTERNATES:
        here = left.pop()
        if here not in found:
            found.append(here)
            left += _alternates(here)
    return found


def is_git_folder(path: str) -> bool:
    """Whether git would take a folder for one of its own."""
    has_folders = all(os.path.isdir(os.path.join(path, name)) for name in ("objects", "refs"))
    return has_folders and os.path.isfile(os.path.join(path, "HEAD"))


def pointed(top: str) -> str | None:
    """Return where the file `.git` of a folder leads, as it is written there; None if there is none."""
    line = read_line(top, ".git")
    return line.removeprefix("gitdir: ") if line is not None and line.startswith("gitdir: ") else None


def read_line(folder: str, name: str) -> str | None:
    """Read a short file in a folder, without the end of its line; None if there is none to be read."""
    data = read(folder, name, _MOST_POINTER)
    return None if data is None else os.fsdecode(data).rstrip("\n")


def read(folder: str, name: str, most: int) -> bytes | None:
    """Read a regular file in a folder; None if there is none, or it holds more than `most` bytes.

    Neither the folder nor the file may be a link.
    """
    with suppress(OSError):
        parent = os.open(folder, _FOLDER)
        try:
            opened = os.open(name, _FILE, dir_fd=parent)
        finally:
            os.close(parent)
        with open(opened, "rb") as file:
            if stat.S_ISREG(os.fstat(opened).st_mode):
                data = file.read(most + 1)
                return data if len(data) <= most else None
    return None


def names_in(folder: str, most: int) -> list[str]:
    """List the names in a folder, at most so many; none if it is none, or is a link."""
    with suppress(OSError):
        opened = os.open(folder, _FOLDER)
        try:
            return sorted(os.listdir(opened))[:most]
        finally:
            os.close(opened)
    return []
