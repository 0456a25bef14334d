"""Stop runs from another process: one that waits for a person, and one that was not submitted.

Nobody works on a plan that waits, so it is ended here, without a worker.

Keep true:
1. Whoever ends a run here holds it in the journal while its submission changes, so no worker goes on with it.
2. A run that was decided about meanwhile, or that somebody works on, is left to its worker.
3. Its questions are withdrawn only once it has ended, or is sure to be stopped.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from placet.app.decisions import decide_session
from placet.coder.store_sql import has_sessions
from placet.errors import RunHeld, UnknownRun
from placet.ir.stop_cause import StopCause
from placet.loops.sql import has_rounds
from placet.runtime.account import ending
from placet.runtime.journal import Taken
from placet.storage.lease import StopRequest

if TYPE_CHECKING:
    from placet.app.app import Records
    from placet.durable.sql import SqlJournal
    from placet.engine.protocol import State
    from placet.engine.sql import SqlSubmissions
    from placet.ir.result import ProposalResult
    from placet.runtime.journal import RunRecord

_OVER = ("succeeded", "failed", "rejected", "skipped", "unknown")


async def cancel_waiting(
    records: Records, submissions: SqlSubmissions, run_id: str, reason: str
) -> State | None:
    """Cancel a plan that waits for a person, as far as nobody works on it; how its submission stood.

    Raises:
        StorageError: it cannot be recorded.
    """
    journal = records.journal
    try:
        shown = await asyncio.to_thread(journal.shown, run_id)
        taken = await journal.take(run_id)
    except (RunHeld, UnknownRun):
        return await asyncio.to_thread(submissions.cancel, run_id, reason)
    if not isinstance(taken, Taken):
        return await asyncio.to_thread(submissions.cancel, run_id, reason)
    waited = taken.waited
    try:
        state = await asyncio.to_thread(submissions.cancel, run_id, reason, is_held=waited is not None)
        if waited is None:
            taken.journal.release()
        elif state != "waiting":
            # Somebody has decided in between: a worker goes on with it from there, and stops it.
            await taken.journal.end(waited, shown)
        else:
            ended = _canceled(waited, reason)
            await taken.journal.end(ended, _canceled(shown, reason) if shown is not None else None)
            await asyncio.to_thread(_record, records, taken.record, waited, ended)
    except BaseException:
        taken.journal.release()
        raise
    return state


def request_stop(
    records: Records, run_id: str, reason: str, *, by: str, db: str | None, is_stopping: bool = False
) -> bool:
    """Ask whoever works on a run to stop it, whether it was submitted or not; a coding session that nobody
    works on ends at once. Return whether somebody stops it.

    Args:
        records: Where the run is recorded.
        run_id: Id of the run.
        reason: Why.
        by: Who asks.
        db: The database, as it was named.
        is_stopping: Its worker has been asked already. That alone does not end a session or a round.

    Raises:
        UnknownRun: there is none.
        StorageError: it cannot be recorded.
    """
    if has_sessions(records.database) and (session := records.sessions.get(run_id)) is not None:
        decide_session(session, "cancel", by=by, reason=reason, db=db)
        return True
    # A round that nobody works on is gone on with by the scheduler, which stops it.
    is_round = has_rounds(records.database) and records.rounds.get(run_id) is not None
    if not is_round and (is_stopping or records.journal.find(run_id).status != "running"):
        return is_stopping
    records.journal.request_stop(run_id, StopRequest(reason=reason))
    return True


def stop_holder(journal: SqlJournal, run_id: str, reason: str) -> bool:
    """Ask a process that works on a run without its submission to stop it; whether there is one.

    Raises:
        StorageError: it cannot be recorded.
    """
    try:
        is_held = journal.find(run_id).status == "running"
    except UnknownRun:
        return False
    if is_held:
        journal.request_stop(run_id, StopRequest(reason=reason))
    return is_held


def withdraw(records: Records, run_id: str, reason: str) -> None:
    """Nobody has to decide any more what a canceled run, or one that it started, had asked."""
    for asking in (run_id, *(each.run_id for each in records.journal.started_by(run_id))):
        for each in records.approvals.pending(run=asking):
            records.note_answer(records.approvals.withdraw(each.id, reason))


def _canceled(waited: ProposalResult, reason: str) -> ProposalResult:
    """The result of a plan that waited, and was canceled."""
    error, now = f"canceled: {reason}", datetime.now(UTC)
    results = [
        each
        if each.status in _OVER
        else replace(each, status="skipped", error=error, timestamp=now, stop_cause=StopCause.PERSON)
        for each in waited.results
    ]
    skipped = sum(each.status not in _OVER for each in waited.results)
    return replace(
        waited,
        outcome="canceled",
        error=error,
        results=results,
        cost=replace(waited.cost, actions_skipped=waited.cost.actions_skipped + skipped),
        waiting=[each for each in waited.waiting if each.kind == "unknown_outcome"],
        stop_cause=StopCause.PERSON,
    )


def _record(records: Records, run: RunRecord, waited: ProposalResult, ended: ProposalResult) -> None:
    """Let the log know, as a worker would."""
    with records.log() as log:
        append = partial(
            log.append,
            run_id=ended.run_id,
            proposal_id=ended.proposal_id,
            trace_id=ended.trace_id,
            tenant=run.scope.tenant if run.scope is not None else None,
        )
        for before, after in zip(waited.results, ended.results, strict=True):
            if before.status != after.status:
                append("action_canceled", action_id=after.action_id, data={"error": after.error})
        append("proposal_ended", data={"source": run.proposal.source, **ending(ended)})
        append("run_ended", data={"outcome": ended.outcome})
