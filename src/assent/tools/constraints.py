"""Constraints written with annotated_types, put into msgspec's own words.

`Annotated[int, Ge(1)]` is how several libraries let people write a limit; pydantic's `PositiveInt` is one.
msgspec passes over what it does not know, so such a limit would be in no schema and checked by nobody.
annotated_types is never imported here: whoever uses it has done so.

Keep true:
1. A constraint is translated, or left to pydantic, or refused. It is never dropped.
2. A type without anything to translate comes back as the same object.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from types import GenericAlias, NoneType, UnionType
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin

import msgspec

_NAMES = {
    "Gt": "gt",
    "Ge": "ge",
    "Lt": "lt",
    "Le": "le",
    "MultipleOf": "multiple_of",
    "MinLen": "min_length",
    "MaxLen": "max_length",
}
_ONLY_SAID = frozenset({"Unit", "DocInfo"})
"""They tell people something, and forbid nothing."""

_FORMATS: dict[Any, str] = {datetime.datetime: "date-time", datetime.time: "time"}
"""msgspec names no format where the time zone may be missing; a model writes it right only when told."""


def in_msgspec_words(annotation: Any) -> Any:
    """The same type as msgspec reads it: limits as `Meta`, `Iterable` as a list, times with their format.

    What stands inside a class (a field of a dataclass) is out of reach: msgspec reads that by itself.
    """
    if isinstance(annotation, type) and annotation in _FORMATS:
        return Annotated[annotation, msgspec.Meta(extra_json_schema={"format": _FORMATS[annotation]})]
    if annotation is Iterable:
        return list
    if (meant := named_type(annotation)) is not None:
        inside = in_msgspec_words(meant)
        return annotation if inside is meant else inside
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is None or origin is Literal:
        return annotation
    if origin is Annotated:
        return _limited(args[0], args[1:], annotation)
    inner = tuple(in_msgspec_words(each) for each in args)
    if origin is Iterable:
        return list[inner[0]]  # type: ignore[valid-type]
    if all(new is old for new, old in zip(inner, args, strict=True)):
        return annotation
    if origin in (Union, UnionType):
        return Union[inner]  # noqa: UP007
    if isinstance(annotation, GenericAlias):
        return GenericAlias(origin, inner)
    return annotation.copy_with(inner)


def named_type(annotation: Any) -> Any:
    """What a `NewType` or a `type` statement gives a name to; None for anything else."""
    if isinstance(annotation, NewType):
        return annotation.__supertype__
    return annotation.__value__ if type(annotation).__name__ == "TypeAliasType" else None


def is_beyond_msgspec(item: Any) -> bool:
    """Whether `item` is a constraint of annotated_types that msgspec has no word for: a predicate, say."""
    return any(_is_constraint(each) and _as_meta(each) is None for each in _pieces(item))


def is_constraint(item: Any) -> bool:
    """Whether `item`, taken from an `Annotated`, is a constraint of annotated_types."""
    return any(_is_constraint(each) for each in _pieces(item))


def _limited(base: Any, metadata: tuple[Any, ...], before: Any) -> Any:
    kept: list[Any] = []
    limits: list[msgspec.Meta] = []
    for item in metadata:
        metas = [_as_meta(each) for each in _pieces(item)]
        limits += [meta for meta in metas if meta is not None]
        if not is_constraint(item):
            kept.append(item)
    inner = in_msgspec_words(base)
    if inner is base and not limits:
        return before
    for limit in limits:
        inner = _with_limit(inner, limit)
    for item in kept:
        inner = Annotated[inner, item]
    return inner


def _with_limit(base: Any, limit: msgspec.Meta) -> Any:
    members = get_args(base)
    if get_origin(base) in (Union, UnionType) and len(members) == 2 and NoneType in members:
        # A limit on `int | None` is meant for the int; msgspec would refuse it on both.
        return Annotated[next(each for each in members if each is not NoneType), limit] | None
    return Annotated[base, limit]


def _pieces(item: Any) -> list[Any]:
    """`Interval(ge=1, le=5)` stands for two constraints, and is one object."""
    if hasattr(type(item), "__is_annotated_types_grouped_metadata__"):
        return [piece for each in item for piece in _pieces(each)]
    return [item]


def _is_constraint(item: Any) -> bool:
    kind = type(item)
    return kind.__module__.partition(".")[0] == "annotated_types" and kind.__name__ not in _ONLY_SAID


def _as_meta(item: Any) -> msgspec.Meta | None:
    name = _NAMES.get(type(item).__name__)
    if name is None or not _is_constraint(item):
        return None
    try:
        return msgspec.Meta(**{name: getattr(item, name)})
    except (TypeError, ValueError):
        # Such as a date that must come after another one.
        return None
