"""Several messages, one run: kept when it is left, and taken up again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from placet import Assistant, Cancel, tool
from placet.assistant.chat import Chat
from placet.errors import UsageError
from placet.inference.messages import Image, Text, ToolResult, User
from placet.inference.model import Request, Result
from placet.turns.limits import TurnLimits
from tests.turns.workroom import Workroom, asked_of, call, kept_in, orphans, results, spent, write

PATIENCE_S = 20.0


@pytest.fixture
def room(tmp_path: Path) -> Workroom:
    return Workroom(tmp_path)


class Killed(BaseException):
    """As if the process were gone."""


class Dying:
    """A model in whose second answer the process ends."""

    def __init__(self) -> None:
        self.asked = 0

    async def generate(self, request: Request) -> Result:
        self.asked += 1
        if self.asked == 2:
            raise Killed
        return Result(calls=[write("a.txt", "1")])


async def test_every_message_is_answered_with_all_that_came_before(room: Workroom) -> None:
    assistant = room.assistant(["Hello.", write("a.txt", "1"), "Written.", "Bye."])

    async with assistant.chat() as chat:
        first = await chat.say("Hello?")
        second = await chat.say("Write it.")
        third = await chat.say("Bye.", images=[Image(data=b"x")])

    assert [ending.summary for ending in (first, second, third)] == ["Hello.", "Written.", "Bye."]
    assert (second.turns, list(second.tools)) == (2, ["write_file"]), "of that message alone"
    assert third.run_id == first.run_id == chat.run_id
    said = [m.content for m in asked_of(assistant)[-1].messages if isinstance(m, User)]
    assert said == ["Hello?", "Write it.", (Text("Bye."), Image(data=b"x"))]
    assert room.files() == {"a.txt": "1"}


async def test_what_was_said_and_done_is_there_when_it_goes_on(room: Workroom, tmp_path: Path) -> None:
    with kept_in(tmp_path) as kept:
        first = room.assistant([write("a.txt", "1"), "Written.", "Hm."], runtime=room.runtime(**kept.parts()))
        async with first.chat("c") as chat:
            await chat.say("Write it.")
            await chat.say("Really?")
            before = msgspec.json.encode(chat.messages)
        (row,) = kept.journal.runs()
        assert row.status == "waiting"
        (room.folder / "a.txt").unlink()

        second = room.assistant(["Still here."], runtime=room.runtime(**kept.parts()))
        async with second.chat("c", resume=True) as chat:
            assert msgspec.json.encode(chat.messages) == before
            assert chat.last is not None
            assert chat.last.summary == "Hm."
            assert (await chat.say("Are you there?")).summary == "Still here."

        third = room.assistant(["Yes."], runtime=room.runtime(**kept.parts()))
        async with third.chat("c", resume=True) as chat:
            assert (await chat.say("And now?")).summary == "Yes."
            assert [m.content for m in chat.messages if isinstance(m, User)] == [
                "Write it.",
                "Really?",
                "Are you there?",
                "And now?",
            ]
        assert kept.records.verify().valid
    assert room.files() == {}, "nothing was done again"
    assert len(asked_of(second)) == len(asked_of(third)) == 1


async def test_a_message_that_was_cut_off_by_the_end_of_the_process_goes_on(
    room: Workroom, tmp_path: Path
) -> None:
    with kept_in(tmp_path) as kept:
        first = room.assistant(Dying(), runtime=room.runtime(**kept.parts()))
        with pytest.raises(Killed):
            async with first.chat("c") as chat:
                await chat.say("Write it.")
        (room.folder / "a.txt").unlink()

        second = room.assistant(["Written."], runtime=room.runtime(**kept.parts()))
        async with second.chat("c", resume=True) as chat:
            assert chat.last is not None
            assert (chat.last.summary, list(chat.last.tools)) == ("Written.", ["write_file"])
            assert orphans(chat.messages) == []
    assert room.files() == {}


@pytest.mark.parametrize("resumed", [False, True], ids=["right away", "later"])
async def test_a_message_that_was_interrupted_is_over(room: Workroom, tmp_path: Path, resumed: bool) -> None:
    """Its calls have results all the same, and the next message is answered."""
    began, is_over = asyncio.Event(), asyncio.Event()

    @tool(risk="read_only")
    async def wait() -> str:
        """Wait until nobody waits for it any more."""
        began.set()
        await is_over.wait()
        return "x"

    with kept_in(tmp_path) as kept:
        turn = [write("a.txt", "1"), call("wait"), call("wait"), write("b.txt", "2")]
        assistant = room.assistant([turn, "Here.", "Again."], runtime=room.runtime([wait], **kept.parts()))
        async with assistant.chat("c") as chat:
            saying = asyncio.create_task(chat.say("Do it."))
            await began.wait()
            saying.cancel()
            with pytest.raises(asyncio.CancelledError):
                await saying
            is_over.set()
            if not resumed:
                assert (await chat.say("Are you there?")).summary == "Here."
                assert orphans(chat.messages) == []
                assert len(results(chat.messages)) == 4
        async with assistant.chat("c", resume=True) as chat:
            assert (await chat.say("Still?")).summary == ("Here." if resumed else "Again.")
            assert orphans(chat.messages) == []
            said = [m.content for m in chat.messages if isinstance(m, User)]
            assert said == ["Do it.", *([] if resumed else ["Are you there?"]), "Still?"]
            told = results(chat.messages)
            assert [each.is_error for each in told] == [False, True, True, True]
    assert room.files() == {"a.txt": "1"}


@pytest.mark.parametrize("hard", [False, True])
async def test_a_conversation_that_was_cancelled_can_go_on_later(
    room: Workroom, tmp_path: Path, hard: bool
) -> None:
    cancel = Cancel()

    @tool(risk="read_only")
    async def stop() -> str:
        """Somebody stops it."""
        cancel.cancel("enough", hard=hard)
        await asyncio.sleep(0)
        return "x"

    with kept_in(tmp_path) as kept:
        assistant = room.assistant(
            [[call("stop"), write("a.txt", "1")], "Here."], runtime=room.runtime([stop], **kept.parts())
        )
        async with assistant.chat("c", cancel=cancel) as chat:
            ending = await asyncio.wait_for(chat.say("Do it."), PATIENCE_S)
            assert (ending.status, ending.error) == ("cancelled", "enough")
            assert (await chat.say("More.")).status == "cancelled", "it stays so here"
        async with assistant.chat("c", resume=True) as chat:
            assert (await chat.say("And now?")).summary == "Here."
            assert orphans(chat.messages) == []
    assert room.files() == {}


async def test_a_model_that_fails_ends_the_message_not_the_conversation(room: Workroom) -> None:
    assistant = room.assistant([ValueError("down"), "Here."])
    async with assistant.chat() as chat:
        assert (await chat.say("Hello?")).status == "error"
        assert (await chat.say("Hello?")).summary == "Here."


async def test_asking_the_same_of_it_six_times_is_no_circle(room: Workroom) -> None:
    """A person may want to know the time again and again."""
    assistant = room.assistant(
        [turn for _ in range(8) for turn in (call("calculate", expression="1"), "One.")]
    )
    async with assistant.chat() as chat:
        assert {(await chat.say("What is it now?")).status for _ in range(8)} == {"success"}


async def test_turns_are_counted_for_each_message_and_tokens_for_all(room: Workroom) -> None:
    step = call("calculate", expression="1")
    turns = [spent(step, tokens=40), spent(text="One.", tokens=40)]
    assistant = room.assistant([*turns, *turns], limits=TurnLimits(turns=2, tokens=100))
    async with assistant.chat() as chat:
        assert (await chat.say("1?")).status == "success"
        assert (await chat.say("1?")).status == "budget"


async def test_nothing_is_nothing_to_say(room: Workroom) -> None:
    async with room.assistant(["x"]).chat() as chat:
        with pytest.raises(UsageError, match="nothing to say"):
            await chat.say(" ")


async def test_a_conversation_is_no_task_and_the_other_way_round(room: Workroom, tmp_path: Path) -> None:
    with kept_in(tmp_path) as kept:
        assistant = room.assistant(["One.", "Two.", "Three."], runtime=room.runtime(**kept.parts()))
        async with assistant.chat("c") as chat:
            await chat.say("1?")

        with pytest.raises(UsageError, match="is a conversation"):
            await assistant.resume("c")
        with pytest.raises(UsageError, match="needs the run_id"):
            async with assistant.chat(resume=True):
                pass
        async with assistant.chat("c", resume=True) as chat:
            assert (await chat.say("2?")).summary == "Two.", "it is as it was"
        with pytest.raises(UsageError, match=r"left.*resume=True"):
            await chat.say("3?")
        with pytest.raises(UsageError, match="led by a loop of turns"):
            await assistant.runtime.resume("c")


async def test_a_task_is_not_taken_over_by_a_conversation(room: Workroom, tmp_path: Path) -> None:
    with kept_in(tmp_path) as kept:
        assistant = room.assistant([ValueError("down"), "Done."], runtime=room.runtime(**kept.parts()))
        await assistant.run("x", run_id="r")

        with pytest.raises(UsageError, match="'r' is no conversation"):
            async with assistant.chat("r", resume=True):
                pass
        assert (await assistant.resume("r")).summary == "Done.", "it is as it was"
        with pytest.raises(UsageError, match=r"'r' has ended \(succeeded\)"):
            async with assistant.chat("r", resume=True):
                pass


async def test_one_message_at_a_time(room: Workroom) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    @tool(risk="read_only")
    async def wait() -> str:
        """Wait until somebody says so."""
        began.set()
        await go.wait()
        return "x"

    async with room.assistant([call("wait"), "One.", "Two."], [wait]).chat() as chat:
        first = asyncio.create_task(chat.say("1?"))
        await began.wait()
        with pytest.raises(UsageError, match="One message at a time"):
            await chat.say("2?")
        go.set()
        assert (await first).summary == "One."
        assert (await chat.say("2?")).summary == "Two."
        assert [m.content for m in chat.messages if isinstance(m, User)] == ["1?", "2?"]
        assert orphans(chat.messages) == []


async def test_before_an_effect_whoever_keeps_copies_is_told(room: Workroom) -> None:
    told: list[dict[str, str]] = []

    async def before() -> None:
        told.append(room.files())

    turn = [call("calculate", expression="1"), write("a.txt", "1"), call("nowhere"), write("b.txt", "2")]
    async with room.assistant([turn, "Done."]).chat(before_effect=before) as chat:
        await chat.say("Do it.")

    assert told == [{}, {"a.txt": "1"}]
    assert [isinstance(m, ToolResult) for m in chat.messages].count(True) == 4


async def test_a_conversation_that_waits_for_a_decision_is_left_decided_and_goes_on(
    room: Workroom, tmp_path: Path
) -> None:
    with kept_in(tmp_path) as kept:

        def assistant(*turns: Any) -> Assistant:
            runtime = room.runtime(approvals=kept.approvals, patience_s=0, **kept.parts())
            return room.assistant(turns, runtime=runtime, posture="read_only")

        async with assistant("Hello.", write("a.txt", "1")).chat("c") as chat:
            await chat.say("Hello.")
            assert (await chat.say("Write it.")).status == "waiting"
            with pytest.raises(UsageError, match="decided first"):
                await chat.say("Are you there?")
        async with assistant().chat("c", resume=True) as chat:
            assert chat.last is not None
            assert chat.last.status == "waiting", "nobody has answered"
        (asked,) = kept.approvals.pending()
        kept.approvals.decide(asked.id, "once", by="ann")

        async with assistant("Written.", "Yes.").chat("c", resume=True) as chat:
            assert chat.last is not None
            assert (chat.last.status, chat.last.summary) == ("success", "Written.")
            assert (await chat.say("Really?")).summary == "Yes."
            assert orphans(chat.messages) == []
    assert room.files() == {"a.txt": "1"}


async def test_what_became_of_a_call_is_decided_when_it_goes_on(room: Workroom, tmp_path: Path) -> None:
    began = asyncio.Event()

    @tool
    async def pay() -> str:
        """Must not happen twice."""
        began.set()
        await asyncio.sleep(3600)
        return "x"

    with kept_in(tmp_path) as kept:
        assistant = room.assistant(
            [call("pay"), "Paid.", "Yes."], runtime=room.runtime([pay], **kept.parts())
        )

        async def talk() -> None:
            async with assistant.chat("c") as chat:
                await chat.say("Pay.")

        talking = asyncio.create_task(talk())
        await began.wait()
        talking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await talking

        async with assistant.chat("c", resume=True) as chat:
            assert chat.waits is not None
            assert [waiting.action_id for waiting in chat.waits.waiting] == ["t1c1"]
            with pytest.raises(UsageError, match="decided first"):
                await chat.say("Are you there?")
        async with assistant.chat("c", resume=True, decide={"t1c1": "done"}) as chat:
            assert chat.waits is None
            ending = await chat.say("Did you pay?")
            assert orphans(chat.messages) == []
            (told,) = results(chat.messages)
            assert not told.is_error
    assert ending.summary == "Paid."


@pytest.mark.parametrize("hard", [False, True])
async def test_one_message_is_stopped_and_the_next_is_answered(
    room: Workroom, tmp_path: Path, hard: bool
) -> None:
    first = Cancel()

    @tool(risk="read_only")
    async def stop() -> str:
        """Somebody stops it."""
        first.cancel("enough", hard=hard)
        await asyncio.sleep(0)
        return "x"

    with kept_in(tmp_path) as kept:
        turns = [[call("stop"), write("a.txt", "1")], write("b.txt", "2"), "Here."]
        assistant = room.assistant(turns, runtime=room.runtime([stop], **kept.parts()))
        async with assistant.chat("c") as chat:
            ending = await asyncio.wait_for(chat.say("Do it.", cancel=first), PATIENCE_S)
            assert (ending.status, ending.error) == ("cancelled", "enough")
            ending = await asyncio.wait_for(chat.say("And now?", cancel=Cancel()), PATIENCE_S)
            assert (ending.summary, list(ending.tools)) == ("Here.", ["write_file"])
            before = msgspec.json.encode(chat.messages[-4:])
            assert orphans(chat.messages) == []
        async with room.assistant([], runtime=room.runtime([stop], **kept.parts())).chat(
            "c", resume=True
        ) as chat:
            assert msgspec.json.encode(chat.messages[-4:]) == before
            assert orphans(chat.messages) == []
            assert chat.last is not None
            assert chat.last.summary == "Here."
    assert room.files() == {"b.txt": "2"}


async def test_time_is_over_for_a_message_that_has_a_cancel_of_its_own(room: Workroom) -> None:
    @tool(risk="read_only")
    async def hour() -> str:
        """Take an hour."""
        await asyncio.sleep(3600)
        return "x"

    assistant = room.assistant([call("hour"), "Never said."], [hour], limits=TurnLimits(time_s=0.5))
    async with assistant.chat() as chat:
        ending = await asyncio.wait_for(chat.say("Wait.", cancel=Cancel()), PATIENCE_S)
    assert ending.status == "budget"


async def test_whoever_stops_the_conversation_stops_a_message_with_a_cancel_of_its_own(
    room: Workroom,
) -> None:
    whole = Cancel()

    @tool(risk="read_only")
    async def stop() -> str:
        """Somebody stops the whole."""
        whole.cancel("all of it", hard=True)
        await asyncio.sleep(3600)
        return "x"

    async with room.assistant([call("stop"), "Never said."], [stop]).chat(cancel=whole) as chat:
        ending = await asyncio.wait_for(chat.say("Do it.", cancel=Cancel()), PATIENCE_S)
    assert (ending.status, ending.error) == ("cancelled", "all of it")


async def test_the_time_in_which_the_person_thinks_does_not_count(room: Workroom, tmp_path: Path) -> None:
    chats: list[Chat] = []

    def elapsed() -> float:
        return chats[-1]._run.elapsed_ms

    @tool(risk="read_only")
    async def work() -> str:
        """Take some time."""
        before = elapsed()
        await asyncio.sleep(0.01)
        assert elapsed() > before, "while it works, time goes by"
        return "worked"

    async def think() -> None:
        before = elapsed()
        await asyncio.sleep(0.02)
        # When the clock was stopped is known only to a part of a millisecond.
        assert elapsed() == pytest.approx(before, abs=10)

    with kept_in(tmp_path) as kept:
        turns = [turn for _ in range(4) for turn in (call("work"), "Worked.")]
        turns.insert(4, ValueError("down"))
        assistant = room.assistant(turns, runtime=room.runtime([work], **kept.parts()))
        for resume in (False, True):
            async with assistant.chat("c", resume=resume) as chat:
                chats.append(chat)
                await think()
                for _ in range(2):
                    assert (await chat.say("Work.")).tools == ("work",)
                    await think()
                if not resume:
                    assert (await chat.say("Work.")).status == "error"
                    await think()


@pytest.mark.parametrize("choice", ["fail", "done"])
async def test_a_call_that_was_stopped_in_flight_is_decided_when_the_conversation_is_reopened(
    room: Workroom, tmp_path: Path, choice: Any
) -> None:
    """Also if it went on with another message in between."""
    cancel = Cancel()

    @tool(risk="network")
    async def send() -> str:
        """Somebody stops it while it is under way."""
        cancel.cancel("enough", hard=True)
        await asyncio.sleep(3600)
        return "sent"

    with kept_in(tmp_path) as kept:
        assistant = room.assistant(
            [call("send"), "Here.", "Again."], runtime=room.runtime([send], **kept.parts())
        )
        async with assistant.chat("c") as chat:
            ending = await asyncio.wait_for(chat.say("Send it.", cancel=cancel), PATIENCE_S)
            assert ending.status == "cancelled"
            assert (await chat.say("Are you there?")).summary == "Here."

        for _ in range(2):
            async with assistant.chat("c", resume=True) as chat:
                assert chat.waits is not None
                (waiting,) = chat.waits.waiting
                assert (waiting.kind, waiting.action_id) == ("unknown_outcome", "t1c1")
                with pytest.raises(UsageError, match="decided first"):
                    await chat.say("And now?")
        async with assistant.chat("c", resume=True, decide={"t1c1": choice}) as chat:
            assert chat.waits is None
            assert chat.last is not None
            assert chat.last.summary == "Here."
            assert (await chat.say("And now?")).summary == "Again."
            said = [m.content for m in chat.messages if isinstance(m, User)]
            assert said == ["Send it.", "Are you there?", "And now?"]
            assert orphans(chat.messages) == []
            (told,) = results(chat.messages)
            assert told.is_error == (choice == "fail")
