"""What a call would do, as a person reads it: texts as lines, and changes to files as differences.

Keep true:
1. Every part of a call is shown, or said to be left out: a text that is shown apart is named in its place.
2. Comparing takes a bounded time, whatever the texts hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from placet.ir.json_value import JsonValue
from placet.render.text import count
from placet.safe_text import clean

_MOST_COMPARED = 256 * 1024
"""Characters of a text that is compared with another."""
_MOST_LINES_COMPARED = 4_000
_CONTEXT = 3
_DEEPEST = 8
"""Texts below that stay where they are."""


class Block(NamedTuple):
    """A text of several lines, with what it is."""

    heading: str
    text: str


def split_texts(parameters: Mapping[str, JsonValue]) -> tuple[dict[str, JsonValue], list[Block]]:
    """The parameters with a word in the place of every text of several lines, and those texts.

    >>> split_texts({"path": "a", "text": "one\\ntwo\\n"})
    ({'path': 'a', 'text': '(2 lines, below)'}, [Block(heading="parameter 'text'", text='one\\ntwo\\n')])
    """
    found: list[Block] = []

    def without(value: JsonValue, place: str, depth: int) -> JsonValue:
        if isinstance(value, str) and "\n" in value.rstrip("\n"):
            found.append(Block(f"parameter '{clean(place, 80)}'", value))
            return f"({count(len(value.removesuffix(chr(10)).split(chr(10))), 'line')}, below)"
        if depth >= _DEEPEST:
            return value
        if isinstance(value, Mapping):
            return {key: without(item, f"{place}.{key}", depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [without(item, f"{place}.{n}", depth + 1) for n, item in enumerate(value, start=1)]
        return value

    return {name: without(value, name, 1) for name, value in parameters.items()}, found


def difference(old: str, new: str) -> str | None:
    """The lines that go and come, as in a patch; None where the texts are too long to compare.

    >>> print(difference("a\\nb\\n", "a\\nc\\n"))
    @@ -1,2 +1,2 @@
     a
    -b
    +c
    """
    from difflib import unified_diff

    if _is_crlf(old) and _is_crlf(new):
        old, new = (text.replace("\r\n", "\n") for text in (old, new))
    if max(len(old), len(new)) > _MOST_COMPARED:
        return None
    before, after = _lines(old), _lines(new)
    if max(len(before), len(after)) > _MOST_LINES_COMPARED:
        return None
    found = list(unified_diff(before, after, n=_CONTEXT, lineterm=""))[2:]
    # A carriage return is no end of a line here: where it goes or comes, that is a change to be seen.
    return "\n".join(clean(line, tabs=True) for line in found)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if lines[-1] == "":
        return lines[:-1]
    # So that a last line without an end is told from one that has it.
    return [*lines[:-1], f"{lines[-1]} (no line break at its end)"]


def _is_crlf(text: str) -> bool:
    return text.count("\n") == text.count("\r\n")
