"""Places in a JSON value, as RFC 9535 writes them: `$.items[0].name`.

Names, indices, slices, wildcards and descendants are known. Filters (`[?...]`) and several selectors in one
pair of brackets are not: an expectation that needs them is better written as a check command.

Keep true:
1. A path is read whole before anything is looked up; what is not known here is refused, not guessed.
2. The work is bounded: a path has a most of segments, and a lookup a most of values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

from placet.errors import UsageError
from placet.ir.json_value import JsonValue
from placet.safe_text import clean

MOST_SEGMENTS = 32
MOST_VALUES = 10_000

_NAME = re.compile(r"[A-Za-z_\u0080-\U0010ffff][\w\u0080-\U0010ffff]*")
_INDEX = re.compile(r"(?:0|-?[1-9]\d{0,8})\s*\]")
_SLICE = re.compile(r"(-?\d{1,9})?\s*:\s*(-?\d{1,9})?\s*(?::\s*(-?\d{1,9})?)?\s*\]")
_QUOTED = re.compile(r"""'((?:[^'\\]|\\.)*)'\s*\]|"((?:[^"\\]|\\.)*)"\s*\]""", re.DOTALL)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPED = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)


class Every(NamedTuple):
    """All members, or all items."""


Selector: TypeAlias = str | int | slice | Every


class Segment(NamedTuple):
    """One step of a path."""

    selector: Selector
    goes_deep: bool = False
    """Whether it is looked for in everything inside as well."""


class JsonPath:
    """A path that was read.

    >>> JsonPath("$.items[*].name").find({"items": [{"name": "a"}, {"name": "b"}]})
    ['a', 'b']
    """

    def __init__(self, text: str) -> None:
        """
        Raises:
            UsageError: it is no path, or of a kind that is not known here; says from where on.
        """
        self.text = text
        self._segments = _read(text)

    def find(self, value: JsonValue) -> list[JsonValue]:
        """The values at that place, in the order of the document; none if there is no such place."""
        found: list[JsonValue] = [value]
        for segment in self._segments:
            found = list(islice(_step(found, segment), MOST_VALUES))
        return found


def _read(text: str) -> list[Segment]:
    if not text.startswith("$"):
        raise _no_path(text, 0, "it begins with $, which is the whole value")
    segments: list[Segment] = []
    at = 1
    while at < len(text):
        if len(segments) == MOST_SEGMENTS:
            raise _no_path(text, at, f"it has more than {MOST_SEGMENTS} segments")
        goes_deep = text.startswith("..", at)
        if goes_deep:
            at += 2
        elif text[at] == ".":
            at += 1
        elif text[at] != "[":
            raise _no_path(text, at, "a dot or a bracket is missing")
        selector, at = _selector(text, at)
        segments.append(Segment(selector, goes_deep))
    return segments


def _selector(text: str, at: int) -> tuple[Selector, int]:
    if not text.startswith("[", at):
        if text.startswith("*", at):
            return Every(), at + 1
        if (name := _NAME.match(text, at)) is not None:
            return name[0], name.end()
        raise _no_path(text, at, "a name is missing")
    if text[at - 1] == "." and not text.startswith("..", at - 2):
        raise _no_path(text, at, "between a dot and a bracket there is a name")
    at += 1 + len(text[at + 1 :]) - len(text[at + 1 :].lstrip())
    if (every := re.compile(r"\*\s*\]").match(text, at)) is not None:
        return Every(), every.end()
    if (index := _INDEX.match(text, at)) is not None:
        return int(index[0].rstrip("] \t\r\n")), index.end()
    if (part := _SLICE.match(text, at)) is not None:
        first, last, step = (int(each) if each else None for each in part.groups())
        return slice(first, last, step), part.end()
    if (quoted := _QUOTED.match(text, at)) is not None:
        return _plain(quoted[1] if quoted[1] is not None else quoted[2]), quoted.end()
    raise _no_path(text, at, "in brackets there is a number, a slice, * or a quoted name; no filter")


def _plain(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        said = match[1]
        return chr(int(said[1:], 16)) if len(said) == 5 else _ESCAPES.get(said, said)

    return _ESCAPED.sub(one, text)


def _step(values: Sequence[JsonValue], segment: Segment) -> Iterator[JsonValue]:
    for value in values:
        for each in _descendants(value) if segment.goes_deep else (value,):
            yield from _chosen(each, segment.selector)


def _chosen(value: JsonValue, selector: Selector) -> Iterator[JsonValue]:
    match selector:
        case str():
            if isinstance(value, Mapping) and selector in value:
                yield value[selector]
        case int():
            if isinstance(value, list) and -len(value) <= selector < len(value):
                yield value[selector]
        case slice():
            # A step of 0 chooses nothing, says the RFC; Python would refuse it.
            if isinstance(value, list) and selector.step != 0:
                yield from value[selector]
        case Every():
            if isinstance(value, Mapping):
                yield from value.values()
            elif isinstance(value, list):
                yield from value


def _descendants(value: JsonValue) -> Iterator[JsonValue]:
    """A value and all that is in it. JSON that was decoded is never deep enough to overflow."""
    yield value
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for each in inner:
        yield from _descendants(each)


def _no_path(text: str, at: int, why: str) -> UsageError:
    shown = clean(text, 120)
    return UsageError(f"'{shown}' is no JSON path: at character {at + 1}, {why}. Write $.items[0].name.")
