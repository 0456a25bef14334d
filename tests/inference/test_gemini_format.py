"""Gemini's format: what the comparison with the official client cannot show."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.inference.messages import Assistant, Carried, Message, System, Text, ToolCall, ToolResult, User
from placet.inference.model import Request, Result, Thought, Words
from placet.inference.sse import Event, EventDecoder
from placet.inference.wire.format import Dialect, HttpCall, Refused, Unreadable
from placet.inference.wire.gemini import FROM_ELSEWHERE, GeminiContent
from placet.ir.tool_spec import ToolSchema
from tests.inference.oracles.recorded import GEMINI, Recorded
from tests.properties.effort import UNHURRIED, examples

FORMAT = GeminiContent()
SIGNED = Carried(format="gemini", data="c2ln")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *(
                        "candidates",
                        "content",
                        "parts",
                        "text",
                        "functionCall",
                        "args",
                        "finishReason",
                        "thought",
                    ),
                    *(
                        "usageMetadata",
                        "promptTokenCount",
                        "error",
                        "details",
                        "violations",
                        "promptFeedback",
                    ),
                ]
            ),
            inner | st.sampled_from(["STOP", "SAFETY"]),
            max_size=4,
        )
    ),
    max_leaves=20,
)


def call(*messages: Message, model: str = "gemini-2.5-flash", stream: bool = False, **more: Any) -> HttpCall:
    request = Request(messages=messages, **more)
    before = msgspec.json.encode(request)
    found = FORMAT.call(request, model, "key", Dialect(), stream=stream)
    assert msgspec.json.encode(request) == before, "the request was changed"
    return found


def read(stream: bytes) -> tuple[list[Words | Thought], Result]:
    decoder, reader = EventDecoder(), FORMAT.reader()
    found = [*decoder.feed(stream), *decoder.finish()]
    return [piece for event in found for piece in reader.feed(event)], reader.result()


def answer(*parts: Any, stop: str = "STOP", **more: Any) -> Result:
    candidate = {"content": {"role": "model", "parts": list(parts)}, "finishReason": stop}
    return FORMAT.result({"candidates": [candidate], **more})


@pytest.mark.parametrize(
    ("model", "stream", "path"),
    [
        ("gemini-2.5-flash", False, "/v1beta/models/gemini-2.5-flash:generateContent"),
        ("gemini-2.5-flash", True, "/v1beta/models/gemini-2.5-flash:streamGenerateContent"),
        ("tunedModels/mine", False, "/v1beta/tunedModels/mine:generateContent"),
        ("a?b#c", False, "/v1beta/models/a%3Fb%23c:generateContent"),
        ("../../evil/path", False, "/v1beta/models/..%2F..%2Fevil%2Fpath:generateContent"),
        ("tunedModels/../../x", False, "/v1beta/models/tunedModels%2F..%2F..%2Fx:generateContent"),
        ("a//b", False, "/v1beta/models/a%2F%2Fb:generateContent"),
        ("/a", False, "/v1beta/models/%2Fa:generateContent"),
        ("..", False, "/v1beta/models/..:generateContent"),
        ("%2e%2e", False, "/v1beta/models/%252e%252e:generateContent"),
    ],
)
def test_the_path_names_the_model(model: str, stream: bool, path: str) -> None:
    sent = call(User("Hi"), model=model, stream=stream)

    assert sent.path == path
    assert sent.query == ({"alt": "sse"} if stream else {})
    assert sent.headers == {"x-goog-api-key": "key"}


def test_the_key_is_not_in_the_address() -> None:
    sent = call(User("Hi"))

    assert "key" not in sent.path
    assert "key" not in sent.query


def test_several_systems_are_one_and_stand_apart() -> None:
    body = call(System("One."), User([Text("Hi"), Text("")]), System("Two."), Assistant(), User("")).body

    assert body["systemInstruction"]["parts"] == [{"text": "One.\n\nTwo."}]
    assert body["contents"] == [{"role": "user", "parts": [{"text": "Hi"}]}]


def test_results_that_came_in_another_order_are_sent_in_that_of_the_calls() -> None:
    calls = [ToolCall(id="a", name="now"), ToolCall(id="b", name="now"), ToolCall(id="c", name="now")]
    results = [ToolResult(call_id=id, name="now", text=id) for id in ("c", "a", "b")]

    body = call(User("Hi"), Assistant(calls=calls), *results, User("So?")).body

    assert [each["role"] for each in body["contents"]] == ["user", "model", "user", "user"]
    sent = [each["functionResponse"]["id"] for each in body["contents"][2]["parts"]]
    assert sent == ["a", "b", "c"]


def test_a_signature_goes_back_on_the_part_it_came_with() -> None:
    said = answer(
        {"text": "Let me see."},
        {"text": "", "thoughtSignature": "dGV4dA=="},
        {"functionCall": {"name": "now", "args": {}}, "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "now", "args": {}}},
    ).message

    parts = call(User("Hi"), said, model="gemini-3-pro").body["contents"][1]["parts"]

    assert parts == [
        {"text": "Let me see.", "thoughtSignature": "dGV4dA=="},
        {"functionCall": {"name": "now", "args": {}}, "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "now", "args": {}}},
    ]


def test_what_another_format_carries_is_not_sent_even_where_it_looks_the_same() -> None:
    other = Carried(format="anthropic", data="c2ln")
    said = Assistant(text="Yes.", carried=other, calls=[ToolCall(id="a", name="now", carried=other)])

    parts = call(User("Hi"), said).body["contents"][1]["parts"]

    assert parts == [{"text": "Yes."}, {"functionCall": {"id": "a", "name": "now", "args": {}}}]


def test_ids_that_two_calls_share_are_told_apart() -> None:
    calls = [ToolCall(id="0", name="now"), ToolCall(id="0", name="add"), ToolCall(name="now")]
    results = [ToolResult(call_id=call.id, name=call.name, text=call.name) for call in reversed(calls)]

    contents = call(User("Hi"), Assistant(calls=calls), *results).body["contents"]

    asked = [(each["functionCall"].get("id"), each["functionCall"]["name"]) for each in contents[1]["parts"]]
    told = [
        (each["functionResponse"].get("id"), each["functionResponse"]["name"])
        for each in contents[2]["parts"]
    ]
    assert asked == told
    assert len({id for id, _ in asked}) == 3
    assert asked[2] == (None, "now")


def test_a_call_that_was_cut_off_before_its_arguments_is_none() -> None:
    [cut] = answer({"functionCall": {"name": "wipe", "args": {}}}, stop="MAX_TOKENS").calls

    assert "cut off" in cut.problem


def test_halves_of_characters_lose_no_answer_but_a_call() -> None:
    half = r'{"candidates": [{"content": {"parts": [{"text": "\ud83d"}]}}]}'
    rest = r'{"candidates": [{"content": {"parts": [{"text": "\ude00"}]}, "finishReason": "STOP"}]}'
    called = rest.replace('"text": ', '"functionCall": {"name": "add", "args": {"a": ').replace(
        '00"', '00"}}'
    )

    assert read(f"data: {half}\n\ndata: {rest}\n\n".encode())[1].text == "\U0001f600"
    assert "cannot be trusted" in read(f"data: {called}\n\n".encode())[1].calls[0].problem


@pytest.mark.parametrize(
    ("model", "carried", "sent"),
    [
        ("gemini-3-pro", SIGNED, "c2ln"),
        ("gemini-3-pro", None, FROM_ELSEWHERE),
        ("gemini-flash-latest", Carried(format="anthropic", data=[]), FROM_ELSEWHERE),
        ("gemini-2.5-flash", SIGNED, "c2ln"),
        ("gemini-2.5-flash", None, None),
        ("gemma-3-27b-it", None, None),
    ],
)
def test_calls_of_others_get_the_signature_that_stands_for_none(
    model: str, carried: Carried | None, sent: str | None
) -> None:
    said = Assistant(calls=[ToolCall(id="a", name="now", carried=carried)])

    [part] = call(User("Hi"), said, model=model).body["contents"][1]["parts"]

    assert part.get("thoughtSignature") == sent


@pytest.mark.parametrize(
    ("model", "thinking", "sent"),
    [
        ("gemini-2.5-flash", "off", {"thinkingBudget": 0}),
        ("gemini-2.5-pro", "off", {"thinkingBudget": 128}),
        ("gemini-2.5-pro", "low", {"thinkingBudget": 1024, "includeThoughts": True}),
        ("gemini-3.5-flash", "off", {"thinkingLevel": "LOW"}),
        ("gemini-3.5-flash", "medium", {"thinkingLevel": "MEDIUM", "includeThoughts": True}),
        ("gemini-pro-latest", "high", {"thinkingLevel": "HIGH", "includeThoughts": True}),
        ("gemma-3-27b-it", "high", None),
        ("gemini-3.5-flash", None, None),
    ],
)
def test_thinking_is_asked_for_as_the_model_knows_it(model: str, thinking: Any, sent: Any) -> None:
    body = call(User("Hi"), model=model, thinking=thinking).body

    assert body["generationConfig"].get("thinkingConfig") == sent


def test_a_parameter_that_is_not_taken_is_left_out() -> None:
    request = Request(messages=[User("Hi")], thinking="low")
    dialect = Dialect(without=frozenset({"temperature", "thinking"}))

    assert "generationConfig" not in FORMAT.call(request, "gemini-3-pro", None, dialect, stream=False).body


def test_a_schema_of_parameters_says_that_they_are_an_object() -> None:
    tool = ToolSchema(name="add", parameters={"properties": {"a": {"type": "number"}}})

    [declared] = call(User("Hi"), tools=[tool]).body["tools"][0]["functionDeclarations"]

    assert declared["parametersJsonSchema"] == {"type": "object", "properties": {"a": {"type": "number"}}}


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("STOP", "end"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "refused"),
        ("RECITATION", "refused"),
        ("PROHIBITED_CONTENT", "refused"),
        ("MALFORMED_FUNCTION_CALL", "other"),
        ("SOMETHING_NEW", "other"),
    ],
)
def test_every_reason_to_stop_has_a_meaning(reason: str, stop: str) -> None:
    assert answer({"text": "x"}, stop=reason).stop == stop


def test_a_question_that_is_blocked_is_refused() -> None:
    result = FORMAT.result(
        {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}}
    )

    assert (result.stop, result.text) == ("refused", "")
    assert result.usage is not None
    assert (result.usage.input, result.usage.output) == (4, None)


@pytest.mark.parametrize(
    ("counts", "read", "written"),
    [
        ({"promptTokenCount": 4, "candidatesTokenCount": 2, "thoughtsTokenCount": 3}, 4, 5),
        ({"promptTokenCount": 4, "thoughtsTokenCount": 3}, 4, 3),
        ({"promptTokenCount": 4, "totalTokenCount": 4}, 4, 0),
        ({"promptTokenCount": 4}, 4, None),
        ({"promptTokenCount": -1, "candidatesTokenCount": True}, None, None),
    ],
)
def test_only_what_is_told_is_counted(counts: dict[str, Any], read: int | None, written: int | None) -> None:
    usage = answer({"text": "x"}, usageMetadata=counts).usage

    assert usage is not None
    assert (usage.input, usage.output) == (read, written)


def test_an_answer_without_usage_has_none() -> None:
    assert answer({"text": "x"}).usage is None


def test_parts_of_unknown_kinds_are_passed_over() -> None:
    assert answer({"executableCode": {"code": "1"}}, {"text": "Yes."}, "no part").text == "Yes."


def test_arguments_that_are_no_object_are_a_problem_of_the_call() -> None:
    [found] = answer({"functionCall": {"name": "now", "args": [1]}}).calls

    assert found.problem
    assert found.raw == "[1]"


def test_a_call_without_arguments_has_none() -> None:
    [found] = answer({"functionCall": {"name": "now"}}).calls

    assert (found.id, found.name, found.arguments, found.problem) == ("", "now", {}, "")


def test_a_stream_that_breaks_off_is_no_answer() -> None:
    whole = GEMINI[0].lines

    for end in range(len(whole)):
        with pytest.raises(Unreadable):
            read(b"".join(whole[:end]))


def test_an_error_in_the_middle_of_a_stream_is_a_refusal() -> None:
    error = b'data: {"error": {"code": 503, "message": "Busy", "status": "UNAVAILABLE"}}\n\n'

    with pytest.raises(Refused) as raised:
        read(GEMINI[0].lines[0] + error)

    assert raised.value.refusal.kind == "unavailable"


def test_a_list_of_pieces_is_an_answer() -> None:
    assert FORMAT.result(GEMINI[0].events) == FORMAT.result(GEMINI[0].body)


INVALID = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
DAY = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}
MINUTE = {"violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel"}]}


@pytest.mark.parametrize(
    ("code", "status", "message", "details", "kind"),
    [
        (400, "INVALID_ARGUMENT", "API key not valid. Please pass one.", [], "key"),
        (400, "INVALID_ARGUMENT", "No.", [INVALID], "key"),
        (401, "UNAUTHENTICATED", "Who?", [], "key"),
        (403, "PERMISSION_DENIED", "No.", [], "key"),
        (404, "NOT_FOUND", "models/x is not found", [], "model"),
        (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota", [MINUTE], "rate"),
        (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota", [DAY], "quota"),
        (429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted.", [], "quota"),
        (
            400,
            "INVALID_ARGUMENT",
            "The input token count exceeds the maximum number of tokens",
            [],
            "context",
        ),
        (400, "INVALID_ARGUMENT", "Function calling is not enabled for models/gemma", [], "tools"),
        (400, "INVALID_ARGUMENT", "Invalid value", [], "request"),
        (400, "INVALID_ARGUMENT", "Function calling config is set without declarations", [], "request"),
        (400, "FAILED_PRECONDITION", "User location is not supported", [], "request"),
        (500, "INTERNAL", "It broke", [], "unavailable"),
        (503, "UNAVAILABLE", "The model is overloaded", [], "unavailable"),
        (504, "DEADLINE_EXCEEDED", "Too late", [], "unavailable"),
    ],
)
def test_a_refusal_says_what_is_refused(
    code: int, status: str, message: str, details: list[Any], kind: str
) -> None:
    error = {"error": {"code": code, "message": message, "status": status, "details": details}}

    for body in (error, [error]):
        found = FORMAT.refusal(code, body)
        assert (found.kind, found.message) == (kind, message)


def test_a_refusal_without_json_is_told_by_its_status() -> None:
    assert FORMAT.refusal(502, "<html>").kind == "unavailable"
    assert FORMAT.refusal(404, "").kind == "model"


@pytest.mark.parametrize("body", [None, [], "text", {}, {"candidates": []}, {"candidates": [{}]}, [1]])
def test_what_is_no_answer_is_unreadable(body: Any) -> None:
    with pytest.raises(Unreadable):
        FORMAT.result(body)


@UNHURRIED
@examples(150)
@given(body=JSON, status=st.sampled_from([0, 400, 404, 500]))
def test_no_answer_of_any_shape_breaks_the_format(body: Any, status: int) -> None:
    candidate = {"content": {"parts": [body]}, "finishReason": "STOP"}
    for attempt in (body, {"candidates": [candidate], "usageMetadata": body}):
        with suppress(Refused, Unreadable):
            assert isinstance(FORMAT.result(attempt), Result)
    for refused in (body, {"error": body}, {"error": {"details": [body]}}):
        assert isinstance(FORMAT.refusal(status, refused).message, str)


@UNHURRIED
@examples(100)
@given(datas=st.lists(JSON, max_size=6))
def test_no_stream_of_any_shape_breaks_the_reader(datas: list[Any]) -> None:
    reader = FORMAT.reader()
    with suppress(Refused, Unreadable):
        for data in datas:
            list(reader.feed(Event("", json.dumps(data))))
        assert isinstance(reader.result(), Result)


@UNHURRIED
@examples(40)
@given(recorded=st.sampled_from(GEMINI), cuts=st.lists(st.integers(0, 4000), max_size=12))
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


@pytest.mark.parametrize("recorded", GEMINI, ids=lambda recorded: recorded.name)
def test_a_stream_ends_in_what_the_whole_answer_says(recorded: Recorded) -> None:
    assert read(recorded.stream)[1] == FORMAT.result(recorded.body)


@pytest.mark.parametrize(
    ("details", "seconds"),
    [
        ([{"@type": "x"}, {"retryDelay": "34s"}], 34.0),
        ([{"retryDelay": "0.5s"}], 0.5),
        ([{"retryDelay": "soon"}], None),
        ([{"retryDelay": 34}], None),
        ("34s", None),
        (None, None),
    ],
)
def test_how_long_it_wants_to_be_left_alone_stands_in_the_details(
    details: Any, seconds: float | None
) -> None:
    body = {"error": {"status": "RESOURCE_EXHAUSTED", "message": "too much", "details": details}}

    assert GeminiContent().refusal(429, body).retry_after_s == seconds
