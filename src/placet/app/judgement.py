"""What the gate says of a plan, action by action: who denies, who asks, what is open, and whose word decides.

Keep true:
1. A plan is judged by the gate that execution asks, and nothing runs.
2. Everything is told once: what a rule says stands under its name, and is not said of the action again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from placet.ir.action import Action, ActionCompensation
from placet.ir.proposal import Proposal
from placet.policy.flow import MarkOutput
from placet.policy.gate import Opinion
from placet.policy.permission import TIERS, Tier
from placet.runtime.runtime import Runtime
from placet.runtime.scope import Scope
from placet.verify.names import NameWarning
from placet.verify.report import UNDECIDED, Report, printable

PERMISSION = "permission"
"""Who speaks where the posture decides."""
COMPENSATION = "its compensation"
"""Who speaks where a person must be asked for what would take an action back."""

Verdict = Literal["denied", "invalid", "asks", "undecided", "allowed"]

_APPROVAL = "it needs an approval: "
"""How verify begins to say that a person must be asked."""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What one rule, or the posture, answers to an action."""

    by: str
    answer: Literal["allows", "asks", "denies", "undecided"]
    reason: str = ""
    decides: bool = False
    """Whether the verdict is its answer."""


class JudgedAction(msgspec.Struct, frozen=True, kw_only=True):
    """One action, and everything that is said of it."""

    id: str
    type: str
    tool: str | None
    verdict: Verdict
    said: Sequence[Said] = ()
    """By every rule that is about it, in the order in which they are asked."""
    problems: Sequence[str] = ()
    """Why it would not run, whatever the rules say."""
    undecided: Sequence[str] = ()
    """What only the run itself will show."""
    tier: Tier | None = None
    """What it needs to be allowed to do; None where no posture is asked."""
    marks: Sequence[str] = ()
    """What its output is, by itself."""
    takes_back: Sequence[str] = ()
    """The actions that it would take back; it runs only for that."""


class JudgedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, as the gate sees it beforehand."""

    verdict: Verdict
    actions: Sequence[JudgedAction]
    problems: Sequence[str] = ()
    """Why it is refused whole."""
    agent: str | None = None
    posture: Mapping[str, str] | None = None
    """What the agent is answered, tier by tier."""
    about_nothing: Sequence[str] = ()
    """The rules that are about no action of this plan."""
    warnings: Sequence[NameWarning] = ()
    """Names in the rules that mean nothing here."""


def judge_plan(runtime: Runtime, proposal: Proposal, *, agent: str | None = None) -> JudgedPlan:
    """What the gate of a runtime would say to a plan. Nothing runs.

    The runtime should keep approvals: without them, whatever needs asking is denied.
    """
    scope = Scope(caller_id=agent) if agent is not None else None
    report = runtime.verify(proposal, scope=scope)
    opinions: dict[str, dict[Opinion, None]] = {}
    for action_id, opinion in runtime.opinions(proposal, scope=scope):
        # What is also the compensation of another is asked about more than once.
        opinions.setdefault(action_id, {})[opinion] = None
    owners: dict[str, list[str]] = {}
    for action in proposal.actions:
        if isinstance(action.compensation, ActionCompensation):
            owners.setdefault(action.compensation.action_id, []).append(action.id)
    found = _Findings(report)
    marking = {p.name: p.rule for p in runtime.policies if isinstance(p.rule, MarkOutput)}
    actions = [
        _judged(runtime, action, list(opinions.get(action.id, ())), found, owners.get(action.id, ()), marking)
        for action in proposal.actions
    ]
    heard = {opinion.by for about in opinions.values() for opinion in about}
    posture = runtime.permissions.posture(agent) if runtime.permissions is not None else None
    verdicts = {action.verdict for action in actions if not action.takes_back}
    verdict: Verdict = "allowed"
    if "denied" in verdicts or not report.valid:
        verdict = "denied" if "denied" in verdicts else "invalid"
    elif verdicts & {"asks", "undecided"}:
        verdict = "asks" if "asks" in verdicts else "undecided"
    return JudgedPlan(
        verdict=verdict,
        actions=actions,
        problems=found.errors(None),
        agent=agent,
        posture=None if posture is None else {tier: posture.to(tier) for tier in TIERS},
        about_nothing=[name for name in runtime.policies.names() if name not in heard],
        warnings=runtime.rule_warnings(),
    )


class _Findings:
    """The findings of verify, by action."""

    def __init__(self, report: Report) -> None:
        self._errors: dict[str | None, list[str]] = {}
        self._open: dict[str | None, list[str]] = {}
        self._asked: dict[str | None, list[str]] = {}
        for issue in report.issues:
            if issue.severity == "error":
                self._errors.setdefault(issue.action_id, []).append(issue.message)
            elif issue.is_undecided:
                why = issue.message.removeprefix(UNDECIDED)
                found = self._asked if why.startswith(_APPROVAL) else self._open
                found.setdefault(issue.action_id, []).append(why)

    def errors(self, action_id: str | None) -> list[str]:
        """Why it would not run."""
        return self._errors.get(action_id, [])

    def open(self, action_id: str) -> list[str]:
        """What is not known of it beforehand."""
        return self._open.get(action_id, [])

    def asked_of_undo(self, action_id: str) -> list[str]:
        """Why a person must be asked about what would take it back; no rule is heard of that by itself."""
        begin = f"{_APPROVAL}{COMPENSATION}: "
        asked = self._asked.get(action_id, [])
        return [why.removeprefix(begin) for why in asked if why.startswith(begin)]


def _judged(
    runtime: Runtime,
    action: Action,
    opinions: list[Opinion],
    found: _Findings,
    owners: Sequence[str],
    marking: Mapping[str, MarkOutput],
) -> JudgedAction:
    tool = runtime.tools.get(action.tool) if action.tool is not None else None
    opinions += [Opinion(COMPENSATION, "asks", why) for why in found.asked_of_undo(action.id)]
    # The report says in words what the opinions say one by one; here each is told once.
    told = {printable(words) for opinion in opinions for words in _in_report(opinion)}
    problems = [problem for problem in found.errors(action.id) if problem not in told]
    undecided = [why for why in found.open(action.id) if why not in told]
    answers = {opinion.answer for opinion in opinions}
    verdict: Verdict = "allowed"
    if "denies" in answers or problems:
        verdict = "denied" if "denies" in answers else "invalid"
    elif "asks" in answers:
        verdict = "asks"
    elif "undecided" in answers or undecided:
        verdict = "undecided"
    decisive = {"denied": "denies", "asks": "asks", "undecided": "undecided"}.get(verdict)
    marks: list[str] = []
    if tool is not None and action.type == "tool_call":
        by_field = (mark for each in tool.schema.field_marks.values() for mark in each)
        marks += dict.fromkeys((*tool.schema.marks, *by_field))
    said = []
    for opinion in opinions:
        rule = marking.get(opinion.by)
        reason = opinion.reason
        if opinion.tier is not None:
            reason = reason.removeprefix(f"{PERMISSION}: ")
        if rule is not None and opinion.answer == "allows" and rule.fits_path(action):
            marks += [mark for mark in rule.marks if mark not in marks]
            reason = f"marks its output {' and '.join(rule.marks)}"
            if rule.fields is not None:
                fields = [rule.fields] if isinstance(rule.fields, str) else rule.fields
                reason += f" in {', '.join(fields)}"
        said.append(
            Said(by=opinion.by, answer=opinion.answer, reason=reason, decides=opinion.answer == decisive)
        )
    return JudgedAction(
        id=action.id,
        type=action.type,
        tool=action.tool,
        verdict=verdict,
        said=said,
        problems=problems,
        undecided=undecided,
        tier=next((opinion.tier for opinion in opinions if opinion.tier is not None), None),
        marks=marks,
        takes_back=owners,
    )


def _in_report(opinion: Opinion) -> Iterator[str]:
    """The ways in which verify says what an opinion says."""
    separator = "" if opinion.answer == "undecided" else ":"
    yield f"policy '{opinion.by}'{separator} {opinion.reason}"
    if opinion.tier is not None:
        yield opinion.reason  # The posture speaks for itself.
