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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING

from placet.sandbox.snapshot.contents import PIECE, open_file, write_all
from placet.truncation import truncate

if TYPE_CHECKING:
    import subprocess

_CONFIG = "[core]\n\trepositoryformatversion = {version}\n\tbare = true\n\tlooseCompression = 1\n{more}"
_SHA256 = "[extensions]\n\tobjectFormat = sha256\n"


def find_git(besides: str) -> str | None:
    """The git program, if there is one that does not lie in the folder `besides`."""
    import shutil

    found = shutil.which("git")
    if found is None:
        return None
    real = os.path.realpath(found)
    return None if os.path.commonpath((real, besides)) == besides else real


class GitStore:
    """A store, and the git processes that fill it and read from it."""

    def __init__(self, git: str, folder: str, hash_name: str = "sha1") -> None:
        """`folder` is made into a store if need be. `hash_name` is how objects are named."""
        self._git = git
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

    def borrow(self, objects: str) -> None:
        """Look for objects also in another database, which must stay as long as this one."""
        with open(os.path.join(self.folder, "objects/info/alternates"), "a", encoding="utf-8") as file:
            # Relative, so that a snapshot may be moved as a whole.
            file.write(os.path.relpath(objects, os.path.join(self.folder, "objects")) + "\n")

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
        arguments = ["hash-object", "-w", "--no-filters", "--stdin-paths", "-t", "blob"]
        process = self.start(arguments, os.fsdecode(where))
        out, said = process.communicate(lines)
        return out.split(), truncate(said.decode("utf-8", "replace").strip(), 300)

    def start(
        self,
        arguments: Sequence[str],
        where: str | None = None,
        more: Mapping[str, str] = {},
        *,
        is_quiet: bool = False,
    ) -> subprocess.Popen[bytes]:
        """Start git on our own store, with nothing of the outside. With `is_quiet` nobody listens to what it
        complains of."""
        import subprocess

        return subprocess.Popen(
            [self._git, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if is_quiet else subprocess.PIPE,
            cwd=where or self.folder,
            env=self._environment(more),
            # A signal from the terminal is for us, and we then decide what becomes of it.
            start_new_session=True,
        )

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        passed = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        return {
            **passed,
            "PATH": os.defpath,
            "HOME": self.folder,
            "LC_ALL": "C",
            "GIT_DIR": self.folder,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            **more,
        }

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


def quoted(path: bytes) -> bytes:
    """A path as git reads it from a list: in quotes, so that any byte can stand in it.

    >>> quoted(b'a "b"\\n')
    b'"a \\\\"b\\\\"\\\\n"'
    """
    escaped = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + escaped + b'"'
