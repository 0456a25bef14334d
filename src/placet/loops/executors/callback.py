"""A function of the person's program, given the act and a folder with the files of the change."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from placet.errors import ToolError
from placet.ir.tool_spec import Risk
from placet.loops.executors.executor import Act, Bench, Done, Finding, only_kept
from placet.loops.round import Receipt
from placet.safe_text import clean
from placet.truncation import truncate_repr

if TYPE_CHECKING:
    from placet.worktree.repository import Repository

Function: TypeAlias = Callable[[Act, Path], "str | Awaitable[str]"]
"""Function, async or not, that takes the act and a folder with the files of the change, and returns what was
done. An exception is a failure of the act."""


class CallbackExecutor:
    """Executor that calls a function."""

    name = "callback"
    needs_change = False

    def __init__(
        self,
        function: Function,
        *,
        idempotent: bool = False,
        check: Callable[[Receipt], bool] | None = None,
    ) -> None:
        """Create the executor.

        Args:
            function: The function that performs the act.
            idempotent: The same key twice has one effect, so it may be called again after a crash.
            check: Function that returns whether what a receipt says is still so.
        """
        self._function = function
        self._check = check
        self.risk: Risk = "idempotent" if idempotent else "destructive"

    async def dry_run(self, act: Act, bench: Bench) -> str:
        """What would be done, in words."""
        return f"the function {getattr(self._function, '__name__', 'given')} would be called"

    async def execute(self, act: Act, bench: Bench) -> Done:
        """Call it; a plain function in a thread."""
        async with bench.workshop.export(act.tree) as folder:
            if inspect.iscoroutinefunction(self._function):
                said = await self._function(act, folder)
            else:
                said = await asyncio.to_thread(self._function, act, folder)
                if inspect.isawaitable(said):
                    said = await said
        if not isinstance(said, str):
            raise ToolError(
                f"The callback returned {truncate_repr(said, 60)}; it returns what was done, in words.",
                took_effect=True,
            )
        return Done(clean(said, 2_000, lines=True), {})

    async def check(self, receipt: Receipt, repository: Repository) -> Finding:
        """Whether what the receipt says is so."""
        if self._check is None:
            return only_kept("the callback has no check")
        holds = await asyncio.to_thread(self._check, receipt)
        return Finding(
            holds=bool(holds), why="its check says so" if holds else "its check says no", seen="world"
        )
