"""Contents of files as blobs in the private git folder of a snapshot.

Objects of the person's repository are hard-linked into it, so what is committed already takes no room, and
nothing that is done to the repository takes it away. Other contents are written beside them as loose objects,
without compression. Without a repository, or across file systems, all contents are.

Keep true:
1. No configuration, hook, attribute or filter of a repository is read or run: the git folder is ours.
2. Bytes in, bytes out: no filter and no line ending comes between, and what is damaged is not written.
3. A blob does not change when its file does: only objects of git, which are never rewritten, are linked.
4. A file is opened beneath its tree and never through a link.
5. Only linked packs need a git process: without a repository none is started.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from placet.errors import ToolError
from placet.sandbox.beneath import open_beneath
from placet.sandbox.git_folder import GitFolder, read
from placet.sandbox.spot import write_all
from placet.worktree.git import arguments, git_sync, variables
from placet.worktree.objects import config_text, write_git_folder
from placet.worktree.snapshot.git_state import INDEX

if TYPE_CHECKING:
    import subprocess

PIECE = 1 << 20
_READ_FILE = os.O_RDONLY | os.O_NOFOLLOW
_LONG = re.compile(rb"^\s*objectformat\s*=\s*\"?sha256", re.IGNORECASE | re.MULTILINE)
_FAN_OUT = re.compile(r"[0-9a-f]{2}|pack")
_MOST_INDEX = 512 << 20
_DAMAGED = "what it held is not in the snapshot any more, or is damaged"


class Blobs:
    """The blobs in one git folder. Close it: reading from packs starts a process."""

    def __init__(self, folder: str, hash_name: str = "sha1") -> None:
        """`hash_name` is the hash by which objects are named."""
        self.folder = folder
        self._objects = os.path.join(folder, "objects")
        self._hash_name = hash_name
        self._reading: subprocess.Popen[bytes] | None = None

    def make(self, repository: GitFolder | None) -> None:
        """Make the git folder, and link the objects of a repository into it, if they can be linked.

        Raises:
            OSError: it cannot be made.
        """
        config = config_text(self._hash_name == "sha256", {}, bare=True)
        write_git_folder(Path(self.folder), {"HEAD": b"ref: refs/heads/none\n", "config": config})
        if repository is not None:
            _link(os.path.join(repository.common, "objects"), self._objects)

    # Writing

    def keep(self, top: int, paths: Sequence[bytes]) -> list[bytes | None]:
        """Keep what these files hold, and return the names of the blobs; None for a file that cannot be read.

        Paths are relative to the folder that `top` is a descriptor of.

        Raises:
            OSError: it cannot be kept.
        """
        if not os.listdir(os.path.join(self._objects, "pack")):
            return [_reading(top, path, self._put) for path in paths]
        names = [_reading(top, path, self._name) for path in paths]
        known = self._known([name for name in names if name is not None])
        return [
            name if name is None or name in known else _reading(top, path, self._put)
            for name, path in zip(names, paths, strict=True)
        ]

    def _known(self, names: Sequence[bytes]) -> set[bytes]:
        """Which of these blobs are there, in packs too."""
        asked = b"".join(name + b"\n" for name in names)
        try:
            listed = git_sync(["cat-file", "--batch-check"], git_dir=self.folder, stdin=asked)
        except ToolError as error:
            raise OSError(errno.EIO, str(error)) from error
        return {line.split()[0] for line in listed.splitlines() if line.split()[1:2] == [b"blob"]}

    def _put(self, source: int) -> bytes | None:
        """Write a loose object, unless it is there; None if the file was changed meanwhile."""
        name = self._name(source)
        size = os.lseek(source, 0, os.SEEK_CUR)
        path = self._path(name)
        if os.path.exists(path):
            return name
        os.lseek(source, 0, os.SEEK_SET)
        packing = zlib.compressobj(0, memLevel=1)
        with suppress(FileExistsError):
            os.mkdir(os.path.dirname(path), 0o700)
        # Under its name at once: a snapshot that is not whole is none.
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            digest = self._digest(size)
            written = packing.compress(b"blob %d\0" % size)
            while piece := os.read(source, PIECE):
                digest.update(piece)
                write_all(opened, written + packing.compress(piece))
                written = b""
            write_all(opened, written + packing.flush())
        finally:
            os.close(opened)
        if digest.hexdigest().encode() == name:
            return name
        os.unlink(path)
        return None

    def _name(self, opened: int) -> bytes:
        digest = self._digest(os.fstat(opened).st_size)
        while piece := os.read(opened, PIECE):
            digest.update(piece)
        return digest.hexdigest().encode()

    def _digest(self, size: int) -> hashlib._Hash:
        return hashlib.new(self._hash_name, b"blob %d\0" % size, usedforsecurity=False)

    # Reading

    def is_same(self, content: bytes, opened: int) -> bool:
        """Whether an open file holds just that.

        Raises:
            OSError: the file cannot be read.
        """
        return self._name(opened) == content

    def write(self, content: bytes, opened: int) -> None:
        """Write a blob to an empty file.

        Raises:
            OSError: it cannot be written, or is not there any more.
        """
        digest = hashlib.new(self._hash_name, usedforsecurity=False)
        try:
            pieces = self._loose(content)
        except FileNotFoundError:
            pieces = self._from_pack(content)
        rest = head = b""
        for piece in pieces:
            digest.update(piece)
            if not head:
                rest += piece
                head, has_head, piece = rest.partition(b"\0")
                if not has_head:
                    head = b""
                    continue
            write_all(opened, piece)
        if digest.hexdigest().encode() != content:
            raise OSError(errno.EIO, _DAMAGED)

    def _loose(self, content: bytes) -> Iterator[bytes]:
        """The pieces of a loose object, its head first."""
        return _unpacked(open(self._path(content), "rb", buffering=0))

    def _from_pack(self, content: bytes) -> Iterator[bytes]:
        """The same of an object in a pack."""
        if self._reading is None or self._reading.poll() is not None:
            self.close()
            self._reading = self._start()
        asked, said = self._reading.stdin, self._reading.stdout
        assert asked is not None
        assert said is not None
        asked.write(content + b"\n")
        asked.flush()
        answer = said.readline().split()
        if len(answer) != 3 or answer[1] != b"blob":
            raise OSError(errno.EIO, _DAMAGED)
        size = int(answer[2])
        yield b"blob %d\0" % size
        while size:
            piece = said.read(min(PIECE, size))
            if not piece:
                raise OSError(errno.EIO, "git stopped in the middle of a file")
            size -= len(piece)
            yield piece
        said.read(1)

    def _start(self) -> subprocess.Popen[bytes]:
        import subprocess

        return subprocess.Popen(
            arguments(["cat-file", "--batch"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            env=variables(self.folder),
            # A signal from the terminal is for us, and we then decide what becomes of it.
            start_new_session=True,
        )

    def close(self) -> None:
        """End the process that reads."""
        process, self._reading = self._reading, None
        if process is not None:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()
            process.wait()

    def _path(self, name: bytes) -> str:
        text = name.decode("ascii")
        return os.path.join(self._objects, text[:2], text[2:])

    def ignored(self, repository: GitFolder) -> set[bytes] | None:
        """What a repository ignores: paths of files, and of folders that it ignores whole. None if git cannot
        tell. Our git folder stands in for the repository, with a copy of its index, which stays."""
        index = os.path.join(self.folder, INDEX)
        try:
            for folder, name, target in (
                (repository.git_dir, "index", index),
                (f"{repository.common}/info", "exclude", os.path.join(self.folder, "info/exclude")),
            ):
                data = read(folder, name, _MOST_INDEX)
                if data is not None:
                    Path(target).write_bytes(data)
            listed = git_sync(
                ["ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"],
                git_dir=self.folder,
                environment={"GIT_WORK_TREE": repository.top, "GIT_INDEX_FILE": index},
            )
        except (OSError, ToolError):
            return None
        return {path.rstrip(b"/") for path in listed.split(b"\0") if path}


def hash_name(repository: GitFolder | None) -> str:
    """The hash by which objects of a repository are named."""
    config = b"" if repository is None else read(repository.common, "config", _MOST_INDEX) or b""
    return "sha256" if _LONG.search(config) is not None else "sha1"


def _reading(top: int, path: bytes, work: Callable[[int], bytes | None]) -> bytes | None:
    """Do something with a regular file beneath a folder; None if there is none, or it may not be read."""
    try:
        opened = open_beneath(top, os.fsdecode(path), _READ_FILE)
    except OSError:
        return None
    try:
        return work(opened) if stat.S_ISREG(os.fstat(opened).st_mode) else None
    finally:
        os.close(opened)


def sync(folder: str) -> None:
    """Have the file system of a folder write everything to the disk."""
    import sys

    if sys.platform == "linux":
        import ctypes

        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with suppress(AttributeError):
                ctypes.CDLL(None, use_errno=True).syncfs(opened)
                return
        finally:
            os.close(opened)
    os.sync()


def _unpacked(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        unpacking = zlib.decompressobj()
        left = b""
        try:
            while not unpacking.eof and (left := left or file.read(PIECE)):
                yield unpacking.decompress(left, PIECE)
                left = unpacking.unconsumed_tail
        except zlib.error:
            raise OSError(errno.EIO, _DAMAGED) from None


def _link(objects: str, into: str) -> None:
    """Give every file with objects a second name, or none of them if that cannot be."""
    linked: list[str] = []
    try:
        for folder in os.listdir(objects):
            if _FAN_OUT.fullmatch(folder) is None:
                continue
            os.makedirs(os.path.join(into, folder), mode=0o700, exist_ok=True)
            for name in os.listdir(os.path.join(objects, folder)):
                # Packed by somebody else meanwhile, it is in a pack: of those all names are there or none.
                if not name.startswith(("tmp_", ".tmp-")):
                    target = os.path.join(into, folder, name)
                    os.link(os.path.join(objects, folder, name), target)
                    linked.append(target)
    except OSError:
        for target in linked:
            os.unlink(target)
