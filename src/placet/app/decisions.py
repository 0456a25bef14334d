"""What a person says to what waits, recorded and, where nobody else would, carried out at once.

Keep true:
1. An answer to an approval only records. Whoever holds the run goes on with it, or an engine does.
2. What a round of a loop asked is carried out by whoever decides: nobody else would.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from placet.app.escalations import open_decider, policies_of, round_of
from placet.errors import UsageError
from placet.runtime.sync import run_sync

if TYPE_CHECKING:
    from placet.app.app import Records
    from placet.approvals.approval import Approval, Decision
    from placet.coder.session import Session


def decide(
    records: Records,
    approval: Approval,
    decision: Decision,
    *,
    by: str,
    reason: str | None = None,
    holds_until: float | None = None,
    fingerprint: str | None = None,
    db: str | None = None,
) -> Approval:
    """Record an answer; of what a round asked, also carry it out.

    Raises: what `ApprovalLedger.decide` raises, and `UsageError` if a round cannot be answered so.
    """
    round = round_of(records, approval)
    if round is None or not round.is_waiting:
        made = records.approvals.decide(
            approval.id, decision, by=by, reason=reason, holds_until=holds_until, fingerprint=fingerprint
        )
        records.note_answer(made)
        return made
    if decision in ("always", "edits"):
        raise UsageError("What a round of a loop asks is about one change. Approve it once, or deny it.")
    if fingerprint not in (None, approval.fingerprint):
        raise UsageError("The change is not the one that you saw. Look at it again before you decide.")
    with open_decider(round, db=db, policies=policies_of(records, round)) as engine:
        run_sync(engine.decide(round.id, decision, by=by, reason=reason))
    found = records.approvals.get(approval.id)
    assert found is not None
    return found


def decide_session(
    session: Session,
    decision: Literal["approve", "deny", "cancel"],
    *,
    by: str,
    reason: str = "",
    db: str | None = None,
) -> Session:
    """Confirm a drafted contract, publish a change, reject either, or end a session for good.

    Raises:
        RunHeld: another process is at work on it.
        UsageError: there is nothing to decide, or the repository is gone.
    """
    from placet.app.coder import open_coder

    with open_coder(Path(session.repository), db=db, works=False, create=False) as app:
        match decision:
            case "approve":
                return run_sync(app.coder.approve(session.id, by=by))
            case "deny":
                return run_sync(app.coder.deny(session.id, reason, by=by))
            case "cancel":
                return run_sync(app.coder.cancel(session.id, reason, by=by))
