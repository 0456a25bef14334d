"""Asking a run to end: what had not started never does, what was done stays."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from msgspec import UNSET

from placet import Cancel, Runtime, ToolContext, ToolError
from placet.ir.stop_cause import StopCause
from tests.runtime.plans import Recorder, call, claim, data_of, kinds, plan, statuses, tool_of, write


async def test_a_run_that_was_canceled_before_it_began_starts_nothing(
    recorder: Recorder, schedule: Any
) -> None:
    rt = Runtime(tools=[recorder.tool("note")], schedule=schedule)
    cancel = Cancel()
    cancel.cancel("changed my mind")

    result = await rt.execute(plan(call("a", "note"), write("b", "k", 1)), cancel=cancel)

    assert result.outcome == "canceled"
    assert result.error == "canceled: changed my mind"
    assert statuses(result) == {"a": "skipped", "b": "skipped"}
    assert result["a"].error == result["b"].error == "canceled: changed my mind"
    assert recorder.calls == []
    assert kinds(rt, "a") == ["action_canceled"]


@pytest.mark.parametrize("cause", [StopCause.CALLER, StopCause.DEADLINE, StopCause.KILL_SWITCH])
async def test_why_it_was_canceled_is_a_value_of_the_result(cause: StopCause, schedule: Any) -> None:
    cancel = Cancel()

    async def stop() -> None:
        cancel.cancel("the first", cause=cause)
        cancel.cancel("the second", cause=StopCause.SIGNAL)

    rt = Runtime(tools=[tool_of("stop", stop)], schedule=schedule)

    result = await rt.execute(plan(call("a", "stop"), write("b", "k", 1, dependencies=["a"])), cancel=cancel)

    assert (result.outcome, result.stop_cause, cancel.cause) == ("canceled", cause, cause)
    assert (result["a"].stop_cause, result["b"].stop_cause) == (UNSET, cause)
    assert result.to_dict()["results"][1]["stop_cause"] == cause.value
    assert "stop_cause" not in result.to_dict()["results"][0]


async def test_words_that_begin_like_those_of_a_cancel_make_none(recorder: Recorder) -> None:
    def fail() -> None:
        raise ToolError("canceled: by the tool itself")

    rt = Runtime(tools=[tool_of("fail", fail)])

    result = await rt.execute(plan(call("a", "fail", failure_behavior="skip")))

    assert (result["a"].status, result["a"].error) == ("skipped", "canceled: by the tool itself")
    assert result["a"].stop_cause is UNSET
    assert "action_canceled" not in kinds(rt, "a")


async def test_a_soft_cancel_lets_what_has_started_end_and_keeps_the_state(schedule: Any) -> None:
    cancel = Cancel()

    async def cancel_and_finish() -> str:
        cancel.cancel()
        await asyncio.sleep(0)
        return "finished"

    rt = Runtime(tools=[tool_of("work", cancel_and_finish)], schedule=schedule)

    result = await rt.execute(
        plan(
            write("a", "k", 1), call("b", "work", dependencies=["a"]), write("c", "k", 2, dependencies=["b"])
        ),
        cancel=cancel,
    )

    assert result.outcome == "canceled"
    assert statuses(result) == {"a": "succeeded", "b": "succeeded", "c": "skipped"}
    assert result["b"].output == "finished"
    assert (result["c"].error or "").startswith("canceled: ")
    assert rt.state.snapshot() == {"k": 1}
    assert not result["a"].rolled_back


async def test_cancellation_is_looked_at_before_each_start_within_a_layer() -> None:
    cancel = Cancel()

    async def stop() -> None:
        cancel.cancel()

    rt = Runtime(tools=[tool_of("stop", stop)])

    result = await rt.execute(plan(call("a", "stop"), write("b", "k", 1)), cancel=cancel)

    assert statuses(result) == {"a": "succeeded", "b": "skipped"}


async def test_a_hard_cancel_stops_what_is_in_flight(schedule: Any) -> None:
    cancel = Cancel()
    stopped: list[str] = []

    async def hang() -> None:
        cancel.cancel("enough", hard=True)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append("hang")
            raise

    rt = Runtime(tools=[tool_of("hang", hang, risk="read_only")], schedule=schedule)

    result = await rt.execute(plan(call("a", "hang"), write("b", "k", 1, dependencies=["a"])), cancel=cancel)

    assert stopped == ["hang"]
    assert result.outcome == "canceled"
    assert statuses(result) == {"a": "failed", "b": "skipped"}
    assert (result["a"].error or "").startswith("canceled: enough")


async def test_an_effect_that_was_stopped_in_flight_is_unknown_and_waits_for_a_decision(
    schedule: Any,
) -> None:
    cancel = Cancel()

    async def hang() -> None:
        cancel.cancel("enough", hard=True)
        await asyncio.Event().wait()

    rt = Runtime(tools=[tool_of("pay", hang)], schedule=schedule)

    result = await rt.execute(plan(call("a", "pay")), cancel=cancel)

    assert result.outcome == "canceled"
    assert result["a"].status == "unknown"
    assert (result["a"].error or "").startswith("canceled: enough")
    assert [(w.kind, w.action_id) for w in result.waiting] == [("unknown_outcome", "a")]
    assert kinds(rt, "a")[-1] == "action_unknown"


async def test_a_hard_cancel_keeps_the_state(schedule: Any) -> None:
    cancel = Cancel()

    async def hang() -> None:
        cancel.cancel(hard=True)
        await asyncio.Event().wait()

    rt = Runtime(tools=[tool_of("hang", hang, risk="read_only")], schedule=schedule)

    await rt.execute(plan(write("a", "k", 1), call("b", "hang", dependencies=["a"])), cancel=cancel)

    assert rt.state.snapshot() == {"k": 1}
    assert "state_rollback" not in kinds(rt)


async def test_a_cancel_after_the_last_action_changes_nothing() -> None:
    cancel = Cancel()

    async def last() -> None:
        cancel.cancel()

    rt = Runtime(tools=[tool_of("last", last)])

    result = await rt.execute(plan(call("a", "last")), cancel=cancel)

    assert result.outcome == "succeeded"
    assert result.error is None


async def test_a_hard_cancel_may_come_from_another_thread(schedule: Any) -> None:
    cancel = Cancel()

    async def hang() -> None:
        threading.Thread(target=lambda: cancel.cancel("from afar", hard=True)).start()
        await asyncio.Event().wait()

    rt = Runtime(tools=[tool_of("hang", hang, risk="read_only")], schedule=schedule)

    result = await rt.execute(plan(call("a", "hang")), cancel=cancel)

    assert (result["a"].error or "").startswith("canceled: from afar")


async def test_the_late_answer_of_a_thread_that_was_given_up_is_dropped() -> None:
    cancel = Cancel()
    release, done = threading.Event(), threading.Event()

    def hang() -> str:
        cancel.cancel("enough", hard=True)
        release.wait(30)
        done.set()
        return "late"

    rt = Runtime(tools=[tool_of("hang", hang)])

    result = await rt.execute(plan(call("a", "hang", expected_effects={"k": 1})), cancel=cancel)
    release.set()
    await asyncio.to_thread(done.wait, 30)
    await asyncio.sleep(0.02)

    assert result["a"].status == "unknown"
    assert rt.state.snapshot() == {}
    assert "action_succeeded" not in kinds(rt)


async def test_a_tool_can_see_that_it_should_end() -> None:
    cancel = Cancel()
    seen: list[bool] = []

    async def look(ctx: ToolContext) -> None:
        seen.append(ctx.cancel.requested)
        cancel.cancel()
        seen.append(ctx.cancel.requested)

    rt = Runtime(tools=[tool_of("look", look)])

    await rt.execute(plan(call("a", "look")), cancel=cancel)

    assert seen == [False, True]


async def test_no_attempt_is_made_after_a_cancel(recorder: Recorder) -> None:
    cancel = Cancel()

    async def fail() -> None:
        recorder.calls.append(("fail", {}))
        cancel.cancel()
        raise ValueError("no")

    rt = Runtime(tools=[tool_of("fail", fail)])

    result = await rt.execute(plan(call("a", "fail", failure_behavior="retry")), cancel=cancel)

    assert recorder.names == ["fail"]
    assert result["a"].status == "failed"
    assert result["a"].error == "ValueError: no"
    assert result.cost.retries == 0


async def test_a_follower_of_an_equal_call_is_canceled_with_it() -> None:
    cancel = Cancel()

    async def hang() -> None:
        cancel.cancel("enough", hard=True)
        await asyncio.Event().wait()

    rt = Runtime(tools=[tool_of("ask", hang, risk="idempotent")])
    fields: dict[str, Any] = {"idempotent": True, "failure_behavior": "skip"}

    result = await rt.execute(plan(call("a", "ask", **fields), call("b", "ask", **fields)), cancel=cancel)

    assert statuses(result) == {"a": "unknown", "b": "skipped"}
    assert result["b"].error == "canceled: enough"


async def test_cancelling_the_surrounding_task_ends_the_run_in_order_and_passes_on(schedule: Any) -> None:
    began = asyncio.Event()

    async def hang() -> None:
        began.set()
        await asyncio.Event().wait()

    rt = Runtime(tools=[tool_of("hang", hang, risk="read_only")], schedule=schedule)
    task = asyncio.create_task(
        rt.execute(
            plan(
                write("a", "k", 1),
                call("b", "hang", dependencies=["a"]),
                write("c", "k", 2, dependencies=["b"]),
            )
        )
    )
    await began.wait()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert rt.state.snapshot() == {"k": 1}
    assert data_of(rt, "proposal_ended")[-1]["outcome"] == "canceled"
    assert all(span.end is not None for span in rt.events.spans())


async def test_an_abort_after_a_soft_cancel_is_still_an_abort() -> None:
    """What had started may still fail, and a failure that aborts undoes the plan."""
    cancel = Cancel()

    async def fail() -> None:
        cancel.cancel()
        raise ValueError("no")

    rt = Runtime(tools=[tool_of("fail", fail)], state={"k": 0})

    result = await rt.execute(
        plan(
            write("a", "k", 1), call("b", "fail", dependencies=["a"]), claim("c", "k", 1, dependencies=["b"])
        ),
        cancel=cancel,
    )

    assert result.outcome == "aborted"
    assert rt.state.snapshot() == {"k": 0}


async def test_a_tool_that_was_left_behind_and_fails_late_says_nothing_more() -> None:
    cancel = Cancel()
    release, ended = asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        cancel.cancel("enough", hard=True)
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        ended.set()
        raise ValueError("late")

    rt = Runtime(tools=[tool_of("stubborn", stubborn)])

    result = await rt.execute(plan(call("a", "stubborn", failure_behavior="retry")), cancel=cancel)
    told = kinds(rt)
    release.set()
    await ended.wait()
    await asyncio.sleep(0.01)

    assert result["a"].status == "unknown"
    assert kinds(rt) == told
