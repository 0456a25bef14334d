"""Where the git folder of a workspace is, and whose commits these are.

A checkout is one of these:

- main: the folder `.git` at the top of the work tree;
- linked: `.git` is a file that leads to `worktrees/NAME` in the git folder of another checkout;
- a submodule: `.git` is a file that leads to a git folder of its own, and counts as a main checkout of it.

A workspace may lie below the top of a work tree. Then it is a part of that checkout.

Keep true:
1. A file `.git` leads somewhere only if what it leads to says so too: anybody can write such a file, and what
   it leads to is shown inside.
2. Nothing is a link: what is behind one can be swapped.
3. No home folder is a work tree for us: what is below one is not a part of it.
"""

from __future__ import annotations

import os

import msgspec

from placet.errors import ToolError
from placet.sandbox.git.folder import Damaged, Folder
from placet.sandbox.git.trusted import git

_MOST_POINTER = 8192
_MOST_ALTERNATES = 16

Settings = dict[str, str]
"""A config by its keys, with the last value of each."""


class Repository(msgspec.Struct, frozen=True, kw_only=True):
    """A checkout, with the git folder that belongs to it. All paths are absolute and free of links."""

    top: str
    """The work tree."""
    common: str
    """The git folder that all checkouts share."""
    git_dir: str
    """Where HEAD and the index of this checkout are: `common`, or `common/worktrees/NAME`."""
    settings: Settings
    objects: str
    """The folder of the objects, and those that it borrows from."""
    borrowed: tuple[str, ...] = ()

    @property
    def is_linked(self) -> bool:
        return self.git_dir != self.common

    @property
    def inner(self) -> str:
        """`git_dir` as seen from `common`, with a slash at its end; empty if they are the same."""
        return f"worktrees/{os.path.basename(self.git_dir)}/" if self.is_linked else ""

    @property
    def pointer(self) -> str | None:
        """The file `.git`, if it is one."""
        path = os.path.join(self.top, ".git")
        return None if self.common == path else path

    @property
    def is_sha256(self) -> bool:
        return self.settings.get("extensions.objectformat", "sha1") == "sha256"


async def find(folder: str) -> Repository | None:
    """The checkout that a folder belongs to; None if there is none that can be relied on.

    Raises:
        ToolError: there is one, of a kind that cannot be shown inside. It says which.
    """
    found = _look_up(folder)
    return None if found is None else await _open(*found)


def find_top(folder: str) -> str | None:
    """The top of the work tree that a folder belongs to, without asking git; None if there is none that can
    be relied on."""
    found = _look_up(folder)
    return None if found is None else found[0]


async def identity(repository: Repository) -> dict[str, str]:
    """Variables that name whoever commits, as git would name him outside; none if nobody is named."""
    try:
        listed = await git(
            ["config", "--null", "--get-regexp", r"^user\.(name|email)$"],
            git_dir=repository.git_dir,
            with_persons_settings=True,
        )
    except ToolError:
        # None of the keys is there.
        return {}
    said = parse_settings(listed)
    named: dict[str, str] = {}
    for key, part in (("user.name", "NAME"), ("user.email", "EMAIL")):
        if value := said.get(key):
            named[f"GIT_AUTHOR_{part}"] = named[f"GIT_COMMITTER_{part}"] = value
    return named


def parse_settings(listed: bytes) -> Settings:
    """What `git config --null` lists.

    >>> parse_settings(b"core.bare\\nfalse\\0core.bare\\ntrue\\0")
    {'core.bare': 'true'}
    """
    found: Settings = {}
    for line in os.fsdecode(listed).split("\0"):
        key, has_value, value = line.partition("\n")
        if key:
            # A key without a value means that it is so.
            found[key] = value if has_value else "true"
    return found


def _look_up(folder: str) -> tuple[str, str, str] | None:
    """The top of the work tree that a folder is in, its git folder and the common one."""
    top = os.path.realpath(folder)
    home = os.path.realpath(os.path.expanduser("~"))
    is_first = True
    while is_first or not f"{home}/".startswith(f"{top}/".replace("//", "/")):
        path = os.path.join(top, ".git")
        if os.path.lexists(path):
            found = where(top, path)
            return None if found is None else (top, *found)
        top, is_first = os.path.dirname(top), False
    return None


def where(top: str, path: str) -> tuple[str, str] | None:
    """The git folder of a checkout and the common one; None if its `.git` cannot be relied on."""
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
    """Folders outside of a linked worktree that git has to read there: the common git folder, which holds
    the worktree's own, and the objects that it borrows. None for a repository that lies in its work tree, or
    whose pointers do not lead to each other."""
    top = os.path.realpath(top)
    found = where(top, os.path.join(top, ".git"))
    if found is None or found[0] == found[1]:
        return []
    objects, borrowed = _objects(found[1])
    return [found[1], *(path for path in (objects, *borrowed) if os.path.isdir(path))]


def pointed(top: str) -> str | None:
    """Where the file `.git` of a folder leads, as it says; None if there is none."""
    line = read_line(top, ".git")
    return line.removeprefix("gitdir: ") if line is not None and line.startswith("gitdir: ") else None


async def _open(top: str, git_dir: str, common: str) -> Repository | None:
    settings = parse_settings(await _list(common, "config"))
    if settings.get("extensions.worktreeconfig", "false") == "true":
        settings |= parse_settings(await _list(git_dir, "config.worktree"))
    if git_dir == common and not _leads_back(top, git_dir, settings.get("core.worktree")):
        return None
    if settings.get("core.bare") == "true" and git_dir == common:
        return None
    for key, why in _NOT_SHOWN.items():
        if settings.get(key, "false") not in ("false", "files"):
            raise ToolError(
                f"The repository of {top} {why}. Git is not offered inside the sandbox for it.", retry=False
            )
    if any(key.endswith(".promisor") for key in settings):
        raise ToolError(
            f"The repository of {top} is a partial clone, whose objects are fetched when they are needed. "
            "Git is not offered inside the sandbox for it.",
            retry=False,
        )
    objects, borrowed = _objects(common)
    return Repository(
        top=top, common=common, git_dir=git_dir, settings=settings, objects=objects, borrowed=borrowed
    )


_NOT_SHOWN = {
    "extensions.refstorage": "keeps its refs in another way than as files",
    "extensions.partialclone": "is a partial clone, whose objects are fetched when they are needed",
    "core.sparsecheckout": "has a sparse checkout (`git sparse-checkout disable` ends it)",
}


def _leads_back(top: str, git_dir: str, work_tree: str | None) -> bool:
    """Whether a git folder belongs to a work tree: it lies in it, or it says so."""
    if work_tree is None:
        return git_dir == os.path.join(top, ".git")
    return os.path.realpath(os.path.join(git_dir, work_tree)) == top


async def _list(folder: str, name: str) -> bytes:
    """A config as git lists it, without what it includes."""
    path = _file_in(folder, name)
    if path is None:
        return b""
    return await git(["config", "--file", path, "--no-includes", "--null", "--list"], git_dir=folder)


def _file_in(folder: str, name: str) -> str | None:
    path = os.path.join(folder, name)
    return path if os.path.isfile(path) else None


def _objects(common: str) -> tuple[str, tuple[str, ...]]:
    objects = os.path.realpath(os.path.join(common, "objects"))
    return objects, _borrowed(objects)


def _borrowed(objects: str) -> tuple[str, ...]:
    """Folders of objects that this one borrows from, and those that they borrow from."""
    found: list[str] = []
    left = [objects]
    while left and len(found) < _MOST_ALTERNATES:
        here = left.pop()
        try:
            with open(os.path.join(here, "info/alternates"), "rb") as file:
                lines = file.read(1 << 16).split(b"\n")
        except OSError:
            continue
        for line in lines:
            path = os.path.normpath(os.path.join(here, os.fsdecode(line)))
            if line and not line.startswith(b"#") and path not in found and os.path.isdir(path):
                found.append(path)
                left.append(path)
    return tuple(found)


def is_git_folder(path: str) -> bool:
    """Whether git would take a folder for one of its own."""
    has_folders = all(os.path.isdir(os.path.join(path, name)) for name in ("objects", "refs"))
    return has_folders and os.path.isfile(os.path.join(path, "HEAD"))


def read_line(folder: str, name: str) -> str | None:
    """What a file in a folder holds, without the end of its line; None if there is none to be read."""
    try:
        with Folder(folder) as opened:
            data = opened.read(name, _MOST_POINTER)
    except (OSError, Damaged):
        return None
    return None if data is None else os.fsdecode(data).rstrip("\n")
