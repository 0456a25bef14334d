"""A plan that calls its parameters by another name is told so where that makes it fail."""

from __future__ import annotations

from typing import Any

import pytest

from placet import DenyTool, Runtime, tool
from placet.approvals.memory import MemoryApprovals
from tests.runtime.plans import plan

CALLS: list[dict[str, Any]] = []


@tool
def refund(order: str, amount: int = 10) -> str:
    """Give money back."""
    CALLS.append({"order": order, "amount": amount})
    return "paid"


@tool(risk="read_only")
def look(at: str = "here") -> str:
    """Look around."""
    return at


@pytest.fixture(autouse=True)
def fresh() -> None:
    CALLS.clear()


async def run(action: dict[str, Any], **options: Any) -> Any:
    rt = Runtime(tools=[refund, look], **options)
    result = await rt.execute(plan({"id": "a", **action}))
    said = [e.data["error"] for e in rt.events if e.kind in ("action_rejected", "policy_violation")]
    assert said == [result["a"].error] * len(said)
    return result["a"]


@pytest.mark.parametrize("field", ["params", "parameter", "paramters", "args", "arguments", "input"])
async def test_the_error_names_the_field_that_was_ignored(field: str) -> None:
    ended = await run({"tool": "refund", field: {"order": "o1"}})

    assert ended.status == "rejected"
    assert f"'{field}'" in ended.error
    assert "'parameters'" in ended.error
    assert CALLS == []


async def test_a_state_action_is_told_so_too() -> None:
    ended = await run({"type": "state_write", "params": {"key": "k", "value": 1}})

    assert ended.status == "rejected"
    assert "'params'" in ended.error


@pytest.mark.parametrize(
    "action",
    [
        {"tool": "refund", "parameters": {}},
        {"tool": "refund", "note": "x", "priority": 1},
        {"tool": "nobody", "params": {}},
        {"tool": "refund", "parent": {"x": 1}},
        {"tool": "refund", "parameters": {"order": "o1"}, "params": {}, "invocation_mode": "streaming"},
    ],
)
async def test_what_has_nothing_to_do_with_it_is_not_named(action: dict[str, Any]) -> None:
    ended = await run(action)

    assert ended.status == "rejected"
    assert "is ignored" not in ended.error


@pytest.mark.parametrize(
    "action",
    [
        {"tool": "look", "params": {"at": "there"}},
        {"tool": "look", "Arguments": {"at": "there"}, "priority": 1},
        {"tool": "look", "compensation": {"type": "tool", "tool": "look", "args": {"at": "there"}}},
    ],
)
async def test_an_action_that_would_run_with_its_defaults_instead_is_rejected(action: dict[str, Any]) -> None:
    ended = await run(action)
    report = Runtime(tools=[refund, look]).verify(plan({"id": "a", **action}))

    assert ended.status == "rejected"
    assert "'parameters'" in ended.error
    assert not report.valid
    assert [(i.action_id, i.severity) for i in report.issues if "'parameters'" in i.message] == [
        ("a", "error")
    ]


@pytest.mark.parametrize(
    "action",
    [
        {"tool": "look", "params": {}},
        {"tool": "look", "params": None},
        {"tool": "look", "parameters": {"at": "here"}, "params": {"at": "there"}},
        {"tool": "look", "parent": {"at": "there"}},
    ],
)
async def test_other_fields_that_mean_nothing_are_tolerated(action: dict[str, Any]) -> None:
    """Verify warns of them."""
    assert (await run(action)).output == "here"
    assert Runtime(tools=[look]).verify(plan({"id": "a", **action})).valid


async def test_nobody_is_asked_about_it() -> None:
    rt = Runtime(
        tools=[look],
        policies=[("ask", DenyTool(tool="look", unless_approved=True))],
        approvals=MemoryApprovals(),
    )

    result = await rt.execute(plan({"id": "a", "tool": "look", "params": {"at": "there"}}))

    assert result["a"].status == "rejected"
    assert list(rt.events.query(kind="approval_requested")) == []


async def test_a_denial_says_nothing_of_the_field() -> None:
    ended = await run(
        {"tool": "refund", "parameters": {"order": "o1"}, "params": {}},
        policies=[("no", DenyTool(tool="refund"))],
    )

    assert ended.error == "policy 'no': tool 'refund' is denied"
