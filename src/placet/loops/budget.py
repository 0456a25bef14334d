"""Limits of a round and of a day of rounds; and what was used.

A round is a `Budget` below that of its day, and each of its sub-runs one below that of the round.

Keep true:
1. Exceeded means more than the limit. Of several that are exceeded, the first in the order of the fields is
   named; a round's own limits come before those of the day.
2. What was used is counted as soon as it is known, and nothing takes it back: not a sub-run that fails.
3. What a model does not tell counts as more than any limit on it.
"""

from __future__ import annotations

from math import isfinite
from typing import Literal

import msgspec

from placet.errors import UsageError
from placet.ir.to_dict import ToDict
from placet.policy.budget import Budget, Exceeded, Spent
from placet.truncation import truncate_repr

Limit = Literal["input_tokens", "output_tokens", "total_tokens", "cost_usd", "time_s", "iterations"]
ORDER: tuple[Limit, ...] = (
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "cost_usd",
    "time_s",
    "iterations",
)
_NAMES = {
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
    "total_tokens": "tokens",
    "cost_usd": "money",
    "time_s": "time",
    "iterations": "iterations",
}
ITERATIONS = 24


class LoopBudget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits on the usage of models and on time. `None` means no limit."""

    input_tokens: int | None = None
    """Tokens that models read."""
    output_tokens: int | None = None
    """Tokens that models write."""
    total_tokens: int | None = None
    """Tokens read and written."""
    cost_usd: float | None = None
    """Cost in US dollars; the price of the model must be known."""
    time_s: float | None = None
    """Wall-clock time in seconds; time spent waiting for people is not counted."""
    iterations: int | None = None
    """How often a model is asked, for maker and checker each. `None`: 24."""
    cached_weight: float = 1.0
    """How much an input token from a provider's cache counts, from 0 to 1."""

    def __post_init__(self) -> None:
        for name in ORDER:
            value = getattr(self, name)
            if value is None:
                continue
            is_whole = name not in ("cost_usd", "time_s")
            if isinstance(value, bool) or not isinstance(value, int if is_whole else int | float):
                raise UsageError(
                    f"{name} is {truncate_repr(value, 40)}; write {'a whole' if is_whole else 'a'} number."
                )
            if not isfinite(value) or not value > 0:
                raise UsageError(
                    f"{name} is {truncate_repr(value, 40)}; it must be above 0. Left out, there is no limit."
                )
        weight = self.cached_weight
        if type(weight) not in (int, float) or not 0 <= weight <= 1:
            raise UsageError(f"cached_weight is {truncate_repr(weight, 40)}; write a number from 0 to 1.")

    def exceeded(self, used: Budget) -> Exceeded | None:
        """The first limit of which more was used than it allows; None if there is none.

        >>> used = Budget(LoopBudget(output_tokens=2, total_tokens=5), name="round")
        >>> used.charge(Usage(input=5, output=0), 0.0)
        >>> used.exceeded() is None
        True
        >>> used.charge(Usage(input=0, output=3), 0.0)
        >>> used.exceeded().limit
        'output_tokens'
        """
        spent = used.spent
        cached = min(spent.cached, spent.read)
        read = spent.read - cached + cached * self.cached_weight
        amounts: dict[Limit, float] = {
            "input_tokens": read,
            "output_tokens": spent.written,
            "total_tokens": read + spent.written,
            "cost_usd": spent.cost,
            "time_s": used.elapsed_ms / 1000,
        }
        untold = spent.untold + spent.partly_told
        for limit, amount in amounts.items():
            most = getattr(self, limit)
            if most is None:
                continue
            is_untold = bool(spent.unpriced if limit == "cost_usd" else untold) and limit != "time_s"
            if amount > most or is_untold:
                is_untold = is_untold and amount <= most
                if is_untold and limit == "cost_usd" and not untold:
                    return Exceeded(limit, _no_price(most, used.name), used.name)
                return Exceeded(limit, _words(limit, most, used.name, is_untold=is_untold), used.name)
        return None

    def has_room(self, used: Budget, actions: int, tool_calls: int) -> bool:
        """Always: there is no limit on counts of actions."""
        return True

    def most_written(self, used: Budget) -> int | None:
        """With how many more written tokens a limit is exceeded; None if nobody says. What is cut off there
        has exceeded the limit, and is known by that."""
        spent = used.spent
        found: list[int] = []
        if self.output_tokens is not None:
            found.append(self.output_tokens - spent.written)
        if self.total_tokens is not None and self.cached_weight == 1.0:
            found.append(self.total_tokens - spent.read - spent.written)
        return max(min(found) + 1, 1) if found else None

    def time_ms(self) -> float | None:
        """How long it may take."""
        return self.time_s * 1000 if self.time_s is not None else None


class Spend(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """Usage of a round."""

    input_tokens: int = 0
    """Tokens read, including those from a cache."""
    output_tokens: int = 0
    """Tokens written."""
    cached_tokens: int = 0
    """Input tokens that came from a provider's cache."""
    cost_usd: float = 0.0
    """Cost in US dollars, as far as it is known."""
    time_s: float = 0.0
    """Time in seconds."""
    untold: int = 0
    """Answers whose usage the model did not report."""
    unpriced: int = 0
    """Answers whose price is not known."""

    @property
    def total_tokens(self) -> int:
        """Tokens read and written."""
        return self.input_tokens + self.output_tokens

    def plus(self, other: Spend) -> Spend:
        """Both together.

        >>> Spend(input_tokens=2).plus(Spend(input_tokens=3, output_tokens=1)).total_tokens
        6
        """
        return Spend(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})

    @classmethod
    def of(cls, budget: Budget) -> Spend:
        """What was used of a budget."""
        spent = budget.spent
        return cls(
            input_tokens=spent.read,
            output_tokens=spent.written,
            cached_tokens=spent.cached,
            cost_usd=spent.cost,
            time_s=budget.elapsed_ms / 1000,
            untold=spent.untold + spent.partly_told,
            unpriced=spent.unpriced,
        )

    def amounts(self) -> Spent:
        """The same, for a budget to count."""
        return Spent(
            tokens=self.total_tokens,
            read=self.input_tokens,
            written=self.output_tokens,
            cached=self.cached_tokens,
            cost=self.cost_usd,
            untold=self.untold,
            unpriced=self.unpriced,
        )


def _words(limit: Limit, most: float, per: str, *, is_untold: bool = False) -> str:
    amount = f"${most:g}" if limit == "cost_usd" else f"{most:g} s" if limit == "time_s" else f"{most:,.0f}"
    said = f"the limit on {_NAMES[limit]} per {per} was exceeded ({amount})"
    if is_untold:
        return f"the model does not say what it used, so {said}"
    return said


def _no_price(most: float, per: str) -> str:
    return (
        f"the price of the model is not known, so nobody knows whether it keeps the limit on cost per {per} "
        f'(${most:g}): set its price in settings.toml, [models.prices."PROVIDER:NAME"], or limit tokens'
    )


def too_many_iterations(budget: LoopBudget, who: str) -> Exceeded:
    """For a sub-run that was not done when its iterations were used up."""
    most = budget.iterations or ITERATIONS
    return Exceeded(
        "iterations", f"the {who} was not done after {most} iterations, which is the limit", "round"
    )


def round_budget(of_round: LoopBudget, of_day: LoopBudget, day_before: Spend, elapsed: Budget) -> Budget:
    """The budget of a round, below that of its day, of which other rounds have used `day_before`. How long it
    has been at work is what `elapsed` says, and it counts against whatever that counts against."""
    clock = lambda: elapsed.elapsed_ms / 1000  # noqa: E731
    day = Budget(of_day, name="day", clock=clock, started=-day_before.time_s)
    day.take(day_before.amounts())
    if (above := elapsed.parent) is not None:
        # Below the day: what other rounds have used is not this run's.
        day = Budget(above.limits, parent=day, name=above.name, clock=clock)
    return Budget(of_round, parent=day, name="round", clock=clock)


def left_s(budget: Budget) -> float | None:
    """How long it may go on; None if nobody says."""
    left = [
        most - each.elapsed_ms
        for each in budget
        if each.limits and (most := each.limits.time_ms()) is not None
    ]
    return max(min(left), 0.0) / 1000 if left else None
