"""How often an action is tried, what counts as a failure, and what a failure does to the plan."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from placet import Runtime, ToolError, ToolSchema, tool
from placet.ir.codec import encode
from tests.runtime.plans import Recorder, call, claim, data_of, kinds, plan, statuses, tool_of, write


async def test_with_retry_there_are_max_retries_and_one_more_attempts(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("boom", raises=ValueError("no"))])

    result = await rt.execute(plan(call("a", "boom", failure_behavior="retry", max_retries=2)))

    assert len(recorder.calls) == 3
    assert result["a"].status == "failed"
    assert result["a"].error == "ValueError: no"
    assert result.cost.retries == 2


@pytest.mark.parametrize("behavior", ["abort", "skip"])
async def test_without_retry_there_is_one_attempt(recorder: Recorder, behavior: str) -> None:
    rt = Runtime(tools=[recorder.tool("boom", raises=ValueError("no"))])

    result = await rt.execute(plan(call("a", "boom", failure_behavior=behavior, max_retries=5)))

    assert len(recorder.calls) == 1
    assert result.cost.retries == 0


async def test_retry_with_no_retries_is_one_attempt(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("boom", raises=ValueError("no"))])

    await rt.execute(plan(call("a", "boom", failure_behavior="retry", max_retries=0)))

    assert len(recorder.calls) == 1


async def test_the_wait_before_an_attempt_doubles_from_a_tenth_of_a_second(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("boom", raises=ValueError("no"))])

    await rt.execute(plan(call("a", "boom", failure_behavior="retry", max_retries=2)))

    assert data_of(rt, "action_retrying", "a") == [
        {"attempt": 2, "delay_ms": 100, "error": "ValueError: no"},
        {"attempt": 3, "delay_ms": 200, "error": "ValueError: no"},
    ]


async def test_an_attempt_that_succeeds_ends_the_retries(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("flaky", "ok", raises=[ValueError("no"), None])])

    result = await rt.execute(plan(call("a", "flaky", failure_behavior="retry", max_retries=5)))

    assert result.outcome == "succeeded"
    assert result["a"].output == "ok"
    assert result.cost.retries == 1
    assert kinds(rt, "a") == [
        "action_validated",
        "action_executing",
        "action_retrying",
        "action_executing",
        "action_succeeded",
    ]


async def test_an_action_that_failed_for_good_says_so_once(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("boom", raises=ValueError("no"))])

    await rt.execute(plan(call("a", "boom", failure_behavior="retry", max_retries=1)))

    assert data_of(rt, "action_failed", "a") == [{"error": "ValueError: no", "attempt": 2, "tool": "boom"}]


async def test_after_an_exhausted_retry_the_rest_goes_on(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("boom", raises=ValueError("no"))])

    result = await rt.execute(
        plan(call("a", "boom", failure_behavior="retry", max_retries=1), write("b", "k", 1))
    )

    assert result.outcome == "partial"
    assert statuses(result) == {"a": "failed", "b": "succeeded"}
    assert rt.state.snapshot() == {"k": 1}


async def test_an_exhausted_skip_is_skipped_with_the_last_error(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("boom", raises=ValueError("no"))])

    result = await rt.execute(plan(call("a", "boom", failure_behavior="skip"), write("b", "k", 1)))

    assert result.outcome == "partial"
    assert statuses(result) == {"a": "skipped", "b": "succeeded"}
    assert result["a"].error == "ValueError: no"


async def test_a_failure_with_abort_aborts_the_plan(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("boom", raises=ValueError("no"))])

    result = await rt.execute(plan(write("a", "k", 1), call("b", "boom"), write("c", "j", 1)))

    assert result.outcome == "aborted"
    assert result.error == "action 'b' failed: ValueError: no"
    assert statuses(result) == {"a": "succeeded", "b": "failed", "c": "skipped"}
    assert rt.state.snapshot() == {}


async def test_abort_is_the_default(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("boom", raises=ValueError("no"))])

    result = await rt.execute({"actions": [{"tool": "boom"}]})

    assert result.outcome == "aborted"


async def test_a_tool_error_is_said_in_its_own_words(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("boom", raises=ToolError("the shelf is empty"))])

    result = await rt.execute(plan(call("a", "boom")))

    assert result["a"].error == "the shelf is empty"


async def test_a_tool_error_that_rules_out_a_retry_is_not_retried(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("boom", raises=ToolError("no such file", retry=False))])

    result = await rt.execute(plan(call("a", "boom", failure_behavior="retry")))

    assert len(recorder.calls) == 1
    assert result["a"].status == "failed"


async def test_an_answer_that_does_not_fit_what_the_tool_declares_fails_and_is_never_retried(
    recorder: Recorder,
) -> None:
    rt = Runtime(tools=[recorder.tool("count", "many", returns={"type": "integer"})])

    result = await rt.execute(plan(call("a", "count", failure_behavior="retry", expected_effects={"k": 1})))

    assert len(recorder.calls) == 1
    assert result["a"].status == "failed"
    assert "'returns'" in (result["a"].error or "")
    assert rt.state.snapshot() == {}


@pytest.mark.parametrize(
    "junk", [float("nan"), float("inf"), object(), {1: 2}, {"a": {object()}}, [b"\xff\xfe", object()]]
)
async def test_an_answer_that_is_no_json_fails_and_is_never_retried(recorder: Recorder, junk: Any) -> None:
    rt = Runtime(tools=[recorder.tool("odd", junk)])

    result = await rt.execute(plan(call("a", "odd", failure_behavior="retry"), write("b", "k", 1)))

    assert len(recorder.calls) == 1
    assert result["a"].status == "failed"
    assert "the tool's answer cannot be used" in (result["a"].error or "")
    assert result["b"].status == "succeeded"


@pytest.mark.parametrize("lost", [ConnectionResetError("gone"), TimeoutError("gone"), EOFError("gone")])
async def test_a_lost_connection_of_a_tool_with_effects_ends_unknown_and_is_not_retried(
    recorder: Recorder, lost: Exception
) -> None:
    rt = Runtime(tools=[recorder.tool("pay", raises=lost)])

    result = await rt.execute(plan(call("a", "pay", failure_behavior="retry")))

    assert len(recorder.calls) == 1
    assert result["a"].status == "unknown"
    assert [w.action_id for w in result.waiting] == ["a"]


@pytest.mark.parametrize("declared", [{"risk": "read_only"}, {"risk": "idempotent"}, {"idempotent": True}])
async def test_a_lost_connection_of_a_repeatable_tool_is_tried_again(
    recorder: Recorder, declared: dict[str, Any]
) -> None:
    rt = Runtime(tools=[recorder.tool("ask", "ok", raises=[ConnectionResetError("gone"), None], **declared)])

    result = await rt.execute(plan(call("a", "ask", failure_behavior="retry")))

    assert len(recorder.calls) == 2
    assert result["a"].output == "ok"


async def test_a_refused_connection_is_a_plain_failure(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("pay", "ok", raises=[ConnectionRefusedError("closed"), None])])

    result = await rt.execute(plan(call("a", "pay", failure_behavior="retry")))

    assert result["a"].output == "ok"


async def test_a_tool_may_say_itself_that_its_outcome_is_unknown(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("pay", raises=ToolError("the bank did not answer", unknown=True))])

    result = await rt.execute(plan(call("a", "pay", failure_behavior="retry")))

    assert len(recorder.calls) == 1
    assert result["a"].status == "unknown"
    assert result.waiting[0].reason == "the bank did not answer"


async def test_a_read_has_no_outcome_to_be_unknown(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("look", raises=ConnectionResetError("gone"), risk="read_only")])

    result = await rt.execute(plan(call("a", "look", failure_behavior="retry", max_retries=1)))

    assert result["a"].status == "failed"
    assert list(result.waiting) == []


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), RecursionError("deep")])
async def test_whatever_a_tool_raises_ends_its_action_alone(sync: bool, error: BaseException) -> None:
    def raise_sync() -> None:
        raise error

    async def raise_async() -> None:
        raise error

    rt = Runtime(tools=[tool_of("odd", raise_sync if sync else raise_async)])

    result = await rt.execute(plan(call("a", "odd", failure_behavior="skip"), write("b", "k", 1)))

    assert result["a"].status in ("skipped", "unknown")
    assert result["a"].error
    assert result["b"].status == "succeeded"


async def test_a_tool_that_exits_the_process_does_not() -> None:
    async def leave() -> None:
        sys.exit(3)

    rt = Runtime(tools=[tool_of("leave", leave)])

    result = await rt.execute(plan(call("a", "leave")))

    assert result["a"].error == "the tool tried to exit the process (code 3)"


async def test_an_error_that_cannot_be_shown_is_still_a_failure() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("not a word")

    async def fail() -> None:
        raise Mute

    rt = Runtime(tools=[tool_of("fail", fail)])

    result = await rt.execute(plan(call("a", "fail")))

    assert result["a"].status == "failed"
    assert (result["a"].error or "").startswith("Mute")


async def test_an_error_text_can_always_be_logged_and_sent(recorder: Recorder) -> None:
    name = b"caf\xe9".decode(errors="surrogateescape")
    rt = Runtime(tools=[recorder.tool("boom", raises=ToolError(f"no file {name}"))])

    result = await rt.execute(plan(call("a", "boom")))

    assert result["a"].error == "no file caf?"
    assert b"caf?" in encode(result)
    assert encode(list(rt.events))


async def test_every_attempt_gets_parameters_of_its_own(recorder: Recorder) -> None:
    seen: list[list[int]] = []

    async def spoil(items: list[int]) -> None:
        seen.append(list(items))
        items.append(99)
        raise ValueError("no")

    rt = Runtime(tools=[tool_of("spoil", spoil)])

    await rt.execute(plan(call("a", "spoil", {"items": [1]}, failure_behavior="retry", max_retries=1)))

    assert seen == [[1], [1]]


async def test_an_assertion_may_be_tried_again(recorder: Recorder) -> None:
    rt = Runtime(state={"k": 1})

    result = await rt.execute(plan(claim("a", "k", 2, failure_behavior="retry", max_retries=1)))

    assert result["a"].status == "failed"
    assert result.cost.retries == 1


async def test_effects_are_written_once_after_the_attempt_that_succeeds(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("flaky", raises=[ValueError("no"), None])])

    await rt.execute(plan(call("a", "flaky", failure_behavior="retry", expected_effects={"k": 1})))

    assert [(t.key, t.new) for t in rt.state.transitions_since(0)] == [("k", 1)]


async def test_a_tool_of_which_only_the_schema_is_known_has_no_handler() -> None:
    rt = Runtime()
    rt.register(ToolSchema(name="ghost"))

    result = await rt.execute(plan(call("a", "ghost", failure_behavior="retry")))

    assert result["a"].status == "failed"
    assert result["a"].error == "no handler for tool 'ghost'"
    assert result.cost.tool_calls == 0


async def test_a_tool_that_allows_fewer_retries_than_the_plan_asks_for_wins() -> None:
    made = 0

    @tool(max_retries=1)
    async def stubborn() -> None:
        nonlocal made
        made += 1
        raise ValueError("no")

    await Runtime(tools=[stubborn]).execute(
        plan(call("a", "stubborn", failure_behavior="retry", max_retries=5))
    )

    assert made == 2


async def test_the_wait_before_each_further_attempt_doubles_from_a_hundred_milliseconds(
    recorder: Recorder,
) -> None:
    rt = Runtime(tools=[recorder.tool("boom", raises=ValueError("no"))])

    await rt.execute(plan(call("a", "boom", failure_behavior="retry", max_retries=3)))

    waits = [e.data["delay_ms"] for e in rt.events.query(kind="action_retrying")]
    assert waits == [100, 200, 400]
