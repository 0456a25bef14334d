"""Anthropic's own client and our adapter send the same, and read the same."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pydantic
import pytest

from placet.errors import ContextTooLong, KeyRefused, ModelError, ModelUnavailable, RateLimited, UnknownModel
from placet.inference.messages import Assistant, Carried, Image, System, Text, ToolCall, ToolResult, User
from placet.inference.model import Request
from placet.inference.wire.anthropic import BUDGETS, MAX_TOKENS
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
from tests.inference.oracles.recorded import ANTHROPIC, Recorded, Told
from tests.inference.wire_server import WireServer, events, reply

if TYPE_CHECKING:
    # Loaded where it is used: every worker collects this file, and few run it.
    import anthropic

OLD, NEW = "claude-haiku-4-5", "claude-opus-5-5"
"""One that thinks with a number of tokens, and one that decides itself."""

ALWAYS = {
    "header.authorization": "The client sends the key as a bearer; servers that imitate the API know ours.",
    "header.x-api-key": "The same key. Both are documented, and this one wins where both are sent.",
    "header.anthropic-version": "Ours is the last version that takes a temperature; 2026-10-21 refuses it.",
}
SOMETIMES = {
    "body.temperature": "The client has none any more; older models take it, and answer steadily with it.",
    "body.thinking.display": "Newer models keep their thoughts to themselves unless they are asked.",
    "body.system[0].cache_control.type": "The end of what stays the same; the client's user has to say so.",
    "body.messages[0].content[0].cache_control.type": "The end of the conversation, likewise.",
    "body.tools[0].cache_control.type": "The end of what stays the same, where there are only tools.",
}
"""Every place where the two differ, and why."""

LONG = "Keep to the rules. " * 300
TOOL = ToolSchema(
    name="add",
    description="Adds.",
    parameters={"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}},
)
THEIR_TOOL = {"name": "add", "description": "Adds.", "input_schema": TOOL.parameters}
THOUGHT = {"type": "thinking", "thinking": "Add them.", "signature": "c2ln"}


class City(pydantic.BaseModel):
    """Where people live."""

    name: str
    people: int
    near: list[str]


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


CASES = [
    Asked("text", Request(messages=[User("Hi")], temperature=None), {"messages": said("Hi")}),
    Asked(
        "temperature",
        Request(messages=[User("Hi")]),
        {"messages": said("Hi")},
        differs=frozenset({"body.temperature"}),
    ),
    Asked("newer model", Request(messages=[User("Hi")]), {"messages": said("Hi")}, model=NEW),
    Asked(
        "system, turns, limits",
        Request(
            messages=[System("Be brief."), User("Hi"), Assistant(text="Hello."), User("Count: 世界")],
            max_tokens=50,
            stop=["END", "###"],
            temperature=None,
        ),
        {
            "system": "Be brief.",
            "messages": [*said("Hi"), {"role": "assistant", "content": "Hello."}, *said("Count: 世界")],
            "max_tokens": 50,
            "stop_sequences": ["END", "###"],
        },
    ),
    Asked(
        "tools",
        Request(messages=[User("1+2?")], tools=[TOOL], tool_choice="required", temperature=None),
        {"messages": said("1+2?"), "tools": [THEIR_TOOL], "tool_choice": {"type": "any"}},
    ),
    Asked(
        "no tools",
        Request(messages=[User("1+2?")], tools=[TOOL], tool_choice="none", temperature=None),
        {"messages": said("1+2?"), "tools": [THEIR_TOOL], "tool_choice": {"type": "none"}},
    ),
    Asked(
        "tool results",
        Request(
            messages=[
                User("1+2 and 3+x?"),
                Assistant(
                    text="Let me add.",
                    calls=[
                        ToolCall(id="t1", name="add", arguments={"a": 1, "b": 2}),
                        ToolCall(id="t2", name="add", arguments={"a": 3}),
                    ],
                ),
                ToolResult(call_id="t1", name="add", text="3"),
                ToolResult(call_id="t2", name="add", text="b is missing", is_error=True),
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
                    "content": [
                        {"type": "text", "text": "Let me add."},
                        {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1, "b": 2}},
                        {"type": "tool_use", "id": "t2", "name": "add", "input": {"a": 3}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "t1", "content": "3"},
                        {
                            "type": "tool_result",
                            "tool_use_id": "t2",
                            "content": "b is missing",
                            "is_error": True,
                        },
                        {"type": "text", "text": "Go on."},
                    ],
                },
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
                            "type": "image",
                            "source": {
                                "type": "base64",
                                "media_type": "image/png",
                                "data": b64encode(PIXEL).decode(),
                            },
                        },
                    ],
                }
            ]
        },
    ),
    Asked(
        "structured output",
        Request(messages=[User("A city")], schema=City.model_json_schema(), temperature=None),
        {"messages": said("A city"), "output_format": City},
    ),
    Asked(
        "thinking, so many tokens",
        Request(messages=[User("Hard")], thinking="medium", max_tokens=100),
        {
            "messages": said("Hard"),
            "max_tokens": 100 + BUDGETS["medium"],
            "thinking": {"type": "enabled", "budget_tokens": BUDGETS["medium"]},
        },
    ),
    Asked(
        "thinking, as it likes",
        Request(messages=[User("Hard")], thinking="high", max_tokens=100),
        {
            "messages": said("Hard"),
            "max_tokens": 100 + BUDGETS["high"],
            "thinking": {"type": "adaptive"},
            "output_config": {"effort": "high"},
        },
        model=NEW,
        differs=frozenset({"body.thinking.display"}),
    ),
    Asked(
        "no thinking",
        Request(messages=[User("Easy")], thinking="off"),
        {"messages": said("Easy"), "thinking": {"type": "disabled"}},
        model=NEW,
    ),
    Asked(
        "thoughts go back",
        Request(
            messages=[
                User("1+2?"),
                Assistant(
                    calls=[ToolCall(id="t1", name="add", arguments={"a": 1, "b": 2})],
                    carried=Carried(format="anthropic", data=[THOUGHT]),
                ),
                ToolResult(call_id="t1", name="add", text="3"),
            ],
            tools=[TOOL],
            thinking="low",
        ),
        {
            "messages": [
                *said("1+2?"),
                {
                    "role": "assistant",
                    "content": [
                        THOUGHT,
                        {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1, "b": 2}},
                    ],
                },
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "3"}]},
            ],
            "tools": [THEIR_TOOL],
            "max_tokens": MAX_TOKENS + BUDGETS["low"],
            "thinking": {"type": "enabled", "budget_tokens": BUDGETS["low"]},
        },
    ),
    Asked(
        "cache behind the system",
        Request(messages=[System(LONG), User("Hi")], tools=[TOOL], temperature=None),
        {
            "system": [{"type": "text", "text": LONG}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
            "tools": [THEIR_TOOL],
        },
        differs=frozenset(
            {"body.system[0].cache_control.type", "body.messages[0].content[0].cache_control.type"}
        ),
    ),
    Asked(
        "cache behind the tools",
        Request(
            messages=[User("Hi")],
            tools=[ToolSchema(name="add", description=LONG, parameters=TOOL.parameters)],
            temperature=None,
        ),
        {
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
            "tools": [{**THEIR_TOOL, "description": LONG}],
        },
        differs=frozenset(
            {"body.tools[0].cache_control.type", "body.messages[0].content[0].cache_control.type"}
        ),
    ),
    Asked(
        "no cache",
        Request(messages=[System(LONG), User("Hi")], temperature=None, cache=False),
        {"system": LONG, "messages": said("Hi")},
    ),
]

REFUSALS: list[tuple[int, str, str, str, type[ModelError]]] = [
    (401, "authentication_error", "invalid x-api-key", "AuthenticationError", KeyRefused),
    (403, "permission_error", "not for you", "PermissionDeniedError", KeyRefused),
    (404, "not_found_error", "model: claude-x", "NotFoundError", UnknownModel),
    (429, "rate_limit_error", "too many requests", "RateLimitError", RateLimited),
    (400, "invalid_request_error", "prompt is too long: 9 > 8", "BadRequestError", ContextTooLong),
    (529, "overloaded_error", "Overloaded", "OverloadedError", ModelUnavailable),
]


@pytest.fixture(scope="module")
def client() -> Iterator[anthropic.Anthropic]:
    """One for all: it takes longer to make than to use."""
    import anthropic

    http = anthropic.DefaultHttpxClient(trust_env=False)
    with anthropic.Anthropic(api_key=KEY, base_url=NOWHERE, max_retries=0, http_client=http) as client:
        yield client


@pytest.fixture
def server(client: anthropic.Anthropic) -> Iterator[WireServer]:
    with WireServer() as server:
        client.base_url = server.url
        yield server


def test_the_table_names_no_difference_that_no_case_shows() -> None:
    assert set(SOMETIMES) == {place for case in CASES for place in case.differs}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_the_same_request_is_sent(case: Asked, server: WireServer, client: anthropic.Anthropic) -> None:
    city = {"name": "Graz", "people": 3, "near": []}
    text = City(**city).model_dump_json() if "output_format" in case.theirs else "Hello."
    server.answers(reply({**ANTHROPIC[0].body, "content": [{"type": "text", "text": text}]}))
    theirs: dict[str, Any] = {"model": case.model or OLD, "max_tokens": MAX_TOKENS, **case.theirs}

    (client.messages.parse if "output_format" in theirs else client.messages.create)(**theirs)
    await generated(ours(server, "anthropic", case.model or OLD), case.request)

    assert len(server.seen) == 2
    assert differences(*server.seen) == {*ALWAYS, *case.differs}
    assert server.seen[1].headers["x-api-key"] == KEY
    assert "authorization" not in server.seen[1].headers


async def test_a_stream_is_asked_for_in_the_same_way(server: WireServer, client: anthropic.Anthropic) -> None:
    server.answers(events(ANTHROPIC[0].stream))
    request = Request(messages=[User("Hi")], temperature=None)

    with client.messages.stream(
        model=OLD, max_tokens=MAX_TOKENS, messages=[{"role": "user", "content": "Hi"}]
    ) as s:
        s.until_done()
    await streamed(ours(server, "anthropic", OLD), request)

    assert differences(*server.seen) == set(ALWAYS)
    assert server.seen[1].json["stream"] is True


@pytest.mark.parametrize("recorded", ANTHROPIC, ids=lambda recorded: recorded.name)
async def test_an_answer_means_the_same(
    recorded: Recorded, server: WireServer, client: anthropic.Anthropic
) -> None:
    server.answers(reply(recorded.body))

    theirs = client.messages.create(model=OLD, max_tokens=9, messages=[{"role": "user", "content": "Hi"}])
    mine = await generated(ours(server, "anthropic", OLD), Request(messages=[User("Hi")]))

    assert told(mine) == recorded.told
    assert their_words(theirs) == recorded.told
    assert mine.model == theirs.model


@pytest.mark.parametrize("recorded", ANTHROPIC, ids=lambda recorded: recorded.name)
async def test_a_stream_means_the_same(
    recorded: Recorded, server: WireServer, client: anthropic.Anthropic
) -> None:
    server.answers(events(*recorded.lines))

    with client.messages.stream(model=OLD, max_tokens=9, messages=[{"role": "user", "content": "Hi"}]) as s:
        theirs = s.get_final_message()
    pieces = await streamed(ours(server, "anthropic", OLD), Request(messages=[User("Hi")]))

    assert_pieces(pieces, recorded.told)
    assert their_words(theirs) == recorded.told


@pytest.mark.parametrize(("status", "kind", "message", "theirs", "mine"), REFUSALS)
async def test_a_refusal_means_the_same(
    status: int,
    kind: str,
    message: str,
    theirs: str,
    mine: type[ModelError],
    server: WireServer,
    client: anthropic.Anthropic,
) -> None:
    import anthropic

    server.answers(reply({"type": "error", "error": {"type": kind, "message": message}}, status))

    with pytest.raises(getattr(anthropic, theirs)) as their_error:
        client.messages.create(model=OLD, max_tokens=9, messages=[{"role": "user", "content": "Hi"}])
    with pytest.raises(ModelError) as my_error:
        await generated(ours(server, "anthropic", OLD), Request(messages=[User("Hi")]))

    assert type(my_error.value) is mine
    assert my_error.value.status == their_error.value.status_code == status
    assert message in str(my_error.value)
    assert KEY not in str(my_error.value)


def their_words(message: anthropic.types.Message) -> Told:
    """What the client read."""
    usage = message.usage
    read = usage.cache_read_input_tokens
    stops: dict[str | None, Any] = {
        "end_turn": "end",
        "tool_use": "calls",
        "max_tokens": "length",
        "stop_sequence": "stop",
        "refusal": "refused",
    }
    return Told(
        text="".join(each.text for each in message.content if each.type == "text"),
        calls=[(each.id, each.name, each.input) for each in message.content if each.type == "tool_use"],
        reasoning="".join(each.thinking for each in message.content if each.type == "thinking"),
        input=usage.input_tokens + (read or 0) + (usage.cache_creation_input_tokens or 0),
        output=usage.output_tokens,
        cached=read,
        stop=stops[message.stop_reason],
    )
