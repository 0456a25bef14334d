"""The one turn loop: ask the model, carry out what it asks for, tell it what came of that, ask again.

The assistant, the coder, agents and governed loops all use it; they differ in what they say, offer and allow.

Keep true:
1. Whatever the model asks for goes through the runtime; nothing else here has effects.
2. Every call is answered, in order, with exactly one result.
3. A turn costs the same, however many came before it.
4. An answer is with the journal before anything follows from it; gone through again, it is not asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from assent.errors import (
    AssentError,
    BudgetSpent,
    ContextTooLong,
    ModelCancelled,
    ModelError,
    RunError,
    StorageError,
)
from assent.inference.messages import Assistant, System, ToolResult, User
from assent.inference.messages import Text as TextPart
from assent.inference.model import Intent, Model, Request, Result, Thought, Words, stream
from assent.inference.tools import account
from assent.inference.usage import Usage
from assent.ir.result import Status, Waiting
from assent.ir.tool_spec import ToolSchema
from assent.policy.marks import NO_MARKS, Marks
from assent.runtime.calls import words_of
from assent.runtime.observation import observe, observe_text
from assent.safe_text import clean
from assent.turns.answer import checked
from assent.turns.calls import Asked, Offer, groups
from assent.turns.conversation import Conversation
from assent.turns.ending import (
    OUTCOMES,
    Call,
    CallResult,
    Done,
    End,
    Ending,
    Event,
    Note,
    Text,
    Thinking,
    Trouble,
    Watch,
)
from assent.turns.limits import TurnLimits, used_up_words
from assent.turns.output import OutputType, OutputUnfit
from assent.turns.reading import Reading
from assent.turns.repetition import WARNING, Repetition
from assent.turns.told import Answered, Ended, Failed, Overflowed, Said, Told, encode, read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assent.runtime.open_run import OpenRun
    from assent.runtime.spill import Spill
    from assent.tools.context import Cancel

WORTH_WAITING_S = 0.02
"""An answer that took so long is on disk before anything follows from it: that costs a small part of it. One
that came at once is handed over all the same, and is there a moment later."""

_LOGGED = 2_000
_TOLD = 300
NOT_RUN = "this call was not run"
_GOES_ON = ("waiting", "canceled")
"""Of a run that ends so, more may come of the same message."""
_EMPTY = "Your answer was empty. Call a tool, or give your final answer in words."


class Halt(NamedTuple):
    """Why the loop goes no further."""

    status: End
    error: str
    waiting: Sequence[Waiting] = ()


class _Came(NamedTuple):
    """What came of one call."""

    asked: Asked
    text: str
    status: Status
    marks: Marks = NO_MARKS
    halt: Halt | None = None

    @property
    def ok(self) -> bool:
        return self.status == "succeeded"


class _Stopped(Exception):
    """The model was interrupted."""


class TurnLoop:
    """A conversation between one model and one run, with a person who says something now and then."""

    def __init__(
        self,
        run: OpenRun,
        model: Model,
        offer: Offer,
        *,
        system: str = "",
        schemas: Sequence[ToolSchema] = (),
        limits: TurnLimits | None = None,
        failures: int = 1,
        output: OutputType[Any] | None = None,
        intent: Intent | None = None,
        cancel: Cancel | None = None,
        spill: Spill | None = None,
        watch: Watch | None = None,
        before_effect: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`cancel` is that of the run. `failures` is how often in a row the model may give no answer. Of a
        run that was taken up again, `go_on` brings the loop to where it stood. `before_effect` is awaited
        before each call that may change something."""
        self._run = run
        self._model = model
        self._offer = offer
        self._schemas = tuple(schemas)
        self._limits = limits or TurnLimits()
        self._failures = failures
        self._output = output
        self._intent = intent
        self._cancel = cancel
        self._spill = spill
        self._watch = watch
        self._before_effect = before_effect
        self._conversation = Conversation(self._limits.context_tokens, self._limits.answer_tokens)
        if system:
            self._conversation.add(System(system))
        self._reading = Reading()
        self._fresh: list[Marks] = []
        """Of results that the model has not read yet: what it wrote in the same turn, it wrote before."""
        self._recalled = read(run.told)
        self._is_recalled = False
        """Whether the newest answer, or that there was none, is from before the run was taken up again."""
        self._turn = 0
        """Of the run."""
        self._calls = 0
        self._is_out_of_time = False
        self._begin()

    def _begin(self) -> None:
        """Forget what belongs to one message."""
        self._repetition = Repetition()
        self._turns = 0
        self._failed_in_a_row = 0
        self._was_empty = False
        self._repairs_left = 1
        self._is_repairing = False
        self._last_text = ""
        self._value: Any = None
        self._is_cut_off = False
        self._succeeded: list[str] = []
        self._usage: Usage | None = None
        self._cost: float | None = 0.0

    @property
    def conversation(self) -> Conversation:
        """All that was said."""
        return self._conversation

    def use(self, model: Model) -> None:
        """Ask another model from now on."""
        self._model = model

    @property
    def cancel(self) -> Cancel | None:
        """What can stop it."""
        return self._cancel

    def stop_by(self, cancel: Cancel | None) -> None:
        """Let this stop what comes next, instead of what could before."""
        self._cancel = cancel
        self._run.stop_by(cancel)

    # One message, and all that comes of it

    async def say(self, message: User) -> Ending:
        """Say something to the model, and let it work until it is done or may go no further.

        Raises:
            RunHeld: the run is another's by now.
        """
        self._tell(Said(message))
        self._emit("turn_asked", {"text": _plain(message)[:_LOGGED]})
        return await self._exchange(message)

    async def go_on(self) -> Ending | None:
        """Bring the loop to where it stood, and go on from there; None if nothing had been said."""
        ending = None
        while self._recalled:
            note = self._recalled.popleft()
            if isinstance(note, Said):
                ending = await self._exchange(note.message)
        return ending

    async def _exchange(self, message: User) -> Ending:
        self._begin()
        self._conversation.add(message)
        self._reading.heard(_plain(message))
        with self._in_time():
            while True:
                if self._recalled and isinstance(known := self._recalled[0], Ended):
                    self._recalled.popleft()
                    return known.ending
                if self._recalled and isinstance(self._recalled[0], Said):
                    return self._ending(Halt("cancelled", "it was left for another message"))
                halt = None if self._recalled else self._halt()
                if halt is None and self._turns >= self._limits.turns:
                    halt = Halt("max_turns", f"stopped after {self._turns} turns without finishing")
                if halt is None:
                    halt = await self._turn_once()
                if halt is not None:
                    return self._end(halt)

    async def _turn_once(self) -> Halt | None:
        """One turn; why it was the last, if it was."""
        self._make_room()
        self._turns += 1
        self._turn += 1
        try:
            result = await self._answer()
        except ContextTooLong as error:
            made = self._conversation.make_much_room()
            if made is None:
                return self._failed(error)
            if not self._is_recalled:
                self._tell(Overflowed())
                self._say_room(made.left_out, made.dropped)
            return None
        except BudgetSpent as error:
            return Halt("budget", str(error))
        except (_Stopped, ModelCancelled):
            return self._halt() or self._failed(
                ModelError("the model stopped, and nobody had asked for that")
            )
        except RunError:
            raise
        except StorageError as error:
            # The answer is not kept, so nothing may follow from it, and asking again would help nobody.
            return Halt("error", f"the run cannot be kept: {error}")
        except AssentError as error:
            return self._failed(error)
        except Exception as error:
            return self._failed(ModelError(f"the model failed: {type(error).__name__}: {words_of(error)}"))
        self._failed_in_a_row = 0
        if result.text.strip():
            self._last_text = result.text
        if result.calls:
            self._was_empty = False
            return await self._act(result)
        return self._conclude(result)

    def _halt(self) -> Halt | None:
        """Why nothing more may be started, if so."""
        if self._is_out_of_time:
            assert self._run.budget is not None
            return Halt("budget", used_up_words("max_duration_ms", self._run.budget))
        if self._cancel is not None and self._cancel.requested:
            return Halt("cancelled", self._cancel.reason or "it was cancelled")
        limit = self._run.used_up()
        if limit is None:
            return None
        assert self._run.budget is not None
        return Halt("budget", used_up_words(limit, self._run.budget))

    # Asking the model

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
                    raise ModelError(note.error)
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
                "calls": [call.name[:_TOLD] for call in result.calls],
                "text": result.text[:_LOGGED],
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
            raise _Stopped from None

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
        limit = self._limits.answer_tokens
        budget = self._run.budget
        if budget is None or budget.max_tokens is None:
            return limit
        left = max(1, budget.max_tokens - self._run.tokens)
        return left if limit is None else min(limit, left)

    async def _generate(self, request: Request) -> Result:
        if self._watch is None:
            return await self._model.generate(request)
        result: Result | None = None
        async with aclosing(stream(self._model, request)) as pieces:
            async for piece in pieces:
                match piece:
                    case Words():
                        self._watch(Text(text=piece.text))
                    case Thought():
                        self._watch(Thinking(text=piece.text))
                    case Result():
                        result = piece
        if result is None:
            raise ModelError("the model's answer broke off before its end.")
        return result

    def _take(self, result: Result) -> None:
        """Count what an answer took."""
        usage = result.usage
        self._conversation.counted(usage)
        known = usage is not None and (usage.input is not None or usage.output is not None)
        self._run.spend(usage.total if usage is not None and known else None, result.cost)
        if usage is not None:
            self._usage = usage if self._usage is None else _added(self._usage, usage)
        if result.cost is None:
            self._cost = None
        elif self._cost is not None:
            self._cost += result.cost

    def _failed(self, error: AssentError) -> Halt | None:
        """The model gave no answer; whether that was once too often."""
        self._failed_in_a_row += 1
        if self._is_recalled:
            return None  # It was not once too often, or nothing would have been told.
        words = clean(words_of(error), _LOGGED)
        self._tell_watch(Trouble(text=words))
        self._emit("turn_failed", {"turn": self._turn, "error": words, "code": error.code})
        if self._failed_in_a_row >= self._failures:
            return Halt("error", f"inference failed: {words}")
        self._tell(Failed(words))
        return None

    def _make_room(self) -> None:
        made = self._conversation.make_room()
        if made is not None and not self._recalled:
            self._say_room(made.left_out, made.dropped)

    def _say_room(self, left_out: int, dropped: int) -> None:
        words = f"made room in the conversation: {left_out} results shortened, {dropped} turns left out"
        self._tell_watch(Note(text=words))
        self._emit("turn_compacted", {"turn": self._turn, "results": left_out, "turns": dropped})

    # The end of it

    def _conclude(self, result: Result) -> Halt | None:
        """The model asks for nothing more: whether it is done."""
        text = result.text.strip()
        if result.stop == "refused":
            return Halt("error", f"the model would not answer{': ' + text if text else ''}")
        if not text:
            if self._was_empty:
                return Halt("error", "the model answered nothing, twice in a row")
            self._was_empty = True
            self._conversation.add(User(_EMPTY))
            return None
        self._was_empty = False
        self._conversation.add(result.message)
        value = None
        if self._output is not None:
            try:
                value = self._output.read(text)
            except OutputUnfit as unfit:
                if not self._repairs_left:
                    return Halt("error", f"the answer does not fit the output type: {unfit}")
                self._repairs_left -= 1
                self._is_repairing = True
                self._conversation.add(User(self._output.repair(str(unfit))))
                return None
        self._value = value
        self._is_cut_off = result.stop == "length"
        return Halt("success", "")

    def _end(self, halt: Halt) -> Ending:
        ending = self._ending(halt)
        if self._recalled:
            # It ended so before, and what was told then is still to come.
            if isinstance(self._recalled[0], Ended):
                self._recalled.popleft()
            return ending
        if OUTCOMES[halt.status] not in _GOES_ON:
            self.leave(ending)
        self._emit(
            "turn_loop_ended",
            {
                "status": ending.status,
                "turns": ending.turns,
                "tools": len(ending.tools),
                "summary": ending.summary[:_LOGGED],
                "error": ending.error,
                "input_tokens": ending.usage.input if ending.usage is not None else None,
                "output_tokens": ending.usage.output if ending.usage is not None else None,
                "cost": ending.cost_usd,
            },
        )
        self._tell_watch(Done(ending=ending))
        return ending

    def leave(self, ending: Ending | None = None) -> None:
        """No more is to come of the message before, also after a restart. Without an ending it was
        interrupted."""
        if ending is None:
            ending = self._ending(Halt("cancelled", "it was interrupted"))
        self._tell(Ended(msgspec.structs.replace(ending, output=None)))

    def _ending(self, halt: Halt) -> Ending:
        return Ending(
            status=halt.status,
            summary=self._last_text or halt.error or "done",
            turns=self._turns,
            tools=tuple(self._succeeded),
            usage=self._usage,
            cost_usd=self._cost if self._usage is not None else None,
            run_id=self._run.run_id,
            error=halt.error or None,
            waiting=tuple(halt.waiting),
            is_cut_off=halt.status == "success" and self._is_cut_off,
            output=self._value if halt.status == "success" else None,
        )

    # Carrying out what it asks for

    async def _act(self, result: Result) -> Halt | None:
        """Carry out the calls of a turn, and tell the model what came of each."""
        asked = self._offer.asked(result.calls, self._run.run_id, self._turn, self._calls)
        self._calls += len(asked)
        self._conversation.add(
            Assistant(text=result.text, calls=tuple(a.call for a in asked), carried=result.carried)
        )
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

    def _heed(self, group: Sequence[_Came]) -> Halt | None:
        """Take in what came of calls; why nothing more may be done, if so."""
        halts = [came.halt for came in group if came.halt is not None]
        halt = next((each for each in halts if each.status == "waiting"), halts[0] if halts else None)
        if halt is not None and halt.waiting:
            # Calls that ran together may have asked together.
            halt = _waits([waiting for each in halts for waiting in each.waiting])
        for came in group:
            self._fresh.append(came.marks)
            if came.ok:
                self._succeeded.append(came.asked.call.name)
            self._add_result(came)
        return halt

    async def _together(self, group: Sequence[Asked]) -> Sequence[_Came]:
        """What came of calls that may run side by side, in order."""
        if len(group) == 1 or all(map(self._offer.is_instant, group)):
            return [await self._one(asked) for asked in group]
        try:
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(self._one(asked)) for asked in group]
        except BaseExceptionGroup as failures:
            # The run is another's by now, say; one such word is enough.
            raise failures.exceptions[0] from None
        return [task.result() for task in running]

    async def _one(self, asked: Asked) -> _Came:
        call = asked.call
        self._tell_watch(
            Call(turn=self._turn, action_id=asked.action_id, tool=call.name, parameters=call.arguments)
        )
        if asked.proposal is None:
            came = _Came(asked, self._shown(f"rejected: {asked.refusal}", asked), "rejected")
            if not self._recalled:
                self._emit(
                    "turn_call_refused",
                    {"turn": self._turn, "tool": call.name[:_TOLD], "error": asked.refusal[:_LOGGED]},
                    asked.action_id,
                )
        elif self._recalled and not self._run.has_ended(asked.number):
            # More came after it, so it was left where it stood; it is not made up for now.
            came = _Came(asked, f"skipped: {NOT_RUN}", "skipped")
        else:
            if self._before_effect is not None and not self._offer.is_read_only(asked):
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
            )
        )
        return came

    async def _carry_out(self, asked: Asked) -> _Came:
        assert asked.proposal is not None
        acted = await self._run.act(
            asked.proposal,
            asked.number,
            keep=self._offer.may_stay_open(asked),
            given=self._reading.inflow(asked.proposal.actions[0].parameters) if self._reading.marks else None,
        )
        result = acted.result
        action = result.results[0]
        text = observe(action, run_id=self._run.run_id, spill=self._spill)
        halt: Halt | None = None
        if result.outcome == "waiting":
            # Of what the run has asked before, nothing is in question any more.
            halt = _waits([waiting for waiting in result.waiting if waiting.action_id == asked.action_id])
        elif result.outcome == "canceled":
            halt = self._halt() or Halt("error", result.error or "the call was stopped")
        elif result.outcome == "budget":
            halt = self._halt() or Halt("budget", "the limit on tool calls was reached")
        return _Came(asked, text, action.status, acted.marks, halt)

    def _leave(self, group: Sequence[Asked], why: str, words: str = f"skipped: {NOT_RUN}") -> None:
        """Answer calls that are not made."""
        for asked in group:
            self._add_result(_Came(asked, f"{words}, because {why}", "skipped"))

    def _add_result(self, came: _Came) -> None:
        call = came.asked.call
        self._conversation.add(
            ToolResult(call_id=call.id, name=call.name, text=came.text, is_error=not came.ok)
        )

    def _shown(self, text: str, asked: Asked) -> str:
        return observe_text(text, asked.action_id, run_id=self._run.run_id, spill=self._spill)

    # Telling

    def _tell(self, note: Told) -> None:
        self._run.tell(encode(note))

    def _tell_watch(self, event: Event) -> None:
        if self._watch is not None and not self._recalled:
            self._watch(event)

    def _emit(self, kind: str, data: dict[str, Any], action_id: str | None = None) -> None:
        self._run.emit(kind, self._run.about.id, data, action_id=action_id)

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
        self._cancel.cancel("the time is over", hard=True)


def _waits(waiting: Sequence[Waiting]) -> Halt:
    names = ", ".join(each.action_id for each in waiting)
    return Halt("waiting", f"waits for a person to decide about {names}", waiting)


def _plain(message: User) -> str:
    """What a person wrote, without pictures."""
    return "\n".join(part.text for part in message.parts if isinstance(part, TextPart))


def _added(first: Usage, second: Usage) -> Usage:
    def add(a: int | None, b: int | None) -> int | None:
        return (a or 0) + (b or 0) if a is not None or b is not None else None

    return Usage(
        input=add(first.input, second.input),
        output=add(first.output, second.output),
        cached=add(first.cached, second.cached),
        cache_written=add(first.cache_written, second.cache_written),
    )
