"""Budgets of a day over all workers: who is not begun, who is stopped, and that nothing counts twice."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from placet.app.work import TaskJob
from placet.engine.protocol import DayBudget, Ticket
from placet.engine.queue_engine import submission_data
from placet.engine.spending import DaySpending
from placet.engine.sql import SqlSubmissions
from placet.engine.submission import Submission
from placet.policy.budget import CostBudget
from placet.storage.location import open_database
from tests.engine.fleet import Fleet

on_both = pytest.mark.parametrize("fleet", ["embedded", "dbos"], indirect=True)


def answer(cost: float | None = 0.3, tool: str = "", name: str = "") -> dict[str, Any]:
    """An answer of 100 tokens: a call, or the end."""
    calls = [{"name": tool, "arguments": {"name": name}}] if tool else []
    return {"text": "so", "calls": calls, "usage": {"input": 90, "output": 10}, "cost": cost}


def task(fleet: Fleet, name: str, *turns: dict[str, Any]) -> TaskJob:
    """A task whose model answers so; asked again, a script begins anew."""
    path = fleet.folder / f"{name}.json"
    path.write_text(json.dumps({"turns": turns}))
    return TaskJob(folder=str(fleet.folder), text="go", model=f"scripted:{path}", permissions="full_access")


def why_ended(fleet: Fleet, run_id: str) -> str:
    (event,) = fleet.records.events.query(run=run_id, kind="turn_loop_ended")
    return json.dumps(event.data)


@on_both
async def test_tenant_that_has_spent_its_day_is_not_begun_and_another_is(fleet: Fleet) -> None:
    workers = [fleet.start("--tenant-budget", "0.5", concurrency=1) for _ in range(2)]
    spends = await fleet.submit(task(fleet, "first", answer(0.6)), tenant="ann")
    fleet.stands(spends, "ended")

    kept = await fleet.submit(fleet.plan(("act", "ann")), tenant="ann")
    held = fleet.until(lambda: (run := fleet.engine.submissions.get(kept)) is not None and run.held and run)
    other = await fleet.submit(fleet.plan(("act", "bob")), tenant="bob")
    fleet.stands(other, "ended")

    tomorrow = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    assert isinstance(held, Submission)
    assert (held.state, held.due, held.version) == ("queued", tomorrow.timestamp(), None)
    why = submission_data(fleet.engine, held)["waits_for"]
    assert "--tenant-budget" in why
    assert f"{tomorrow:%Y-%m-%d} 00:00 UTC" in why
    told = [event for each in workers for event in each.drained() if event["event"] == "deferred"]
    assert [(event["run_id"], event["limit"]) for event in told] == [(kept, "tenant_budget")]
    assert fleet.effects() == [f"act bob {other}"]

    fleet.start("--tenant-budget", "5")  # The limits of the worker that was started last hold.
    assert fleet.stands(kept, "ended").outcome == "succeeded"


@on_both
@pytest.mark.parametrize(
    ("option", "most"),
    [("--tenant-budget", "0.5"), ("--queue-tokens", "150")],
)
async def test_run_is_stopped_when_the_day_is_spent(fleet: Fleet, option: str, most: str) -> None:
    fleet.start(option, most)
    turns = [answer(tool="act", name="a"), answer(tool="act", name="b"), answer(tool="act", name="c")]
    run_id = await fleet.submit(task(fleet, "long", *turns), tenant="ann")

    ended = fleet.stands(run_id, "ended")

    assert ended.outcome != "succeeded"
    assert len(fleet.records.events.query(run=run_id, kind="turn_answered")) == 2
    assert fleet.effects() == [f"act a {run_id}"]
    assert option in why_ended(fleet, run_id)


@on_both
async def test_spending_of_a_killed_and_resumed_run_counts_once(fleet: Fleet) -> None:
    first = fleet.start("--tenant-budget", "0.55")
    turns = [answer(tool="look", name="a"), answer()]
    run_id = await fleet.submit(task(fleet, "killed", *turns), tenant="ann")
    fleet.until(fleet.effects)
    fleet.until(lambda: fleet.records.events.query(run=run_id, kind="turn_answered"))
    first.kill()
    task(fleet, "killed", *turns[1:])
    fleet.go("a")
    fleet.start("--tenant-budget", "0.55")

    # Counted twice, the first answer would leave nothing for the second.
    assert fleet.stands(run_id, "ended").outcome == "succeeded"
    spending = DaySpending(fleet.engine.submissions, fleet.records, fleet.queue)
    for most, limit in ((0.59, "tenant_budget"), (0.61, None)):
        fleet.engine.submissions.set_day_budget(fleet.queue, DayBudget(tenant=CostBudget(max_cost=most)))
        over = spending.exceeded("ann")
        assert (over.limit if over is not None else None) == limit
    assert spending.exceeded("bob") is None


def test_deferred_submission_can_be_stopped_and_looks_again_under_new_limits(database_url: str) -> None:
    with open_database(database_url) as database:
        table = SqlSubmissions(database)
        for name in ("a", "b"):
            table.add(Submission(run_id=name, kind="plan", request="{}", queue="q"))
        tickets = [Ticket(run_id=name, number=1, queue="q") for name in ("a", "b")]
        deferred = [table.defer(each, "spent", 4e9) for each in tickets]
        outdated = table.defer(tickets[0], "spent", 4e9)
        nothing_due = table.to_place("w", "q", 10)
        table.cancel("a", "changed my mind")
        table.set_day_budget("q", DayBudget())

        placed = table.to_place("w", "q", 10)

        assert (deferred, outdated, nothing_due) == ([True, True], False, [])
        assert [(each.run_id, each.held) for each in placed] == [("b", None)]
        assert table.day_budget("q") is None
