"""What verify was told about the tools: everything, their names, or nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeGuard

from placet.errors import UsageError, unknown_tool
from placet.ir.tool_spec import ToolSchema
from placet.truncation import truncate_repr
from placet.validator import ToolFacts, Tools

if TYPE_CHECKING:
    from placet.verify.partial import PartialSchema

ToolsGiven = Tools | Iterable[str | ToolSchema | ToolFacts]
"""A registry, or any mixture of names, schemas and tools."""


class UnseenTool:
    """Stands for a tool of which nothing is known but its name: any parameters may be fine."""

    __slots__ = ("schema",)
    validate = None
    may_label = False

    def __init__(self, name: str) -> None:
        self.schema = ToolSchema(name=name)


class AnyTools:
    """Stands for a registry nobody has looked into: it may hold every name."""

    def get(self, name: str) -> ToolFacts | None:
        """A stand-in."""
        return UnseenTool(name)

    def missing(self, name: str) -> str:
        """There is always a stand-in."""
        return unknown_tool(name, ())


class ListedTools:
    """Exactly these tools."""

    def __init__(self, given: Iterable[Any]) -> None:
        self._tools = {tool.schema.name: tool for tool in map(_facts, given)}

    def get(self, name: str) -> ToolFacts | None:
        """The tool of that name."""
        return self._tools.get(name)

    def missing(self, name: str) -> str:
        """That it is not among them, and what may be meant."""
        return unknown_tool(name, self._tools)


def read_tools(given: ToolsGiven | None) -> Tools:
    """The tools a plan may name; None means that they are not known.

    >>> read_tools(None).get("anything") is not None, read_tools(["add"]).get("sub")
    (True, None)

    Raises:
        UsageError: `given` holds something that is no tool.
        ToolDeclarationError: a schema in it does not compile.
    """
    if given is None:
        return AnyTools()
    if _is_registry(given):
        return given
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UsageError(
            f"tools={truncate_repr(given, 80)} is no list. Give names, schemas, tools or a Registry."
        )
    return ListedTools(given)


def _is_registry(given: object) -> TypeGuard[Tools]:
    return callable(getattr(given, "get", None)) and callable(getattr(given, "names", None))


def _facts(item: Any) -> ToolFacts:
    if isinstance(item, str):
        return UnseenTool(item)
    if isinstance(item, ToolSchema):
        # Here, because a plan is often verified where no tool is declared at all.
        from placet.tools import Tool

        return Tool.from_schema(item, None)
    if isinstance(getattr(item, "schema", None), ToolSchema):
        return item  # type: ignore[no-any-return]
    raise UsageError(
        f"{truncate_repr(item, 80)} is no tool. Give names, schemas, tools made with @tool, or a Registry."
    )


class ToolCard:
    """One tool of a plan, looked up once."""

    __slots__ = ("_partial", "calls", "deduplicates", "is_cached", "lacks_handler", "tool", "undo")

    def __init__(self, tool: ToolFacts | None, *, must_run: bool) -> None:
        self.tool = tool
        self.lacks_handler = must_run and getattr(tool, "fn", tool) is None and tool is not None
        """Whether a call would fail for want of a function."""
        self.undo: str | None = None
        """What the tool declares; None where it has not been seen."""
        self.deduplicates = False
        self.is_cached = False
        self.calls: dict[bytes, int] = {}
        """How often the plan calls it, by canonical parameters."""
        if tool is not None and not isinstance(tool, UnseenTool):
            self.undo = tool.schema.undo
            self.deduplicates = tool.schema.deduplicates
            self.is_cached = tool.schema.cache_ttl_secs is not None
        self._partial: PartialSchema | None = None

    @property
    def partial(self) -> PartialSchema | None:
        """What its schema says where parameters are missing; None if it takes anything."""
        tool = self.tool
        if self._partial is None and tool is not None and tool.validate is not None:
            # Here, because most plans have no need of it.
            from placet.verify.partial import partial_schema

            self._partial = partial_schema(tool.schema.parameters)
        return self._partial


class ToolCards(dict[str | None, ToolCard]):
    """The tools that a plan names, each made out when first asked for."""

    def __init__(self, tools: Tools, *, must_run: bool = False) -> None:
        """`must_run`: execution will call these very tools, so one without a function is of no use."""
        super().__init__()
        self._tools = tools
        self._must_run = must_run

    def __missing__(self, name: str | None) -> ToolCard:
        tool = self._tools.get(name) if name else None
        card = self[name] = ToolCard(tool, must_run=self._must_run)
        return card
