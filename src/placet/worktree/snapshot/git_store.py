"""Contents in a git object store of our own: what a repository has already is not kept twice.

The store is a bare repository that nobody else knows. The objects of the real one are borrowed through
`alternates` from where they were linked into the snapshot, so nothing that is done to the real one takes them
away.

Keep true:
1. No configuration, hook, attribute or filter of the real repository is read or run: git is pointed at our
   own store, and the settings of the person and of the system are turned off.
2. Bytes in, bytes out: no filter and no line ending comes between.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING

from placet.sandbox.git_folder import GitFolder, read
from placet.truncation import truncate
from placet.worktree.git import arguments, quoted, variables
from placet.worktree.snapshot.contents import PIECE, open_file, write_all
from placet.worktree.snapshot.git_state import INDEX

if TYPE_CHECKING:
    import subprocess

_CONFIG = "[core]\n\trepositoryformatversion = {version}\n\tbare = true\n\tlooseCompression = 1\n{more}"
_LONG = re.compile(rb"^\s*objectformat\s*=\s*\"?sha256", re.IGNORECASE | re.MULTILINE)
_FAN_OUT = re.compile(r"[0-9a-f]{2}|pack")
_MOST_INDEX = 512 << 20
_WAIT_S = 60.0
_SHA256 = "[extensions]\n\tobjectFormat = sha256\n"


class GitStore:
    """A store, and the git processes that fill it and read from it."""

    def __init__(self, folder: str, hash_name: str = "sha1") -> None:
        """`folder` is made into a store if need be. `hash_name` is how objects are named."""
        self.folder = folder
        self._hash_name = hash_name
        self._reading: subprocess.Popen[bytes] | None = None
        if not os.path.exists(os.path.join(folder, "HEAD")):
            self._make()

    def _make(self) -> None:
        for name in ("objects/info", "refs", "info"):
            os.makedirs(os.path.join(self.folder, name), mode=0o700, exist_ok=True)
        is_new = self._hash_name == "sha256"
        config = _CONFIG.format(version=int(is_new), more=_SHA256 if is_new else "")
        for name, text in (("config", config), ("HEAD", "ref: refs/heads/none\n")):
            with open(os.path.join(self.folder, name), "w", encoding="ascii") as file:
                file.write(text)

    def borrow(self, objects: str, links: str) -> None:
        """Take the objects of a repository as known. They are linked into the folder `links`, since nobody
        promises that the repository keeps them; where they cannot be linked, nothing is borrowed."""
        if not _link(objects, links):
            return
        with open(os.path.join(self.folder, "objects/info/alternates"), "a", encoding="utf-8") as file:
            # Relative, so that a snapshot may be moved as a whole.
            file.write(os.path.relpath(links, os.path.join(self.folder, "objects")) + "\n")

    # Keeping

    def keep(self, top: int, where: bytes, paths: Sequence[bytes]) -> list[bytes | None]:
        """Have git take them in, as they are."""
        found: list[bytes | None] = []
        while len(found) < len(paths):
            rest = paths[len(found) :]
            names, words = self._hash(where, rest)
            found += names
            if len(names) == len(rest):
                break
            # It stopped at a file that it cannot read. If we can, something else is wrong.
            opened = open_file(top, rest[len(names)])
            if opened is not None:
                os.close(opened)
                raise OSError(errno.EIO, f"git could not keep {os.fsdecode(rest[len(names)])}: {words}")
            found.append(None)
        return found

    def _hash(self, where: bytes, paths: Sequence[bytes]) -> tuple[list[bytes], str]:
        """The names of what could be kept, up to the first that could not; and what git said."""
        lines = b"".join(quoted(path) + b"\n" for path in paths)
        argv = ["hash-object", "-w", "--no-filters", "--stdin-paths", "-t", "blob"]
        process = self.start(argv, os.fsdecode(where))
        out, said = process.communicate(lines)
        return out.split(), truncate(said.decode("utf-8", "replace").strip(), 300)

    def start(
        self,
        argv: Sequence[str],
        where: str | None = None,
        more: Mapping[str, str] = {},
        *,
        is_quiet: bool = False,
    ) -> subprocess.Popen[bytes]:
        """Start git on our own store, with nothing of the outside. With `is_quiet` nobody listens to what it
        complains of."""
        import subprocess

        return subprocess.Popen(
            arguments(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if is_quiet else subprocess.PIPE,
            cwd=where or self.folder,
            env={**variables(self.folder), **more},
            # A signal from the terminal is for us, and we then decide what becomes of it.
            start_new_session=True,
        )

    # Bringing back

    def is_same(self, content: bytes, opened: int) -> bool:
        """Compare by name: git's own name for what the file holds."""
        digest = hashlib.new(self._hash_name, b"blob %d\0" % os.fstat(opened).st_size, usedforsecurity=False)
        while piece := os.read(opened, PIECE):
            digest.update(piece)
        return digest.hexdigest().encode() == content

    def write(self, content: bytes, opened: int) -> None:
        """Have git write it out."""
        source, size = self._ask(content)
        while size:
            piece = source.read(min(PIECE, size))
            if not piece:
                raise OSError(errno.EIO, "git stopped in the middle of a file")
            write_all(opened, piece)
            size -= len(piece)
        source.read(1)

    def _ask(self, content: bytes) -> tuple[IO[bytes], int]:
        if self._reading is None or self._reading.poll() is not None:
            self.close()
            self._reading = self.start(["cat-file", "--batch"], is_quiet=True)
        process = self._reading
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(content + b"\n")
        process.stdin.flush()
        answer = process.stdout.readline().split()
        if len(answer) != 3 or answer[1] != b"blob":
            raise OSError(errno.EIO, "what it held is not in the snapshot any more, or is damaged")
        return process.stdout, int(answer[2])

    def close(self) -> None:
        """End the process that reads."""
        process, self._reading = self._reading, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        process.wait()

    def ignored(self, repository: GitFolder) -> set[bytes] | None:
        """What a repository ignores: paths of files, and of folders that it ignores whole. None if git cannot
        tell. The store stands in for the repository: with a copy of its index, and with our own settings."""
        import subprocess

        index = os.path.join(self.folder, INDEX)
        try:
            for folder, name, target in (
                (repository.git_dir, "index", index),
                (
                    os.path.join(repository.common, "info"),
                    "exclude",
                    os.path.join(self.folder, "info/exclude"),
                ),
            ):
                data = read(folder, name, _MOST_INDEX)
                if data is not None:
                    with open(target, "wb") as file:
                        file.write(data)
            process = self.start(
                ["ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"],
                repository.top,
                {"GIT_WORK_TREE": repository.top, "GIT_INDEX_FILE": index},
            )
            try:
                out, _ = process.communicate(timeout=_WAIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                return None
        except OSError:
            return None
        if process.returncode != 0:
            return None
        return {path.rstrip(b"/") for path in out.split(b"\0") if path}


def hash_name(repository: GitFolder) -> str:
    """How the objects of a repository are named."""
    config = read(repository.common, "config", _MOST_INDEX) or b""
    return "sha256" if _LONG.search(config) is not None else "sha1"


def _link(objects: str, links: str) -> bool:
    """Give every file with objects a second name; false if that cannot be. Such a file is never rewritten."""
    import shutil

    try:
        for folder in os.listdir(objects):
            if _FAN_OUT.fullmatch(folder) is None:
                continue
            os.makedirs(os.path.join(links, folder), mode=0o700)
            for name in os.listdir(os.path.join(objects, folder)):
                # Packed by somebody else meanwhile, it is in a pack: of those all names are there or none.
                if not name.startswith(("tmp_", ".tmp-")):
                    os.link(os.path.join(objects, folder, name), os.path.join(links, folder, name))
    except OSError:
        shutil.rmtree(links, ignore_errors=True)
        return False
    return os.path.isdir(links)
