"""Rules about where data comes from, and about what cannot be taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec

from placet.errors import RuleError
from placet.ir.fields import parse_field
from placet.ir.tool_spec import Mark
from placet.policy.case import Case, Rule
from placet.policy.marks import Trail
from placet.policy.sources import FieldMarks, ValueSource
from placet.validator import Undecided, undo_of


class FlowRule(Rule, frozen=True, kw_only=True, tag="flow_rule"):
    """Denies a call whose parameters hold labelled data."""

    mark: Mark
    """The label: `"untrusted"` or `"secret"`."""
    param: str | Sequence[str] | None = None
    """Which parameters, such as `to` or `message.to`. `None`: any."""
    unless_from: ValueSource | Sequence[ValueSource] = ()
    """Sources whose values are let through; only for `"untrusted"`."""
    reads_parameters: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.param is not None and not all([self.param, *self.param]):
            raise RuleError("'param' is empty, so it would fit no call; name a parameter, or leave it out")
        if self.mark == "secret" and self.unless_from:
            raise RuleError(
                "'unless_from' is about who chose a value, and a secret must not leave whoever chose it; "
                "leave it out"
            )

    @property
    def sources(self) -> Sequence[ValueSource]:
        """The sources of `unless_from`."""
        return (self.unless_from,) if isinstance(self.unless_from, ValueSource) else self.unless_from

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
        found = [(name, self._trail_to(name, case)) for name in names]
        marked = [(name, trail) for name, trail in found if trail is not None]
        # A sure one decides, wherever it stands.
        return max(marked, key=lambda each: each[1].sure, default=(None, None))

    def _trail_to(self, name: str | None, case: Case) -> Trail | None:
        if not self.unless_from:
            return case.inflow.at(name).get(self.mark)
        return case.inflow.unless_from(name, self.mark, self.sources)


class MarkOutput(Rule, frozen=True, kw_only=True, tag="mark_output"):
    """Labels the output of a tool. Denies nothing by itself."""

    marks: Annotated[Sequence[Mark], msgspec.Meta(min_length=1)]
    """The labels; at least one."""
    fields: str | Sequence[str] | None = None
    """Only these fields of the output, such as `body`, or `mails[].body` in each item of a list. `None`: all
    of it."""
    reads_parameters: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unless_approved:
            raise RuleError("mark_output denies nothing, so 'unless_approved' means nothing; leave it out")
        if self.fields is not None and not self.fields:
            raise RuleError("'fields' is empty, so nothing would be marked; name a field, or leave it out")
        self.in_fields()

    def in_fields(self) -> FieldMarks:
        """The marks on fields; none if the whole output is marked."""
        given = (self.fields,) if isinstance(self.fields, str) else self.fields or ()
        return [(parse_field(path, "fields"), mark) for path in given for mark in self.marks]

    def check(self, case: Case) -> str | None:
        return None


class DenyIrreversible(Rule, frozen=True, kw_only=True, tag="deny_irreversible"):
    """Denies a call that cannot be undone."""

    reads_parameters: ClassVar[bool] = False

    def check(self, case: Case) -> str | None:
        if undo_of(case.action, case.tool) != "irreversible":
            return None
        return self.reason or "an abort would not undo it"
