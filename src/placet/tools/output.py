"""What a tool returned, as JSON that is nobody else's.

Keep true:
1. The result shares nothing mutable with what the tool returned: a tool may keep and change its own lists.
2. Only JSON comes out: `copy_json` would accept every result as it is.
3. Whatever cannot be JSON ends in `NotJson` that names the place, loops and broken serialisers included.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from math import isfinite
from pathlib import PurePath
from typing import Any
from uuid import UUID

import msgspec

from placet.errors import NotJson
from placet.ir.json_value import MAX_DEPTH, SAFE_BITS, JsonValue, writable
from placet.truncation import truncate, truncate_repr

_PLAIN = frozenset({bool, type(None)})
_KNOWN = (msgspec.Struct, Enum, date, time, timedelta, Decimal, UUID)
_BYTES = (bytes, bytearray, memoryview)


def to_json(value: Any, place: str = "output") -> JsonValue:
    """`value` as JSON, copied.

    Dataclasses, Structs, enums, dates, paths, decimals and pydantic models take their usual JSON form.

    >>> from pathlib import Path
    >>> to_json({"at": Path("a/b"), "sizes": (1, 2)})
    {'at': 'a/b', 'sizes': [1, 2]}

    Raises:
        NotJson: a value JSON does not have; the message names the place and often the fix.
    """
    kind = type(value)
    if (
        (kind is int and value.bit_length() < SAFE_BITS)
        or (kind is str and value.isascii())
        or kind in _PLAIN
    ):
        return value
    return _copy(value, kind, place, MAX_DEPTH)


# Not `copy_json`: it takes a subclass of str as it prints, and `class Color(str, Enum)` prints its name.
def _copy(value: Any, kind: type, place: str, depth: int) -> JsonValue:
    if kind is str:
        # Half of a surrogate pair is text to Python (file names have it), but no UTF-8, and so no JSON.
        if value.isascii() or _is_utf8(value):
            return value
        raise NotJson("the text holds half of a surrogate pair; encode it with errors='replace'", place=place)
    if kind is float:
        if isfinite(value):
            return value
        raise NotJson(f"{value} is no JSON number", place=place)
    if kind is int:
        return writable(value, place)
    if depth == 0:
        raise NotJson(f"it is nested more than {MAX_DEPTH} deep, or holds itself", place=truncate(place, 200))
    if kind is dict:
        copied = {}
        for key, item in value.items():
            if type(key) is not str or not (key.isascii() or _is_utf8(key)):
                key = _plain_key(key, place)
            t = type(item)
            if (t is int and item.bit_length() < SAFE_BITS) or (t is str and item.isascii()) or t in _PLAIN:
                copied[key] = item
            else:
                copied[key] = _copy(item, t, f"{place}.{key}", depth - 1)
        return copied
    if kind is list or kind is tuple:
        return [
            item
            if ((t := type(item)) is int and item.bit_length() < SAFE_BITS)
            or (t is str and item.isascii())
            or t in _PLAIN
            else _copy(item, t, f"{place}[{i}]", depth - 1)
            for i, item in enumerate(value)
        ]
    return _copy_object(value, kind, place, depth)


def _copy_object(value: Any, kind: type, place: str, depth: int) -> JsonValue:
    """Anything that is not exactly one of JSON's own types."""
    plain: Any
    if isinstance(value, _KNOWN) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        plain = _from_msgspec(value, place)
    elif isinstance(value, PurePath):
        plain = str(value)
    elif _is_pydantic_model(value):
        plain = _from_pydantic(value, place)
    elif isinstance(value, (int, float, str, dict, list, tuple)):
        # A subclass loses what it adds. The base's own method: a subclass may print or iterate otherwise.
        base: Any = next(b for b in (int, float, str, dict, list, tuple) if isinstance(value, b))
        plain = str.__str__(value) if base is str else base(value)
        return _copy(plain, base, place, depth)
    else:
        raise NotJson(_why_not(value), place=place)
    # Once more: msgspec leaves NaN and bytes alone, and a field typed Any may hold whatever it likes.
    kind = type(plain)
    return plain if kind in _PLAIN else _copy(plain, kind, place, depth)


def _from_msgspec(value: Any, place: str) -> Any:
    name = type(value).__name__

    def convert(inner: Any) -> Any:
        if isinstance(inner, PurePath):
            return str(inner)
        if _is_pydantic_model(inner):
            return _from_pydantic(inner, place)
        raise NotJson(f"in the {name}, {_why_not(inner)}", place=place)

    try:
        return msgspec.to_builtins(value, enc_hook=convert, builtin_types=_BYTES)
    except NotJson:
        raise
    except RecursionError:
        raise NotJson(f"the {name} is nested too deep, or holds itself", place=place) from None
    except Exception as error:
        raise NotJson(f"the {name} cannot be written: {error}", place=place) from None


def _is_pydantic_model(value: Any) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(value, pydantic.BaseModel)


def _from_pydantic(value: Any, place: str) -> Any:
    try:
        return value.model_dump(mode="json")
    except Exception as error:
        problem = truncate(str(error).partition("\n")[0], 200)
        raise NotJson(f"the model {type(value).__name__} cannot be written: {problem}", place=place) from None


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _plain_key(key: object, place: str) -> str:
    if isinstance(key, str):
        plain = str.__str__(key)
        if plain.isascii() or _is_utf8(plain):
            return plain
        raise NotJson("a key holds half of a surrogate pair", place=place)
    raise NotJson(f"the key {truncate_repr(key, 80)} is no string", place=place)


def _why_not(value: Any) -> str:
    name = type(value).__name__
    if isinstance(value, _BYTES):
        return f"{name} has no JSON form; decode it, or base64-encode it, before returning it"
    if isinstance(value, (set, frozenset)):
        return f"a {name} has no order; return sorted(...) of it"
    if callable(getattr(value, "tolist", None)):
        return f"a {name} has no JSON form; return its .tolist()"
    if hasattr(value, "__await__"):
        return f"a {name} was returned without being awaited"
    if isinstance(value, Iterator) or hasattr(value, "__aiter__"):
        return f"a {name} has no JSON form; return a list"
    return f"a {name} has no JSON form; return a dict, a list, text, a number, a dataclass or a Struct"
