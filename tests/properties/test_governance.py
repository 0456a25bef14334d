"""Any plan under any rules of trace and flow, any marks and any posture: three promises.

Verify agrees with execute; both schedules decide as the plain reading of the rules does, action by action and
one by one; and what is marked is exactly what a plain reading of the plan says is marked.

The plain reading is `Reading`, below: it goes through the plan as data, and shares no code with what it
checks. Cases hold several proposals for one runtime, so that marks and counts also pass from one to the next.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pprint import pformat
from typing import Any, Literal

import pytest
from hypothesis import given

from placet import DenyToolParam, ProposalResult, Runtime, ToolSchema
from placet.approvals.approval import Approval
from placet.approvals.memory import MemoryApprovals
from placet.policy.calls import Calls
from placet.policy.flow import DenyIrreversible, FlowRule, MarkOutput
from placet.policy.permission import Posture
from placet.policy.trace import TraceRule
from placet.verify.report import Report
from tests.properties.effort import FIFTH, UNHURRIED, Tally, examples
from tests.properties.plans import Dice, SeededDice, seeds
from tests.properties.reference import serial_order

pytestmark = UNHURRIED

Json = Any
Wire = dict[str, Any]
MARKS = ("untrusted", "secret")
KEYS = ("k0", "k1")
FILES = ("secrets/x", "public/x", "./a/../secrets/y", "secrets/../public/x", "../up")


@dataclass(frozen=True)
class ToolKind:
    """One of the tools that plans call: each always answers the same."""

    risk: str
    label: str
    answer: str
    marks: tuple[str, ...] = ()
    reversibility: str | None = None
    idempotent: bool = False
    cache_ttl_secs: float | None = None

    @property
    def tier(self) -> str:
        if self.risk == "read_only":
            return "read_only"
        if self.risk == "idempotent" or (self.risk == "destructive" and self.reversibility == "reversible"):
            return "sandbox_edit"
        return "full_access"


TOOLS = {
    "look": ToolKind("read_only", "desk", "seen"),
    "fetch": ToolKind("read_only", "web", "from outside", ("untrusted",)),
    "vault": ToolKind("read_only", "desk", "a key", ("secret",)),
    "inbox": ToolKind("read_only", "web", "mail", ("untrusted", "secret"), cache_ttl_secs=3600.0),
    "where": ToolKind("read_only", "web", "secrets/z"),
    "key": ToolKind("read_only", "desk", "k0"),
    "put": ToolKind("idempotent", "desk", "stored", idempotent=True, reversibility="reversible"),
    "edit": ToolKind("destructive", "desk", "edited", reversibility="reversible"),
    "mail": ToolKind("network", "web", "posted"),
    "release": ToolKind("destructive", "web", "out"),
}
CALLED = (*TOOLS, "fetch", "vault", "inbox", "fetch", "where", "where")
"""Where data comes in more often, so that there is something to follow."""


@dataclass(frozen=True)
class Choice:
    """Which calls, as data."""

    tool: str = "*"
    risk: tuple[str, ...] = ()
    label: str | None = None
    path: str | None = None

    def fields(self) -> Wire:
        found: Wire = {"tool": self.tool, "label": self.label, "path": self.path}
        return {**found, "risk": list(self.risk) or None}

    def fits(self, tool: str, parameters: Wire) -> bool:
        kind = TOOLS[tool]
        return (
            self.tool in ("*", tool)
            and (not self.risk or kind.risk in self.risk)
            and self.label in (None, kind.label)
            and (self.path is None or any(_lies_in(self.path, text) for text in _texts(parameters)))
        )


@dataclass(frozen=True)
class RuleSpec:
    """A rule as data: `build` makes the real one, the plain reading judges by the fields."""

    name: str
    kind: Literal[
        "only_after",
        "only_before",
        "never_with",
        "at_most",
        "flow",
        "mark",
        "irreversible",
        "above",
        "below",
    ]
    own: Choice = Choice()
    other: Choice = Choice()
    limit: int = 0
    marks: tuple[str, ...] = ()
    param: Any = None
    asks: bool = False

    def build(self) -> Any:
        more: Wire = {**self.own.fields(), "unless_approved": self.asks}
        match self.kind:
            case "at_most":
                return TraceRule(at_most=self.limit, **more)
            case "only_after" | "only_before" | "never_with":
                return TraceRule(**{self.kind: Calls(**self.other.fields())}, **more)
            case "flow":
                return FlowRule(mark=self.marks[0], param=self.param, **more)  # type: ignore[arg-type]
            case "mark":
                more.pop("unless_approved", None)
                return MarkOutput(marks=self.marks, **more)  # type: ignore[arg-type]
            case "irreversible":
                return DenyIrreversible(**more)
            case "above" | "below":
                return DenyToolParam(param="amount", **{self.kind: self.limit}, **more)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Case:
    """Some proposals, one after the other, and what governs them."""

    proposals: tuple[Wire, ...]
    rules: tuple[RuleSpec, ...] = ()
    posture: Wire | None = None
    has_ledger: bool = False
    """Whether a person answers every question with "once"."""
    in_session: bool = False
    state: Wire = field(default_factory=dict)


EVERY_KIND = (
    "only_after",
    "only_before",
    "never_with",
    "at_most",
    "flow",
    "flow",
    "flow",
    "mark",
    "irreversible",
    "above",
    "below",
)

# Making cases


def make_case(dice: Dice, rule_kinds: Sequence[str]) -> Case:
    in_session = dice.chance(40)
    proposals = [make_plan(dice, f"p{n}", may_abort=not in_session) for n in range(dice.number(1, 3))]
    if in_session:
        # Only the very last thing may abort there: who else had begun by then is a matter of timing.
        proposals = [_with_fall(p) if dice.chance(30) else p for p in proposals]
    posture = None
    if dice.chance(40):
        answers = ("allow", "allow", "ask", "deny")
        posture = {tier: dice.pick(answers) for tier in ("read_only", "sandbox_edit", "full_access")}
        if dice.chance(70):
            posture["read_only"] = "allow"
    return Case(
        proposals=tuple(proposals),
        rules=tuple(make_rule(dice, f"r{n}", rule_kinds) for n in range(dice.number(0, 4))),
        posture=posture,
        has_ledger=dice.chance(50),
        in_session=in_session,
        state={key: f"old {key}" for key in dice.some(KEYS, 60)},
    )


def _with_fall(proposal: Wire) -> Wire:
    actions = proposal["actions"]
    fall = {
        "id": "fall",
        "type": "assertion",
        "parameters": {"key": "never", "expected": "there"},
        "dependencies": [a["id"] for a in actions],
        "failure_behavior": "abort",
    }
    return {**proposal, "actions": [*actions, fall]}


def make_choice(dice: Dice) -> Choice:
    match dice.pick(("tool", "tool", "risk", "risks", "label", "path", "any")):
        case "tool":
            return Choice(tool=dice.pick(list(TOOLS)))
        case "risk":
            return Choice(risk=(dice.pick(("read_only", "idempotent", "network", "destructive")),))
        case "risks":
            return Choice(risk=("network", "destructive"))
        case "label":
            return Choice(label=dice.pick(("web", "desk")))
        case "path":
            return Choice(path="secrets/*")
        case _:
            return Choice()


def make_rule(dice: Dice, name: str, kinds: Sequence[str]) -> RuleSpec:
    kind = dice.pick(kinds)
    marks = (dice.pick(MARKS),)
    own = make_choice(dice)
    if kind == "mark" and dice.chance(30):
        own = Choice(path="secrets/*")
    elif kind in ("above", "below") and dice.chance(60):
        own = Choice()
    return RuleSpec(
        name=name,
        kind=kind,
        own=own,
        other=make_choice(dice),
        limit=dice.number(0, 3),
        marks=MARKS if kind == "mark" and dice.chance(20) else marks,
        param=dice.pick((None, "to", "to", "file", ["file", "to"], "to.x", "more.a.b")),
        asks=dice.chance(40),
    )


def make_plan(dice: Dice, name: str, *, may_abort: bool) -> Wire:
    actions: list[Wire] = []
    for n in range(dice.number(1, 8)):
        actions.append(make_action(dice, f"a{n}", [a["id"] for a in actions]))
        if may_abort and dice.chance(15):
            actions[-1]["failure_behavior"] = "abort"
    return {"id": name, "source": "test", "actions": actions}


def make_action(dice: Dice, name: str, before: list[str]) -> Wire:
    action: Wire = {"id": name, "failure_behavior": "skip"}
    if before and dice.chance(25):
        action["dependencies"] = [dice.pick(before)]
    kind = dice.number(0, 9)
    if kind <= 4:
        action |= {"tool": dice.pick(CALLED), "parameters": make_parameters(dice, before)}
        action["idempotent"] = dice.chance(50)
        if dice.chance(10):
            action["expected_effects"] = {dice.pick(KEYS): "as planned"}
    elif kind <= 7:
        key = "$" + dice.pick(before) + ".output" if before and dice.chance(20) else dice.pick(KEYS)
        value = make_value(dice, before) if dice.chance(80) else "plain"
        action |= {"type": "state_write", "parameters": {"key": key, "value": value}}
    else:
        action |= {"type": "state_read", "parameters": {"key": dice.pick(KEYS)}}
    if dice.chance(5):
        action["references"] = False
        if action.get("type") == "state_write":
            action["parameters"]["key"] = KEYS[0]
    return action


def make_parameters(dice: Dice, before: list[str]) -> Wire:
    found: Wire = {}
    for name, percent in (("to", 60), ("file", 40), ("text", 30)):
        if dice.chance(percent):
            found[name] = dice.pick(FILES) if name == "file" and dice.chance(70) else make_value(dice, before)
    if dice.chance(60):
        one = f"${dice.pick(before)}.output" if before and dice.chance(30) else 1
        found["amount"] = dice.pick((one, 0, 1, 2, 3, 2.5, 10**30, "2", True, None, [1]))
    if dice.chance(20):
        found["more"] = {"a": {"b": make_value(dice, before), "c": make_value(dice, before)}}
    return found


def make_value(dice: Dice, before: list[str]) -> Json:
    if not before or dice.chance(35):
        return "typed"
    one = f"${dice.pick(before)}.output"
    shapes: list[Json] = [
        one,
        one,
        f"see {one}!",
        [one, "typed"],
        {"x": one},
        {"x": "typed", "y": [{"z": one}]},
        f"${one}",
        f"{one} and ${dice.pick(before)}.output",
    ]
    return dice.pick(shapes)


# The plain reading

_REFERENCE = re.compile(r"(\$?)\$([a-z]+\d*)\.output")


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _lies_in(pattern: str, text: str) -> bool:
    """Whether a text is a path below the folder that `FOLDER/*` names."""
    folder = pattern.removesuffix("/*")
    parts: list[str] = []
    for part in text.split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return folder in parts[:-1]


class Reading:
    """Goes through proposals one action at a time, and says of each what becomes of it, and why."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.state = dict(case.state)
        self.state_marks: dict[str, set[str]] = {}
        self.status: dict[str, str] = {}
        self.reasons: dict[str, set[str]] = {}
        """Who denied an action."""
        self.inflows: dict[str, dict[Any, set[str]]] = {}
        """Which marks each parameter of a call that was looked at holds; None is for all together."""
        self.aborted = False
        self._subjects: dict[str, int] = {}
        self._others: dict[str, int] = {}

    def read(self, proposal: Wire) -> None:
        """One proposal, from beginning to end."""
        self.status, self.reasons, self.inflows = {}, {}, {}
        self.aborted = False
        before, marks_before = deepcopy(self.state), deepcopy(self.state_marks)
        if not self.case.in_session:
            self._subjects, self._others = {}, {}
        relied_on = dict(self._others)
        self._outputs: dict[str, Json] = {}
        self._marks: dict[str, set[str]] = {}
        by_id = {a["id"]: a for a in proposal["actions"]}
        full = [{"type": "tool_call", "parameters": {}, **a} for a in proposal["actions"]]
        for name in serial_order(full, set()):
            action = by_id[name]
            if self.aborted or any(self.status[n] != "succeeded" for n in self._needs(action)):
                self.status[name] = "skipped"
                continue
            self.status[name] = self._go(action)
            if self.status[name] in ("rejected", "failed") and action["failure_behavior"] == "abort":
                self.aborted = True
        if self.aborted:
            self.state, self.state_marks = before, marks_before
            for rule in self.case.rules:
                if rule.kind == "only_after":
                    # What was done is taken back. For the others it has run all the same.
                    self._others[rule.name] = relied_on.get(rule.name, 0)

    def _needs(self, action: Wire) -> list[str]:
        return [*action.get("dependencies", ()), *self._named(action, action["parameters"])]

    def _named(self, action: Wire, value: Json) -> list[str]:
        if not action.get("references", True):
            return []
        return [m[2] for text in _values(value) for m in _REFERENCE.finditer(text) if not m[1]]

    def _go(self, action: Wire) -> str:
        parameters = action["parameters"]
        if action.get("references", True):
            parameters = self._fill(parameters)
        came = self._came(action, action["parameters"])
        if "tool" not in action:
            return self._on_state(action, parameters, came)
        tool = action["tool"]
        self.inflows[action["id"]] = {
            None: came,
            **{name: self._came(action, value) for name, value in action["parameters"].items()},
        }
        denied = self._denials(action, parameters)
        if denied:
            self.reasons[action["id"]] = denied
            return "rejected"
        for rule in self.case.rules:
            self._subjects[rule.name] = self._subjects.get(rule.name, 0) + rule.own.fits(tool, parameters)
            self._others[rule.name] = self._others.get(rule.name, 0) + rule.other.fits(tool, parameters)
        self._outputs[action["id"]] = TOOLS[tool].answer
        ruled = {
            mark
            for rule in self.case.rules
            if rule.kind == "mark" and rule.own.fits(tool, parameters)
            for mark in rule.marks
        }
        self._marks[action["id"]] = {*TOOLS[tool].marks, *ruled, *came}
        for key, value in action.get("expected_effects", {}).items():
            self.state[key] = value
            self.state_marks[key] = set()
        return "succeeded"

    def _on_state(self, action: Wire, parameters: Wire, came: set[str]) -> str:
        key = parameters["key"]
        if not isinstance(key, str):
            self.reasons[action["id"]] = set()
            return "rejected"
        if action["type"] == "assertion":
            return "failed"  # The only one that is made claims what is not so.
        if action["type"] == "state_write":
            self.state[key] = parameters["value"]
            self.state_marks[key] = self._came(action, action["parameters"]["value"])
            self._outputs[action["id"]] = f"written: {key}"
            self._marks[action["id"]] = self._came(action, action["parameters"]["key"])
        else:
            self._outputs[action["id"]] = deepcopy(self.state.get(key))
            self._marks[action["id"]] = came | self.state_marks.get(key, set())
        return "succeeded"

    def _came(self, action: Wire, value: Json) -> set[str]:
        return {mark for name in self._named(action, value) for mark in self._marks[name]}

    def _fill(self, value: Json) -> Json:
        if isinstance(value, dict):
            return {key: self._fill(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._fill(item) for item in value]
        if not isinstance(value, str):
            return value
        whole = _REFERENCE.fullmatch(value)
        if whole and not whole[1]:
            return deepcopy(self._outputs[whole[2]])
        return _REFERENCE.sub(self._inline, value)

    def _inline(self, match: re.Match[str]) -> str:
        if match[1]:
            return match[0][1:]
        value = self._outputs[match[2]]
        if isinstance(value, str):
            return value
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)

    def _denials(self, action: Wire, parameters: Wire) -> set[str]:
        outright: set[str] = set()
        asking: set[str] = set()
        for rule in self.case.rules:
            if self._objects(rule, action, parameters):
                (asking if rule.asks else outright).add(rule.name)
        if self.case.posture is not None and not outright:
            answer = self.case.posture[_tier(action["tool"], parameters)]
            if answer != "allow":
                (asking if answer == "ask" else outright).add("permission")
        return outright if self.case.has_ledger else outright | asking

    def _objects(self, rule: RuleSpec, action: Wire, parameters: Wire) -> bool:
        tool = action["tool"]
        own, other = rule.own.fits(tool, parameters), rule.other.fits(tool, parameters)
        subjects, others = self._subjects.get(rule.name, 0), self._others.get(rule.name, 0)
        match rule.kind:
            case "only_after":
                return own and not others
            case "only_before":
                return own and others > 0
            case "never_with":
                return (own and others > 0) or (other and subjects > 0)
            case "at_most":
                return own and subjects >= rule.limit
            case "flow":
                names = rule.param if isinstance(rule.param, list) else [rule.param]
                return own and any(rule.marks[0] in self._at(action, name) for name in names)
            case "mark":
                return False
            case "above" | "below":
                if not own or "amount" not in parameters:
                    return False
                amount = parameters["amount"]
                if type(amount) not in (int, float):
                    return True
                return bool(amount > rule.limit if rule.kind == "above" else amount < rule.limit)
            case "irreversible":
                kind = TOOLS[tool]
                return own and kind.risk != "read_only" and kind.reversibility != "reversible"

    def _at(self, action: Wire, param: str | None) -> set[str]:
        value: Json = action["parameters"]
        for name in param.split(".") if param is not None else ():
            if isinstance(value, dict):
                value = value.get(name)
        return self._came(action, value)


def _values(value: Json) -> Iterator[str]:
    """The texts in which references are looked for: names of fields are none of them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _values(item)
    elif isinstance(value, list):
        for item in value:
            yield from _values(item)


def _tier(tool: str, parameters: Wire) -> str:
    tier = TOOLS[tool].tier
    pointed = parameters.get("file")
    paths = pointed if isinstance(pointed, list) else [pointed]
    leads_out = any(isinstance(p, str) and p.startswith("..") for p in paths)
    return "full_access" if tier == "sandbox_edit" and leads_out else tier


# The real thing


class Answering(MemoryApprovals):
    """A person who says "once" to everything, at once."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Approval] = []

    def request(self, approval: Approval) -> Approval:
        self.asked.append(super().request(approval))
        return self.decide(approval.id, "once", by="ann")


class World:
    """A runtime built for a case."""

    def __init__(self, case: Case, schedule: Any) -> None:
        self.calls: list[str] = []
        self.ledger = Answering() if case.has_ledger else None
        self.runtime = Runtime(
            schedule=schedule,
            state=dict(case.state),
            permissions=Posture(**case.posture) if case.posture is not None else None,
            approvals=self.ledger,
        )
        for name, kind in TOOLS.items():
            schema = ToolSchema(
                name=name,
                risk=kind.risk,  # type: ignore[arg-type]
                labels=(kind.label,),
                marks=kind.marks,  # type: ignore[arg-type]
                reversibility=kind.reversibility,  # type: ignore[arg-type]
                idempotent=kind.idempotent,
                cache_ttl_secs=kind.cache_ttl_secs,
            )
            self.runtime.register(schema, self._tool(name, kind.answer))
        self.session = self.runtime.open_session() if case.in_session else None
        for rule in case.rules:
            self.runtime.add_policy(rule.name, rule.build())

    def _tool(self, name: str, answer: str) -> Callable[[Wire], Any]:
        async def fn(parameters: Wire) -> str:
            self.calls.append(name)
            # Long enough for whoever may start beside it, and longer for some than for others.
            for _ in range(len(name)):
                await asyncio.sleep(0)
            return answer

        return fn

    def verify(self, proposal: Wire) -> Report:
        return self.runtime.verify(deepcopy(proposal), session=self.session)

    async def execute(self, proposal: Wire) -> ProposalResult:
        return await self.runtime.execute(deepcopy(proposal), session=self.session)


def who_denied(error: str | None) -> set[str]:
    """The rules that an error names."""
    found = set(re.findall(r"policy '(\w+)'", error or ""))
    return found | ({"permission"} if "permission: " in (error or "") else set())


# Trying many


def for_many_cases(
    check: Callable[[Case], None], count: int, *, rule_kinds: Sequence[str] = EVERY_KIND
) -> None:
    """Put a check through many cases; one that fails is made smaller first."""

    @examples(count, shrink=False)
    @given(seeds)
    def check_seed(seed: int) -> None:
        case = make_case(SeededDice(seed), rule_kinds)
        try:
            check(case)
        except Exception as error:
            small = _smallest(case, check)
            raise AssertionError(f"seed {seed} breaks it, and so does this:\n{pformat(small)}") from error

    check_seed()


def _smallest(case: Case, check: Callable[[Case], None]) -> Case:
    def fails(candidate: Case) -> bool:
        try:
            check(candidate)
        except Exception:
            return True
        return False

    while True:
        smaller = next(filter(fails, _smaller(case)), None)
        if smaller is None:
            return case
        case = smaller


def _smaller(case: Case) -> Iterator[Case]:
    """The case with one thing less, each time another."""
    proposals = case.proposals
    for i in range(len(proposals) if len(proposals) > 1 else 0):
        yield replace(case, proposals=proposals[:i] + proposals[i + 1 :])
    for i, proposal in enumerate(proposals):
        for action in proposal["actions"]:
            left = [a for a in proposal["actions"] if a is not action]
            if left and not any(action["id"] in _mentioned(other) for other in left):
                yield replace(
                    case, proposals=(*proposals[:i], {**proposal, "actions": left}, *proposals[i + 1 :])
                )
    for i in range(len(case.rules)):
        yield replace(case, rules=case.rules[:i] + case.rules[i + 1 :])
    if case.posture is not None:
        yield replace(case, posture=None)
    for name in ("has_ledger", "in_session"):
        if getattr(case, name):
            yield replace(case, **{name: False})
    for key in case.state:
        yield replace(case, state={k: v for k, v in case.state.items() if k != key})
    for i, proposal in enumerate(proposals):
        for n, action in enumerate(proposal["actions"]):
            for less in _less(action):
                actions = [*proposal["actions"][:n], less, *proposal["actions"][n + 1 :]]
                yield replace(
                    case, proposals=(*proposals[:i], {**proposal, "actions": actions}, *proposals[i + 1 :])
                )


def _less(action: Wire) -> Iterator[Wire]:
    for name in ("dependencies", "idempotent", "expected_effects", "references"):
        if name in action:
            yield {k: v for k, v in action.items() if k != name}
    if "tool" in action:
        for name in action["parameters"]:
            yield {**action, "parameters": {k: v for k, v in action["parameters"].items() if k != name}}


def _mentioned(action: Wire) -> set[str]:
    found = {m[2] for text in _values(action["parameters"]) for m in _REFERENCE.finditer(text)}
    return found | set(action.get("dependencies", ()))


def _kinds(case: Case, proposals: Sequence[Wire]) -> dict[str, bool]:
    kinds = {rule.kind for rule in case.rules}
    return {
        "traces": bool(kinds & {"only_after", "only_before", "never_with", "at_most"}),
        "flows": "flow" in kinds,
        "marks": "mark" in kinds,
        "limits": bool(kinds & {"above", "below"}),
        "posture": case.posture is not None,
        "ledger": case.has_ledger,
        "session": case.in_session,
        "several": len(proposals) > 1,
    }


COMMON = {
    "traces": FIFTH,
    "flows": FIFTH,
    "marks": 0.1,
    "limits": 0.1,
    "posture": FIFTH,
    "ledger": FIFTH,
    "session": FIFTH,
    "several": FIFTH,
}


@pytest.mark.parametrize("schedule", ["levels", "dataflow"])
def test_verify_agrees_with_execute(schedule: str) -> None:
    tally = Tally()

    async def check(case: Case) -> None:
        world = World(case, schedule)
        for proposal in case.proposals:
            version = world.runtime.state.version
            calls = len(world.calls)
            report = world.verify(proposal)
            assert (world.runtime.state.version, len(world.calls)) == (version, calls), "verify did something"

            result = await world.execute(proposal)

            went_well = all(r.status == "succeeded" for r in result.results)
            told = (
                [(i.action_id, i.message) for i in report.issues],
                [(r.action_id, r.status, r.error) for r in result.results],
            )
            tally.add(
                **_kinds(case, case.proposals),
                decided=not report.undecided,
                sure=not report.undecided and report.valid,
                doomed=not report.undecided and not report.valid,
                invalid=not report.valid,
            )
            if report.undecided:
                assert report.valid or not went_well, told  # An error is never a guess.
            else:
                assert report.valid == went_well, told
                _names_them(report, result)

    for_many_cases(lambda case: asyncio.run(check(case)), 300)
    tally.require({**COMMON, "decided": FIFTH, "sure": 0.1, "doomed": 0.1, "invalid": FIFTH})


def _names_them(report: Report, result: ProposalResult) -> None:
    """Where nothing is open, verify has named whoever is rejected. It may have found fewer reasons: what
    dooms an action for one is not looked into further."""
    if result.outcome == "aborted":
        return  # What comes after is not reached.
    doomed = {i.action_id for i in report.errors}
    assert {r.action_id for r in result.results if r.status == "rejected"} <= doomed


@pytest.mark.parametrize("schedule", ["levels", "dataflow"])
def test_each_action_is_decided_as_the_plain_reading_says(schedule: str) -> None:
    """The reading goes one by one, so whatever overlaps comes out as if it did not."""
    tally = Tally()

    async def check(case: Case) -> None:
        world, reading = World(case, schedule), Reading(case)
        for proposal in case.proposals:
            reading.read(proposal)

            result = await world.execute(proposal)

            found = {r.action_id: r.status for r in result.results}
            told = [(r.action_id, r.status, r.error) for r in result.results]
            tally.add(
                **_kinds(case, case.proposals),
                aborted=reading.aborted,
                rejected="rejected" in found.values(),
                skipped="skipped" in found.values(),
                asked=bool(world.ledger and world.ledger.asked),
            )
            assert (result.outcome == "aborted") is reading.aborted, (told, reading.status)
            assert world.runtime.state.snapshot() == reading.state, told
            if reading.aborted:
                continue  # What was in flight by then is a matter of timing.
            assert found == reading.status, (told, reading.status, reading.reasons)
            for ended in result.results:
                if ended.status == "rejected":
                    assert who_denied(ended.error) == reading.reasons[ended.action_id], ended

    for_many_cases(lambda case: asyncio.run(check(case)), 300)
    tally.require({**COMMON, "aborted": 0.05, "rejected": FIFTH, "skipped": 0.05, "asked": 0.02})


# Marks

NAMED = (None, "to", "file", "text", "more")


def _watching() -> Iterable[tuple[str, str, str | None, FlowRule]]:
    for mark in MARKS:
        for name in NAMED:
            rule = FlowRule(mark=mark, param=name, unless_approved=True)  # type: ignore[arg-type]
            yield f"{mark}_{name}", mark, name, rule


@pytest.mark.parametrize("schedule", ["levels", "dataflow"])
def test_what_is_marked_is_what_the_plain_reading_says(schedule: str) -> None:
    """A rule for each mark and parameter of every tool, which asks: what was asked tells what was seen."""
    tally = Tally()

    async def check(case: Case) -> None:
        case = replace(case, has_ledger=True, posture=None)
        world, reading = World(case, schedule), Reading(case)
        assert world.ledger is not None
        for name, _, _, rule in _watching():
            world.runtime.add_policy(name, rule)
        for proposal in case.proposals:
            reading.read(proposal)
            world.ledger.asked.clear()
            foreseen = [
                (action_id, opinion.by)
                for action_id, opinion in world.runtime.opinions(deepcopy(proposal), session=world.session)
                if opinion.answer == "asks" and "_" in opinion.by
            ]
            is_open = bool(
                [i for i in world.verify(proposal).undecided if "needs an approval" not in i.message]
            )

            result = await world.execute(proposal)

            ran = {r.action_id for r in result.results if r.status == "succeeded"} & reading.inflows.keys()
            seen = {
                (a.action_id, name)
                for a in world.ledger.asked
                for reason in a.reasons
                for name in who_denied(reason)
                if "_" in name
            }
            expected = {
                (action_id, name)
                for action_id in ran
                for name, mark, param, _ in _watching()
                if mark in reading.inflows[action_id].get(param, set())
            }
            tally.add(
                marked=bool(expected),
                both=len({name.split("_")[0] for _, name in expected}) > 1,
                through_state=any(reading.state_marks.values()),
                aborted=reading.aborted,
                several=len(case.proposals) > 1,
                foreseen=bool(foreseen),
                not_open=not is_open,
            )
            if reading.aborted:
                assert seen >= expected
                continue
            assert {pair for pair in seen if pair[0] in ran} == expected, (seen ^ expected, reading.status)
            # What verify is sure of is so; and where it leaves nothing open it has seen everything.
            rejected = {r.action_id for r in result.results if r.status != "succeeded"}
            sure = {pair for pair in foreseen if pair[0] not in rejected}
            assert sure <= expected, sure - expected
            if not is_open:
                assert sure == expected, expected - sure

    kinds = ("mark", "mark", "at_most")
    for_many_cases(lambda case: asyncio.run(check(case)), 250, rule_kinds=kinds)
    tally.require(
        {
            "marked": FIFTH,
            "both": 0.05,
            "through_state": 0.05,
            "aborted": 0.01,
            "several": FIFTH,
            "foreseen": FIFTH,
            "not_open": 0.1,
        }
    )
