"""One action in front of the gate, with everything that a rule may look at; and what every rule is.

Keep true:
1. A rule that cannot be evaluated denies.
2. The value that was denied never appears in the reason.
3. A rule says beforehand which state it reads and what it counts, so the graph can keep actions in
   order where the order decides.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from placet.ir.action import Action
from placet.ir.graph import Footprint
from placet.policy.calls import Calls
from placet.policy.marks import Inflow
from placet.validator import Blanks, ToolFacts, View

NOTHING: Footprint = ((), ())

Foreseen = tuple[bool, str | None]
"""Whether the answer is known beforehand, and the answer."""
LATER: Foreseen = (False, None)


class Case(NamedTuple):
    """What is judged: an action, references already resolved, at a moment."""

    action: Action
    tool: ToolFacts | None
    view: View
    inflow: Inflow
    """Which marks come with its parameters."""


class Rule(Calls, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True):
    """Base class of all rules: which calls the rule is about, and its message."""

    reason: str = ""
    """Message of a denial, instead of the rule's own."""
    unless_approved: bool = False
    """Ask a person instead of denying."""
    reads_parameters: ClassVar[bool] = True

    def check(self, case: Case) -> str | None:
        """Why the action is denied, or None."""
        raise NotImplementedError

    def foresee(self, case: Case, blanks: Blanks) -> Foreseen:
        """What `check` will say of the action once its blanks are filled in, if that is known already."""
        return LATER

    def touches(self, name: str, action: Action, tool: ToolFacts | None) -> Footprint:
        """State keys that judging the action reads, and keys that stand for what the rule counts."""
        return NOTHING
