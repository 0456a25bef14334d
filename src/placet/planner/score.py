"""Rank candidate plans: valid first, then by how likely they are to succeed and how little they cost.

Keep true:
1. The same candidates, state and feedback give the same ranking; ties go to the earlier candidate.
2. An invalid candidate never comes before a valid one, and says why it is invalid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod

import msgspec

from placet.errors import UsageError
from placet.ir.codec import decode_proposal
from placet.ir.json_value import JsonValue
from placet.ir.proposal import Proposal
from placet.ir.result import ProposalResult
from placet.policy.gate import Gate
from placet.state.store import StateView
from placet.verify.known_tools import ToolsGiven
from placet.verify.verify import ProposalGiven, verify

NO_RECORD = 0.9
"""How often a tool is taken to succeed that nobody has seen run."""
_CALL, _ACTION = 1.0, 0.1
"""What a tool call and any action cost, against each other."""


class Feedback:
    """Counts of successes and failures of each tool.

    >>> feedback = Feedback({"search": (8, 2)})
    >>> feedback.rate("search"), feedback.rate("never_seen")
    (0.75, 0.9)
    """

    __slots__ = ("_counts",)

    def __init__(self, counts: Mapping[str, tuple[int, int]] | None = None) -> None:
        """Start with the given counts, or with none.

        Args:
            counts: Successes and failures by tool.
        """
        self._counts: dict[str, list[int]] = {
            tool: [successes, failures] for tool, (successes, failures) in (counts or {}).items()
        }

    def record(self, result: ProposalResult, proposal: Proposal) -> None:
        """Count the tool calls of a run. Calls that never ran are not counted.

        Args:
            result: Result of the run.
            proposal: The proposal that was executed.
        """
        tools = {action.id: action.tool for action in proposal.actions if action.type == "tool_call"}
        for one in result.results:
            tool = tools.get(one.action_id)
            # A failure that the plan tolerates ends as skipped, but the tool was at work and took time.
            ran = one.status in ("succeeded", "failed", "unknown") or (
                one.status == "skipped" and one.duration_ms is not None
            )
            if tool and ran:
                self._counts.setdefault(tool, [0, 0])[one.status != "succeeded"] += 1

    def rate(self, tool: str) -> float:
        """Return the likelihood that a call succeeds, by Laplace's rule: one success and one failure are
        added to the counts.

        Args:
            tool: Name of the tool.
        """
        if tool not in self._counts:
            return NO_RECORD
        successes, failures = self._counts[tool]
        return (successes + 1) / (successes + failures + 2)

    def counts(self) -> dict[str, tuple[int, int]]:
        """Return successes and failures by tool, in the form that `Feedback` accepts."""
        return {tool: (good, bad) for tool, (good, bad) in sorted(self._counts.items())}


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate and what speaks for it."""

    index: int
    """Position among the candidates."""
    valid: bool
    score: float
    likelihood: float
    """That every tool call succeeds."""
    efficiency: float
    """1 for the cheapest candidate, falling towards 0."""
    reasons: Sequence[str] = ()
    """Why it is not valid."""


def rank(
    candidates: Sequence[ProposalGiven],
    *,
    state: Mapping[str, JsonValue] | None = None,
    tools: ToolsGiven | None = None,
    gate: Gate | None = None,
    view: StateView | None = None,
    feedback: Feedback | None = None,
    cost_weight: float = 0.2,
) -> list[Scored]:
    """The candidates, best first: score = likelihood * (1 - cost_weight) + efficiency * cost_weight.

    >>> short = {"actions": [{"tool": "fetch"}]}
    >>> long = {"actions": [{"tool": "fetch"}, {"tool": "fetch"}]}
    >>> [scored.index for scored in rank([long, short])]
    [1, 0]

    Raises:
        DecodeError: a candidate cannot be read.
        UsageError: `cost_weight` is not between 0 and 1.
    """
    if not 0 <= cost_weight <= 1:
        raise UsageError(f"cost_weight={cost_weight!r} is not between 0 and 1.")
    feedback = feedback or Feedback()
    proposals = [decode_proposal(candidate) for candidate in candidates]
    costs = [_cost(proposal) for proposal in proposals]
    least = min(costs, default=0.0)
    ranked: list[Scored] = []
    for index, proposal in enumerate(proposals):
        report = verify(proposal, state, tools, gate=gate, view=view)
        likelihood = _likelihood(proposal, feedback)
        efficiency = (1 + least) / (1 + costs[index])
        ranked.append(
            Scored(
                index=index,
                valid=report.valid,
                score=likelihood * (1 - cost_weight) + efficiency * cost_weight,
                likelihood=likelihood,
                efficiency=efficiency,
                reasons=[f"{e.action_id}: {e.message}" if e.action_id else e.message for e in report.errors],
            )
        )
    return sorted(ranked, key=lambda scored: (not scored.valid, -scored.score, scored.index))


def _likelihood(proposal: Proposal, feedback: Feedback) -> float:
    """That every tool call succeeds, if they do so independently."""
    calls = Counter(a.tool for a in proposal.actions if a.type == "tool_call" and a.tool)
    # Tool by tool, because rounding would make the product depend on the order of the actions.
    return prod(feedback.rate(tool) ** times for tool, times in sorted(calls.items()))


def _cost(proposal: Proposal) -> float:
    calls = sum(action.type == "tool_call" for action in proposal.actions)
    return calls * _CALL + len(proposal.actions) * _ACTION
