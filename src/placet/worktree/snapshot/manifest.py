"""What a snapshot knows of a tree, as data. Names are bytes: a file system promises no more.

Keep true:
1. A manifest is there whole or not at all, and a snapshot without one is none.
2. What a manifest does not name as left out can be brought back from the snapshot alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

import msgspec

from placet.worktree.snapshot.git_state import GitState

FORMAT = 3
FILE_NAME = "manifest"

EntryKind = Literal["file", "folder", "link"]


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One name in a tree."""

    path: bytes
    """Relative to the top of the tree; empty for the top itself."""
    kind: EntryKind
    mode: int
    """The permission bits, setuid and its like included."""
    user: int
    group: int
    size: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0
    inode: int = 0
    """0: it was changed so short a time before that its times say nothing; only its content does."""
    content: bytes = b""
    """Of a file the name of its blob, of a link its text."""


class LeftOut(msgspec.Struct, frozen=True, array_like=True):
    """Something that is not kept, and that a restore does not touch."""

    path: bytes
    why: str
    device: int = 0
    inode: int = 0
    """Which folder or file it is, where it could be moved; 0 where that does not matter."""
    kind: int = 0
    """What it is, in the numbers of the system."""


class Tree(msgspec.Struct, frozen=True, array_like=True):
    """A folder and what is beneath it. A parent comes before its children."""

    top: bytes
    """Its absolute path."""
    entries: Sequence[Entry]
    left_out: Sequence[LeftOut]
    own: Sequence[bytes] = ()
    """What belongs to Placet, or is left alone: paths that were there."""
    device: int = 0
    inode: int = 0
    """Which folder the top is: another one can have its path."""
    git: LeftOut | None = None
    """The `.git` at the top, which is neither kept nor touched."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A whole snapshot."""

    format: int = FORMAT
    began_ns: int
    """When it was begun: what was changed later was changed since."""
    hash_name: str = "sha1"
    """The hash by which blobs are named."""
    tree: Tree
    repository: GitState | None = None
    """The repository that the workspace is the top of, as it was."""
    boot: str = ""
    """Which start of the machine: devices are counted anew with each."""


def write_manifest(manifest: Manifest, folder: str) -> None:
    """Write it whole: to a temporary name first, then renamed.

    Raises:
        OSError: it cannot be written.
    """
    temporary = os.path.join(folder, f"{FILE_NAME}.tmp")
    with open(temporary, "wb") as file:
        file.write(msgspec.msgpack.encode(manifest))
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, os.path.join(folder, FILE_NAME))
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            os.fsync(opened)
    finally:
        os.close(opened)


def read_manifest(folder: str) -> Manifest:
    """Read it back.

    Raises:
        OSError: there is none.
        ValueError: it is damaged, or of another version.
    """
    with open(os.path.join(folder, FILE_NAME), "rb") as file:
        try:
            found = msgspec.msgpack.decode(file.read(), type=Manifest)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ValueError(f"it is damaged: {error}") from None
    if found.format != FORMAT:
        raise ValueError(f"it has format {found.format}, and this version reads {FORMAT}")
    return found


def shown(path: bytes) -> str:
    """A path for people and for events: always text that can be written anywhere.

    >>> shown(b"caf\\xc3\\xa9"), shown(b"\\xff"), shown(b"")
    ('café', '\\\\xff', '.')
    """
    return path.decode("utf-8", "backslashreplace") or "."


def joined(folder: bytes, name: bytes) -> bytes:
    """The path of a name in a folder of a tree."""
    return folder + b"/" + name if folder else name
