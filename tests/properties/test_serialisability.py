"""Whatever runs in parallel, a plan leaves what its actions would leave one by one, in the printed order."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.properties.effort import FIFTH, UNHURRIED, Tally
from tests.properties.kinds import EVERY_KIND, describe
from tests.properties.plans import Case, for_many_cases
from tests.properties.reference import Reference
from tests.properties.virtual_time import run
from tests.properties.world import ELSEWHERE, World

pytestmark = UNHURRIED


@pytest.mark.parametrize(
    ("schedule", "overlapped"),
    [
        # A layer in which something may abort while something else takes effect runs one by one.
        pytest.param("levels", 0.05, id="levels"),
        pytest.param("dataflow", 0.15, id="dataflow"),
    ],
)
def test_a_plan_leaves_what_its_serial_order_would_leave(schedule: str, overlapped: float) -> None:
    tally = Tally()

    def check(case: Case) -> None:
        expected = Reference(case).run()
        world = World(case, schedule)
        report = world.verify()

        result = run(world.execute())

        tally.add(**describe(world, report, result))
        assert list(report.execution_order) == expected.order
        assert result.outcome == expected.outcome, result.error
        assert [r.action_id for r in result.results] == [a["id"] for a in case.actions]
        assert exactly(world.state.snapshot()) == exactly(expected.state)
        assert world.elsewhere.snapshot() == ELSEWHERE
        if result.outcome == "refused":
            assert {r.status for r in result.results} == {"rejected"}
            assert not world.calls
        elif result.outcome != "aborted":
            # How far an aborted plan came depends on the schedule; what it leaves does not.
            _compare_endings(world, result, expected)

    for_many_cases(check, 700)
    tally.require(
        {
            **EVERY_KIND,
            "succeeded": FIFTH,
            "partial": 0.1,
            "refused": 0.05,
            "budget": 0.02,
            "with_unknown": 0.02,
            "listed_out_of_order": 0.1,
            "overlapped": overlapped,
        }
    )


def _compare_endings(world: World, result: Any, expected: Reference) -> None:
    got = {r.action_id: (r.status, exactly(r.output), exactly(r.state_changes)) for r in result.results}
    assert got == {
        name: (e.status, exactly(e.output), exactly(e.changes)) for name, e in expected.endings.items()
    }
    statuses = Counter(e.status for name, e in expected.endings.items() if name not in expected.targets)
    cost = result.cost
    assert not any(r.rolled_back for r in result.results)
    assert not result.compensations
    assert (cost.actions_rejected, cost.actions_skipped) == (statuses["rejected"], statuses["skipped"])
    assert cost.actions_executed == statuses["succeeded"] + statuses["failed"] + statuses["unknown"]
    assert cost.retries == expected.retries
    if not any(a.get("tool") == "peek" for a in world.case.actions):
        # Two equal calls at once both run where only a cache, and no claim of idempotency, could join them.
        assert cost.tool_calls == expected.tool_calls


def exactly(value: Any) -> str:
    """A value as text that tells 1 from true and 1.0, with keys sorted."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {exactly(value[k])}" for k in sorted(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(exactly, value)) + "]"
    return repr(value)
