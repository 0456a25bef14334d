"""Equal calls answered once, within a proposal and across them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from placet import Runtime, ToolSchema
from tests.runtime.plans import Recorder, call, claim, data_of, kinds, plan, statuses, write


def ask(id: str, parameters: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return call(id, "ask", parameters, idempotent=True, **fields)


async def test_a_hit_gives_the_earlier_answer_under_the_new_id_in_no_time(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("ask", {"n": 1}, risk="idempotent")])

    result = await rt.execute(plan(ask("a"), ask("b", dependencies=["a"])))

    assert len(recorder.calls) == 1
    assert result["b"].status == "succeeded"
    assert result["b"].output == {"n": 1}
    assert result["b"].duration_ms == 0
    assert data_of(rt, "action_deduplicated", "b") == [{"of": "a"}]


async def test_a_hit_applies_the_new_actions_own_effects_and_not_the_old_ones(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("ask", 1, risk="idempotent")])
    await rt.execute(plan(ask("a", expected_effects={"old": 1})))
    rt.state.delete("old")

    result = await rt.execute(plan(ask("b", expected_effects={"new": 2})))

    assert result["b"].state_changes == {"new": 2}
    assert rt.state.snapshot() == {"new": 2}


async def test_calls_are_equal_whatever_the_order_of_their_keys(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("ask", 1, risk="idempotent")])

    await rt.execute(
        plan(ask("a", {"x": 1, "y": {"p": 2, "q": 3}}), ask("b", {"y": {"q": 3, "p": 2}, "x": 1}))
    )

    assert len(recorder.calls) == 1


async def test_calls_with_other_parameters_or_another_tool_are_not_equal(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[recorder.tool("ask", 1, risk="idempotent"), recorder.tool("tell", 1, risk="idempotent")]
    )

    await rt.execute(
        plan(ask("a", {"x": 1}), ask("b", {"x": 2}), call("c", "tell", {"x": 1}, idempotent=True))
    )

    assert len(recorder.calls) == 3


async def test_equality_is_of_the_resolved_parameters(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("make", 7), recorder.tool("ask", 1, risk="idempotent")])

    await rt.execute(plan(call("m", "make"), ask("a", {"x": 7}), ask("b", {"x": "$m.output"})))

    assert recorder.names == ["make", "ask"]


async def test_a_later_proposal_is_answered_from_an_earlier_one(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("ask", 1, risk="idempotent")])

    await rt.execute(plan(ask("a")))
    result = await rt.execute(plan(ask("b"), id="p2"))

    assert len(recorder.calls) == 1
    assert kinds(rt, "b") == ["action_validated", "action_deduplicated", "action_succeeded"]
    assert result["b"].output == 1


async def test_a_failure_is_not_remembered(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("ask", 1, raises=[ValueError("no"), None], risk="idempotent")])

    result = await rt.execute(plan(ask("a", failure_behavior="skip"), ask("b", dependencies=[])))

    assert len(recorder.calls) == 2
    assert result["b"].output == 1
    assert data_of(rt, "action_deduplicated") == []


async def test_an_aborted_proposal_leaves_no_answers_behind(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("ask", 1, risk="idempotent")])

    aborted = await rt.execute(plan(ask("a"), claim("x", "never", 1, dependencies=["a"])))
    await rt.execute(plan(ask("b"), id="p2"))

    assert aborted.outcome == "aborted"
    assert len(recorder.calls) == 2


async def test_answers_stay_within_their_proposal_until_it_has_ended(recorder: Recorder) -> None:
    go_on, waiting = asyncio.Event(), asyncio.Event()

    async def wait(_: Any) -> None:
        waiting.set()
        await go_on.wait()

    rt = Runtime(tools=[recorder.tool("ask", 1, risk="idempotent"), recorder.tool("wait", wait)])
    slow = plan(ask("a"), call("w", "wait", dependencies=["a"]), id="slow")
    first = asyncio.create_task(rt.execute(slow))
    await waiting.wait()

    await rt.execute(plan(ask("b"), id="meanwhile"))
    go_on.set()
    await first
    await rt.execute(plan(ask("c"), id="afterwards"))

    assert recorder.names.count("ask") == 2


async def test_a_proposal_that_ended_in_part_leaves_its_answers(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("ask", 1, risk="idempotent")])

    partial = await rt.execute(plan(ask("a"), claim("x", "never", 1, failure_behavior="skip")))
    await rt.execute(plan(ask("b"), id="p2"))

    assert partial.outcome == "partial"
    assert len(recorder.calls) == 1


@pytest.mark.parametrize("declared", [{"risk": "idempotent"}, {"idempotent": True, "risk": "network"}])
async def test_a_tool_may_declare_itself_idempotent_in_two_ways(
    recorder: Recorder, declared: dict[str, Any]
) -> None:
    rt = Runtime(tools=[recorder.tool("ask", 1, **declared)])

    await rt.execute(plan(ask("a"), ask("b")))

    assert len(recorder.calls) == 1


async def test_an_action_on_the_state_is_never_deduplicated() -> None:
    rt = Runtime()

    result = await rt.execute(
        plan(
            write("a", "k", 1, idempotent=True),
            write("b", "k", 2, idempotent=True),
            write("c", "k", 1, idempotent=True),
        )
    )

    assert rt.state.get("k") == 1
    assert len(rt.state.transitions_since(0)) == 3
    assert result.outcome == "succeeded"


async def test_a_deduplicated_answer_is_no_call(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("ask", 1, risk="idempotent")])

    result = await rt.execute(plan(ask("a"), ask("b"), ask("c")))

    assert result.cost.tool_calls == 1
    assert result.cost.actions_executed == 3


async def test_changing_a_result_does_not_change_what_is_remembered(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("ask", lambda _: [1], risk="idempotent")])
    first = await rt.execute(plan(ask("a")))
    first["a"].output.append(2)

    second = await rt.execute(plan(ask("b")))
    second["b"].output.append(3)
    third = await rt.execute(plan(ask("c")))

    assert third["c"].output == [1]


async def test_what_is_remembered_is_bounded(recorder: Recorder) -> None:
    """After ten thousand other answers the first is forgotten, and the tool is asked again."""
    asked: list[int] = []

    def answer(parameters: dict[str, Any]) -> int:
        asked.append(parameters["n"])
        return 1

    rt = Runtime()
    rt.register(ToolSchema(name="ask", risk="idempotent"), answer, cheap=True)
    await rt.execute(plan(*(ask(f"a{n}", {"n": n}) for n in range(10_001))))

    await rt.execute(plan(ask("last", {"n": 10_000}), ask("first", {"n": 0})))

    assert asked[10_001:] == [0]


async def test_equal_calls_that_wait_for_a_failing_one_are_made_one_after_the_other(
    recorder: Recorder,
) -> None:
    rt = Runtime(
        tools=[recorder.tool("ask", 1, raises=[ValueError("no"), ValueError("no"), None], risk="idempotent")]
    )

    result = await rt.execute(plan(*(ask(id, failure_behavior="skip") for id in "abcd")))

    assert statuses(result) == {"a": "skipped", "b": "skipped", "c": "succeeded", "d": "succeeded"}
    assert len(recorder.calls) == 3
