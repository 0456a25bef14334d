"""A recorded run, read from its file: what happened, in order.

Keep true:
1. Whatever a file holds, reading it raises nothing but `InputError`. A line that makes no sense stands where
   it stood, so that whoever comes to it can say so.
2. A message is kept once, however many requests hold it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec

from placet.errors import InputError, PlacetError
from placet.inference.messages import Assistant, Message, ToolResult, User
from placet.inference.model import Result
from placet.inference.wrappers.digests import digest_of, message_today, settings_today, tools_today
from placet.inference.wrappers.record_file import Answer, Failure, Line, Settings, Told, Tools, read_lines
from placet.ir.tool_spec import ToolSchema
from placet.safe_text import clean
from placet.turns.ending import Ending
from placet.turns.run_lines import Begun, Between, Came, Ended, Failed, Said, StopAt, heard

Key: TypeAlias = tuple[str, str, str]
"""The digests of a conversation, of the tools offered, and of what else was asked for."""

_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


class Begins(msgspec.Struct):
    """The run begins, or is taken up again."""

    line: int
    begun: Begun
    schemas: Sequence[ToolSchema] = ()
    """What the model is offered from here on."""
    results: dict[int, Came] = {}
    """Of calls from before, what is told otherwise now."""


class Says(msgspec.Struct):
    """A person says something."""

    line: int
    message: User


class Asks(msgspec.Struct):
    """The model is asked."""

    line: int
    key: Key | None
    """None where no request is told."""
    answer: Result | Failure
    results: dict[int, Came]
    """Of the calls before it, by their numbers."""
    between: Between
    problem: str = ""
    """Why the line cannot be used."""
    at: str = ""
    """The digest of the conversation, where no request is told."""


class Ends(msgspec.Struct):
    """Nothing more comes of the message before."""

    line: int
    ending: Ending
    results: dict[int, Came]
    between: Between
    stop: StopAt | None
    at: str


class Lost(msgspec.Struct):
    """A line that cannot be read."""

    line: int
    problem: str


Event: TypeAlias = Begins | Says | Asks | Ends | Lost


class Step(NamedTuple):
    """A message of a conversation, and the conversation before it."""

    before: str
    message: bytes


class RecordedRun:
    """What a file tells of a run."""

    def __init__(self) -> None:
        self.run_id = ""
        self.events: list[Event] = []
        self.steps: dict[str, Step] = {}
        """By the digest of a conversation, its last message."""
        self.tools: dict[str, bytes] = {}
        """By digest, lists of tools; and what else was asked for."""
        self.settings: dict[str, bytes] = {}
        self.known: dict[int, ToolResult] = {}
        """What came of each call at last, by its number."""
        self.is_as_today = True
        """Whether messages are written today as they were then, so that their digests can be compared."""
        self.is_cut_short = False
        """Whether it breaks off in the middle of something."""

    def messages(self, digest: str) -> list[bytes]:
        """The messages of a conversation, as JSON."""
        found: list[bytes] = []
        while (step := self.steps.get(digest)) is not None:
            found.append(step.message)
            digest = step.before
        found.reverse()
        return found

    def holds_result(self, call_id: str) -> bool:
        """Whether some conversation holds the result of a call."""
        messages = (_message(step.message) for step in self.steps.values())
        return any(isinstance(each, ToolResult) and each.call_id == call_id for each in messages)


def read_run(path: str | PathLike[str]) -> RecordedRun:
    """The run that a file holds.

    Raises:
        InputError: there is no such file, it is no recording, or holds no run, or several.
    """
    where = Path(path)
    lines = list(read_lines(where))
    reading = _Reading(lines)
    run = reading.run
    begun = [event.begun for event in run.events if isinstance(event, Begins)]
    if not begun:
        raise InputError(
            f"The recording {clean(where)} holds no run: its answers are those of a model that was asked "
            "without one, or its beginning is lost."
        )
    run.run_id = begun[0].run_id
    others = {each.run_id for each in begun} - {run.run_id}
    if others:
        raise InputError(
            f"The recording {clean(where)} holds several runs. Record each to a file of its own."
        )
    return run


class _Reading:
    """Reads lines in order."""

    def __init__(self, lines: Sequence[tuple[int, Line | None]]) -> None:
        self.run = RecordedRun()
        self._raw_tools: dict[str, bytes] = {}
        self._raw_settings: dict[str, bytes] = {}
        self._ends: dict[int, tuple[str, bool]] = {}
        """By line, the digest of a request's conversation, and whether it is what was written then."""
        self._calls = 0
        """How many calls there were before the newest answer that has some."""
        self._newest: Sequence[str] = ()
        """The names of its calls."""
        self._is_fresh = False
        """Whether no request was made since, so that the next one holds their results."""
        self._answers: list[Result] = []
        self._between = Between()
        self._find_parts(lines)
        self._find_conversations(lines)
        for number, line in lines:
            self._take(number, line)
        self._finish()

    # What answers refer to may stand anywhere, so it is found first

    def _find_parts(self, lines: Sequence[tuple[int, Line | None]]) -> None:
        for _, line in lines:
            if isinstance(line, Tools):
                data = self._raw_tools[line.id] = tools_today(bytes(line.tools))
                self.run.tools[digest_of("", data)] = data
            elif isinstance(line, Settings):
                data = self._raw_settings[line.id] = settings_today(bytes(line.settings))
                self.run.settings[digest_of("", data)] = data

    def _find_conversations(self, lines: Sequence[tuple[int, Line | None]]) -> None:
        today = {"": ""}
        """By the digest that the file knows a conversation by, the one that it has now."""
        waiting: dict[str, list[tuple[int, Answer]]] = {}
        for number, line in lines:
            if isinstance(line, Answer):
                waiting.setdefault(line.after, []).append((number, line))
        reached = [""]
        while reached:
            for number, answer in waiting.pop(reached.pop(), ()):
                written, here = answer.after, today[answer.after]
                for message in answer.messages:
                    raw = bytes(message)
                    data = message_today(raw)
                    self.run.is_as_today &= data == raw
                    before, here = here, digest_of(here, data)
                    written = digest_of(written, raw)
                    self.run.steps[here] = Step(before, data)
                    if written not in today:
                        today[written] = here
                    if written in waiting:
                        reached.append(written)
                self._ends[number] = here, answer.at in ("", written)

    # One line after the other

    def _take(self, number: int, line: Line | None) -> None:
        match line:
            case Answer():
                self._ask(number, line)
            case Told():
                self._tell(number, line)
            case None:
                self.run.events.append(Lost(number, "it cannot be read"))
            case _:
                pass

    def _ask(self, number: int, line: Answer) -> None:
        answer = line.result if line.result is not None else line.error
        key, problem, tail = None, "", []
        if line.tools not in self._raw_tools or line.settings not in self._raw_settings:
            problem = "what was asked with it stands on a line that is lost"
        elif number not in self._ends:
            problem = "the conversation that it continues stands on a line that is lost, or was changed"
        else:
            place, is_as_written = self._ends[number]
            tools, settings = self._raw_tools[line.tools], self._raw_settings[line.settings]
            key = place, digest_of("", tools), digest_of("", settings)
            tail = self._results_in(place) if self._is_fresh else []
            if not is_as_written:
                problem = "its messages are not those that were recorded"
            self._offer(tools)
        if answer is None:
            answer, problem = Result(), "it holds neither an answer nor an error"
        if isinstance(answer, Result) and not answer.calls:
            # As it was: no calls are an empty tuple wherever a result is made.
            answer = msgspec.structs.replace(answer, calls=())
        results = {came.number: came for came in tail}
        self._add(Asks(number, key, answer, results, self._between, problem))
        if isinstance(answer, Result):
            self._answered(answer)

    def _answered(self, answer: Result) -> None:
        self._answers.append(answer)
        if answer.calls:
            self._calls += len(self._newest)
            self._newest = [call.name for call in answer.calls]
        self._is_fresh = bool(answer.calls)

    def _tell(self, number: int, line: Told) -> None:
        match heard(line):
            case Begun() as begun:
                self.run.events.append(Begins(number, begun, results={}))
                self._forget(begun.recalled or "")
            case Said() as said:
                self.run.events.append(Says(number, said.message))
            case Between() as between:
                self._between = between
            case Failed() as failed:
                self._fail(number, failed)
            case Ended() as ended:
                between = self._before(ended.results, ended.past, ended.unfit)
                self._add(Ends(number, ended.ending, {}, between, ended.stop, ended.at))
            case None:
                self.run.events.append(Lost(number, "it cannot be read"))

    def _fail(self, number: int, failed: Failed) -> None:
        failure = Failure(code=PlacetError.code, message=failed.error)
        last = self.run.events[-1] if self.run.events else None
        if failed.is_instead and isinstance(last, Asks):
            last.answer = failure
        else:
            between = self._before(failed.results)
            self._add(Asks(number, None, failure, {}, between, at=failed.at))

    def _before(
        self, results: Sequence[Came], past: Sequence[Came] = (), unfit: str | None = None
    ) -> Between:
        """What a line tells, with what was told before it for a request that was called off."""
        before = self._between
        return msgspec.structs.replace(
            before,
            results=(*before.results, *results),
            past=(*before.past, *past),
            unfit=before.unfit if unfit is None else unfit,
        )

    def _add(self, event: Asks | Ends) -> None:
        """Put in an event, with what was told before it."""
        event.results.update((came.number, came) for came in event.between.results)
        for came in event.between.past:
            self._change(came)
        for number, came in event.results.items():
            self.run.known[number] = came.message
        self._is_fresh = False
        self._between = Between()
        self.run.events.append(event)

    def _change(self, came: Came) -> None:
        """Taken up again, a call from long before has another result."""
        begins = next((each for each in reversed(self.run.events) if isinstance(each, Begins)), None)
        if begins is not None:
            begins.results[came.number] = came
            self.run.known[came.number] = came.message

    def _forget(self, recalled: str) -> None:
        """A run that is taken up again knows what its journal knows, and not what came after that."""
        self._between = Between()
        known = self._answers[: recalled.count("a")]
        self._answers, self._calls, self._newest, self._is_fresh = [], 0, (), False
        for answer in known:
            self._answered(answer)

    def _offer(self, tools: bytes) -> None:
        begins = next((each for each in reversed(self.run.events) if isinstance(each, Begins)), None)
        if begins is not None and not begins.schemas:
            begins.schemas = _schemas(tools, {each.name: each.risk for each in begins.begun.tools})

    def _results_in(self, place: str) -> list[Came]:
        """The results at the end of a conversation, as those of the newest calls."""
        found: list[ToolResult] = []
        while (step := self.run.steps.get(place)) is not None:
            message = _message(step.message)
            if isinstance(message, Assistant) or message is None:
                break
            if isinstance(message, ToolResult):
                found.append(message)
            place = step.before
        found.reverse()
        return [
            Came(number=number, message=message)
            for number, message in enumerate(found[: len(self._newest)], start=self._calls + 1)
        ]

    def _finish(self) -> None:
        events = self.run.events
        # A line that a crash cut short is the last one that its process wrote.
        kept = [
            event
            for event, after in zip(events, [*events[1:], None], strict=False)
            if not (isinstance(event, Lost) and (after is None or isinstance(after, Begins)))
        ]
        self.run.is_cut_short = len(kept) < len(events) or not kept or not _is_over(kept[-1])
        self.run.events = kept


def _is_over(last: Event) -> bool:
    """Whether nothing is under way after this."""
    if isinstance(last, Begins):
        # A conversation that was taken up again, and in which nothing was said.
        return (last.begun.recalled or "").endswith("e")
    return isinstance(last, Ends)


def _message(data: bytes) -> Message | None:
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _schemas(data: bytes, risks: Mapping[str, str]) -> list[ToolSchema]:
    try:
        tools = msgspec.json.decode(data, type=list[dict[str, msgspec.Raw]])
        return [
            msgspec.convert(
                {
                    **{name: msgspec.json.decode(value) for name, value in tool.items()},
                    "risk": risks.get(msgspec.json.decode(tool["name"]), "destructive"),
                },
                ToolSchema,
            )
            for tool in tools
        ]
    except (
        msgspec.DecodeError,
        msgspec.ValidationError,
        UnicodeDecodeError,
        RecursionError,
        KeyError,
        TypeError,
    ):
        return []
