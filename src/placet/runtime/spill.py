"""Outputs that are too long to be shown: kept in files, one folder for each run.

The folder may lie in a project that came from elsewhere. So it is reached name by name on open descriptors,
and a link that somebody has put there leads nowhere.

Keep true:
1. Nothing is written or deleted outside the folder.
2. What is kept is for its owner alone, and git does not see it.
3. The same text twice is one file; half a file never stands under its name.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from placet.truncation import truncate

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Spill:
    """A folder for outputs that are too long to show, with one subfolder for each run."""

    def __init__(self, root: Path, *inside: str) -> None:
        """Describe the folder; it is created when something is stored.

        Args:
            root: A trusted folder.
            inside: Names of nested folders beneath it; links among them are not followed.
        """
        self._root = root
        self._inside = inside

    @property
    def folder(self) -> Path:
        """Path of the folder."""
        return self._root.joinpath(*self._inside)

    def keep(self, run_id: str, name: str, text: str) -> Path:
        """Store a text of a run and return its file.

        Args:
            run_id: Id of the run.
            name: Name of the text, such as an action id.
            text: The text.

        Raises:
            OSError: it cannot be written.
        """
        data = text.encode(errors="replace")
        run, file = _file_name(run_id), f"{_file_name(name)}-{sha256(data).hexdigest()[:12]}.txt"
        _make_private(self._root)
        with self._open(run, make=True) as folder, suppress(FileExistsError):
            _write(folder, file, data)
        return self.folder / run / file

    def drop(self, runs: Iterable[str]) -> None:
        """Delete everything that some runs have stored.

        Args:
            runs: Ids of the runs.
        """
        names = {_file_name(run) for run in runs}
        self._delete(lambda name, _: name in names)

    def prune(self, before: float, *, but: Iterable[str] = ()) -> None:
        """Delete everything of runs that have stored nothing since a time.

        Args:
            before: Seconds since the epoch.
            but: Ids of runs that stay.
        """
        stays = {_file_name(run) for run in but}
        self._delete(lambda name, found: name not in stays and found.st_mtime < before)

    def _delete(self, is_meant: Callable[[str, os.stat_result], bool]) -> None:
        with suppress(OSError), self._open() as folder:
            for name in os.listdir(folder):
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode) and is_meant(name, found):
                    shutil.rmtree(name, ignore_errors=True, dir_fd=folder)

    @contextmanager
    def _open(self, *below: str, make: bool = False) -> Iterator[int]:
        here = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for depth, name in enumerate((*self._inside, *below), start=1):
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(name, 0o700, dir_fd=here)
                inner = os.open(name, _FOLDER, dir_fd=here)
                os.close(here)
                here = inner
                if make and depth == len(self._inside):
                    with suppress(FileExistsError):
                        _write(here, ".gitignore", b"*\n")
            yield here
        finally:
            os.close(here)


def _write(folder: int, name: str, data: bytes) -> None:
    """Make a file, whole or not at all.

    Raises:
        FileExistsError: it is there already.
    """
    unfinished = f".{os.urandom(8).hex()}.tmp"
    opened = os.open(unfinished, _NEW_FILE, 0o600, dir_fd=folder)
    try:
        with os.fdopen(opened, "wb") as file:
            file.write(data)
        os.link(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    finally:
        os.unlink(unfinished, dir_fd=folder)


def _make_private(folder: Path) -> None:
    """Make a folder and those above it, as far as they are missing, for its owner alone."""
    for each in (*reversed(folder.parents), folder):
        # Not with `parents=True`: that makes them for everybody to read.
        with suppress(FileExistsError):
            each.mkdir(mode=0o700)


def _file_name(given: str) -> str:
    """A name for a file, whatever an id holds; two ids never share one."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", truncate(given, 60))
    if plain and plain == given:
        return plain
    return f"{plain}-{sha256(given.encode(errors='replace')).hexdigest()[:12]}"
