"""How far a loop of turns may go."""

from __future__ import annotations

from math import inf, isfinite

import msgspec

from placet.errors import UsageError
from placet.policy.budget import CostBudget
from placet.truncation import truncate_repr

_WHOLE = frozenset({"turns", "tokens", "tool_calls", "answer_tokens", "context_tokens"})
_MOST = 10**15
_MOST_S = 10_000_000
"""Of seconds: clocks count no further than far beyond that."""


class TurnLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on one run. `None` means no limit."""

    turns: int = 50
    """How often the model is asked; in a chat, for each message."""
    tokens: int | None = None
    """Tokens read and written, over all turns. An answer that does not report its usage uses up the limit."""
    cost_usd: float | None = None
    """Cost in US dollars, over all turns, if prices are known."""
    time_s: float | None = None
    """Wall-clock time in seconds; time spent waiting for people is not counted. At the end, work in flight is
    stopped."""
    tool_calls: int | None = None
    """Number of tool calls."""
    call_s: float | None = None
    """Time for each tool call in seconds; the limit of the tool may be shorter."""
    answer_tokens: int | None = None
    """Tokens of each answer."""
    context_tokens: int | None = None
    """Size of the model's context window; the conversation is shortened before it no longer fits."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is None and name != "turns":
                continue
            is_whole = name in _WHOLE
            if isinstance(value, bool) or not isinstance(value, int if is_whole else int | float):
                kind = "a whole number" if is_whole else "a number"
                raise UsageError(f"TurnLimits({name}={truncate_repr(value, 40)}): it must be {kind} above 0.")
            most = _MOST_S if name in ("time_s", "call_s") else _MOST
            if value > most and value != inf:
                # Not shown: Python writes out no number of many thousand digits.
                raise UsageError(f"TurnLimits({name}=...): it must be at most {most:,}; None is no limit.")
            if not value > 0 or not isfinite(value):
                raise UsageError(
                    f"TurnLimits({name}={truncate_repr(value, 40)}): it must be above 0, and finite; None "
                    "is no limit."
                )

    @property
    def budget(self) -> CostBudget | None:
        """The limits that the runtime enforces, as a `CostBudget`."""
        found = CostBudget(
            max_tool_calls=self.tool_calls,
            max_duration_ms=self.time_s * 1000 if self.time_s is not None else None,
            max_tokens=self.tokens,
            max_cost=self.cost_usd,
        )
        return found if found != CostBudget() else None
