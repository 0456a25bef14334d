"""The streams of the server, by themselves."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from mcp import types
from mcp.shared.message import SessionMessage

from assent.server import stdio
from assent.server.stdio import Wire


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
        try:
            os.close(number)
        except OSError:
            continue  # Closed by the test.


def request(number: int, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping", "params": params}).encode()


async def test_messages_arrive_in_order_however_they_are_cut(ends: Ends) -> None:
    text = request(1) + b"\n\n" + request(2, text="ü") + b"\n" + request(3)  # The last line has no end.
    got: list[Any] = []

    async with Wire(ends.source, ends.target).open() as (read, _):
        for at in range(0, len(text), 7):
            os.write(ends.say, text[at : at + 7])
        os.close(ends.say)
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
