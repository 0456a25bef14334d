"""Cases, tried: whether the rules answer each as it expects.

Keep true:
1. Cases are judged by the gate that execution asks. Nothing runs: the tools that a case makes up cannot.
2. No value of a parameter is in anything that is said of a case: it may be the very value that is denied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from placet.app.judgement import JudgedAction, JudgedPlan, Said, judge_plan
from placet.app.policy_cases import Call, Expected, PolicyCase, RuleBook
from placet.approvals.memory import MemoryApprovals
from placet.ir.action import Action, ToolCompensation
from placet.ir.json_value import JsonValue
from placet.ir.proposal import Proposal
from placet.ir.tool_spec import ToolSchema
from placet.policy.flow import MarkOutput
from placet.policy.rule import RateLimitTool
from placet.runtime.runtime import Runtime
from placet.tools.tool import Tool

_FROM_OUTPUTS = "its parameters depend on the output of "
"""How verify begins to say that a schema looks at what is filled in."""
_CALL = "call"
"""The id of the action that a case is about; those before it are numbered from 1."""
_UNDO = "(undo)"
"""The tool that would take back what a case does, where its own tool wants one."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One case, and how it went."""

    name: str
    file: str
    passed: bool
    expect: Expected
    by: str | None = None
    got: Literal["deny", "ask", "allow", "undecided", "invalid"]
    said: Sequence[Said] = ()
    """What each rule answers to the call."""
    problem: str = ""
    """What was expected, and what was said instead."""


class Trials(msgspec.Struct, frozen=True, kw_only=True):
    """All cases, and how they went."""

    passed: int
    failed: int
    cases: Sequence[Trial]
    rules_without_case: Sequence[str] = ()
    """Rules that no case names, and that objected in none. Rate limits are not among them: whether one
    objects depends on the clock."""


def try_cases(book: RuleBook) -> Trials:
    """Judge every case of a book. Nothing runs."""
    trials: list[Trial] = []
    tried: set[str] = set()
    marking = {name for name, rule in book.rules if isinstance(rule, MarkOutput)}
    for case in book.cases:
        plan = _judge_case(case, book)
        trials.append(_trial(case, plan, book))
        tried |= {said.by for said in plan.actions[-1].said if said.answer in ("denies", "asks")}
        tried |= {said.by for action in plan.actions for said in action.said if said.by in marking}
        if case.by is not None:
            tried.add(case.by)
    failed = sum(1 for trial in trials if not trial.passed)
    return Trials(
        passed=len(trials) - failed,
        failed=failed,
        cases=trials,
        rules_without_case=[
            name for name, rule in book.rules if name not in tried and not isinstance(rule, RateLimitTool)
        ],
    )


def _judge_case(case: PolicyCase, book: RuleBook) -> JudgedPlan:
    # What neither a tools file nor the case says of a tool is taken at its worst.
    tools = {
        name: book.tools.get(name) or _stand_in(ToolSchema(name=name, **facts))
        for name, facts in case.facts.items()
    }
    actions = [_action(str(n), call, tools) for n, call in enumerate(case.after, start=1)]
    actions.append(_action(_CALL, case.call, tools))
    runtime = Runtime(
        tools=[*tools.values(), _stand_in(ToolSchema(name=_UNDO, risk="read_only"))],
        state=case.state,
        policies=book.rules,
        permissions=book.permissions,
        approvals=MemoryApprovals(),
        folder=book.folder,
    )
    return judge_plan(runtime, Proposal(id="case", source="case", actions=actions), agent=case.agent)


def _action(name: str, call: Call, tools: Mapping[str, Tool]) -> Action:
    # Which tool takes it back is not what a case is about, but a compensable one wants to be told.
    wants_undo = tools[call.tool].schema.reversibility == "compensable"
    return Action(
        id=name,
        tool=call.tool,
        parameters=call.parameters,
        compensation=ToolCompensation(tool=_UNDO) if wants_undo else None,
    )


def _stand_in(schema: ToolSchema) -> Tool:
    return Tool.from_schema(schema, _never)


def _never(parameters: dict[str, JsonValue]) -> None:
    raise AssertionError("A case is judged, never run.")


def _trial(case: PolicyCase, plan: JudgedPlan, book: RuleBook) -> Trial:
    *before, last = plan.actions
    got = _answer(last)
    wanted = {"deny": "denies", "ask": "asks", "allow": "allows", "open": "undecided"}[case.expect]
    problem = _contradiction(case, book) or _cannot_have_run(before)
    if not problem and (
        got != ("undecided" if case.expect == "open" else case.expect)
        or (case.by is not None and not any(s.by == case.by and s.answer == wanted for s in last.said))
    ):
        by = f" by '{case.by}'" if case.by is not None else ""
        problem = f"expected {case.expect}{by}; {_in_words(last, got)}"
    return Trial(
        name=case.name,
        file=case.file,
        passed=not problem,
        expect=case.expect,
        by=case.by,
        got=got,
        said=last.said,
        problem=problem,
    )


def _answer(action: JudgedAction) -> Literal["deny", "ask", "allow", "undecided", "invalid"]:
    """What the verdict comes to for a case: an open question is no answer, except where only a schema is
    open, which no rule looks at."""
    answers = {said.answer for said in action.said}
    if "denies" in answers:
        return "deny"
    if action.problems:
        return "invalid"
    if "undecided" in answers or _open_to_rules(action):
        return "undecided"
    return "ask" if "asks" in answers else "allow"


def _open_to_rules(action: JudgedAction) -> list[str]:
    return [why for why in action.undecided if not why.startswith(_FROM_OUTPUTS)]


def _in_words(action: JudgedAction, got: str) -> str:
    match got:
        case "deny":
            return f"it is denied by {_who(action, 'denies')}"
        case "ask":
            return f"a person is asked by {_who(action, 'asks')}"
        case "undecided":
            open_questions = [
                *(f"'{said.by}' {said.reason}" for said in action.said if said.answer == "undecided"),
                *_open_to_rules(action),
            ]
            return f"it is undecided: {'; '.join(open_questions)}"
        case "invalid":
            # Not in the words of the schema: they quote values.
            return f"the call is not valid: its parameters do not fit the schema of tool '{action.tool}'"
    return "it is allowed"


def _who(action: JudgedAction, answer: str) -> str:
    return ", ".join(
        f"'{said.by}' ({said.reason})" if said.reason else f"'{said.by}'"
        for said in action.said
        if said.answer == answer
    )


def _cannot_have_run(before: Sequence[JudgedAction]) -> str:
    """Why something that a case says has run before cannot have; empty if all can."""
    for action in before:
        if (got := _answer(action)) in ("deny", "invalid"):
            words = _in_words(action, got)
            return f"call {action.id} of 'after' (tool '{action.tool}') cannot have run: {words}"
    return ""


def _contradiction(case: PolicyCase, book: RuleBook) -> str:
    """Where the case says of a tool what its declaration does not; empty if nowhere."""
    for name, facts in case.facts.items():
        tool = book.tools.get(name)
        if tool is None:
            continue
        for key, said in facts.items():
            declared = getattr(tool.schema, "undo" if key == "reversibility" else key)
            same = declared == said if isinstance(said, str) else set(declared) == set(said)
            if not same:
                return f"tool '{name}' is declared with other {key} than the case says; leave it out here"
    return ""
