"""The names in a workspace, as far as a task can be about them.

Only names are read, never contents, and only so many: a task is not worth walking a million files.

Keep true:
1. The walk is bounded in entries and depth, whatever the folder holds, and follows no link.
2. Nothing raises: a folder that cannot be read is empty.
3. Names that the task spells out are looked up by themselves, so that a bounded walk does not miss them.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from placet.turns.symbols import Definition

MOST_ENTRIES = 5_000
MOST_DEPTH = 8
_LONGEST_NAME = 400
_PASSED_OVER = frozenset({"node_modules", "__pycache__", "venv", "env", "site-packages"})
"""Besides folders whose name begins with a dot."""


class Listing(NamedTuple):
    """Names in a workspace, as paths relative to it with `/` between folders."""

    files: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    is_complete: bool = True
    """Whether the walk saw everything that it looks at."""
    symbols: Mapping[str, Definition] = MappingProxyType({})
    """Functions, classes and constants that the task names, with where they are defined."""


NOTHING = Listing()


def list_names(folder: str, spelled: Iterable[str] = (), *, most: int = MOST_ENTRIES) -> Listing:
    """The names beneath a folder, and those of the `spelled` paths that exist there."""
    files: set[str] = set()
    folders: set[str] = set()
    is_complete = True
    pending = deque([("", 0)])
    seen = 0
    while pending and is_complete:
        inside, depth = pending.popleft()
        try:
            with os.scandir(os.path.join(folder, inside)) as entries:
                for entry in entries:
                    seen += 1
                    if seen > most:
                        is_complete = False
                        break
                    path = f"{inside}{entry.name}"
                    if not entry.is_dir(follow_symlinks=False):
                        files.add(path)
                        continue
                    if entry.name.startswith(".") or entry.name in _PASSED_OVER:
                        continue
                    folders.add(path)
                    if depth + 1 < MOST_DEPTH:
                        pending.append((f"{path}/", depth + 1))
        except OSError:
            continue
    for each in spelled:
        _look_up(folder, each, files, folders)
    return Listing(frozenset(files), frozenset(folders), is_complete)


def _look_up(folder: str, spelled: str, files: set[str], folders: set[str]) -> None:
    if not spelled or len(spelled) > _LONGEST_NAME or "\0" in spelled:
        return
    path = os.path.normpath(os.path.join(folder, spelled))
    inside = os.path.relpath(path, folder)
    if inside == "." or inside == ".." or inside.startswith(f"..{os.sep}"):
        return
    try:
        mode = os.lstat(path).st_mode
    except (OSError, ValueError):
        return
    inside = inside.replace(os.sep, "/")
    (folders if stat.S_ISDIR(mode) else files).add(inside)
