"""Runs as rows of a list: which kind each is, and what it is about.

Keep true: of what a run was asked to do, which is private, only the words that say what it is about are
shown, without secrets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import msgspec

from placet.agents.kept import agent_of
from placet.app.coder import session_of
from placet.assistant.kept import kept_of
from placet.errors import PlacetError
from placet.inference.messages import Text
from placet.ir.json_value import JsonValue
from placet.ir.to_dict import ToDict
from placet.loops.round import LEADER as ROUND
from placet.render.runs import Led
from placet.runtime.journal import LED_BY
from placet.truncation import truncate

if TYPE_CHECKING:
    from placet.app.app import Records
    from placet.durable.sql import RunSummary
    from placet.ir.proposal import Proposal
    from placet.redaction import Redactor

RunKind = Literal["plan", "task", "chat", "agent", "code", "round", "turns", "other"]
"""Kind of a run: a plan, a task or a chat of an assistant, a run of an agent, a coding session, a round of a
loop, the turns that one of the last two began, or one of a program."""
_LONGEST_TITLE = 300


class RunRow(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """A run in a list."""

    run_id: str
    """Id of the run."""
    kind: RunKind
    """Kind of the run."""
    title: str
    """What it is about."""
    status: str
    """The outcome; `running` while a process works on it; `interrupted` if none does."""
    source: str
    """Who proposed it."""
    tenant: str | None
    """Tenant of the run."""
    folder: str | None
    """Where it was started; None if a program did."""
    parent: str | None
    """The run that started it."""
    actions: int
    """Number of actions of its first plan."""
    begun: float
    """When it began, in seconds since the epoch."""
    ended: float | None
    """When it ended, in seconds since the epoch."""
    holder: str | None
    """The process that works on it."""
    nonzero: int
    """Number of actions that succeeded and whose command ended with a nonzero exit code."""
    waits_for_message: bool = False
    """A conversation that waits for nothing but the next message."""


def rows_of(records: Records, found: Sequence[RunSummary], redactor: Redactor) -> list[RunRow]:
    """Runs as rows."""
    led = led_runs(records, found, redactor)
    return [_row(summary, led.get(summary.run_id), redactor) for summary in found]


def _row(summary: RunSummary, led: Led | None, redactor: Redactor) -> RunRow:
    kind: RunKind = "plan" if summary.actions else "other"
    title = led.task if led is not None else ""
    if led is not None and led.kind is not None:
        kind = led.kind
    if not title:
        title = _named_plan(summary.context) or summary.source or summary.proposal_id
    return RunRow(
        run_id=summary.run_id,
        kind=kind,
        title=truncate(redactor.text(title), _LONGEST_TITLE),
        status=summary.status,
        source=summary.source,
        tenant=summary.tenant,
        folder=summary.folder,
        parent=summary.parent,
        actions=summary.actions,
        begun=summary.begun,
        ended=summary.ended,
        holder=summary.holder,
        nonzero=summary.nonzero,
        waits_for_message=led is not None and led.is_left,
    )


def _named_plan(context: Mapping[str, JsonValue]) -> str:
    plan = context.get("plan")
    return plan if isinstance(plan, str) else ""


def led_runs(records: Records, found: Sequence[RunSummary], redactor: Redactor) -> dict[str, Led]:
    """Those among them that a model leads; without secrets."""
    made: dict[str, Led] = {}
    for summary in found:
        if summary.actions:
            continue  # A plan.
        with suppress(PlacetError):  # A program may keep runs of which only it knows what they are.
            proposal = records.journal.record(summary.run_id).proposal
            led = _led(records, summary, proposal)
            made[summary.run_id] = led._replace(task=redactor.text(led.task))
    return made


def _led(records: Records, summary: RunSummary, proposal: Proposal) -> Led:
    if (session := session_of(proposal.context)) is not None:
        # Of its iterations the source says enough.
        is_whole = session == summary.run_id
        return Led(
            str(proposal.context.get("intent", "")) if is_whole else "", kind="code" if is_whole else "turns"
        )
    if proposal.context.get(LED_BY) == ROUND:
        loop, number = proposal.context.get("loop"), proposal.context.get("round")
        return Led(f"{loop}" if loop else "", kind="round" if number == summary.run_id else "turns")
    if (agent := agent_of(proposal.context)) is not None:
        is_named = agent.spec.id in summary.source
        return Led(agent.task if is_named else f"{agent.spec.id}: {agent.task}", kind="agent")
    kept = kept_of(proposal)
    is_left = False
    if kept.is_chat and summary.status == "waiting":
        result = records.journal.shown(summary.run_id)
        is_left = result is not None and all(each.kind == "message" for each in result.waiting)
    parts = kept.task.parts if kept.task is not None else ()
    task = " ".join(part.text for part in parts if isinstance(part, Text))
    return Led(task, is_left, "chat" if kept.is_chat else "task")
