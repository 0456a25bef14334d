"""One result for each call, in order, whatever the model asked for; and how a loop ends."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest

from placet import ToolError, tool
from placet.errors import ContextTooLong, ModelUnavailable
from placet.inference.messages import Assistant, Message, ToolCall, User
from placet.inference.model import Request, Result
from placet.inference.usage import Usage
from placet.turns.compaction import size_of
from placet.turns.ending import Call, CallResult, Note, Trouble
from placet.turns.limits import TurnLimits
from placet.turns.repetition import WARNING
from tests.turns.workroom import (
    Workroom,
    always,
    asked_of,
    call,
    kept_in,
    of,
    orphans,
    results,
    spent,
    write,
)


@pytest.fixture
def room(tmp_path: Path) -> Workroom:
    return Workroom(tmp_path)


# One result for each call


async def test_every_call_is_answered_once_in_order_under_the_id_that_the_model_gave(room: Workroom) -> None:
    (room.folder / "a.txt").write_text("alpha")
    turn = [
        call("read_file", "same", path="a.txt"),
        ToolCall(id="broken", name="read_file", problem="no JSON", raw="{pa"),
        call("no_such_tool", "", x=1),
        call("calculate", "same", expression="1+1"),
        write("b.txt", "beta", "w"),
        call("read_file", "", path="b.txt"),
    ]
    assistant = room.assistant([Result(text="Let me see.", calls=turn, stop="calls"), "Done."])

    ending = await assistant.run("x", watch=room.seen.append)

    messages = asked_of(assistant)[-1].messages
    assert orphans(messages) == []
    assert [told.call_id for told in results(messages)] == [
        "same",
        "broken",
        "call_1_3",
        "same",
        "w",
        "call_1_6",
    ]
    assert [told.is_error for told in results(messages)] == [False, True, True, False, False, False]
    assert "alpha" in results(messages)[0].text
    assert "beta" in results(messages)[-1].text, "a call sees what those before it did"
    said = next(message for message in messages if isinstance(message, Assistant))
    assert said.text == "Let me see.", "words beside calls are kept"
    assert [made.id for made in said.calls] == [told.call_id for told in results(messages)]
    assert list(ending.tools) == ["read_file", "calculate", "write_file", "read_file"]
    assert [e.action_id for e in of(Call, room.seen)] == [f"t1c{n}" for n in range(1, 7)]
    assert {e.action_id for e in of(CallResult, room.seen)} == {f"t1c{n}" for n in range(1, 7)}


async def test_ids_of_ours_are_unique_in_the_run(room: Workroom) -> None:
    runtime = room.runtime()
    turns = [[call("calculate", "x", expression=f"{n}+{k}") for k in range(3)] for n in range(3)]
    ending = await room.assistant([*turns, "Done."], runtime=runtime).run("x")

    ran = runtime.events.query(run=ending.run_id, kind="action_succeeded")
    assert len({e.action_id for e in ran}) == len({e.proposal_id for e in ran}) == 9


async def test_calls_that_only_read_run_together(room: Workroom) -> None:
    """Each waits until all of them are there."""
    together = asyncio.Barrier(4)

    @tool(risk="read_only")
    async def meet(name: str) -> str:
        """Wait for the others."""
        await together.wait()
        return name

    names = ["a", "b", "c", "d"]
    assistant = room.assistant([[call("meet", name=name) for name in names], "Done."], [meet])

    ending = await asyncio.wait_for(assistant.run("x"), 20)

    assert ending.status == "success"
    assert [told.text for told in results(asked_of(assistant)[-1].messages)] == names


async def test_so_do_those_in_threads_and_files(room: Workroom) -> None:
    import threading

    together = threading.Barrier(3)

    @tool(risk="read_only")
    def meet() -> str:
        """Wait for the others, in a thread."""
        together.wait(20)
        return "met"

    assistant = room.assistant([[call("meet") for _ in range(3)], "Done."], [meet])

    assert list((await assistant.run("x")).tools) == ["meet"] * 3


async def test_any_other_call_is_a_barrier(room: Workroom) -> None:
    at_work: list[str] = []
    met: dict[str, list[str]] = {}

    async def work(name: str) -> str:
        at_work.append(name)
        for _ in range(5):
            await asyncio.sleep(0)
        met[name] = list(at_work)
        at_work.remove(name)
        return name

    look = tool(work, name="look", description="Only looks.", risk="read_only")
    change = tool(work, name="change", description="Changes something.", risk="idempotent")
    turn = [
        call("look", name="a"),
        call("look", name="b"),
        call("change", name="C"),
        call("change", name="D"),
        call("look", name="e"),
        call("nowhere"),
        call("look", name="f"),
    ]
    assistant = room.assistant([turn, "Done."], [look, change])

    await assistant.run("x")

    assert met["a"] == ["a", "b"]
    assert met["C"] == ["C"]
    assert met["D"] == ["D"]
    assert met["e"] == ["e", "f"], "a call that is refused is no barrier"
    assert [told.text for told in results(asked_of(assistant)[-1].messages)][:5] == ["a", "b", "C", "D", "e"]


async def test_one_that_fails_does_not_stop_the_others(room: Workroom) -> None:
    @tool(risk="read_only")
    async def boom(n: int) -> int:
        """Fails for odd numbers."""
        await asyncio.sleep(0)
        if n % 2:
            raise ToolError(f"{n} is odd", retry=False)
        return n

    assistant = room.assistant([[call("boom", n=n) for n in range(4)], "Done."], [boom])

    ending = await assistant.run("x")

    told = results(asked_of(assistant)[-1].messages)
    assert [each.is_error for each in told] == [False, True, False, True]
    assert "1 is odd" in told[1].text
    assert list(ending.tools) == ["boom", "boom"]


# How it ends


async def test_turns_run_out(room: Workroom) -> None:
    numbers = iter(range(100))
    assistant = room.assistant(
        lambda _: call("calculate", expression=f"{next(numbers)}+1"), limits=TurnLimits(turns=3)
    )

    ending = await assistant.run("x")

    assert (ending.status, ending.turns, list(ending.tools)) == ("max_turns", 3, ["calculate"] * 3)
    assert ending.summary == ending.error == "stopped after 3 turns without finishing"
    assert orphans(asked_of(assistant)[-1].messages) == []


async def test_what_was_said_last_is_the_summary_of_any_ending(room: Workroom) -> None:
    turns = [
        Result(text="Looking.", calls=[call("calculate", expression="1")]),
        call("calculate", expression="2"),
    ]
    assistant = room.assistant(turns, limits=TurnLimits(turns=2))

    ending = await assistant.run("x")

    assert (ending.status, ending.summary) == ("max_turns", "Looking.")


async def test_what_was_used_is_added_up(room: Workroom) -> None:
    step = call("calculate", expression="1")
    assistant = room.assistant([spent(step, tokens=30, cost=0.25), spent(text="Done.", tokens=11, cost=0.5)])

    ending = await assistant.run("x")

    assert ending.usage is not None
    assert (ending.usage.input, ending.usage.output, ending.usage.total) == (20, 21, 41)
    assert ending.cost_usd == 0.75


async def test_a_price_that_is_not_known_makes_the_whole_unknown(room: Workroom) -> None:
    step = call("calculate", expression="1")
    assistant = room.assistant([spent(step, cost=0.25), spent(text="Done.", cost=None)])

    assert (await assistant.run("x")).cost_usd is None


async def test_failures_in_a_row_are_tolerated_up_to_a_number(room: Workroom) -> None:
    down = ModelUnavailable("the server is down")
    step = call("calculate", expression="1")
    good = room.assistant([down, down, step, down, down, "Done."], failures=3)
    bad = room.assistant([step, down, down, down, "Never said."], failures=3)
    strict = room.assistant([down, "Never said."])

    ending = await good.run("x", watch=room.seen.append)
    assert (ending.status, ending.turns, ending.summary) == ("success", 6, "Done.")
    assert len(of(Trouble, room.seen)) == 4
    ending = await bad.run("x")
    assert (ending.status, ending.turns) == ("error", 4)
    assert ending.error == "inference failed: the server is down"
    assert list(ending.tools) == ["calculate"], "what was done is still said"
    ending = await strict.run("x")
    assert (ending.status, ending.turns) == ("error", 1)


async def test_the_same_calls_bring_a_warning_at_three_and_the_end_at_six(room: Workroom) -> None:
    runtime = room.runtime()
    assistant = room.assistant(
        always([call("calculate", expression="1+1"), call("calculate", expression="2")]), runtime=runtime
    )

    ending = await assistant.run("x", watch=room.seen.append)

    assert (ending.status, ending.turns) == ("stuck", 6)
    assert len(ending.tools) == 10, "the sixth time nothing is run"
    messages = asked_of(assistant)[-1].messages
    assert [m for m in messages if isinstance(m, User)][1:] == [User(WARNING)], "one warning"
    at = messages.index(User(WARNING))
    assert len([m for m in messages[:at] if isinstance(m, Assistant)]) == 3
    assert orphans(messages) == [], "also the calls that were not made have results"
    assert results(messages)[-1].text.startswith("skipped: this call was not run")
    assert len(of(Note, room.seen)) == len(runtime.events.query(kind="turn_warned")) == 1


async def test_another_call_between_them_starts_anew(room: Workroom) -> None:
    same, other = call("calculate", expression="1"), call("calculate", expression="2")
    assistant = room.assistant([*[same] * 5, other, *[same] * 5, "Done."])

    assert (await assistant.run("x")).status == "success"


# Results that are long


async def test_a_long_result_is_cut_and_the_rest_is_kept(room: Workroom, tmp_path: Path) -> None:
    from placet.runtime.spill import Spill

    long = "".join(f"line {n}: {'x' * 1_000}\n" for n in range(10_000))

    @tool(risk="read_only")
    def much() -> str:
        """Ten megabytes."""
        return long

    assistant = room.assistant([call("much"), "Done."], [much], spill=Spill(tmp_path / "spill"))

    await assistant.run("x", run_id="r")

    (told,) = results(asked_of(assistant)[-1].messages)
    assert len(told.text.encode()) <= 16 * 1024
    assert f"{len(long):,} bytes in all" in told.text
    (kept,) = (tmp_path / "spill").rglob("*.txt")
    assert str(kept) in told.text
    assert kept.read_text() == long


# A small context


def _needed(messages: Any) -> int:
    return sum(map(size_of, messages))


class Reader:
    """A model with a small context that reads file after file, and notes what it was sent."""

    def __init__(self, files: int, most: int | None = None) -> None:
        self.files = files
        self.most = most
        self.sent: list[list[Message]] = []
        self.refused = 0

    async def generate(self, request: Request) -> Result:
        if self.most is not None and _needed(request.messages) > self.most:
            self.refused += 1
            raise ContextTooLong("too long")
        self.sent.append(list(request.messages))
        n = len(self.sent)
        if n > self.files:
            return Result(text="Read them all.")
        return Result(calls=[call("read_file", path=f"{n}.txt")], stop="calls")


def _fill(room: Workroom, files: int) -> None:
    for n in range(1, files + 1):
        (room.folder / f"{n}.txt").write_text(f"file {n} " + "words " * 400)


def _is_continued(before: list[Message], after: list[Message]) -> bool:
    return msgspec.json.encode(after[: len(before)]) == msgspec.json.encode(before)


async def test_a_long_run_fits_into_a_small_context(room: Workroom) -> None:
    _fill(room, 40)
    model, runtime = Reader(40), room.runtime()
    assistant = room.assistant(model, runtime=runtime, limits=TurnLimits(context_tokens=8_000))

    ending = await assistant.run("Read all the files.", watch=room.seen.append)

    assert (ending.status, ending.turns, len(ending.tools)) == ("success", 41, 40)
    made_room = len(runtime.events.query(kind="turn_compacted"))
    assert made_room == len(of(Note, room.seen)) > 1
    changes = 0
    for before, after in zip(model.sent, model.sent[1:], strict=False):
        assert orphans(after) == []
        assert _needed(after) <= 8_000 * 0.85
        assert after[:2] == before[:2], "what the person said stays"
        changes += not _is_continued(before, after)
    assert changes == made_room, "between them the beginning stays as it is, to the byte"
    assert made_room < 15, "rarely"


async def test_a_model_that_says_it_is_too_long_is_asked_with_less(room: Workroom) -> None:
    _fill(room, 30)
    model = Reader(30, most=6_000)
    ending = await room.assistant(model, limits=TurnLimits(turns=100)).run("Read all the files.")

    assert (ending.status, len(ending.tools)) == ("success", 30)
    assert 0 < model.refused < 15
    assert all(orphans(sent) == [] for sent in model.sent)


async def test_what_cannot_be_made_shorter_is_an_error(room: Workroom) -> None:
    model = Reader(1, most=10)

    ending = await room.assistant(model).run("A long task. " * 50)

    assert (ending.status, model.refused) == ("error", 1)
    assert ending.error == (
        "the conversation no longer fits what the model can read; begin a new one, or use a model that reads "
        "more"
    )


async def test_what_is_given_to_calls_goes_before_the_run_does(room: Workroom) -> None:
    sent: list[list[Message]] = []

    async def writes(request: Request) -> Any:
        if _needed(request.messages) > 4_000:
            raise ContextTooLong("too long")
        sent.append(list(request.messages))
        return [write(f"{len(sent)}.txt", "y" * 9_000)] if len(sent) <= 6 else "Done."

    ending = await room.assistant(writes, limits=TurnLimits(context_tokens=4_000)).run("x")

    assert (ending.status, len(ending.tools)) == ("success", 6)
    assert room.files() == {f"{n}.txt": "y" * 9_000 for n in range(1, 7)}, "only the model sees less of it"
    assert all(orphans(each) == [] for each in sent)
    last = next(m for m in reversed(sent[-1]) if isinstance(m, Assistant))
    assert last.calls[0].arguments == {
        "path": "6.txt",
        "text": "[9,000 characters were left out to make room]",
    }


async def test_a_chat_goes_on_when_what_the_person_said_fills_the_room(room: Workroom) -> None:
    sent: list[list[Message]] = []

    async def reads(request: Request) -> Any:
        if _needed(request.messages) > 4_000:
            raise ContextTooLong("too long")
        sent.append(list(request.messages))
        return "Noted."

    runtime = room.runtime()
    assistant = room.assistant(reads, runtime=runtime, limits=TurnLimits(context_tokens=4_000))
    said = [f"{n}: please note this " + "word " * 120 for n in range(40)]
    async with assistant.chat() as chat:
        endings = [await chat.say(text) for text in said]

    assert {ending.status for ending in endings} == {"success"}
    for n, messages in enumerate(sent):
        mine = [m.content for m in messages if isinstance(m, User) and m.content in said]
        assert mine[0] == said[0]
        assert mine[-1] == said[n]
    events = runtime.events.query(kind="turn_compacted")
    gone = sum(event.data["messages"] for event in events)
    assert gone > 0
    (note,) = [str(m.content) for m in sent[-1] if isinstance(m, User) and m.content not in said]
    assert f" and {gone} messages were left out here." in note


@pytest.mark.parametrize("taken_up", [False, True])
async def test_a_message_that_no_model_can_read_is_not_kept(
    room: Workroom, tmp_path: Path, taken_up: bool
) -> None:
    sent: list[list[Message]] = []

    async def reads(request: Request) -> Any:
        if _needed(request.messages) > 1_000:
            raise ContextTooLong("too long")
        sent.append(list(request.messages))
        return "Yes."

    with kept_in(tmp_path) as kept:
        assistant = room.assistant(reads, runtime=room.runtime(**kept.parts()), system="Be brief.")
        async with assistant.chat("c") as chat:
            await chat.say("One?")
            ending = await chat.say("long " * 2_000)
            assert (ending.status, str(ending.error)[:36]) == (
                "error",
                "the conversation no longer fits what",
            )
            if not taken_up:
                assert (await chat.say("Two?")).summary == "Yes."
        if taken_up:
            async with assistant.chat("c", resume=True) as chat:
                assert (await chat.say("Two?")).summary == "Yes."

    assert [m.content for m in sent[-1] if isinstance(m, User)] == ["One?", "Two?"]


async def test_a_run_that_no_longer_fits_goes_on_with_a_model_that_reads_more(
    room: Workroom, tmp_path: Path
) -> None:
    most = 100

    async def reads(request: Request) -> Any:
        if _needed(request.messages) > most:
            raise ContextTooLong("too long")
        return "Read."

    with kept_in(tmp_path) as kept:
        assistant = room.assistant(reads, runtime=room.runtime(**kept.parts()))
        assert (await assistant.run("x" * 4_000, run_id="r")).status == "error"
        assert (await assistant.resume("r")).status == "error", "it is still too much"
        most = 10**6

        ending = await assistant.resume("r")

    assert (ending.status, ending.summary) == ("success", "Read.")


async def test_where_little_can_be_freed_it_is_not_tried_with_each_turn(room: Workroom) -> None:
    """The task alone fills nearly all the room."""
    sent: list[list[Message]] = []

    @tool(risk="read_only")
    async def look(n: int) -> str:
        """Look."""
        return "data " * 100

    async def reads(request: Request) -> Any:
        sent.append(list(request.messages))
        return [call("look", n=len(sent))] if len(sent) <= 60 else "Done."

    runtime = room.runtime([look])
    limits = TurnLimits(context_tokens=5_000, turns=100)
    ending = await room.assistant(reads, runtime=runtime, limits=limits).run("word " * 2_400)

    assert (ending.status, ending.turns) == ("success", 61)
    assert 0 < len(runtime.events.query(kind="turn_compacted")) <= 25
    assert all(_needed(messages) <= 5_000 - 1_024 for messages in sent), "it still fits"


async def test_how_a_provider_counts_matters(room: Workroom) -> None:
    """The same conversation is made shorter earlier where the provider counts three times as much."""
    _fill(room, 12)
    made_room = []
    for factor in (1, 3):
        numbers = iter(range(1, 100))

        async def reads(request: Request, factor: int = factor, numbers: Any = numbers) -> Any:
            n = next(numbers)
            usage = Usage(input=_needed(request.messages) * factor, output=10)
            return Result(
                text="" if n <= 12 else "Done.",
                calls=[call("read_file", path=f"{n}.txt")] if n <= 12 else [],
                usage=usage,
            )

        runtime = room.runtime()
        await room.assistant(reads, runtime=runtime, limits=TurnLimits(context_tokens=12_000)).run("Read.")
        made_room.append([event.data["turn"] for event in runtime.events.query(kind="turn_compacted")])

    assert made_room[0] == []
    assert made_room[1]


# A value for an answer


class Struct(msgspec.Struct):
    name: str
    legs: int


@dataclasses.dataclass
class Data:
    name: str
    legs: int


class Model(pydantic.BaseModel):
    name: str
    legs: int


KINDS = pytest.mark.parametrize("kind", [Struct, Data, Model])
GOOD = json.dumps({"name": "cat", "legs": 4})


@KINDS
async def test_the_answer_as_a_value(room: Workroom, kind: Any) -> None:
    assistant = room.assistant([call("calculate", expression="2+2"), GOOD])

    ending = await assistant.run("What has four legs?", output_type=kind)

    assert ending.output == kind(name="cat", legs=4)
    assert ending.summary == GOOD
    assert '"legs"' in str(asked_of(assistant)[0].messages[0]), "the model is told what is wanted"


@KINDS
async def test_an_answer_that_does_not_fit_is_asked_for_once_more(room: Workroom, kind: Any) -> None:
    assistant = room.assistant(['{"name": "cat", "legs": "four"}', GOOD])

    ending = await assistant.run("What has four legs?", output_type=kind)

    assert (ending.status, ending.output, ending.turns) == ("success", kind(name="cat", legs=4), 2)
    repair = asked_of(assistant)[1]
    assert repair.schema is not None
    assert list(repair.tools) == []
    (told,) = [m for m in repair.messages[2:] if isinstance(m, User)]
    assert "answer.legs" in str(told.content)


async def test_a_second_one_that_does_not_fit_is_an_error(room: Workroom) -> None:
    assistant = room.assistant(["a cat", "still a cat", GOOD])

    ending = await assistant.run("What has four legs?", output_type=Struct)

    assert (ending.status, ending.output, ending.turns) == ("error", None, 2)
    assert ending.error is not None
    assert "does not fit the output type" in ending.error
    assert ending.summary == "still a cat"


async def test_calls_instead_of_a_repair_win_no_further_one(room: Workroom) -> None:
    step = call("calculate", expression="1")
    assistant = room.assistant(["a cat", step, "a dog", GOOD])

    ending = await assistant.run("What has four legs?", output_type=Struct)

    assert (ending.status, ending.turns) == ("error", 3)


async def test_a_call_in_the_repair_turn_does_not_run(room: Workroom) -> None:
    assistant = room.assistant(["a cat", [write("a.txt", "1"), call("calculate", expression="1")], GOOD])

    ending = await assistant.run("What has four legs?", output_type=Struct)

    assert (ending.status, ending.output, list(ending.tools)) == ("success", Struct("cat", 4), [])
    assert room.files() == {}
    messages = asked_of(assistant)[-1].messages
    assert orphans(messages) == []
    assert [told.text.split(".")[0] for told in results(messages)] == [
        "rejected: no tools are offered in this turn"
    ] * 2


async def test_an_answer_that_ran_out_of_room_says_so(room: Workroom) -> None:
    ending = await room.assistant([Result(text="It is a c", stop="length")]).run("What is it?")

    assert (ending.status, ending.summary, ending.is_cut_off) == ("success", "It is a c", True)
    ending = await room.assistant(["It is a cat."]).run("What is it?")
    assert not ending.is_cut_off
