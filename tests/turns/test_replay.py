"""A recorded run replays from its file alone; where it goes another way, the first place is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest

from placet import Cancel, Isolation, Runtime, tool
from placet.errors import ContextTooLong, InputError
from placet.inference import Replaying, Scripted
from placet.inference.messages import Image
from placet.inference.model import Piece, Request, Result, Words
from placet.turns import loop as loop_module
from placet.turns.limits import TurnLimits
from placet.turns.recording import RecordedLoop, RunRecording
from placet.turns.replay import Replayed, replay
from tests.turns.workroom import Workroom, call, kept_in, spent, write


@pytest.fixture
def room(tmp_path: Path) -> Workroom:
    return Workroom(tmp_path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def same(found: Replayed) -> Replayed:
    assert found.divergence is None, found.divergence.words
    assert not found.is_cut_short
    return found


def change(path: Path, edit: Callable[[list[Any]], object]) -> None:
    """Change the lines of a file."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    edit(lines)
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def content(path: Path) -> bytes:
    return path.read_bytes()


def put(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def answers(lines: list[Any]) -> list[Any]:
    return [line for line in lines if line["kind"] == "answer"]


async def record_three_turns(room: Workroom, path: Path) -> None:
    (room.folder / "a.txt").write_text("alpha\nbeta\n")
    assistant = room.assistant(
        [
            [call("read_file", "one", path="a.txt"), call("list_dir", "two", path=".")],
            write("b.txt", "gamma", "three"),
            "Done.",
        ]
    )
    ending = await assistant.run("Copy it.", record=path)
    assert ending.status == "success"


# The same


async def test_a_run_replays_without_its_folder_its_tools_and_its_model(room: Workroom, path: Path) -> None:
    await record_three_turns(room, path)
    for file in room.folder.iterdir():
        file.unlink()

    found = same(await replay(path))

    assert (found.requests, found.results, found.tools_run) == (3, 3, 0)
    assert found.ending is not None
    assert (found.ending.status, list(found.ending.tools)) == (
        "success",
        ["read_file", "list_dir", "write_file"],
    )
    assert room.files() == {}, "nothing was written again"


async def test_a_call_of_a_tool_that_isolation_withholds_replays(room: Workroom, path: Path) -> None:
    @tool
    def pay() -> str:
        """Pay."""
        return "paid"

    runtime = Runtime(tools=[pay], isolation=Isolation("process"))
    ending = await room.assistant([[call("pay")], "Done."], runtime=runtime).run("Pay.", record=path)

    found = same(await replay(path))

    assert ending.withheld == ("pay",)
    assert found.ending is not None
    assert found.ending.withheld == ("pay",)


async def test_the_file_is_still_a_recording_of_its_model(room: Workroom, path: Path) -> None:
    await record_three_turns(room, path)

    replaying = Replaying(path)

    assert (replaying.unused, replaying.notes) == (3, [])


async def test_long_results_that_were_kept_elsewhere_and_shortened_again_replay(
    room: Workroom, path: Path, tmp_path: Path
) -> None:
    from placet.runtime.spill import Spill

    @tool(risk="read_only")
    def much(n: int) -> str:
        return f"[… line {n}\n" * 3_000

    turns = [[call("much", n=each), call("much", n=-each)] for each in range(1, 4)]
    assistant = room.assistant(
        [*turns, "Done."], [much], limits=TurnLimits(context_tokens=6_000), spill=Spill(tmp_path / "spill")
    )

    await assistant.run("Read.", record=path)

    assert b'"between"' in content(path)
    assert same(await replay(path)).results == 6


async def test_an_answer_that_did_not_fit_its_type_is_repaired_again(room: Workroom, path: Path) -> None:
    class Even(pydantic.BaseModel):
        n: int

        @pydantic.field_validator("n")
        @classmethod
        def check(cls, n: int) -> int:
            if n % 2:
                raise ValueError("it is odd")
            return n

    # The second is wrong by a rule that no schema tells.
    for turns in (["no JSON", '{"n": 2}'], ['{"n": 3}', '{"n": 4}'], ['{"n": 3}', '{"n": 5}']):
        path = path.with_suffix(f".{turns[1]}")

        ending = await room.assistant(turns).run("Count.", output_type=Even, record=path)

        found = same(await replay(path))
        assert found.requests == 2
        assert found.ending is not None
        assert found.ending.status == ending.status


async def test_calls_that_a_limit_left_in_the_middle_of_a_turn_replay(room: Workroom, path: Path) -> None:
    from placet.tools.context import ToolContext

    @tool(risk="read_only")
    async def think(n: int, context: ToolContext) -> int:
        await asyncio.sleep(0)
        context.spend(tokens=50)
        return n

    turn = [*(call("think", n=n) for n in range(6)), call("nowhere"), write("a.txt", "1")]
    runtime = room.runtime([think], max_concurrency=1)
    assistant = room.assistant([spent(*turn)], runtime=runtime, limits=TurnLimits(tokens=100))

    ending = await assistant.run("Think.", record=path)

    assert (ending.status, list(ending.tools)) == ("budget", ["think"] * 2)
    found = same(await replay(path))
    assert (found.requests, found.results) == (1, 8)
    assert found.ending == ending


async def test_a_message_that_could_not_be_read_replays(room: Workroom, path: Path, tmp_path: Path) -> None:
    async def reads(request: Request) -> Any:
        return ContextTooLong("too long") if "long" in str(request.messages[-1]) else "Yes."

    with kept_in(tmp_path) as kept:
        async with room.assistant(reads, runtime=room.runtime(**kept.parts())).chat("c", record=path) as chat:
            for text in ("One?", "long " * 100, "Two?"):
                await chat.say(text)
        async with room.assistant(reads, runtime=room.runtime(**kept.parts())).chat(
            "c", resume=True, record=path
        ) as chat:
            assert (await chat.say("Three?")).status == "success"

    assert same(await replay(path)).requests == 4


async def test_what_tools_spend_counts_again(room: Workroom, path: Path) -> None:
    from placet.tools.context import ToolContext

    @tool(risk="read_only")
    def think(context: ToolContext) -> str:
        context.spend(tokens=50)
        return "thought"

    assistant = room.assistant(
        [spent(call("think")), spent(call("think")), spent(call("think")), spent(text="Done.")],
        [think],
        limits=TurnLimits(tokens=150),
    )

    ending = await assistant.run("Think.", record=path)

    assert ending.status == "budget"
    assert same(await replay(path)).requests == 3


async def test_a_conversation_with_a_picture_and_an_interruption_replays(room: Workroom, path: Path) -> None:
    started = asyncio.Event()

    @tool(risk="read_only")
    async def hang() -> str:
        started.set()
        await asyncio.sleep(60)
        return "never"

    @tool(risk="read_only")
    def look() -> str:
        return "seen"

    assistant = room.assistant(
        ["Hello.", [call("write_file", path="a.txt", text="1"), call("look"), call("hang")], "Well."],
        [hang, look],
    )
    async with assistant.chat(record=path) as chat:
        await chat.say("Look.", images=[Image(data=b"x")])
        saying = asyncio.create_task(chat.say("Go."))
        await started.wait()
        saying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await saying
        await chat.say("And?")

    found = same(await replay(path))

    assert (found.requests, found.ending.summary if found.ending else "") == (3, "Well.")
    assert found.results == 3


async def test_a_model_that_is_interrupted_and_one_that_is_stopped_replay(room: Workroom, path: Path) -> None:
    asked = asyncio.Event()

    class Slow:
        def __init__(self) -> None:
            self.count = 0

        async def generate(self, request: Request) -> Result:
            self.count += 1
            if self.count < 3:
                asked.set()
                await asyncio.sleep(60)
            return Result(text="At last.")

    async with room.assistant(Slow()).chat(record=path) as chat:
        saying = asyncio.create_task(chat.say("One."))
        await asked.wait()
        saying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await saying
        asked.clear()
        cancel = Cancel()
        saying = asyncio.create_task(chat.say("Two.", cancel=cancel))
        await asked.wait()
        cancel.cancel("enough")
        assert (await saying).status == "cancelled"
        assert (await chat.say("Three.", cancel=Cancel())).status == "success"

    assert same(await replay(path)).requests == 1


async def test_a_run_that_streams_and_a_model_that_is_exchanged_replay(room: Workroom, path: Path) -> None:
    class BreaksOff:
        async def generate(self, request: Request) -> Result:
            raise AssertionError

        async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
            yield Words("Once")

    assistant = room.assistant([[call("list_dir", path=".")], "Done."])
    async with assistant.chat(watch=room.seen.append, record=path) as chat:
        await chat.say("Look.")
        chat.use(BreaksOff())
        assert (await chat.say("Again.")).status == "error"
        chat.use(Scripted(["Here I am."]))
        assert (await chat.say("Who is there?")).status == "success"

    assert same(await replay(path)).requests == 4


# Taken up again


async def test_a_run_that_was_stopped_in_a_call_replays_when_it_was_taken_up(
    room: Workroom, path: Path, tmp_path: Path
) -> None:
    started = asyncio.Event()
    is_first = True

    @tool(risk="read_only")
    async def hang() -> str:
        if is_first:
            started.set()
            await asyncio.sleep(60)
        return "came back"

    turns = [[call("list_dir", path="."), call("hang")], "Done."]
    with kept_in(tmp_path) as kept:
        first = room.assistant(turns, runtime=room.runtime([hang], **kept.parts()))
        running = asyncio.create_task(first.run("Wait.", run_id="r", record=path))
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await replay(path)).is_cut_short
        is_first = False
        second = room.assistant(["Done."], runtime=room.runtime([hang], **kept.parts()))
        assert (await second.resume("r", record=path)).status == "success"

    found = same(await replay(path))
    assert (found.taken_up, found.requests, found.results) == (1, 2, 2)


async def test_a_run_that_waited_for_an_approval_replays_as_one_run(
    room: Workroom, path: Path, tmp_path: Path
) -> None:
    with kept_in(tmp_path) as kept:
        runtime = room.runtime(**kept.parts(), approvals=kept.approvals, patience_s=0)
        turns = [[call("list_dir", path="."), write("a.txt", "1")], "Written."]
        waiting = await room.assistant(turns, runtime=runtime, posture=None).run(
            "Write.", run_id="r", record=path
        )
        assert waiting.status == "waiting"
        assert same(await replay(path)).requests == 1
        (approval,) = kept.approvals.pending()
        kept.approvals.decide(approval.id, "once", by="me")

        runtime = room.runtime(**kept.parts(), approvals=kept.approvals, patience_s=0)
        ending = await room.assistant(["Written."], runtime=runtime, posture=None).resume("r", record=path)
        assert ending.status == "success"

    found = same(await replay(path))
    assert (found.taken_up, found.requests) == (1, 2)
    assert found.ending is not None
    assert list(found.ending.tools) == ["list_dir", "write_file"]


async def test_a_conversation_that_was_left_and_taken_up_replays_as_one_run(
    room: Workroom, path: Path, tmp_path: Path
) -> None:
    @tool(risk="destructive")
    def stop() -> str:
        cancel.cancel("enough")
        return "stopping"

    cancel = Cancel()
    with kept_in(tmp_path) as kept:
        first = room.assistant(
            ["Hello.", [call("stop"), write("a.txt", "1")]], runtime=room.runtime([stop], **kept.parts())
        )
        async with first.chat("c", record=path) as chat:
            await chat.say("Hello?")
            assert (await chat.say("Stop.", cancel=cancel)).status == "cancelled"
        second = room.assistant([write("b.txt", "2"), "Done."], runtime=room.runtime([stop], **kept.parts()))
        async with second.chat("c", resume=True, record=path) as chat:
            await chat.say("Go on.")
        third = room.assistant(["Bye."], runtime=room.runtime([stop], **kept.parts()))
        async with third.chat("c", resume=True, record=path) as chat:
            await chat.say("Bye.")
        async with third.chat("c", resume=True, record=path) as chat:
            pass

    found = same(await replay(path))
    assert (found.taken_up, found.requests) == (3, 5)


async def test_a_file_holds_one_run_and_its_run_no_other_file(
    room: Workroom, path: Path, tmp_path: Path
) -> None:
    await record_three_turns(room, path)
    before = content(path)

    with pytest.raises(InputError, match="holds a recording already"):
        await room.assistant(["x"]).run("x", record=path)
    with pytest.raises(InputError, match="not 'another'"):
        await room.assistant(["x"]).resume("another", record=path)
    with pytest.raises(InputError, match="No such file"):
        await room.assistant(["x"]).resume("another", record=tmp_path / "new.jsonl")
    with pytest.raises(InputError, match="no recording"):
        (tmp_path / "notes.txt").write_text("mine")
        await room.assistant(["x"]).run("x", record=tmp_path / "notes.txt")
    assert content(path) == before


# Another way


async def test_another_word_of_the_loop_is_found(
    room: Workroom, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await room.assistant(["", "Hello."]).run("Say hello.", record=path)
    monkeypatch.setattr(loop_module, "EMPTY", "Say something.\x1b[31m")

    found = (await replay(path)).divergence

    assert found is not None
    assert (found.kind, found.turn, found.where) == ("request", 2, "the request, message 3 (user)")
    assert "Your answer was empty" in found.recorded
    assert "Say something" in found.now
    assert "\x1b" not in found.words + "\n".join(found.diff())
    assert any(line.startswith("+Say something") for line in found.diff())


async def test_a_refusal_in_other_words_is_another_tool_result(room: Workroom, path: Path) -> None:
    await room.assistant([[call("reed_file", path="a")], "Hm."]).run("Read.", record=path)

    def rename(lines: list[Any]) -> None:
        for each in lines[1]["data"]["tools"]:
            each["name"] = each["name"].replace("read_file", "open_file")

    change(path, rename)
    found = (await replay(path)).divergence

    assert found is not None
    assert (found.kind, found.turn, found.where) == ("tool result", 1, "call t1c1 (reed_file)")
    assert "read_file" in found.recorded
    assert "read_file" not in found.now


async def test_each_kind_of_change_is_told_as_what_it_is(room: Workroom, path: Path) -> None:
    await record_three_turns(room, path)
    whole = content(path)

    def other_answer(lines: list[Any]) -> None:
        answers(lines)[0]["result"]["text"] = "Let me see."

    def other_result(lines: list[Any]) -> None:
        answers(lines)[1]["messages"][1]["text"] = "omega"

    def other_order_of_results(lines: list[Any]) -> None:
        messages = answers(lines)[1]["messages"]
        messages[1], messages[2] = messages[2], messages[1]

    def other_order(lines: list[Any]) -> None:
        a, b = (lines.index(each) for each in answers(lines)[1:])
        lines[a], lines[b] = lines[b], lines[a]

    def without_a_turn(lines: list[Any]) -> None:
        lines.remove(answers(lines)[1])

    def other_last_words(lines: list[Any]) -> None:
        answers(lines)[2]["result"]["text"] = "Not done."

    def other_calls(lines: list[Any]) -> None:
        answers(lines)[2]["result"]["calls"] = [{"id": "x", "name": "list_dir", "arguments": {}}]

    for edit, kind, turn in (
        (other_answer, "request", 2),
        (other_result, "request", 2),
        (other_order_of_results, "order", 1),
        (other_order, "order", 1),
        (without_a_turn, "missing", 1),
        (other_last_words, "ending", 3),
        (other_calls, "missing", 3),
    ):
        put(path, whole)
        change(path, edit)

        found = (await replay(path)).divergence

        assert found is not None, edit
        assert (found.kind, found.turn) == (kind, turn), (edit, found.words)


async def test_a_turn_more_than_was_recorded_is_told(room: Workroom, path: Path) -> None:
    await room.assistant(["", "Hello."]).run("Say hello.", record=path)
    change(path, lambda lines: lines.remove(answers(lines)[1]))

    found = (await replay(path)).divergence

    assert found is not None
    assert (found.kind, found.turn, found.where) == ("extra", 2, "the request")


async def test_a_file_that_breaks_off_replays_as_far_as_it_goes(room: Workroom, path: Path) -> None:
    await record_three_turns(room, path)
    lines = content(path).splitlines(keepends=True)

    for kept, requests in ((lines[:3], 0), (lines[:7], 2), ([*lines[:7], lines[7][:30]], 2), (lines[:8], 3)):
        put(path, b"".join(kept))

        found = await replay(path)

        assert found.same
        assert found.is_cut_short
        assert found.requests == requests


async def test_what_holds_no_run_is_bad_input(room: Workroom, path: Path, tmp_path: Path) -> None:
    from placet.inference import Recording
    from placet.inference.messages import User

    recording = Recording(Scripted(["Hello."]), path)
    await recording.generate(Request(messages=[User("Hello?")]))
    await recording.close()

    for file, words in ((path, "holds no run"), (tmp_path / "none", "No such file"), (tmp_path, "recording")):
        with pytest.raises(InputError, match=words):
            await replay(file)


# Tools that are really called


async def test_tools_that_only_read_are_called_once_more_if_wanted(room: Workroom, path: Path) -> None:
    await record_three_turns(room, path)
    (room.folder / "b.txt").unlink()

    found = same(await replay(path, run_tools=room.runtime()))

    assert found.tools_run == 2
    assert set(room.files()) == {"a.txt"}, "what writes is not called"

    (room.folder / "a.txt").write_text("alpha\ndelta\n")
    other = (await replay(path, run_tools=room.runtime())).divergence

    assert other is not None
    assert (other.kind, other.turn, other.where) == ("tool result", 1, "call t1c1 (read_file)")
    assert [line for line in other.diff() if line[:1] in "+-"][2:] == ["-beta", "+delta"]


async def test_a_long_result_is_compared_without_being_kept(
    room: Workroom, path: Path, tmp_path: Path
) -> None:
    from placet.runtime.spill import Spill

    (room.folder / "a.txt").write_text("x" * 40_000)
    spill = Spill(tmp_path / "spill")
    await room.assistant([[call("read_file", path="a.txt")], "Done."], spill=spill).run("Read.", record=path)
    kept = [each for each in spill.folder.rglob("*") if each.is_file()]
    for file in kept:
        file.unlink()

    assert same(await replay(path, run_tools=room.runtime())).tools_run == 1

    assert [each for each in spill.folder.rglob("*") if each.is_file()] == []


# What it costs


async def test_what_is_recorded_of_a_turn_is_what_is_new_in_it(
    room: Workroom, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[RunRecording] = []
    sizes: list[int] = []

    class Watched(RecordedLoop):
        async def _ask(self) -> Result:
            if self._record not in made:
                made.append(self._record)
            sizes.append(len(content(path)))
            return await super()._ask()

    monkeypatch.setattr("placet.turns.recording.RecordedLoop", Watched)
    turns = [[call("calculate", expression=f"{1000 + at} + 1")] for at in range(200)]

    await room.assistant([*turns, "Done."], limits=TurnLimits(turns=300)).run("Count.", record=path)

    grown = [after - before for before, after in pairwise(sizes[1:])]
    assert len(grown) == 199
    assert max(grown) - min(grown) < 20, "a number may have a digit more"
    # The system's and the person's message, then a call and its result for each turn, and the last words.
    assert made[0].encoded == 2 + 2 * 200 + 1
    assert same(await replay(path)).requests == 201


# What never comes


def came(number: int) -> dict[str, Any]:
    message = {"role": "tool", "call_id": "x", "name": "n", "text": "t"}
    return {"number": number, "message": message}


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"stop": {"turn": 7, "results": 0, "stop": {"status": "cancelled", "error": "no"}}}, "turn 7"),
        ({"stop": {"turn": 7, "results": 0}}, "turn 7"),
        ({"results": [came(9)]}, "a result of x (n)"),
        ({"unfit": "it is odd"}, "wrong with the output"),
    ],
)
async def test_what_is_recorded_and_never_comes_is_missing(
    room: Workroom, path: Path, told: dict[str, Any], words: str
) -> None:
    await record_three_turns(room, path)
    change(path, lambda lines: lines[-1]["data"].update(told))

    found = await replay(path)

    assert found.divergence is not None
    assert found.divergence.kind == "missing"
    assert words in found.divergence.words


@pytest.mark.parametrize("told", [{"unfit": "it is odd"}, {"results": [came(9)]}])
async def test_what_never_comes_before_a_request_is_missing(
    room: Workroom, path: Path, told: dict[str, Any]
) -> None:
    await record_three_turns(room, path)
    between = {"kind": "run", "data": {"told": "between", **told}}
    change(path, lambda lines: lines.insert(lines.index(answers(lines)[1]), between))

    found = await replay(path)

    assert found.divergence is not None
    assert (found.divergence.kind, found.divergence.turn) == ("missing", 2)


@pytest.mark.parametrize(
    "told",
    [
        {"told": "between", "tokens": -1},
        {"told": "between", "cost": -1.0},
        {"told": "between", "results": [came(0)]},
        {"told": "begun", "run_id": "r", "limits": {}, "recalled": "z"},
        {"told": "ended", "ending": {"status": "success", "summary": ""}, "stop": {"turn": -1, "results": 0}},
        {"told": "ended", "ending": {"status": "success", "summary": ""}, "stop": {"turn": 0, "results": -1}},
    ],
)
async def test_less_than_nothing_cannot_be_read(room: Workroom, path: Path, told: dict[str, Any]) -> None:
    await record_three_turns(room, path)
    change(path, lambda lines: lines.insert(-1, {"kind": "run", "data": told}))

    found = await replay(path)

    assert found.divergence is not None
    assert "cannot be read" in found.divergence.words


async def test_tools_that_tell_the_time_or_wait_are_not_called_again(room: Workroom, path: Path) -> None:
    from placet import Runtime, basic_tools

    waited = call("sleep", "two", seconds=0)
    await room.assistant([[call("now", "one"), waited], "Late."]).run("Wait.", record=path)
    change(path, lambda lines: put_seconds(lines, 3_600))

    found = await replay(path, run_tools=Runtime(builtin=basic_tools(room.folder)))

    assert found.tools_run == 0


def put_seconds(lines: list[Any], seconds: int) -> None:
    for line in answers(lines):
        for each in line.get("result", {}).get("calls", ()):
            if each["name"] == "sleep":
                each["arguments"]["seconds"] = seconds


async def test_a_call_that_is_made_again_does_not_take_long(
    room: Workroom, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from placet import Runtime
    from placet.turns import read_only_tools

    @tool(name="look", risk="read_only")
    async def quick() -> str:
        return "seen"

    @tool(name="look", risk="read_only")
    async def slow() -> str:
        await asyncio.sleep(3_600)
        return "seen"

    await room.assistant([[call("look", "one")], "Seen."], [quick]).run("Look.", record=path)
    monkeypatch.setattr(read_only_tools, "_MOST_MS", 50)

    found = await replay(path, run_tools=Runtime(tools=[slow]))

    assert found.divergence is not None
    assert found.divergence.kind == "tool result"
    assert "50" in found.divergence.now


async def test_an_end_that_cannot_be_recorded_is_told(
    room: Workroom, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from placet.inference.wrappers import record_file
    from placet.turns.ending import Done, Event, Note

    told: list[str] = []

    def watch(event: Event) -> None:
        if isinstance(event, Done):
            # From now on there is no room for another line.
            monkeypatch.setattr(record_file, "MOST_BYTES", path.stat().st_size)
        elif isinstance(event, Note):
            told.append(event.text)

    ending = await room.assistant(["One."]).run("Say.", record=path, watch=watch)

    assert ending.status == "success"
    assert len(told) == 1
    assert "Cannot write the recording" in told[0]
