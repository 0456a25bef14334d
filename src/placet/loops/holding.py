"""A round in the hands of one process: its run, all that it is led with, what stops it, and its end.

Keep true:
1. A round is held by one process at a time, and is read once more when it is held.
2. A round that was kept when its run was not can be held all the same.
3. Whoever wants a round to stop, from whatever process, is heard while it is led.
4. The outcome is kept before the run ends.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING

from placet.errors import RunExists, RunHeld, UnknownRun
from placet.ir.json_value import JsonValue
from placet.ir.proposal import Proposal
from placet.ir.result import Waiting
from placet.ir.stop_cause import StopCause
from placet.loops.acting import ACTION, by_call, executor_tool, hook_tool
from placet.loops.copies import Copies
from placet.loops.executors.executor import Bench, Executor
from placet.loops.executors.record import RecordExecutor
from placet.loops.gates import Gate, gate_of
from placet.loops.leading import Parts, RoundLeader, Watch
from placet.loops.round import LEADER, Round
from placet.loops.store import Rounds
from placet.runtime.journal import LED_BY, Choice
from placet.runtime.journal import Decision as Decided
from placet.runtime.stop_requests import listening_for_stop
from placet.turns.stopping import always_hard

if TYPE_CHECKING:
    from placet.loops.subruns import SubRuns
    from placet.runtime.open_run import OpenRun
    from placet.runtime.runtime import Runtime
    from placet.sandbox.confinement import Isolation
    from placet.tools.context import Cancel


class RoundHolder:
    """Takes rounds in hand, and lets go of them."""

    def __init__(
        self,
        runtime: Runtime,
        rounds: Rounds,
        copies: Copies,
        subruns: SubRuns,
        isolation: Isolation,
        executor_for: Callable[[Round], Executor],
        *,
        gate: Gate | None,
        clock: Callable[[], float],
        watch: Watch | None,
    ) -> None:
        """`executor_for` says who acts for a round. Without a `gate` it is the one that the round's own copy
        of the loop's file names."""
        self._runtime = runtime
        self._rounds = rounds
        self._copies = copies
        self._subruns = subruns
        self._isolation = isolation
        self._executor_for = executor_for
        self._gate = gate
        self._clock = clock
        self._watch = watch

    @asynccontextmanager
    async def hold(
        self,
        round: Round,
        cancel: Cancel,
        *,
        is_new: bool = False,
        decide: Mapping[str, Decided | Choice] | None = None,
    ) -> AsyncIterator[tuple[OpenRun, RoundLeader]]:
        """The round while this process, and no other, is at work on it. `decide` says what became of an act
        of which nobody knows.

        Raises:
            RunHeld: another process is at work on it.
        """
        from placet.checks.check_runner import CheckRunner
        from placet.checks.import_roots import import_roots

        workshop = await self._copies.workshop(round)
        executor = self._executor_for(round)
        bench = Bench(workshop, workshop.repository, self._isolation)
        leaders: list[RoundLeader] = []

        def current() -> Round:
            return leaders[0].round if leaders else round

        async def applies() -> None:
            await self._copies.see_that_it_applies(current())

        made = {each.name: each for each in (executor, RecordExecutor())}
        tools = [executor_tool(each, current, lambda: bench, applies, self._clock) for each in made.values()]
        tools.append(hook_tool(str(workshop.repository.top), round.spec.hooks.timeout_s, self._isolation))
        acting = self._runtime.beside(
            tools, folder=str(workshop.repository.top), waits=False, expires_s=round.spec.expires_s
        )
        roots = import_roots(workshop.repository.top, os.environ)
        parts = Parts(
            rounds=self._rounds,
            gate=self._gate or gate_of(round.spec, workshop.repository.top),
            executor=executor,
            checking=CheckRunner(self._isolation, roots=roots),
            bench=bench,
            roots=roots,
            clock=self._clock,
            watch=self._watch,
        )
        about = _about(round)
        opened = (
            acting.open_run(about, cancel=cancel, run_id=round.id, by_call=by_call(current))
            if is_new
            else _reopened(acting, about, cancel, current, decide)
        )
        async with opened as run:
            # Read once more: nobody else writes it from now on.
            fresh = await asyncio.to_thread(self._rounds.get, round.id) or round
            leader = RoundLeader(fresh, run, workshop, parts, self._subruns, cancel)
            leaders.append(leader)
            yield run, leader

    @asynccontextmanager
    async def stopping(self, leader: RoundLeader, run: OpenRun, cancel: Cancel) -> AsyncIterator[None]:
        """As long as this lasts, the end of the time of the round stops it, and so do requests of other
        processes; whatever does stops what is in flight."""
        left = leader.left_s
        alarm = None
        if left is not None:
            alarm = asyncio.get_running_loop().call_later(
                left + 0.05,
                lambda: cancel.cancel("the time of the round is over", hard=True, cause=StopCause.DEADLINE),
            )
        try:
            async with listening_for_stop(run.stop_requested, cancel):
                with always_hard(cancel):
                    yield
        finally:
            if alarm is not None:
                alarm.cancel()

    async def close(self, leader: RoundLeader, run: OpenRun) -> None:
        """Keep the outcome of a round, and end its run."""
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


@asynccontextmanager
async def _reopened(
    acting: Runtime,
    about: Proposal,
    cancel: Cancel,
    current: Callable[[], Round],
    decide: Mapping[str, Decided | Choice] | None,
) -> AsyncIterator[OpenRun]:
    told = by_call(current)
    async with AsyncExitStack() as stack:
        try:
            old = acting.reopen_run(about.id, cancel=cancel, by_call=told, decide=decide)
            run = await stack.enter_async_context(old)
        except UnknownRun:
            # The process died when the round was kept and its run was not.
            new = acting.open_run(about, cancel=cancel, run_id=about.id, by_call=told)
            try:
                run = await stack.enter_async_context(new)
            except RunExists:
                raise RunHeld(f"Another process is at work on round '{about.id}'. Try again later.") from None
        yield run


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
