"""A run's side of the journal: opened with the first plan, told of every later one, closed with the result.

Keep true:
1. Without a journal nothing here costs anything.
2. A run that cannot go on is let go of, so that somebody else can take it up at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from placet.ir.graph import Graph
from placet.ir.json_value import JsonValue
from placet.ir.proposal import Proposal
from placet.ir.result import ProposalResult
from placet.policy.budget import Budget, CostBudget
from placet.runtime.journal import (
    Beginning,
    Choice,
    Decided,
    Decision,
    Journal,
    Note,
    Replaced,
    Replay,
    RunJournal,
    RunRecord,
    Taken,
)
from placet.runtime.notes import Flushing, Notes
from placet.runtime.resume import (
    beginning_of,
    check_tools,
    decisions,
    names_in_flight,
    restore,
    take_back_left,
    tools_of,
)
from placet.runtime.run_info import RunInfo
from placet.runtime.scope import Scope
from placet.runtime.services import Services
from placet.runtime.shown import shown_result
from placet.storage.lease import StopRequest


class Request(NamedTuple):
    """On whose behalf a run is made, and how far it may go: kept with it."""

    scope: Scope | None = None
    budget: CostBudget | None = None
    said: Mapping[str, JsonValue] = {}
    """What the log says of the scope."""
    policies: Sequence[str] = ()
    """The names of the rules that hold, and `permission` if a posture does."""
    had_session: bool = False
    workspace: str | None = None
    """The folder that it is bound to."""
    lowered: Mapping[str, JsonValue] = {}
    """What the log says of an isolation that a person has lowered."""
    parent: str | None = None
    """The run that starts this one."""


class Keeping:
    """What is kept of one run, if anything is."""

    def __init__(self, store: Journal | None, info: RunInfo, request: Request, services: Services) -> None:
        self._store = store
        self._info = info
        self._request = request
        self._state = services.state
        self._marks = services.marks
        self._tools = services.tools
        self._redactor = services.events.redactor if store is not None else None
        self._events = services.events
        self._journal: RunJournal | None = None
        self._flushing: Flushing | None = None
        self._stop: StopRequest | None = None
        """The request to stop that was found."""
        self.replay = Replay()
        """What is known of the time before the run was taken up again."""
        self.beginning = Beginning()
        """What the plan that runs now found of the state."""

    async def take_up(
        self, taken: Taken, decide: Mapping[str, Decision | Choice]
    ) -> tuple[dict[str, str], list[Decided]]:
        """Go on from an earlier process: what is in flight (names by key), and what was decided of it.

        Raises:
            UsageError: a decision is about nothing that is in flight, or a tool is missing; nothing has
                changed then.
        """
        record, journal = taken.record, taken.journal
        self._journal = journal
        self.replay = Replay(taken.notes)
        self.beginning = record.beginning
        try:
            check_tools(record, self.replay, self._tools)
            names = names_in_flight(record, self.replay)
            decided = decisions(decide, names, record, self.replay)
            for note in decided:
                journal.note(note)
                self.replay.fold(note)
            await journal.settle()
        except BaseException:
            journal.release()
            raise
        self._settle_state(record)
        return {key: name for name, key in names.items()}, decided

    @property
    def parent(self) -> str | None:
        """Id of the run that starts this one."""
        return self._request.parent

    def _restore(self) -> None:
        tenant = self._info.tenant
        restore(self.beginning, self._state.scoped(tenant), self._marks.scoped(tenant))

    def _settle_state(self, record: RunRecord) -> None:
        """Let the state be what the run found, where it still holds what the run left there."""
        found = dict(record.beginning.values)
        for plan in self.replay.plans.values():
            found = {**plan.beginning.values, **found}
        left = {k: v for ended in self.replay.ended.values() for k, v in ended.result.state_changes.items()}
        state = self._state.scoped(self._info.tenant)
        self.replay.overwritten = take_back_left(found, left, state)
        self._restore()

    def note(self, note: Note) -> None:
        """Note something about the run as a whole."""
        if self._journal is not None:
            self._journal.note(note)

    async def settle(self) -> None:
        """Wait until every note so far is on disk.

        Raises:
            StorageError: some are not, and will not be.
            RunHeld: the run is another's by now.
        """
        if self._journal is not None:
            await self._journal.settle()

    def stop_requested(self) -> StopRequest | None:
        """Why the run is to stop, if it is. Waits for the disk."""
        self._stop = self._journal.stop_requested() if self._journal is not None else None
        return self._stop

    def tell(self, note: Note) -> None:
        """Note something, to be handed over when the event loop is free."""
        if self._journal is not None:
            self._journal.note(note)
            self._flusher(self._journal).plan()

    def _flusher(self, journal: RunJournal) -> Flushing:
        if self._flushing is None:
            self._flushing = Flushing(journal, self._events)
        return self._flushing

    def next_plan(self, number: int) -> Replaced | None:
        """The plan that was brought in before the run was broken off, if there was one of that number."""
        known = self.replay.plans.get(number)
        if known is not None:
            self.beginning = known.beginning
            self._restore()
        return known

    async def open(self, proposal: Proposal, graph: Graph, must_succeed: bool) -> None:
        """The first plan is about to run; nothing is to be done if it has before.

        Raises:
            RunExists: there is a run of this id.
            StorageError: it cannot be kept.
        """
        if self._journal is None and self._store is not None:
            info = self._info
            self.beginning = beginning_of(proposal, graph, self._state, self._marks, info.tenant)
            self._journal = await self._store.begin(
                RunRecord(
                    run_id=info.run_id,
                    trace_id=info.trace_id,
                    proposal=proposal,
                    scope=self._request.scope,
                    budget=self._request.budget,
                    must_succeed=must_succeed,
                    beginning=self.beginning,
                    tools=tools_of(proposal, self._tools),
                    policies=self._request.policies,
                    had_session=self._request.had_session,
                    workspace=self._request.workspace,
                    parent=self._request.parent,
                    traceparent=info.parent,
                )
            )

    def replace(self, number: int, asked: int, proposal: Proposal, graph: Graph) -> None:
        """A replan has brought another plan, the `number`th of the run after being asked so often."""
        if self._journal is not None:
            self.beginning = beginning_of(proposal, graph, self._state, self._marks, self._info.tenant)
            tools = tools_of(proposal, self._tools)
            self._journal.note(Replaced(number, asked, proposal, self.beginning, tools))

    def notes(self, budget: Budget) -> Notes | None:
        """What a plan notes as it goes."""
        if self._journal is None:
            return None
        return Notes(self._journal, self.replay, budget, self._flusher(self._journal))

    @property
    def has_marks(self) -> bool:
        """Whether something was marked before the run was broken off."""
        plans = [plan.beginning for plan in self.replay.plans.values()]
        return any(begun.marks for begun in (self.beginning, *plans)) or any(
            ended.marks for ended in self.replay.ended.values()
        )

    def has_begun(self, number: int) -> bool:
        """Whether something of that plan had ended before the run was broken off."""
        return number in self.replay.of_plan

    async def end(self, result: ProposalResult) -> None:
        """Keep how it ended; and without the secrets that only this process knows, for whoever shows it.

        Raises:
            StorageError: that cannot be kept.
            RunHeld: the run is another's by now.
        """
        if self._journal is not None:
            shown = shown_result(result, self._redactor) if self._redactor is not None else result
            await self._journal.end(
                result, None if shown is result else shown, is_stopped=self._is_stopped(result)
            )

    def _is_stopped(self, result: ProposalResult) -> bool:
        """Whether the run could go on, and does not because of the request to stop it."""
        cancel = self._info.cancel
        return (
            self._stop is not None
            and cancel is not None
            and (cancel.reason, cancel.cause) == (self._stop.reason, self._stop.cause)
            and result.outcome in ("waiting", "canceled")
        )

    def release(self) -> None:
        """Let go of a run that has not ended."""
        if self._journal is not None:
            self._journal.release()
