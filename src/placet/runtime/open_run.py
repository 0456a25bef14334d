"""A run whose plans are not known when it begins: whoever leads it brings them one after the other.

A loop of turns is such a run. It is one run for policies that look back, for budgets, approvals, the log and
the journal, however many plans it comes to. What the leader wants to know again after a restart it tells the
journal in its own words; what came of its plans is read back here.

Keep true:
1. A plan keeps its number for good: brought again under the same number, what has ended is read back.
2. A plan that may leave something in flight is in the journal before it runs.
3. A run that is neither ended nor kept waiting is let go of, so that it can be taken up again at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from placet.errors import StorageError
from placet.events.log import Record
from placet.events.parameters import logged_text
from placet.ir.graph import Graph
from placet.ir.json_value import JsonValue
from placet.ir.proposal import Proposal
from placet.ir.result import Outcome, ProposalResult, Status, Waiting
from placet.ir.tool_spec import Mark
from placet.policy.budget import Budget, CostBudget
from placet.policy.gate import Gate
from placet.policy.marks import Inflow, Marks
from placet.policy.permission import Posture
from placet.policy.sources import ToolAnswer
from placet.runtime.account import steps_of
from placet.runtime.journal import Choice, Decision, Paused, PostureChanged, Taken, Told, parse_key
from placet.runtime.keeping import Request
from placet.runtime.notes import HoldLost
from placet.runtime.plans import Plans, Settings, passing_on_cancellation
from placet.runtime.run_info import RunInfo
from placet.runtime.services import Services
from placet.runtime.trajectory import Trajectory, TrajectoryStep
from placet.tools.context import Cancel

_LOGGED_TASK = 2_000


class Acted(NamedTuple):
    """The result of one plan of an open run."""

    result: ProposalResult
    """The result of the plan."""
    marks: Marks
    """The marks on the output of its last action."""


class OpenRun(Plans):
    """A run that receives plans until it is ended. Made by `Runtime.open_run`."""

    def __init__(
        self,
        services: Services,
        settings: Settings,
        gate: Gate,
        info: RunInfo,
        budget: Budget,
        limits: CostBudget | None,
        request: Request,
    ) -> None:
        super().__init__(services, settings, gate, info, budget, request)
        self._limits = limits
        self.about: Proposal = Proposal()
        """The proposal without actions that describes the run."""
        self.parent: str | None = None
        """Id of the run that started this one."""
        self.ended: ProposalResult | None = None
        """The result, once the run has ended or waits for a decision."""
        self._record: Record | None = None
        self._denials_from = 0
        self._is_untold = False
        """Whether something was told that may not be on disk yet."""
        self._answers: dict[int, ToolAnswer] = {}
        """By plan, what its last action answered, until somebody takes it."""
        self._steps: list[TrajectoryStep] = []
        self._labels: set[Mark] = set()
        self._task = ""
        self._counted: list[Callable[[], None]] = []
        """Each takes back what policies that look back have counted of a plan."""

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return self._info.run_id

    @property
    def tenant(self) -> str | None:
        """Tenant of the run."""
        return self._info.tenant

    @property
    def caller(self) -> str | None:
        """The agent or user on whose behalf the run acts."""
        return self._info.caller

    @property
    def told(self) -> Sequence[msgspec.Raw]:
        """The entries that `tell` recorded before the run was interrupted, in order."""
        return self._kept.replay.told

    async def begin(self, about: Proposal) -> None:
        """Begin. `about` is a plan without actions that says what the run is for.

        Raises:
            RunExists: there is a run of this id.
            StorageError: it cannot be kept.
        """
        self._describe(about, self._kept.parent)
        await self._kept.open(about, Graph(()), False)
        self._say_request(about.id)

    async def take_up(self, taken: Taken, decide: Mapping[str, Decision | Choice]) -> None:
        """Go on with a run that was broken off; `ended` says if it waits, and for what.

        Raises:
            UsageError: a decision is about nothing that is in flight; nothing has changed then.
        """
        self._describe(taken.record.proposal, taken.record.parent)
        called, decided = await self._take_up(taken, decide)
        in_flight = self._kept.replay.in_flight
        asked = taken.waited.waiting if taken.waited is not None else ()
        if in_flight and not decided and any(w.kind == "unknown_outcome" for w in asked):
            # Somebody only looked: nothing has happened that the log would have to tell.
            assert taken.waited is not None
            await self._kept.end(taken.waited)
            self.ended = taken.waited
            return
        self._say_resumed(taken.record, called, decided)
        if in_flight:
            self.ended = await self._end(self._wait(taken.record, called))

    def _describe(self, about: Proposal, parent: str | None) -> None:
        self.about = about
        self.parent = parent
        self._info = self._info._replace(leader=about.source)

    @property
    def posture(self) -> Posture | None:
        """What is answered to calls by tier, where nothing else decides about them."""
        return self._gate.posture

    async def set_posture(self, posture: Posture) -> None:
        """From now on, and when the run is resumed, answer calls by this posture. On disk when it returns.

        Rules that deny or ask, approval policies and lists of tools to ask about hold as before.

        Args:
            posture: The new posture.

        Raises:
            StorageError: it cannot be kept; nothing has changed then.
            RunHeld: the run is another's by now.
        """
        self._kept.note(PostureChanged(posture))
        await self.settle()
        self._gate.answer_by(posture)
        self.emit("posture_changed", self.about.id, msgspec.to_builtins(posture))

    @property
    def cancel(self) -> Cancel | None:
        """The request to stop the run; `None` if nothing can stop it."""
        return self._info.cancel

    def stop_by(self, cancel: Cancel | None) -> None:
        """Let this stop the plans that come next, instead of what could before."""
        self._info = self._info._replace(cancel=cancel)

    # Acting

    async def act(
        self,
        proposal: Proposal,
        number: int,
        *,
        keep: bool,
        given: Inflow | None = None,
        typed: Sequence[str] = (),
    ) -> Acted:
        """Execute one plan. Several plans may run at the same time.

        Args:
            proposal: The plan.
            number: Number of the plan in the run, from 1. After a restart, completed actions of the same
                number are read from the journal.
            keep: Record the plan itself, for plans whose effects must not be repeated.
            given: Marks on values that stand in the plan itself.
            typed: Texts that the person typed in the conversation that the plan is from.

        Raises:
            RunHeld: another process has taken over the run.
        """
        graph = self._graph(proposal)
        if keep and number not in self._kept.replay.plans:
            self._kept.replace(number, 0, proposal, graph)
        is_recalled = number in self._kept.replay.of_plan
        if self._is_untold and not is_recalled and self._has_effects(proposal):
            # What asked for it is on disk before it happens, also if it may happen twice.
            with suppress(StorageError):
                await self.settle()
        try:
            x = self._prepare(
                proposal,
                graph,
                number,
                given=given,
                typed=typed,
                denials_from=self._denials_from,
                quietly=is_recalled,
            )
            result = await passing_on_cancellation(self._carry_out(x))
        except HoldLost as lost:
            raise lost.error from None
        if self._gate.counts:
            self._counted.append(x.forget_all)
        if self._services.trajectories is not None:
            self._steps += steps_of(x, result)
            self._labels.update(x.marks_of(x.size - 1))
        if (answer := x.answer_of(x.size - 1)) is not None:
            self._answers[number] = answer
        return Acted(result, x.marks_of(x.size - 1))

    @property
    def uses_sources(self) -> bool:
        """Whether a rule accepts values from the answers of calls."""
        return self._gate.uses_sources

    def take_answer(self, number: int) -> ToolAnswer | None:
        """What the last action of that plan answered, once, if a rule accepts values from answers."""
        return self._answers.pop(number, None)

    def _has_effects(self, proposal: Proposal) -> bool:
        tools = (self._services.tools.get(action.tool or "") for action in proposal.actions)
        return any(tool is not None and tool.schema.risk != "read_only" for tool in tools)

    @property
    def max_concurrency(self) -> int:
        """How many plans may be under way at the same time."""
        return self._settings.max_concurrency

    def has_ended(self, number: int) -> bool:
        """Whether something of that plan had ended before the run was broken off, or was decided since."""
        return self._kept.has_begun(number) or any(
            parse_key(key)[0] == number for key in self._kept.replay.decided
        )

    def came_of(self, number: int) -> Status | None:
        """What had come of the one action of that plan before the run was broken off; "unknown" if it was in
        flight, None if it had not begun."""
        ended = self._kept.replay.of_plan.get(number)
        if ended:
            return next(iter(ended.values())).result.status
        is_in_flight = any(parse_key(key)[0] == number for key in self._kept.replay.in_flight)
        return "unknown" if is_in_flight else None

    def brief(self, text: str, limit: int) -> str:
        """Return the beginning of a text for an event, redacted before it is cut.

        Args:
            text: The text.
            limit: Most characters.
        """
        return logged_text(text, lambda: self._services.events.redactor, limit)

    def say(self, kind: str, data: dict[str, JsonValue], action_id: str | None = None) -> None:
        """Record an event of the run.

        Args:
            kind: Kind of event.
            data: Data of the event, as JSON.
            action_id: The action that the event is about.
        """
        if self._record is None:
            info = self._info
            self._record = self._services.events.recorder(
                info.run_id, self.about.id, info.trace_id, info.tenant
            )
        self._record(kind, action_id, None, data)

    # Keeping

    def tell(self, said: bytes) -> None:
        """Record JSON in the journal, for the code that drives the run. It is written before any effect that
        must not be repeated.

        Args:
            said: JSON text.
        """
        self._is_untold = True
        self._kept.tell(Told(msgspec.Raw(said), self.elapsed_ms))

    async def settle(self) -> None:
        """Wait until everything that `tell` recorded is on disk.

        Raises:
            StorageError: it could not be written.
            RunHeld: another process has taken over the run.
        """
        await self._kept.settle()
        self._is_untold = False

    # Limits

    @property
    def elapsed_ms(self) -> float:
        """How long the run has been working; time spent waiting for people is not counted."""
        return self._budget.elapsed_ms

    @property
    def spending(self) -> Budget:
        """What the run has used, against its limits and those of the runs that it counts for."""
        return self._budget

    @property
    def budget(self) -> CostBudget | None:
        """Limits of the run."""
        return self._limits

    @property
    def tokens(self) -> int:
        """Tokens used so far."""
        return self._budget.spent.tokens

    @property
    def cost_usd(self) -> float:
        """Cost so far, in US dollars."""
        return self._budget.spent.cost

    def reads(self, task: str, labels: Iterable[Mark]) -> None:
        """Note what the model is asked, and the labels of what it has read, for learning from the run.

        Args:
            task: What it is asked.
            labels: Labels of what it has read.
        """
        self._task = self._task or task
        self._labels.update(labels)

    def hear(self, number: int) -> None:
        """A person has said something new: what they denied before plan `number` may be asked again."""
        self._denials_from = number

    def wait_begins(self) -> None:
        """The leader waits for a person from now on; that time is nobody's."""
        self._budget.wait_begins()

    def wait_ends(self) -> None:
        """It waits no longer."""
        self._budget.wait_ends()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Context manager: time spent inside does not count against the budget."""
        self.wait_begins()
        try:
            yield
        finally:
            self.wait_ends()

    def spend(self, tokens: int | None, cost: float | None) -> None:
        """Count what the caller used itself. `None` means unknown, and uses up a limit.

        Args:
            tokens: Number of tokens.
            cost: Cost in US dollars.
        """
        self._budget.spend(tokens, cost)

    def continue_from(self, earlier: OpenRun) -> None:
        """Count all that an earlier run has used as if it had been used here: tokens, money, and the time
        since that began.

        Args:
            earlier: The earlier run.
        """
        self._budget.continue_from(earlier._budget)
        self._info = self._info._replace(started=earlier._info.started)

    def used_up(self) -> str | None:
        """Return the name of the limit that is used up, of the run or of those it counts for, or `None`."""
        over = self._budget.exceeded()
        return over.limit if over is not None else None

    # Ending

    async def end(
        self,
        outcome: Outcome,
        error: str | None = None,
        *,
        loop: Mapping[str, JsonValue] | None = None,
        waiting: Sequence[Waiting] | None = None,
    ) -> ProposalResult:
        """End the run and write everything to disk. A run that waits, or was canceled, can be resumed.

        Args:
            outcome: The outcome to record.
            error: Why it did not succeed.
            loop: JSON about the loop, for `ProposalResult.loop`.
            waiting: Decisions that the run waits for. `None`: those that its plans wait for.

        Raises:
            RunHeld: another process has taken over the run.
        """
        if outcome == "canceled" and self._counted:
            forget = list(self._counted)
            self._gate.trace.unfinished[self.run_id] = lambda: _each(forget)
        if outcome in ("waiting", "canceled"):
            self._kept.note(Paused(self.elapsed_ms))
        info = self._info
        cause = info.cancel.cause if outcome == "canceled" and info.cancel is not None else None
        self.ended = ProposalResult(
            proposal_id=self.about.id,
            run_id=info.run_id,
            trace_id=info.trace_id,
            outcome=outcome,
            error=error,
            cost=self._cost,
            waiting=list(self._waiting if waiting is None else waiting),
            irreversible=self._irreversible,
            undo_commands=self._undo_commands,
            compensations=self._compensations,
            loop=dict(loop) if loop is not None else msgspec.UNSET,
            stop_cause=cause if cause is not None else msgspec.UNSET,
        )
        if outcome not in ("waiting", "canceled"):
            self._keep_trajectory(outcome)
        return await self._end(self.ended)

    def _keep_trajectory(self, outcome: Outcome) -> None:
        store = self._services.trajectories
        if store is None:
            return
        try:
            store.append(
                Trajectory(
                    proposal_id=self.about.id,
                    run_id=self.run_id,
                    source=self.about.source,
                    outcome="success" if outcome == "succeeded" else "failed",
                    timestamp=datetime.now(UTC),
                    duration_ms=self.elapsed_ms,
                    attempts=1,
                    steps=self._steps,
                    task=self.brief(self._task, _LOGGED_TASK),
                    labels=tuple(sorted(self._labels)),
                    tenant=self.tenant,
                    is_led=True,
                )
            )
        except Exception as error:
            self._say_not_kept(type(store).__name__, self.about.id, error)

    def release(self) -> None:
        """Let go of a run that has not ended."""
        if self.ended is None:
            self._services.events.flush()
            self._kept.release()


def _each(callbacks: Sequence[Callable[[], None]]) -> None:
    for callback in callbacks:
        callback()
