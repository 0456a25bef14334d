"""JSON Schemas, compiled into functions that say in words what is wrong.

The engine is jsonschema-rs, imported when the first schema is compiled: it costs 25 ms, and a program
that only declares tools should not pay that.

Keep true:
1. The path of a valid value is one call into compiled code; words are only looked for after a failure.
2. One text lists every problem (beyond 20 it says how many more there are).
3. Of a checked value at most 80 characters are shown: outputs and parameters can be large, and private.
4. Nothing is ever fetched: a `$ref` that leaves the document is an error of the declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, TypeAlias

from assent.errors import ToolDeclarationError
from assent.ir.json_value import JsonValue, show_json

Check: TypeAlias = Callable[[JsonValue], "str | None"]
"""None when the value is fine, else one text with every problem."""

Path: TypeAlias = Sequence["str | int"]

MOST_SHOWN = 80
MOST_PROBLEMS = 20
_MASK = "\x00"
"""Stands for the value in the engine's messages, until a short form of it is put in."""


def compile_check(schema: dict[str, JsonValue], *, owner: str, root: str) -> Check | None:
    """A check for `schema`, or None if it accepts anything.

    `root` is what the checked document is called: "parameters" or "output".

    Raises:
        ToolDeclarationError: the schema does not compile; the message says where in it.
    """
    if not schema or (root == "parameters" and schema == {"type": "object"}):
        return None
    import jsonschema_rs

    try:
        is_valid = jsonschema_rs.validator_for(schema, retriever=_refuse_to_fetch).is_valid
    except (ValueError, RecursionError) as error:
        raise ToolDeclarationError(f"{owner}: {_does_not_compile(error, schema, root)}") from None

    def check(value: JsonValue) -> str | None:
        try:
            return None if is_valid(value) else _explain(schema, value, root)
        except ValueError as error:
            # Not JSON at all: the engine meets a set, a key that is no string, a loop.
            return f"{root}: {cut(str(error), 200)}"

    return check


def describe_place(root: str, path: Path) -> str:
    """How a place is called in a message.

    >>> describe_place("parameters", ["a", "items", 0]), describe_place("output", ["x"])
    ("parameter 'a.items[0]'", 'output.x')
    """
    if not path:
        return root
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{cut(step, MOST_SHOWN)}" for step in path)
    return f"parameter '{steps.removeprefix('.')}'" if root == "parameters" else root + steps


def join_problems(problems: Sequence[str]) -> str:
    """Every problem once, in the order found, in one text."""
    distinct = list(dict.fromkeys(problems))
    more = len(distinct) - MOST_PROBLEMS
    return "; ".join(distinct[:MOST_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")


def cut(text: str, most: int) -> str:
    """`text`, with an ellipsis where it is longer than `most` characters."""
    return text if len(text) <= most else text[: most - 3] + "..."


def _refuse_to_fetch(uri: str) -> Any:
    raise LookupError("schemas are never fetched; copy it under $defs and refer to it there")


def _does_not_compile(error: Exception, schema: dict[str, JsonValue], root: str) -> str:
    """Where a schema is wrong, and why."""
    what = "the schema of its " + root
    if not hasattr(error, "instance_path"):
        return f"{what} cannot be read: {cut(str(error), 200)}"
    reasons = "; ".join(reason for _, reason in _reasons(error))
    # A reference that leads nowhere is reported without its place.
    path = list(error.instance_path) or _find_reference(schema, reasons) or []
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return f"{what} does not compile at ${place}: {cut(reasons, 300)}"


def _find_reference(schema: JsonValue, message: str) -> list[str | int] | None:
    """Where in `schema` the `$ref` stands that `message` speaks of."""
    if isinstance(schema, dict):
        target = schema.get("$ref")
        if isinstance(target, str) and f"'{target.removeprefix('#')}'" in message:
            return ["$ref"]
    steps = (
        schema.items() if isinstance(schema, dict) else enumerate(schema) if isinstance(schema, list) else ()
    )
    for step, inner in steps:
        if (found := _find_reference(inner, message)) is not None:
            return [step, *found]
    return None


def _explain(schema: dict[str, JsonValue], value: JsonValue, root: str) -> str:
    import jsonschema_rs

    # Compiled again, because only this one may be slow: the mask is how long values stay out of the text.
    validator = jsonschema_rs.validator_for(schema, retriever=_refuse_to_fetch, mask=_MASK)
    properties = schema.get("properties")
    known = list(properties) if isinstance(properties, dict) else []
    problems: list[str] = []
    for error in validator.iter_errors(value):
        for path, reason in _reasons(error):
            problems.append(_word(root, path, reason, known))
    # Never empty, which would read as "fine": the engine may refuse a value and then name no error.
    return join_problems(problems) or f"{root}: it does not fit the schema"


def _word(root: str, path: Path, reason: str, known: list[str]) -> str:
    place = describe_place(root, path)
    if reason == "is required":
        return f"{place} is required"
    if reason == "is unknown":
        near = get_close_matches(str(path[-1]), known, n=1) if len(path) == 1 else []
        return f"{place} is unknown" + (f", did you mean '{near[0]}'?" if near else "")
    return f"{place}: {reason}"


def _reasons(error: Any) -> list[tuple[list[str | int], str]]:
    """One engine error as places and reasons; `is required` and `is unknown` are about the place itself."""
    path: list[str | int] = list(error.instance_path)
    kind = error.kind
    match kind.name:
        case "required":
            return [([*path, kind.property], "is required")]
        case "additionalProperties" | "unevaluatedProperties":
            return [([*path, name], "is unknown") for name in kind.unexpected]
        case "falseSchema" if error.schema_path[-1:] == ["additionalProperties"]:
            # Where no field at all is allowed, the engine tells the field's value but not its name.
            return [(path, "has a field, and takes none")]
        case "falseSchema":
            return [(path, f"{_short(error.instance)} is not allowed here")]
        case "anyOf" | "oneOf" if all(kind.context):
            return _reasons_of_choice(error, path)
        case "enum":
            # The engine names two of them, and a model needs them all.
            options = " or ".join(_short(option) for option in kind.options)
            return [(path, f"{_short(error.instance)} is not one of {cut(options, 300)}")]
        case "propertyNames":
            name = kind.error
            return [(path, f"a field's name does not fit: {_fill_in(name.message, name.instance)}")]
        case _:
            return [(path, _fill_in(error.message, error.instance))]


def _reasons_of_choice(error: Any, path: list[str | int]) -> list[tuple[list[str | int], str]]:
    """Why no alternative fits: what is wrong with the nearest one, or that none is of this type."""
    types: list[str] = []
    right_type: list[Any] = []
    for branch in error.kind.context:
        mismatches = [e for e in branch if e.kind.name == "type" and list(e.instance_path) == path]
        for mismatch in mismatches:
            types += mismatch.kind.types
        if not mismatches:
            right_type.append(branch)
    if not right_type:
        named = " or ".join(f'"{name}"' for name in dict.fromkeys(types))
        return [(path, f"{_short(error.instance)} is not of type {named}")]
    fewest = min(map(len, right_type))
    nearest = [branch for branch in right_type if len(branch) == fewest]
    if len(nearest) == 1:
        return [reason for inner in nearest[0] for reason in _reasons(inner)]
    return [(path, _fill_in(error.message, error.instance))]


def _fill_in(message: str, value: JsonValue) -> str:
    head, found, tail = message.partition(_MASK)
    return cut(head, 300) + (_short(value) if found else "") + cut(tail, 300)


def _short(value: JsonValue) -> str:
    try:
        return cut(show_json(value), MOST_SHOWN)
    except (TypeError, ValueError):
        return f"a {type(value).__name__}"
