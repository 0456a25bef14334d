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
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from assent.errors import AssentError, RunExists, RunHeld, UnknownRun, UsageError
from assent.inference.model import Model
from assent.ir.json_value import JsonValue
from assent.ir.proposal import Proposal
from assent.ir.result import Waiting
from assent.loops.acting import ACTION, by_call, executor_tool, hook_tool
from assent.loops.executors import executor_of
from assent.loops.executors.executor import Bench, Executor, Finding
from assent.loops.executors.record import RecordExecutor
from assent.loops.gates import Gate, gate_of
from assent.loops.leading import (
    STOPPED,
    TIME_OVER,
    Parts,
    Paused,
    RoundLeader,
    Watch,
    receipt_of,
    text_of_path,
    words_of_error,
)
from assent.loops.levels import Standing, below, lower_of
from assent.loops.round import LEADER, Later, Receipt, Round, loop_key
from assent.loops.spec import LoopSpec
from assent.loops.store import MemoryRounds, Rounds
from assent.runtime.journal import LED_BY, Choice
from assent.runtime.journal import Decision as Decided
from assent.safe_text import clean
from assent.turns.stopping import linked

if TYPE_CHECKING:
    from assent.approvals.approval import Decision as Answer
    from assent.coder.repository import Repository
    from assent.coder.workshop import Workshop
    from assent.runtime.open_run import OpenRun
    from assent.runtime.runtime import Runtime
    from assent.sandbox.confinement import Isolation
    from assent.tools.context import Cancel
    from assent.tools.tool import Tool

_LOOKS_S = 0.5
"""How often it is looked whether somebody wants the round to stop."""


class BaseMoved(UsageError):
    """The person's files have changed so that a change that waits no longer applies."""


class ObjectsGone(UsageError):
    """The person's repository has lost what a round began from."""


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
        from assent.sandbox.confinement import Isolation, isolation_of
        from assent.storage.location import state_folder, user_folder

        for each in (model, checker_model):
            if each is not None and (isinstance(each, type) or not callable(getattr(each, "generate", None))):
                raise UsageError(
                    f"LoopEngine got {each!r:.80} for a model. A model is an object with an async method "
                    "`generate(request)`: open one with assent.inference.open_model, or bring your own."
                )
        if runtime.journal is None or runtime.approvals is None:
            raise UsageError(
                "A loop needs a Runtime with a journal and approvals, because what it escalates waits for a "
                "person. Give it journal=SqlJournal(...) and approvals=SqlApprovals(...), or those in memory."
            )
        self.runtime = runtime
        self.spec = spec
        self.rounds: Rounds = rounds if rounds is not None else MemoryRounds()
        self._model = model
        self._checker = checker_model or model
        self._folder = Path(repository)
        self._home = Path(home) if home is not None else state_folder(os.environ) / "loops"
        self._isolation = isolation_of(isolation) or Isolation(spec.isolation, folder=user_folder(os.environ))
        self._gate = gate
        self._executor = executor
        self._tools = (list(maker_tools), list(checker_tools))
        self._clock = clock
        self._watch = watch

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
        from assent.loops.scheduler import new_round_id

        now = self._clock()
        round = Round(
            id=round_id or new_round_id(),
            loop=self.spec.name,
            repository=str(self._folder),
            spec=self.spec,
            level=self.spec.level,
            started_at=now,
            changed_at=now,
            due_at=due_at,
            rebased_from=rebase.id if rebase is not None else "",
            rebased_by=by,
        )
        try:
            found = await self._found()
            round.repository = str(found.top)
            known = await asyncio.to_thread(self.rounds.get, round.id)
            if known is not None:
                return await self.resume(round.id, cancel=cancel)
            if round.level != "L1":
                with suppress(AssentError):
                    await self.settle_decided()
                with suppress(AssentError):
                    await self.look_back()
            standing = await asyncio.to_thread(self.rounds.standing, round.key)
            if standing is not None:
                round.level = lower_of(round.level, standing.level)
            if rebase is not None:
                if round.level == "L1":
                    raise UsageError(
                        f"The loop '{round.loop}' only reports by now (L1), so nothing can be brought over. "
                        f"What round '{rebase.id}' asked still waits: deny it, or raise the loop's level."
                    )
                round.brought = await self.diff(rebase)
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
            UsageError: there is none.
            RunHeld: another process is at work on it.
        """
        round = self.rounds.find(round_id)
        if round.is_open:
            return await self._through(round, cancel, decide=decide)
        await self._supersede(round)
        if round.is_waiting:
            return await self._settle(round, cancel, decide=decide)
        await self._tidy(round)
        return round

    async def settle_decided(self) -> list[Round]:
        """Carry out, or close, what people have decided elsewhere, or what has expired. Each round of L2 and
        L3 begins with it."""
        key = loop_key(str((await self._found()).top), self.spec.name)
        ledger = self.runtime.approvals
        settled = []
        for round in await asyncio.to_thread(self.rounds.waiting, key):
            asked = await asyncio.to_thread(ledger.get, round.approval) if ledger and round.approval else None
            if asked is not None and not asked.open_at(time.time()):
                with suppress(AssentError):
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
        ledger = self.runtime.approvals
        if not round.is_waiting or not round.approval or ledger is None:
            raise UsageError(f"Round '{round.id}' asks nothing: it is {round.outcome or 'under way'}.")
        if decision != "deny":
            # Before anything is recorded: what cannot be carried out is not approved either.
            with _words_of_a_round(round):
                await (await self._workshop(round)).open()
                await self.see_that_it_applies(round)
        await asyncio.to_thread(ledger.decide, round.approval, decision, by=by, reason=reason)
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
        if not old.is_waiting:
            raise UsageError(
                f"Round '{old.id}' does not wait for anybody: it is {old.outcome or 'under way'}."
            )
        if any(each.what == "unknown" for each in old.later):
            raise UsageError(
                f"Nobody knows whether what round '{old.id}' came to was done. Look, and say so first: "
                f"assent resume {old.id} --decide act=done|retry|fail"
            )
        return await self.run_round(round_id=new_round, cancel=cancel, rebase=old, by=by)

    async def _supersede(self, new: Round) -> None:
        """Withdraw what an older round asks, once one that brings its change over has come to something. Done
        twice it is done once."""
        if not new.rebased_from or new.outcome not in ("escalated", "reported"):
            return
        old = await asyncio.to_thread(self.rounds.get, new.rebased_from)
        if old is None or not old.is_waiting:
            return
        why = f"round '{new.id}' took its place"
        ledger = self.runtime.approvals
        if ledger is not None and old.approval:
            await asyncio.to_thread(ledger.withdraw, old.approval, why)
        old.later.append(Later(what="superseded", at=self._clock(), by=new.rebased_by, reason=why))
        await asyncio.to_thread(self.rounds.put, old)
        await self._tidy(old)

    async def reverse(self, round_id: str, *, by: str, reason: str = "") -> Round:
        """Note that what a round did was taken back. A loop of which that is said may do less from now on.

        Raises:
            UsageError: there is no such round, or it did nothing.
        """
        round = self.rounds.find(round_id)
        if round.receipt is None:
            raise UsageError(f"Round '{round.id}' did nothing that could be taken back.")
        if not any(each.what == "reversed" for each in round.later):
            round.later.append(Later(what="reversed", at=self._clock(), by=by, reason=clean(reason, 500)))
            await asyncio.to_thread(self.rounds.put, round)
        at = next(each.at for each in round.later if each.what == "reversed")
        await self._demote(
            round, f"round {round.number} was taken back" + (f": {reason}" if reason else ""), at
        )
        return round

    async def raise_again(self, *, by: str, because: str) -> Standing:
        """Let the loop go as far as its file says again, after it was lowered. What was taken back before
        lowers it no more; what is taken back from now on does.

        Raises:
            UsageError: it was not lowered.
        """
        key = loop_key(str((await self._found()).top), self.spec.name)
        standing = await asyncio.to_thread(self.rounds.standing, key)
        if standing is None or not standing.lowers:
            raise UsageError(
                f"The loop '{self.spec.name}' was not lowered: its file alone says how far it may go."
            )
        made = Standing(loop=key, level="L3", reason=clean(because, 500), since=self._clock(), by=by)
        await asyncio.to_thread(self.rounds.set_standing, made)
        data: dict[str, JsonValue] = {"loop": self.spec.name, "by": by, "reason": made.reason}
        self.runtime.events.append("loop_raised", data=data)
        return made

    async def _demote(self, round: Round, reason: str, at: float) -> None:
        standing = await asyncio.to_thread(self.rounds.standing, round.key)
        level = below(round.level)
        if standing is not None:
            if standing.since >= (at if not standing.lowers else round.ended_at or 0):
                return  # It has been lowered since; or raised, by somebody who knew of this.
            level = lower_of(level, standing.level)
        made = Standing(loop=round.key, level=level, reason=clean(reason, 500), since=self._clock())
        await asyncio.to_thread(self.rounds.set_standing, made)
        data: dict[str, JsonValue] = {"loop": round.loop, "level": made.level, "reason": made.reason}
        self.runtime.events.append("round_demoted", data=data)

    # Looking

    async def check(self, receipt: Receipt) -> Finding:
        """Whether a receipt is one that was given, and what it says still is so.

        A round whose act somebody has reverted counts as taken back from then on.
        """
        if not receipt.is_intact:
            return Finding(holds=False, why="it was changed: its digest does not fit", seen="record")
        kept = await asyncio.to_thread(self.rounds.get, receipt.round)
        if kept is None or kept.receipt != receipt:
            return Finding(holds=False, why="no round has given such a receipt", seen="record")
        executor = self._executor_for(kept)
        if receipt.executor != executor.name:
            executor = RecordExecutor()
        found = await executor.check(receipt, await self._found())
        if found.is_reverted:
            await self.reverse(kept.id, by="git", reason=found.why)
        return found

    async def look_back(self, most: int = 5) -> list[Finding]:
        """Check the receipts of the newest rounds. What was reverted lowers the loop's level."""
        key = loop_key(str((await self._found()).top), self.spec.name)
        found = []
        for round in await asyncio.to_thread(self.rounds.listed, key, limit=most):
            is_known = any(each.what == "reversed" for each in round.later)
            if round.receipt is not None and not is_known:
                found.append(await self.check(round.receipt))
        return found

    async def diff(self, round: Round, *, whole: bool = False) -> str:
        """The change of a round as a unified diff. With `whole` also what the person had not committed, and
        what the round began with."""
        if not round.tree or round.tree == round.base_tree:
            return ""
        workshop = await self._workshop(round)
        old = await workshop.begin(False) if whole and round.included else round.base_tree
        return await workshop.diff(old, round.tree)

    async def see_that_it_applies(self, round: Round) -> None:
        """Return if the change of a round still applies to where the person is.

        Raises:
            BaseMoved: it does not.
        """
        if not round.has_change:
            return
        head = (await self._found()).head
        if head == round.base:
            return
        workshop = await self._workshop(round)
        if not await workshop.merges(round.tree, round.base, head):
            raise BaseMoved(
                f"The change of round '{round.id}' no longer applies: the repository has moved from "
                f"{round.base[:12]} to {head[:12]}, and both touch the same lines. Nothing was done. Let it "
                "be brought over and checked again: assent approvals approve ID --rebase"
            )

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
                async with self._held(round, inner, is_new=is_new, decide=decide) as (run, leader):
                    round = leader.round
                    if not round.is_open:
                        return round
                    await self._lead(leader, run, inner)
                    round = leader.round
                    await self._close(leader, run)
            except RunHeld:
                raise
            except Paused:
                return self.rounds.get(round.id) or round
            except Exception as error:
                return await self._failed(round, error)
        with suppress(AssentError):
            await self._supersede(round)
        if round.outcome != "escalated" or not round.is_waiting:
            await self._tidy(round)
        return round

    async def _lead(self, leader: RoundLeader, run: OpenRun, cancel: Cancel) -> None:
        round = leader.round
        await leader.count_before()
        looking = asyncio.get_running_loop().create_task(self._look(round.id, cancel))
        # Whatever runs for a round works in private folders: it need not end by itself.
        unlink = cancel.on_request(lambda: cancel.cancel(cancel.reason, hard=True))
        left = leader.left_s
        alarm = None
        if left is not None:
            alarm = asyncio.get_running_loop().call_later(
                left + 0.05, lambda: cancel.cancel(TIME_OVER, hard=True)
            )
        try:
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
        finally:
            unlink()
            if alarm is not None:
                alarm.cancel()
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking

    async def _close(self, leader: RoundLeader, run: OpenRun) -> None:
        """Keep the outcome, and end the run."""
        round = leader.round
        round.phase = "recording"
        if round.ended_at is None:
            round.ended_at = self._clock()
        await leader.save()
        if self._watch is not None:
            with suppress(Exception):
                self._watch(round, "recording")
        run.say(
            "round_ended",
            {
                "loop": round.loop,
                "number": round.number,
                "outcome": round.outcome,
                "reason": round.reason,
                "limit": round.limit,
                "approval": round.approval,
                "receipt": round.receipt.digest if round.receipt is not None else None,
                "tokens": round.spend.total_tokens,
                "cost": round.spend.cost_usd,
            },
        )
        if run.ended is None:
            if round.is_waiting:
                is_unknown = any(each.what == "unknown" for each in round.later)
                question = Waiting(
                    kind="unknown_outcome" if is_unknown else "approval",
                    action_id=ACTION,
                    reason=round.reason,
                    approval=round.approval or None,
                )
                await run.end("waiting", round.reason, waiting=[question])
            else:
                good = round.outcome in ("reported", "proceeded") or round.receipt is not None
                await run.end("succeeded" if good else "partial", None if good else round.reason)
        round.phase = "ended"
        await leader.save()

    async def _settle(
        self, round: Round, cancel: Cancel | None, *, decide: Mapping[str, Decided | Choice] | None
    ) -> Round:
        """Carry out an escalated round that a person has decided about, or close it."""
        with linked(cancel) as inner:
            async with self._held(round, inner, decide=decide) as (run, leader):
                round = leader.round
                if not round.is_waiting:
                    return round
                try:
                    with _words_of_a_round(round):
                        await leader.workshop.open()
                except ObjectsGone:
                    if await self._is_approved(round):
                        raise
                result = await leader.act()
                if result is None:
                    await leader.save()
                    return round
                match leader.status_of(result):
                    case "waiting":
                        round.approval = next((w.approval for w in result.waiting if w.approval), "")
                        await leader.save()
                        await run.end("waiting", round.reason, waiting=list(result.waiting))
                        return round
                    case "canceled":
                        return round
                    case "succeeded":
                        round.receipt = receipt_of(result, round, leader.executor.name, self._clock())
                        round.later.append(leader.decided("approved"))
                    case "rejected":
                        round.later.append(leader.decided("denied"))
                    case _:
                        error = result.results[0].error or result.error or "no reason was given"
                        said = leader.decided("failed")
                        round.later.append(
                            msgspec.structs.replace(
                                said, reason=clean(f"the executor failed: {error}", 2_000)
                            )
                        )
                await self._close(leader, run)
        await self._tidy(round)
        return round

    async def _is_approved(self, round: Round) -> bool:
        ledger = self.runtime.approvals
        asked = await asyncio.to_thread(ledger.get, round.approval) if ledger and round.approval else None
        return asked is not None and asked.decision in ("once", "always")

    async def _failed(self, round: Round, error: BaseException) -> Round:
        """A round that could not be led to an end."""
        kept = None
        with suppress(Exception):
            kept = await asyncio.to_thread(self.rounds.get, round.id)
        round = kept or round
        if round.outcome is None:
            round.outcome, round.reason = "failed", words_of_error(error)
        round.phase = "ended"
        round.ended_at = round.changed_at = self._clock()
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
                    "outcome": "failed",
                    "reason": round.reason,
                },
            )
        await self._tidy(round)
        return round

    async def _tidy(self, round: Round) -> None:
        """Remove the private copies of a round that nobody needs any more."""
        from assent.coder.scratch import remove_tree

        if round.is_open or round.is_waiting:
            return
        with suppress(OSError):
            await asyncio.to_thread(remove_tree, self._home / round.id)

    # Parts

    async def _look(self, round: str, cancel: Cancel) -> None:
        """Notice that somebody else wants it to stop."""
        while not cancel.requested:
            await asyncio.sleep(_LOOKS_S)
            with suppress(AssentError):
                reason = await asyncio.to_thread(self.rounds.asked_to_stop, round)
                if reason is not None:
                    cancel.cancel(f"{STOPPED}{reason}", hard=True)

    async def _found(self) -> Repository:
        from assent.coder.workshop import find_repository

        return await find_repository(self._folder)

    async def _workshop(self, round: Round) -> Workshop:
        from assent.coder.workshop import Workshop

        found = await self._found()
        if round.base:
            # The person may have gone on meanwhile; the round has not.
            found = msgspec.structs.replace(found, head=round.base)
        return Workshop(self._home / round.id, found)

    def _executor_for(self, round: Round) -> Executor:
        return self._executor or executor_of(round.spec.executor)

    @asynccontextmanager
    async def _held(
        self,
        round: Round,
        cancel: Cancel,
        *,
        is_new: bool = False,
        decide: Mapping[str, Decided | Choice] | None = None,
    ) -> AsyncIterator[tuple[OpenRun, RoundLeader]]:
        """The round while this process, and no other, is at work on it."""
        from assent.coder.checks import Checking
        from assent.coder.import_roots import import_roots
        from assent.loops.subruns import SubRuns

        workshop = await self._workshop(round)
        executor = self._executor_for(round)
        bench = Bench(workshop, workshop.repository, self._isolation)
        leaders: list[RoundLeader] = []

        def current() -> Round:
            return leaders[0].round if leaders else round

        async def applies() -> None:
            await self.see_that_it_applies(current())

        made = {each.name: each for each in (executor, RecordExecutor())}
        tools = [executor_tool(each, current, lambda: bench, applies, self._clock) for each in made.values()]
        tools.append(hook_tool(str(workshop.repository.top), round.spec.hooks.timeout_s))
        acting = self.runtime.beside(
            tools, folder=str(workshop.repository.top), waits=False, expires_s=round.spec.expires_s
        )
        roots = import_roots(workshop.repository.top, os.environ)
        parts = Parts(
            rounds=self.rounds,
            gate=self._gate or gate_of(round.spec, workshop.repository.top),
            executor=executor,
            checking=Checking(self._isolation, roots=roots),
            bench=bench,
            roots=roots,
            clock=self._clock,
            watch=self._watch,
        )
        subruns = SubRuns(
            self.runtime,
            self._model,
            self._checker,
            self._isolation,
            maker_tools=self._tools[0],
            checker_tools=self._tools[1],
        )
        about = _about(round)
        opened = (
            acting.open_run(about, cancel=cancel, run_id=round.id, by_call=by_call(current))
            if is_new
            else self._reopened(acting, about, cancel, current, decide)
        )
        async with opened as run:
            # Read once more: nobody else writes it from now on.
            fresh = await asyncio.to_thread(self.rounds.get, round.id) or round
            if fresh.is_open and not is_new:
                await self._hold_to_less(fresh)
            leader = RoundLeader(fresh, run, workshop, parts, subruns, cancel)
            leaders.append(leader)
            yield run, leader

    async def _hold_to_less(self, round: Round) -> None:
        """Let a round that was broken off go no further than it may by now."""
        standing = await asyncio.to_thread(self.rounds.standing, round.key)
        if standing is not None:
            round.level = lower_of(round.level, standing.level)
        if self.spec.name == round.loop:
            round.level = lower_of(round.level, self.spec.level)
            allow = tuple(kind for kind in round.spec.allow if kind in self.spec.allow)
            round.spec = msgspec.structs.replace(round.spec, allow=allow)

    @asynccontextmanager
    async def _reopened(
        self,
        acting: Runtime,
        about: Proposal,
        cancel: Cancel,
        current: Callable[[], Round],
        decide: Mapping[str, Decided | Choice] | None,
    ) -> AsyncIterator[OpenRun]:
        told = by_call(current)
        try:
            async with acting.reopen_run(about.id, cancel=cancel, by_call=told, decide=decide) as run:
                yield run
                return
        except UnknownRun:
            pass  # The process died when the round was kept and its run was not.
        try:
            async with acting.open_run(about, cancel=cancel, run_id=about.id, by_call=told) as run:
                yield run
        except RunExists:
            raise RunHeld(f"Another process is at work on round '{about.id}'. Try again later.") from None


@contextmanager
def _words_of_a_round(round: Round) -> Iterator[None]:
    """Say of a round what is said of a session where the person's repository has lost what it began from."""
    from assent.coder.trees import ObjectsGone as Gone

    try:
        yield
    except Gone:
        raise ObjectsGone(
            f"The repository {round.repository} no longer has all that round '{round.id}' began from: it was "
            "moved, or `git gc` has removed it after its history was changed. So its change cannot be done. "
            f"Deny it, and let the loop make it anew: assent loop run {round.loop}"
        ) from None


def _about(round: Round) -> Proposal:
    context: dict[str, JsonValue] = {
        LED_BY: LEADER,
        "round": round.id,
        "loop": round.loop,
        "number": round.number,
        "intent": round.spec.intent,
        "repository": round.repository,
    }
    return Proposal(id=round.id, source=LEADER, actions=(), context=context)
