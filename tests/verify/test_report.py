"""What a report holds, and that it is the same to the byte."""

from __future__ import annotations

import json
from typing import Any

import pytest

from placet import verify as from_the_top
from placet.ir.codec import decode_proposal, encode
from placet.policy.engine import PolicySet
from placet.policy.gate import Gate
from placet.policy.rule import RateLimitTool
from placet.verify import Report, transaction_check, verify
from placet.verify.known_tools import read_tools
from tests.verify.plans import TOOLS, call, claim, plan, read, write

RICH = plan(
    call("t", "look"),
    write("w", "k", {"b": 1, "a": 2}),
    read("r", "k"),
    write("x", "k", "$t.output", failure_behavior="skip", preconditions=[{"key": "open", "value": 1}]),
    claim("c", "k", 3, dependencies=["r"], failure_behavior="retry"),
    call("m", "mail", expected_effects={"sent": True}),
    call("n", "lok", failure_behavior="skip"),
)


def test_order_levels_and_conflicts_are_told_by_id() -> None:
    report = verify(
        plan(read("r", "k", dependencies=["w"]), write("w", "k"), write("x", "k"), write("y", "l")), {}
    )

    assert list(report.execution_order) == ["w", "r", "x", "y"]
    assert [list(level) for level in report.execution_levels] == [["w", "y"], ["r"], ["x"]]
    assert [(c.first, c.then, c.key, c.kind) for c in report.conflicts] == [
        ("w", "r", "k", "write_read"),
        ("r", "x", "k", "read_write"),
    ]


def test_a_report_is_json_with_the_promised_fields() -> None:
    document = json.loads(encode(verify(RICH, {"k": 0}, TOOLS)))

    assert {
        "valid",
        "issues",
        "simulated_state",
        "execution_order",
        "execution_levels",
        "conflicts",
    } <= set(document)
    assert set(document["issues"][0]) == {"action_id", "severity", "tier", "message"}
    assert set(document["conflicts"][0]) == {"key", "kind", "first", "then"}


def test_errors_warnings_and_open_questions_are_picked_out() -> None:
    report = verify(RICH, None, TOOLS)

    assert report.errors
    assert report.warnings
    assert report.undecided
    assert all(issue.is_undecided for issue in report.undecided)
    assert not any(issue.is_undecided for issue in (*report.errors, *report.warnings))


@pytest.mark.parametrize("state", [None, {}, {"z": 1, "k": {"y": 1, "x": 2}, "a": [1]}])
def test_the_same_input_gives_the_same_bytes(state: Any) -> None:
    first = encode(verify(RICH, state, TOOLS))

    assert encode(verify(RICH, state, TOOLS)) == first
    assert encode(verify(json.dumps(RICH), state, TOOLS)) == first
    assert encode(verify(decode_proposal(RICH), state, TOOLS)) == first


def test_the_order_of_keys_in_the_state_does_not_show() -> None:
    state = {"z": 1, "k": 2, "a": 3}
    shuffled = {"a": 3, "z": 1, "k": 2}

    assert encode(verify(RICH, state, TOOLS)) == encode(verify(RICH, shuffled, TOOLS))


def test_the_order_in_which_tools_are_listed_does_not_show() -> None:
    assert encode(verify(RICH, {}, TOOLS)) == encode(verify(RICH, {}, TOOLS[::-1]))


def test_nothing_that_was_given_is_changed_or_aliased() -> None:
    state = {"k": {"deep": [1]}}
    document = plan(write("w", "l", {"deep": [2]}), read("r", "k"), write("x", "m", "$r.output"))

    report = verify(document, state)
    report.simulated_state["k"]["deep"].append("changed")
    report.simulated_state["l"]["deep"].append("changed")

    assert state == {"k": {"deep": [1]}}
    assert document["actions"][0]["parameters"]["value"] == {"deep": [2]}
    assert report.simulated_state["m"] == {"deep": [1]}


def test_keys_that_only_the_graph_knows_are_shown_in_words() -> None:
    policies = PolicySet(lambda: 0.0)
    policies.add("slow", RateLimitTool(tool="look", max_calls=1, interval_secs=60))
    policies.add("any", lambda action, state: None)
    document = plan(call("a"), call("b"), write("c", "k"), write("d", "k"))

    report = verify(document, {}, TOOLS, gate=Gate(read_tools(TOOLS), policies=[policies]))

    keys = {conflict.key for conflict in report.conflicts}
    assert {"policy 'slow'", "any key", "k"} <= keys
    assert b"\\u0000" not in encode(report)


def test_a_state_key_with_a_null_character_is_not_shown_raw() -> None:
    report = verify(plan(write("a", "\0odd"), write("b", "\0odd")), {})

    assert [conflict.key for conflict in report.conflicts] == ["\\x00odd"]


def test_no_message_holds_a_control_character() -> None:
    odd = "\0\t\n\x1b[31m\x7f\x9b"
    document = plan(
        call(odd, odd, {odd: odd}, **{odd: 1}),
        claim("c", odd, odd, failure_behavior="skip"),
        call("d", "add", {"n": odd}, dependencies=[odd]),
        write("w", f"k{odd}"),
        write("x", f"k{odd}"),
    )

    report = verify(document, {}, TOOLS)

    messages = [issue.message for issue in report.issues]
    messages += [finding.message for finding in transaction_check([document, document])]
    assert len(messages) >= 8
    assert all(message.isprintable() for message in messages)
    assert any("\\x00\\x09\\x0a\\x1b[31m\\x7f\\x9b" in message for message in messages)


def test_ten_thousand_writers_of_one_key_are_ten_thousand_conflicts_and_one_warning() -> None:
    report = verify(plan(*[write(f"a{i}", "k", i) for i in range(10_000)]), {})

    assert report.valid
    assert len(report.conflicts) == 9_999
    assert len(report.warnings) == 1
    assert report.simulated_state == {"k": 9_999}


def test_the_public_name_is_the_function_whatever_was_imported_before() -> None:
    """`placet.verify` is also a package, which an import of any part of it puts in the function's place."""
    import placet

    assert isinstance(from_the_top(plan()), Report)
    assert isinstance(placet.verify(plan()), Report)
