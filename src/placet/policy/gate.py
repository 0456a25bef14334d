"""The gate in front of every action: capabilities, validation, policies, permission, in this order.

Execution asks it right before an action starts; verify asks it with a simulated state. One
implementation, two callers: that is why a plan that verifies is not refused later.

Keep true:
1. Asking changes nothing; only `begun` and `succeeded` do.
2. References are resolved before the gate sees an action.
3. Whoever must be asked is asked only where nothing is denied outright.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from placet.errors import unknown_session
from placet.ir.action import Action
from placet.ir.fields import parse_field
from placet.ir.graph import Footprint
from placet.ir.json_value import JsonValue, canonical_bytes
from placet.ir.tool_spec import Mark
from placet.policy.capabilities import CapabilitySet
from placet.policy.case import LATER, NOTHING, Case, Foreseen
from placet.policy.engine import Policy, PolicySet
from placet.policy.flow import FlowRule, MarkOutput
from placet.policy.marks import UNMARKED, Inflow, MarkedState, Marks, Trail
from placet.policy.permission import (
    NOT_GRANTED,
    TIERS,
    Answer,
    CallByCall,
    Posture,
    Stance,
    Tier,
    points_somewhere,
    tier_of,
)
from placet.policy.sources import FieldMarks
from placet.policy.trace import Trace
from placet.validator import (
    Blanks,
    ToolFacts,
    Tools,
    Undecided,
    View,
    parameter_problems,
    shape_problems,
    state_problems,
)

NOBODY = "it needs an approval, and there is nobody to ask: no approvals are kept here"


class Objection(NamedTuple):
    """Why an action may not start, or not without a person's word."""

    kind: Literal["invalid", "denied", "ask"]
    """Malformed or beyond the capabilities; denied by a policy; or for a person to decide."""
    reason: str
    mark: Mark | None = None
    """Of the data that it is about, where it is about where data comes from."""
    trail: tuple[str, ...] = ()
    tier: Tier | None = None
    """Where a posture asks about nothing but the tier of the call: which one. None where a rule, an approval
    policy or a list of tools asks."""


class Opinion(NamedTuple):
    """The answer of one policy, or of the permission gate, to one action."""

    by: str
    """Name of the policy; `permission` for the permission gate."""
    answer: Literal["allows", "asks", "denies", "undecided"]
    """`allows`, `asks`, `denies` or `undecided`."""
    reason: str = ""
    """Why; empty if it allows."""
    tier: Tier | None = None
    """The tier of the call, if the permission gate answers; `None` for a policy."""


_NONE: tuple[Objection, ...] = ()
_BAD_PARAMETERS = "its parameters do not fit the tool's schema"


class Gate:
    """What stands between a proposal and its effects, as it is at the start of a run."""

    __slots__ = (
        "_all_policies",
        "_by_call",
        "_capabilities",
        "_folder",
        "_has_marks",
        "_is_bare",
        "_is_open",
        "_is_plain",
        "_is_rehearsal",
        "_looked_at",
        "_policies",
        "_posture",
        "_session",
        "_tools",
        "_version",
        "can_ask",
        "counts",
        "has_posture",
        "listen",
        "state_marks",
        "trace",
        "uses_sources",
    )

    def __init__(
        self,
        tools: Tools,
        *,
        capabilities: CapabilitySet | None = None,
        policies: Sequence[PolicySet] = (),
        session: str | None = None,
        is_open: Callable[[str], bool] | None = None,
        trace: Trace | None = None,
        posture: Posture | None = None,
        folder: str | None = None,
        can_ask: bool = False,
        state_marks: MarkedState | None = None,
        by_call: CallByCall | None = None,
    ) -> None:
        """`policies` are asked in turn: the global ones, then the session's. `is_open` is asked about
        `session` each time, because a session may be closed while a plan runs under it. `trace` is what has
        run so far; `posture` is what the caller is answered by tier, in `folder`; `by_call` is asked before
        that. `state_marks` is what is marked in the state; None if nothing can be, anywhere."""
        self._tools = tools
        self._capabilities = capabilities
        self._all_policies = policies
        self._session = session
        self._is_open = is_open
        if by_call is not None and (posture is None or by_call.overrules):
            posture = by_call.otherwise
        self._posture = posture
        self.has_posture = posture is not None or by_call is not None
        """Whether it depends on the tier of a call who must be asked."""
        self._by_call = by_call
        self._folder = folder
        self._is_plain = capabilities is None and session is None
        self.trace = trace if trace is not None else Trace()
        self._is_rehearsal = False
        self._version: tuple[list[int], str] | None = None
        self.state_marks = state_marks
        self.can_ask = can_ask
        """Whether there is somebody to ask."""
        self.listen: Callable[[Action, Opinion], None] | None = None
        """Told of every single opinion, for whoever wants to know why."""
        self.refresh()

    def refresh(self) -> None:
        """See policies that were added to an empty set since; look again at what was looked at."""
        self._looked_at: tuple[Action, Stance | None] | None = None
        self._policies = [policies for policies in self._all_policies if len(policies)]
        self._is_bare = self._is_plain and not self._policies
        each = [policy for policies in self._policies for policy in policies]
        self._has_marks = any(isinstance(policy.rule, MarkOutput) for policy in each)
        self.counts = any(policy.counts for policy in each)
        """Whether some policy counts, or looks back."""
        self.uses_sources = any(isinstance(p.rule, FlowRule) and p.rule.unless_from for p in each)
        """Whether some policy accepts values from the answers of calls."""

    @property
    def tools(self) -> Tools:
        """The tools it knows."""
        return self._tools

    @property
    def touches(self) -> bool:
        """Whether some policy reads state or counts, so that the graph must know."""
        return bool(self._policies)

    def rehearsing(self) -> Gate:
        """The same gate, for a plan that is only gone through: what would run is counted on a copy."""
        copy = Gate(
            self._tools,
            capabilities=self._capabilities,
            policies=self._policies,
            session=self._session,
            is_open=self._is_open,
            trace=self.trace.copy(),
            posture=self._posture,
            folder=self._folder,
            can_ask=self.can_ask,
            state_marks=self.state_marks,
            by_call=self._by_call,
        )
        copy.listen = self.listen
        copy._is_rehearsal = True
        return copy

    def footprint(self, action: Action) -> Footprint:
        """What judging the action reads of the state, or counts."""
        tool = self._tools.get(action.tool) if action.tool is not None else None
        about = self._about(action, tool)
        if not about:
            return NOTHING
        reads: list[str] = []
        writes: list[str] = []
        for policy in about:
            also_reads, also_writes = policy.touches(action, tool)
            reads += also_reads
            writes += also_writes
        return reads, writes

    def _about(self, action: Action, tool: ToolFacts | None) -> Sequence[Policy]:
        if len(self._policies) == 1:
            return self._policies[0].about(action, tool)
        return [policy for policies in self._policies for policy in policies.about(action, tool)]

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
        inflow: Inflow = UNMARKED,
        undo: Action | None = None,
        undo_inflow: Inflow = UNMARKED,
        undoes: bool = False,
    ) -> Sequence[Objection]:
        """Why the action may not start, or not without a person's word; empty if it may.

        With `ahead` the question comes before the plan runs: every stage is asked also when an earlier one
        objects, and what depends on rate windows or people is left open. Where the answer depends on what is
        not known yet, the reason goes to `undecided`; where it depends on `blanks`, they are told.
        `inflow` says where its parameters come from. `undo` is what would take it back, and needs no approval
        of its own: so it is looked at here, with what flows into it. With `undoes` the action itself takes
        another back.
        """
        if (
            (self._is_bare or (self._is_plain and not self._about(action, tool)))
            and (not self.has_posture or self._lets_pass(action, tool))
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
                if undoes or tool.schema.reversibility != "compensable":
                    wrong = tool.validate(action.parameters) if tool.validate is not None else None
                    if wrong is None:
                        return _NONE
                    is_secret = "secret" in inflow.at(None)
                    return (Objection("invalid", _BAD_PARAMETERS if is_secret else wrong),)
            elif action.type != "tool_call" and type(action.parameters.get("key")) is str:
                return _NONE
        found: list[Objection] = []
        case = Case(action, tool, view, inflow)
        if self._capabilities is not None:
            found += [Objection("invalid", p) for p in self._capabilities.problems(action)]
        if ahead or not found:
            found += self._validate(case, undecided, blanks, undoes)
        if self._session is not None and self._is_closed():
            found.append(Objection("denied", unknown_session(self._session)))
            return found
        asks: list[Objection] = []
        if self._policies and (ahead or not found):
            found += self._ask_policies(case, undecided, blanks, ahead, asks)
        if self.has_posture and (ahead or not found):
            found += self._ask_posture(action, tool, asks)
            if blanks and self._may_rise(case, blanks):
                undecided.append("which tier it needs depends on what is filled in")
        if undo is not None and (ahead or not found):
            asks += self._asks_of_undo(undo, undo_inflow)
        if not asks:
            return found
        if not self.can_ask:
            nobody = NOBODY if self._by_call is None else self._by_call.nobody or NOBODY
            found += [o._replace(kind="denied", reason=f"{o.reason}; {nobody}") for o in asks]
        elif ahead:
            undecided += [f"it needs an approval: {o.reason}" for o in asks]
        elif not found:
            found += asks
        return found

    def _validate(
        self, case: Case, undecided: list[str], blanks: Blanks | None, undoes: bool
    ) -> list[Objection]:
        action, tool = case.action, case.tool
        problems: list[str] = []
        if (
            (tool is None and action.type == "tool_call")
            or action.compensation is not None
            or action.invocation_mode != "one_shot"
            or action.reversibility == "compensable"
            or (tool is not None and tool.schema.reversibility == "compensable")
        ):
            problems += shape_problems(action, tool, self._tools, undoes=undoes)
        wrong = blanks.problems(action) if blanks else parameter_problems(action, tool)
        if wrong and ("secret" in case.inflow.at(None) or self._denies_parameters(case, blanks)):
            # The words of the schema quote values, and a denied or secret one must not be shown.
            wrong = [_BAD_PARAMETERS]
        problems += wrong
        if blanks and _needs_blanks(action, tool):
            blanks.leave_open()
        if action.preconditions or action.assumptions or action.state_dependencies:
            problems += state_problems(action, case.view, undecided)
        return [Objection("invalid", p) for p in problems]

    def _denies_parameters(self, case: Case, blanks: Blanks | None) -> bool:
        """Whether a declared rule objects to the call. Functions are not asked: they may rely on parameters
        that fit."""
        for policy in self._about(case.action, case.tool):
            if policy.rule is not None:
                try:
                    if self._violation(policy, case, blanks)[1] is not None:
                        return True
                except Undecided:
                    return True  # It may, and a value that was told cannot be taken back.
        return False

    def _ask_policies(
        self, case: Case, undecided: list[str], blanks: Blanks | None, ahead: bool, asks: list[Objection]
    ) -> list[Objection]:
        """What the policies deny; what a person may overrule goes to `asks`."""
        found: list[Objection] = []
        for policy in self._about(case.action, case.tool):
            reason: str | None
            if ahead and policy.is_counting:
                reason = "depends on what runs within its window"
                undecided.append(f"policy '{policy.name}' {reason}")
                self._tell(case.action, policy.name, "undecided", reason)
                continue
            try:
                is_known, reason = self._violation(policy, case, blanks)
            except Undecided as why:
                undecided.append(f"policy '{policy.name}' {why}")
                self._tell(case.action, policy.name, "undecided", str(why))
                continue
            if reason is not None:
                objection = _objection(policy, case, reason)
                (asks if policy.asks else found).append(objection)
            if self.listen is not None:
                if not is_known:
                    self._tell(case.action, policy.name, "undecided", "depends on what is filled in")
                elif reason is None:
                    self._tell(case.action, policy.name, "allows")
                else:
                    self._tell(case.action, policy.name, "asks" if policy.asks else "denies", reason)
        return found

    def _tell(
        self,
        action: Action,
        by: str,
        answer: Literal["allows", "asks", "denies", "undecided"],
        reason: str = "",
    ) -> None:
        if self.listen is not None:
            self.listen(action, Opinion(by, answer, reason))

    def _violation(self, policy: Policy, case: Case, blanks: Blanks | None) -> Foreseen:
        """What the policy says; where that depends on blanks, they are told, and it says nothing."""
        rule = policy.rule
        if not blanks or isinstance(rule, MarkOutput):
            return True, policy.violation(case, self.trace)
        if rule is None or rule.fits_path(case.action):
            if not policy.reads_parameters:
                return True, policy.violation(case, self.trace, is_open=True)
            foreseen = rule.foresee(case, blanks) if rule is not None else LATER
            if foreseen[0]:
                return foreseen
        blanks.leave_open(policy.name)
        return LATER

    # Permission

    def permission(self, action: Action, tool: ToolFacts | None) -> tuple[Tier, Answer] | None:
        """The tier of a call, and what the caller is answered to it; None where nothing is asked of it."""
        found = self._stance(action, tool)
        return None if found is None else found[:2]

    def _stance(self, action: Action, tool: ToolFacts | None) -> tuple[Tier, Answer, str] | None:
        """The same with the reason, where it is not the tier."""
        if not self.has_posture or tool is None or action.type != "tool_call":
            return None
        tier = tier_of(tool.schema, action.parameters, self._folder)
        if self._by_call is not None:
            stance = self._answer_to(self._by_call, action)
            if stance is not None:
                return tier, stance.answer, stance.reason or "the approval policy says so"
        return (tier, self._posture.to(tier), "") if self._posture is not None else None

    def _answer_to(self, by_call: CallByCall, action: Action) -> Stance | None:
        """Asked once for each look at an action: a policy may count how often it is."""
        if self._looked_at is None or self._looked_at[0] is not action:
            self._looked_at = action, by_call.answer(action.tool or "", action.parameters)
        return self._looked_at[1]

    def _lets_pass(self, action: Action, tool: ToolFacts | None) -> bool:
        """Whether the posture has nothing to say of an action, and nobody wants to hear that."""
        stance = self._stance(action, tool)
        return (stance is None or stance[1] == "allow") and self.listen is None

    def _ask_posture(self, action: Action, tool: ToolFacts | None, asks: list[Objection]) -> list[Objection]:
        found = self._stance(action, tool)
        if found is None:
            return []
        tier, answer, why = found
        if answer == "allow":
            if self.listen is not None:
                self.listen(action, Opinion("permission", "allows", tier, tier))
            return []
        needs = f"needs {tier}, which is denied here" if answer == "deny" else NOT_GRANTED.format(tier=tier)
        words = f"permission: tool '{action.tool}' {needs}"
        words = f"permission: {why}" if why else words
        if self.listen is not None:
            self.listen(action, Opinion("permission", "denies" if answer == "deny" else "asks", words, tier))
        if answer == "deny":
            return [Objection("denied", words)]
        asks.append(Objection("ask", words, tier=None if why else tier))
        return []

    def _may_rise(self, case: Case, blanks: Blanks) -> bool:
        """Whether what is filled in may raise the tier to one that is answered otherwise."""
        found = self.permission(case.action, case.tool)
        if found is None or found[0] != "sandbox_edit" or self._posture is None:
            return False
        return self._posture.full_access != found[1] and any(map(points_somewhere, blanks))

    def _asks_of_undo(self, undo: Action, inflow: Inflow) -> list[Objection]:
        """Why a person must be asked about what would take an action back, as far as the plan tells."""
        tool = self._tools.get(undo.tool) if undo.tool is not None else None
        found: list[Objection] = []
        self._ask_posture(undo, tool, found)
        case = Case(undo, tool, _NO_VIEW, inflow)
        for policy in self._about(undo, tool):
            if policy.asks:
                try:
                    reason = policy.violation(case, self.trace)
                except Undecided:
                    reason = None  # Asked when it comes to that: without an approval it then does not run.
                if reason is not None:
                    found.append(_objection(policy, case, reason))
        return [o._replace(reason=of_undo(o.reason), tier=None) for o in found]

    def answer_by(self, posture: Posture) -> None:
        """From now on answer calls by this posture, where nothing else decides about them."""
        by_call = self._by_call
        self._by_call = (
            CallByCall(otherwise=posture, overrules=True) if by_call is None else by_call.answering(posture)
        )
        self._posture = posture
        self.has_posture = True
        self._version = None
        self.refresh()

    @property
    def posture(self) -> Posture | None:
        """What is answered by tier; None where nothing is asked of tiers."""
        return self._posture

    @property
    def names(self) -> list[str]:
        """What holds here: rules by name, `permission` for a posture, and `capabilities`."""
        rules = [name for policies in self._policies for name in policies.names()]
        rules += ["permission"] if self.has_posture else []
        return [*rules, "capabilities"] if self._capabilities is not None else rules

    @property
    def version(self) -> str:
        """Which policies and postures these are: with others, an approval is another."""
        revisions = [policies.revision for policies in self._policies]
        if self._version is None or self._version[0] != revisions:
            parts = [policies.spelled_out() for policies in self._policies]
            posture: list[JsonValue] = []
            if self._posture is not None:
                posture += [self._posture.to(tier) for tier in TIERS]
            if self._by_call is not None:
                posture.append(self._by_call.spelled_out())
            self._version = revisions, hashlib.sha256(canonical_bytes([parts, posture])).hexdigest()[:16]
        return self._version[1]

    # What ran

    def begun(
        self,
        action: Action,
        tool: ToolFacts | None,
        *,
        sure: bool = True,
        is_open: bool = False,
        by: int = 1,
        call: str = "",
    ) -> None:
        """The action passed every gate: let policies that count know; or, with `by` -1, that it did not.
        `call` names the call, also when it is gone through again."""
        case = Case(action, tool, _NO_VIEW, UNMARKED)
        for policy in self._about(action, tool):
            if not (self._is_rehearsal and policy.is_counting):
                # A window is of the clock, and the same for all: nothing is counted there on paper.
                policy.begun(case, self.trace, sure=sure, is_open=is_open, by=by, call=call)

    def succeeded(
        self,
        action: Action,
        tool: ToolFacts | None,
        *,
        sure: bool = True,
        is_open: bool = False,
        by: int = 1,
    ) -> None:
        """The action has succeeded; or, with `by` -1, it was taken back."""
        case = Case(action, tool, _NO_VIEW, UNMARKED)
        for policy in self._about(action, tool):
            policy.succeeded(case, self.trace, sure=sure, is_open=is_open, by=by)

    def marks(self, action: Action, tool: ToolFacts | None) -> Sequence[Mark]:
        """The marks that the tool, or a rule, puts on the output of an action."""
        declared = tuple(tool.schema.marks) if tool is not None and action.type == "tool_call" else ()
        if not self._has_marks:
            return declared
        ruled = [
            mark
            for p in self._about(action, tool)
            if isinstance(p.rule, MarkOutput) and p.rule.fields is None and p.rule.fits_path(action)
            for mark in p.rule.marks
        ]
        return tuple(dict.fromkeys((*declared, *ruled)))

    def field_marks(self, action: Action, tool: ToolFacts | None) -> FieldMarks:
        """The marks that the tool, or a rule, puts on fields of the output of an action."""
        if action.type != "tool_call":
            return ()
        declared = tool.schema.field_marks if tool is not None else {}
        if not declared and not self._has_marks:
            return ()
        found = [
            (parse_field(path, "field_marks"), mark) for path, marks in declared.items() for mark in marks
        ]
        for policy in self._about(action, tool) if self._has_marks else ():
            if isinstance(policy.rule, MarkOutput) and policy.rule.fits_path(action):
                found += policy.rule.in_fields()
        return found

    def may_mark(self, action: Action, tool: ToolFacts | None) -> Marks:
        """What rules put on the output of an action if what is still to be filled in fits them."""
        rules = [p.rule for p in self._about(action, tool) if isinstance(p.rule, MarkOutput)]
        return {mark: Trail((), sure=False) for rule in rules for mark in rule.marks}

    @property
    def has_marks(self) -> bool:
        """Whether a rule marks outputs."""
        return self._has_marks


def of_undo(reason: str) -> str:
    """The words in which a person is told of what would take an action back."""
    return f"its compensation: {reason}"


def _objection(policy: Policy, case: Case, reason: str) -> Objection:
    rule = policy.rule
    kind: Literal["ask", "denied"] = "ask" if policy.asks else "denied"
    words = f"policy '{policy.name}': {reason}"
    if isinstance(rule, FlowRule):
        return Objection(kind, words, rule.mark, rule.trail(case))
    return Objection(kind, words)


class _NoView:
    """Where the state is not to be looked at."""

    def get(self, key: str, default: object = None) -> object:
        raise Undecided("depends on the state")

    def exists(self, key: str) -> bool:
        raise Undecided("depends on the state")

    def version_of(self, key: str) -> int:
        raise Undecided("depends on the state")


_NO_VIEW = _NoView()


def _needs_blanks(action: Action, tool: ToolFacts | None) -> bool:
    """Whether what is filled in decides if the parameters fit."""
    if action.type == "tool_call":
        return tool is not None and tool.validate is not None
    return not isinstance(action.parameters.get("key"), str)
