"""Read a Python function as a tool: the schema of its parameters, and how JSON becomes its arguments.

Keep true:
1. Whatever a function's `bind` returns can be passed to it as keyword arguments.
2. A parameter annotated `ToolContext` is in no schema, and no caller's JSON can fill it.
3. What cannot be described is refused when it is declared, naming the function, the parameter and the fix.
4. Reading a function never calls it.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgspec

from placet.errors import NotJson, ToolDeclarationError, ToolError
from placet.ir.json_value import JsonValue
from placet.tools.context import Cancel, ToolContext
from placet.tools.conversion import USABLE, Shape, Unfit, read_types
from placet.tools.docstring import read_docstring
from placet.tools.json_schema import join_problems
from placet.tools.output import to_json
from placet.truncation import truncate_repr

Bind: TypeAlias = Callable[[dict[str, JsonValue]], dict[str, Any]]

_EMPTY = inspect.Parameter.empty
_BUILTIN: dict[Hashable, Signature] = {}
"""Signatures of built-in tools that were read before. They can be shared: a tool copies the schema."""


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """A function, as a model may see it and as the runtime must call it."""

    description: str
    parameters: dict[str, JsonValue]
    bind: Bind | None
    """From JSON to keyword arguments; None when JSON is what the function takes."""
    bind_can_refuse: bool
    """Whether `bind` knows rules that the schema does not, such as a validator of the user's."""
    context_parameter: str | None


def read_signature(fn: Callable[..., Any]) -> Signature:
    """Describe `fn`, a function with typed parameters.

    Raises:
        ToolDeclarationError: the function cannot be a tool as it stands.
    """
    key = _builtin_key(fn)
    if key is None:
        return _read(fn)
    if key not in _BUILTIN:
        _BUILTIN[key] = _read(fn)
    return _BUILTIN[key]


def _builtin_key(fn: Callable[..., Any]) -> Hashable | None:
    """Cache key of the function of a built-in tool; `None` for any other function.

    Built-in tools are made anew for each folder, from the same code, and what their annotations name never
    changes. Of a user's function that is not known.
    """
    if not inspect.isfunction(fn) or not fn.__module__.startswith("placet.") or hasattr(fn, "__wrapped__"):
        return None
    defaults = (fn.__defaults__, *(fn.__kwdefaults__ or {}).items())
    key = (fn.__code__, fn.__doc__, defaults, *fn.__annotations__.items())
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _read(fn: Callable[..., Any]) -> Signature:
    owner = f"Tool function '{function_name(fn)}'"
    declared = _parameters(fn, owner)
    annotations = {name: _resolve(fn, p.annotation, owner, name) for name, p in declared.items()}
    context = _context_among(annotations, owner)
    shown = {name: p for name, p in declared.items() if name != context}
    types = {_label(name): _type_of(p, annotations[name], owner) for name, p in shown.items()}
    shapes, definitions = read_types(types, owner=owner)
    description, texts = read_docstring(_docstring(fn), shown)

    properties: dict[str, JsonValue] = {}
    required: list[str] = []
    conversions: dict[str, Shape] = {}
    extra: Shape | None = None
    for name, parameter in shown.items():
        shape = shapes[_label(name)]
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = shape
            continue
        properties[name] = _property(shape.schema, parameter, annotations[name], texts.get(name))
        if parameter.default is _EMPTY:
            required.append(name)
        if shape.convert is not None:
            conversions[name] = shape
    schema: dict[str, JsonValue] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False if extra is None else (extra.schema or True)
    if definitions:
        schema["$defs"] = definitions

    fallible = any(s.need == "full" for s in (*conversions.values(), *([extra] if extra else [])))
    return Signature(
        description=description,
        parameters=schema,
        bind=_make_bind(conversions, extra, frozenset(properties)),
        bind_can_refuse=fallible,
        context_parameter=context,
    )


def describe_type(annotation: Any, *, owner: str) -> dict[str, JsonValue]:
    """The JSON Schema of one type, complete with its definitions."""
    shapes, definitions = read_types({"returns": annotation}, owner=owner)
    schema = shapes["returns"].schema
    return {**schema, "$defs": definitions} if definitions else schema


def find_context_parameter(fn: Callable[..., Any]) -> str | None:
    """The parameter that wants the context; annotations that do not resolve are no reason to fail here."""
    owner = f"Tool function '{function_name(fn)}'"
    found: dict[str, Any] = {}
    for name, parameter in _signature_or_empty(fn).items():
        try:
            found[name] = _resolve(fn, parameter.annotation, owner, name)
        except ToolDeclarationError:
            continue
    return _context_among(found, owner)


def find_deps_type(fn: Callable[..., Any], context_parameter: str) -> Any:
    """The type in `ToolContext[Deps]`; None where the function asks for no dependencies."""
    parameter = _signature_or_empty(fn).get(context_parameter)
    if parameter is None:
        return None
    try:
        annotation = _resolve(fn, parameter.annotation, "", context_parameter)
    except ToolDeclarationError:
        return None
    args = get_args(_context_type(annotation))
    return args[0] if args else None


def function_name(fn: Callable[..., Any]) -> str:
    """What to call a function in messages: partials and callable objects have a name inside them."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    name = getattr(fn, "__qualname__", None) or type(fn).__qualname__
    return str(name).rpartition("<locals>.")[2]


def tool_name(fn: Callable[..., Any]) -> str:
    """The name a tool gets from its function.

    Raises:
        ToolDeclarationError: a lambda, which has none.
    """
    name = function_name(fn).rpartition(".")[2]
    if name == "<lambda>":
        raise ToolDeclarationError(
            "A lambda has no name that a model could call. Give it one: tool(name=...)."
        )
    return name


def is_async_function(fn: Callable[..., Any]) -> bool:
    """Whether calling `fn` gives something to await: also through a partial or an object's `__call__`."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    # `__call__` is looked up on the type, where Python itself looks for it.
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__)


def _signature_or_empty(fn: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(fn).parameters
    except (ValueError, TypeError):
        return {}


def _parameters(fn: Callable[..., Any], owner: str) -> Mapping[str, inspect.Parameter]:
    inner = _innermost(fn)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise ToolDeclarationError(f"{owner} is a generator. Return a list instead: a tool answers once.")
    try:
        found = inspect.signature(fn).parameters
    except (ValueError, TypeError):
        raise ToolDeclarationError(
            f"{owner} does not tell its parameters. Wrap it in a Python function with typed parameters."
        ) from None
    for position, (name, p) in enumerate(found.items()):
        if position == 0 and name in ("self", "cls") and p.annotation is _EMPTY:
            raise ToolDeclarationError(
                f"{owner}, parameter '{name}': this is a method without its object. "
                "Declare the bound one: tool(instance.method)."
            )
        if p.kind is p.POSITIONAL_ONLY:
            raise ToolDeclarationError(
                f"{owner}, parameter '{name}' is positional-only, and tools are called with keywords. "
                "Remove the '/' from its signature, or wrap it in a Python function."
            )
        if p.kind is p.VAR_POSITIONAL:
            raise ToolDeclarationError(
                f"{owner}, parameter '*{name}': JSON parameters have names. "
                f"Take a list instead: {name}: list[...]."
            )
        if type(p.default).__name__ == "FieldInfo":
            # Only pydantic's own decorator would put a value in its place; a call here would pass it on.
            raise ToolDeclarationError(
                f"{owner}, parameter '{name}': its default is a Field, not a value. "
                f"Write {name}: Annotated[..., Field(...)], and after it the default if there is one."
            )
    return found


def _innermost(fn: Callable[..., Any]) -> Any:
    """The plain function behind partials, wrappers, methods and callable objects: it knows its globals."""
    inner: Any = fn
    while not inspect.isfunction(inner):
        if isinstance(inner, functools.partial):
            inner = inner.func
        elif inspect.ismethod(inner):
            inner = inner.__func__
        elif hasattr(inner, "__wrapped__"):
            inner = inner.__wrapped__
        elif isinstance(inner, type):
            return inner.__dict__.get("__init__", inner)
        elif callable(inner) and inspect.isfunction(type(inner).__call__):
            return inspect.unwrap(type(inner).__call__)
        else:
            return inner
    return inspect.unwrap(inner)


def _docstring(fn: Callable[..., Any]) -> str | None:
    if isinstance(fn, functools.partial):
        return _docstring(fn.func)
    if inspect.isroutine(fn) or isinstance(fn, type):
        return fn.__doc__
    return type(fn).__call__.__doc__ or type(fn).__doc__


def _label(name: str) -> str:
    return f"parameter '{name}'"


def _resolve(fn: Callable[..., Any], annotation: Any, owner: str, name: str) -> Any:
    """An annotation with the names in it looked up: in the module, then around the function."""
    if annotation is _EMPTY:
        return Any
    inner = _innermost(fn)
    module_names = getattr(inner, "__globals__", {})
    holder = SimpleNamespace(__annotations__={name: annotation})
    try:
        return get_type_hints(holder, module_names, {}, include_extras=True)[name]
    except NameError:
        pass
    except Exception as error:
        raise _unresolvable(owner, name, annotation, error) from None
    try:
        return get_type_hints(holder, module_names, _names_around(inner), include_extras=True)[name]
    except Exception as error:
        raise _unresolvable(owner, name, annotation, error) from None


def _unresolvable(owner: str, name: str, annotation: Any, error: Exception) -> ToolDeclarationError:
    return ToolDeclarationError(
        f"{owner}, parameter '{name}': the annotation {annotation!r} cannot be resolved ({error}). "
        "Import or define what it names at module level, not only under TYPE_CHECKING."
    )


def _names_around(inner: Any) -> dict[str, Any]:
    """Names that a string annotation may mean although the module does not hold them.

    A function inside a function sees the outer one's locals. They are in the closure if the body uses them,
    and else only in the outer function's frame, which is still there while a decorator runs.
    """
    # Imported under TYPE_CHECKING by people who follow their linter; we know what they mean.
    names: dict[str, Any] = {"ToolContext": ToolContext, "Cancel": Cancel}
    if not inspect.isfunction(inner):
        return names
    pieces = inner.__qualname__.split(".<locals>.")[:-1]
    enclosing = {".<locals>.".join(pieces[: count + 1]) for count in range(len(pieces))}
    frame = sys._getframe(1)
    found: list[dict[str, Any]] = []
    while frame is not None:
        if frame.f_globals is inner.__globals__ and frame.f_code.co_qualname in enclosing:
            found.append(frame.f_locals)
        if (outer := frame.f_back) is None:
            break
        frame = outer
    for around in reversed(found):
        names.update(around)
    for free, cell in zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=True):
        try:
            names[free] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return names


def _context_among(annotations: Mapping[str, Any], owner: str) -> str | None:
    found = [name for name, annotation in annotations.items() if _is_context(annotation)]
    if len(found) > 1:
        raise ToolDeclarationError(f"{owner}: {' and '.join(found)} both want the ToolContext. Keep one.")
    return found[0] if found else None


def _is_context(annotation: Any) -> bool:
    return _context_type(annotation) is not None


def _context_type(annotation: Any) -> Any:
    """`ToolContext` or `ToolContext[Deps]`, without what stands around it; None for anything else."""
    origin, args = get_origin(annotation), get_args(annotation)
    if annotation is ToolContext or origin is ToolContext:
        return annotation
    if origin is Annotated:
        return _context_type(args[0])
    if origin in (Union, UnionType):
        rest = [member for member in args if member is not NoneType]
        return _context_type(rest[0]) if len(rest) == 1 else None
    return None


def _type_of(parameter: inspect.Parameter, annotation: Any, owner: str) -> Any:
    if annotation is object:
        return Any
    if parameter.default is None and annotation is not Any:
        # `x: str = None` is how many write Optional; the function plainly takes None.
        try:
            return annotation | None
        except TypeError:
            raise ToolDeclarationError(
                f"{owner}, {_label(parameter.name)}: the annotation {truncate_repr(annotation, 80)} is no "
                f"type. {USABLE}"
            ) from None
    return annotation


def _property(
    schema: dict[str, JsonValue], parameter: inspect.Parameter, annotation: Any, text: str | None
) -> dict[str, JsonValue]:
    described = dict(schema)
    notes = getattr(annotation, "__metadata__", ())
    # Nearest to the type wins: Annotated[str, "..."], then the schema's own words, then the docstring.
    spoken = next(filter(None, map(_words_of, notes)), None)
    if best := spoken or described.get("description") or text:
        described["description"] = best
    if parameter.default is _EMPTY:
        # A Field may name one, but the function cannot be called without the parameter.
        described.pop("default", None)
    else:
        # Without a JSON form it is still optional; a model just is not told what it falls back to.
        with suppress(NotJson):
            described["default"] = to_json(parameter.default, "default")
    return described


def _words_of(note: Any) -> str | None:
    """What a note in an `Annotated` says: a plain text, or a `Doc` of typing_extensions."""
    said = note.documentation if type(note).__name__ in ("Doc", "DocInfo") else note
    return said if isinstance(said, str) else None


def _make_bind(conversions: Mapping[str, Shape], extra: Shape | None, named: frozenset[str]) -> Bind | None:
    others = extra.convert if extra is not None else None
    if not conversions and others is None:
        return None
    if others is None and all(shape.need == "whole" for shape in conversions.values()):
        return _bind_whole_numbers(tuple(conversions))
    steps = [(name, shape.convert) for name, shape in conversions.items() if shape.convert is not None]

    def bind(parameters: dict[str, JsonValue]) -> dict[str, Any]:
        arguments = dict(parameters)
        todo = [(name, convert) for name, convert in steps if name in arguments]
        if others is not None:
            todo += [(name, others) for name in parameters if name not in named]
        problems: list[str] = []
        for name, convert in todo:
            try:
                arguments[name] = convert(arguments[name])
            except Unfit as error:
                problems += [f"parameter '{name}{place}': {problem}" for place, problem in error.problems]
        if problems:
            raise ToolError(join_problems(problems), retry=False)
        return arguments

    return bind


def _bind_whole_numbers(names: tuple[str, ...]) -> Bind:
    """The cheapest bind: nothing is copied unless a float stands where the function wants an int."""

    def bind(parameters: dict[str, JsonValue]) -> dict[str, Any]:
        # Looking at every value is quicker than looking up the few that matter, and floats are rare.
        for value in parameters.values():
            if type(value) is float:
                break
        else:
            return parameters
        arguments = dict(parameters)
        for name in names:
            if type(arguments.get(name)) is float:
                arguments[name] = int(arguments[name])
        return arguments

    return bind
