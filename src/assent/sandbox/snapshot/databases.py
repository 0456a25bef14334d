"""The objects of a repository: linked into the snapshot, and linked back where they are missing.

An object file is never rewritten: its name is the digest of what it holds. So a second name for the same file
keeps it, and costs nothing. Objects that came since are left: nothing names them, and somebody else may have
brought them.

Keep true:
1. Nothing in a real database is removed, but for a file that cannot be what its name says.
2. An object that was changed in place is told of, not brought back as if it were right.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress

from assent.sandbox.beneath import open_beneath
from assent.sandbox.snapshot.contents import copy, open_file
from assent.sandbox.snapshot.manifest import ObjectFile, shown
from assent.sandbox.snapshot.removal import READ_FOLDER

Files = Sequence[tuple[bytes, os.stat_result]]


class NotLinked(Exception):
    """The objects lie on another file system, or are not ours, and are too many to copy."""


def link_objects(database: int, files: Files, target: str, *, most_copied: int) -> list[ObjectFile]:
    """Link them into the folder `target`, which is made; copied where that cannot be.

    Raises:
        NotLinked: more than `most_copied` bytes would have to be copied.
        OSError: they cannot be kept.
    """
    os.makedirs(target, mode=0o700)
    into = os.open(target, READ_FOLDER)
    kept: list[ObjectFile] = []
    made: set[bytes] = set()
    try:
        for path, found in files:
            folder = os.path.dirname(path)
            if folder and folder not in made:
                os.mkdir(folder, 0o700, dir_fd=into)
                made.add(folder)
            is_copy = False
            try:
                os.link(path, path, src_dir_fd=database, dst_dir_fd=into, follow_symlinks=False)
            except FileNotFoundError:
                continue  # It was packed meanwhile, by somebody else.
            except OSError:
                most_copied -= found.st_size
                if most_copied < 0:
                    raise NotLinked from None
                is_copy = True
                if not _copy(database, into, path):
                    continue
            kept.append(
                ObjectFile(path, found.st_size, found.st_mtime_ns, stat.S_IMODE(found.st_mode), is_copy)
            )
    finally:
        os.close(into)
    return kept


def bring_back(kept: Sequence[ObjectFile], source: str, database: int) -> tuple[int, list[str]]:
    """Link what is missing in an open database back: how many were, and what could not be."""
    brought = 0
    problems: list[str] = []
    out = os.open(source, READ_FOLDER)
    try:
        for each in kept:
            try:
                here = _stat(each.path, out)
                if here is None or here.st_size != each.size:
                    # Linked, it is the very file that was changed. Its time may differ: git touches objects
                    # that it would write again.
                    raise OSError(errno.EIO, "it was changed in place")
                there = _stat(each.path, database)
                if there is not None and there.st_size == each.size:
                    continue
                if there is not None:
                    os.unlink(each.path, dir_fd=database)
                _put(each, out, database)
                brought += 1
            except OSError as error:
                problems.append(f"{shown(each.path)}: {error.strerror or error}")
    finally:
        os.close(out)
    return brought, problems


def _put(each: ObjectFile, out: int, database: int) -> None:
    folder = os.path.dirname(each.path)
    if folder:
        with suppress(FileExistsError):
            os.mkdir(folder, dir_fd=database)
        # Held and checked: the name could be a link to elsewhere.
        os.close(os.open(folder, READ_FOLDER, dir_fd=database))
    if not each.is_copy:
        with suppress(OSError):
            os.link(each.path, each.path, src_dir_fd=out, dst_dir_fd=database, follow_symlinks=False)
            return
    if not _copy(out, database, each.path, each):
        raise OSError(errno.EIO, "it is not in the snapshot any more")


def _copy(source: int, target: int, path: bytes, like: ObjectFile | None = None) -> bool:
    opened = open_file(source, path)
    if opened is None:
        return False
    try:
        new = open_beneath(target, os.fsdecode(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            copy(opened, new)
            if like is not None:
                os.fchmod(new, like.mode)
                os.utime(new, ns=(like.mtime_ns, like.mtime_ns))
        finally:
            os.close(new)
    finally:
        os.close(opened)
    return True


def _stat(path: bytes, folder: int) -> os.stat_result | None:
    try:
        return os.stat(path, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
