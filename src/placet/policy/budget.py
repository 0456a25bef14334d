"""How much a run may use, alone and together with the runs above it.

A `Budget` counts what was used against limits, and passes all of it on to its `parent`: a turn's answer
counts for its agent, for the agent that called that one, and for the team. The same arithmetic serves plans,
turns, coding sessions, teams and rounds of loops; only their limits differ (`Limits`).

Keep true:
1. A share of a count is reserved when an action is admitted, in serial order, never after it has run.
2. A budget given for one call only tightens the runtime's own.
3. A parent counts each child once, by its name: a child that is opened again, and goes through what it used
   before, adds nothing until it uses more than it ever had.
4. What is not told (None) uses up every limit on it, here and above: one that adds up zeros would never end
   anything.
5. Time in which a person is waited for counts nowhere above either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import msgspec

from placet.ir.usage import Usage

TIME = "max_duration_ms"
_NAMES = {TIME: "time", "max_tokens": "tokens", "max_cost": "money"}


class Exceeded(NamedTuple):
    """A limit that leaves nothing to go on with."""

    limit: str
    """Name of the limit, as its limits spell it."""
    words: str
    per: str = ""
    """Name of the budget that it belongs to."""


class Limits(Protocol):
    """Limits of a budget."""

    def exceeded(self, used: Budget) -> Exceeded | None:
        """The limit on tokens, money or time that leaves nothing to go on with; None if there is none."""
        ...

    def has_room(self, used: Budget, actions: int, tool_calls: int) -> bool:
        """Whether so many more actions, of them so many tool calls, stay within the limits on counts."""
        ...

    def most_written(self, used: Budget) -> int | None:
        """How many tokens the next answer can have; None if nobody says."""
        ...

    def time_ms(self) -> float | None:
        """How long the run may take; None if nobody says."""
        ...


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

    def exceeded(self, used: Budget) -> Exceeded | None:
        """Return the limit on time, tokens or money that is reached, or `None`.

        Args:
            used: What was used so far.
        """
        if self.max_duration_ms is not None and used.elapsed_ms >= self.max_duration_ms:
            return Exceeded(TIME, self.time_words())
        spent = used.spent
        if self.max_tokens is not None and (spent.tokens >= self.max_tokens or spent.untold):
            return self._reached("max_tokens", f"{self.max_tokens:,} tokens", is_told=not spent.untold)
        if self.max_cost is not None and (spent.cost >= self.max_cost or spent.unpriced):
            return self._reached("max_cost", f"${self.max_cost:g}", is_told=not spent.unpriced)
        return None

    def has_room(self, used: Budget, actions: int, tool_calls: int) -> bool:
        """Return whether so many more actions stay within the limits on counts.

        Args:
            used: What was used so far.
            actions: Number of actions.
            tool_calls: How many of them are tool calls.
        """
        spent = used.spent
        return (self.max_actions is None or spent.actions + actions <= self.max_actions) and (
            not tool_calls
            or self.max_tool_calls is None
            or spent.tool_calls + tool_calls <= self.max_tool_calls
        )

    def most_written(self, used: Budget) -> int | None:
        """Return how many tokens the next answer can have; `None` without a limit on tokens.

        Args:
            used: What was used so far.
        """
        return None if self.max_tokens is None else max(1, self.max_tokens - used.spent.tokens)

    def time_ms(self) -> float | None:
        """Return how long the run may take in milliseconds; `None` without a limit."""
        return self.max_duration_ms

    def time_words(self) -> str:
        """Return in words that the time is over."""
        return f"the limit on time was reached ({(self.max_duration_ms or 0) / 1000:g} s)"

    @staticmethod
    def _reached(limit: str, amount: str, *, is_told: bool) -> Exceeded:
        name = _NAMES[limit]
        if is_told:
            return Exceeded(limit, f"the limit on {name} was reached ({amount})")
        words = f"the model does not say what it used, so the limit on {name} counts as reached ({amount})"
        return Exceeded(limit, words)


class Spent(msgspec.Struct):
    """Amounts that were used."""

    actions: int = 0
    tool_calls: int = 0
    tokens: int = 0
    """All of them, as far as they were told."""
    read: int = 0
    written: int = 0
    cached: int = 0
    """Of those that were read, from a provider's cache."""
    cost: float = 0.0
    """In US dollars, as far as it is known."""
    untold: int = 0
    """Reports without any number of tokens."""
    partly_told: int = 0
    """Answers that told only what was read, or only what was written."""
    unpriced: int = 0
    """Reports without a cost."""

    @classmethod
    def of_answer(cls, usage: Usage | None, cost: float | None) -> Spent:
        """Return what one answer of a model took."""
        read, written = (usage.input, usage.output) if usage is not None else (None, None)
        is_untold = read is None and written is None
        return cls(
            tokens=(read or 0) + (written or 0),
            read=read or 0,
            written=written or 0,
            cached=(usage.cached or 0) if usage is not None else 0,
            cost=cost or 0.0,
            untold=int(is_untold),
            partly_told=int(not is_untold and (read is None or written is None)),
            unpriced=int(cost is None),
        )

    def add(self, other: Spent) -> None:
        """Add amounts to these."""
        for name in _AMOUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def beyond(self, other: Spent) -> Spent:
        """Return by how much these are more than others, amount by amount; never below zero."""
        return Spent(*(max(getattr(self, name) - getattr(other, name), 0) for name in _AMOUNTS))


_AMOUNTS = Spent.__struct_fields__


class Budget:
    """What was used of some limits, and of those of the budgets above."""

    __slots__ = (
        "_clock",
        "_patient",
        "_patient_since",
        "_prepaid",
        "_share",
        "_shares",
        "has_limits",
        "limits",
        "name",
        "parent",
        "spent",
        "started",
        "waited_ms",
    )

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        parent: Budget | None = None,
        name: str = "",
        clock: Callable[[], float] = lambda: 0.0,
        started: float = 0.0,
    ) -> None:
        """Create a budget of which nothing is used.

        Args:
            limits: Its limits.
            parent: The budget that all of it counts against as well.
            name: By which the parent knows it again.
            clock: Seconds by a clock that never goes back.
            started: When it began, by that clock.
        """
        self.limits = limits
        self.parent = parent
        self.name = name
        self.has_limits: bool = limits is not None or (parent is not None and parent.has_limits)
        """Whether anything can be exceeded, here or above."""
        self.spent = Spent()
        self.started = started
        self.waited_ms = 0.0
        """Of the time that has passed, what went by waiting for people."""
        self._clock = clock
        self._patient = 0
        """How many wait for people right now."""
        self._patient_since = 0.0
        self._prepaid: Spent | None = None
        self._shares: dict[str, Spent] | None = None
        """By name, what each child has passed on."""
        self._share: Spent | None = None
        if parent is not None:
            if parent._shares is None:
                parent._shares = {}
            self._share = parent._shares.setdefault(name, Spent())

    def __iter__(self) -> Iterator[Budget]:
        """This one, and those above it."""
        budget: Budget | None = self
        while budget is not None:
            yield budget
            budget = budget.parent

    # Amounts

    def charge(self, usage: Usage | None, cost: float | None) -> None:
        """Count what one answer of a model took."""
        self.take(Spent.of_answer(usage, cost))

    def spend(self, tokens: int | None, cost: float | None) -> None:
        """Count what somebody says was used."""
        self.take(
            Spent(
                tokens=tokens or 0, cost=cost or 0.0, untold=int(tokens is None), unpriced=int(cost is None)
            )
        )

    def take(self, more: Spent) -> None:
        """Count amounts, here and above."""
        if self._prepaid is not None:
            prepaid, self._prepaid = self._prepaid, None
            left = prepaid.beyond(more)
            if left != Spent():
                self._prepaid = left
            more = more.beyond(prepaid)
        self.spent.add(more)
        if self.parent is not None:
            self._pass_on()

    def prepay(self, usage: Usage | None, cost: float | None) -> None:
        """Count what is going to be charged later, as part of something larger, already now."""
        more = Spent.of_answer(usage, cost)
        prepaid, self._prepaid = self._prepaid, None
        self.take(more)
        if prepaid is not None:
            more.add(prepaid)
        self._prepaid = more

    def restore(self, known: Spent) -> None:
        """Have used at least so much: a journal says so."""
        self.spent.add(known.beyond(self.spent))
        if self.parent is not None:
            self._pass_on()

    def continue_from(self, earlier: Budget) -> None:
        """Count all that another budget has counted, the time since it began included."""
        self.take(earlier.spent)
        self.waited_ms += earlier.waited_ms
        self.started = earlier.started

    def _pass_on(self) -> None:
        assert self.parent is not None
        assert self._share is not None
        more = self.spent.beyond(self._share)
        self._share.add(more)
        self.parent.take(more)

    def exceeded(self, *, alone: bool = False) -> Exceeded | None:
        """The first limit on tokens, money or time that leaves nothing to go on with: of this one, then of
        those above, unless it is asked `alone`."""
        if not self.has_limits:
            return None
        for budget in self:
            if budget.limits is not None and (over := budget.limits.exceeded(budget)) is not None:
                return over._replace(per=over.per or budget.name)
            if alone:
                break
        return None

    def most_written(self) -> int | None:
        """How many tokens the next answer can have; None if nobody says."""
        found = [b.limits.most_written(b) for b in self if b.limits is not None]
        return min((each for each in found if each is not None), default=None)

    # Counts

    def may_run_out(self, actions: int, tool_calls: int) -> bool:
        """Whether so many more could meet a limit on counts: then who gets a share depends on the order."""
        return any(b.limits is not None and not b.limits.has_room(b, actions, tool_calls) for b in self)

    def reserve(self, *, is_tool_call: bool) -> bool:
        """Take a share for one action; false if there is none left. Tokens and money of the budgets above are
        looked at before a model is asked, not here: what it was asked for last may still be done."""
        calls = int(is_tool_call)
        if self.may_run_out(1, calls) or self.exceeded(alone=True) is not None:
            return False
        self.count(calls)
        return True

    def count(self, tool_calls: int) -> None:
        """Count one action, which is a tool call or not."""
        self.spent.actions += 1
        self.spent.tool_calls += tool_calls
        if self.parent is not None:
            self._pass_on()

    # Time

    @property
    def elapsed_ms(self) -> float:
        """How long it has been in use; time spent waiting for people is not counted."""
        return (self._clock() - self.started) * 1000 - self.waited_until_now

    @property
    def waited_until_now(self) -> float:
        """The milliseconds that went by waiting for people, also if somebody is waited for right now."""
        return self.waited_ms + ((self._clock() - self._patient_since) * 1000 if self._patient else 0.0)

    def wait_begins(self) -> None:
        """Somebody waits for a person from now on."""
        for budget in self:
            if not budget._patient:
                budget._patient_since = budget._clock()
            budget._patient += 1

    def wait_ends(self) -> None:
        """They wait no longer."""
        for budget in self:
            budget._patient -= 1
            if not budget._patient:
                budget.waited_ms += (budget._clock() - budget._patient_since) * 1000
