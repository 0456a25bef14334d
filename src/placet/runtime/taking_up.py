"""Taking up a run that was broken off: whether it may go on here.

Keep true: a run that may not is let go of, as it was, so that somebody else can take it up at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from placet.errors import UsageError
from placet.ir.result import ProposalResult
from placet.runtime.journal import Choice, Decision, Journal, Taken, is_led


async def take(
    journal: Journal | None,
    run_id: str,
    decide: Mapping[str, Decision | Choice] | None,
    *,
    can_ask: bool,
    has_session: bool,
) -> Taken | ProposalResult:
    """Hold a run that was broken off; or how it ended, if it has. `can_ask` says that there is a ledger of
    approvals here, and `has_session` that the run goes on under a session.

    Raises:
        UnknownRun: no such run is kept.
        RunHeld: another process is at work on it.
        StorageError: the journal cannot be read.
        UsageError: there is no journal, or something to decide of a run that has ended, or the run waits for
            approvals or began under a session, and there is none.
    """
    if journal is None:
        raise UsageError("This Runtime has no journal, so no run can be resumed. Give it one: journal=...")
    taken = await journal.take(run_id)
    if isinstance(taken, ProposalResult):
        if decide:
            raise UsageError(f"Run '{run_id}' has ended ({taken.outcome}); nothing is to be decided.")
        return taken
    waits = taken.waited.waiting if taken.waited is not None else ()
    if not can_ask and any(w.approval is not None for w in waits):
        raise _let_go(
            taken,
            f"Run '{run_id}' waits for approvals, and this Runtime has none. Give it the "
            "ledger in which the run has asked: approvals=...",
        )
    if taken.record.had_session and not has_session:
        raise _let_go(
            taken,
            f"Run '{run_id}' began under a session, and such rules must hold when it goes on. Give "
            "one: resume(..., session=open_session()), with its policies.",
        )
    return taken


def check_place(taken: Taken, folder: str | None) -> None:
    """Make sure that a run goes on as it began: bound to the same folder, and led by no loop of turns, which
    would have to go on itself. `folder` is the one that runs are bound to here.

    Raises:
        UsageError: it would not.
    """
    record = taken.record
    if record.workspace != folder:
        began = f"bound to {record.workspace}" if record.workspace is not None else "bound to no folder"
        so = f"workspace={record.workspace!r}" if record.workspace is not None else "no workspace"
        raise _let_go(
            taken,
            f"Run '{record.run_id}' began {began}, and must go on so. Nothing has changed. Resume it with a "
            f"Runtime that has {so}.",
        )
    if is_led(record):
        raise _let_go(
            taken,
            f"Run '{record.run_id}' is led by a loop of turns ({record.proposal.source}). Go on with it "
            f"there: placet resume {record.run_id}; in programs Assistant.resume.",
        )


def _let_go(taken: Taken, problem: str) -> UsageError:
    taken.journal.release()
    return UsageError(problem)
