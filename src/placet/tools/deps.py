"""The caller's own objects for tools: a tool asks for them with `ToolContext[Deps]`.

Keep true:
1. They are handed on as they are: never copied, stored, logged or shown.
2. A tool that asks for them is not entered without them.
"""

from __future__ import annotations

from collections.abc import Iterable
from inspect import isclass
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from placet.errors import DepsError

if TYPE_CHECKING:
    from placet.tools.registry import Registry
    from placet.tools.tool import Tool


def check_deps(tools: Registry, names: Iterable[str], deps: object) -> None:
    """Refuse to begin with tools that ask for what is not there.

    Raises:
        DepsError: a tool asks for dependencies, and there are none, or they are of another type.
    """
    if not tools.needs_deps:
        return
    for name in names:
        found = tools.get(name)
        if found is not None and (problem := deps_problem(found, deps)):
            raise DepsError(name, problem)


def deps_problem(tool: Tool, deps: object) -> str:
    """Why a tool cannot be called with these; empty if it can. Their value is never part of it."""
    wanted = tool.deps_type
    if wanted is None or _fits(wanted, deps):
        return ""
    name = getattr(wanted, "__name__", None) or str(wanted)
    if deps is None:
        return f"asks for ToolContext[{name}], and no deps were given"
    return f"asks for ToolContext[{name}], and the deps are of the type {type(deps).__name__}"


def _fits(wanted: Any, deps: object) -> bool:
    origin = get_origin(wanted)
    if origin in (Union, UnionType):
        return any(_fits(member, deps) for member in get_args(wanted))
    if wanted in (None, NoneType):
        return deps is None
    if deps is None:
        return wanted is object
    kind = origin or wanted
    try:
        return not isclass(kind) or isinstance(deps, kind)
    except TypeError:
        return True  # A protocol that cannot be asked: left to the type checker.
