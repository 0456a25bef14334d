"""A model that says what was written for it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from placet import Assistant, Runtime, tool
from placet.errors import DecodeError, InputError, RateLimited, RequestRefused, UsageError
from placet.inference.messages import Message, ToolCall, User
from placet.inference.model import Piece, Request, Result, Thought, Words, stream
from placet.inference.scripted import Scripted
from placet.inference.usage import Usage


def asking(text: str = "Hello") -> Request:
    return Request(messages=[User(text)])


@tool(risk="read_only")
def look() -> str:
    """Look at the clock."""
    return "23:00"


async def all_of(model: Scripted, request: Request) -> list[Piece]:
    return [piece async for piece in stream(model, request)]


async def test_turns_are_answered_in_order_whatever_they_are() -> None:
    whole = Result(text="whole", usage=Usage(input=3, output=1), model="somebody")
    wants = ToolCall(name="read", arguments={"path": "a"})
    model = Scripted(["words", wants, [wants, ToolCall(id="mine", name="list")], whole])

    answers = [await model.generate(asking(str(n))) for n in range(4)]

    assert answers[0] == Result(text="words", model="scripted")
    assert answers[1].stop == "calls"
    assert [call.id for call in answers[1].calls] == ["call_1"]
    assert [call.id for call in answers[2].calls] == ["call_2", "mine"]
    assert answers[3] == whole
    assert [request.messages[0] for request in model.requests] == [User(str(n)) for n in range(4)]


async def test_usage_is_unknown_unless_it_is_given() -> None:
    assert (await Scripted(["x"]).generate(asking())).usage is None


async def test_an_exception_is_raised_and_the_next_turn_follows() -> None:
    model = Scripted([RateLimited("slowly"), "now"])

    with pytest.raises(RateLimited, match="slowly"):
        await model.generate(asking())

    assert (await model.generate(asking())).text == "now"


async def test_a_function_makes_the_turn_of_the_request() -> None:
    def echo(request: Request) -> str:
        message = request.messages[-1]
        assert isinstance(message, User)
        return f"You said {message.content}"

    async def later(request: Request) -> str:
        await asyncio.sleep(0)
        return echo(request)

    assert (await Scripted(echo).generate(asking("a"))).text == "You said a"
    assert (await Scripted(later).generate(asking("b"))).text == "You said b"


async def test_a_used_up_script_says_how_many_turns_it_had() -> None:
    model = Scripted(["one"], name="scripted:demo")
    await model.generate(asking())

    with pytest.raises(RequestRefused, match=r"'scripted:demo' has 1 turn, and this is request 2"):
        await model.generate(asking())


async def test_requests_at_once_get_a_turn_each() -> None:
    model = Scripted([str(n) for n in range(20)])

    answers = await asyncio.gather(*(model.generate(asking()) for _ in range(20)))

    assert sorted(int(answer.text) for answer in answers) == list(range(20))


async def test_a_stream_hands_out_small_pieces_and_then_the_whole() -> None:
    text = "A sentence of several words, and then some more."
    model = Scripted([Result(text=text, reasoning="Let me think about that.", model="m")])

    *parts, last = await all_of(model, asking())

    assert "".join(piece.text for piece in parts if isinstance(piece, Words)) == text
    assert "".join(piece.text for piece in parts if isinstance(piece, Thought)) == "Let me think about that."
    assert len(parts) > 5
    assert last == Result(text=text, reasoning="Let me think about that.", model="m")


async def test_a_long_text_comes_in_a_bounded_number_of_pieces() -> None:
    pieces = await all_of(Scripted(["x" * 100_000]), asking())

    assert len(pieces) <= 65


def test_a_turn_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="Turn 2 of the script is a int"):
        Scripted(["fine", 3])  # type: ignore[list-item]


async def test_a_function_that_makes_no_turn_is_told_so() -> None:
    with pytest.raises(UsageError, match="Turn 1 of the script is a NoneType"):
        await Scripted(lambda request: None).generate(asking())  # type: ignore[arg-type, return-value]


async def test_a_script_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "script.json"
    file.write_text(
        '{"turns": ["text", {"text": "both", "calls": [{"name": "read", "arguments": {"path": "a"}}]},'
        ' {"text": "done", "usage": {"input": 5, "output": 2}}]}'
    )
    model = Scripted.from_file(file)

    answers = [await model.generate(asking()) for _ in range(3)]

    assert model.name == f"scripted:{file}"
    assert answers[0].text == "text"
    assert list(answers[1].calls) == [ToolCall(id="call_1", name="read", arguments={"path": "a"})]
    assert (answers[1].text, answers[1].stop) == ("both", "calls")
    assert answers[2].usage == Usage(input=5, output=2)


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ('{"turns": [', "line 1, column"),
        ('{"turns": ["a", 3]}', r"\$\.turns\[1\]"),
        ('{"turns": [{"calls": [{"arguments": {}}]}]}', r"\$\.turns\[0\]\.calls\[0\]"),
        ('{"turns": [{"txt": "a"}]}', r"\$\.turns\[0\]"),
        ('{"turns": ["a"], "turns": []}', "line 1, column"),
        ("[]", r"\$"),
    ],
)
def test_a_file_that_is_no_script_is_refused_with_the_place(
    tmp_path: Path, document: str, place: str
) -> None:
    file = tmp_path / "script.json"
    file.write_text(document)

    with pytest.raises(DecodeError, match=rf"Cannot read the script .*script\.json: .*, at {place}"):
        Scripted.from_file(file)


def test_what_is_no_file_is_refused_and_nothing_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(InputError, match=r"Cannot read the script .*: it is no regular file\."):
            Scripted.from_file(path)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "script.json"
    file.write_text('{"turns": ["a"]}')
    os.truncate(file, 16 * 2**20 + 1)

    with pytest.raises(InputError, match=r"it has 16,777,217 bytes, and may have 16,777,216\."):
        Scripted.from_file(file)


def test_a_file_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        Scripted.from_file(tmp_path / "none.json")


async def test_a_request_that_is_kept_shows_what_was_said_until_then() -> None:
    model = Scripted([ToolCall(name="look"), "It is late."])

    await Assistant(Runtime(tools=[look]), model, posture="full_access").run("Is it late?")

    first, second = (request.messages for request in model.requests)
    assert [type(message).__name__ for message in first] == ["System", "User"]
    assert [type(message).__name__ for message in second] == ["System", "User", "Assistant", "ToolResult"]


async def test_a_request_is_kept_as_it_is_but_for_the_list() -> None:
    messages: list[Message] = [User("Hello")]
    model = Scripted(["Good morning."])
    request = Request(messages=messages, max_tokens=5)

    await model.generate(request)
    messages.append(User("Still there?"))

    assert model.requests == [Request(messages=[User("Hello")], max_tokens=5)]
