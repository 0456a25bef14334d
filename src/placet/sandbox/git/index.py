"""The index, brought over as a list of entries and never as a file.

An index also holds what git remembers of the files in the work tree, and marks that make it look away from
some. Whoever writes those can hide what he has changed. So only modes, hashes and paths count, and only where
they differ: everything else stays as it is in the repository's own index.

Keep true:
1. What is written is the repository's own index with some entries changed, written by git.
2. No entry makes a folder a submodule that was none: git looks into those, and obeys the settings there.
3. The time of the file stays older than any file that was looked at for it, or git would trust too much.
"""

from __future__ import annotations

import os
import struct

from placet.errors import ToolError
from placet.safe_text import clean
from placet.sandbox.git.trusted import git
from placet.sandbox.lookalikes import GIT, is_read_as

Entries = dict[bytes, tuple[bytes, ...]]
"""By path: `mode hash stage`, once, or up to three times for a file in conflict."""

MOST_INDEX_BYTES = 512 << 20
SUBMODULE = b"160000"
MAYBE_SUBMODULE = b"\x00\x00\xe0\x00"
"""How that mode stands in the file. Without it there is none; with it there may be."""

_KINDS = (0o04, 0o10, 0o12, 0o16)
"""The first digits of a mode: a folder (of a sparse index), a file, a link, a submodule."""
_NO_NAMES = (b"", b".", b"..")


async def read_entries(path: str, git_dir: str) -> Entries:
    """The entries of an index file; none if there is no such file.

    Raises:
        ToolError: git cannot read it.
    """
    if not is_there(path):
        return {}
    listed = await git(["ls-files", "--stage", "-z"], git_dir=git_dir, environment={"GIT_INDEX_FILE": path})
    entries: Entries = {}
    for line in listed.split(b"\0"):
        if line:
            about, _, name = line.partition(b"\t")
            entries[name] = (*entries.get(name, ()), about)
    return entries


def changes(before: Entries, after: Entries) -> Entries:
    """What has to be put in place of what; an empty tuple is a path that is gone."""
    return {
        path: after.get(path, ())
        for path in before.keys() | after.keys()
        if before.get(path) != after.get(path)
    }


def changed_by(before: Entries, changed: Entries) -> Entries:
    """The entries after the changes."""
    return {path: entries for path, entries in {**before, **changed}.items() if entries}


def check(changed: Entries, before: Entries) -> None:
    """Refuse entries that would be dangerous outside.

    Raises:
        ToolError: one makes a submodule of what was none, or lies where no file may be.
    """
    for path, entries in changed.items():
        if any(part in _NO_NAMES or is_read_as(part, GIT) for part in path.split(b"/")):
            # Git would leave it out without a word, and take the rest.
            raise ToolError("It holds a path that git does not allow.", retry=False)
        if _is_submodule(entries) and not _is_submodule(before.get(path, ())):
            name = clean(path.decode(errors="replace"), 100)
            raise ToolError(
                f"The index has {name} as a submodule, which it is not outside. Add it there.",
                retry=False,
            )


def gitlinks(data: bytes) -> list[bytes]:
    """The paths that are submodules, of what is in an index file; none if it is no index. Git is not run."""
    if MAYBE_SUBMODULE not in data:
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


def blobs(changed: Entries) -> set[bytes]:
    """The objects that the entries need."""
    return {
        each.split(b" ")[1] for path in changed.values() for each in path if not each.startswith(SUBMODULE)
    }


async def rewrite(path: str, changed: Entries, git_dir: str, zeros: bytes) -> bytes:
    """What an index holds after the changes. `path` is a copy, which is written to. `zeros` is no hash.

    Raises:
        ToolError: git does not take an entry, such as one beneath `.git`.
    """
    lines: list[bytes] = []
    # What goes away goes first, or a file could stand in the way of a folder.
    for name in changed:
        lines.append(b"0 " + zeros + b"\t" + name)
    for name, entries in changed.items():
        lines += [each + b"\t" + name for each in entries]
    looked = os.stat(path).st_mtime_ns if is_there(path) else None
    await git(
        ["update-index", "-z", "--index-info"],
        git_dir=git_dir,
        stdin=b"".join(line + b"\0" for line in lines),
        environment={"GIT_INDEX_FILE": path},
    )
    if looked is not None:
        os.utime(path, ns=(looked, looked))
    return read(path)


def read(path: str) -> bytes:
    """What is in an index file; nothing if there is none."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def is_there(path: str) -> bool:
    return os.path.exists(path)


def _is_submodule(entries: tuple[bytes, ...]) -> bool:
    return any(each.startswith(SUBMODULE) for each in entries)
