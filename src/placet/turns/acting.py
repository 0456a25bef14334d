"""Carrying out what a model asks for, and telling it what came of each call.

Keep true:
1. Whatever the model asks for goes through the runtime; nothing else here has effects.
2. Every call is answered, in order, with exactly one result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import UNSET

from placet.events.parameters import LONGEST, SECRET, UNLOGGED
from placet.inference.messages import Assistant, ToolResult, User
from placet.inference.model import Model, Result
from placet.ir.result import ExitCode, Status, Waiting
from placet.policy.marks import NO_MARKS, UNMARKED, Marks
from placet.policy.permission import unasked_for
from placet.policy.sources import ToolAnswer
from placet.runtime.observation import observe, observe_text
from placet.truncation import truncate
from placet.turns.asking import LOGGED, NAMED, Asking, Halt, Terms
from placet.turns.basis import Basis
from placet.turns.calls import Asked, groups
from placet.turns.ending import MADE, Call, CallResult, Note
from placet.turns.repetition import WARNING, Repetition

if TYPE_CHECKING:
    from placet.runtime.open_run import OpenRun

NOT_RUN = "this call was not run"
_SKIPPED = f"skipped: {NOT_RUN}"
_NOT_NOW = "no tools are offered in this turn. Give your answer in the form that was asked for."
_FEW = 4


class CallCame(NamedTuple):
    """What came of one call."""

    asked: Asked
    text: str
    status: Status
    marks: Marks = NO_MARKS
    halt: Halt | None = None
    exit_code: ExitCode = UNSET
    answer: ToolAnswer | None = None

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return self.status == "succeeded"


class Acting(Asking):
    """The part of a loop that carries out calls."""

    def __init__(self, run: OpenRun, model: Model, terms: Terms) -> None:
        super().__init__(run, model, terms)
        self._offer = terms.offer
        self._spill = terms.spill
        self._before_effect = terms.before_effect
        self._calls = 0
        """Of the run."""
        self._repetition = Repetition()
        self._succeeded: list[str] = []
        self._called: list[str] = []
        self._refused: list[str] = []
        self._unasked: dict[str, str] = {}
        self._withheld: list[str] = []
        self._basis = Basis()

    async def _act(self, result: Result) -> Halt | None:
        """Carry out the calls of a turn, and tell the model what came of each."""
        asked = self._offer.asked(result.calls, self._run.run_id, self._turn, self._calls)
        self._calls += len(asked)
        if self._is_repairing:
            asked = [each._replace(proposal=None, refusal=each.refusal or _NOT_NOW) for each in asked]
        self._conversation.add(
            Assistant(text=result.text, calls=tuple(a.call for a in asked), carried=result.carried)
        )
        if self._run.uses_sources:
            self._reading.answers.wrote(each.call.arguments for each in asked)
        verdict = self._repetition.saw(result.calls)
        if verdict == "stuck":
            self._leave(asked, "the same calls came again and again")
            return Halt("stuck", "the model made the same calls again and again")
        halt: Halt | None = None
        answered = 0
        try:
            for group in groups(asked, self._offer.is_read_only):
                if halt is None and not self._recalled:
                    halt = self._halt()
                if halt is not None:
                    self._leave(group, halt.error)
                else:
                    halt = self._heed(await self._together(group))
                answered += len(group)
        except BaseException:
            # In a conversation that goes on all the same, no call may be without a result.
            self._leave(
                asked[answered:], "the work was interrupted", "unknown: it is not known what came of it"
            )
            raise
        if halt is None and verdict == "warn":
            self._conversation.add(User(WARNING))
            if not self._recalled:
                self._tell_watch(Note(text="warned the model that it repeats itself"))
                self._emit("turn_warned", {"turn": self._turn})
        return halt

    def _heed(self, group: Sequence[CallCame]) -> Halt | None:
        """Take in what came of calls; why nothing more may be done, if so."""
        halts = [came.halt for came in group if came.halt is not None]
        halt = next((each for each in halts if each.status == "waiting"), halts[0] if halts else None)
        if halt is not None and halt.waiting:
            # Calls that ran together may have asked together.
            halt = _waits([waiting for each in halts for waiting in each.waiting])
        for came in group:
            self._fresh.append(came.marks)
            if came.status != "rejected" and not self._offer.is_read_only(came.asked):
                # By what it had read as it wrote the call: fresh marks are read with the next request.
                self._reading.answers.changed(self._reading.marks)
            if came.answer is not None:
                self._reading.answers.came(came.answer)
            if came.status in MADE:
                self._called.append(came.asked.call.name)
            if came.ok:
                name = came.asked.call.name
                self._succeeded.append(name)
                tool = self._offer.tools.get(name)
                self._basis.take(
                    came.asked.action_id, name, tool.schema if tool is not None else None, came.exit_code
                )
            elif came.status == "rejected":
                self._refused.append(truncate(came.asked.call.name, NAMED))
                if self._offer.is_withheld(came.asked):
                    self._withheld.append(came.asked.call.name)
                if (tier := unasked_for(came.text)) is not None:
                    self._unasked[truncate(came.asked.call.name, NAMED)] = tier
            self._add_result(came)
        return halt

    async def _together(self, group: Sequence[Asked]) -> Sequence[CallCame]:
        """What came of calls that may run side by side, in order."""
        if len(group) == 1 or all(map(self._offer.is_instant, group)):
            return [await self._if_it_may(asked) for asked in group]
        places = asyncio.Semaphore(self._places())

        async def placed(asked: Asked) -> CallCame:
            async with places:
                return await self._if_it_may(asked)

        try:
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(placed(asked)) for asked in group]
        except BaseExceptionGroup as failures:
            # The run is another's by now, say; one such word is enough.
            raise failures.exceptions[0] from None
        return [task.result() for task in running]

    async def _if_it_may(self, asked: Asked) -> CallCame:
        """What came of one call of several: those beside it may have used up what is left."""
        if asked.proposal is not None and not self._recalled and (halt := self._reached()) is not None:
            return _left(asked, halt.error)._replace(halt=halt)
        return await self._one(asked)

    def _places(self) -> int:
        """How many calls may be under way at once: few, where each may use up what is left."""
        budget = self._run.budget
        is_paid = budget is not None and (budget.max_tokens is not None or budget.max_cost is not None)
        return min(self._run.max_concurrency, _FEW) if is_paid else self._run.max_concurrency

    async def _one(self, asked: Asked) -> CallCame:
        call = asked.call
        self._tell_watch(
            Call(turn=self._turn, action_id=asked.action_id, tool=call.name, parameters=call.arguments)
        )
        if asked.proposal is None:
            came = CallCame(asked, self._shown(f"rejected: {asked.refusal}", asked), "rejected")
            if not self._recalled:
                self._emit(
                    "turn_call_refused",
                    {
                        "turn": self._turn,
                        "tool": self._run.brief(call.name, NAMED),
                        "error": self._run.brief(asked.refusal, LOGGED),
                    },
                    asked.action_id,
                )
        elif self._recalled and not self._run.has_ended(asked.number):
            # More came after it, so it was left where it stood; it is not made up for now.
            came = CallCame(asked, _SKIPPED, "skipped")
        else:
            if (
                self._before_effect is not None
                and not self._offer.is_read_only(asked)
                and not self._run.has_ended(asked.number)
            ):
                await self._before_effect()
            came = await self._carry_out(asked)
        self._tell_watch(
            CallResult(
                turn=self._turn,
                action_id=asked.action_id,
                tool=call.name,
                ok=came.ok,
                status=came.status,
                text=came.text,
                exit_code=came.exit_code,
            )
        )
        return came

    async def _carry_out(self, asked: Asked) -> CallCame:
        assert asked.proposal is not None
        parameters = asked.proposal.actions[0].parameters
        given = self._reading.inflow(parameters) if self._reading.marks else UNMARKED
        was_told = self._run.has_ended(asked.number)
        acted = await self._run.act(
            asked.proposal,
            asked.number,
            keep=self._offer.may_stay_open(asked),
            given=given if given is not UNMARKED else None,
            typed=self._reading.typed,
        )
        result = acted.result
        action = result.results[0]
        text = observe(action, run_id=self._run.run_id, spill=self._spill)
        if action.status in MADE and not was_told:
            # Not of one that was refused: a value that a rule denies is never in the log.
            self._emit(
                "turn_call_ended",
                {
                    "turn": self._turn,
                    "tool": asked.call.name,
                    "status": action.status,
                    "text": self._logged_result(asked, text, acted.marks),
                },
                asked.action_id,
            )
        halt: Halt | None = None
        if result.outcome == "waiting":
            # Of what the run has asked before, nothing is in question any more.
            halt = _waits([waiting for waiting in result.waiting if waiting.action_id == asked.action_id])
        elif result.outcome == "canceled":
            halt = self._halt() or Halt("error", result.error or "the call was stopped")
        elif result.outcome == "budget":
            halt = self._halt() or Halt("budget", "the limit on tool calls was reached")
        answer = self._run.take_answer(asked.number)
        return CallCame(asked, text, action.status, acted.marks, halt, action.exit_code, answer)

    def _logged_result(self, asked: Asked, text: str, marks: Marks) -> str:
        if not self._offer.is_logged(asked):
            return UNLOGGED
        return SECRET if "secret" in marks else self._run.brief(text, LONGEST)

    def _leave(self, group: Sequence[Asked], why: str, words: str = _SKIPPED) -> None:
        """Answer calls that are not made."""
        for asked in group:
            self._add_result(_left(asked, why, words))

    def _add_result(self, came: CallCame) -> None:
        call = came.asked.call
        self._conversation.add(
            ToolResult(call_id=call.id, name=call.name, text=came.text, is_error=not came.ok)
        )

    def _shown(self, text: str, asked: Asked) -> str:
        return observe_text(text, asked.action_id, run_id=self._run.run_id, spill=self._spill)


def _left(asked: Asked, why: str, words: str = _SKIPPED) -> CallCame:
    return CallCame(asked, f"{words}, because {why}", "skipped")


def _waits(waiting: Sequence[Waiting]) -> Halt:
    names = ", ".join(each.action_id for each in waiting)
    return Halt("waiting", f"waits for a person to decide about {names}", waiting)
