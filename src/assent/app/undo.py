"""Taking back what a message of a conversation changed in the folder where tools work.

Before the first call that may change something the folder is kept as it is; taking back brings it to that.

Keep true:
1. Nothing that somebody else has changed since the answer ended is taken back unasked.
2. What cannot be kept, or not be taken back, is told, and stops no message.
3. A snapshot is kept no longer than the conversation is held.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from assent.errors import AssentError
from assent.storage.location import PROJECT_FOLDER

if TYPE_CHECKING:
    from assent.sandbox.snapshot.recovery import Restored
    from assent.sandbox.snapshot.store import Snapshot, Snapshots
    from assent.sandbox.spot import Id
    from assent.sandbox.workspace import Workspace

Spots = Mapping[str, tuple[int, int, int]]
"""Each file by its path in the folder, with what changes when it does."""

_MOST_SPOTS = 300_000
_LISTED = 100
_SKIPPED = frozenset({".git", PROJECT_FOLDER})
"""Other programs write there while nobody changes anything."""


class Undone(NamedTuple):
    """What came of taking back."""

    paths: Sequence[str] = ()
    """The files that are as before again."""
    amount: int = 0
    """How much was put back, with what is in repositories."""
    problem: str = ""
    """Why nothing, or not everything, was taken back."""
    is_done: bool = False
    since: Sequence[str] = ()
    """What others have changed since, and would be lost: nothing was taken back then."""


class Undo:
    """What one conversation can take back: the newest message's changes."""

    def __init__(
        self,
        snapshots: Snapshots,
        workspace: Workspace,
        run_id: str,
        *,
        sealed: Sequence[str] = (),
    ) -> None:
        """`sealed` are files that the snapshots leave alone."""
        self._snapshots = snapshots
        self._workspace = workspace
        self._run_id = run_id
        self._sealed = sealed
        self.note: Callable[[str, dict[str, Any]], None] = lambda kind, data: None
        """Records an event."""
        self._taken: str | None = None
        self._problem = ""
        self._after: Spots | None = None

    def begin(self) -> None:
        """A new message: what was changed before it stays."""
        self._forget()
        self._problem = ""
        self._after = None

    async def before_effect(self) -> None:
        """Something may be changed now."""
        if self._taken is not None or self._problem:
            return
        taken = await asyncio.to_thread(self._take)
        if taken is not None:
            said = {"files": taken.files, "bytes": taken.bytes, "left_out": list(taken.left_out[:_LISTED])}
            self.note("workspace_snapshot", {**self._said(taken.id), **said})

    def _take(self) -> Snapshot | None:
        snapshots, workspace = self._snapshots, self._workspace
        try:
            claim = snapshots.claim(workspace, self._run_id)
            try:
                taken = snapshots.take(workspace, run_id=self._run_id)
                self._taken = taken.id
                snapshots.overtake(taken.id, workspace, self._run_id)
            finally:
                claim.release()
        except (AssentError, OSError) as error:
            self._problem = str(error)
            self._forget()
            return None
        return taken

    def end(self) -> None:
        """The message is over: whatever changes from now on is somebody else's."""
        if self._taken is not None:
            self._after = self._look()

    async def take_back(self, *, anyway: bool = False) -> Undone:
        """Bring the folder back to what it was before the newest message changed something; with `anyway`
        also where others have changed it since."""
        taken = self._taken
        if taken is None:
            return Undone(problem=self._problem)
        before = await asyncio.to_thread(self._look)
        since = changed(self._after, before) if self._after is not None else []
        if since and not anyway:
            return Undone(since=since)
        try:
            done = await asyncio.to_thread(self._restore, taken)
        except (AssentError, OSError) as error:
            return Undone(problem=str(error))
        self.note("workspace_restored", {**self._said(taken), **_short(msgspec.structs.asdict(done))})
        self._forget()
        paths = changed(before, await asyncio.to_thread(self._look))
        left = [*done.problems, *(f"{path}: left out of the snapshot" for path in done.not_restored)]
        amount = done.changed + done.removed + done.brought_back
        return Undone(paths, amount, "; ".join(left[:_LISTED]), is_done=True)

    def _restore(self, taken: str) -> Restored:
        claim = self._snapshots.claim(self._workspace, self._run_id)
        try:
            done = self._snapshots.restore(taken, self._workspace)
            if not done.problems:
                self._snapshots.withdraw(taken)
            return done
        finally:
            claim.release()

    def _said(self, snapshot: str) -> dict[str, Any]:
        return {"snapshot": snapshot, "folder": str(self._workspace.folder)}

    def _look(self) -> Spots:
        from assent.sandbox.spot import Closed

        untouched = {*self._workspace.closed().ids, *Closed.of(self._sealed).ids}
        return spots(str(self._workspace.folder), untouched)

    def _forget(self) -> None:
        if self._taken is not None:
            self._snapshots.drop(self._taken)
            self._taken = None

    def close(self) -> None:
        """The conversation is left."""
        self._forget()


def changed(one: Spots, other: Spots) -> list[str]:
    """The files in which two looks differ."""
    return sorted(path for path in {*one, *other} if one.get(path) != other.get(path))


def spots(folder: str, untouched: Container[Id] = ()) -> Spots:
    """The files beneath a folder as they are now, as far as it can be read, up to a great many; what is
    `untouched` is nobody's business here."""
    found: dict[str, tuple[int, int, int]] = {}
    folders = [folder]
    while folders and len(found) < _MOST_SPOTS:
        with suppress(OSError), os.scandir(folders.pop()) as listed:
            for entry in listed:
                if entry.name in _SKIPPED:
                    continue
                with suppress(FileNotFoundError):
                    seen = entry.stat(follow_symlinks=False)
                    if (seen.st_dev, seen.st_ino) in untouched:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                        continue
                    name = os.path.relpath(entry.path, folder)
                    found[name] = (seen.st_mtime_ns, seen.st_size, seen.st_ino)
    return found


def _short(said: dict[str, Any]) -> dict[str, Any]:
    return {
        name: list(value[:_LISTED]) if isinstance(value, list | tuple) else value
        for name, value in said.items()
    }
