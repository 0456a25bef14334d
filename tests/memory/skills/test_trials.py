"""The arithmetic by which a skill earns its place."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from placet.memory.skills.skill import Triggers
from placet.memory.skills.trial import Counts, Trial, arm_of, interval, judged, lower_bound

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
    elif state == "retired":
        assert trial.runs >= 60
    else:
        assert trial.runs < 60


@given(trials)
def test_degraded_means_more_than_two_failures_too_many(trial: Trial) -> None:
    assert trial.is_degraded == (trial.offered.failures > trial.offered.successes + 2)


def test_the_bounds_hold_as_often_as_they_say() -> None:
    """In nine of ten trials of equal rates the bound is below zero; each trial is looked at once."""
    chance = random.Random(7)
    false_alarms = 0
    for _ in range(4_000):
        arms = [sum(chance.random() < 0.5 for _ in range(30)) for _ in range(2)]
        trial = Trial(
            offered=Counts(successes=arms[0], failures=30 - arms[0]),
            withheld=Counts(successes=arms[1], failures=30 - arms[1]),
        )
        false_alarms += lower_bound(trial) > 0

    # Counts come in whole numbers: 10 % cannot be met exactly.
    assert 0.05 < false_alarms / 4_000 < 0.13


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


def test_seven_runs_in_an_arm_are_too_few_however_clear() -> None:
    def trial(with_it: int, without: int) -> Trial:
        return Trial(offered=Counts(successes=with_it), withheld=Counts(failures=without))

    assert [judged(trial(*each)) for each in ((7, 20), (20, 7), (8, 8))] == [
        "provisional",
        "provisional",
        "kept",
    ]
