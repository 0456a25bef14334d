"""A memory as the runtime sees it: tools and rules that it brings, and what grounds a question to a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from placet.events.log import EventLog
from placet.inference.model import Model
from placet.policy.budget import CostBudget
from placet.policy.case import Rule
from placet.runtime.trajectory import TrajectoryStore
from placet.tools.context import ToolContext
from placet.tools.tool import Tool

NOT_ATTACHED = {
    name: f"'{name}' is not offered: no memory is attached. Give the runtime one: Runtime(memory=Memory(...))"
    for name in ("remember", "recall", "infer.grounded", "memory.consolidate", "memory.trust")
}
"""Names that a plan may expect, and why they are not there."""


class RunLearner(TrajectoryStore, Protocol):
    """Protocol of what learns from runs: it receives trajectories, and is told when a run has ended."""

    async def after_run(self, run_id: str, tenant: str | None) -> None:
        """Learn from a run that has ended.

        Args:
            run_id: Id of the run.
            tenant: Its tenant.
        """
        ...


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

    def learn_with(
        self,
        model: Model,
        events: EventLog,
        *,
        budget: CostBudget | None,
        trajectories: TrajectoryStore | None,
    ) -> RunLearner:
        """Return what makes skills from runs, for this memory.

        Args:
            model: The model that writes them.
            events: The log of the runtime.
            budget: What learning may use. `None`: the default.
            trajectories: The store that trajectories are handed on to.
        """
        ...

    async def ground(self, prompt: str, context: ToolContext) -> str:
        """Return what a model should know for a prompt; empty if there is nothing.

        Args:
            prompt: The prompt.
            context: The call that asks.
        """
        ...
