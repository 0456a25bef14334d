"""A folder as it is now, file by file, so that two looks tell what was changed between them.

Keep true:
1. Whatever a snapshot brings back is looked at, repositories too: what they name, what is staged, their logs.
2. What programs write in a repository while nobody changes anything is no change: objects, locks, and what an
   index knows of the times of files.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Container, Hashable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING

from placet.storage.location import PROJECT_FOLDER

if TYPE_CHECKING:
    from placet.sandbox.spot import Id

Spots = Mapping[str, Hashable]
"""Each file by its path in the folder, with what changes when it does."""

_GIT = ".git"
_MOST_SPOTS = 300_000
_LARGEST_INDEX = 2**28
_NOBODYS = frozenset({"objects", "lfs", "FETCH_HEAD", "gc.pid", "gc.log", "fsmonitor--daemon"})
"""In the folder of a repository, or of one within it: what other programs write by themselves."""
_NAMES = ("refs", "logs")
"""Beneath these, what is called like that is somebody's branch."""


def changed(one: Spots, other: Spots) -> list[str]:
    """The files in which two looks differ."""
    return sorted(path for path in {*one, *other} if one.get(path) != other.get(path))


def is_in_repository(path: str) -> bool:
    """Whether it is one of a repository's own files."""
    return _GIT in path.split(os.sep)


def spots(folder: str, untouched: Container[Id] = ()) -> Spots:
    """The files beneath a folder as they are now, as far as it can be read, up to a great many; what is
    `untouched` is nobody's business here."""
    found: dict[str, Hashable] = {}
    for entry, path in _beneath(folder, untouched, len(folder.rstrip(os.sep)) + 1):
        with suppress(OSError):
            seen = entry.stat(follow_symlinks=False)
            found[path] = _as_of(entry, path, seen)
            if entry.name == _GIT:
                found |= _linked(entry.path)
        if len(found) >= _MOST_SPOTS:
            break
    return found


def _beneath(folder: str, untouched: Container[Id], cut: int) -> Iterator[tuple[os.DirEntry[str], str]]:
    folders = [folder]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as listed:
            for entry in listed:
                path = entry.path[cut:]
                if entry.name == PROJECT_FOLDER or _is_nobodys(path, entry.name):
                    continue
                with suppress(OSError):
                    seen = entry.stat(follow_symlinks=False)
                    if (seen.st_dev, seen.st_ino) in untouched:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        yield entry, path


def _is_nobodys(path: str, name: str) -> bool:
    if name not in _NOBODYS and not name.endswith(".lock"):
        return False
    _, is_git, within = path.rpartition(f"{_GIT}{os.sep}")
    if not is_git:
        return False
    return name.endswith(".lock") or not any(each in within.split(os.sep)[:-1] for each in _NAMES)


def _as_of(entry: os.DirEntry[str], path: str, seen: os.stat_result) -> Hashable:
    if entry.name == "index" and is_in_repository(path) and seen.st_size <= _LARGEST_INDEX:
        with suppress(OSError), open(entry.path, "rb") as file:
            return staged(file.read(_LARGEST_INDEX))
    return seen.st_mtime_ns, seen.st_size, seen.st_ino


def _linked(path: str) -> Iterator[tuple[str, Hashable]]:
    """What a linked worktree has elsewhere: its own folder in the repository, and the branch it is on."""
    with open(path, encoding="utf-8", errors="replace") as file:
        kind, _, place = file.read(4096).strip().partition(": ")
    own = os.path.join(os.path.dirname(path), place)
    if kind != "gitdir" or not os.path.isdir(own):
        return
    for entry, name in _beneath(own, (), len(own) + 1):
        with suppress(OSError):
            yield f"{_GIT}/{name}", _as_of(entry, f"{_GIT}/{name}", entry.stat(follow_symlinks=False))
    with suppress(OSError):
        with open(os.path.join(own, "commondir"), encoding="utf-8") as file:
            common = os.path.join(own, file.read(4096).strip())
        with open(os.path.join(own, "HEAD"), encoding="utf-8") as file:
            branch = file.read(4096).strip().removeprefix("ref: ")
        for name in (branch, "packed-refs"):
            with suppress(OSError):
                seen = os.stat(os.path.join(common, name))
                yield f"{_GIT}/{name}", (seen.st_mtime_ns, seen.st_size, seen.st_ino)


def staged(index: bytes) -> str:
    """What an index of git holds, by a digest: looking at files changes what it knows of their times, and
    that is left out where its format is a known one."""
    digest = sha256()
    try:
        sign, version, count = struct.unpack_from(">4sII", index)
        at = 12
        for _ in range(count):
            (flags,) = struct.unpack_from(">H", index, at + 60)
            size = 64 if flags & 0x4000 else 62
            end = index.index(b"\0", at + size)
            digest.update(index[at + 24 : at + 28] + index[at + 40 : end + 1])
            at += (end - at + 8) // 8 * 8
    except (struct.error, ValueError):
        return sha256(index).hexdigest()
    # Behind the entries come sections with names of four letters, and a digest of it all.
    is_known = sign == b"DIRC" and version in (2, 3)
    if not is_known or not (at == len(index) - 20 or index[at : at + 4].isalpha()):
        return sha256(index).hexdigest()
    return digest.hexdigest()
