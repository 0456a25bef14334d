"""What waits for a person, and what the person says."""

from __future__ import annotations

import time
from typing import Annotated, Literal

import msgspec

from placet.app import decisions
from placet.app.approvals import ApprovalStatus, status_of
from placet.app.needs import ApprovalNeeded, Need, RoundEscalated, need_of, needs
from placet.approvals.approval import Approval
from placet.server.endpoint import ApiCall, Endpoint

Reason = Annotated[str, msgspec.Meta(max_length=4000)]


class Needs(msgspec.Struct, frozen=True):
    """Everything that waits for a person, the oldest first."""

    items: list[Need]
    count: int


class ApprovalDecision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a person says to an approval."""

    decision: Literal["once", "always", "edits", "deny"]
    fingerprint: str | None = None
    """That of the approval as it was shown: what was changed meanwhile is not decided."""
    reason: Reason | None = None
    """Why; whoever asked is told."""
    hold_s: Annotated[float, msgspec.Meta(gt=0, le=10 * 366 * 86400)] | None = None
    """How long an `always` holds, in seconds."""


class ApprovalState(msgspec.Struct, frozen=True):
    """How an approval stands."""

    id: str
    run_id: str
    status: ApprovalStatus
    decision: str | None
    decided_by: str | None
    decided_at: float | None
    reason: str | None


class ApprovalShown(ApprovalState, frozen=True, kw_only=True):
    """One approval."""

    item: ApprovalNeeded | RoundEscalated


def list_needs(call: ApiCall) -> Needs:
    """What waits."""
    site = call.site
    found = needs(site.records, site.redactor, tenant=call.token.tenant)
    return Needs(found, len(found))


def show_approval(call: ApiCall) -> ApprovalShown:
    """One approval."""
    approval = call.site.approval(call.token, call.path["approval"])
    item = need_of(call.site.records, call.site.redactor, approval)
    return ApprovalShown(item=item, **msgspec.structs.asdict(_decided(call, approval)))


def decide(call: ApiCall) -> ApprovalState:
    """Record what a person says."""
    said: ApprovalDecision = call.body
    site = call.site
    approval = site.approval(call.token, call.path["approval"])
    made = decisions.decide(
        site.records,
        approval,
        said.decision,
        by=call.token.name,
        reason=said.reason,
        holds_until=time.time() + said.hold_s if said.hold_s is not None else None,
        fingerprint=said.fingerprint,
        db=site.db,
    )
    site.decided(made.run_id)
    return _decided(call, made)


def _decided(call: ApiCall, approval: Approval) -> ApprovalState:
    reason = approval.reason
    return ApprovalState(
        id=approval.id,
        run_id=approval.run_id,
        status=status_of(approval, time.time()),
        decision=approval.decision,
        decided_by=approval.decided_by,
        decided_at=approval.decided_at,
        reason=call.site.redactor.text(reason) if reason is not None else None,
    )


ENDPOINTS = (
    Endpoint("GET", "/needs-you", list_needs, "see", Needs, "List everything that waits for a person."),
    Endpoint("GET", "/approvals/{approval}", show_approval, "see", ApprovalShown, "Show one approval."),
    Endpoint(
        "POST",
        "/approvals/{approval}/decision",
        decide,
        "decide",
        ApprovalState,
        "Decide an approval.",
        body=ApprovalDecision,
    ),
)
