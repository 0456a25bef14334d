"""The plans of one run: how each is carried out, what all of them share, and how the run ends.

Keep true:
1. Cost and budget span all plans of a run.
2. Whatever happens, the state is either kept or undone, and every span is ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import msgspec

from placet.approvals.approval import Approval
from placet.errors import StorageError
from placet.ir.graph import Graph
from placet.ir.json_value import JsonValue
from placet.ir.proposal import Proposal
from placet.ir.result import (
    CANCELED_PREFIX,
    CompensationResult,
    CostSummary,
    Outcome,
    ProposalResult,
    Waiting,
)
from placet.ir.stop_cause import StopCause
from placet.policy.budget import Budget
from placet.policy.gate import Gate
from placet.policy.marks import Inflow
from placet.runtime.account import added, description, ending, first_problem, outcome_of
from placet.runtime.asking import answer_words
from placet.runtime.binding import Binding, BoundRun, words_of_restore
from placet.runtime.calls import words_of
from placet.runtime.execution import Execution
from placet.runtime.journal import Choice, Decided, Decision, Journal, RunRecord, Taken, parse_key
from placet.runtime.keeping import Keeping, Request
from placet.runtime.ledger import Stop
from placet.runtime.notes import HoldLost
from placet.runtime.replan import ReplanCallback, ReplanConfig
from placet.runtime.resume import IN_FLIGHT, needs_output, proposal_of
from placet.runtime.run_info import RunInfo
from placet.runtime.schedule import Schedule, Scheduler
from placet.runtime.services import Services
from placet.runtime.stop_requests import listening_for_stop
from placet.runtime.undo import undo
from placet.storage.lease import StopRequest
from placet.tools.context import Cancel
from placet.trace_context import TraceContext, join_trace
from placet.verify.report import name_few

_TOLD_REASONS = 20
_UNTRACED = nullcontext()


class Settings(NamedTuple):
    """How a runtime runs proposals."""

    schedule: Schedule
    max_concurrency: int
    replan: ReplanCallback | None
    replan_config: ReplanConfig
    journal: Journal | None = None
    binding: Binding | None = None


class Plans:
    """A run, as far as it does not matter where its plans come from."""

    def __init__(
        self,
        services: Services,
        settings: Settings,
        gate: Gate,
        info: RunInfo,
        budget: Budget,
        request: Request,
    ) -> None:
        self._services = services
        self._settings = settings
        self._gate = gate
        self._info = info
        self._budget = budget
        self._cost = CostSummary()
        self._compensations: list[CompensationResult] = []
        self._irreversible: list[str] = []
        self._undo_commands: dict[str, str] = {}
        self._waiting: list[Waiting] = []
        self._is_resumed = False
        self._was_told = False
        """Whether the log has the beginning of the run for sure."""
        self._asked_before: dict[str, list[Approval]] = {}
        self._grants: list[Approval] = []
        self._execution: Execution | None = None
        """That of the newest plan."""
        self._request = request
        self._outcome: Outcome | None = None
        """How the run ended, or that it waits, once it does."""
        self._kept = Keeping(settings.journal, info, request, services)
        self._bound: BoundRun | None = None
        if settings.binding is not None:
            self._bound = BoundRun(
                settings.binding, services.workers, info.run_id, is_journaled=settings.journal is not None
            )

    # Traces

    def traced(self, about: Proposal) -> AbstractContextManager[None]:
        """Context manager: work on the run, in a span of its own where spans are exported. Runs that begin
        inside belong to it.

        Args:
            about: The proposal that the run began with.
        """
        trace = self._info.trace
        return self._in_span(about, trace) if trace is not None else _UNTRACED

    @contextmanager
    def _in_span(self, about: Proposal, trace: TraceContext) -> Iterator[None]:
        parent = str(trace.parent) if trace.parent is not None else None
        self.emit(
            "run_began",
            about.id,
            {
                "source": about.source,
                "led": self._info.leader is not None,
                "parent": parent,
                "stretch": trace.stretch,
                "sampled": trace.sampled,
            },
        )
        try:
            with join_trace(trace.traceparent(trace.run_span)):
                yield
        finally:
            self.emit("run_left", about.id, {"outcome": self._outcome})
            self._services.events.flush()

    # Taking a run up again

    async def _take_up(
        self, taken: Taken, decide: Mapping[str, Decision | Choice]
    ) -> tuple[dict[str, str], list[Decided]]:
        """Go on from an earlier process: what is in flight (names by key), and what was decided of it.

        Raises:
            UsageError: a decision is about nothing that is in flight, or another run is at work in the
                folder; nothing has changed then.
        """
        record = taken.record
        self._is_resumed = True
        self._was_told = taken.waited is not None
        try:
            if self._bound is not None:
                await self._bound.claim()
            if self._services.desk is not None:
                self._asked_before = await self._services.desk.of_run(record.run_id)
                # Another run may have had the same id; no two share a trace.
                mine = f"{record.trace_id}-"
                self._grants += [
                    approval
                    for key, found in self._asked_before.items()
                    for approval in found
                    if key.startswith(mine) and approval.covers_edits
                ]
        except BaseException:
            taken.journal.release()
            raise
        counted = self._gate.trace.unfinished.pop(record.run_id, None)
        if counted is not None:
            counted()
        called, decided = await self._kept.take_up(taken, decide)
        if self._bound is not None:
            self._bound.recall(self._kept.replay)
        if self._gate.state_marks is None and self._kept.has_marks:
            self._gate.state_marks = self._services.marks.scoped(self._info.tenant)
        return called, decided

    def _say_resumed(self, record: RunRecord, called: Mapping[str, str], decided: Sequence[Decided]) -> None:
        self.emit(
            "run_resumed",
            record.proposal.id,
            {
                "completed": len(self._kept.replay.ended),
                "unknown": [called[key] for key in self._kept.replay.in_flight],
                "decided": {called[note.key]: note.decision.choice for note in decided},
                "decided_by": {
                    called[note.key]: note.decision.by for note in decided if note.decision.by is not None
                },
            },
        )

    def _wait(self, record: RunRecord, called: Mapping[str, str]) -> ProposalResult:
        """How far the run has come, and what a person has to decide before it goes on."""
        replay = self._kept.replay
        number = max(replay.plans, default=0)
        proposal = proposal_of(record, replay, number)
        graph = self._graph(proposal)
        x = Execution(self._services, proposal, graph, self._gate, self._info, self._budget, number)
        notes = self._kept.notes(self._budget)
        assert notes is not None
        notes.attach(x)
        for key in replay.in_flight:
            plan, i, is_undo = parse_key(key)
            if plan == number and not is_undo:
                x.wait(i, IN_FLIGHT)
            owner = proposal_of(record, replay, plan)
            self._waiting.append(
                Waiting(
                    kind="unknown_outcome",
                    action_id=called[key],
                    reason=IN_FLIGHT,
                    needs_output=not is_undo and needs_output(owner, owner.actions[i].id),
                )
            )
        for i in range(x.size):
            if x.results[i] is None:
                x.leave(i)
        self._set_aside(x)
        count = len(replay.in_flight)
        words = "an action whose outcome is" if count == 1 else f"{count} actions whose outcomes are"
        return self._close(x, "waiting", f"waits for a decision about {words} not known")

    def _set_aside(self, x: Execution) -> None:
        """What was done is in the journal; in memory nothing is half done while the run waits."""
        x.take_back()
        x.forget_all()

    def _wait_for_approval(self, x: Execution) -> ProposalResult:
        for i in range(x.size):
            if x.results[i] is None:
                x.leave(i)
        self._set_aside(x)
        self._waiting += x.waiting
        names = name_few([w.action_id for w in x.waiting])
        count = "an approval" if len(x.waiting) == 1 else f"{len(x.waiting)} approvals"
        return self._close(x, "waiting", f"waits for {count}: {names}")

    # One plan

    def _graph(self, proposal: Proposal) -> Graph:
        return Graph(proposal.actions, self._gate.footprint if self._gate.touches else None)

    def _prepare(
        self,
        proposal: Proposal,
        graph: Graph,
        number: int,
        *,
        given: Inflow | None = None,
        typed: Sequence[str] = (),
        denials_from: int = 0,
        quietly: bool = False,
    ) -> Execution:
        """One plan of the run, which has been noted, as far as it had come before. `given` are the marks on
        what it says outright, and `typed` the texts that the person typed in the conversation it is from.
        With `quietly` nothing is recorded of it: all of it was, before."""
        notes = self._kept.notes(self._budget)
        x = Execution(self._services, proposal, graph, self._gate, self._info, self._budget, number, notes)
        if given is not None:
            x.give(given)
        x.typed = typed
        self._execution = x
        x.asked_before = self._asked_before
        x.grants = self._grants
        if self._bound is not None:
            x.restores = partial(self._bound.why_not_restored, number)
        x.denials_from = denials_from
        if quietly:
            x.mute()
        if not self._kept.has_begun(number) and not (self._was_told and not number):
            if not number:
                self._say_request(proposal.id)
            x.emit("proposal_received", data=description(proposal, graph, self._services.events.has_sinks))
        if notes is not None:
            x.misnamed = self._kept.beginning.misnamed
            if not self._kept.replay.is_empty:
                x.count_versions_from(self._kept.beginning)
            notes.attach(x)
        return x

    async def _carry_out(self, x: Execution, *, must_succeed: bool = False) -> ProposalResult:
        """Run a plan from where it stands."""
        proposal, graph, notes = x.proposal, x.graph, x.notes
        refusal = self._gate.refusal(len(proposal.actions))
        reasons = [f.message for f in graph.faults] or ([refusal] if refusal else [])
        if reasons:
            return self._refuse(x, reasons)
        try:
            problem = await self._bound.keep(x, notes) if self._bound is not None else None
            if problem is not None:
                if not any(x.results):
                    return self._refuse(x, [problem], "the workspace is not kept, so nothing was started")
                # It has come too far to be refused; when there is room again it can be resumed.
                x.stop_canceled(problem, StopCause.STORAGE)
            await Scheduler(x, max_concurrency=self._settings.max_concurrency).run(
                self._settings.schedule, one_by_one=self._may_run_out(x)
            )
            if x.waiting and x.stop is not None and x.stop.kind != "waiting":
                x.resettle()
            if x.waiting:
                return self._wait_for_approval(x)
            if must_succeed and any(x.status[i] != "succeeded" for i in graph.order):
                stop = x.stop
                x.abort(stop.error if stop is not None else first_problem(x))
            if notes is not None and x.is_aborted:
                await notes.about_to_abort()
            if x.is_aborted:
                why = x.stop.error if x.stop is not None else ""
                undone = await undo(x, self._bound, notes)
                self._compensations += undone.compensations
                self._irreversible += undone.irreversible
                self._undo_commands |= undone.undo_commands
                if x.stop is not None and (more := words_of_restore(undone.workspace)):
                    x.stop = x.stop._replace(error=x.stop.error + more)
                if notes is not None and self._is_stopped and undone.is_incomplete:
                    # What is not taken back yet is, when the run goes on.
                    assert self._info.cancel is not None
                    error = (
                        f"{CANCELED_PREFIX}{self._info.cancel.reason}, while it was being taken back ({why})"
                    )
                    x.stop = Stop("canceled", error, error, self._info.cancel.cause or StopCause.CALLER)
            else:
                x.commit()
                self._services.answers.adopt(x.page)
                for key, (output, ttl_s) in x.page.lasting.items():
                    self._services.cache.put(key, output, ttl_s)
            for target in graph.targets:
                if x.results[target] is None:
                    x.skip(target, "kept as a compensation; it was not needed")
        except HoldLost:
            # What became of the actions is for whoever has the run now to say, also in the log.
            x.take_back()
            raise
        except BaseException:
            # Our own fault, or the process is going down: leave no half-written state and no open span.
            x.take_back()
            for i in range(x.size):
                if x.results[i] is None:
                    x.skip(i, "the run broke off")
            x.emit("proposal_ended", data={"outcome": "aborted", "error": "the run broke off"})
            self._services.events.flush()
            raise
        outcome = outcome_of(x)
        if outcome == "canceled" and notes is not None and self._gate.counts:
            self._gate.trace.unfinished[self._info.run_id] = x.forget_all
        return self._close(x, outcome, x.stop.error if x.stop is not None else None)

    def _may_run_out(self, x: Execution) -> bool:
        if x.size == 1 or not self._budget.has_limits:
            return False
        # What has ended before the run was broken off has its share already.
        to_come = [i for i in x.graph.order if x.results[i] is None]
        calls = sum(x.actions[i].type == "tool_call" for i in to_come)
        return self._budget.may_run_out(len(to_come), calls)

    def _say_request(self, proposal_id: str) -> None:
        """On whose behalf the run is made, and what a person has lowered for it."""
        if self._request.said:
            self.emit("session_scope", proposal_id, dict(self._request.said))
        if self._request.lowered:
            self.emit("isolation_lowered", proposal_id, dict(self._request.lowered))

    def _refuse(self, x: Execution, reasons: Sequence[str], in_short: str | None = None) -> ProposalResult:
        # Told once in full; an action is told what concerns it, or a plan of ten thousand would say each
        # fault ten thousand times.
        own: dict[str, str] = {}
        for fault in x.graph.faults:
            for action_id in fault.action_ids:
                own.setdefault(action_id, fault.message)
        general = in_short or (reasons[0] if not x.graph.faults else "the proposal was refused")
        for i in range(x.size):
            x.refuse(i, own.get(x.actions[i].id, general))
        x.commit()
        told = "; ".join(reasons[:_TOLD_REASONS])
        if len(reasons) > _TOLD_REASONS:
            told += f"; and {len(reasons) - _TOLD_REASONS:,} more"
        return self._close(x, "refused", told)

    def _close(self, x: Execution, outcome: Outcome, error: str | None) -> ProposalResult:
        results = x.results[: x.size]
        self._cost = added(self._cost, x)
        if outcome != "waiting":
            # Of every attempt: a plan that works does not make an earlier effect any less unknown. What a run
            # waits for is only what can be decided.
            self._waiting += [
                Waiting(kind="unknown_outcome", action_id=r.action_id, reason=r.error or "")
                for r in results
                if r is not None and r.status == "unknown"
            ]
        info = self._info
        result = ProposalResult(
            proposal_id=x.proposal.id,
            run_id=info.run_id,
            trace_id=info.trace_id,
            outcome=outcome,
            error=error,
            results=results,  # type: ignore[arg-type]
            cost=self._cost,
            waiting=list(self._waiting),
            irreversible=self._irreversible,
            undo_commands=self._undo_commands,
            compensations=self._compensations,
            stop_cause=x.stop.cause if outcome == "canceled" and x.stop is not None else msgspec.UNSET,
        )
        x.emit("proposal_ended", data={"source": x.proposal.source, **ending(result)})
        return result

    @property
    def _is_stopped(self) -> bool:
        """Whether somebody wants everything to stop, at once."""
        return self._info.cancel is not None and self._info.cancel.hard

    # Ending

    async def _end(self, result: ProposalResult) -> ProposalResult:
        """Have everything on disk. That it cannot be kept how a run ended does not change how it ended."""
        self._outcome = result.outcome
        await self._take_back_questions(result)
        self._services.events.flush()
        try:
            await self._kept.end(result)
        except StorageError as error:
            self._kept.release()
            self._say_not_kept("journal", result.proposal_id, error)
        else:
            may_go_on = self._settings.journal is not None and result.outcome in ("waiting", "canceled")
            if self._bound is not None and not may_go_on:
                self._bound.drop()
            if self._settings.journal is not None:
                # Only now: whoever hears of it and reads the row finds how the run ended.
                self.emit("run_ended", result.proposal_id, {"outcome": result.outcome})
        if self._services.after_run is not None and result.outcome not in ("waiting", "canceled"):
            try:
                await self._services.after_run(result.run_id, self._info.tenant)
            except StorageError as error:
                self._say_not_kept("skills", result.proposal_id, error)
        await self._services.events.settle()
        return result

    def stop_requested(self) -> StopRequest | None:
        """Why the run is to stop, if another process has asked for it, or has taken it over. Waits for the
        disk."""
        return self._kept.stop_requested()

    def stopping_on_request(self, cancel: Cancel | None) -> AbstractAsyncContextManager[None]:
        """As long as this lasts, pass requests of other processes to stop this run on to a cancel of its own.

        That another process has taken the run over is none: whoever notes something next notices it, and has
        no say in how the run ends.

        Args:
            cancel: The cancel, for this run alone. `None`: nothing stops the run.
        """
        if cancel is None or self._settings.journal is None:
            return nullcontext()
        return listening_for_stop(self._asked_to_stop, cancel)

    def _asked_to_stop(self) -> StopRequest | None:
        found = self.stop_requested()
        return found if found is not None and found.cause is not StopCause.LEASE_LOST else None

    async def _take_back_questions(self, result: ProposalResult) -> None:
        """What the run has asked and needs no answer to any more is not left for people to puzzle over."""
        desk = self._services.desk
        if desk is None or not (desk.has_asked(self._info.run_id) or self._is_resumed):
            return
        is_unwanted = result.stop_cause is StopCause.PERSON
        if result.outcome == "canceled" and self._settings.journal is not None and not is_unwanted:
            return  # It can go on, and then needs its answers. One that a person has ended asks again.
        if any(w.kind == "unknown_outcome" for w in result.waiting) and result.outcome == "waiting":
            return  # Something else is to be decided first; what was asked is still in question.
        waiting = frozenset(w.approval for w in result.waiting if w.approval is not None)
        why = "the run asks about something else now" if waiting else f"the run has ended ({result.outcome})"
        try:
            for approval in await desk.take_back(self._info.run_id, why, waiting):
                words = answer_words(approval)
                self.emit("approval_recorded", result.proposal_id, words, action_id=approval.action_id)
        except StorageError as error:
            self._say_not_kept("approvals", result.proposal_id, error)

    def _say_not_kept(self, what: str, proposal_id: str, error: BaseException) -> None:
        words = f"{type(error).__name__}: {words_of(error)}"
        self.emit("sink_failed", proposal_id, {"sink": what, "error": words})

    def emit(
        self, kind: str, proposal_id: str, data: dict[str, JsonValue], *, action_id: str | None = None
    ) -> None:
        """Record an event of this run."""
        info = self._info
        self._services.events.append(
            kind, info.run_id, proposal_id, action_id, info.trace_id, None, info.tenant, data
        )


async def passing_on_cancellation(run: Coroutine[Any, Any, ProposalResult]) -> ProposalResult:
    """Await a run that puts everything in order when it is cancelled, and then let the cancellation pass."""
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    result = await run
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError
    return result
