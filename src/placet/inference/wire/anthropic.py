"""Anthropic's messages: what is sent, and what comes back.

The version of the API is the one that still takes a temperature, and the key goes where servers that speak
this format look for it; both are constants, and the comparison with the official client lists them.

Keep true:
1. Thoughts that carry a signature go back as they came, before what was said after them.
2. Roles take turns: results of tools and what is said next are one message.
3. At most two marks for the cache: behind what never changes, and at the end of the conversation.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

from placet.inference.messages import Assistant, System, Text, ToolResult, User
from placet.inference.model import Request, Result
from placet.inference.wire.anthropic_answer import FORMAT, AnthropicReader, refusal_of, result_of
from placet.inference.wire.anthropic_schema import accepted
from placet.inference.wire.call_ids import PLAIN, with_ids
from placet.inference.wire.format import Dialect, HttpCall, Refusal, Refused, Unreadable
from placet.inference.wire.shapes import an_object, fields, objects, version, words
from placet.ir.codec import encode
from placet.ir.json_value import JsonValue
from placet.ir.tool_spec import ToolSchema

API_VERSION = "2023-06-01"
"""A later one, 2026-10-21, refuses every request that has a temperature."""
MAX_TOKENS = 16_384
"""The API wants a limit; this one is sent where the request has none."""
BUDGETS = {"low": 1_024, "medium": 4_096, "high": 16_384}
"""Tokens to think with, on top of those of the answer."""
CACHE_FROM = 4_096
"""Characters: about the 1,024 tokens below which no model caches anything."""

_ADAPTIVE = (4, 6)
"""From here on a model decides itself how much it thinks; the ones before want a number of tokens."""
_SETTLED = (4, 7)
"""From here on a model takes no temperature."""
_ALWAYS_THINK = ("fable", "mythos")
_MARK = {"type": "ephemeral"}


class AnthropicMessages:
    """The format of api.anthropic.com, and of servers that imitate it."""

    name = FORMAT

    def call(
        self, request: Request, model: str, key: str | None, dialect: Dialect, *, stream: bool
    ) -> HttpCall:
        """What to send."""
        body: dict[str, JsonValue] = {"model": model, "max_tokens": request.max_tokens or MAX_TOKENS}
        system = "\n\n".join(each.text for each in request.messages if isinstance(each, System) and each.text)
        if system:
            body["system"] = system
        body["messages"] = _messages(request)
        if request.tools:
            body["tools"] = [_tool(each) for each in request.tools]
            if request.tool_choice != "auto":
                body["tool_choice"] = {"type": "any" if request.tool_choice == "required" else "none"}
        if request.schema is not None:
            body["output_config"] = {"format": {"type": "json_schema", "schema": accepted(request.schema)}}
        if request.stop:
            body["stop_sequences"] = list(request.stop)
        if "thinking" not in dialect.without:
            _think(body, request, model)
        if _takes_temperature(body, model) and "temperature" not in dialect.without:
            if request.temperature is not None:
                body["temperature"] = request.temperature
        if stream:
            body["stream"] = True
        if request.cache:
            _mark(body)
        headers = {"anthropic-version": API_VERSION}
        if key:
            headers["x-api-key"] = key
        return HttpCall(path="/v1/messages", headers=headers, body=body)

    def result(self, body: JsonValue) -> Result:
        """What a whole answer says."""
        answer = an_object(body, "the answer")
        if answer.get("type") == "error" or answer.get("error"):
            raise Refused(refusal_of(0, answer))
        if not isinstance(answer.get("content"), list):
            raise Unreadable("it has no list 'content'")
        return result_of(answer, objects(answer["content"]))

    def reader(self) -> AnthropicReader:
        """For one stream."""
        return AnthropicReader()

    def refusal(self, status: int, body: JsonValue) -> Refusal:
        """Why a request was refused."""
        return refusal_of(status, body)


def _messages(request: Request) -> list[JsonValue]:
    messages: list[dict[str, Any]] = []
    for message in with_ids(request.messages, PLAIN):
        match message:
            case User():
                role, blocks = "user", [block for part in message.parts for block in _part(part)]
            case ToolResult():
                role, blocks = "user", [_tool_result(message)]
            case Assistant():
                role, blocks = "assistant", _said(message)
            case System():
                continue
        if not blocks:
            continue
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": blocks})
    for each in messages:
        # The short form: most conversations consist of it.
        if len(each["content"]) == 1 and each["content"][0]["type"] == "text":
            each["content"] = each["content"][0]["text"]
    return list(messages)


def _part(part: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(part, Text):
        data = b64encode(part.data).decode()
        yield {"type": "image", "source": {"type": "base64", "media_type": part.type, "data": data}}
    elif part.text:
        # An empty text is refused.
        yield {"type": "text", "text": part.text}


def _tool_result(message: ToolResult) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": message.call_id, "content": message.text}
    if message.is_error:
        # An error without words is refused.
        block |= {"content": message.text or "It failed.", "is_error": True}
    return block


def _said(message: Assistant) -> list[dict[str, Any]]:
    """The blocks of what a model said: its thoughts where they were, if nothing was changed since."""
    said: list[dict[str, Any]] = [{"type": "text", "text": message.text}] if message.text else []
    said += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)}
        for call in message.calls
    ]
    if message.carried is None or message.carried.format != FORMAT:
        return said
    carried = objects(message.carried.data)
    thoughts = [each for each in carried if each.get("type") in ("thinking", "redacted_thinking")]
    if len(thoughts) == len(carried):
        return thoughts + said
    others = [each for each in carried if each not in thoughts]
    text = "".join(words(each.get("text")) for each in others if each.get("type") == "text")
    calls = [each for each in others if each.get("type") == "tool_use"]
    is_same = text == message.text and calls == [each for each in said if each["type"] == "tool_use"]
    return carried if is_same else thoughts + said


def _tool(tool: ToolSchema) -> dict[str, Any]:
    described = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **described, "input_schema": {"type": "object", **tool.parameters}}


def _think(body: dict[str, JsonValue], request: Request, model: str) -> None:
    """Say how much to think, in the way that this model knows."""
    level, adapts = request.thinking, _adapts(model)
    if level is None:
        return
    if level == "off":
        # The others do not think unless they are asked to; some cannot be kept from it.
        if adapts and not any(each in model for each in _ALWAYS_THINK):
            body["thinking"] = {"type": "disabled"}
        return
    if not adapts and (body.get("tool_choice") == {"type": "any"} or _is_unthought(request)):
        # These think about no call that is forced on them, nor on from one that they did not think about.
        return
    body["max_tokens"] += BUDGETS[level]
    if adapts:
        body["thinking"] = {"type": "adaptive", "display": "summarized"}
        body["output_config"] = {**fields(body.get("output_config")), "effort": level}
    else:
        body["thinking"] = {"type": "enabled", "budget_tokens": BUDGETS[level]}


def _is_unthought(request: Request) -> bool:
    """Whether the model is to go on from calls that came without thoughts, such as another model's."""
    if not request.messages or not isinstance(request.messages[-1], ToolResult):
        return False
    last = next((each for each in reversed(request.messages) if isinstance(each, Assistant)), None)
    return last is not None and (last.carried is None or last.carried.format != FORMAT)


def _adapts(model: str) -> bool:
    if "claude" not in model:
        return False
    return (version(model) or _ADAPTIVE) >= _ADAPTIVE


def _takes_temperature(body: dict[str, JsonValue], model: str) -> bool:
    if fields(body.get("thinking")).get("type", "disabled") != "disabled":
        return False
    return "claude" not in model or (version(model) or _SETTLED) < _SETTLED


def _mark(body: dict[str, JsonValue]) -> None:
    """Mark what is worth caching: what every request of a conversation begins with, and all of it."""
    tools, system, messages = body.get("tools", []), body.get("system", ""), body["messages"]
    size = len(encode(tools)) + len(system)
    if size >= CACHE_FROM:
        if system:
            body["system"] = [{"type": "text", "text": system, "cache_control": _MARK}]
        else:
            tools[-1] = {**tools[-1], "cache_control": _MARK}
    if messages and size + len(encode(messages)) >= CACHE_FROM and messages[-1]["role"] == "user":
        last = messages[-1]
        if isinstance(last["content"], str):
            last["content"] = [{"type": "text", "text": last["content"]}]
        last["content"][-1] = {**last["content"][-1], "cache_control": _MARK}
