"""One way for callers to get the JSON form of a result.

Keep true:
1. `to_dict` has the names and values of the wire: what `msgspec.json` would encode, as builtins.
2. It adds no field and no cost to building a struct.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

import msgspec

from placet.ir.json_value import JsonValue


class ToDict:
    """Mixin for structs that callers can turn into JSON."""

    __slots__ = ()

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as a dict that `json.dumps` accepts, with the field names of the JSON format."""
        data: dict[str, JsonValue] = _with_lists(msgspec.to_builtins(self, enc_hook=_foreign))
        return data


def _foreign(value: Any) -> Any:
    """A value of a type that a caller has brought: a pydantic model, without importing pydantic."""
    dump = getattr(value, "model_dump", None)
    if not callable(dump):
        raise NotImplementedError(f"{type(value).__name__} has no JSON form")
    try:
        return dump(mode="json")
    except UnicodeDecodeError:
        # Bytes that are no text. msgspec writes all bytes in base64, as it does in its own structs.
        return msgspec.to_builtins(dump(mode="python"), enc_hook=_foreign_field)


def _foreign_field(value: Any) -> Any:
    return dump(mode="json") if callable(dump := getattr(value, "model_dump", None)) else str(value)


def _with_lists(value: Any) -> Any:
    """msgspec keeps tuples, which JSON does not have: what was read back would not be equal. On the wire it
    writes null for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: _with_lists(held) for key, held in value.items()}
    if isinstance(value, float) and not isfinite(value):
        return None
    return [_with_lists(held) for held in value] if isinstance(value, list | tuple) else value
