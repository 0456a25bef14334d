"""The answers of Anthropic's messages: whole, as a stream, or refused.

Keep true:
1. A stream and the same answer in one piece read the same: both go through `result_of`.
2. Kinds of blocks and events that are not known are passed over; they are added without notice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from placet.inference.messages import Carried, ToolCall
from placet.inference.model import Result, Stop, Thought, Words
from placet.inference.sse import Event
from placet.inference.usage import Usage
from placet.inference.wire.envelopes import whole_result
from placet.inference.wire.format import Kind, Refusal, Refused, Unreadable
from placet.inference.wire.shapes import (
    count,
    event_data,
    fields,
    tool_call,
    tool_call_of_text,
    without_cut,
    words,
)
from placet.ir.json_value import JsonValue

FORMAT = "anthropic"

_STOPS: dict[str, Stop] = {
    "end_turn": "end",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "stop_sequence": "stop",
    "refusal": "refused",
}
_KINDS: dict[str, Kind] = {
    "authentication_error": "key",
    "permission_error": "key",
    "billing_error": "quota",
    "not_found_error": "model",
    "request_too_large": "context",
    "rate_limit_error": "rate",
    "overloaded_error": "unavailable",
    "api_error": "unavailable",
    "timeout_error": "unavailable",
    "conflict_error": "unavailable",
}
_STATUSES: dict[int, Kind] = {
    401: "key",
    402: "quota",
    403: "key",
    404: "model",
    408: "unavailable",
    409: "unavailable",
    413: "context",
    429: "rate",
}
_TOO_LONG = ("prompt is too long", "exceed context limit", "exceeds the context", "context window")
_SPENT = ("credit balance", "usage limit", "spend limit")
_IN_PLACE = re.compile(r"(?:messages|tools|system)\b")
"""A message that begins so is about something in the conversation or in a tool, whatever it names."""
_NAMES = (
    r"(?P<name>temperature|stop_sequences|thinking|output_config\.effort|output_config|tool_choice|effort)"
)
_NOT_TAKEN = (
    # `temperature` is deprecated; thinking.type.enabled is not supported; effort: extra inputs are not ...
    re.compile(
        rf"(?<![\w.]){_NAMES}(?:\.[a-z_.]+)?[`'\"]?:?\s+(?:parameter\s+)?(?:(?:is|are)\s+)?"
        r"(?:deprecated|unsupported|(?:not|no longer)\s+(?:supported|permitted|allowed|available)"
        r"|extra inputs are not permitted)"
    ),
    # does not support the effort parameter; unsupported parameter: temperature
    re.compile(
        rf"(?:(?:does\s+not|doesn't)\s+support|un(?:supported|known)\s+parameter):?\s+(?:the\s+)?"
        rf"(?:parameter\s+)?[`'\"]?(?:adaptive\s+)?(?<![\w.]){_NAMES}\b(?!\s+blocks?)"
    ),
)
"""Only what means that a parameter is not taken at all. A wrong value of it is the fault of one request, and
no reason to leave the parameter out of all that follow."""
_SENT_WITH = {"effort": "thinking", "output_config.effort": "thinking"}
"""Left out together."""
_NO_TOOLS = re.compile(
    r"(?:does\s+not|doesn't)\s+support\s+(?:tools?\b(?!\s+choice)|function\s+calling)"
    r"|\b(?:tools?|tool\s+(?:use|calling)|function\s+calling)\s+(?:is|are)\s+not\s+supported"
)


def refusal_of(status: int, body: JsonValue) -> Refusal:
    """Why a request was refused; `status` is 0 where the answer had begun."""
    error = fields(fields(body).get("error"))
    message = words(error.get("message")) or words(body) or words(error.get("type"))
    said = message.lower()
    kind = _KINDS.get(words(error.get("type"))) or _STATUSES.get(status)
    if any(each in said for each in _SPENT):
        kind = "quota"
    elif kind is None and any(each in said for each in _TOO_LONG):
        kind = "context"
    if kind is None and status >= 500:
        kind = "unavailable"
    if kind is not None:
        return Refusal(kind=kind, message=message)
    if not _IN_PLACE.match(said):
        if _NO_TOOLS.search(said):
            return Refusal(kind="tools", message=message)
        for pattern in _NOT_TAKEN:
            if match := pattern.search(said):
                return Refusal(
                    kind="parameter", message=message, parameter=_SENT_WITH.get(match["name"], match["name"])
                )
    return Refusal(kind="request", message=message)


class _Written(str):
    """Arguments that came as text, piece by piece."""

    __slots__ = ()


class AnthropicReader:
    """One answer of Anthropic's, as it comes in."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[int, list[str]] = {}
        self._signatures: dict[int, list[str]] = {}
        self.is_done = False

    def feed(self, event: Event) -> Iterable[Words | Thought]:
        """What one event brings for whoever watches."""
        if event.name == "ping" or event.data == "[DONE]":
            return
        data = event_data(event.data)
        match words(data.get("type")) or event.name:
            case "message_start":
                self._message = {**fields(data.get("message"))}
            case "content_block_start":
                yield from self._begin(data)
            case "content_block_delta":
                yield from self._add(data)
            case "message_delta":
                self._close(data)
            case "message_stop":
                self.is_done = True
            case "error":
                raise Refused(refusal_of(0, data))
            case _:
                pass

    def result(self) -> Result:
        """All of it."""
        if not self.is_done:
            raise Unreadable("the stream broke off before its end")
        return result_of(self._message, [self._block(index) for index in sorted(self._blocks)])

    def _begin(self, data: dict[str, Any]) -> Iterator[Words | Thought]:
        index, block = count(data.get("index")), fields(data.get("content_block"))
        if index is None:
            raise Unreadable("a block of the stream has no index")
        self._blocks[index], self._pieces[index], self._signatures[index] = block, [], []
        for key, piece in (("text", Words), ("thinking", Thought)):
            if block.get("type") == key and words(block.get(key)):
                self._pieces[index].append(block[key])
                yield piece(block[key])

    def _add(self, data: dict[str, Any]) -> Iterator[Words | Thought]:
        index, delta = count(data.get("index")), fields(data.get("delta"))
        if index is None or index not in self._blocks:
            raise Unreadable("the stream goes on with a block that it did not begin")
        pieces = self._pieces[index]
        match delta.get("type"):
            case "text_delta" if text := words(delta.get("text")):
                pieces.append(text)
                yield Words(text)
            case "thinking_delta" if text := words(delta.get("thinking")):
                pieces.append(text)
                yield Thought(text)
            case "input_json_delta":
                pieces.append(words(delta.get("partial_json")))
            case "signature_delta":
                self._signatures[index].append(words(delta.get("signature")))
            case _:
                pass

    def _close(self, data: dict[str, Any]) -> None:
        reason = fields(data.get("delta")).get("stop_reason")
        if reason is not None:
            self._message["stop_reason"] = reason
            # Nothing but the last event follows, and not every server sends that one.
            self.is_done = True
        told = {name: value for name, value in fields(data.get("usage")).items() if value is not None}
        if told:
            # These are totals, not what came on top.
            self._message["usage"] = {**fields(self._message.get("usage")), **told}

    def _block(self, index: int) -> dict[str, Any]:
        """A block as it would have come in one piece."""
        block, text = self._blocks[index], "".join(self._pieces[index])
        match block.get("type"):
            case "text":
                return {**block, "text": text}
            case "thinking":
                signature = "".join(self._signatures[index]) or words(block.get("signature"))
                return {**block, "thinking": text, "signature": signature}
            case "tool_use" if text.strip():
                return {**block, "input": _Written(text)}
            case _:
                return block


def result_of(message: dict[str, Any], blocks: list[dict[str, Any]]) -> Result:
    """What a message with these blocks says."""
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[ToolCall] = []
    carried: list[dict[str, Any]] = []
    for block in blocks:
        match block.get("type"):
            case "text":
                texts.append(words(block.get("text")))
                if texts[-1]:
                    carried.append({"type": "text", "text": texts[-1]})
            case "thinking":
                thoughts.append(words(block.get("thinking")))
                # Without its signature it would be refused.
                if words(block.get("signature")):
                    carried.append(
                        {"type": "thinking", "thinking": thoughts[-1], "signature": block["signature"]}
                    )
            case "redacted_thinking":
                carried.append({"type": "redacted_thinking", "data": words(block.get("data"))})
            case "tool_use":
                calls.append(_called(block))
                carried.append(
                    {
                        "type": "tool_use",
                        "id": calls[-1].id,
                        "name": calls[-1].name,
                        "input": dict(calls[-1].arguments),
                    }
                )
            case _:
                pass
    stop = _STOPS.get(words(message.get("stop_reason")), "other")
    return whole_result(
        Result(
            text="".join(texts),
            calls=without_cut(calls, stop),
            reasoning="\n\n".join(each for each in thoughts if each),
            usage=_usage(message.get("usage")),
            model=words(message.get("model")),
            stop="calls" if calls and stop == "end" else stop,
            carried=_carried(carried),
        )
    )


def _called(block: dict[str, Any]) -> ToolCall:
    id, name, given = words(block.get("id")), words(block.get("name")), block.get("input", {})
    if isinstance(given, _Written):
        return tool_call_of_text(name, str(given), id=id)
    return tool_call(name, given, id=id)


def _carried(blocks: list[dict[str, Any]]) -> Carried | None:
    """The thoughts; everything in order where they are not all at the beginning."""
    is_thought = ["thinking" in each["type"] for each in blocks]
    thoughts = [each for each, yes in zip(blocks, is_thought, strict=True) if yes]
    if not thoughts:
        return None
    return Carried(format=FORMAT, data=thoughts if all(is_thought[: len(thoughts)]) else blocks)


def _usage(value: JsonValue) -> Usage | None:
    if not isinstance(value, dict):
        return None
    plain = count(value.get("input_tokens"))
    cached, written = (
        count(value.get("cache_read_input_tokens")),
        count(value.get("cache_creation_input_tokens")),
    )
    return Usage(
        input=None if plain is None else plain + (cached or 0) + (written or 0),
        output=count(value.get("output_tokens")),
        cached=cached,
        cache_written=written,
    )
