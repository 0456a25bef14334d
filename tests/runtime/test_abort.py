"""Taking a plan back: the state is as it was, and what cannot be undone is named."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from placet import Runtime
from placet.state.store import MISSING
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
    write,
)


async def test_an_aborted_plan_leaves_the_state_as_it_was(schedule: Any) -> None:
    rt = Runtime(state={"old": [1], "same": 5}, schedule=schedule)

    result = await rt.execute(
        plan(
            write("a", "old", [2]),
            write("b", "new", 1),
            write("c", "old", [3]),
            claim("d", "old", "never"),
            write("e", "new", 2),
        )
    )

    assert result.outcome == "aborted"
    assert rt.state.snapshot() == {"old": [1], "same": 5}


async def test_what_had_not_run_is_skipped(schedule: Any) -> None:
    rt = Runtime(schedule=schedule)

    result = await rt.execute(plan(claim("a", "k", 1), write("b", "k", 2), write("c", "j", 2)))

    assert statuses(result) == {"a": "failed", "b": "skipped", "c": "skipped"}
    assert "the plan was aborted" in (result["b"].error or "")
    assert kinds(rt, "b") == ["action_skipped"]


async def test_what_had_succeeded_is_marked_as_rolled_back(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("look", risk="read_only")])

    result = await rt.execute(
        plan(write("a", "k", 1), call("b", "look"), claim("c", "k", 2), write("d", "k", 3))
    )

    assert {r.action_id: r.rolled_back for r in result.results} == {
        "a": True,
        "b": True,
        "c": False,
        "d": False,
    }
    assert statuses(result)["a"] == "succeeded"


async def test_nothing_is_marked_as_rolled_back_in_a_plan_that_goes_on() -> None:
    result = await Runtime().execute(plan(write("a", "k", 1), claim("b", "k", 2, failure_behavior="skip")))

    assert result.outcome == "partial"
    assert not any(r.rolled_back for r in result.results)


async def test_undoing_appends_to_the_log_and_never_truncates_it() -> None:
    rt = Runtime(state={"old": 1})
    version = rt.state.version

    await rt.execute(plan(write("a", "old", 2), write("b", "new", 3), claim("c", "old", 9)))

    changes = rt.state.transitions_since(version)
    assert [(t.key, t.new) for t in changes] == [("old", 2), ("new", 3), ("new", MISSING), ("old", 1)]
    assert [t.version for t in rt.state.transitions_since(0)] == list(range(1, rt.state.version + 1))


async def test_undoing_costs_what_was_changed_and_not_what_is_stored() -> None:
    rt = Runtime(state={f"k{n}": n for n in range(500)})
    version = rt.state.version

    await rt.execute(plan(write("a", "k7", 0), claim("b", "k7", 9)))

    assert [t.key for t in rt.state.transitions_since(version)] == ["k7", "k7"]


async def test_an_abort_is_told_by_a_snapshot_and_a_rollback() -> None:
    rt = Runtime(state={"old": 1})

    await rt.execute(plan(write("a", "old", 2), write("b", "new", 3), claim("c", "old", 9)))

    assert data_of(rt, "state_snapshot") == [{"state": {"old": 1}}]
    assert data_of(rt, "state_rollback") == [{"restored": ["old"], "removed": ["new"]}]
    assert kinds(rt)[-3:] == ["state_snapshot", "state_rollback", "proposal_ended"]


async def test_what_ran_and_cannot_be_undone_is_named(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[
            recorder.tool("nothing_declared"),
            recorder.tool("network", risk="network"),
            recorder.tool("look", risk="read_only"),
            recorder.tool("draft", reversibility="reversible"),
            recorder.tool("book", reversibility="compensable"),
            recorder.tool("unbook", risk="idempotent"),
        ]
    )

    result = await rt.execute(
        plan(
            call("a", "nothing_declared"),
            call("b", "network"),
            call("c", "look"),
            call("d", "draft"),
            call("e", "book", reversibility="irreversible"),
            call("f", "book", **undone_by("unbook")),
            write("g", "k", 1),
            claim("h", "k", 2),
            call("i", "nothing_declared", dependencies=["h"]),
        )
    )

    assert result.outcome == "aborted"
    assert list(result.irreversible) == ["a", "b", "e"]


async def test_a_plan_that_was_not_aborted_names_nothing_irreversible(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("pay")])

    result = await rt.execute(plan(call("a", "pay")))

    assert list(result.irreversible) == []


@pytest.mark.parametrize(
    ("behavior", "outcome"), [("abort", "aborted"), ("skip", "partial"), ("retry", "partial")]
)
async def test_only_abort_aborts(behavior: str, outcome: str) -> None:
    rt = Runtime()

    result = await rt.execute(
        plan(write("a", "k", 1), claim("b", "k", 2, failure_behavior=behavior, max_retries=0))
    )

    assert result.outcome == outcome
    assert rt.state.exists("k") is (outcome == "partial")


async def test_the_result_says_which_action_aborted_the_plan_and_why() -> None:
    rt = Runtime(state={"k": 1})

    failed = await rt.execute(plan(claim("a", "k", 2)))
    rejected = await rt.execute(plan(call("b", "unknown_tool")))

    assert failed.error == "action 'a' failed: assertion failed: 'k' is 1, expected 2"
    assert (rejected.error or "").startswith("action 'b' was rejected: unknown tool 'unknown_tool'")


async def test_a_tool_that_was_stopped_by_the_abort_leaves_no_effect_in_the_state() -> None:
    began = asyncio.Event()

    async def hang() -> None:
        began.set()
        await asyncio.Event().wait()

    async def fail() -> None:
        await began.wait()
        raise ValueError("no")

    rt = Runtime(tools=[tool_of("hang", hang), tool_of("fail", fail)], schedule="dataflow")

    result = await rt.execute(plan(call("a", "hang", expected_effects={"k": 1}), call("b", "fail")))

    assert result["a"].status == "unknown"
    assert list(result.irreversible) == ["a"]
    assert [w.action_id for w in result.waiting] == ["a"]
    assert rt.state.snapshot() == {}


async def test_reads_before_an_abort_keep_their_output() -> None:
    rt = Runtime(state={"k": 1})

    result = await rt.execute(plan(read("a", "k"), claim("b", "k", 2, dependencies=["a"])))

    assert result["a"].output == 1


async def test_the_state_can_be_used_as_before_after_an_abort() -> None:
    rt = Runtime(state={"k": 1})
    await rt.execute(plan(write("a", "k", 2), claim("b", "k", 3)))

    result = await rt.execute(plan(claim("a", "k", 1), write("b", "k", 5)))

    assert result.outcome == "succeeded"
    assert rt.state.snapshot() == {"k": 5}
