"""JSON Schemas, compiled into functions that say in words what is wrong.

The engine is jsonschema-rs, imported when the first schema is compiled: it costs 25 ms, and a program
that only declares tools should not pay that.

Keep true:
1. The path of a valid value is one call into compiled code; words are only looked for after a failure.
2. One text lists every problem (beyond 20 it says how many more there are). Where looking for all of them
   would take long, it lists those that can be found part by part.
3. Of a checked value at most 80 characters are shown: outputs and parameters can be large, and private.
4. Nothing is ever fetched: a `$ref` that leaves the document is an error of the declaration.
5. No check takes long: it holds up everything else. A short schema that stands for a huge one is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, TypeAlias

from placet.errors import ToolDeclarationError
from placet.ir.json_value import JsonValue, show_json
from placet.tools.schema_size import MOST_PARTS, Parts
from placet.truncation import truncate

Check: TypeAlias = Callable[[JsonValue], "str | None"]
"""Function that checks a JSON value. Returns `None` if it is valid, otherwise one text with every problem."""

Path: TypeAlias = Sequence["str | int"]
Problem: TypeAlias = "tuple[list[str | int], str]"
"""A place, and what is wrong there."""

MOST_SHOWN = 80
MOST_PROBLEMS = 20
MOST_WORK = 3000
"""Parts of a schema, times the places of a value, at which the engine may look to find every problem: it
takes up to 15 us for each, and makes an object of it."""
_HERE = "placet:schema"
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

    parts = Parts(schema)
    try:
        if parts.count() > MOST_PARTS:
            raise ToolDeclarationError(
                f"{owner}: the schema of its {root} comes to more than {MOST_PARTS:,} parts once its "
                "references are followed. Let fewer of them lead to the same definitions."
            )
        is_valid = jsonschema_rs.validator_for(schema, retriever=_refuse_to_fetch).is_valid
    except (ValueError, RecursionError) as error:
        raise ToolDeclarationError(f"{owner}: {_does_not_compile(error, schema, root)}") from None
    if parts.lost:
        # The engine found it, so it is a spelling that we do not know, and could not count.
        raise ToolDeclarationError(
            f"{owner}: the schema of its {root} has a reference that cannot be followed, "
            f"{cut(parts.lost[0], MOST_SHOWN)!r}. Write it as '#/$defs/NAME'."
        )

    def check(value: JsonValue) -> str | None:
        try:
            return None if is_valid(value) else _explain(schema, parts, value, root)
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
    return truncate(text, most, "...")


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


def _explain(schema: dict[str, JsonValue], parts: Parts, value: JsonValue, root: str) -> str:
    import jsonschema_rs

    properties = schema.get("properties")
    known = list(properties) if isinstance(properties, dict) else []
    if _is_quick(parts, schema, value):
        # Compiled again, because only this one may be slow: the mask is how long values stay out of the text.
        validator = jsonschema_rs.validator_for(schema, retriever=_refuse_to_fetch, mask=_MASK)
        found = _all_problems(validator, value)
    else:
        found = _problems_by_part(_Compiled(schema), parts, schema, value)
    # Never empty, which would read as "fine": the engine may refuse a value and then name no error.
    return (
        join_problems([_word(root, *each, known) for each in found]) or f"{root}: it does not fit the schema"
    )


def _all_problems(validator: Any, value: JsonValue) -> list[Problem]:
    # The engine finds them all before it names the first.
    return [reason for error in validator.iter_errors(value) for reason in _reasons(error)]


class _Compiled:
    """The parts of one schema, each compiled when it is asked for."""

    def __init__(self, schema: dict[str, JsonValue]) -> None:
        import jsonschema_rs

        # By a name, so that a part can still refer to any other.
        self._registry = jsonschema_rs.Registry([(_HERE, schema)], retriever=_refuse_to_fetch)
        self._known: dict[str, Any] = {}

    def at(self, place: str) -> Any:
        """The validator for what stands at a JSON pointer."""
        import jsonschema_rs

        if place not in self._known:
            self._known[place] = jsonschema_rs.validator_for(
                {"$ref": _HERE + place}, registry=self._registry, retriever=_refuse_to_fetch, mask=_MASK
            )
        return self._known[place]


def _problems_by_part(
    compiled: _Compiled, parts: Parts, schema: JsonValue, value: JsonValue, place: str = "#", path: Path = ()
) -> list[Problem]:
    """What is wrong with a value that is too much to be looked at whole: each thing in it by itself."""
    validator = compiled.at(place)
    if validator.is_valid(value):
        return []
    if not isinstance(schema, dict) or _is_quick(parts, schema, value):
        return [([*path, *inner], reason) for inner, reason in _all_problems(validator, value)]
    found: list[Problem] = []
    for step, inner, item, keyword in _inner_parts(schema, value):
        found += _problems_by_part(compiled, parts, inner, item, f"{place}/{keyword}", [*path, step])
        if len(found) >= MOST_PROBLEMS:
            return found[:MOST_PROBLEMS]
    return found or [(list(path), f"{_short(value)} does not fit its schema")]


def _inner_parts(
    schema: dict[str, JsonValue], value: JsonValue
) -> Iterator[tuple[str | int, JsonValue, JsonValue, str]]:
    """What is in a value with the schema that is about it, and where that stands in the schema around it."""
    properties, items = schema.get("properties"), schema.get("items")
    if isinstance(value, dict) and isinstance(properties, dict):
        for name in filter(value.__contains__, properties):
            yield (
                name,
                properties[name],
                value[name],
                "properties/" + name.replace("~", "~0").replace("/", "~1"),
            )
    elif isinstance(value, list) and isinstance(items, dict):
        for number, item in enumerate(value):
            yield number, items, item, "items"


def _is_quick(parts: Parts, schema: JsonValue, value: JsonValue) -> bool:
    """Whether the engine may be asked for every problem: it forgets what it has seen while it looks for them,
    so that a schema that leads back to itself in three ways is looked at three times as often each level."""
    places, depth = _extent(value)
    return places < MOST_WORK and places * parts.met_within(schema, depth, most=MOST_WORK) < MOST_WORK


def _extent(value: JsonValue) -> tuple[int, int]:
    """How many places there are in a value, and on how many levels. Counted no further than is of use."""
    places, depth, level = 1, 0, [value]
    while level and places < MOST_WORK:
        inner: list[JsonValue] = []
        for each in level:
            inner += each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
            if len(inner) >= MOST_WORK:
                break
        places += len(inner)
        depth += bool(inner)
        level = inner
    return places, depth


def _word(root: str, path: Path, reason: str, known: list[str]) -> str:
    place = describe_place(root, path)
    if reason == "is required":
        return f"{place} is required"
    if reason == "is unknown":
        near = get_close_matches(str(path[-1]), known, n=1) if len(path) == 1 else []
        return f"{place} is unknown" + (f", did you mean '{near[0]}'?" if near else "")
    return f"{place}: {reason}"


def _reasons(error: Any) -> list[Problem]:
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


def _reasons_of_choice(error: Any, path: list[str | int]) -> list[Problem]:
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
    told = [[reason for inner in branch for reason in _reasons(inner)] for branch in nearest[:MOST_PROBLEMS]]
    if all(each == told[0] for each in told):
        return told[0]
    return [(path, _fill_in(error.message, error.instance))]


def _fill_in(message: str, value: JsonValue) -> str:
    head, found, tail = message.partition(_MASK)
    return cut(head, 300) + (_short(value) if found else "") + cut(tail, 300)


def _short(value: JsonValue) -> str:
    try:
        return cut(show_json(value), MOST_SHOWN)
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__}"
