"""What is a git repository beneath a workspace, found out by looking at files alone.

Keep true:
1. Nothing that stands in the repository is run, and its configuration is not heeded.
2. A pointer file is believed only if what it points to points back: it could have been written to lead us to
   a repository of somebody else.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Container, Mapping
from contextlib import suppress
from typing import NamedTuple

from placet.sandbox.beneath import open_beneath
from placet.sandbox.snapshot.git_store import GitStore
from placet.sandbox.snapshot.manifest import Branch

_OBJECT = re.compile(rb"[0-9a-f]{38}(?:[0-9a-f]{24})?\Z|tmp_.*", re.DOTALL)
_FAN_OUT = re.compile(rb"[0-9a-f]{2}\Z")
_PACK = re.compile(rb"pack-[0-9a-f]{40}(?:[0-9a-f]{24})?\.[a-z]+\Z|tmp_.*|\.tmp-.*", re.DOTALL)
_LONG = re.compile(rb"[0-9a-f]{62}\Z|pack-[0-9a-f]{64}\.")
_BRANCH = re.compile(rb"ref: (refs/heads/[^\0\n]+)\n?\Z")
_REBASED = re.compile(rb"(refs/heads/[^\0\n]+)\n?\Z")
_WORKTREE = re.compile(rb"^\s*worktree\s*=\s*([^\r\n]+)$", re.MULTILINE | re.IGNORECASE)
_NAMED = re.compile(rb"([0-9a-f]{40}(?:[0-9a-f]{24})?)\s*\Z")
_MOST = 1 << 16
"""Bytes of a file that holds a path or a name."""
_WAIT_S = 60.0

WELL_KNOWN = frozenset(
    [
        b"node_modules",
        b"bower_components",
        b".venv",
        b"venv",
        b"target",
        b"__pycache__",
        b".tox",
        b".nox",
        b".cache",
        b".gradle",
        b".next",
        b".mypy_cache",
        b".ruff_cache",
        b".pytest_cache",
    ]
)
"""Folders that programs fill and can fill again."""


def is_git_folder(names: Container[bytes]) -> bool:
    """Whether a folder that holds these names is the git folder of a repository."""
    return b"HEAD" in names and b"objects" in names and b"refs" in names


class Place(NamedTuple):
    """Where we are in the object database of a repository: at its top, or in one of its folders."""

    pattern: re.Pattern[bytes] | None
    """Of the files here that hold objects; their names say which."""

    def below(self, name: bytes) -> Place | None:
        """The place in a folder of this one; None where ordinary files are."""
        if self.pattern is not None:
            return None
        if name == b"pack":
            return Place(_PACK)
        return Place(_OBJECT) if _FAN_OUT.match(name) is not None else None

    def holds(self, name: bytes) -> bool:
        """Whether a file of that name here holds objects."""
        return self.pattern is not None and self.pattern.match(name) is not None

    def may_grow(self, name: bytes) -> bool:
        """Whether a folder of that name here may be new because there are new objects."""
        return self.pattern is None and _FAN_OUT.match(name) is not None


OBJECTS = Place(None)
"""The top of an object database."""


def is_long_name(name: bytes) -> bool:
    """Whether the name of a file with objects is one of sha256."""
    return _LONG.match(name) is not None


class Linked(NamedTuple):
    """A worktree that is linked to a repository elsewhere, or a submodule."""

    private: str
    """Its own git folder, in the other one."""
    common: str
    """That of the repository. A submodule has one of its own, so both are the same."""


def linked_worktree(folder: str) -> Linked | None:
    """What the pointer file `.git` in a folder leads to, if it is a worktree and that leads back."""
    text = _line(os.path.join(folder, ".git"))
    if text is None or not text.startswith("gitdir: "):
        return None
    private = os.path.realpath(os.path.join(folder, text.removeprefix("gitdir: ")))
    if _is_submodule(folder, private):
        return Linked(private, private)
    worktrees, name = os.path.split(private)
    common, kind = os.path.split(worktrees)
    back = _line(os.path.join(private, "gitdir"))
    way = _line(os.path.join(private, "commondir"))
    if not name or kind != "worktrees" or back is None or way is None:
        return None
    if os.path.realpath(os.path.join(private, way)) != common:
        return None
    if not leads_back(os.fsencode(private), os.fsencode(folder)) or not os.path.isdir(f"{common}/objects"):
        return None
    return Linked(private, common)


def leads_back(private: bytes, folder: bytes) -> bool:
    """Whether the git folder of a worktree is that of this folder, as far as it says anything."""
    back = _bytes(os.path.join(private, b"gitdir"))
    if back is None:
        return True
    # The file itself may be a link to elsewhere, so only its folder is resolved.
    head, tail = os.path.split(os.path.join(private, back.rstrip(b"\r\n")))
    return os.path.join(os.path.realpath(head), tail) == os.path.join(os.path.realpath(folder), b".git")


def _is_submodule(folder: str, private: str) -> bool:
    """Whether a git folder says of itself that its worktree is this folder."""
    try:
        names = frozenset(os.fsencode(name) for name in os.listdir(private))
    except OSError:
        return False
    if (
        not is_git_folder(names)
        or b"commondir" in names
        or b"modules" not in os.fsencode(private).split(b"/")
    ):
        return False
    found = _WORKTREE.search(_bytes(os.path.join(private, "config")) or b"")
    back = os.fsdecode(found[1].strip().strip(b'"')) if found is not None else None
    return back is not None and os.path.realpath(os.path.join(private, back)) == os.path.realpath(folder)


class Others(NamedTuple):
    """What other worktrees have in the git folder of a repository."""

    worktrees: frozenset[bytes]
    """Their names."""
    branches: Mapping[bytes, bytes]
    """Those that they are on, and what they name."""

    def paths(self) -> frozenset[bytes]:
        """Where all that is, beneath the workspace."""
        logs = (b".git/logs/" + name for name in self.branches)
        refs = (b".git/" + name for name in self.branches)
        return frozenset([*(b".git/worktrees/" + name for name in self.worktrees), *refs, *logs])


def other_worktrees(top: int, folder: bytes) -> Others:
    """Who else works with the repository of a workspace: `top` is open, and `folder` is its path."""
    branches: dict[bytes, bytes] = {}
    names: list[bytes] = []
    with suppress(OSError):
        opened = open_beneath(top, ".git/worktrees", os.O_RDONLY | os.O_DIRECTORY)
        try:
            names = [os.fsencode(name) for name in os.listdir(opened)]
            for name in names:
                # While a branch is being rebased, HEAD does not name it.
                for file in (b"HEAD", b"rebase-merge/head-name", b"rebase-apply/head-name"):
                    text = _beneath(opened, name + b"/" + file)
                    found = _BRANCH.match(text) or _REBASED.match(text)
                    if found is not None and is_plain_name(found[1]):
                        branches[found[1]] = value_of(os.path.join(folder, b".git"), found[1])
        finally:
            os.close(opened)
    # One that names nothing is not there: to bring it back takes nothing from anybody.
    return Others(frozenset(names), {name: value for name, value in branches.items() if value})


def head_of(top: int) -> bytes:
    """The branch that the repository of an open workspace is on; empty if there is none."""
    found = _BRANCH.match(_beneath(top, b".git/HEAD"))
    return found[1] if found is not None else b""


def _beneath(top: int, path: bytes) -> bytes:
    try:
        opened = open_beneath(top, os.fsdecode(path), os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(opened, _MOST)
    except OSError:
        return b""
    finally:
        os.close(opened)


def branch_of(linked: Linked) -> Branch | None:
    """The branch that a worktree is on; None if it is on none, or branches are kept in another way here."""
    head = _bytes(os.path.join(linked.private, "HEAD"))
    found = _BRANCH.match(head) if head is not None else None
    if found is None or not is_plain_name(found[1]):
        return None
    common = os.fsencode(linked.common)
    try:
        with open(os.path.join(common, b"logs", found[1]), "rb") as file:
            log: bytes | None = file.read()
    except OSError:
        log = None
    value = value_of(common, found[1])
    try:
        moves = os.stat(os.path.join(linked.private, "logs/HEAD")).st_size
    except OSError:
        moves = 0
    return Branch(common, os.fsencode(linked.private), found[1], value, log, moves)


def is_plain_name(name: bytes) -> bool:
    """Whether the name of a branch is no way out of the folder in which branches are.

    >>> is_plain_name(b"refs/heads/a/b"), is_plain_name(b"refs/heads/../../config")
    (True, False)
    """
    parts = name.split(b"/")
    return all(parts) and not any(part.startswith(b".") or part.endswith(b".lock") for part in parts)


def value_of(common: bytes, name: bytes) -> bytes:
    """What a branch names now; empty if it does not exist."""
    data = _bytes(os.path.join(common, name))
    if data is not None:
        found = _NAMED.match(data)
        return found[1] if found is not None else b""
    packed = b""
    try:
        with open(os.path.join(common, b"packed-refs"), "rb") as file:
            packed = file.read()
    except OSError:
        return b""
    for line in packed.splitlines():
        value, _, of = line.partition(b" ")
        if of == name:
            return value
    return b""


def ignored(store: GitStore, folder: str, git_folder: str, common: str) -> set[bytes] | None:
    """What the repository ignores: paths of files, and of folders that it ignores whole. None if git cannot
    tell.

    The store stands in for the repository: with a copy of its index, and with our own configuration.
    """
    import subprocess

    index = os.path.join(store.folder, "index-seen")
    try:
        for source, target in (
            (os.path.join(git_folder, "index"), index),
            (os.path.join(common, "info/exclude"), os.path.join(store.folder, "info/exclude")),
        ):
            if os.path.isfile(source):
                shutil.copyfile(source, target, follow_symlinks=False)
        process = store.start(
            ["ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"],
            folder,
            {"GIT_WORK_TREE": folder, "GIT_INDEX_FILE": index},
        )
        try:
            out, _ = process.communicate(timeout=_WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return None
    except OSError:
        return None
    if process.returncode != 0:
        return None
    return {path.rstrip(b"/") for path in out.split(b"\0") if path}


def _bytes(path: str | bytes) -> bytes | None:
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(opened, _MOST)
    except OSError:
        return None
    finally:
        os.close(opened)


def _line(path: str) -> str | None:
    data = _bytes(path)
    return None if data is None else os.fsdecode(data.rstrip(b"\r\n"))
