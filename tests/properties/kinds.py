"""What kind of example a case was, for the tally."""

from __future__ import annotations

from collections import Counter

from placet import ProposalResult
from placet.verify.report import Report
from tests.properties.effort import FIFTH
from tests.properties.plans import TOOLS, Case, Wire
from tests.properties.reference import writes
from tests.properties.world import World

EVERY_KIND = {
    "valid": FIFTH,
    "invalid": FIFTH,
    "aborted": FIFTH,
    "with_skips": FIFTH,
    "concurrent_writers": FIFTH,
    "uncompensable": 0.05,
    "called_irreversible": 0.1,
}
"""What the examples must be: at least a fifth of them most things, and some the rest."""


def describe(world: World, report: Report, result: ProposalResult) -> dict[str, bool]:
    """Facts about one example."""
    case = world.case
    listed = [a["id"] for a in case.actions if a["id"] in report.execution_order]
    return {
        "valid": report.valid,
        "invalid": not report.valid,
        "aborted": result.outcome == "aborted",
        "refused": result.outcome == "refused",
        "budget": result.outcome == "budget",
        "succeeded": result.outcome == "succeeded",
        "partial": result.outcome == "partial",
        "with_skips": any(r.status == "skipped" for r in result.results),
        "with_unknown": any(r.status == "unknown" for r in result.results),
        "concurrent_writers": _has_concurrent_writers(case),
        "listed_out_of_order": list(report.execution_order) != listed,
        "overlapped": bool(world.overlaps),
        "compensated": bool(result.compensations),
        "uncompensable": case.mood != "broken"
        and any(_lacks_compensation(a) and "reversibility" not in a for a in case.actions),
        "called_irreversible": any(
            _lacks_compensation(a) and a.get("reversibility") == "irreversible" for a in case.actions
        ),
    }


def _lacks_compensation(action: Wire) -> bool:
    tool = TOOLS.get(action.get("tool", ""))
    return tool is not None and tool.reversibility == "compensable" and "compensation" not in action


def _has_concurrent_writers(case: Case) -> bool:
    writers = Counter(key for action in case.actions for key in {*writes(action)})
    return any(count > 1 for count in writers.values())
