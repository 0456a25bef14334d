"""What runs came to in a time range, by day, model, agent, folder or run; what nobody told is not 0."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from placet import EventLog, SqlEvents, open_database
from placet.events.costs import BY, Cost, RunPlace
from placet.events.event import Event

DAY = 86_400.0
NOON = datetime(2026, 3, 28, 12, tzinfo=UTC).timestamp()
"""Of a day; the night after the next one, clocks go forward in Europe."""


def answer(
    run: str,
    at: float,
    tokens: tuple[int, int] | None = (100, 10),
    cost: float | None = 0.5,
    model: str | None = "m-2026",
    chosen: str | None = None,
    kind: str = "turn_answered",
) -> Event:
    read, written = tokens if tokens is not None else (None, None)
    data: dict[str, Any] = {"model": model, "chosen": chosen, "input_tokens": read, "output_tokens": written}
    return Event(1, kind, at, run, run, data={**data, "cached_tokens": None, "cost": cost})


def began(run: str, at: float, source: str) -> Event:
    return Event(1, "turn_loop_started", at, run, run, data={"source": source})


def ended(run: str, at: float, source: str, calls: int, **more: float) -> Event:
    return Event(
        1, "proposal_ended", at, run, run, data={"source": source, "cost": {"tool_calls": calls, **more}}
    )


EVENTS = [
    began("a", NOON - DAY, "clerk"),
    answer("a", NOON - DAY, chosen="acme:m"),
    ended("a", NOON - DAY, "clerk", 2, retries=1, total_duration_ms=5.0),
    began("p", NOON - 100, "coder"),
    answer("a", NOON, cost=None),
    ended("a", NOON, "clerk", 5, retries=1, total_duration_ms=8.0),
    answer("p.1", NOON + 1, model="m-2026"),
    ended("p.1", NOON + 1, "coder", 1),
    answer("x", NOON + DAY, None, None, None, kind="model_answered"),
    ended("x", NOON + DAY, "plan", 1),
    Event(1, "proposal_received", NOON + DAY, "only begun", data={"source": "plan"}),
]
PLACES = {
    "a": RunPlace(None, "/w/a"),
    "p": RunPlace(None, "/w/p"),
    "p.1": RunPlace("p", "/w/p"),
}


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """The same events in memory, and in each kind of database."""
    numbered = [Event(n, e.kind, e.time, e.run_id, data=e.data) for n, e in enumerate(EVENTS, start=1)]
    if request.param == "memory":
        memory = EventLog()
        memory.replace(numbered)
        yield memory
        return
    url = str(tmp_path / "e.db") if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with open_database(url) as database:
        store = SqlEvents(database)
        store.write(numbered).result()
        yield store


def found(log: Any, by: str, **span: float) -> dict[str | None, Cost]:
    return {cost.name: cost for cost in log.costs(by=by, places=lambda _: PLACES, **span).costs}


def test_each_day_has_what_happened_on_it(log: Any) -> None:
    days = found(log, "day")

    assert list(days) == ["2026-03-27", "2026-03-28", "2026-03-29"]
    assert [cost.runs for cost in days.values()] == [1, 3, 1]
    assert [cost.tool_calls for cost in days.values()] == [2, 4, 1]
    assert [cost.retries for cost in days.values()] == [1, 0, 0]
    assert [cost.total_duration_ms for cost in days.values()] == [5.0, 3.0, 0.0]
    assert [cost.model_answers for cost in days.values()] == [1, 2, 1]
    assert [cost.cost_usd for cost in days.values()] == [0.5, 0.5, None]
    assert [cost.unpriced_answers for cost in days.values()] == [0, 1, 1]
    assert [cost.input_tokens for cost in days.values()] == [100, 200, None]


def test_a_day_begins_and_ends_at_midnight_in_utc() -> None:
    midnight = NOON + DAY / 2
    memory = EventLog()
    memory.replace([answer("r", midnight - 0.001), answer("r", midnight)])

    assert [cost.name for cost in memory.costs(by="day").costs] == ["2026-03-28", "2026-03-29"]


def test_a_model_is_called_as_a_person_would_name_it(log: Any) -> None:
    models = found(log, "model")

    assert {name: cost.model_answers for name, cost in models.items()} == {"acme:m": 1, "m-2026": 2, None: 1}
    assert {cost.tool_calls for cost in models.values()} == {None}, "a call is nobody's in particular"
    assert models[None].cost_usd is models[None].output_tokens is None
    assert models["m-2026"].runs == 2


def test_a_run_has_what_the_runs_took_that_it_started(log: Any) -> None:
    runs = found(log, "run")

    assert {name: (cost.runs, cost.tool_calls, cost.cost_usd) for name, cost in runs.items()} == {
        "a": (1, 5, 0.5),
        "p": (2, 1, 0.5),
        "x": (1, 1, None),
    }


def test_agents_and_folders(log: Any) -> None:
    agents, folders = found(log, "agent"), found(log, "folder")

    assert {name: (cost.runs, cost.model_answers) for name, cost in agents.items()} == {
        "clerk": (1, 2),
        "coder": (2, 1),
        "plan": (1, 1),
    }
    assert {name: cost.tool_calls for name, cost in folders.items()} == {"/w/a": 5, "/w/p": 1, None: 1}


@pytest.mark.parametrize("by", BY)
def test_the_groups_add_up_to_the_total(log: Any, by: str) -> None:
    made = log.costs(by=by, places=lambda _: PLACES)

    assert (made.by, made.total.name) == (by, None)
    assert sum(cost.cost_usd or 0 for cost in made.costs) == made.total.cost_usd == 1.0
    assert sum(cost.model_answers for cost in made.costs) == made.total.model_answers == 4
    assert sum(cost.unpriced_answers for cost in made.costs) == made.total.unpriced_answers == 2
    assert made.total.tool_calls == 7
    assert made.total.runs == 4


def test_in_a_range_only_what_happened_in_it_counts_also_of_a_run_that_began_before(log: Any) -> None:
    """What a run came to is told as a sum since its beginning, and whose it is only there."""
    since = found(log, "agent", since=NOON - 50)
    until = found(log, "agent", until=NOON - 50)
    between = log.costs(by="run", since=NOON - 50, until=NOON + 0.5, places=lambda _: PLACES)
    nothing = log.costs(by="day", since=NOON + 9 * DAY)

    assert (since["clerk"].tool_calls, since["clerk"].retries, since["clerk"].cost_usd) == (3, 0, None)
    assert since["clerk"].total_duration_ms == 3.0
    assert list(until) == ["clerk", "coder"]
    assert (until["clerk"].tool_calls, until["clerk"].model_answers) == (2, 1)
    assert [(cost.name, cost.tool_calls) for cost in between.costs] == [("a", 3)]
    assert (nothing.costs, nothing.total.runs, nothing.total.cost_usd) == ([], 0, None)


def test_without_places_a_run_stands_for_itself(log: Any) -> None:
    assert [cost.name for cost in log.costs(by="run").costs].count("p.1") == 1
    assert [cost.name for cost in log.costs(by="folder").costs] == [None]


def test_a_run_that_is_resumed_and_counts_from_nothing_again_is_counted_once() -> None:
    memory = EventLog()
    memory.replace([ended("r", float(n), "s", calls) for n, calls in enumerate([1, 3, 1, 2, 4])])

    assert memory.costs(by="run").total.tool_calls == 4
    assert memory.costs(by="run", since=2.0).total.tool_calls == 1
    assert memory.costs(by="run", until=2.0).total.tool_calls == 3, "also if it is killed right then"


def test_the_dearest_comes_first_and_days_in_order(log: Any) -> None:
    assert [cost.name for cost in log.costs(by="agent").costs] == ["clerk", "coder", "plan"]
    assert list(found(log, "day")) == sorted(str(name) for name in found(log, "day"))


def test_nonsense_is_not_added_up() -> None:
    memory = EventLog()
    memory.replace(
        [
            answer("r", 1e300),
            answer("r", 1.0, cost=float("nan")),
            Event(1, "turn_answered", 2.0, None, data={"model": 5, "chosen": ["x"], "cost": "high"}),
            Event(1, "proposal_ended", 3.0, "r", data={"cost": {"tool_calls": True}, "source": 7}),
        ]
    )

    made = memory.costs(by="model")

    assert [(cost.name, cost.model_answers, cost.cost_usd) for cost in made.costs] == [
        ("m-2026", 2, 0.5),
        (None, 1, None),
    ]
    assert len(memory.costs(by="day").costs) == 2
