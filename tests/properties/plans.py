"""Random plans with everything in them, and what surrounds them: state, rules, limits, and what tools do.

A plan is made in two rounds. The first lays out actions, edges and writes; the second goes through them in
serial order with the state they would leave, and adds conditions that hold there or do not. That is how plans
come out valid, invalid, failing and aborting in fair shares, although each has a dozen chances to go wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pprint import pformat
from random import Random
from typing import Any, Literal

from hypothesis import given
from hypothesis import strategies as st

from placet import (
    AllowToolParam,
    DenyKeyword,
    DenyTool,
    DenyToolParam,
    DenyToolParamMatching,
    RateLimitTool,
    RequireState,
)
from tests.properties.effort import examples

Json = Any
Wire = dict[str, Any]

KEYS = ("k0", "k1", "k2")
"""Few, so that conflicts are frequent."""
GHOST = "ghost"
"""A key that nothing ever writes."""
HOLLOW = "hollow"
"""A tool of which only the schema is known."""
WHERE = "where"
"""A key whose value is the name of another key, for writes whose target only shows when they run."""
VALUES: Sequence[Json] = (
    0,
    1,
    2,
    1.0,
    2.5,
    -1,
    True,
    False,
    None,
    "",
    "text",
    "xt",
    [1, "text"],
    {"xt": 1},
    [],
)
OPERATORS = ("eq", "neq", "gt", "lt", "gte", "lte", "exists", "not_exists", "contains")


@dataclass(frozen=True)
class ToolKind:
    """One of the tools that plans may call."""

    name: str
    risk: str = "destructive"
    reversibility: str | None = None
    idempotent: bool = False
    cache_ttl_secs: float | None = None
    runs: Literal["async", "cheap"] = "async"
    only_integers: bool = False
    """Its schema wants `n` to be an integer, and nothing unknown."""
    fails_on: int | None = None
    """The value of `n` with which it always fails. For tools whose answers are shared between actions: there
    the outcome must hang on the parameters, not on who asks."""

    @property
    def repeatable(self) -> bool:
        return self.idempotent or self.risk in ("read_only", "idempotent")


TOOLS = {
    kind.name: kind
    for kind in (
        ToolKind("look", risk="read_only"),
        ToolKind("calc", risk="read_only", runs="cheap"),
        ToolKind("put"),
        ToolKind("jot", risk="network", runs="cheap"),
        ToolKind("send", reversibility="compensable"),
        ToolKind("take_back", risk="idempotent", reversibility="reversible"),
        ToolKind("pick", reversibility="reversible", only_integers=True),
        ToolKind("ask", risk="idempotent", idempotent=True, fails_on=2),
        ToolKind("peek", risk="read_only", cache_ttl_secs=3600.0, fails_on=2),
    )
}

Attempt = Literal["ok", "fail", "fatal", "lost", "junk"]


@dataclass(frozen=True)
class Script:
    """What the tool does for one action, attempt by attempt, and how long it takes over it."""

    attempts: tuple[Attempt, ...] = ()
    """After the last one it succeeds."""
    delays_ms: tuple[int, ...] = (0,)

    def outcome(self, attempt: int) -> Attempt:
        """Of an attempt, counted from 0."""
        return self.attempts[attempt] if attempt < len(self.attempts) else "ok"

    def delay_s(self, attempt: int) -> float:
        return self.delays_ms[attempt % len(self.delays_ms)] / 1000


@dataclass(frozen=True)
class PolicySpec:
    """A policy as data: `build` makes the real one, the reference interpreter judges by the fields."""

    kind: str
    name: str
    tool: str = "*"
    n: Json = None
    key: str = KEYS[0]
    value: Json = None
    limit: int = 1
    declares_reads: bool = False

    def build(self) -> Any:
        match self.kind:
            case "deny_tool":
                return DenyTool(tool=self.tool)
            case "param_equals":
                return DenyToolParam(tool=self.tool, param="n", equals=self.n)
            case "param_contains":
                return DenyToolParam(tool=self.tool, param="n", contains=str(self.n))
            case "param_presence":
                return DenyToolParam(tool=self.tool, param="x", presence=True)
            case "param_above":
                return DenyToolParam(tool=self.tool, param="n", above=self.n)
            case "param_below":
                return DenyToolParam(tool=self.tool, param="n", below=self.n)
            case "allow_param":
                return AllowToolParam(tool=self.tool, param="n", values=[0, 1, self.n])
            case "keyword":
                return DenyKeyword(keyword="Danger")
            case "matching":
                return DenyToolParamMatching(tool=self.tool, param="n", pattern=f"^{self.n}$")
            case "no_regex":
                return DenyToolParamMatching(tool=self.tool, param="n", pattern="(")
            case "require_state":
                return RequireState(tool=self.tool, key=self.key, value=self.value)
            case "require_key":
                return RequireState(tool=self.tool, key=self.key)
            case "rate_limit":
                return RateLimitTool(tool=self.tool, max_calls=self.limit, interval_secs=3600)
            case "callable":
                return lambda action: "no" if action.parameters.get("n") == self.n else None
            case "callable_state":
                return lambda action, state: "no" if state.get(self.key) == self.value else None
            case "raises":
                return lambda action: 1 // 0 if action.tool == self.tool else None
            case _:
                raise AssertionError(self.kind)

    @property
    def reads(self) -> list[str] | None:
        return [self.key] if self.kind == "callable_state" and self.declares_reads else None


@dataclass(frozen=True)
class Case:
    """A plan and its surroundings."""

    proposal: Wire
    scripts: dict[str, Script] = field(default_factory=dict)
    """By action id; `a1.compensation` is the tool that takes a1 back."""
    state: dict[str, Json] = field(default_factory=dict)
    policies: tuple[PolicySpec, ...] = ()
    session: Literal["none", "open", "closed"] = "none"
    session_policies: tuple[PolicySpec, ...] = ()
    capabilities: Wire | None = None
    budget: Wire | None = None
    tenant: str | None = None
    max_concurrency: int = 64
    tools_are_sound: bool = True
    """Whether no tool fails, scripts and `fails_on` notwithstanding."""
    mood: str = "clean"

    @property
    def actions(self) -> list[Wire]:
        return self.proposal["actions"]  # type: ignore[no-any-return]


MOODS: tuple[tuple[str, int], ...] = (
    ("clean", 0),
    ("clean", 60),
    ("failing", 0),
    ("failing", 75),
    ("failing", 90),
    ("faulty", 0),
    ("faulty", 75),
    ("faulty", 90),
    ("wild", 0),
    ("wild", 75),
    ("wild", 90),
    ("broken", 60),
)
"""What is wrong with a plan, and how many percent of its actions abort it when they fail.

clean: nothing; failing: tools fail; faulty: conditions and limits are not met; wild: both; broken: it has no
order. Plans that never abort are the ones that run most in parallel.
"""


SOUND_MOODS = (
    ("clean", 0),
    ("clean", 60),
    ("clean", 90),
    ("faulty", 0),
    ("faulty", 75),
    ("faulty", 85),
    ("faulty", 90),
    ("faulty", 100),
    ("broken", 60),
)
"""Those that are left where tools do not fail."""


seeds = st.integers(0, 2**64 - 1)


def for_many_cases(check: Callable[[Case], None], count: int, **options: Any) -> None:
    """Put a check through `count` cases in all moods; `options` are those of `make_case`.

    A case is made from one seed, so that every choice in it is a fair one: drawn one by one, choices would
    lean towards the simplest plans. In return, a case that fails is made smaller here.
    """
    moods = MOODS if options.get("tools_fail", True) else SOUND_MOODS

    @examples(count, shrink=False)
    @given(seeds)
    def check_seed(seed: int) -> None:
        dice = SeededDice(seed)
        mood, abort_percent = dice.pick(moods)
        case = make_case(dice, mood=mood, abort_percent=abort_percent, **options)
        try:
            check(deepcopy(case))
        except Exception as error:
            small = smallest(case, check)
            raise AssertionError(f"seed {seed} breaks it, and so does this:\n{pformat(small)}") from error

    check_seed()


def smallest(case: Case, check: Callable[[Case], None]) -> Case:
    """The case without everything that it fails without."""

    def fails(candidate: Case) -> bool:
        try:
            check(deepcopy(candidate))
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
    for action in case.actions if case.mood != "broken" else ():
        left = [deepcopy(other) for other in case.actions if other is not action]
        for other in left:
            if action["id"] in other.get("dependencies", ()):
                other["dependencies"].remove(action["id"])
        if left and not any(action["id"] in repr({**other, "id": ""}) for other in left):
            yield replace(case, proposal={**case.proposal, "actions": left})
    for name, nothing in (
        ("budget", None),
        ("capabilities", None),
        ("tenant", None),
        ("max_concurrency", 64),
    ):
        if getattr(case, name) != nothing:
            yield replace(case, **{name: nothing})
    if case.session != "none":
        yield replace(case, session="none", session_policies=())
    for name in ("policies", "session_policies"):
        specs = getattr(case, name)
        yield from (replace(case, **{name: specs[:i] + specs[i + 1 :]}) for i in range(len(specs)))
    for name in case.scripts:
        yield replace(case, scripts={k: v for k, v in case.scripts.items() if k != name})
    for key in case.state.keys() - {WHERE}:
        yield replace(case, state={k: v for k, v in case.state.items() if k != key})
    for i, action in enumerate(case.actions):
        for field_name in action.keys() - {"id", "type", "tool", "parameters", "failure_behavior"}:
            if case.mood == "broken":
                continue
            less = {k: v for k, v in action.items() if k != field_name}
            actions = [*case.actions[:i], less, *case.actions[i + 1 :]]
            yield replace(case, proposal={**case.proposal, "actions": actions})


class Dice:
    """Choices of one plan. Everything shrinks towards the first and the fewest."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self._draw = draw

    def number(self, low: int, high: int) -> int:
        return int(self._draw(st.integers(low, high)))

    def chance(self, percent: int) -> bool:
        return self.number(0, 99) >= 100 - percent

    def pick(self, options: Sequence[Any]) -> Any:
        return options[self.number(0, len(options) - 1)]

    def some(self, options: Sequence[Any], percent: int) -> list[Any]:
        return [option for option in options if self.chance(percent)]


class SeededDice(Dice):
    """Dice that are fair, and do not shrink."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)


def make_case(
    dice: Dice,
    *,
    mood: str,
    abort_percent: int,
    tools_fail: bool = True,
    foreseeable: bool = False,
    max_size: int = 9,
) -> Case:
    """Any plan. `foreseeable` leaves out most that verify cannot know: rates, and values that tools make."""
    from tests.properties.reference import Reference

    layout = _Layout(
        dice, mood, abort_percent=abort_percent, foreseeable=foreseeable, size=dice.number(4, max_size)
    )
    case = Case(
        proposal={"id": "plan", "actions": layout.actions},
        scripts=_scripts(dice, layout.actions, fail=tools_fail and mood in ("failing", "wild")),
        state=_state(dice),
        tenant=dice.pick((None, None, "acme")),
        max_concurrency=dice.pick((64, 1, 2, 3)),
        tools_are_sound=not (tools_fail and mood in ("failing", "wild")),
        mood=mood,
    )
    if mood == "broken":
        return _break(dice, case)
    # The second round: with the state as it would be at each action, if all went well.
    smooth = Reference(case, smooth=True)
    Conditions(dice, may_fail=mood in ("faulty", "wild"), few=layout.is_sparse).add_along(smooth)
    return _surroundings(dice, case, foreseeable=foreseeable)


class _Layout:
    """Actions with their edges and writes."""

    def __init__(self, dice: Dice, mood: str, *, abort_percent: int, foreseeable: bool, size: int) -> None:
        self.dice = dice
        self.is_bad = mood in ("faulty", "wild")
        self.foreseeable = foreseeable
        self.ids = [f"a{i}" for i in range(size)]
        self.abort_percent = abort_percent
        self.is_sparse = dice.chance(40)
        """Touches little state, so that much of it can run in parallel."""
        self.effect_percent = 15 if self.is_sparse else 70
        # Edges point from later to earlier in a hidden order, so the list itself may name consumers first.
        self.hidden = list(range(size))
        if dice.chance(60):
            for i in range(size - 1, 0, -1):
                j = dice.number(0, i)
                self.hidden[i], self.hidden[j] = self.hidden[j], self.hidden[i]
        by_rank = sorted(range(size), key=self.hidden.__getitem__)
        made: dict[int, Wire] = {}
        for i in by_rank:
            made[i] = self._action(i, [made[j] for j in by_rank if j in made])
        self.actions = [made[i] for i in range(size)]
        self._compensations()

    def _action(self, i: int, earlier: list[Wire]) -> Wire:
        dice = self.dice
        others = ("state_write", "state_read", "assertion")
        kind = dice.pick(("tool_call",) * (9 if self.is_sparse else 4) + others)
        action: Wire = {"id": self.ids[i], "type": kind}
        if kind == "tool_call":
            action["tool"] = self._tool()
            action["parameters"] = {"n": dice.number(0, 2)}
            if dice.chance(self.effect_percent):
                action["expected_effects"] = {
                    key: dice.pick(VALUES)
                    for key in dict.fromkeys(dice.pick(KEYS) for _ in range(dice.number(1, 2)))
                }
            if action["tool"] in ("ask", "take_back") and dice.chance(70):
                action["idempotent"] = True
            if self.is_bad and dice.chance(10):
                action["parameters"] = dice.pick(({"n": "2"}, {}, {"n": 1, "x": "danger"}))
        else:
            action["parameters"] = {"key": dice.pick(KEYS)}
            if kind == "state_write" and dice.chance(80):
                action["parameters"]["value"] = dice.pick(VALUES)
            if self.is_bad and dice.chance(5):
                del action["parameters"]["key"]
        self._edges(action, earlier)
        if dice.chance(5 if self.is_sparse else 15):
            action["read_set"] = [dice.pick(KEYS)]
        if dice.chance(3 if self.is_sparse else 10):
            action["write_set"] = [dice.pick(KEYS)]
        if self.is_bad and dice.chance(3):
            action["invocation_mode"] = dice.pick(("streaming", "long_running"))
        aborts = dice.chance(self.abort_percent)
        action["failure_behavior"] = "abort" if aborts else dice.pick(("skip", "retry"))
        if action["failure_behavior"] == "retry":
            action["max_retries"] = dice.number(0, 2)
        return action

    def _tool(self) -> str:
        if self.is_bad and self.dice.chance(8):
            return str(self.dice.pick(("nobody", HOLLOW)))
        names = [n for n in TOOLS if n != "take_back" and not (self.foreseeable and n == "peek")]
        return str(self.dice.pick((*names, "ask", "send", "send", "send")))

    def _edges(self, action: Wire, earlier: list[Wire]) -> None:
        dice = self.dice
        if not earlier:
            return
        for other in dice.some(earlier[-3:], 8 if self.is_sparse else 20):
            action.setdefault("dependencies", []).append(other["id"])
        if not dice.chance(30):
            return
        named = dice.pick(earlier)
        if self.foreseeable and named["type"] == "tool_call":
            # What a tool answers cannot be foreseen; that it answers can.
            if action["type"] != "tool_call" or action["tool"] == "pick":
                return
            action["parameters"]["x"] = f"${named['id']}.output"
            return
        whole = f"${named['id']}.output"
        forms = [whole, f"about {whole}, twice {whole}", f"${whole}"]
        if named["type"] == "tool_call":
            forms += [f"{whole}.items[0]", f"{whole}.n"]
        if self.is_bad:
            forms += [f"{whole}.nothing", f"{whole}[7]"]
        text = dice.pick(forms)
        if action["type"] == "tool_call" and action["tool"] != "pick":
            action["parameters"]["x"] = text if dice.chance(70) else {"deep": [text]}
        elif action["type"] == "state_write":
            action["parameters"]["value"] = text
            if named["type"] == "state_read" and dice.chance(50):
                # The key itself is only known when the plan runs.
                named["parameters"]["key"] = WHERE
                action["parameters"]["key"] = whole
        if dice.chance(10):
            action["references"] = False

    def _compensations(self) -> None:
        dice = self.dice
        needed = {name for a in self.actions for name in a.get("dependencies", ())}
        needed |= {other for a in self.actions for other in self.ids if f"${other}.output" in repr(a)}
        spare = [a["id"] for a in self.actions if self.is_bad or a["id"] not in needed]
        for action in self.actions:
            if action.get("tool") != "send":
                continue
            if dice.chance(20):
                pass
            elif dice.chance(60):
                of = f"${action['id']}.output.n"
                action["compensation"] = {"type": "tool", "tool": "take_back", "parameters": {"of": of}}
            elif fit := [name for name in spare if not self._leads_to(name, action["id"])]:
                action["compensation"] = {"type": "action_ref", "action_id": dice.pick(fit)}
            # With nothing that takes it back it must call itself irreversible; in a bad mood it may not.
            if "compensation" not in action and not (self.is_bad and dice.chance(60)):
                action["reversibility"] = "irreversible"
            elif self.is_bad and dice.chance(10):
                action["reversibility"] = dice.pick(("irreversible", "compensable", "reversible"))
            if self.is_bad and dice.chance(10):
                wrong = dice.pick(({"tool": "nobody"}, {"tool": "pick", "parameters": {"n": "2"}}))
                action["compensation"] = {"type": "tool", **wrong}

    def _leads_to(self, name: str, goal: str) -> bool:
        """Whether what takes `name` back is, in the end, `goal`."""
        while name != goal:
            compensation = self.actions[self.ids.index(name)].get("compensation", {})
            if "action_id" not in compensation:
                return False
            name = compensation["action_id"]
        return True


def _scripts(dice: Dice, actions: list[Wire], *, fail: bool) -> dict[str, Script]:
    names = [a["id"] for a in actions] + [f"{a['id']}.compensation" for a in actions if "compensation" in a]
    scripts: dict[str, Script] = {}
    for at, name in enumerate(names):
        attempts: tuple[Any, ...] = ()
        # Late rather than early, so that there is something to undo.
        if fail and dice.chance(15 + 60 * at // len(names)):
            attempts = tuple(
                dice.pick(("fail", "lost", "lost", "fatal", "junk")) for _ in range(dice.number(1, 3))
            )
        scripts[name] = Script(attempts, delays_ms=(dice.number(0, 5), dice.number(0, 5)))
    return scripts


def _state(dice: Dice) -> dict[str, Json]:
    state: dict[str, Json] = {key: dice.pick(VALUES) for key in dice.some(KEYS, 70)}
    return {**state, WHERE: dice.pick(KEYS)}


class Conditions:
    """The second round: what each action asks of the state before it."""

    def __init__(self, dice: Dice, *, may_fail: bool, few: bool) -> None:
        self.dice = dice
        self.may_fail = may_fail
        self.few = few

    def add_along(self, smooth: Any) -> None:
        """Go through the plan as it would run if all went well, adding conditions on the way."""
        may_fail = self.may_fail
        for at, action in enumerate(smooth.in_order()):
            self.may_fail = may_fail and at >= len(smooth.order) // 3
            state = smooth.state
            if self.dice.chance(15 if self.few else 40):
                action["preconditions"] = [self._precondition(state) for _ in range(self.dice.number(1, 2))]
            if self.dice.chance(5 if self.few else 15):
                action["assumptions"] = [self._assumption(state)]
            if self.dice.chance(10 if self.few else 20):
                present = [key for key in KEYS if key in state]
                if self.may_fail and self.dice.chance(20):
                    present = [GHOST, *KEYS]
                if present:
                    action["state_dependencies"] = [self.dice.pick(present)]
            if action["type"] == "assertion" and "key" in action["parameters"]:
                actual = state.get(action["parameters"]["key"])
                wrong = self.may_fail and self.dice.chance(30)
                action["parameters"]["expected"] = self.dice.pick(VALUES) if wrong else actual
                if "$" in repr(actual):
                    action["references"] = False
            smooth.go_on()

    def _precondition(self, state: dict[str, Json]) -> Wire:
        from tests.properties.reference import holds

        key = self.dice.pick((*KEYS, GHOST))
        operator = self.dice.pick(OPERATORS)
        if self.may_fail and self.dice.chance(5):
            operator = "like"
        value = self.dice.pick((*VALUES, state.get(key)))
        made = {"key": key, "operator": operator, "value": value}
        if not holds(made, state) and not (self.may_fail and self.dice.chance(35)):
            made["operator"] = "exists" if key in state else "not_exists"
        return made

    def _assumption(self, state: dict[str, Json]) -> Wire:
        key = self.dice.pick(KEYS)
        if self.may_fail and self.dice.chance(30):
            # Version 0 is before everything: the key has changed since, if it exists at all.
            return self.dice.pick(
                ({"key": key, "read_version": 0}, {"key": key, "expected_value": "unlikely"})
            )  # type: ignore[no-any-return]
        return {"key": key, "expected_value": state[key]} if key in state else {"key": key}


def _policies(dice: Dice, prefix: str, *, foreseeable: bool) -> list[PolicySpec]:
    kinds = [
        *("param_equals", "param_contains", "param_presence", "allow_param", "matching", "callable"),
        *("require_state", "require_key", "callable_state", "callable_state", "keyword", "deny_tool"),
        *("raises", "no_regex", "param_above", "param_below"),
    ]
    if not foreseeable:
        kinds += ["rate_limit", "rate_limit"]
    return [
        PolicySpec(
            kind=dice.pick(kinds),
            name=f"{prefix}{number}",
            tool=dice.pick((*TOOLS, "*")),
            n=dice.number(0, 2),
            key=dice.pick(KEYS),
            value=dice.pick(VALUES),
            limit=dice.number(0, 3),
            declares_reads=dice.chance(50),
        )
        for number in range(dice.number(0, 2))
    ]


def _surroundings(dice: Dice, case: Case, *, foreseeable: bool) -> Case:
    """Policies, a session, capabilities and a budget; in a good mood only such as let the plan pass."""
    from tests.properties.reference import Reference

    may_fail = case.mood in ("faulty", "wild")
    policies = _policies(dice, "p", foreseeable=foreseeable) if dice.chance(60) else []
    session = dice.pick(("none", "none", "open"))
    of_session = _policies(dice, "s", foreseeable=foreseeable) if session == "open" else []
    capabilities: Wire | None = None
    if dice.chance(30):
        capabilities = dice.pick(
            (
                {"denied_tools": ["take*"], "max_actions": 9},
                {"allowed_tools": ["*"], "allowed_state_keys": ["k*", WHERE, GHOST]},
                *(
                    [{"allowed_tools": ["ask", "p*"]}, {"allowed_state_keys": ["k0"]}, {"max_actions": 2}]
                    * may_fail
                ),
            )
        )
    budget: Wire | None = None
    if dice.chance(35):
        generous = {"max_actions": 20, "max_tool_calls": 20}
        tight = {dice.pick(("max_actions", "max_tool_calls")): dice.number(0, 6)}
        budget = tight if may_fail else generous
    if may_fail:
        if session == "open" and dice.chance(10):
            session = "closed"
        return replace(
            case,
            policies=tuple(policies),
            session=session,
            session_policies=tuple(of_session) if session == "open" else (),
            capabilities=capabilities,
            budget=budget,
        )
    mild = []
    for spec in (*policies, *of_session):
        if not Reference(replace(case, policies=(spec,)), smooth=True).denies_any():
            mild.append(spec)
    return replace(
        case,
        policies=tuple(s for s in mild if s.name.startswith("p")),
        session=session,
        session_policies=tuple(s for s in mild if s.name.startswith("s")),
        capabilities=capabilities,
        budget=budget,
    )


def _break(dice: Dice, case: Case) -> Case:
    """A plan that must be refused whole."""
    actions = case.actions
    one = dice.pick(actions)
    other = dice.pick(actions)
    # An action that only serves as a compensation leaves the schedule, and what is wrong with its edges too.
    for action in actions:
        action.pop("compensation", None)
    match dice.number(0, 8):
        case 0:
            actions.append({**one})
        case 1:
            one["dependencies"] = ["nobody"]
        case 2:
            one["dependencies"] = [one["id"]]
        case 3:
            one.setdefault("dependencies", []).append(other["id"])
            other.setdefault("dependencies", []).append(one["id"])
        case 4:
            one["parameters"] = {**one["parameters"], "x": "$nobody.output"}
            one["references"] = True
        case 5:
            one["parameters"] = {**one["parameters"], "x": f"${one['id']}.output"}
            one["references"] = True
        case 6:
            one["compensation"] = {"type": "action_ref", "action_id": dice.pick(("nobody", one["id"]))}
        case 7:
            of = {"of": "$nobody.output"}
            one["compensation"] = {"type": "tool", "tool": "take_back", "parameters": of}
        case _:
            one["compensation"] = {"type": "action_ref", "action_id": other["id"]}
            other["compensation"] = {"type": "action_ref", "action_id": one["id"]}
    return case
