"""What kind of example a case was, for the tally."""

from __future__ import annotations

from collections import Counter

from assent import ProposalResult
from assent.verify.report import Report
from tests.properties.effort import FIFTH
from tests.properties.plans import Case
from tests.properties.reference import writes
from tests.properties.world import World

EVERY_KIND = {
    "valid": FIFTH,
    "invalid": FIFTH,
    "aborted": FIFTH,
    "with_skips": FIFTH,
    "concurrent_writers": FIFTH,
}
"""What at least a fifth of the examples must be."""


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
    }


def _has_concurrent_writers(case: Case) -> bool:
    writers = Counter(key for action in case.actions for key in {*writes(action)})
    return any(count > 1 for count in writers.values())
