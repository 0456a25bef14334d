"""The objects of a repository: linked into the snapshot, and brought back where they are missing.

An object file is never rewritten by git: its name is the digest of what it holds. So a second name for the
same file keeps it, and costs nothing. Where a command may well write to the files, they are copied. Objects
that came since are left: nothing names them, and somebody else may have brought them.

Keep true:
1. Nothing in a real database is removed, but for a file that cannot be what its name says.
2. An object that was changed in place is told of, not brought back as if it were right.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import zlib
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from placet.sandbox.beneath import open_beneath
from placet.sandbox.snapshot.contents import PIECE, copy, open_file
from placet.sandbox.snapshot.manifest import ObjectFile
from placet.sandbox.snapshot.removal import READ_FOLDER
from placet.sandbox.snapshot.repository import is_long_name

Problems = list[tuple[bytes, OSError]]
Files = Sequence[tuple[bytes, os.stat_result]]
_OBJECT = re.compile(rb"[0-9a-f]{38}(?:[0-9a-f]{24})?\Z")


class NotLinked(Exception):
    """The objects lie on another file system, or are not ours, and are too many to copy."""


def keep_objects(
    database: int, files: Files, target: str, *, most_copied: int, copies: bool = False
) -> list[ObjectFile]:
    """Link them into the folder `target`, which is made; copied where that cannot be. With `copies` all
    of them are copied.

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
            is_copy = copies
            try:
                if not copies:
                    os.link(path, path, src_dir_fd=database, dst_dir_fd=into, follow_symlinks=False)
            except FileNotFoundError:
                continue  # It was packed meanwhile, by somebody else.
            except OSError:
                is_copy = True
                most_copied -= found.st_size
                if most_copied < 0:
                    raise NotLinked from None
            if is_copy and not _copy(database, into, path):
                continue
            # Now: to be linked is a change, too.
            now = _stat(path, database) or found
            mode = stat.S_IMODE(found.st_mode)
            kept.append(
                ObjectFile(path, found.st_size, found.st_mtime_ns, mode, is_copy, now.st_ino, now.st_ctime_ns)
            )
    finally:
        os.close(into)
    return kept


def bring_back(kept: Sequence[ObjectFile], source: str, database: int, since_ns: int) -> tuple[int, Problems]:
    """Link what is missing in an open database back, or is not what it was: how many were, and what could not
    be. `since_ns` is when the snapshot was whole."""
    brought = 0
    problems: Problems = []
    out = os.open(source, READ_FOLDER)
    try:
        for each in kept:
            try:
                there = _stat(each.path, database)
                is_same = there is not None and (there.st_ino, there.st_ctime_ns, there.st_size) == (
                    each.inode,
                    each.ctime_ns,
                    each.size,
                )
                if is_same and each.ctime_ns < since_ns:
                    continue  # Whatever was done to it later would show in its time.
                here = _stat(each.path, out)
                if here is None or here.st_size != each.size or not _is_whole(each, out):
                    # Linked, it is the very file that was changed. Its time may differ: git touches objects
                    # that it would write again.
                    raise OSError(errno.EIO, "it was changed in place")
                if there is not None and (there.st_ino == here.st_ino or _is_equal(each.path, out, database)):
                    continue
                if there is not None:
                    os.unlink(each.path, dir_fd=database)
                _put(each, out, database)
                brought += 1
            except OSError as error:
                problems.append((each.path, error))
    finally:
        os.close(out)
    return brought, problems


def _is_whole(each: ObjectFile, out: int) -> bool:
    """Whether a file in the snapshot can be what its name says. A copy is: nobody else has it."""
    if each.is_copy:
        return True
    folder, _, name = each.path.rpartition(b"/")
    opened = open_file(out, each.path)
    if opened is None:
        return False
    with open(opened, "rb", buffering=0) as file:
        if folder != b"pack":
            return not _OBJECT.match(name) or _name_of(file, len(name)) == folder + name
        return not name.endswith((b".pack", b".idx")) or _ends_in_digest(file, name, each.size)


def _name_of(file: IO[bytes], length: int) -> bytes:
    """The name of the object in an open file, by what it holds."""
    digest = hashlib.new("sha1" if length < 40 else "sha256", usedforsecurity=False)
    packed = zlib.decompressobj()
    try:
        while piece := file.read(PIECE):
            while piece:
                digest.update(packed.decompress(piece, PIECE))
                piece = packed.unconsumed_tail
        digest.update(packed.flush())
    except zlib.error:
        return b""
    return digest.hexdigest().encode() if packed.eof else b""


def _ends_in_digest(file: IO[bytes], name: bytes, size: int) -> bool:
    """Whether the last bytes of an open pack are the digest of those before."""
    hash_name, length = ("sha256", 32) if is_long_name(name) else ("sha1", 20)
    digest = hashlib.new(hash_name, usedforsecurity=False)
    rest = size - length
    while rest > 0 and (piece := file.read(min(PIECE, rest))):
        digest.update(piece)
        rest -= len(piece)
    return file.read(length) == digest.digest()


def _is_equal(path: bytes, some: int, other: int) -> bool:
    """Whether a file holds the same in both folders."""
    opened = [open_file(folder, path) for folder in (some, other)]
    try:
        if None in opened:
            return False
        while True:
            one, two = (os.read(each, PIECE) for each in opened if each is not None)
            if one != two:
                return False
            if not one:
                return True
    finally:
        for each in opened:
            if each is not None:
                os.close(each)


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
