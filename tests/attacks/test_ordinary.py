"""Everyday commands do their work in the sandbox, as root and as an ordinary user."""

from __future__ import annotations

import pytest

from tests.attacks.all_cases import ORDINARY
from tests.attacks.conftest import OutcomeOf
from tests.attacks.hosts import WHOLE, Host


def test_there_are_enough_ordinary_commands() -> None:
    assert len(ORDINARY) >= 28


@pytest.mark.parametrize("name", ORDINARY)
@pytest.mark.parametrize("host", WHOLE, ids=lambda host: host.name)
def test_an_ordinary_command_works(host: Host, name: str, outcome_of: OutcomeOf) -> None:
    outcome = outcome_of(host, name, "bubblewrap")

    assert outcome.effects == [], outcome.said
