"""A conversation with tools as one without: calls and results become plain messages.

Keep true:
1. A message gives the same text in every request, whatever follows it: servers keep what they have read.
2. What a tool said stands inside of JSON, so that it cannot pass for the words of a person.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from placet.errors import DecodeError
from placet.inference.messages import Assistant, Message, System, ToolCall, ToolResult, User
from placet.ir.codec import decode_json
from placet.ir.json_value import JsonValue, show_json

Form = Callable[[str], str]
"""What is written around the JSON of a call or of a result."""


def _bare(text: str) -> str:
    return text


def has_tools(messages: Sequence[Message]) -> bool:
    """Whether any message is about a tool."""
    return any(
        isinstance(message, ToolResult) or (isinstance(message, Assistant) and message.calls)
        for message in messages
    )


def plain(
    messages: Sequence[Message],
    *,
    rules: str = "",
    answer: Form = _bare,
    call: Form = _bare,
    result: Form = _bare,
) -> list[Message]:
    """The conversation in words alone. `rules` go to the end of the first system message."""
    told = list(_told(messages, answer, call, result))
    if not rules:
        return told
    if told and isinstance(first := told[0], System):
        return [System(f"{first.text}\n\n{rules}" if first.text else rules), *told[1:]]
    return [System(rules), *told]


def _told(messages: Sequence[Message], answer: Form, call: Form, result: Form) -> Iterator[Message]:
    # Results that come together are one message: many chat templates want turns to alternate.
    for is_result, group in groupby(messages, key=lambda message: isinstance(message, ToolResult)):
        if is_result:
            lines = [result(_result_json(each)) for each in group if isinstance(each, ToolResult)]
            yield User("\n".join(lines))
            continue
        for message in group:
            match message:
                case Assistant() if message.calls:
                    # What a provider wanted to have back belongs to calls of its own format.
                    lines = [message.text] if message.text else []
                    lines += [call(_call_json(each)) for each in message.calls]
                    yield Assistant(text="\n".join(lines))
                case Assistant() if (text := answer(message.text)) != message.text:
                    yield Assistant(text=text)
                case _:
                    yield message


def _call_json(call: ToolCall) -> str:
    arguments: JsonValue = dict(call.arguments)
    if call.problem and call.raw:
        arguments = value_of(call.raw)
    return show_json({"name": call.name, "arguments": arguments})


def _result_json(result: ToolResult) -> str:
    return show_json({"name": result.name, "error" if result.is_error else "result": value_of(result.text)})


def value_of(text: str) -> JsonValue:
    """The value that a text is the JSON of, or the text: JSON within JSON is hard to read."""
    try:
        return decode_json(text)
    except DecodeError:
        return text.encode("utf-8", "replace").decode()
