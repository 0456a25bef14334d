"""What would run, and is probably not meant: warnings never make a plan invalid."""

from __future__ import annotations

from typing import Any

from placet.verify import verify
from tests.verify.plans import TOOLS, call, claim, plan, read, warnings, write


def warned(*actions: Any) -> list[tuple[str | None, str]]:
    report = verify(plan(*actions), {}, TOOLS)
    assert report.valid, report.errors
    return warnings(report)


# Several writers


def test_two_writers_of_a_key_that_do_not_wait_for_each_other_are_warned_of_once() -> None:
    found = warned(write("a", "k"), write("b", "k"), write("c", "k"))

    assert found == [
        (
            "b",
            "state key 'k' is written by 'a' and 'b', which do not wait for each other; "
            "they run in the listed order",
        )
    ]


def test_writers_in_a_chain_are_fine_also_when_others_stand_between() -> None:
    assert warned(write("a", "k"), write("b", "k", dependencies=["a"])) == []
    assert (
        warned(write("a", "k"), read("r", "x", dependencies=["a"]), write("b", "k", dependencies=["r"])) == []
    )
    assert warned(write("a", "k"), write("b", "k", "$a.output")) == []


def test_a_reader_between_two_writers_does_not_order_them() -> None:
    found = warned(write("a", "k"), read("r", "k"), write("b", "k"))

    assert [action_id for action_id, _ in found] == ["b"]


def test_a_dependency_on_something_else_does_not_order_two_writers() -> None:
    found = warned(read("r", "x"), write("a", "k"), write("b", "k", dependencies=["r"]))

    assert [action_id for action_id, _ in found] == ["b"]


def test_one_writer_and_many_readers_are_fine() -> None:
    assert warned(read("q", "k"), write("a", "k"), read("r", "k"), read("s", "k")) == []


# Equal calls


def test_three_equal_calls_are_a_heuristic_warning() -> None:
    report = verify(plan(*[call(f"a{i}", "look", {"x": 1, "y": 2}) for i in range(3)]), {}, TOOLS)

    assert report.valid
    assert warnings(report) == [
        ("a0", "tool 'look' is called 3 times with the same parameters: 'a0', 'a1', 'a2'")
    ]
    assert report.warnings[0].tier == "heuristic"


def test_the_order_of_parameters_does_not_make_calls_different() -> None:
    parameters = [{"x": 1, "y": 2}, {"y": 2, "x": 1}, {"x": 1, "y": 2}]

    assert len(warned(*[call(f"a{i}", "look", p) for i, p in enumerate(parameters)])) == 1


def test_two_equal_calls_or_three_different_ones_are_fine() -> None:
    assert warned(call("a"), call("b")) == []
    assert warned(*[call(f"a{i}", parameters={"x": i}) for i in range(5)]) == []


# What cannot be taken back


def test_an_irreversible_action_before_one_that_can_fail_is_warned_of() -> None:
    found = warned(call("a", "mail"), call("b", "look"), call("c", "look", {"x": 1}))

    assert found == [("a", "'b' after it can still fail, and an abort would not undo it")]


def test_an_irreversible_action_at_the_end_is_fine() -> None:
    assert warned(call("b", "look"), call("a", "mail")) == []


def test_what_cannot_abort_the_plan_is_no_danger_to_what_went_before() -> None:
    assert warned(call("a", "mail"), call("b", "look", failure_behavior="skip"), write("c", "k")) == []


def test_an_assertion_or_a_condition_can_still_fail() -> None:
    assert len(warned(call("a", "mail"), claim("b", "k", None))) == 1
    condition = {"preconditions": [{"key": "k", "operator": "not_exists"}]}
    assert len(warned(call("a", "mail"), write("b", "k", **condition))) == 1


def test_what_does_not_run_need_not_be_taken_back() -> None:
    doomed = call("a", "mail", preconditions=[{"key": "k", "value": 1}], failure_behavior="skip")

    assert warnings(verify(plan(doomed, call("b", "look")), {}, TOOLS)) == []


def test_a_plan_may_call_itself_irreversible() -> None:
    found = warned(call("a", "look", reversibility="irreversible"), call("b", "look", {"x": 1}))

    assert [action_id for action_id, _ in found] == ["a"]


def test_tools_nobody_has_seen_are_not_called_irreversible() -> None:
    assert warnings(verify(plan(call("a", "mail"), call("b", "look")), {}, ["mail", "look"])) == []
    assert warnings(verify(plan(call("a", "mail"), call("b", "look")), {})) == []


# Claims that the tool does not back


def test_a_claim_laxer_than_the_tool_is_warned_of() -> None:
    assert warned(call("a", "mail", idempotent=True)) == [
        ("a", "it claims to be idempotent, which tool 'mail' does not declare: it always runs")
    ]
    assert warned(call("a", "mail", reversibility="reversible")) == [
        ("a", "it claims to be reversible, but tool 'mail' declares itself irreversible")
    ]


def test_a_claim_as_strict_as_the_tool_or_stricter_is_fine() -> None:
    assert warned(call("a", "unbook", idempotent=True)) == []
    assert warned(call("a", "look", reversibility="irreversible")) == []


def test_a_compensation_that_will_not_run_is_warned_of() -> None:
    undo = {"compensation": {"type": "tool", "tool": "unbook"}}

    assert warned(call("a", "mail", **undo)) == [
        ("a", "its compensation will not run, because tool 'mail' declares itself irreversible")
    ]
    assert warned(write("a", "k", **undo)) == [
        ("a", "its compensation will not run, because it is reversible")
    ]


def test_a_compensable_tool_with_a_compensation_or_called_irreversible_is_fine() -> None:
    assert warned(call("a", "book", compensation={"type": "tool", "tool": "unbook"})) == []
    assert warned(call("a", "book", reversibility="irreversible")) == []


def test_a_compensation_of_what_a_plan_calls_irreversible_will_not_run() -> None:
    undo = {"compensation": {"type": "tool", "tool": "unbook"}}

    assert warned(call("a", "book", reversibility="irreversible", **undo)) == [
        ("a", "its compensation will not run, because it is irreversible")
    ]


# Fields that mean nothing


def test_unknown_fields_are_warned_of_where_they_stand() -> None:
    report = verify(plan(call("a", priority=1), colour="red"), {}, TOOLS)

    assert warnings(report) == [
        (None, "unknown field 'colour' is ignored"),
        ("a", "unknown field 'priority' is ignored"),
    ]


def test_an_unknown_field_that_looks_like_a_known_one_is_told_which() -> None:
    action = call(
        "a",
        params={},
        preconditions=[{"key": "k", "operater": "exists"}],
        compensation={"type": "tool", "tool": "unbook", "parameter": {}},
    )

    report = verify(plan(action, sorce="me"), {"k": None}, TOOLS)

    assert [message for _, message in warnings(report) if "unknown field" in message] == [
        "unknown field 'sorce' is ignored; did you mean 'source'?",
        "unknown field 'params' is ignored; did you mean 'parameters'?",
        "unknown field 'preconditions[0].operater' is ignored; did you mean 'operator'?",
        "unknown field 'compensation.parameter' is ignored; did you mean 'parameters'?",
    ]


def test_many_unknown_fields_are_all_warned_of() -> None:
    report = verify(plan(*(write(f"a{i}", f"k{i}", **{f"x{i}y": 1}) for i in range(500))), {})

    assert len(report.warnings) == 500
