"""Whether two plans leave the same state, tried on samples."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from placet.ir.codec import encode
from placet.verify import equivalent, simulate
from tests.verify.plans import Fields, call, claim, plan, read, write
from tests.verify.test_simulate import STATES, plans, same


def when(operator: str, value: Any = None) -> Fields:
    return {"preconditions": [{"key": "k", "operator": operator, "value": value}], "failure_behavior": "skip"}


def test_a_plan_is_equivalent_to_itself() -> None:
    document = plan(write("a", "k"), claim("b", "k", 1))

    result = equivalent(document, document)

    assert result.equivalent
    assert result.tier == "sampled"
    assert result.counterexample is None
    assert result.samples > 1


def test_reads_and_names_make_no_difference() -> None:
    assert equivalent(plan(write("a", "k"), read("r", "l")), plan(write("z", "k"))).equivalent


def test_another_value_is_told_with_a_state_that_shows_it() -> None:
    result = equivalent(plan(write("a", "k", 1)), plan(write("a", "k", 2)))

    assert not result.equivalent
    assert result.counterexample == {}
    assert [(d.key, d.first, d.second) for d in result.differences] == [("k", "1", "2")]


def test_a_missing_key_is_not_null() -> None:
    assert not equivalent(plan(write("a", "k", None)), plan()).equivalent


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (when("gt", 5), when("gte", 5)),
        (when("lt", 5), when("lte", 5)),
        (when("gt", 5), when("gt", 6)),
        (when("gt", 5), when("eq", 6)),
        (when("lt", -5), when("eq", -6)),
        (when("eq", 5), when("exists")),
        (when("not_exists"), {}),
        (when("contains", "x"), when("eq", "x")),
        (when("contains", "x"), when("exists")),
        (when("neq", 5), when("exists")),
        (when("eq", True), when("eq", 1)),
        (when("eq", None), when("not_exists")),
    ],
)
def test_conditions_that_differ_somewhere_are_told_apart(first: Fields, second: Fields) -> None:
    a, b = plan(write("a", "l", 1, **first)), plan(write("a", "l", 1, **second))

    result = equivalent(a, b)

    assert not result.equivalent
    assert result.counterexample is not None
    assert not same(simulate(a, result.counterexample), simulate(b, result.counterexample))


def test_conditions_that_say_the_same_in_other_words_are_not_told_apart() -> None:
    assert equivalent(
        plan(write("a", "l", 1, **when("gte", 5))),
        plan(
            write("a", "l", 1, **when("gt", 5)),
            write("b", "l", 1, **when("eq", 5)),
        ),
    ).equivalent


def test_an_abort_is_a_difference() -> None:
    assert not equivalent(
        plan(write("a", "l"), claim("b", "k", 1)),
        plan(write("a", "l"), claim("b", "k", 1, failure_behavior="skip")),
    ).equivalent


def test_two_keys_that_only_matter_together_are_told_apart() -> None:
    both = {
        "preconditions": [{"key": "k", "value": 3}, {"key": "l", "value": 4}],
        "failure_behavior": "skip",
    }

    assert not equivalent(plan(write("a", "m", 1, **both)), plan()).equivalent


def test_states_that_are_given_are_the_only_ones_tried() -> None:
    a, b = plan(write("a", "l", 1, **when("eq", 5))), plan()

    assert equivalent(a, b, [{"k": 4}, {}]).equivalent
    assert equivalent(a, b, [{"k": 4}, {"k": 5}]).counterexample == {"k": 5}
    assert equivalent(a, b, []).samples == 0


# What tools answer


def test_values_from_the_same_call_are_equal() -> None:
    a = plan(call("t", "ask", {"q": 1}), write("w", "k", "$t.output.x"))
    b = plan(call("u", "ask", {"q": 1}), write("v", "k", "$u.output.x"))

    assert equivalent(a, b).equivalent


@pytest.mark.parametrize(
    "other",
    [
        plan(call("t", "ask", {"q": 2}), write("w", "k", "$t.output")),
        plan(call("t", "tell", {"q": 1}), write("w", "k", "$t.output")),
        plan(call("t", "ask", {"q": 1}), write("w", "k", "$t.output.x")),
        plan(call("t", "ask", {"q": 1}), write("w", "k", ["$t.output"])),
        plan(call("s", "ask", {"q": 1}), call("t", "ask", {"q": 1}), write("w", "k", "$t.output")),
        plan(write("w", "k", 5)),
        plan(),
    ],
)
def test_values_from_another_call_are_not(other: Fields) -> None:
    one = plan(call("t", "ask", {"q": 1}), write("w", "k", "$t.output"))

    assert not equivalent(one, other).equivalent


def test_a_chain_of_calls_is_followed_to_its_origin() -> None:
    def chain(q: int) -> Fields:
        return plan(
            call("s", "ask", {"q": q}), call("t", "ask", {"q": "$s.output"}), write("w", "k", "$t.output")
        )

    assert equivalent(chain(1), chain(1)).equivalent
    assert not equivalent(chain(1), chain(2)).equivalent


def test_a_write_to_a_key_that_a_tool_names_is_a_difference() -> None:
    assert not equivalent(plan(call("t"), write("w", "$t.output")), plan(call("t"))).equivalent


# Bounds


def test_samples_are_bounded_and_the_same_each_time() -> None:
    wide = plan(
        *[write(f"a{i}", f"k{i}", i, preconditions=[{"key": f"l{i}", "value": i}]) for i in range(200)]
    )

    first, second = equivalent(wide, wide), equivalent(wide, wide)

    assert 8 <= first.samples <= 256
    assert encode(first) == encode(second)


def test_a_large_plan_is_tried_on_fewer_samples_but_never_on_none() -> None:
    large = plan(*[write(f"a{i}", f"k{i % 7}", i) for i in range(5_000)])

    assert equivalent(large, large).samples >= 8


@given(plans(), plans(), STATES)
def test_a_counterexample_really_is_one(a: Any, b: Any, state: Any) -> None:
    result = equivalent(a, b, [state])

    if result.counterexample is not None:
        assert not same(simulate(a, state), simulate(b, state))
