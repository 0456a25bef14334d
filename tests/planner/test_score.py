"""Ranking candidate plans."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from placet.errors import UsageError
from placet.ir.codec import decode_proposal, encode
from placet.ir.result import ActionResult, ProposalResult, Status
from placet.planner import Feedback, rank
from placet.policy.engine import PolicySet
from placet.policy.gate import Gate
from placet.policy.rule import DenyTool
from placet.state.memory import MemoryState
from placet.verify.known_tools import read_tools


def plan(*tools: str, **fields: Any) -> dict[str, Any]:
    return {"id": "p", "actions": [{"id": f"a{i}", "tool": tool} for i, tool in enumerate(tools)], **fields}


def order(*candidates: dict[str, Any], **options: Any) -> list[int]:
    return [scored.index for scored in rank(candidates, **options)]


def result(*statuses: tuple[str, Status, float | None]) -> ProposalResult:
    now = datetime.now(UTC)
    return ProposalResult(
        proposal_id="p",
        run_id="r",
        trace_id="t",
        outcome="partial",
        results=[
            ActionResult(action_id=action_id, status=status, duration_ms=took, timestamp=now)
            for action_id, status, took in statuses
        ],
    )


def test_no_candidates_give_no_ranking() -> None:
    assert rank([]) == []


def test_the_shorter_of_two_plans_comes_first() -> None:
    assert order(plan("look", "look"), plan("look")) == [1, 0]


def test_ties_go_to_the_earlier_candidate() -> None:
    assert order(plan("look"), plan("mail"), plan("book")) == [0, 1, 2]


def test_a_tool_that_mostly_fails_makes_its_plan_worse() -> None:
    feedback = Feedback({"shaky": (1, 9), "solid": (9, 1)})

    assert order(plan("shaky"), plan("solid"), feedback=feedback) == [1, 0]


def test_an_invalid_plan_comes_last_however_short_and_says_why() -> None:
    ranked = rank([plan("nothing"), plan("look", "look", "look")], tools=["look"])

    assert [scored.index for scored in ranked] == [1, 0]
    assert [scored.valid for scored in ranked] == [True, False]
    assert list(ranked[0].reasons) == []
    assert "a0: unknown tool 'nothing'" in ranked[1].reasons[0]


def test_invalid_plans_are_ranked_among_each_other_too() -> None:
    assert order(plan("nothing", "nothing"), plan("nothing"), tools=["look"]) == [1, 0]


def test_the_score_is_the_weighted_sum() -> None:
    first, second = rank([plan("look"), plan("look", "look")], cost_weight=0.2)

    assert first.likelihood == pytest.approx(0.9)
    assert second.likelihood == pytest.approx(0.81)
    assert first.efficiency == 1.0
    assert 0 < second.efficiency < 1
    for scored in (first, second):
        assert scored.score == pytest.approx(scored.likelihood * 0.8 + scored.efficiency * 0.2)


def test_the_weight_of_cost_decides_between_likely_and_cheap() -> None:
    feedback = Feedback({"shaky": (1, 1), "solid": (98, 0)})
    candidates = (plan("shaky"), plan("solid", "solid", "solid"))

    assert order(*candidates, feedback=feedback, cost_weight=0.0) == [1, 0]
    assert order(*candidates, feedback=feedback, cost_weight=1.0) == [0, 1]


@pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan")])
def test_a_weight_outside_zero_to_one_is_misuse(weight: float) -> None:
    with pytest.raises(UsageError):
        rank([plan()], cost_weight=weight)


def test_a_plan_without_tools_is_certain_to_succeed() -> None:
    assert rank([plan()])[0].likelihood == 1.0


def test_validity_is_judged_by_the_state_and_the_gate() -> None:
    policies = PolicySet(lambda: 0.0)
    policies.add("no mail", DenyTool(tool="mail"))
    gate = Gate(read_tools(None), policies=[policies])
    needs_key = {"actions": [{"id": "a", "tool": "look", "state_dependencies": ["k"]}]}

    assert [s.valid for s in rank([plan("mail")], gate=gate)] == [False]
    assert [s.valid for s in rank([needs_key], state={})] == [False]
    assert [s.valid for s in rank([needs_key], view=MemoryState({"k": 1}))] == [True]


def test_the_order_of_actions_does_not_change_the_likelihood() -> None:
    feedback = Feedback({"a": (1, 2), "b": (5, 3), "c": (7, 1)})

    likelihoods = {s.likelihood for s in rank([plan("a", "b", "c"), plan("c", "a", "b")], feedback=feedback)}

    assert len(likelihoods) == 1


def test_the_same_candidates_give_the_same_bytes() -> None:
    candidates = [plan("look", "mail"), plan("nothing"), plan()]

    assert encode(rank(candidates, tools=["look", "mail"])) == encode(
        rank(candidates, tools=["look", "mail"])
    )


# Feedback


def test_a_tool_without_a_record_is_taken_to_succeed_nine_times_in_ten() -> None:
    assert Feedback().rate("look") == 0.9


def test_a_short_record_is_smoothed() -> None:
    assert Feedback({"look": (1, 0)}).rate("look") == pytest.approx(2 / 3)
    assert Feedback({"look": (0, 1)}).rate("look") == pytest.approx(1 / 3)


def test_feedback_learns_from_what_ran_and_only_from_that() -> None:
    feedback = Feedback()
    proposal = decode_proposal(plan("ok", "bad", "lost", "tolerated", "denied", "never"))

    feedback.record(
        result(
            ("a0", "succeeded", 1.0),
            ("a1", "failed", 1.0),
            ("a2", "unknown", 1.0),
            ("a3", "skipped", 1.0),
            ("a4", "rejected", None),
            ("a5", "skipped", None),
        ),
        proposal,
    )

    assert feedback.counts() == {"bad": (0, 1), "lost": (0, 1), "ok": (1, 0), "tolerated": (0, 1)}


def test_actions_on_the_state_are_no_feedback_about_tools() -> None:
    feedback = Feedback()
    document = {"actions": [{"id": "a0", "type": "state_write", "tool": "look", "parameters": {"key": "k"}}]}

    feedback.record(result(("a0", "succeeded", 1.0)), decode_proposal(document))

    assert feedback.counts() == {}


def test_feedback_can_be_kept_and_given_back() -> None:
    feedback = Feedback({"look": (3, 1)})

    assert Feedback(feedback.counts()).rate("look") == feedback.rate("look")
