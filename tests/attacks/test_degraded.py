"""On poorer machines the report equals reality: what is claimed holds, and what is not claimed is open.

Each machine really lacks something (see hosts.py). It says what it can enforce; then the attacks are run
there, by the means that it would use.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from placet.sandbox.isolation import PROCESS, By, Enforced
from tests.attacks.all_cases import CASES
from tests.attacks.hosts import HERE, Host, ask_facts, ask_once, can_be
from tests.attacks.run import Asked, Outcome, Report
from tests.properties.effort import SOAK

HOSTS: dict[str, tuple[Host, By]] = {
    # The machine, and the means that is left there.
    "no bubblewrap, a user": (Host(name="user", is_user=True, lacks=("bubblewrap",)), "landlock"),
    "no bubblewrap, root": (Host(name="root", is_user=False, lacks=("bubblewrap",)), "landlock"),
    "no namespaces, a user": (Host(name="user", is_user=True, lacks=("user namespaces",)), "landlock"),
    "no namespaces, root": (Host(name="root", is_user=False, lacks=("user namespaces",)), "landlock"),
    "nothing at all": (Host(name="user", is_user=True, lacks=("user namespaces", "landlock")), "nothing"),
    "root that may not mount": (Host(name="root", is_user=False, lacks=("sys_admin",)), "landlock"),
    "no cgroups": (Host(name="root", is_user=False, lacks=("cgroups",)), "bubblewrap"),
}
WHOLE = ("no bubblewrap, a user",) if SOAK else ()
"""In a soak all attacks are run there; on the others, which use the same means, a few of each kind."""
FEW = 3
ALIKE = () if SOAK else ("no namespaces, a user", "no namespaces, root", "root that may not mount")
"""Every day one of each kind is enough there: Landlock does what it does on the two without bubblewrap."""
OPEN = ("mode", "times")
"""What Landlock knows nothing of. Always among the few."""


def report_of(name: str, shared: Path) -> Report:
    """What a machine says of itself."""
    can_be(HOSTS[name][0])
    return ask_facts(HOSTS[name][0], shared)


def outcomes_of(name: str, shared: Path, is_claimed: bool) -> dict[str, Outcome]:
    """What became of the attacks on what is claimed, or on what is not. All of them are run together."""
    report = report_of(name, shared)
    claimed = _chosen(name, report, is_claimed=True)
    others = [each for each in _chosen(name, report, is_claimed=False) if each not in claimed]
    asked = Asked(what="attacks", names=[*claimed, *others], by=report.by)
    found = ask_once(HOSTS[name][0], asked, shared)
    wanted = claimed if is_claimed else others
    return {each: found[each] for each in wanted if not found[each].missing}


def _chosen(name: str, report: Report, *, is_claimed: bool) -> list[str]:
    few = 1 if name in ALIKE and is_claimed else FEW
    chosen = []
    for field, how in msgspec.structs.asdict(report.facts.enforced).items():
        cases = [case.name for case in CASES.values() if case.breaks == field and case.kind != "git"]
        if how == "watchdog":
            cases = [name for name in cases if not CASES[name].by_kernel]
        if (how != "no") == is_claimed:
            chosen += cases if name in WHOLE and is_claimed else _spread(cases, few)
    if is_claimed:
        chosen += _spread([case.name for case in CASES.values() if case.breaks == "always"], few)
    return chosen


def _spread(names: list[str], few: int) -> list[str]:
    """A few of them, from the first to the last."""
    chosen = names if len(names) <= few else names[:: len(names) // few]
    return [name for name in names if name in chosen or name in OPEN or CASES[name].by_kernel]


@pytest.mark.parametrize("name", HOSTS)
def test_the_means_that_is_left_is_used(name: str, shared: Path) -> None:
    report = report_of(name, shared)

    assert report.by == HOSTS[name][1]
    if report.by == "nothing":
        assert report.facts.enforced == Enforced()


@pytest.mark.parametrize("name", HOSTS)
def test_the_level_is_what_its_parts_are(name: str, shared: Path) -> None:
    report = report_of(name, shared)

    held = all(getattr(report.facts.enforced, part) != "no" for part in PROCESS)

    assert (report.facts.isolation == "process") == held


@pytest.mark.parametrize("name", HOSTS)
def test_what_is_claimed_holds(name: str, shared: Path) -> None:
    outcomes = outcomes_of(name, shared, is_claimed=True)

    broken = {each: outcome.effects for each, outcome in outcomes.items() if outcome.effects}
    assert broken == {}
    # One that did not come to run proves nothing.
    assert [each for each, outcome in outcomes.items() if not outcome.has_begun] == []
    assert outcomes


@pytest.mark.parametrize("name", [name for name in HOSTS if HOSTS[name][1] != "bubblewrap"])
def test_what_is_not_claimed_is_open(name: str, shared: Path) -> None:
    """Else the report would be too modest."""
    report = report_of(name, shared)
    outcomes = outcomes_of(name, shared, is_claimed=False)

    open_ones = {CASES[each].breaks for each, outcome in outcomes.items() if outcome.effects}

    assert open_ones == {
        field for field, how in msgspec.structs.asdict(report.facts.enforced).items() if how == "no"
    }


@pytest.mark.parametrize("name", HOSTS)
def test_what_is_required_and_missing_is_refused_with_a_remedy(name: str, shared: Path) -> None:
    report = report_of(name, shared)

    if report.facts.isolation == "process":
        assert report.refusal == ""
    else:
        assert "'process' is required" in report.refusal
        assert any(word in report.refusal for word in ("Install", "namespaces", "confine")), report.refusal


def test_attacks_that_could_not_be_run_are_not_tried_again_by_each_test(tmp_path: Path) -> None:
    asked = Asked(what="attacks", names=["no such attack"])

    with pytest.raises(AssertionError, match="no such attack"):
        ask_once(HERE, asked, tmp_path)
    [failed] = tmp_path.glob("*.failed")
    failed.write_text("what was remembered")

    with pytest.raises(AssertionError, match="what was remembered"):
        ask_once(HERE, asked, tmp_path)
