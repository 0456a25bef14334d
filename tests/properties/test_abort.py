"""An aborted plan leaves the state as it was, takes back what can be taken back, and names what cannot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given

from placet import ProposalResult
from tests.properties.effort import FIFTH, UNHURRIED, Tally, examples
from tests.properties.kinds import EVERY_KIND, describe
from tests.properties.plans import TOOLS, Case, Script, SeededDice, for_many_cases, seeds
from tests.properties.test_serialisability import exactly
from tests.properties.virtual_time import run
from tests.properties.world import ELSEWHERE, World

pytestmark = UNHURRIED

BAD_ENDS = ("action_failed", "action_unknown", "action_rejected", "policy_violation")


@pytest.mark.parametrize("schedule", ["levels", "dataflow"])
def test_an_aborted_plan_leaves_state_as_it_was(schedule: str) -> None:
    tally = Tally()

    def check(case: Case) -> None:
        world = World(case, schedule)
        state = world.runtime.state
        before = list(state.transitions_since(0))
        report = world.verify()

        result = run(world.execute())

        tally.add(**describe(world, report, result))
        log = list(state.transitions_since(0))
        assert log[: len(before)] == before, "the log lost or changed something"
        assert [t.version for t in log] == list(range(1, len(log) + 1))
        assert world.elsewhere.snapshot() == ELSEWHERE
        assert not world.running, "a tool is still at work"
        _no_call_is_called_skipped(world, result)
        if schedule == "levels":
            _overlap_only_where_nothing_can_go_wrong(world, report.execution_levels)
        if result.outcome == "aborted":
            assert set(world.state.keys()) == set(case.state)
            assert exactly(world.state.snapshot()) == exactly(case.state)
            _is_undone_in_order(world, result)
        elif result.outcome == "refused":
            assert log == before

    for_many_cases(check, 500)
    tally.require({**EVERY_KIND, "aborted": FIFTH, "compensated": 0.01})


@pytest.mark.parametrize("schedule", ["levels", "dataflow"])
def test_no_call_and_no_effect_is_missing_from_the_report(schedule: str) -> None:
    """Small plans of calls that fail in every way, at any moment around the abort."""
    tally = Tally()

    @examples(1500, shrink=False)
    @given(seeds)
    def check(seed: int) -> None:
        world = World(_failing_calls(SeededDice(seed)), schedule)

        result = run(world.execute())

        tally.add(aborted=result.outcome == "aborted", **_what_failed(world, result))
        _no_call_is_called_skipped(world, result)
        assert result.cost.tool_calls == len(world.entered)
        if result.outcome == "aborted":
            _every_effect_is_accounted_for(world, result, set())

    check()
    tally.require(
        {"aborted": FIFTH, "stopped_after_a_try": 0.02, "bad_answer": 0.05, "unknown_before": 0.005}
    )


def _failing_calls(dice: SeededDice) -> Case:
    actions, scripts = [], {}
    reads, effects = ("calc", "look"), ("calc", "jot", "put", "send", "pick", "take_back", "take_back")
    names = dice.pick((reads, effects, effects))
    for n in range(dice.number(2, 6)):
        name, tool = f"a{n}", dice.pick(names)
        action: dict[str, Any] = {"id": name, "type": "tool_call", "tool": tool, "parameters": {"n": n}}
        action["failure_behavior"] = dice.pick(("abort", "skip", "retry", "retry"))
        if action["failure_behavior"] == "retry":
            action["max_retries"] = dice.number(1, 2)
        if tool == "send":
            of = {"of": f"${name}.output.n"} if dice.chance(50) else {"of": n}
            action["compensation"] = {"type": "tool", "tool": "take_back", "parameters": of}
        actions.append(action)
        ways = [dice.pick(("ok", "fail", "fail", "lost", "fatal", "junk")) for _ in range(dice.number(1, 3))]
        scripts[name] = Script(tuple(ways), delays_ms=(dice.pick((0, 0, 1, 90, 110)), dice.number(0, 5)))
    return Case({"id": "plan", "actions": actions}, scripts, tools_are_sound=True)


def _overlap_only_where_nothing_can_go_wrong(world: World, levels: Sequence[Sequence[str]]) -> None:
    """In a layer where one may abort and one has effects, nothing may take effect after the failure."""
    actions = {a["id"]: a for a in world.case.actions}
    for one, other in world.overlaps:
        (layer,) = [level for level in levels if one in level]
        assert other in layer, f"{one} and {other} ran together, and are of different layers"
        aborts = any(actions[name]["failure_behavior"] == "abort" for name in layer)
        assert not (aborts and any(_has_effect(actions[name]) for name in layer))


def _has_effect(action: dict[str, Any]) -> bool:
    if action["type"] != "tool_call":
        return bool(action["type"] == "state_write")
    return action["tool"] not in TOOLS or TOOLS[action["tool"]].risk != "read_only"


def _is_undone_in_order(world: World, result: ProposalResult) -> None:
    """Nothing starts after the failure; compensations in reverse order of completion; then the state."""
    events = list(world.runtime.events)
    kinds = [e.kind for e in events]
    actions = {a["id"]: a for a in world.case.actions}
    targets = {
        a["compensation"]["action_id"]
        for a in actions.values()
        if a.get("compensation", {}).get("type") == "action_ref"
    }
    aborting = {name for name, a in actions.items() if a["failure_behavior"] == "abort"} - targets
    failed_at = next(n for n, e in enumerate(events) if e.kind in BAD_ENDS and e.action_id in aborting)
    later_starts = [e.action_id for e in events[failed_at:] if e.kind == "action_executing"]
    assert not (actions.keys() - targets) & set(later_starts), "an action started after the failure"

    done = [
        e.action_id
        for e in events
        if e.kind == "action_succeeded" and e.action_id in actions.keys() - targets
    ]
    took_effect = [
        e.action_id
        for e in events
        if e.action_id in actions.keys() - targets
        and (e.kind == "action_succeeded" or e.data.get("took_effect"))
    ]
    assert {r.action_id for r in result.results if r.rolled_back} - targets == set(took_effect)
    _every_effect_is_accounted_for(world, result, targets)
    sent = [actions[name] for name in done if actions[name].get("tool") == "send"]
    assert all("compensation" in a or a.get("reversibility") == "irreversible" for a in sent)
    undone = [name for name in reversed(took_effect) if _is_compensable(actions[name])]
    assert [c.action_id for c in result.compensations] == undone
    assert [e.action_id for e in events if e.kind == "compensation_started"] == undone
    ended = [n for n, kind in enumerate(kinds) if kind in ("compensation_succeeded", "compensation_failed")]
    rollback = kinds.index("state_rollback")
    assert kinds[rollback - 1] == "state_snapshot"
    assert len(ended) == len(undone)
    assert all(n < rollback for n in ended), "the state was undone before the compensations had run"
    _were_told_what_to_undo(world, result, actions)
    # An answer that was remembered is the effect of the call that earned it, not of this one.
    remembered = {e.action_id for e in events if e.kind == "action_succeeded" and e.data.get("cached")}
    assert set(result.irreversible) == {
        r.action_id
        for r in result.results
        if r.action_id not in targets | remembered
        and (r.status == "unknown" or (r.action_id in took_effect and _stays_done(actions[r.action_id])))
    }


def _what_failed(world: World, result: ProposalResult) -> dict[str, bool]:
    """Whether the example met the endings that are easily reported wrongly."""
    failed = [e for e in world.runtime.events if e.kind == "action_failed"]
    actions = {a["id"]: a for a in world.case.actions}
    return {
        "stopped_after_a_try": result.outcome == "aborted"
        and any(
            actions[e.action_id]["failure_behavior"] == "retry"
            and e.data["attempt"] <= actions[e.action_id]["max_retries"]
            and world.case.scripts[e.action_id].outcome(e.data["attempt"] - 1) == "fail"
            for e in failed
            if e.action_id in actions and "attempt" in e.data
        ),
        "bad_answer": result.outcome == "aborted" and any(e.data.get("took_effect") for e in failed),
        "unknown_before": any(
            e.kind == "action_unknown"
            and "attempt" in e.data
            and world.case.scripts[e.action_id or ""].outcome(e.data["attempt"] - 1) != "lost"
            for e in world.runtime.events
            if e.action_id in actions
        ),
    }


def _no_call_is_called_skipped(world: World, result: ProposalResult) -> None:
    """A call that was made succeeded, failed or is unknown; only `skip` renames a failure, and says why."""
    events = list(world.runtime.events)
    actions = {a["id"]: a for a in world.case.actions}
    for r in result.results:
        if r.action_id not in world.entered or r.status in ("succeeded", "failed", "unknown"):
            continue
        assert r.status == "skipped", f"{r.action_id} was called and is {r.status}"
        assert actions[r.action_id]["failure_behavior"] == "skip"
        failed = [e for e in events if e.kind == "action_failed" and e.action_id == r.action_id]
        assert [e.data["error"] for e in failed] == [r.error]


def _every_effect_is_accounted_for(world: World, result: ProposalResult, targets: set[str]) -> None:
    """Whatever may have taken effect is rolled back, compensated, or named as irreversible."""
    told = {r.action_id for r in result.results if r.rolled_back}
    told |= {c.action_id for c in result.compensations} | set(result.irreversible)
    of_the_plan = {a["id"] for a in world.case.actions} - targets
    assert world.may_have_taken_effect & of_the_plan <= told


def _were_told_what_to_undo(world: World, result: ProposalResult, actions: dict[str, Any]) -> None:
    for name, received in world.received.items():
        owner = name.removesuffix(".compensation")
        if (
            owner != name
            and result[owner].status == "succeeded"
            and not actions[owner]["compensation"].get("action_id")
        ):
            assert received == {"of": result[owner].output["n"]}


def _is_compensable(action: dict[str, Any]) -> bool:
    return (
        action.get("tool") == "send"
        and "compensation" in action
        and action.get("reversibility") != "irreversible"
    )


def _stays_done(action: dict[str, Any]) -> bool:
    if action["type"] != "tool_call":
        return False
    kind = TOOLS[action["tool"]]
    declared = kind.reversibility or ("reversible" if kind.risk == "read_only" else "irreversible")
    return action.get("reversibility") == "irreversible" or declared == "irreversible"
