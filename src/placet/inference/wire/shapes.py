"""What the JSON of a server turns out to be, read without trust.

Keep true:
1. Whatever a value is, a function here gives what its name says, or raises `Unreadable`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from placet.errors import DecodeError
from placet.inference.messages import Carried, ToolCall
from placet.inference.model import Stop
from placet.inference.wire.envelopes import flaw, joined, mended, read_envelope
from placet.inference.wire.format import Unreadable
from placet.ir.codec import decode_json
from placet.ir.json_value import JsonValue, show_json

_VERSION = re.compile(r"(?<![0-9a-z])(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")


def an_object(value: JsonValue, what: str) -> dict[str, Any]:
    """An object.

    Raises:
        Unreadable: it is something else; says what it should have been.
    """
    if isinstance(value, dict):
        return value
    raise Unreadable(f"{what} is no object")


def objects(value: JsonValue) -> list[dict[str, Any]]:
    """The objects of a list; none where it is no list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def fields(value: JsonValue) -> dict[str, Any]:
    """An object, empty where it is something else."""
    return value if isinstance(value, dict) else {}


def words(value: JsonValue) -> str:
    """A text, empty where it is something else."""
    return value if isinstance(value, str) else ""


_MOST = 2**53
"""More of anything is a mistake, and arithmetic with it would overflow."""


def count(value: JsonValue) -> int | None:
    """How many; None where that is not said."""
    return value if type(value) is int and 0 <= value < _MOST else None


def event_data(data: str) -> dict[str, Any]:
    """The object that an event of a stream carries.

    Raises:
        Unreadable: it carries none.
    """
    try:
        return an_object(read_envelope(data, "the event"), "an event of the stream")
    except DecodeError as error:
        raise Unreadable(f"an event of the stream is no JSON: {error.problem}, at {error.place}") from None


def tool_call(name: str, arguments: JsonValue, *, id: str = "", carried: Carried | None = None) -> ToolCall:
    """A call whose arguments came as JSON. What is no object, or not strict, is kept as `raw`, with the
    problem."""
    problem = "the arguments are no object"
    if isinstance(arguments, dict):
        if not (found := flaw(arguments)):
            return ToolCall(id=id, name=name, arguments=arguments, carried=carried)
        problem = f"the arguments cannot be trusted: {found}"
    return ToolCall(id=id, name=name, problem=problem, raw=show_json(mended(arguments)), carried=carried)


def tool_call_of_text(name: str, text: str, *, id: str = "", carried: Carried | None = None) -> ToolCall:
    """A call whose arguments came as the text of a JSON object; no text at all means no arguments."""
    if found := flaw(whole := _with_pairs(text)):
        problem = f"the arguments cannot be trusted: {found}"
        return ToolCall(id=id, name=name, problem=problem, raw=joined(text), carried=carried)
    text = whole
    try:
        arguments = decode_json(text, source="the arguments") if text.strip() else {}
    except DecodeError as error:
        problem = f"the arguments are no JSON: {error.problem}, at {error.place}"
        return ToolCall(id=id, name=name, problem=problem, raw=text, carried=carried)
    if not isinstance(arguments, dict):
        return ToolCall(id=id, name=name, problem="the arguments are no object", raw=text, carried=carried)
    return ToolCall(id=id, name=name, arguments=arguments, carried=carried)


def _with_pairs(text: str) -> str:
    """The text with the halves of characters joined that came in two pieces; single ones stay."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def without_cut(calls: Sequence[ToolCall], stop: Stop) -> tuple[ToolCall, ...]:
    """The calls of an answer. Where it ran out of tokens the last one may have lost its arguments, and many a
    tool does more without any than it was asked for: that is its problem."""
    if stop != "length" or not calls or calls[-1].arguments or calls[-1].problem:
        return tuple(calls)
    last = msgspec.structs.replace(calls[-1], problem="the answer was cut off before or in the arguments")
    return (*calls[:-1], last)


def version(model: str) -> tuple[int, int] | None:
    """The version in a model's name; a date is none.

    >>> version("claude-haiku-4-5-20251001"), version("gemini-2.5-flash"), version("gemini-flash-latest")
    ((4, 5), (2, 5), None)
    """
    found = _VERSION.search(model)
    return (int(found[1]), int(found[2] or 0)) if found else None
