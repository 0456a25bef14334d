"""If verify says a plan is fine, nothing of it is refused; if something would be, verify says so.

With tools that succeed and have their declared effects, and where verify left nothing undecided.
"""

from __future__ import annotations

import pytest

from tests.properties.effort import FIFTH, UNHURRIED, Tally
from tests.properties.kinds import EVERY_KIND, describe
from tests.properties.plans import Case, for_many_cases
from tests.properties.test_serialisability import exactly
from tests.properties.virtual_time import run
from tests.properties.world import World

pytestmark = UNHURRIED


@pytest.mark.parametrize("foreseeable", [True, False], ids=["foreseeable", "any"])
def test_verify_and_execute_agree(foreseeable: bool) -> None:
    tally = Tally()

    def check(case: Case) -> None:
        world = World(case, "levels" if len(case.actions) % 2 else "dataflow")
        before = world.runtime.state.version
        report = world.verify()
        assert world.runtime.state.version == before, "verify changed the state"
        assert not world.calls, "verify called a tool"

        result = run(world.execute())

        kinds = describe(world, report, result)
        tally.add(
            **kinds,
            decided=not report.undecided,
            policies=bool(case.policies or case.session_policies),
            capabilities=case.capabilities is not None,
            budgets=case.budget is not None,
            tenants=case.tenant is not None,
        )
        scheduled = [r for r in result.results if r.action_id in report.execution_order]
        went_well = result.outcome != "refused" and all(r.status == "succeeded" for r in scheduled)
        if report.undecided:
            # Still no false alarm: an error is never a guess.
            assert report.valid or not went_well, [i.message for i in report.errors]
            return
        assert report.valid == went_well, (
            [i.message for i in report.errors],
            [(r.action_id, r.status, r.error) for r in result.results],
        )
        if report.valid or result.outcome == "aborted":
            # An aborted plan leaves what it found, and verify says that too.
            known = {k: v for k, v in world.state.snapshot().items() if k not in report.unknown_keys}
            assert exactly(report.simulated_state) == exactly(known)

    for_many_cases(check, 600, tools_fail=False, foreseeable=foreseeable)
    tally.require(
        {
            **EVERY_KIND,
            "decided": 0.9 if foreseeable else 0.5,
            "refused": 0.05,
            "budget": 0.02,
            "policies": FIFTH,
            "capabilities": 0.05,
            "budgets": FIFTH,
            "tenants": FIFTH,
        }
    )


def test_verify_is_the_same_to_the_byte() -> None:
    """The same plan and surroundings give the same report, also from a second runtime and after a run."""
    from placet.ir.codec import encode

    tally = Tally()

    def check(case: Case) -> None:
        first, second = World(case), World(case)
        report = first.verify()

        assert encode(report) == encode(first.verify())
        if case.session != "closed":  # Its id, which the report names, is another each time.
            assert encode(report) == encode(second.verify())
        tally.add(valid=report.valid, invalid=not report.valid)

    for_many_cases(check, 150)
    tally.require({"valid": FIFTH, "invalid": FIFTH})
