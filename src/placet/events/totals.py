"""Sums over events, the same wherever the events are kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from placet.events.event import Event
from placet.ir.json_value import JsonValue

COUNTED = ("proposal_received", "proposal_ended", "turn_loop_started", "turn_answered", "model_answered")
"""The kinds of events that tell what runs came to, and whose they are."""

_TOKENS = ("input_tokens", "output_tokens", "cached_tokens")
_TOO_MANY = 1e15
"""No count of ours comes near; a damaged file may say anything."""


def cost_by_agent(counted: Iterable[Event]) -> dict[str, dict[str, float]]:
    """What the runs of each source came to, from the events of the kinds in COUNTED, in order: runs, calls,
    actions, retries, time; and where a model was asked, what that took, as `count_answer` counts it."""
    runs: dict[str | None, _Run] = {}
    for event in counted:
        run = runs.setdefault(event.run_id, _Run())
        data: Mapping[str, JsonValue] = event.data
        if isinstance(source := data.get("source"), str) and run.source is None:
            run.source = source
        match event.kind:
            case "proposal_ended":
                run.is_told = True
                run.ended(data.get("cost"))
            case "turn_loop_started":
                run.is_told = True
            case "turn_answered" | "model_answered":
                run.is_told = True
                count_answer(run.models, data)
    agents: dict[str, dict[str, float]] = {}
    for run in runs.values():
        if not run.is_told:
            continue
        total = agents.setdefault(run.source or "unknown", {"runs": 0})
        total["runs"] += 1
        for name, amount in (*run.cost.items(), *run.models.items()):
            total[name] = total.get(name, 0) + amount
    return agents


class _Run:
    def __init__(self) -> None:
        self.source: str | None = None
        self.is_told = False
        """There is something to add up; a run that has only begun is not counted yet."""
        self.cost: dict[str, float] = {}
        self.models: dict[str, float] = {}

    def ended(self, cost: JsonValue) -> None:
        # A run of several plans ends each of them, and each ending tells the cost of the run so far. Taken up
        # again, it reads back what has ended and counts from nothing: so the most that was told is right,
        # also if it never gets to where it stood.
        for name, amount in cost.items() if isinstance(cost, dict) else ():
            if (told := amount_of(amount)) is not None:
                self.cost[name] = max(self.cost.get(name, 0), told)


def count_answer(total: dict[str, float], data: Mapping[str, JsonValue]) -> None:
    """Add what one answer of a model took, as a `turn_answered` or `model_answered` event tells it.

    What was not told is not taken for nothing: `uncounted_answers` and `unpriced_answers` say of how many
    answers the tokens and the price are missing in the sums.

    >>> total: dict[str, float] = {}
    >>> count_answer(total, {"input_tokens": 90, "output_tokens": 10, "cost": None})
    >>> total["input_tokens"], total["cost_usd"], total["unpriced_answers"]
    (90, 0, 1)
    """
    for name in ("model_answers", *_TOKENS, "cost_usd", "uncounted_answers", "unpriced_answers"):
        total.setdefault(name, 0)
    total["model_answers"] += 1
    for name in _TOKENS:
        total[name] += amount_of(data.get(name)) or 0
    if amount_of(data.get("input_tokens")) is None or amount_of(data.get("output_tokens")) is None:
        total["uncounted_answers"] += 1
    cost = amount_of(data.get("cost"))
    total["cost_usd"] += cost or 0
    if cost is None:
        total["unpriced_answers"] += 1


def amount_of(found: JsonValue) -> float | None:
    """A number as an event may tell it; None for nonsense."""
    is_one = isinstance(found, int | float) and not isinstance(found, bool) and 0 <= found < _TOO_MANY
    return found if is_one else None
