"""The change brought into the person's own folder: their files, without a commit.

Keep true:
1. A file is written only if it is as the round found it, or already as the change has it; so nothing of the
   person's is overwritten, and done again after a crash it is done once.
2. All files are looked at before the first is written.
3. Nothing is written through a link, nor under a name that somebody could have put one at.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from placet.errors import ToolError
from placet.ir.json_value import JsonValue
from placet.ir.tool_spec import Risk
from placet.loops.executors.executor import Act, Bench, Done, Finding
from placet.loops.round import Receipt
from placet.safe_text import clean
from placet.sandbox.lookalikes import GIT, is_read_as

if TYPE_CHECKING:
    from placet.worktree.repository import Repository

_GONE = "gone"
_State = tuple[str, int]
"""The digest of a file, or that it is gone; and whether it can be run."""


_TO_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ApplyPatchExecutor:
    """Writes the changed files into the person's folder."""

    name = "apply_patch"
    risk: Risk = "idempotent"
    needs_change = True

    async def dry_run(self, act: Act, bench: Bench) -> str:
        """What would be done, in words."""
        return f"{len(act.changed)} files of {bench.repository.top} would be changed, and nothing committed"

    async def execute(self, act: Act, bench: Bench) -> Done:
        """Write them."""
        top = _Folder(bench.repository.top)
        files: dict[str, JsonValue] = {}
        mark = _mark_of(act)
        top.clear_up(act.changed, mark)
        async with bench.workshop.export(act.base_tree) as before, bench.workshop.export(act.tree) as after:
            old, new = _Folder(before), _Folder(after)
            to_write: dict[str, _State] = {}
            for path in act.changed:
                wanted, now = new.state(path), top.state(path)
                files[path] = f"{wanted[0]} {wanted[1]}"
                if now == wanted:
                    continue
                if now != old.state(path):
                    raise _changed_since(path)
                to_write[path] = now
            # What goes comes first: a folder may take the place of a file, and a file that of a folder.
            kept = [path for path in to_write if new.state(path)[0] != _GONE]
            try:
                for path in to_write.keys() - set(kept):
                    top.remove(path)
                for path in kept:
                    with new.of(path) as (folder, name):
                        data = _read(folder, name)
                    runs = bool(new.state(path)[1])
                    top.write(path, data, runs=runs, was=to_write[path], mark=mark)
            except OSError as error:
                raise ToolError(
                    f"{clean(path, 300)} could not be brought over: {error.strerror}. Mend that; done again, "
                    "what is there already is left as it is.",
                    retry=False,
                ) from None
        said = f"{len(files)} files were brought into {bench.repository.top}"
        return Done(clean(said, 500), {"files": files})

    async def check(self, receipt: Receipt, repository: Repository) -> Finding:
        """Whether the files are still as the change has them."""
        files = receipt.data.get("files")
        if not isinstance(files, dict) or not files:
            return Finding(holds=False, why="it names no files", seen="record")
        for path, wanted in files.items():
            found = _Folder(repository.top).state(path)
            if f"{found[0]} {found[1]}" != wanted:
                return Finding(holds=False, why=f"{clean(path, 300)} is another by now", seen="world")
        return Finding(holds=True, why=f"all {len(files)} files are as they were left", seen="world")


class _Folder:
    """Files beneath a folder, reached name by name through descriptors: no link on the way is followed."""

    def __init__(self, top: Path) -> None:
        self._top = top

    @contextmanager
    def of(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The folder that holds a path, as a descriptor, and the last name in it.

        Raises:
            FileNotFoundError: a folder on the way is not there.
            ToolError: a link, or no folder, stands on the way.
        """
        *heads, name = path.split("/")
        if any(each in ("", ".", "..") or is_read_as(each, GIT) for each in (*heads, name)):
            raise ToolError(f"{clean(path, 300)} is no path of a file.", retry=False)
        here = os.open(self._top, _TO_FOLDER & ~os.O_NOFOLLOW)
        try:
            for head in heads:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(head, dir_fd=here)
                try:
                    below = os.open(head, _TO_FOLDER, dir_fd=here)
                except OSError as error:
                    if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR):
                        raise _in_the_way(path, head, here) from None
                    raise
                os.close(here)
                here = below
            yield here, name
        finally:
            os.close(here)

    def state(self, path: str) -> _State:
        """How a file is now."""
        try:
            with self.of(path) as (folder, name):
                return _state_in(folder, name, path)
        except (FileNotFoundError, _NoFolder):
            return _GONE, 0

    def remove(self, path: str) -> None:
        """Remove a file, and the folders that are empty then, as git does."""
        with suppress(FileNotFoundError), self.of(path) as (folder, name):
            os.unlink(name, dir_fd=folder)
        head = path
        while "/" in head:
            head = head.rpartition("/")[0]
            try:
                with self.of(head) as (folder, name):
                    os.rmdir(name, dir_fd=folder)
            except (OSError, ToolError):
                return

    def write(self, path: str, data: bytes, *, runs: bool, was: _State, mark: str) -> None:
        """Put a file in its place, whole, unless it is another than it was."""
        with self.of(path, make=True) as (folder, name):
            # The name cannot be known before, and what stands there already is not opened.
            aside = f"{mark}{os.urandom(8).hex()}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(aside, flags, 0o600, dir_fd=folder), "wb") as file:
                try:
                    file.write(data)
                    file.flush()
                    os.fchmod(file.fileno(), 0o755 if runs else 0o644)
                    os.fsync(file.fileno())
                    if _state_in(folder, name, path) != was:
                        raise _changed_since(path)
                    os.rename(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
                except BaseException:
                    with suppress(OSError):
                        os.unlink(aside, dir_fd=folder)
                    raise

    def clear_up(self, paths: Iterable[str], mark: str) -> None:
        """Remove what a killed process has left beside some files."""
        for head in {path.rpartition("/")[0] for path in paths}:
            with suppress(FileNotFoundError, ToolError), self.of(f"{head}/x".lstrip("/")) as (folder, _):
                for name in os.listdir(folder):
                    if name.startswith(mark):
                        with suppress(OSError):
                            os.unlink(name, dir_fd=folder)


class _NoFolder(ToolError):
    """A file stands where a folder would have to be: so there is nothing beneath it."""


def _in_the_way(path: str, head: str, folder: int) -> ToolError:
    with suppress(OSError):
        if stat.S_ISREG(os.lstat(head, dir_fd=folder).st_mode):
            return _NoFolder(
                f"{clean(path, 300)} cannot be written: {clean(head, 300)} is a file.", retry=False
            )
    return ToolError(
        f"{clean(path, 300)} goes through a link ({clean(head, 300)}), so it is not touched.", retry=False
    )


def _changed_since(path: str) -> ToolError:
    return ToolError(
        f"{clean(path, 300)} was changed since the round began, so the change no longer "
        "applies to it. It was not written. Put it back, or let the round be rebased.",
        retry=False,
    )


def _state_in(folder: int, name: str, path: str) -> _State:
    try:
        opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        return _GONE, 0
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
            raise _not_plain(path) from None
        raise ToolError(f"{clean(path, 300)} cannot be read: {error.strerror}.", retry=False) from None
    try:
        seen = os.fstat(opened)
        if stat.S_ISDIR(seen.st_mode):
            return _GONE, 0  # A folder is no file; whether it can make room shows when it has to.
        if not stat.S_ISREG(seen.st_mode):
            raise _not_plain(path)
        with open(opened, "rb", closefd=False) as file:
            return hashlib.file_digest(file, "sha256").hexdigest(), int(bool(seen.st_mode & 0o100))
    finally:
        os.close(opened)


def _not_plain(path: str) -> ToolError:
    return ToolError(f"{clean(path, 300)} is no plain file, so it is not brought over.", retry=False)


def _mark_of(act: Act) -> str:
    """How the names begin under which files of a round are written before they take their places."""
    return f".placet-{hashlib.sha256(act.round.encode()).hexdigest()[:12]}-"


def _read(folder: int, name: str) -> bytes:
    with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder), "rb") as file:
        return file.read()
