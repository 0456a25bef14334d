"""One round from wherever it stands to its outcome, phase by phase.

Keep true:
1. What a phase has come to is kept before the next begins; a phase that was broken off is begun again.
2. Checker, checks and executor see the frozen tree, each in a copy of its own, and nothing else.
3. What was spent is kept, whatever becomes of a sub-run.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec

from placet.checks.contract import Check, CheckResult
from placet.checks.environment_fault import find_fault, format_fault
from placet.errors import PlacetError
from placet.ir.result import ProposalResult
from placet.ir.stop_cause import StopCause
from placet.loops.acting import ACTION, act_of, hook_plan, inflow_of, plan_of
from placet.loops.budget import ITERATIONS, Limit, Spend, left_s, round_budget, too_many_iterations
from placet.loops.executors.executor import Bench, Executor
from placet.loops.executors.record import RecordExecutor
from placet.loops.gates import Gate, Proposed, ask_gate
from placet.loops.levels import why_not_allowed, why_not_verified
from placet.loops.prompts import checker_task, maker_task
from placet.loops.recall import told
from placet.loops.round import (
    Decision,
    Later,
    Outcome,
    Phase,
    Receipt,
    Round,
    SubRun,
    day_began,
)
from placet.loops.verdict import REPORT, TOOL, one_of, unread, why_maker_not_done
from placet.policy.budget import Budget, Exceeded
from placet.policy.marks import labels_from
from placet.safe_text import clean
from placet.turns.stopping import stopped_by

if TYPE_CHECKING:
    from placet.checks.check_runner import CheckRunner
    from placet.checks.sealing import Seal
    from placet.loops.store import Rounds
    from placet.loops.subruns import SubRuns
    from placet.runtime.open_run import OpenRun
    from placet.tools.context import Cancel
    from placet.worktree.worktree import Worktree

HOOK_PLAN, ACT_PLAN = 1, 2
MAKING, CHECKING = 1, 2
"""The copies that maker and checker work in."""
_BASELINES = 6
"""Newest rounds whose baseline may serve again."""
_LOGGED = 2_000
_FOR_GOOD = (StopCause.DEADLINE, StopCause.PERSON, StopCause.KILL_SWITCH)
"""A round that was stopped so ends; nobody goes on with it."""

Watch = Callable[[Round, str], None]
"""Function that is called with the round and the name of a phase when the phase begins."""


class Paused(Exception):
    """Somebody wants it to go no further for now. It can be taken up again from where it stands."""


class Parts(NamedTuple):
    """What a round is led with."""

    rounds: Rounds
    gate: Gate
    executor: Executor
    checking: CheckRunner
    bench: Bench
    roots: Sequence[str]
    """Folders of the repository from which the person's Python imports."""
    clock: Callable[[], float]
    watch: Watch | None


class RoundLeader:
    """Leads one round, whose run is held."""

    def __init__(
        self, round: Round, run: OpenRun, workshop: Worktree, parts: Parts, subruns: SubRuns, cancel: Cancel
    ) -> None:
        self.round = round
        self._run = run
        self.workshop = workshop
        self._parts = parts
        self._subruns = subruns
        self._cancel = cancel
        self._saving = threading.Lock()
        self._budget = self._restored(Spend())
        self._seal: Seal | None = None

    # Keeping

    async def save(self) -> None:
        """Keep the round as it is. Once begun it is done, also if nobody waits for it any longer."""
        self.round.spend = Spend.of(self._budget)
        self.round.changed_at = self._parts.clock()
        # The journal knows from it how much time was used, also if the process dies.
        self._run.tell(b'"kept"')
        saving = asyncio.ensure_future(asyncio.to_thread(self.put))
        try:
            await asyncio.shield(saving)
        except asyncio.CancelledError:
            await asyncio.wait((saving,))
            raise

    def put(self) -> None:
        """Keep it, now."""
        with self._saving:
            self._parts.rounds.put(self.round)

    async def _enter(self, phase: Phase) -> None:
        self.round.phase = phase
        await self.save()
        self._run.say("round_phase", {"phase": phase, "loop": self.round.loop, "number": self.round.number})
        if self._parts.watch is not None:
            with suppress(Exception):
                self._parts.watch(self.round, phase)

    # The way

    async def lead(self) -> None:
        """Go on until there is an outcome.

        Raises:
            Paused: somebody wants it to stop for now.
        """
        round = self.round
        ways = (
            ("recalling", self._prepare),
            ("making", self._make),
            ("freezing", self._freeze),
            ("checking", self._check),
            ("judging", self._judge),
            ("gating", self._gate),
            ("executing", self._execute),
        )
        begin = [name for name, _ in ways].index(round.phase) if round.phase in dict(ways) else len(ways)
        for name, work in ways[begin:]:
            if round.outcome is not None:
                break
            await self._enter(name)  # type: ignore[arg-type]
            self._see_whether_to_stop()
            if round.outcome is None:
                await work()
        if round.outcome is None:
            self._end("failed", "it came to no outcome")

    async def count_before(self) -> None:
        """Count what this round, and the others of the day, have used so far. Comes first."""
        round = self.round
        since = day_began(round.started_at, round.spec.timezone)
        before = await asyncio.to_thread(self._parts.rounds.spent, round.key, since, but=round.id)
        self._budget = self._restored(before)
        self._out_of_budget(self._budget.exceeded())

    def _restored(self, day_before: Spend) -> Budget:
        """The budget of the round, which counts what sub-runs that have ended used."""
        round = self.round
        budget = round_budget(round.spec.budget, round.spec.day, day_before, self._run.spending)
        for sub in (round.maker, round.checker):
            if sub is not None and sub.has_ended:
                Budget(parent=budget, name=sub.run_id).take(sub.spend.amounts())
        return budget

    @property
    def left_s(self) -> float | None:
        """How long it may go on."""
        return left_s(self._budget)

    def _see_whether_to_stop(self) -> None:
        if not self._cancel.requested:
            return
        match self._cancel.cause:
            case StopCause.DEADLINE:
                # The alarm may come a moment before the clock that counts says so.
                over = self._budget.exceeded()
                words = over.words if over is not None else "the limit on time per round was exceeded"
                self._out_of_budget(over or Exceeded("time_s", words, "round"))
            case StopCause.PERSON | StopCause.KILL_SWITCH:
                self._end("failed", f"stopped: {self._cancel.reason}")
            case _:
                raise Paused(self._cancel.reason)

    def _out_of_budget(self, over: Exceeded | None) -> None:
        if over is not None and self.round.outcome is None:
            self.round.limit = cast(Limit, over.limit)
            self._end("budget_exhausted", over.words)

    def _end(self, outcome: Outcome, reason: str = "") -> None:
        self.round.outcome = outcome
        self.round.reason = clean(reason, _LOGGED)

    # Phases

    async def _prepare(self) -> None:
        """What earlier rounds came to, what the hook says, and what the checks say before any work."""
        round = self.round
        if round.is_prepared:
            return
        earlier: list[Round] = []
        try:
            earlier = await asyncio.to_thread(self._parts.rounds.listed, round.key, limit=_BASELINES)
            recalled = await asyncio.to_thread(self._parts.rounds.recall, round.key)
            round.recalled, round.recalled_labels = told(recalled)
        except Exception as error:
            # What cannot be remembered ends nothing.
            words = clean(f"{type(error).__name__}: {error}", 500)
            self._run.say("round_recall_failed", {"loop": round.loop, "error": words})
        if round.spec.hooks.before:
            acted = await self._run.act(hook_plan(round), HOOK_PLAN, keep=False)
            result = acted.result.results[0]
            if result.status != "succeeded":
                self._see_whether_to_stop()
                self._end("failed", f"the hook before the round failed: {result.error or result.status}")
                return
            round.context, round.context_labels = str(result.output), labels_from(acted.marks)
        if round.spec.checks:
            paths = await self.workshop.paths(round.base_tree)
            contract = round.spec.contract
            round.baseline = next(
                (
                    each.baseline
                    for each in earlier
                    if each.is_prepared
                    and each.base_tree == round.base_tree
                    and each.spec.checks == round.spec.checks
                    and find_fault(each.baseline, contract, paths) is None
                ),
                [],
            ) or await self._run_checks(round.base_tree, "before")
            fault = find_fault(round.baseline, contract, paths)
            if fault is not None:
                top, around = str(self.workshop.repository.top), self._parts.checking.environment
                self._end("failed", format_fault(fault, top=top, environment=around))
        round.is_prepared = self.round.outcome is None
        await self.save()

    async def _make(self) -> None:
        round = self.round
        if round.maker is None:
            round.maker = SubRun.of(f"{round.id}.maker", maker_task(round))
            await self.save()
            has_begun = False
        else:
            has_begun = True
        folder = await self.workshop.check_out(MAKING, round.base_tree)
        await self._converse("maker", round.maker, has_begun=has_begun, folder=str(folder))

    async def _freeze(self) -> None:
        """The change as a tree. What the files become from now on is nobody's business."""
        round = self.round
        if round.level == "L1":
            round.tree = round.base_tree
            await self.save()
            return
        tree = await self.workshop.tree_of(MAKING)
        seal = await self._sealing()
        changed = await self.workshop.changed(round.base_tree, tree)
        broken = [each.path for each in changed if seal.why(each.path)]
        if broken:
            round.sealed = [clean(path, _LOGGED) for path in broken]
            tree = await self.workshop.with_base(tree, round.base_tree, broken)
            changed = await self.workshop.changed(round.base_tree, tree)
            self._run.say("round_seal_broken", {"loop": round.loop, "paths": [*round.sealed[:100]]})
        round.tree = tree
        round.changed = [text_of_path(each.path) for each in changed]
        await self.save()
        self._run.say("round_frozen", {"loop": round.loop, "tree": tree, "files": len(round.changed)})

    async def _sealing(self) -> Seal:
        from placet.checks.sealed_tree import seal_of

        if self._seal is None:
            round, spec = self.round, self.round.spec
            # Without checks, what tests and their settings are by custom is sealed all the same.
            checks = spec.checks or (Check(name="none", command="true"),)
            contract = msgspec.structs.replace(spec.contract, checks=checks)
            self._seal = await seal_of(
                contract, self.workshop, round.base_tree, round.baseline, self._parts.roots
            )
        return self._seal

    async def _check(self) -> None:
        round = self.round
        maker = round.maker
        assert maker is not None
        if any(said.verdict in ("blocked", "needs_context") for said in maker.given.values()):
            return  # There is nothing to check.
        if not round.is_checked and round.spec.checks:
            # Nothing was changed: what the checks said of this very tree stands.
            same = round.tree == round.base_tree and round.baseline
            round.checks = round.baseline if same else await self._run_checks(round.tree, "after")
            if round.outcome is not None:
                return
        if not round.is_checked:
            doubts = (await self._sealing()).doubts(round.changed, round.checks)
            round.needs_person = {clean(path, _LOGGED): why for path, why in list(doubts.items())[:100]}
        round.is_checked = True
        if round.checker is None:
            diff = await self.workshop.diff(round.base_tree, round.tree) if round.changed else ""
            round.checker = SubRun.of(f"{round.id}.checker", checker_task(round, diff))
            await self.save()
            has_begun = False
        else:
            has_begun = True
        folder = await self.workshop.check_out(CHECKING, round.tree, anew=not has_begun)
        await self._converse("checker", round.checker, has_begun=has_begun, folder=str(folder))

    async def _judge(self) -> None:
        round = self.round
        maker, checker = round.maker, round.checker
        assert maker is not None
        if checker is None:
            round.unverified = why_maker_not_done(maker.given.values(), maker.unread)
            said = next((each.summary for each in maker.given.values() if each.verdict != "done"), "")
            round.summary = said or maker.text or round.spec.intent
            await self.save()
            return
        round.verdict, _ = one_of(checker.given.values())
        round.unverified = self._why_not_verified(checker)
        round.verified = not round.unverified
        said_by_checker = round.verdict.summary if round.verdict is not None else ""
        round.summary = said_by_checker or checker.text or maker.text or round.spec.intent
        await self.save()
        self._run.say(
            "round_judged",
            {
                "loop": round.loop,
                "verdict": round.verdict.verdict if round.verdict is not None else None,
                "verified": round.verified,
                "why": clean(round.unverified, 500),
                "red": [check.name for check in round.checks if not check.passed],
            },
        )

    async def _gate(self) -> None:
        """Whether it may act without a person. The engine is asked first, and the gate cannot overrule it."""
        round = self.round
        if round.level == "L1":
            self._end("reported", round.unverified if round.checker is None else "")
            return
        executor = self.executor
        nothing = not round.has_change and isinstance(executor, RecordExecutor)
        if nothing and round.verified and (round.level == "L3" or self._parts.executor.needs_change):
            self._end("reported", "nothing was changed, so there is nothing to decide")
            return
        why = why_not_allowed(round.level, round.spec.kind, round.spec.allow, self._doubts())
        if why:
            round.decision = Decision(proceed=False, reason=why, gate="engine")
        else:
            proposed = Proposed(
                loop=round.loop,
                round=round.id,
                level=round.level,
                kind=round.spec.kind,
                executor=executor.name,
                summary=round.summary,
                tree=round.tree,
                base=round.base,
                changed=tuple(round.changed),
                verdict=round.verdict,
                verified=round.verified,
            )
            said = await ask_gate(self._parts.gate, proposed)
            round.decision = Decision(proceed=said.proceed, reason=said.reason, gate=self._parts.gate.name)
        round.reason = "" if round.decision.proceed else clean(self._escalation(), _LOGGED)
        round.would = await executor.dry_run(act_of(round), self._parts.bench)
        await self.save()
        self._run.say(
            "round_gated",
            {"loop": round.loop, "proceed": round.decision.proceed, "reason": round.decision.reason},
        )

    def _doubt(self, checker: SubRun) -> str:
        """What is wrong with how the verdict was given, or with what the maker says of its own work."""
        _, doubt = one_of(checker.given.values())
        if doubt:
            return doubt
        if checker.unread:
            return "the checker gave a verdict that cannot be read"
        if checker.is_cut_off:
            return "an answer of the checker was cut off"
        if checker.status != "success":
            return f"the checker did not end its work ({checker.status})"
        maker = self.round.maker
        assert maker is not None
        return why_maker_not_done(maker.given.values(), maker.unread)

    def _why_not_verified(self, checker: SubRun) -> str:
        round = self.round
        why = why_not_verified(round.verdict, self._doubt(checker), round.checks, round.sealed)
        if not why and round.needs_person:
            path, because = next(iter(round.needs_person.items()))
            more = (
                f" ({len(round.needs_person) - 1} more files like it)" if len(round.needs_person) > 1 else ""
            )
            return f"a person has to look at {path}, which {because}{more}; may_touch in the loop allows it"
        return why

    def _doubts(self) -> str:
        """Why the change may not be acted on unattended: worked out anew from what is kept."""
        round = self.round
        if round.rebased_from:
            return "it was brought over from a round that had asked, so it is asked anew"
        if round.checker is None:
            return round.unverified or "nobody has checked it"
        why = round.unverified or self._why_not_verified(round.checker)
        if not why and not round.has_change:
            # The checks judged the base, so they say nothing about this round.
            return "no file was changed, so that the checks are green shows nothing"
        return why

    def _escalation(self) -> str:
        round = self.round
        assert round.decision is not None
        reason = round.decision.reason
        if round.unverified and round.unverified not in reason:
            reason = f"{reason}; {round.unverified}"
        return reason

    @property
    def executor(self) -> Executor:
        """The one that acts: without a change there is nothing to commit or apply, and a note is all."""
        if self._parts.executor.needs_change and not self.round.has_change:
            return RecordExecutor()
        return self._parts.executor

    async def _execute(self) -> None:
        round = self.round
        assert round.decision is not None
        why = why_not_allowed(round.level, round.spec.kind, round.spec.allow, self._doubts())
        if round.decision.proceed and why and not self._run.has_ended(ACT_PLAN):
            # Whatever was kept or said: this is the last look before anything happens. What has happened
            # before the round was broken off is not undone by asking.
            round.decision = Decision(proceed=False, reason=why, gate="engine")
            round.reason = why
            await self.save()
        result = await self.act()
        if result is None:
            return
        match self.status_of(result):
            case "waiting":
                round.approval = next((w.approval for w in result.waiting if w.approval), "")
                self._end("escalated", round.reason or result.waiting[0].reason)
            case "succeeded":
                round.receipt = receipt_of(result, round, self.executor.name, self._parts.clock())
                if round.decision.proceed:
                    self._end("proceeded", round.decision.reason)
                else:
                    # Somebody approved it while nobody was at work on it.
                    self._end("escalated", round.reason)
                    round.later.append(self.decided("approved"))
            case "rejected" if not round.decision.proceed:
                self._end("escalated", round.reason)
                round.later.append(self.decided("denied"))
            case "canceled":
                is_over = self._cancel.cause in _FOR_GOOD
                if is_over and result.results[0].status == "unknown" and self.executor.risk != "idempotent":
                    self._ask_what_became(f"it was stopped while it was being done ({self._cancel.reason})")
                    return
                self._see_whether_to_stop()
                if round.outcome is None:
                    raise Paused(self._cancel.reason or "it was stopped")
            case _:
                self._end("failed", self.why_not_done(result))

    async def act(self) -> ProposalResult | None:
        """Carry out what the round has come to, or ask; None if what became of it is not known."""
        ended = self._run.ended
        if ended is not None:
            round = self.round
            if any(w.kind == "unknown_outcome" for w in ended.waiting):
                self._ask_what_became("the process died while it was being done")
            else:
                self._end("escalated", round.reason)
            return None
        plan = plan_of(self.round, self.executor, self.round.would)
        return (await self._run.act(plan, ACT_PLAN, keep=True, given=inflow_of(self.round, plan))).result

    def _ask_what_became(self, why: str) -> None:
        """A person has to look what became of the act before anything follows from it."""
        round = self.round
        words = (
            f"{why}, and nobody knows whether it was. Look, and say so: "
            f"placet resume {round.id} --decide {ACTION}=done|retry|fail"
        )
        if not any(each.what == "unknown" for each in round.later):
            round.later.append(Later(what="unknown", at=self._parts.clock(), reason=words))
        if round.decision is not None and not round.decision.proceed:
            # What a person was asked, and has answered, stays what it was.
            words = round.reason
        self._end("escalated", words)

    def why_not_done(self, result: ProposalResult) -> str:
        """Why the act failed; or that nobody knows whether it did."""
        name = self.executor.name
        error = result.results[0].error or result.error or "no reason was given"
        if result.results[0].status == "unknown" and self.executor.risk != "idempotent":
            return (
                f"the executor '{name}' was broken off, and whether it had done its work by then is not "
                f"known ({error}). Look before it is done again"
            )
        return f"the executor '{name}' failed: {error}"

    @staticmethod
    def status_of(result: ProposalResult) -> str:
        """What became of the act."""
        if result.outcome == "waiting":
            return "waiting"
        if result.outcome == "canceled":
            return "canceled"
        return str(result.results[0].status)

    def decided(self, what: str) -> Later:
        """What a person has said, for the record."""
        found = self._subruns.approval(self.round)
        at, by, reason = self._parts.clock(), "", ""
        if found is not None:
            by, reason = found.decided_by or "", found.reason or ""
            if what == "denied" and found.decision is None:
                what = "expired"
        return Later(what=what, at=at, by=by, reason=reason)  # type: ignore[arg-type]

    # Parts of phases

    async def _converse(self, role: str, sub: SubRun, *, has_begun: bool, folder: str) -> None:
        if sub.has_ended:
            return
        model = self._subruns.model(role, sub, self.round.spec.budget.iterations or ITERATIONS)
        budget = Budget(parent=self._budget, name=sub.run_id)
        sub.model = str(getattr(model, "name", ""))

        try:
            ending = await self._subruns.lead(
                role,
                self.round,
                sub,
                model,
                budget,
                folder=folder,
                seal=await self._sealing(),
                has_begun=has_begun,
                cancel=self._cancel,
                save=self.put,
            )
            sub.status, sub.text = ending.status, ending.summary if ending.succeeded else ""
            sub.error, sub.turns, sub.labels = ending.error or "", ending.turns, ending.labels
            sub.tools, sub.is_cut_off = ending.tools, ending.cut_off > 0
            sub.unread = unread(REPORT if role == "maker" else TOOL, ending)
        finally:
            sub.spend = Spend.of(budget)
        await self.save()
        self._run.say(
            "round_worked",
            {
                "loop": self.round.loop,
                "role": role,
                "run": sub.run_id,
                "status": sub.status,
                "turns": sub.turns,
                "tokens": sub.spend.total_tokens,
                "cost": sub.spend.cost_usd,
            },
        )
        self._after(role, sub)

    def _after(self, role: str, sub: SubRun) -> None:
        if sub.status == "cancelled":
            self._see_whether_to_stop()
            if self.round.outcome is None:
                raise Paused("it was stopped")
            return
        self._out_of_budget(self._budget.exceeded())
        if self.round.outcome is not None:
            return
        if sub.status in ("max_turns", "budget"):
            self._out_of_budget(too_many_iterations(self.round.spec.budget, role))
        elif sub.status != "success":
            self._end("failed", f"the {role} failed: {sub.error or sub.status}")

    async def _run_checks(self, tree: str, when: str) -> list[CheckResult]:
        found: list[CheckResult] = []

        def started(check: Check) -> None:
            self._run.say("check_started", {"name": check.name, "command": clean(check.command, _LOGGED)})

        def completed(result: CheckResult) -> None:
            self._run.say(
                "check_completed",
                {
                    "name": result.name,
                    "when": when,
                    "passed": result.passed,
                    "exit_code": result.exit_code,
                    "why": clean(result.why, _LOGGED),
                    "duration_ms": float(f"{result.duration_ms:.3f}"),
                },
            )

        seal = await self._sealing()
        if when == "before":
            self._seal = None  # What reports tests is known only afterwards.

        async def run() -> None:
            found.extend(
                await self._parts.checking.run(
                    self.round.spec.contract,
                    lambda: self.workshop.export(tree),
                    baseline=self.round.baseline,
                    seal=seal,
                    started=started,
                    completed=completed,
                )
            )

        if await stopped_by(self._cancel, run()):
            self._see_whether_to_stop()
        return found


def receipt_of(result: ProposalResult, round: Round, executor: str, now: float) -> Receipt:
    """What the executor gave; or, where a person had to say that it was done, that they did."""
    output = result.results[0].output
    if isinstance(output, dict):
        return msgspec.convert(output, Receipt)
    return Receipt(
        loop=round.loop,
        round=round.id,
        kind=round.spec.kind,
        executor=executor,
        summary="a person says that it was done",
        tree=round.tree,
        base=round.base,
        key="",
        at=now,
    ).sealed()


def text_of_path(path: str) -> str:
    """A path as it can be kept; one that is no valid text is shown as it can be."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return clean(path)
    return path


def words_of_error(error: BaseException) -> str:
    """Why a round failed."""
    said = str(error) if isinstance(error, PlacetError) else f"{type(error).__name__}: {error}"
    return clean(said, _LOGGED)
