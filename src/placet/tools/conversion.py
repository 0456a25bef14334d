"""From a Python type to its JSON Schema, and from JSON back to a value of that type.

msgspec knows most types. Added here: `Path`, `object`, unions that msgspec holds to be ambiguous (tried from
left to right), limits written with annotated_types, and pydantic, which is only touched when the type itself
mentions something of pydantic's, or constrains what stands inside a class with annotated_types.

Keep true:
1. A type whose JSON form is already what the function expects has no conversion at all (`convert is None`).
2. What the schema calls an integer arrives as an int: 2.0 is one in JSON, and `range(2.0)` fails in Python.
3. A conversion raises `Unfit` and nothing else for a value it cannot take.
4. References in the schemas resolve against the `definitions` returned beside them, put under `$defs`.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable, Collection, Mapping, MutableMapping, MutableSequence, Sequence
from pathlib import PurePath
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NewType,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec

from placet.errors import ToolDeclarationError
from placet.ir.json_value import JsonValue
from placet.tools.constraints import (
    in_msgspec_words,
    is_beyond_msgspec,
    is_constraint,
    named_type,
    refuse_misplaced,
)
from placet.tools.json_schema import cut

Need = Literal["nothing", "whole", "full"]
"""What a JSON value still needs: nothing, an integral float made an int, or a conversion to the type."""

_AS_THEY_ARE = (str, float, bool, None, NoneType, Any, object, list, dict)
_LISTS = frozenset({list, Sequence, MutableSequence, Collection})
_DICTS = frozenset({dict, Mapping, MutableMapping})
_WHERE = re.compile(r" - at `(?:key(?: in)? ?)?(?:`? in `)?\$?(.*?)`$")

USABLE = (
    "Use str, int, float, bool, list, dict, tuple, Literal, Enum, TypedDict, a dataclass, a msgspec Struct "
    "or a pydantic model, or register the function with a ToolSchema of your own."
)


class Unfit(Exception):
    """A value that cannot become what the type asks for."""

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        self.problems = problems
        """Pairs of a place below the value (`.items[0]`, or empty) and what is wrong there."""
        super().__init__("; ".join(problem for _, problem in problems))


class Shape(msgspec.Struct, frozen=True):
    """One type, as JSON sees it."""

    schema: dict[str, JsonValue]
    need: Need
    convert: Callable[[JsonValue], Any] | None
    """None exactly when `need` is "nothing"."""


def read_types(types: Mapping[str, Any], *, owner: str) -> tuple[dict[str, Shape], dict[str, JsonValue]]:
    """A shape for each named type, and the definitions that their schemas refer to.

    Raises:
        ToolDeclarationError: a type without a JSON Schema; the message names it and what to use instead.
    """
    parts = {name: _members(annotation, f"{owner}, {name}") for name, annotation in types.items()}
    mine = [part for members in parts.values() for part in members if not mentions_pydantic(part)]
    # All at once, so that two classes of one name get different definitions.
    described, definitions = msgspec.json.schema_components(mine, schema_hook=_schema_of_custom)
    schemas = iter(described)
    shapes: dict[str, Shape] = {}
    for name, members in parts.items():
        found = [
            _pydantic_schema(part, name, definitions) if mentions_pydantic(part) else next(schemas)
            for part in members
        ]
        schema = found[0] if len(found) == 1 else {"anyOf": found}
        need = _need(types[name])
        shapes[name] = Shape(schema, need, _conversion(members, need))
    return shapes, definitions


def mentions_pydantic(annotation: Any, seen: frozenset[Any] = frozenset()) -> bool:
    """Whether pydantic has to read this type: a model or a Field is in it, or a limit that only it can check.

    `seen` holds the classes around it. msgspec reads the fields of a class by itself, so a limit of
    annotated_types in there cannot be put into its words.
    """
    if "pydantic" not in sys.modules and "annotated_types" not in sys.modules:
        return False
    if (meant := named_type(annotation)) is not None:
        return mentions_pydantic(meant, seen)
    origin = get_origin(annotation)
    kind = annotation if origin is None or origin is Annotated else origin
    if isinstance(kind, type) and kind not in seen:
        # Read only by pydantic: its models and dataclasses, and types such as SecretStr and HttpUrl.
        if "pydantic" in sys.modules and hasattr(kind, "__get_pydantic_core_schema__"):
            return True
        if hasattr(kind, "__pydantic_validator__"):
            return True
        if _has_fields(kind):
            if any(mentions_pydantic(field, seen | {kind}) for field in _fields(kind).values()):
                return True
    for item in getattr(annotation, "__metadata__", ()):
        if type(item).__module__.partition(".")[0] == "pydantic" or is_beyond_msgspec(item):
            return True
        if seen and is_constraint(item):
            return True
    return any(mentions_pydantic(part, seen) for part in get_args(annotation))


def _has_fields(kind: type) -> bool:
    is_named_tuple = issubclass(kind, tuple) and hasattr(kind, "_fields")
    return (
        is_named_tuple
        or dataclasses.is_dataclass(kind)
        or is_typeddict(kind)
        or issubclass(kind, msgspec.Struct)
    )


def _fields(cls: type) -> dict[str, Any]:
    try:
        return get_type_hints(cls, include_extras=True)
    except Exception:
        # Names that do not resolve are reported by whoever needs the schema; here they only hide a mention.
        return {}


def _members(annotation: Any, owner: str) -> list[Any]:
    """The annotation as it will be read, or the members of a union that can only be read one by one."""
    try:
        refuse_misplaced(annotation)
        readable = _readable(annotation)
    except ValueError as error:
        raise ToolDeclarationError(f"{owner}: {cut(_show(annotation), 80)}: {error}.") from None
    problem = _why_not(readable)
    if problem is None:
        return [readable]
    inner, *notes = get_args(readable) if get_origin(readable) is Annotated else (readable,)
    # Limits are on the members by now, unless pydantic would have had to read them.
    if get_origin(inner) in (Union, UnionType) and not any(map(is_constraint, notes)):
        members = [_readable(member) for member in get_args(inner)]
        if all(_why_not(member) is None for member in members):
            return members
    raise ToolDeclarationError(
        f"{owner}: {cut(_show(annotation), 80)} has no JSON Schema ({problem}). {USABLE}"
    )


def _readable(annotation: Any) -> Any:
    return annotation if mentions_pydantic(annotation) else in_msgspec_words(annotation)


def _why_not(annotation: Any) -> str | None:
    try:
        if mentions_pydantic(annotation):
            if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
                return "pydantic cannot read a Struct; write the limits in it with msgspec.Meta"
            _adapter(annotation).json_schema()
        else:
            msgspec.json.schema_components([annotation], schema_hook=_schema_of_custom)
    except Exception as error:
        # Foreign code reads foreign types here, and fails in its own ways; every one means the same to us.
        return cut(str(error).partition("\n")[0].rstrip("."), 200) or type(error).__name__
    return None


def _show(annotation: Any) -> str:
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__name__
    return str(annotation)


def _schema_of_custom(kind: Any) -> dict[str, JsonValue]:
    if kind is object:
        return {"description": "anything"}  # An empty schema would count as none.
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return {"type": "string", "format": "path"}
    raise TypeError(f"{_show(kind)} has no JSON form")


def _value_of_custom(kind: type, value: Any) -> Any:
    if kind is object:
        return value
    if not isinstance(value, str):
        raise TypeError(f"Expected `str`, got `{type(value).__name__}`")
    return kind(value)


def _adapter(annotation: Any) -> Any:
    try:
        import pydantic
    except ImportError:
        raise TypeError(
            "it takes pydantic to read its limits; install that, or write them with msgspec.Meta"
        ) from None
    return pydantic.TypeAdapter(annotation)


def _pydantic_schema(annotation: Any, name: str, definitions: dict[str, JsonValue]) -> dict[str, JsonValue]:
    adapter = _adapter(annotation)
    schema: dict[str, JsonValue] = adapter.json_schema()
    own = schema.pop("$defs", {})
    if any(definitions.get(key, own[key]) != own[key] for key in own):
        # Another class of the same name stands there already: all of these move under the parameter's name.
        schema = adapter.json_schema(ref_template=f"#/$defs/{name}-{{model}}")
        own = {f"{name}-{key}": value for key, value in schema.pop("$defs", {}).items()}
    definitions.update(own)
    return schema


def _need(annotation: Any) -> Need:
    """What JSON of this type still needs before a function can take it."""
    if mentions_pydantic(annotation):
        return "full"
    origin, args = get_origin(annotation), get_args(annotation)
    if annotation in _AS_THEY_ARE or isinstance(annotation, TypeVar):
        return "nothing"
    if annotation is int:
        return "whole"
    if isinstance(annotation, NewType):
        return _need(annotation.__supertype__)
    if origin is Annotated:
        return _need(args[0])
    if origin is Literal:
        return "whole" if any(type(value) is int for value in args) else "nothing"
    if origin in (Union, UnionType):
        needs = {_need(member) for member in args}
        if "full" in needs:
            return "full"
        # Beside a float, 2.0 is taken as what it is.
        return "whole" if "whole" in needs and float not in args else "nothing"
    if origin in _LISTS or (origin in _DICTS and args[0] in (str, Any)):
        return "nothing" if _need(args[-1]) == "nothing" else "full"
    return "full"


def _conversion(members: Sequence[Any], need: Need) -> Callable[[JsonValue], Any] | None:
    if need == "nothing":
        return None
    if need == "whole":
        return _whole
    attempts = [
        _pydantic_conversion(kind) if mentions_pydantic(kind) else _msgspec_conversion(kind)
        for kind in members
    ]
    if len(attempts) == 1:
        return attempts[0]

    def convert(value: JsonValue) -> Any:
        problems: list[tuple[str, str]] = []
        for attempt in attempts:
            try:
                return attempt(value)
            except Unfit as error:
                problems += error.problems
        raise Unfit(problems)

    return convert


def _msgspec_conversion(kind: Any) -> Callable[[JsonValue], Any]:
    def attempt(value: JsonValue) -> Any:
        return msgspec.convert(value, kind, str_keys=True, dec_hook=_value_of_custom)

    def convert(value: JsonValue) -> Any:
        try:
            return attempt(value)
        except msgspec.ValidationError:
            # msgspec takes 2.0 for no integer, JSON Schema does. Rare, so tried second.
            try:
                return attempt(_whole_within(value))
            except msgspec.ValidationError as error:
                raise _from_msgspec(str(error)) from None
            except (Exception, SystemExit) as error:
                raise _from_user_code(error) from None
        except (Exception, SystemExit) as error:
            raise _from_user_code(error) from None

    return convert


def _from_msgspec(message: str) -> Unfit:
    where = _WHERE.search(message)
    if where is None:
        return Unfit([("", cut(message, 300))])
    return Unfit([(cut(where[1], 200), cut(message[: where.start()], 300))])


def _from_user_code(error: BaseException) -> Unfit:
    """What a `__post_init__` or a validator of the user's raised. To exit is to refuse, and ends nothing."""
    return Unfit([("", cut(f"{type(error).__name__}: {error}", 300))])


def _pydantic_conversion(kind: Any) -> Callable[[JsonValue], Any]:
    adapter = _adapter(kind)

    def convert(value: JsonValue) -> Any:
        try:
            # As JSON, because that is what it is: a strict model takes a date from text only there.
            return adapter.validate_json(msgspec.json.encode(value))
        except (Exception, SystemExit) as error:
            listed = getattr(error, "errors", None)
            if not callable(listed):
                raise _from_user_code(error) from None
            raise Unfit([(_steps(each["loc"]), cut(each["msg"], 300)) for each in listed()]) from None

    return convert


def _steps(location: Sequence[str | int]) -> str:
    return cut("".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location), 200)


def _whole(value: JsonValue) -> JsonValue:
    return int(value) if type(value) is float and value.is_integer() else value


def _whole_within(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _whole_within(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole_within(item) for item in value]
    return _whole(value)
