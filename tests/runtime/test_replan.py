"""Asking for another plan when one has failed."""

from __future__ import annotations

from typing import Any

import pytest

from placet import DenyTool, ReplanConfig, Runtime, Scope, ToolError
from placet.runtime.replan import ReplanContext
from tests.runtime.plans import Recorder, call, claim, data_of, kinds, plan, statuses, undone_by, write


class Planner:
    """Answers with prepared proposals, and keeps what it was told."""

    def __init__(self, *answers: Any) -> None:
        self.asked: list[ReplanContext] = []
        self._answers = list(answers)

    async def __call__(self, context: ReplanContext) -> Any:
        self.asked.append(context)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def runtime(recorder: Recorder, planner: Any, max_replans: int = 3, **options: Any) -> Runtime:
    config = options.pop("config", {})
    return Runtime(
        tools=[recorder.tool("work", "ok"), recorder.tool("boom", raises=ToolError("broken", retry=False))],
        replan=planner,
        replan_config=ReplanConfig(max_replans=max_replans, **config),
        **options,
    )


FAILS = plan(call("a", "work", {"n": 1}), call("b", "boom", {"n": 2}), id="first", source="a model")
WORKS = plan(call("c", "work", {"n": 3}), id="second")


async def test_a_failed_plan_is_replaced_by_the_next_one(recorder: Recorder) -> None:
    rt = runtime(recorder, Planner(WORKS))

    result = await rt.execute(FAILS)

    assert result.outcome == "succeeded"
    assert result.proposal_id == "second"
    assert result.replans == 1
    assert statuses(result) == {"c": "succeeded"}
    assert recorder.names == ["work", "boom", "work"]


async def test_without_a_callback_or_without_replans_nobody_is_asked(recorder: Recorder) -> None:
    planner = Planner()

    by_default = await Runtime(
        tools=[recorder.tool("boom", raises=ValueError("no"))], replan=planner
    ).execute(plan(call("a", "boom")))
    no_callback = await runtime(recorder, None).execute(FAILS)

    assert by_default.outcome == no_callback.outcome == "aborted"
    assert planner.asked == []


async def test_the_callback_is_told_everything_it_needs(recorder: Recorder) -> None:
    planner = Planner(WORKS)
    rt = runtime(recorder, planner, max_replans=2, state={"k": 0})

    await rt.execute({**FAILS, "context": {"goal": "tea"}})

    (context,) = planner.asked
    assert context.proposal_id == "first"
    assert context.attempt == 1
    assert [(f.action_id, f.tool, f.error, f.parameters) for f in context.failed_actions] == [
        ("b", "boom", "broken", {"n": 2})
    ]
    assert list(context.completed_action_ids) == []
    assert context.state == {"k": 0}
    assert context.replans_remaining == 1
    assert context.original_source == "a model"
    assert context.original_action_count == 2
    assert context.original_context == {"goal": "tea"}
    assert list(context.rejections) == []


async def test_completed_ids_are_those_that_stayed(recorder: Recorder) -> None:
    planner = Planner(WORKS, WORKS)
    rt = runtime(recorder, planner)

    await rt.execute(plan(call("a", "work"), call("b", "boom", failure_behavior="retry")))
    await rt.execute(plan(call("a", "work"), call("b", "boom")))

    kept, rolled_back = planner.asked
    assert list(kept.completed_action_ids) == ["a"]
    assert list(rolled_back.completed_action_ids) == []


async def test_a_compensation_that_ran_is_not_among_the_completed(recorder: Recorder) -> None:
    planner = Planner(WORKS)
    rt = runtime(recorder, planner)
    rt.tools.add(recorder.tool("book", reversibility="compensable"))

    await rt.execute(
        plan(
            call("a", "book", compensation={"type": "action_ref", "action_id": "undo"}),
            call("undo", "work"),
            call("b", "boom"),
        )
    )

    assert recorder.names[:3] == ["book", "boom", "work"]
    assert list(planner.asked[0].completed_action_ids) == []


async def test_an_exhausted_retry_is_replanned_although_the_rest_went_on(recorder: Recorder) -> None:
    planner = Planner(WORKS)
    rt = runtime(recorder, planner)

    result = await rt.execute(plan(call("b", "boom", failure_behavior="retry"), write("w", "k", 1)))

    assert len(planner.asked) == 1
    assert result.outcome == "succeeded"
    assert rt.state.snapshot() == {"k": 1}


async def test_a_rejection_that_aborts_is_replanned(recorder: Recorder) -> None:
    planner = Planner(WORKS)
    rt = runtime(recorder, planner, policies=[("quiet", DenyTool(tool="boom"))])

    await rt.execute(FAILS)

    assert [f.error for f in planner.asked[0].failed_actions] == ["policy 'quiet': tool 'boom' is denied"]


@pytest.mark.parametrize(
    "proposal",
    [
        plan(call("a", "work")),
        plan(call("a", "boom", failure_behavior="skip")),
        plan(write("a", "k"), write("a", "k")),
    ],
    ids=["succeeded", "skipped", "refused"],
)
async def test_a_plan_that_did_not_fail_is_not_replanned(recorder: Recorder, proposal: Any) -> None:
    planner = Planner()

    await runtime(recorder, planner).execute(proposal)

    assert planner.asked == []


async def test_a_proposal_that_does_not_verify_uses_up_an_attempt_and_is_asked_for_again_with_the_reasons(
    recorder: Recorder,
) -> None:
    planner = Planner(plan(call("x", "wrk")), WORKS)
    rt = runtime(recorder, planner, max_replans=2)

    result = await rt.execute(FAILS)

    assert result.outcome == "succeeded"
    assert result.replans == 1
    first, second = planner.asked
    assert (first.attempt, second.attempt) == (1, 2)
    assert (first.replans_remaining, second.replans_remaining) == (1, 0)
    assert len(second.rejections) == 1
    assert "unknown tool 'wrk'" in second.rejections[0]
    assert [e["attempt"] for e in data_of(rt, "replan_rejected")] == [1]


async def test_the_failed_proposal_is_never_executed_a_second_time(recorder: Recorder) -> None:
    rt = runtime(recorder, Planner(plan(call("x", "wrk")), plan(call("x", "wrk"))), max_replans=2)

    result = await rt.execute(FAILS)

    assert recorder.names == ["work", "boom"]
    assert result.proposal_id == "first"
    assert result.outcome == "aborted"
    assert result.replans == 0
    assert data_of(rt, "replan_exhausted") == [{"attempts": 2}]


@pytest.mark.parametrize("answer", ["{", {"actions": 5}, None, 42, '{"actions": [], "actions": []}'])
async def test_an_answer_that_cannot_be_read_uses_up_an_attempt(recorder: Recorder, answer: Any) -> None:
    planner = Planner(answer, WORKS)

    result = await runtime(recorder, planner).execute(FAILS)

    assert result.outcome == "succeeded"
    assert len(planner.asked[1].rejections) == 1


async def test_a_plan_of_more_than_a_hundred_actions_is_sent_back(recorder: Recorder) -> None:
    hundred = plan(*(write(f"w{n}", "k", n) for n in range(100)))
    more = plan(*(write(f"w{n}", "k", n) for n in range(101)))
    planner = Planner(more, hundred)

    result = await runtime(recorder, planner).execute(FAILS)

    assert len(planner.asked) == 2
    assert result.outcome == "succeeded"
    assert len(result.results) == 100


async def test_a_replanned_proposal_is_held_to_the_policies_beforehand(recorder: Recorder) -> None:
    planner = Planner(plan(call("x", "mail")), WORKS)
    rt = runtime(recorder, planner, policies=[("quiet", DenyTool(tool="mail"))])
    rt.tools.add(recorder.tool("mail"))

    await rt.execute(FAILS)

    assert "policy 'quiet'" in planner.asked[1].rejections[0]
    assert "mail" not in recorder.names


async def test_verification_can_be_left_out(recorder: Recorder) -> None:
    planner = Planner(plan(call("x", "wrk")), WORKS)
    rt = runtime(recorder, planner, config={"verify_before_execute": False})

    result = await rt.execute(FAILS)

    assert result.replans == 2
    assert [f.action_id for f in planner.asked[1].failed_actions] == ["x"]
    assert "replan_rejected" not in kinds(rt)


async def test_a_callback_error_ends_it(recorder: Recorder) -> None:
    planner = Planner(RuntimeError("out of ideas"), WORKS)
    rt = runtime(recorder, planner)

    result = await rt.execute(FAILS)

    assert result.outcome == "aborted"
    assert result.proposal_id == "first"
    assert len(planner.asked) == 1
    assert data_of(rt, "replan_exhausted") == [
        {"reason": "callback_error", "error": "RuntimeError: out of ideas", "attempts": 1}
    ]


async def test_when_no_attempt_is_left_the_last_failure_is_the_result(recorder: Recorder) -> None:
    again = plan(call("b2", "boom"), id="again")
    rt = runtime(recorder, Planner(again, {**again, "id": "and again"}), max_replans=2)

    result = await rt.execute(FAILS)

    assert result.outcome == "aborted"
    assert result.proposal_id == "and again"
    assert result.replans == 2
    assert data_of(rt, "replan_exhausted") == [{"attempts": 2}]


async def test_replanning_is_told_by_events(recorder: Recorder) -> None:
    rt = runtime(recorder, Planner(plan(call("x", "wrk")), WORKS))

    await rt.execute(FAILS)

    told = [e for e in rt.events if e.kind.startswith("replan")]
    assert [e.kind for e in told] == [
        "replan_attempted",
        "replan_rejected",
        "replan_attempted",
        "replan_proposal_received",
    ]
    assert {e.proposal_id for e in told} == {"first"}
    assert told[0].data == {"attempt": 1, "failed_count": 1}
    assert told[3].data == {"attempt": 2, "new_proposal_id": "second", "new_action_count": 1}


async def test_all_attempts_are_one_run_and_one_trace(recorder: Recorder) -> None:
    rt = runtime(recorder, Planner(WORKS))

    result = await rt.execute(FAILS, run_id="r1")

    assert {e.run_id for e in rt.events} == {"r1"}
    assert {e.trace_id for e in rt.events} == {result.trace_id}
    assert [s.proposal_id for s in rt.events.spans() if s.name == "proposal"] == ["first", "second"]


async def test_cost_spans_the_attempts(recorder: Recorder) -> None:
    rt = runtime(recorder, Planner(WORKS))

    result = await rt.execute(FAILS)

    assert result.cost.tool_calls == 3
    assert result.cost.actions_executed == 3


async def test_what_could_not_be_undone_is_remembered_across_attempts(recorder: Recorder) -> None:
    rt = runtime(recorder, Planner(WORKS))
    rt.tools.add(recorder.tool("book", reversibility="compensable"))
    rt.tools.add(recorder.tool("unbook"))

    result = await rt.execute(
        plan(call("a", "work"), call("t", "book", **undone_by("unbook")), call("b", "boom"))
    )

    assert result.outcome == "succeeded"
    assert list(result.irreversible) == ["a"]
    assert [(c.action_id, c.status) for c in result.compensations] == [("t", "succeeded")]


async def test_an_aborted_attempt_leaves_no_state_to_the_next(recorder: Recorder) -> None:
    planner = Planner(plan(claim("c", "k", None)))
    rt = runtime(recorder, planner)

    result = await rt.execute(plan(write("w", "k", 1), call("b", "boom", dependencies=["w"])))

    assert result.outcome == "succeeded"


async def test_the_callback_may_be_a_plain_function(recorder: Recorder) -> None:
    rt = runtime(recorder, lambda context: WORKS)

    result = await rt.execute(FAILS)

    assert result.outcome == "succeeded"


async def test_the_state_it_is_told_is_that_of_the_tenant(recorder: Recorder) -> None:
    planner = Planner(WORKS)
    rt = runtime(recorder, planner, state={"k": "everyone's"})
    rt.state.scoped("t1").set("k", "mine")

    await rt.execute(FAILS, scope=Scope(tenant="t1"))

    assert planner.asked[0].state == {"k": "mine"}


async def test_a_delay_before_asking_is_kept(recorder: Recorder) -> None:
    rt = runtime(recorder, Planner(WORKS), config={"delay_ms": 20})

    result = await rt.execute(FAILS)

    assert result.outcome == "succeeded"


def test_by_default_there_are_no_replans_no_delay_and_answers_are_verified() -> None:
    config = ReplanConfig()

    assert (config.max_replans, config.delay_ms, config.verify_before_execute) == (0, 0, True)
