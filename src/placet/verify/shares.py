"""Whether a budget on counts lasts for a plan, asked before the plan runs.

Keep true:
1. `no` is certain, `maybe` says that it depends on what is remembered, cached, rejected or skipped.
2. When an action is refused its share the rest is refused too, as in execution.
"""

from __future__ import annotations

from typing import Literal

from placet.ir.graph import Graph
from placet.policy.budget import Allowance

Answer = Literal["yes", "maybe", "no"]


class Shares:
    """Counts what a plan surely takes, and what it may take."""

    __slots__ = ("_actions", "_calls", "_most_actions", "_most_calls", "is_spent", "may_be_spent")

    def __init__(self, allowance: Allowance) -> None:
        budget = allowance.budget
        self._most_actions = budget.max_actions if budget is not None else None
        self._most_calls = budget.max_tool_calls if budget is not None else None
        self._actions = [allowance.actions, allowance.actions]
        """Shares taken: at least, and at most."""
        self._calls = [allowance.tool_calls, allowance.tool_calls]
        self.is_spent = has_nothing_left(allowance)
        """Whether an action was refused for certain: then nothing after it is even looked at."""
        self.may_be_spent = False
        """Whether one may have been: then what comes after may not run."""

    @classmethod
    def that_matter(cls, allowance: Allowance | None, graph: Graph) -> Shares | None:
        """The shares of a plan, or None if no count can run out."""
        if allowance is None or allowance.budget is None:
            return None
        calls = sum(graph.actions[i].type == "tool_call" for i in graph.order)
        if allowance.may_run_out(len(graph.order), calls) or has_nothing_left(allowance):
            return cls(allowance)
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


def has_nothing_left(allowance: Allowance) -> bool:
    """Whether not even one action would be admitted, whatever its kind."""
    b = allowance.budget
    return b is not None and (
        (b.max_tokens is not None and allowance.tokens >= b.max_tokens)
        or (b.max_cost is not None and allowance.cost >= b.max_cost)
        or (b.max_duration_ms is not None and b.max_duration_ms <= 0)
    )


def left_open(allowance: Allowance) -> list[str]:
    """The limits of a budget that only the run itself can meet."""
    b = allowance.budget
    if b is None or has_nothing_left(allowance):
        return []
    limits = {"max_duration_ms": b.max_duration_ms, "max_tokens": b.max_tokens, "max_cost": b.max_cost}
    return [name for name, limit in limits.items() if limit is not None]
