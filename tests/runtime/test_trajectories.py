"""What every executed proposal leaves for those who learn from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placet import Cancel, JsonlTrajectories, ReplanConfig, Runtime, Scope, ToolError
from placet.runtime.trajectory import Trajectory
from tests.runtime.plans import Recorder, call, claim, data_of, plan, read, write


class Kept:
    """A trajectory store in memory."""

    def __init__(self) -> None:
        self.all: list[Trajectory] = []

    def append(self, trajectory: Trajectory) -> None:
        self.all.append(trajectory)


def runtime(recorder: Recorder, kept: Any, **options: Any) -> Runtime:
    return Runtime(
        tools=[recorder.tool("good", "ok"), recorder.tool("bad", raises=ToolError("broken", retry=False))],
        trajectories=kept,
        **options,
    )


async def test_a_trajectory_tells_each_action(recorder: Recorder) -> None:
    kept = Kept()
    rt = runtime(recorder, kept, state={"k": 0, "other": 9})

    result = await rt.execute(
        plan(
            write("w", "k", 1),
            call("g", "good", expected_effects={"new": 2}),
            call("b", "bad", failure_behavior="retry"),
            call("r", "unknown", failure_behavior="skip"),
            read("s", "k", dependencies=["b"]),
            source="a model",
        )
    )

    (told,) = kept.all
    assert (told.proposal_id, told.run_id, told.source) == ("p1", result.run_id, "a model")
    assert (told.outcome, told.attempts) == ("failed", 1)
    assert [(s.action_id, s.kind, s.tool, s.reward) for s in told.steps] == [
        ("w", "action_succeeded", None, 1.0),
        ("g", "action_succeeded", "good", 1.0),
        ("b", "action_failed", "bad", 0.0),
        ("r", "action_rejected", "unknown", 0.0),
        ("s", "action_skipped", None, None),
    ]
    assert told.steps[2].error == "broken"


async def test_state_before_holds_only_the_keys_an_action_touches(recorder: Recorder) -> None:
    kept = Kept()
    rt = runtime(recorder, kept, state={"k": 0, "needed": 1, "checked": 2, "other": 9})

    await rt.execute(
        plan(
            call(
                "a",
                "good",
                state_dependencies=["needed"],
                preconditions=[{"key": "checked", "operator": "exists"}],
                expected_effects={"k": 5, "new": 6},
            )
        )
    )

    (step,) = kept.all[0].steps
    assert step.state_before == {"needed": 1, "checked": 2, "k": 0}
    assert step.state_after == {"k": 5, "new": 6}


async def test_state_before_is_that_of_the_moment_the_action_started(recorder: Recorder) -> None:
    kept = Kept()
    rt = runtime(recorder, kept, state={"k": 0})

    await rt.execute(plan(write("a", "k", 1), write("b", "k", 2)))

    assert [(s.state_before, s.state_after) for s in kept.all[0].steps] == [
        ({"k": 0}, {"k": 1}),
        ({"k": 1}, {"k": 2}),
    ]


async def test_an_unknown_outcome_has_no_reward(recorder: Recorder) -> None:
    kept = Kept()
    rt = runtime(recorder, kept)
    rt.tools.add(recorder.tool("pay", raises=ConnectionResetError("gone")))

    await rt.execute(plan(call("a", "pay")))

    assert [(s.kind, s.reward) for s in kept.all[0].steps] == [("action_unknown", None)]


WORKS = plan(call("g", "good"), id="second")
FAILS = plan(call("b", "bad"), id="first")
INVALID = plan(call("x", "unknown_tool"), id="invalid")


@pytest.mark.parametrize(
    ("proposal", "answers", "outcome", "attempts"),
    [
        (WORKS, [], "success", 1),
        (FAILS, [], "failed", 1),
        (FAILS, [WORKS], "replan_success", 2),
        (FAILS, [FAILS], "replan_exhausted", 2),
        (FAILS, [INVALID], "replan_exhausted", 1),
        (FAILS, [RuntimeError("no idea")], "failed", 1),
    ],
    ids=["works", "fails", "replanned", "exhausted", "exhausted by rejections", "callback error"],
)
async def test_outcomes(
    recorder: Recorder, proposal: Any, answers: list[Any], outcome: str, attempts: int
) -> None:
    kept = Kept()
    left = list(answers)

    def replan(_: Any) -> Any:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    rt = runtime(recorder, kept, replan=replan, replan_config=ReplanConfig(max_replans=len(answers)))

    await rt.execute(proposal)

    assert [(t.outcome, t.attempts) for t in kept.all] == [(outcome, attempts)]


async def test_a_trajectory_after_a_replan_is_about_the_first_proposals_id_and_the_last_ones_actions(
    recorder: Recorder,
) -> None:
    kept = Kept()
    rt = runtime(recorder, kept, replan=lambda _: WORKS, replan_config=ReplanConfig(max_replans=1))

    await rt.execute(FAILS)

    assert kept.all[0].proposal_id == "first"
    assert [s.action_id for s in kept.all[0].steps] == ["g"]


async def test_a_refused_proposal_was_not_executed_and_leaves_none(recorder: Recorder) -> None:
    kept = Kept()

    await runtime(recorder, kept).execute(plan(write("a", "k"), write("a", "k")))

    assert kept.all == []


async def test_a_partial_or_canceled_plan_is_no_success(recorder: Recorder) -> None:
    kept = Kept()
    rt = runtime(recorder, kept)
    cancel = Cancel()
    cancel.cancel()

    await rt.execute(plan(call("a", "good"), call("b", "bad", failure_behavior="skip")))
    await rt.execute(plan(call("a", "good")), cancel=cancel)

    assert [t.outcome for t in kept.all] == ["failed", "failed"]


async def test_a_failing_store_is_an_event_and_never_the_end_of_a_run(recorder: Recorder) -> None:
    class Broken:
        def append(self, trajectory: Trajectory) -> None:
            raise OSError("disk full")

    rt = runtime(recorder, Broken())

    result = await rt.execute(plan(call("a", "good")))

    assert result.outcome == "succeeded"
    assert data_of(rt, "sink_failed") == [{"sink": "Broken", "error": "OSError: disk full"}]


async def test_trajectories_as_json_lines_are_read_back(recorder: Recorder, tmp_path: Path) -> None:
    store = JsonlTrajectories(tmp_path / "runs.jsonl")
    rt = runtime(recorder, store, state={"k": 0})

    await rt.execute(plan(write("a", "k", 1)))
    await rt.execute(FAILS)

    assert [t.outcome for t in store.read()] == ["success", "failed"]
    assert store.read()[0].steps[0].state_before == {"k": 0}


async def test_a_line_that_a_crash_cut_short_is_left_out(recorder: Recorder, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    rt = runtime(recorder, JsonlTrajectories(path))
    await rt.execute(WORKS)
    path.write_bytes(path.read_bytes() + path.read_bytes()[:40])

    again = JsonlTrajectories(path)
    await runtime(recorder, again).execute(FAILS)

    assert [t.outcome for t in again.read()] == ["success", "failed"]


async def test_the_keys_are_those_of_the_tenant(recorder: Recorder) -> None:
    kept = Kept()
    rt = runtime(recorder, kept, state={"k": "everyone's"})
    rt.state.scoped("t1").set("k", "mine")

    await rt.execute(plan(claim("a", "k", "mine")), scope=Scope(tenant="t1"))

    assert kept.all[0].steps[0].state_before == {"k": "mine"}
