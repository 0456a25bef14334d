"""What the gate says of a plan, action by action; and cases, which say what it should say.

    [[case]]
    name = "rm is denied"
    tool = "shell"
    parameters = { command = "rm -rf build" }
    expect = "deny"                       # or "ask", or "allow"
    by = "no-rm"                          # the rule that must say so; "permission" is the posture

A case may also say what is known of its tool, where no tools file does (`risk`, `labels`, `reversibility`,
`marks`), the `state`, the `agent`, and the calls that ran before it, in order:

    after = [{ tool = "read_secret", risk = "read_only", marks = ["secret"] }]
    parameters = { text = "$1.output" }   # what the first of them has put out

Keep true:
1. Cases are judged by the gate that execution asks. Nothing runs: the tools that a case makes up cannot.
2. Cases are read as strictly as rules: a case that is not read as it was meant proves nothing.
3. No value of a parameter is in anything that is said of a case: it may be the very value that is denied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import msgspec

from assent.app.governance import Question, gather
from assent.app.tool_file import load_tools
from assent.app.trust import read_files
from assent.approvals.memory import MemoryApprovals
from assent.errors import InputError, NotJson
from assent.ir.action import Action, ActionCompensation, ToolCompensation
from assent.ir.json_value import JsonValue, copy_json
from assent.ir.proposal import Proposal
from assent.ir.references import find_references
from assent.ir.tool_spec import Mark, Reversibility, Risk, ToolSchema
from assent.policy.case import Rule
from assent.policy.flow import MarkOutput
from assent.policy.gate import Opinion
from assent.policy.loader import parse_policies, read_document, read_policies
from assent.policy.permission import TIERS, Permissions, Tier
from assent.policy.rule import RateLimitTool
from assent.policy.toml_file import TomlFile, kind_of, listing
from assent.runtime.runtime import Runtime
from assent.runtime.scope import Scope
from assent.storage.location import config_folder, project_folders
from assent.tools.tool import Tool
from assent.verify.report import UNDECIDED, Report, printable

PERMISSION = "permission"
"""Who speaks where the posture decides."""
COMPENSATION = "its compensation"
"""Who speaks where a person must be asked for what would take an action back."""
EXAMPLE = """Write one beside the rules, such as:

    [[case]]
    name = "rm is denied"
    tool = "shell"
    parameters = { command = "rm -rf build" }
    expect = "deny"
"""

Verdict = Literal["denied", "invalid", "asks", "undecided", "allowed"]
Expected = Literal["deny", "ask", "allow"]
Word = TypeVar("Word", bound=str)

_APPROVAL = "it needs an approval: "
_FROM_OUTPUTS = "its parameters depend on the output of "
"""How verify begins to say that a schema looks at what is filled in."""
_CALL = "call"
"""The id of the action that a case is about; those before it are numbered from 1."""
_UNDO = "(undo)"
"""The tool that would take back what a case does, where its own tool wants one."""
_FACTS = ("risk", "labels", "reversibility", "marks")
_CALL_KEYS = ("tool", "parameters", *_FACTS)
_KEYS = ("name", "tool", "parameters", "expect", "by", *_FACTS, "state", "after", "agent")


# What the gate says of a plan


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
    )


class _Findings:
    """The findings of verify, by action."""

    def __init__(self, report: Report) -> None:
        self._errors: dict[str | None, list[str]] = {}
        self._open: dict[str | None, list[str]] = {}
        for issue in report.issues:
            if issue.severity == "error":
                self._errors.setdefault(issue.action_id, []).append(issue.message)
            elif issue.is_undecided:
                self._open.setdefault(issue.action_id, []).append(issue.message.removeprefix(UNDECIDED))

    def errors(self, action_id: str | None) -> list[str]:
        """Why it would not run."""
        return self._errors.get(action_id, [])

    def open(self, action_id: str) -> list[str]:
        """What is not known of it beforehand; also who must be asked."""
        return self._open.get(action_id, [])


def _judged(
    runtime: Runtime,
    action: Action,
    opinions: list[Opinion],
    found: _Findings,
    owners: Sequence[str],
    marking: Mapping[str, MarkOutput],
) -> JudgedAction:
    tool = runtime.tools.get(action.tool) if action.tool is not None else None
    open_questions = found.open(action.id)
    opinions += [
        Opinion(COMPENSATION, "asks", why.removeprefix(f"{_APPROVAL}{COMPENSATION}: "))
        for why in open_questions
        if why.startswith(f"{_APPROVAL}{COMPENSATION}: ")
    ]
    # The report says in words what the opinions say one by one; here each is told once.
    told = {printable(words) for opinion in opinions for words in _in_report(opinion)}
    problems = [problem for problem in found.errors(action.id) if problem not in told]
    undecided = [why for why in open_questions if why not in told and not why.startswith(_APPROVAL)]
    answers = {opinion.answer for opinion in opinions}
    verdict: Verdict = "allowed"
    if "denies" in answers or problems:
        verdict = "denied" if "denies" in answers else "invalid"
    elif "asks" in answers:
        verdict = "asks"
    elif "undecided" in answers or undecided:
        verdict = "undecided"
    decisive = {"denied": "denies", "asks": "asks", "undecided": "undecided"}.get(verdict)
    marks: list[str] = list(tool.schema.marks) if tool is not None and action.type == "tool_call" else []
    said = []
    for opinion in opinions:
        rule = marking.get(opinion.by)
        reason = opinion.reason
        if opinion.by == PERMISSION:
            reason = reason.removeprefix(f"{PERMISSION}: ")
        if rule is not None and opinion.answer == "allows" and rule.fits_path(action):
            marks += [mark for mark in rule.marks if mark not in marks]
            reason = f"marks its output {' and '.join(rule.marks)}"
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
        tier=next((tier for opinion in opinions if (tier := _tier(opinion)) is not None), None),
        marks=marks,
        takes_back=owners,
    )


def _in_report(opinion: Opinion) -> Iterator[str]:
    """The ways in which verify says what an opinion says."""
    separator = "" if opinion.answer == "undecided" else ":"
    yield f"policy '{opinion.by}'{separator} {opinion.reason}"
    if opinion.by == PERMISSION:
        yield opinion.reason  # The posture speaks for itself.


def _tier(opinion: Opinion) -> Tier | None:
    """The tier that the posture was asked about; None if a rule has spoken."""
    if opinion.by != PERMISSION:
        return None
    ends = ("denied here", "not granted without asking")
    for tier in TIERS:
        # From the end, because the name of a tool stands before it.
        if opinion.reason == tier or opinion.reason.endswith(
            tuple(f" needs {tier}, which is {e}" for e in ends)
        ):
            return tier
    return None


# Cases, as they are written


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a tool."""

    tool: str
    parameters: dict[str, JsonValue] = {}


class PolicyCase(msgspec.Struct, frozen=True, kw_only=True):
    """A call, and what is to be answered to it."""

    name: str
    file: str
    place: str
    """Its key in the file."""
    call: Call
    expect: Expected
    by: str | None = None
    """The name of the rule under which the runtime knows it."""
    after: Sequence[Call] = ()
    """What has run before, in order."""
    facts: Mapping[str, Mapping[str, Any]] = {}
    """What the case says of tools, by their names."""
    state: Mapping[str, JsonValue] = {}
    agent: str | None = None


class RuleBook(NamedTuple):
    """Rules with their cases, and what else decides, as far as it is known."""

    rules: Sequence[tuple[str, Rule]]
    cases: Sequence[PolicyCase]
    tools: Mapping[str, Tool]
    permissions: Permissions | None = None
    folder: str | None = None


def open_rule_book(
    path: str | None,
    start: Path,
    environment: Mapping[str, str],
    *,
    tools: str | None = None,
    confirm: Callable[[Question], bool] | None = None,
) -> RuleBook:
    """The rules and cases of a file or folder; without one, all that hold in the folder `start`, with its
    permissions and tools.

    Raises:
        InputError: a file cannot be used, there are no cases, or the folder is not trusted and wants to be.
    """
    if path is not None:
        files = read_policies(path)
        rules = parse_policies(files)
        cases = _cases(files, {name: name for name, _ in rules}, [name for name, _ in rules])
        if not cases:
            raise InputError(f"{path} holds no case. {EXAMPLE}")
        return RuleBook(rules, cases, _by_name(load_tools(tools) if tools is not None else ()))
    found = gather(start, environment, tools=tools, confirm=confirm)
    known = [name for name, _ in found.policies]
    if not known:
        raise InputError(
            f"No policies hold in {start}. Name a file or a folder, or put one into .assent/policies."
        )
    cases, position = [], 0
    for files in _places(start, environment):
        # Two places may use one name, and the runtime knows each under another: they stand in the same order.
        own = [name for name, _ in parse_policies(files)]
        names = dict(zip(own, known[position : position + len(own)], strict=False))
        position += len(own)
        cases += _cases(files, names, known)
    if not cases:
        raise InputError(f"None of the policies that hold in {start} comes with a case. {EXAMPLE}")
    loaded = load_tools(found.tools, found.tools_source) if found.tools is not None else ()
    return RuleBook(found.policies, cases, _by_name(loaded), found.permissions, str(found.folder))


def _by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    return {tool.name: tool for tool in tools}


def _places(start: Path, environment: Mapping[str, str]) -> Iterator[list[tuple[Path, bytes]]]:
    """The policy files that a run in `start` finds, place by place, in its order."""
    own = config_folder(environment) / "policies"
    if own.is_dir() and any(path.suffix == ".toml" for path in own.iterdir()):
        yield read_policies(own)
    for folder in reversed(project_folders(start)):
        below = read_files(folder, "policies")
        yield [
            (folder / name, data)
            for name, data in below.items()
            if name.endswith(".toml") and Path(name).parent == Path("policies")
        ]


def _cases(
    files: Sequence[tuple[Path, bytes]], names: Mapping[str, str], known: Sequence[str]
) -> list[PolicyCase]:
    """The cases of one place. `names` are its rules, each with the name under which it is known; `known` are
    the rules of all places."""
    found: list[PolicyCase] = []
    for path, data in files:
        file = TomlFile(str(path))
        taken: set[str] = set()
        for position, table in enumerate(read_document(path, data).get("case", ())):
            case = _Reader(file, f"case[{position}]").case(table, names, known)
            if case.name in taken:
                file.fail(
                    f"the name '{case.name}' is taken by another case in this file",
                    f"{case.place}.name",
                    "Give each case a name of its own.",
                )
            taken.add(case.name)
            found.append(case)
    return found


class _Reader:
    """Reads one case, strictly."""

    def __init__(self, file: TomlFile, place: str) -> None:
        self._file = file
        self._place = place
        self._facts: dict[str, dict[str, Any]] = {}

    def case(self, table: dict[str, Any], names: Mapping[str, str], known: Sequence[str]) -> PolicyCase:
        """The case.

        Raises:
            PolicyFileError: it says something that means nothing; names file, key and fix.
        """
        file, place = self._file, self._place
        self._known_keys(table, _KEYS, place, "a case")
        name = self._text(table, "name", 'Name it, such as name = "rm is denied".')
        expect = self._choice(
            self._given(table, "expect", "Say what should be answered: 'deny', 'ask' or 'allow'."),
            get_args(Expected),
            f"{place}.expect",
            "answer",
        )
        fix = 'Write a list of calls, such as after = [{ tool = "run_tests" }].'
        before = [
            self._call(each, f"{place}.after[{n}]", n, is_before=True)
            for n, each in enumerate(file.tables(table.get("after", []), f"{place}.after", fix))
        ]
        call = self._call(table, place, len(before))
        state = file.table(
            table.get("state", {}), f"{place}.state", 'Write a table, such as state = { tests = "green" }.'
        )
        agent = table.get("agent")
        if agent is not None:
            agent = file.text(agent, f"{place}.agent", "Write the agent's name.")
        return PolicyCase(
            name=name,
            file=file.name,
            place=place,
            call=call,
            expect=expect,
            by=self._by(table["by"], names, known) if "by" in table else None,
            after=before,
            facts=self._facts,
            state=self._json(state, f"{place}.state"),
            agent=agent,
        )

    def _call(self, table: dict[str, Any], place: str, earlier: int, *, is_before: bool = False) -> Call:
        """A call, after so many others."""
        file = self._file
        if is_before:
            self._known_keys(table, _CALL_KEYS, place, "a call in 'after'")
        fix = 'Name the tool that is called, such as tool = "shell".'
        tool = file.text(self._given(table, "tool", fix, place), f"{place}.tool", fix)
        key = f"{place}.parameters"
        given = file.table(
            table.get("parameters", {}), key, 'Write a table, such as parameters = { path = "a.txt" }.'
        )
        parameters = self._json(given, key)
        for reference in find_references(parameters):
            if reference.action_id not in {str(n) for n in range(1, earlier + 1)}:
                fix = "Write $1.output for the output of the first call in 'after', $$ for a plain $."
                file.fail(f"'${reference.action_id}.output' names no call before it", key, fix)
        self._note_facts(tool, table, place)
        return Call(tool=tool, parameters=parameters)

    def _note_facts(self, tool: str, table: dict[str, Any], place: str) -> None:
        """What the case says of a tool; said twice, it must be the same."""
        file = self._file
        facts = self._facts.setdefault(tool, {})
        for key in _FACTS:
            if key not in table:
                continue
            where, value = f"{place}.{key}", table[key]
            fact: Any
            if key == "risk":
                fact = self._choice(value, get_args(Risk), where, "risk")
            elif key == "reversibility":
                fact = self._choice(value, get_args(Reversibility), where, "reversibility")
            else:
                fact = self._texts(value, where)
            if key == "marks":
                fact = [self._choice(mark, get_args(Mark), where, "mark") for mark in fact]
            if facts.setdefault(key, fact) != fact:
                file.fail(
                    f"the case says two things of tool '{tool}'",
                    where,
                    "Say it once; it holds for each call.",
                )

    def _by(self, value: object, names: Mapping[str, str], known: Sequence[str]) -> str:
        fix = "Name the rule that must say so, or leave it out."
        place = f"{self._place}.by"
        name = self._file.text(value, place, fix)
        if name in names:
            return names[name]
        if name == PERMISSION or name in known:
            return name
        self._file.no_choice(name, [*names, PERMISSION], place, "rule here")

    def _known_keys(self, table: dict[str, Any], known: Sequence[str], place: str, owner: str) -> None:
        for key in table:
            if key not in known:
                self._file.unknown(key, known, f"{place}.{key}", owner)

    def _given(self, table: dict[str, Any], key: str, fix: str, place: str | None = None) -> object:
        if key in table:
            return table[key]
        self._file.fail(f"the key '{key}' is missing", f"{place or self._place}.{key}", fix)

    def _text(self, table: dict[str, Any], key: str, fix: str) -> str:
        return self._file.text(self._given(table, key, fix), f"{self._place}.{key}", fix)

    def _texts(self, value: object, place: str) -> list[str]:
        fix = 'Write a list of texts, such as ["mail"].'
        if not isinstance(value, list):
            self._file.fail(f"expected an array, got {kind_of(value)}", place, fix)
        return [self._file.text(item, place, fix) for item in value]

    def _choice(self, value: object, known: tuple[Word, ...], place: str, kind: str) -> Word:
        text = self._file.text(value, place, f"Choose one of {listing(known)}.")
        for word in known:
            if word == text:
                return word
        self._file.no_choice(text, known, place, kind)

    def _json(self, table: dict[str, Any], place: str) -> dict[str, JsonValue]:
        try:
            copied: dict[str, JsonValue] = copy_json(table, place)
            return copied
        except NotJson as error:
            # Dates and infinities of TOML, which no plan can hold.
            self._file.fail("a plan cannot hold this value", error.place, "Write a text or a finite number.")


# Cases, tried


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
    wanted = {"deny": "denies", "ask": "asks", "allow": "allows"}[case.expect]
    problem = _contradiction(case, book) or _cannot_have_run(before)
    if not problem and (
        got != case.expect
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
            return f"it is undecided, which is neither: {'; '.join(open_questions)}"
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
