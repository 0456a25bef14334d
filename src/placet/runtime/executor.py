"""One function that executes the calls of all tools, in the place of their own functions.

A tool keeps its schema, limits and declared risk: what is verified and gated does not depend on who executes
it.

Keep true: a call is handed on to the tool's own function only where the executor says that it does not know
the tool, and then with the same parameters.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable
from typing import Any, Protocol

from placet.errors import UnknownTool, UsageError
from placet.ir.json_value import JsonValue
from placet.runtime.calls import arguments, call
from placet.tools.context import ToolContext
from placet.tools.signature import is_async_function
from placet.tools.tool import Tool


class ToolExecutor(Protocol):
    """Function, async or not, that executes calls of tools: `Runtime.executor`.

    A plain function is called in a worker thread.
    """

    def __call__(
        self, tool: str, parameters: dict[str, JsonValue], context: ToolContext, /
    ) -> Awaitable[Any] | Any:
        """Execute a call.

        Args:
            tool: Name of the tool.
            parameters: Its parameters, which fit its schema.
            context: The call that is served.

        Returns:
            The output, as a tool returns it.

        Raises:
            UnknownTool: this executor does not execute that tool. The tool's own function is called.
        """
        ...


def executed_by(executor: ToolExecutor, tool: Tool) -> Tool:
    """The tool with its calls executed by `executor`, and by its own function where that does not know it."""
    tool.compile()
    is_async = is_async_function(executor)

    async def run(parameters: dict[str, JsonValue], context: ToolContext) -> Any:
        try:
            if is_async:
                return await executor(tool.name, parameters, context)
            return await asyncio.to_thread(executor, tool.name, parameters, context)
        except UnknownTool as error:
            if tool.fn is None:
                raise
            if error.name != tool.name:
                raise  # It is about a call that the executor itself has made.
        given = context if tool.context_parameter is not None else None
        if tool.is_async or tool.cheap:
            answer = call(tool, arguments(tool, parameters), given)
            return await answer if tool.is_async else answer
        return await asyncio.to_thread(call, tool, arguments(tool, parameters), given)

    made = copy.copy(tool)
    made.fn = run
    made.is_async, made.cheap, made.is_direct = True, False, False
    made.bind, made.takes_object, made.context_parameter = None, True, "context"
    # Nobody knows what an executor does: nothing is said of what confines it, or of what it would change.
    made.confined_to, made.confinement, made.preview = None, None, None
    return made


def check_executor(executor: object) -> None:
    """Refuse what cannot be called.

    Raises:
        UsageError: it cannot.
    """
    if executor is not None and not callable(executor):
        raise UsageError(
            f"Runtime.executor is a {type(executor).__name__}, which cannot be called. Write a function "
            "(tool, parameters, context) that returns the output of a tool, or raises UnknownTool."
        )
