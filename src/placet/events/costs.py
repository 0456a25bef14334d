"""What runs came to in a time range, grouped: by day, model, agent, folder or run.

Keep true:
1. What nobody told is None, never 0; what some told is their sum, beside how many did not.
2. What happened before the range does not count in it, also of a run that goes on in it.
3. The groups add up to the total. Runs and calls are the exception: a run can be in several groups, and of a
   model it is not known which calls are its.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

import msgspec

from placet.events.event import Event
from placet.events.totals import amount_of
from placet.ir.json_value import JsonValue

By = Literal["day", "model", "agent", "folder", "run"]
"""Grouping of costs."""
BY: tuple[By, ...] = get_args(By)

_DAY_S = 86_400
_TOLD = ("tool_calls", "retries", "total_duration_ms")
"""What the end of a proposal tells of the run so far, and is added up."""


class RunPlace(NamedTuple):
    """Where a run belongs."""

    parent: str | None
    """The run that started it."""
    folder: str | None
    """Where it was started."""


Places = Callable[[Collection[str]], Mapping[str, RunPlace]]
"""Finds the places of runs, and of those that started them."""


class Cost(msgspec.Struct, kw_only=True):
    """The costs of one group."""

    name: str | None = None
    """A day in UTC (`2026-01-31`), a model, an agent, a folder, a run; None if that is not known."""
    runs: int = 0
    """Those that runs started are counted as well."""
    tool_calls: int | None = 0
    """None of a model."""
    retries: int | None = 0
    """Further attempts; None of a model."""
    total_duration_ms: float | None = 0.0
    """The sum of the actions' own times."""
    model_answers: int = 0
    """Answers of models."""
    input_tokens: int | None = None
    """Tokens that models read; None if no model told."""
    output_tokens: int | None = None
    """Tokens that models wrote; None if no model told."""
    cached_tokens: int | None = None
    """Those of the input tokens that came from a cache; None if no model told."""
    cost_usd: float | None = None
    """Money in US dollars; None if no price is known."""
    uncounted_answers: int = 0
    """Of so many answers the tokens are not known, and not in the sums."""
    unpriced_answers: int = 0
    """Of so many answers the price is not known, and not in the sum."""

    def answered(self, data: Mapping[str, JsonValue]) -> None:
        """Add what one answer of a model took."""
        self.model_answers += 1
        read, written = amount_of(data.get("input_tokens")), amount_of(data.get("output_tokens"))
        cached, cost = amount_of(data.get("cached_tokens")), amount_of(data.get("cost"))
        if read is not None:
            self.input_tokens = (self.input_tokens or 0) + int(read)
        if written is not None:
            self.output_tokens = (self.output_tokens or 0) + int(written)
        if cached is not None:
            self.cached_tokens = (self.cached_tokens or 0) + int(cached)
        if cost is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost
        self.uncounted_answers += read is None or written is None
        self.unpriced_answers += cost is None

    def ended(self, more: Mapping[str, float]) -> None:
        """Add what a run came to since it was told last."""
        self.tool_calls = (self.tool_calls or 0) + int(more.get("tool_calls", 0))
        self.retries = (self.retries or 0) + int(more.get("retries", 0))
        self.total_duration_ms = (self.total_duration_ms or 0.0) + more.get("total_duration_ms", 0.0)

    def add(self, other: Cost) -> None:
        """Add what another group came to."""
        for name in self.__struct_fields__[1:]:
            mine, its = getattr(self, name), getattr(other, name)
            if its is not None:
                setattr(self, name, its if mine is None else mine + its)


class Costs(msgspec.Struct, kw_only=True):
    """The costs of all groups."""

    by: By
    """What they are grouped by."""
    costs: list[Cost]
    """Days in order, all others from the dearest on."""
    total: Cost
    """All groups together."""


class _Run:
    def __init__(self) -> None:
        self.source: str | None = None
        self.told: dict[str, float] = {}

    def more(self, cost: JsonValue) -> dict[str, float]:
        """What came on top of what was told before. Each end of a proposal tells the cost of the run so far;
        resumed, a run reads back what has ended and counts from nothing."""
        more: dict[str, float] = {}
        for name in _TOLD:
            told = amount_of(cost.get(name)) if isinstance(cost, dict) else None
            if told is not None and told > self.told.get(name, 0):
                more[name] = told - self.told.get(name, 0)
                self.told[name] = told
        return more


def add_up(
    counted: Iterable[Event],
    *,
    by: By,
    since: float | None = None,
    until: float | None = None,
    places: Mapping[str, RunPlace] | None = None,
) -> Costs:
    """What runs came to, from events of the kinds in `totals.COUNTED`, those of each run in order.

    Events before `since` are there for the runs that go on after it: they say whose a run is, and what it had
    come to by then.
    """
    places = places or {}
    runs: dict[str | None, _Run] = {}
    groups: dict[str | None, Cost] = {}
    nobodys = Cost()  # What is in no group.
    seen: set[tuple[str | None, str | None]] = set()
    for event in counted:
        run = runs.setdefault(event.run_id, _Run())
        data: Mapping[str, JsonValue] = event.data
        if run.source is None and isinstance(source := data.get("source"), str):
            run.source = source
        is_answer = event.kind in ("turn_answered", "model_answered")
        more = run.more(data.get("cost")) if event.kind == "proposal_ended" else {}
        if event.kind == "proposal_received" or (since is not None and event.time < since):
            continue
        if until is not None and event.time > until:
            continue
        if by == "model" and not is_answer:
            seen.add((event.run_id, _NO_GROUP))
            nobodys.ended(more)
            continue
        name = _name(by, event, places)
        group = groups.setdefault(name, Cost(name=name))
        if (event.run_id, name) not in seen:
            seen.add((event.run_id, name))
            group.runs += 1
        if is_answer:
            group.answered(data)
        elif more:
            group.ended(more)
    if by == "agent":
        groups = _by_source(groups, runs)
    total = Cost()
    for group in (*groups.values(), nobodys):
        total.add(group)
    total.runs = len({run for run, _ in seen})
    if by == "model":
        for group in groups.values():
            group.tool_calls = group.retries = group.total_duration_ms = None
    if by == "day":
        return Costs(by=by, costs=sorted(groups.values(), key=lambda cost: cost.name or ""), total=total)
    return Costs(by=by, costs=sorted(groups.values(), key=_dearest), total=total)


def _by_source(by_run: Mapping[str | None, Cost], runs: Mapping[str | None, _Run]) -> dict[str | None, Cost]:
    groups: dict[str | None, Cost] = {}
    for run, cost in by_run.items():
        source = runs[run].source
        groups.setdefault(source, Cost(name=source)).add(cost)
    return groups


_NO_GROUP = "\0"
"""For a run in the place of a group's name: it counts in the total alone."""


def _dearest(cost: Cost) -> tuple[float, int, int, bool, str]:
    tokens = (cost.input_tokens or 0) + (cost.output_tokens or 0)
    return -(cost.cost_usd or 0.0), -tokens, -(cost.tool_calls or 0), cost.name is None, cost.name or ""


def _name(by: By, event: Event, places: Mapping[str, RunPlace]) -> str | None:
    match by:
        case "day":
            return _day(event.time // _DAY_S)
        case "model":
            names = (event.data.get("chosen"), event.data.get("model"))
            return next((name for name in names if isinstance(name, str) and name), None)
        case "agent":
            return event.run_id  # Whose it is may be told later.
        case "folder":
            place = places.get(event.run_id or "")
            return place.folder if place is not None else None
        case "run":
            return top_of(event.run_id, places)


@lru_cache(maxsize=1000)
def _day(number: float) -> str | None:
    """Which day it is, so many days after the epoch."""
    try:
        return f"{datetime.fromtimestamp(number * _DAY_S, UTC):%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        return None


def top_of(run_id: str | None, places: Mapping[str, RunPlace]) -> str | None:
    """The run that a run belongs to in the end."""
    passed: set[str] = set()
    while run_id is not None and run_id not in passed:
        passed.add(run_id)
        place = places.get(run_id)
        if place is None or place.parent is None or place.parent not in places:
            break
        run_id = place.parent
    return run_id
