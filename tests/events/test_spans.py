"""Spans: one per proposal, a child per action, always ended."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from placet import Cancel, CostBudget, DenyTool, ReplanConfig, Runtime
from placet.events.span import Span
from tests.runtime.plans import Fields, Recorder, call, claim, plan, tool_of, undone_by, write


def by_action(rt: Runtime) -> dict[str | None, Span]:
    return {s.action_id: s for s in rt.events.spans()}


async def test_a_proposal_is_a_span_and_each_action_a_child_of_it(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("note")])

    result = await rt.execute(plan(call("a", "note"), write("b", "k", 1)))

    root, *children = rt.events.spans()
    assert (root.name, root.parent_id, root.proposal_id) == ("proposal", None, "p1")
    assert [(c.name, c.action_id, c.tool) for c in children] == [
        ("action", "a", "note"),
        ("action", "b", None),
    ]
    assert {c.parent_id for c in children} == {root.span_id}
    assert {s.trace_id for s in (root, *children)} == {result.trace_id}
    assert len({s.span_id for s in (root, *children)}) == 3


async def test_a_span_reaches_from_the_first_event_to_the_last() -> None:
    rt = Runtime()

    await rt.execute(plan(write("a", "k", 1)))

    root, child = rt.events.spans()
    assert child.end is not None
    assert root.end is not None
    assert root.start <= child.start <= child.end <= root.end


async def test_the_status_says_how_an_action_ended(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[
            recorder.tool("good"),
            recorder.tool("bad", raises=ValueError("no")),
            recorder.tool("lost", raises=ConnectionResetError("gone")),
            recorder.tool("denied"),
        ],
        policies=[DenyTool(tool="denied")],
    )

    await rt.execute(
        plan(
            call("ok", "good"),
            call("failed", "bad", failure_behavior="retry", max_retries=0),
            call("invalid", "nope", failure_behavior="skip"),
            call("denied", "denied", failure_behavior="skip"),
            call("unknown", "lost", failure_behavior="skip"),
            call("dependent", "good", dependencies=["failed"]),
        )
    )

    assert {name: s.status for name, s in by_action(rt).items()} == {
        None: "error",
        "ok": "ok",
        "failed": "error",
        "invalid": "error",
        "denied": "error",
        "unknown": "error",
        "dependent": "unset",
    }


@pytest.mark.parametrize(
    ("actions", "status"),
    [([write("a", "k", 1)], "ok"), ([claim("a", "k", 1)], "error"), ([], "ok")],
    ids=["succeeded", "aborted", "empty"],
)
async def test_the_status_of_a_proposal_is_ok_only_if_it_succeeded(
    actions: list[Fields], status: str
) -> None:
    rt = Runtime()

    await rt.execute(plan(*actions))

    assert rt.events.spans()[0].status == status


async def test_several_attempts_are_one_span(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("flaky", raises=[ValueError("no"), None])])

    await rt.execute(plan(call("a", "flaky", failure_behavior="retry")))

    assert [s.status for s in rt.events.spans() if s.action_id == "a"] == ["ok"]


async def _fail() -> None:
    raise ValueError("no")


async def _hang() -> None:
    await asyncio.Event().wait()


async def _exit() -> None:
    raise SystemExit(1)


async def _cancel_itself() -> None:
    raise asyncio.CancelledError


async def _junk() -> object:
    return object()


@pytest.mark.parametrize("tool", [_fail, _hang, _exit, _cancel_itself, _junk], ids=lambda f: f.__name__)
@pytest.mark.parametrize("behavior", ["abort", "skip", "retry"])
@pytest.mark.parametrize("schedule", ["levels", "dataflow"])
async def test_every_span_is_ended_whatever_a_tool_does(tool: Any, behavior: str, schedule: Any) -> None:
    rt = Runtime(tools=[tool_of("odd", tool)], schedule=schedule)

    await rt.execute(
        plan(
            call("a", "odd", timeout_ms=20, failure_behavior=behavior, max_retries=0),
            write("b", "k", 1),
            write("c", "k", 2, dependencies=["a"]),
        )
    )

    spans = rt.events.spans()
    assert len(spans) == 4
    assert all(s.end is not None for s in spans)


@pytest.mark.parametrize("how", ["refused", "canceled", "budget"])
async def test_every_span_is_ended_whatever_stops_a_plan(how: str) -> None:
    rt = Runtime(budget=CostBudget(max_actions=1 if how == "budget" else None))
    cancel = Cancel()
    if how == "canceled":
        cancel.cancel()
    second = "a" if how == "refused" else "b"

    result = await rt.execute(plan(write("a", "k", 1), write(second, "k", 2)), cancel=cancel)

    spans = rt.events.spans()
    assert result.outcome == how
    assert len(spans) == 3
    assert all(s.end is not None for s in spans)


async def test_compensations_and_replans_have_ended_spans_of_their_own(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[recorder.tool("book", reversibility="compensable"), recorder.tool("unbook")],
        replan=lambda _: plan(write("w", "k", 1), id="second"),
        replan_config=ReplanConfig(max_replans=1),
    )

    await rt.execute(plan(call("a", "book", **undone_by("unbook")), claim("x", "never", 1), id="first"))

    spans = rt.events.spans()
    assert all(s.end is not None for s in spans)
    assert [(s.proposal_id, s.name) for s in spans if s.name == "proposal"] == [
        ("first", "proposal"),
        ("second", "proposal"),
    ]
    assert "unbook" in {s.tool for s in spans}
    assert len({s.span_id for s in spans}) == len(spans)


async def test_spans_of_one_trace(recorder: Recorder) -> None:
    rt = Runtime()
    first = await rt.execute(plan(write("a", "k", 1), id="p1"))
    await rt.execute(plan(write("a", "k", 1), id="p2"))

    assert {s.proposal_id for s in rt.events.spans(trace=first.trace_id)} == {"p1"}


async def test_a_span_that_is_still_open_has_no_end() -> None:
    seen: list[float | None] = []

    async def look() -> None:
        seen.extend(s.end for s in rt.events.spans())

    rt = Runtime(tools=[tool_of("look", look)])

    await rt.execute(plan(call("a", "look")))

    assert seen == [None, None]
