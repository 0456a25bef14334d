"""Stop runs from another process: one that waits for a person, and one that was not submitted.

Nobody works on a run that waits, so it is ended here: a submitted plan without a worker, and whatever was not
submitted because no worker would.

Keep true:
1. Whoever ends a run here holds it in the journal while its submission changes, so no worker goes on with it.
2. A run that was decided about meanwhile, or that somebody works on, is left to its worker.
3. Its questions are withdrawn only once it has ended, or is sure to be stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from placet.app.decisions import decide_session
from placet.coder.store_sql import has_sessions
from placet.errors import RunHeld, UnknownRun
from placet.ir.stop_cause import StopCause
from placet.loops.sql import has_rounds
from placet.runtime.account import ending
from placet.runtime.journal import Taken
from placet.runtime.sync import run_sync
from placet.storage.lease import StopRequest

if TYPE_CHECKING:
    from placet.app.app import Records
    from placet.durable.sql import SqlJournal
    from placet.engine.protocol import State
    from placet.engine.sql import SqlSubmissions
    from placet.ir.result import ProposalResult
    from placet.runtime.journal import RunRecord

_OVER = ("succeeded", "failed", "rejected", "skipped", "unknown")

_TOLD_OF_A_LOOP = ("status", "looked", "changed", "ran", "lacks", "summary", "error")

Stopping = Literal["asked", "ended", "withdrawn"]
"""The outcome of a request to stop: whoever works on the run stops it, it has ended, or the questions of a
conversation are withdrawn."""


async def cancel_waiting(
    records: Records, submissions: SqlSubmissions, run_id: str, reason: str
) -> State | None:
    """Cancel a submitted plan that waits for a person, as far as nobody works on it; how its submission
    stood.

    Raises:
        StorageError: it cannot be recorded.
    """
    try:
        shown = await asyncio.to_thread(records.journal.shown, run_id)
        taken = await records.journal.take(run_id)
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
            await _end_waiting(records, taken, waited, shown, reason)
    except BaseException:
        taken.journal.release()
        raise
    return state


async def _cancel_unsubmitted(records: Records, run_id: str, reason: str) -> Stopping | None:
    """Cancel a run that waits for a person and that no worker goes on with, and withdraw its questions. None
    if it has ended meanwhile, or waits for nothing but the next message."""
    journal = records.journal
    record = await asyncio.to_thread(journal.record, run_id)
    if record.proposal.context.get("is_chat") is True:
        # The next message goes on with it: there is nothing to be canceled but what it asks.
        is_asking = await asyncio.to_thread(withdraw, records, run_id, reason)
        return "withdrawn" if is_asking else None
    shown = await asyncio.to_thread(journal.shown, run_id)
    try:
        taken = await journal.take(run_id)
    except RunHeld:
        # Somebody goes on with it right now.
        await asyncio.to_thread(journal.request_stop, run_id, StopRequest(reason=reason))
        return "asked"
    if not isinstance(taken, Taken):
        return None
    try:
        if taken.waited is None:
            taken.journal.release()
            return None
        await _end_waiting(records, taken, taken.waited, shown, reason)
    except BaseException:
        taken.journal.release()
        raise
    await asyncio.to_thread(withdraw, records, run_id, reason)
    return "ended"


async def _end_waiting(
    records: Records, taken: Taken, waited: ProposalResult, shown: ProposalResult | None, reason: str
) -> None:
    ended = _canceled(waited, reason)
    await taken.journal.end(ended, _canceled(shown, reason) if shown is not None else None)
    await asyncio.to_thread(_record, records, taken.record, waited, ended)


def request_stop(
    records: Records, run_id: str, reason: str, *, by: str, db: str | None, is_stopping: bool = False
) -> Stopping | None:
    """Ask whoever works on a run to stop it, whether it was submitted or not. A run that waits for a person
    and that no worker goes on with ends at once, and so does a coding session that nobody works on. Return
    what came of it; None if nobody stops it.

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
        if not session.is_open:
            return None
        session = decide_session(session, "cancel", by=by, reason=reason, db=db)
        return "asked" if session.is_open else "ended"
    # A round that nobody works on is gone on with by the scheduler, which stops it.
    is_round = has_rounds(records.database) and records.rounds.get(run_id) is not None
    if is_stopping and not is_round:
        return "asked"
    run = None if is_round else records.journal.find(run_id)
    if run is not None and run.status != "running":
        # What another run started is a part of that one, which would go on with it.
        is_whole = run.status == "waiting" and run.parent is None
        return run_sync(_cancel_unsubmitted(records, run_id, reason)) if is_whole else None
    records.journal.request_stop(run_id, StopRequest(reason=reason))
    return "asked"


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


def withdraw(records: Records, run_id: str, reason: str) -> bool:
    """Nobody has to decide any more what a canceled run, or one that it started, had asked; whether it had
    asked anything."""
    has_asked = False
    for asking in (run_id, *(each.run_id for each in records.journal.started_by(run_id))):
        for each in records.approvals.pending(run=asking):
            records.note_answer(records.approvals.withdraw(each.id, reason))
            has_asked = True
    return has_asked


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
        loop=_canceled_loop(waited.loop, reason) if isinstance(waited.loop, dict) else waited.loop,
        stop_cause=StopCause.PERSON,
    )


def _canceled_loop(loop: Mapping[str, Any], reason: str) -> dict[str, Any]:
    """How a loop of turns ended that waited, and was canceled."""
    return {
        **loop,
        "status": "cancelled",
        "error": reason,
        "waiting": [],
        "stop_cause": StopCause.PERSON.value,
    }


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
        if isinstance(ended.loop, dict):
            told = {key: ended.loop[key] for key in _TOLD_OF_A_LOOP if key in ended.loop}
            append("turn_loop_ended", data=told)
            append("run_ended", data={"outcome": ended.outcome})
            return
        append("proposal_ended", data={"source": run.proposal.source, **ending(ended)})
        append("run_ended", data={"outcome": ended.outcome})
