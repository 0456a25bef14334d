"""OpenAI's chat completions, and what all the servers that speak them make of it.

Keep true:
1. It only translates: no clock, network, disk or retry.
2. A call whose arguments cannot be read goes back to the model as it was written.
3. What a server wants to have back unchanged goes back, and to no other format.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from math import isfinite, sqrt
from typing import assert_never

from placet.inference.messages import Assistant, Image, Message, System, Text, ToolCall, ToolResult, User
from placet.inference.model import Request, Result, Vectors
from placet.inference.usage import Usage
from placet.inference.wire.call_ids import with_ids
from placet.inference.wire.format import Dialect, HttpCall, Refusal, Unreadable
from placet.inference.wire.openai_answer import FORMAT, OpenAiStream, openai_result, raise_error
from placet.inference.wire.openai_refusals import openai_refusal
from placet.inference.wire.shapes import an_object, count, fields, objects
from placet.ir.codec import encode
from placet.ir.json_value import JsonValue
from placet.ir.tool_spec import ToolSchema

_ECHOED = ("reasoning_content", "reasoning_details")
"""What a server wants to have back where the model thinks, calls a tool, and is to go on thinking."""


class OpenAiChat:
    """The format."""

    name = FORMAT

    def call(
        self, request: Request, model: str, key: str | None, dialect: Dialect, *, stream: bool
    ) -> HttpCall:
        """What to send."""
        body: dict[str, JsonValue] = {
            "model": model,
            "messages": _messages(request.messages, dialect.without),
        }
        if request.tools:
            body["tools"] = [_function(each) for each in request.tools]
            if request.tool_choice != "auto":
                body["tool_choice"] = request.tool_choice
        if request.thinking in (None, "off"):
            if request.temperature is not None:
                body["temperature"] = request.temperature
        else:
            # Models that think take no other temperature than their own.
            body["reasoning_effort"] = request.thinking
        if request.max_tokens is not None:
            body[dialect.max_tokens_key] = request.max_tokens
        if request.stop:
            body["stop"] = list(request.stop)
        if request.schema is not None:
            form = {"name": "answer", "schema": request.schema, "strict": is_strict(request.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        if stream:
            body["stream"] = True
            body["stream_options"] = {"include_usage": True}
        for each in dialect.without:
            body.pop(each, None)
        return HttpCall(path="/chat/completions", headers=authorization(key), body=body)

    def result(self, body: JsonValue) -> Result:
        """What a whole answer says."""
        return openai_result(body)

    def reader(self) -> OpenAiStream:
        """For one stream."""
        return OpenAiStream()

    def refusal(self, status: int, body: JsonValue) -> Refusal:
        """Why a request was refused."""
        return openai_refusal(status, body)

    def embedding_call(self, texts: Sequence[str], model: str, key: str | None) -> HttpCall:
        """What to send for vectors instead of an answer."""
        return HttpCall(
            path="/embeddings", headers=authorization(key), body={"model": model, "input": list(texts)}
        )

    def vectors(self, body: JsonValue, wanted: int) -> Vectors:
        """The vectors of an answer, in the order of the texts, each of length 1.

        Raises:
            Refused: it is an error after all.
            Unreadable: there are fewer or more than were asked for, or one is none.
        """
        answer = an_object(body, "the answer")
        raise_error(answer)
        found = {
            place if (given := count(each.get("index"))) is None else given: _vector(each.get("embedding"))
            for place, each in enumerate(objects(answer.get("data")))
        }
        if sorted(found) != list(range(wanted)) or len({len(each) for each in found.values()}) > 1:
            raise Unreadable(f"it does not hold {wanted} vectors of one length")
        read = count(fields(answer.get("usage")).get("prompt_tokens"))
        usage = Usage(input=read, output=0) if read is not None else None
        return Vectors([found[place] for place in range(wanted)], usage=usage)


def is_strict(schema: JsonValue, *, is_root: bool = True) -> bool:
    """Whether OpenAI would enforce a schema: every object closed, every property required."""
    if not isinstance(schema, dict) or not _STRICT_KEYS.issuperset(schema):
        return False
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if "object" in kinds:
        properties = fields(schema.get("properties"))
        required = schema.get("required", [])
        if schema.get("additionalProperties") is not False or not isinstance(required, list):
            return False
        if {each for each in required if isinstance(each, str)} != set(properties):
            return False
    elif is_root or not ({"type", "anyOf", "$ref", "enum", "const"} & schema.keys()):
        return False
    below = [
        *fields(schema.get("properties")).values(),
        *fields(schema.get("$defs")).values(),
        *fields(schema.get("definitions")).values(),
        *(schema["anyOf"] if isinstance(schema.get("anyOf"), list) else []),
        *([schema["items"]] if "items" in schema else []),
    ]
    return all(is_strict(each, is_root=False) for each in below)


_STRICT_KEYS = frozenset(
    {
        *("type", "properties", "required", "additionalProperties", "items", "anyOf", "$ref", "$defs"),
        *("definitions", "enum", "const", "title", "description", "pattern", "format", "minimum", "maximum"),
        *("multipleOf", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"),
    }
)


def _messages(messages: Sequence[Message], without: frozenset[str]) -> list[JsonValue]:
    sent: list[JsonValue] = []
    for message in with_ids(messages):
        match message:
            case System(text=text):
                sent.append({"role": "system", "content": text})
            case User():
                sent.append({"role": "user", "content": _content(message)})
            case Assistant():
                sent.append(_assistant(message, without))
            case ToolResult():
                sent.append({"role": "tool", "tool_call_id": message.call_id, "content": message.text})
            case _:
                assert_never(message)
    return sent


def _content(message: User) -> JsonValue:
    # Some servers take a text and no list, so a text stays one.
    if len(message.parts) == 1 and isinstance(message.parts[0], Text):
        return message.parts[0].text
    return [_part(each) for each in message.parts]


def _part(part: Text | Image) -> JsonValue:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    url = f"data:{part.type};base64,{b64encode(part.data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def _assistant(message: Assistant, without: frozenset[str]) -> JsonValue:
    sent: dict[str, JsonValue] = {"role": "assistant", "content": message.text}
    if message.calls:
        sent["content"] = message.text or None
        sent["tool_calls"] = [
            {
                "id": each.id,
                "type": "function",
                "function": {"name": each.name, "arguments": _arguments(each)},
            }
            for each in message.calls
        ]
    if message.carried is not None and message.carried.format == FORMAT:
        kept = fields(message.carried.data)
        sent.update({name: kept[name] for name in _ECHOED if name in kept and name not in without})
    return sent


def _arguments(call: ToolCall) -> str:
    # No text at all is what was cut off; servers that read the text refuse it.
    return (call.raw or "{}") if call.problem else encode(call.arguments).decode()


def _function(tool: ToolSchema) -> JsonValue:
    function: dict[str, JsonValue] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = tool.parameters or {"type": "object", "properties": {}}
    return {"type": "function", "function": function}


def authorization(key: str | None) -> dict[str, str]:
    """The header with the key, if there is one."""
    return {"authorization": f"Bearer {key}"} if key else {}


def _vector(given: JsonValue) -> list[float]:
    if not isinstance(given, list) or not all(type(each) in (int, float) for each in given):
        raise Unreadable("a vector in it is no list of numbers")
    try:
        length = sqrt(sum(each * each for each in given))
    except OverflowError:
        length = 0.0
    if not length or not isfinite(length):
        raise Unreadable("a vector in it has no direction")
    return [each / length for each in given]
