"""OpenAI's own client and our adapter send the same, and read the same."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pydantic
import pytest

from placet.errors import (
    ContextTooLong,
    KeyRefused,
    ModelError,
    ModelUnavailable,
    QuotaSpent,
    RateLimited,
    UnknownModel,
)
from placet.inference.messages import Assistant, Image, System, Text, ToolCall, ToolResult, User
from placet.inference.model import Request
from placet.ir.tool_spec import ToolSchema
from tests.inference.oracles.comparison import (
    KEY,
    NOWHERE,
    PIXEL,
    Asked,
    assert_pieces,
    differences,
    generated,
    ours,
    streamed,
    told,
)
from tests.inference.oracles.recorded import OPENAI, Recorded, Told
from tests.inference.wire_server import WireServer, events, reply

if TYPE_CHECKING:
    # Loaded where it is used: every worker collects this file, and few run it.
    import openai

MODEL = "gpt-5-mini"

SOMETIMES = {
    "body.stream_options.include_usage": "Without it a stream does not say what it took.",
    "body.stream": "False means the same as nothing; the client says it where it parses the answer.",
    "body.response_format.json_schema.name": "The API wants one: the client takes that of a class.",
}
"""Every place where the two differ, and why."""

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
    "required": ["a"],
}
TOOL = ToolSchema(name="add", description="Adds.", parameters=SCHEMA)
THEIR_TOOL = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": SCHEMA}}


class City(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")

    name: str
    people: int
    near: list[str]


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


CASES = [
    Asked("text", Request(messages=[User("Hi")], temperature=None), {"messages": said("Hi")}),
    Asked(
        "system, turns, limits",
        Request(
            messages=[System("Be brief."), User("Hi"), Assistant(text="Hello."), User("Count: 世界")],
            temperature=0.0,
            max_tokens=50,
            stop=["END", "###"],
        ),
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                *said("Hi"),
                {"role": "assistant", "content": "Hello."},
                *said("Count: 世界"),
            ],
            "temperature": 0.0,
            "max_completion_tokens": 50,
            "stop": ["END", "###"],
        },
    ),
    Asked(
        "tools",
        Request(messages=[User("1+2?")], tools=[TOOL], temperature=None),
        {"messages": said("1+2?"), "tools": [THEIR_TOOL]},
    ),
    *(
        Asked(
            f"tools {choice}",
            Request(messages=[User("1+2?")], tools=[TOOL], tool_choice=choice, temperature=None),
            {"messages": said("1+2?"), "tools": [THEIR_TOOL], "tool_choice": choice},
        )
        for choice in ("required", "none")
    ),
    Asked(
        "tool results",
        Request(
            messages=[
                User("1+2 and 3+x?"),
                Assistant(
                    calls=[
                        ToolCall(id="c1", name="add", arguments={"a": 1, "b": 2}),
                        ToolCall(id="c2", name="add", arguments={"a": 3}),
                    ]
                ),
                ToolResult(call_id="c1", name="add", text="3"),
                ToolResult(call_id="c2", name="add", text="b is missing", is_error=True),
                User("Go on."),
            ],
            tools=[TOOL],
            temperature=None,
        ),
        {
            "messages": [
                *said("1+2 and 3+x?"),
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "add", "arguments": '{"a":1,"b":2}'},
                        },
                        {"id": "c2", "type": "function", "function": {"name": "add", "arguments": '{"a":3}'}},
                    ],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "3"},
                {"role": "tool", "tool_call_id": "c2", "content": "b is missing"},
                *said("Go on."),
            ],
            "tools": [THEIR_TOOL],
        },
    ),
    Asked(
        "image",
        Request(messages=[User([Text("What is it?"), Image(data=PIXEL)])], temperature=None),
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "What is it?"},
                        {
                            "type": "image_url",
                            "image_url": {"url": f"data:image/png;base64,{b64encode(PIXEL).decode()}"},
                        },
                    ],
                }
            ]
        },
    ),
    Asked(
        "structured output",
        Request(messages=[User("A city")], schema=City.model_json_schema(), temperature=None),
        {"messages": said("A city"), "response_format": City},
        differs=frozenset({"body.response_format.json_schema.name", "body.stream"}),
    ),
    Asked(
        "thinking",
        Request(messages=[User("Hard")], thinking="high"),
        {"messages": said("Hard"), "reasoning_effort": "high"},
    ),
]

REFUSALS: list[tuple[int, dict[str, Any], str, type[ModelError]]] = [
    (
        401,
        {"message": "Incorrect API key", "code": "invalid_api_key"},
        "AuthenticationError",
        KeyRefused,
    ),
    (404, {"message": "no such model", "code": "model_not_found"}, "NotFoundError", UnknownModel),
    (429, {"message": "slow down", "code": "rate_limit_exceeded"}, "RateLimitError", RateLimited),
    (429, {"message": "pay first", "code": "insufficient_quota"}, "RateLimitError", QuotaSpent),
    (400, {"message": "too long", "code": "context_length_exceeded"}, "BadRequestError", ContextTooLong),
    (500, {"message": "it broke", "code": None}, "InternalServerError", ModelUnavailable),
]


@pytest.fixture(scope="module")
def client() -> Iterator[openai.OpenAI]:
    """One for all: it takes longer to make than to use."""
    import openai

    http = openai.DefaultHttpxClient(trust_env=False)
    with openai.OpenAI(api_key=KEY, base_url=NOWHERE, max_retries=0, http_client=http) as client:
        yield client


@pytest.fixture
def server(client: openai.OpenAI) -> Iterator[WireServer]:
    with WireServer() as server:
        client.base_url = f"{server.url}/v1"
        yield server


def test_the_table_names_no_difference_that_no_case_shows() -> None:
    shown = {place for case in CASES for place in case.differs}
    assert set(SOMETIMES) == shown | {"body.stream_options.include_usage"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_the_same_request_is_sent(case: Asked, server: WireServer, client: openai.OpenAI) -> None:
    city = json.dumps({"name": "Graz", "people": 3, "near": []})
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": city}}
    server.answers(reply({**OPENAI[0].body, "choices": [choice]}))
    completions = client.chat.completions

    (completions.parse if case.name == "structured output" else completions.create)(
        model=MODEL, **case.theirs
    )
    await generated(ours(server, "openai", MODEL, "/v1"), case.request)

    assert len(server.seen) == 2
    assert differences(*server.seen) == set(case.differs)
    assert server.seen[1].headers["authorization"] == f"Bearer {KEY}"


async def test_a_stream_is_asked_for_in_the_same_way(server: WireServer, client: openai.OpenAI) -> None:
    server.answers(events(OPENAI[0].stream))

    list(
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hi"}], stream=True)
    )
    await streamed(ours(server, "openai", MODEL, "/v1"), Request(messages=[User("Hi")], temperature=None))

    assert differences(*server.seen) == {"body.stream_options.include_usage"}
    assert server.seen[1].json["stream"] is True


@pytest.mark.parametrize("recorded", OPENAI, ids=lambda recorded: recorded.name)
async def test_an_answer_means_the_same(
    recorded: Recorded, server: WireServer, client: openai.OpenAI
) -> None:
    server.answers(reply(recorded.body))

    theirs = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hi"}])
    mine = await generated(ours(server, "openai", MODEL, "/v1"), Request(messages=[User("Hi")]))

    assert told(mine) == recorded.told
    assert their_words(theirs) == recorded.told
    assert mine.model == theirs.model


@pytest.mark.parametrize("recorded", OPENAI, ids=lambda recorded: recorded.name)
async def test_a_stream_means_the_same(recorded: Recorded, server: WireServer, client: openai.OpenAI) -> None:
    server.answers(events(*recorded.lines, recorded.end))

    with client.chat.completions.stream(model=MODEL, messages=[{"role": "user", "content": "Hi"}]) as stream:
        reasoning, theirs = their_stream(stream)
    pieces = await streamed(ours(server, "openai", MODEL, "/v1"), Request(messages=[User("Hi")]))

    assert_pieces(pieces, recorded.told)
    assert reasoning == recorded.told.reasoning
    assert their_words(theirs, reasoning) == recorded.told


@pytest.mark.parametrize(("status", "error", "theirs", "mine"), REFUSALS)
async def test_a_refusal_means_the_same(
    status: int,
    error: dict[str, Any],
    theirs: str,
    mine: type[ModelError],
    server: WireServer,
    client: openai.OpenAI,
) -> None:
    import openai

    server.answers(reply({"error": {"type": "invalid_request_error", "param": None, **error}}, status))

    with pytest.raises(getattr(openai, theirs)) as their_error:
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hi"}])
    with pytest.raises(ModelError) as my_error:
        await generated(ours(server, "openai", MODEL, "/v1"), Request(messages=[User("Hi")]))

    assert type(my_error.value) is mine
    assert my_error.value.status == their_error.value.status_code == status
    assert error["message"] in str(my_error.value)
    assert KEY not in str(my_error.value)


def their_stream(stream: Any) -> tuple[str, Any]:
    """What the client puts together, and the reasoning, which it leaves in the chunks."""
    import openai

    reasoning = ""
    for event in stream:
        if event.type == "chunk" and event.chunk.choices:
            reasoning += getattr(event.chunk.choices[0].delta, "reasoning_content", None) or ""
    try:
        return reasoning, stream.get_final_completion()
    except (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError):
        # Its own opinion; the answer is there.
        return reasoning, stream.current_completion_snapshot


def their_words(answer: Any, reasoning: str | None = None) -> Told:
    """What the client read."""
    stops: dict[str, Any] = {
        "stop": "end",
        "tool_calls": "calls",
        "length": "length",
        "content_filter": "refused",
    }
    message, usage = answer.choices[0].message, answer.usage
    details = usage.prompt_tokens_details
    if reasoning is None:
        reasoning = getattr(message, "reasoning_content", None) or ""
    return Told(
        text=message.content or "",
        calls=[
            (call.id, call.function.name, json.loads(call.function.arguments))
            for call in message.tool_calls or []
        ],
        reasoning=reasoning,
        input=usage.prompt_tokens,
        output=usage.completion_tokens,
        cached=details.cached_tokens if details else None,
        stop=stops[answer.choices[0].finish_reason],
    )
