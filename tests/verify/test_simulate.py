"""The predicted state, against an interpreter as naive as can be."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from placet.verify import simulate, verify
from tests.verify.plans import TOOLS, call, claim, plan, read, write

KEYS = st.sampled_from(["k", "l", "m"])
VALUES = st.sampled_from([None, True, False, 0, 1, 2, 1.0, "1", "text", [1], {"k": 1}])


@st.composite
def plans(draw: st.DrawFn) -> dict[str, Any]:
    """Plans over three keys, often with conditions that hold."""
    actions: list[dict[str, Any]] = []
    for i in range(draw(st.integers(0, 6))):
        name = f"a{i}"
        key = draw(KEYS)
        action: dict[str, Any] = draw(
            st.sampled_from(
                [
                    write(name, key, draw(VALUES)),
                    write(name, key, draw(VALUES)),
                    read(name, key),
                    claim(name, key, draw(VALUES)),
                    call(name, "look", {"i": i}),
                ]
            )
        )
        if draw(st.booleans()):
            action["expected_effects"] = {draw(KEYS): draw(VALUES)}
        if draw(st.integers(0, 4)) == 0:
            action["preconditions"] = [{"key": draw(KEYS), "operator": "exists"}]
        if i and draw(st.booleans()):
            action["dependencies"] = [f"a{draw(st.integers(0, i - 1))}"]
        if action.get("type") == "state_write" and i and draw(st.integers(0, 3)) == 0:
            earlier = draw(st.integers(0, i - 1))
            if actions[earlier].get("type") in ("state_read", "state_write"):
                action["parameters"]["value"] = f"$a{earlier}.output"
        action["failure_behavior"] = draw(st.sampled_from(["abort", "skip", "retry"]))
        actions.append(action)
    return plan(*actions)


STATES = st.dictionaries(KEYS, VALUES, max_size=3)


def same(a: Any, b: Any) -> bool:
    """Equal to JSON's eye, told apart from Python's by writing out: true is not 1."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    return bool(a == b)


def interpret(document: dict[str, Any], start: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Run a plan listed in order, one action after the other: the state, and whether all went well."""
    state = dict(start)
    outputs: dict[str, Any] = {}
    went_well = True
    for action in document["actions"]:
        parameters = action["parameters"]
        needs = list(action.get("dependencies", ()))
        value = parameters.get("value")
        if isinstance(value, str) and value.startswith("$"):
            needs.append(value[1:].split(".")[0])
        ok = all(need in outputs for need in needs)
        rejected = ok and any(p["key"] not in state for p in action.get("preconditions", ()))
        failed = False
        if ok and not rejected:
            key = parameters.get("key")
            output: Any = "from a tool"
            match action.get("type"):
                case "state_write":
                    if isinstance(value, str) and value.startswith("$"):
                        value = outputs[value[1:].split(".")[0]]
                    state[key] = value
                    output = f"written: {key}"
                case "state_read":
                    output = state.get(key)
                case "assertion":
                    failed = not equal(state.get(key), parameters["expected"])
                    output = {"asserted": key, "value": state.get(key)}
            if not failed:
                outputs[action["id"]] = output
                state.update(action.get("expected_effects", {}))
                continue
        went_well = False
        if (rejected or failed) and action["failure_behavior"] == "abort":
            return dict(start), False
    return state, went_well


@given(plans(), STATES)
def test_a_simulated_plan_leaves_what_a_naive_interpreter_leaves(document: Any, state: Any) -> None:
    expected, went_well = interpret(document, state)

    report = verify(document, state, TOOLS)

    assert report.undecided == []
    assert report.valid == went_well
    assert same(simulate(document, state, TOOLS), expected)
    assert same(report.simulated_state, expected)


@given(plans(), STATES)
def test_what_is_known_without_a_state_is_true_with_any(document: Any, state: Any) -> None:
    """If what is undecided goes well."""
    blind, informed = verify(document, None, TOOLS), verify(document, state, TOOLS)

    if informed.valid:
        assert blind.valid
        for key, value in blind.simulated_state.items():
            assert same(informed.simulated_state[key], value)


def test_an_abort_gives_the_starting_state_back() -> None:
    assert simulate(plan(write("a", "k", 2), claim("b", "k", 3)), {"k": 1}) == {"k": 1}


def test_a_refused_plan_changes_nothing() -> None:
    assert simulate(plan(write("a", "k", 2, dependencies=["nobody"])), {"k": 1}) == {"k": 1}


def test_an_unknown_tool_leaves_nothing_behind() -> None:
    document = plan(call("a", "lok", expected_effects={"k": 1}, failure_behavior="skip"), write("b", "l"))

    assert simulate(document, {}, TOOLS) == {"l": 1}
    assert simulate(document, {}) == {"k": 1, "l": 1}


def test_what_a_tool_answers_is_left_out() -> None:
    assert simulate(plan(call("t"), write("a", "k", "$t.output")), {"k": 0, "l": 0}) == {"l": 0}


def test_with_an_unknown_state_only_what_the_plan_writes_is_predicted() -> None:
    assert simulate(plan(write("a", "k", 2))) == {"k": 2}
    assert simulate(plan(write("a", "k", 2), claim("b", "k", 3))) == {}
