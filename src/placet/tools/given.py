"""The tools that a caller hands to a runtime, checked before any of them is registered.

Keep true: what is refused here says which item it is and what to write instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from placet.errors import DuplicateTool, ToolDeclarationError, UsageError
from placet.tools.tool import Tool, tool
from placet.truncation import truncate, truncate_repr


def tools_given(items: Iterable[Tool | Callable[..., Any]], option: str = "tools") -> list[Tool]:
    """Tools from a list of tools and functions. The same object twice is one tool.

    Raises:
        UsageError: it is no list of them.
        ToolDeclarationError: an item is neither a tool nor a function.
        DuplicateTool: two of them have one name.
    """
    if isinstance(items, Tool) or not isinstance(items, Iterable):
        name = getattr(items, "__name__", None)
        hint = f"Runtime([{name}])" if name else "Runtime([my_function])"
        raise UsageError(
            f"Runtime({option}=...) got {truncate_repr(items, 80)}, which is no list of tools. Write {hint}."
        )
    found: dict[str, Tool] = {}
    seen: list[object] = []
    for position, item in enumerate(items):
        if any(item is each for each in seen):
            continue
        seen.append(item)
        made = item if isinstance(item, Tool) else _made_of(item, f"Runtime({option}=...)[{position}]")
        first = found.setdefault(made.name, made)
        if first is not made:
            raise DuplicateTool(made.name, _described(first), _described(made))
    return list(found.values())


def _made_of(item: object, place: str) -> Tool:
    if not callable(item):
        raise ToolDeclarationError(
            f"{place} is {truncate_repr(item, 80)} ({type(item).__name__}), which is no function. Give "
            "functions with "
            "type hints, or tools made with @tool."
        )
    return tool(item)


def _described(made: Tool) -> str:
    """Where a tool comes from, so that a reader finds both."""
    if made.origin:
        return made.origin
    fn = made.fn
    if fn is None:
        return f"a tool without a function ({truncate(made.schema.description, 60) or 'no description'})"
    where = f"{getattr(fn, '__module__', '?')}.{getattr(fn, '__qualname__', type(fn).__qualname__)}"
    code = getattr(fn, "__code__", None)
    return f"{where} (line {code.co_firstlineno})" if code is not None else where
