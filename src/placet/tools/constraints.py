"""Limits on types, put into words that msgspec reads, and where it reads them.

`Annotated[int, Ge(1)]` is how several libraries let people write a limit; pydantic's `PositiveInt` is one.
msgspec passes over what it does not know, so such a limit would be in no schema and checked by nobody. The
same goes for a limit on a union, even in msgspec's own words: it is put on the members that it fits.
annotated_types is never imported here: whoever uses it has done so.

Keep true:
1. A limit is translated, or left to pydantic, or refused. It is never dropped.
2. A type without anything to translate comes back as the same object.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from types import GenericAlias, UnionType
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
_NUMBERS = "int and float"
_SIZED = "str, bytes, list, set, tuple and dict"
_FIT = {
    "gt": _NUMBERS,
    "ge": _NUMBERS,
    "lt": _NUMBERS,
    "le": _NUMBERS,
    "multiple_of": _NUMBERS,
    "pattern": "str",
    "min_length": _SIZED,
    "max_length": _SIZED,
    "tz": "datetime and time",
}
"""Limits in msgspec's words, with the types that take them."""
_META = (*_FIT, "title", "description", "examples", "extra_json_schema", "extra")
_ONLY_SAID = frozenset({"Unit", "DocInfo"})
"""They tell people something, and forbid nothing."""

_FORMATS: dict[Any, str] = {datetime.datetime: "date-time", datetime.time: "time"}
"""msgspec names no format where the time zone may be missing; a model writes it right only when told."""


def in_msgspec_words(annotation: Any) -> Any:
    """The same type as msgspec reads it: limits as `Meta`, `Iterable` as a list, times with their format.

    What stands inside a class (a field of a dataclass) is out of reach: msgspec reads that by itself.

    Raises:
        ValueError: a limit fits nothing, or two cannot be made one; with words for it.
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
    return any(_is_constraint(each) and _as_limit(each) is None for each in _pieces(item))


def is_constraint(item: Any) -> bool:
    """Whether `item`, taken from an `Annotated`, is a constraint of annotated_types."""
    return any(_is_constraint(each) for each in _pieces(item))


def refuse_misplaced(annotation: Any) -> None:
    """Refuse a limit that stands where neither msgspec nor pydantic looks.

    Raises:
        ValueError: with words for it.
    """
    if get_origin(annotation) is Annotated:
        inner, *notes = get_args(annotation)
        for note in notes:
            if get_origin(note) is Annotated:
                raise ValueError(
                    f"{note} is a type with a limit of its own, not a note on a type. Write it as the type: "
                    "LowerCase[str], not Annotated[str, LowerCase]"
                )
        refuse_misplaced(inner)
        return
    for part in get_args(annotation):
        refuse_misplaced(part)


def _limited(base: Any, metadata: tuple[Any, ...], before: Any) -> Any:
    inner = in_msgspec_words(base)
    notes = list(metadata)
    if get_origin(inner) is Annotated:
        inner, *earlier = get_args(inner)
        notes = [*earlier, *metadata]
    limits, kept = _sorted_notes(notes)
    is_clear = not any(map(is_constraint, notes)) and len(limits) < 2 and not _is_union(inner)
    if inner is base and (is_clear or not limits):
        return before
    made = _with_limits(inner, limits)
    for item in kept:
        made = Annotated[made, item]
    return made


def _sorted_notes(notes: Iterable[Any]) -> tuple[list[dict[str, Any]], list[Any]]:
    """What limits a value, each as msgspec would have it, and whatever else is said."""
    limits: list[dict[str, Any]] = []
    kept: list[Any] = []
    for note in notes:
        if isinstance(note, msgspec.Meta):
            told = {name: value for name in _META if (value := getattr(note, name)) is not None}
            if limit := {name: told.pop(name) for name in _FIT if name in told}:
                limits.append(limit)
            if told:
                kept.append(msgspec.Meta(**told))
        elif is_constraint(note):
            limits += filter(None, map(_as_limit, _pieces(note)))
        else:
            kept.append(note)
    return limits, kept


def _with_limits(base: Any, limits: list[dict[str, Any]]) -> Any:
    if not limits:
        return base
    if not _is_union(base):
        for limit in limits:
            for name, value in limit.items():
                if not _fits(base, name, value):
                    raise _misfit(name, value)
        return Annotated[base, msgspec.Meta(**_merged(limits))]
    members = list(get_args(base))
    for limit in limits:
        for name, value in limit.items():
            fitting = [at for at, member in enumerate(members) if _fits(_bare(member), name, value)]
            if not fitting:
                raise _misfit(name, value)
            for at in fitting:
                note = msgspec.Meta(**{name: value})
                members[at] = _limited(members[at], (note,), Annotated[members[at], note])
    return Union[tuple(members)]  # noqa: UP007


def _merged(limits: list[dict[str, Any]]) -> dict[str, Any]:
    """One limit that says what all of them say."""
    merged: dict[str, Any] = {}
    for limit in limits:
        for name, value in limit.items():
            if name not in merged or merged[name] == value:
                merged[name] = value
            elif name in ("ge", "gt", "min_length"):
                merged[name] = max(merged[name], value)
            elif name in ("le", "lt", "max_length"):
                merged[name] = min(merged[name], value)
            else:
                raise ValueError(f"it has two limits for {name}. Keep one, and check the other yourself")
    if "ge" in merged and "gt" in merged:
        merged.pop("ge" if merged["gt"] >= merged["ge"] else "gt")
    if "le" in merged and "lt" in merged:
        merged.pop("le" if merged["lt"] <= merged["le"] else "lt")
    return merged


def _fits(base: Any, name: str, value: Any) -> bool:
    """Whether msgspec takes this limit on this type."""
    limited = Annotated[base, msgspec.Meta(**{name: value})]
    try:
        msgspec.json.schema_components([limited], schema_hook=lambda _: {"description": "custom"})
    except (TypeError, ValueError):
        return False
    return True


def _misfit(name: str, value: Any) -> ValueError:
    return ValueError(
        f"the limit {name}={value!r} does not fit, because it is for {_FIT[name]}. Take one of these, or "
        "check it in the function"
    )


def _bare(member: Any) -> Any:
    return get_args(member)[0] if get_origin(member) is Annotated else member


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, UnionType)


def _pieces(item: Any) -> list[Any]:
    """`Interval(ge=1, le=5)` stands for two constraints, and is one object."""
    if hasattr(type(item), "__is_annotated_types_grouped_metadata__"):
        return [piece for each in item for piece in _pieces(each)]
    return [item]


def _is_constraint(item: Any) -> bool:
    kind = type(item)
    return kind.__module__.partition(".")[0] == "annotated_types" and kind.__name__ not in _ONLY_SAID


def _as_limit(item: Any) -> dict[str, Any] | None:
    name = _NAMES.get(type(item).__name__)
    if name is None or not _is_constraint(item):
        return None
    limit = {name: getattr(item, name)}
    try:
        msgspec.Meta(**limit)
    except (TypeError, ValueError):
        # Such as a date that must come after another one.
        return None
    return limit
