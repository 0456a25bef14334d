"""Whatever a model does, every call gets one result, the loop ends, and nothing is raised or left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from placet import Cancel, tool
from placet.errors import ModelUnavailable, PlacetError
from placet.inference.messages import ToolCall, User
from placet.inference.model import Piece, Request, Result, Thought, Words
from placet.inference.usage import Usage
from placet.turns.ending import Call, CallResult, Done, Ending, Note, Text, Thinking, Trouble
from placet.turns.limits import TurnLimits
from tests.turns.workroom import (
    Workroom,
    always,
    asked_of,
    call,
    kept_in,
    of,
    orphans,
    results,
    write,
)

PATIENCE_S = 20.0


@pytest.fixture
def room(tmp_path: Path) -> Workroom:
    return Workroom(tmp_path)


class Own:
    """A person's own model, which returns, or raises, whatever it was given."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.sent: list[list[Any]] = []

    async def generate(self, request: Request) -> Any:
        self.sent.append(list(request.messages))
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


# Calls that cannot be made


async def test_calls_that_cannot_be_read_are_answered_with_an_error(room: Workroom) -> None:
    odd: list[tuple[ToolCall, str]] = [
        (ToolCall(id="1", name="write_file", problem="it breaks off", raw='{"path'), "it breaks off"),
        (ToolCall(id="2", name=""), "names no tool"),
        (ToolCall(id="3", name="x" * 10_000), "names no tool"),
        (ToolCall(id="4", name="wrte_file", arguments={}), "did you mean 'write_file'"),
        (ToolCall(id="5", name="rm\x00 -rf\x1b[31m"), "unknown tool"),
        (ToolCall(id="6", name="write_file", arguments={"path": float("nan"), "text": ""}), "not JSON"),
        (ToolCall(id="7", name="write_file", arguments={"path": object()}), "not JSON"),
        (ToolCall(id="8", name="write_file", arguments={1: 2}), "not JSON"),  # type: ignore[dict-item]
        (ToolCall(id="9", name="write_file", arguments=["a"]), "not an object"),  # type: ignore[arg-type]
        (ToolCall(id="10", name="write_file", arguments=None), "not an object"),  # type: ignore[arg-type]
        (ToolCall(id="11", name="write_file", arguments={"path": "a\ud800", "text": ""}), "not JSON"),
        (ToolCall(id="12", name="write_file", arguments={"path": _deep(200)}), "not JSON"),
        (ToolCall(id="13", name="write_file", arguments={"path": ["a"], "text": 5}), "path"),
        (ToolCall(id="14", name="write_file", arguments={"nonsense": 1}), "nonsense"),
        (ToolCall(id="15", name=5), "names no tool"),  # type: ignore[arg-type]
    ]
    model = Own(Result(calls=[each for each, _ in odd]), Result(text="Done."))

    ending = await room.assistant(model).run("x", watch=room.seen.append)

    assert ending.status == "success"
    assert room.files() == {}
    told = results(model.sent[-1])
    assert orphans(model.sent[-1]) == []
    assert [each.call_id for each in told] == [str(n) for n in range(1, 16)]
    for each, (_, words) in zip(told, odd, strict=True):
        assert each.is_error
        assert words in each.text, each.call_id
        assert "\x1b" not in each.text
        assert "\x00" not in each.text
        assert len(each.text) < 3_000
    assert len(of(CallResult, room.seen)) == 15


def _deep(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


async def test_arguments_that_are_refused_are_refused_after_a_restart_too(
    room: Workroom, tmp_path: Path
) -> None:
    """The journal writes JSON, where there is no NaN: what was not run must not be run later as null."""
    ran = []

    @tool
    async def act(x: float | None) -> str:
        """Must not be run."""
        ran.append(x)
        return "x"

    with kept_in(tmp_path) as kept:
        turn = Result(calls=[ToolCall(id="1", name="act", arguments={"x": float("nan")})])
        model = Own(turn, asyncio.CancelledError(), Result(text="Done."))
        assistant = room.assistant(model, runtime=room.runtime([act], **kept.parts()))
        assert (await assistant.run("x", run_id="r")).status == "error"

        ending = await assistant.resume("r")

    assert (ending.status, ending.summary, ran) == ("success", "Done.", [])
    assert "not JSON" in results(model.sent[-1])[0].text


async def test_any_mapping_will_do_for_arguments(room: Workroom) -> None:
    arguments = MappingProxyType({"path": "a.txt", "text": "1"})
    model = Own(Result(calls=[ToolCall(name="write_file", arguments=arguments)]), Result(text="Done."))

    ending = await room.assistant(model).run("x")

    assert list(ending.tools) == ["write_file"]
    assert room.files() == {"a.txt": "1"}


async def test_200_calls_in_one_turn(room: Workroom) -> None:
    @tool(risk="read_only")
    async def look(n: int) -> int:
        """Look."""
        await asyncio.sleep(0)
        return n

    turn = [call("look", f"c{n}", n=n) if n % 40 else write("a.txt", str(n), f"c{n}") for n in range(200)]
    assistant = room.assistant([turn, "Done."], [look])

    ending = await assistant.run("x")

    messages = asked_of(assistant)[-1].messages
    assert orphans(messages) == []
    assert [told.call_id for told in results(messages)] == [f"c{n}" for n in range(200)]
    assert [told.text for told in results(messages) if told.name == "look"] == [
        str(n) for n in range(200) if n % 40
    ]
    assert len(ending.tools) == 200
    assert room.files() == {"a.txt": "160"}


async def test_the_same_call_for_ever(room: Workroom) -> None:
    assistant = room.assistant(always(call("nowhere")), limits=TurnLimits(turns=1000))

    ending = await assistant.run("x")

    assert (ending.status, ending.turns) == ("stuck", 6)


# Answers without anything in them


async def test_an_empty_answer_is_asked_for_again_once(room: Workroom) -> None:
    assistant = room.assistant(["", "Done."])
    ending = await assistant.run("x")
    assert (ending.status, ending.summary, ending.turns) == ("success", "Done.", 2)
    assert isinstance(asked_of(assistant)[1].messages[2], User), "it is told so"

    ending = await room.assistant([" \n", "", "Never said."]).run("x")
    assert (ending.status, ending.turns) == ("error", 2)
    assert ending.error == ending.summary == "the model answered nothing, twice in a row"


async def test_with_a_call_between_them_they_are_not_in_a_row(room: Workroom) -> None:
    step = call("calculate", expression="1")
    assert (await room.assistant(["", step, "", "Done."]).run("x")).status == "success"


async def test_empty_and_out_of_room(room: Workroom) -> None:
    ending = await room.assistant([Result(stop="length"), "Done."]).run("x")
    assert (ending.status, ending.is_cut_off) == ("success", False)


@pytest.mark.parametrize("text", ["", "I may not."])
async def test_an_answer_that_is_refused_is_an_error(room: Workroom, text: str) -> None:
    ending = await room.assistant([Result(text=text, stop="refused"), "Never said."]).run("x")

    assert (ending.status, ending.turns) == ("error", 1)
    assert ending.error is not None
    assert ending.error.startswith("the model would not answer")


# Answers that are none


class Odd(BaseException):
    """Not even an Exception."""


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("I will not say")


RAISED: list[Any] = [
    ValueError("it broke"),
    PlacetError("one of ours"),
    ModelUnavailable("down"),
    KeyError(),
    ExceptionGroup("two", [ValueError("a"), TypeError("b")]),
    StopAsyncIteration(),
    TimeoutError(),
    RecursionError("deep"),
    asyncio.CancelledError(),
    asyncio.InvalidStateError(),
    Unspeakable(),
    ValueError("\x1b[2Jgone\x00" + "long " * 10_000_000),
]
NO_ANSWERS: list[Any] = [
    None,
    "just text",
    {"text": "a dict"},
    Result,
    Result(text=None),  # type: ignore[arg-type]
    Result(text=b"bytes"),  # type: ignore[arg-type]
    Result(calls=None),  # type: ignore[arg-type]
    Result(calls="read_file"),
    Result(calls=[{"name": "read_file"}]),  # type: ignore[list-item]
    Result(calls=iter(())),  # type: ignore[arg-type]
    Result(text="x", reasoning=5),  # type: ignore[arg-type]
]


def _names(values: list[Any]) -> list[str]:
    return [f"{n}-{type(value).__name__}" for n, value in enumerate(values)]


@pytest.mark.parametrize("watched", [False, True], ids=["alone", "watched"])
@pytest.mark.parametrize("answer", RAISED + NO_ANSWERS, ids=_names(RAISED + NO_ANSWERS))
async def test_a_model_that_gives_no_answer_is_an_error_and_the_run_can_go_on(
    room: Workroom, tmp_path: Path, answer: Any, watched: bool
) -> None:
    watch = room.seen.append if watched else None
    with kept_in(tmp_path) as kept:
        model = Own(Result(calls=[write("a.txt", "1")]), answer, Result(text="Done."))
        assistant = room.assistant(model, runtime=room.runtime(**kept.parts()))

        ending = await asyncio.wait_for(assistant.run("x", run_id="r", watch=watch), PATIENCE_S)

        assert (ending.status, ending.turns, list(ending.tools)) == ("error", 2, ["write_file"])
        assert ending.error is not None
        assert ending.error.startswith("inference failed: ")
        assert len(ending.error) < 5_000
        assert "\x1b" not in ending.error
        if watched:
            assert len(of(Trouble, room.seen)) == 1
        (room.folder / "a.txt").unlink()
        ending = await assistant.resume("r", watch=watch)
        assert (ending.status, ending.summary, list(ending.tools)) == ("success", "Done.", ["write_file"])
    assert room.files() == {}, "it was not written again"


@pytest.mark.parametrize("answer", RAISED + NO_ANSWERS, ids=_names(RAISED + NO_ANSWERS))
async def test_where_it_is_tolerated_the_model_is_asked_again(room: Workroom, answer: Any) -> None:
    ending = await room.assistant(Own(answer, Result(text="Done.")), failures=2).run("x")

    assert (ending.status, ending.turns) == ("success", 2)


async def test_what_is_not_even_an_exception_passes_and_the_run_can_go_on(
    room: Workroom, tmp_path: Path
) -> None:
    with kept_in(tmp_path) as kept:
        model = Own(Result(calls=[write("a.txt", "1")]), Odd(), Result(text="Done."))
        assistant = room.assistant(model, runtime=room.runtime(**kept.parts()))
        with pytest.raises(Odd):
            await assistant.run("x", run_id="r")

        assert (await assistant.resume("r")).summary == "Done."


async def test_what_is_odd_about_an_answer_is_mended(room: Workroom, tmp_path: Path) -> None:
    odd = {
        "usage": Usage(input=-5, output=3),
        "cost": -1.0,
        "stop": "because",
        "latency_ms": float("nan"),
        "model": None,
    }
    with kept_in(tmp_path) as kept:
        first = Result(calls=[ToolCall(id=7, name="calculate", arguments={"expression": "1"})], **odd)  # type: ignore[arg-type]
        model = Own(first, asyncio.CancelledError(), Result(text="half \ud800 a pair", **odd))  # type: ignore[arg-type]
        assistant = room.assistant(model, runtime=room.runtime(**kept.parts()))
        assert (await assistant.run("x", run_id="r")).status == "error"

        ending = await assistant.resume("r")

    assert (ending.status, ending.summary) == ("success", "half ? a pair")
    assert (ending.usage, ending.cost_usd) == (None, None)
    assert results(model.sent[-1])[0].call_id == "call_1_1"


async def test_nobody_earns_by_answering(room: Workroom) -> None:
    """A limit is not made longer by an answer that says it took less than nothing."""
    step = [call("calculate", expression="1")]
    for odd in (Usage(input=-(10**9), output=0), Usage(input="many")):  # type: ignore[arg-type]
        model = Own(*[Result(calls=step, usage=odd, cost=-100.0)] * 3)
        ending = await room.assistant(model, limits=TurnLimits(tokens=1000, cost_usd=1)).run("x")
        assert (ending.status, ending.turns) == ("budget", 1)


# Streams


class Stream:
    """A model that streams, and whose stream does odd things."""

    def __init__(self, *pieces: Any) -> None:
        self.pieces = pieces

    async def generate(self, request: Request) -> Result:
        return Result(text="whole")

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        for piece in self.pieces:
            await asyncio.sleep(0)
            if isinstance(piece, BaseException):
                raise piece
            yield piece


@pytest.mark.parametrize(
    "pieces",
    [(), (Words("half"),), (Words("half"), ValueError("broke")), (Words("half"), None), (5,)],
    ids=["nothing", "no end", "raises", "odd piece", "only an odd piece"],
)
async def test_a_stream_that_breaks_off_is_an_error(room: Workroom, pieces: Any) -> None:
    ending = await room.assistant(Stream(*pieces)).run("x", watch=room.seen.append)

    assert ending.status == "error"
    assert ending.error is not None
    assert ending.error.startswith("inference failed: ")


async def test_only_who_watches_has_it_streamed(room: Workroom) -> None:
    model = Stream(Words("in "), Words("pieces"), Result(text="in pieces"))
    assert (await room.assistant(model).run("x")).summary == "whole"
    assert (await room.assistant(model).run("x", watch=room.seen.append)).summary == "in pieces"
    assert [event.text for event in of(Text, room.seen)] == ["in ", "pieces"]


# Whoever watches, and breaks


@pytest.mark.parametrize("kind", [Text, Thinking, Call, CallResult, Note, Trouble, Done])
async def test_a_watcher_that_raises_is_left_alone_and_the_run_goes_on(
    room: Workroom, tmp_path: Path, kind: Any
) -> None:
    def watch(event: Any) -> None:
        room.seen.append(event)
        if isinstance(event, kind):
            raise RuntimeError("the screen is gone")

    class Talks:
        asked = 0

        async def generate(self, request: Request) -> Result:
            self.asked += 1
            if self.asked == 2:
                raise ConnectionError("down")
            if self.asked <= 4:
                return Result(calls=[call("calculate", expression="1")])
            return Result(text="Done.")

        async def stream(self, request: Request) -> Any:
            result = await self.generate(request)
            yield Thought("Hm.")
            yield Words("So ")
            yield Words("it is.")
            yield result

    model = Talks()
    with kept_in(tmp_path) as kept:
        runtime = room.runtime(**kept.parts())
        ending = await room.assistant(model, runtime=runtime, failures=2).run("x", run_id="r", watch=watch)

        assert (ending.status, ending.summary, model.asked) == ("success", "Done.", 5)
        assert list(ending.tools) == ["calculate"] * 3
        (said,) = kept.records.query(run="r", kind="sink_failed")
        assert said.data == {"sink": "watch", "error": "RuntimeError: the screen is gone"}
        assert len(of(kind, room.seen)) == 1
        assert isinstance(room.seen[-1], kind), "nothing more is told to it"
        assert len(kept.records.query(run="r", kind="turn_failed")) == 1, "the model is not blamed"


# Models that take their time


@pytest.mark.parametrize("hard", [False, True], ids=["soft", "hard"])
async def test_a_model_that_never_answers_can_be_cancelled(
    room: Workroom, tmp_path: Path, hard: bool
) -> None:
    cancel, asked = Cancel(), asyncio.Event()

    async def never(request: Request) -> str:
        asked.set()
        await asyncio.sleep(3600)
        return "too late"

    with kept_in(tmp_path) as kept:
        runtime = room.runtime(**kept.parts())
        running = asyncio.create_task(
            room.assistant(never, runtime=runtime).run("x", run_id="r", cancel=cancel)
        )
        await asked.wait()
        await asyncio.to_thread(cancel.cancel, "enough", hard=hard)

        ending = await asyncio.wait_for(running, PATIENCE_S)

        assert (ending.status, ending.error, ending.turns) == ("cancelled", "enough", 1)
        again = room.assistant(["Done."], runtime=runtime)
        assert (await again.resume("r")).summary == "Done."


async def test_cancelled_before_it_began_it_asks_nobody(room: Workroom) -> None:
    cancel = Cancel()
    cancel.cancel("not now")
    assistant = room.assistant(["x"])

    ending = await assistant.run("x", cancel=cancel)

    assert (ending.status, ending.summary, ending.turns) == ("cancelled", "not now", 0)
    assert asked_of(assistant) == []


# Long and strange texts


async def test_long_and_strange_texts_come_through_and_are_never_shown_raw(
    room: Workroom, tmp_path: Path
) -> None:
    strange = "nul \x00 escape \x1b[31m bell \x07 backwards \u202e smile \U0001f600 "
    huge = strange * 20_000

    @tool(risk="read_only")
    async def echo(text: str) -> str:
        """Say it again."""
        return text

    with kept_in(tmp_path) as kept:
        turn = Result(text=huge, calls=[call("echo", strange, text=huge), write("a.txt", strange)])
        model = Own(turn, asyncio.CancelledError(), Result(text=huge))
        assistant = room.assistant(model, runtime=room.runtime([echo], **kept.parts()))
        assert (await assistant.run(strange, run_id="r")).status == "error"

        ending: Ending = await assistant.resume("r")

    assert ending.status == "success"
    assert ending.summary == huge, "what the model said is as it said it"
    assert (room.folder / "a.txt").read_text() == strange
    echoed, _ = results(model.sent[-1])
    assert echoed.call_id == strange
    assert len(echoed.text.encode()) <= 16 * 1024
    assert "\x1b" not in echoed.text
    assert "\x00" not in echoed.text
    before, after = model.sent[1], model.sent[2]
    assert before == after, "after a restart it is sent the same"
