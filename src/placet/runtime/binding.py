"""A runtime bound to a folder: kept before the first effect of a plan, and restored when the plan is aborted.

Keep true:
1. No tool that may change anything is called before the snapshot is whole, and noted in the journal.
2. A restore that has been noted is not done again: what came after it is another plan's work.
3. What could not be restored is told in the result, and whatever it was meant to take back is named.
4. One run at a time is at work in the folder, also of other processes. What another run has done there since
   is not taken back.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from placet.errors import PlacetError, UsageError
from placet.policy.permission import CONFINED
from placet.runtime.journal import Bound, Replay, Restored
from placet.runtime.notes import NotNoted

if TYPE_CHECKING:
    from placet.ir.tool_spec import ToolSchema
    from placet.runtime.execution import Execution
    from placet.runtime.notes import Notes
    from placet.runtime.workers import Workers
    from placet.sandbox.workspace import Workspace
    from placet.tools.tool import Tool
    from placet.worktree.snapshot.claims import Claim
    from placet.worktree.snapshot.store import Snapshot, Snapshots

T = TypeVar("T")

_TOLD = 5
"""So many names stand in an error; the event has more."""
_LISTED = 100
_NOT_CALLED = frozenset({"proposed", "validated", "rejected", "skipped", "canceled"})


class Binding:
    """The folder that plans of a runtime are bound to, and where its snapshots are kept."""

    def __init__(self, workspace: Workspace, snapshots: Snapshots) -> None:
        self.workspace = workspace
        self.snapshots = snapshots

    @property
    def folder(self) -> str:
        """The folder's path."""
        return str(self.workspace.folder)

    def declared(self, tool: Tool) -> Tool:
        """The tool as it is here: what it does in the folder is taken back by restoring the folder.

        That is so of tools that are known to reach nothing else. Of others it is only said, by their label.

        Raises:
            UsageError: it works in another folder, so nothing that it does would be taken back.
        """
        if CONFINED in tool.schema.labels and tool.confined_to not in (None, self.folder):
            raise UsageError(
                f"Tool '{tool.name}' works in {tool.confined_to}, and this Runtime is bound to "
                f"{self.folder}: what it does would not be taken back. Make it for the same folder, as with "
                "basic_tools(workspace)."
            )
        if tool.confined_to is None or not _is_confined(tool.schema) or tool.schema.reversibility is not None:
            return tool
        return tool.redeclared(reversibility="reversible")


def binding_of(
    workspace: Workspace | os.PathLike[str] | str | None, snapshots: Snapshots | os.PathLike[str] | str | None
) -> Binding | None:
    """A binding in the short forms in which people write it. Without `snapshots` they are kept in the
    person's own data folder.

    Raises:
        UsageError: there is no such folder, or there are snapshots and no workspace.
    """
    if workspace is None:
        if snapshots is not None:
            raise UsageError("snapshots are those of a workspace. Give one: workspace=DIR.")
        return None
    from placet.sandbox.workspace import Workspace
    from placet.storage.location import user_folder
    from placet.worktree.snapshot.store import Snapshots

    if not isinstance(workspace, Workspace):
        workspace = Workspace(os.fspath(workspace), closed=[user_folder(os.environ)])
    if not isinstance(snapshots, Snapshots):
        where = user_folder(os.environ) / "snapshots" if snapshots is None else os.fspath(snapshots)
        snapshots = Snapshots(where)
    return Binding(workspace, snapshots)


def is_taken_back(tool: Tool) -> bool:
    """Whether what a tool does is surely taken back by restoring the folder, in a bound runtime."""
    return tool.confined_to is not None and counts_on_restore(tool)


def is_restorable(tool: Tool) -> bool:
    """Whether restoring the folder undoes what a tool does, in a runtime that is bound to its folder."""
    return tool.confined_to is not None and _is_confined(tool.schema) and tool.schema.reversibility is None


def counts_on_restore(tool: Tool) -> bool:
    """Whether what a tool does is said to be taken back by restoring the folder, be it by its label alone."""
    return _is_confined(tool.schema) and tool.schema.reversibility == "reversible"


def _is_confined(schema: ToolSchema) -> bool:
    return CONFINED in schema.labels and schema.risk not in ("read_only", "network")


class BoundRun:
    """A run in a bound folder: which snapshot each of its plans began with."""

    def __init__(self, binding: Binding, workers: Workers, run_id: str, *, is_journaled: bool) -> None:
        self._binding = binding
        self._workers = workers
        self._run_id = run_id
        self._is_journaled = is_journaled
        self._taken: dict[int, str] = {}
        """By the number of the plan."""
        self._restored: dict[int, Restored] = {}
        self._plans: dict[int, Execution] = {}
        """Those that were begun in this process."""
        self._claim: Claim | None = None

    async def claim(self) -> None:
        """Have the folder for this run alone, until it is released.

        Raises:
            UsageError: another run is at work there.
        """
        if self._claim is None:
            snapshots, workspace = self._binding.snapshots, self._binding.workspace
            self._claim = await self._aside(lambda: snapshots.claim(workspace, self._run_id))

    def release(self) -> None:
        """Nothing is done in the folder by this run any more, or not for now."""
        if self._claim is not None:
            self._claim.release()
            self._claim = None

    def recall(self, replay: Replay) -> None:
        """Know what was taken and restored before the run was broken off."""
        self._taken.update(replay.bound)
        self._restored.update(replay.restored)
        for snapshot in self._taken.values():
            self._binding.snapshots.adopt(snapshot, self._run_id)

    async def keep(self, x: Execution, notes: Notes | None) -> str | None:
        """Keep the folder as it is, if the plan may change anything; why that cannot be, if it cannot.

        Raises:
            HoldLost: the run is no longer ours.
        """
        if x.plan in self._restored or not _may_change(x):
            return None
        self._plans[x.plan] = x
        is_new = x.plan not in self._taken
        try:
            await self.claim()
            taken = await self._aside(self._take) if is_new else None
            if taken is not None:
                self._taken[x.plan] = taken.id
            if not x.is_aborted:
                await self._aside(lambda: self._overtake(self._taken[x.plan]))
        except PlacetError as error:
            return str(error)
        if taken is None:
            return None
        x.emit(
            "workspace_snapshot",
            data={
                "snapshot": taken.id,
                "folder": self._binding.folder,
                "files": taken.files,
                "bytes": taken.bytes,
                "left_out": _listed(taken.left_out),
            },
        )
        if notes is not None:
            try:
                await notes.about_to_change(Bound(x.plan, taken.id))
            except NotNoted as error:
                return str(error)
        if _is_cancelled():
            x.stop_canceled()
        return None

    def _take(self) -> Snapshot:
        binding = self._binding
        return binding.snapshots.take(binding.workspace, run_id=self._run_id, durable=self._is_journaled)

    def _overtake(self, snapshot: str) -> None:
        """Before the first change: whoever is killed has done what can no longer be told from another's."""
        binding = self._binding
        binding.snapshots.overtake(
            snapshot, binding.workspace, self._run_id, own=frozenset(self._taken.values())
        )

    def why_not_restored(self, plan: int, paths: Sequence[str]) -> str:
        """Why an abort of a plan would not restore one of these paths, relative to the folder; empty if it
        would. Reads the snapshot."""
        snapshot = self._taken.get(plan)
        if snapshot is None:
            return "there is no snapshot of the folder"
        return self._binding.snapshots.why_not_restored(snapshot, paths)

    async def restore(self, x: Execution, notes: Notes | None) -> Restored | None:
        """Bring the folder back to what the plan found; None if the plan changed nothing.

        Raises:
            HoldLost: the run is no longer ours.
        """
        snapshot = self._taken.get(x.plan)
        if snapshot is None or x.plan in self._restored:
            return self._restored.get(x.plan)
        if notes is not None:
            await notes.about_to_take_back()
        found = self._told(x, await self._aside(lambda: self._bring_back(snapshot)))
        if notes is not None:
            await notes.restored(found)
        return found

    def give_up(self, x: Execution) -> None:
        """The run broke off, and nobody will go on with it: leave the folder as its plan found it."""
        if x.plan in self._taken and x.plan not in self._restored:
            self._told(x, self._bring_back(self._taken[x.plan]))
        self.drop()

    def drop(self) -> None:
        """The run has ended for good: nothing will be restored any more."""
        for plan, snapshot in self._taken.items():
            x = self._plans.get(plan)
            if x is not None and not _has_begun(x):
                self._binding.snapshots.withdraw(snapshot)
            self._binding.snapshots.drop(snapshot)
        self._taken.clear()

    def _bring_back(self, snapshot: str) -> dict[str, Any]:
        """Restore it, and say in the words of an event what came of it."""
        said: dict[str, Any] = {"snapshot": snapshot, "folder": self._binding.folder}
        try:
            done = self._binding.snapshots.restore(
                snapshot, self._binding.workspace, durable=self._is_journaled
            )
        except (PlacetError, OSError) as error:
            return {**said, "problems": [str(error)]}
        if not done.problems:
            self._binding.snapshots.withdraw(snapshot)
        return {**said, **msgspec.structs.asdict(done)}

    def _told(self, x: Execution, said: dict[str, Any]) -> Restored:
        x.emit(
            "workspace_restored",
            data={key: _listed(value) if isinstance(value, list) else value for key, value in said.items()},
        )
        found = Restored(x.plan, said.get("not_restored", ()), said["problems"])
        self._restored[x.plan] = found
        return found

    async def _aside(self, work: Callable[[], T]) -> T:
        """Do it on a thread, and wait for it whatever else is wanted: half of it is worse than all of it."""
        job = self._workers.submit(asyncio.get_running_loop(), work)
        while not job.future.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait((job.future,))
        is_done, answer = job.future.result()
        if not is_done:
            raise answer
        found: T = answer
        return found


def words_of_restore(restored: Restored | None) -> str:
    """What is added to the error of a plan that was aborted; empty if its folder is as it was."""
    if restored is None:
        return ""
    words = ""
    if restored.problems:
        words += f"; the workspace could not be restored wholly: {_few(restored.problems)}"
    if restored.not_restored:
        words += f"; left out of the snapshot, and not as before: {_few(restored.not_restored)}"
    return words


def _few(names: Sequence[str]) -> str:
    more = len(names) - _TOLD
    return "; ".join(names[:_TOLD]) + (f"; and {more:,} more" if more > 0 else "")


def _listed(names: Sequence[str]) -> list[Any]:
    more = len(names) - _LISTED
    return [*names[:_LISTED], *([f"and {more:,} more"] if more > 0 else [])]


def _may_change(x: Execution) -> bool:
    """Whether the plan calls a tool that is not for reading only."""
    for action in x.actions[: x.size]:
        tool = x.services.tools.get(action.tool) if action.tool is not None else None
        if tool is not None and tool.schema.risk != "read_only":
            return True
    return False


def _has_begun(x: Execution) -> bool:
    """Whether a tool that is not for reading only may have been called."""
    return any(
        status not in _NOT_CALLED and tool is not None and tool.schema.risk != "read_only"
        for status, tool in zip(x.status, x.tools, strict=True)
    )


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
