"""Answers into a file, and out of it again."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import json
import os
import signal
import stat
import subprocess
import sys
import tracemalloc
from collections.abc import Sequence
from contextlib import aclosing, suppress
from itertools import pairwise
from pathlib import Path
from threading import Thread
from time import process_time
from typing import Any

import pytest

from placet.errors import (
    ContextTooLong,
    InputError,
    ModelCancelled,
    ModelError,
    RateLimited,
    ReplayDiverged,
    RequestRefused,
)
from placet.inference.messages import (
    Assistant,
    Carried,
    Image,
    Message,
    System,
    Text,
    ToolCall,
    ToolResult,
    User,
)
from placet.inference.model import Choice, Model, Request, Result, Words, stream
from placet.inference.passage import Passage, reads_passages
from placet.inference.scripted import Scripted
from placet.inference.usage import Usage
from placet.inference.wrappers.recording import Recording
from placet.inference.wrappers.replaying import Replaying
from placet.inference.wrappers.retry import Retrying
from placet.ir.tool_spec import ToolSchema

READ = ToolSchema(name="read", description="Reads.", parameters={"type": "object"})
WRITE = ToolSchema(name="write", description="Writes.", parameters={"type": "object"})


def asking(*messages: Message | str, **more: Any) -> Request:
    return Request(messages=[User(each) if isinstance(each, str) else each for each in messages], **more)


async def record(path: Path, turns: Sequence[Any], requests: Sequence[Request]) -> None:
    """Ask a scripted model all of these, and record it; errors of the model are part of that."""
    model = Recording(Scripted(turns), path)
    for request in requests:
        try:
            await model.generate(request)
        except ModelError:
            continue
    await model.close()


def read(path: Path) -> bytes:
    return path.read_bytes()


def write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in read(path).splitlines()]


def answers_of(path: Path) -> list[dict[str, Any]]:
    return [line for line in lines_of(path) if line["kind"] == "answer"]


async def ask(model: Model, request: Request) -> str:
    return (await model.generate(request)).text


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.jsonl"


async def test_everything_of_a_conversation_comes_back_equal(path: Path) -> None:
    carried = Carried(format="anthropic", data={"signature": "x", "n": [1, 2.5, None]})
    broken = ToolCall(id="2", name="write", problem="no JSON", raw="{oops")
    whole = Result(
        text="Umlaut ü \x1b[31m",
        calls=[ToolCall(id="1", name="read", arguments={"path": "a", "n": 1}, carried=carried), broken],
        reasoning="because",
        usage=Usage(input=10, output=3, cached=2),
        cost=0.125,
        model="m-1",
        latency_ms=12.75,
        stop="calls",
        carried=carried,
        choice=Choice(model="a:b", role="code", because="it was named"),
    )
    plain = Result(text="done", model="m-1")
    first = asking(
        System("Be brief."), User([Text("Look"), Image(data=b"\x89PNG\0\xff")]), tools=[READ, WRITE]
    )
    second = asking(
        *first.messages, whole.message, ToolResult(call_id="1", name="read", text="no", is_error=True)
    )
    await record(path, [whole, plain], [first, second])

    replay = Replaying(path)

    assert replay.notes == []
    assert await replay.generate(first) == whole
    assert await replay.generate(second) == plain
    assert replay.unused == 0
    assert replay.name == f"replay:{path}"


async def test_equal_messages_of_other_objects_find_the_same_answer(path: Path) -> None:
    call = ToolCall(id="1", name="read", arguments={"a": 1, "b": 2})
    same = ToolCall(id="1", name="read", arguments={"b": 2, "a": 1})
    await record(path, ["x"], [asking("q", Assistant(calls=(call,)), temperature=0)])

    assert await ask(Replaying(path), asking("q", Assistant(calls=[same]), temperature=0.0)) == "x"


async def test_what_does_not_change_an_answer_does_not_matter(path: Path) -> None:
    read = ToolSchema(name="read", description="Reads.", parameters={"type": "object"}, risk="read_only")
    await record(path, ["x"], [asking("q", tools=[READ], model="openai:gpt", cache=False)])

    assert await ask(Replaying(path), asking("q", tools=[read], model=f"replay:{path}")) == "x"


async def test_passages_are_told_apart_and_the_recording_knows_that_they_are_read(path: Path) -> None:
    one, two = (Passage(path="x.py", before="", line=line, after="") for line in ("a", "b"))
    model = Recording(Scripted(["[1]", "[2]"]), path)
    for each in (one, two):
        await model.generate(Request(messages=(), passage=each))
    await model.close()

    replayed = Replaying(path)

    assert reads_passages(replayed)
    assert (await replayed.generate(Request(messages=(), passage=two))).text == "[2]"
    assert (await replayed.generate(Request(messages=(), passage=one))).text == "[1]"
    with pytest.raises(ReplayDiverged, match="passage"):
        await replayed.generate(Request(messages=()))


async def test_a_recording_without_passages_reads_none(path: Path) -> None:
    model = Recording(Scripted(["yes"]), path)
    await model.generate(asking("Is it so?", schema={"properties": {"passage": {"type": "object"}}}))
    await model.close()
    assert not reads_passages(Replaying(path))


async def test_errors_are_raised_again_as_what_they_were(path: Path) -> None:
    class Odd(ModelError):
        code = "model.odd"

    errors = [RateLimited("slowly", status=429, retry_after_s=3.5), ContextTooLong("too long"), Odd("odd")]
    requests = [asking(str(n)) for n in range(3)]
    await record(path, errors, requests)
    replay = Replaying(path)

    with pytest.raises(RateLimited, match="slowly") as caught:
        await replay.generate(requests[0])
    with pytest.raises(ContextTooLong, match="too long"):
        await replay.generate(requests[1])
    with pytest.raises(ModelError, match="odd") as other:
        await replay.generate(requests[2])

    assert (caught.value.status, caught.value.retry_after_s) == (429, 3.5)
    assert type(other.value) is ModelError


@pytest.mark.parametrize("may_pass", [True, False])
async def test_what_a_server_said_about_trying_again_is_replayed(path: Path, may_pass: bool) -> None:
    """It may say so of any error, whatever its class says."""
    errors = [RequestRefused("busy", status=400), RateLimited("no more", status=429, retry_after_s=2.5)]
    for error in errors:
        error.may_pass = may_pass
    await record(path, [*errors, "x"], [asking("q")] * 3)
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    model = Retrying(Replaying(path), sleep=wait, random=lambda: 0.0)

    if may_pass:
        assert await ask(model, asking("q")) == "x"
        assert waits == [0.0, 2.5]
    else:
        for kind in (RequestRefused, RateLimited):
            with pytest.raises(kind):
                await ask(model, asking("q"))
        assert waits == []


async def test_an_error_that_says_what_its_class_says_is_recorded_without(path: Path) -> None:
    """So that a recording made before is the same as one made now."""
    await record(path, [RateLimited("slowly", status=429)], [asking("q")])

    assert answers_of(path)[0]["error"] == {"code": "model.rate", "message": "slowly", "status": 429}
    with pytest.raises(RateLimited) as caught:
        await ask(Replaying(path), asking("q"))
    assert caught.value.may_pass


async def test_a_request_that_was_called_off_leaves_no_line(path: Path) -> None:
    await record(path, [ModelCancelled("stopped"), "x"], [asking("a"), asking("b")])

    assert len(answers_of(path)) == 1


async def test_a_stream_is_recorded_as_its_result_and_replayed_in_pieces(path: Path) -> None:
    recording = Recording(Scripted(["many words in many pieces"], name="scripted:x"), path)
    recorded = [piece async for piece in stream(recording, asking("q"))]
    await recording.close()

    replayed = [piece async for piece in stream(Replaying(path), asking("q"))]

    assert recording.name == "scripted:x"
    assert len([piece for piece in recorded if isinstance(piece, Words)]) > 1
    assert replayed == recorded


async def test_a_stream_that_was_closed_early_leaves_no_line(path: Path) -> None:
    recording = Recording(Scripted(["many words in many pieces", "whole"]), path)
    async with aclosing(recording.stream(asking("q"))) as pieces:
        await anext(pieces)
    await recording.generate(asking("q"))
    await recording.close()

    assert [line["result"]["text"] for line in answers_of(path)] == ["whole"]


async def test_an_answer_is_in_the_file_before_it_is_handed_on(path: Path) -> None:
    recording = Recording(Scripted(["one"]), path)

    async for piece in recording.stream(asking("q")):
        if isinstance(piece, Result):
            assert len(answers_of(path)) == 1
    await recording.close()


async def test_the_same_request_is_answered_in_recorded_order_and_then_no_more(path: Path) -> None:
    await record(path, ["first", "second"], [asking("q"), asking("q")])
    replay = Replaying(path)

    assert [await ask(replay, asking("q")) for _ in range(2)] == ["first", "second"]
    with pytest.raises(
        ReplayDiverged, match=r"Request 3 .*recorded 2 times, last as request 2, and is asked once"
    ):
        await ask(replay, asking("q"))


async def test_conversations_that_interleave_are_told_apart(path: Path) -> None:
    system = System("Be brief.")

    def echo(request: Request) -> str:
        return f"{len(request.messages)} {request.messages[1]}"

    async def talk(model: Model, name: str) -> list[str]:
        messages: list[Message] = [system, User(name)]
        said = []
        for n in range(5):
            result = await model.generate(Request(messages=messages))
            said.append(result.text)
            messages += [result.message, User(f"{name} {n}")]
            await asyncio.sleep(0)
        return said

    recording = Recording(Scripted(echo), path)
    recorded = await asyncio.gather(*(talk(recording, name) for name in "abc"))
    await recording.close()
    replayed = [await talk(model, name) for model in [Replaying(path)] for name in "abc"]

    assert replayed == recorded
    # One system message, and of each conversation 1 + 4 * 2 others.
    assert sum(len(line["messages"]) for line in answers_of(path)) == 1 + 3 * 9


async def test_a_long_conversation_stays_linear_in_size_and_work(path: Path) -> None:
    turns = 500
    recording = Recording(Scripted(lambda request: "An answer of some words."), path)
    messages: list[Message] = []
    sizes, seconds = [], []
    for n in range(turns):
        # Made anew each time, as a loop may do.
        beginning = System("You are a careful assistant. " * 20)
        messages.append(User(f"Question {n:04} of some length."))
        began = process_time()
        result = await recording.generate(Request(messages=[beginning, *messages], tools=[READ, WRITE]))
        seconds.append(process_time() - began)
        messages.append(result.message)
        sizes.append(len(read(path)))
    await recording.close()
    replay = Replaying(path)
    began = process_time()
    for n in range(turns):
        await replay.generate(
            Request(
                messages=[System("You are a careful assistant. " * 20), *messages[: 2 * n + 1]],
                tools=[READ, WRITE],
            )
        )
    replayed = process_time() - began

    steps = [b - a for a, b in pairwise(sizes[1:])]
    assert len(set(steps)) == 1
    assert recording.encoded == 2 * turns
    assert sum(len(line["messages"]) for line in answers_of(path)) == 2 * turns
    assert [line["kind"] for line in lines_of(path)].count("tools") == 1
    assert [line["kind"] for line in lines_of(path)].count("settings") == 1
    assert replay.unused == 0
    for name, some in (("first", seconds[:50]), ("last", seconds[-50:])):
        print(f"{name} 50 turns: {sum(some) / 50 * 1e6:.0f} us a turn, {steps[0]} bytes")
    print(f"replayed: {replayed / turns * 1e6:.0f} us a turn")


async def test_what_is_new_is_encoded_and_no_more_whatever_changes_in_a_conversation(path: Path) -> None:
    recording = Recording(Scripted(lambda request: "x"), path)
    messages: list[Message] = [User("first"), *(User(str(n)) for n in range(100))]

    await recording.generate(Request(messages=messages))
    await recording.generate(Request(messages=[*messages, User("a reminder that goes again")]))
    await recording.generate(Request(messages=[*messages, User("another")]))
    await recording.generate(Request(messages=[User("first"), *messages[1:]]))
    await recording.close()

    assert recording.encoded == 101 + 1 + 1 + 1
    assert [len(line["messages"]) for line in answers_of(path)] == [101, 1, 1, 0]


def large(number: int) -> Request:
    """Half a megabyte of words, and as much of a picture."""
    picture = Image(data=f"{number}".encode() * (300_000 // len(f"{number}")))
    return asking(User([Text(f"{number} " + "x" * 500_000), picture]))


async def test_requests_that_have_nothing_to_do_with_each_other_do_not_stay_in_memory(path: Path) -> None:
    """Measured are the bytes that are still held, not those of the process."""
    count = 120
    tracemalloc.start()
    try:
        # Every second one is called off: what is never written must not wait for it for ever.
        recording = Recording(Scripted(lambda _: ModelCancelled("stopped") if len(asked) % 2 else "x"), path)
        asked: list[int] = []
        for number in range(count):
            asked.append(number)
            with suppress(ModelCancelled):
                await recording.generate(large(number))
        recording.model.requests.clear()  # type: ignore[attr-defined]
        gc.collect()  # Tracebacks of those called off are cycles, and a large process collects them late.
        recorded = tracemalloc.get_traced_memory()[0]
        await recording.close()
        del recording
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        replay = Replaying(path)
        loaded = tracemalloc.get_traced_memory()[0] - before
        for number in range(1, count, 2):
            assert await ask(replay, large(number)) == "x"
        replayed = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()

    assert recorded < 80e6
    assert before < 5e6
    assert loaded < 65e6
    assert replayed < 110e6
    assert replay.unused == 0


async def test_what_is_forgotten_of_a_conversation_is_not_written_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placet.inference.wrappers.digests._MOST_BYTES", 2000)
    recording = Recording(Scripted(lambda request: "x"), path)
    messages: list[Message] = [User(f"{n} " + "x" * 500) for n in range(10)]
    for end in range(1, 11):
        await recording.generate(Request(messages=messages[:end]))
        await recording.generate(asking(f"aside {end} " + "x" * 700))
    await recording.generate(asking(*messages, "and one more"))
    await recording.close()
    replay = Replaying(path)

    assert sum(len(line["messages"]) for line in answers_of(path)) == 21
    # Known while it goes on, and else encoded again: not all of it each time.
    assert recording.encoded < 60
    assert (
        await ask(replay, asking(*(User(each.content) for each in messages if isinstance(each, User)))) == "x"
    )


async def test_a_divergence_says_less_of_what_is_not_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placet.inference.wrappers.divergence._MOST_BYTES", 0)
    words = "the same words again and again " * 20
    await record(path, ["x"], [asking(f"{words} old")])
    replay = Replaying(path)

    with pytest.raises(
        ReplayDiverged, match=r"message 1 \(user\) differs .*begins the same, and goes on oth"
    ):
        await ask(replay, asking(f"{words} new"))
    with pytest.raises(ReplayDiverged, match=r"Recorded: .*the same words.*Asked: .*other words"):
        await ask(replay, asking("other words"))
    assert await ask(replay, asking(f"{words} old")) == "x"


async def test_conversations_that_differ_only_in_the_middle_are_told_apart(path: Path) -> None:
    system, last = System("s"), User("and now?")
    requests = [asking(system, User(middle), last) for middle in "ab"]
    await record(path, ["x", "y"], requests)
    replay = Replaying(path)

    assert [await ask(replay, request) for request in reversed(requests)] == ["y", "x"]


async def test_true_is_not_one(path: Path) -> None:
    def calling(value: object) -> Request:
        return asking(System("s"), Assistant(calls=[ToolCall(name="t", arguments={"n": value})]), User("q"))

    await record(path, ["x", "y"], [calling(True), calling(1)])
    replay = Replaying(path)

    assert await ask(replay, calling(1)) == "y"
    assert await ask(replay, calling(True)) == "x"


async def test_tools_and_settings_are_written_when_they_change(path: Path) -> None:
    requests = [
        asking("a", tools=[READ]),
        asking("b", tools=[READ]),
        asking("c", tools=[READ, WRITE], temperature=0.5),
        asking("d", tools=[READ], temperature=0.5),
    ]
    await record(path, list("abcd"), requests)

    assert [line["kind"] for line in lines_of(path)] == [
        *["recording", "tools", "settings", "answer", "answer", "tools", "settings", "answer", "answer"]
    ]
    replay = Replaying(path)
    assert [await ask(replay, request) for request in requests] == list("abcd")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            asking("Hello", Assistant(text="Hi"), User("Tell me of dogs")),
            r"message 3 \(user\) differs from that of recorded request 2\. Recorded: .*cats.* Asked: .*dogs",
        ),
        (
            asking("Hello", Assistant(text="Hi"), ToolResult(call_id="1", name="t", text="x")),
            r"message 3 \(recorded user, asked tool\) differs",
        ),
        (asking("Bye"), r"message 1 \(user\) differs from that of recorded request 1\."),
        (
            asking("Hello", Assistant(text="Hi")),
            r"ends after 2 messages, and recorded request 2 goes on with user .*cats",
        ),
        (
            asking("Hello", Assistant(text="Hi"), User("Tell me of cats"), User("more")),
            r"message 4 \(user\) comes after all that was recorded .*in request 2\. Asked: .*more",
        ),
        (asking("Hello", temperature=0.7), r"temperature differs .*request 1\. Recorded: 0\.0\. Asked: 0\.7"),
        (asking("Hello", max_tokens=9), r"max_tokens differs .*Recorded: null\. Asked: 9"),
        (asking("Hello", tools=[READ]), r"tools differ .*Recorded only: none\. Asked only: read"),
    ],
)
async def test_a_divergence_names_what_differs_first(path: Path, asked: Request, words: str) -> None:
    requests = [asking("Hello"), asking("Hello", Assistant(text="Hi"), User("Tell me of cats"))]
    await record(path, ["Hi", "Cats."], requests)

    with pytest.raises(ReplayDiverged, match=rf"Request 1 is not in the recording .*{words}"):
        await ask(Replaying(path), asked)


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ([WRITE, READ], "stand in another order"),
        (
            [READ, ToolSchema(name="write", description="Scribbles.", parameters={"type": "object"})],
            r"the tool 'write' differs from recorded request 1\. Recorded: .*Writes.* Asked: .*Scribbles",
        ),
    ],
)
async def test_a_divergence_names_the_tool(path: Path, tools: list[ToolSchema], words: str) -> None:
    await record(path, ["x"], [asking("q", tools=[READ, WRITE])])

    with pytest.raises(ReplayDiverged, match=words):
        await ask(Replaying(path), asking("q", tools=tools))


async def test_a_divergence_shows_a_little_around_the_difference_and_safely(path: Path) -> None:
    beginning = "the same words again and again " * 1000
    await record(path, ["x"], [asking(f"{beginning}\x1b[31m old {beginning}")])

    with pytest.raises(ReplayDiverged) as caught:
        await ask(Replaying(path), asking(f"{beginning}\x1b[31m new {beginning}"))

    told = str(caught.value)
    assert "old" in told
    assert "new" in told
    assert "\x1b" not in told
    assert len(told) < 600


async def test_the_file_is_for_its_owner_alone(path: Path) -> None:
    before = os.umask(0)
    try:
        await record(path, ["x"], [asking("q")])
    finally:
        os.umask(before)

    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


async def test_a_half_written_line_costs_that_line_and_what_continues_it(path: Path) -> None:
    first = asking("a")
    await record(path, ["one"], [first])
    whole = read(path)
    second = asking("a", Assistant(text="one"), User("b"))
    await record(path, ["two"], [second])
    write(path, read(path)[:-20])

    torn = Replaying(path)

    assert torn.notes == [
        f"Line {len(whole.splitlines()) + 3} is passed over: it was not written to its end."
    ]
    assert await ask(torn, first) == "one"
    with pytest.raises(ReplayDiverged):
        await ask(torn, second)

    await record(path, ["three"], [asking("c", tools=[READ])])
    again = Replaying(path)
    assert len(again.notes) == 1
    assert await ask(again, first) == "one"
    assert await ask(again, asking("c", tools=[READ])) == "three"


async def test_what_continues_a_lost_line_is_passed_over_with_a_note(path: Path) -> None:
    await record(path, ["one", "two"], [asking("a"), asking("a", Assistant(text="one"), User("b"))])
    lines = read(path).splitlines(keepends=True)
    write(path, b"".join([*lines[:3], lines[3][:10] + b"\n", *lines[4:]]))

    replay = Replaying(path)

    assert replay.notes == [
        "Line 4 is passed over: it was not written to its end.",
        "Line 5 is passed over: the conversation that it continues stands on a line that is lost.",
    ]
    with pytest.raises(ReplayDiverged, match="it holds no answers"):
        await ask(replay, asking("a"))


async def test_a_recorder_that_is_killed_leaves_what_it_was_answered(path: Path) -> None:
    code = """
import asyncio, os, signal, sys
from placet.inference.messages import User
from placet.inference.model import Request
from placet.inference.scripted import Scripted
from placet.inference.wrappers.recording import Recording
model = Recording(Scripted(lambda request: "x"), sys.argv[1])
asyncio.run(model.generate(Request(messages=[User("a")])))
os.kill(os.getpid(), signal.SIGKILL)
"""
    finished = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code, str(path)], check=False)

    assert finished.returncode == -signal.SIGKILL
    assert await ask(Replaying(path), asking("a")) == "x"


async def test_two_processes_and_two_recorders_write_whole_lines_into_one_file(path: Path) -> None:
    code = """
import asyncio, sys
from placet.inference.messages import User
from placet.inference.model import Request
from placet.inference.scripted import Scripted
from placet.inference.wrappers.recording import Recording
async def main(name, path):
    models = [Recording(Scripted(lambda request: name), path) for _ in range(2)]
    for n in range(40):
        for k, model in enumerate(models):
            await model.generate(Request(messages=[User(f"{name} {k} {n} " + "long " * 2000)]))
asyncio.run(main(*sys.argv[1:]))
"""
    started = [subprocess.Popen([sys.executable, "-c", code, name, str(path)]) for name in "ab"]  # noqa: ASYNC220
    codes = [await asyncio.to_thread(process.wait) for process in started]

    replay = Replaying(path)

    assert codes == [0, 0]
    assert replay.notes == []
    assert replay.unused == 160
    assert await ask(replay, asking("b 1 39 " + "long " * 2000)) == "b"


async def test_a_line_waits_until_another_recorder_has_written_its_own(path: Path) -> None:
    recording = Recording(Scripted(["x"]), path)
    before = read(path)
    with open(path, "rb") as other:  # noqa: ASYNC230
        fcntl.flock(other, fcntl.LOCK_EX)
        writing = Thread(target=lambda: asyncio.run(recording.generate(asking("q"))))
        writing.start()
        writing.join(0.1)

        assert read(path) == before

    writing.join()
    assert len(answers_of(path)) == 1
    await recording.close()


@pytest.mark.parametrize(
    "content", [b"my diary\n", b"{}\n", b'{"kind":"recording","version":2}\n', b"\xff\n"]
)
def test_a_file_that_is_no_recording_is_neither_written_nor_read(path: Path, content: bytes) -> None:
    path.write_bytes(content)

    with pytest.raises(InputError, match="recording"):
        Recording(Scripted([]), path)
    with pytest.raises(InputError, match="recording"):
        Replaying(path)

    assert path.read_bytes() == content


async def test_a_header_that_was_cut_short_is_written_again(path: Path) -> None:
    write(path, b'{"kind":"recor')

    await record(path, ["x"], [asking("q")])

    assert await ask(Replaying(path), asking("q")) == "x"


def test_a_path_that_cannot_be_used_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Cannot write the recording .*No such file"):
        Recording(Scripted([]), tmp_path / "none" / "x")
    with pytest.raises(InputError, match=r"Cannot read the recording .*No such file"):
        Replaying(tmp_path / "none")


def test_what_is_no_file_is_refused_and_nothing_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(InputError, match=r"Cannot write the recording .*: it is no regular file\."):
            Recording(Scripted([]), path)
        with pytest.raises(InputError, match=r"Cannot read the recording .*: it is no regular file\."):
            Replaying(path)


async def test_a_recording_is_never_larger_than_one_that_is_read(path: Path) -> None:
    await record(path, ["x"], [asking("q")])
    os.truncate(path, 2**30 - 10)
    recording = Recording(Scripted(["y"]), path)
    before = os.stat(path).st_size

    with pytest.raises(InputError, match="and may have 1,073,741,824"):
        await recording.generate(asking("q"))
    await recording.close()

    assert os.stat(path).st_size == before <= 2**30
    os.truncate(path, 2**30 + 1)
    for use in (lambda: Replaying(path), lambda: Recording(Scripted([]), path)):
        with pytest.raises(InputError, match=r"it has 1,073,741,825 bytes, and may have 1,073,741,824\."):
            use()


async def test_an_answer_that_cannot_be_written_is_an_error_and_the_next_one_is_whole(path: Path) -> None:
    recording = Recording(Scripted(["half \ud800", "x"]), path)

    with pytest.raises(InputError, match="Cannot write the recording"):
        await recording.generate(asking("a"))
    await recording.generate(asking("a", User("b")))
    await recording.close()

    assert await ask(Replaying(path), asking("a", User("b"))) == "x"


async def test_a_request_that_json_cannot_carry_is_not_asked(path: Path) -> None:
    inside = Scripted(["never"])
    recording = Recording(inside, path)

    with pytest.raises(RequestRefused, match="message 2 holds what JSON cannot carry"):
        await recording.generate(asking("fine", User("half \ud800")))
    await recording.close()

    assert inside.requests == []


async def test_a_recording_of_an_older_shape_is_still_found(path: Path) -> None:
    """A message, a tool or a setting may have got a field since: absent, it has its default."""
    await record(path, ["x"], [asking(Assistant(text="a"), tools=[READ])])
    older = []
    for line in lines_of(path):
        match line["kind"]:
            case "tools":
                line["tools"][0]["more"] = 1
            case "settings":
                del line["settings"]["thinking"]
            case "answer":
                del line["messages"][0]["carried"]
        older.append(json.dumps(line))
    write(path, "".join(f"{line}\n" for line in older).encode())

    assert await ask(Replaying(path), asking(Assistant(text="a"), tools=[READ])) == "x"
