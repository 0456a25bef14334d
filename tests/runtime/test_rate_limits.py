"""Tools that may start only so often: calls wait their turn."""

from __future__ import annotations

from typing import Any

from placet import Cancel, Runtime, Scope
from placet.ir.tool_spec import RateLimit
from tests.runtime.plans import Recorder, call, plan, statuses

ONCE_A_MINUTE = RateLimit(max_calls=1, interval_secs=60)


async def test_a_call_within_the_limit_does_not_wait(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[recorder.tool("ping", risk="read_only", rate_limit=RateLimit(max_calls=3, interval_secs=60))]
    )

    result = await rt.execute(plan(*(call(f"a{n}", "ping") for n in range(3))))

    assert result.outcome == "succeeded"


async def test_a_call_over_the_limit_waits(recorder: Recorder) -> None:
    """The next turn comes in a minute, so the second call is still waiting when its time is up."""
    rt = Runtime(tools=[recorder.tool("ping", risk="read_only", rate_limit=ONCE_A_MINUTE)])

    result = await rt.execute(
        plan(call("a", "ping"), call("b", "ping", timeout_ms=30, failure_behavior="skip"))
    )

    assert statuses(result) == {"a": "succeeded", "b": "skipped"}
    assert len(recorder.calls) == 1


async def test_a_call_that_waits_gets_its_turn(recorder: Recorder, schedule: Any) -> None:
    rt = Runtime(
        tools=[
            recorder.tool("ping", risk="read_only", rate_limit=RateLimit(max_calls=2, interval_secs=0.02))
        ],
        schedule=schedule,
    )

    result = await rt.execute(plan(*(call(f"a{n}", "ping", {"n": n}) for n in range(5))))

    assert result.outcome == "succeeded"
    # In a layer that runs at once, those whose turn comes at the same moment may change places.
    assert sorted(p["n"] for _, p in recorder.calls) == [0, 1, 2, 3, 4]


async def test_the_limit_holds_across_proposals(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("ping", risk="read_only", rate_limit=ONCE_A_MINUTE)])

    await rt.execute(plan(call("a", "ping")))
    result = await rt.execute(plan(call("b", "ping", timeout_ms=30)))

    assert result["b"].error == "action timed out after 30 ms"


async def test_each_tool_has_a_limit_of_its_own(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[
            recorder.tool("ping", risk="read_only", rate_limit=ONCE_A_MINUTE),
            recorder.tool("pong", risk="read_only", rate_limit=ONCE_A_MINUTE),
        ]
    )

    result = await rt.execute(plan(call("a", "ping"), call("b", "pong")))

    assert result.outcome == "succeeded"


async def test_one_tenant_does_not_use_up_the_turns_of_another(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("ping", risk="read_only", rate_limit=ONCE_A_MINUTE)])

    results = [
        await rt.execute(plan(call("a", "ping", timeout_ms=200)), scope=scope)
        for scope in (None, Scope(tenant="t1"), Scope(tenant="t2"), Scope(tenant="t1"))
    ]

    assert [r["a"].status for r in results] == ["succeeded", "succeeded", "succeeded", "failed"]


async def test_every_attempt_needs_a_turn(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[recorder.tool("ping", raises=ValueError("no"), risk="read_only", rate_limit=ONCE_A_MINUTE)]
    )

    result = await rt.execute(
        plan(call("a", "ping", timeout_ms=100, failure_behavior="retry", max_retries=1))
    )

    assert result["a"].error == "action timed out after 100 ms"
    assert len(recorder.calls) == 1


async def test_a_cached_answer_needs_no_turn(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[recorder.tool("ping", 1, risk="read_only", rate_limit=ONCE_A_MINUTE, cache_ttl_secs=600)]
    )

    await rt.execute(plan(call("a", "ping")))
    result = await rt.execute(plan(call("b", "ping", timeout_ms=30)))

    assert result["b"].output == 1


async def test_a_hard_cancel_ends_the_waiting_and_nothing_has_happened(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[recorder.tool("pay", rate_limit=ONCE_A_MINUTE), recorder.tool("stop", lambda _: stop())]
    )
    cancel = Cancel()

    def stop() -> None:
        cancel.cancel("enough", hard=True)

    await rt.execute(plan(call("first", "pay")))

    result = await rt.execute(
        plan(call("a", "pay", failure_behavior="skip"), call("b", "stop", failure_behavior="skip")),
        cancel=cancel,
    )

    assert result["a"].status == "skipped"
    assert result["a"].error == "canceled: enough"
    assert recorder.names == ["pay", "stop"]


async def test_a_call_that_gave_up_waiting_leaves_the_window_as_it_was(recorder: Recorder) -> None:
    """It takes no turn of those behind it, and does not wipe out the one before it either."""
    rt = Runtime(tools=[recorder.tool("ping", risk="read_only", rate_limit=ONCE_A_MINUTE)])
    await rt.execute(plan(call("first", "ping")))

    results = [await rt.execute(plan(call("a", "ping", timeout_ms=20))) for _ in range(3)]

    assert [r["a"].status for r in results] == ["failed", "failed", "failed"]
    assert len(recorder.calls) == 1
