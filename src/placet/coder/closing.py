"""How whoever is at work on a session lets go of it: until a person has decided, or for good.

Keep true:
1. The state is kept before the run ends: a process that dies in between leaves a session whose run the next
   one can end.
2. A run that has succeeded, or not, is that of a session that has ended; what waits can be taken up again.
3. What somebody wants stopped is ended before it waits for anybody.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from placet.coder.commit_message import message
from placet.coder.session import BRANCH, WORDS, Session
from placet.ir.result import Waiting
from placet.ir.stop_cause import StopCause
from placet.safe_text import clean

if TYPE_CHECKING:
    from placet.checks.contract import Check
    from placet.coder.work import Work


async def wait(work: Work) -> None:
    """Let go, until a person has decided."""
    session = work.session
    if await stop_if_asked(work):
        return
    what = "the contract" if session.state == "contract_proposed" else "the change"
    reason = f"{what} waits for approval: placet code approve {session.id}"
    waiting = Waiting(kind="approval", action_id=session.id, reason=reason)
    await work.run.end("waiting", reason, waiting=[waiting])


async def stop_if_asked(work: Work) -> bool:
    """End it if somebody wants that; whether it has come to that."""
    request = await asyncio.to_thread(work.run.stop_requested)
    if request is None or request.cause is not StopCause.PERSON or not work.session.is_open:
        return False
    await abandon(work, request.reason)
    return True


async def abandon(work: Work, reason: str, *, by: str | None = None) -> None:
    """End it without a change."""
    await work.move("abandoned", reason, by=by)
    await end(work)


async def publish(work: Work, *, by: str | None = None) -> None:
    """Give the person the green change as one commit on a branch of its own, and end it."""
    session = work.session
    await work.workshop.open()
    if not session.commit:
        session.commit = await work.workshop.commit(
            session.result, session.begun_on, _message(session), when=int(time.time()), author=None
        )
        session.branch = BRANCH.format(id=session.id)
        await work.save()
    await work.workshop.publish(session.commit, session.branch)
    work.run.say("coding_published", {"branch": session.branch, "commit": session.commit})
    await work.move("merged", by=by)
    await end(work)


async def end(work: Work) -> None:
    """Clear up after a session that has ended, and end its run."""
    from placet.worktree.scratch import Scratch

    session = work.session
    if not work.keeps_copies:
        await work.workshop.remove_attempts()
    # Of a process that was killed before.
    await Scratch(work.workshop.home / "exports").clear_up()
    await _take_back_questions(work)
    succeeded = session.state == "merged"
    await work.run.end("succeeded" if succeeded else "partial", None if succeeded else session.reason)


async def _take_back_questions(work: Work) -> None:
    """Withdraw what turns that were broken off have asked: nobody goes on with them."""
    ledger = work.runtime.approvals
    if ledger is None:
        return
    why = f"its coding session is {WORDS[work.session.state]}"
    for attempt in work.session.attempts:
        latest = attempt.latest
        if latest is None or latest.has_turned:
            continue
        for approval in await asyncio.to_thread(ledger.pending, run=latest.run_id):
            await asyncio.to_thread(ledger.withdraw, approval.id, why)


def _message(session: Session) -> str:
    won = session.won
    said = won.summary if won is not None and won.status == "success" else ""
    included = (
        "It includes changes that were not committed when the work began." if session.includes_changes else ""
    )
    checks = [f"Checked-by: {clean(check.command, 300)}" for check in _checks(session)]
    trailers = [f"Placet-Session: {session.id}", *checks]
    return message(session.intent, said, included, trailers=trailers)


def _checks(session: Session) -> Sequence[Check]:
    return session.contract.checks if session.contract is not None else ()
