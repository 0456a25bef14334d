"""The arithmetic by which a skill earns its place."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.memory.skills.skill import Triggers
from placet.memory.skills.trial import LOOKS, Counts, Trial, arm_of, interval, judged, lower_bound, next_look

counts = st.builds(lambda s, f: Counts(successes=s, failures=f), st.integers(0, 60), st.integers(0, 60))
trials = st.builds(lambda a, b: Trial(offered=a, withheld=b), counts, counts)


@given(counts)
def test_the_rate_lies_within_its_interval(found: Counts) -> None:
    low, high = interval(found)

    assert 0 <= low <= high <= 1
    if found.rate is not None:
        assert low <= found.rate + 1e-12
        assert found.rate <= high + 1e-12


@given(trials)
def test_the_bound_lies_below_the_difference(trial: Trial) -> None:
    bound = lower_bound(trial)

    assert bound >= -1
    if trial.offered.rate is not None and trial.withheld.rate is not None:
        assert bound <= trial.offered.rate - trial.withheld.rate + 1e-12


@given(trials)
def test_one_more_success_with_the_skill_never_lowers_the_bound(trial: Trial) -> None:
    more = Trial(
        offered=Counts(successes=trial.offered.successes + 1, failures=trial.offered.failures),
        withheld=trial.withheld,
    )

    assert lower_bound(more) >= lower_bound(trial) - 1e-9


@given(trials)
def test_kept_needs_eight_runs_in_each_arm_and_a_positive_bound(trial: Trial) -> None:
    state = judged(trial)

    if state == "kept":
        assert min(trial.offered.runs, trial.withheld.runs) >= 8
        assert lower_bound(trial) > 0
        assert trial.runs in LOOKS or trial.runs > 60
    elif state == "retired":
        assert trial.runs >= 60
    else:
        assert trial.runs < 60


@given(trials)
def test_degraded_means_more_than_two_failures_too_many(trial: Trial) -> None:
    assert trial.is_degraded == (trial.offered.failures > trial.offered.successes + 2)


@cache
def kept_at(look: int) -> numpy.ndarray[Any, Any]:
    """By runs with a skill, their successes and the successes without it: whether it is kept at a look."""
    kept = numpy.zeros((61, 61, 61), bool)
    for runs in range(8, look - 7):
        for with_it in range(runs + 1):
            for without in range(look - runs + 1):
                offered = Counts(successes=with_it, failures=runs - with_it)
                withheld = Counts(successes=without, failures=look - runs - without)
                kept[runs, with_it, without] = judged(Trial(offered=offered, withheld=withheld)) == "kept"
    return kept


def kept_share(rate: float, gain: float) -> float:
    """How likely it is that a skill is kept in a trial of 60 runs; exact, not simulated."""
    state = numpy.zeros((61, 61, 61))
    state[0, 0, 0] = 1.0
    share = 0.0
    for runs in range(1, 61):
        before, state = state, state * (1 - rate) / 2
        state[:, :, 1:] += before[:, :, :-1] * rate / 2
        state[1:, 1:, :] += before[:-1, :-1, :] * (rate + gain) / 2
        state[1:, :, :] += before[:-1, :, :] * (1 - rate - gain) / 2
        if runs in LOOKS:
            share += float(state[kept_at(runs)].sum())
            state[kept_at(runs)] = 0.0
    return share


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.7, 0.8])
def test_over_all_looks_a_skill_that_does_nothing_is_kept_in_one_of_ten_trials_at_most(rate: float) -> None:
    assert 0.05 < kept_share(rate, 0.0) <= 0.1


@pytest.mark.parametrize("rate", [0.3, 0.5])
def test_a_skill_that_adds_forty_points_is_kept(rate: float) -> None:
    assert kept_share(rate, 0.4) >= 0.95


def test_a_skill_that_takes_forty_points_away_is_never_kept() -> None:
    assert kept_share(0.5, -0.4) < 1e-4


@given(trials)
def test_the_next_look_lies_ahead_until_the_last(trial: Trial) -> None:
    look = next_look(trial)

    assert look in LOOKS
    assert look > trial.runs or trial.runs >= LOOKS[-1]


@given(st.text(max_size=40), st.text(max_size=20), st.integers(1, 5))
def test_an_arm_is_the_same_for_the_same_run(run: str, name: str, version: int) -> None:
    assert arm_of(run, name, version) == arm_of(run, name, version)


def test_half_of_the_runs_are_in_each_arm_whatever_the_skill() -> None:
    for name in ("a", "deploy"):
        share = sum(arm_of(f"run-{n}", name, 1) == "with" for n in range(2_000)) / 2_000
        assert 0.45 < share < 0.55
    assert any(arm_of(f"run-{n}", "a", 1) != arm_of(f"run-{n}", "deploy", 1) for n in range(20))


def test_triggers_fit_by_persona_url_or_keyword() -> None:
    both = Triggers(personas=("ops-*",), urls=("https://github.com/*",), keywords=("deploy", "roll back"))

    assert both.fit("ops-eu", "anything")
    assert both.fit(None, "see https://github.com/a/b, please")
    assert both.fit(None, "The deployments failed")
    assert both.fit(None, "roll it all back")
    assert not both.fit("dev", "see https://example.org about rolls")
    assert Triggers().fit(None, "whatever")


@pytest.mark.parametrize(
    ("with_it", "without", "state"),
    [
        (8, 8, "kept"),
        (7, 9, "provisional"),
        (9, 7, "provisional"),
        (9, 8, "provisional"),
        (16, 16, "kept"),
        (53, 7, "retired"),
        (52, 8, "kept"),
        (61, 61, "kept"),
    ],
)
def test_a_clear_difference_counts_at_a_look_with_eight_runs_in_each_arm(
    with_it: int, without: int, state: str
) -> None:
    trial = Trial(offered=Counts(successes=with_it), withheld=Counts(failures=without))

    assert judged(trial) == state
