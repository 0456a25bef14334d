"""The tools that a runtime knows, by name.

Keep true:
1. A user's tool hides a built-in one of the same name, whichever came first; removing it shows that again.
2. Order is that of registration; a tool that replaces or hides another takes its place in it.
3. What the registry hands out is compiled: the first call of a tool is as cheap as the next.
4. A tool that is withheld is not there for anybody; only the reason is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from placet.errors import UnknownTool, unknown_tool
from placet.ir.tool_spec import ToolSchema
from placet.tools.builtin import ALL_NAMES
from placet.tools.tool import Tool, tool


class Registry:
    """Tools by name, in the order in which they were added. A user's tool hides a built-in one of the same
    name.

    >>> def double(x: int) -> int:
    ...     return 2 * x
    >>> registry = Registry()
    >>> registry.add(double)
    >>> registry.names(), "double" in registry
    (['double'], True)
    """

    __slots__ = (
        "_builtin",
        "_stand_in",
        "_user",
        "_visible",
        "_why_not",
        "elsewhere",
        "has_marks",
        "hints",
        "needs_deps",
        "revision",
        "withheld",
    )

    def __init__(self, why_not: Callable[[Tool], str | None] | None = None) -> None:
        """Create an empty registry.

        Args:
            why_not: Function that returns why a tool is not offered, or `None` if it is.
        """
        self._why_not = why_not
        self._stand_in: Callable[[Tool], Tool] | None = None
        """Makes of each tool the one that is called in its place."""
        self.withheld: dict[str, str] = {}
        """Tools that are not offered, by name, with the reason."""
        self.hints: dict[str, str] = {}
        """Names that nobody has registered, and what to do about it; for whoever asks for one of them."""
        self.elsewhere: set[str] = set(ALL_NAMES)
        """Names of tools that exist and are not offered here, so that a rule may name them; `*` stands for
        any text. At first those that come with Placet."""
        self.revision = 0
        """Another number whenever a tool comes or goes."""
        self._user: dict[str, Tool] = {}
        self._builtin: dict[str, Tool] = {}
        self._visible: dict[str, Tool] = {}
        self.has_marks = False
        """Whether some tool marks its output; kept here because every proposal asks."""
        self.needs_deps = False
        """Whether some tool asks for dependencies; every proposal asks that too."""

    def add(self, item: Tool[..., Any] | Callable[..., Any], *, builtin: bool = False) -> Tool | None:
        """Add a tool, or a function to make one of.

        Args:
            item: The tool or function.
            builtin: Add it as a built-in tool, which a user's tool of the same name hides.

        Returns:
            The tool that it replaces, or `None`. A built-in tool that is hidden is not replaced.

        Raises:
            ToolDeclarationError: the function cannot be a tool, or a schema does not compile.
        """
        added: Tool = item if isinstance(item, Tool) else tool(item)
        added.compile()
        if self._why_not is not None and (reason := self._why_not(added)):
            self.withheld[added.name] = reason
            return None
        shelf = self._builtin if builtin else self._user
        replaced = shelf.get(added.name)
        shelf[added.name] = added
        if not builtin or added.name not in self._user:
            self._show(added)
        self._look()
        return replaced

    def redeclare(self, name: str, **changes: Any) -> None:
        """Let a tool declare something else here.

        Args:
            name: Name of the tool.
            changes: Fields of its `ToolSchema`, such as `rate_limit`.

        Raises:
            UnknownTool: there is none of that name.
            ToolDeclarationError: the tool would contradict itself.
        """
        shelf = self._user if name in self._user else self._builtin
        if name not in shelf:
            raise UnknownTool(name, known=self._visible)
        shelf[name] = shelf[name].redeclared(**changes)
        self._show(shelf[name])

    def call_instead(self, stand_in: Callable[[Tool], Tool] | None) -> None:
        """From now on, call something else in the place of each tool.

        Args:
            stand_in: Function that returns what to call for a tool. `None`: the tools themselves again.
        """
        self._stand_in = stand_in
        for name in self._visible:
            self._show(self._user[name] if name in self._user else self._builtin[name])

    def _show(self, made: Tool) -> None:
        self.revision += 1
        self._visible[made.name] = made if self._stand_in is None else self._stand_in(made)

    def _look(self) -> None:
        self.has_marks = any(
            each.schema.marks or each.schema.field_marks or each.may_label for each in self._visible.values()
        )
        self.needs_deps = any(each.deps_type is not None for each in self._visible.values())

    def remove(self, name: str) -> Tool:
        """Remove a tool and return it.

        Args:
            name: Name of the tool.

        Raises:
            UnknownTool: there is none of that name.
        """
        shelf = self._user if name in self._user else self._builtin
        if name not in shelf:
            raise UnknownTool(name, known=self._visible)
        self.revision += 1
        removed = shelf.pop(name)
        if name in self._builtin:
            self._show(self._builtin[name])
        else:
            del self._visible[name]
        self._look()
        return removed

    def get(self, name: str) -> Tool | None:
        """Return the tool of that name, or `None`.

        Args:
            name: Name of the tool.
        """
        found = self._visible.get(name)
        if found is not None and self._why_not is not None and (reason := self._why_not(found)):
            # What is required may have changed since it was added.
            self.withheld[name] = reason
            return None
        return found

    def missing(self, name: str) -> str:
        """Why no tool answers to `name`, in words."""
        return self.withheld.get(name) or self.hints.get(name) or unknown_tool(name, self._visible)

    def require(self, name: str) -> Tool:
        """Return the tool of that name.

        Args:
            name: Name of the tool.

        Raises:
            UnknownTool: there is none; the message suggests the nearest name.
        """
        found = self._visible.get(name)
        if found is None:
            raise UnknownTool(name, known=self._visible)
        return found

    def names(self) -> list[str]:
        """Return all names, in registration order."""
        return list(self._visible)

    def all_known(self) -> set[str]:
        """Every name that is known, also of tools that are withheld or not offered here."""
        return {*self._visible, *self.withheld, *self.hints, *self.elsewhere}

    def schemas(self) -> list[ToolSchema]:
        """Return all tools as data, in registration order."""
        return [found.schema for found in self._visible.values()]

    def __iter__(self) -> Iterator[Tool]:
        return iter(list(self._visible.values()))

    def __contains__(self, name: object) -> bool:
        return name in self._visible

    def __len__(self) -> int:
        return len(self._visible)

    def __repr__(self) -> str:
        return f"<Registry: {', '.join(self._visible) or 'empty'}>"
