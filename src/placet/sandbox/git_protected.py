"""What git takes settings, hooks and pointers from beneath a workspace: read-only inside the sandbox.

Git runs itself in each submodule, also for a mere `git status`, and obeys the settings that it finds there.
In a linked worktree somebody will run git sooner or later. So no command may write a git folder, make a
repository of such a folder, or lead it to another.

Keep true:
1. The `.git` of the workspace, of a submodule and of a linked worktree cannot be changed inside. A submodule
   that has none cannot get one.
2. What is read here may have been written by anybody: nothing waits, and no process is started.
3. No password of a config is shown inside.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from collections.abc import Iterator
from contextlib import suppress

from placet.errors import ToolError
from placet.safe_text import clean
from placet.sandbox.git_folder import (
    is_git_folder,
    look_up,
    named_work_tree,
    names_in,
    pointed,
    read,
    read_line,
    where,
)
from placet.sandbox.places import is_beneath

_MOST = 1000
_MOST_CHILDREN = 2000
_MOST_INDEX = 512 << 20
_MOST_CONFIG = 1 << 20
_DEPTH = 8
_MAYBE_SUBMODULE = b"\x00\x00\xe0\x00"
"""How the mode of a submodule stands in an index. Without it there is none; with it there may be."""
_KINDS = (0o04, 0o10, 0o12, 0o16)
"""The first digits of a mode: a folder (of a sparse index), a file, a link, a submodule."""

_NAMED = 5
_BORROWS = "objects/info/alternates"
_OBEYED = ("config", "config.worktree", "commondir", "gitdir", "HEAD", "info/attributes", _BORROWS)
"""Files of a git folder that lead git elsewhere, or to a program; and every hook."""

_ADDRESS = re.compile(rb"([a-z][a-z0-9+.-]*://)[^/@\s\"]*@", re.IGNORECASE)
_REFUSED = re.compile(
    rb"\.git\b[^\n]*"
    rb"(?:Read-only file system|Device or resource busy|insufficient permission|Permission denied)"
)
_SECRET = re.compile(
    rb"^([ \t]*(?:\[[^\]\n]*\][ \t]*)?[a-z0-9-]*(?:extraheader|password|token|secret)[a-z0-9-]*[ \t]*=)"
    rb"(?:[^\n]*\\\n)*[^\n]*$",
    re.IGNORECASE | re.MULTILINE,
)


def protected_git(workspace: str) -> list[str]:
    """List the files and folders beneath a workspace that are shown read-only, each as a whole.

    They are there. Bare git folders count if they have worktrees. A repository of its own somewhere below is
    not looked for: to git outside it is a folder like any other.

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


def config_without_secrets(workspace: str) -> tuple[str, bytes] | None:
    """Return the path of the repository's config and its text without passwords; None if it holds none."""
    found = look_up(workspace)
    if found is None or found.top != os.path.realpath(workspace):
        return None
    text = read(found.common, "config", _MOST_CONFIG)
    if text is None:
        return None
    shown = _SECRET.sub(rb"\1 hidden", _ADDRESS.sub(rb"\1", text))
    return (os.path.join(found.common, "config"), shown) if shown != text else None


def was_refused(output: bytes) -> bool:
    """Whether a program complains in its output that it could not write a git folder."""
    return _REFUSED.search(output) is not None


class GitWatch:
    """Notices that a command has changed what git obeys, where no means can keep it from doing so."""

    def __init__(self, workspace: str) -> None:
        self._workspace = os.path.realpath(workspace)
        self._before = self._look()

    def changed(self) -> list[str]:
        """Describe the change since this was made; nothing if there is none."""
        now, before = self._look(), self._before
        paths = sorted(path for path in now.keys() | before.keys() if now.get(path) != before.get(path))
        if not paths:
            return []
        names = ", ".join(os.path.relpath(path, self._workspace) for path in paths[:_NAMED])
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        return [f"it changed {clean(names, 300)}{more}: look at that before you run git here, which obeys it"]

    def _look(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        with suppress(ToolError):
            for path in protected_git(self._workspace):
                hooks = os.path.join(path, "hooks")
                inner = [os.path.join(path, name) for name in _OBEYED] if os.path.isdir(path) else []
                inner += [os.path.join(hooks, name) for name in names_in(hooks, _MOST)]
                for each in (path, *inner):
                    with suppress(OSError):
                        seen = os.lstat(each)
                        about = (seen.st_dev, seen.st_ino, seen.st_mode)
                        is_file = not stat.S_ISDIR(seen.st_mode)
                        found[each] = (*about, seen.st_size, seen.st_ctime_ns) if is_file else about
        return found


class _Search:
    """A search for checkouts beneath a folder."""

    def __init__(self, top: str) -> None:
        self._top = top
        self.submodules: dict[str, None] = {}
        self.worktrees: dict[str, None] = {}
        self.git_folders: dict[str, None] = {}
        """Git folders beneath the top that are not in a `.git`."""
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
        """Add a git folder. One in a `.git` is kept together with that."""
        is_kept = any(is_beneath(path, other) for other in self.git_folders)
        if self._is_ours(path) and not is_kept and os.path.isdir(path):
            self.git_folders[path] = None

    def _is_ours(self, path: str) -> bool:
        """Whether commands could write there: it is in the folder, and in nothing that is kept as a whole."""
        if path == self._top or not is_beneath(path, self._top):
            return False
        return ".git" not in os.path.relpath(path, self._top).split("/")

    def _find(self, tree: str | None, git_dir: str, common: str) -> list[tuple[str | None, str, str]]:
        found: list[tuple[str | None, str, str]] = []
        if tree is not None:
            self.add_git_folder(common)
            self.add_git_folder(git_dir)
        for name, folder in self._worktrees(common):
            self.worktrees[folder] = None
            found.append((folder, os.path.join(common, "worktrees", name), common))
        for link in _links(git_dir) if tree is not None else ():
            path = os.path.join(tree or "", os.fsdecode(link))
            if self._is_ours(path) and len(self.submodules) < _MOST:
                self.submodules[path] = None
                if (leads := where(path, os.path.join(path, ".git"))) is not None:
                    found.append((path, *leads))
        for module, path in _modules(os.path.join(git_dir, "modules"), _DEPTH):
            # Also one that is not in the index now: it comes back with the next checkout of another branch.
            if self._is_ours(path) and os.path.lexists(os.path.join(path, ".git")):
                self.submodules[path] = None
                found.append((path, module, module))
        return found

    def _worktrees(self, common: str) -> Iterator[tuple[str, str]]:
        """Linked worktrees beneath the top: their names and folders."""
        above = os.path.join(common, "worktrees")
        for name in names_in(above, _MOST):
            line = read_line(os.path.join(above, name), "gitdir")
            path = os.path.normpath(os.path.join(above, name, line or ""))
            folder = os.path.dirname(path)
            if line and os.path.basename(path) == ".git" and self._is_ours(folder):
                yield name, folder


def _links(git_dir: str) -> Iterator[bytes]:
    """The submodules in an index, and in what it shares with others."""
    shared = [name for name in names_in(git_dir, _MOST) if name.startswith("sharedindex.")]
    for name in ("index", *shared):
        for link in gitlinks(read(git_dir, name, _MOST_INDEX) or b""):
            if not {b"", b".", b"..", b".git"} & set(link.split(b"/")):
                yield link


def _modules(folder: str, depth: int) -> Iterator[tuple[str, str]]:
    """Git folders of submodules, and the work trees that they name."""
    for name in names_in(folder, _MOST):
        path = os.path.join(folder, name)
        if is_git_folder(path):
            if (said := named_work_tree(path)) is not None:
                yield path, os.path.normpath(os.path.join(path, said))
        elif depth > 0 and os.path.isdir(path) and not os.path.islink(path):
            yield from _modules(path, depth - 1)


def gitlinks(data: bytes) -> list[bytes]:
    """List the paths in an index file that are submodules; none if it is no index. Git is not run."""
    if _MAYBE_SUBMODULE not in data:
        return []
    for hash_size in (20, 32):
        try:
            return _gitlinks(data, hash_size)
        except (ValueError, struct.error, IndexError):
            continue
    return []


def _gitlinks(data: bytes, hash_size: int) -> list[bytes]:
    mark, version, count = struct.unpack_from(">4sII", data)
    if mark != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("no index")
    found: list[bytes] = []
    name, at = b"", 12
    for _ in range(count):
        start = at
        (mode,) = struct.unpack_from(">I", data, at + 24)
        at += 40 + hash_size
        (flags,) = struct.unpack_from(">H", data, at)
        at += 4 if flags & 0x4000 else 2
        if mode >> 12 not in _KINDS:
            raise ValueError("no entry: the hashes have another size")
        if version == 4:
            # The name without the end of the one before, and then its own end.
            less, at = _number(data, at)
            end = data.index(b"\0", at)
            name = name[: len(name) - less] + data[at:end]
            at = end + 1
        else:
            end = data.index(b"\0", at)
            name = data[at:end]
            at = start + (end - start + 8) // 8 * 8
        # One without a name stands for one in the file that this one shares with others.
        if mode >> 12 == 0o16 and name:
            found.append(name)
    return found


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of as many bytes as it needs, and where it ends."""
    value = data[at] & 127
    while data[at] & 128:
        at += 1
        value = (value + 1 << 7) + (data[at] & 127)
    return value, at + 1


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
    if path != real and is_beneath(path, top):
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
                if names_in(os.path.join(entry.path, "worktrees"), 1):
                    yield entry.path


def _files(worktrees: dict[str, None]) -> Iterator[str]:
    """The `.git` of each of these that has one."""
    for folder in worktrees:
        path = os.path.join(folder, ".git")
        if os.path.realpath(path) == path and os.path.isfile(path):
            yield path


def _make(path: str, top: str) -> None:
    """See that the folder is there, as git does: what is not there cannot be shown as empty."""
    if os.path.realpath(path) == path and is_beneath(path, top):
        with suppress(OSError):
            os.makedirs(path, exist_ok=True)
