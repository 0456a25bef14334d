"""What a name opens: the right format, with all that every model needs around it, in the right order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from placet.errors import (
    KeyMissing,
    ModelCancelled,
    ModelMissing,
    RateLimited,
    RequestRefused,
    ToolsRefused,
    UnknownModel,
)
from placet.inference import Model, Price, Request, Result, System, User, open_model, stream
from placet.inference.model import makes_vectors
from placet.inference.providers import Provider, ToolMode
from placet.ir.tool_spec import ToolSchema
from placet.tools.context import Cancel
from tests.inference.wire_server import Answer, WireServer, reply

ASK = Request(messages=[User("hello")])
DELETE = ToolSchema(
    name="delete",
    description="Delete a file.",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
        "additionalProperties": False,
    },
)
CALL = '{"name": "delete", "arguments": {"path": "/x"}}'


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer() as server:
        yield server


def said(text: str, **usage: int) -> Answer:
    body: dict[str, Any] = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
    return reply({**body, "usage": usage} if usage else body)


def opened(server: WireServer, tool_mode: ToolMode = "native", **more: Any) -> Model:
    lab = Provider(name="lab", format="openai", url=server.url, needs_key=False, tool_mode=tool_mode)
    return open_model("lab:m", {}, providers={"lab": lab}, **more)


async def closing(model: Model) -> None:
    await model.close()  # type: ignore[attr-defined]


async def test_what_may_pass_is_asked_again(server: WireServer) -> None:
    server.answers(Answer(status=503, headers={"retry-after-ms": "1"}), said("here"))
    model = opened(server)

    assert (await model.generate(ASK)).text == "here"
    assert len(server.seen) == 2
    await closing(model)


async def test_three_times_at_most(server: WireServer) -> None:
    server.answers(Answer(status=429, headers={"retry-after-ms": "1"}))
    model = opened(server)

    with pytest.raises(RateLimited, match="Asked 3 times"):
        await model.generate(ASK)
    assert len(server.seen) == 3
    await closing(model)


async def test_a_request_that_is_called_off_hangs_up(server: WireServer) -> None:
    server.answers(Answer(stall=True))
    model = opened(server)
    cancel = Cancel()
    asking = asyncio.create_task(model.generate(Request(messages=[User("hello")], cancel=cancel)))
    await asyncio.to_thread(server.wait_seen, 1)

    cancel.cancel("enough")

    with pytest.raises(ModelCancelled, match="enough"):
        await asking
    assert await asyncio.to_thread(server.wait_left)
    await closing(model)


@pytest.mark.parametrize("tool_mode", ["native", "schema", "lenient", "native_then_lenient"])
async def test_what_a_model_only_thinks_about_is_no_call(server: WireServer, tool_mode: ToolMode) -> None:
    thought = f"<think>\n<tool_call>{CALL}</tool_call>\nNo, not that.\n</think>\n"
    last = '{"answer": "I leave it."}' if tool_mode == "schema" else "I leave it."
    server.answers(said(thought + last))
    model = opened(server, tool_mode)

    result = await model.generate(Request(messages=[User("Clean up.")], tools=[DELETE]))

    assert result.calls == () or result.calls == []
    assert result.text == "I leave it."
    assert "No, not that." in result.reasoning
    await closing(model)


@pytest.mark.parametrize("tool_mode", ["schema", "lenient"])
async def test_each_mode_reads_a_call_and_sends_no_tools(server: WireServer, tool_mode: ToolMode) -> None:
    server.answers(said(CALL if tool_mode == "schema" else f"<tool_call>{CALL}</tool_call>"))
    model = opened(server, tool_mode)

    result = await model.generate(Request(messages=[System("Help."), User("Delete /x.")], tools=[DELETE]))

    [call] = result.calls
    assert (call.name, dict(call.arguments)) == ("delete", {"path": "/x"})
    assert "tools" not in server.seen[0].json
    assert ("response_format" in server.seen[0].json) == (tool_mode == "schema")
    await closing(model)


async def test_a_server_without_tools_is_described_them(server: WireServer) -> None:
    refused = reply({"error": {"message": "m does not support tools"}}, status=400)
    server.answers(refused, said(f"<tool_call>{CALL}</tool_call>"))
    model = opened(server, "native_then_lenient")

    result = await model.generate(Request(messages=[User("Delete /x.")], tools=[DELETE]))

    assert [call.name for call in result.calls] == ["delete"]
    assert "tools" in server.seen[0].json
    assert "tools" not in server.seen[1].json
    await closing(model)


async def test_natively_a_server_without_tools_is_an_error(server: WireServer) -> None:
    server.answers(reply({"error": {"message": "m does not support tools"}}, status=400))
    model = opened(server)

    with pytest.raises(ToolsRefused, match="tool_mode"):
        await model.generate(Request(messages=[User("Delete /x.")], tools=[DELETE]))
    await closing(model)


async def test_a_price_that_is_handed_in_makes_the_cost(server: WireServer) -> None:
    server.answers(said("x", prompt_tokens=1_000_000, completion_tokens=1_000_000))
    model = opened(server, prices={"lab:m": Price(input=1, output=2)})

    assert (await model.generate(ASK)).cost == 3.0
    await closing(model)


async def test_a_stream_comes_through_all_of_it(server: WireServer) -> None:
    server.answers(said("all of it"))
    model = opened(server)

    *pieces, result = [piece async for piece in stream(model, ASK)]

    assert "".join(piece.text for piece in pieces if not isinstance(piece, Result)) == "all of it"
    assert isinstance(result, Result)
    await closing(model)


async def test_vectors_come_through_all_of_it(server: WireServer) -> None:
    server.answers(reply({"data": [{"index": 0, "embedding": [3.0, 4.0]}]}))
    model = opened(server)

    assert makes_vectors(model)
    assert await model.embed(["a"]) == [[0.6, 0.8]]
    await closing(model)


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("", UnknownModel, "provider:name"),
        ("gpt-5", UnknownModel, "provider:name"),
        ("antropic:x", UnknownModel, "anthropic:x"),
        ("anthropic:", UnknownModel, "no model"),
        ("anthropic:x", KeyMissing, "ANTHROPIC_API_KEY"),
        ("gemini:x", KeyMissing, "GEMINI_API_KEY"),
        ("local:x", UnknownModel, "Write local"),
        ("replay:", ModelMissing, "replay:FILE"),
        ("scripted", ModelMissing, "scripted:FILE"),
    ],
)
def test_a_name_that_opens_nothing_says_what_to_do(name: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        open_model(name, {})


async def test_scripts_and_recordings_are_opened_by_their_files(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"turns": ["once"]}))
    model = open_model(f"scripted:{script}", {})

    assert (await model.generate(ASK)).text == "once"
    with pytest.raises(RequestRefused):
        await model.generate(ASK)
