"""Snapshots of workspaces, in a folder of their own.

A snapshot keeps everything beneath a workspace: contents, modes, times of files, links as links, empty
folders. It does not keep that two names are one file (each gets its content back), nor extended attributes.
What programs can make again is left out if it is large, and named; so are pipes, sockets and devices. The
git folder of the workspace is neither kept nor touched: no command can write it.

Keep true:
1. Taking one changes nothing in the workspace: no index, no reference, no stash, no access right.
2. Restoring twice, or after having been broken off anywhere, ends the same.
3. A snapshot is there whole or not at all.
4. What lies here is for nobody else: the folder is private.
5. A snapshot since which another run has worked in the folder is not restored.
6. A snapshot that could not be restored wholly is kept for whoever mends it by hand, and he is told where.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from placet.errors import ToolError, UsageError
from placet.sandbox.spot import Closed, Id, id_in
from placet.sandbox.workspace import Workspace
from placet.storage.lease import boot_id
from placet.truncation import truncate_repr
from placet.worktree.snapshot.blobs import Blobs, sync
from placet.worktree.snapshot.claims import (
    Claim,
    claim,
    folders_of,
    later_runs,
    mark_later,
    overlap,
    tidy,
    unmark_later,
)
from placet.worktree.snapshot.git_state import INDEX
from placet.worktree.snapshot.manifest import (
    FILE_NAME,
    Manifest,
    read_manifest,
    shown,
    write_manifest,
)
from placet.worktree.snapshot.owner import Owner, is_gone, read_owner, this_process
from placet.worktree.snapshot.recovery import Recovery, Restored, folders_of_path
from placet.worktree.snapshot.removal import READ_FOLDER, remove
from placet.worktree.snapshot.taking import STORE, Settings, Taking

_ID = re.compile(r"[0-9a-f]{16}\Z")
_OWNER = "owner"
_NEW = "new-"
_WANTED = "wanted"
"""Stands in a snapshot that could not be restored wholly."""
_OLD_S = 30 * 86400.0
"""So long a snapshot of a process that is gone waits for its run to be resumed, or for a person."""
_ABANDONED_S = 3600.0
"""A folder that nobody has finished making for so long is not finished any more."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What was kept."""

    id: str
    files: int
    bytes: int
    """Of all files; what a repository has already takes no room."""
    left_out: Sequence[str]
    """What was not kept, and why: `PATH: REASON`."""


class Snapshots:
    """Snapshots beneath one folder, made if need be; it is best on the file system of the workspaces.

    `leave_alone` are files and folders in a workspace that are neither kept nor brought back: what belongs to
    whoever started the work, such as a log. What the workspace has closed is left alone in any case, and so
    is every `.placet`.
    """

    def __init__(
        self, folder: str | Path, *, settings: Settings | None = None, leave_alone: Iterable[str | Path] = ()
    ) -> None:
        self.folder = os.path.abspath(folder)
        self._settings = settings or Settings()
        self._leave_alone = [os.path.abspath(each) for each in leave_alone]
        self._wanted: set[str] = set()
        """Those that could not be restored wholly. On a full disk nothing else may know of it."""

    def claim(self, workspace: Workspace, run_id: str) -> Claim:
        """The workspace for one run alone, of all that keep their snapshots here.

        Raises:
            UsageError: another run is at work in it, or around or beneath it; or that cannot be known.
        """
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            return claim(self.folder, str(workspace.folder), run_id)
        except OSError as error:
            raise self._unkept(workspace, error) from error

    def take(self, workspace: Workspace, *, run_id: str = "", durable: bool = False) -> Snapshot:
        """Keep a workspace as it is now. With `durable` it outlives also the end of the machine. Snapshots
        that nobody has asked for in a long time go.

        Raises:
            UsageError: it is too large, or cannot be read or kept; nothing is left behind then.
        """
        made = os.urandom(8).hex()
        into = os.path.join(self.folder, f"{_NEW}{made}")
        self.prune(older_than_s=_OLD_S)
        try:
            self._make(into, run_id, workspace)
            manifest = Taking(str(workspace.folder), into, self._untouched(workspace), self._settings).all(
                workspace.fd
            )
            write_manifest(manifest, into)
            os.rename(into, self._path(made))
            if durable:
                sync(self.folder)
        except OSError as error:
            self._forget(into)
            raise self._unkept(workspace, error) from error
        except BaseException:
            self._forget(into)
            raise
        files = [entry for entry in manifest.tree.entries if entry.kind == "file"]
        return Snapshot(
            id=made,
            files=len(files),
            bytes=sum(entry.size for entry in files),
            left_out=[f"{shown(each.path)}: {each.why}" for each in manifest.tree.left_out],
        )

    def restore(
        self,
        id: str,
        workspace: Workspace,
        *,
        durable: bool = False,
        only: Collection[str] | None = None,
    ) -> Restored:
        """Bring a workspace back to a snapshot. What could not be is told, and the rest brought back; and a
        snapshot of which not everything could be is kept, also when it is dropped. With `only`, paths of
        files relative to the workspace, nothing else is touched.

        Raises:
            ToolError: there is no such snapshot, it is of another folder, another run has worked in the
                folder since, or the workspace is busy; nothing has changed then.
        """
        folder = self._path(id)
        try:
            found = self._restore(id, workspace, durable, only)
        except ToolError as error:
            self._want(id)
            if not os.path.isdir(folder):
                raise
            raise ToolError(f"{error} The snapshot is kept in {folder}.", retry=error.retry) from None
        if not found.problems:
            self._want_no_more(id)
            return found
        self._want(id)
        told = f"the snapshot is kept in {folder}, for {_OLD_S / 86400:.0f} days"
        return msgspec.structs.replace(found, problems=[told, *found.problems])

    def _restore(
        self, id: str, workspace: Workspace, durable: bool, only: Collection[str] | None
    ) -> Restored:
        folder = self._path(id)
        try:
            manifest = read_manifest(folder)
            later = later_runs(folder)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise ToolError(
                f"The workspace {workspace.folder} cannot be restored: the snapshot {id} in {self.folder} "
                f"cannot be read ({why}).",
                retry=False,
            ) from None
        if manifest.tree.top != os.fsencode(workspace.folder):
            raise ToolError(
                f"The snapshot {id} is of {shown(manifest.tree.top)}, and not of {workspace.folder}.",
                retry=False,
            )
        if not _is_same_folder(manifest, workspace.fd):
            raise ToolError(
                f"Nothing in {workspace.folder} was restored: it is another folder than the one that the "
                "snapshot was taken of, which was moved or removed.",
                retry=False,
            )
        if later:
            runs = " and ".join(f"'{each}'" for each in later)
            raise ToolError(
                f"Nothing in {workspace.folder} was restored: run {runs} has worked there since, and that "
                "would be lost. Take back by hand what is not to stay.",
                retry=False,
            )
        store = os.path.join(folder, STORE)
        with workspace.lock, closing(Blobs(store, manifest.hash_name)) as blobs:
            index = os.path.join(store, INDEX)
            recovery = Recovery(manifest, blobs, self._untouched(workspace), index)
            if only is None:
                found = recovery.all(workspace.fd)
            else:
                found = recovery.some(workspace.fd, frozenset(map(os.fsencode, only)))
            if durable:
                sync(str(workspace.folder))
        return found

    def why_not_restored(self, id: str, paths: Sequence[str]) -> str:
        """Why a restore of the snapshot would not bring back one of these paths, relative to the workspace;
        empty if it would."""
        try:
            manifest = read_manifest(self._path(id))
            later = later_runs(self._path(id))
        except (OSError, ValueError):
            return "the snapshot of the folder cannot be read"
        if later:
            return f"run '{later[0]}' has worked in the folder since"
        top = os.path.realpath(manifest.tree.top)
        left_out = {each.path: each.why for each in manifest.tree.left_out}
        for path in paths:
            # Where a link leads is what is written.
            real = os.path.relpath(os.path.realpath(os.path.join(top, os.fsencode(path))), top)
            for part in (real, *folders_of_path(real)):
                if part in left_out:
                    return f"{shown(part)} is left out of the snapshot: {left_out[part]}"
        return ""

    def overtake(self, id: str, workspace: Workspace, run_id: str, *, own: Collection[str] = ()) -> None:
        """A run is about to change the workspace, of which it has taken the snapshot `id`: from now on no
        other snapshot of it is restored, but for those of the run's `own`. Claim the workspace first.

        Raises:
            UsageError: that cannot be noted.
        """
        here = folders_of(str(workspace.folder))
        try:
            for name in os.listdir(self.folder):
                if _ID.match(name) is None or name == id or name in own:
                    continue
                owner = self._owner(self._path(name))
                if owner is None or not owner.folders or overlap(here, owner.folders):
                    with suppress(FileNotFoundError):
                        mark_later(self._path(name), id, run_id)
        except OSError as error:
            raise self._unkept(workspace, error) from error

    def withdraw(self, id: str) -> None:
        """Nothing is left of what was done since the snapshot `id`: others may be restored again."""
        with suppress(OSError):
            for name in os.listdir(self.folder):
                if _ID.match(name) is not None:
                    unmark_later(self._path(name), id)

    def adopt(self, id: str, run_id: str) -> None:
        """This process holds the snapshot from now on; nothing happens if there is none."""
        folder = self._path(id)
        with suppress(OSError):
            before = self._owner(folder)
            self._own(folder, run_id, before.folders if before is not None else ())

    def drop(self, id: str) -> None:
        """Remove a snapshot; nothing happens if there is none, or if it could not be restored wholly."""
        folder = self._path(id)
        if id not in self._wanted and not os.path.exists(os.path.join(folder, _WANTED)):
            self._remove(folder)

    def _remove(self, folder: str) -> None:
        with suppress(OSError):
            # First: without it, half a snapshot cannot be taken for one.
            os.unlink(os.path.join(folder, FILE_NAME))
        self._forget(folder)

    def _want(self, id: str) -> None:
        self._wanted.add(id)
        with suppress(OSError):
            os.close(os.open(os.path.join(self._path(id), _WANTED), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC))

    def _want_no_more(self, id: str) -> None:
        self._wanted.discard(id)
        with suppress(OSError):
            os.unlink(os.path.join(self._path(id), _WANTED))

    def prune(
        self, is_needed: Callable[[str], bool] = lambda run_id: False, *, older_than_s: float = 0.0
    ) -> list[str]:
        """Remove the snapshots of processes that are gone; returns their ids.

        `is_needed` is asked with the id of a run: whether it can still be resumed, and so may be taken back.
        With `older_than_s` only those that were taken, or held anew, so long ago. One that could not be
        restored wholly stays for 30 days in any case.
        """
        removed: list[str] = []
        with suppress(OSError):
            for name in sorted(os.listdir(self.folder)):
                folder = os.path.join(self.folder, name)
                if _ID.match(name) is not None:
                    owner = self._owner(folder)
                    if owner is not None and (not is_gone(owner) or is_needed(owner.run_id)):
                        continue
                    if self._is_young(folder, older_than_s):
                        continue
                    self._remove(folder)
                    removed.append(name)
                elif name.startswith(_NEW) and self._is_abandoned(folder):
                    self._forget(folder)
            tidy(self.folder)
        return removed

    def _make(self, into: str, run_id: str, workspace: Workspace) -> None:
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        os.mkdir(into, 0o700)
        self._own(into, run_id, folders_of(str(workspace.folder)))

    def _own(self, folder: str, run_id: str, folders: Sequence[str]) -> None:
        temporary = os.path.join(folder, f"{_OWNER}.tmp")
        with open(temporary, "wb") as file:
            file.write(msgspec.json.encode(this_process(run_id, folders)))
        os.replace(temporary, os.path.join(folder, _OWNER))

    def _owner(self, folder: str) -> Owner | None:
        return read_owner(os.path.join(folder, _OWNER))

    def _unkept(self, workspace: Workspace, error: OSError) -> UsageError:
        return UsageError(
            f"The workspace {workspace.folder} cannot be kept to be restored: {error.strerror or error}. "
            f"Snapshots are kept in {self.folder}; see that there is room."
        )

    def _is_young(self, folder: str, older_than_s: float) -> bool:
        for name, age_s in ((_OWNER, older_than_s), (FILE_NAME, older_than_s), (_WANTED, _OLD_S)):
            with suppress(OSError):
                # One from the future is young as well: a clock was wrong, then or now.
                if time.time() - os.stat(os.path.join(folder, name)).st_mtime < age_s:
                    return True
        return False

    def _is_abandoned(self, folder: str) -> bool:
        owner = self._owner(folder)
        if owner is not None:
            return is_gone(owner)
        with suppress(OSError):
            return time.time() - os.stat(folder).st_mtime > _ABANDONED_S
        return False

    def _path(self, id: str) -> str:
        if _ID.match(id) is None:
            raise UsageError(f"{truncate_repr(id, 40)} is not the id of a snapshot.")
        return os.path.join(self.folder, id)

    def _forget(self, folder: str) -> None:
        with suppress(OSError):
            parent = os.open(self.folder, READ_FOLDER)
            try:
                remove(os.fsencode(os.path.basename(folder)), parent)
            finally:
                os.close(parent)

    def _untouched(self, workspace: Workspace) -> frozenset[Id]:
        own = id_in(workspace.fd, self.folder)
        ids = {*workspace.closed().ids, *Closed.of(self._leave_alone).ids}
        return frozenset(ids if own is None else {*ids, own})


def _is_same_folder(manifest: Manifest, workspace: int) -> bool:
    """Whether an open folder is the one that the snapshot is of."""
    tree, found = manifest.tree, os.fstat(workspace)
    if not tree.inode:
        return True  # Taken by a version that did not ask.
    has_started_anew = manifest.boot != boot_id()
    return found.st_ino == tree.inode and (has_started_anew or found.st_dev == tree.device)
