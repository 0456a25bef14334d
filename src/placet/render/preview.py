"""What a call would do, as a person reads it: texts as lines.

Keep true: every part of a call is shown, or said to be left out: a text that is shown apart is named in its
place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from placet.ir.json_value import JsonValue
from placet.render.text import count
from placet.safe_text import clean

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
