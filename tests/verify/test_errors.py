"""What makes a plan invalid, one kind at a time."""

from __future__ import annotations

from typing import Any

import pytest

from placet.errors import DecodeError, NotJson, UsageError
from placet.policy.capabilities import CapabilitySet
from placet.policy.engine import PolicySet
from placet.policy.gate import Gate
from placet.policy.rule import DenyTool, RequireState
from placet.tools import Registry, Tool
from placet.verify import verify
from placet.verify.known_tools import read_tools
from tests.verify.plans import TOOLS, Fields, call, claim, errors, plan, read, undecided, write


def test_an_empty_plan_is_valid_but_told() -> None:
    report = verify(plan(), {}, [])

    assert report.valid
    assert [(issue.severity, issue.message) for issue in report.issues] == [
        ("warning", "the proposal has no actions")
    ]


def test_a_plan_that_cannot_be_read_is_an_exception_and_not_a_finding() -> None:
    with pytest.raises(DecodeError):
        verify("{")


# The whole proposal


def test_a_cycle_refuses_the_plan_and_names_the_ids() -> None:
    report = verify(plan(call("a", dependencies=["b"]), call("b", dependencies=["a"])))

    assert not report.valid
    assert "'a'" in str(errors(report)) or "a -> b" in str(errors(report))
    assert "cycle" in errors(report)[0][1]


def test_a_refused_plan_has_no_order_and_leaves_the_state_alone() -> None:
    report = verify(plan(write("a", "k", dependencies=["nobody"])), {"k": 0})

    assert not report.valid
    assert report.execution_order == report.execution_levels == report.conflicts == ()
    assert report.simulated_state == {"k": 0}


def test_a_duplicate_id_an_unknown_dependency_and_an_unknown_compensation_are_errors() -> None:
    report = verify(
        plan(
            call("a"),
            call("a"),
            call("b", dependencies=["nobody"]),
            call("c", compensation={"type": "action_ref", "action_id": "nothing"}),
        )
    )

    messages = [message for _, message in errors(report)]
    assert any("share an id: 'a'" in m for m in messages)
    assert any("'b' depends on 'nobody'" in m for m in messages)
    assert any("'c' is compensated by 'nothing'" in m for m in messages)


def test_a_refused_plan_still_has_its_other_problems_reported() -> None:
    report = verify(plan(call("a", dependencies=["nobody"]), call("b", "lok")), tools=TOOLS)

    assert ("b", "unknown tool 'lok': did you mean 'look'?") in errors(report)


def test_too_many_actions_is_an_error_of_the_proposal_and_nothing_would_be_written() -> None:
    report = verify(plan(write("a", "k"), write("b", "k")), {}, max_actions=1)

    assert errors(report) == [(None, "the proposal has 2 actions, at most 1 are allowed")]
    assert report.simulated_state == {}


def test_as_many_actions_as_allowed_are_fine() -> None:
    assert verify(plan(write("a", "k"), write("b", "l")), {}, max_actions=2).valid


def test_the_capabilities_of_a_gate_can_refuse_the_whole() -> None:
    gate = Gate(read_tools(TOOLS), capabilities=CapabilitySet(max_actions=1))

    report = verify(plan(call("a"), call("b")), {}, TOOLS, gate=gate)

    assert errors(report)[0][0] is None
    assert "at most 1" in errors(report)[0][1]


# One action


def test_an_unknown_tool_is_an_error_that_offers_the_nearest() -> None:
    report = verify(plan(call("a", "lok")), tools=["look", "add"])

    assert errors(report) == [("a", "unknown tool 'lok': did you mean 'look'?")]


def test_without_tools_no_name_is_unknown_and_no_parameter_wrong() -> None:
    assert verify(plan(call("a", "whatever", {"n": "text"})), {}).valid


@pytest.mark.parametrize("given", ["registry", "schemas", "tools"])
def test_parameters_that_do_not_fit_the_schema_are_an_error(given: str) -> None:
    made = [Tool.from_schema(schema, None) for schema in TOOLS]
    registry = Registry()
    for one in made:
        registry.add(one)
    tools: Any = {"registry": registry, "schemas": TOOLS, "tools": made}[given]

    report = verify(plan(call("a", "add", {"n": "one"}), call("b", "add", {"n": 1})), {}, tools)

    assert [action_id for action_id, _ in errors(report)] == ["a"]
    assert "integer" in errors(report)[0][1]


def test_of_a_tool_that_is_only_named_no_parameter_is_checked() -> None:
    assert verify(plan(call("a", "add", {"n": "one"})), {}, ["add"]).valid


@pytest.mark.parametrize("tools", ["look", 5, [5]])
def test_something_that_is_no_list_of_tools_is_misuse(tools: Any) -> None:
    with pytest.raises(UsageError):
        verify(plan(), tools=tools)


def test_a_state_that_is_not_json_is_refused() -> None:
    with pytest.raises(NotJson):
        verify(plan(), {"k": float("nan")})


@pytest.mark.parametrize("kind", ["state_write", "state_read", "assertion"])
def test_an_action_on_the_state_needs_a_key(kind: str) -> None:
    report = verify(plan({"id": "a", "type": kind, "parameters": {"value": 1}}), {})

    assert errors(report) == [("a", f"{kind} needs the parameter 'key', a string")]


def test_a_missing_key_is_certain_although_another_parameter_is_open() -> None:
    broken: Fields = {"id": "b", "type": "state_write", "parameters": {"value": "$a.output"}}

    report = verify(plan(call("a"), broken), {}, TOOLS)

    assert errors(report) == [("b", "state_write needs the parameter 'key', a string")]
    assert undecided(report) == []


def test_a_precondition_that_does_not_hold_is_an_error() -> None:
    report = verify(plan(call("a", preconditions=[{"key": "k", "operator": "gt", "value": 5}])), {"k": 5})

    assert errors(report) == [("a", "precondition not met: 'k' gt 5")]


def test_an_unknown_operator_never_holds_also_where_the_state_is_unknown() -> None:
    report = verify(plan(call("a", preconditions=[{"key": "k", "operator": "resembles", "value": 5}])))

    assert not report.valid
    assert undecided(report) == []


def test_a_precondition_sees_what_earlier_actions_write() -> None:
    document = plan(
        write("a", "k", 1),
        call("b", preconditions=[{"key": "k", "value": 1}], expected_effects={"k": 2}),
        call("c", preconditions=[{"key": "k", "value": 2}]),
    )

    assert verify(document, {"k": 0}, TOOLS).valid
    assert verify(document, None, TOOLS).valid


def test_a_doomed_assertion_is_an_error_with_both_values() -> None:
    report = verify(plan(write("a", "k", 1), claim("b", "k", 2)), {})

    assert errors(report) == [("b", "assertion would fail: 'k' is 1, expected 2")]


def test_an_assertion_sees_a_missing_key_as_null() -> None:
    assert verify(plan(claim("a", "k", None)), {}).valid
    assert not verify(plan(claim("a", "k", 0)), {}).valid


def test_equality_is_that_of_json() -> None:
    assert verify(plan(claim("a", "k", 5.0)), {"k": 5}).valid
    assert not verify(plan(claim("a", "k", 1)), {"k": True}).valid


def test_a_key_that_an_action_needs_and_nobody_has_is_an_error() -> None:
    report = verify(plan(call("a", state_dependencies=["k"])), {})

    assert errors(report) == [("a", "state key 'k' is missing")]


def test_every_problem_of_an_action_is_reported() -> None:
    action = call("a", "lok", state_dependencies=["k"], preconditions=[{"key": "k", "operator": "exists"}])

    report = verify(plan(action), {}, TOOLS)

    assert len(errors(report)) == 3


# References


def test_a_path_that_a_known_output_does_not_have_rejects_the_action() -> None:
    report = verify(plan(write("a", "k"), call("b", parameters={"x": "$a.output.name"})), {}, TOOLS)

    assert errors(report) == [("b", "reference '$a.output.name' has nothing at 'name'")]


def test_known_outputs_are_followed() -> None:
    document = plan(
        read("r", "k"),
        claim("c", "k", {"n": [7]}),
        call("a", "add", {"n": "$r.output.n[0]"}),
        write("w", "copy", "$c.output.value"),
        write("v", "said", "$w.output"),
    )

    report = verify(document, {"k": {"n": [7]}}, TOOLS)

    assert report.valid
    assert undecided(report) == []
    assert report.simulated_state["copy"] == {"n": [7]}
    assert report.simulated_state["said"] == "written: copy"


def test_a_missing_path_is_certain_although_another_reference_is_open() -> None:
    document = plan(call("t"), write("w", "k"), call("b", parameters={"x": ["$t.output", "$w.output.no"]}))

    report = verify(document, {}, TOOLS)

    assert errors(report) == [("b", "reference '$w.output.no' has nothing at 'no'")]


def test_without_references_a_dollar_is_text() -> None:
    document = plan(write("a", "k"), write("b", "l", "$a.output.no", references=False))

    assert verify(document, {}).simulated_state == {"k": 1, "l": "$a.output.no"}


def test_a_value_too_deep_for_the_state_is_an_error() -> None:
    deep: Any = 0
    for _ in range(90):
        deep = [deep]
    nest: Any = "$r.output"
    for _ in range(20):
        nest = [nest]

    report = verify(plan(read("r", "k"), write("w", "l", nest)), {"k": deep})

    assert [action_id for action_id, _ in errors(report)] == ["w"]


# What follows from a problem


def test_what_needs_a_doomed_action_is_skipped_along_every_kind_of_need() -> None:
    skip = {"failure_behavior": "skip"}
    document = plan(
        claim("a", "k", 2, expected_effects={"made": 1}, **skip),
        call("b", dependencies=["a"], **skip),
        call("c", parameters={"x": "$a.output"}, **skip),
        call("d", state_dependencies=["made"], **skip),
        call("e", dependencies=["d"], **skip),
        read("f", "made", **skip),
    )

    report = verify(document, {"k": 1}, TOOLS)

    assert dict(errors(report)) == {
        "a": "assertion would fail: 'k' is 1, expected 2",
        "b": "dependency 'a' would be skipped",
        "c": "dependency 'a' would be skipped",
        "d": "dependency 'a' would be skipped",
        "e": "dependency 'd' would be skipped",
    }


@pytest.mark.parametrize(("behavior", "how"), [("retry", "would fail"), ("skip", "would be skipped")])
def test_a_skipped_action_says_how_its_dependency_ends(behavior: str, how: str) -> None:
    report = verify(
        plan(claim("a", "k", 2, failure_behavior=behavior), read("b", "k", dependencies=["a"])), {}
    )

    assert ("b", f"dependency 'a' {how}") in errors(report)


def test_a_skipped_action_still_has_its_own_problems_reported() -> None:
    document = plan(claim("a", "k", 2, failure_behavior="skip"), call("b", "lok", dependencies=["a"]))

    messages = [message for action_id, message in errors(verify(document, {}, TOOLS)) if action_id == "b"]

    assert messages == ["dependency 'a' would be skipped", "unknown tool 'lok': did you mean 'look'?"]


def test_a_doomed_action_leaves_nothing_behind_for_later_ones() -> None:
    document = plan(
        claim("a", "k", 2, expected_effects={"l": 1}, failure_behavior="skip"),
        claim("b", "l", 1, failure_behavior="skip"),
    )

    assert [action_id for action_id, _ in errors(verify(document, {}))] == ["a", "b"]


def test_an_abort_is_told_once_and_later_problems_are_still_found() -> None:
    report = verify(plan(claim("a", "k", 1), write("b", "l"), claim("c", "k", 2)), {})

    infos = [(issue.action_id, issue.message) for issue in report.issues if issue.severity == "info"]
    assert infos == [("a", "the plan aborts here: the 2 actions after it would not run")]
    assert [action_id for action_id, _ in errors(report)] == ["a", "c"]
    assert report.simulated_state == {}


def test_without_abort_the_rest_goes_on() -> None:
    report = verify(plan(claim("a", "k", 1, failure_behavior="retry"), write("b", "l")), {})

    assert not report.valid
    assert report.simulated_state == {"l": 1}
    assert not [issue for issue in report.issues if issue.severity == "info"]


# Compensations


@pytest.mark.parametrize("claimed", [None, "reversible"])
def test_a_compensable_tool_without_a_compensation_is_an_error(claimed: str | None) -> None:
    report = verify(plan(call("a", "book", reversibility=claimed)), {}, TOOLS)

    assert errors(report) == [
        (
            "a",
            "tool 'book' is compensable, and the action has no 'compensation'; give it one, or say that it "
            "is 'irreversible' here",
        )
    ]


def test_a_claim_to_be_compensable_without_a_compensation_is_one_error() -> None:
    report = verify(plan(call("a", "book", reversibility="compensable")), {}, TOOLS)

    assert errors(report) == [("a", "it claims to be compensable but has no 'compensation'")]


def test_what_depends_on_a_compensation_is_an_error() -> None:
    document = plan(
        call("a", "book", compensation={"type": "action_ref", "action_id": "u"}),
        call("u", "unbook"),
        call("b", dependencies=["u"]),
    )

    report = verify(document, {}, TOOLS)

    assert errors(report) == [("b", "dependency 'u' only runs as a compensation")]
    assert list(report.execution_order) == ["a", "b"]


def test_what_depends_on_a_compensation_waits_for_nothing() -> None:
    document = plan(
        call("b", dependencies=["u"]),
        call("u", "unbook"),
        call("a", "book", compensation={"type": "action_ref", "action_id": "u"}),
    )

    report = verify(document, {}, TOOLS)

    assert [list(level) for level in report.execution_levels] == [["b", "a"]]


def test_a_compensation_that_could_not_run_does_not_make_the_plan_invalid_but_is_told() -> None:
    document = plan(
        call("a", "book", compensation={"type": "action_ref", "action_id": "u"}), call("u", "unbok")
    )

    report = verify(document, {}, TOOLS)

    assert report.valid
    assert [issue.action_id for issue in report.warnings] == ["u"]
    assert "as the compensation of 'a' it could not run: unknown tool 'unbok'" in report.warnings[0].message


def test_a_compensation_with_an_unknown_tool_rejects_its_action() -> None:
    report = verify(plan(call("a", "book", compensation={"type": "tool", "tool": "unbok"})), {}, TOOLS)

    assert "its compensation: unknown tool 'unbok'" in errors(report)[0][1]


# Policies


def test_policies_of_a_gate_are_asked_with_the_simulated_state() -> None:
    policies = PolicySet(lambda: 0.0)
    policies.add("ready", RequireState(tool="look", key="ready", value=True))
    policies.add("no mail", DenyTool(tool="mail"))
    gate = Gate(read_tools(TOOLS), policies=[policies])
    document = plan(write("a", "ready", True), call("b", "look"), call("c", "mail"))

    report = verify(document, {}, TOOLS, gate=gate)

    assert errors(report) == [("c", "policy 'no mail': tool 'mail' is denied")]


def test_a_policy_that_swallows_exceptions_cannot_take_unknown_for_an_answer() -> None:
    def careful(action: Any, state: Any) -> str | None:
        try:
            return None if state.get("k") == 1 else "k is not 1"
        except Exception:
            return "no state"

    policies = PolicySet(lambda: 0.0)
    policies.add("careful", careful)
    gate = Gate(read_tools(TOOLS), policies=[policies])

    report = verify(plan(call("a")), None, TOOLS, gate=gate)

    assert report.valid
    assert len(report.undecided) == 1


def test_a_policy_cannot_change_the_simulated_state_through_what_it_reads() -> None:
    def meddle(action: Any, state: Any) -> None:
        state.get("k").append(1)
        state.snapshot()["k"].append(1)

    policies = PolicySet(lambda: 0.0)
    policies.add("meddle", meddle)
    state = {"k": [0]}

    report = verify(
        plan(call("a"), claim("b", "k", [0])), state, gate=Gate(read_tools(None), policies=[policies])
    )

    assert report.valid
    assert report.simulated_state == state == {"k": [0]}


def test_a_tool_without_a_function_is_only_an_error_where_it_is_to_run() -> None:
    registry = Registry()
    registry.add(Tool.from_schema(TOOLS[0], None))

    assert verify(plan(call("a")), {}, registry).valid
    assert errors(verify(plan(call("a")), {}, registry, gate=Gate(registry))) == [
        ("a", "no handler for tool 'look'")
    ]
