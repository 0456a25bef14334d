"""Rules over what has already run: "deploy only after the tests", "no network once a secret was read".

Keep true:
1. What counts is what ran: calls that passed every gate, and, for `only_after`, calls that succeeded and
   were not taken back.
2. Looking back costs nothing: each rule counts the calls it is about as they come.
3. In a rehearsal a call that may not run is counted apart, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar

import msgspec

from placet.errors import RuleError
from placet.ir.action import Action
from placet.ir.graph import Footprint
from placet.policy.calls import Calls, refers
from placet.policy.case import NOTHING, Case, Rule
from placet.validator import ToolFacts, Undecided


class Past:
    """How many calls that one rule is about have run."""

    __slots__ = ("maybe_others", "maybe_subjects", "others", "subjects")

    def __init__(self) -> None:
        self.subjects = 0
        self.others = 0
        self.maybe_subjects = 0
        self.maybe_others = 0


class TraceRule(Rule, frozen=True, kw_only=True, tag="trace_rule"):
    """Denies a call because of calls that have run before it, or have not. Give exactly one of the four
    conditions.
    """

    only_after: Calls | None = None
    """Deny until such a call has succeeded."""
    only_before: Calls | None = None
    """Deny once such a call has run."""
    never_with: Calls | None = None
    """Deny once such a call has run; and deny such a call once one of these has run."""
    at_most: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Deny once this many have run, 0 or more."""
    reads_parameters: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [
            n for n in ("only_after", "only_before", "never_with", "at_most") if getattr(self, n) is not None
        ]
        if len(given) != 1:
            raise RuleError(
                "trace_rule needs exactly one of 'only_after', 'only_before', 'never_with', 'at_most'"
            )

    @property
    def other(self) -> Calls | None:
        """The calls that decide about those that the rule is for."""
        return self.only_after or self.only_before or self.never_with

    def about(self, action: Action, tool: ToolFacts | None) -> bool:
        return super().about(action, tool) or (self.other is not None and self.other.about(action, tool))

    def fits_path(self, action: Action) -> bool:
        return True  # Two paths may be meant; each is looked at where its calls are.

    def touches(self, name: str, action: Action, tool: ToolFacts | None) -> Footprint:
        # Whoever is judged waits for all that count, and the other way round; those that only count do not
        # wait for each other.
        key = (f"\0rule:{name}",)
        if Calls.about(self, action, tool) and (Calls.fits_path(self, action) or refers(action)):
            return (), key
        return (key, ()) if self.other is not None and self.other.may_fit(action, tool) else NOTHING

    def _is_own(self, case: Case) -> bool:
        return Calls.about(self, case.action, case.tool) and Calls.fits_path(self, case.action)

    def judge(self, case: Case, past: Past, is_open: bool) -> str | None:
        """Why the call is denied after what has run, or None. With `is_open` parameters are still to come.

        Raises:
            Undecided: that depends on what has run by then.
        """
        denial: str | None = None
        if self._is_own(case):
            denial = self._of_subject(past)
        elif is_open and Calls.about(self, case.action, case.tool):
            raise Undecided("depends on what is filled in")
        other = self.never_with
        if denial is None and other is not None:
            if other.fits(case.action, case.tool):
                if _reached(past.subjects, past.maybe_subjects):
                    denial = f"{self.in_words()} has run"
            elif is_open and other.about(case.action, case.tool):
                raise Undecided("depends on what is filled in")
        return denial and (self.reason or denial)

    def _of_subject(self, past: Past) -> str | None:
        if self.at_most is not None:
            if _reached(past.subjects, past.maybe_subjects, self.at_most):
                return f"{self.at_most} have run, and no more may"
            return None
        assert self.other is not None
        if self.only_after is None:
            return f"{self.other.in_words()} has run" if _reached(past.others, past.maybe_others) else None
        if past.others:
            return None
        if past.maybe_others:
            raise Undecided(f"depends on whether {self.other.in_words()} has run by then")
        return f"{self.other.in_words()} has not run yet"

    def begun(self, past: Past, case: Case, *, sure: bool, is_open: bool, by: int = 1) -> None:
        """Such a call has passed every gate; or, with `by` -1, it is taken off the count again."""
        if self._is_own(case):
            if sure:
                past.subjects += by
            else:
                past.maybe_subjects += by
        elif is_open and Calls.about(self, case.action, case.tool):
            past.maybe_subjects += by
        if self.only_after is None:
            self._add_other(past, case, sure, is_open, by)

    def succeeded(self, past: Past, case: Case, *, sure: bool, is_open: bool, by: int = 1) -> None:
        """Such a call has succeeded."""
        if self.only_after is not None:
            self._add_other(past, case, sure, is_open, by)

    def _add_other(self, past: Past, case: Case, sure: bool, is_open: bool, by: int) -> None:
        other = self.other
        if other is None or not other.about(case.action, case.tool):
            return
        is_meant = other.fits_path(case.action)
        if is_meant and sure:
            past.others += by
        elif is_meant or is_open:
            past.maybe_others += by


class Trace:
    """What has run, as far as rules look back at it: within a run, or within a session."""

    __slots__ = ("_pasts", "unfinished")

    def __init__(self, pasts: Mapping[object, Past] | None = None) -> None:
        self.unfinished: dict[str, Callable[[], None]] = {}
        """Runs that were broken off and may go on: how to take what they counted off again, so that going on
        does not count it twice."""
        self._pasts: dict[object, Past] = {}
        for policy, past in (pasts or {}).items():
            copy = self._pasts[policy] = Past()
            for name in Past.__slots__:
                setattr(copy, name, getattr(past, name))

    def copy(self) -> Trace:
        """One that goes its own way from here, for a rehearsal."""
        return Trace(self._pasts)

    def of(self, policy: object) -> Past:
        """What counts for one policy."""
        found = self._pasts.get(policy)
        if found is None:
            found = self._pasts[policy] = Past()
        return found


def _reached(sure: int, maybe: int, limit: int = 1) -> bool:
    """Whether so many have run.

    Raises:
        Undecided: that depends on those that may not run.
    """
    if sure < limit <= sure + maybe:
        raise Undecided("depends on what has run by then")
    return sure >= limit
