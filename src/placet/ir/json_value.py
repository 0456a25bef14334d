"""JSON values: what may enter, how two compare, how one is copied.

Keep true:
1. A value that passed `copy_json` shares nothing mutable with the one it was made from.
2. Equality is JSON's, not Python's: 5 equals 5.0, true does not equal 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any, TypeAlias

import msgspec

from placet.errors import NotJson
from placet.truncation import truncate, truncate_repr

JsonValue: TypeAlias = Any
"""A JSON value: `None`, a bool, an int, a float, a str, a list, or a dict with string keys. Checked where it
enters."""

MAX_DEPTH = 100

_SCALARS = frozenset({bool, type(None)})
SAFE_BITS = 14_000
"""An integer of fewer bits can surely be written: the quick test, before `writable`."""
_TOO_LARGE, _TOO_SMALL = 10**4300, -(10**4299)
"""With more than 4,300 digits, sign counted in, Python and msgspec between them neither write nor read it."""

TOO_LONG = "an integer of more than 4,300 digits, its sign counted in, can be neither read nor written"

canonical_bytes = msgspec.json.Encoder(order="sorted").encode
"""One spelling for one value: equal objects with keys in another order give the same bytes."""


def copy_json(value: JsonValue, place: str = "value") -> JsonValue:
    """A deep copy of `value`, made only of JSON.

    Raises:
        NotJson: NaN, infinity, an integer of more than 4,300 digits, a key that is no string, depth
            over 100, or a type JSON does not have; the message names the place.
    """
    kind = type(value)
    if (
        (kind is int and value.bit_length() < SAFE_BITS)
        or (kind is str and value.isascii())
        or kind in _SCALARS
    ):
        return value
    return _copy(value, kind, place, MAX_DEPTH)


def _copy(value: JsonValue, kind: type, place: str, depth: int) -> JsonValue:
    if kind is str:
        return _encodable(value, place)
    if kind is float:
        if isfinite(value):
            return value
        raise NotJson(f"{value} is no JSON number", place=place)
    if kind is int:
        return writable(value, place)
    if kind is dict or kind is list or kind is tuple:
        if depth == 0 and value:
            raise NotJson(f"it is nested more than {MAX_DEPTH} deep", place=truncate(place, 200))
        if kind is dict:
            copied = {}
            for key, item in value.items():
                if type(key) is not str or not key.isascii():
                    key = _plain_key(key, place)
                t = type(item)
                if (
                    (t is int and item.bit_length() < SAFE_BITS)
                    or (t is str and item.isascii())
                    or t in _SCALARS
                ):
                    copied[key] = item
                else:
                    copied[key] = _copy(item, t, f"{place}.{key}", depth - 1)
            return copied
        return [
            item
            if ((t := type(item)) is int and item.bit_length() < SAFE_BITS)
            or (t is str and item.isascii())
            or t in _SCALARS
            else _copy(item, t, f"{place}[{i}]", depth - 1)
            for i, item in enumerate(value)
        ]
    return _copy_unusual(value, place, depth)


def writable(number: int, place: str) -> int:
    """The number itself.

    Raises:
        NotJson: it is so long that Python would not write it, or not read it again.
    """
    if _TOO_SMALL < number < _TOO_LARGE:
        return number
    raise NotJson(TOO_LONG, place=place)


def _encodable(text: str, place: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NotJson("it holds half of a surrogate pair, which no encoding can carry", place=place) from None
    return text


def _plain_key(key: object, place: str) -> str:
    if isinstance(key, str):
        return _encodable(str.__str__(key), place)
    raise NotJson(f"the key {truncate_repr(key, 80)} is no string", place=place)


def _copy_unusual(value: Any, place: str, depth: int) -> JsonValue:
    """Subclasses of JSON's own types lose the subclass; anything else is refused."""
    if isinstance(value, str):
        return _encodable(str.__str__(value), place)
    if isinstance(value, int):
        return writable(int.__int__(value), place)
    if isinstance(value, float):
        return _copy(float.__float__(value), float, place, depth)
    if isinstance(value, dict):
        return _copy(dict(value), dict, place, depth)
    if isinstance(value, list):
        return _copy(list(value), list, place, depth)
    raise NotJson(f"a {type(value).__name__} has no JSON form", place=place)


def json_equal(a: JsonValue, b: JsonValue) -> bool:
    """Whether two JSON values are the same value.

    >>> json_equal(5, 5.0), json_equal(True, 1), json_equal([1, {"k": None}], [1.0, {"k": None}])
    (True, False, True)
    """
    ta, tb = type(a), type(b)
    if ta is bool or tb is bool:
        return ta is tb and a == b
    if ta is dict:
        return tb is dict and len(a) == len(b) and all(k in b and json_equal(v, b[k]) for k, v in a.items())
    if ta is list:
        return tb is list and len(a) == len(b) and all(map(json_equal, a, b))
    return bool(a == b)


def show_json(value: JsonValue) -> str:
    """A value as JSON text, for messages."""
    return msgspec.json.encode(value).decode()


def texts_in(value: JsonValue) -> Iterator[str]:
    """Every text in a value, keys included; numbers as they are written."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from texts_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)
    elif value is not None:
        yield show_json(value)
