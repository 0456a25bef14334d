"""Taking a plan back: compensations in reverse, the state, the workspace, the names of what stays done.

Keep true:
1. Compensations run in reverse order of completion, pass the gates, and need no budget and no approval but
   that of the action they take back.
2. The state is undone after them, so that what they wrote goes too.
3. A compensation that fails is reported, never hidden, and does not stop the others.
4. A bound workspace is restored after both: compensations may have worked in it.
"""

from __future__ import annotations

import msgspec

from placet.ir.action import Action, ActionCompensation, ToolCompensation
from placet.ir.json_value import JsonValue
from placet.ir.result import CANCELED_PREFIX, CompensationResult
from placet.runtime.binding import BoundRun, counts_on_restore, is_taken_back
from placet.runtime.execution import Execution
from placet.runtime.journal import Restored
from placet.runtime.notes import Notes
from placet.state.store import MISSING


class Undone(msgspec.Struct, frozen=True, kw_only=True):
    """What taking a plan back came to."""

    compensations: list[CompensationResult]
    irreversible: list[str]
    undo_commands: dict[str, str]
    """Of those, the commands with which a person can undo them, where they are known."""
    workspace: Restored | None = None
    """How restoring it went, if the plan was bound to one and may have changed it."""

    @property
    def is_incomplete(self) -> bool:
        """Whether something could not be taken back."""
        return any(c.status != "succeeded" for c in self.compensations)


async def undo(x: Execution, bound: BoundRun | None = None, notes: Notes | None = None) -> Undone:
    """Take back everything the execution did, as far as it can be."""
    done = list(x.finished)
    compensations = [
        await _compensate(x, i)
        for i in reversed(done)
        if i not in x.answered and x.undo_of(i) == "compensable" and x.actions[i].compensation is not None
    ]
    changed = x.take_back()
    x.forget_successes()
    restored: dict[str, JsonValue] = {t.key: t.new for t in changed if t.new is not MISSING}
    removed: list[str] = [t.key for t in changed if t.new is MISSING]
    x.emit("state_snapshot", data={"state": restored})
    x.emit("state_rollback", data={"restored": sorted(restored), "removed": sorted(removed)})
    workspace = await bound.restore(x, notes) if bound is not None else None
    for i in done:
        result = x.results[i]
        assert result is not None
        x.results[i] = msgspec.structs.replace(result, rolled_back=True)
    irreversible = _irreversible(x, workspace)
    return Undone(
        compensations=compensations,
        irreversible=irreversible,
        undo_commands={name: x.undo_commands[name] for name in irreversible if name in x.undo_commands},
        workspace=workspace,
    )


def _irreversible(x: Execution, restored: Restored | None) -> list[str]:
    """Actions that took effect, or may have, and that nothing can take back."""
    is_whole = restored is not None and not restored.problems
    return [
        x.actions[i].id
        for i in range(x.size)
        if i not in x.graph.targets
        and i not in x.answered
        and (
            (x.status[i] == "unknown" and not (is_whole and _was_taken_back(x, i)))
            or (_took_effect(x, i) and _is_final(x, i))
            or (_took_effect(x, i) and not is_whole and _was_to_be_restored(x, i, restored))
        )
    ]


def _took_effect(x: Execution, i: int) -> bool:
    """Whether its tool did its work, also if the answer could not be used."""
    return x.status[i] == "succeeded" or i in x.bad_answers


def _was_taken_back(x: Execution, i: int) -> bool:
    """Whether a restore takes back whatever it did, as it can only have been in the workspace."""
    tool = x.tools[i]
    return tool is not None and is_taken_back(tool)


def _was_to_be_restored(x: Execution, i: int, restored: Restored | None) -> bool:
    """Whether its effect should have gone with the restore, which did not bring everything back."""
    tool = x.tools[i]
    return restored is not None and tool is not None and counts_on_restore(tool)


def _is_final(x: Execution, i: int) -> bool:
    kind = x.undo_of(i)
    # No gate lets the second through now; but a resumed run may have passed before its tool was declared so.
    return kind == "irreversible" or (kind == "compensable" and x.actions[i].compensation is None)


async def _compensate(x: Execution, i: int) -> CompensationResult:
    """Run the compensation of one action that took effect."""
    owner = x.actions[i]
    cancel = x.run.cancel
    if cancel is not None and cancel.hard:
        error = f"{CANCELED_PREFIX}{cancel.reason}"
        x.emit("compensation_failed", owner.id, data={"error": error})
        return CompensationResult(action_id=owner.id, status="failed", error=error)
    compensation = owner.compensation
    target: int | None = None
    if isinstance(compensation, ActionCompensation):
        target = x.graph.index[compensation.action_id]
        action = x.actions[target]
        data: dict[str, JsonValue] = {"action": action.id}
    else:
        assert isinstance(compensation, ToolCompensation)
        name = f"{owner.id}.compensation"
        action = Action(id=name, tool=compensation.tool, parameters=compensation.parameters)
        data = {"tool": action.tool}
    is_over = x.was_undone(i)
    if not is_over:
        x.emit("compensation_started", owner.id, data=data)
    result = await x.run_aside(action, i)
    if target is not None:
        x.status[target] = result.status
        x.results[target] = result
    if result.status == "succeeded":
        if not is_over:
            x.emit("compensation_succeeded", owner.id, data=data)
        return CompensationResult(action_id=owner.id, status="succeeded")
    if not is_over:
        x.emit("compensation_failed", owner.id, data={**data, "error": result.error})
    status = "failed" if result.status == "skipped" else result.status
    return CompensationResult(action_id=owner.id, status=status, error=result.error)  # type: ignore[arg-type]
