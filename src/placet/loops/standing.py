"""How a loop stands by what its rounds did: it is looked at again, what was taken back lowers the level, and
a person raises it again.

Keep true:
1. Nothing but a person raises a loop, and never above what its file says.
2. What was taken back lowers a loop once; not again where a person who knew of it has raised it since.
3. Only a receipt that is as it was given says anything about the world.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from placet.errors import PlacetError, UsageError
from placet.ir.json_value import JsonValue
from placet.loops.copies import Copies
from placet.loops.executors.executor import Executor, Finding
from placet.loops.executors.record import RecordExecutor
from placet.loops.levels import Standing, below, lower_of
from placet.loops.round import Later, Receipt, Round
from placet.loops.spec import LoopSpec
from placet.loops.store import Rounds
from placet.safe_text import clean

if TYPE_CHECKING:
    from placet.events.log import EventLog


class Standings:
    """How the loops in one repository stand."""

    def __init__(
        self,
        rounds: Rounds,
        events: EventLog,
        copies: Copies,
        executor_for: Callable[[Round], Executor],
        clock: Callable[[], float],
    ) -> None:
        """`executor_for` says who acted for a round, and so can look at what was done."""
        self._rounds = rounds
        self._events = events
        self._copies = copies
        self._executor_for = executor_for
        self._clock = clock

    # Looking

    async def check(self, receipt: Receipt) -> Finding:
        """Whether a receipt is one that was given, and what it says still is so. A round whose act somebody
        has reverted counts as taken back from then on."""
        if not receipt.is_intact:
            return Finding(holds=False, why="it was changed: its digest does not fit", seen="record")
        kept = await asyncio.to_thread(self._rounds.get, receipt.round)
        if kept is None or kept.receipt != receipt:
            return Finding(holds=False, why="no round has given such a receipt", seen="record")
        executor = self._executor_for(kept)
        if receipt.executor != executor.name:
            executor = RecordExecutor()
        found = await executor.check(receipt, await self._copies.repository())
        if found.is_reverted:
            await self.reverse(kept.id, by="git", reason=found.why)
        return found

    async def look_back(self, loop: str, most: int) -> list[Finding]:
        """Check the receipts of the newest rounds of a loop that nobody has taken back. One that cannot be
        looked at now is left out."""
        key = await self._copies.key_of(loop)
        found = []
        for round in await asyncio.to_thread(self._rounds.listed, key, limit=most):
            is_known = any(each.what == "reversed" for each in round.later)
            if round.receipt is not None and not is_known:
                with suppress(PlacetError):
                    found.append(await self.check(round.receipt))
        return found

    # Less

    async def hold(self, round: Round) -> None:
        """Let a round go no further than its loop may by now, whatever the file says."""
        standing = await asyncio.to_thread(self._rounds.standing, round.key)
        if standing is not None:
            round.level = lower_of(round.level, standing.level)

    async def hold_to_less(self, round: Round, spec: LoopSpec) -> None:
        """Let a round that was broken off go no further than it may by now. `spec` is the loop as
        its file is now."""
        await self.hold(round)
        if spec.name == round.loop:
            round.level = lower_of(round.level, spec.level)
            allow = tuple(kind for kind in round.spec.allow if kind in spec.allow)
            round.spec = msgspec.structs.replace(round.spec, allow=allow)

    async def reverse(self, round_id: str, *, by: str, reason: str) -> Round:
        """Note that what a round did was taken back, and lower its loop. Done twice it is done once.

        Raises:
            UsageError: there is no such round, or it did nothing.
        """
        round = self._rounds.find(round_id)
        if round.receipt is None:
            raise UsageError(f"Round '{round.id}' did nothing that could be taken back.")
        if not any(each.what == "reversed" for each in round.later):
            round.later.append(Later(what="reversed", at=self._clock(), by=by, reason=clean(reason, 500)))
            await asyncio.to_thread(self._rounds.put, round)
        at = next(each.at for each in round.later if each.what == "reversed")
        await self._demote(
            round, f"round {round.number} was taken back" + (f": {reason}" if reason else ""), at
        )
        return round

    async def _demote(self, round: Round, reason: str, at: float) -> None:
        standing = await asyncio.to_thread(self._rounds.standing, round.key)
        level = below(round.level)
        if standing is not None:
            if standing.since >= (at if not standing.lowers else round.ended_at or 0):
                return  # It has been lowered since; or raised, by somebody who knew of this.
            level = lower_of(level, standing.level)
        made = Standing(loop=round.key, level=level, reason=clean(reason, 500), since=self._clock())
        await asyncio.to_thread(self._rounds.set_standing, made)
        data: dict[str, JsonValue] = {"loop": round.loop, "level": made.level, "reason": made.reason}
        self._events.append("round_demoted", data=data)

    # More

    async def raise_again(self, loop: str, *, by: str, because: str) -> Standing:
        """Let a loop go as far as its file says again, after it was lowered.

        Raises:
            UsageError: it was not lowered.
        """
        key = await self._copies.key_of(loop)
        standing = await asyncio.to_thread(self._rounds.standing, key)
        if standing is None or not standing.lowers:
            raise UsageError(f"The loop '{loop}' was not lowered: its file alone says how far it may go.")
        made = Standing(loop=key, level="L3", reason=clean(because, 500), since=self._clock(), by=by)
        await asyncio.to_thread(self._rounds.set_standing, made)
        data: dict[str, JsonValue] = {"loop": loop, "by": by, "reason": made.reason}
        self._events.append("loop_raised", data=data)
        return made
