"""The JSON Schema that an answer is held to: one of the tools with its arguments, or an answer in words.

A server makes a grammar of it, and most grammars know only some of JSON Schema: what they do not know is left
out here, so that the request is not refused for it. The arguments are checked afterwards, by the tool's own
schema.

Keep true:
1. Every reference leads somewhere within the schema that is made.
2. What is left out makes the schema wider. Narrower it is in two ways alone: texts and lists have a greatest
   length, and an object with named fields has no others, unless the tool speaks of others itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import unquote

from placet.ir.json_value import JsonValue
from placet.ir.tool_spec import ToolSchema

LONGEST_TEXT = 4000
"""Characters. Without an end in sight, a small model may go on until it has no room left."""
MOST_ITEMS = 50

_DEEPEST = 24
_MOST_STEPS = 20
"""From one reference to the next."""
_LARGEST = 2**53
_MORE_FIELDS = frozenset(
    {"patternProperties", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "$dynamicRef"}
)
"""Where one of them stands beside `properties`, those may not be all."""


_ONE_CLASS = re.compile(r"\^\[[^\]\[\\^]+\]\{\d{1,3},\d{1,3}\}\$", re.ASCII)
"""Patterns that every server understands: one class of characters, and how many of them."""


def actions(
    tools: Sequence[ToolSchema],
    *,
    answer: Mapping[str, JsonValue] | None,
    longest_text: int = LONGEST_TEXT,
    most_items: int = MOST_ITEMS,
) -> dict[str, JsonValue]:
    """What one turn may be: `{"name": ..., "arguments": {...}}` of a tool, or `{"answer": ...}`.

    `answer` is the schema of the answer; with None a tool has to be used.
    """
    definitions: dict[str, JsonValue] = {}
    options: list[JsonValue] = []
    for number, tool in enumerate(tools):
        narrowing = _Narrowing(tool.parameters, definitions, f"t{number}_", longest_text, most_items)
        arguments = narrowing.narrow(tool.parameters, _DEEPEST)
        if arguments.get("type") != "object" and "$ref" not in arguments and "anyOf" not in arguments:
            arguments = {"type": "object"}
        options.append(_closed({"name": {"const": tool.name}, "arguments": arguments}))
    if answer is not None:
        narrowing = _Narrowing(answer, definitions, "a_", longest_text, most_items)
        options.append(_closed({"answer": narrowing.narrow(answer, _DEEPEST)}))
    union: dict[str, JsonValue] = {"anyOf": options} if len(options) > 1 else dict(options[0])
    return {**union, "$defs": definitions} if definitions else union


def referred(root: JsonValue, reference: JsonValue) -> JsonValue:
    """What a reference within `root` leads to, further references followed; None where that is nowhere."""
    found = root
    for _ in range(_MOST_STEPS):
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        found = root
        for step in unquote(reference[1:]).split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and key in found:
                found = found[key]
            elif isinstance(found, list) and key.isdecimal() and int(key[:9]) < len(found):
                found = found[int(key)]
            else:
                return None
        if reference[1:] and not reference.startswith("#/"):
            return None  # An anchor: nobody writes those for tools.
        if not isinstance(found, dict) or "$ref" not in found:
            return found
        reference = found["$ref"]
    return None


def _closed(properties: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


class _Narrowing:
    """One schema on its way into the union."""

    def __init__(
        self,
        root: Mapping[str, JsonValue],
        definitions: dict[str, JsonValue],
        prefix: str,
        longest: int,
        most: int,
    ) -> None:
        self._root = root
        self._definitions = definitions
        self._prefix = prefix
        self._longest = longest
        self._most = most
        self._names: dict[str, str] = {}

    def narrow(self, schema: JsonValue, left: int) -> dict[str, JsonValue]:
        """What a grammar can do of it; `{}` where that is nothing."""
        if not isinstance(schema, Mapping) or left <= 0:
            return {}
        if "$ref" in schema:
            return self._moved(schema["$ref"])
        if "const" in schema:
            return {"const": schema["const"]}
        if isinstance(options := schema.get("enum"), list) and options:
            return {"enum": options}
        if "properties" not in schema and (choice := self._choice(schema, left)) is not None:
            return choice
        kind = schema.get("type")
        if isinstance(kind, list) and kind:
            # An object of two types would need keywords of both, and few grammars sort them.
            return _any_of(self.narrow({**schema, "type": each}, left) for each in kind)
        if kind == "object" or (kind is None and "properties" in schema):
            return self._object(schema, left)
        if kind == "array" or (kind is None and "items" in schema):
            return self._array(schema, left)
        match kind:
            case "string":
                pattern = schema.get("pattern")
                if isinstance(pattern, str) and _ONE_CLASS.fullmatch(pattern):
                    return {"type": "string", "pattern": pattern}
                least, most = _bounds(schema.get("minLength"), schema.get("maxLength"), self._longest)
                return {"type": "string", **({"minLength": least} if least else {}), "maxLength": most}
            case "integer":
                return {"type": "integer", **_range(schema)}
            case "number" | "boolean" | "null":
                return {"type": kind}
            case _:
                return {}

    def _choice(self, schema: Mapping[str, JsonValue], left: int) -> dict[str, JsonValue] | None:
        for keyword in ("anyOf", "oneOf", "allOf"):
            options = schema.get(keyword)
            if isinstance(options, list) and options and (keyword != "allOf" or len(options) == 1):
                return _any_of(self.narrow(each, left - 1) for each in options)
        return None

    def _object(self, schema: Mapping[str, JsonValue], left: int) -> dict[str, JsonValue]:
        given, required = schema.get("properties"), schema.get("required")
        fields = {
            name: self.narrow(each, left - 1)
            for name, each in (given.items() if isinstance(given, Mapping) else ())
        }
        needed = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
        if not fields and not needed and given is None:
            more = schema.get("additionalProperties")
            inner = self.narrow(more, left - 1) if isinstance(more, Mapping) else more
            return {"type": "object", **({} if more is None else {"additionalProperties": inner})}
        for name in needed:
            fields.setdefault(name, {})
        more = schema.get("additionalProperties")
        if more is None:
            more = not _MORE_FIELDS.isdisjoint(schema)
        return {
            "type": "object",
            "properties": fields,
            "required": list(dict.fromkeys(needed)),
            "additionalProperties": self.narrow(more, left - 1) if isinstance(more, Mapping) else bool(more),
        }

    def _array(self, schema: Mapping[str, JsonValue], left: int) -> dict[str, JsonValue]:
        least, most = _bounds(schema.get("minItems"), schema.get("maxItems"), self._most)
        items = {} if "prefixItems" in schema else self.narrow(schema.get("items"), left - 1)
        return {
            "type": "array",
            "items": items,
            **({"minItems": least} if least else {}),
            "maxItems": most,
        }

    def _moved(self, reference: JsonValue) -> dict[str, JsonValue]:
        """A reference to the same schema, at its place in the union."""
        if not isinstance(reference, str):
            return {}
        if reference not in self._names:
            target = referred(self._root, reference)
            if not isinstance(target, Mapping):
                return {}
            name = f"{self._prefix}{len(self._names)}"
            self._names[reference] = name  # Before it is looked at: it may lead back here.
            self._definitions[name] = self.narrow(target, _DEEPEST)
        return {"$ref": f"#/$defs/{self._names[reference]}"}


def _any_of(options: Iterable[dict[str, JsonValue]]) -> dict[str, JsonValue]:
    found: list[JsonValue] = []
    for each in options:
        if not each:
            return {}  # Anything goes, whatever the others say.
        if each not in found:
            found.append(each)
    return found[0] if len(found) == 1 else {"anyOf": found}


def _bounds(least: JsonValue, most: JsonValue, longest: int) -> tuple[int, int]:
    low = least if type(least) is int and least > 0 else 0
    high = most if type(most) is int and 0 <= most < longest else longest
    return low, max(low, high)


def _range(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for keyword, exclusive, step in (("minimum", "exclusiveMinimum", 1), ("maximum", "exclusiveMaximum", -1)):
        bound, other = schema.get(keyword), schema.get(exclusive)
        if type(bound) is not int and type(other) is int:
            bound = other + step
        if type(bound) is int and abs(bound) < _LARGEST:
            found[keyword] = bound
    return {} if found.get("minimum", -_LARGEST) > found.get("maximum", _LARGEST) else found
