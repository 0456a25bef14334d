"""Anthropic's format: what the comparison with the official client cannot show."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import RequestRefused
from placet.inference.http import HttpModel
from placet.inference.messages import (
    Assistant,
    Carried,
    Image,
    Message,
    System,
    Text,
    ToolCall,
    ToolResult,
    User,
)
from placet.inference.model import Request, Result, Thought, Words
from placet.inference.providers import endpoint
from placet.inference.sse import Event, EventDecoder
from placet.inference.wire.anthropic import API_VERSION, CACHE_FROM, MAX_TOKENS, AnthropicMessages
from placet.inference.wire.anthropic_schema import accepted
from placet.inference.wire.envelopes import read_envelope
from placet.inference.wire.format import Dialect, HttpCall, Refused, Unreadable
from placet.ir.tool_spec import ToolSchema
from tests.inference.oracles.recorded import ANTHROPIC, Recorded
from tests.inference.wire_server import WireServer, reply
from tests.properties.effort import UNHURRIED, examples

FORMAT = AnthropicMessages()
URL = "ANTHROPIC_BASE_URL"
TOOL = ToolSchema(name="add", parameters={"type": "object"})
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
HIDDEN = {"type": "redacted_thinking", "data": "aGlkZGVu"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "content",
                    "text",
                    "usage",
                    "error",
                    "message",
                    "index",
                    "delta",
                    "content_block",
                    "input",
                ]
            ),
            inner | st.sampled_from(["text", "tool_use", "thinking", "error", "message_delta", "text_delta"]),
            max_size=4,
        )
    ),
    max_leaves=20,
)


def call(*messages: Message, model: str = "claude-haiku-4-5", **more: Any) -> HttpCall:
    stream, without = more.pop("stream", False), more.pop("without", frozenset())
    request = Request(messages=messages, **more)
    before = msgspec.json.encode(request)
    found = FORMAT.call(request, model, "key", Dialect(without=without), stream=stream)
    assert msgspec.json.encode(request) == before, "the request was changed"
    return found


def read(stream: bytes) -> tuple[list[Words | Thought], Result]:
    decoder, reader = EventDecoder(), FORMAT.reader()
    found = [*decoder.feed(stream), *decoder.finish()]
    return [piece for event in found for piece in reader.feed(event)], reader.result()


def answer(*blocks: Any, stop: str | None = "end_turn", **more: Any) -> Result:
    return FORMAT.result({"type": "message", "content": list(blocks), "stop_reason": stop, **more})


def test_a_call_goes_to_the_messages_with_key_and_version() -> None:
    sent = call(User("Hi"))

    assert sent.path == "/v1/messages"
    assert sent.headers == {"anthropic-version": API_VERSION, "x-api-key": "key"}
    assert sent.body == {
        "model": "claude-haiku-4-5",
        "max_tokens": MAX_TOKENS,
        "messages": [{"role": "user", "content": "Hi"}],
        "temperature": 0.0,
    }


def test_without_a_key_none_is_sent() -> None:
    sent = FORMAT.call(Request(messages=[User("Hi")]), "m", None, Dialect(), stream=False)

    assert sent.headers == {"anthropic-version": API_VERSION}


def test_several_systems_are_one_and_stand_apart() -> None:
    body = call(System("One."), User("Hi"), System(""), System("Two.")).body

    assert body["system"] == "One.\n\nTwo."
    assert body["messages"] == [{"role": "user", "content": "Hi"}]


def test_roles_take_turns_and_what_is_empty_is_left_out() -> None:
    body = call(
        User("a"), User(""), User([Text("b"), Text("")]), Assistant(), User("c"), Assistant(text="d")
    ).body

    texts = [{"type": "text", "text": each} for each in "abc"]
    assert body["messages"] == [{"role": "user", "content": texts}, {"role": "assistant", "content": "d"}]


def test_calls_without_ids_get_some_and_so_do_their_results() -> None:
    calls = [ToolCall(name="add", arguments={"a": 1}), ToolCall(name="now"), ToolCall(id="x", name="now")]
    body = call(
        User("Hi"),
        Assistant(calls=calls),
        ToolResult(call_id="", name="now", text="9"),
        ToolResult(call_id="", name="add", text="1"),
        ToolResult(call_id="x", name="now", text="9"),
    ).body

    asked, answered = body["messages"][1]["content"], body["messages"][2]["content"]
    assert [each["id"] for each in asked] == ["call_1_0", "call_1_1", "x"]
    assert [each["tool_use_id"] for each in answered] == ["call_1_1", "call_1_0", "x"]


def ids_of(*messages: Message) -> tuple[list[str], list[str]]:
    """The ids of the calls and of the results, as they are sent."""
    blocks = [
        block
        for each in call(*messages).body["messages"]
        if isinstance(each["content"], list)
        for block in each["content"]
    ]
    return [each["id"] for each in blocks if "id" in each], [
        each["tool_use_id"] for each in blocks if "tool_use_id" in each
    ]


def turn(*ids: str, results: str = "") -> list[Message]:
    """Calls with these ids, and a result for each; the results say which."""
    calls = [ToolCall(id=id, name="get") for id in ids]
    return [
        Assistant(calls=calls),
        *(ToolResult(call_id=id, name="get", text=f"{results}{at}") for at, id in enumerate(ids)),
    ]


def test_ids_that_are_not_taken_or_not_unique_are_replaced_in_call_and_result() -> None:
    said = [User("Hi"), *turn("functions.get:0", "functions.get:0", "ok"), *turn("ok", "x" * 65, "new")]

    calls, results = ids_of(*said)

    assert calls == results
    assert len(set(calls)) == 6
    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", each) for each in calls)
    assert (calls[2], calls[5]) == ("ok", "new")
    # What was said before keeps its ids, so that the provider's cache still knows it.
    assert ids_of(*said[:5]) == (calls[:3], results[:3])


def test_an_id_that_somebody_else_has_already_is_not_made() -> None:
    calls, results = ids_of(User("Hi"), *turn("call_3_0", "call_3_0"), *turn("", "call_1_1"))

    assert calls == results
    assert len(set(calls)) == 4


def test_a_result_of_the_latest_turn_is_not_that_of_an_earlier_one() -> None:
    said = [User("Hi"), Assistant(calls=[ToolCall(id="0", name="get")]), User("Go on"), *turn("0")]

    calls, results = ids_of(*said)

    assert results == calls[1:]


@UNHURRIED
@examples(150)
@given(
    st.lists(st.lists(st.sampled_from(["", "a", "a", "b.c", "call_1_0", "call_1_1"]), max_size=3), max_size=4)
)
def test_every_call_has_an_id_of_its_own_and_its_result_too(turns: list[list[str]]) -> None:
    calls, results = ids_of(User("Hi"), *(each for ids in turns for each in turn(*ids)))

    assert len(set(calls)) == len(calls)
    assert calls == results


def test_a_call_that_was_cut_off_before_its_arguments_is_none() -> None:
    block = {"type": "tool_use", "id": "t", "name": "wipe", "input": {}}
    reader = FORMAT.reader()
    for data in (
        {"type": "message_start", "message": {}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
    ):
        list(reader.feed(Event("", json.dumps(data))))

    for result in (reader.result(), answer(block, stop="max_tokens")):
        assert "cut off" in result.calls[0].problem
        assert result.stop == "length"
    assert not answer(block, stop="tool_use").calls[0].problem
    first, last = answer({**block, "input": {"a": 1}}, block, stop="max_tokens").calls
    assert (first.problem, bool(last.problem)) == ("", True)


def test_halves_of_characters_and_double_keys_lose_no_answer_but_a_call() -> None:
    text = json.dumps(
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "X"}}
    )
    start = json.dumps({"type": "content_block_start", "index": 0, "content_block": {"type": "text"}})
    end = '{"type": "message_delta", "type": "message_delta", "delta": {"stop_reason": "end_turn"}}'
    reader = FORMAT.reader()
    for data in (start, text.replace("X", r"\ud83d"), text.replace("X", r"\ude00 \ud83d"), end):
        list(reader.feed(Event("", data)))

    assert reader.result().text == "\U0001f600 \ufffd"
    for input in (r'{"a": "\ud83d"}', '{"a": 1, "a": 2}', '{"b": [{"a": 1, "a": 2}]}'):
        body = f'{{"content": [{{"type": "tool_use", "id": "t", "name": "add", "input": {input}}}]}}'
        [found] = FORMAT.result(read_envelope(body, "it")).calls
        assert "cannot be trusted" in found.problem
        assert (found.arguments, found.raw.isprintable()) == ({}, True)


def test_a_call_that_could_not_be_read_goes_back_as_an_object() -> None:
    broken = ToolCall(id="t", name="add", problem="no JSON", raw="{")
    body = call(
        User("Hi"),
        Assistant(calls=[broken]),
        ToolResult(call_id="t", name="add", text="", is_error=True),
    ).body

    assert body["messages"][1]["content"][0]["input"] == {}
    # An error without words is refused.
    assert body["messages"][2]["content"][0]["content"]


@pytest.mark.parametrize(
    ("model", "thinking", "sent"),
    [
        ("claude-haiku-4-5-20251001", "low", {"type": "enabled", "budget_tokens": 1024}),
        ("claude-3-7-sonnet-20250219", "low", {"type": "enabled", "budget_tokens": 1024}),
        ("claude-sonnet-4-20250514", "high", {"type": "enabled", "budget_tokens": 16384}),
        ("somebody-else", "low", {"type": "enabled", "budget_tokens": 1024}),
        ("claude-sonnet-4-6", "low", {"type": "adaptive", "display": "summarized"}),
        ("claude-mythos-preview", "low", {"type": "adaptive", "display": "summarized"}),
        ("claude-haiku-4-5", "off", None),
        ("claude-sonnet-5", "off", {"type": "disabled"}),
        ("claude-fable-5", "off", None),
        ("claude-sonnet-5", None, None),
    ],
)
def test_thinking_is_asked_for_as_the_model_knows_it(model: str, thinking: Any, sent: Any) -> None:
    body = call(User("Hi"), model=model, thinking=thinking, max_tokens=10).body

    assert body.get("thinking") == sent
    # What it thinks with comes on top.
    assert body["max_tokens"] > (sent or {}).get("budget_tokens", 0)
    assert ("effort" in body.get("output_config", {})) == ((sent or {}).get("type") == "adaptive")


def test_effort_and_schema_go_together() -> None:
    body = call(User("Hi"), model="claude-opus-5", thinking="low", schema={"type": "integer"}).body

    assert body["output_config"] == {
        "effort": "low",
        "format": {"type": "json_schema", "schema": {"type": "integer"}},
    }


@pytest.mark.parametrize(
    ("model", "more", "has"),
    [
        ("claude-haiku-4-5", {}, True),
        ("claude-haiku-4-5", {"temperature": None}, False),
        ("claude-haiku-4-5", {"thinking": "low"}, False),
        ("claude-haiku-4-5", {"thinking": "off"}, True),
        ("claude-haiku-4-5", {"without": frozenset({"temperature"})}, False),
        ("claude-sonnet-4-6", {"thinking": "off"}, True),
        ("claude-opus-4-7", {}, False),
        ("claude-sonnet-5-5", {}, False),
        ("somebody-else", {}, True),
    ],
)
def test_a_temperature_is_sent_where_it_is_taken(model: str, more: dict[str, Any], has: bool) -> None:
    assert ("temperature" in call(User("Hi"), model=model, **more).body) is has


def test_who_thinks_by_numbers_does_not_where_a_call_is_forced_or_was_another_models() -> None:
    asked = Assistant(calls=[ToolCall(id="t", name="add")])
    found = ToolResult(call_id="t", name="add", text="3")

    forced = call(User("Hi"), tools=[TOOL], tool_choice="required", thinking="low").body
    foreign = call(User("Hi"), asked, found, tools=[TOOL], thinking="low").body
    own = msgspec.structs.replace(asked, carried=Carried(format="anthropic", data=[THOUGHT]))

    assert "thinking" not in forced
    assert forced["tool_choice"] == {"type": "any"}
    assert "thinking" not in foreign
    assert "thinking" in call(User("Hi"), own, found, tools=[TOOL], thinking="low").body


def test_thoughts_come_back_first_and_unchanged() -> None:
    said = answer(THOUGHT, HIDDEN, {"type": "text", "text": "Yes."}).message
    body = call(User("Hi"), said, User("Sure?")).body

    assert body["messages"][1]["content"] == [THOUGHT, HIDDEN, {"type": "text", "text": "Yes."}]


def test_thoughts_between_words_and_calls_come_back_where_they_were() -> None:
    blocks = [
        {"type": "text", "text": "First."},
        THOUGHT,
        {"type": "tool_use", "id": "t", "name": "add", "input": {"a": 1}},
    ]
    said = answer(*blocks, stop="tool_use").message
    changed = msgspec.structs.replace(said, text="Another.")

    kept = call(User("Hi"), said, ToolResult(call_id="t", name="add", text="1")).body
    moved = call(User("Hi"), changed, ToolResult(call_id="t", name="add", text="1")).body

    assert kept["messages"][1]["content"] == blocks
    assert [each["type"] for each in moved["messages"][1]["content"]] == ["thinking", "text", "tool_use"]


def test_what_is_carried_for_another_format_is_left_out() -> None:
    said = Assistant(text="Yes.", carried=Carried(format="gemini", data="c2ln"))

    assert call(User("Hi"), said, User("Sure?")).body["messages"][1]["content"] == "Yes."


def test_a_thought_without_its_signature_is_not_carried() -> None:
    assert answer({"type": "thinking", "thinking": "Hm."}).carried is None


def test_a_short_conversation_is_not_marked() -> None:
    assert b"cache_control" not in msgspec.json.encode(call(System("Short."), User("Hi"), tools=[TOOL]).body)


def test_a_long_conversation_is_marked_at_its_end_only() -> None:
    body = call(
        System("Short."), User("x" * CACHE_FROM), Assistant(text="Yes."), User([Image(data=b"i")])
    ).body

    assert msgspec.json.encode(body).count(b"cache_control") == 1
    assert body["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}


def test_an_answer_that_is_to_be_continued_is_not_marked() -> None:
    body = call(User("x" * CACHE_FROM), Assistant(text="So")).body

    assert body["messages"][-1] == {"role": "assistant", "content": "So"}


def test_a_schema_loses_what_the_api_refuses_and_tells_it_to_the_model() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 1, "description": "How many."},
            "kind": {"oneOf": [{"const": "a"}, {"enum": ["b", "c"]}]},
            "when": {"type": "string", "format": "date", "pattern": "^2"},
            "list": {"type": "array", "items": {"type": "object"}, "minItems": 2, "maxItems": 3},
        },
        "additionalProperties": True,
    }
    before = json.dumps(schema)

    assert accepted(schema) == {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "description": 'How many. {"minimum":1}'},
            "kind": {"anyOf": [{"const": "a"}, {"enum": ["b", "c"]}]},
            "when": {"type": "string", "format": "date", "description": '{"pattern":"^2"}'},
            "list": {
                "type": "array",
                "items": {"type": "object", "additionalProperties": False},
                "description": '{"minItems":2,"maxItems":3}',
            },
        },
        "additionalProperties": False,
    }
    assert json.dumps(schema) == before


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", "end"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("stop_sequence", "stop"),
        ("tool_use", "calls"),
        ("refusal", "refused"),
        ("pause_turn", "other"),
        ("something new", "other"),
        (None, "other"),
    ],
)
def test_every_reason_to_stop_has_a_meaning(reason: str | None, stop: str) -> None:
    assert answer(stop=reason).stop == stop


def test_an_answer_without_usage_has_none() -> None:
    assert answer().usage is None


def test_blocks_of_unknown_kinds_are_passed_over() -> None:
    result = answer({"type": "server_tool_use", "id": "s"}, {"type": "text", "text": "Yes."}, "no block")

    assert result.text == "Yes."
    assert result.calls == ()


def test_arguments_that_are_no_object_are_a_problem_of_the_call() -> None:
    [found] = answer({"type": "tool_use", "id": "t", "name": "add", "input": [1]}, stop="tool_use").calls

    assert found.problem
    assert found.raw == "[1]"
    assert found.arguments == {}


@pytest.mark.parametrize("written", ['{"a": 1', '{"a": 1, "a": 2}', "[1]", '{"a": NaN}'])
def test_streamed_arguments_that_cannot_be_read_are_a_problem_of_the_call(written: str) -> None:
    block = {"type": "tool_use", "id": "t", "name": "add", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": written}
    reader = FORMAT.reader()
    for data in (
        {"type": "message_start", "message": {}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    ):
        assert list(reader.feed(Event("", json.dumps(data)))) == []
    [found] = reader.result().calls

    assert found.problem
    assert found.raw == written
    assert (found.id, found.name, found.arguments) == ("t", "add", {})


def test_a_stream_that_breaks_off_is_no_answer() -> None:
    whole = ANTHROPIC[0].lines

    for end in range(len(whole) - 2):
        with pytest.raises(Unreadable, match="broke off"):
            read(b"".join(whole[:end]))


def test_an_error_in_the_middle_of_a_stream_is_a_refusal() -> None:
    error = (
        b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}\n\n'
    )

    with pytest.raises(Refused) as raised:
        read(b"".join(ANTHROPIC[0].lines[:4]) + error)

    assert raised.value.refusal.kind == "unavailable"
    assert raised.value.refusal.message == "Busy"


def test_events_of_unknown_kinds_and_an_end_that_others_send_are_passed_over() -> None:
    first, *rest = ANTHROPIC[0].lines
    more = b'event: news\ndata: {"type": "news"}\n\n'

    assert read(first + more + b"".join(rest) + b"data: [DONE]\n\n") == read(ANTHROPIC[0].stream)


@pytest.mark.parametrize(
    "data",
    [
        "no JSON",
        "[]",
        '{"type": "content_block_start"}',
        '{"type": "content_block_delta", "index": 5, "delta": {"type": "text_delta", "text": "x"}}',
    ],
)
def test_an_event_of_no_known_shape_is_unreadable(data: str) -> None:
    with pytest.raises(Unreadable):
        list(FORMAT.reader().feed(Event("", data)))


async def test_a_temperature_that_turns_out_not_to_be_taken_is_left_out_from_then_on() -> None:
    error = {"type": "invalid_request_error", "message": "`temperature` is deprecated for this model."}
    with WireServer() as server:
        server.answers(reply({"type": "error", "error": error}, 400), reply(ANTHROPIC[0].body))
        model = HttpModel(endpoint("anthropic:other", {"ANTHROPIC_API_KEY": "k", URL: server.url}), FORMAT)

        for _ in range(2):
            assert (await model.generate(Request(messages=[User("Hi")]))).text == ANTHROPIC[0].told.text
        await model.close()

        assert ["temperature" in each.json for each in server.seen] == [True, False, False]


async def test_one_bad_request_takes_no_parameter_from_the_next() -> None:
    def refused(message: str) -> Any:
        return reply({"type": "error", "error": {"type": "invalid_request_error", "message": message}}, 400)

    with WireServer() as server:
        model = HttpModel(
            endpoint("anthropic:claude-haiku-4-5", {"ANTHROPIC_API_KEY": "k", URL: server.url}), FORMAT
        )
        for asked, message in (
            ({"temperature": 2.0}, "temperature: Input should be less than or equal to 1"),
            ({"thinking": "high"}, "messages.1.content.0: Invalid `signature` in `thinking` block"),
        ):
            server.answers(refused(message), reply(ANTHROPIC[0].body))
            with pytest.raises(RequestRefused):
                await model.generate(Request(messages=[User("Hi")], **asked))
            await model.generate(Request(messages=[User("Hi")], **asked))
        await model.close()

        assert [each.json.get("temperature") for each in server.seen[:2]] == [2.0, 2.0]
        assert ["thinking" in each.json for each in server.seen[2:]] == [True, True]


@pytest.mark.parametrize(
    ("status", "type", "message", "kind", "parameter"),
    [
        (401, "authentication_error", "invalid x-api-key", "key", ""),
        (403, "permission_error", "no", "key", ""),
        (404, "not_found_error", "model: x", "model", ""),
        (413, "request_too_large", "Request exceeds the maximum size", "context", ""),
        (400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum", "context", ""),
        (400, "invalid_request_error", "input length and `max_tokens` exceed context limit", "context", ""),
        (400, "invalid_request_error", "Your credit balance is too low", "quota", ""),
        (400, "invalid_request_error", "You have reached your specified API usage limits.", "quota", ""),
        (402, "billing_error", "pay", "quota", ""),
        (429, "rate_limit_error", "slow", "rate", ""),
        (529, "overloaded_error", "Overloaded", "unavailable", ""),
        (500, "api_error", "Internal", "unavailable", ""),
        (502, "", "", "unavailable", ""),
        (
            400,
            "invalid_request_error",
            "`temperature` is deprecated for this model.",
            "parameter",
            "temperature",
        ),
        (400, "invalid_request_error", "stop_sequences: too many", "request", ""),
        (400, "invalid_request_error", "temperature: Input should be less than or equal to 1", "request", ""),
        (
            400,
            "invalid_request_error",
            "messages.1.content.0: Invalid `signature` in `thinking` block",
            "request",
            "",
        ),
        (
            400,
            "invalid_request_error",
            "messages.1.content.0: `thinking` is not supported here",
            "request",
            "",
        ),
        (400, "invalid_request_error", "messages.1.thinking: Extra inputs are not permitted", "request", ""),
        (
            400,
            "invalid_request_error",
            "tools.0.custom.input_schema.properties: set_temperature: JSON schema is invalid",
            "request",
            "",
        ),
        (400, "invalid_request_error", "set_temperature is not supported", "request", ""),
        (
            400,
            "invalid_request_error",
            "thinking.budget_tokens: Input should be at least 1024",
            "request",
            "",
        ),
        (
            400,
            "invalid_request_error",
            "temperature: Extra inputs are not permitted",
            "parameter",
            "temperature",
        ),
        (
            400,
            "invalid_request_error",
            "adaptive thinking is not supported on this model",
            "parameter",
            "thinking",
        ),
        (
            400,
            "invalid_request_error",
            "This model does not support the effort parameter.",
            "parameter",
            "thinking",
        ),
        (
            400,
            "invalid_request_error",
            "output_config.effort: Extra inputs are not permitted",
            "parameter",
            "thinking",
        ),
        (400, "invalid_request_error", "tools.0.input_schema: oneOf is not supported", "request", ""),
        (400, "invalid_request_error", "Tool use is not supported.", "tools", ""),
        (400, "invalid_request_error", '"thinking.type.enabled" is not supported', "parameter", "thinking"),
        (400, "invalid_request_error", "This model does not support tools", "tools", ""),
        (400, "invalid_request_error", "messages: at least one message is required", "request", ""),
    ],
)
def test_a_refusal_says_what_is_refused(
    status: int, type: str, message: str, kind: str, parameter: str
) -> None:
    found = FORMAT.refusal(status, {"type": "error", "error": {"type": type, "message": message}})

    assert (found.kind, found.message, found.parameter) == (kind, message or type, parameter)


def test_a_refusal_without_json_is_told_by_its_status() -> None:
    found = FORMAT.refusal(503, "<html>upstream failed</html>")

    assert (found.kind, found.message) == ("unavailable", "<html>upstream failed</html>")


@pytest.mark.parametrize("body", [None, [], "text", {}, {"content": "text"}, {"content": None}])
def test_what_is_no_answer_is_unreadable(body: Any) -> None:
    with pytest.raises(Unreadable):
        FORMAT.result(body)


@UNHURRIED
@examples(150)
@given(body=JSON, status=st.sampled_from([0, 400, 404, 500]))
def test_no_answer_of_any_shape_breaks_the_format(body: Any, status: int) -> None:
    for attempt in (body, {"content": body}, {"content": [body], "usage": body}):
        with suppress(Refused, Unreadable):
            assert isinstance(FORMAT.result(attempt), Result)
    assert isinstance(FORMAT.refusal(status, body).message, str)


@UNHURRIED
@examples(150)
@given(
    datas=st.lists(JSON, max_size=6),
    name=st.sampled_from(
        ["", "message_start", "content_block_start", "content_block_delta", "message_delta"]
    ),
)
def test_no_stream_of_any_shape_breaks_the_reader(datas: list[Any], name: str) -> None:
    reader = FORMAT.reader()
    with suppress(Refused, Unreadable):
        for data in datas:
            list(reader.feed(Event(name, json.dumps(data))))
        assert isinstance(reader.result(), Result)


@UNHURRIED
@examples(40)
@given(recorded=st.sampled_from(ANTHROPIC), cuts=st.lists(st.integers(0, 4000), max_size=12))
def test_a_stream_reads_the_same_wherever_it_is_cut(recorded: Recorded, cuts: list[int]) -> None:
    whole = recorded.stream
    ends = sorted({0, len(whole), *(cut % len(whole) for cut in cuts)})
    decoder, reader = EventDecoder(), FORMAT.reader()

    pieces = [
        piece
        for start, end in pairwise(ends)
        for event in decoder.feed(whole[start:end])
        for piece in reader.feed(event)
    ]

    assert (pieces, reader.result()) == read(whole)


@pytest.mark.parametrize("recorded", ANTHROPIC, ids=lambda recorded: recorded.name)
def test_a_stream_ends_in_what_the_whole_answer_says(recorded: Recorded) -> None:
    assert read(recorded.stream)[1] == FORMAT.result(recorded.body)
