"""A call that was made is reported as made, and an effect that happened is undone or named."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from placet import Cancel, Runtime, ToolError
from placet.durable.memory import MemoryJournal
from placet.ir.tool_spec import RateLimit
from placet.runtime.journal import Tried
from tests.runtime.plans import (
    Recorder,
    call,
    claim,
    data_of,
    kinds,
    plan,
    read,
    statuses,
    tool_of,
    undone_by,
)

NUMBER = {"type": "object", "properties": {"ref": {"type": "string"}, "sum": {"type": "integer"}}}


def charge() -> str:
    raise RuntimeError("card refused")


def fail() -> None:
    raise RuntimeError("at once")


async def test_a_first_attempt_that_failed_is_reported_when_the_plan_stops_before_the_retry(
    schedule: Any,
) -> None:
    rt = Runtime(
        tools=[
            tool_of("charge", charge, cheap=True, risk="read_only"),
            tool_of("fail", fail, cheap=True, risk="read_only"),
        ],
        schedule=schedule,
    )

    result = await rt.execute(
        plan(call("a", "charge", failure_behavior="retry"), call("b", "fail", failure_behavior="abort"))
    )

    assert result.outcome == "aborted"
    assert statuses(result) == {"a": "failed", "b": "failed"}
    assert result["a"].error == "RuntimeError: card refused"
    assert result.cost.tool_calls == result.cost.actions_executed == 2
    assert result.cost.actions_skipped == result.cost.retries == 0
    assert kinds(rt, "a")[-1] == "action_failed"
    assert data_of(rt, "action_failed", "a")[0]["error"] == "RuntimeError: card refused"


async def test_it_is_reported_with_effects_too() -> None:
    rt = Runtime(
        tools=[tool_of("charge", charge, cheap=True), tool_of("fail", fail, cheap=True)], schedule="dataflow"
    )

    result = await rt.execute(
        plan(call("a", "charge", failure_behavior="retry"), call("b", "fail", failure_behavior="abort"))
    )

    assert statuses(result) == {"a": "failed", "b": "failed"}
    assert result["a"].error == "RuntimeError: card refused"


async def test_a_hard_cancel_before_the_retry_does_not_lose_the_error(schedule: Any) -> None:
    cancel = Cancel()

    def stop() -> None:
        cancel.cancel("enough", hard=True)
        raise RuntimeError("card refused")

    rt = Runtime(tools=[tool_of("charge", stop, cheap=True)], schedule=schedule)

    result = await rt.execute(plan(call("a", "charge", failure_behavior="retry")), cancel=cancel)

    assert result.outcome == "canceled"
    assert statuses(result) == {"a": "failed"}
    assert result["a"].error == "RuntimeError: card refused"


async def test_a_retry_that_waits_for_its_turn_when_the_plan_stops_has_failed_before(schedule: Any) -> None:
    """The second attempt never entered the tool; the first one did."""
    cancel = Cancel()
    rt = Runtime(
        tools=[
            tool_of(
                "charge", charge, rate_limit=RateLimit(max_calls=1, interval_secs=3600.0), risk="read_only"
            ),
        ],
        schedule=schedule,
    )

    async def stop_at_second_attempt() -> None:
        while not any(  # noqa: ASYNC110 - the log has no signal to wait for
            e.kind == "action_executing" and e.data["attempt"] == 2 for e in rt.events
        ):
            await asyncio.sleep(0.001)
        cancel.cancel("enough", hard=True)

    document = plan(call("a", "charge", failure_behavior="retry", max_retries=1))
    result, _ = await asyncio.gather(rt.execute(document, cancel=cancel), stop_at_second_attempt())

    assert statuses(result) == {"a": "failed"}
    assert result["a"].error == "RuntimeError: card refused"


BAD = {
    "does not fit returns": {"ref": "R-7", "sum": "twelve"},
    "no JSON": {"ref": {1, 2}},
}


@pytest.mark.parametrize("answer", BAD.values(), ids=BAD.keys())
@pytest.mark.parametrize("behavior", ["abort", "retry", "skip"])
async def test_an_effect_whose_answer_cannot_be_used_is_named_irreversible(
    answer: Any, behavior: str, schedule: Any
) -> None:
    recorder = Recorder()
    paid = asyncio.Event()

    def pay(parameters: Any) -> Any:
        paid.set()
        return answer

    async def fail_afterwards() -> None:
        await paid.wait()
        raise RuntimeError("afterwards")

    rt = Runtime(
        tools=[recorder.tool("pay", pay, returns=NUMBER), tool_of("fail", fail_afterwards)],
        schedule=schedule,
    )

    result = await rt.execute(
        plan(
            call("a", "pay", failure_behavior=behavior),
            read("r", "k"),
            call("b", "fail", dependencies=["r"]),
        )
    )

    assert recorder.names == ["pay"]
    assert result.outcome == "aborted"
    assert result["a"].status == ("skipped" if behavior == "skip" else "failed")
    assert list(result.irreversible) == ["a"]
    assert result["a"].rolled_back
    assert data_of(rt, "action_failed", "a")[0]["took_effect"] is True


async def test_it_is_compensated_with_the_answer_that_did_not_fit(recorder: Recorder, schedule: Any) -> None:
    rt = Runtime(
        tools=[
            recorder.tool("book", BAD["does not fit returns"], reversibility="compensable", returns=NUMBER),
            recorder.tool("unbook"),
        ],
        schedule=schedule,
    )

    result = await rt.execute(plan(call("a", "book", **undone_by("unbook", ref="$a.output.ref"))))

    assert result.outcome == "aborted"
    assert recorder.calls[1:] == [("unbook", {"ref": "R-7"})]
    assert [(c.action_id, c.status) for c in result.compensations] == [("a", "succeeded")]
    assert list(result.irreversible) == []
    assert result["a"].status == "failed"
    assert result["a"].output is None


async def test_a_compensation_that_needs_what_was_no_json_is_reported_as_not_done(
    recorder: Recorder,
) -> None:
    rt = Runtime(
        tools=[
            recorder.tool("book", BAD["no JSON"], reversibility="compensable"),
            recorder.tool("unbook"),
        ]
    )

    result = await rt.execute(plan(call("a", "book", **undone_by("unbook", ref="$a.output.ref"))))

    assert recorder.names == ["book"]
    assert [(c.action_id, c.status) for c in result.compensations] == [("a", "rejected")]


async def test_a_tool_can_say_that_it_took_effect(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("pay", raises=ToolError("no receipt came", took_effect=True))])

    result = await rt.execute(plan(call("a", "pay", failure_behavior="retry"), claim("b", "never", 1)))

    assert recorder.names == ["pay"], "what took effect is not tried again"
    assert statuses(result) == {"a": "failed", "b": "failed"}
    assert list(result.irreversible) == ["a"]


async def test_a_tool_that_raised_says_that_nothing_happened(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("pay", raises=ToolError("refused", retry=False))])

    result = await rt.execute(plan(call("a", "pay")))

    assert result.outcome == "aborted"
    assert list(result.irreversible) == []


async def test_a_retry_that_fails_does_not_make_an_unknown_outcome_known(recorder: Recorder) -> None:
    """The first attempt may have charged the card, although the second was refused."""
    lost_then_refused = [ToolError("line is dead", unknown=True), ToolError("refused", retry=False)]
    rt = Runtime(tools=[recorder.tool("pay", raises=lost_then_refused, risk="idempotent")])

    result = await rt.execute(plan(call("a", "pay", failure_behavior="retry"), claim("b", "never", 1)))

    assert recorder.names == ["pay", "pay"]
    assert result["a"].status == "unknown"
    assert list(result.irreversible) == ["a"]
    assert [w.action_id for w in result.waiting] == ["a"]
    assert kinds(rt, "a")[-1] == "action_unknown"


async def test_a_read_that_is_stopped_in_flight_has_not_been_skipped() -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    async def fail_later() -> None:
        await asyncio.sleep(0)
        raise RuntimeError("late")

    rt = Runtime(
        tools=[
            tool_of("look", hang, risk="read_only"),
            tool_of("fail", fail_later, risk="read_only"),
        ],
        schedule="dataflow",
    )

    result = await rt.execute(plan(call("a", "look"), call("b", "fail")))

    assert statuses(result) == {"a": "failed", "b": "failed"}
    assert (result["a"].error or "").startswith("the plan was aborted")
    assert kinds(rt, "a")[-1] == "action_failed"


async def test_after_a_restart_the_report_says_the_same(recorder: Recorder) -> None:
    """Cut after every note, the effect is compensated once and reported as in a run that was not cut."""
    document = plan(
        call("a", "book", failure_behavior="retry", **undone_by("unbook", ref="$a.output.ref")),
        call("b", "pay", failure_behavior="retry"),
        claim("c", "never", 1, dependencies=[]),
    )

    def runtime(journal: MemoryJournal) -> Runtime:
        return Runtime(
            tools=[
                recorder.tool(
                    "book", BAD["does not fit returns"], reversibility="compensable", returns=NUMBER
                ),
                recorder.tool("pay", BAD["no JSON"]),
                recorder.tool("unbook", idempotent=True),
            ],
            journal=journal,
        )

    journal = MemoryJournal()
    whole = await runtime(journal).execute(document, run_id="r1")
    record, notes = journal._runs["r1"].record, journal._runs["r1"].notes
    assert list(whole.irreversible) == ["b"]
    assert [(c.action_id, c.status) for c in whole.compensations] == [("a", "succeeded")]

    for cut in range(len(notes) + 1):
        recorder.calls.clear()
        journal = MemoryJournal()
        held = await journal.begin(record)
        for note in notes[:cut]:
            held.note(note)
        journal.lose_holders()
        rt = runtime(journal)

        result = await rt.resume("r1")
        if result.outcome == "waiting":
            result = await rt.resume("r1", decide={w.action_id: "retry" for w in result.waiting})

        assert statuses(result) == statuses(whole), cut
        assert list(result.irreversible) == ["b"], cut
        assert [(c.action_id, c.status) for c in result.compensations] == [("a", "succeeded")], cut
        assert all(p == {"ref": "R-7"} for name, p in recorder.calls if name == "unbook")


async def test_after_a_restart_an_attempt_that_failed_before_is_not_skipped(schedule: Any) -> None:
    """Killed while an action waited for its retry; after that another action aborts the plan first."""

    async def fail_late() -> None:
        raise RuntimeError("late")

    def runtime(journal: MemoryJournal) -> Runtime:
        return Runtime(
            tools=[tool_of("charge", charge, cheap=True), tool_of("fail", fail_late)],
            journal=journal,
            schedule=schedule,
        )

    document = plan(
        call("b", "fail", failure_behavior="abort"),
        call("a", "charge", failure_behavior="retry", max_retries=1),
    )
    journal = MemoryJournal()
    await runtime(journal).execute(plan(document["actions"][1]), run_id="r1")
    tried = next(n for n in journal._runs["r1"].notes if isinstance(n, Tried))
    journal = MemoryJournal()
    await runtime(journal).execute(document, run_id="r1")
    cut = MemoryJournal()
    held = await cut.begin(journal._runs["r1"].record)
    held.note(msgspec.structs.replace(tried, key="0-1"))
    cut.lose_holders()

    result = await runtime(cut).resume("r1")

    assert statuses(result) == {"b": "failed", "a": "failed"}
    assert result["a"].error == "RuntimeError: card refused"
