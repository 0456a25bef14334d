"""Everything that waits for a person, over all runs, and what the person says to it.

Keep true:
1. What is listed can be decided now; what was decided anywhere is gone with the next look.
2. What belongs to a tenant is listed for that tenant and for whoever sees all of them. What has no tenant,
   such as a coding session, is for the latter alone.
3. Deciding records, and nothing else; whoever holds the run, or an engine, goes on with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from placet.app.approvals import hidden_places, without_secrets
from placet.approvals.sql import has_approvals
from placet.coder.session import BRANCH
from placet.coder.store_sql import has_sessions
from placet.errors import PlacetError, StorageUnavailable
from placet.ir.call_facts import Confinement, FileEdit, Recovery
from placet.ir.json_value import JsonValue
from placet.loops.sql import has_rounds
from placet.render.call_facts import format_confinement, format_recovery, is_safe
from placet.truncation import truncate

if TYPE_CHECKING:
    from placet.app.app import Records
    from placet.approvals.approval import Approval
    from placet.durable.sql import RunSummary
    from placet.redaction import Redactor

MOST = 500
"""Items of each kind that are listed."""
_TITLE = 200


class _Item(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    id: str
    """Id of what is to be decided."""
    run_id: str
    """Id of the run that waits."""
    title: str
    """What it is about, in a line."""
    asked_at: float
    """Since when it waits, in seconds since the epoch."""
    expires_at: float | None = None
    """Until when it can be decided, in seconds since the epoch. `None`: no limit."""


class ApprovalNeeded(_Item, frozen=True, kw_only=True, tag="approval"):
    """A call that needs a person's approval."""

    action_id: str
    tool: str
    parameters: dict[str, JsonValue]
    risk: str
    reversibility: str
    reasons: list[str]
    """Why approval is needed: rules and postures, one sentence each."""
    trail: list[str] | None = None
    """The path by which untrusted data came to the call, where a flow rule asks."""
    mark: str | None = None
    """The label of that data."""
    preview: str | None = None
    """What would change, as a diff or a text."""
    confinement: Confinement | None = None
    confinement_text: str | None = None
    """The same in words, as the command line says it."""
    is_confined: bool = False
    """Whether it is known that something confines the call."""
    recovery: Recovery | None = None
    recovery_text: str | None = None
    """The same in words, as the command line says it."""
    can_undo: bool = False
    """Whether it is known that something undoes the call."""
    edit: FileEdit | None = None
    compensation: dict[str, JsonValue] | None = None
    offers_edits: bool = False
    agent: str | None = None
    tier: str | None = None
    tenant: str | None = None
    folder: str | None = None
    isolation: str = "none"
    fingerprint: str
    hidden: int = 0
    """Number of places that are not shown because they are, or look, secret."""


class RoundEscalated(_Item, frozen=True, kw_only=True, tag="round"):
    """A change that a round of a loop may not make without a person; see its diff with `/rounds/ID/diff`."""

    loop: str
    number: int
    level: str
    summary: str
    verdict: str | None
    verified: bool
    reasons: list[str]
    fingerprint: str
    repository: str


class QuestionAsked(_Item, frozen=True, kw_only=True, tag="question"):
    """A question of a model in a coding session."""

    text: str


class ContractProposed(_Item, frozen=True, kw_only=True, tag="contract"):
    """Checks that a model drafted, and a person has to confirm."""

    checks: list[dict[str, JsonValue]]
    repository: str


class ChangeReady(_Item, frozen=True, kw_only=True, tag="change"):
    """A change of a coding session that passes its checks; see its diff with `/code/ID/diff`."""

    repository: str
    branch: str
    checks: list[dict[str, JsonValue]]
    needs_person: dict[str, str]
    """Files of the change that a person has to look at, each with the reason."""


class OutcomeUnknown(_Item, frozen=True, kw_only=True, tag="outcome"):
    """An action of which nobody knows whether its effect happened."""

    action_id: str
    reason: str
    needs_output: bool = False
    """Whether `done` must say what it answered."""
    tenant: str | None = None


Need: TypeAlias = (
    ApprovalNeeded | RoundEscalated | QuestionAsked | ContractProposed | ChangeReady | OutcomeUnknown
)
"""Something that waits for a person, told apart by `kind`."""


def kind_of(item: Need) -> str:
    """Return the kind of something that waits, as `kind` names it."""
    return str(item.__struct_config__.tag)


def mark_of(item: Need) -> str | None:
    """Return what tells this from a later one about the same thing: an action that is run again may be in
    doubt again. None where there is no later one."""
    return repr(item.asked_at) if isinstance(item, OutcomeUnknown) else getattr(item, "fingerprint", None)


def asked_since(summary: RunSummary) -> float:
    """Return since when a run that waits has waited, in seconds since the epoch."""
    return summary.ended or summary.begun


def needs(records: Records, redactor: Redactor, *, tenant: str | None = None) -> list[Need]:
    """Everything that waits for a person, the oldest first."""
    found: list[Need] = [*_approvals(records, redactor, tenant), *_outcomes(records, redactor, tenant)]
    if tenant is None:
        found += _sessions(records, redactor)
    return sorted(found, key=lambda each: (each.asked_at, each.id))


def need_of(records: Records, redactor: Redactor, approval: Approval) -> ApprovalNeeded | RoundEscalated:
    """One approval as it is shown, decided or not."""
    (shown,) = without_secrets([approval], redactor)
    hidden = hidden_places(approval, shown)
    round = records.rounds.get(approval.run_id) if has_rounds(records.database) else None
    if round is not None:
        verdict = round.verdict
        return RoundEscalated(
            id=shown.id,
            run_id=shown.run_id,
            title=redactor.cut(f"{round.loop} #{round.number}: {round.summary}", _TITLE),
            asked_at=shown.requested_at,
            expires_at=shown.expires_at,
            loop=round.loop,
            number=round.number,
            level=round.level,
            summary=redactor.text(round.summary),
            verdict=verdict.verdict if verdict is not None else None,
            verified=round.verified,
            reasons=list(shown.reasons),
            fingerprint=shown.fingerprint,
            repository=round.repository,
        )
    mark, trail = _trail(records, approval)
    confinement, recovery = shown.confinement, shown.recovery
    is_confined, can_undo = is_safe(confinement, recovery)
    return ApprovalNeeded(
        id=shown.id,
        run_id=shown.run_id,
        title=redactor.cut(_format_call(shown), _TITLE),
        asked_at=shown.requested_at,
        expires_at=shown.expires_at,
        action_id=shown.action_id,
        tool=shown.tool,
        parameters=shown.parameters,
        risk=shown.risk,
        reversibility=shown.reversibility,
        reasons=list(shown.reasons),
        trail=trail,
        mark=mark,
        preview=shown.preview,
        confinement=confinement,
        confinement_text=format_confinement(confinement) if confinement is not None else None,
        is_confined=is_confined,
        recovery=recovery,
        recovery_text=format_recovery(recovery) if recovery is not None else None,
        can_undo=can_undo,
        edit=shown.edit,
        compensation=shown.compensation,
        offers_edits=shown.offers_edits,
        agent=shown.agent,
        tier=shown.tier,
        tenant=shown.tenant,
        folder=shown.folder,
        isolation=shown.isolation,
        fingerprint=shown.fingerprint,
        hidden=hidden,
    )


def _format_call(approval: Approval) -> str:
    given = ", ".join(f"{name}={value}" for name, value in list(approval.parameters.items())[:5])
    return f"{approval.tool} {given}"


def _trail(records: Records, approval: Approval) -> tuple[str | None, list[str] | None]:
    with suppress(StorageUnavailable):
        for event in records.events.query(run=approval.run_id, kind="approval_requested"):
            if event.data.get("approval") == approval.id:
                mark, trail = event.data.get("mark"), event.data.get("trail")
                steps = [str(step) for step in trail] if isinstance(trail, list) else None
                return (mark if isinstance(mark, str) else None), steps
    return None, None


def _approvals(records: Records, redactor: Redactor, tenant: str | None) -> Iterator[Need]:
    if not has_approvals(records.database):
        return
    for approval in records.approvals.pending(tenant=tenant)[:MOST]:
        yield need_of(records, redactor, approval)


def _outcomes(records: Records, redactor: Redactor, tenant: str | None) -> Iterator[Need]:
    for summary in records.journal.page(status="waiting", tenant=tenant, limit=MOST):
        with suppress(PlacetError):
            result = records.journal.shown(summary.run_id)
            for wait in result.waiting if result is not None else ():
                if wait.kind == "unknown_outcome":
                    yield OutcomeUnknown(
                        id=f"{summary.run_id}/{wait.action_id}",
                        run_id=summary.run_id,
                        title=redactor.cut(f"{wait.action_id}: {wait.reason}", _TITLE),
                        asked_at=asked_since(summary),
                        action_id=wait.action_id,
                        reason=redactor.text(wait.reason),
                        needs_output=wait.needs_output,
                        tenant=summary.tenant,
                    )


def _sessions(records: Records, redactor: Redactor) -> Iterator[Need]:
    if not has_sessions(records.database):
        return
    for question in records.sessions.questions()[:MOST]:
        asking = records.sessions.get(question.session)
        if asking is None or not asking.is_open:
            continue  # Nobody waits for the answer any more.
        text = redactor.text(question.text)
        yield QuestionAsked(
            id=question.id,
            run_id=question.session,
            title=truncate(text, _TITLE),
            asked_at=question.asked_at,
            expires_at=question.until,
            text=text,
        )
    for session in records.sessions.listed(state="contract_proposed", limit=MOST):
        contract = session.contract
        yield ContractProposed(
            id=session.id,
            run_id=session.id,
            title=redactor.cut(session.intent, _TITLE),
            asked_at=session.changed_at,
            repository=session.repository,
            checks=[_plain(redactor, each) for each in (contract.checks if contract is not None else ())],
        )
    for session in records.sessions.listed(state="needs_approval", limit=MOST):
        yield ChangeReady(
            id=session.id,
            run_id=session.id,
            title=redactor.cut(session.intent, _TITLE),
            asked_at=session.changed_at,
            repository=session.repository,
            branch=BRANCH.format(id=session.id),
            checks=[_plain(redactor, each) for each in session.results],
            needs_person=dict(session.needs_person),
        )


def _plain(redactor: Redactor, value: object) -> dict[str, JsonValue]:
    shown = redactor.value(msgspec.to_builtins(value))
    assert isinstance(shown, dict)
    return shown
