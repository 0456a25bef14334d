"""A session that is held, from wherever it stands to where it goes no further by itself, state by state.

Keep true:
1. It can be taken up from any state, also by another process.
2. Done is what the checks say; what a model says is only a text.
3. Why it went no further is said: by its state, or by what it waits for.
4. Whoever wants it to stop is heard while it works, and so is the end of its time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from placet.checks.environment_fault import find_fault, format_fault
from placet.coder import closing
from placet.coder.attempt import AttemptLoop
from placet.coder.drafting import draft, drafting_run
from placet.coder.events import BaselineStarted
from placet.coder.session import Attempt
from placet.errors import EnvironmentBroken
from placet.inference.usage import Usage
from placet.ir.stop_cause import StopCause
from placet.policy.budget import Budget
from placet.runtime.stop_requests import linked, listening_for_stop
from placet.safe_text import clean
from placet.turns.ending import Ending
from placet.turns.stopping import always_hard, stopped_by, when_late

if TYPE_CHECKING:
    from placet.checks.environment_fault import Fault
    from placet.coder.work import Work
    from placet.tools.context import Cancel

_MOST_PATH = 2_000


def review_words(needs_person: Mapping[str, str]) -> str:
    """Why a person has to approve a passing change, and how to say beforehand that it is meant; empty if
    nobody has to."""
    if not needs_person:
        return ""
    path, why = next(iter(needs_person.items()))
    more = f" ({len(needs_person) - 1} more files like it)" if len(needs_person) > 1 else ""
    return (
        f"a person has to approve it: {clean(path, 200)} {why}{more}. To allow that from the beginning: "
        f"--allow {clean(path, 200)}"
    )


class SessionLeader:
    """Leads one session."""

    def __init__(self, work: Work, cancel: Cancel) -> None:
        """`cancel` is the session's alone: it is cancelled from here too."""
        self._work = work
        self._cancel = cancel

    async def lead(self, *, approve: bool) -> None:
        """From wherever the session stands to where it goes no further by itself. With `approve` a green
        change is published at once."""
        work, session = self._work, self._work.session
        async with self._stoppable():
            await work.workshop.open()
            if not session.base:
                await self._take_base()
            if session.state == "created":
                if session.contract is None:
                    await self._draft()
                    return
                work.say_contract(drafted=False)
                await work.move("contract_confirmed")
            if session.state == "contract_confirmed" and not await self._begin():
                return
            if session.state == "running":
                await self._attempts()
            if session.state == "running":
                await self._pause()
            elif session.state == "needs_approval":
                if approve and not session.needs_person:
                    await closing.publish(work)
                else:
                    await closing.wait(work)
            elif work.run.ended is None:
                await closing.end(work)

    # From state to state

    async def _take_base(self) -> None:
        """Keep what the person's files are as the work begins."""
        work, session = self._work, self._work.session
        session.begun_on = work.workshop.repository.head
        session.base = await work.workshop.begin(session.includes_changes)
        changes = session.includes_changes
        theirs = await work.workshop.changed(session.begun_on, session.base) if changes else []
        # A name may be no valid text, and then could not be kept.
        session.included = [clean(each.path, _MOST_PATH) for each in theirs]
        await work.save()
        work.say_started()

    async def _draft(self) -> None:
        """Let the model say which checks there are to be."""
        work, session = self._work, self._work.session
        drafted = await draft(work, self._cancel)
        if not isinstance(drafted, Ending):
            session.contract = drafted
            work.say_contract(drafted=True)
            await work.move("contract_proposed")
            await closing.wait(work)
        elif drafted.status in ("cancelled", "waiting"):
            work.waiting = [*drafted.waiting]
            await self._pause()
        else:
            why = drafted.error or drafted.summary
            await work.move("failed", f"the model could not draft a contract: {why}")
            await closing.end(work)

    async def _begin(self) -> bool:
        """Run the checks before any work; whether there is something to turn green."""
        work, session = self._work, self._work.session
        paths = await work.workshop.paths(session.base)
        # A baseline with a fault may be left of a process that died before it could stop.
        if not session.baseline or find_fault(session.baseline, work.contract, paths) is not None:
            work.tell(BaselineStarted(session=session.id))
            for note in (await work.seal()).notes(paths):
                work.note(note)
            stopped = await stopped_by(self._cancel, work.measure())
            if stopped:
                await self._pause()
                return False
        fault = find_fault(session.baseline, work.contract, paths)
        if fault is not None:
            await self._stop_for(fault)
            return False
        if all(result.passed for result in session.baseline) and not session.even_if_green:
            await closing.abandon(
                work, "all checks are green before any work, so there is nothing that would show it was done"
            )
            return False
        session.attempts = [Attempt(number=number) for number in range(1, session.candidates + 1)]
        await work.move("running")
        return True

    async def _stop_for(self, fault: Fault) -> None:
        """Stop before any work, as if it had not begun: the checks run again when the session is resumed."""
        work, session = self._work, self._work.session
        words = format_fault(fault, top=session.repository, environment=work.environment)
        work.fault = EnvironmentBroken(words, session=session.id, check=fault.check, missing=fault.missing)
        work.forget_baseline()
        session.reason = words
        await work.save()
        await work.run.end("canceled", words)

    async def _attempts(self) -> None:
        """Let the candidates work, until one is green or none goes further."""
        work, session = self._work, self._work.session
        self._count_what_was_used()
        won = self._green()
        halts: list[Ending] = []
        if won is None:
            won, halts = await self._side_by_side()
        if won is not None:
            for attempt in session.attempts:
                attempt.ended = attempt.ended or f"attempt {won.number} was green first"
            assert won.judged is not None
            session.winner, session.result = won.number, won.judged.tree
            await work.move("needs_approval", review_words(session.needs_person))
            return
        spent = next((halt for halt in halts if halt.status == "budget"), None)
        if spent is not None and not self._cancel.requested:
            await work.move("failed", spent.error or "a limit was reached")
        elif not halts:
            await work.move("failed", "; ".join(dict.fromkeys(each.ended for each in session.attempts)))
        else:
            work.waiting = [one for halt in halts for one in halt.waiting]

    async def _side_by_side(self) -> tuple[Attempt | None, list[Ending]]:
        """Let those candidates work at once that may; the first that was green, and what the others were
        halted by until then."""
        won: Attempt | None = None
        halts: list[Ending] = []
        with linked(self._cancel) as inner:
            loops = {
                asyncio.ensure_future(loop.go()): loop
                for each in self._work.session.attempts
                if not each.ended
                for loop in [AttemptLoop(self._work, each, inner)]
            }
            try:
                waiting = set(loops)
                while waiting and won is None:
                    done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        task.result()
                        halt = loops[task].halt
                        if halt is not None:
                            halts.append(halt)
                    won = self._green()
            except BaseException:
                for task in loops:
                    task.cancel()
                raise
            finally:
                # They end by themselves, so that what they have used is known.
                inner.cancel("another candidate was green first", hard=True, cause=StopCause.SUPERSEDED)
                await asyncio.gather(*loops, return_exceptions=True)
        return won, halts

    def _green(self) -> Attempt | None:
        return next((each for each in self._work.session.attempts if each.is_green), None)

    def _count_what_was_used(self) -> None:
        """Let the budget know what was used before the session was taken up."""
        run, session = self._work.run, self._work.session

        def count(name: str, usage: Usage | None, cost: float | None) -> None:
            # By the name of its run: if that is gone through again, it counts no second time.
            Budget(parent=run.spending, name=name).charge(usage, cost)

        if session.drafting is not None:
            count(drafting_run(session), session.drafting, session.drafting_usd)
        for each in [each for attempt in session.attempts for each in attempt.iterations]:
            if each.has_turned and each.has_answers:
                count(each.run_id, each.usage, each.cost_usd)
            if each.spare is not None:
                count(f"{each.run_id}.spare", each.spare, 0.0)

    # Stopping

    async def _pause(self) -> None:
        """Stop where it stands: somebody wants that, time is over, or a person has to decide something."""
        work, session, cancel = self._work, self._work.session, self._cancel
        if await closing.stop_if_asked(work):
            return
        if cancel.cause is StopCause.DEADLINE and work.run.budget is not None:
            await work.move("failed", work.run.budget.time_words())
            await closing.end(work)
            return
        session.reason = cancel.reason or ("it was stopped" if cancel.requested else "it waits for a person")
        await work.save()
        if work.waiting:
            await work.run.end("waiting", session.reason, waiting=work.waiting)
        else:
            await work.run.end("canceled", session.reason)

    @asynccontextmanager
    async def _stoppable(self) -> AsyncIterator[None]:
        """As long as this lasts, the end of its time stops it, and so do requests of other processes.
        Whatever does stops what is in flight."""
        run, cancel = self._work.run, self._cancel
        ring = partial(cancel.cancel, "the time is over", hard=True, cause=StopCause.DEADLINE)
        async with listening_for_stop(run.stop_requested, cancel):
            with always_hard(cancel), when_late(run.spending, ring):
                yield
