"""Three questions to any model: does it answer, does it call a tool, does it keep to a schema?

Keep true: the right answers are such that every model knows them; what is tried is the way there and back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from placet.errors import DecodeError, ModelError
from placet.inference.messages import User
from placet.inference.model import Model, Request, Result
from placet.inference.usage import Usage
from placet.ir.codec import decode_json
from placet.ir.json_value import show_json
from placet.ir.tool_spec import ToolSchema

_MOST_TOKENS = 1000
"""Room for a model that thinks first."""

_WEATHER = ToolSchema(
    name="get_weather",
    description="The weather in a city now.",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
)


class Try(msgspec.Struct, frozen=True, kw_only=True):
    """One question, and what came of it."""

    what: str
    is_right: bool
    came: str
    """What the model said; not to be trusted."""
    problem: str = ""
    """Why there was no answer."""
    latency_ms: float | None = None
    usage: Usage | None = None
    tokens_per_s: float | None = None
    """Written, from the question to the last word."""
    cost: float | None = None


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """All three."""

    model: str
    """As it was named."""
    answered_by: str
    """As it calls itself."""
    is_right: bool
    tries: Sequence[Try]
    cost: float | None = None
    """Of all; None where that of one is not known."""


async def try_out(model: Model, name: str) -> Trial:
    """Ask the three questions.

    Raises:
        ModelError: it does not even answer the first one.
    """
    tries: list[Try] = []
    answered_by = ""
    for what, request, is_right in _QUESTIONS:
        try:
            result = await model.generate(request)
        except ModelError as error:
            if not tries:
                raise
            tries.append(Try(what=what, is_right=False, came="", problem=str(error)))
            continue
        answered_by = answered_by or result.model
        tries.append(_told(what, result, is_right(result)))
    costs = [each.cost for each in tries]
    return Trial(
        model=name,
        answered_by=answered_by,
        is_right=all(each.is_right for each in tries),
        tries=tries,
        cost=None if None in costs else sum(cost for cost in costs if cost is not None),
    )


def _told(what: str, result: Result, is_right: bool) -> Try:
    calls = [f"{call.name}({call.problem or show_json(dict(call.arguments))})" for call in result.calls]
    written = result.usage.output if result.usage is not None else None
    is_timed = written is not None and result.latency_ms > 0
    return Try(
        what=what,
        is_right=is_right,
        came=", ".join(calls) or result.text,
        latency_ms=result.latency_ms,
        usage=result.usage,
        tokens_per_s=(written or 0) * 1000 / result.latency_ms if is_timed else None,
        cost=result.cost,
    )


def _says_paris(result: Result) -> bool:
    return "paris" in result.text.lower()


def _asks_for_oslo(result: Result) -> bool:
    wanted = [call for call in result.calls if call.name == _WEATHER.name and not call.problem]
    cities = [str(call.arguments.get("city", "")).lower() for call in wanted]
    return len(result.calls) == 1 and len(cities) == 1 and "oslo" in cities[0]


def _is_blue(result: Result) -> bool:
    try:
        answer = decode_json(result.text, source="the answer")
    except DecodeError:
        return False
    return isinstance(answer, dict) and answer.get("colour") == "blue" and len(answer) == 1


_QUESTIONS: Sequence[tuple[str, Request, Callable[[Result], bool]]] = (
    (
        "text",
        Request(
            messages=[User("What is the capital of France? Answer with one word.")],
            max_tokens=_MOST_TOKENS,
        ),
        _says_paris,
    ),
    (
        "tool call",
        Request(
            messages=[User("What is the weather in Oslo? Use the tool.")],
            tools=[_WEATHER],
            max_tokens=_MOST_TOKENS,
        ),
        _asks_for_oslo,
    ),
    (
        "structured answer",
        Request(
            messages=[User("Which colour has the sky on a clear day? Answer as JSON with the key colour.")],
            schema={
                "type": "object",
                "properties": {"colour": {"type": "string", "enum": ["red", "green", "blue"]}},
                "required": ["colour"],
                "additionalProperties": False,
            },
            max_tokens=_MOST_TOKENS,
        ),
        _is_blue,
    ),
)
