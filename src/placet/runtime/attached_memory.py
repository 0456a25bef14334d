"""A memory as the runtime sees it: tools and rules that it brings, and what grounds a question to a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from placet.events.log import EventLog
from placet.policy.case import Rule
from placet.tools.context import ToolContext
from placet.tools.tool import Tool

NOT_ATTACHED = {
    name: f"'{name}' is not offered: no memory is attached. Give the runtime one: Runtime(memory=Memory(...))"
    for name in ("remember", "recall", "infer.grounded", "memory.consolidate", "memory.trust")
}
"""Names that a plan may expect, and why they are not there."""


class AttachedMemory(Protocol):
    """Protocol of a memory that a runtime can use; `placet.Memory` is one."""

    def runtime_tools(self, events: EventLog) -> Sequence[Tool]:
        """Return the tools that use the memory.

        Args:
            events: The log of the runtime.
        """
        ...

    def runtime_rules(self) -> Sequence[tuple[str, Rule]]:
        """Return rules, with their names, that must hold where the memory is attached."""
        ...

    async def ground(self, prompt: str, context: ToolContext) -> str:
        """Return what a model should know for a prompt; empty if there is nothing.

        Args:
            prompt: The prompt.
            context: The call that asks.
        """
        ...
