"""Taking back what a message of a conversation changed in the folder where tools work.

Before the first call that may change something the folder is kept as it is; taking back brings it to that.
What it was then is kept in turn, so that taking back can be taken back.

Keep true:
1. Nothing that somebody else has changed since the answer ended is taken back unasked; where that is not
   known, nothing is.
2. Where it is known which files the calls of a message can have changed, no other is touched.
3. What cannot be kept, or not be taken back, is told, and stops no message.
4. A snapshot is kept no longer than the conversation is held.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from placet.errors import PlacetError
from placet.ir.call_facts import Recovery
from placet.turns.ending import Call, CallResult
from placet.worktree.file_index import FileIndex, changed, file_index, is_in_repository

if TYPE_CHECKING:
    from placet.runtime.call_facts import Effect
    from placet.sandbox.workspace import Workspace
    from placet.turns.ending import Event
    from placet.worktree.snapshot.recovery import Restored
    from placet.worktree.snapshot.store import Snapshot, Snapshots

_LISTED = 100
_NOT_MADE = ("rejected", "skipped")


class Undone(NamedTuple):
    """What came of taking back."""

    paths: Sequence[str] = ()
    """The files that are as before again, without those of repositories."""
    amount: int = 0
    """How much was put back, with what is in repositories."""
    problem: str = ""
    """Why nothing, or not everything, was taken back."""
    is_done: bool = False
    since: Sequence[str] = ()
    """What others have changed since, and would be lost: nothing was taken back then."""
    is_unsure: bool = False
    """It is not known what others have changed since: nothing was taken back then."""
    unkept: str = ""
    """Why what is there now cannot be kept, and would be lost: nothing was taken back then."""
    is_there_again: bool = False
    """What had been taken back before was put back."""


class Undo:
    """What one conversation can take back: the newest message's changes."""

    def __init__(
        self,
        snapshots: Snapshots,
        workspace: Workspace,
        run_id: str,
        *,
        sealed: Sequence[str] = (),
        reads: Callable[[str], bool] = lambda tool: False,
        writes: Collection[str] = (),
    ) -> None:
        """`sealed` are files that the snapshots leave alone. `reads` says of a tool whether it changes
        nothing; those in `writes` change nothing but the file that their `path` names."""
        self._snapshots = snapshots
        self._workspace = workspace
        self._run_id = run_id
        self._sealed = sealed
        self._reads = reads
        self._writes = writes
        self.note: Callable[[str, dict[str, Any]], None] = lambda kind, data: None
        """Records an event."""
        self.has_past = False
        """Whether the newest message was said to another process, whose changes are not known here."""
        self._taken: str | None = None
        """What the folder is brought back to."""
        self._is_back = False
        """Whether that is what it was before taking back."""
        self._problem = ""
        self._after: FileIndex | None = None
        self._calls: dict[str, Call] = {}
        """Those that may have changed something."""

    def begin(self) -> None:
        """A new message: what was changed before it stays."""
        self._forget()
        self._problem = ""
        self._after = None
        self._is_back = False
        self.has_past = False
        self._calls.clear()

    def heard(self, event: Event) -> None:
        """What the model asks for, and what comes of it."""
        match event:
            case Call() if not self._reads(event.tool):
                self._calls[event.action_id] = event
            case CallResult() if event.status in _NOT_MADE:
                self._calls.pop(event.action_id, None)
            case _:
                pass

    async def before_effect(self) -> None:
        """Something may be changed now."""
        if self._taken is not None or self._problem:
            return
        try:
            taken = await asyncio.to_thread(self._take)
        except (PlacetError, OSError) as error:
            self._problem = str(error)
            return
        self._taken = taken.id
        self._note_taken(taken)

    def _take(self, own: Collection[str] = (), *, is_change: bool = True) -> Snapshot:
        """Keep the folder as it is; where a change follows, no snapshot but `own` can be restored then."""
        snapshots, workspace = self._snapshots, self._workspace
        claim = snapshots.claim(workspace, self._run_id)
        try:
            taken = snapshots.take(workspace, run_id=self._run_id)
            try:
                if is_change:
                    snapshots.overtake(taken.id, workspace, self._run_id, own=own)
            except BaseException:
                snapshots.drop(taken.id)
                raise
            return taken
        finally:
            claim.release()

    async def recovery(self, effect: Effect) -> Recovery | None:
        """How a call of the message that is being answered can be undone; None if this cannot tell."""
        if not effect.may_change_files:
            return None
        paths = effect.preview.paths if effect.preview is not None else ()
        why = self._problem or "there is no snapshot of the folder"
        if self._taken is not None:
            why = await asyncio.to_thread(self._snapshots.why_not_restored, self._taken, paths)
        if why:
            return Recovery(by="none", why=why)
        return Recovery(by="snapshot", command="/undo", scope=effect.scope)

    def end(self) -> None:
        """The message is over: whatever changes from now on is somebody else's."""
        if self._taken is not None:
            self._after = self._look()

    async def take_back(self, *, anyway: bool = False) -> Undone:
        """Bring the folder back to what it was before the newest message changed something; or, if that was
        just done, to what it was before that. With `anyway` also where others have changed it since."""
        target = self._taken
        if target is None:
            return Undone(problem=self._problem)
        before, only = await asyncio.to_thread(self._look), self._only()
        if not anyway:
            if self._after is None:
                return Undone(is_unsure=True)
            since = [path for path in changed(self._after, before) if only is None or path in only]
            if since:
                return Undone(since=since)
        try:
            kept = await asyncio.to_thread(self._take, (target,), is_change=self._is_back)
        except (PlacetError, OSError) as error:
            if not anyway:
                return Undone(unkept=str(error))
            kept = None
        try:
            done = await asyncio.to_thread(self._restore, target, only)
        except (PlacetError, OSError) as error:
            self._drop(kept)
            return Undone(problem=str(error))
        self.note("workspace_restored", {**self._said(target), **_short(msgspec.structs.asdict(done))})
        after = await asyncio.to_thread(self._look)
        left = [*done.problems, *(f"{path}: left out of the snapshot" for path in done.not_restored)]
        problem = "; ".join(left[:_LISTED])
        amount = done.changed + done.removed + done.brought_back
        was_back = self._is_back
        if not amount:
            self._drop(kept)
            return Undone(problem=problem, is_done=True)
        self._forget()
        self._taken, self._after, self._is_back = kept.id if kept else None, after, not was_back
        if kept is not None:
            self._note_taken(kept)
        paths = [path for path in changed(before, after) if not is_in_repository(path)]
        return Undone(paths, amount, problem, is_done=True, is_there_again=was_back)

    def _restore(self, target: str, only: Collection[str] | None) -> Restored:
        claim = self._snapshots.claim(self._workspace, self._run_id)
        try:
            done = self._snapshots.restore(target, self._workspace, only=only)
            if not done.problems and not self._is_back:
                self._snapshots.withdraw(target)
            return done
        finally:
            claim.release()

    def _only(self) -> Collection[str] | None:
        """The files that the calls can have changed; None where that is not known."""
        found: set[str] = set()
        folder = str(self._workspace.folder)
        for call in self._calls.values():
            path = call.parameters.get("path")
            if call.tool not in self._writes or not isinstance(path, str):
                return None
            try:
                named = os.path.join(folder, self._workspace.relative(path))
                # Also where a link leads: that is what was written.
                whole = os.path.realpath(named)
            except (PlacetError, OSError, ValueError):
                continue  # Nothing can have been written there.
            name = os.path.relpath(whole, folder)
            if name == os.curdir or name.split(os.sep)[0] == os.pardir:
                continue
            found.add(name)
        return found if self._calls else None

    def _note_taken(self, taken: Snapshot) -> None:
        said = {"files": taken.files, "bytes": taken.bytes, "left_out": list(taken.left_out[:_LISTED])}
        self.note("workspace_snapshot", {**self._said(taken.id), **said})

    def _said(self, snapshot: str) -> dict[str, Any]:
        return {"snapshot": snapshot, "folder": str(self._workspace.folder)}

    def _look(self) -> FileIndex:
        from placet.sandbox.spot import Closed

        untouched = {*self._workspace.closed().ids, *Closed.of(self._sealed).ids}
        return file_index(str(self._workspace.folder), untouched)

    def _forget(self) -> None:
        if self._taken is not None:
            self._snapshots.drop(self._taken)
            self._taken = None

    def _drop(self, kept: Snapshot | None) -> None:
        if kept is not None:
            self._snapshots.drop(kept.id)

    def close(self) -> None:
        """The conversation is left."""
        self._forget()


def _short(said: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: list(value[:_LISTED]) if isinstance(value, list | tuple) else value
        for name, value in said.items()
    }
