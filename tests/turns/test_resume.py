"""A run that broke off goes on by the same code with the same answers, and nothing is told twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from placet import Assistant, Proposal, ToolContext, tool
from placet.durable.memory import MemoryJournal, MemoryRun
from placet.errors import ContextTooLong, RunHeld, StorageFull, UnknownRun, UsageError
from placet.inference.messages import Assistant as Said
from placet.inference.messages import Message
from placet.inference.model import Request, Result
from placet.runtime.journal import RunRecord
from placet.turns.compaction import size_of
from placet.turns.ending import Call, CallResult, Done, Text
from placet.turns.limits import TurnLimits
from placet.turns.replay import replay
from tests.turns.workroom import Kept, Workroom, always, call, kept_in, of, orphans, results, spent, write


@pytest.fixture
def room(tmp_path: Path) -> Workroom:
    return Workroom(tmp_path)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    with kept_in(tmp_path) as made:
        yield made


class Killed(BaseException):
    """As if the process were gone."""


class Mortal:
    """A model that answers by how often it was asked before; the process ends with some of the requests."""

    def __init__(self, turns: Any, *, dies_at: Any = (), most: int | None = None) -> None:
        self._turns = turns
        self._dies_at = list(dies_at)
        self._most = most
        self.asked = 0
        self.refused = 0
        self.sent: list[bytes] = []
        self.last: list[Message] = []

    async def generate(self, request: Request) -> Result:
        self.asked += 1
        self.last = list(request.messages)
        if self.asked in self._dies_at:
            raise Killed
        if self._most is not None and sum(map(size_of, request.messages)) > self._most:
            self.refused += 1
            raise ContextTooLong("too long")
        turn = len(self.sent)
        self.sent.append(msgspec.json.encode(request.messages))
        made = self._turns(turn)
        if isinstance(made, Exception):
            raise made
        return made if isinstance(made, Result) else Result(text=made)


def reading(files: int) -> Any:
    """Reads file after file."""
    return lambda turn: (
        Result(calls=[call("read_file", path=f"{turn + 1}.txt")]) if turn < files else "Read them all."
    )


async def until_done(make: Any, run_id: str) -> tuple[Any, int]:
    """Begin, and take up again whenever the process ends; how often that was."""
    deaths = 0
    while True:
        try:
            ending = await (make().run("x", run_id=run_id) if not deaths else make().resume(run_id))
        except Killed:
            deaths += 1
        else:
            return ending, deaths


@pytest.mark.parametrize("most", [None, 3_500], ids=["made room by itself", "was told it is too long"])
async def test_the_conversation_is_made_shorter_at_the_same_places(
    tmp_path: Path, kept: Kept, most: int | None
) -> None:
    """A run that is broken off again and again is sent what an unbroken one is sent, to the byte."""
    sent, told = [], []
    limits = TurnLimits(turns=100, context_tokens=5_000 if most is None else None)
    for name, dies_at in (("whole", ()), ("broken", range(3, 60, 4))):
        folder = tmp_path / name
        folder.mkdir()
        room = Workroom(folder)
        for n in range(1, 21):
            (room.folder / f"{n}.txt").write_text(f"file {n} " + "words " * 300)
        model = Mortal(reading(20), dies_at=dies_at, most=most)

        def make(room: Workroom = room, model: Mortal = model) -> Assistant:
            return room.assistant(model, runtime=room.runtime(**kept.parts()), limits=limits)

        ending, deaths = await until_done(make, name)

        assert (ending.status, len(ending.tools)) == ("success", 20)
        assert bool(deaths) is bool(dies_at)
        assert orphans(model.last) == []
        sent.append(model.sent)
        events = kept.records.query(run=name, kind="turn_compacted")
        told.append({(e.data["turn"], e.data["results"], e.data["turns"]) for e in events})
        assert len(events) <= len(told[-1]) + deaths, "what was told is not told again with each restart"
        assert model.refused > 1 or most is None
        numbers = [e.action_id for e in kept.records.query(run=name, kind="action_succeeded")]
        assert len(set(numbers)) == 20
    assert sent[0] == sent[1]
    assert len(told[0]) > 1
    assert told[0] == told[1]
    assert kept.records.verify().valid


async def test_failures_are_not_counted_again(room: Workroom, kept: Kept) -> None:
    down = ConnectionError("down")
    turns = [down, Result(calls=[write("a.txt", "1")]), down, "Done."]
    model = Mortal(lambda turn: turns[turn], dies_at=(2, 4, 5, 6))
    # Two in a row are one too many; only one of them is real.
    ending, deaths = await until_done(
        lambda: room.assistant(model, runtime=room.runtime(**kept.parts()), failures=2), "r"
    )

    assert (ending.status, deaths) == ("success", 4)
    assert len(kept.records.query(run="r", kind="turn_failed")) == 2


async def test_an_assistant_that_tolerates_less_takes_up_what_was_tolerated(
    room: Workroom, kept: Kept
) -> None:
    turns = [ConnectionError("down"), Result(calls=[write("a.txt", "1")]), "Done."]
    model = Mortal(lambda turn: turns[turn], dies_at=(3,))
    patience = iter((3, 1))

    ending, deaths = await until_done(
        lambda: room.assistant(model, runtime=room.runtime(**kept.parts()), failures=next(patience)), "r"
    )

    assert (ending.status, ending.summary, deaths) == ("success", "Done.", 1)


async def test_a_run_in_circles_is_stuck_after_a_restart_too(room: Workroom, kept: Kept) -> None:
    same = Result(calls=[call("calculate", expression="1")])
    model = Mortal(always(same), dies_at=(2, 5, 7))

    ending, deaths = await until_done(
        lambda: room.assistant(model, runtime=room.runtime(**kept.parts())), "r"
    )

    assert (ending.status, ending.turns, deaths) == ("stuck", 6, 3)
    warned = kept.records.query(run="r", kind="turn_warned")
    assert {event.data["turn"] for event in warned} == {3}
    assert len(warned) <= 2, "twice only if it broke off right after it"


async def test_limits_and_words_are_those_that_it_began_with(room: Workroom, kept: Kept) -> None:
    step = spent(call("calculate", expression="1"), tokens=30)
    numbers = iter(range(100))
    model = Mortal(
        lambda _: spent(call("calculate", expression=f"{next(numbers)}"), tokens=30), dies_at=(2, 3)
    )
    assert step.usage is not None
    system = iter(["Be brief.", "Be long.", "Be odd."])
    limits = iter([TurnLimits(tokens=100), TurnLimits(), TurnLimits(tokens=1)])

    ending, _ = await until_done(
        lambda: room.assistant(
            model, runtime=room.runtime(**kept.parts()), system=next(system), limits=next(limits)
        ),
        "r",
    )

    assert (ending.status, ending.turns) == ("budget", 4)
    assert ending.usage is not None
    assert ending.usage.total == 120, "what was spent before counts, once"
    assert "Be brief." in str(model.last[0])


async def test_whoever_watches_is_told_what_is_new(room: Workroom, kept: Kept) -> None:
    turns = [
        Result(text="One.", calls=[write("a.txt", "1")]),
        Result(text="Two.", calls=[write("b.txt", "2")]),
        "Done.",
    ]
    model = Mortal(lambda turn: turns[turn], dies_at=(3,))
    assistant = room.assistant(model, runtime=room.runtime(**kept.parts()))
    with pytest.raises(Killed):
        await assistant.run("x", run_id="r")

    await assistant.resume("r", watch=room.seen.append)

    assert [event.tool for event in of(Call, room.seen)] == ["write_file"], "where it stood"
    assert [event.action_id for event in of(CallResult, room.seen)] == ["t2c1"]
    assert "".join(event.text for event in of(Text, room.seen)) == "Done."
    assert len(of(Done, room.seen)) == 1
    assert of(Done, room.seen)[0].ending.tools == ("write_file", "write_file")


# Whose run it is


async def test_only_one_at_a_time(room: Workroom, kept: Kept) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    @tool(risk="read_only")
    async def wait() -> str:
        """Wait."""
        began.set()
        await go_on.wait()
        return "x"

    assistant = room.assistant([[call("wait")], "Done."], runtime=room.runtime([wait], **kept.parts()))
    running = asyncio.create_task(assistant.run("x", run_id="r"))
    await began.wait()

    with pytest.raises(RunHeld):
        await assistant.resume("r")
    go_on.set()
    assert (await running).summary == "Done."


async def test_a_run_that_was_taken_over_does_nothing_more(room: Workroom) -> None:
    journal = MemoryJournal()
    ran: list[int] = []

    @tool
    async def pay(n: int) -> int:
        """Must not happen twice."""
        ran.append(n)
        return n

    class Overtaken:
        async def generate(self, request: Request) -> Result:
            turn = sum(isinstance(message, Said) for message in request.messages)
            if turn == 1:
                journal.lose_holders()
                await journal.take("r")
            return Result(calls=[call("pay", n=turn)])

    assistant = room.assistant(Overtaken(), runtime=room.runtime([pay], journal=journal))

    with pytest.raises(RunHeld):
        await assistant.run("x", run_id="r")
    assert ran == [0]


async def test_what_is_no_run_of_an_assistant(room: Workroom, kept: Kept) -> None:
    runtime = room.runtime(**kept.parts())
    assistant = room.assistant(["x"], runtime=runtime)
    with pytest.raises(UnknownRun):
        await assistant.resume("nobody")

    await runtime.execute({"actions": []}, run_id="plan")
    with pytest.raises(UsageError, match="not one of an assistant"):
        await assistant.resume("plan")

    async with runtime.open_run(Proposal(id="o", source="x", context={"led_by": "others"}), run_id="o"):
        pass
    with pytest.raises(UsageError, match="not one of an assistant"):
        await assistant.resume("o")

    about = assistant._kept(is_chat=False).about("odd", assistant.name)
    async with runtime.open_run(about, run_id="odd") as run:
        run.tell(b'{"told": "in other words"}')
        await run.settle()
    with pytest.raises(UsageError, match="cannot be read here"):
        await assistant.resume("odd")

    with pytest.raises(UsageError, match="no journal"):
        await room.assistant(["x"]).resume("r")


async def test_decisions_are_about_what_is_in_flight(room: Workroom, kept: Kept) -> None:
    assistant = room.assistant(["Done."], runtime=room.runtime(**kept.parts()))
    await assistant.run("x", run_id="r")

    with pytest.raises(UsageError, match="nothing is to be decided"):
        await assistant.resume("r", decide={"t1c1": "done"})


@pytest.mark.parametrize("choice", ["done", "retry", "fail"])
async def test_what_became_of_a_call_in_flight_is_decided(room: Workroom, kept: Kept, choice: Any) -> None:
    ran: list[int] = []
    began = asyncio.Event()

    @tool
    async def pay(n: int) -> int:
        """Must not happen twice."""
        ran.append(n)
        if len(ran) == 1:
            began.set()
            await asyncio.sleep(3600)
        return n

    model = Mortal(
        lambda turn: Result(calls=[call("pay", n=1), write("a.txt", "1")]) if not turn else "Done."
    )
    assistant = room.assistant(model, runtime=room.runtime([pay], **kept.parts()))
    running = asyncio.create_task(assistant.run("x", run_id="r"))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    ending = await assistant.resume("r")
    assert (ending.status, [w.action_id for w in ending.waiting]) == ("waiting", ["t1c1"])
    assert room.files() == {}
    ending = await assistant.resume("r", decide={"t1c1": choice})

    assert ending.status == "success"
    assert len(ran) == (2 if choice == "retry" else 1)
    told, _ = results(model.last)
    assert told.is_error is (choice == "fail")
    assert room.files() == {"a.txt": "1"}
    assert kept.records.verify().valid


async def test_nothing_follows_from_an_answer_that_cannot_be_kept(room: Workroom) -> None:
    class Full(MemoryRun):
        async def settle(self) -> None:
            raise StorageFull("x.db", "is full", "Make room.")

    class FullJournal(MemoryJournal):
        async def begin(self, record: RunRecord) -> MemoryRun:
            await super().begin(record)
            return Full(self._runs[record.run_id])

    asked = []

    async def slow(request: Request) -> Any:
        asked.append(request)
        await asyncio.sleep(0.03)  # Longer than an answer that is not waited for.
        return [write("a.txt", "1")]

    runtime = room.runtime(journal=FullJournal())
    ending = await room.assistant(slow, runtime=runtime, failures=3).run("x")

    assert (ending.status, ending.error) == (
        "error",
        "the run cannot be kept: The database x.db is full. Make room.",
    )
    assert len(asked) == 1
    assert room.files() == {}


async def test_an_answer_that_took_long_is_on_disk_before_anything_follows_from_it(room: Workroom) -> None:
    steps: list[str] = []

    class Noted(MemoryRun):
        async def settle(self) -> None:
            steps.append("on its way")
            await asyncio.sleep(0.01)
            steps.append("on disk")

    class Notes(MemoryJournal):
        async def begin(self, record: RunRecord) -> MemoryRun:
            await super().begin(record)
            return Noted(self._runs[record.run_id])

    @tool(risk="read_only")
    async def look() -> str:
        """Look."""
        steps.append("look")
        return "x"

    async def slow(request: Request) -> Any:
        steps.append("asked")
        await asyncio.sleep(0.03)
        return [call("look")] if len(request.messages) == 2 else "Done."

    await room.assistant(slow, runtime=room.runtime([look], journal=Notes())).run("x")

    assert steps[:4] == ["asked", "on its way", "on disk", "look"]


async def test_calls_before_a_restart_count_towards_the_limit_on_calls(room: Workroom, kept: Kept) -> None:
    numbers = iter(range(100))
    model = Mortal(lambda _: Result(calls=[write(f"{next(numbers)}.txt", "x")] * 2), dies_at=(2, 4))

    ending, deaths = await until_done(
        lambda: room.assistant(model, runtime=room.runtime(**kept.parts()), limits=TurnLimits(tool_calls=5)),
        "r",
    )

    assert (ending.status, len(ending.tools), deaths) == ("budget", 5, 2)


async def test_a_tool_that_is_gone_is_no_longer_offered(room: Workroom, kept: Kept) -> None:
    @tool(risk="read_only")
    async def look() -> str:
        """Look."""
        return "x"

    model = Mortal(lambda turn: Result(calls=[call("look")]) if turn < 2 else "Done.", dies_at=(2,))
    with pytest.raises(Killed):
        await room.assistant(model, runtime=room.runtime([look], **kept.parts())).run("x", run_id="r")

    ending = await room.assistant(model, runtime=room.runtime(**kept.parts())).resume("r")

    assert (ending.status, list(ending.tools)) == ("success", ["look"])
    assert [told.is_error for told in results(model.last)] == [False, True]


@pytest.mark.parametrize("answered", ["while it is away", "when it is back"])
async def test_a_question_outlives_whoever_asked_it(room: Workroom, kept: Kept, answered: str) -> None:
    model = Mortal(lambda turn: "Done." if turn else Result(calls=[write("a.txt", "1")]))

    def assistant() -> Assistant:
        runtime = room.runtime(approvals=kept.approvals, **kept.parts())
        return room.assistant(model, runtime=runtime, posture="read_only")

    async def asked() -> str:
        for _ in range(4_000):
            if pending := kept.approvals.pending():
                (one,) = pending
                return one.id
            await asyncio.sleep(0.005)
        raise AssertionError("nothing was asked")

    running = asyncio.create_task(assistant().run("x", run_id="r"))
    question = await asked()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert room.files() == {}
    if answered == "while it is away":
        kept.approvals.decide(question, "once", by="ann")
    running = asyncio.create_task(assistant().resume("r"))
    if answered == "when it is back":
        kept.approvals.decide(await asked(), "once", by="ann")

    ending = await asyncio.wait_for(running, 20)

    assert ending.status == "success"
    assert room.files() == {"a.txt": "1"}
    assert model.asked == 2


# What it had used


async def test_tokens_that_tools_used_before_a_restart_count(room: Workroom, kept: Kept) -> None:
    @tool(risk="read_only")
    async def dear(n: int, context: ToolContext) -> int:
        """Costs tokens."""
        context.spend(tokens=60)
        return n

    numbers = iter(range(100))
    model = Mortal(lambda _: spent(call("dear", n=next(numbers)), tokens=1), dies_at=(2, 4))
    ending, deaths = await until_done(
        lambda: room.assistant(
            model, runtime=room.runtime([dear], **kept.parts()), limits=TurnLimits(tokens=150)
        ),
        "r",
    )

    assert (ending.status, len(ending.tools), deaths) == ("budget", 3, 2)


async def test_time_at_work_before_a_restart_counts(room: Workroom, kept: Kept) -> None:
    def busy(turn: int) -> Any:
        # Keeps everybody from noticing that the time is over.
        time.sleep(1.1)
        return ConnectionError("down")

    model = Mortal(busy)

    def make() -> Assistant:
        return room.assistant(model, runtime=room.runtime(**kept.parts()), limits=TurnLimits(time_s=1))

    assert (await make().run("x", run_id="r")).status == "error"
    ending = await make().resume("r")

    assert (ending.status, ending.error) == ("budget", "the limit on time was reached (1 s)")
    assert model.asked == 1


# Answers that came to nothing


class Pair(msgspec.Struct):
    n: int


REFUSED = Result(text="I would rather not.", stop="refused")


@pytest.mark.parametrize(
    ("turns", "said", "output"),
    [
        (["a", "b", '{"n": 1}'], '{"n": 1}', Pair),
        (["a", "b", "c", '{"n": 1}'], '{"n": 1}', Pair),
        (["", "", "Fine."], "Fine.", None),
        (["", "", "", "Fine."], "Fine.", None),
        ([REFUSED, "Fine."], "Fine.", None),
    ],
    ids=["misfit", "misfit and once more", "empty", "empty and once more", "refused"],
)
@pytest.mark.parametrize("recorded", [False, True], ids=["", "recorded"])
async def test_an_answer_that_came_to_nothing_is_asked_for_again(
    room: Workroom, kept: Kept, tmp_path: Path, turns: Any, said: str, output: Any, recorded: bool
) -> None:
    turns = [Result(calls=[write("a.txt", "1")]), *turns]
    model = Mortal(lambda turn: turns[turn])
    record = tmp_path / "run.jsonl" if recorded else None

    def make() -> Assistant:
        return room.assistant(model, runtime=room.runtime(**kept.parts()))

    ending = await make().run("x", run_id="r", output_type=output, record=record)
    assert ending.status == "error"
    asked = model.asked
    ending = await make().resume("r", output_type=output, record=record)

    assert (ending.status, ending.summary) == ("success", said)
    assert ending.output == (None if output is None else Pair(1))
    assert asked < model.asked == len(turns), "each was asked for once"
    assert list(ending.tools) == ["write_file"]
    assert len(kept.records.query(run="r", kind="action_succeeded")) == 1
    assert orphans(model.last) == []
    if record is not None:
        found = await replay(record)
        assert found.divergence is None, found.divergence.words
        assert (found.requests, found.taken_up) == (len(turns), 1)


async def test_a_refusal_ends_one_message_of_a_conversation(room: Workroom, kept: Kept) -> None:
    turns = ["One.", REFUSED, "", "", "Two."]
    model = Mortal(lambda turn: turns[turn])

    def make() -> Assistant:
        return room.assistant(model, runtime=room.runtime(**kept.parts()), system="")

    async with make().chat("c") as chat:
        endings = [await chat.say(text) for text in ("1?", "2?", "3?")]
        before = list(chat.messages)
    async with make().chat("c", resume=True) as chat:
        assert msgspec.json.encode(chat.messages) == msgspec.json.encode(before)
        assert model.asked == 4, "what is over is not asked again"
        assert (await chat.say("4?")).summary == "Two."

    assert [ending.status for ending in endings] == ["success", "error", "error"]


async def test_that_an_answer_came_to_nothing_outlives_a_second_break(room: Workroom, kept: Kept) -> None:
    turns = [REFUSED, Result(calls=[write("a.txt", "1")]), REFUSED, "Fine."]
    model = Mortal(lambda turn: turns[turn], dies_at=(2, 4))

    def make() -> Assistant:
        return room.assistant(model, runtime=room.runtime(**kept.parts()))

    statuses = []
    for attempt in range(6):
        try:
            ending = await (make().resume("r") if attempt else make().run("x", run_id="r"))
        except Killed:
            statuses.append("killed")
        else:
            statuses.append(ending.status)

    assert statuses == ["error", "killed", "killed", "error", "success", "success"]
    assert room.files() == {"a.txt": "1"}


# Whoever keeps copies


async def test_before_a_call_that_is_only_read_back_nobody_has_to_keep_copies(
    room: Workroom, kept: Kept
) -> None:
    told: list[dict[str, str]] = []

    async def before() -> None:
        told.append(room.files())

    turns = [write("a.txt", "1"), "One.", write("b.txt", "2"), "Two."]
    model = Mortal(lambda turn: turns[turn] if turn % 2 else Result(calls=[turns[turn]]))

    def make() -> Assistant:
        return room.assistant(model, runtime=room.runtime(**kept.parts()))

    async with make().chat("c", before_effect=before) as chat:
        await chat.say("1?")
    async with make().chat("c", resume=True, before_effect=before) as chat:
        await chat.say("2?")

    assert told == [{}, {"a.txt": "1"}]
