"""Every attack is run in the sandbox, as root and as an ordinary user, and has no effect.

The same attacks are run where nothing holds them, as an ordinary user: there they work. One that does not
would hold everywhere, and prove nothing.
"""

from __future__ import annotations

import pytest

from tests.attacks.all_cases import CASES
from tests.attacks.conftest import OutcomeOf
from tests.attacks.hosts import AS_USER, HERE, WHOLE, Host
from tests.properties.effort import SOAK

BARE = [name for name, case in CASES.items() if case.bare or case.breaks == "always"]


def test_there_are_enough_attacks_of_every_kind() -> None:
    assert len(CASES) >= 120
    assert len(BARE) >= 120
    assert {case.kind for case in CASES.values()} == {
        "files", "git", "secrets", "network", "processes", "kernel", "limits", "terminal",
    }  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("host", WHOLE, ids=lambda host: host.name)
def test_an_attack_has_no_effect(host: Host, name: str, outcome_of: OutcomeOf) -> None:
    outcome = outcome_of(host, name, "bubblewrap")

    assert outcome.has_begun, f"it did not come to run: {outcome.said}"
    assert outcome.effects == [], outcome.said


@pytest.mark.parametrize("name", BARE if SOAK else BARE[::5])
def test_an_attack_works_where_nothing_holds_it(name: str, outcome_of: OutcomeOf) -> None:
    """But for what is held for every command, sandbox or not."""
    host = HERE if HERE.is_user else AS_USER

    outcome = outcome_of(host, name, "nothing")

    assert outcome.has_begun, outcome.said
    assert bool(outcome.effects) == (CASES[name].breaks != "always"), outcome.said
