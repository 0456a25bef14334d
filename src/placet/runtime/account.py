"""What a plan came to, told in the ways in which others want to hear it: log, replan, trajectory, cost."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from placet.ir.graph import Graph
from placet.ir.json_value import JsonValue
from placet.ir.proposal import Proposal
from placet.ir.result import CostSummary, Outcome, ProposalResult
from placet.runtime.execution import Execution
from placet.runtime.replan import FailedAction
from placet.runtime.trajectory import TrajectoryStep, reward_of

LISTED_ACTIONS = 1000
"""A longer plan is logged by its size alone."""


def description(proposal: Proposal, graph: Graph, in_full: bool) -> dict[str, JsonValue]:
    """What was proposed. In full only for a log that outlives the process, where the plan may be gone."""
    data: dict[str, JsonValue] = {"source": proposal.source, "action_count": len(proposal.actions)}
    if in_full and len(proposal.actions) <= LISTED_ACTIONS:
        data["actions"] = [
            {
                "id": a.id,
                "type": a.type,
                "tool": a.tool,
                "depends_on": [proposal.actions[p].id for p in graph.explicit[i]],
            }
            for i, a in enumerate(proposal.actions)
        ]
        data["order"] = graph.ids(graph.order)
    return data


def ending(result: ProposalResult) -> dict[str, JsonValue]:
    """What the log says of how a proposal ended."""
    data: dict[str, JsonValue] = {"outcome": result.outcome, "cost": msgspec.to_builtins(result.cost)}
    if result.error is not None:
        data["error"] = result.error
    if result.irreversible:
        data["irreversible"] = list(result.irreversible)
    if result.undo_commands:
        data["undo_commands"] = dict(result.undo_commands)
    if result.compensations:
        data["compensations"] = msgspec.to_builtins(result.compensations)
    if result.waiting:
        data["waiting"] = msgspec.to_builtins(result.waiting)
    return data


def outcome_of(x: Execution) -> Outcome:
    """How the plan as a whole went."""
    if x.stop is not None and (
        x.stop.kind == "aborted" or any(x.status[i] != "succeeded" for i in x.graph.order)
    ):
        return x.stop.kind
    return "succeeded" if all(x.status[i] == "succeeded" for i in x.graph.order) else "partial"


def first_problem(x: Execution) -> str:
    """Why a plan that had to succeed did not."""
    for i in x.graph.order:
        if x.status[i] != "succeeded":
            result = x.results[i]
            return f"action '{x.actions[i].id}' did not succeed: {result.error if result else 'it never ran'}"
    return "the plan did not succeed"


def failed_actions(x: Execution) -> Sequence[FailedAction]:
    """What a replan is told of the actions that failed."""
    return [
        FailedAction(action_id=a.id, tool=a.tool, error=r.error or "", parameters=a.parameters)
        for a, r in zip(x.actions, x.results[: x.size], strict=False)
        if r is not None and r.status in ("failed", "unknown", "rejected")
    ]


def added(cost: CostSummary, x: Execution) -> CostSummary:
    """`cost` and what this attempt cost, compensations included."""
    executed = rejected = skipped = 0
    duration_ms = 0.0
    for i, result in enumerate(x.results):
        if result is None or (result.status == "skipped" and i in x.graph.targets):
            continue
        if i not in x.graph.targets:
            # A compensation's own time is counted where it ran, behind the plan's actions.
            duration_ms += result.duration_ms or 0.0
        if i >= x.size:
            continue
        if result.status in ("succeeded", "failed", "unknown"):
            executed += 1
        elif result.status == "rejected":
            rejected += 1
        elif result.status == "skipped":
            skipped += 1
    return CostSummary(
        tool_calls=cost.tool_calls + x.tool_calls,
        actions_executed=cost.actions_executed + executed,
        actions_rejected=cost.actions_rejected + rejected,
        actions_skipped=cost.actions_skipped + skipped,
        total_duration_ms=cost.total_duration_ms + duration_ms,
        retries=cost.retries + x.retries,
    )


def steps_of(x: Execution, result: ProposalResult) -> list[TrajectoryStep]:
    """Every action as it went, for learning from it."""
    return [
        TrajectoryStep(
            kind=f"action_{r.status}",
            action_id=r.action_id,
            tool=x.actions[i].tool,
            error=r.error,
            duration_ms=r.duration_ms,
            state_before=x.before.get(i, {}),
            state_after=r.state_changes,
            reward=reward_of(r.status),
        )
        for i, r in enumerate(result.results)
    ]
