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
from placet.inference.named import ModelLike, model_given
from placet.loops.copies import Copies
from placet.loops.decisions import Decisions, see_that_it_can_be_rebased
from placet.loops.executors import executor_of
from placet.loops.executors.executor import Executor, Finding
from placet.loops.gates import Gate
from placet.loops.holding import RoundHolder
from placet.loops.leading import Paused, RoundLeader, Watch, text_of_path, words_of_error
from placet.loops.levels import Standing
from placet.loops.round import Receipt, Round, labels_of
from placet.loops.spec import LoopSpec
from placet.loops.standing import Standings
from placet.loops.store import MemoryRounds, Rounds
from placet.runtime.given import check_runtime
from placet.runtime.journal import Choice
from placet.runtime.journal import Decision as Decided
from placet.runtime.stop_requests import linked

if TYPE_CHECKING:
    from placet.approvals.approval import Decision as Answer
    from placet.runtime.open_run import OpenRun
    from placet.runtime.runtime import Runtime
    from placet.sandbox.confinement import Isolation
    from placet.tools.context import Cancel
    from placet.tools.tool import Tool


class LoopEngine:
    """Runs rounds of one loop in one git repository."""

    def __init__(
        self,
        runtime: Runtime,
        model: ModelLike,
        spec: LoopSpec,
        repository: str | os.PathLike[str] = ".",
        *,
        checker_model: ModelLike | None = None,
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
        """The engine uses the policies, log, journal and approvals of the runtime, and tools of its own.

        Args:
            runtime: Executes the calls; it needs a `journal` and `approvals`.
            model: The model that makes the change, or its name, such as `"openai:gpt-5"`: that is opened with
                `os.environ` when a round begins.
            spec: The loop.
            repository: A folder of the git repository.
            checker_model: The model that checks, or its name. `None`: the same model in a new conversation.
            rounds: Store of rounds, such as `SqlRounds`. `None`: in memory.
            home: Folder for private copies. `None`: the user's state folder.
            isolation: Protections for commands and checks. `None`: those that the loop requires.
            gate: Gate to use instead of the loop's own, such as `AlwaysEscalate`, `Allowlist`, `CallbackGate`
                or `PolicyGate`.
            executor: Executor to use instead of the loop's own, such as `CallbackExecutor`.
            maker_tools: Tools for the maker besides the built-in ones; at L1 only those that read are
                offered.
            checker_tools: Tools for the checker besides the built-in ones.
            clock: Returns seconds since the epoch.
            watch: Function that is called with the round and the phase whenever a phase begins.

        Raises:
            UsageError: the runtime has no journal or no approvals, or an argument is not a runtime or
                a model.
        """
        from placet.loops.subruns import SubRuns
        from placet.sandbox.confinement import Isolation, isolation_of
        from placet.storage.location import state_folder, user_folder

        check_runtime(runtime, "LoopEngine")
        maker = model_given(model, "LoopEngine")
        checker = maker if checker_model is None else model_given(checker_model, "LoopEngine")
        if runtime.journal is None or runtime.approvals is None:
            raise UsageError(
                "A loop needs a Runtime with a journal and approvals, because what it escalates waits for a "
                "person. Give it journal=SqlJournal(...) and approvals=SqlApprovals(...), or those in memory."
            )

        def executor_for(round: Round) -> Executor:
            return executor or executor_of(round.spec.executor)

        self.runtime = runtime
        """The runtime."""
        self.spec = spec
        """The loop."""
        self.rounds: Rounds = rounds if rounds is not None else MemoryRounds()
        """The store of rounds."""
        self._clock = clock
        self._isolation = isolation_of(isolation) or Isolation(spec.isolation, folder=user_folder(os.environ))
        kept = Path(home) if home is not None else state_folder(os.environ) / "loops"
        self._copies = Copies(Path(repository), kept)
        self._decisions = Decisions(self.rounds, runtime.approvals, self._copies, clock)
        self._standings = Standings(self.rounds, runtime.events, self._copies, executor_for, clock)
        subruns = SubRuns(
            runtime,
            maker,
            checker,
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
        """Run one round to its outcome. Errors become the outcome `failed`, except `RunHeld`, which is raised
        if another process runs the round.

        Args:
            round_id: Id of the round. `None`: a new one.
            due_at: When the round was due, in seconds since the epoch, if a schedule started it.
            cancel: Request to stop; the round then stays open and can be resumed.
            rebase: Escalated round whose change is to be moved to the current commit. The result needs
                approval at every level.
            by: Who wants the rebase.
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
                round.brought_labels = labels_of(rebase)
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
        """Resume a round that was interrupted; execute or close one that a person has decided about. One that
        has ended, or still waits, is returned as it is.

        Args:
            round_id: Id of the round, or its beginning.
            decide: Outcome of an act whose outcome is unknown, such as `{"act": "done"}`.
            cancel: Request to stop.

        Raises:
            UsageError: there is no such round, or there is nothing that `decide` could decide.
            RunHeld: another process is working on it.
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
        """Execute or close the rounds that people have decided about elsewhere, or that have expired. Rounds
        of L2 and L3 begin with it.
        """
        settled = []
        for round in await asyncio.to_thread(self.rounds.waiting, await self._copies.key_of(self.spec.name)):
            if await self._decisions.is_answered(round):
                with suppress(PlacetError):
                    settled.append(await self.resume(round.id))
        return settled

    async def decide(self, round_id: str, decision: Answer, *, by: str, reason: str | None = None) -> Round:
        """Answer the question of an escalated round and execute what was approved, on exactly the tree that
        was shown.

        Takes the arguments of `resume`.

        Args:
            decision: `"once"`, `"always"` or `"deny"`.
            by: Who decides.
            reason: Why.

        Raises:
            UsageError: there is no such round, or it asks nothing.
            ApprovalDecided: it was decided before, or has expired.
            BaseMoved: the change no longer applies; nothing was decided.
        """
        round = self.rounds.find(round_id)
        await self._decisions.answer(round, decision, by=by, reason=reason)
        return await self.resume(round.id)

    async def rebase(
        self, round_id: str, *, by: str = "", new_round: str | None = None, cancel: Cancel | None = None
    ) -> Round:
        """Run a new round that moves an escalated change to the current commit and checks it again. The old
        question is then withdrawn.

        Takes the arguments of `resume`.

        Args:
            by: Who wants it.
            new_round: Id of the new round. `None`: a new one.

        Raises:
            UsageError: there is no such round, it does not wait, or the outcome of its act is unknown.
        """
        old = self.rounds.find(round_id)
        see_that_it_can_be_rebased(old)
        return await self.run_round(round_id=new_round, cancel=cancel, rebase=old, by=by)

    async def reverse(self, round_id: str, *, by: str, reason: str = "") -> Round:
        """Record that the act of a round was undone. This lowers the level of the loop.

        Takes the arguments of `resume`.

        Args:
            by: Who undid it.
            reason: Why.

        Raises:
            UsageError: there is no such round, or it did nothing.
        """
        return await self._standings.reverse(round_id, by=by, reason=reason)

    async def raise_again(self, *, by: str, because: str) -> Standing:
        """Restore the level of the loop's file after it was lowered.

        Args:
            by: Who decides.
            because: Why.

        Raises:
            UsageError: it was not lowered.
        """
        return await self._standings.raise_again(self.spec.name, by=by, because=because)

    # Looking

    async def check(self, receipt: Receipt) -> Finding:
        """Check whether a receipt is authentic and what it says still holds. A round whose act was reverted
        counts as undone from then on.

        Args:
            receipt: The receipt.
        """
        return await self._standings.check(receipt)

    async def look_back(self, most: int = 5) -> list[Finding]:
        """Check the receipts of the newest rounds. A reverted act lowers the level of the loop. Rounds of L2
        and L3 begin with it.

        Args:
            most: Maximum number of rounds.
        """
        return await self._standings.look_back(self.spec.name, most)

    async def diff(self, round: Round, *, whole: bool = False) -> str:
        """Return the change of a round as a unified diff.

        Args:
            round: The round.
            whole: Also show the uncommitted changes with which the round began.
        """
        return await self._copies.diff(round, whole=whole)

    async def see_that_it_applies(self, round: Round) -> None:
        """Check that the change of a round still applies to the current commit.

        Args:
            round: The round.

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
        async with self._holder.stopping(leader, run, cancel):
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
