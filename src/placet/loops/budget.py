"""What a round, and a day of rounds, may use; and what was used.

Keep true:
1. Exceeded means more than the limit. Of several that are exceeded, the first in the order of the fields is
   named; a round's own limits come before those of the day.
2. What was used is counted as soon as it is known, and nothing takes it back: not a sub-run that fails.
3. What a model does not tell counts as more than any limit on it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from placet.errors import BudgetSpent, UsageError
from placet.inference.model import Model, Request
from placet.inference.usage import Usage
from placet.ir.to_dict import ToDict
from placet.truncation import truncate_repr
from placet.turns.on_budget import OnBudget

if TYPE_CHECKING:
    from placet.runtime.open_run import OpenRun

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

    def with_answer(self, usage: Usage | None, cost: float | None) -> Spend:
        """This, and what one answer took."""
        is_told = usage is not None and usage.input is not None and usage.output is not None
        return self.plus(
            Spend(
                input_tokens=(usage.input or 0) if usage is not None else 0,
                output_tokens=(usage.output or 0) if usage is not None else 0,
                cached_tokens=(usage.cached or 0) if usage is not None else 0,
                cost_usd=cost or 0.0,
                untold=int(not is_told),
                unpriced=int(cost is None),
            )
        )


class Exceeded(NamedTuple):
    """A limit that was exceeded."""

    limit: Limit
    per: Literal["round", "day"] = "round"
    words: str = ""


def exceeded(budget: LoopBudget, spend: Spend, *, per: Literal["round", "day"] = "round") -> Exceeded | None:
    """The first limit of which more was used than it allows; None if there is none.

    >>> exceeded(LoopBudget(total_tokens=5), Spend(input_tokens=5)) is None
    True
    >>> exceeded(LoopBudget(output_tokens=2, total_tokens=5), Spend(input_tokens=5, output_tokens=3)).limit
    'output_tokens'
    """
    cached = min(spend.cached_tokens, spend.input_tokens)
    read = spend.input_tokens - cached + cached * budget.cached_weight
    used: dict[Limit, float] = {
        "input_tokens": read,
        "output_tokens": spend.output_tokens,
        "total_tokens": read + spend.output_tokens,
        "cost_usd": spend.cost_usd,
        "time_s": spend.time_s,
    }
    for limit in ORDER:
        most = getattr(budget, limit)
        if most is None or limit not in used:
            continue
        is_untold = bool(spend.unpriced if limit == "cost_usd" else spend.untold) and limit != "time_s"
        if used[limit] > most or is_untold:
            is_untold = is_untold and used[limit] <= most
            if is_untold and limit == "cost_usd" and not spend.untold:
                return Exceeded(limit, per, _no_price(most, per))
            return Exceeded(limit, per, _words(limit, most, per, is_untold=is_untold))
    return None


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
        "iterations", "round", f"the {who} was not done after {most} iterations, which is the limit"
    )


class Purse:
    """What one round may use, of its own and of what is left of the day."""

    def __init__(
        self,
        of_round: LoopBudget,
        of_day: LoopBudget,
        *,
        day_before: Spend | None = None,
        elapsed_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`day_before` is what other rounds have used today; `elapsed_s` says how long this one has been at
        work."""
        self._of_round = of_round
        self._of_day = of_day
        self._day_before = day_before or Spend()
        self._elapsed_s = elapsed_s
        self._spent = Spend()

    @property
    def spent(self) -> Spend:
        """What this round has used so far."""
        return msgspec.structs.replace(self._spent, time_s=self._elapsed_s())

    def count(self, usage: Usage | None, cost: float | None) -> None:
        """One more answer."""
        self._spent = self._spent.with_answer(usage, cost)

    def restore(self, spend: Spend) -> None:
        """What sub-runs that have ended had used."""
        self._spent = self._spent.plus(msgspec.structs.replace(spend, time_s=0.0))

    def exceeded(self) -> Exceeded | None:
        """The first limit of which more was used than it allows."""
        spent = self.spent
        return exceeded(self._of_round, spent) or exceeded(
            self._of_day, self._day_before.plus(spent), per="day"
        )

    def left_s(self) -> float | None:
        """How long it may go on; None if nobody says."""
        spent = self._elapsed_s()
        limits = [(self._of_round.time_s, spent), (self._of_day.time_s, self._day_before.time_s + spent)]
        left = [most - used for most, used in limits if most is not None]
        return max(min(left), 0.0) if left else None

    def most_written(self) -> int | None:
        """With how many more written tokens a limit is exceeded; None if nobody says."""
        spent = self._spent
        day = self._day_before.plus(spent)
        found: list[int] = []
        for budget, used in ((self._of_round, spent), (self._of_day, day)):
            if budget.output_tokens is not None:
                found.append(budget.output_tokens - used.output_tokens)
            if budget.total_tokens is not None and budget.cached_weight == 1.0:
                found.append(budget.total_tokens - used.total_tokens)
        return max(min(found) + 1, 1) if found else None


class OnPurse(OnBudget):
    """A model asked on the budget of a round."""

    def __init__(self, model: Model, run: OpenRun, purse: Purse) -> None:
        super().__init__(model, run)
        self._purse = purse
        self.spent = Spend()
        """What this one has used."""

    def count(self, usage: Usage | None, cost: float | None) -> None:
        """Take what an answer took from what the round may use."""
        self._purse.count(usage, cost)
        self.spent = self.spent.with_answer(usage, cost)

    def _asked(self, request: Request) -> Request:
        over = self._purse.exceeded()
        if over is not None:
            raise BudgetSpent(over.words)
        most = self._purse.most_written()
        if most is None:
            return request
        # One more than is left: what is cut off there has exceeded the limit, and is known by that.
        return msgspec.structs.replace(request, max_tokens=min(most, request.max_tokens or most))
