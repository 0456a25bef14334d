"""JSON values: what may enter, how two compare, how one is copied.

Keep true:
1. A value that passed `copy_json` shares nothing mutable with the one it was made from.
2. Equality is JSON's, not Python's: 5 equals 5.0, true does not equal 1.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, TypeAlias

import msgspec

from assent.errors import NotJson

JsonValue: TypeAlias = Any
"""None, bool, int, float, str, list or dict with string keys; checked at the boundaries by `copy_json`."""

MAX_DEPTH = 100

_SCALARS = frozenset({str, int, bool, type(None)})

canonical_bytes = msgspec.json.Encoder(order="sorted").encode
"""One spelling for one value: equal objects with keys in another order give the same bytes."""


def copy_json(value: JsonValue, place: str = "value") -> JsonValue:
    """A deep copy of `value`, made only of JSON.

    Raises:
        NotJson: NaN, infinity, a key that is no string, depth over 100, or a type JSON does not have;
            the message names the place.
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    return _copy(value, kind, place, MAX_DEPTH)


def _copy(value: JsonValue, kind: type, place: str, depth: int) -> JsonValue:
    if kind is float:
        if isfinite(value):
            return value
        raise NotJson(f"{value} is no JSON number", place=place)
    if depth == 0:
        raise NotJson(f"it is nested more than {MAX_DEPTH} deep", place=place[:200])
    if kind is dict:
        copied = {}
        for key, item in value.items():
            if type(key) is not str:
                key = _plain_key(key, place)
            t = type(item)
            copied[key] = item if t in _SCALARS else _copy(item, t, f"{place}.{key}", depth - 1)
        return copied
    if kind is list or kind is tuple:
        return [
            item if (t := type(item)) in _SCALARS else _copy(item, t, f"{place}[{i}]", depth - 1)
            for i, item in enumerate(value)
        ]
    return _copy_unusual(value, place, depth)


def _plain_key(key: object, place: str) -> str:
    if isinstance(key, str):
        return str(key)
    raise NotJson(f"the key {key!r:.80} is no string", place=place)


def _copy_unusual(value: Any, place: str, depth: int) -> JsonValue:
    """Subclasses of JSON's own types lose the subclass; anything else is refused."""
    for base in (bool, int, float, str, dict, list):
        if isinstance(value, base):
            plain = base(value)
            return plain if base in _SCALARS else _copy(plain, base, place, depth)
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
        return (
            tb is dict
            and len(a) == len(b)
            and all(k in b and json_equal(v, b[k]) for k, v in a.items())
        )
    if ta is list:
        return tb is list and len(a) == len(b) and all(map(json_equal, a, b))
    return bool(a == b)


def show_json(value: JsonValue) -> str:
    """A value as JSON text, for messages."""
    return msgspec.json.encode(value).decode()
