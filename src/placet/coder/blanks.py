"""What a model writes where a place of a function was left blank, as lines of the file.

A small model that hears of a tool writes worse code than one that is asked for a line. So it is asked for a
line, and what it answers is put where the angle says, never where the model says.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from placet.coder.angles import BLANK, Angle
from placet.coder.changes import Change, Changes
from placet.errors import DecodeError
from placet.ir.codec import decode_json
from placet.ir.json_value import JsonValue

_LONGEST = 300
SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"code": {"type": "string", "maxLength": _LONGEST}},
    "required": ["code"],
    "additionalProperties": False,
}


def filled(angle: Angle, answer: str, made: Changes) -> Change | None:
    """The change that an answer asks for; None if it says nothing new, or nothing that makes sense."""
    try:
        value = decode_json(answer, source="the answer")
    except DecodeError:
        return None
    code = value.get("code") if isinstance(value, dict) else None
    if not isinstance(code, str):
        return None
    first, last = angle.first, angle.last
    rows = next((rows for rows in _tried(angle, code) if made.makes_sense(first, last, rows)), None)
    return made.made(first, last, rows) if rows is not None else None


def _tried(angle: Angle, code: str) -> Iterator[list[str]]:
    """The code taken for whole lines, then for what stands at the blank alone."""
    row = next(row for row in angle.shown.split("\n") if BLANK in row)
    indent = row[: len(row) - len(row.lstrip())]
    code = textwrap.dedent(code.strip("\r\n")).rstrip()
    head, _, tail = row.strip().partition(BLANK)
    whole = code.strip()
    tries = [code] if not head or whole.startswith(head.split(" ")[0]) else []
    tries += [f"{head}{whole.removesuffix(tail) if tail else whole}{tail}"] if head else []
    for each in [*tries, code]:
        yield textwrap.indent(each.lstrip(" \t"), indent).split("\n") if each else []
