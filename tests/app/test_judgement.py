"""What the gate says of a plan: each thing once, under the name of whoever says it, and who decides."""

from __future__ import annotations

from typing import Any

import pytest

from placet import Runtime, tool
from placet.app.judgement import JudgedPlan, judge_plan
from placet.approvals.memory import MemoryApprovals
from placet.ir.codec import decode_proposal
from placet.policy.calls import Calls
from placet.policy.flow import FlowRule, MarkOutput
from placet.policy.permission import Permissions, Posture
from placet.policy.rule import DenyTool, DenyToolParam, RateLimitTool, RequireState
from placet.policy.trace import TraceRule


@tool(risk="read_only", marks=["untrusted"])
def fetch(url: str = "") -> str:
    raise AssertionError("the plan has run")


@tool
def pay(to: str = "", command: str = "") -> str:
    raise AssertionError("the plan has run")


@tool(risk="idempotent", reversibility="compensable")
def put(path: str = "") -> str:
    raise AssertionError("the plan has run")


def judged(*actions: dict[str, Any], agent: str | None = None, **options: Any) -> JudgedPlan:
    runtime = Runtime(tools=[fetch, pay, put], approvals=MemoryApprovals(), **options)
    return judge_plan(runtime, decode_proposal({"actions": list(actions)}), agent=agent)


def test_a_plan_is_told_action_by_action() -> None:
    plan = judged(
        {"id": "f", "tool": "fetch"},
        {"id": "p", "tool": "pay", "parameters": {"to": "$f.output"}},
        policies=[
            ("flow", FlowRule(mark="untrusted", risk="destructive", param="to")),
            ("web", MarkOutput(tool="fetch", marks=["secret"])),
            ("other", DenyTool(tool="shell")),
        ],
        permissions=Permissions(agents={"nightly": Posture(full_access="deny")}),
        agent="nightly",
    )

    first, second = plan.actions
    assert (plan.verdict, plan.agent, plan.about_nothing) == ("denied", "nightly", ["other"])
    assert plan.posture == {"read_only": "allow", "sandbox_edit": "ask", "full_access": "deny"}
    assert (first.verdict, first.tier, first.marks) == ("allowed", "read_only", ["untrusted", "secret"])
    assert ("web", "allows", "marks its output secret") in [(s.by, s.answer, s.reason) for s in first.said]
    assert (second.verdict, second.tier, second.problems) == ("denied", "full_access", [])
    assert [(s.by, s.answer, s.decides) for s in second.said] == [
        ("flow", "denies", True),
        ("permission", "denies", True),
    ]
    assert "f (fetch)" in second.said[0].reason


def test_each_thing_is_said_once_and_what_is_no_rule_is_a_problem() -> None:
    plan = judged(
        {"id": "a", "tool": "pay", "parameters": {"nope": 1}},
        {"id": "b", "tool": "pay", "dependencies": ["a"]},
        {"id": "c", "tool": "fetch", "failure_behavior": "skip"},
        policies=[
            ("no\x1b", DenyToolParam(tool="pay", param="nope", presence=True, reason="no\x07")),
            ("late", RateLimitTool(tool="fetch", max_calls=1, interval_secs=1)),
        ],
    )

    a, b, c = plan.actions
    assert (a.verdict, [(s.by, s.reason) for s in a.said]) == ("denied", [("no\x1b", "no\x07")])
    assert a.problems == ["its parameters do not fit the tool's schema"]
    assert (b.verdict, b.problems) == ("invalid", ["dependency 'a' would be rejected"])
    assert (c.verdict, c.undecided) == ("undecided", [])
    assert plan.verdict == "denied"


@pytest.mark.parametrize(
    ("policies", "verdict"),
    [
        ([], "allowed"),
        ([RateLimitTool(tool="pay", max_calls=1, interval_secs=1)], "undecided"),
        ([DenyTool(tool="pay", unless_approved=True)], "asks"),
        ([DenyTool(tool="pay", unless_approved=True), RequireState(tool="pay", key="k")], "denied"),
        ([TraceRule(tool="pay", only_after=Calls(tool="fetch"))], "denied"),
    ],
)
def test_the_worst_answer_is_the_plans(policies: list[Any], verdict: str) -> None:
    assert judged({"id": "a", "tool": "pay"}, policies=policies).verdict == verdict


def test_a_plan_that_is_refused_whole_says_why() -> None:
    plan = judged(
        {"id": "a", "tool": "pay", "dependencies": ["b"]}, {"id": "b", "tool": "pay", "dependencies": ["a"]}
    )

    assert plan.verdict == "invalid"
    said = [*plan.problems, *(problem for action in plan.actions for problem in action.problems)]
    assert any("cycle" in problem for problem in said), said


def test_what_would_take_it_back_is_asked_about_with_it() -> None:
    def plan(compensation: dict[str, Any]) -> dict[str, Any]:
        return {"id": "a", "tool": "put", "compensation": compensation}

    by_tool = judged(
        plan({"type": "tool", "tool": "pay"}), policies=[("ask", DenyTool(tool="pay", unless_approved=True))]
    )
    by_action = judged(
        plan({"type": "action_ref", "action_id": "z"}),
        {"id": "z", "tool": "pay"},
        policies=[("no", DenyTool(tool="pay"))],
    )

    assert by_tool.verdict == "asks"
    assert [(s.by, s.answer, s.reason) for s in by_tool.actions[0].said] == [
        ("its compensation", "asks", "policy 'ask': tool 'pay' is denied")
    ]
    assert by_action.verdict == "allowed"  # It is no part of the plan unless something fails.
    assert (by_action.actions[1].verdict, by_action.actions[1].takes_back) == ("denied", ["a"])


def test_an_open_tier_is_undecided() -> None:
    plan = judged(
        {"id": "f", "tool": "fetch"},
        {"id": "a", "tool": "put", "parameters": {"path": "$f.output"}, "reversibility": "irreversible"},
        permissions="balanced",
    )

    assert plan.verdict == "undecided"
    assert "which tier it needs depends on what is filled in" in plan.actions[1].undecided


def test_a_rule_that_is_called_permission_is_not_taken_for_the_posture() -> None:
    plan = judged(
        {"id": "a", "tool": "pay"},
        policies=[("permission", DenyTool(tool="pay", reason="permission: full_access"))],
    )

    assert [(s.by, s.answer, s.reason) for s in plan.actions[0].said] == [
        ("permission", "denies", "permission: full_access")
    ]
    assert plan.actions[0].tier is None
    assert plan.actions[0].problems == []
