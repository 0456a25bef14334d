"""A model behind HTTP, against a server that does what servers do."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from threading import Barrier, Thread
from typing import Any

import msgspec
import pytest

from assent.errors import (
    AnswerUnreadable,
    ContextTooLong,
    KeyRefused,
    ModelError,
    ModelMissing,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
    RequestRefused,
)
from assent.inference import http
from assent.inference.http import HttpModel
from assent.inference.messages import Assistant, ToolCall, ToolResult, User
from assent.inference.model import Piece, Request, Result, Words
from assent.inference.providers import PROVIDERS, Endpoint
from assent.inference.usage import Price, Usage
from assent.inference.wire.openai import OpenAiChat
from assent.ir.tool_spec import ToolSchema
from tests.inference.wire_server import Answer, Seen, WireServer, events, reply

KEY = "sk-proj-abcdefghijklmnop"
REQUEST = Request(messages=[User("hello")])
HI = {"model": "m-1", "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}
PRICED = {**HI, "usage": {"prompt_tokens": 1_000_000, "completion_tokens": 1}}


def event(delta: object = None, finish: str | None = None) -> bytes:
    chunk = {"model": "m-1", "choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}]}
    return f"data: {json.dumps(chunk)}\n\n".encode()


HEL, LO, END = event({"content": "Hel"}), event({"content": "lo"}), event(finish="stop") + b"data: [DONE]\n\n"


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer() as server:
        yield server


@pytest.fixture
async def model(server: WireServer) -> AsyncIterator[HttpModel]:
    made = model_at(server.url)
    yield made
    await made.close()


def model_at(url: str, key: str | None = KEY, **more: Any) -> HttpModel:
    place = Endpoint(provider=PROVIDERS["openai"], model="m", url=url, key=key)
    return HttpModel(place, OpenAiChat(), **more)


async def pieces_of(model: HttpModel, request: Request = REQUEST) -> list[Piece]:
    return [each async for each in model.stream(request)]


async def both(model: HttpModel) -> AsyncIterator[ModelError]:
    """The errors of a request, and of a stream."""
    for ask in (model.generate, lambda request: pieces_of(model, request)):
        with pytest.raises(ModelError) as caught:
            await ask(REQUEST)
        assert KEY not in str(caught.value)
        yield caught.value


async def test_a_request_goes_to_its_place_with_its_key(server: WireServer, model: HttpModel) -> None:
    server.answers(reply(HI))

    result = await model.generate(REQUEST)

    [seen] = server.seen
    assert (seen.method, seen.path, seen.query) == ("POST", "/chat/completions", {})
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.headers["content-type"] == "application/json"
    assert seen.json["messages"] == [{"role": "user", "content": "hello"}]
    assert (result.text, result.model) == ("hi", "m-1")
    assert result.latency_ms > 0
    assert model.name == "openai:m"


async def test_a_stream_ends_with_the_result_of_the_whole(server: WireServer, model: HttpModel) -> None:
    server.answers(events(HEL[:20], HEL[20:] + LO, END))

    *pieces, result = await pieces_of(model)

    assert pieces == [Words("Hel"), Words("lo")]
    assert isinstance(result, Result)
    assert msgspec.structs.replace(result, latency_ms=0) == Result(text="Hello", model="m-1")


async def test_connections_are_used_again(server: WireServer, model: HttpModel) -> None:
    server.answers(reply(HI), events(HEL, END), reply({"error": {}}, 500), reply(HI))

    await model.generate(REQUEST)
    await pieces_of(model)
    with pytest.raises(ModelUnavailable):
        await model.generate(REQUEST)
    await model.generate(REQUEST)

    assert (len(server.seen), server.connections) == (4, 1)


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "text/html"])
async def test_an_answer_in_one_piece_is_a_stream_too(
    server: WireServer, model: HttpModel, kind: str
) -> None:
    server.answers(Answer(headers={"content-type": kind}, chunks=[json.dumps(HI).encode()]))

    *pieces, result = await pieces_of(model)

    assert pieces == [Words("hi")]
    assert isinstance(result, Result)
    assert result.text == "hi"


async def test_events_are_read_whatever_they_are_said_to_be(server: WireServer, model: HttpModel) -> None:
    server.answers(Answer(chunks=[HEL, LO, END]))

    assert (await pieces_of(model))[:-1] == [Words("Hel"), Words("lo")]


async def test_a_price_makes_a_cost_unless_the_server_says_one(server: WireServer) -> None:
    priced = model_at(server.url, price=Price(input=2.0, output=0.0))
    said = {**PRICED, "usage": {**PRICED["usage"], "cost": 7}}  # type: ignore[dict-item]
    server.answers(reply(PRICED), reply(said), reply(HI))

    results = [await priced.generate(REQUEST) for _ in range(3)]

    assert [each.cost for each in results] == [2.0, 7, None]
    assert results[0].usage == Usage(input=1_000_000, output=1)
    await priced.close()


async def test_a_stream_that_is_closed_closes_its_connection(server: WireServer, model: HttpModel) -> None:
    server.answers(events(HEL, stall=True))

    async with aclosing(model.stream(REQUEST)) as pieces:
        assert await anext(pieces) == Words("Hel")

    assert await asyncio.to_thread(server.wait_left)


async def test_a_task_that_is_cancelled_closes_its_connection(server: WireServer, model: HttpModel) -> None:
    for stall in (events(HEL, stall=True), Answer(chunks=[b"{"], stall=True)):
        server.left.clear()
        server.answers(stall)
        arrived = len(server.seen)
        task = asyncio.create_task(pieces_of(model) if stall.headers else model.generate(REQUEST))
        assert await asyncio.to_thread(server.wait_seen, arrived + 1)

        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert await asyncio.to_thread(server.wait_left)


async def test_a_stream_that_is_cut_is_no_answer(server: WireServer, model: HttpModel) -> None:
    server.answers(events(HEL, LO, cut=True))

    seen: list[Piece] = []
    with pytest.raises(ModelUnavailable, match="hung up"):
        async for piece in model.stream(REQUEST):
            seen.append(piece)

    assert seen == [Words("Hel"), Words("lo")]
    server.answers(Answer(chunks=[b'{"choices"'], cut=True))
    with pytest.raises(ModelUnavailable, match="hung up"):
        await model.generate(REQUEST)


async def test_a_stream_that_ends_too_early_is_no_answer(server: WireServer, model: HttpModel) -> None:
    server.answers(events(HEL, LO))

    with pytest.raises(AnswerUnreadable, match="broke off before its end"):
        await pieces_of(model)


async def test_a_server_that_falls_silent_is_given_up(server: WireServer) -> None:
    begun = model_at(server.url, between_s=0.05)
    never = model_at(server.url, total_s=0.05)
    server.answers(events(HEL, stall=True))

    with pytest.raises(ModelTimeout, match=r"sent nothing for 0\.05 s"):
        await pieces_of(begun)
    assert await asyncio.to_thread(server.wait_left)
    server.answers(events(stall=True))
    with pytest.raises(ModelTimeout, match=r"sent nothing for 0\.05 s"):
        await pieces_of(never)

    await begun.close()
    await never.close()


async def test_a_server_that_says_it_is_done_and_stays_is_not_waited_for(
    server: WireServer, model: HttpModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "AFTER_S", 0.05)
    server.answers(events(HEL, LO, END, stall=True))

    *_, result = await pieces_of(model)

    assert isinstance(result, Result)
    assert result.text == "Hello"
    assert await asyncio.to_thread(server.wait_left)


async def test_nobody_there_is_said_with_what_to_do() -> None:
    with WireServer() as gone:
        url = gone.url
    model = model_at(url)

    async for error in both(model):
        assert isinstance(error, ModelUnavailable)
        assert f"openai ({url}) cannot be reached" in str(error)
        assert "set OPENAI_BASE_URL to where it listens" in str(error)
    await model.close()


async def test_a_redirect_is_not_followed_and_takes_no_key(server: WireServer, model: HttpModel) -> None:
    with WireServer() as other:
        server.answers(Answer(status=307, headers={"location": f"{other.url}/x"}))

        async for error in both(model):
            assert isinstance(error, RequestRefused)
            assert f"it redirects to {other.url}/x" in str(error)

        assert other.seen == []


async def test_refusals_become_errors(server: WireServer, model: HttpModel) -> None:
    for answer, kind in (
        (reply({"error": {"message": f"not {KEY}"}}, 401), KeyRefused),
        (reply({"error": {"code": "context_length_exceeded"}}, 400), ContextTooLong),
        (Answer(status=502, chunks=[b"<html>\x1b[2J bad gateway"]), ModelUnavailable),
        (reply({"error": {"message": "it broke"}}), ModelUnavailable),
    ):
        server.answers(answer)
        async for error in both(model):
            assert type(error) is kind
            assert str(error).isprintable()


async def test_a_server_says_when_and_whether_to_come_again(server: WireServer, model: HttpModel) -> None:
    server.answers(
        reply({}, 429, retry_after="7"),
        reply({}, 503, x_should_retry="false"),
        reply({}, 400, x_should_retry="true"),
    )

    with pytest.raises(RateLimited) as rate:
        await model.generate(REQUEST)
    with pytest.raises(ModelUnavailable) as unavailable:
        await model.generate(REQUEST)
    with pytest.raises(RequestRefused) as refused:
        await model.generate(REQUEST)

    assert (rate.value.retry_after_s, rate.value.may_pass, rate.value.status) == (7.0, True, 429)
    assert unavailable.value.may_pass is False
    assert refused.value.may_pass is True


async def test_an_error_in_the_middle_of_a_stream_is_one(server: WireServer, model: HttpModel) -> None:
    server.answers(events(HEL, b'data: {"error": {"message": "overloaded", "code": 502}}\n\n'))

    with pytest.raises(ModelUnavailable, match="overloaded"):
        await pieces_of(model)


@pytest.mark.parametrize(
    "body", [b"", b"no JSON", b"[]", b'{"a": 1, "a": 2}', b"\xff", b"[" * 1000, b'{"choices": []}']
)
async def test_what_is_no_answer_is_unreadable(server: WireServer, model: HttpModel, body: bytes) -> None:
    server.answers(Answer(headers={"content-type": "application/json"}, chunks=[body]))

    async for error in both(model):
        assert isinstance(error, AnswerUnreadable)
        assert "speaks the format 'openai'" in str(error)


async def test_an_answer_without_end_is_refused(
    server: WireServer, model: HttpModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MOST_BYTES", 10_000)
    bomb = Answer(
        headers={"content-type": "application/json", "content-encoding": "gzip"},
        chunks=[gzip.compress(b" " * 1_000_000)],
    )

    for endless in (Answer(chunks=[b"x" * 20_000], stall=True), bomb, events(*[HEL] * 200, stall=True)):
        server.answers(endless)
        async for error in both(model):
            assert isinstance(error, AnswerUnreadable)
            assert "longer than 10000 bytes" in str(error)


async def test_packed_answers_are_read(server: WireServer, model: HttpModel) -> None:
    packed = gzip.compress(json.dumps(HI).encode())
    server.answers(
        Answer(headers={"content-type": "application/json", "content-encoding": "gzip"}, chunks=[packed])
    )

    assert (await model.generate(REQUEST)).text == "hi"
    assert server.seen[0].headers["accept-encoding"] == "gzip"
    assert (await pieces_of(model))[0] == Words("hi")
    assert server.seen[1].headers["accept-encoding"] == "identity"


def refuses(name: str) -> Any:
    """A server that does not take a parameter, and says so."""

    def answer(seen: Seen) -> Answer:
        error = {"message": "no", "code": "unsupported_parameter", "param": name}
        return reply({"error": error}, 400) if name in seen.json else reply(HI)

    return answer


@pytest.mark.parametrize("name", ["temperature", "stop"])
async def test_a_parameter_that_is_not_taken_is_left_out_from_then_on(
    server: WireServer, model: HttpModel, name: str
) -> None:
    server.answers(refuses(name))
    request = Request(messages=[User("hello")], stop=["END"])

    assert (await model.generate(request)).text == "hi"
    assert (await model.generate(request)).text == "hi"

    assert [name in each.json for each in server.seen] == [True, False, False]


async def test_the_other_name_of_a_limit_is_tried_once(server: WireServer, model: HttpModel) -> None:
    request = Request(messages=[User("hello")], max_tokens=5)
    server.answers(refuses("max_completion_tokens"))

    await model.generate(request)

    assert [each.json.get("max_tokens") for each in server.seen] == [None, 5]
    server.answers(refuses("max_tokens"))
    with pytest.raises(RequestRefused):
        await model.generate(request)
    assert len(server.seen) == 3


async def test_a_parameter_that_matters_is_not_left_out(server: WireServer, model: HttpModel) -> None:
    server.answers(refuses("response_format"))

    with pytest.raises(RequestRefused, match="does not take a parameter"):
        await model.generate(Request(messages=[User("hello")], schema={"type": "object"}))
    assert len(server.seen) == 1


async def test_tools_have_names_that_providers_take(server: WireServer, model: HttpModel) -> None:
    odd = ["files.read", "files/read", "files_read", "9lives", "x" * 100, "grüße"]
    request = Request(
        messages=[
            User("hello"),
            Assistant(calls=[ToolCall(id="1", name="old.tool"), ToolCall(id="2", name="")]),
            ToolResult(call_id="1", name="old.tool", text="x"),
        ],
        tools=[ToolSchema(name=each) for each in odd],
    )

    def calls_all(seen: Seen) -> Answer:
        names = [each["function"]["name"] for each in seen.json["tools"]] + ["unknown.tool"]
        calls = [{"id": n, "function": {"name": n, "arguments": "{}"}} for n in names]
        return reply({"choices": [{"message": {"tool_calls": calls}, "finish_reason": "tool_calls"}]})

    server.answers(calls_all)

    result = await model.generate(request)

    sent = [each["function"]["name"] for each in server.seen[0].json["tools"]]
    assert len(set(sent)) == len(odd)
    assert all(each.replace("-", "_").isidentifier() and each.isascii() and len(each) <= 64 for each in sent)
    assert sent[2] == "files_read"
    assert server.seen[0].json["messages"][1]["tool_calls"][0]["function"]["name"] == "old_tool"
    assert [each.name for each in result.calls] == [*odd, "unknown.tool"]


async def test_what_json_cannot_hold_is_not_sent(server: WireServer, model: HttpModel) -> None:
    with pytest.raises(RequestRefused, match="cannot be written as JSON"):
        await model.generate(Request(messages=[User("half a pair: \ud83d")]))
    assert server.seen == []


async def test_no_proxy_is_asked_for_what_listens_here(
    server: WireServer, model: HttpModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
        monkeypatch.setenv(name.lower(), "http://127.0.0.1:1")
    server.answers(reply(HI))

    assert (await model.generate(REQUEST)).text == "hi"


async def test_a_proxy_that_makes_no_sense_is_an_error_with_words(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "nonsense://me:hunter2@x")
    model = model_at("https://nowhere.invalid")

    with pytest.raises(ModelUnavailable, match="Check HTTPS_PROXY") as caught:
        await model.generate(REQUEST)
    assert "hunter2" not in str(caught.value)


def test_a_model_outlives_an_event_loop(server: WireServer) -> None:
    server.answers(reply(HI))
    model = model_at(server.url)

    async def ask() -> str:
        result = await model.generate(REQUEST)
        await model.close()
        return result.text

    assert [asyncio.run(ask()), asyncio.run(ask())] == ["hi", "hi"]


def test_two_event_loops_at_once_do_not_break_each_other(server: WireServer) -> None:
    server.answers(events(HEL, LO, END))
    model = model_at(server.url)
    met = Barrier(2, timeout=60)
    texts: list[str] = []

    async def ask() -> None:
        for _ in range(5):
            await asyncio.to_thread(met.wait)
            texts.extend(each.text for each in await pieces_of(model) if isinstance(each, Result))
        await asyncio.to_thread(met.wait)
        # One closes all; the other closes what is left, which may be nothing.
        await model.close()
        await asyncio.to_thread(met.wait)

    threads = [Thread(target=lambda: asyncio.run(ask())) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)

    assert texts == ["Hello"] * 10
    assert server.connections == 2


async def test_vectors_are_asked_for_in_turn_and_come_in_order(
    server: WireServer, model: HttpModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MOST_TEXTS", 2)

    def answer(seen: Seen) -> Answer:
        data = [
            {"index": place, "embedding": [0.0, 2.0] if text == "b" else [2.0, 0.0]}
            for place, text in enumerate(seen.json["input"])
        ]
        return reply({"data": data[::-1]})

    server.answers(answer)

    assert await model.embed(["a", "b", "b"]) == [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    assert [(each.path, each.json) for each in server.seen] == [
        ("/embeddings", {"model": "m", "input": ["a", "b"]}),
        ("/embeddings", {"model": "m", "input": ["b"]}),
    ]
    assert await model.embed([]) == []


async def test_vectors_can_be_refused(server: WireServer, model: HttpModel) -> None:
    server.answers(reply({}, 429, retry_after="1"), reply({"data": []}))

    with pytest.raises(RateLimited):
        await model.embed(["a"])
    with pytest.raises(AnswerUnreadable, match="does not hold 1 vectors"):
        await model.embed(["a"])


async def test_a_format_without_vectors_says_so(server: WireServer) -> None:
    class Other:
        name = "other"

    place = Endpoint(provider=PROVIDERS["anthropic"], model="m", url=server.url, key=KEY)

    with pytest.raises(ModelMissing, match="not asked for in the format 'other'"):
        await HttpModel(place, Other()).embed(["a"])  # type: ignore[arg-type]
