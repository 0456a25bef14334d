"""Gemini's generateContent: what is sent, and what comes back.

Keep true:
1. The signature of a thought goes back on the part that it came with.
2. The results of one turn's calls are one message, in the order of the calls where ids tell it.
3. A count that the server leaves out is not known: it leaves out zeros too.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from placet.inference.messages import Assistant, Carried, System, Text, ToolCall, ToolResult, User
from placet.inference.model import Request, Result, Stop, Thought, Words
from placet.inference.sse import Event
from placet.inference.usage import Usage
from placet.inference.wire.call_ids import with_ids
from placet.inference.wire.envelopes import whole_result
from placet.inference.wire.format import Dialect, HttpCall, Kind, Refusal, Refused, Unreadable
from placet.inference.wire.shapes import (
    an_object,
    count,
    event_data,
    fields,
    objects,
    tool_call,
    version,
    without_cut,
    words,
)
from placet.ir.json_value import JsonValue
from placet.ir.tool_spec import ToolSchema

FORMAT = "gemini"
BUDGETS = {"off": 0, "low": 1_024, "medium": 4_096, "high": 16_384}
"""Tokens to think with, for models before the third generation."""
LEAST_BUDGET = 128
"""Of a large model, which cannot be kept from thinking."""
FROM_ELSEWHERE = "skip_thought_signature_validator"
"""In the place of a signature: the call is another model's, and there is none."""

_LEVELS = (3, 0)
"""From here on a model takes a level instead of a number of tokens."""
_STOPS: dict[str, Stop] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    "SAFETY": "refused",
    "RECITATION": "refused",
    "LANGUAGE": "refused",
    "BLOCKLIST": "refused",
    "PROHIBITED_CONTENT": "refused",
    "SPII": "refused",
    "IMAGE_SAFETY": "refused",
    "IMAGE_PROHIBITED_CONTENT": "refused",
    "IMAGE_RECITATION": "refused",
}
_KINDS: dict[str, Kind] = {
    "UNAUTHENTICATED": "key",
    "PERMISSION_DENIED": "key",
    "NOT_FOUND": "model",
    "RESOURCE_EXHAUSTED": "rate",
    "UNAVAILABLE": "unavailable",
    "INTERNAL": "unavailable",
    "DEADLINE_EXCEEDED": "unavailable",
    "ABORTED": "unavailable",
    "UNKNOWN": "unavailable",
}
_STATUSES: dict[int, Kind] = {
    401: "key",
    403: "key",
    404: "model",
    408: "unavailable",
    409: "unavailable",
    413: "context",
    429: "rate",
}
_TOO_LONG = ("maximum number of tokens", "input token count", "token limit", "context length")
_NO_TOOLS = re.compile(
    r"(?:function calling|tool use) is (?:not (?:enabled|supported|available)|unsupported)"
)
_SPENT = ("credits are depleted", "billing account", "enable billing", "limit: 0")


class GeminiContent:
    """The format of generativelanguage.googleapis.com."""

    name = FORMAT

    def call(
        self, request: Request, model: str, key: str | None, dialect: Dialect, *, stream: bool
    ) -> HttpCall:
        """What to send."""
        body: dict[str, JsonValue] = {"contents": _contents(request, model)}
        system = "\n\n".join(each.text for each in request.messages if isinstance(each, System) and each.text)
        if system:
            body["systemInstruction"] = {"parts": [{"text": system}], "role": "user"}
        if request.tools:
            body["tools"] = [{"functionDeclarations": [_tool(each) for each in request.tools]}]
            if request.tool_choice != "auto":
                mode = "ANY" if request.tool_choice == "required" else "NONE"
                body["toolConfig"] = {"functionCallingConfig": {"mode": mode}}
        if config := _config(request, model, dialect):
            body["generationConfig"] = config
        return HttpCall(
            path=f"/v1beta/{_path(model)}:{'streamGenerateContent' if stream else 'generateContent'}",
            query={"alt": "sse"} if stream else {},
            headers={"x-goog-api-key": key} if key else {},
            body=body,
        )

    def result(self, body: JsonValue) -> Result:
        """What a whole answer says."""
        answer = _Answer()
        # Asked for a stream without the events, the server sends a list of its parts.
        for each in body if isinstance(body, list) else [body]:
            for _ in answer.add(an_object(each, "the answer")):
                pass
        return answer.result()

    def reader(self) -> GeminiReader:
        """For one stream."""
        return GeminiReader()

    def refusal(self, status: int, body: JsonValue) -> Refusal:
        """Why a request was refused."""
        if isinstance(body, list) and body:
            body = body[0]
        error = fields(fields(body).get("error"))
        message = words(error.get("message")) or words(body) or words(error.get("status"))
        return Refusal(
            kind=_kind(status, error, message.lower()), message=message, retry_after_s=_retry_delay(error)
        )


class GeminiReader:
    """One answer of Gemini's, as it comes in."""

    def __init__(self) -> None:
        self._answer = _Answer()
        self.is_done = False

    def feed(self, event: Event) -> Iterable[Words | Thought]:
        """What one event brings for whoever watches."""
        if event.data == "[DONE]":
            self.is_done = True
            return ()
        # A reason to stop is no end: some models give one with every piece.
        return self._answer.add(event_data(event.data))

    def result(self) -> Result:
        """All of it."""
        return self._answer.result()


class _Answer:
    """The parts of an answer, however many pieces they come in."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._calls: list[ToolCall] = []
        self._usage: dict[str, Any] = {}
        self._model = ""
        self._signature = ""
        self._stop: Stop | None = None

    def add(self, data: dict[str, Any]) -> Iterator[Words | Thought]:
        """Take in one piece, and hand out what it says."""
        if "error" in data:
            raise Refused(GeminiContent().refusal(0, data))
        self._model = words(data.get("modelVersion")) or self._model
        told = fields(data.get("usageMetadata"))
        self._usage |= {name: value for name, value in told.items() if value is not None}
        if words(fields(data.get("promptFeedback")).get("blockReason")):
            self._stop = "refused"
        # Only one is ever asked for.
        for candidate in objects(data.get("candidates"))[:1]:
            for part in objects(fields(candidate.get("content")).get("parts")):
                yield from self._part(part)
            if reason := words(candidate.get("finishReason")):
                self._stop = _STOPS.get(reason, "other")

    def _part(self, part: dict[str, Any]) -> Iterator[Words | Thought]:
        text, signature = words(part.get("text")), words(part.get("thoughtSignature"))
        if isinstance(part.get("functionCall"), dict):
            self._calls.append(_called(part["functionCall"], signature))
        elif part.get("thought") is True:
            if text:
                self._thoughts.append(text)
                yield Thought(text)
        elif "text" in part:
            self._signature = signature or self._signature
            if text:
                self._texts.append(text)
                yield Words(text)

    def result(self) -> Result:
        if self._stop is None:
            raise Unreadable("it ends without saying why")
        return whole_result(
            Result(
                text="".join(self._texts),
                calls=without_cut(self._calls, self._stop),
                reasoning="".join(self._thoughts),
                usage=_usage(self._usage),
                model=self._model,
                stop="calls" if self._calls and self._stop in ("end", "other") else self._stop,
                carried=Carried(format=FORMAT, data=self._signature) if self._signature else None,
            )
        )


def _retry_delay(error: Mapping[str, Any]) -> float | None:
    """How long it wants to be left alone: `"retryDelay": "34s"` in one of the details of an error."""
    details = error.get("details")
    for each in details if isinstance(details, list) else ():
        seconds = words(fields(each).get("retryDelay")).removesuffix("s")
        if re.fullmatch(r"\d{1,6}(\.\d{1,9})?", seconds):
            return float(seconds)
    return None


def _path(model: str) -> str:
    """The model in the address. `tunedModels/mine` is two steps of it; what would lead away is one name."""
    steps = model.split("/")
    if len(steps) > 1 and all(each.strip(".") for each in steps):
        return quote(model, safe="/")
    return f"models/{quote(model, safe='')}"


def _contents(request: Request, model: str) -> list[JsonValue]:
    contents: list[dict[str, Any]] = []
    before: Any = None
    order: dict[str, int] = {}
    for message in with_ids(request.messages, fills=False):
        match message:
            case User():
                role, parts = "user", [part for each in message.parts for part in _part(each)]
            case Assistant():
                role, parts = "model", _said(message, model)
                order = {call.id: at for at, call in enumerate(message.calls)}
            case ToolResult():
                role, parts = "user", [_tool_result(message)]
                if isinstance(before, ToolResult):
                    together = [*contents[-1]["parts"], *parts]
                    # Where calls have no names of their own, only the order tells which result is whose.
                    together.sort(key=lambda part: order.get(part["functionResponse"].get("id"), len(order)))
                    contents[-1]["parts"] = together
                    continue
            case System():
                continue
        before = message
        if parts:
            contents.append({"parts": parts, "role": role})
    return list(contents)


def _part(part: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(part, Text):
        yield {"inlineData": {"data": b64encode(part.data).decode(), "mimeType": part.type}}
    elif part.text:
        yield {"text": part.text}


def _said(message: Assistant, model: str) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    if message.text:
        parts.append({"text": message.text, **_signed(message.carried)})
    for call in message.calls:
        given = {"id": call.id} if call.id else {}
        parts.append(
            {
                "functionCall": {**given, "args": dict(call.arguments), "name": call.name},
                **_signed(call.carried),
            }
        )
    if message.calls and _takes_level(model) and not _is_signed(message.calls):
        # Of calls made at once only the first has a signature, and without one the turn is refused.
        first = next(each for each in parts if "functionCall" in each)
        first["thoughtSignature"] = FROM_ELSEWHERE
    return parts


def _signed(carried: Carried | None) -> dict[str, str]:
    if carried is None or carried.format != FORMAT or not isinstance(carried.data, str):
        return {}
    return {"thoughtSignature": carried.data}


def _is_signed(calls: Sequence[ToolCall]) -> bool:
    return any(_signed(call.carried) for call in calls)


def _tool_result(message: ToolResult) -> dict[str, Any]:
    given = {"id": message.call_id} if message.call_id else {}
    said = {"error" if message.is_error else "output": message.text}
    return {"functionResponse": {**given, "name": message.name, "response": said}}


def _tool(tool: ToolSchema) -> dict[str, Any]:
    described = {"description": tool.description} if tool.description else {}
    # A tool that takes nothing is declared without a schema.
    schema = {"parametersJsonSchema": {"type": "object", **tool.parameters}} if tool.parameters else {}
    return {**described, "name": tool.name, **schema}


def _config(request: Request, model: str, dialect: Dialect) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if request.temperature is not None and "temperature" not in dialect.without:
        config["temperature"] = request.temperature
    if request.max_tokens is not None:
        config["maxOutputTokens"] = request.max_tokens
    if request.stop:
        config["stopSequences"] = list(request.stop)
    if request.schema is not None:
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = dict(request.schema)
    if request.thinking is not None and "gemma" not in model and "thinking" not in dialect.without:
        config["thinkingConfig"] = _thinking(request.thinking, model)
    return config


def _thinking(level: str, model: str) -> dict[str, Any]:
    shown = {"includeThoughts": True} if level != "off" else {}
    if _takes_level(model):
        # None of these can be kept from thinking; the lowest level that all of them know is the nearest.
        return {**shown, "thinkingLevel": "LOW" if level == "off" else level.upper()}
    budget = LEAST_BUDGET if level == "off" and "pro" in model else BUDGETS[level]
    return {**shown, "thinkingBudget": budget}


def _takes_level(model: str) -> bool:
    return "gemma" not in model and (version(model) or _LEVELS) >= _LEVELS


def _called(call: dict[str, Any], signature: str) -> ToolCall:
    return tool_call(
        words(call.get("name")),
        {} if call.get("args") is None else call["args"],
        id=words(call.get("id")),
        carried=Carried(format=FORMAT, data=signature) if signature else None,
    )


def _usage(told: dict[str, Any]) -> Usage | None:
    if not told:
        return None
    read, total = count(told.get("promptTokenCount")), count(told.get("totalTokenCount"))
    said, thought = count(told.get("candidatesTokenCount")), count(told.get("thoughtsTokenCount"))
    output = None if said is None and thought is None else (said or 0) + (thought or 0)
    if output is None and read is not None and total is not None and total >= read:
        output = total - read
    return Usage(input=read, output=output, cached=count(told.get("cachedContentTokenCount")))


def _kind(status: int, error: dict[str, Any], said: str) -> Kind:
    details = objects(error.get("details"))
    if "api key" in said or any(each.get("reason") == "API_KEY_INVALID" for each in details):
        return "key"
    if any(each in said for each in _SPENT) or _is_for_the_day(details):
        return "quota"
    if any(each in said for each in _TOO_LONG):
        return "context"
    kind = _KINDS.get(words(error.get("status"))) or _STATUSES.get(status)
    if kind is not None:
        return kind
    if status >= 500:
        return "unavailable"
    if _NO_TOOLS.search(said):
        return "tools"
    return "request"


def _is_for_the_day(details: list[dict[str, Any]]) -> bool:
    """Whether what is used up comes back tomorrow at the earliest: nobody waits for that."""
    limits = [limit for each in details for limit in objects(each.get("violations"))]
    return any("perday" in words(limit.get("quotaId")).lower() for limit in limits)
