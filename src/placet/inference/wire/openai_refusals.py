"""What the servers that speak OpenAI's format refuse, and how each of them says it.

The format has codes, and most servers use few of them: llama.cpp, vLLM, Ollama, OpenRouter and DeepSeek each
have words of their own for the same thing. They are all known here, and nowhere else.

Keep true:
1. A sign that cannot mean anything else goes before the status; the status before the words.
2. Whatever the body is, it ends in a `Refusal`.
"""

from __future__ import annotations

import re
from typing import Any

from placet.inference.wire.format import Kind, Refusal
from placet.inference.wire.shapes import fields, objects, words
from placet.ir.json_value import JsonValue

_QUOTA = frozenset({"insufficient_quota", "billing_hard_limit_reached", "insufficient_balance"})
_QUOTA_WORDS = ("insufficient balance", "insufficient credits", "exceeded your current quota")
_TOOL_WORDS = (
    "does not support tools",
    "does not support tool use",
    "does not support function calling",
    "support tool use",
    "tools param requires",
    "tool choice requires --enable-auto-tool-choice",
)
_MODEL_WORDS = ("is not a valid model id", "model not exist", "model not found", "try pulling it first")
_CONTEXT = frozenset({"context_length_exceeded", "exceed_context_size_error"})
_CONTEXT_WORDS = re.compile(
    r"maximum context length|available context size|longer than the maximum model length|context window"
    r"|exceeds? the (?:maximum )?(?:context|model) (?:length|window|size)|exceed(?:s|ed) max(?:imum)? context"
    r"|(?:prompt|input|request) is too long|reduce the length of (?:the|your) (?:messages|prompt|input)"
)
_UNSUPPORTED = frozenset(
    {"unsupported_parameter", "unsupported_value", "unknown_parameter", "extra_forbidden"}
)
_PARAMETER_WORDS = re.compile(
    r"(?:unsupported parameter|unknown parameter|unrecognized request arguments? supplied|unknown field"
    r"|unexpected keyword argument|extra inputs are not permitted)[^a-z0-9_]*(?P<name>[a-z0-9_.\[\]]+)"
)


def openai_refusal(status: int, body: JsonValue) -> Refusal:
    """Why a request was refused. A status below 400 is that of an answer which then tells of an error."""
    error = _error(body)
    code, kind = error.get("code"), words(error.get("type")).lower()
    if status < 400 and type(code) is int and 400 <= code < 600:
        status = code
    said = [words(error.get("message")), words(fields(error.get("metadata")).get("raw"))]
    message = " ".join(each for each in said if each)
    marks = {words(code).lower(), kind}
    found, parameter = _kind(status, message.lower(), marks, error)
    return Refusal(kind=found, message=message or f"status {status}, and no words", parameter=parameter)


def _kind(status: int, message: str, marks: set[str], error: dict[str, Any]) -> tuple[Kind, str]:
    """What was refused, and which parameter, if it was one. The clearest signs first."""
    if status == 401 or "invalid_api_key" in marks:
        return "key", ""
    if status == 402 or marks & _QUOTA or any(each in message for each in _QUOTA_WORDS):
        return "quota", ""
    if any(each in message for each in _TOOL_WORDS):
        return "tools", ""
    if status not in (403, 404, 429) and (marks & _CONTEXT or _CONTEXT_WORDS.search(message)):
        return "context", ""
    if status == 404 or "model_not_found" in marks or any(each in message for each in _MODEL_WORDS):
        return "model", ""
    if status == 403:
        flagged = (
            fields(error.get("metadata")).get("reasons") or "unsupported_country_region_territory" in marks
        )
        return ("request" if flagged else "key"), ""
    if status == 429:
        return "rate", ""
    parameter = _parameter(message, marks, error)
    if parameter and 400 <= status < 500:
        return "parameter", parameter
    if status == 413:
        return "context", ""
    if status in (408, 409, 425) or status >= 500:
        return "unavailable", ""
    # An error in an answer of 200: what is not said to be the request's fault is the server's.
    is_ours = status >= 400 or "invalid_request_error" in marks
    return ("request" if is_ours else "unavailable"), ""


def _parameter(message: str, marks: set[str], error: dict[str, Any]) -> str:
    """The parameter that a server does not take, by whatever name it says so; empty where it is not that."""
    named = words(error.get("param"))
    if not marks & _UNSUPPORTED:
        match = _PARAMETER_WORDS.search(message)
        if match is None:
            return ""
        named = match["name"]
    return re.split(r"[.\[\]]+", named.rstrip("]"))[-1]


def _error(body: JsonValue) -> dict[str, Any]:
    """The object that tells of an error, wherever a server puts it."""
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, str):
        return {"message": body}
    outer = fields(body)
    inner = outer.get("error") or outer
    if isinstance(inner, str):
        return {**outer, "message": inner}
    found = fields(inner)
    detail = found.get("detail")
    if isinstance(detail, str):
        return {**found, "message": detail}
    for each in objects(detail)[:1]:
        place = each.get("loc")
        last = place[-1] if isinstance(place, list) and place else ""
        return {"message": words(each.get("msg")), "code": each.get("type"), "param": last}
    return found
