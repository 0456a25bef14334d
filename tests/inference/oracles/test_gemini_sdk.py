"""Google's own client and our adapter send the same, and read the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from google import genai
from google.genai import errors, types

from placet.errors import ContextTooLong, KeyRefused, ModelError, ModelUnavailable, RateLimited, UnknownModel
from placet.inference.messages import Assistant, Carried, Image, System, Text, ToolCall, ToolResult, User
from placet.inference.model import Request
from placet.inference.wire.gemini import BUDGETS
from placet.ir.tool_spec import ToolSchema
from tests.inference.oracles.comparison import (
    KEY,
    PIXEL,
    Asked,
    assert_pieces,
    differences,
    generated,
    ours,
    streamed,
    told,
)
from tests.inference.oracles.recorded import GEMINI, Recorded, Told
from tests.inference.wire_server import WireServer, events, reply

OLD, NEW = "gemini-2.5-flash", "gemini-3.5-pro"
"""One that thinks with a number of tokens, and one that takes a level."""

ALWAYS = {
    "path": "The client asks /v1 since its third version; /v1beta has more models, and more servers know it.",
}
SOMETIMES = {
    "body.generationConfig": "Where nothing is to be configured, the client sends an object without fields.",
    "body.contents[1].parts[0].thoughtSignature": (
        "A call that another model made has no signature, and newer models refuse a turn without one."
    ),
}
"""Every place where the two differ, and why."""

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
    "required": ["a"],
}
TOOL = ToolSchema(name="add", description="Adds.", parameters=SCHEMA)
BARE = ToolSchema(name="now")
THEIR_TOOL = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(name="add", description="Adds.", parameters_json_schema=SCHEMA),
        types.FunctionDeclaration(name="now"),
    ]
)


def content(role: str, *parts: types.Part) -> types.Content:
    return types.Content(role=role, parts=list(parts))


def said(text: str) -> types.Content:
    return content("user", types.Part(text=text))


def called(
    name: str, arguments: dict[str, Any], id: str | None = None, signature: bytes | None = None
) -> types.Part:
    call = types.FunctionCall(name=name, args=arguments, id=id)
    return types.Part(function_call=call, thought_signature=signature)


def answered(name: str, answer: dict[str, Any], id: str | None = None) -> types.Part:
    return types.Part(function_response=types.FunctionResponse(name=name, response=answer, id=id))


CASES = [
    Asked("text", Request(messages=[User("Hi")], temperature=None), {"contents": "Hi"}),
    Asked(
        "system, turns, limits",
        Request(
            messages=[System("Be brief."), User("Hi"), Assistant(text="Hello."), User("Count: 世界")],
            temperature=0.0,
            max_tokens=50,
            stop=["END", "###"],
        ),
        {
            "contents": [said("Hi"), content("model", types.Part(text="Hello.")), said("Count: 世界")],
            "config": types.GenerateContentConfig(
                system_instruction="Be brief.",
                temperature=0.0,
                max_output_tokens=50,
                stop_sequences=["END", "###"],
            ),
        },
    ),
    *(
        Asked(
            f"tools {choice}",
            Request(messages=[User("1+2?")], tools=[TOOL, BARE], tool_choice=choice, temperature=None),
            {
                "contents": "1+2?",
                "config": types.GenerateContentConfig(
                    tools=[THEIR_TOOL],
                    tool_config=types.ToolConfig(
                        function_calling_config=types.FunctionCallingConfig(mode=mode)
                    )
                    if mode
                    else None,
                ),
            },
            differs=frozenset({"body.generationConfig"}),
        )
        for choice, mode in (
            ("auto", None),
            ("required", types.FunctionCallingConfigMode.ANY),
            ("none", types.FunctionCallingConfigMode.NONE),
        )
    ),
    Asked(
        "tool results",
        Request(
            messages=[
                User("1+2 and 3+x?"),
                Assistant(
                    text="Let me add.",
                    calls=[
                        ToolCall(
                            id="c1",
                            name="add",
                            arguments={"a": 1, "b": 2},
                            carried=Carried(format="gemini", data="c2ln"),
                        ),
                        ToolCall(id="c2", name="add", arguments={"a": 3}),
                    ],
                ),
                ToolResult(call_id="c2", name="add", text="b is missing", is_error=True),
                ToolResult(call_id="c1", name="add", text="3"),
                User("Go on."),
            ],
            tools=[TOOL, BARE],
            temperature=None,
        ),
        {
            "contents": [
                said("1+2 and 3+x?"),
                content(
                    "model",
                    types.Part(text="Let me add."),
                    called("add", {"a": 1, "b": 2}, "c1", b"sig"),
                    called("add", {"a": 3}, "c2"),
                ),
                content(
                    "user",
                    answered("add", {"output": "3"}, "c1"),
                    answered("add", {"error": "b is missing"}, "c2"),
                ),
                said("Go on."),
            ],
            "config": types.GenerateContentConfig(tools=[THEIR_TOOL]),
        },
        model=NEW,
        differs=frozenset({"body.generationConfig"}),
    ),
    Asked(
        "calls without ids",
        Request(
            messages=[
                User("When?"),
                Assistant(calls=[ToolCall(name="now")]),
                ToolResult(call_id="", name="now", text="9"),
            ],
            temperature=None,
        ),
        {
            "contents": [
                said("When?"),
                content("model", called("now", {})),
                content("user", answered("now", {"output": "9"})),
            ]
        },
    ),
    Asked(
        "calls of another model",
        Request(
            messages=[
                User("When?"),
                Assistant(
                    calls=[ToolCall(id="t1", name="now")], carried=Carried(format="anthropic", data=[])
                ),
                ToolResult(call_id="t1", name="now", text="9"),
            ],
            temperature=None,
        ),
        {
            "contents": [
                said("When?"),
                content("model", called("now", {}, "t1")),
                content("user", answered("now", {"output": "9"}, "t1")),
            ]
        },
        model=NEW,
        differs=frozenset({"body.contents[1].parts[0].thoughtSignature"}),
    ),
    Asked(
        "image",
        Request(messages=[User([Text("What is it?"), Image(data=PIXEL)])], temperature=None),
        {
            "contents": [
                content(
                    "user",
                    types.Part(text="What is it?"),
                    types.Part.from_bytes(data=PIXEL, mime_type="image/png"),
                )
            ]
        },
    ),
    Asked(
        "structured output",
        Request(messages=[User("Numbers")], schema=SCHEMA, temperature=None),
        {
            "contents": "Numbers",
            "config": types.GenerateContentConfig(
                response_mime_type="application/json", response_json_schema=SCHEMA
            ),
        },
    ),
    Asked(
        "thinking, so many tokens",
        Request(messages=[User("Hard")], thinking="medium", temperature=None),
        {
            "contents": "Hard",
            "config": types.GenerateContentConfig(
                thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_budget=BUDGETS["medium"])
            ),
        },
    ),
    Asked(
        "no thinking",
        Request(messages=[User("Easy")], thinking="off", temperature=None),
        {
            "contents": "Easy",
            "config": types.GenerateContentConfig(thinking_config=types.ThinkingConfig(thinking_budget=0)),
        },
    ),
    Asked(
        "thinking, a level",
        Request(messages=[User("Hard")], thinking="high", temperature=None),
        {
            "contents": "Hard",
            "config": types.GenerateContentConfig(
                thinking_config=types.ThinkingConfig(
                    include_thoughts=True, thinking_level=types.ThinkingLevel.HIGH
                )
            ),
        },
        model=NEW,
    ),
]

REFUSALS: list[tuple[int, str, str, type[errors.APIError], type[ModelError]]] = [
    (400, "INVALID_ARGUMENT", "API key not valid.", errors.ClientError, KeyRefused),
    (403, "PERMISSION_DENIED", "not for you", errors.ClientError, KeyRefused),
    (404, "NOT_FOUND", "models/x is not found", errors.ClientError, UnknownModel),
    (429, "RESOURCE_EXHAUSTED", "too many requests", errors.ClientError, RateLimited),
    (
        400,
        "INVALID_ARGUMENT",
        "The input token count (9) exceeds the maximum number of tokens allowed (8).",
        errors.ClientError,
        ContextTooLong,
    ),
    (503, "UNAVAILABLE", "The model is overloaded.", errors.ServerError, ModelUnavailable),
]


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[WireServer, genai.Client]]:
    """One for all: the client takes longer to make than to use."""
    with WireServer() as server:
        options = types.HttpOptions(base_url=server.url, client_args={"trust_env": False})
        client = genai.Client(api_key=KEY, http_options=options)
        yield server, client
        client.close()


@pytest.fixture
def server(shared: tuple[WireServer, genai.Client]) -> WireServer:
    shared[0].seen.clear()
    return shared[0]


@pytest.fixture
def client(shared: tuple[WireServer, genai.Client]) -> genai.Client:
    return shared[1]


def test_the_table_names_no_difference_that_no_case_shows() -> None:
    assert set(SOMETIMES) == {place for case in CASES for place in case.differs}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_the_same_request_is_sent(case: Asked, server: WireServer, client: genai.Client) -> None:
    server.answers(reply(GEMINI[0].body))

    client.models.generate_content(model=case.model or OLD, **case.theirs)
    await generated(ours(server, "gemini", case.model or OLD), case.request)

    assert len(server.seen) == 2
    assert differing(server) == {*ALWAYS, *case.differs}
    assert server.seen[0].path.replace("/v1/", "/v1beta/") == server.seen[1].path
    assert server.seen[1].headers["x-goog-api-key"] == KEY


async def test_a_stream_is_asked_for_in_the_same_way(server: WireServer, client: genai.Client) -> None:
    server.answers(events(GEMINI[0].stream))

    list(client.models.generate_content_stream(model=OLD, contents="Hi"))
    await streamed(ours(server, "gemini", OLD), Request(messages=[User("Hi")], temperature=None))

    assert differing(server) == set(ALWAYS)
    assert server.seen[0].path.replace("/v1/", "/v1beta/") == server.seen[1].path
    assert server.seen[1].query == {"alt": "sse"}


@pytest.mark.parametrize("recorded", GEMINI, ids=lambda recorded: recorded.name)
async def test_an_answer_means_the_same(recorded: Recorded, server: WireServer, client: genai.Client) -> None:
    server.answers(reply(recorded.body))

    theirs = client.models.generate_content(model=OLD, contents="Hi")
    mine = await generated(ours(server, "gemini", OLD), Request(messages=[User("Hi")]))

    assert told(mine) == recorded.told
    assert their_words([theirs]) == recorded.told
    assert mine.model == theirs.model_version


@pytest.mark.parametrize("recorded", GEMINI, ids=lambda recorded: recorded.name)
async def test_a_stream_means_the_same(recorded: Recorded, server: WireServer, client: genai.Client) -> None:
    server.answers(events(*recorded.lines))

    theirs = list(client.models.generate_content_stream(model=OLD, contents="Hi"))
    pieces = await streamed(ours(server, "gemini", OLD), Request(messages=[User("Hi")]))

    assert_pieces(pieces, recorded.told)
    assert their_words(theirs) == recorded.told


@pytest.mark.parametrize(("status", "kind", "message", "theirs", "mine"), REFUSALS)
async def test_a_refusal_means_the_same(
    status: int,
    kind: str,
    message: str,
    theirs: type[errors.APIError],
    mine: type[ModelError],
    server: WireServer,
    client: genai.Client,
) -> None:
    server.answers(reply({"error": {"code": status, "message": message, "status": kind}}, status))

    with pytest.raises(theirs) as their_error:
        client.models.generate_content(model=OLD, contents="Hi")
    with pytest.raises(ModelError) as my_error:
        await generated(ours(server, "gemini", OLD), Request(messages=[User("Hi")]))

    assert type(my_error.value) is mine
    assert my_error.value.status == their_error.value.code == status
    assert message in str(my_error.value)
    assert KEY not in str(my_error.value)


def differing(server: WireServer) -> set[str]:
    """Where the two requests differ. This JSON is that of protocol buffers: `mime_type` and `mimeType` are
    one name, and the client writes now this, now that."""
    return differences(*server.seen, spelled=lambda place: re.sub("_([a-z])", lambda m: m[1].upper(), place))


def their_words(pieces: list[types.GenerateContentResponse]) -> Told:
    """What the client read."""
    stops: dict[Any, Any] = {"STOP": "end", "MAX_TOKENS": "length", "SAFETY": "refused"}
    candidates = [each for piece in pieces for each in piece.candidates or []]
    parts = [part for each in candidates if each.content for part in each.content.parts or []]
    calls = [part.function_call for part in parts if part.function_call]
    reason, usage = candidates[-1].finish_reason, pieces[-1].usage_metadata
    assert reason is not None
    assert usage is not None
    written = [
        each for each in (usage.candidates_token_count, usage.thoughts_token_count) if each is not None
    ]
    return Told(
        text="".join(part.text or "" for part in parts if not part.thought),
        calls=[(call.id or "", call.name or "", call.args or {}) for call in calls],
        reasoning="".join(part.text or "" for part in parts if part.thought),
        input=usage.prompt_token_count,
        output=sum(written) if written else None,
        cached=usage.cached_content_token_count,
        stop="calls" if calls else stops[reason.value],
    )
