"""How much a run may use, and who still gets a share.

Keep true:
1. A share is reserved when an action is admitted, in serial order, never after it has run.
2. A budget given for one call only tightens the runtime's own.
"""

from __future__ import annotations

import msgspec


class CostBudget(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on one run, including its replans. `None` means no limit."""

    max_tool_calls: int | None = None
    """Number of tool calls."""
    max_duration_ms: float | None = None
    """Wall-clock time in milliseconds; time spent waiting for people is not counted."""
    max_actions: int | None = None
    """Number of actions."""
    max_tokens: int | None = None
    """Number of tokens that models and tools report."""
    max_cost: float | None = None
    """Cost that models and tools report, in US dollars."""

    def tightened(self, other: CostBudget | None) -> CostBudget:
        """Return the stricter of the two, limit by limit.

        Args:
            other: The other budget; `None` changes nothing.
        """
        if other is None:
            return self
        limits = {}
        for name in self.__struct_fields__:
            given = [v for v in (getattr(self, name), getattr(other, name)) if v is not None]
            limits[name] = min(given) if given else None
        return CostBudget(**limits)


class Allowance:
    """What a run has used of its budget so far."""

    __slots__ = (
        "_patient",
        "_patient_since",
        "actions",
        "budget",
        "cost",
        "tokens",
        "tool_calls",
        "waited_ms",
    )

    def __init__(self, budget: CostBudget | None) -> None:
        self.budget = budget
        self.actions = 0
        self.tool_calls = 0
        self.tokens = 0
        self.cost = 0.0
        self.waited_ms = 0.0
        """Of the time that has passed, what went by waiting for people."""
        self._patient = 0
        """How many actions wait for people right now."""
        self._patient_since = 0.0

    def wait_begins(self, now: float) -> None:
        """An action waits for a person from now on, by a clock in seconds."""
        if not self._patient:
            self._patient_since = now
        self._patient += 1

    def wait_ends(self, now: float) -> None:
        """It waits no longer."""
        self._patient -= 1
        if not self._patient:
            self.waited_ms += (now - self._patient_since) * 1000

    def waited_until(self, now: float) -> float:
        """The milliseconds that went by waiting for people, also if somebody is waited for right now."""
        return self.waited_ms + ((now - self._patient_since) * 1000 if self._patient else 0.0)

    def may_run_out(self, actions: int, tool_calls: int) -> bool:
        """Whether so many more could meet a count limit: then who gets a share depends on the order."""
        b = self.budget
        return b is not None and (
            (b.max_actions is not None and self.actions + actions > b.max_actions)
            or (b.max_tool_calls is not None and self.tool_calls + tool_calls > b.max_tool_calls)
        )

    def reserve(self, *, is_tool_call: bool, elapsed_ms: float) -> bool:
        """Take a share for one action; false if the budget has none left."""
        b = self.budget
        if b is not None and (
            (b.max_actions is not None and self.actions >= b.max_actions)
            or (is_tool_call and b.max_tool_calls is not None and self.tool_calls >= b.max_tool_calls)
            or self.used_up(elapsed_ms)
        ):
            return False
        self.actions += 1
        self.tool_calls += is_tool_call
        return True

    def used_up(self, elapsed_ms: float) -> str | None:
        """Which limit leaves nothing to go on with, whatever is wanted next; None if there is none."""
        b = self.budget
        if b is None:
            return None
        if b.max_duration_ms is not None and elapsed_ms >= b.max_duration_ms:
            return "max_duration_ms"
        if b.max_tokens is not None and self.tokens >= b.max_tokens:
            return "max_tokens"
        return "max_cost" if b.max_cost is not None and self.cost >= b.max_cost else None

    def spend(self, tokens: int | None, cost: float | None) -> None:
        """Count what a tool says it used. What it cannot tell (None) uses up all that is left of that limit:
        one that adds up zeros would never end anything."""
        b = self.budget
        if tokens is None:
            tokens = 0 if b is None or b.max_tokens is None else max(b.max_tokens - self.tokens, 0)
        if cost is None:
            cost = 0.0 if b is None or b.max_cost is None else max(b.max_cost - self.cost, 0.0)
        self.tokens += tokens
        self.cost += cost
