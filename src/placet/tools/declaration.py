"""What must hold between a tool's options, its schema and its function.

Keep true:
1. Every refusal names the tool, what contradicts what, and what to change.
2. A schema that was accepted cannot be changed from outside afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from math import isfinite
from typing import Any, TypeAlias, get_args

import msgspec

from placet.errors import NotJson, RuleError, ToolDeclarationError
from placet.ir.fields import parse_field
from placet.ir.json_value import copy_json
from placet.ir.tool_spec import Mark, RateLimit, Reversibility, Risk, ToolSchema
from placet.tools.signature import Bind, find_context_parameter
from placet.truncation import truncate_repr

Rate: TypeAlias = RateLimit | tuple[int, float]
"""A rate limit, as `RateLimit` or as `(max_calls, interval_secs)`."""


def check_declaration(
    schema: ToolSchema, *, is_async: bool, cheap: bool, timeout_ms: int | None, max_retries: int | None
) -> None:
    """Refuse a tool that contradicts itself.

    Raises:
        ToolDeclarationError: it does.
    """
    # A Struct built in Python is not checked against its own annotations: anything may be in it.
    name: Any = schema.name
    schemas: list[Any] = [schema.parameters, schema.returns or {}]
    if not isinstance(name, str) or not name.strip():
        raise ToolDeclarationError(f"A tool needs a name, and got {name!r}.")

    def refuse(problem: str) -> None:
        raise ToolDeclarationError(f"Tool '{schema.name}': {problem}")

    if not all(isinstance(each, dict) for each in schemas):
        refuse("parameters and returns are JSON Schemas, written as dicts.")
    if schema.risk not in get_args(Risk):
        refuse(f"risk is {schema.risk!r}. It is one of {', '.join(get_args(Risk))}.")
    if schema.reversibility not in (None, *get_args(Reversibility)):
        known = ", ".join(get_args(Reversibility))
        refuse(f"reversibility is {schema.reversibility!r}. It is one of {known}.")
    if unknown := [mark for mark in schema.marks if mark not in get_args(Mark)]:
        refuse(f"{unknown[0]!r} is no mark. Outputs are marked with {' or '.join(get_args(Mark))}.")
    _check_field_marks(schema, refuse)
    if schema.cache_ttl_secs is not None:
        if not _is_positive(schema.cache_ttl_secs):
            refuse(f"cache_ttl_secs is {schema.cache_ttl_secs!r}. It is a number of seconds above zero.")
        if schema.risk == "destructive":
            refuse(
                "its results are cached, and it is destructive (as is every tool that declares no risk): "
                "a cached answer would stand for an effect that did not happen. "
                "Declare another risk, or drop cache_ttl_secs."
            )
    rate = schema.rate_limit
    if rate is not None and not (_is_whole(rate.max_calls, 1) and _is_positive(rate.interval_secs)):
        refuse(
            f"rate_limit is {rate.max_calls!r} calls in {rate.interval_secs!r} s. "
            "Allow at least 1 call in more than 0 s."
        )
    if timeout_ms is not None and not _is_whole(timeout_ms, 1):
        refuse(f"timeout_ms is {timeout_ms!r}. It is a whole number of milliseconds above zero.")
    if max_retries is not None and not _is_whole(max_retries, 0):
        refuse(f"max_retries is {max_retries!r}. It is a whole number, zero or more.")
    if cheap and is_async:
        refuse("cheap is for sync functions that are called inline; an async one never blocks. Drop cheap.")


def _check_field_marks(schema: ToolSchema, refuse: Callable[[str], None]) -> None:
    given: Any = schema.field_marks
    if not isinstance(given, Mapping):
        refuse("field_marks is a dict from paths to marks, such as {'body': ['untrusted']}.")
    for path, marks in given.items():
        try:
            parse_field(path, "field_marks")
        except RuleError as error:
            refuse(f"{error}.")
        known = get_args(Mark)
        if isinstance(marks, str) or not marks:
            refuse(f"field_marks of {path!r} is {marks!r}. Write a list, such as ['untrusted'].")
        if unknown := [mark for mark in marks if mark not in known]:
            refuse(f"{unknown[0]!r} is no mark of {path!r}. Fields are marked with {' or '.join(known)}.")


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value > 0


def _is_whole(value: Any, least: int) -> bool:
    return type(value) is int and value >= least


def own_copy(schema: ToolSchema) -> ToolSchema:
    """The schema with JSON of its own: a dict that the caller goes on changing must not change the tool."""
    try:
        return msgspec.structs.replace(
            schema,
            parameters=copy_json(schema.parameters, "parameters"),
            returns=copy_json(schema.returns, "returns"),
            labels=tuple(schema.labels),
            marks=tuple(schema.marks),
            field_marks={path: tuple(marks) for path, marks in schema.field_marks.items()},
        )
    except NotJson as error:
        raise ToolDeclarationError(f"Tool '{schema.name}': its schema cannot be used. {error}") from None


def read_rate(rate: Rate | None, owner: str) -> RateLimit | None:
    """A rate limit from the short form."""
    if rate is None or isinstance(rate, RateLimit):
        return rate
    try:
        max_calls, interval_secs = rate
    except (TypeError, ValueError):
        raise ToolDeclarationError(
            f"{owner}: rate_limit is {truncate_repr(rate, 80)}. Write (max_calls, interval_secs), such as "
            "(10, 60)."
        ) from None
    return RateLimit(max_calls=max_calls, interval_secs=interval_secs)


class Calling(msgspec.Struct, frozen=True):
    """How the function behind a hand-written schema is called."""

    context_parameter: str | None = None
    reserved: str | None = None
    """The context's keyword, where a caller's parameters are keywords too and could clash with it."""
    takes_object: bool = False
    bind: Bind | None = None


def calling_by_schema(fn: Callable[..., Any], schema: ToolSchema) -> Calling:
    """Keywords, or the whole object for a function whose only parameter is none of the schema's properties.

    Raises:
        ToolDeclarationError: the function cannot take what the schema allows.
    """
    owner = f"Tool '{schema.name}'"
    parameters_schema: Any = schema.parameters
    properties = parameters_schema.get("properties") if isinstance(parameters_schema, dict) else None
    named = set(properties) if isinstance(properties, dict) else set()
    context = find_context_parameter(fn)
    if context in named:
        raise ToolDeclarationError(
            f"{owner}: '{context}' is the function's ToolContext, and a property of the schema too. "
            "Rename one of them."
        )
    try:
        parameters = signature(fn).parameters
    except (ValueError, TypeError):
        return Calling()  # Written in C, and silent about its parameters: keywords are the rule.
    own = {name: p for name, p in parameters.items() if name != context}
    if len(own) == 1:
        [(name, only)] = own.items()
        if name not in named and only.kind in (only.POSITIONAL_ONLY, only.POSITIONAL_OR_KEYWORD):
            if next(iter(parameters)) == name:
                return Calling(context, takes_object=True)
            # The context comes first, so the object cannot be passed by position.
            return Calling(context, bind=lambda whole: {name: whole})
    _refuse_uncallable(own, named, owner)
    return Calling(context, reserved=context)


def _refuse_uncallable(own: Mapping[str, Parameter], named: set[str], owner: str) -> None:
    for name, p in own.items():
        if p.kind is p.POSITIONAL_ONLY:
            raise ToolDeclarationError(
                f"{owner}: parameter '{name}' of its function is positional-only, and properties "
                "are passed by keyword. Remove the '/' from its signature."
            )
    if any(p.kind is p.VAR_KEYWORD for p in own.values()):
        return
    takes = {name for name, p in own.items() if p.kind is not p.VAR_POSITIONAL}
    if missing := sorted(named - takes):
        raise ToolDeclarationError(
            f"{owner}: the schema has a property '{missing[0]}', and its function has no parameter of that "
            "name. Add one, take **kwargs, or take the whole object as a single parameter."
        )
