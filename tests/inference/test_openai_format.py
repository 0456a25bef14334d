"""OpenAI's format: what is sent, and what is made of what comes back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.pretty import pretty_repr

from placet.inference.messages import Assistant, Carried, Image, System, Text, ToolCall, ToolResult, User
from placet.inference.model import Request, Result, Thought, Words
from placet.inference.sse import Event
from placet.inference.usage import Usage
from placet.inference.wire.envelopes import read_envelope
from placet.inference.wire.format import Dialect, Refused, Unreadable
from placet.inference.wire.openai import OpenAiChat, is_strict
from placet.ir.tool_spec import ToolSchema
from tests.properties.effort import examples

CHAT = OpenAiChat()
HELLO = (User("hello"),)


def body(request: Request, *, stream: bool = False, dialect: Dialect = Dialect()) -> dict[str, Any]:  # noqa: B008
    """What is sent, as the server reads it."""
    call = CHAT.call(request, "m", "sk-key", dialect, stream=stream)
    read: dict[str, Any] = json.loads(msgspec.json.encode(call.body))
    return read


def answer(message: object, finish: object = "stop", **more: object) -> dict[str, Any]:
    return {"model": "m-1", "choices": [{"index": 0, "message": message, "finish_reason": finish}], **more}


def chunk(delta: object = None, finish: str | None = None, **more: object) -> dict[str, Any]:
    return {"model": "m-1", "choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **more}


def read(*chunks: object, done: bool = True) -> tuple[list[Words | Thought], Result]:
    """The pieces and the result of a stream of these chunks."""
    reader = CHAT.reader()
    texts = [each if isinstance(each, str) else json.dumps(each) for each in chunks]
    pieces = [p for text in [*texts, *["[DONE]"][: int(done)]] for p in reader.feed(Event("", text))]
    return pieces, reader.result()


def calls_in(*deltas: object) -> Sequence[ToolCall]:
    return read(*(chunk({"tool_calls": [each]}) for each in deltas), chunk(finish="tool_calls"))[1].calls


def test_a_plain_request_holds_what_was_asked_and_nothing_else() -> None:
    call = CHAT.call(Request(messages=HELLO), "m", "sk-key", Dialect(), stream=False)

    assert call.path == "/chat/completions"
    assert call.headers == {"authorization": "Bearer sk-key"}
    assert "sk-key" not in repr(call) + pretty_repr(call)
    assert call.body == {"model": "m", "messages": [{"role": "user", "content": "hello"}], "temperature": 0.0}
    assert CHAT.call(Request(messages=HELLO), "m", None, Dialect(), stream=False).headers == {}


def test_a_conversation_is_sent_in_order_with_its_calls_and_results() -> None:
    bad = ToolCall(id="c2", name="add", problem="the arguments are no JSON", raw='{"a": ')
    request = Request(
        messages=[
            System("be brief"),
            User([Text("what is this?"), Image(data=b"\x89PNG", type="image/png")]),
            Assistant(text="a", calls=[ToolCall(id="c1", name="add", arguments={"a": 1, "ü": [None]}), bad]),
            ToolResult(call_id="c1", name="add", text="2"),
            ToolResult(call_id="c2", name="add", text="no JSON", is_error=True),
            Assistant(text="two"),
            User([Text("thanks")]),
        ]
    )

    assert body(request)["messages"] == [
        {"role": "system", "content": "be brief"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "what is this?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
            ],
        },
        {
            "role": "assistant",
            "content": "a",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "add", "arguments": '{"a":1,"ü":[null]}'},
                },
                {"id": "c2", "type": "function", "function": {"name": "add", "arguments": '{"a": '}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
        {"role": "tool", "tool_call_id": "c2", "content": "no JSON"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "thanks"},
    ]


def test_calls_without_ids_and_their_results_still_belong_together() -> None:
    request = Request(
        messages=[
            *HELLO,
            Assistant(calls=[ToolCall(name="a"), ToolCall(name="b"), ToolCall(name="a")]),
            ToolResult(call_id="", name="b", text="of b"),
            ToolResult(call_id="", name="a", text="of the first a"),
            ToolResult(call_id="", name="a", text="of the second a"),
        ]
    )

    messages = body(request)["messages"]

    a, b, c = [each["id"] for each in messages[1]["tool_calls"]]
    assert len({a, b, c}) == 3
    assert messages[1]["content"] is None
    assert [each["tool_call_id"] for each in messages[2:]] == [b, a, c]


def test_ids_that_two_calls_share_are_told_apart_and_others_stay() -> None:
    def turn(*ids: str) -> list[Any]:
        calls = [ToolCall(id=id, name="get") for id in ids]
        return [Assistant(calls=calls), *(ToolResult(call_id=id, name="get", text="x") for id in ids)]

    messages = body(Request(messages=[*HELLO, *turn("functions.get:0", "0", "0"), *turn("0")]))["messages"]

    called = [each["id"] for message in messages for each in message.get("tool_calls", [])]
    assert [each["tool_call_id"] for each in messages if each["role"] == "tool"] == called
    assert called[:2] == ["functions.get:0", "0"]
    assert len(set(called)) == 4


def test_everything_that_can_be_asked_for_is_sent() -> None:
    tools = [
        ToolSchema(name="add", description="Adds.", parameters={"type": "object"}),
        ToolSchema(name="now"),
    ]
    request = Request(
        messages=HELLO, tools=tools, tool_choice="required", temperature=0.5, max_tokens=7, stop=["END"]
    )

    sent = body(request, stream=True, dialect=Dialect(max_tokens_key="max_completion_tokens"))

    assert sent["tools"] == [
        {
            "type": "function",
            "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object"}},
        },
        {
            "type": "function",
            "function": {"name": "now", "parameters": {"type": "object", "properties": {}}},
        },
    ]
    assert sent["tool_choice"] == "required"
    assert sent["temperature"] == 0.5
    assert sent["max_completion_tokens"] == 7
    assert sent["stop"] == ["END"]
    assert sent["stream"] is True
    assert sent["stream_options"] == {"include_usage": True}


def test_a_choice_of_tools_is_sent_only_with_tools() -> None:
    assert "tool_choice" not in body(Request(messages=HELLO, tool_choice="none"))
    assert "tool_choice" not in body(Request(messages=HELLO, tools=[ToolSchema(name="now")]))


def test_what_thinks_takes_an_effort_and_no_temperature() -> None:
    thinks = body(Request(messages=HELLO, thinking="low"))
    off = body(Request(messages=HELLO, thinking="off"))

    assert thinks["reasoning_effort"] == "low"
    assert "temperature" not in thinks
    assert "reasoning_effort" not in off
    assert off["temperature"] == 0.0
    assert "temperature" not in body(Request(messages=HELLO, temperature=None))


def test_what_a_server_does_not_take_is_left_out() -> None:
    request = Request(messages=HELLO, stop=["END"])

    sent = body(request, stream=True, dialect=Dialect(without=frozenset({"stream_options", "stop", "other"})))

    assert set(sent) == {"model", "messages", "temperature", "stream"}


CLOSED = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (CLOSED, True),
        ({**CLOSED, "additionalProperties": True}, False),
        ({**CLOSED, "required": []}, False),
        ({**CLOSED, "required": 5}, False),
        ({**CLOSED, "properties": {"a": {"type": "array", "items": CLOSED}}}, True),
        ({**CLOSED, "properties": {"a": {"type": "array", "items": {"type": "object"}}}}, False),
        ({**CLOSED, "properties": {"a": {"anyOf": [CLOSED, {"type": "null"}]}}}, True),
        ({**CLOSED, "properties": {"a": {"anyOf": [CLOSED, {"type": ["object", "null"]}]}}}, False),
        ({**CLOSED, "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": CLOSED}}, True),
        ({**CLOSED, "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"type": "object"}}}, False),
        ({**CLOSED, "properties": {"a": {"oneOf": [CLOSED]}}}, False),
        ({**CLOSED, "properties": {"a": {}}}, False),
        ({**CLOSED, "properties": {"a": True}}, False),
        ({"anyOf": [CLOSED]}, False),
        ({"type": "array", "items": CLOSED}, False),
        ({}, False),
    ],
)
def test_a_schema_is_strict_only_where_every_object_is_closed(schema: dict[str, Any], strict: bool) -> None:
    assert is_strict(schema) is strict
    assert body(Request(messages=HELLO, schema=schema))["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema, "strict": strict},
    }


def test_a_text_is_read_with_usage_and_cost() -> None:
    told = {
        "prompt_tokens": 10,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 4},
        "cost": 0.25,
    }

    assert CHAT.result(answer({"content": "hi"}, usage=told)) == Result(
        text="hi", model="m-1", usage=Usage(input=10, output=3, cached=4), cost=0.25
    )


@pytest.mark.parametrize("usage", [None, {}, [], "many", {"prompt_tokens": -1, "completion_tokens": "3"}])
def test_what_it_took_is_not_known_where_the_server_does_not_say(usage: object) -> None:
    assert CHAT.result(answer({"content": "hi"}, usage=usage)).usage is None


@pytest.mark.parametrize("cost", [True, "1", -1, 10**400, None, [1]])
def test_what_is_no_cost_is_none(cost: object) -> None:
    assert CHAT.result(answer({"content": "hi"}, usage={"prompt_tokens": 1, "cost": cost})).cost is None


@pytest.mark.parametrize(
    ("message", "finish", "stop"),
    [
        ({"content": "x"}, "stop", "end"),
        ({"content": "x"}, "length", "length"),
        ({"content": ""}, "content_filter", "refused"),
        ({"content": None, "refusal": "I will not."}, "stop", "refused"),
        ({"content": "x"}, "eos", "other"),
        ({"content": "x"}, None, "end"),
        ({"content": "x", "tool_calls": []}, "tool_calls", "end"),
        ({"tool_calls": [{"id": "1", "function": {"name": "a", "arguments": ""}}]}, "stop", "calls"),
        ({"tool_calls": [{"id": "1", "function": {"name": "a", "arguments": ""}}]}, "tool", "calls"),
        ({"tool_calls": [{"id": "1", "function": {"name": "a", "arguments": '{"b'}}]}, "length", "length"),
    ],
)
def test_why_it_stopped(message: dict[str, Any], finish: str | None, stop: str) -> None:
    result = CHAT.result(answer(message, finish))

    assert result.stop == stop
    if message.get("refusal"):
        assert result.text == "I will not."


def test_reasoning_and_parts_are_told_apart() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
        "nonsense",
    ]

    assert CHAT.result(answer({"content": parts})).reasoning == "hm"
    assert CHAT.result(answer({"content": parts})).text == "ab"
    assert CHAT.result(answer({"content": "x", "reasoning_content": "r"})).reasoning == "r"
    assert CHAT.result(answer({"content": "x", "reasoning": "r", "reasoning_content": "r"})).reasoning == "r"


@pytest.mark.parametrize(
    ("given", "arguments", "has_problem"),
    [
        ('{"a": 1}', {"a": 1}, False),
        ("", {}, False),
        (None, {}, False),
        ({"a": 1}, {"a": 1}, False),
        ('{"a": 1', {}, True),
        ('{"a": 1, "a": 2}', {}, True),
        ('{"a": NaN}', {}, True),
        ("[1]", {}, True),
        ("[" * 10_000, {}, True),
        ([1], {}, True),
        (5, {}, True),
    ],
)
def test_arguments_are_an_object_or_a_problem(given: object, arguments: object, has_problem: bool) -> None:
    call = {"id": "c", "function": {"name": "add", "arguments": given}}

    [whole] = CHAT.result(answer({"tool_calls": [call]}, "tool_calls")).calls
    [streamed] = calls_in({"index": 0, **call})

    assert whole == streamed
    assert (whole.id, whole.name, whole.arguments) == ("c", "add", arguments)
    assert bool(whole.problem) is has_problem
    if has_problem and isinstance(given, str):
        assert whole.raw == given


def test_whole_calls_with_the_same_id_or_none_stay_apart() -> None:
    one, other = (
        {"function": {"name": "a", "arguments": "{}"}},
        {"function": {"name": "b", "arguments": "{}"}},
    )

    for ids in ({}, {"id": "same"}):
        calls = CHAT.result(answer({"tool_calls": [{**one, **ids}, {**other, **ids}]}, "tool_calls")).calls
        assert [each.name for each in calls] == ["a", "b"]


def test_a_stream_is_read_piece_by_piece() -> None:
    pieces, result = read(
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "let me"}),
        chunk({"reasoning": " see"}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk(finish="stop"),
        {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
    )

    assert pieces == [Thought("let me"), Thought(" see"), Words("Hel"), Words("lo")]
    assert result == Result(text="Hello", reasoning="let me see", model="m-1", usage=Usage(input=1, output=2))


A = ToolCall(id="1", name="add", arguments={"a": 1})
B = ToolCall(id="2", name="now", arguments={})


@pytest.mark.parametrize(
    "deltas",
    [
        pytest.param(
            [
                {"index": 0, "id": "1", "function": {"name": "ad", "arguments": ""}},
                {"index": 0, "function": {"name": "d", "arguments": '{"a"'}},
                {"index": 1, "id": "2", "function": {"name": "now"}},
                {"index": 0, "function": {"arguments": ": 1}"}},
                {"index": 1, "function": {"arguments": "{}"}},
            ],
            id="pieces",
        ),
        pytest.param(
            [
                {"id": "1", "function": {"name": "add", "arguments": '{"a": 1}'}},
                {"id": "2", "function": {"name": "now", "arguments": "{}"}},
            ],
            id="whole without index",
        ),
        pytest.param(
            [
                {"index": 0, "id": "1", "function": {"name": "add", "arguments": '{"a": 1}'}},
                {"index": 0, "id": "2", "function": {"name": "now", "arguments": "{}"}},
            ],
            id="all are number 0",
        ),
        pytest.param(
            [
                {"index": 0, "id": "1", "function": {"name": "add", "arguments": '{"a"'}},
                {"index": 0, "id": "1", "function": {"name": "add", "arguments": ": 1}"}},
                {"index": 1, "id": "2", "function": {"name": "now", "arguments": None}},
            ],
            id="name said again",
        ),
        pytest.param(
            [
                {"id": "1", "function": {"name": "add", "arguments": '{"a"'}},
                {"function": {"arguments": ": 1}"}},
                {"id": "2", "function": {"name": "now", "arguments": {}}},
            ],
            id="pieces without index",
        ),
        pytest.param(
            [
                {"index": 0, "id": "1", "function": {"name": "add", "arguments": '{"a"'}},
                {"index": 0, "id": "x", "function": {"arguments": ": 1}"}},
                {"index": 1, "id": "2", "function": {"name": "now"}},
            ],
            id="a new id with every piece",
        ),
    ],
)
def test_calls_are_put_together_however_they_were_cut(deltas: list[object]) -> None:
    assert list(calls_in(*deltas)) == [A, B]


@pytest.mark.parametrize(
    "deltas",
    [
        [
            {"id": "0", "function": {"name": "add", "arguments": '{"a": 1}'}},
            {"id": "0", "function": {"name": "now", "arguments": "{}"}},
        ],
        [
            {"id": "0", "function": {"name": "add", "arguments": '{"a": 1}'}},
            {"id": "0", "function": {"name": "add", "arguments": '{"a": 1}'}},
        ],
        [
            {"id": "0", "function": {"name": "now", "arguments": ""}},
            {"id": "0", "function": {"name": "add", "arguments": '{"a": 1}'}},
        ],
        [
            {"id": "0", "function": {"name": "add", "arguments": {"a": 1}}},
            {"id": "0", "function": {"name": "add", "arguments": {"a": 2}}},
        ],
        [
            {"index": 0, "function": {"name": "add", "arguments": '{"a": 1}'}},
            {"index": 0, "function": {"name": "now", "arguments": "{}"}},
        ],
    ],
)
def test_two_calls_of_one_id_are_two_as_in_the_whole_answer(deltas: list[object]) -> None:
    whole = CHAT.result(answer({"tool_calls": deltas}, "tool_calls")).calls

    assert list(calls_in(*deltas)) == list(whole)
    assert list(read(chunk({"tool_calls": deltas}, "tool_calls"))[1].calls) == list(whole)
    assert len(whole) == 2


@pytest.mark.parametrize("more", [{"index": 0}, {"index": 0, "id": "1"}, {"id": "1"}])
def test_a_name_that_is_said_with_every_piece_is_one_name(more: dict[str, Any]) -> None:
    pieces = ['{"a"', ": ", "1}", ""]

    calls = calls_in(
        {**more, "id": "1", "function": {"name": "add", "arguments": ""}},
        *({**more, "function": {"name": "add", "arguments": each}} for each in pieces),
    )

    assert list(calls) == [A]


def test_a_call_that_was_cut_off_before_its_arguments_is_none() -> None:
    whole = {"index": 0, "id": "1", "function": {"name": "add", "arguments": '{"a": 1}'}}
    cut = {"index": 1, "id": "2", "function": {"name": "wipe", "arguments": ""}}

    first, last = read(chunk({"tool_calls": [whole, cut]}), chunk(finish="length"))[1].calls

    assert first == A
    assert "cut off" in last.problem
    assert CHAT.result(answer({"tool_calls": [whole, cut]}, "length")).calls == (first, last)
    sent = body(Request(messages=[Assistant(calls=[last])]))["messages"][0]["tool_calls"]
    assert sent[0]["function"]["arguments"] == "{}"


def test_halves_of_characters_are_joined_or_replaced() -> None:
    half = r'{"choices": [{"delta": {"content": "a\ud83d", "reasoning": "\ude00"}}]}'
    rest = r'{"choices": [{"delta": {"content": "\ude00b\ud83d"}, "finish_reason": "stop"}]}'

    _, result = read(half, rest)

    assert (result.text, result.reasoning, result.calls) == ("a\U0001f600b\ufffd", "\ufffd", ())


def test_a_key_that_stands_twice_loses_no_answer() -> None:
    text = '{"choices": [{"delta": {"content": "x"}, "finish_reason": null, "finish_reason": "stop"}]}'

    assert read(text)[1].text == "x"


def test_arguments_stay_strict_whatever_they_come_in() -> None:
    def streamed(*pieces: str) -> ToolCall:
        start = (
            r'{"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"name": "add", "arguments": "'
        )
        return read(*(f'{start}{each}"}}}}]}}}}]}}' for each in pieces), chunk(finish="tool_calls"))[1].calls[
            0
        ]

    assert streamed(r"{\"a\": \"\ud83d", r"\ude00\"}").arguments == {"a": "\U0001f600"}
    for pieces in ([r"{\"a\": \"\ud83d", r"\"}"], [r"{\"a\": 1, ", r"\"a\": 2}"]):
        found = streamed(*pieces)
        assert found.problem
        assert found.arguments == {}
        assert found.raw.isprintable()
    for flawed in (r'{"a": "\ud83d"}', '{"a": 1, "a": 2}'):
        call = f'{{"function": {{"name": "add", "arguments": {flawed}}}}}'
        whole = f'{{"choices": [{{"message": {{"tool_calls": [{call}]}}}}]}}'
        [found] = CHAT.result(read_envelope(whole, "it")).calls
        assert "cannot be trusted" in found.problem


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 5000, "[" * 101 + "]" * 101, '{"a": NaN, "a": 1}', '{"a": 1e999, "a": 1}']
)
def test_what_is_no_json_at_all_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        list(CHAT.reader().feed(Event("", text or " ")))


def test_calls_without_index_and_id_stay_apart() -> None:
    calls = calls_in(
        {"function": {"name": "add", "arguments": '{"a": 1}'}},
        {"function": {"name": "now", "arguments": "{}"}},
    )

    assert [(each.id, each.name, each.arguments) for each in calls] == [
        ("", "add", {"a": 1}),
        ("", "now", {}),
    ]


def test_thoughts_go_back_with_the_calls_they_led_to() -> None:
    call = {"index": 0, "id": "1", "function": {"name": "add", "arguments": "{}"}}
    details = [{"type": "reasoning.text", "index": 0, "text": text} for text in ("he", "re")]

    _, result = read(
        chunk({"reasoning_content": "he", "reasoning_details": details[:1]}),
        chunk({"reasoning_content": "re", "reasoning_details": details[1:]}),
        chunk({"tool_calls": [call]}, "tool_calls"),
    )
    [sent] = body(Request(messages=[result.message]))["messages"]
    [bare] = body(
        Request(messages=[result.message]),
        dialect=Dialect(without=frozenset({"reasoning_content", "reasoning_details"})),
    )["messages"]

    assert sent["reasoning_content"] == "here"
    assert sent["reasoning_details"] == [{"type": "reasoning.text", "index": 0, "text": "here"}]
    assert set(bare) == {"role", "content", "tool_calls"}
    assert read(chunk({"reasoning_content": "x", "content": "y"}, "stop"))[1].carried is None


def test_what_another_format_carries_is_not_sent() -> None:
    message = Assistant(text="x", carried=Carried(format="gemini", data={"reasoning_content": "secret"}))

    assert body(Request(messages=[message]))["messages"] == [{"role": "assistant", "content": "x"}]


def test_a_stream_without_a_reason_to_stop_broke_off() -> None:
    with pytest.raises(Unreadable, match="broke off"):
        read(chunk({"content": "Hel"}))
    with pytest.raises(Unreadable, match="broke off"):
        read(done=False)


def test_only_the_first_choice_counts_and_nothing_after_the_end() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "no"}}]}

    pieces, result = read(other, chunk({"content": "yes"}, "stop"), "[DONE]", "no JSON at all")

    assert (pieces, result.text) == ([Words("yes")], "yes")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "overloaded", "code": 502}, "unavailable"),
        ({"message": "slow down", "code": 429}, "rate"),
        ({"message": "no", "type": "invalid_request_error"}, "request"),
        ({"message": "too long", "code": "context_length_exceeded"}, "context"),
        ("it broke", "unavailable"),
        (5, "unavailable"),
    ],
)
def test_an_error_inside_of_an_answer_is_a_refusal(error: object, kind: str) -> None:
    for ask in (
        lambda: CHAT.result({"error": error}),
        lambda: read(chunk({"content": "a"}), {"error": error, "choices": []}),
        lambda: CHAT.result({"choices": [{"error": error, "message": {"content": ""}}]}),
    ):
        with pytest.raises(Refused) as caught:
            ask()
        assert caught.value.refusal.kind == kind


def test_an_event_named_error_and_a_reason_called_error_are_refusals() -> None:
    with pytest.raises(Refused, match="it broke"):
        list(CHAT.reader().feed(Event("error", '{"message": "it broke"}')))
    with pytest.raises(Refused, match="insufficient_system_resource"):
        read(chunk({"content": "a"}, "insufficient_system_resource"))


REFUSALS: list[tuple[int, Any, str, str]] = [
    (401, {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}, "key", ""),
    (400, {"error": {"message": "bad", "code": "invalid_api_key"}}, "key", ""),
    (403, {"error": {"message": "not allowed"}}, "key", ""),
    (403, {"error": {"message": "flagged", "metadata": {"reasons": ["violence"]}}}, "request", ""),
    (404, {"error": {"message": "no such model", "code": "model_not_found"}}, "model", ""),
    (404, {"error": {"message": 'model "x" not found, try pulling it first'}}, "model", ""),
    (404, "404 page not found", "model", ""),
    (400, {"error": {"message": "x/y is not a valid model ID", "code": 400}}, "model", ""),
    (400, {"error": {"message": "Model Not Exist", "type": "invalid_request_error"}}, "model", ""),
    (400, {"error": {"message": "too long", "code": "context_length_exceeded"}}, "context", ""),
    (
        400,
        {
            "error": {
                "message": "This model's maximum context length is 131072 tokens. However, you requested"
            }
        },
        "context",
        "",
    ),
    (
        400,
        {
            "error": {
                "code": 400,
                "type": "exceed_context_size_error",
                "message": "the request exceeds the available context size, try increasing it",
            }
        },
        "context",
        "",
    ),
    (500, {"error": {"message": "the request exceeds the available context size"}}, "context", ""),
    (
        400,
        {
            "object": "error",
            "message": "The prompt is longer than the maximum model length of 8",
            "code": 400,
        },
        "context",
        "",
    ),
    (400, {"error": "prompt too long; exceeded max context length by 7 tokens"}, "context", ""),
    (400, {"error": {"message": "input length exceeds the context length"}}, "context", ""),
    (413, "Payload Too Large", "context", ""),
    (429, {"error": {"message": "quota", "code": "insufficient_quota"}}, "quota", ""),
    (402, {"error": {"message": "Insufficient Balance"}}, "quota", ""),
    (
        429,
        {"error": {"message": "Rate limit reached for requests", "code": "rate_limit_exceeded"}},
        "rate",
        "",
    ),
    (429, "slow down", "rate", ""),
    (400, {"error": {"message": "registry/library/gemma:2b does not support tools"}}, "tools", ""),
    (404, {"error": {"message": "No endpoints found that support tool use."}}, "tools", ""),
    (
        400,
        {"message": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser'},
        "tools",
        "",
    ),
    (500, {"error": {"message": "tools param requires --jinja flag"}}, "tools", ""),
    (
        400,
        {"error": {"message": "no", "code": "unsupported_value", "param": "temperature"}},
        "parameter",
        "temperature",
    ),
    (
        400,
        {"error": {"message": "Unrecognized request argument supplied: reasoning_effort", "param": None}},
        "parameter",
        "reasoning_effort",
    ),
    (
        400,
        {"error": {"message": "Unknown parameter: 'messages[1].reasoning_content'.", "param": "x"}},
        "parameter",
        "reasoning_content",
    ),
    (
        422,
        {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs"}]},
        "parameter",
        "stream_options",
    ),
    (400, {"error": {"message": "messages: must not be empty", "param": "messages"}}, "request", ""),
    (408, None, "unavailable", ""),
    (409, [], "unavailable", ""),
    (503, [{"error": {"message": "high demand"}}], "unavailable", ""),
    (529, "<html>overloaded</html>", "unavailable", ""),
    (418, {"detail": "teapot"}, "request", ""),
]


@pytest.mark.parametrize(("status", "said", "kind", "parameter"), REFUSALS)
def test_refusals_are_told_apart(status: int, said: object, kind: str, parameter: str) -> None:
    refusal = CHAT.refusal(status, said)

    assert (refusal.kind, refusal.parameter) == (kind, parameter)
    assert refusal.message


def test_what_the_server_behind_the_server_said_is_told() -> None:
    error = {"message": "Provider returned error", "code": 400, "metadata": {"raw": "bad image"}}

    assert CHAT.refusal(400, {"error": error}).message == "Provider returned error bad image"


def test_vectors_come_in_order_and_of_length_one() -> None:
    call = CHAT.embedding_call(["a", "b"], "m", "sk-key")
    data = [{"index": 1, "embedding": [0, 2.0]}, {"index": 0, "embedding": [3.0, 4.0]}]

    assert (call.path, call.body) == ("/embeddings", {"model": "m", "input": ["a", "b"]})
    assert call.headers == {"authorization": "Bearer sk-key"}
    assert CHAT.vectors({"data": data}, 2) == [[0.6, 0.8], [0.0, 1.0]]


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        [{"embedding": [1]}],
        [{"embedding": [1]}, {"embedding": [1, 2]}],
        [{"embedding": [1]}, {"embedding": ["1"]}],
        [{"embedding": [1]}, {"embedding": [0.0]}],
        [{"embedding": [1]}, {"embedding": [10**400]}],
        [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}],
        [{"index": 7, "embedding": [1]}, {"embedding": [1]}],
    ],
)
def test_vectors_that_are_none_are_unreadable(data: object) -> None:
    with pytest.raises(Unreadable):
        CHAT.vectors({"data": data}, 2)


NAMES = [
    *("choices", "message", "delta", "content", "tool_calls", "function", "name", "arguments", "index", "id"),
    *("finish_reason", "error", "usage", "code", "metadata", "detail", "loc", "reasoning_details", "type"),
    *("param", "refusal", "thinking", "text", "prompt_tokens", "prompt_tokens_details", "cost", "model"),
]
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 600)
    | st.sampled_from([10**400, 1.5, "", "x", "stop", "[1]", "{"])
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)


@examples(600)
@given(ANYTHING, ANYTHING, st.integers(100, 599))
def test_whatever_a_server_sends_ends_in_a_result_or_a_refusal(one: Any, other: Any, status: int) -> None:
    assert CHAT.refusal(status, one).kind
    for ask in (
        lambda: CHAT.result(one),
        lambda: CHAT.result(answer(one, other)),
        lambda: CHAT.result(answer({"tool_calls": [one, other], "content": one}, "stop", usage=other)),
        lambda: read(chunk(one), chunk({"tool_calls": one}), chunk(other, "stop"), one)[1],
        lambda: CHAT.vectors(one, 1),
    ):
        try:
            found = ask()
        except (Refused, Unreadable):
            continue
        assert isinstance(found, Result | list)
