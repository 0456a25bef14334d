"""The facts about a call that are put into a question: what confines it, what undoes it, what it edits.

Keep true:
1. Each fact comes from whoever enforces or declares it. Where that fails, the question says so.
2. Finding out changes nothing, and never keeps a question from being asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

from placet.errors import PlacetError
from placet.ir.action import Action
from placet.ir.call_facts import Confinement, FileEdit, Preview, Recovery
from placet.runtime.binding import is_taken_back
from placet.safe_text import clean
from placet.validator import undo_action, undo_of

if TYPE_CHECKING:
    from placet.runtime.gated import Gated
    from placet.tools.tool import Tool

_LONG = 300
_STATE = Confinement(runs_in="state", network="none")
_PYTHON = Confinement(runs_in="python")
UNCONFINED = Confinement(runs_in="program")
"""A program that acts with all rights of the person."""


class Effect(NamedTuple):
    """A call that is about to be asked about, for whoever knows how it can be undone."""

    tool: Tool
    """The tool that would be called."""
    confinement: Confinement
    """Protections around the call."""
    preview: Preview | None
    """Of a file tool what it would change; None where that cannot be told."""

    @property
    def may_change_files(self) -> bool:
        """Whether restoring files can undo anything of it."""
        return self.confinement.folder is not None or self.confinement.runs_in not in ("placet", "model")

    @property
    def scope(self) -> Literal["all", "folder"]:
        """What restoring its folder undoes: all of it only where it can reach nothing else."""
        return (
            "all" if self.confinement.folder is not None and self.confinement.network == "none" else "folder"
        )


RecoveryOf = Callable[[Effect], Awaitable["Recovery | None"]]
"""Says how an effect is undone from outside of its plan; None leaves that to what the tool declares."""


class CallFacts(NamedTuple):
    """What is known of a call, besides what confines it."""

    recovery: Recovery
    edit: FileEdit | None = None
    diff: str | None = None


async def confinement_of(action: Action, tool: Tool | None) -> Confinement:
    """What is enforced around a call."""
    if tool is None or action.type != "tool_call":
        return _STATE
    if tool.confinement is None:
        return _PYTHON
    try:
        return await tool.confinement()
    except (PlacetError, OSError) as error:
        return Confinement(runs_in="unknown", why=clean(error, _LONG))


def isolation_words(confinement: Confinement) -> str | None:
    """The part of a confinement that an approval depends on; None where a tool has always the same one."""
    if confinement.runs_in != "sandbox":
        return None
    hosts = " ".join(confinement.hosts)
    return f"{confinement.isolation} by {confinement.by}, network {confinement.network} {hosts}".rstrip()


async def facts_of(
    x: Gated, i: int, action: Action, tool: Tool | None, confinement: Confinement, recovery: RecoveryOf | None
) -> CallFacts:
    """What a person is told of a call; `recovery` knows how it can be undone from outside."""
    preview = await _preview(x, i, action, tool)
    edit, diff = None, None
    if tool is not None and tool.preview is not None and tool.confined_to is not None:
        paths, shows = (preview.paths, preview.shows) if preview is not None else ((), ())
        edit = FileEdit(folder=tool.confined_to, paths=paths, shows=shows)
        diff = preview.diff if preview is not None else None
    elif tool is not None and tool.explain is not None:
        explained = await asyncio.to_thread(tool.explain, action.parameters, x.run.tenant)
        diff = x.services.events.redactor.text(clean(explained, lines=True))
    undone = await _recovery(x, i, action, tool, confinement, preview, recovery)
    return CallFacts(undone, edit, diff)


async def note_recovery(x: Gated, i: int, action: Action, tool: Tool) -> None:
    """Note, before an edit, the command with which a person can undo it after an abort that does not."""
    if x.size < 2 or undo_of(action, tool) != "irreversible":
        return  # A plan of one action aborts before the edit, or not at all.
    own = tool.recovery() if tool.recovery is not None else None
    if own is not None and own.is_by_hand:
        x.undo_commands[action.id] = own.command
        return
    recovery = x.services.desk.recovery if x.services.desk is not None else None
    if recovery is None:
        return
    preview = await _preview(x, i, action, tool)
    if preview is None or not preview.paths:
        return
    if all(path in x.undo_paths for path in preview.paths):
        # Edited before: what brings back the file of then undoes this edit too.
        commands = dict.fromkeys(x.undo_paths[path] for path in preview.paths)
    else:
        found = await _recovery(x, i, action, tool, await confinement_of(action, tool), preview, recovery)
        if not found.is_by_hand:
            return
        commands = {found.command: None}
        x.undo_paths |= dict.fromkeys(preview.paths, found.command)
    x.undo_commands[action.id] = " && ".join(commands)


async def _preview(x: Gated, i: int, action: Action, tool: Tool | None) -> Preview | None:
    if tool is None or tool.preview is None:
        return None
    inflow = x.inflow(i)
    if any("secret" in inflow.at(name) for name in action.parameters):
        return None  # A diff would show what must not be shown.
    redact = x.services.events.redactor.text
    return await asyncio.to_thread(tool.preview, action.parameters, redact)


async def _recovery(
    x: Gated,
    i: int,
    action: Action,
    tool: Tool | None,
    confinement: Confinement,
    preview: Preview | None,
    recovery: RecoveryOf | None,
) -> Recovery:
    if tool is None or action.type != "tool_call":
        return Recovery(by="rollback" if action.type == "state_write" else "not_needed")
    if tool.schema.risk == "read_only":
        return Recovery(by="not_needed")
    kind = undo_of(action, tool)
    compensation = undo_action(x.graph, i)
    if kind == "compensable" and compensation is not None:
        return Recovery(by="compensation", command=compensation.tool or compensation.type)
    if kind == "irreversible" and tool.schema.undo != "irreversible":
        return Recovery(by="none", why="the plan declares it irreversible")
    if x.restores is not None and is_taken_back(tool):
        why = await asyncio.to_thread(x.restores, preview.paths if preview is not None else ())
        return Recovery(by="none", why=why) if why else Recovery(by="snapshot")
    found = tool.recovery() if tool.recovery is not None else None
    if found is None and recovery is not None:
        try:
            found = await recovery(Effect(tool, confinement, preview))
        except (PlacetError, OSError) as error:
            found = Recovery(by="none", why=clean(error, _LONG))
    if found is not None:
        return found
    # Of what only a bound workspace takes back, the tool itself has declared nothing.
    is_declared = tool.schema.undo != "irreversible" and not is_taken_back(tool)
    return Recovery(by="declared") if is_declared and kind == "reversible" else Recovery(by="none")
