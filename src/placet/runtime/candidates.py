"""Several plans for the same thing: the best of them that works.

Keep true:
1. At most one candidate leaves anything behind: the next one runs only after the last was undone.
2. Nothing runs beside a candidate that waits for a person.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from placet.ir.proposal import Proposal
from placet.ir.result import Outcome, ProposalResult
from placet.planner.score import Feedback, Scored
from placet.tools.context import Cancel


async def first_success(
    proposals: Sequence[Proposal],
    ranked: Sequence[Scored],
    attempt: Callable[[Proposal], Awaitable[ProposalResult]],
    *,
    feedback: Feedback | None = None,
    cancel: Cancel | None = None,
) -> ProposalResult:
    """The first success among proposals that are tried as they are ranked, else the first failure; or one
    that waits for a person. `attempt` runs one of them, and undoes it if it does not succeed entirely."""
    first_failure: ProposalResult | None = None
    for scored in ranked:
        if not scored.valid or (cancel is not None and cancel.requested):
            continue
        proposal = proposals[scored.index]
        result = await attempt(proposal)
        if feedback is not None:
            feedback.record(result, proposal)
        if result.succeeded or result.outcome == "waiting":
            return result
        first_failure = first_failure or result
    if first_failure is not None:
        return first_failure
    reasons = "; ".join(
        f"candidate {s.index + 1} ('{proposals[s.index].id}'): {', '.join(s.reasons)}"
        for s in ranked
        if not s.valid
    )
    if not any(s.valid for s in ranked):
        return not_run(proposals[0].id, "refused", reasons)
    return not_run(proposals[0].id, "canceled", "canceled before any candidate ran")


def not_run(proposal_id: str, outcome: Outcome, error: str) -> ProposalResult:
    """The result of what did not even become a run."""
    return ProposalResult(proposal_id=proposal_id, run_id="", trace_id="", outcome=outcome, error=error)
