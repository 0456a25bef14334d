"""A task, a model, the real runtime and real files: what comes of it, and who was asked."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from placet import (
    Assistant,
    Cancel,
    DenyTool,
    EventLog,
    MemoryApprovals,
    Posture,
    Redactor,
    Reply,
    SqlEvents,
    SqlJournal,
    Stance,
    open_database,
    tool,
)
from placet.approvals.approval import Approval
from placet.errors import RunExists, UsageError
from placet.inference import Scripted
from placet.inference.messages import Image, Text, ToolResult, User
from placet.inference.model import Result
from placet.ir.stop_cause import StopCause
from placet.turns.ending import Call, CallResult, Done
from placet.turns.ending import Text as Words
from tests.turns.workroom import Workroom, asked_of, call, kept_in, of, results, write


@pytest.fixture
def room(tmp_path: Path) -> Workroom:
    return Workroom(tmp_path)


class Person:
    """Answers what it was told to, and remembers what it was asked."""

    def __init__(self, *replies: Reply | None) -> None:
        self.replies = replies
        self.asked: list[Approval] = []

    async def __call__(self, approval: Approval) -> Reply | None:
        self.asked.append(approval)
        return self.replies[min(len(self.asked), len(self.replies)) - 1]


YES, NO = Reply("once"), Reply("deny", "not today")


# A task


async def test_a_tool_runs_and_then_it_finishes(room: Workroom) -> None:
    assistant = room.assistant(
        [call("calculate", "c1", expression="6*7"), "The answer is 42."], system="Be brief."
    )

    ending = await assistant.run("What is 6*7?", watch=room.seen.append)

    assert (ending.status, ending.summary, ending.turns) == ("success", "The answer is 42.", 2)
    assert list(ending.tools) == ["calculate"]
    assert [(e.tool, e.ok, e.text) for e in of(CallResult, room.seen)] == [("calculate", True, "42")]
    assert [type(e) for e in room.seen if not isinstance(e, Words)] == [Call, CallResult, Done]
    assert "".join(e.text for e in of(Words, room.seen)) == "The answer is 42."
    first, second = asked_of(assistant)
    assert second.messages is first.messages, "nobody copies the conversation"
    names = [type(message).__name__ for message in second.messages]
    assert names == ["System", "User", "Assistant", "ToolResult", "Assistant"]
    assert results(second.messages) == [ToolResult(call_id="c1", name="calculate", text="42")]
    assert {schema.name for schema in first.tools} == {each.name for each in assistant.runtime.tools}


async def test_pictures_reach_the_first_request(room: Workroom) -> None:
    picture = Image(data=b"\x89PNG", type="image/png")
    assistant = room.assistant(["A cat."])

    await assistant.run("What is this?", images=[picture])

    (request,) = asked_of(assistant)
    (said,) = [message for message in request.messages if isinstance(message, User)]
    assert list(said.parts) == [Text("What is this?"), picture]


async def test_a_file_is_written_through_the_runtime(room: Workroom) -> None:
    runtime = room.runtime()
    assistant = room.assistant([write("hi.txt", "hello"), "Wrote hi.txt."], runtime=runtime)

    ending = await assistant.run("Write hi.txt.")

    assert room.files() == {"hi.txt": "hello"}
    assert ending.succeeded
    ran = runtime.events.query(run=ending.run_id, kind="action_succeeded")
    assert [(e.action_id, e.proposal_id) for e in ran] == [("t1c1", f"{ending.run_id}.1")]
    kinds = [e.kind for e in runtime.events.query(run=ending.run_id)]
    assert kinds[0] == "turn_loop_started"
    assert kinds[-1] == "turn_loop_ended"


def test_without_an_event_loop(room: Workroom) -> None:
    assistant = room.assistant([write("a.txt", "1"), "Done."])

    assert assistant.run_sync("Write a.txt.").summary == "Done."
    assert room.files() == {"a.txt": "1"}


async def test_what_cannot_be_meant_is_said_before_anything_begins(room: Workroom) -> None:
    runtime = room.runtime()
    assistant = room.assistant(["Hello."], runtime=runtime)
    for task in ("", "  \n"):
        with pytest.raises(UsageError, match="no task"):
            await assistant.run(task)
    with pytest.raises(UsageError, match="output_type"):
        await assistant.run("x", output_type=complex)
    with pytest.raises(UsageError, match="did you mean 'read_file'"):
        Assistant(runtime, Scripted(["x"]), tools=["read_fil"])
    with pytest.raises(UsageError, match=r"gated_tools=.*did you mean 'write_file'"):
        Assistant(runtime, Scripted(["x"]), gated_tools=["write_fil"])
    for option in ("tools", "gated_tools"):
        with pytest.raises(UsageError, match=rf"{option}=.*\['write_file'\]"):
            Assistant(runtime, Scripted(["x"]), **{option: "write_file"})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="A model is an object"):
        Assistant(runtime, 5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="failures"):
        Assistant(runtime, Scripted(["x"]), failures=0)
    with pytest.raises(UsageError, match="no posture"):
        Assistant(runtime, Scripted(["x"]), posture="brave")

    assert asked_of(assistant) == []
    assert runtime.events.query(kind="turn_loop_started") == []


async def test_the_id_of_a_run_is_given_once(room: Workroom, tmp_path: Path) -> None:
    with kept_in(tmp_path) as kept:
        assistant = room.assistant(["One.", "Two."], runtime=room.runtime(**kept.parts()))
        assert (await assistant.run("x", run_id="r")).run_id == "r"

        with pytest.raises(RunExists):
            await assistant.run("x", run_id="r")

        assert (await assistant.resume("r")).summary == "One.", "how it ended is known"
    assert len(asked_of(assistant)) == 1


# Who is asked


async def test_a_gated_tool_is_denied_where_nobody_can_be_asked(room: Workroom) -> None:
    assistant = room.assistant(
        [write("x.txt", "no"), "Could not write."], posture=None, gated_tools=["write_file"]
    )

    ending = await assistant.run("Write x.")

    assert ending.status == "success"
    assert list(ending.tools) == []
    assert room.files() == {}
    (told,) = results(asked_of(assistant)[-1].messages)
    assert told.is_error
    assert "'write_file' is a gated tool" in told.text
    assert "state what is missing" in told.text
    assert dict(ending.unasked) == {"write_file": ""}, "no posture overrules a gate"
    assert "a person to ask" in ending.advice
    assert "posture" not in ending.advice


async def test_other_words_can_be_given_for_how_to_allow_it(room: Workroom) -> None:
    assistant = room.assistant([write("x.txt", "no"), "No."], posture=None, nobody="say --full-access")

    await assistant.run("Write x.")

    assert "say --full-access" in results(asked_of(assistant)[-1].messages)[0].text


async def test_a_gated_tool_runs_when_it_is_approved(room: Workroom) -> None:
    person = Person(YES)
    assistant = room.assistant(
        [write("ok.txt", "yes"), "Wrote it."],
        runtime=room.runtime(person=person),
        posture=None,
        gated_tools=["write_file"],
    )

    ending = await assistant.run("Write ok.")

    assert ending.status == "success"
    assert room.files() == {"ok.txt": "yes"}
    (asked,) = person.asked
    assert (asked.tool, asked.parameters) == ("write_file", {"path": "ok.txt", "text": "yes"})
    assert (asked.run_id, asked.action_id) == (ending.run_id, "t1c1")


async def test_no_is_answered_to_the_model_with_the_reason_and_the_loop_goes_on(room: Workroom) -> None:
    assistant = room.assistant(
        [write("a.txt", "1"), write("b.txt", "2"), "One of two."],
        runtime=room.runtime(person=Person(NO, YES)),
        posture="read_only",
    )

    ending = await assistant.run("Write both.", watch=room.seen.append)

    assert ending.status == "success"
    assert list(ending.tools) == ["write_file"]
    assert room.files() == {"b.txt": "2"}
    refused, done = results(asked_of(assistant)[-1].messages)
    assert refused.is_error
    assert refused.text.startswith("rejected: ")
    assert "not today" in refused.text
    assert not done.is_error
    assert [(e.ok, e.status) for e in of(CallResult, room.seen)] == [(False, "rejected"), (True, "succeeded")]


async def test_always_is_asked_once(room: Workroom) -> None:
    person = Person(Reply("always"))
    turns = [write("a.txt", "1"), write("a.txt", "1"), write("a.txt", "2"), "Done."]
    assistant = room.assistant(turns, runtime=room.runtime(person=person), posture="read_only")

    ending = await assistant.run("Write.")

    assert list(ending.tools) == ["write_file"] * 3
    assert [asked.parameters["text"] for asked in person.asked] == ["1", "2"], "for the very same only"


async def test_yes_once_is_for_one_call(room: Workroom) -> None:
    person = Person(YES)
    assistant = room.assistant(
        [write("a.txt", "1"), write("a.txt", "1"), "Done."],
        runtime=room.runtime(person=person),
        posture="read_only",
    )

    await assistant.run("Write.")

    assert len(person.asked) == 2


def by_content(tool_name: str, parameters: Any) -> Any:
    """An approval policy of a person's own."""
    return {
        "allow": "allow",
        "ask": "ask",
        "deny": Stance("deny", "the house says no"),
        "raise": 1 / (parameters.get("text") != "raise"),
        "odd": "perhaps",
    }.get(parameters.get("text", ""))


EVERYTHING_ASKS = Posture(read_only="ask", sandbox_edit="ask", full_access="ask")
EVERYTHING_DENIED = Posture(read_only="deny", sandbox_edit="deny", full_access="deny")

ORDER: list[tuple[str, str, dict[str, Any], str]] = [
    # (what it shows, content, options, what becomes of it)
    ("the policy allows a gated tool", "allow", {"gated_tools": ["write_file"], "posture": None}, "runs"),
    ("the policy allows what the tier denies", "allow", {"posture": EVERYTHING_DENIED}, "runs"),
    ("the policy asks about what the tier allows", "ask", {"posture": "full_access"}, "asked"),
    ("the policy denies what the tier allows", "deny", {"posture": "full_access"}, "the house says no"),
    ("a policy that fails denies", "raise", {"posture": "full_access"}, "the approval policy failed"),
    ("a policy that answers nonsense denies", "odd", {"posture": "full_access"}, "which is no answer"),
    ("left open, the gated list decides", "-", {"gated_tools": ["write_file"]}, "asked"),
    (
        "the gated list beats the tier",
        "-",
        {"gated_tools": ["write_file"], "posture": "full_access"},
        "asked",
    ),
    (
        "a tool that is not listed: the tier",
        "-",
        {"gated_tools": ["edit_file"], "posture": "sandbox_edit"},
        "runs",
    ),
    ("the tier asks", "-", {"posture": EVERYTHING_ASKS}, "asked"),
    ("the tier denies", "-", {"posture": EVERYTHING_DENIED}, "which is denied here"),
    ("without a posture all but reading is asked about", "-", {"posture": None}, "asked"),
]


@pytest.mark.parametrize(("shows", "content", "options", "becomes"), ORDER, ids=[row[0] for row in ORDER])
async def test_who_decides(
    room: Workroom, shows: str, content: str, options: dict[str, Any], becomes: str
) -> None:
    person = Person(YES)
    assistant = room.assistant(
        [write("a.txt", content), "Done."],
        runtime=room.runtime(person=person),
        **{"approval_policy": by_content, **options},
    )

    ending = await assistant.run("Write.")

    assert ending.status == "success"
    assert len(person.asked) == (becomes == "asked"), shows
    if becomes in ("runs", "asked"):
        assert room.files() == {"a.txt": content}
    else:
        assert room.files() == {}
        (told,) = results(asked_of(assistant)[-1].messages)
        assert becomes in told.text


@pytest.mark.parametrize("stance", ["allow", "ask"])
async def test_a_policy_of_the_runtime_that_denies_beats_all_of_them(room: Workroom, stance: Any) -> None:
    person = Person(YES)
    runtime = room.runtime(
        person=person,
        policies=[("hands off", DenyTool(tool="write_file", reason="the disk is full of gold"))],
    )
    assistant = room.assistant(
        [write("a.txt", "1"), "Done."], runtime=runtime, approval_policy=lambda tool, parameters: stance
    )

    ending = await assistant.run("Write.")

    assert ending.status == "success"
    assert room.files() == {}
    assert "full of gold" in results(asked_of(assistant)[-1].messages)[0].text
    assert person.asked == [], "nobody is asked in vain"


async def test_the_permissions_of_the_runtime_hold_where_the_assistant_says_nothing(room: Workroom) -> None:
    turns = [write("a.txt", "1"), "Done."]
    open_one = room.assistant(turns, runtime=room.runtime(permissions="balanced"), posture=None)
    closed = Posture(sandbox_edit="deny")
    closed_one = room.assistant(turns, runtime=room.runtime(permissions=closed), posture=None)

    await open_one.run("Write.")
    assert room.files() == {"a.txt": "1"}
    (room.folder / "a.txt").unlink()
    await closed_one.run("Write.")
    assert room.files() == {}


async def test_tools_that_are_not_offered_are_not_run(room: Workroom) -> None:
    assistant = room.assistant([write("a.txt", "1"), "Done."], tools=["read_file"])

    await assistant.run("Write.")

    assert [schema.name for schema in asked_of(assistant)[0].tools] == ["read_file"]
    assert room.files() == {}
    assert results(asked_of(assistant)[-1].messages)[0].text == (
        "rejected: tool 'write_file' is not offered to you"
    )


async def test_tools_that_ask_a_model_are_not_offered_unless_they_are_named(room: Workroom) -> None:
    runtime = room.runtime(model=Scripted(["inner"]))

    assert "infer" not in room.assistant(["x"], runtime=runtime).offered()
    assert room.assistant(["x"], runtime=runtime, tools=["infer"]).offered() == ["infer"]


# Watching


async def test_a_stream_brings_every_event_and_the_ending_last(room: Workroom) -> None:
    assistant = room.assistant([call("calculate", expression="1+1"), "Two, of course."])

    events = [event async for event in assistant.stream("1+1?")]

    assert isinstance(events[-1], Done)
    assert events[-1].ending.summary == "Two, of course."
    assert len(of(Words, events)) > 1, "in pieces"
    assert [e.text for e in of(CallResult, events)] == ["2"]


async def test_leaving_a_stream_stops_the_run_which_can_be_resumed(room: Workroom, tmp_path: Path) -> None:
    began, stopped = asyncio.Event(), asyncio.Event()

    @tool(risk="read_only")
    async def wait() -> str:
        """Wait."""
        began.set()
        try:
            if not stopped.is_set():
                await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
            stopped.set()
            raise
        return "waited"

    with kept_in(tmp_path) as kept:
        assistant = room.assistant([call("wait"), "Done."], runtime=room.runtime([wait], **kept.parts()))
        stream = assistant.stream("x", run_id="r")
        async for event in stream:
            if isinstance(event, Call):
                break
        await began.wait()
        await stream.aclose()

        assert stopped.is_set(), "it has stopped by the time the stream is closed"
        ending = await assistant.resume("r")
    assert (ending.status, ending.summary) == ("success", "Done.")
    assert len(asked_of(assistant)) == 2, "what was answered is not asked again"


class Legs(msgspec.Struct):
    legs: int


async def test_every_answer_has_the_type_of_the_assistant(room: Workroom, tmp_path: Path) -> None:
    answers = ['{"legs": 4}', "[6]", "not JSON", '{"legs": 8}']
    with kept_in(tmp_path) as kept:
        runtime = room.runtime(**kept.parts())
        assistant = Assistant(runtime, Scripted(answers), output_type=Legs)

        assert (await assistant.run("A cow?", run_id="r")).output == Legs(4)
        assert (await assistant.run("Two?", output_type=list[int])).output == [6]
        last = [event async for event in assistant.stream("A spider?")][-1]

        assert isinstance(last, Done)
        assert last.ending.output == Legs(8), "asked for once more"
        assert (await assistant.resume("r")).output == Legs(4), "the type need not be named again"


def test_a_run_that_waits_is_resumed_without_an_event_loop(room: Workroom, tmp_path: Path) -> None:
    with kept_in(tmp_path) as kept:
        runtime = room.runtime(**kept.parts(), approvals=kept.approvals, patience_s=0)
        assistant = room.assistant([write("a.txt", "A"), "Done."], runtime=runtime, posture="read_only")
        ending = assistant.run_sync("x", run_id="r")
        assert ending.status == "waiting"
        approval = ending.waiting[0].approval
        assert approval is not None
        assert runtime.approvals is not None
        runtime.approvals.decide(approval, "once", by="ann")

        ending = assistant.resume_sync("r")

    assert (ending.status, ending.summary) == ("success", "Done.")
    assert (room.folder / "a.txt").read_text() == "A"


async def test_resuming_without_await_inside_a_loop_says_what_to_use(room: Workroom) -> None:
    with pytest.raises(UsageError, match="await"):
        room.assistant(["x"]).resume_sync("r")


async def test_what_goes_wrong_in_a_stream_is_raised_there(room: Workroom) -> None:
    with pytest.raises(UsageError, match="no task"):
        async for _ in room.assistant(["x"]).stream(" "):
            pass


async def test_a_cancel_that_is_used_again_holds_on_to_no_run_that_has_ended(room: Workroom) -> None:
    cancel = Cancel()
    assistant = room.assistant(["One.", "Two."])

    for _ in range(2):
        assert (await assistant.run("x", cancel=cancel)).succeeded

    assert not cancel._soft
    assert not cancel._callbacks


@pytest.mark.parametrize("hard", [False, True], ids=["soft", "hard"])
async def test_open_questions_are_taken_back_when_nobody_needs_the_answer(room: Workroom, hard: bool) -> None:
    ledger, cancel = MemoryApprovals(), Cancel()

    async def person(approval: Approval) -> None:
        cancel.cancel("never mind", hard=hard, cause=StopCause.PERSON)
        await asyncio.sleep(3600)

    assistant = room.assistant(
        [write("a.txt", "1"), "Done."], runtime=room.runtime(person=person, approvals=ledger), posture=None
    )
    ending = await asyncio.wait_for(assistant.run("Write.", cancel=cancel), 20)

    assert (ending.status, ending.stop_cause) == ("cancelled", StopCause.PERSON)
    assert room.files() == {}
    assert ledger.pending() == []


async def test_a_run_that_broke_off_right_after_its_beginning_knows_its_task(
    room: Workroom, tmp_path: Path
) -> None:
    picture = Image(data=bytes(range(256)))
    with kept_in(tmp_path) as kept:
        assistant = room.assistant(["A cat."], runtime=room.runtime(**kept.parts()))
        begun = msgspec.structs.replace(assistant._kept(is_chat=False), task=_of(picture))
        about = begun.about("r", assistant.name)
        async with assistant.runtime.open_run(about, run_id="r"):
            pass

        ending = await assistant.resume("r")

    assert ending.summary == "A cat."
    assert asked_of(assistant)[0].messages[1] == _of(picture)


def _of(picture: Image) -> User:
    return User([Text("What is this?"), picture])


async def test_many_at_once_on_one_runtime(room: Workroom, tmp_path: Path) -> None:
    with kept_in(tmp_path) as kept:
        runtime = room.runtime(**kept.parts())

        async def one(n: int) -> Any:
            turn = [write(f"{n}.txt", str(n)), call("read_file", path=f"{n}.txt")]
            return await room.assistant([turn, "Done."], runtime=runtime).run("x", run_id=f"r{n}")

        endings = await asyncio.gather(*map(one, range(20)))

        assert {(ending.status, ending.tools) for ending in endings} == {
            ("success", ("write_file", "read_file"))
        }
        assert room.files() == {f"{n}.txt": str(n) for n in range(20)}
        assert kept.records.verify().valid
        assert {row.status for row in kept.journal.runs()} == {"succeeded"}


async def test_secrets_are_shown_nowhere(room: Workroom, tmp_path: Path) -> None:
    """Exempt is what is private to the run: its record, result and journal."""
    secret = "hunter2-swordfish-9000"
    redactor = Redactor([secret])
    with closing(open_database(f"sqlite://{tmp_path}/placet.db")) as database:
        journal = SqlJournal(database, redactor=redactor)
        events = EventLog(sinks=[SqlEvents(database)], redactor=redactor)
        turn = Result(text=f"I know {secret}", calls=[write("a.txt", secret), call(f"no-{secret}")])
        assistant = room.assistant(
            [turn, ValueError(secret), f"It is {secret}."],
            runtime=room.runtime(journal=journal, events=events),
            failures=2,
        )
        ending = await assistant.run(f"Use {secret}.", run_id="r")
        assert (await assistant.resume("r")).summary == ending.summary == f"It is {secret}."
        journal.close()

    private = {("runs", "record"), ("runs", "result"), ("journal", "note")}
    with closing(sqlite3.connect(tmp_path / "placet.db")) as connection:
        tables = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        found = {
            (table, column)
            for table in tables
            for column in [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            for (value,) in connection.execute(f'SELECT "{column}" FROM {table}')
            if secret in str(value)
        }
    assert found <= private
