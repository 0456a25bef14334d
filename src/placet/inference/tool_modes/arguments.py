"""Whether arguments fit the tool that they are for.

Keep true:
1. A tool whose schema does not compile is a problem of its calls, never an error of the request: the model
   did nothing wrong, and the other tools can be used all the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from placet.errors import ToolDeclarationError
from placet.inference.messages import ToolCall
from placet.ir.json_value import JsonValue, show_json
from placet.ir.tool_spec import ToolSchema
from placet.safe_text import clean
from placet.tools.json_schema import Check, compile_check

_LONGEST_PROBLEM = 600


class Checks:
    """The tools of one request, each compiled when it is first called."""

    def __init__(self, tools: Mapping[str, ToolSchema]) -> None:
        self._tools = tools
        self._known: dict[str, tuple[Check | None, str]] = {}

    def misfit(self, name: str, arguments: Mapping[str, JsonValue]) -> str | None:
        """Why the tool does not take these arguments; None where it does, or where nobody can tell."""
        check, _ = self._of(name)
        return check(dict(arguments)) if check is not None else None

    def unusable(self, name: str) -> str:
        """Why nothing can be checked by the tool's schema; empty where it can."""
        return self._of(name)[1]

    def _of(self, name: str) -> tuple[Check | None, str]:
        if name not in self._known:
            try:
                check = compile_check(self._tools[name].parameters, owner=f"tool '{name}'", root="parameters")
            except ToolDeclarationError as error:
                self._known[name] = None, f"it cannot be used: {clean(error, _LONGEST_PROBLEM)}"
            else:
                self._known[name] = check, ""
        return self._known[name]


def refused(name: str, problem: str, arguments: JsonValue) -> ToolCall:
    """A call that cannot be made as it is."""
    return ToolCall(name=name, problem=problem, raw=show_json(arguments))
