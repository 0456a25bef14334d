"""What an action must pass before it starts, in which order, and how it is told no."""

from __future__ import annotations

from typing import Any

import pytest

from placet import Action, CapabilitySet, CostBudget, DenyTool, Runtime
from tests.runtime.plans import Recorder, call, claim, data_of, kinds, plan, read, statuses, tool_of, write


async def test_an_admitted_action_is_validated_executing_and_succeeded(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("note")])

    await rt.execute(plan(call("a", "note")))

    assert kinds(rt, "a") == ["action_validated", "action_executing", "action_succeeded"]


async def test_a_rejected_action_reaches_no_tool(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("note")], policies=[("quiet", DenyTool(tool="note"))])

    result = await rt.execute(plan(call("a", "note")))

    assert result["a"].status == "rejected"
    assert recorder.calls == []
    assert kinds(rt, "a") == ["policy_violation"]


async def test_references_are_resolved_before_policies_see_the_action(recorder: Recorder) -> None:
    seen: list[Any] = []

    def look(action: Action) -> None:
        seen.append(action.parameters)

    rt = Runtime(tools=[recorder.tool("make", "secret.txt"), recorder.tool("use")], policies=[look])

    await rt.execute(plan(call("a", "make"), call("b", "use", {"path": "$a.output"})))

    assert seen == [{}, {"path": "secret.txt"}]


async def test_references_are_resolved_before_capabilities_see_the_action(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[recorder.tool("make", "private")], capabilities=CapabilitySet(allowed_state_keys=["public"])
    )

    result = await rt.execute(
        plan(call("a", "make"), {"id": "b", "type": "state_read", "parameters": {"key": "$a.output"}})
    )

    assert result["b"].error == "capability denied: state key 'private' is not allowed"


async def test_capabilities_speak_before_validation_and_validation_before_policies() -> None:
    asked: list[str] = []

    def policy(action: Action) -> None:
        asked.append(action.id)

    async def typed(n: int) -> int:
        return n

    rt = Runtime(
        tools=[tool_of("typed", typed), tool_of("other", typed)],
        policies=[policy],
        capabilities=CapabilitySet(denied_tools=["other"]),
    )

    result = await rt.execute(
        plan(
            call("capability", "other", {"n": "x"}, failure_behavior="skip"),
            call("validation", "typed", {"n": "x"}, failure_behavior="skip"),
            call("admitted", "typed", {"n": 1}),
        )
    )

    assert result["capability"].error == "capability denied: tool 'other' is not allowed"
    assert "parameter 'n'" in (result["validation"].error or "")
    assert asked == ["admitted"]


async def test_a_remembered_answer_never_walks_around_a_policy(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("ask", 1, risk="idempotent")])
    await rt.execute(plan(call("a", "ask", idempotent=True)))
    rt.add_policy("late", DenyTool(tool="ask"))

    result = await rt.execute(plan(call("b", "ask", idempotent=True)))

    assert result["b"].status == "rejected"
    assert result["b"].output is None


async def test_a_cached_answer_never_walks_around_a_policy(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("ask", 1, risk="read_only", cache_ttl_secs=60)])
    await rt.execute(plan(call("a", "ask")))
    rt.add_policy("late", DenyTool(tool="ask"))

    result = await rt.execute(plan(call("b", "ask")))

    assert result["b"].status == "rejected"


async def test_a_reference_to_a_path_that_does_not_exist_rejects_the_action(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("make", {"items": [1]}), recorder.tool("use")])

    result = await rt.execute(plan(call("a", "make"), call("b", "use", {"x": "$a.output.items[3]"})))

    assert result["b"].status == "rejected"
    assert result["b"].error == "reference '$a.output.items[3]' has nothing at '[3]'"
    assert recorder.names == ["make"]


async def test_an_unknown_tool_is_rejected_with_the_nearest_known_name(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("read_file")])

    result = await rt.execute(plan(call("a", "read_fil")))

    assert result["a"].status == "rejected"
    assert result["a"].error == "unknown tool 'read_fil': did you mean 'read_file'?"


async def test_a_tool_call_without_a_tool_is_rejected() -> None:
    result = await Runtime().execute(plan({"id": "a"}))

    assert result["a"].status == "rejected"
    assert result["a"].error == "a tool_call needs 'tool'"


async def test_parameters_that_do_not_fit_the_schema_reject_the_action() -> None:
    called: list[int] = []

    async def double(n: int) -> int:
        called.append(n)
        return 2 * n

    rt = Runtime(tools=[tool_of("double", double)])

    result = await rt.execute(
        plan(
            call("wrong", "double", {"n": "two"}, failure_behavior="skip"),
            call("missing", "double", failure_behavior="skip"),
            call("extra", "double", {"n": 1, "m": 2}, failure_behavior="skip"),
        )
    )

    assert set(statuses(result).values()) == {"rejected"}
    assert "'n'" in (result["wrong"].error or "")
    assert "'n'" in (result["missing"].error or "")
    assert "'m'" in (result["extra"].error or "")
    assert called == []


async def test_a_precondition_that_does_not_hold_rejects_with_its_description(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("deploy")], state={"tests": "red"})
    condition = {"key": "tests", "value": "green", "description": "tests must pass first"}

    result = await rt.execute(plan(call("a", "deploy", preconditions=[condition])))

    assert result["a"].status == "rejected"
    assert result["a"].error == "precondition not met: 'tests' eq \"green\" (tests must pass first)"
    assert recorder.calls == []


async def test_a_precondition_looks_at_the_state_when_its_action_starts(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("deploy")], state={"tests": "red"})

    result = await rt.execute(
        plan(
            write("w", "tests", "green"),
            call("a", "deploy", preconditions=[{"key": "tests", "value": "green"}]),
        )
    )

    assert result.outcome == "succeeded"


async def test_a_broken_assumption_rejects_the_action(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("deploy")], state={"branch": "main"})

    result = await rt.execute(
        plan(call("a", "deploy", assumptions=[{"key": "branch", "expected_value": "release"}]))
    )

    assert result["a"].status == "rejected"
    assert result["a"].error == "assumption broken: 'branch' is not \"release\""


async def test_a_state_dependency_that_is_missing_rejects_the_action(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("deploy")])

    result = await rt.execute(plan(call("a", "deploy", state_dependencies=["build"])))

    assert result["a"].status == "rejected"
    assert result["a"].error == "state key 'build' is missing"


async def test_a_state_dependency_on_null_is_present(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("deploy")], state={"build": None})

    result = await rt.execute(plan(call("a", "deploy", state_dependencies=["build"])))

    assert result.outcome == "succeeded"


async def test_every_problem_of_validation_is_reported_at_once(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("deploy")], state={"n": 1})

    result = await rt.execute(
        plan(
            call(
                "a",
                "deploy",
                preconditions=[{"key": "n", "operator": "gt", "value": 5}],
                assumptions=[{"key": "n", "expected_value": 2}],
                state_dependencies=["build"],
            )
        )
    )

    assert (result["a"].error or "").split("; ") == [
        "precondition not met: 'n' gt 5",
        "assumption broken: 'n' is not 2",
        "state key 'build' is missing",
    ]


@pytest.mark.parametrize("kind", ["state_write", "state_read", "assertion"])
@pytest.mark.parametrize("parameters", [{}, {"key": 5}, {"key": None}])
async def test_an_action_on_the_state_needs_a_key(kind: str, parameters: dict[str, Any]) -> None:
    rt = Runtime()

    result = await rt.execute(plan({"id": "a", "type": kind, "parameters": parameters}))

    assert result["a"].status == "rejected"
    assert result["a"].error == f"{kind} needs the parameter 'key', a string"
    assert rt.state.snapshot() == {}


@pytest.mark.parametrize("mode", ["streaming", "long_running"])
async def test_an_invocation_mode_that_is_not_built_is_rejected_clearly(
    recorder: Recorder, mode: str
) -> None:
    rt = Runtime(tools=[recorder.tool("watch")])

    result = await rt.execute(plan(call("a", "watch", invocation_mode=mode)))

    assert result["a"].status == "rejected"
    assert mode in (result["a"].error or "")
    assert "one_shot" in (result["a"].error or "")
    assert recorder.calls == []


async def test_a_claim_to_be_compensable_without_a_compensation_is_rejected(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("book", reversibility="compensable")])

    result = await rt.execute(plan(call("a", "book", reversibility="compensable")))

    assert result["a"].status == "rejected"
    assert recorder.calls == []


@pytest.mark.parametrize("claimed", [None, "reversible"])
@pytest.mark.parametrize("bare", [True, False], ids=["bare", "with a policy"])
async def test_a_compensable_tool_without_a_compensation_is_rejected(
    recorder: Recorder, claimed: str | None, bare: bool
) -> None:
    rt = Runtime(
        tools=[recorder.tool("book", reversibility="compensable")],
        policies=[] if bare else [("quiet", DenyTool(tool="note"))],
    )

    result = await rt.execute(plan(write("w", "k", 1), call("a", "book", reversibility=claimed)))

    assert result.outcome == "aborted"
    assert result["a"].status == "rejected"
    assert result["a"].error == (
        "tool 'book' is compensable, and the action has no 'compensation'; give it one, or say that it is "
        "'irreversible' here"
    )
    assert kinds(rt, "a")[-1] == "action_rejected"
    assert recorder.calls == []
    assert rt.state.snapshot() == {}


@pytest.mark.parametrize(
    "fields",
    [
        {"reversibility": "irreversible"},
        {"compensation": {"type": "tool", "tool": "unbook"}},
        {"compensation": {"type": "action_ref", "action_id": "undo"}},
    ],
    ids=["irreversible", "tool", "action"],
)
async def test_a_compensable_tool_runs_with_a_compensation_or_as_irreversible(
    recorder: Recorder, fields: dict[str, Any]
) -> None:
    rt = Runtime(tools=[recorder.tool("book", reversibility="compensable"), recorder.tool("unbook")])
    undo = [call("undo", "unbook")] if "action_ref" in repr(fields) else []

    result = await rt.execute(plan(call("a", "book", **fields), *undo))

    assert result.outcome == "succeeded"
    assert recorder.names == ["book"]


async def test_a_compensation_by_an_unknown_tool_rejects_the_action(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("book", reversibility="compensable")])

    result = await rt.execute(
        plan(call("a", "book", compensation={"type": "tool", "tool": "unbook", "parameters": {}}))
    )

    assert result["a"].status == "rejected"
    assert "unknown tool 'unbook'" in (result["a"].error or "")
    assert recorder.calls == []


async def test_events_say_which_kind_of_gate_said_no(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("note")], policies=[("quiet", DenyTool(tool="note"))])

    await rt.execute(
        plan(
            call("policy", "note", failure_behavior="skip"),
            call("validation", "nope", failure_behavior="skip"),
        )
    )

    assert kinds(rt, "policy") == ["policy_violation"]
    assert kinds(rt, "validation") == ["action_rejected"]
    assert data_of(rt, "policy_violation") == [
        {"error": "policy 'quiet': tool 'note' is denied", "tool": "note"}
    ]


async def test_the_budget_comes_after_the_gates(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[recorder.tool("note"), recorder.tool("denied")],
        policies=[DenyTool(tool="denied")],
        budget=CostBudget(max_actions=1),
    )

    result = await rt.execute(plan(call("a", "denied", failure_behavior="skip"), call("b", "note")))

    assert statuses(result) == {"a": "rejected", "b": "succeeded"}


async def test_policies_judge_actions_on_the_state_too() -> None:
    def no_writes(action: Action) -> str | None:
        return "the state is frozen" if action.type == "state_write" else None

    rt = Runtime(policies=[no_writes], state={"k": 1})

    result = await rt.execute(plan(read("r", "k"), claim("c", "k", 1), write("w", "k", 2)))

    assert statuses(result) == {"r": "succeeded", "c": "succeeded", "w": "rejected"}
    assert result["w"].error == "policy 'no_writes': the state is frozen"
    assert rt.state.get("k") == 1
