"""The JSON that a server wraps its answers in, read leniently where that loses nothing.

Some servers cut a text between the two halves of a character, or name a key twice. That is no reason to lose
an answer that was paid for. What a tool is called with is another matter: it means one thing, or is refused.

Keep true:
1. The strict decoder goes first, so that what is fine costs nothing more.
2. Half a character never gets out: with its other half it is one, alone it becomes U+FFFD.
3. `flaw` finds everything that was read leniently.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import isfinite
from typing import Any, NoReturn

import msgspec

from placet.errors import DecodeError
from placet.inference.model import Result, Thought, Words
from placet.ir.codec import decode_json, encode
from placet.ir.json_value import MAX_DEPTH, JsonValue

UNKNOWN = "\ufffd"


class _Doubled(dict[str, Any]):
    """An object that named a key twice; the last one won."""


def read_envelope(text: str | bytes, source: str) -> JsonValue:
    """What a server sent. Halves of characters are left in its texts: the other one may be on its way.

    Raises:
        DecodeError: it is no JSON at all, or too deep.
    """
    try:
        return decode_json(text, source=source)
    except DecodeError:
        try:
            value = json.loads(
                text, object_pairs_hook=_last_wins, parse_constant=_refuse, parse_float=_finite
            )
        except (ValueError, RecursionError):
            value = None
        if value is None or _is_too_deep(value, MAX_DEPTH):
            raise
        return value


def flaw(value: JsonValue) -> str:
    """What is wrong with a value that has to be strict JSON; empty where nothing is."""
    if isinstance(value, str):
        return "" if _is_whole(value) else "a text in them holds half of a character"
    if isinstance(value, _Doubled):
        return "a key in them stands twice in one object"
    below: Any = ()
    if isinstance(value, dict):
        below = [*value, *value.values()]
    elif isinstance(value, list):
        below = value
    return next((found for each in below if (found := flaw(each))), "")


def mended(value: JsonValue) -> JsonValue:
    """The same with whole characters only, and in plain objects."""
    if isinstance(value, str):
        return joined(value)
    if isinstance(value, dict):
        return {joined(name): mended(each) for name, each in value.items()}
    return [mended(each) for each in value] if isinstance(value, list) else value


def joined(text: str) -> str:
    """A text whose halves of characters found each other; one that is left over is U+FFFD.

    >>> joined("\\ud83d" + "\\ude00" + "\\ud83d") == "\\U0001f600\\ufffd"
    True
    """
    if _is_whole(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def whole_result(result: Result) -> Result:
    """The result, which can be written as JSON."""
    try:
        encode(result)
    except UnicodeEncodeError:
        found = msgspec.convert(mended(msgspec.to_builtins(result)), Result)
        return msgspec.structs.replace(found, calls=tuple(found.calls))
    return result


class WholeCharacters:
    """Puts the characters of a stream together: half of one is kept back until the other half comes."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[type[Words | Thought], str] = {}

    def take(self, piece: Words | Thought) -> Iterator[Words | Thought]:
        """What can be shown of a piece."""
        kind = type(piece)
        if not self._held and _is_whole(piece.text):
            yield piece
            return
        text = self._held.pop(kind, "") + piece.text
        if "\ud800" <= text[-1:] <= "\udbff":
            self._held[kind] = text[-1]
            text = text[:-1]
        if text:
            yield kind(joined(text))

    def finish(self) -> Iterator[Words | Thought]:
        """What is left at the end."""
        for kind in self._held:
            yield kind(UNKNOWN)


def _is_whole(text: str) -> bool:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return False
    return True


def _last_wins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _Doubled(found)


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)


def _finite(digits: str) -> float:
    number = float(digits)
    return number if isfinite(number) else _refuse(digits)


def _is_too_deep(value: JsonValue, left: int) -> bool:
    if not isinstance(value, dict | list) or not value:
        return False
    below = value.values() if isinstance(value, dict) else value
    return left <= 0 or any(_is_too_deep(each, left - 1) for each in below)
