"""Tools in few words, for models that get them as text.

Keep true:
1. The same tools give the same text, in whatever order they were given: a server keeps the beginning of a
   conversation, and reads only from the first difference on.
2. A tool's own words stay on one line each and are cut, so that none can pass for another tool.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from placet.inference.tool_modes.grammar import referred
from placet.ir.json_value import JsonValue, show_json
from placet.ir.tool_spec import ToolSchema
from placet.tools.json_schema import cut

_LONGEST = 600
"""Of what one tool, or one of its parameters, says about itself."""
_LONGEST_SHAPE = 300
_MOST_OPTIONS = 12
_DEEPEST = 4


def in_order(tools: Sequence[ToolSchema]) -> list[ToolSchema]:
    """The tools by name, each name once."""
    by_name = {tool.name: tool for tool in tools}
    return [by_name[name] for name in sorted(by_name)]


def described(tools: Sequence[ToolSchema]) -> str:
    """One line for each tool, and one for each parameter that says something of itself.

    >>> fields = {"a": {"type": "integer"}, "b": {"type": "integer", "description": "1 if absent"}}
    >>> schema = {"type": "object", "properties": fields, "required": ["a"]}
    >>> print(described([ToolSchema(name="add", description="Add.", parameters=schema)]))
    - add(a: integer, b?: integer): Add.
        b: 1 if absent
    """
    return "\n".join(line for tool in in_order(tools) for line in _lines(tool))


def shape(schema: JsonValue) -> str:
    """What a schema asks for, in a notation that models know: `{a: integer, b?: [string]}`."""
    return cut(_shape(schema, schema, _DEEPEST), _LONGEST_SHAPE)


def _lines(tool: ToolSchema) -> Iterator[str]:
    root = tool.parameters
    target = referred(root, root["$ref"]) if "$ref" in root else root
    fields = _fields(target)
    signature = ", ".join(
        f"{name}: {cut(_shape(each, root, _DEEPEST), _LONGEST_SHAPE)}" for name, each in fields.items()
    )
    words = _one_line(tool.description)
    yield f"- {_one_line(tool.name)}({signature})" + (f": {words}" if words else "")
    for name, each in fields.items():
        if isinstance(each, Mapping) and isinstance(said := each.get("description"), str) and said.strip():
            yield f"    {name.removesuffix('?')}: {_one_line(said)}"


def _fields(schema: JsonValue) -> dict[str, JsonValue]:
    """Properties by name, `?` behind those that may be left out."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return {}
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    return {_one_line(name) + ("" if name in needed else "?"): each for name, each in properties.items()}


def _shape(schema: JsonValue, root: JsonValue, left: int) -> str:
    if isinstance(schema, Mapping) and "$ref" in schema:
        schema = referred(root, schema["$ref"])
    if not isinstance(schema, Mapping):
        return "any"
    if "const" in schema:
        return show_json(schema["const"])
    if isinstance(options := schema.get("enum"), list) and options:
        shown = [show_json(each) for each in options[:_MOST_OPTIONS]]
        return " | ".join(shown + (["..."] if len(options) > _MOST_OPTIONS else []))
    for keyword in ("anyOf", "oneOf", "allOf"):
        if isinstance(options := schema.get(keyword), list) and options and "properties" not in schema:
            if left <= 0:
                return "any"
            return _joined([_shape(each, root, left - 1) for each in options[:_MOST_OPTIONS]])
    kind = schema.get("type")
    if isinstance(kind, list):
        return _joined(
            [_shape({**schema, "type": each}, root, left) for each in kind if isinstance(each, str)]
        )
    if "properties" in schema and left > 0:
        inner = (f"{name}: {_shape(each, root, left - 1)}" for name, each in _fields(schema).items())
        return "{" + ", ".join(inner) + "}"
    if "items" in schema and left > 0:
        return f"[{_shape(schema['items'], root, left - 1)}]"
    return kind if isinstance(kind, str) else "any"


def _joined(shapes: list[str]) -> str:
    return " | ".join(dict.fromkeys(shapes)) or "any"


def _one_line(text: str) -> str:
    return cut(" ".join(text.split()), _LONGEST)
