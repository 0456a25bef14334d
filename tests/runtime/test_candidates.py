"""plan_and_execute: several plans, the best that works."""

from __future__ import annotations

from typing import Any

from placet import Cancel, DenyTool, Runtime, Scope, ToolError
from placet.planner import Feedback
from tests.runtime.plans import Recorder, call, claim, kinds, plan, statuses, undone_by, write


def runtime(recorder: Recorder, **options: Any) -> Runtime:
    return Runtime(
        tools=[
            recorder.tool("good", "ok"),
            recorder.tool("bad", raises=ToolError("broken", retry=False)),
            recorder.tool("book", reversibility="compensable"),
            recorder.tool("unbook"),
        ],
        **options,
    )


async def test_the_best_candidate_runs_and_the_others_do_not(recorder: Recorder) -> None:
    rt = runtime(recorder)

    result = await rt.plan_and_execute(
        [
            plan(call("a", "good"), call("b", "good"), call("c", "good"), id="long"),
            plan(call("a", "good"), id="short"),
        ]
    )

    assert result.outcome == "succeeded"
    assert result.proposal_id == "short"
    assert recorder.names == ["good"]


async def test_a_tool_that_often_fails_makes_its_plan_come_later(recorder: Recorder) -> None:
    rt = runtime(recorder)
    feedback = Feedback({"bad": (1, 99), "good": (99, 1)})

    result = await rt.plan_and_execute(
        [plan(call("a", "bad"), id="unlikely"), plan(call("a", "good"), call("b", "good"), id="likely")],
        feedback=feedback,
    )

    assert result.proposal_id == "likely"
    assert "bad" not in recorder.names


async def test_feedback_learns_from_what_ran(recorder: Recorder) -> None:
    rt = runtime(recorder)
    feedback = Feedback()

    await rt.plan_and_execute(
        [plan(call("a", "bad"), id="first"), plan(call("a", "good"), call("b", "good"), id="next")],
        feedback=feedback,
    )

    assert feedback.counts() == {"bad": (0, 1), "good": (2, 0)}


async def test_when_one_does_not_succeed_the_next_best_runs(recorder: Recorder) -> None:
    rt = runtime(recorder)

    result = await rt.plan_and_execute(
        [plan(call("a", "bad"), id="first"), plan(call("a", "good"), call("b", "good"), id="next")]
    )

    assert result.outcome == "succeeded"
    assert result.proposal_id == "next"
    assert recorder.names == ["bad", "good", "good"]


async def test_a_candidate_must_succeed_entirely_or_is_undone_like_an_abort(recorder: Recorder) -> None:
    """A skipped action would leave a plan partial; here the next candidate must start from a clean state."""
    rt = runtime(recorder, state={"k": 0})

    result = await rt.plan_and_execute(
        [
            plan(write("w", "k", 1), call("a", "bad", failure_behavior="skip"), id="partial"),
            plan(claim("c", "k", 0), call("a", "good"), call("b", "good"), id="clean"),
        ]
    )

    assert result.proposal_id == "clean"
    assert rt.state.snapshot() == {"k": 0}
    assert "state_rollback" in kinds(rt)


async def test_an_unsuccessful_candidate_is_compensated(recorder: Recorder) -> None:
    rt = runtime(recorder)

    await rt.plan_and_execute(
        [
            plan(
                call("a", "book", **undone_by("unbook")), call("b", "bad", failure_behavior="skip"), id="one"
            ),
            plan(call("a", "good"), call("b", "good"), call("c", "good"), id="other"),
        ]
    )

    assert recorder.names == ["book", "bad", "unbook", "good", "good", "good"]


async def test_when_none_succeeds_the_first_failure_is_the_result(recorder: Recorder) -> None:
    rt = runtime(recorder)

    result = await rt.plan_and_execute(
        [
            plan(call("a", "good"), call("b", "bad", dependencies=["a"]), id="second best"),
            plan(call("a", "bad"), id="best"),
        ]
    )

    assert result.outcome == "aborted"
    assert result.proposal_id == "best"
    assert statuses(result) == {"a": "failed"}


async def test_an_invalid_candidate_never_runs(recorder: Recorder) -> None:
    rt = runtime(recorder, policies=[("quiet", DenyTool(tool="bad"))])

    result = await rt.plan_and_execute(
        [
            plan(call("a", "bad"), id="denied"),
            plan(call("a", "gud"), id="unknown"),
            plan(call("a", "good"), id="ok"),
        ]
    )

    assert result.proposal_id == "ok"
    assert recorder.names == ["good"]


async def test_without_a_valid_candidate_all_are_refused_with_the_reasons(recorder: Recorder) -> None:
    rt = runtime(recorder, policies=[("quiet", DenyTool(tool="bad"))])

    result = await rt.plan_and_execute(
        [plan(call("a", "bad"), id="denied"), plan(call("a", "gud"), id="unknown")]
    )

    assert result.outcome == "refused"
    assert result.proposal_id == "denied"
    assert "policy 'quiet'" in (result.error or "")
    assert "unknown tool 'gud'" in (result.error or "")
    assert list(result.results) == []
    assert recorder.calls == []


async def test_without_candidates_there_is_an_empty_result(recorder: Recorder) -> None:
    result = await runtime(recorder).plan_and_execute([])

    assert result.proposal_id == "empty"
    assert list(result.results) == []
    assert result.cost.tool_calls == 0


async def test_ranking_changes_nothing(recorder: Recorder) -> None:
    rt = runtime(recorder, state={"k": 1})

    await rt.plan_and_execute([plan(call("a", "gud"), write("w", "k", 2))])

    assert rt.state.snapshot() == {"k": 1}
    assert kinds(rt) == []


async def test_candidates_are_tried_in_the_namespace_of_the_tenant(recorder: Recorder) -> None:
    rt = runtime(recorder)
    rt.state.scoped("t1").set("k", 1)

    result = await rt.plan_and_execute(
        [plan(claim("a", "k", 1), write("b", "done", True))], scope=Scope(tenant="t1", caller_id="me")
    )

    assert result.outcome == "succeeded"
    assert rt.state.snapshot() == {}
    assert rt.state.scoped("t1").get("done") is True
    assert kinds(rt).count("session_scope") == 1


async def test_a_cancel_lets_no_further_candidate_start(recorder: Recorder) -> None:
    rt = runtime(recorder)
    cancel = Cancel()
    cancel.cancel("enough")

    result = await rt.plan_and_execute([plan(call("a", "good")), plan(call("b", "gud"))], cancel=cancel)

    assert result.outcome == "canceled"
    assert recorder.calls == []


async def test_text_and_dicts_are_candidates_too(recorder: Recorder) -> None:
    rt = runtime(recorder)

    result = await rt.plan_and_execute(['{"id": "text", "actions": [{"tool": "good"}]}'])

    assert result.proposal_id == "text"
    assert result.outcome == "succeeded"
