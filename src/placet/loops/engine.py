"""Rounds of a loop: maker, checker, gate, executor; begun, gone on with, and decided about.

Keep true:
1. A round never raises: whatever happens is its outcome, and is kept.
2. A round is led by one process at a time, and can be taken up by the next one from any phase.
3. Nothing of the person's repository changes but through the executor, on exactly the tree that was frozen.
4. A round that is taken up again may do what it might when it began and may do now: the less of both.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from placet.errors import PlacetError, RunHeld, UsageError
from placet.inference.model import Model
from placet.loops.copies import Copies
from placet.loops.decisions import Decisions, see_that_it_can_be_rebased
from placet.loops.executors import executor_of
from placet.loops.executors.executor import Executor, Finding
from placet.loops.gates import Gate
from placet.loops.holding import RoundHolder
from placet.loops.leading import Paused, RoundLeader, Watch, text_of_path, words_of_error
from placet.loops.levels import Standing
from placet.loops.round import Receipt, Round
from placet.loops.spec import LoopSpec
from placet.loops.standing import Standings
from placet.loops.store import MemoryRounds, Rounds
from placet.runtime.journal import Choice
from placet.runtime.journal import Decision as Decided
from placet.turns.stopping import linked

if TYPE_CHECKING:
    from placet.approvals.approval import Decision as Answer
    from placet.runtime.open_run import OpenRun
    from placet.runtime.runtime import Runtime
    from placet.sandbox.confinement import Isolation
    from placet.tools.context import Cancel
    from placet.tools.tool import Tool


class LoopEngine:
    """Runs rounds of one loop in one repository."""

    def __init__(
        self,
        runtime: Runtime,
        model: Model,
        spec: LoopSpec,
        repository: str | os.PathLike[str] = ".",
        *,
        checker_model: Model | None = None,
        rounds: Rounds | None = None,
        home: str | os.PathLike[str] | None = None,
        isolation: Isolation | None = None,
        gate: Gate | None = None,
        executor: Executor | None = None,
        maker_tools: Sequence[Tool] = (),
        checker_tools: Sequence[Tool] = (),
        clock: Callable[[], float] = time.time,
        watch: Watch | None = None,
    ) -> None:
        """`runtime` brings policies, the log, the journal and the people to ask; its tools are not used. It
        needs a journal and approvals: an escalation is a question that stays.

        `checker_model` checks, else the same model in a fresh conversation. `rounds` is where rounds are
        kept; without it, in memory. `home` is where private copies are kept. Commands and checks run under
        `isolation`; without it, what the loop says is required. `gate` and `executor` take the place of what
        the loop's file names. `watch` is told of every phase.

        Raises:
            UsageError: the runtime lacks a journal or approvals, or something is no model.
        """
        from placet.loops.subruns import SubRuns
        from placet.sandbox.confinement import Isolation, isolation_of
        from placet.storage.location import state_folder, user_folder

        for each in (model, checker_model):
            if each is not None and (isinstance(each, type) or not callable(getattr(each, "generate", None))):
                raise UsageError(
                    f"LoopEngine got {each!r:.80} for a model. A model is an object with an async method "
                    "`generate(request)`: open one with placet.inference.open_model, or bring your own."
                )
        if runtime.journal is None or runtime.approvals is None:
            raise UsageError(
                "A loop needs a Runtime with a journal and approvals, because what it escalates waits for a "
                "person. Give it journal=SqlJournal(...) and approvals=SqlApprovals(...), or those in memory."
            )

        def executor_for(round: Round) -> Executor:
            return executor or executor_of(round.spec.executor)

        self.runtime = runtime
        self.spec = spec
        self.rounds: Rounds = rounds if rounds is not None else MemoryRounds()
        self._clock = clock
        self._isolation = isolation_of(isolation) or Isolation(spec.isolation, folder=user_folder(os.environ))
        kept = Path(home) if home is not None else state_folder(os.environ) / "loops"
        self._copies = Copies(Path(repository), kept)
        self._decisions = Decisions(self.rounds, runtime.approvals, self._copies, clock)
        self._standings = Standings(self.rounds, runtime.events, self._copies, executor_for, clock)
        subruns = SubRuns(
            runtime,
            model,
            checker_model or model,
            self._isolation,
            maker_tools=maker_tools,
            checker_tools=checker_tools,
        )
        self._holder = RoundHolder(
            runtime,
            self.rounds,
            self._copies,
            subruns,
            self._isolation,
            executor_for,
            gate=gate,
            clock=clock,
            watch=watch,
        )

    # Rounds

    async def run_round(
        self,
        *,
        round_id: str | None = None,
        due_at: float | None = None,
        cancel: Cancel | None = None,
        rebase: Round | None = None,
        by: str = "",
    ) -> Round:
        """Run one round to its outcome. Stopped by `cancel` it stays open, and can be resumed.

        `rebase` is an escalated round whose change is to be brought over to where the person is now, because
        `by` wants that; what comes of it is asked, whatever the level.
        """
        from placet.loops.scheduler import new_round_id

        now = self._clock()
        round = Round(
            id=round_id or new_round_id(),
            loop=self.spec.name,
            repository=str(self._copies.folder),
            spec=self.spec,
            level=self.spec.level,
            started_at=now,
            changed_at=now,
            due_at=due_at,
            rebased_from=rebase.id if rebase is not None else "",
            rebased_by=by,
        )
        try:
            round.repository = str((await self._copies.repository()).top)
            known = await asyncio.to_thread(self.rounds.get, round.id)
            if known is not None:
                return await self.resume(round.id, cancel=cancel)
            if round.level != "L1":
                with suppress(PlacetError):
                    await self.settle_decided()
                with suppress(PlacetError):
                    await self.look_back()
            await self._standings.hold(round)
            if rebase is not None:
                if round.level == "L1":
                    raise UsageError(
                        f"The loop '{round.loop}' only reports by now (L1), so nothing can be brought over. "
                        f"What round '{rebase.id}' asked still waits: deny it, or raise the loop's level."
                    )
                round.brought = await self._copies.diff(rebase)
            round = await asyncio.to_thread(self.rounds.begin, round)
        except Exception as error:
            return await self._failed(round, error)
        return await self._through(round, cancel, is_new=True)

    async def resume(
        self,
        round_id: str,
        *,
        decide: Mapping[str, Decided | Choice] | None = None,
        cancel: Cancel | None = None,
    ) -> Round:
        """Go on with a round that was broken off; carry out, or close, one that a person has decided about.
        One that has ended, or still waits, is returned as it is. `decide` says what became of an act of which
        nobody knows: {"act": "done" | "retry" | "fail"}.

        Raises:
            UsageError: there is none, or it asks nothing that `decide` could decide.
            RunHeld: another process is at work on it.
        """
        round = self.rounds.find(round_id)
        if round.is_open:
            return await self._through(round, cancel, decide=decide)
        await self._decisions.supersede(round)
        if round.is_waiting:
            return await self._settle(round, cancel, decide=decide)
        await self._copies.tidy(round)
        if decide:
            raise UsageError(
                f"Round '{round.id}' has ended ({round.outcome}): it asks nothing about its act."
            )
        return round

    async def settle_decided(self) -> list[Round]:
        """Carry out, or close, what people have decided elsewhere, or what has expired. Each round of L2 and
        L3 begins with it."""
        settled = []
        for round in await asyncio.to_thread(self.rounds.waiting, await self._copies.key_of(self.spec.name)):
            if await self._decisions.is_answered(round):
                with suppress(PlacetError):
                    settled.append(await self.resume(round.id))
        return settled

    async def decide(self, round_id: str, decision: Answer, *, by: str, reason: str | None = None) -> Round:
        """Answer what an escalated round asks, and carry out what was approved on exactly the tree that was
        shown.

        Raises:
            UsageError: there is no such round, or it asks nothing.
            ApprovalDecided: somebody was quicker, or its time is up.
            BaseMoved: the change no longer applies; nothing was decided.
        """
        round = self.rounds.find(round_id)
        await self._decisions.answer(round, decision, by=by, reason=reason)
        return await self.resume(round.id)

    async def rebase(
        self, round_id: str, *, by: str = "", new_round: str | None = None, cancel: Cancel | None = None
    ) -> Round:
        """A new round that brings an escalated change over to where the person is now, and has it checked
        again. What comes of it is asked anew; only then the old question is withdrawn.

        Raises:
            UsageError: there is no such round, it does not wait, or nobody knows whether its act was done.
        """
        old = self.rounds.find(round_id)
        see_that_it_can_be_rebased(old)
        return await self.run_round(round_id=new_round, cancel=cancel, rebase=old, by=by)

    async def reverse(self, round_id: str, *, by: str, reason: str = "") -> Round:
        """Note that what a round did was taken back. A loop of which that is said may do less from now on.

        Raises:
            UsageError: there is no such round, or it did nothing.
        """
        return await self._standings.reverse(round_id, by=by, reason=reason)

    async def raise_again(self, *, by: str, because: str) -> Standing:
        """Let the loop go as far as its file says again, after it was lowered. What was taken back before
        lowers it no more; what is taken back from now on does.

        Raises:
            UsageError: it was not lowered.
        """
        return await self._standings.raise_again(self.spec.name, by=by, because=because)

    # Looking

    async def check(self, receipt: Receipt) -> Finding:
        """Whether a receipt is one that was given, and what it says still is so.

        A round whose act somebody has reverted counts as taken back from then on.
        """
        return await self._standings.check(receipt)

    async def look_back(self, most: int = 5) -> list[Finding]:
        """Check the receipts of the newest rounds. What was reverted lowers the loop's level."""
        return await self._standings.look_back(self.spec.name, most)

    async def diff(self, round: Round, *, whole: bool = False) -> str:
        """The change of a round as a unified diff. With `whole` also what the person had not committed, and
        what the round began with."""
        return await self._copies.diff(round, whole=whole)

    async def see_that_it_applies(self, round: Round) -> None:
        """Return if the change of a round still applies to where the person is.

        Raises:
            BaseMoved: it does not.
        """
        await self._copies.see_that_it_applies(round)

    # The way

    async def _through(
        self,
        round: Round,
        cancel: Cancel | None,
        *,
        is_new: bool = False,
        decide: Mapping[str, Decided | Choice] | None = None,
    ) -> Round:
        """Lead a round to its outcome, whatever happens."""
        with linked(cancel) as inner:
            try:
                await self._isolation.check()
                async with self._holder.hold(round, inner, is_new=is_new, decide=decide) as (run, leader):
                    round = leader.round
                    if not round.is_open:
                        return round
                    if not is_new:
                        await self._standings.hold_to_less(round, self.spec)
                    await self._lead(leader, run, inner)
                    round = leader.round
                    await self._holder.close(leader, run)
            except RunHeld:
                raise
            except Paused:
                return self.rounds.get(round.id) or round
            except Exception as error:
                return await self._failed(round, error)
        with suppress(PlacetError):
            await self._decisions.supersede(round)
        if round.outcome != "escalated" or not round.is_waiting:
            await self._copies.tidy(round)
        return round

    async def _lead(self, leader: RoundLeader, run: OpenRun, cancel: Cancel) -> None:
        round = leader.round
        await leader.count_before()
        async with self._holder.stopping(leader, cancel):
            workshop = leader.workshop
            if not round.base:
                round.base = workshop.repository.head
                await workshop.open()
                round.base_tree = await workshop.begin(round.spec.include_changes)
                if round.spec.include_changes:
                    started = await workshop.begin(False)
                    own = await workshop.changed(started, round.base_tree)
                    round.included = [text_of_path(each.path) for each in own]
                await leader.save()
                run.say(
                    "round_started",
                    {"loop": round.loop, "number": round.number, "level": round.level, "base": round.base},
                )
            else:
                await workshop.open()
            await leader.lead()

    async def _settle(
        self, round: Round, cancel: Cancel | None, *, decide: Mapping[str, Decided | Choice] | None
    ) -> Round:
        """Carry out an escalated round that a person has decided about, or close it."""
        with linked(cancel) as inner:
            async with self._holder.hold(round, inner, decide=decide) as (run, leader):
                round = leader.round
                if not await self._decisions.carry_out(leader, run):
                    return round
                await self._holder.close(leader, run)
        await self._copies.tidy(round)
        return round

    async def _failed(self, round: Round, error: BaseException) -> Round:
        """A round that could not be led to an end."""
        kept = None
        with suppress(Exception):
            kept = await asyncio.to_thread(self.rounds.get, round.id)
        round = kept or round
        if round.outcome is None:
            round.outcome, round.reason = "failed", words_of_error(error)
        round.phase = "ended"
        round.changed_at = self._clock()
        if round.ended_at is None:
            round.ended_at = round.changed_at
        with suppress(Exception):
            if not round.number:
                round.number = (await asyncio.to_thread(self.rounds.begin, round)).number
            await asyncio.to_thread(self.rounds.put, round)
        with suppress(Exception):
            self.runtime.events.append(
                "round_ended",
                data={
                    "loop": round.loop,
                    "number": round.number,
                    "outcome": round.outcome,
                    "reason": round.reason,
                },
            )
        await self._copies.tidy(round)
        return round
