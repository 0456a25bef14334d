"""Learn from an iteration: store what turned a failure green, count which hint did not help.

Keep true:
1. What helped is kept under the failure that it helped against, and the one that the session began with.
2. A hint loses rank only if it was shown and the same failure came back, or if its very change was tried.
3. A hint wins nothing by what somebody else found after its change had not helped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from placet.checks.contract import CheckResult, first_red
from placet.checks.signature import signature_of
from placet.coder.leads import change_words
from placet.coder.repairs import approach_words
from placet.coder.session import Iteration
from placet.ir.provenance import recorded

if TYPE_CHECKING:
    from placet.coder.repairs import Repairs


def learn(
    repairs: Repairs,
    repository: str,
    iteration: Iteration,
    *,
    before: Sequence[CheckResult],
    baseline: Sequence[CheckResult],
    hint: str | None,
    diff: str = "",
) -> None:
    """Remember what an iteration shows. `before` is what the checks said as it began, `hint` the repair that
    this says something about, `diff` the change, where that says more than what the model closed with.

    Raises:
        StorageError: it cannot be kept.
    """
    was, now = first_red(before), first_red(iteration.results)
    if was is None:
        return
    if iteration.is_green:
        begun = first_red(baseline)
        found = {signature_of(each).key: signature_of(each) for each in (was, begun) if each is not None}
        said = change_words(diff) or (iteration.summary if iteration.status == "success" else "")
        for signature in found.values():
            repairs.learned(
                repository,
                signature,
                approach_words(signature, said),
                hint=hint,
                labels=recorded(iteration.labels),
                source=f"run:{iteration.run_id}",
            )
            hint = None  # It helped once.
    elif hint is not None:
        is_tried = iteration.tried is not None and iteration.tried.is_remembered
        if is_tried or (now is not None and signature_of(now).key == signature_of(was).key):
            repairs.failed(hint)
