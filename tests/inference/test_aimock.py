"""All three formats against a server that somebody else wrote, and its streams cut at every place."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import httpx2
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import AnswerUnreadable, ModelError, ModelUnavailable, RateLimited
from placet.inference.http import HttpModel
from placet.inference.messages import Image, System, Text, ToolResult, User
from placet.inference.model import Piece, Request, Result, Thought, Words
from placet.inference.providers import PROVIDERS, Endpoint
from placet.inference.sse import EventDecoder
from placet.inference.wire.anthropic import AnthropicMessages
from placet.inference.wire.format import Unreadable, WireFormat
from placet.inference.wire.gemini import GeminiContent
from placet.inference.wire.openai import OpenAiChat
from placet.ir.tool_spec import ToolSchema
from tests.properties.effort import UNHURRIED, examples
from tests.servers.aimock import PACKAGE, PACKAGES, Aimock
from tests.servers.npm import ROOT, NpmPackages, PackagesMissing

FORMATS: dict[str, tuple[WireFormat, str]] = {
    "openai": (OpenAiChat(), "/v1"),
    "anthropic": (AnthropicMessages(), ""),
    "gemini": (GeminiContent(), ""),
}
"""With what the URL of each ends in."""

CALLS = {"openai": "calls", "anthropic": "calls", "gemini": "calls"}
"""Why it stops at a call. This server then tells a reason that Gemini does not have."""

TEXT = "Grüße, 世界! 🎉 " * 8
LONG = "A very long answer. " * 15_000
TOLD = {
    **{"prompt_tokens": 11, "input_tokens": 11, "promptTokenCount": 11},
    **{"completion_tokens": 3, "output_tokens": 3, "candidatesTokenCount": 3},
}
ADD = {"name": "add", "arguments": '{"a": 1, "b": ["ü", null]}', "id": "call_add"}
FIXTURES: list[dict[str, Any]] = [
    {"match": {"userMessage": "say text"}, "response": {"content": TEXT, "usage": TOLD}},
    {
        "match": {"userMessage": "think"},
        "response": {"content": TEXT, "reasoning": "hm, " * 9, "usage": TOLD},
    },
    {"match": {"userMessage": "add", "hasToolResult": True}, "response": {"content": "two"}},
    {"match": {"userMessage": "add"}, "response": {"toolCalls": [ADD], "usage": TOLD}},
    {
        "match": {"userMessage": "both"},
        "response": {
            "content": "I will.",
            "toolCalls": [ADD, {"name": "nobody_knows", "arguments": "{}", "id": "call_2"}],
            "usage": TOLD,
        },
    },
    {"match": {"userMessage": "malformed"}, "response": {"toolCalls": [{**ADD, "arguments": '{"a": '}]}},
    {"match": {"userMessage": "nothing"}, "response": {"content": ""}},
    {"match": {"userMessage": "very long"}, "response": {"content": LONG}, "chunkSize": 500},
    {"match": {"userMessage": "no room"}, "response": {"content": "It is", "finishReason": "length"}},
    # Between two pieces it waits a moment, so that the first of them are on their way when it hangs up.
    {"match": {"userMessage": "cut"}, "response": {"content": TEXT}, "truncateAfterChunks": 4, "latency": 10},
    {
        "match": {"userMessage": "too often"},
        "response": {
            "error": {"message": "slow down", "type": "rate_limit_error"},
            "status": 429,
            "retryAfter": 7,
        },
    },
    {"match": {"endpoint": "embedding"}, "response": {"embedding": [3, 4]}},
    {
        "match": {"userMessage": "broken"},
        "response": {"error": {"message": "it broke", "type": "server_error"}, "status": 500},
    },
]
TOOLS = (
    ToolSchema(
        name="add",
        description="Adds.",
        parameters={"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "array"}}},
    ),
)
RECORDED = ("say text", "think", "add", "both", "malformed", "nothing", "no room")


@pytest.fixture(scope="module")
def server() -> Iterator[Aimock]:
    with Aimock(FIXTURES, chunk_size=7) as server:
        yield server


def endpoint(server: Aimock, name: str) -> Endpoint:
    provider = PROVIDERS[name]
    return Endpoint(provider=provider, model="m", url=server.url + FORMATS[name][1], key="some-key-1234")


@pytest.fixture(params=list(FORMATS))
async def model(server: Aimock, request: pytest.FixtureRequest) -> AsyncIterator[HttpModel]:
    """The same server, once in each format."""
    made = HttpModel(endpoint(server, request.param), FORMATS[request.param][0])
    yield made
    await made.close()


def asked(text: str) -> Request:
    return Request(messages=[System("be brief"), User(text)], tools=TOOLS, max_tokens=1000)


async def both(model: HttpModel, request: Request) -> Result:
    """The answer, asked for in both ways, which have to agree; ids that the server made up are left out."""
    whole = await model.generate(request)
    *pieces, streamed = [each async for each in model.stream(request)]
    assert isinstance(streamed, Result)
    assert "".join(each.text for each in pieces if isinstance(each, Words)) == streamed.text
    assert "".join(each.text for each in pieces if isinstance(each, Thought)) == streamed.reasoning
    assert told(streamed) == told(whole)
    return streamed


def told(result: Result) -> Result:
    # Where nothing is said of it, this server guesses how much it took, in one way and not in the other.
    return msgspec.structs.replace(result, latency_ms=0, usage=None, carried=None)


async def test_a_text(model: HttpModel) -> None:
    result = await both(model, asked("say text"))

    assert (result.text, result.stop, result.calls) == (TEXT, "end", ())


async def test_what_it_took_is_told_in_both_ways(model: HttpModel) -> None:
    whole = await model.generate(asked("say text"))
    streamed = await both(model, asked("say text"))

    for each in (whole.usage, streamed.usage):
        assert each is not None
        assert (each.input, each.output) == (11, 3)


async def test_thoughts_are_apart(model: HttpModel) -> None:
    result = await both(model, asked("think"))

    assert (result.text, result.reasoning) == (TEXT, "hm, " * 9)


async def test_a_call_and_what_comes_of_it(model: HttpModel) -> None:
    request = asked("please add")

    result = await both(model, request)

    [call] = result.calls
    assert (call.name, call.arguments, call.problem) == ("add", {"a": 1, "b": ["ü", None]}, "")
    assert (result.stop, result.text) == (CALLS[model.endpoint.provider.name], "")
    done = ToolResult(call_id=call.id, name=call.name, text="2")
    after = msgspec.structs.replace(request, messages=[*request.messages, result.message, done])
    assert (await both(model, after)).text == "two"


async def test_a_tool_that_nobody_has_is_passed_on_as_it_is(model: HttpModel) -> None:
    result = await both(model, asked("both"))

    assert [each.name for each in result.calls] == ["add", "nobody_knows"]
    assert result.text == "I will."
    assert result.stop == CALLS[model.endpoint.provider.name]


async def test_arguments_that_are_no_json_are_kept_with_the_problem(model: HttpModel) -> None:
    result = await both(model, asked("malformed"))

    [call] = result.calls
    assert call.arguments == {}
    # In the other formats the server sends an object instead, as it does when they come in one piece.
    if model.endpoint.provider.format == "openai":
        assert call.problem.startswith("the arguments are no JSON")
        assert call.raw == '{"a": '


async def test_an_empty_answer_is_an_answer(model: HttpModel) -> None:
    result = await both(model, asked("nothing"))

    assert (result.text, result.calls, result.stop) == ("", (), "end")


async def test_a_very_long_answer_is_whole(model: HttpModel) -> None:
    assert (await both(model, asked("very long"))).text == LONG


async def test_an_answer_without_room_says_so(model: HttpModel) -> None:
    assert (await both(model, asked("no room"))).stop == "length"


async def test_a_picture_is_taken(model: HttpModel) -> None:
    picture = User([Text("say text"), Image(data=b"\x89PNG\r\n", type="image/png")])

    assert (await both(model, Request(messages=[picture]))).text == TEXT


async def test_too_many_requests_say_when_to_come_again(model: HttpModel) -> None:
    for ask in (model.generate, lambda request: drained(model, request)):
        with pytest.raises(RateLimited, match="slow down") as caught:
            await ask(asked("too often"))
        assert (caught.value.retry_after_s, caught.value.status) == (7.0, 429)


async def test_a_server_that_fails_may_be_asked_again(model: HttpModel) -> None:
    for ask in (model.generate, lambda request: drained(model, request)):
        with pytest.raises(ModelUnavailable, match="it broke") as caught:
            await ask(asked("broken"))
        assert caught.value.may_pass


async def test_a_stream_that_is_cut_is_no_answer(model: HttpModel) -> None:
    seen: list[Piece] = []

    with pytest.raises((ModelUnavailable, AnswerUnreadable)):
        async for piece in model.stream(asked("cut")):
            seen.append(piece)

    assert all(isinstance(each, Words) for each in seen)
    assert TEXT.startswith("".join(each.text for each in seen if isinstance(each, Words)))


async def test_a_question_without_an_answer_is_an_error(model: HttpModel) -> None:
    with pytest.raises(ModelError):
        await model.generate(asked("what no fixture knows"))


async def drained(model: HttpModel, request: Request) -> None:
    async for _ in model.stream(request):
        pass


async def test_vectors_of_a_server_that_nobody_here_wrote(server: Aimock) -> None:
    model = HttpModel(endpoint(server, "openai"), OpenAiChat())

    vectors = await model.embed(["a", "b", "a"])
    await model.close()

    assert vectors == [[0.6, 0.8]] * 3


class Recording(NamedTuple):
    """A stream as it came over the wire."""

    format: str
    question: str
    data: bytes


@pytest.fixture(scope="module")
def recordings(server: Aimock) -> list[Recording]:
    """Every kind of answer, in every format."""
    return [
        Recording(name, question, recorded(endpoint(server, name), FORMATS[name][0], question))
        for name in FORMATS
        for question in RECORDED
    ]


def recorded(place: Endpoint, wire: WireFormat, question: str) -> bytes:
    call = wire.call(asked(question), place.model, place.key, place.provider.dialect, stream=True)
    answer = httpx2.post(
        place.url + call.path,
        params=dict(call.query),
        headers=dict(call.headers),
        json=call.body,
        trust_env=False,
        timeout=60,
    )
    assert answer.status_code == 200
    return answer.content


def read(format: str, chunks: list[bytes]) -> tuple[list[Words | Thought], Result]:
    decoder, reader = EventDecoder(), FORMATS[format][0].reader()
    events = [event for chunk in chunks for event in decoder.feed(chunk)] + list(decoder.finish())
    return [piece for event in events for piece in reader.feed(event)], reader.result()


@UNHURRIED
@examples(700, shrink=False)
@given(data=st.data())
def test_where_a_stream_is_cut_does_not_matter(recordings: list[Recording], data: st.DataObject) -> None:
    found = data.draw(st.sampled_from(recordings))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(found.data)), max_size=20)))
    chunks = [found.data[a:b] for a, b in zip([0, *cuts], [*cuts, len(found.data)], strict=True)]

    assert read(found.format, chunks) == read(found.format, [found.data])


def test_a_stream_may_come_byte_by_byte(recordings: list[Recording]) -> None:
    assert len(recordings) == len(FORMATS) * len(RECORDED)
    for found in recordings:
        pieces, result = read(found.format, [bytes([each]) for each in found.data])
        assert (pieces, result) == read(found.format, [found.data])
        if found.question in ("say text", "think"):
            assert result.text == TEXT
            assert result.usage is not None


def test_a_stream_that_lost_its_end_is_never_a_result(recordings: list[Recording]) -> None:
    """Cut off before the event that ends it, at any event, the answer is refused and not shortened."""
    for found in recordings:
        parts = found.data.split(b"\n\n")
        for kept in range(len(parts) - 1):
            whole = b"\n\n".join(parts[:kept]) + b"\n\n"
            try:
                _, result = read(found.format, [whole])
            except Unreadable:
                continue
            # What is left out then says only how much it took, or that nothing follows.
            assert told(result) == told(read(found.format, [found.data])[1])


def test_it_is_gone_with_whoever_started_it() -> None:
    code = (
        "import time; from tests.servers.aimock import Aimock; a = Aimock([]); "
        "print(a.url, flush=True); time.sleep(600)"
    )
    starter = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    url = starter.stdout.readline().strip()
    assert httpx2.get(f"{url}/health", trust_env=False).status_code == 200

    starter.kill()
    starter.wait()
    starter.stdout.close()

    asyncio.run(gone(url))


async def gone(url: str) -> None:
    """Return when nobody listens there any more."""
    async with asyncio.timeout(60), httpx2.AsyncClient(trust_env=False) as client:
        while True:
            try:
                await client.get(f"{url}/health")
            except httpx2.TransportError:
                return
            await asyncio.sleep(0.02)


def test_without_npm_the_error_says_what_to_install(tmp_path: Any) -> None:
    packages = NpmPackages("the server", pins=PACKAGES.pins, cache=tmp_path, command="python -m this")

    with pytest.raises(PackagesMissing, match=r"install Node 20 or newer, .* then: python -m this"):
        packages.modules(npm="/nowhere/npm")
    assert PACKAGES.version(PACKAGE) == "1.43.0"
    assert '"resolved"' not in (PACKAGES.pins / "package-lock.json").read_text()
