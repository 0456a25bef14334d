"""Whether a budget on counts lasts for a plan, asked before the plan runs.

Keep true:
1. `no` is certain, `maybe` says that it depends on what is remembered, cached, rejected or skipped.
2. When an action is refused its share the rest is refused too, as in execution.
"""

from __future__ import annotations

from typing import Literal

from placet.ir.graph import Graph
from placet.policy.budget import Budget, CostBudget

Answer = Literal["yes", "maybe", "no"]


class Shares:
    """Counts what a plan surely takes, and what it may take."""

    __slots__ = ("_actions", "_calls", "_most_actions", "_most_calls", "is_spent", "may_be_spent")

    def __init__(self, budget: Budget) -> None:
        limits, spent = _limits(budget), budget.spent
        self._most_actions = limits.max_actions if limits is not None else None
        self._most_calls = limits.max_tool_calls if limits is not None else None
        self._actions = [spent.actions, spent.actions]
        """Shares taken: at least, and at most."""
        self._calls = [spent.tool_calls, spent.tool_calls]
        self.is_spent = has_nothing_left(budget)
        """Whether an action was refused for certain: then nothing after it is even looked at."""
        self.may_be_spent = False
        """Whether one may have been: then what comes after may not run."""

    @classmethod
    def that_matter(cls, budget: Budget | None, graph: Graph) -> Shares | None:
        """The shares of a plan, or None if no count can run out."""
        if budget is None or not budget.has_limits:
            return None
        calls = sum(graph.actions[i].type == "tool_call" for i in graph.order)
        if budget.may_run_out(len(graph.order), calls) or has_nothing_left(budget):
            return cls(budget)
        return None

    def ask(self, *, is_call: bool, is_sure: bool, may_be_free: bool) -> Answer:
        """Take a share for one action.

        `is_sure`: the action comes to this point. `may_be_free`: an earlier answer may serve, at no cost.
        """
        if self._is_over(is_call, 0):
            self.is_spent = is_sure and not may_be_free
            self.may_be_spent = True
            return "maybe" if may_be_free else "no"
        may_be_over = self.may_be_spent or self._is_over(is_call, 1)
        takes = int(is_sure and not may_be_free and not may_be_over)
        self._take(self._actions, takes)
        if is_call:
            self._take(self._calls, takes)
        if may_be_over:
            self.may_be_spent = True
            return "maybe"
        return "yes"

    def _is_over(self, is_call: bool, bound: int) -> bool:
        """Whether nothing is left, if so much was taken as the lower (0) or upper (1) bound says."""
        return (self._most_actions is not None and self._actions[bound] >= self._most_actions) or (
            is_call and self._most_calls is not None and self._calls[bound] >= self._most_calls
        )

    @staticmethod
    def _take(count: list[int], surely: int) -> None:
        count[0] += surely
        count[1] += 1


def has_nothing_left(budget: Budget) -> bool:
    """Whether not even one action would be admitted, whatever its kind."""
    return budget.exceeded() is not None


def left_open(budget: Budget) -> list[str]:
    """The limits of a budget that only the run itself can meet."""
    b = _limits(budget)
    if b is None or has_nothing_left(budget):
        return []
    limits = {"max_duration_ms": b.max_duration_ms, "max_tokens": b.max_tokens, "max_cost": b.max_cost}
    return [name for name, limit in limits.items() if limit is not None]


def _limits(budget: Budget) -> CostBudget | None:
    return budget.limits if isinstance(budget.limits, CostBudget) else None
