"""What is remembered of an iteration: what turned a failure green, and which hint did not help.

Keep true:
1. What helped is kept under the failure that it helped against, and the one that the session began with.
2. A hint loses rank only if it was shown and the same failure came back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from assent.coder.contract import CheckResult, first_red
from assent.coder.repairs import approach_words
from assent.coder.session import Iteration
from assent.coder.signature import signature_of

if TYPE_CHECKING:
    from assent.coder.repairs import RepairMemory

_CHANGED = "This change turned it green:"


def learn(
    repairs: RepairMemory,
    repository: str,
    iteration: Iteration,
    *,
    before: Sequence[CheckResult],
    baseline: Sequence[CheckResult],
    diff: str = "",
) -> None:
    """Remember what an iteration shows. `before` is what the checks said as it began, `diff` the change, for
    a model that closed without a word.

    Raises:
        StorageError: it cannot be kept.
    """
    was, now = first_red(before), first_red(iteration.results)
    if was is None:
        return
    if iteration.is_green:
        begun = first_red(baseline)
        found = {signature_of(each).key: signature_of(each) for each in (was, begun) if each is not None}
        said = iteration.summary if iteration.status == "success" else change_words(diff)
        hint = iteration.hint
        for signature in found.values():
            repairs.learned(repository, signature, approach_words(signature, said), hint=hint)
            hint = None  # It helped once.
    elif iteration.hint is not None and now is not None and signature_of(now).key == signature_of(was).key:
        repairs.failed(iteration.hint)


def change_words(diff: str) -> str:
    """A short diff as a lead: the files, and the lines that went and came. Empty if there are none."""
    lines = []
    for line in diff.splitlines():
        if line.startswith("+++ "):
            lines.append(line.removeprefix("+++ ").removeprefix("b/"))
        elif line.startswith(("+", "-")) and not line.startswith("--- "):
            lines.append(line)
    return "\n".join([_CHANGED, *lines]) if lines else ""
