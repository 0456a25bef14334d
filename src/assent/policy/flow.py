"""Rules about where data comes from, and about what cannot be taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec

from assent.ir.tool_spec import Mark
from assent.policy.case import Case, Rule
from assent.validator import Undecided, undo_of


class FlowRule(Rule, frozen=True, kw_only=True, tag="flow_rule"):
    """Deny a call whose parameters, or one of them, hold marked data."""

    mark: Mark
    param: str | Sequence[str] | None = None
    """Which parameters, such as `to` or `message.to`; without it, any."""
    reads_parameters: ClassVar[bool] = False

    def check(self, case: Case) -> str | None:
        names = (self.param,) if self.param is None or isinstance(self.param, str) else self.param
        for name in names:
            trail = case.inflow.at(name).get(self.mark)
            if trail is None:
                continue
            if not trail.sure:
                raise Undecided(f"depends on whether {self.mark} data gets there")
            where = f"parameter '{name}'" if name is not None else "its parameters"
            words = self.reason or f"{self.mark} data would choose {where}"
            if self.mark == "secret" and not self.reason:
                words = f"secret data would leave through {where}"
            return f"{words} ({trail.in_words()})"
        return None


class MarkOutput(Rule, frozen=True, kw_only=True, tag="mark_output"):
    """Say what the output of a tool is. Denies nothing by itself."""

    marks: Annotated[Sequence[Mark], msgspec.Meta(min_length=1)]
    reads_parameters: ClassVar[bool] = False

    def check(self, case: Case) -> str | None:
        return None


class DenyIrreversible(Rule, frozen=True, kw_only=True, tag="deny_irreversible"):
    """Deny a call that nothing can take back."""

    reads_parameters: ClassVar[bool] = False

    def check(self, case: Case) -> str | None:
        if undo_of(case.action, case.tool) != "irreversible":
            return None
        return self.reason or "it cannot be taken back"
