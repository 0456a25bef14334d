"""The JSON Schema that Anthropic's structured output takes, out of any.

Keep true:
1. What the API would refuse is told to the model in the description; nothing is dropped without a word.
2. The schema that was handed in is not changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placet.ir.json_value import JsonValue, show_json

_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
_KEPT = frozenset({"$ref", "type", "title", "enum", "const", "required", "default"})
_ANNOTATIONS = frozenset({"$schema", "$id", "$comment"})


def accepted(schema: JsonValue) -> JsonValue:
    """The schema without what the API does not know: objects are closed, limits stand in the description.

    >>> accepted({"type": "integer", "minimum": 1, "description": "how many"})
    {'type': 'integer', 'description': 'how many {"minimum":1}'}
    """
    if not isinstance(schema, Mapping):
        return schema
    found: dict[str, Any] = {}
    untold: dict[str, Any] = {}
    for name, value in schema.items():
        match name:
            case "properties" | "$defs" | "definitions" if isinstance(value, Mapping):
                found[name] = {each: accepted(inner) for each, inner in value.items()}
            case "items":
                found[name] = accepted(value)
            case "anyOf" | "oneOf" | "allOf" if isinstance(value, list | tuple):
                found["allOf" if name == "allOf" else "anyOf"] = [accepted(each) for each in value]
            case "minItems" if value in (0, 1):
                found[name] = value
            case "format" if value in _FORMATS:
                found[name] = value
            case "description" | "additionalProperties":
                pass
            case _ if name in _KEPT:
                found[name] = value
            case _ if name not in _ANNOTATIONS:
                untold[name] = value
    told = [text for text in (schema.get("description"), show_json(untold) if untold else "") if text]
    if told:
        found["description"] = " ".join(map(str, told))
    if schema.get("type") == "object" or "properties" in found:
        found["additionalProperties"] = False
    return found
