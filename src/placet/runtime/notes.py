"""What one plan of a run notes in the journal as it goes, and recalls of it after a restart.

Keep true:
1. The note that a call is about to be made is on disk before the tool is entered, and so is everything that
   was recorded before it: an effect never precedes its own record.
2. What is recalled changes the state and the plan exactly as it did when it happened.
3. A run that another process has taken over does nothing more: not even take anything back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING

import msgspec

from placet.errors import RunError, StorageError
from placet.ir.action import Action
from placet.ir.references import MissingPath
from placet.ir.result import CANCELED_PREFIX
from placet.ir.stop_cause import StopCause
from placet.ir.tool_spec import Mark
from placet.policy.budget import Spent
from placet.policy.marks import NO_MARKS, Marks, marks_from
from placet.runtime.calls import AttemptFailed
from placet.runtime.guards.idempotency import Answer, call_key
from placet.runtime.journal import (
    DECIDED_FAILED,
    Aborted,
    Approved,
    Bound,
    Decision,
    Ended,
    Note,
    Replay,
    Restored,
    RunJournal,
    Started,
    Tally,
    Tried,
    key_of,
    parse_key,
    undo_key_of,
)
from placet.runtime.ledger import Stop
from placet.validator import deduplicates

if TYPE_CHECKING:
    from placet.events.log import EventLog
    from placet.policy.budget import Budget
    from placet.runtime.execution import Execution


class HoldLost(Exception):
    """Another process has the run now. Passes through everything that makes results out of errors."""

    def __init__(self, error: RunError) -> None:
        self.error = error
        super().__init__(str(error))


class NotNoted(Exception):
    """The journal cannot be written, so what was to be noted beforehand must not be done."""


_LONGEST_S = 0.005
"""So long notes wait for the event loop to be free."""


class Flushing:
    """Hands over what all plans of a run have noted, as soon as the event loop is free."""

    __slots__ = ("_events", "_is_planned", "_journal", "_since")

    def __init__(self, journal: RunJournal, events: EventLog) -> None:
        self._journal = journal
        self._events = events
        self._is_planned = False
        self._since = 0.0

    def plan(self) -> None:
        """Something was noted."""
        now = perf_counter()
        if not self._is_planned:
            self._is_planned = True
            self._since = now
            asyncio.get_running_loop().call_soon(self.now)
        elif now - self._since > _LONGEST_S:
            self._since = now
            self._hand_over()  # The event loop is never free; what was noted must not wait for that.

    def now(self) -> None:
        """Hand it over."""
        self._is_planned = False
        self._hand_over()

    def _hand_over(self) -> None:
        # First what was recorded: no note is on disk before the events that tell of the same.
        self._events.flush()
        self._journal.flush()


class Notes:
    """The journal as one plan uses it."""

    def __init__(self, journal: RunJournal, replay: Replay, budget: Budget, flushing: Flushing) -> None:
        self._journal = journal
        self._replay = replay
        self._budget = budget
        self._flushing = flushing
        self._x: Execution

    def attach(self, x: Execution) -> None:
        """Follow an execution from now on, after bringing it to where it was broken off."""
        self._x = x
        self._recall()
        x.on_end = self._ended
        if x.plan in self._replay.aborted:
            x.abort(self._replay.aborted[x.plan])
        for key, decision in self._replay.decided.items():
            plan, i, is_undo = parse_key(key)
            if plan == x.plan and not is_undo:
                self._conclude(i, decision)

    # As it goes

    async def about_to_call(self, i: int, attempt: int) -> None:
        """A tool that must not be called twice is about to be entered.

        Raises:
            NotNoted: the tool must not be entered.
            HoldLost: the run is no longer ours.
        """
        self._x.services.events.flush()
        self._journal.note(Started(self._x.key(i), attempt))
        try:
            await self._settle()
        except StorageError as error:
            # The journal may yet get it to disk, and must not say then that something is in flight.
            self.tried(i, attempt - 1)
            raise NotNoted(f"not started, because that cannot be noted beforehand: {error}") from error
        except asyncio.CancelledError:
            self.tried(i, attempt - 1)
            raise

    async def about_to_take_back(self) -> None:
        """A compensation is about to run, perhaps by a tool that needs no note.

        Raises:
            HoldLost: the run is no longer ours, and neither is what was done in it.
        """
        with suppress(StorageError):  # Whoever must not be called twice finds out by itself.
            await self._settle()

    async def _settle(self) -> None:
        try:
            await self._journal.settle()
        except RunError as error:
            # Whatever is recorded from now on would be told of a run that is another's.
            self._x.mute()
            raise HoldLost(error) from error

    async def about_to_abort(self) -> None:
        """The plan is about to be taken back. Where that cannot be noted nothing is: a run that goes on later
        would go on as if it all still stood.

        Raises:
            HoldLost: the run is no longer ours.
        """
        x = self._x
        assert x.stop is not None
        if x.plan in self._replay.aborted:
            return
        self._journal.note(Aborted(x.plan, x.stop.error))
        try:
            await self._settle()
        except StorageError as error:
            words = (
                f"{CANCELED_PREFIX}nothing was taken back, because that cannot be noted beforehand: {error}"
            )
            x.stop = Stop("canceled", f"{words} ({x.stop.error})", words, StopCause.STORAGE)

    async def about_to_change(self, note: Bound) -> None:
        """The folder that the plan is bound to is about to be changed.

        Raises:
            NotNoted: it must not be.
            HoldLost: the run is no longer ours.
        """
        self._journal.note(note)
        try:
            await self._settle()
        except StorageError as error:
            raise NotNoted(
                f"nothing was started, because the snapshot of the workspace cannot be noted: {error}"
            ) from error

    async def restored(self, note: Restored) -> None:
        """The folder that the plan is bound to has been restored.

        Raises:
            HoldLost: the run is no longer ours.
        """
        self._journal.note(note)
        with suppress(StorageError):  # Then it is done again, before anything that comes later.
            await self._settle()

    def approved(self, i: int, approval: str, reasons: Sequence[str]) -> None:
        """A person has approved the action, asked for these reasons."""
        self._note(Approved(self._x.key(i), approval, reasons))

    def tried(self, i: int, attempt: int, failure: AttemptFailed | None = None) -> None:
        """An attempt is over, and another will follow; without a failure, it was not made."""
        error, unknown = ("", False) if failure is None else (failure.error, failure.unknown)
        self._note(Tried(self._x.key(i), attempt, self._tally(), error, unknown))

    def _ended(self, i: int) -> None:
        result = self._x.results[i]
        assert result is not None
        labelled = self._x.labelled.get(i, NO_MARKS)
        self._note(
            Ended(
                self._x.key(i),
                result,
                self._tally(),
                i in self._x.answered,
                _steps_of(self._x.marks_of(i)),
                i in self._x.bad_answers,
                self._x.bad_answers.get(i, msgspec.UNSET),
                _steps_of(labelled),
            )
        )

    def _tally(self) -> Tally:
        spent = self._budget.spent
        return Tally(
            tool_calls=self._x.tool_calls,
            retries=self._x.retries,
            elapsed_ms=self._budget.elapsed_ms,
            tokens=spent.tokens,
            cost=spent.cost,
            untold=spent.untold,
            unpriced=spent.unpriced,
        )

    def _note(self, note: Note) -> None:
        self._journal.note(note)
        self._flushing.plan()

    # After a restart

    def attempts_made(self, i: int) -> int:
        """How many attempts were over when the run was broken off."""
        attempts = self._replay.attempts
        return attempts.get(self._x.key(i), 0) if attempts else 0

    def _recall(self) -> None:
        x = self._x
        x.approved.update(self._replay.approved)
        for key, ended in self._replay.of_plan.get(x.plan, {}).items():
            _, i, is_undo = parse_key(key)
            if not is_undo:
                self._recall_ending(i, ended)
        for key, tried in self._replay.tried.items():
            plan, i, is_undo = parse_key(key)
            if plan == x.plan and not is_undo and x.results[i] is None:
                failure = AttemptFailed(tried.error, unknown=tried.unknown)
                x.recall_attempts(i, failure, self._replay.attempts[key])
        tally = self._replay.tallies.get(x.plan)
        if tally is not None:
            x.tool_calls, x.retries = tally.tool_calls, tally.retries
            # Plans that ran at the same time may be recalled in another order than they ended in.
            self._budget.restore(
                Spent(tokens=tally.tokens, cost=tally.cost, untold=tally.untold, unpriced=tally.unpriced)
            )

    def _recall_ending(self, i: int, ended: Ended) -> None:
        x = self._x
        action, result = x.actions[i], ended.result
        x.tools[i] = x.services.tools.get(action.tool or "") if action.tool is not None else None
        x.keep_before(i)
        x.status[i] = result.status
        x.results[i] = result
        code = {} if result.exit_code is msgspec.UNSET else {"exit_code": result.exit_code}
        x.note("action_replayed", i, {"status": result.status, **code})
        ran = self._as_it_ran(i)
        if ended.labelled:
            x.labelled[i] = marks_from(ended.labelled)
        if result.status != "rejected":
            x.begun(i, ran, x.tools[i])
        if result.status != "rejected" and not ended.answered:
            self._budget.count(int(action.type == "tool_call"))
        if ended.took_effect:
            x.finished.append(i)
            x.bad_answers[i] = ended.bad_answer
        if result.status != "succeeded":
            x.recall_marks(i, marks_from(ended.marks))
            x.conclude(i)
            return
        x.finished.append(i)
        if x.on_success is not None:
            x.follow(i, ran, result.output, self._replay.overwritten, marks_from(ended.marks))
        for name, value in result.state_changes.items():
            if name not in self._replay.overwritten:
                x.write(action, name, value)
        if ended.answered:
            x.answered.add(i)
        elif deduplicates(action, x.tools[i]) and not x.has_labelled(i):
            # Equal calls still to come are answered by this one, as they would have been.
            x.page.end(call_key(x.run.tenant, ran), Answer(action.id, result.output))

    def _as_it_ran(self, i: int) -> Action:
        """The action with its references filled in, where what they name is still to be had."""
        with suppress(MissingPath):
            return self._x.filled_in(i)
        return self._x.actions[i]

    def _conclude(self, i: int, decision: Decision) -> None:
        """End an action as a person decided that it did."""
        x = self._x
        action = x.actions[i]
        x.tools[i] = tool = x.services.tools.get(action.tool or "")
        x.keep_before(i)
        ran = self._as_it_ran(i)
        x.begun(i, ran, tool)
        x.tool_calls += 1
        if i < x.size:
            # It was admitted before it began; what takes something back needs no budget.
            self._budget.count(1)
        if decision.choice == "done":
            x.succeed(
                i,
                ran,
                None if decision.output is msgspec.UNSET else decision.output,
                x.now(),
                x.effects(action, {}),
            )
        else:
            failure = AttemptFailed(DECIDED_FAILED, retry=False)
            x.fail(i, action, failure, self._replay.attempts.get(key_of(x.plan, i), 1), tool, x.now())

    def knows_undo(self, plan: int, owner: int) -> bool:
        """Whether it is noted how the compensation of `owner` went."""
        return undo_key_of(plan, owner) in self._replay.ended

    def recall_undo(self, x: Execution, i: int, owner: int) -> bool:
        """Take over how the compensation of `owner` went, if it has ended or was decided."""
        key = undo_key_of(x.plan, owner)
        ended = self._replay.ended.get(key)
        if ended is not None:
            x.status[i] = ended.result.status
            x.results[i] = ended.result
            if ended.result.status != "rejected":
                x.tools[i] = x.services.tools.get(x.actions[i].tool or "")
                x.begun(i, self._as_it_ran(i), x.tools[i])
            return True
        decision = self._replay.decided.get(key)
        if decision is not None:
            self._conclude(i, decision)
        return decision is not None


def _steps_of(marks: Marks) -> dict[Mark, list[str]]:
    return {mark: list(trail.steps) for mark, trail in marks.items()}
