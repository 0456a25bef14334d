"""What a tool's schema says of parameters of which some are not known yet.

Keep true:
1. A problem is one whatever the missing values turn out to be. So only words of a schema that refuse alone
   are looked at: which names there are, and each known parameter by itself. All else is left open.
2. Each part of a schema is compiled once, however many actions and plans ask.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from placet.errors import ToolDeclarationError
from placet.ir.json_value import JsonValue, canonical_bytes
from placet.tools.json_schema import Check, compile_check, describe_place, join_problems

_FRAME = ("$schema", "$id", "id", "$defs", "definitions")
"""What the parts of a schema may need around them."""
_LOCAL = ("#/$defs/", "#/definitions/")
"""References that still lead to the same place once the rest of the schema is gone."""
_KINDS = {
    "string": "a reference inside a longer text makes a text, which",
    "array": "a list",
    "object": "an object",
}
_MOST_KEPT = 256


class PartialSchema:
    """The schema of a tool's parameters, in parts."""

    __slots__ = ("_by_name", "_frame", "_names", "_properties", "_types")

    def __init__(self, schema: Mapping[str, JsonValue]) -> None:
        self._by_name: dict[str, Check | None] = {}
        self._types: dict[str, frozenset[str] | None] = {}
        self._properties: dict[str, JsonValue] = {}
        self._frame: dict[str, JsonValue] = {}
        self._names: Check | None = None
        # In the older drafts whatever stands beside a `$ref` means nothing.
        if "$ref" in schema:
            return
        properties = schema.get("properties")
        given = properties if isinstance(properties, dict) else {}
        self._names = _compile(_about_names(schema, given))
        if all(reference.startswith(_LOCAL) for reference in _references(schema)):
            self._properties = given
            self._frame = {word: schema[word] for word in _FRAME if word in schema}

    def problems(self, known: Mapping[str, JsonValue], kinds: Mapping[str, str | None]) -> list[str]:
        """What is wrong in any case. `kinds` names the missing parameters, each with the JSON type that its
        value surely has, or None."""
        found: list[str] = []
        if self._names is not None:
            given: dict[str, None] = dict.fromkeys(known)
            given.update(dict.fromkeys(kinds))
            if wrong := self._names(given):
                found.append(wrong)
        for name, value in known.items():
            check = self._check_of(name)
            if check is not None and (wrong := check({name: value})):
                found.append(wrong)
        for name, kind in kinds.items():
            if kind is None:
                continue
            types = self._types_of(name)
            if types is not None and kind not in types:
                wanted = " or ".join(f'"{each}"' for each in sorted(types))
                place = describe_place("parameters", [name])
                found.append(f"{place}: {_KINDS[kind]} is not of type {wanted}")
        return [join_problems(found)] if found else []

    def _check_of(self, name: str) -> Check | None:
        if name not in self._properties:
            return None
        if name not in self._by_name:
            self._by_name[name] = _compile({**self._frame, "properties": {name: self._properties[name]}})
        return self._by_name[name]

    def _types_of(self, name: str) -> frozenset[str] | None:
        if name not in self._properties:
            return None
        if name not in self._types:
            self._types[name] = _types(self._properties[name])
        return self._types[name]


def _about_names(
    schema: Mapping[str, JsonValue], properties: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """The part of a schema that is decided by the names of the parameters alone."""
    part: dict[str, JsonValue] = {word: schema[word] for word in ("$schema", "required") if word in schema}
    if schema.get("additionalProperties") is False:
        part["additionalProperties"] = False
        patterns = schema.get("patternProperties")
        if isinstance(patterns, dict):
            part["patternProperties"] = {pattern: {} for pattern in patterns}
    part["properties"] = {name: {} for name in properties}
    return part


def _compile(schema: dict[str, JsonValue]) -> Check | None:
    try:
        return compile_check(schema, owner="", root="parameters")
    except ToolDeclarationError:
        return None


def _references(schema: JsonValue) -> Iterator[str]:
    """Whatever looks like a reference; one that depends on who asks comes as an empty text."""
    if isinstance(schema, dict):
        for word, value in schema.items():
            if word == "$ref" and isinstance(value, str):
                yield value
            elif word in ("$dynamicRef", "$recursiveRef"):
                yield ""
            yield from _references(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _references(item)


def _types(schema: JsonValue) -> frozenset[str] | None:
    """The JSON types that a schema allows at most; None for any."""
    if not isinstance(schema, dict) or "$ref" in schema:
        return None
    own = schema.get("type")
    if isinstance(own, str):
        return frozenset([own])
    if isinstance(own, list):
        return frozenset(map(str, own))
    for word in ("anyOf", "oneOf"):
        branches = schema.get(word)
        if isinstance(branches, list) and branches:
            allowed = [_types(branch) for branch in branches]
            if None not in allowed:
                return frozenset().union(*(types for types in allowed if types is not None))
    return None


_kept: dict[bytes, PartialSchema] = {}


def partial_schema(schema: Mapping[str, JsonValue]) -> PartialSchema:
    """The parts of a schema, made when first asked for."""
    key = canonical_bytes(schema)
    found = _kept.get(key)
    if found is None:
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        found = _kept[key] = PartialSchema(schema)
    return found
