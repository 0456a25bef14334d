"""fill_blank: what a model writes where a place of a function was left blank goes into the file.

A small model that hears of a tool writes worse code than one that is asked for a line. So it is asked for a
line, and what it answers becomes the call.

Keep true:
1. Which lines are replaced comes from the angle, never from the model.
2. A text that leaves the file without sense is refused, and nothing is written.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from assent.coder.angles import BLANK, Angle
from assent.errors import DecodeError
from assent.inference.messages import ToolCall
from assent.inference.model import Model, Piece, Request, Result
from assent.inference.wrappers.wrapped import Wrapped
from assent.ir.codec import decode_json
from assent.ir.json_value import JsonValue
from assent.sandbox.refusals import refused, shown
from assent.tools.builtin.files import Refuse, check_allowed, read_text, replace_text
from assent.tools.builtin.hunks import split_lines
from assent.tools.tool import Tool, tool

if TYPE_CHECKING:
    from assent.sandbox.workspace import Workspace

TOOL = "fill_blank"
_LONGEST = 300
_SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"code": {"type": "string", "maxLength": _LONGEST}},
    "required": ["code"],
    "additionalProperties": False,
}


class OneLine(Wrapped):
    """A model that is asked for one line of code, without a word about tools; its answer is a call of
    fill_blank."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)

    async def generate(self, request: Request) -> Result:
        """The whole answer.

        Raises:
            ModelError: as the model inside.
        """
        asked = msgspec.structs.replace(request, tools=(), tool_choice="auto", schema=_SCHEMA)
        return _as_call(await self.model.generate(asked))

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """The whole answer at once: nobody wants to see half a line."""
        yield await self.generate(request)


def _as_call(result: Result) -> Result:
    try:
        value = decode_json(result.text, source="the answer")
    except DecodeError as error:
        call = ToolCall(name=TOOL, problem=f"the answer cannot be read: {error.problem}", raw=result.text)
    else:
        line = value.get("code") if isinstance(value, dict) else None
        if not isinstance(line, str):
            return result  # In no shape that was asked for: it is what the model says.
        call = ToolCall(name=TOOL, arguments={"code": line})
    return msgspec.structs.replace(result, text="", calls=[call], stop="calls", carried=None)


def blank_tool(workspace: Workspace, angle: Callable[[], Angle | None], *, refuse: Refuse | None) -> Tool:
    """The tool, for the angle that is looked from when it is called."""

    @tool(risk="destructive", labels=("confined",))
    def fill_blank(
        code: Annotated[str, Meta(description=f"The line of code that belongs where {BLANK} stands.")],
    ) -> dict[str, JsonValue]:
        """Write the line of the program that was left blank."""
        place = angle()
        if place is None:
            raise refused(f"Nothing was left blank. Change the code in another way than with {TOOL}.")
        check_allowed(workspace, place.function.path, refuse)
        return _fill(workspace, place, code)

    fill_blank.confined_to = str(workspace.folder)
    return fill_blank


def _fill(workspace: Workspace, angle: Angle, code: str) -> dict[str, JsonValue]:
    path = angle.function.path
    with workspace.lock:
        text, encoding, was = read_text(workspace, path)
        lines = split_lines(text)
        changed = next((new for new in _tried(lines, angle, code) if _makes_sense(new)), None)
        if changed is None:
            raise refused(f"With this code {shown(path)} would be no valid Python; nothing was written.")
        if changed == text:
            raise refused(f"That is what stands there in {shown(path)} already.")
        replace_text(workspace, path, changed, encoding, was)
    return {"path": path, "line": angle.first}


def _tried(lines: list[str], angle: Angle, code: str) -> Iterator[str]:
    """The file with the code in its place: taken for whole lines, then for what stands at the blank alone."""
    row = next(row for row in angle.shown.split("\n") if BLANK in row)
    indent = row[: len(row) - len(row.lstrip())]
    code = textwrap.dedent(code.strip("\r\n")).rstrip()
    end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    head, _, tail = row.strip().partition(BLANK)
    whole = code.strip()
    tries = [code] if not head or whole.startswith(head.split(" ")[0]) else []
    tries += [f"{head}{whole.removesuffix(tail) if tail else whole}{tail}"] if head else []
    for each in [*tries, code]:
        rows = textwrap.indent(each.lstrip(" \t"), indent).split("\n")
        put = [f"{row}{end}" for row in rows] if each else []
        yield "".join([*lines[: angle.first - 1], *put, *lines[angle.last :]])


def _makes_sense(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
