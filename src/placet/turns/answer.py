"""Whether what a model handed over is an answer, before anything follows from it.

A model may be anybody's own code, and what it returns anything at all.

Keep true:
1. What passes can be told to the journal, and is read back equal.
2. A call that cannot be carried out stays a call: it gets a result that says why, like any other.
3. What is not known, or cannot be, is None: nobody earns tokens or money by answering.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, get_args

import msgspec

from placet.errors import AnswerUnreadable, NotJson
from placet.inference.messages import ToolCall
from placet.inference.model import Result, Stop
from placet.inference.usage import Usage
from placet.ir.json_value import copy_json

_STOPS = frozenset(get_args(Stop))
_FEW = 2**53
"""Numbers below are the same everywhere."""


def checked(answer: object) -> Result:
    """The answer, with what can be mended mended.

    Raises:
        AnswerUnreadable: it is none.
    """
    if type(answer) is Result and _is_plain(answer):
        return answer
    if not isinstance(answer, Result):
        raise AnswerUnreadable(f"The model answered a {type(answer).__name__}, which is no Result.")
    calls = answer.calls
    if type(answer.text) is not str or type(answer.reasoning) is not str:
        raise AnswerUnreadable("The text of the model's answer is no text.")
    if not isinstance(calls, list | tuple) or not all(isinstance(call, ToolCall) for call in calls):
        raise AnswerUnreadable("The calls of the model's answer are not a list of ToolCall.")
    mended: dict[str, Any] = {}
    for name in ("text", "reasoning", "model"):
        text = getattr(answer, name)
        if (known := _text(text)) is not text:
            mended[name] = known
    if calls:
        known_calls = [_call(call) for call in calls]
        if any(known is not call for known, call in zip(known_calls, calls, strict=True)):
            mended["calls"] = known_calls
    if answer.usage is not None and not _is_counted(answer.usage):
        mended["usage"] = None
    if answer.cost is not None and not _is_amount(answer.cost):
        mended["cost"] = None
    if answer.stop not in _STOPS:
        mended["stop"] = "other"
    if not _is_amount(answer.latency_ms):
        mended["latency_ms"] = 0.0
    return msgspec.structs.replace(answer, **mended) if mended else answer


def _is_plain(answer: Result) -> bool:
    """Whether there is nothing to look at twice: most answers, told at a glance."""
    return (
        _is_ascii(answer.text)
        and _is_ascii(answer.reasoning)
        and _is_ascii(answer.model)
        and answer.stop in _STOPS
        and _is_amount(answer.latency_ms)
        and (answer.cost is None or _is_amount(answer.cost))
        and (answer.usage is None or _is_counted(answer.usage))
        and type(answer.calls) in (list, tuple)
        and all(map(_is_plain_call, answer.calls))
    )


def _is_plain_call(call: object) -> bool:
    return (
        type(call) is ToolCall
        and _is_ascii(call.id)
        and _is_ascii(call.name)
        and not call.problem
        and _is_ascii(call.raw)
        and type(call.arguments) is dict
        and all(
            _is_ascii(name) and (_is_ascii(value) or (type(value) is int and -_FEW < value < _FEW))
            for name, value in call.arguments.items()
        )
    )


def _is_ascii(text: object) -> bool:
    return type(text) is str and text.isascii()


def _text(text: object) -> str:
    """A text that every encoding can carry; nothing where it is none."""
    if type(text) is not str:
        return str.__str__(text) if isinstance(text, str) else ""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def _call(call: ToolCall) -> ToolCall:
    mended: dict[str, Any] = {}
    for name in ("id", "name", "problem", "raw"):
        text = getattr(call, name)
        if (known := _text(text)) is not text:
            mended[name] = known
    if not call.problem and (problem := _problem(call.arguments)):
        mended |= {"arguments": {}, "problem": problem}
    return msgspec.structs.replace(call, **mended) if mended else call


def _problem(arguments: object) -> str:
    if not isinstance(arguments, Mapping):
        return f"they are a {type(arguments).__name__}, not an object"
    try:
        copy_json(arguments if type(arguments) is dict else dict(arguments), "arguments")
    except (NotJson, TypeError, ValueError) as error:
        return f"they are not JSON: {error}"
    return ""


def _is_counted(usage: object) -> bool:
    return isinstance(usage, Usage) and all(
        count is None or (type(count) is int and count >= 0)
        for count in (usage.input, usage.output, usage.cached, usage.cache_written)
    )


def _is_amount(amount: object) -> bool:
    return type(amount) in (int, float) and isfinite(amount) and amount >= 0  # type: ignore[arg-type,operator]
