"""The files of a folder as they are now, so that two looks tell what was changed between them.

Keep true:
1. Whatever a snapshot brings back is looked at: all files but those of Placet and the `.git` at the top.
"""

from __future__ import annotations

import os
from collections.abc import Container, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from placet.storage.location import PROJECT_FOLDER

if TYPE_CHECKING:
    from placet.sandbox.spot import Id

FileIndex = Mapping[str, tuple[int, int, int]]
"""Each file by its path in the folder, with what changes when it does: time, size, inode."""

_GIT = ".git"
_MOST_FILES = 300_000


def changed(one: FileIndex, other: FileIndex) -> list[str]:
    """The files in which two looks differ."""
    return sorted(path for path in {*one, *other} if one.get(path) != other.get(path))


def is_in_repository(path: str) -> bool:
    """Whether it is one of a repository's own files."""
    return _GIT in path.split(os.sep)


def file_index(folder: str, untouched: Container[Id] = ()) -> FileIndex:
    """Look at the files beneath a folder, as far as it can be read, up to a great many; those that are
    `untouched` are passed over."""
    found: dict[str, tuple[int, int, int]] = {}
    cut = len(folder.rstrip(os.sep)) + 1
    folders = [folder]
    while folders and len(found) < _MOST_FILES:
        with suppress(OSError), os.scandir(folders.pop()) as listed:
            for entry in listed:
                path = entry.path[cut:]
                if entry.name == PROJECT_FOLDER or path == _GIT:
                    continue
                with suppress(OSError):
                    seen = entry.stat(follow_symlinks=False)
                    if (seen.st_dev, seen.st_ino) in untouched:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        found[path] = seen.st_mtime_ns, seen.st_size, seen.st_ino
    return found
