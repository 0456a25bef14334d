"""Whatever runs in parallel, a plan leaves what its actions would have left one by one; an aborted one nothing."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given

from assent import ProposalResult
from tests.properties.effort import FIFTH, UNHURRIED, Tally, examples
from tests.properties.plans import Case, cases
from tests.properties.reference import Reference, _writes
from tests.properties.virtual_time import run
from tests.properties.world import ELSEWHERE, World

pytestmark = UNHURRIED

SHARES = {
    "valid": FIFTH,
    "invalid": FIFTH,
    "aborted": FIFTH,
    "with_skips": FIFTH,
    "concurrent_writers": FIFTH,
    "succeeded": FIFTH,
    "refused": 0.05,
    "budget": 0.02,
    "forward": FIFTH,
    "overlapped": FIFTH,
}


def has_concurrent_writers(case: Case) -> bool:
    writers = Counter(key for action in case.actions for key in {*_writes(action)})
    return any(count > 1 for count in writers.values())


def describe(case: Case, result: ProposalResult, report: Any, overlapped: bool) -> dict[str, bool]:
    """What kind of example this was."""
    listed = [a["id"] for a in case.actions]
    return {
        "valid": report.valid,
        "invalid": not report.valid,
        "aborted": result.outcome == "aborted",
        "refused": result.outcome == "refused",
        "budget": result.outcome == "budget",
        "succeeded": result.outcome == "succeeded",
        "partial": result.outcome == "partial",
        "with_skips": any(r.status == "skipped" for r in result.results),
        "concurrent_writers": has_concurrent_writers(case),
        "forward": list(report.execution_order) != [name for name in listed if name in report.execution_order],
        "overlapped": overlapped,
        "compensated": bool(result.compensations),
        "unknown": any(r.status == "unknown" for r in result.results),
    }


class Watch:
    """Sees whether tools overlapped."""

    def __init__(self, world: World) -> None:
        self.most = 0
        running = world.running

        class Counted(set[str]):
            def add(inner, item: str) -> None:  # noqa: N805
                super().add(item)
                self.most = max(self.most, len(inner))

        world.running = Counted(running)


@pytest.mark.parametrize("schedule", ["levels", "dataflow"])
def test_a_plan_leaves_what_its_serial_order_would_leave(schedule: str) -> None:
    tally = Tally()

    @examples(350)
    @given(cases())
    def check(case: Case) -> None:
        expected = Reference(case).run()
        world = World(case, schedule)
        watch = Watch(world)
        report = world.verify()
        start = world.runtime.state.version
        logged = list(world.runtime.state.transitions_since(0))

        result = run(world.execute())

        tally.add(**describe(case, result, report, watch.most > 1))
        assert list(report.execution_order) == expected.order
        assert result.outcome == expected.outcome, result.error
        assert world.state.snapshot() == expected.state
        assert repr(sorted(world.state.snapshot().items())) == repr(sorted(expected.state.items()))
        assert world.elsewhere.snapshot() == ELSEWHERE
        assert [r.action_id for r in result.results] == [a["id"] for a in case.actions]
        log = list(world.runtime.state.transitions_since(0))
        assert log[: len(logged)] == logged
        assert log[-1].version - start == len(log) - len(logged)
        if result.outcome == "aborted":
            assert all(r.rolled_back == (r.status == "succeeded") for r in result.results if r.action_id in expected.order)
            return
        got = {r.action_id: (r.status, r.output, r.state_changes) for r in result.results}
        if result.outcome != "refused":
            assert got == {name: (e.status, e.output, e.changes) for name, e in expected.endings.items()}
        assert not any(r.rolled_back for r in result.results)
        statuses = Counter(e.status for name, e in expected.endings.items() if name not in expected.targets)
        if result.outcome != "refused":
            assert result.cost.actions_rejected == statuses["rejected"]
            assert result.cost.actions_skipped == statuses["skipped"]
            assert result.cost.actions_executed == statuses["succeeded"] + statuses["failed"] + statuses["unknown"]
            assert result.cost.retries == expected.retries
            if not any(a.get("tool") == "peek" for a in case.actions):
                assert result.cost.tool_calls == expected.tool_calls

    check()
    tally.require(SHARES)
