"""Asking a model: what it is sent, how long it may take, what its answer took, and that it is kept.

Keep true:
1. An answer is with the journal before anything follows from it; gone through again, it is not asked again.
2. Asking costs the same, however long the conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from placet.errors import ContextTooLong, ModelError, PlacetError
from placet.inference.messages import System
from placet.inference.model import Intent, Model, Piece, Request, Result, Thought, Words, final_result, stream
from placet.inference.tools import account
from placet.inference.usage import Usage
from placet.ir.result import Waiting
from placet.ir.stop_cause import StopCause
from placet.ir.tool_spec import ToolSchema
from placet.policy.marks import Marks
from placet.runtime.calls import words_of
from placet.safe_text import clean
from placet.turns.answer import checked
from placet.turns.calls import Offer
from placet.turns.compaction import Compacted
from placet.turns.conversation import Conversation
from placet.turns.ending import End, Event, Note, Text, Thinking, Trouble, Watch
from placet.turns.limits import TurnLimits
from placet.turns.output import OutputType
from placet.turns.reading import Reading
from placet.turns.told import Answered, Failed, Overflowed, Told, encode, read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from placet.runtime.open_run import OpenRun
    from placet.runtime.spill import Spill
    from placet.tools.context import Cancel

WORTH_WAITING_S = 0.02
"""An answer that took so long is on disk before anything follows from it: that costs a small part of it. One
that came at once is handed over all the same, and is there a moment later."""

LOGGED = 2_000
"""Characters of a text that the log has."""
NAMED = 300
"""Characters of a tool's name that it has."""

TOO_LONG = (
    "the conversation no longer fits what the model can read; begin a new one, or use a model that reads more"
)


class Halt(NamedTuple):
    """Why the loop goes no further."""

    status: End
    error: str
    waiting: Sequence[Waiting] = ()
    cause: StopCause | None = None


class Terms(NamedTuple):
    """How a loop is led: what `TurnLoop` is made with."""

    offer: Offer
    system: str
    schemas: Sequence[ToolSchema]
    limits: TurnLimits
    failures: int
    failed: int
    output: OutputType[Any] | None
    intent: Intent | None
    cancel: Cancel | None
    spill: Spill | None
    watch: Watch | None
    before_effect: Callable[[], Awaitable[None]] | None


class Stopped(Exception):
    """The model was interrupted."""


class Asking:
    """The part of a loop that talks to the model."""

    def __init__(self, run: OpenRun, model: Model, terms: Terms) -> None:
        self._run = run
        self._model = model
        self._schemas = tuple(terms.schemas)
        self._limits = limits = terms.limits
        self._failures = terms.failures
        self._failed_before = terms.failed
        self._output = terms.output
        self._intent = terms.intent
        self._cancel = terms.cancel
        self._watch = terms.watch
        self._conversation = Conversation(limits.context_tokens, limits.answer_tokens)
        if terms.system:
            self._conversation.add(System(terms.system))
        self._reading = Reading()
        self._fresh: list[Marks] = []
        """Of results that the model has not read yet: what it wrote in the same turn, it wrote before."""
        self._recalled = read(run.told)
        self._is_recalled = False
        """Whether the newest answer, or that there was none, is from before the run was taken up again."""
        self._turn = 0
        """Of the run."""
        self._is_out_of_time = False
        self._is_repairing = False
        self._is_too_long = False
        """Whether the model could not read the newest request, and nothing more can be left out of it."""
        self._failed_in_a_row = 0
        self._usage: Usage | None = None
        self._cost: float | None = 0.0

    def _halt(self) -> Halt | None:
        """Why the loop may go no further, if so."""
        return self._reached(alone=False)

    def _reached(self, *, alone: bool = True) -> Halt | None:
        """Why nothing more may be started, if so: for a call of several, which brings it with its result.
        What the model asked for last may still be done, whatever is left above."""
        if self._is_out_of_time:
            assert self._run.budget is not None
            return Halt("budget", self._run.budget.time_words())
        if self._cancel is not None and self._cancel.requested:
            return Halt("cancelled", self._cancel.reason or "it was cancelled", cause=self._cancel.cause)
        over = self._run.spending.exceeded(alone=alone)
        return Halt("budget", over.words) if over is not None else None

    # Asking

    async def _answer(self) -> Result:
        """The model's answer, or the one that it gave before the run was broken off.

        Raises:
            ModelError: it gave none.
            StorageError: the answer cannot be kept, so nothing must follow from it.
        """
        for marks in self._fresh:
            self._reading.read(marks)
        self._fresh.clear()
        self._is_recalled = bool(self._recalled)
        while self._recalled:
            note = self._recalled.popleft()
            match note:
                case Answered():
                    self._take(note.result)
                    return note.result
                case Failed():
                    raise (ContextTooLong if note.is_too_long else ModelError)(note.error)
                case Overflowed():
                    raise ContextTooLong("the conversation was too long")
        self._is_recalled = False
        began = perf_counter()
        result = checked(await self._ask())
        self._tell(Answered(result))
        self._take(result)
        self._emit(
            "turn_answered",
            {
                "turn": self._turn,
                "calls": [self._run.brief(call.name, NAMED) for call in result.calls],
                "text": self._run.brief(result.text, LOGGED),
                **account(result),
            },
        )
        if perf_counter() - began >= WORTH_WAITING_S:
            await self._run.settle()
        return result

    async def _ask(self) -> Result:
        request = Request(
            messages=self._conversation.messages,
            tools=() if self._is_repairing else self._schemas,
            schema=self._output.schema if self._is_repairing and self._output is not None else None,
            max_tokens=self._answer_tokens(),
            intent=self._intent,
            cancel=self._cancel,
        )
        try:
            if self._cancel is None:
                return await self._generate(request)
            return await self._generate_until(request, self._cancel)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Not the loop is to end: only the model was stopped, or has stopped by itself.
            raise Stopped from None

    async def _generate_until(self, request: Request, cancel: Cancel) -> Result:
        loop = asyncio.get_running_loop()
        asking = loop.create_task(self._generate(request))
        # May come from any thread.
        unsubscribe = cancel.on_request(lambda: loop.call_soon_threadsafe(asking.cancel))
        try:
            return await asking
        finally:
            unsubscribe()

    def _answer_tokens(self) -> int | None:
        limit, left = self._limits.answer_tokens, self._run.spending.most_written()
        return left if limit is None else limit if left is None else min(limit, left)

    async def _generate(self, request: Request) -> Result:
        if self._watch is None:
            return await self._model.generate(request)
        # Also where nobody watches any longer before it has come to its end.
        return await final_result(self._shown_pieces(stream(self._model, request)))

    async def _shown_pieces(self, pieces: AsyncGenerator[Piece, None]) -> AsyncGenerator[Piece, None]:
        async with aclosing(pieces):
            async for piece in pieces:
                match piece:
                    case Words():
                        self._tell_watch(Text(text=piece.text))
                    case Thought():
                        self._tell_watch(Thinking(text=piece.text))
                yield piece

    def _take(self, result: Result) -> None:
        """Count what an answer took."""
        usage = result.usage
        self._conversation.counted(usage)
        self._run.spending.charge(usage, result.cost)
        if usage is not None:
            self._usage = usage if self._usage is None else self._usage + usage
        if result.cost is None:
            self._cost = None
        elif self._cost is not None:
            self._cost += result.cost

    def _failed(self, error: PlacetError) -> Halt | None:
        """The model gave no answer; whether that was once too often."""
        self._failed_in_a_row += 1
        if self._is_recalled:
            return None  # It was not once too often, or nothing would have been told.
        words = clean(words_of(error), LOGGED)
        self._say_failed(words, error)
        if self._failed_in_a_row >= self._failures:
            return Halt("error", f"inference failed: {words}")
        self._tell(Failed(words))
        return None

    def _say_failed(self, words: str, error: PlacetError) -> None:
        self._tell_watch(Trouble(text=words))
        self._emit("turn_failed", {"turn": self._turn, "error": words, "code": error.code})

    def _make_room(self) -> None:
        made = self._conversation.make_room()
        if made is not None and not self._recalled:
            self._say_room(made)

    def _overflowed(self, error: ContextTooLong) -> Halt | None:
        """The model cannot read so much: make the conversation shorter, or end."""
        made = self._conversation.make_much_room()
        if made is not None:
            if not self._is_recalled:
                self._tell(Overflowed())
                self._say_room(made)
            return None
        self._is_too_long = True
        if self._is_recalled:
            return None  # Another model may read more.
        self._say_failed(clean(words_of(error), LOGGED), error)
        self._tell(Failed(TOO_LONG, is_too_long=True))
        return Halt("error", TOO_LONG)

    def _say_room(self, made: Compacted) -> None:
        words = f"made room in the conversation: {made.left_out} results shortened"
        if made.cut_calls:
            words += f", {made.cut_calls} calls shortened"
        words += f", {made.dropped} turns left out"
        if made.unsaid:
            words += f", {made.unsaid} messages left out"
        self._tell_watch(Note(text=words))
        self._emit(
            "turn_compacted",
            {
                "turn": self._turn,
                "results": made.left_out,
                "calls": made.cut_calls,
                "turns": made.dropped,
                "messages": made.unsaid,
            },
        )

    # Telling

    def _tell(self, note: Told) -> None:
        self._run.tell(encode(note))

    def _tell_watch(self, event: Event) -> None:
        if self._watch is None or self._recalled:
            return
        try:
            self._watch(event)
        except Exception as error:
            # Whoever watches has no say in the run. It is left alone from now on, which is told once.
            self._watch = None
            words = clean(f"{type(error).__name__}: {words_of(error)}", LOGGED)
            self._emit("sink_failed", {"sink": "watch", "error": words})

    def _emit(self, kind: str, data: dict[str, Any], action_id: str | None = None) -> None:
        self._run.say(kind, data, action_id)

    # Time

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        """Stop what is in flight when the time is over."""
        budget = self._run.budget
        if budget is None or budget.max_duration_ms is None or self._cancel is None:
            yield
            return
        self._time_limit_ms = budget.max_duration_ms
        self._arm()
        try:
            yield
        finally:
            self._alarm.cancel()

    def _arm(self) -> None:
        left_ms = max(self._time_limit_ms - self._run.elapsed_ms, 1.0)
        self._alarm = asyncio.get_running_loop().call_later(left_ms / 1000, self._ring)

    def _ring(self) -> None:
        if self._run.elapsed_ms < self._time_limit_ms:
            self._arm()  # People were waited for, and that time is nobody's.
            return
        assert self._cancel is not None
        self._is_out_of_time = True
        self._cancel.cancel("the time is over", hard=True, cause=StopCause.DEADLINE)
