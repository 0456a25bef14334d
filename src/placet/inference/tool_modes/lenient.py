"""Tools for models that promise nothing: they are asked for JSON, and it is looked for in what they write.

A server that was handed the tools has a way of its own to call them. Without tags, JSON in its text is a call
only where there is nothing else in the text; of a model that was asked for it, also behind its words.

Keep true:
1. What is shown of a stream is never part of a call.
2. Words that hold no call are passed on to the character.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from placet.errors import ToolsRefused
from placet.inference.model import Model, Piece, Request, Result, Thought, Words, stream
from placet.inference.tool_modes.conversation import plain
from placet.inference.tool_modes.description import described
from placet.inference.tool_modes.schema import remaining, usable, without_tools
from placet.inference.tool_modes.search import LONGEST_START, MAY_START, START, find_calls
from placet.inference.wrappers.wrapped import Wrapped
from placet.ir.json_value import show_json

_MOST_BLANKS = 1000


class LenientTools(Wrapped):
    """A model with tools, around one that only writes text.

    That a tool has to be used can be asked for, not enforced.
    """

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """The answer as it comes, up to the first thing that may be a call."""
        async with (
            aclosing(stream(self.model, _asked(request))) as pieces,
            aclosing(_told(pieces, request)) as told,
        ):
            async for piece in told:
                yield piece


class NativeThenLenient(Wrapped):
    """A model that is handed the tools, and that may write its calls into the text all the same.

    Where the server takes no tools, they are described to it from then on.
    """

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._lenient = LenientTools(model)
        self._takes_tools = True

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """The answer as it comes, up to the first thing that may be a call."""
        if self._takes_tools:
            try:
                async with (
                    aclosing(stream(self.model, request)) as pieces,
                    aclosing(_told(pieces, request, is_native=True)) as told,
                ):
                    async for piece in told:
                        yield piece
                return
            except ToolsRefused as error:
                # It refuses before the first word, so nothing is said twice.
                self._learn(error, request)
        async with aclosing(self._lenient.stream(request)) as pieces:
            async for piece in pieces:
                yield piece

    def _learn(self, error: ToolsRefused, request: Request) -> None:
        """Ask without tools from now on, if there were any."""
        if not request.tools:
            raise error
        self._takes_tools = False


def _asked(request: Request) -> Request:
    tools = usable(request)
    if not tools:
        return without_tools(request)
    lines = [
        "You can use tools. To use one, write a block like this and nothing after it:",
        '<tool_call>{"name": "...", "arguments": {...}}</tool_call>',
        "You get its result in the next message and go on. "
        + (
            "You have to use a tool now."
            if request.tool_choice == "required"
            else "When you need no tool, answer as usual."
        ),
    ]
    if request.schema is not None:
        lines.append(
            f"Your answer itself has to be JSON alone, by this JSON Schema: {show_json(request.schema)}"
        )
    return msgspec.structs.replace(
        request,
        messages=plain(
            request.messages,
            rules="\n".join([*lines, "Tools:", described(tools)]),
            call=lambda text: f"<tool_call>{text}</tool_call>",
            result=lambda text: f"<tool_result>{text}</tool_result>",
        ),
        tools=(),
        tool_choice="auto",
        schema=None,  # Held to it, the model could not write a call.
    )


def _read(result: Result, request: Request, *, is_native: bool = False) -> Result:
    """The result with the calls that stand in its text. A text that was asked for as JSON is left alone where
    the server itself holds the model to it."""
    tools = {tool.name: tool for tool in usable(request)}
    if not tools or result.calls or (is_native and request.schema is not None):
        return result
    found = find_calls(result.text, tools, only_alone=is_native)
    if not found.calls:
        return result
    return msgspec.structs.replace(result, text=found.text, calls=found.calls, stop="calls", carried=None)


async def _told(
    pieces: AsyncGenerator[Piece, None], request: Request, *, is_native: bool = False
) -> AsyncGenerator[Piece, None]:
    held = _Held() if usable(request) and not (is_native and request.schema is not None) else None
    told = ""
    async for piece in pieces:
        match piece:
            case Words(text):
                text = held.feed(text) if held is not None else text
                if text:
                    told += text
                    yield Words(text)
            case Thought():
                yield piece
            case Result():
                result = _read(piece, request, is_native=is_native)
                if rest := remaining(told, result.text):
                    yield Words(rest)
                yield result


class _Held:
    """Lets go of a text up to where a call may begin."""

    def __init__(self) -> None:
        self._pending = ""
        self._is_shut = False

    def feed(self, piece: str) -> str:
        """What can be shown once this piece is there."""
        if self._is_shut:
            return ""
        self._pending += piece
        if (start := START.search(self._pending)) is not None:
            self._is_shut = True
            end = start.start()
        else:
            undecided = MAY_START.search(self._pending, max(len(self._pending) - LONGEST_START, 0))
            end = undecided.start() if undecided is not None else len(self._pending)
        # Blanks before a call are dropped with it; kept back without end they would only cost.
        free = self._pending[:end]
        free = free.rstrip() if end - len(free.rstrip()) <= _MOST_BLANKS else free
        self._pending = self._pending[len(free) :]
        return free
