"""A model behind HTTP, against a server that does what servers do."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import struct
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from threading import Barrier, Thread, current_thread
from threading import Event as ThreadEvent
from traceback import TracebackException
from typing import Any

import msgspec
import pytest

from placet.errors import (
    AnswerUnreadable,
    ContextTooLong,
    KeyRefused,
    ModelError,
    ModelMissing,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
    RequestRefused,
    UnknownModel,
)
from placet.inference import http
from placet.inference.http import HttpModel
from placet.inference.messages import Assistant, ToolCall, ToolResult, User
from placet.inference.model import Piece, Request, Result, Thought, Words
from placet.inference.providers import PROVIDERS, Endpoint
from placet.inference.usage import Price, Usage
from placet.inference.wire.openai import OpenAiChat
from placet.ir.tool_spec import ToolSchema
from tests.inference.wire_server import LIMIT_S, Answer, Seen, WireServer, events, reply

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


@pytest.mark.parametrize(
    ("provider", "costs"), [("openrouter", [2.0, 7, None]), ("openai", [2.0, 2.0, None])]
)
async def test_a_price_makes_a_cost_unless_openrouter_says_one(
    server: WireServer, provider: str, costs: list[float | None]
) -> None:
    place = Endpoint(provider=PROVIDERS[provider], model="m", url=server.url, key=KEY)
    priced = HttpModel(place, OpenAiChat(), price=Price(input=2.0, output=0.0))
    said = {**PRICED, "usage": {**PRICED["usage"], "cost": 7}}  # type: ignore[dict-item]
    server.answers(reply(PRICED), reply(said), reply(HI))

    results = [await priced.generate(REQUEST) for _ in range(3)]

    assert [each.cost for each in results] == costs
    assert results[0].usage == Usage(input=1_000_000, output=1)
    await priced.close()


async def test_a_cost_that_a_server_makes_up_without_a_price_is_none(
    server: WireServer, model: HttpModel
) -> None:
    server.answers(reply({**HI, "usage": {"prompt_tokens": 1, "cost": 0}}))

    assert (await model.generate(REQUEST)).cost is None


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


@pytest.mark.parametrize("junk", [b"", b"data: no JSON\n\n", b"data: x" * 100_000, b'data: {"error": 1}\n\n'])
async def test_what_follows_a_complete_answer_does_not_lose_it(
    server: WireServer, model: HttpModel, monkeypatch: pytest.MonkeyPatch, junk: bytes
) -> None:
    monkeypatch.setattr(http, "MOST_BYTES", 100_000)
    # Hangs up without the end of the body.
    server.answers(events(HEL, LO, END, junk, cut=True))

    *pieces, result = await pieces_of(model)

    assert pieces == [Words("Hel"), Words("lo")]
    assert isinstance(result, Result)
    assert result.text == "Hello"


class RawServer:
    """One connection at a time, and whatever a test does with it."""

    def __init__(self, talk: Callable[[socket.socket], None]) -> None:
        self._talk = talk
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = Thread(target=self._run)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> RawServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(LIMIT_S)
        self._listener.close()
        assert not self._thread.is_alive()

    def _run(self) -> None:
        self._listener.settimeout(LIMIT_S)
        connection, _ = self._listener.accept()
        with connection:
            connection.settimeout(LIMIT_S)
            self._talk(connection)


def receive(connection: socket.socket) -> None:
    """A whole request."""
    with connection.makefile("rb") as file:
        length = 0
        while (line := file.readline().lower()) not in (b"\r\n", b""):
            length = int(line.split(b":")[1]) if line.startswith(b"content-length:") else length
        file.read(length)


STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


async def test_a_server_that_goes_on_behind_the_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "AFTER_S", 0.5)
    left: list[bool] = []

    def drips(connection: socket.socket) -> None:
        receive(connection)
        connection.sendall(STREAM + HEL + END)
        try:
            # Often enough that no single piece is waited for as long as all of them may take.
            for _ in range(1000):
                connection.sendall(b": still here\n\n")
                time.sleep(0.01)
        except OSError:
            left.append(True)

    with RawServer(drips) as server:
        model = model_at(server.url)
        *_, result = await pieces_of(model)
        await model.close()

    assert isinstance(result, Result)
    assert result.text == "Hel"
    assert left == [True]


async def test_a_connection_that_is_reset_behind_the_end_is_the_end() -> None:
    heard = ThreadEvent()

    def resets(connection: socket.socket) -> None:
        receive(connection)
        connection.sendall(STREAM + HEL + END)
        heard.wait(LIMIT_S)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with RawServer(resets) as server:
        model = model_at(server.url)
        pieces: list[Piece] = []
        async for piece in model.stream(REQUEST):
            pieces.append(piece)
            heard.set()
        await model.close()

    assert isinstance(pieces[-1], Result)
    assert pieces[-1].text == "Hel"


async def test_characters_that_came_in_halves_are_shown_whole(server: WireServer, model: HttpModel) -> None:
    thought, end = event({"reasoning": "\ude00"}), event({"content": "\ud83d"}, "stop")
    server.answers(events(event({"content": "a\ud83d"}), thought, event({"content": "\ude00b"}), end))

    *pieces, result = await pieces_of(model)

    assert pieces == [Words("a"), Thought("\ufffd"), Words("\U0001f600b"), Words("\ufffd")]
    assert isinstance(result, Result)
    assert (result.text, result.reasoning) == ("a\U0001f600b\ufffd", "\ufffd")


async def test_a_key_that_stands_twice_loses_no_answer(server: WireServer, model: HttpModel) -> None:
    body = json.dumps(HI).replace('"model"', '"model": "m-0", "model"').encode()
    server.answers(Answer(headers={"content-type": "application/json"}, chunks=[body]))

    result = await model.generate(REQUEST)

    assert (result.text, result.model) == ("hi", "m-1")


async def test_cookies_are_not_kept(server: WireServer, model: HttpModel) -> None:
    server.answers(reply(HI, set_cookie="track=me; Path=/"))

    await model.generate(REQUEST)
    await model.generate(REQUEST)

    assert [each.headers.get("cookie") for each in server.seen] == [None, None]


async def test_the_key_is_in_no_traceback_printed_with_its_variables(
    server: WireServer, model: HttpModel
) -> None:
    said = {"error": {"message": f"not {KEY}"}}
    with WireServer() as gone:
        nowhere = model_at(gone.url)
    for asked, answer in (
        (model, reply(said, 401)),
        (model, reply(said)),
        (model, events(HEL, f"data: {json.dumps(said)}\n\n".encode())),
        (model, events(HEL, cut=True)),
        (nowhere, reply(HI)),
    ):
        server.answers(answer)
        async for error in both(asked):
            told = TracebackException.from_exception(error, capture_locals=True)
            assert KEY not in "".join(told.format())
            assert "self = <placet.inference.http.HttpModel" in "".join(told.format())


class Watched(OpenAiChat):
    """Keeps the threads that answers were read in."""

    def __init__(self) -> None:
        self.threads: list[Thread] = []

    def result(self, body: Any) -> Result:
        self.threads.append(current_thread())
        return super().result(body)


async def test_a_large_answer_is_read_in_a_thread(server: WireServer) -> None:
    wire = Watched()
    model = HttpModel(Endpoint(provider=PROVIDERS["openai"], model="m", url=server.url), wire)
    server.answers(reply(HI), reply({**HI, "x": "x" * http.LARGE}))

    for _ in range(2):
        assert (await model.generate(REQUEST)).text == "hi"
    assert (await pieces_of(model))[0] == Words("hi")
    await model.close()

    assert [each is current_thread() for each in wire.threads] == [True, False, False]


async def test_vectors_may_take_more_than_an_answer(
    server: WireServer, model: HttpModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MOST_WHOLE", 1000)
    server.answers(reply({"data": [{"index": 0, "embedding": [1.0] * 1000}]}), reply({**HI, "x": "x" * 1000}))

    assert len((await model.embed(["a"]))[0]) == 1000
    with pytest.raises(AnswerUnreadable, match="longer than 1000 bytes"):
        await model.generate(REQUEST)


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
    monkeypatch.setattr(http, "MOST_WHOLE", 10_000)
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


def test_connections_end_with_their_event_loop() -> None:
    ended: list[bytes] = []

    def stays(connection: socket.socket) -> None:
        receive(connection)
        body = json.dumps(HI).encode()
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        # Nothing comes any more: the other side closes, or this fails.
        ended.append(connection.recv(1))

    with RawServer(stays) as server:
        model = model_at(server.url)
        assert asyncio.run(model.generate(REQUEST)).text == "hi"

    assert ended == [b""]


def test_a_stream_that_is_left_open_ends_with_its_event_loop(
    server: WireServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.answers(events(HEL, stall=True), reply(HI))
    model = model_at(server.url)
    streams: list[AsyncGenerator[Piece, None]] = []

    async def begin() -> None:
        streams.append(model.stream(REQUEST))
        assert await anext(streams[0]) == Words("Hel")

    asyncio.run(begin())

    assert server.wait_left()
    assert asyncio.run(model.generate(REQUEST)).text == "hi"
    # The loop closes the stream's own generators all at once, and says that they stand in each other's way.
    assert "_open_with_its_loop" not in caplog.text


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


async def test_a_request_for_another_model_is_not_answered(server: WireServer, model: HttpModel) -> None:
    server.answers(reply(HI))

    for ask in (model.generate, lambda request: pieces_of(model, request)):
        with pytest.raises(UnknownModel, match="'openai:other', and this is openai:m"):
            await ask(msgspec.structs.replace(REQUEST, model="openai:other"))

    assert server.seen == []
    assert (await model.generate(msgspec.structs.replace(REQUEST, model="openai:m"))).text == "hi"


async def test_vectors_say_what_they_took(server: WireServer) -> None:
    model = model_at(server.url, price=Price(input=1, output=0))
    vector = {"index": 0, "embedding": [1.0]}
    counted = {"data": [vector], "usage": {"prompt_tokens": 1_000_000}}
    server.answers(reply(counted), reply({"data": [vector]}))

    told = await model.embed(["a"])
    untold = await model.embed(["a"])

    assert (told.usage, told.cost) == (Usage(input=1_000_000, output=0), 1.0)
    assert (untold.usage, untold.cost) == (None, None)
    await model.close()
