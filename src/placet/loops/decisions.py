"""What people decide about rounds that have asked, and what follows: carried out, closed, or superseded.

Keep true:
1. What cannot be carried out is not approved either: it is looked at before anything is recorded.
2. What was approved is carried out by whoever holds the round's run, on exactly the tree that was shown.
3. An older question is withdrawn only when the round in its place has come to something.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from placet.approvals.approval import GIVEN
from placet.errors import UsageError
from placet.loops.copies import Copies, ObjectsGone, words_of_a_round
from placet.loops.leading import RoundLeader, receipt_of
from placet.loops.round import Later, Round
from placet.loops.store import Rounds
from placet.safe_text import clean

if TYPE_CHECKING:
    from placet.approvals.approval import Approval
    from placet.approvals.approval import Decision as Answer
    from placet.approvals.ledger import ApprovalLedger
    from placet.runtime.open_run import OpenRun


class Decisions:
    """What people decide about the rounds in one repository."""

    def __init__(
        self, rounds: Rounds, ledger: ApprovalLedger | None, copies: Copies, clock: Callable[[], float]
    ) -> None:
        """`ledger` is where what rounds ask is kept."""
        self._rounds = rounds
        self._ledger = ledger
        self._copies = copies
        self._clock = clock

    async def answer(self, round: Round, decision: Answer, *, by: str, reason: str | None) -> None:
        """Record what a person says to the question of a round.

        Raises:
            UsageError: it asks nothing.
            ApprovalDecided: somebody was quicker, or its time is up.
            BaseMoved: the change no longer applies; nothing was decided.
        """
        if not round.is_waiting or not round.approval or self._ledger is None:
            raise UsageError(f"Round '{round.id}' asks nothing: it is {round.outcome or 'under way'}.")
        if decision != "deny":
            # Before anything is recorded: what cannot be carried out is not approved either.
            with words_of_a_round(round):
                await (await self._copies.workshop(round)).open()
                await self._copies.see_that_it_applies(round)
        await asyncio.to_thread(self._ledger.decide, round.approval, decision, by=by, reason=reason)

    async def is_answered(self, round: Round) -> bool:
        """Whether somebody has decided what a round asked, or its time is up."""
        asked = await self._asked(round)
        return asked is not None and not asked.open_at(time.time())

    async def _asked(self, round: Round) -> Approval | None:
        ledger = self._ledger
        return await asyncio.to_thread(ledger.get, round.approval) if ledger and round.approval else None

    async def carry_out(self, leader: RoundLeader, run: OpenRun) -> bool:
        """Do what a person has approved of a round that is held, and note what was decided; whether it can be
        closed. It cannot where it still waits, or was stopped, or nobody knows what became of the act."""
        round = leader.round
        if not round.is_waiting:
            return False
        try:
            with words_of_a_round(round):
                await leader.workshop.open()
        except ObjectsGone:
            asked = await self._asked(round)
            if asked is not None and asked.decision in GIVEN:
                raise
        result = await leader.act()
        if result is None:
            await leader.save()
            return False
        match leader.status_of(result):
            case "waiting":
                round.approval = next((w.approval for w in result.waiting if w.approval), "")
                await leader.save()
                await run.end("waiting", round.reason, waiting=list(result.waiting))
                return False
            case "canceled":
                return False
            case "succeeded":
                round.receipt = receipt_of(result, round, leader.executor.name, self._clock())
                round.later.append(leader.decided("approved"))
            case "rejected":
                round.later.append(leader.decided("denied"))
            case _:
                why = clean(leader.why_not_done(result), 2_000)
                round.later.append(msgspec.structs.replace(leader.decided("failed"), reason=why))
        return True

    async def supersede(self, new: Round) -> None:
        """Withdraw what an older round asks, once one that brings its change over has come to something. Done
        twice it is done once."""
        if not new.rebased_from or new.outcome not in ("escalated", "reported"):
            return
        old = await asyncio.to_thread(self._rounds.get, new.rebased_from)
        if old is None or not old.is_waiting:
            return
        why = f"round '{new.id}' took its place"
        if self._ledger is not None and old.approval:
            await asyncio.to_thread(self._ledger.withdraw, old.approval, why)
        old.later.append(Later(what="superseded", at=self._clock(), by=new.rebased_by, reason=why))
        await asyncio.to_thread(self._rounds.put, old)
        await self._copies.tidy(old)


def see_that_it_can_be_rebased(old: Round) -> None:
    """Return if the change of a round may be brought over to where the person is now.

    Raises:
        UsageError: it does not wait, or nobody knows whether its act was done.
    """
    if not old.is_waiting:
        raise UsageError(f"Round '{old.id}' does not wait for anybody: it is {old.outcome or 'under way'}.")
    if any(each.what == "unknown" for each in old.later):
        raise UsageError(
            f"Nobody knows whether what round '{old.id}' came to was done. Look, and say so first: "
            f"placet resume {old.id} --decide act=done|retry|fail"
        )
