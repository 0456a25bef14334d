"""The gate in front of every action: capabilities, validation, policies, in this order.

Execution asks it right before an action starts; verify asks it with a simulated state. One
implementation, two callers: that is why a plan that verifies is not refused later.

Keep true:
1. Asking changes nothing; only `note_admitted` does, and only execution calls it.
2. References are resolved before the gate sees an action.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from assent.errors import unknown_session
from assent.ir.action import Action
from assent.ir.graph import Footprint
from assent.policy.capabilities import CapabilitySet
from assent.policy.engine import Policy, PolicySet
from assent.validator import (
    Blanks,
    ToolFacts,
    Tools,
    Undecided,
    View,
    parameter_problems,
    shape_problems,
    state_problems,
)


class Rejection(NamedTuple):
    """Why an action may not start."""

    is_policy: bool
    """A policy's denial, as against a capability or a malformed action."""
    reason: str


_ADMITTED: tuple[Rejection, ...] = ()


class Gate:
    """What stands between a proposal and its effects, as it is at the start of a run."""

    __slots__ = ("_capabilities", "_is_bare", "_is_open", "_policies", "_session", "_tools")

    def __init__(
        self,
        tools: Tools,
        *,
        capabilities: CapabilitySet | None = None,
        policies: Sequence[PolicySet] = (),
        session: str | None = None,
        is_open: Callable[[str], bool] | None = None,
    ) -> None:
        """`policies` are asked in turn: the global ones, then the session's. `is_open` is asked about
        `session` each time, because a session may be closed while a plan runs under it."""
        self._tools = tools
        self._capabilities = capabilities
        self._policies = [p for p in policies if len(p)]
        self._session = session
        self._is_open = is_open
        self._is_bare = capabilities is None and not self._policies and session is None

    @property
    def tools(self) -> Tools:
        """The tools it knows."""
        return self._tools

    @property
    def touches(self) -> bool:
        """Whether some policy reads state or counts, so that the graph must know."""
        return bool(self._policies)

    def footprint(self, action: Action) -> Footprint:
        """What judging the action reads of the state, or counts."""
        reads: list[str] = []
        writes: list[str] = []
        for policies in self._policies:
            for policy in policies.about(action):
                also_reads, also_writes = policy.touches(action)
                reads += also_reads
                writes += also_writes
        return reads, writes

    def refusal(self, count: int) -> str | None:
        """Why a proposal of `count` actions is refused whole, or None."""
        if self._session is not None and self._is_closed():
            return unknown_session(self._session)
        return self._capabilities.too_many(count) if self._capabilities is not None else None

    def _is_closed(self) -> bool:
        return self._session is not None and (self._is_open is None or not self._is_open(self._session))

    def judge(
        self,
        action: Action,
        tool: ToolFacts | None,
        view: View,
        undecided: list[str],
        *,
        blanks: Blanks | None = None,
        ahead: bool = False,
    ) -> Sequence[Rejection]:
        """Why the action may not start; empty if it may.

        With `ahead` the question comes before the plan runs: every stage is asked also when an earlier one
        rejects, and what depends on rate windows is left open. Where the answer depends on what is not
        known yet, the reason goes to `undecided`; where it depends on `blanks`, they are told.
        """
        if (
            self._is_bare
            and not blanks
            and not (
                # Spelled out, not called: this is asked of every action.
                action.preconditions
                or action.state_dependencies
                or action.assumptions
                or action.compensation is not None
                or action.reversibility is not None
                or action.invocation_mode != "one_shot"
            )
        ):
            # Nothing to ask but the parameters: most actions of most plans.
            if tool is not None:
                wrong = tool.validate(action.parameters) if tool.validate is not None else None
                return _ADMITTED if wrong is None else (Rejection(False, wrong),)
            if action.type != "tool_call" and type(action.parameters.get("key")) is str:
                return _ADMITTED
        found: list[Rejection] = []
        if self._capabilities is not None:
            found += [Rejection(False, p) for p in self._capabilities.problems(action)]
        if ahead or not found:
            found += self._validate(action, tool, view, undecided, blanks)
        if self._session is not None and self._is_closed():
            found.append(Rejection(True, unknown_session(self._session)))
        elif self._policies and (ahead or not found):
            found += self._ask_policies(action, view, undecided, blanks, ahead)
        return found

    def _validate(
        self,
        action: Action,
        tool: ToolFacts | None,
        view: View,
        undecided: list[str],
        blanks: Blanks | None,
    ) -> list[Rejection]:
        problems: list[str] = []
        if (
            (tool is None and action.type == "tool_call")
            or action.compensation is not None
            or action.invocation_mode != "one_shot"
            or action.reversibility == "compensable"
        ):
            problems += shape_problems(action, tool, self._tools)
        wrong = blanks.problems(action) if blanks else parameter_problems(action, tool)
        if wrong and self._denies_parameters(action, view, blanks):
            # The words of the schema quote values, and a denied value must not be shown.
            wrong = ["its parameters do not fit the tool's schema"]
        problems += wrong
        if blanks and _needs_blanks(action, tool):
            blanks.leave_open()
        if action.preconditions or action.assumptions or action.state_dependencies:
            problems += state_problems(action, view, undecided)
        return [Rejection(False, p) for p in problems]

    def _denies_parameters(self, action: Action, view: View, blanks: Blanks | None) -> bool:
        """Whether a declared rule objects to what the parameters hold. Functions are not asked: they may
        rely on parameters that fit."""
        rules = [p for policies in self._policies for p in policies.about(action) if p.rule is not None]
        return any(p.reads_parameters and _violation(p, action, view, blanks) is not None for p in rules)

    def _ask_policies(
        self, action: Action, view: View, undecided: list[str], blanks: Blanks | None, ahead: bool
    ) -> list[Rejection]:
        found: list[Rejection] = []
        for policies in self._policies:
            for policy in policies.about(action):
                if ahead and policy.is_counting:
                    undecided.append(f"policy '{policy.name}' depends on what runs within its window")
                    continue
                try:
                    reason = _violation(policy, action, view, blanks)
                except Undecided as why:
                    undecided.append(f"policy '{policy.name}' {why}")
                    continue
                if reason is not None:
                    found.append(Rejection(True, f"policy '{policy.name}': {reason}"))
        return found

    def note_admitted(self, action: Action) -> None:
        """The action passed every gate: let policies that count know."""
        for policies in self._policies:
            for policy in policies.about(action):
                policy.note()


def _violation(policy: Policy, action: Action, view: View, blanks: Blanks | None) -> str | None:
    """What the policy says; where that depends on blanks, they are told, and it says nothing."""
    if not blanks or not policy.reads_parameters:
        return policy.violation(action, view)
    if policy.rule is not None:
        foreseen, reason = policy.rule.foresee(action, view, blanks)
        if foreseen:
            return reason
    blanks.leave_open(policy.name)
    return None


def _needs_blanks(action: Action, tool: ToolFacts | None) -> bool:
    """Whether what is filled in decides if the parameters fit."""
    if action.type == "tool_call":
        return tool is not None and tool.validate is not None
    return not isinstance(action.parameters.get("key"), str)
