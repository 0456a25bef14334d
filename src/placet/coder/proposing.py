"""What a small model proposes, one change at a time, and whichever candidate comes for it.

What helped against the same failure before is tried first, where it still fits. Then a model that reads
passages reads the functions nearest to the failure line by line, and where it would have written something
else, that is tried, the most surprising first, and at last what it would also have written. After that, and
where a model does not read in this way, it is asked about one place after the other.

Keep true:
1. Candidates share what there is to try: nothing is proposed twice in a session.
2. Every question is on the budget.
3. What was read is not read again, also if whoever read it was stopped in the middle of a function.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from placet.coder.angles import MOST_FUNCTIONS, Angle, angles
from placet.coder.blanks import SCHEMA, filled
from placet.coder.changes import Change, Changes
from placet.coder.doubts import Line, changes, lines
from placet.coder.leads import place
from placet.errors import AnswerUnreadable, ContextTooLong, RequestRefused
from placet.inference.messages import System, ToolCall, User
from placet.inference.model import Piece, Request, Result, final_result
from placet.inference.passage import Doubt, doubts_in, reads_passages
from placet.inference.usage import Usage
from placet.inference.wrappers.wrapped import Wrapped
from placet.ir.json_value import JsonValue
from placet.turns.spending import check_budget

if TYPE_CHECKING:
    from placet.coder.context import Chosen
    from placet.coder.python_source import Function
    from placet.inference.model import Model
    from placet.policy.budget import Budget

TOOL = "replace_lines"
NO_IDEA = "Nothing new comes to mind here."
NOTHING_LEFT = "There is nothing left to try."
_TOLD_EVERY = 10
"""Lines, after which whoever watches hears how far it is."""
_MOST_UNREADABLE = 3
_MOST_QUESTIONS = 2
"""In one turn, about places at which nothing new comes to the model's mind."""


class Proposals:
    """All that is to be tried in one session."""

    def __init__(self, had: Sequence[Change] = ()) -> None:
        """`had`: what was tried before the session was broken off."""
        self._had = had
        self._leads: set[str] = set()
        """What helped before and was looked at."""
        self._lock = asyncio.Lock()
        self._unread: deque[Function] | None = None
        self._lines: deque[Line] | None = None
        """Of the function that is being read."""
        self._doubted: list[tuple[Line, list[Doubt]]] = []
        self._unreadable = 0
        """Lines in a row of which the model told nothing that could be read."""
        self._ready: deque[Change] = deque()
        self._second: list[Change] = []
        """What comes from second thoughts, to be tried when all is read."""
        self._angles: Iterator[Angle] | None = None
        self._changes: dict[Function, Changes] = {}

    def remembered(self, chosen: Chosen, lead: str) -> Change | None:
        """What helped against this very failure before, once, if it still fits."""
        if lead in self._leads:
            return None
        self._leads.add(lead)
        found = place(lead, chosen.functions)
        if found is None:
            return None
        change = self._made(found.function).made(found.first, found.last, found.rows)
        return msgspec.structs.replace(change, is_remembered=True) if change is not None else None

    async def doubted(self, model: Proposing, chosen: Chosen, lead: str) -> Change | None:
        """The next change that comes of reading; None once all is read and tried."""
        async with self._lock:
            if self._unread is None:
                self._unread = deque(chosen.functions[:MOST_FUNCTIONS])
            while True:
                if self._ready:
                    return self._ready.popleft()
                if self._unread:
                    await self._read(self._unread[0], model, chosen, lead)
                    self._unread.popleft()
                elif self._second:
                    self._ready.extend(sorted(self._second, key=lambda each: -each.surprise))
                    self._second = []
                else:
                    return None

    async def _read(self, function: Function, model: Proposing, chosen: Chosen, lead: str) -> None:
        """Read a function to its end, from where somebody else may have left it."""
        if self._lines is None:
            self._lines = deque(lines(function, chosen.tests, lead))
            count = f"{len(self._lines):,} {'line' if len(self._lines) == 1 else 'lines'}"
            model.note(f"reading {function.name} in {function.path}, {count}")
        while self._lines:
            try:
                self._doubted.append((self._lines[0], await model.read(self._lines[0])))
                self._unreadable = 0
            except (AnswerUnreadable, RequestRefused):
                # Of one line, that says nothing about the others; of some in a row, that it cannot read.
                self._unreadable += 1
                if self._unreadable >= _MOST_UNREADABLE:
                    assert self._unread is not None
                    self._lines.clear()
                    self._unread = deque([function])
                    break
            self._lines.popleft()
            if self._lines and len(self._doubted) % _TOLD_EVERY == 0:
                model.note(f"{len(self._doubted):,} read, {len(self._lines):,} to go")
        made = self._made(function)
        for queue, is_first in ((self._ready, True), (self._second, False)):
            told = (
                (line, [d for d in doubts if (d.surprise >= 0) is is_first]) for line, doubts in self._doubted
            )
            queue.extend(changes(told, made))
        self._lines, self._doubted = None, []

    def angle(self, chosen: Chosen, *, was_read: bool) -> tuple[Angle, Changes] | None:
        """The next place to ask about, and the changes of its function so far. What was read is only asked
        about where the line is shown: leaving it out is what reading does, and does better."""
        if self._angles is None:
            every = angles(chosen.functions)
            # Asked again, a model that does not read may say something else, because it is not at its surest.
            wrong = [each for each in every if each.way == "wrong"]
            self._angles = iter(wrong) if was_read else cycle(every)
        angle = next(self._angles, None)
        if angle is None:
            return None
        return angle, self._made(angle.function)

    def _made(self, function: Function) -> Changes:
        if function not in self._changes:
            made = self._changes[function] = Changes(function)
            for each in self._had:
                if each.path == function.path and function.first <= each.first <= function.last:
                    made.made(each.first, each.last, each.text.split("\n"))
        return self._changes[function]


class Took(NamedTuple):
    """What questions took together; None once one of them did not tell."""

    usage: Usage | None = Usage(input=0, output=0)
    cost: float | None = 0.0

    def with_answer(self, usage: Usage | None, cost: float | None) -> Took:
        """And one answer more."""
        return Took(
            None if self.usage is None or usage is None else self.usage + usage,
            None if self.cost is None or cost is None else self.cost + cost,
        )


class Placing(Wrapped):
    """A model that is shown functions and writes one of them anew: it goes where that one is, whatever path
    the model makes up. Its answer comes at once: nobody wants to see half a line."""

    def __init__(self, model: Model, functions: Sequence[Function]) -> None:
        super().__init__(model)
        self._paths: dict[str, list[str]] = {}
        for each in functions:
            for name in {each.name, each.name.rpartition(".")[2]}:
                self._paths.setdefault(name, []).append(each.path)

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """The whole answer at once."""
        result = await final_result(super().stream(request))
        yield msgspec.structs.replace(result, calls=tuple(self._placed(call) for call in result.calls))

    def _placed(self, call: ToolCall) -> ToolCall:
        found = set(self._paths.get(str(call.arguments.get("name", "")), ()))
        if call.name != "replace_function" or len(found) != 1:
            return call
        return msgspec.structs.replace(call, arguments={**call.arguments, "path": found.pop()})


class Proposing(Wrapped):
    """A model whose answer is one change to try, at once: a call of replace_lines."""

    def __init__(
        self,
        model: Model,
        budget: Budget,
        *,
        proposals: Proposals,
        chosen: Chosen,
        words: Callable[[Angle], str],
        rules: str,
        lead: str = "",
        first: Change | None = None,
        said: Callable[[Change | None], Awaitable[None]],
        note: Callable[[str], None],
    ) -> None:
        """Each question counts for the budget at once, before the answer that it is part of. `words` are
        what is asked about a place, under the rules; `lead` is what helped against this very
        failure before; `first` had been proposed before the process died, and may not have been heard.
        `said` is told of a change, or that nothing is left, before anybody else is; `note` of what takes its
        time."""
        super().__init__(model)
        self._budget = budget
        self._proposals = proposals
        self._chosen = chosen
        self._words = words
        self._rules = rules
        self._lead = lead
        self._request: Request | None = None
        self._first = first
        self._said = said
        self.note = note
        self.spare = Took()
        """What questions took whose turn gave no answer."""

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """The next change.

        Raises:
            BudgetSpent: what the run may use is used up.
        """
        self._request = request
        reads = reads_passages(self.model)
        change: Change | str | None = self._first
        if change is None:
            change = self._proposals.remembered(self._chosen, self._lead)
        if change is None and reads:
            change = await self._proposals.doubted(self, self._chosen, self._lead)
        if change is None:
            change = await self._asked_about(was_read=reads)
        if isinstance(change, Change) or change is None:
            await self._said(change)
        spent, self.spare = self.spare, Took()
        told: dict[str, Any] = {"usage": spent.usage, "cost": spent.cost, "model": self.name}
        if not isinstance(change, Change):
            yield Result(text=change or NOTHING_LEFT, **told)
        else:
            yield Result(calls=[ToolCall(name=TOOL, arguments=_arguments(change))], stop="calls", **told)

    async def read(self, line: Line) -> list[Doubt]:
        """What the model doubts in a line; nothing where it cannot read that much.

        Raises:
            AnswerUnreadable: it tells no doubts.
        """
        try:
            result = await self._answer(messages=(), passage=line.passage)
        except ContextTooLong:
            return []
        try:
            return doubts_in(result.text)
        except msgspec.DecodeError as error:
            raise AnswerUnreadable(
                f"{self.name} was to read a line, and answers otherwise: {error}"
            ) from None

    async def _asked_about(self, *, was_read: bool) -> Change | str | None:
        """A change of some place, or why there is none; `None` if nothing is left to try."""
        for _ in range(_MOST_QUESTIONS):
            place = self._proposals.angle(self._chosen, was_read=was_read)
            if place is None:
                return None
            angle, made = place
            messages = [System(self._rules), User(self._words(angle))]
            result = await self._answer(messages=messages, schema=SCHEMA)
            if (change := filled(angle, result.text, made)) is not None:
                return change
        return NO_IDEA

    async def _answer(self, **asked: Any) -> Result:
        assert self._request is not None
        request = msgspec.structs.replace(self._request, tools=(), tool_choice="auto", **asked)
        check_budget(self._budget)
        result = await final_result(super().stream(request))
        self._budget.prepay(result.usage, result.cost)
        self.spare = self.spare.with_answer(result.usage, result.cost)
        return result


def _arguments(change: Change) -> dict[str, JsonValue]:
    return {"path": change.path, "first": change.first, "last": change.last, "text": change.text}
