"""A run of turns into one file, from which it can be replayed.

The model's answers are recorded as those of any model are: each with the messages that are new in its
request, the results of calls among them. What no request holds is told on lines between them.

Keep true:
1. What a turn costs, in bytes and in work, depends on what is new in it, not on how long the run is.
2. One file holds one run. It goes on in the same file when it is taken up again, and in no other.
3. A recorded run goes as it would unrecorded; only a recording that cannot be written ends it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from placet.errors import InputError, PlacetError, RequestRefused
from placet.inference.messages import Message, ToolResult, User
from placet.inference.model import Model, Piece, Request, Result, stream
from placet.inference.wrappers.record_file import read_lines
from placet.inference.wrappers.recording import Recording
from placet.inference.wrappers.wrapped import Wrapped
from placet.ir.ending import CallKind
from placet.ir.provenance import Provenance
from placet.ir.stop_cause import StopCause
from placet.runtime.calls import words_of
from placet.safe_text import clean
from placet.turns import run_lines
from placet.turns.acting import NOT_RUN, CallCame
from placet.turns.answer import checked
from placet.turns.asking import Halt
from placet.turns.ending import Ending, Note
from placet.turns.loop import TurnLoop
from placet.turns.output import OutputType, OutputUnfit
from placet.turns.recorded_run import read_run
from placet.turns.run_lines import (
    Begun,
    Between,
    Came,
    Ended,
    KnownTool,
    RunLine,
    Stop,
    StopAt,
    letter_of,
    told,
)
from placet.turns.told import Failed

if TYPE_CHECKING:
    from placet.runtime.open_run import OpenRun
    from placet.turns.calls import Asked, Offer

SKIPPED = f"skipped: {NOT_RUN}"
_ROUNDING = 1e-9
"""Of sums of dollars."""


class RunRecording(Recording):
    """A model whose answers are kept, with what else it takes to replay the run that asks it."""

    def __init__(self, model: Model, path: str | PathLike[str], *, resumed: str | None = None) -> None:
        """`resumed` is the id of a run that is taken up again.

        Raises:
            InputError: the file cannot be written, is no recording, or holds another run, or none.
        """
        known = None if resumed is None else self._known(path, resumed)
        super().__init__(_Checked(model), path)
        self.known: dict[int, ToolResult] = known or {}
        """What the file tells of calls from before this process, by their numbers."""
        self._pending: list[Came] = []
        self._between = Between()
        self._wrote: Literal["nothing", "answer", "error"] = "nothing"
        """Of the newest request."""
        if known is None and next(read_lines(self.path), None) is not None:
            self._file.close()
            raise InputError(f"{clean(path)} holds a recording already. Name another file for this run.")

    @staticmethod
    def _known(path: str | PathLike[str], run_id: str) -> dict[int, ToolResult]:
        if next(read_lines(Path(path)), None) is None:
            return {}  # Nothing was said yet when it was left.
        recorded = read_run(path)
        if recorded.run_id != run_id:
            raise InputError(
                f"{clean(path)} holds run '{clean(recorded.run_id, 80)}', not '{clean(run_id, 80)}'. Name "
                "the file that the run began with."
            )
        return recorded.known

    def loop(self, run: OpenRun, offer: Offer, **parts: Any) -> RecordedLoop:
        """The loop that is recorded here; its parts are those of any loop."""
        return RecordedLoop(run, self, offer, **parts)

    def use(self, model: Model) -> None:
        """Have another model answer from now on."""
        self.model = _Checked(model)

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """The answer as it comes. Raises as any recording does."""
        before = self._ask_next(request)
        try:
            async with aclosing(super().stream(request)) as pieces:
                async for piece in pieces:
                    yield piece
        finally:
            self._asked(before)

    async def close(self) -> None:
        """Close the file. The model is not ours to close."""
        self._file.close()

    def tell(self, line: RunLine) -> None:
        """Add a line.

        Raises:
            InputError: it cannot be written.
        """
        with self._lock:
            self._file.append([told(line)])

    # What no request may hold

    def came(self, came: Came) -> None:
        """A call has its result."""
        self._pending.append(came)

    def came_before(self, came: Came) -> None:
        """Taken up again, the run tells otherwise what came of a call."""
        self._between = msgspec.structs.replace(self._between, past=(*self._between.past, came))

    def spent(self, tokens: int, cost: float) -> None:
        """Tools used so much since the last request."""
        self._between = msgspec.structs.replace(self._between, tokens=tokens, cost=cost)

    def unfit(self, problem: str) -> None:
        """The newest answer does not fit the output type."""
        self._between = msgspec.structs.replace(self._between, unfit=problem)

    def failed(self, words: str, messages: Sequence[Message]) -> None:
        """The loop goes without an answer; told here unless the recording of the model tells it.

        Raises:
            InputError: it cannot be written.
        """
        if self._wrote != "error":
            results, self._pending = tuple(self._pending), []
            is_instead, at = self._wrote == "answer", self._digest(messages)
            self.tell(run_lines.Failed(error=words, at=at, results=results, is_instead=is_instead))

    def ended(self, ending: Ending, messages: Sequence[Message], stop: StopAt | None) -> None:
        """Nothing more comes of the message before.

        Raises:
            InputError: it cannot be written.
        """
        self.tell(
            Ended(
                ending=msgspec.structs.replace(ending, output=None),
                at=self._digest(messages),
                results=tuple(self._pending),
                past=self._between.past,
                unfit=self._between.unfit,
                stop=stop,
            )
        )
        self._pending, self._between = [], Between()

    def _digest(self, messages: Sequence[Message]) -> str:
        with self._lock:
            try:
                return self._digests.place(messages).digest
            except RequestRefused:
                return ""  # JSON cannot carry them.

    def _ask_next(self, request: Request) -> int:
        """Tell what this request does not hold; how many answers there are before it."""
        # One message more: the loop may have put in a word of its own after them.
        held = set(map(id, request.messages[-len(self._pending) - 1 :]))
        missing = tuple(each for each in self._pending if id(each.message) not in held)
        between = msgspec.structs.replace(self._between, results=missing)
        if between != Between():
            self.tell(between)
            self._between = Between()
            self._pending = [each for each in self._pending if id(each.message) in held]
        self._wrote = "nothing"
        return self.answers

    def _asked(self, before: int) -> None:
        if self.answers > before:
            # Only now: a request that was called off has left no line that holds them.
            self._pending = []
            self._wrote = "answer" if self.last_was_answer else "error"


class RecordedLoop(TurnLoop):
    """A loop that tells a recording what its requests do not hold."""

    def __init__(
        self,
        run: OpenRun,
        model: RunRecording,
        offer: Offer,
        *,
        system: str = "",
        output: OutputType[Any] | None = None,
        **parts: Any,
    ) -> None:
        """As any loop, with a recording for a model.

        Raises:
            InputError: the recording cannot be written.
        """
        kept = None if output is None else _RecordedOutput(output, model)
        super().__init__(run, model, offer, system=system, output=kept, **parts)
        self._record = model
        self._results = 0
        """How many calls have their result."""
        self._own_tokens, self._own_cost = 0, 0.0
        """What of all that was used is the model's."""
        self._told_tokens, self._told_cost = 0, 0.0
        self._unwritten = ""
        """Why something could not be written, as it was told; once is enough."""
        self._calls_under_way = 0
        self._is_open = False
        """Whether it is not told yet what came of the newest message."""
        self._asking = 0
        """In which turn the model is being asked."""
        self._stop: StopAt | None = None
        self._begun: Begun | None = self._beginning(system, output)
        """What is told before anything else."""

    def _beginning(self, system: str, output: OutputType[Any] | None) -> Begun:
        offer, notes = self._offer, self._recalled
        return Begun(
            run_id=self._run.run_id,
            system=system,
            limits=self._limits,
            budget=self._run.budget,
            failures=self._failures,
            offered=None if offer.offered is None else sorted(offer.offered),
            not_offered=offer.not_offered,
            tools=[KnownTool(each.name, each.schema.risk) for each in offer.tools],
            absent=offer.absences(),
            output=None if output is None else output.schema,
            recalled="".join(map(letter_of, notes)) or None,
            failures_recalled=tuple(note.error for note in notes if isinstance(note, Failed)),
        )

    def use(self, model: Model) -> None:
        """Have another model answer from now on, recorded as well."""
        self._record.use(model)

    # What comes from outside

    async def _say(
        self, message: User, provenance: Provenance, asked: str, needs: tuple[CallKind, ...]
    ) -> Ending:
        self._open()
        self._record.tell(run_lines.Said(message=message))
        return await super()._say(message, provenance, asked, needs)

    async def go_on(self) -> Ending | None:
        """As any loop.

        Raises:
            InputError: the recording cannot be written.
        """
        self._open()
        return await super().go_on()

    def _open(self) -> None:
        self._is_open = True
        if self._begun is not None:
            self._record.tell(self._begun)
            self._begun = None

    def _halt(self) -> Halt | None:
        halt = super()._halt()
        # A call that was stopped brings the reason with its result.
        if halt is not None and self._stop is None and not self._calls_under_way:
            self._stop = self._here(Stop(status=halt.status, error=halt.error, cause=halt.cause))
        return halt

    def _here(self, stop: Stop | None) -> StopAt:
        is_asking = self._asking == self._turn
        return StopAt(turn=self._turn, results=self._results, is_asking=is_asking, stop=stop)

    async def _carry_out(self, asked: Asked) -> CallCame:
        self._calls_under_way += 1
        try:
            return await super()._carry_out(asked)
        finally:
            self._calls_under_way -= 1

    def _leave(self, group: Sequence[Asked], why: str, words: str = SKIPPED) -> None:
        if words != SKIPPED and self._stop is None:
            self._stop = self._here(None)
        super()._leave(group, why, words)

    def _add_result(self, came: CallCame) -> None:
        super()._add_result(came)
        self._results += 1
        message = self._conversation.newest[0]
        assert isinstance(message, ToolResult)
        if self._is_recalled and self._record.known.get(came.asked.number) == message:
            return
        if self._recalled:
            self._record.came_before(Came(number=came.asked.number, message=message))
            return
        halt = came.halt
        stop = None if halt is None else Stop(status=halt.status, error=halt.error, cause=halt.cause)
        self._record.came(Came(number=came.asked.number, message=message, stop=stop))

    # What the model brings

    def _take(self, result: Result) -> None:
        tokens, cost = self._run.tokens, self._run.cost_usd
        super()._take(result)
        self._own_tokens += self._run.tokens - tokens
        self._own_cost += self._run.cost_usd - cost

    async def _ask(self) -> Result:
        tokens, cost = self._run.tokens - self._own_tokens, self._run.cost_usd - self._own_cost
        if tokens > self._told_tokens or cost > self._told_cost + _ROUNDING:
            self._record.spent(tokens - self._told_tokens, max(cost - self._told_cost, 0.0))
            self._told_tokens, self._told_cost = tokens, cost
        self._asking = self._turn
        answer = await super()._ask()
        self._asking = 0
        return answer

    def _failed(self, error: PlacetError) -> Halt | None:
        if not self._is_recalled:
            try:
                self._record.failed(clean(words_of(error)), self._conversation.messages)
            except InputError as problem:
                self._say_unwritten(problem, words_of(error))
        return super()._failed(error)

    # How it ends

    def _end(self, halt: Halt) -> Ending:
        is_new, self._is_open = not self._recalled, False
        ending = super()._end(halt)
        if is_new:
            self._tell_end(ending)
        return ending

    def leave(self, ending: Ending | None = None) -> None:
        """As any loop."""
        super().leave(ending)
        if self._is_open:
            # Nobody waited for the end.
            self._is_open = False
            interrupted = ending or self._ending(
                Halt("cancelled", "it was interrupted", cause=StopCause.TASK)
            )
            self._stop = self._stop or self._here(None)
            self._tell_end(interrupted)

    def _tell_end(self, ending: Ending) -> None:
        stop, self._stop = self._stop, None
        try:
            self._record.ended(ending, self._conversation.messages, stop)
        except InputError as problem:
            # What was done is done, and whoever waits for it must have it. The file ends early, and says so.
            self._say_unwritten(problem, ending.error or "")

    def _say_unwritten(self, problem: InputError, known: str) -> None:
        """Tell of it, unless what is `known` in any case tells it."""
        words = str(problem)
        if words != self._unwritten and words not in known:
            self._unwritten = words
            self._tell_watch(Note(text=words))


class _Checked(Wrapped):
    """A model whose answers can be written."""

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        async with aclosing(stream(self.model, request)) as pieces:
            async for piece in pieces:
                yield checked(piece) if isinstance(piece, Result) else piece


class _RecordedOutput(OutputType[Any]):
    """An output type that tells what it did not take."""

    def __init__(self, inner: OutputType[Any], record: RunRecording) -> None:
        super().__init__(inner.schema, None, None)
        self._inner = inner
        self._record = record

    def read(self, text: str) -> Any:
        try:
            return self._inner.read(text)
        except OutputUnfit as error:
            self._record.unfit(error.problem)
            raise
