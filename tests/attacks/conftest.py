"""What the processes that test together share: an attack is run once, and each of its tests looks at it."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from placet.sandbox.isolation import By
from tests.attacks.all_cases import CASES, ORDINARY, TOGETHER
from tests.attacks.hosts import Host, ask_once, can_be
from tests.attacks.run import Asked, Outcome

OutcomeOf = Callable[[Host, str, By], Outcome]


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this run have."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def wanted(request: pytest.FixtureRequest) -> Mapping[str, set[str]]:
    """The cases that each test, by its name, is going to ask for."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for item in request.session.items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and "name" in item.callspec.params:
            found[item.originalname].add(item.callspec.params["name"])
    return found


@pytest.fixture
def outcome_of(request: pytest.FixtureRequest, wanted: Mapping[str, set[str]], shared: Path) -> OutcomeOf:
    """What came of a case on a machine. Others that the same test asks for are run with it.

    Those of other tests are not: where a few attacks are looked at, only those few are run.
    """
    together = wanted[request.node.originalname]

    def find(host: Host, name: str, by: By) -> Outcome:
        can_be(host)
        if name in CASES:
            (batches,) = (each for each in TOGETHER if any(CASES[name] in batch.cases for batch in each))
            cases = [case.name for batch in batches for case in batch.cases]
            names, what = [each for each in cases if each in together], "attacks"
        else:
            names, what = [each for each in ORDINARY if each in together], "ordinary"
        asked = Asked(what=what, names=names, by=by)  # type: ignore[arg-type]
        outcome = ask_once(host, asked, shared)[name]
        if outcome.missing:
            pytest.skip(f"this machine has nothing to attack there, or no such program: {outcome.missing}")
        return outcome

    return find
