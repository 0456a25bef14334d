"""Checkouts beneath a work tree that git outside looks into: submodules at any depth, and linked worktrees.

Git runs itself in each submodule, also for a mere `git status`, and obeys the settings that it finds there.
In a linked worktree somebody will run git sooner or later. So no command may make a repository of such a
folder, or lead it to another.

Keep true:
1. The `.git` of a submodule or a linked worktree cannot be changed inside. A submodule that has none cannot
   get one.
2. What gets past that is told.
3. What is read here may have been written by anybody: nothing waits, and no process is started.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress

from placet.errors import ToolError
from placet.sandbox.git.folder import Damaged, Folder
from placet.sandbox.git.index import MOST_INDEX_BYTES, gitlinks
from placet.sandbox.git.repository import Repository, is_git_folder, pointed, read_line, where

_MOST = 1000
_MOST_CHILDREN = 2000
_MOST_CONFIG = 1 << 20
_DEPTH = 8
_WORK_TREE = re.compile(rb'^[ \t]*worktree[ \t]*=[ \t]*"?([^"\n]+?)"?[ \t]*$', re.MULTILINE | re.IGNORECASE)

Seen = tuple[int, ...] | None
"""What tells whether a name is still what it was; None for nothing."""


class Nested:
    """The checkouts beneath a work tree, and what their `.git` was when somebody looked."""

    def __init__(self) -> None:
        self._search: _Search | None = None
        self._pointers: dict[str, Seen] = {}
        self._state: dict[str, Seen] = {}

    def look(self, repository: Repository) -> None:
        """Find those that the repository has now. That is cheap as long as it has the same."""
        if self._search is not None and all(_seen(path) == seen for path, seen in self._state.items()):
            return
        search = _Search(repository.top, covered=repository.common)
        search.enter(repository.top, repository.git_dir, repository.common)
        for path in search.submodules:
            _make(path, repository.top)
        if self._search is not None:
            # One that a command took out of the index may come back into it with the next checkout.
            search.submodules |= dict.fromkeys(self._known(self._search.submodules))
        self._search = search
        self._pointers = {path: _pointer(path) for path in (*search.submodules, *search.worktrees)}
        watched = [*search.read, *(os.path.join(path, ".git") for path in self._pointers)]
        self._state = {path: _seen(path) for path in watched}

    def _known(self, paths: dict[str, None]) -> Iterator[str]:
        return (path for path in paths if self._pointers.get(path) is not None)

    def binds(self, empty: str) -> list[tuple[str, str, bool]]:
        """What has to be shown so that none can be changed; `empty` is an empty folder."""
        found: list[tuple[str, str, bool]] = []
        if self._search is None:
            return found
        for path in self._search.git_folders:
            found.append((path, path, False))
        for path in sorted(self._search.submodules):
            inner = os.path.join(path, ".git")
            if os.path.realpath(path) != path or not os.path.isdir(path):
                continue
            if any(_is_beneath(path, hidden) for source, hidden, _ in found if source == empty):
                continue
            if os.path.lexists(inner) and not os.path.islink(inner):
                found.append((inner, inner, False))
            else:
                found.append((empty, path, False))
        return found + [(path, path, False) for path in _files(self._search.worktrees)]

    def find_swapped(self) -> list[str]:
        """Words about those that are not what they were."""
        said: list[str] = []
        for path, before in list(self._pointers.items()):
            now = _pointer(path)
            if now not in (before, None):
                self._pointers[path] = now
                said.append(
                    f"{path}/.git was put there or changed by a command. Remove it before git runs outside: "
                    "git looks into submodules and worktrees, and obeys the settings there."
                )
        return said


def git_folders(workspace: str) -> list[str]:
    """What git takes settings or hooks from beneath a workspace that has no view: files and folders.

    They are there, and have to be shown read-only, each as a whole. Bare git folders count if they have
    worktrees. A repository of its own somewhere below is not looked for.

    Raises:
        ToolError: the way to one leads through a link, which cannot be held.
    """
    top = os.path.realpath(workspace)
    search = _Search(top)
    own = os.path.join(top, ".git")
    found: list[str] = []
    if os.path.lexists(own) and not os.path.islink(own):
        found.append(own)
        git_dir, common = _obeyed(top, own)
        search.enter(top, git_dir, common)
    for path in _bare_children(top):
        search.add_git_folder(path)
        search.enter(None, path, path)
    for path in search.submodules:
        _make(path, top)
        inner = os.path.join(path, ".git")
        if os.path.realpath(path) == path and os.path.isdir(path):
            found.append(inner if os.path.lexists(inner) and not os.path.islink(inner) else path)
    return list(dict.fromkeys([*found, *search.git_folders, *_files(search.worktrees)]))


class _Search:
    """A search for checkouts beneath a folder, but not beneath `covered`, of which nothing is shown."""

    def __init__(self, top: str, covered: str | None = None) -> None:
        self._top = top
        self._covered = covered
        self.submodules: dict[str, None] = {}
        self.worktrees: dict[str, None] = {}
        self.git_folders: dict[str, None] = {}
        """Git folders beneath the top that are not in a `.git`."""
        self.read: dict[str, None] = {}
        """Files and folders that the result depends on."""
        self._entered: set[tuple[str | None, str]] = set()

    def enter(self, tree: str | None, git_dir: str, common: str) -> None:
        """Find what belongs to a checkout, and to those that belong to it."""
        left = [(tree, git_dir, common)]
        while left and len(self._entered) < _MOST:
            here = left.pop()
            if here[:2] not in self._entered:
                self._entered.add(here[:2])
                left += self._find(*here)

    def add_git_folder(self, path: str) -> None:
        """Note a git folder. One in a `.git` is kept together with that."""
        is_kept = any(_is_beneath(path, other) for other in self.git_folders)
        if self._is_ours(path) and not is_kept and os.path.isdir(path):
            self.git_folders[path] = None

    def _is_ours(self, path: str) -> bool:
        """Whether commands could write there: it is in the folder, and in nothing that is kept as a whole."""
        if path == self._top or not _is_beneath(path, self._top):
            return False
        is_covered = self._covered is not None and _is_beneath(path, self._covered)
        return not is_covered and ".git" not in os.path.relpath(path, self._top).split("/")

    def _find(self, tree: str | None, git_dir: str, common: str) -> list[tuple[str | None, str, str]]:
        found: list[tuple[str | None, str, str]] = []
        if tree is not None:
            self.add_git_folder(common)
            self.add_git_folder(git_dir)
        for name, folder in self._worktrees(common):
            self.worktrees[folder] = None
            found.append((folder, os.path.join(common, "worktrees", name), common))
        for link in self._links(git_dir) if tree is not None else ():
            path = os.path.join(tree or "", os.fsdecode(link))
            if self._is_ours(path) and len(self.submodules) < _MOST:
                self.submodules[path] = None
                if (leads := where(path, os.path.join(path, ".git"))) is not None:
                    found.append((path, *leads))
        for module, path in self._modules(os.path.join(git_dir, "modules"), _DEPTH):
            # Also one that is not in the index now: it comes back with the next checkout of another branch.
            if self._is_ours(path) and os.path.lexists(os.path.join(path, ".git")):
                self.submodules[path] = None
                found.append((path, module, module))
        return found

    def _worktrees(self, common: str) -> Iterator[tuple[str, str]]:
        """Linked worktrees beneath the top: their names and folders."""
        above = os.path.join(common, "worktrees")
        self.read[above] = None
        for name in _names(above):
            self.read[os.path.join(above, name, "gitdir")] = None
            line = read_line(os.path.join(above, name), "gitdir")
            path = os.path.normpath(os.path.join(above, name, line or ""))
            folder = os.path.dirname(path)
            if line and os.path.basename(path) == ".git" and self._is_ours(folder):
                yield name, folder

    def _links(self, git_dir: str) -> Iterator[bytes]:
        """The submodules in an index, and in what it shares with others."""
        with suppress(OSError, Damaged), Folder(git_dir) as folder:
            shared = [name for name in folder.names("") if name.startswith("sharedindex.")]
            for name in ("index", *shared):
                self.read[os.path.join(git_dir, name)] = None
                for link in gitlinks(folder.read(name, MOST_INDEX_BYTES) or b""):
                    if not {b"", b".", b"..", b".git"} & set(link.split(b"/")):
                        yield link

    def _modules(self, folder: str, depth: int) -> Iterator[tuple[str, str]]:
        """Git folders of submodules, and the work trees that they name."""
        self.read[folder] = None
        for name in _names(folder):
            path = os.path.join(folder, name)
            if not is_git_folder(path):
                if depth > 0 and os.path.isdir(path) and not os.path.islink(path):
                    yield from self._modules(path, depth - 1)
                continue
            with suppress(OSError, Damaged), Folder(path) as opened:
                said = _WORK_TREE.findall(opened.read("config", _MOST_CONFIG) or b"")
                if said:
                    yield path, os.path.normpath(os.path.join(path, os.fsdecode(said[-1])))


def _obeyed(top: str, own: str) -> tuple[str, str]:
    """The git folder and the common one that git would use, whether they are ours to use or not.

    Raises:
        ToolError: a link beneath the top is on the way.
    """
    if os.path.isdir(own):
        return own, own
    line = pointed(top)
    if line is None:
        return own, own
    git_dir = _without_links(os.path.join(top, line), top)
    line = read_line(git_dir, "commondir")
    return git_dir, git_dir if line is None else _without_links(os.path.join(git_dir, line), top)


def _without_links(path: str, top: str) -> str:
    path, real = os.path.normpath(path), os.path.realpath(path)
    if path != real and _is_beneath(path, top):
        raise ToolError(
            f"Not run: .git in the workspace leads to {os.path.relpath(path, top)}, which is behind a "
            "link. Commands could put something else in its place. Name the folder itself in .git.",
            retry=False,
        )
    return real


def _bare_children(top: str) -> Iterator[str]:
    """Git folders right below a folder that are no `.git` and have worktrees."""
    with suppress(OSError), os.scandir(top) as entries:
        for number, entry in enumerate(entries):
            if number >= _MOST_CHILDREN:
                return
            if entry.name != ".git" and entry.is_dir(follow_symlinks=False) and is_git_folder(entry.path):
                if _names(os.path.join(entry.path, "worktrees")):
                    yield entry.path


def _names(path: str) -> list[str]:
    with suppress(OSError), Folder(path) as folder:
        return folder.names("")[:_MOST]
    return []


def _files(worktrees: dict[str, None]) -> Iterator[str]:
    """The `.git` of each of these that has one."""
    for folder in worktrees:
        path = os.path.join(folder, ".git")
        if os.path.realpath(path) == path and os.path.isfile(path):
            yield path


def _make(path: str, top: str) -> None:
    """See that the folder is there, as git does: what is not there cannot be shown as empty."""
    if os.path.realpath(path) == path and _is_beneath(path, top):
        with suppress(OSError):
            os.makedirs(path, exist_ok=True)


def _pointer(folder: str) -> Seen:
    """What a `.git` is. Of a folder only which one: git outside changes what is in it."""
    path = os.path.join(folder, ".git")
    seen = _seen(path)
    return seen[:2] if seen is not None and stat.S_ISDIR(seen[2]) else seen


def _seen(path: str) -> Seen:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _is_beneath(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
