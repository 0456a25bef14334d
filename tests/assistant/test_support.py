"""An answer says on which calls it rests, and one without the calls that its task needs is no success."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet import Assistant, Runtime, tool
from placet.inference import Scripted
from placet.turns.replay import replay
from tests.turns.workroom import Workroom, call, kept_in, write


@pytest.fixture
def room(tmp_path: Path) -> Workroom:
    made = Workroom(tmp_path)
    (made.folder / "notes.txt").write_text("the budget is 1200\n")
    return made


async def test_an_answer_about_a_file_that_nobody_read_is_unsupported(room: Workroom) -> None:
    ending = await room.assistant(["The budget is 1000."]).run("What is the budget in notes.txt?")

    assert (ending.status, ending.succeeded, ending.lacks) == ("unsupported", False, ("reading",))
    assert (ending.looked, ending.changed, ending.ran) == ((), (), ())
    assert ending.summary == "The budget is 1000."


async def test_an_answer_names_the_calls_that_it_rests_on(room: Workroom) -> None:
    turns = [call("read_file", path="notes.txt"), [write("a.txt", "x"), call("list_dir", path=".")], "Done."]

    ending = await room.assistant(turns).run("Read notes.txt and write x to a.txt.")

    assert ending.status == "success"
    assert (ending.looked, ending.changed, ending.ran) == (("t1c1", "t2c2"), ("t2c1",), ())


@pytest.mark.parametrize(
    ("task", "turns", "lacks"),
    [
        ("Write hi to a.txt.", [call("read_file", path="notes.txt"), "I wrote it."], ("writing",)),
        ("Write hi to a.txt.", [write("a.txt", "hi"), "I wrote it."], ()),
        ("Read notes.txt and write it to a.txt.", [write("a.txt", "hi"), "Done."], ("reading",)),
        ("What is in notes.txt?", [call("calculate", expression="600*2"), "1200"], ("reading",)),
        ("What is in notes.txt?", [call("read_file", path="gone.txt"), "1200"], ("reading",)),
        ("Run hello.py.", [call("read_file", path="notes.txt"), "It printed hello."], ()),
        ("What is a monad?", ["A monoid."], ()),
        ("What is 6*7?", ["42"], ()),
    ],
)
async def test_support_follows_from_calls(
    room: Workroom, task: str, turns: list[object], lacks: tuple[str, ...]
) -> None:
    ending = await room.assistant(turns).run(task)

    assert ending.lacks == lacks
    assert ending.status == ("unsupported" if lacks else "success")


async def test_a_command_that_failed_ran_and_supports_nothing_else(room: Workroom) -> None:
    (room.folder / "hello.py").write_text("raise SystemExit(1)\n")
    turns = [call("shell", command="exit 3"), "It printed hello."]

    ran = await room.assistant(turns, runtime=room.runtime(only=("shell", "read_file"))).run("Run hello.py")
    read = await room.assistant(turns, runtime=room.runtime(only=("shell", "read_file"))).run(
        "What is in notes.txt?"
    )

    assert (ran.status, ran.ran) == ("success", ("t1c1",))
    assert (read.status, read.lacks) == ("unsupported", ("reading",))


async def test_words_of_the_answer_change_nothing(room: Workroom) -> None:
    said = ["I called read_file on notes.txt and it says 1200 (t1c1)."]

    assert (await room.assistant(said).run("What is in notes.txt?")).status == "unsupported"


async def test_a_runtime_without_a_folder_marks_nothing() -> None:
    @tool(risk="read_only")
    def look() -> str:
        "Look."
        return "x"

    ending = await Assistant(Runtime([look]), Scripted(["Done."])).run("List all files in docs/a.txt.")

    assert ending.status == "success"


async def test_each_message_of_a_chat_is_judged_by_its_own_calls(room: Workroom) -> None:
    assistant = room.assistant([call("read_file", path="notes.txt"), "1200", "Still 1200.", "Hello."])

    async with assistant.chat() as chat:
        first = await chat.say("What is in notes.txt?")
        second = await chat.say("And what is in notes.txt now?")
        third = await chat.say("Thanks!")

    assert [each.status for each in (first, second, third)] == ["success", "unsupported", "success"]


async def test_it_is_the_same_after_a_restart_and_in_a_replay(room: Workroom, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    with kept_in(tmp_path) as kept:
        assistant = room.assistant(["1000."], runtime=room.runtime(**kept.parts()))
        ending = await assistant.run("What is in notes.txt?", run_id="r1", record=record)
        again = await assistant.resume("r1")

    replayed = await replay(record)

    assert (again.status, again.lacks) == (ending.status, ending.lacks) == ("unsupported", ("reading",))
    assert replayed.same
    assert replayed.ending is not None
    assert replayed.ending.status == "unsupported"


async def test_a_typed_answer_is_kept_with_the_mark(room: Workroom) -> None:
    assistant = Assistant(room.runtime(), Scripted(["[1000]"]), output_type=list[int])

    ending = await assistant.run("Which numbers are in notes.txt?")

    assert (ending.status, ending.output) == ("unsupported", [1000])
