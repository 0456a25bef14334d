"""Compensations: what takes an action back when the state alone cannot."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from placet import Action, DenyTool, Runtime, ToolError
from tests.runtime.plans import (
    Recorder,
    call,
    claim,
    data_of,
    kinds,
    plan,
    statuses,
    tool_of,
    undone_by,
    write,
)


def abort(id: str = "abort", **fields: Any) -> dict[str, Any]:
    return claim(id, "never", 1, **fields)


def trip(recorder: Recorder, **options: Any) -> Runtime:
    return Runtime(
        tools=[
            recorder.tool("book", lambda p: {"ref": f"R-{p.get('n')}"}, reversibility="compensable"),
            recorder.tool("unbook"),
            recorder.tool("unstable_unbook", raises=ToolError("the line is dead", retry=False)),
        ],
        **options,
    )


async def test_compensations_run_in_reverse_order_of_completion(recorder: Recorder, schedule: Any) -> None:
    rt = trip(recorder, schedule=schedule)
    bookings = [call(f"a{n}", "book", {"n": n}, **undone_by("unbook", n=n)) for n in range(3)]

    result = await rt.execute(plan(*bookings, abort(dependencies=["a0", "a1", "a2"])))

    completed = [p["n"] for name, p in recorder.calls if name == "book"]
    assert [p["n"] for name, p in recorder.calls if name == "unbook"] == completed[::-1]
    assert [c.status for c in result.compensations] == ["succeeded"] * 3
    assert list(result.irreversible) == []


async def test_the_order_is_that_of_completion_and_not_of_the_list() -> None:
    recorder = Recorder()
    second_done = asyncio.Event()

    async def book(n: int) -> None:
        if n == 1:
            await second_done.wait()
        else:
            second_done.set()

    rt = Runtime(
        tools=[tool_of("book", book, reversibility="compensable"), recorder.tool("unbook")],
        schedule="dataflow",
    )

    await rt.execute(
        plan(
            call("a", "book", {"n": 1}, **undone_by("unbook", of="a")),
            call("b", "book", {"n": 2}, **undone_by("unbook", of="b")),
            abort(dependencies=["a", "b"]),
        )
    )

    assert [p["of"] for _, p in recorder.calls] == ["a", "b"]


async def test_parameters_may_refer_to_the_actions_own_output(recorder: Recorder) -> None:
    rt = trip(recorder)

    await rt.execute(
        plan(
            call("a", "book", {"n": 7}, **undone_by("unbook", ref="$a.output.ref", text="no $a.output.ref")),
            abort(),
        )
    )

    assert recorder.calls[-1] == ("unbook", {"ref": "R-7", "text": "no R-7"})


async def test_only_what_succeeded_is_compensated(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[
            recorder.tool("book", raises=[None, ValueError("full")], reversibility="compensable"),
            recorder.tool("unbook"),
        ]
    )

    result = await rt.execute(
        plan(
            call("a", "book", **undone_by("unbook", of="a")),
            call("b", "book", **undone_by("unbook", of="b")),
            call("c", "book", **undone_by("unbook", of="c")),
        )
    )

    assert statuses(result) == {"a": "succeeded", "b": "failed", "c": "skipped"}
    assert [p for name, p in recorder.calls if name == "unbook"] == [{"of": "a"}]


async def test_a_plan_that_succeeds_compensates_nothing(recorder: Recorder) -> None:
    rt = trip(recorder)

    result = await rt.execute(plan(call("a", "book", **undone_by("unbook"))))

    assert recorder.names == ["book"]
    assert list(result.compensations) == []


async def test_a_compensation_passes_the_policies(recorder: Recorder) -> None:
    rt = trip(recorder, policies=[("no way back", DenyTool(tool="unbook"))])

    result = await rt.execute(plan(call("a", "book", **undone_by("unbook")), abort()))

    assert recorder.names == ["book"]
    (compensation,) = result.compensations
    assert (compensation.action_id, compensation.status) == ("a", "rejected")
    assert compensation.error == "policy 'no way back': tool 'unbook' is denied"


async def test_policies_see_the_resolved_parameters_of_a_compensation(recorder: Recorder) -> None:
    seen: list[Any] = []

    def look(action: Action) -> None:
        seen.append((action.tool, dict(action.parameters)))

    rt = trip(recorder, policies=[look])

    await rt.execute(plan(call("a", "book", {"n": 1}, **undone_by("unbook", ref="$a.output.ref")), abort()))

    assert seen[-1] == ("unbook", {"ref": "R-1"})


async def test_a_compensation_that_fails_is_reported_and_does_not_stop_the_others(recorder: Recorder) -> None:
    rt = trip(recorder)

    result = await rt.execute(
        plan(
            call("a", "book", **undone_by("unbook")),
            call("b", "book", **undone_by("unstable_unbook")),
            call("c", "book", **undone_by("unbook")),
            abort(),
        )
    )

    assert [(c.action_id, c.status, c.error) for c in result.compensations] == [
        ("c", "succeeded", None),
        ("b", "failed", "the line is dead"),
        ("a", "succeeded", None),
    ]
    assert result.outcome == "aborted"
    assert kinds(rt).count("compensation_started") == 3
    assert data_of(rt, "compensation_failed", "b") == [
        {"tool": "unstable_unbook", "error": "the line is dead"}
    ]
    assert [e.action_id for e in rt.events.query(kind="compensation_succeeded")] == ["c", "a"]


async def test_a_reference_that_does_not_resolve_rejects_the_compensation(recorder: Recorder) -> None:
    rt = trip(recorder)

    result = await rt.execute(plan(call("a", "book", **undone_by("unbook", ref="$a.output.nope")), abort()))

    assert [c.status for c in result.compensations] == ["rejected"]
    assert "nope" in (result.compensations[0].error or "")


async def test_compensations_come_before_the_state_is_undone(recorder: Recorder) -> None:
    seen: list[Any] = []

    async def unbook() -> None:
        seen.append(rt.state.get("seat"))

    rt = Runtime(tools=[recorder.tool("book", reversibility="compensable"), tool_of("unbook", unbook)])

    await rt.execute(plan(call("a", "book", expected_effects={"seat": "4A"}, **undone_by("unbook")), abort()))

    assert seen == ["4A"]
    assert not rt.state.exists("seat")
    assert kinds(rt)[-4:] == ["compensation_succeeded", "state_snapshot", "state_rollback", "proposal_ended"]


async def test_what_is_in_flight_is_stopped_before_anything_is_compensated(recorder: Recorder) -> None:
    seen: list[str] = []
    began = asyncio.Event()

    async def hang() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("stopped")

    async def fail() -> None:
        await began.wait()
        raise ValueError("no")

    async def unbook() -> None:
        seen.append("compensated")

    rt = Runtime(
        tools=[
            recorder.tool("book", reversibility="compensable"),
            tool_of("unbook", unbook),
            tool_of("hang", hang),
            tool_of("fail", fail),
        ],
        schedule="dataflow",
    )

    await rt.execute(
        plan(
            call("a", "book", **undone_by("unbook")),
            call("b", "hang", dependencies=["a"]),
            call("c", "fail", dependencies=["a"]),
        )
    )

    assert seen == ["stopped", "compensated"]


async def test_another_action_of_the_plan_may_be_the_compensation(recorder: Recorder) -> None:
    rt = trip(recorder)

    result = await rt.execute(
        plan(
            call("a", "book", {"n": 1}, compensation={"type": "action_ref", "action_id": "undo"}),
            call("undo", "unbook", {"ref": "$a.output.ref"}),
            abort(),
        )
    )

    assert recorder.calls[-1] == ("unbook", {"ref": "R-1"})
    assert [(c.action_id, c.status) for c in result.compensations] == [("a", "succeeded")]
    assert result["undo"].status == "succeeded"


async def test_an_action_that_is_a_compensation_leaves_the_schedule(
    recorder: Recorder, schedule: Any
) -> None:
    rt = trip(recorder, schedule=schedule)

    result = await rt.execute(
        plan(
            call("undo", "unbook"),
            call("a", "book", compensation={"type": "action_ref", "action_id": "undo"}),
        )
    )

    assert result.outcome == "succeeded"
    assert recorder.names == ["book"]
    assert statuses(result) == {"undo": "skipped", "a": "succeeded"}
    assert result["undo"].error == "kept as a compensation; it was not needed"
    assert result.cost.actions_skipped == 0


async def test_what_depends_on_a_compensation_is_skipped(recorder: Recorder) -> None:
    rt = trip(recorder)

    result = await rt.execute(
        plan(
            call("a", "book", compensation={"type": "action_ref", "action_id": "undo"}),
            call("undo", "unbook"),
            write("b", "k", 1, dependencies=["undo"]),
        )
    )

    assert result["b"].status == "skipped"
    assert result["b"].error == "dependency 'undo' only runs as a compensation"


async def test_one_action_may_compensate_several(recorder: Recorder) -> None:
    rt = trip(recorder)
    undone: dict[str, Any] = {"compensation": {"type": "action_ref", "action_id": "undo"}}

    result = await rt.execute(
        plan(call("a", "book", **undone), call("b", "book", **undone), call("undo", "unbook"), abort())
    )

    assert recorder.names == ["book", "book", "unbook", "unbook"]
    assert [c.action_id for c in result.compensations] == ["b", "a"]


async def test_a_compensation_may_be_tried_again(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[
            recorder.tool("book", reversibility="compensable"),
            recorder.tool("unbook", raises=[ValueError("busy"), None]),
        ]
    )

    result = await rt.execute(
        plan(
            call("a", "book", compensation={"type": "action_ref", "action_id": "undo"}),
            call("undo", "unbook", failure_behavior="retry"),
            abort(),
        )
    )

    assert recorder.names == ["book", "unbook", "unbook"]
    assert [c.status for c in result.compensations] == ["succeeded"]


async def test_a_compensation_whose_outcome_is_unknown_says_so(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[
            recorder.tool("book", reversibility="compensable"),
            recorder.tool("unbook", raises=ConnectionResetError("gone")),
        ]
    )

    result = await rt.execute(plan(call("a", "book", **undone_by("unbook")), abort()))

    assert [c.status for c in result.compensations] == ["unknown"]


async def test_what_a_plan_calls_irreversible_needs_no_compensation_and_stays_done(
    recorder: Recorder,
) -> None:
    rt = trip(recorder)

    result = await rt.execute(
        plan(
            call("a", "book", reversibility="irreversible"),
            call("b", "book", **undone_by("unbook")),
            abort(),
        )
    )

    assert recorder.names == ["book", "book", "unbook"]
    assert [c.action_id for c in result.compensations] == ["b"]
    assert list(result.irreversible) == ["a"]


@pytest.mark.parametrize("kind", ["tool", "action_ref"])
async def test_what_takes_an_action_back_needs_no_compensation_of_its_own(
    recorder: Recorder, kind: str
) -> None:
    rt = Runtime(
        tools=[
            recorder.tool("switch_on", reversibility="compensable"),
            recorder.tool("switch_off", reversibility="compensable"),
        ]
    )
    by_tool = {"type": "tool", "tool": "switch_off", "parameters": {}}
    by_action = {"type": "action_ref", "action_id": "off"}
    actions = [call("a", "switch_on", compensation=by_tool if kind == "tool" else by_action)]
    if kind == "action_ref":
        actions.append(call("off", "switch_off"))

    report = rt.verify(plan(*actions))
    result = await rt.execute(plan(*actions, abort()))

    assert list(report.issues) == []
    assert recorder.names == ["switch_on", "switch_off"]
    assert [(c.action_id, c.status, c.error) for c in result.compensations] == [("a", "succeeded", None)]


async def test_a_compensation_counts_as_a_call_of_its_tool(recorder: Recorder) -> None:
    rt = trip(recorder)

    result = await rt.execute(plan(call("a", "book", **undone_by("unbook")), abort()))

    assert result.cost.tool_calls == 2
    assert result.cost.actions_executed == 2
