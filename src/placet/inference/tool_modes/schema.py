"""Tools for models that keep to a JSON Schema: a turn is one action, `{"name", "arguments"}` or `{"answer"}`.

Keep true:
1. Without tools the request goes on as it is.
2. A call whose arguments do not fit, or were cut short, is handed on with its problem, never as if it were
   whole.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

import msgspec

from placet.errors import DecodeError
from placet.inference.messages import ToolCall
from placet.inference.model import Model, Piece, Request, Result, Thought, Words, stream
from placet.inference.tool_modes.answer_text import AnswerText
from placet.inference.tool_modes.arguments import Checks, refused
from placet.inference.tool_modes.conversation import has_tools, plain, value_of
from placet.inference.tool_modes.description import described, in_order, shape
from placet.inference.tool_modes.grammar import LONGEST_TEXT, MOST_ITEMS, actions
from placet.inference.wrappers.wrapped import Wrapped
from placet.ir.codec import decode_json
from placet.ir.json_value import JsonValue, show_json
from placet.ir.tool_spec import ToolSchema

_NAMED = re.compile(r'\s{0,16}+\{\s{0,16}+"name"\s{0,16}+:\s{0,16}+"([^"\\]{0,200}+)"')


class SchemaTools(Wrapped):
    """A model with tools, around one that writes JSON by a schema.

    It asks for one tool a turn. Texts are at most `longest_text` characters long, lists have at most
    `most_items` items: a longer one in a call is told as the call's problem, a longer answer ends with
    the stop `length`.
    """

    def __init__(
        self, model: Model, *, longest_text: int = LONGEST_TEXT, most_items: int = MOST_ITEMS
    ) -> None:
        super().__init__(model)
        self._longest = longest_text
        self._most = most_items

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """The answer as it comes: its words, not the JSON around them."""
        reader = AnswerText()
        has_form = bool(request.tools)
        is_read = has_form and request.schema is None
        told = ""
        async with aclosing(stream(self.model, self._asked(request))) as pieces:
            async for piece in pieces:
                match piece:
                    case Words(text):
                        if has_form:
                            text = reader.feed(text) if is_read else ""
                        if text:
                            told += text
                            yield Words(text)
                    case Thought():
                        yield piece
                    case Result():
                        result = self._read(piece, request)
                        if rest := remaining(told, result.text):
                            yield Words(rest)
                        yield result

    def _asked(self, request: Request) -> Request:
        tools = in_order(request.tools)
        if not tools:
            return without_tools(request)
        answer: Mapping[str, JsonValue] = {"type": "string"} if request.schema is None else request.schema
        is_structured = request.schema is not None
        return msgspec.structs.replace(
            request,
            messages=plain(
                request.messages,
                rules=_rules(tools, answer),
                answer=lambda text: show_json({"answer": value_of(text) if is_structured else text}),
            ),
            tools=(),
            tool_choice="auto",
            # The words are the same whether a tool must, may or must not be used, so that a server keeps
            # them from turn to turn; the schema alone tells.
            schema=actions(
                usable(request),
                answer=None if request.tool_choice == "required" else answer,
                longest_text=self._longest,
                most_items=self._most,
            ),
        )

    def _read(self, result: Result, request: Request) -> Result:
        tools = {tool.name: tool for tool in usable(request)}
        if not request.tools or result.calls:
            return result
        try:
            value = decode_json(result.text, source="the answer")
        except DecodeError as error:
            return _broken(result, request, tools, error)
        known = {"answer", "name"} if tools else {"answer"}
        if not isinstance(value, dict) or not value.keys() & known:
            return result  # In no shape that was asked for: it is what the model says.
        text, stop = "", result.stop
        if "answer" in value:
            answer = value["answer"]
            is_words = request.schema is None and isinstance(answer, str)
            text = answer if is_words else show_json(answer)
            if _is_cut(answer, self._longest, self._most):
                stop = "length"
        calls = [self._call(value, tools)] if tools and isinstance(value.get("name"), str) else []
        return msgspec.structs.replace(
            result, text=text, calls=calls, stop="calls" if calls else stop, carried=None
        )

    def _call(self, action: dict[str, JsonValue], tools: Mapping[str, ToolSchema]) -> ToolCall:
        name, arguments = action["name"], action.get("arguments", {})
        problem = None
        if not isinstance(arguments, dict):
            problem = "the arguments are no object"
        elif _is_cut(arguments, self._longest, self._most):
            problem = (
                "a text or list in the arguments was cut: this model writes at most "
                f"{self._longest} characters or {self._most} items at once. Do it in parts"
            )
        elif name in tools:
            checks = Checks(tools)
            problem = checks.unusable(name) or checks.misfit(name, arguments)
        if problem:
            return refused(name, problem, arguments)
        return ToolCall(name=name, arguments=arguments)


def usable(request: Request) -> Sequence[ToolSchema]:
    """The tools that an answer may ask for."""
    return () if request.tool_choice == "none" else in_order(request.tools)


def without_tools(request: Request) -> Request:
    """The request where no tool may be used, for a model that knows none: as it is, if it speaks of none."""
    if not request.tools and not has_tools(request.messages):
        return request
    return msgspec.structs.replace(request, messages=plain(request.messages), tools=(), tool_choice="auto")


def remaining(told: str, text: str) -> str:
    """What is still to be said of a text, part of which was told as it came."""
    if text.startswith(told):
        return text[len(told) :]
    return "" if told.strip() else text


def _rules(tools: Sequence[ToolSchema], answer: Mapping[str, JsonValue]) -> str:
    # A trial of 8 jobs with the 1.5B model: 5 right in these words, 3 and 4 in two others. Too few to settle.
    lines = [
        "You have these tools:",
        described(tools),
        "",
        "Reply with one JSON object.",
        "When a tool can do or find out what is asked, use it first: "
        '{"name": tool, "arguments": {...}}. Its result comes in the next message.',
    ]
    form = '"..."' if answer == {"type": "string"} else shape(answer)
    lines.append(f'Only then, or when no tool fits: {{"answer": {form}}}.')
    return "\n".join(lines)


def _broken(result: Result, request: Request, tools: Mapping[str, ToolSchema], error: DecodeError) -> Result:
    """What can be had of JSON that cannot be read, as a rule because there was no room for the rest."""
    reader = AnswerText()
    words = reader.feed(result.text) if request.schema is None else ""
    if reader.is_begun:
        return msgspec.structs.replace(result, text=words, carried=None)
    named = _NAMED.match(result.text)
    if named is None or named[1] not in tools:
        return result
    why = "there was no room for the rest" if result.stop == "length" else error.problem
    call = ToolCall(name=named[1], problem=f"the call cannot be read: {why}", raw=result.text)
    return msgspec.structs.replace(result, text="", calls=[call], stop="calls", carried=None)


def _is_cut(value: JsonValue, longest: int, most: int) -> bool:
    """Whether something in it is just as long as the schema allowed: then it ended there by force."""
    if isinstance(value, str):
        return len(value) == longest
    if isinstance(value, list):
        return len(value) == most or any(_is_cut(each, longest, most) for each in value)
    return isinstance(value, dict) and any(_is_cut(each, longest, most) for each in value.values())
