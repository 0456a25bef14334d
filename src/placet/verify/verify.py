"""Decide whether a proposal would run, without running it.

The runtime calls the same function with its own gate, state and budget.

Keep true:
1. A check reports every problem it finds, not the first.
2. Without undecided infos, `valid` and what execution then does agree.
3. No clock, disk, network or randomness; the same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from placet.ir.codec import decode_proposal
from placet.ir.graph import Graph
from placet.ir.json_value import JsonValue
from placet.ir.proposal import Proposal
from placet.policy.budget import Budget, CostBudget
from placet.policy.gate import Gate
from placet.state.store import StateView
from placet.verify.cautions import find_cautions, find_write_conflicts
from placet.verify.known_tools import ListedTools, ToolCards, ToolsGiven, read_tools
from placet.verify.names import NameWarning, field_warnings, misnamed_parameters
from placet.verify.rehearsal import Rehearsal
from placet.verify.report import (
    Issue,
    Report,
    error,
    name_conflicts,
    name_levels,
    undecided,
    warning,
)
from placet.verify.shares import left_open
from placet.verify.simulation import SimulatedState

ProposalGiven = str | bytes | dict[str, Any] | Proposal
"""A proposal as an object, JSON text or a dict."""


def verify(
    proposal: ProposalGiven,
    state: Mapping[str, JsonValue] | None = None,
    tools: ToolsGiven | None = None,
    max_actions: int | None = None,
    *,
    gate: Gate | None = None,
    view: StateView | None = None,
    budget: Budget | CostBudget | None = None,
    rule_names: Sequence[NameWarning] = (),
) -> Report:
    """Report what is known of a plan before it runs. Nothing runs.

    >>> plan = {"actions": [{"id": "a1", "type": "assertion", "parameters": {"key": "k", "expected": 1}}]}
    >>> verify(plan, state={"k": 1}).valid
    True
    >>> print(verify(plan, state={}).errors[0].message)
    assertion would fail: 'k' is null, expected 1

    Args:
        proposal: JSON text, a dict, or a `Proposal`.
        state: The state to start from. `None`: unknown, not empty.
        tools: A registry, or names, schemas and tools. `None`: unknown; names and parameters are not checked.
        max_actions: Report a proposal with more actions as an error.
        gate: Policies, permissions and capabilities; a runtime passes its own.
        view: View of a runtime's state, which also knows versions.
        budget: Limits that the plan must keep.
        rule_names: Unknown names in a runtime's rules, to be reported as warnings.

    Raises:
        DecodeError: the proposal cannot be decoded.
        NotJson: `state` holds a value that is not JSON.
        UsageError: an argument has the wrong type.
    """
    decoded = decode_proposal(proposal)
    known = gate.tools if gate is not None and tools is None else read_tools(tools)
    # A runtime's own tools are the ones that run; a list of schemas is only what somebody knows of them.
    cards = ToolCards(known, must_run=gate is not None and not isinstance(known, ListedTools))
    gate = gate or Gate(known)
    counted = Budget(budget) if isinstance(budget, CostBudget) else budget
    graph = Graph(decoded.actions, gate.footprint if gate.touches else None)
    simulated = SimulatedState(state, view)
    rehearsal = Rehearsal(
        graph, gate, cards, simulated, budget=counted, misnamed=misnamed_parameters(decoded)
    )
    issues = _about_the_whole(decoded, gate, max_actions)
    is_refused = bool(issues) or bool(graph.faults)
    if not decoded.actions:
        issues.append(warning(None, "the proposal has no actions"))
    if graph.faults:
        return _refused(decoded, graph, rehearsal, issues, rule_names)
    rehearsal.run()
    issues += rehearsal.issues
    if counted is not None and graph.order:
        issues += _budgets_left_open(counted)
    issues += _names(decoded, rule_names)
    issues += _targets(graph, rehearsal)
    issues += find_cautions(graph, cards, rehearsal.status)
    issues += find_write_conflicts(graph)
    predicted, unknown_keys = (simulated.start(), []) if is_refused else rehearsal.predict()
    ids = [action.id for action in graph.actions]
    return Report(
        valid=not any(issue.severity == "error" for issue in issues),
        issues=issues,
        simulated_state=predicted,
        unknown_keys=unknown_keys,
        execution_order=ids if isinstance(graph.order, range) else [ids[i] for i in graph.order],
        execution_levels=name_levels(graph.layers, ids),
        conflicts=name_conflicts(graph, ids),
    )


def _about_the_whole(proposal: Proposal, gate: Gate, max_actions: int | None) -> list[Issue]:
    """Why a proposal is refused for its size."""
    count = len(proposal.actions)
    reasons = [gate.refusal(count)]
    if max_actions is not None and count > max_actions:
        reasons.append(f"the proposal has {count:,} actions, at most {max_actions:,} are allowed")
    return [error(None, reason) for reason in reasons if reason is not None]


def _refused(
    proposal: Proposal,
    graph: Graph,
    rehearsal: Rehearsal,
    issues: list[Issue],
    rule_names: Sequence[NameWarning],
) -> Report:
    """A plan that has no order cannot be gone through, but each action can still be looked at."""
    for fault in graph.faults:
        issues.append(error(fault.action_ids[0] if fault.action_ids else None, fault.message))
    for i, action in enumerate(graph.actions):
        issues += [error(action.id, problem) for problem in rehearsal.look_at(i)]
    issues += _names(proposal, rule_names)
    return Report(valid=False, issues=issues, simulated_state=rehearsal.state.start())


def _budgets_left_open(budget: Budget) -> list[Issue]:
    limits = left_open(budget)
    if not limits:
        return []
    return [undecided(None, f"whether the budget lasts ({', '.join(limits)}) depends on what the run uses")]


def _names(proposal: Proposal, of_rules: Sequence[NameWarning]) -> list[Issue]:
    """Names that mean nothing, in rules and in the plan."""
    errors = misnamed_parameters(proposal).items()  # Told as such, of the actions themselves.
    found = [*of_rules, *(w for w in field_warnings(proposal) if (w.action_id, w.name) not in errors)]
    return [warning(each.action_id, each.message) for each in found]


def _targets(graph: Graph, rehearsal: Rehearsal) -> list[Issue]:
    """Compensations run only after an abort, so what is wrong with one does not stop the plan."""
    found: list[Issue] = []
    for target, owner in sorted(graph.targets.items()):
        of = graph.actions[owner].id
        found += [
            warning(graph.actions[target].id, f"as the compensation of '{of}' it could not run: {problem}")
            for problem in rehearsal.look_at(target)
        ]
    for i, action in enumerate(graph.actions):
        if action.compensation is not None:
            found += [
                warning(action.id, f"its compensation would not be let through: {why}")
                for why in rehearsal.denials_of_undo(i)
            ]
    return found
