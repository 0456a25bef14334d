"""Small things at the edge of what a plan or a tool can do."""

from __future__ import annotations

from typing import Any

import pytest

from placet import Runtime, ToolSchema
from placet.errors import DecodeError, NotJson
from placet.ir.codec import encode
from placet.testing import RecordingTool, action, proposal
from tests.properties.virtual_time import run

LARGE = 10**5000
"""More digits than Python writes."""


@pytest.mark.parametrize("schedule", ["levels", "dataflow"])
def test_what_depends_on_a_compensation_is_skipped(schedule: Any) -> None:
    """Wherever it is listed: the target is in no layer, so it must not count as one."""
    rt = Runtime(tools=[RecordingTool("t")], schedule=schedule)
    plan = proposal(
        action(
            "b", type="state_write", parameters={"key": "k"}, dependencies=["undo"], failure_behavior="skip"
        ),
        action("a", "t", compensation={"type": "action_ref", "action_id": "undo"}),
        action("undo", "t"),
    )

    assert rt.verify(plan).execution_order == ["b", "a"]
    result = run(rt.execute(plan))

    assert [r.status for r in result.results] == ["skipped", "succeeded", "skipped"]
    assert result["b"].error == "dependency 'undo' only runs as a compensation"


@pytest.mark.parametrize("runs", ["async", "thread", "cheap"])
def test_a_tool_that_failed_was_called_all_the_same(runs: Any) -> None:
    rt = Runtime(tools=[RecordingTool("t", default=ValueError("no"), runs=runs)])

    result = rt.execute_sync(proposal(action("a", "t")))

    assert result.cost.tool_calls == 1
    assert result.cost.actions_executed == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit])
def test_in_a_thread_even_these_are_the_tools_own(error: type[BaseException]) -> None:
    """Ctrl-C reaches the main thread alone, so in another one only the tool can have raised it."""
    rt = Runtime(tools=[RecordingTool("t", default=error(), runs="thread")])

    result = rt.execute_sync(proposal(action("a", "t", failure_behavior="skip")))

    assert result["a"].status == "skipped"
    assert result["a"].error == error.__name__


def test_a_number_too_large_to_be_written_does_not_come_in() -> None:
    rt = Runtime()

    with pytest.raises(NotJson, match="digits"):
        rt.state.set("k", [LARGE])
    with pytest.raises(DecodeError, match="digits"):
        rt.execute_sync({"actions": [{"type": "state_write", "parameters": {"key": "k", "value": LARGE}}]})
    with pytest.raises(DecodeError, match="digits"):
        rt.verify('{"context": {"n": ' + "1" * 5000 + "}}")

    assert rt.state.snapshot() == {}


@pytest.mark.parametrize("runs", ["async", "thread", "cheap"])
def test_a_number_too_large_to_be_written_is_no_answer(runs: Any) -> None:
    rt = Runtime(tools=[RecordingTool("t", default={"n": LARGE}, runs=runs), RecordingTool("u")])
    plan = proposal(
        action("a", "t", failure_behavior="skip"),
        action("b", "u", parameters={"x": "it is $a.output.n"}, failure_behavior="skip"),
    )

    result = rt.execute_sync(plan)

    assert [r.status for r in result.results] == ["skipped", "skipped"]
    encode(result)


def test_a_tool_that_keeps_its_answer_and_changes_it_later_changes_nothing() -> None:
    kept: dict[str, Any] = {"list": [1]}
    rt = Runtime(tools=[RecordingTool("t", default=kept, risk="idempotent", idempotent=True)])
    plan = proposal(
        action("a", "t", idempotent=True),
        action("b", type="state_write", parameters={"key": "k", "value": "$a.output"}),
        action("c", "t", idempotent=True, dependencies=["b"]),
    )

    result = rt.execute_sync(plan)
    kept["list"].append("later")
    result["a"].output["list"].append("by the caller")

    assert rt.state.get("k") == {"list": [1]}
    assert result["c"].output == {"list": [1]}
    assert rt.execute_sync(proposal(action("d", "t", idempotent=True)))["d"].output == {"list": [1]}


def test_a_tool_may_run_a_proposal_of_its_own() -> None:
    rt = Runtime(state={"k": "seen"})

    async def nested(parameters: dict[str, Any]) -> Any:
        inner = await rt.execute(proposal(action("x", type="state_read", parameters={"key": "k"})))
        return inner["x"].output

    rt.register(ToolSchema(name="nested"), nested)

    assert rt.execute_sync(proposal(action("a", "nested")))["a"].output == "seen"


def test_a_sync_tool_that_waits_for_its_own_runtime_is_told_instead_of_hanging() -> None:
    rt = Runtime()

    def nested(parameters: dict[str, Any]) -> Any:
        return rt.execute_sync(proposal(action("x", type="state_read", parameters={"key": "k"}))).outcome

    rt.register(ToolSchema(name="nested"), nested)

    result = rt.execute_sync(proposal(action("a", "nested", failure_behavior="skip")))

    assert result["a"].status == "skipped"
    assert "UsageError" in str(result["a"].error)
