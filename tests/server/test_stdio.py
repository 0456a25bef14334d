"""The streams of the server, by themselves."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import types
from mcp.shared.message import SessionMessage

from placet.server import stdio
from placet.server.stdio import Wire, meant_id


class Ends(NamedTuple):
    """The client's side of both pipes, and the server's."""

    say: int
    hear: int
    source: int
    target: int


@pytest.fixture
def ends() -> Iterator[Ends]:
    source, say = os.pipe()
    hear, target = os.pipe()
    made = Ends(say, hear, source, target)
    yield made
    for number in made:
        os.close(number)


def hang_up(number: int) -> None:
    """Close our end of a pipe, and keep its number: closed again later, it could be another's by then."""
    with open(os.devnull, "rb+", buffering=0) as nothing:
        os.dup2(nothing.fileno(), number)


def request(number: int, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping", "params": params}).encode()


async def test_messages_arrive_in_order_however_they_are_cut(ends: Ends) -> None:
    text = request(1) + b"\n\n" + request(2, text="ü") + b"\n" + request(3)  # The last line has no end.
    got: list[Any] = []

    async with Wire(ends.source, ends.target).open() as (read, _):
        for at in range(0, len(text), 7):
            os.write(ends.say, text[at : at + 7])
        hang_up(ends.say)
        async for item in read:
            assert isinstance(item, SessionMessage)
            got.append(item.message)

    assert [message.id for message in got] == [1, 2, 3]
    assert got[1].params == {"text": "ü"}


async def test_a_message_that_is_too_long_is_refused_and_the_next_is_read(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "LONGEST", 1000)

    async with Wire(ends.source, ends.target).open() as (read, _):
        os.write(ends.say, request(1, text="x" * 5000) + b"\n" + request(2) + b"\n")
        item = await read.receive()

    assert isinstance(item, SessionMessage)
    assert isinstance(item.message, types.JSONRPCRequest)
    assert item.message.id == 2
    told = json.loads(os.read(ends.hear, 10_000))
    assert told["error"]["code"] == -32600


async def test_the_end_is_told_once_with_its_reason(ends: Ends) -> None:
    heard: list[str] = []
    wire = Wire(ends.source, ends.target, on_end=heard.append)

    async with wire.open() as (read, _):
        wire.hang_up("enough")
        wire.hang_up("more than enough")
        assert [item async for item in read] == []

    assert heard == ["enough"]


async def test_what_was_answered_is_written_before_the_end(ends: Ends) -> None:
    async with Wire(ends.source, ends.target).open() as (_, write):
        for number in range(20):
            answer = types.JSONRPCResponse(jsonrpc="2.0", id=number, result={})
            await write.send(SessionMessage(answer))

    lines = os.read(ends.hear, 100_000).splitlines()
    assert [json.loads(line)["id"] for line in lines] == list(range(20))


async def test_the_longest_message_is_read_and_nothing_longer(ends: Ends) -> None:
    longest = 64 * 1024 * 1024
    frame = len(request(1, text=""))
    lines = (
        request(1, text="x" * (longest - frame)),
        request(2, text="x" * (longest - frame + 1)),
        request(3),
    )
    writing = threading.Thread(target=lambda: [write_all(ends.say, line + b"\n") for line in lines])

    async with Wire(ends.source, ends.target).open() as (read, _):
        writing.start()
        got: list[Any] = []
        while not got or got[-1] != 3:
            item = await read.receive()
            assert isinstance(item, SessionMessage)
            assert isinstance(item.message, types.JSONRPCRequest)
            got.append(item.message.id)
        writing.join()

    assert got == [1, 3]
    assert json.loads(os.read(ends.hear, 10_000))["error"]["message"].endswith("67,108,864 bytes.")


def write_all(target: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(target, left) :]


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        (b'{"method": "m", "params": {"id": 1, "x": "\\ud800"}, "id": 7}', 7),
        (b'{"id": "a \\"b\\"", "method": "m", "params": {"x": ' + b"[" * 5000, 'a "b"'),
        (b'{"id": 1, "id": 2, "method": "m"', 1),
        (b'{"id": 3, "result": NaN}', None),
        (b'{"id": "\\ud800", "method": "m", "params": NaN}', None),
        (b'{"id": 1.5, "method": "m"}', None),
        (b'{"params": {"id": 1}, "method": "m"', None),
        (b'[{"id": 1, "method": "m"}]', None),
        (b'{"a": "id", "b": 1, "method": "m"}', None),
        (b"\xff\x00 nonsense", None),
        (b"[" * 200_000 + b'{"id": 1, "method": "m"}', None),
    ],
)
def test_the_id_of_what_was_meant_as_a_request_is_found(line: bytes, meant: int | str | None) -> None:
    assert meant_id(line) == meant


@given(st.binary())
def test_any_line_may_be_looked_at_for_an_id(line: bytes) -> None:
    assert meant_id(line) is None or b'"method"' in line
