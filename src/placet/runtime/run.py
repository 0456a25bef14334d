"""One run: a proposal, and the proposals that replace it when it fails.

Keep true:
1. Cost and budget span all attempts; a failed proposal is never executed a second time.
2. Whatever happens, the state is either kept or undone, and every span is ended.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from time import perf_counter

import msgspec

from placet.errors import DecodeError
from placet.ir.codec import decode_proposal
from placet.ir.proposal import Proposal
from placet.ir.result import ProposalResult
from placet.policy.budget import Budget
from placet.policy.gate import Gate
from placet.runtime.account import failed_actions, steps_of
from placet.runtime.calls import words_of
from placet.runtime.journal import Asked, Choice, Decision, Taken
from placet.runtime.keeping import Request
from placet.runtime.notes import HoldLost
from placet.runtime.plans import Plans, Settings
from placet.runtime.replan import ReplanContext
from placet.runtime.run_info import RunInfo
from placet.runtime.services import Services
from placet.runtime.trajectory import Trajectory, TrajectoryOutcome
from placet.verify.report import Report


class Run(Plans):
    """One call of `execute`."""

    def __init__(
        self,
        services: Services,
        settings: Settings,
        gate: Gate,
        info: RunInfo,
        budget: Budget,
        check: Callable[[Proposal], Report],
        request: Request,
    ) -> None:
        """`check` verifies a replanned proposal before it is executed."""
        super().__init__(services, settings, gate, info, budget, request)
        self._check = check
        self._attempt = 0

    async def execute(self, proposal: Proposal, *, must_succeed: bool = False) -> ProposalResult:
        """Run the proposal, and ask for others while it fails and replans are left.

        With `must_succeed` anything short of success is undone like an abort.
        """
        try:
            try:
                result = await self._all(proposal, must_succeed)
            except HoldLost as lost:
                raise lost.error from None
            except BaseException:
                self._kept.release()
                if self._bound is not None and self._execution is not None and self._settings.journal is None:
                    self._bound.give_up(self._execution)
                raise
            return await self._end(result)
        finally:
            if self._bound is not None:
                self._bound.release()

    async def resume(self, taken: Taken, decide: Mapping[str, Decision | Choice]) -> ProposalResult:
        """Go on with a run that was broken off, or say what it waits for.

        Raises:
            UsageError: a decision is about nothing that is in flight, or another run is at work in the
                folder; nothing has changed then.
        """
        try:
            return await self._resume(taken, decide)
        finally:
            if self._bound is not None:
                self._bound.release()

    async def _resume(self, taken: Taken, decide: Mapping[str, Decision | Choice]) -> ProposalResult:
        record = taken.record
        called, decided = await self._take_up(taken, decide)
        in_flight = self._kept.replay.in_flight
        if in_flight and not decided and taken.waited is not None:
            # Somebody only looked: nothing has happened that the log would have to tell.
            await self._kept.end(taken.waited)
            return taken.waited
        self._say_resumed(record, called, decided)
        if in_flight:
            return await self._end(self._wait(record, called))
        return await self.execute(record.proposal, must_succeed=record.must_succeed)

    async def _once(self, proposal: Proposal, must_succeed: bool, *, asked: int = 0) -> ProposalResult:
        graph = self._graph(proposal)
        if asked:
            self._kept.replace(self._attempt, asked, proposal, graph)
        else:
            await self._kept.open(proposal, graph, must_succeed)
        return await self._carry_out(self._prepare(proposal, graph, self._attempt), must_succeed=must_succeed)

    async def _all(self, proposal: Proposal, must_succeed: bool) -> ProposalResult:
        """Run the plan and those that replace it."""
        result = await self._once(proposal, must_succeed)
        asked = self._kept.replay.asked
        rejections = list(self._kept.replay.rejections)
        gave_up = False
        while not gave_up:
            known = self._kept.next_plan(self._attempt + 1)
            if known is not None:
                asked = known.asked
                answer: Proposal | None = known.proposal
            elif self._wants_replan(result) and asked < self._settings.replan_config.max_replans:
                asked += 1
                answer, gave_up = await self._ask(proposal, result, asked, rejections)
            else:
                break
            if answer is not None:
                self._attempt += 1
                result = await self._once(answer, must_succeed, asked=0 if known is not None else asked)
        if result.outcome == "waiting":
            return result
        exhausted = asked > 0 and not gave_up and self._wants_replan(result)
        if exhausted:
            self.emit("replan_exhausted", proposal.id, {"attempts": asked})
        result = msgspec.structs.replace(
            result,
            cost=self._cost,
            compensations=self._compensations,
            irreversible=self._irreversible,
            undo_commands=self._undo_commands,
            replans=self._attempt,
        )
        self._keep_trajectory(proposal, result, exhausted)
        return result

    # Replanning

    def _wants_replan(self, result: ProposalResult) -> bool:
        if self._settings.replan is None or self._settings.replan_config.max_replans <= 0:
            return False
        if self._info.cancel is not None and self._info.cancel.requested:
            return False
        if result.outcome == "aborted":
            return True
        return result.outcome == "partial" and any(r.status in ("failed", "unknown") for r in result.results)

    async def _ask(
        self, original: Proposal, result: ProposalResult, asked: int, rejections: list[str]
    ) -> tuple[Proposal | None, bool]:
        """Ask for another proposal: (one that may be executed or None, whether to give up)."""
        config = self._settings.replan_config
        assert self._settings.replan is not None
        assert self._execution is not None
        if config.delay_ms > 0:
            await asyncio.sleep(config.delay_ms / 1000)
        failed = failed_actions(self._execution)
        self.emit("replan_attempted", original.id, {"attempt": asked, "failed_count": len(failed)})
        context = ReplanContext(
            proposal_id=original.id,
            attempt=asked,
            failed_actions=failed,
            completed_action_ids=[
                r.action_id
                for i, r in enumerate(result.results)
                if r.status == "succeeded" and not r.rolled_back and i not in self._execution.graph.targets
            ],
            state=self._services.state.scoped(self._info.tenant).snapshot(),
            replans_remaining=config.max_replans - asked,
            original_source=original.source,
            original_action_count=len(original.actions),
            original_context=original.context,
            rejections=tuple(rejections),
        )
        try:
            answer = self._settings.replan(context)
            if inspect.isawaitable(answer):
                answer = await answer
        except (KeyboardInterrupt, asyncio.CancelledError):
            raise
        except BaseException as error:
            words = f"{type(error).__name__}: {words_of(error)}"
            self.emit(
                "replan_exhausted",
                original.id,
                {"reason": "callback_error", "error": words, "attempts": asked},
            )
            return None, True
        try:
            proposal = decode_proposal(answer)
            problems = self._problems(proposal) if config.verify_before_execute else []
        except DecodeError as error:
            problems = [str(error)]
        if problems:
            rejections.append("; ".join(problems))
            self._kept.note(Asked(asked, rejections[-1]))
            self.emit("replan_rejected", original.id, {"attempt": asked, "errors": problems})
            return None, False
        self.emit(
            "replan_proposal_received",
            original.id,
            {"attempt": asked, "new_proposal_id": proposal.id, "new_action_count": len(proposal.actions)},
        )
        return proposal, False

    def _problems(self, proposal: Proposal) -> list[str]:
        report = self._check(proposal)
        return [
            f"{i.action_id}: {i.message}" if i.action_id else i.message
            for i in report.issues
            if i.severity == "error"
        ]

    # Learning

    def _keep_trajectory(self, original: Proposal, result: ProposalResult, exhausted: bool) -> None:
        store = self._services.trajectories
        x = self._execution
        if store is None or x is None or (result.outcome == "refused" and not self._attempt):
            return
        outcome: TrajectoryOutcome = "replan_exhausted" if exhausted else "failed"
        if result.succeeded:
            outcome = "replan_success" if self._attempt else "success"
        try:
            store.append(
                Trajectory(
                    proposal_id=original.id,
                    run_id=result.run_id,
                    source=original.source,
                    outcome=outcome,
                    timestamp=datetime.now(UTC),
                    duration_ms=(perf_counter() - self._info.started) * 1000,
                    attempts=self._attempt + 1,
                    steps=steps_of(x, result),
                    labels=tuple(sorted({mark for i in range(x.size) for mark in x.marks_of(i)})),
                    tenant=self._info.tenant,
                )
            )
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._say_not_kept(type(store).__name__, original.id, error)
