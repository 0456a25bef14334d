"""Rules about where data comes from, and about what cannot be taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec

from placet.errors import RuleError
from placet.ir.tool_spec import Mark
from placet.policy.case import Case, Rule
from placet.policy.marks import Trail
from placet.validator import Undecided, undo_of


class FlowRule(Rule, frozen=True, kw_only=True, tag="flow_rule"):
    """Denies a call whose parameters hold labelled data."""

    mark: Mark
    """The label: `"untrusted"` or `"secret"`."""
    param: str | Sequence[str] | None = None
    """Which parameters, such as `to` or `message.to`. `None`: any."""
    reads_parameters: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.param is not None and not all([self.param, *self.param]):
            raise RuleError("'param' is empty, so it would fit no call; name a parameter, or leave it out")

    def check(self, case: Case) -> str | None:
        name, trail = self._found(case)
        if trail is None:
            return None
        if not trail.sure:
            raise Undecided(f"depends on whether {self.mark} data gets there")
        where = f"parameter '{name}'" if name is not None else "its parameters"
        does = "leave through" if self.mark == "secret" else "choose"
        return f"{self.reason or f'{self.mark} data would {does} {where}'} ({trail.in_words()})"

    def trail(self, case: Case) -> tuple[str, ...]:
        """How the marked data gets to the call, step by step."""
        name, trail = self._found(case)
        if trail is None:
            return ()
        return (*trail.steps, case.action.id if name is None else f"{case.action.id}.{name}")

    def _found(self, case: Case) -> tuple[str | None, Trail | None]:
        names = (self.param,) if self.param is None or isinstance(self.param, str) else self.param
        found = [(name, case.inflow.at(name).get(self.mark)) for name in names]
        marked = [(name, trail) for name, trail in found if trail is not None]
        # A sure one decides, wherever it stands.
        return max(marked, key=lambda each: each[1].sure, default=(None, None))


class MarkOutput(Rule, frozen=True, kw_only=True, tag="mark_output"):
    """Labels the output of a tool. Denies nothing by itself."""

    marks: Annotated[Sequence[Mark], msgspec.Meta(min_length=1)]
    """The labels; at least one."""
    reads_parameters: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unless_approved:
            raise RuleError("mark_output denies nothing, so 'unless_approved' means nothing; leave it out")

    def check(self, case: Case) -> str | None:
        return None


class DenyIrreversible(Rule, frozen=True, kw_only=True, tag="deny_irreversible"):
    """Denies a call that cannot be undone."""

    reads_parameters: ClassVar[bool] = False

    def check(self, case: Case) -> str | None:
        if undo_of(case.action, case.tool) != "irreversible":
            return None
        return self.reason or "an abort would not undo it"
