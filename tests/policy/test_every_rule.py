"""Every kind of rule in one table: what it lets through, what it denies, and in which words.

Each row is judged twice, by verify and by execute, and both must say the same. From the rows that deny, more
are made: the same rule for other tools, risks, labels and paths, and the same rule with a person to ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, get_args

import pytest
from msgspec.structs import replace

from placet import (
    AllowToolParam,
    DenyKeyword,
    DenyTool,
    DenyToolParam,
    DenyToolParamMatching,
    RateLimitTool,
    RequireState,
    Runtime,
)
from placet.approvals.approval import Approval
from placet.approvals.memory import MemoryApprovals
from placet.policy.calls import Calls
from placet.policy.case import Rule
from placet.policy.flow import DenyIrreversible, FlowRule, MarkOutput
from placet.policy.gate import NOBODY
from placet.policy.rule import DeclaredRule
from placet.policy.trace import TraceRule
from tests.runtime.plans import Fields, Recorder, call, plan, write

KINDS = get_args(DeclaredRule)


class Facts(NamedTuple):
    """What the choice of a rule can look at."""

    risk: Any
    label: str
    path: str


TOOLS = {
    "look": Facts("read_only", "web", "looks/*"),
    "key": Facts("read_only", "vault", "keys/*"),
    "mail": Facts("network", "post", "mails/*"),
    "shell": Facts("destructive", "machine", "shells/*"),
    "put": Facts("idempotent", "files", "puts/*"),
}
MARKS: dict[str, list[Any]] = {"look": ["untrusted"], "key": ["secret"]}


def a(id: str, tool: str, **parameters: Any) -> Fields:
    """A call that is pointed at a path by which its tool can be told."""
    return call(id, tool, {"at": f"./x/../{tool}s/one", **parameters})


class Row(NamedTuple):
    """A rule, a plan, and what the rule says to one action of it."""

    title: str
    rule: Rule
    actions: Sequence[Fields]
    denial: str | None = None
    """To the last action; None if it may run."""
    state: dict[str, Any] = {}
    chosen: str = "s"
    """The action that the rule chooses."""
    others: Sequence[Rule] = ()
    by: str = "r"
    """The rule that denies: this one, or one of the others (`o0`, `o1`)."""
    ahead: str | None = None
    """What verify says instead, where it cannot know."""

    @property
    def words(self) -> str | None:
        return None if self.denial is None else f"policy '{self.by}': {self.denial}"


UNTRUSTED = "untrusted data would choose"
SENT = a("s", "mail", to="$f.output", text="hello")
TYPED = a("s", "mail", to="ann@example.org", text="$f.output")
FOUND = a("f", "look")
SECRET = a("f", "key")
WINDOW = "policy 'r' depends on what runs within its window"

ROWS = [
    # deny_tool
    Row("another tool", DenyTool(tool="shell"), [a("s", "mail")]),
    Row("the tool", DenyTool(tool="mail"), [a("s", "mail")], "tool 'mail' is denied"),
    Row("a family", DenyTool(tool="ma*"), [a("s", "mail")], "tool 'mail' is denied"),
    Row("its reason", DenyTool(tool="mail", reason="quiet hours"), [a("s", "mail")], "quiet hours"),
    # deny_tool_param
    Row("no such text", DenyToolParam(param="to", contains="bob"), [a("s", "mail", to="ann")]),
    Row("no such parameter", DenyToolParam(param="to", contains="bob"), [a("s", "mail", text="bob")]),
    Row(
        "contains, deep and in any case",
        DenyToolParam(param="to", contains="bob"),
        [a("s", "mail", to=[{"x": "BOB@example.org"}])],
        "parameter 'to' contains a denied text",
    ),
    Row("equals another", DenyToolParam(param="n", equals=1), [a("s", "mail", n="1")]),
    Row(
        "equals",
        DenyToolParam(param="n", equals=1),
        [a("s", "mail", n=1.0)],
        "parameter 'n' has a denied value",
    ),
    Row("absent", DenyToolParam(param="cc", presence=True), [a("s", "mail", to="x")]),
    Row(
        "present, as null",
        DenyToolParam(param="cc", presence=True),
        [a("s", "mail", cc=None)],
        "parameter 'cc' is not allowed",
    ),
    Row(
        "its reason",
        DenyToolParam(param="cc", presence=True, reason="no copies"),
        [a("s", "mail", cc="x")],
        "no copies",
    ),
    Row("not above", DenyToolParam(param="n", above=100), [a("s", "mail", n=100.0)]),
    Row(
        "above",
        DenyToolParam(param="n", above=100),
        [a("s", "mail", n=100.5)],
        "parameter 'n' is above 100",
    ),
    Row("not below", DenyToolParam(param="n", below=0.5), [a("s", "mail", n=1)]),
    Row(
        "below",
        DenyToolParam(param="n", below=0.5),
        [a("s", "mail", n=0)],
        "parameter 'n' is below 0.5",
    ),
    Row(
        "not a number",
        DenyToolParam(param="n", above=100),
        [a("s", "mail", n="5")],
        "parameter 'n' is not a number, so it cannot be compared with the limit",
    ),
    Row(
        "its reason",
        DenyToolParam(param="n", above=1, reason="one at most"),
        [a("s", "mail", n=2)],
        "one at most",
    ),
    # allow_tool_param
    Row("one of the values", AllowToolParam(param="to", values=["a", ["b"]]), [a("s", "mail", to=["b"])]),
    Row("it matches", AllowToolParam(param="to", matching=r"\w+@here"), [a("s", "mail", to="x@here")]),
    Row(
        "another value",
        AllowToolParam(param="to", values=["a"]),
        [a("s", "mail", to="b")],
        "parameter 'to' is not one of the allowed values",
    ),
    Row(
        "only a part matches",
        AllowToolParam(param="to", matching=r"\w+@here"),
        [a("s", "mail", to="x@here.not")],
        "parameter 'to' is not one of the allowed values",
    ),
    Row(
        "not given",
        AllowToolParam(param="to", values=["a"]),
        [a("s", "mail")],
        "parameter 'to' must be given, with one of the allowed values",
    ),
    Row("its reason", AllowToolParam(param="to", reason="only a"), [a("s", "mail", to="b")], "only a"),
    # deny_keyword
    Row("no such word", DenyKeyword(keyword="drop"), [a("s", "mail", text="dr op")]),
    Row(
        "in a parameter",
        DenyKeyword(keyword="drop"),
        [a("s", "mail", text=["DROP table"])],
        "its parameters contain a denied keyword",
    ),
    Row(
        "in a name",
        DenyKeyword(keyword="drop"),
        [a("s", "mail", text={"dropped": 1})],
        "its parameters contain a denied keyword",
    ),
    Row(
        "in an effect",
        DenyKeyword(keyword="drop"),
        [a("s", "mail") | {"expected_effects": {"k": "Drop"}}],
        "its expected effects contain a denied keyword",
    ),
    Row("its reason", DenyKeyword(keyword="drop", reason="no"), [a("s", "mail", text="drop")], "no"),
    # deny_tool_param_matching
    Row("no match", DenyToolParamMatching(param="c", pattern=r"\brm\b"), [a("s", "mail", c="farm")]),
    Row(
        "a match",
        DenyToolParamMatching(param="c", pattern=r"\brm\b"),
        [a("s", "mail", c=["rm -r"])],
        "parameter 'c' fits a denied pattern",
    ),
    Row(
        "no pattern",
        DenyToolParamMatching(param="c", pattern="("),
        [a("s", "mail")],
        "its pattern does not compile, so the tool is denied",
    ),
    Row(
        "its reason",
        DenyToolParamMatching(param="c", pattern="rm", reason="keep it"),
        [a("s", "mail", c="rm")],
        "keep it",
    ),
    # require_state
    Row("there is such a key", RequireState(key="k"), [a("s", "mail")], state={"k": None}),
    Row("the value", RequireState(key="k", value=1), [write("w", "k", 1), a("s", "mail")]),
    Row(
        "no such key",
        RequireState(key="k"),
        [a("s", "mail")],
        "state key 'k' does not have the required value",
    ),
    Row(
        "another value",
        RequireState(key="k", value=None),
        [write("w", "k", 0), a("s", "mail")],
        "state key 'k' does not have the required value",
        state={"k": None},
    ),
    Row("its reason", RequireState(key="k", reason="not yet"), [a("s", "mail")], "not yet"),
    # rate_limit_tool
    Row(
        "room in the window",
        RateLimitTool(max_calls=2, interval_secs=3600),
        [a("f", "mail"), a("s", "mail")],
        ahead=WINDOW,
    ),
    Row(
        "no room at all",
        RateLimitTool(max_calls=0, interval_secs=3600),
        [a("s", "mail")],
        "tool 'mail' was called too often lately",
        ahead=WINDOW,
    ),
    Row(
        "no room any more",
        RateLimitTool(max_calls=1, interval_secs=3600, reason="slowly"),
        [a("f", "mail"), a("s", "mail")],
        "slowly",
        ahead=WINDOW,
    ),
    # trace_rule
    Row("after", TraceRule(tool="mail", only_after=Calls(label="web")), [a("f", "look"), a("s", "mail")]),
    Row(
        "not after",
        TraceRule(only_after=Calls(label="web"), tool="mail"),
        [a("f", "put"), a("s", "mail")],
        "a tool labelled 'web' has not run yet",
    ),
    Row("before", TraceRule(tool="mail", only_before=Calls(tool="put")), [a("f", "look"), a("s", "mail")]),
    Row(
        "not before",
        TraceRule(tool="mail", only_before=Calls(tool="put")),
        [a("f", "put"), a("s", "mail")],
        "tool 'put' has run",
    ),
    Row("never with, alone", TraceRule(tool="mail", never_with=Calls(tool="put")), [a("s", "mail")]),
    Row(
        "never with",
        TraceRule(tool="mail", never_with=Calls(risk=["idempotent", "destructive"])),
        [a("f", "put"), a("s", "mail")],
        "a idempotent or destructive tool has run",
    ),
    Row(
        "never with, the other way round",
        TraceRule(tool="put", never_with=Calls(tool="mail")),
        [a("f", "put"), a("s", "mail")],
        "tool 'put' has run",
        chosen="",
    ),
    Row("at most two", TraceRule(tool="mail", at_most=2), [a("f", "mail"), a("s", "mail")]),
    Row(
        "at most one",
        TraceRule(tool="mail", at_most=1),
        [a("f", "mail"), a("s", "mail")],
        "1 have run, and no more may",
    ),
    Row(
        "none",
        TraceRule(tool="mail", at_most=0, reason="not from here"),
        [a("s", "mail")],
        "not from here",
    ),
    # flow_rule
    Row("typed by the person", FlowRule(mark="untrusted", param="to"), [FOUND, TYPED]),
    Row("another mark", FlowRule(mark="secret"), [FOUND, SENT]),
    Row(
        "chosen by what was read",
        FlowRule(mark="untrusted", param="to", tool="mail"),
        [FOUND, SENT],
        f"{UNTRUSTED} parameter 'to' (f (look))",
    ),
    Row(
        "anywhere",
        FlowRule(mark="untrusted", risk="network"),
        [FOUND, TYPED],
        f"{UNTRUSTED} its parameters (f (look))",
    ),
    Row(
        "a secret that leaves",
        FlowRule(mark="secret", param=["cc", "text"], risk="network"),
        [SECRET, TYPED],
        "secret data would leave through parameter 'text' (f (key))",
    ),
    Row(
        "its reason",
        FlowRule(mark="secret", risk="network", reason="keys stay here"),
        [SECRET, TYPED],
        "keys stay here (f (key))",
    ),
    # mark_output denies nothing by itself; what it marks is denied by another.
    Row(
        "marks and nothing else",
        MarkOutput(tool="put", marks=["untrusted", "secret"]),
        [a("f", "put"), SENT],
        chosen="f",
    ),
    Row(
        "marks what is denied",
        MarkOutput(tool="put", marks=["untrusted"]),
        [a("f", "put"), SENT],
        f"{UNTRUSTED} parameter 'to' (f (put))",
        chosen="f",
        others=[FlowRule(mark="untrusted", param="to")],
        by="o0",
    ),
    # deny_irreversible
    Row("it can be taken back", DenyIrreversible(), [a("s", "put")]),
    Row("nothing to take back", DenyIrreversible(), [a("s", "look")]),
    Row("it cannot", DenyIrreversible(), [a("s", "mail")], "an abort would not undo it"),
    Row(
        "by the plan's own words",
        DenyIrreversible(),
        [a("s", "put") | {"reversibility": "irreversible"}],
        "an abort would not undo it",
    ),
    Row("its reason", DenyIrreversible(reason="not so"), [a("s", "shell")], "not so"),
]


def title(row: Row) -> str:
    return f"{type(row.rule).__struct_config__.tag}: {row.title}"


class Answering(MemoryApprovals):
    """A person who answers at once, and always the same."""

    def __init__(self, answer: Any = "once") -> None:
        super().__init__()
        self.answer = answer
        self.asked: list[Approval] = []

    def request(self, approval: Approval) -> Approval:
        self.asked.append(super().request(approval))
        return self.decide(approval.id, self.answer, by="ann", reason="so be it")


class Verdict(NamedTuple):
    """What became of the last action of a row."""

    status: str
    error: str | None
    reached: bool
    """Whether the tool saw it."""
    errors: list[str]
    """What verify says of it beforehand."""
    undecided: list[str]


async def judge(row: Row, approvals: MemoryApprovals | None = None) -> Verdict:
    recorder = Recorder()
    rt = Runtime(
        tools=[
            recorder.tool(
                name,
                f"{name} answered",
                risk=facts.risk,
                labels=[facts.label],
                marks=MARKS.get(name, []),
                reversibility="reversible" if name == "put" else None,
            )
            for name, facts in TOOLS.items()
        ],
        policies=[("r", row.rule), *((f"o{i}", other) for i, other in enumerate(row.others))],
        state=row.state,
        approvals=approvals,
    )
    # In a row, so that nothing is denied only because it is not its turn yet.
    actions: list[Fields] = []
    for action in row.actions:
        after = {"dependencies": [actions[-1]["id"]]} if actions else {}
        actions.append({"failure_behavior": "skip", **action, **after})
    proposal = plan(*actions)

    report = rt.verify(proposal)
    assert recorder.calls == []
    result = await rt.execute(proposal)

    last = actions[-1]
    about = [i for i in report.issues if i.action_id == last["id"]]
    ended = result[last["id"]]
    calls = sum("tool" in action for action in actions)
    assert [r.error for r in result.results[:-1]] == [None] * (len(actions) - 1)
    return Verdict(
        ended.status,
        ended.error,
        recorder.names[-1:] == [last["tool"]] and len(recorder.calls) == calls,
        [i.message for i in about if i.severity == "error"],
        [i.message.removeprefix("undecided: ") for i in about if i.is_undecided],
    )


def allowed(row: Row) -> Verdict:
    return Verdict("succeeded", None, True, [], [row.ahead] if row.ahead else [])


def denied(row: Row, words: str) -> Verdict:
    return Verdict("rejected", words, False, [] if row.ahead else [words], [row.ahead] if row.ahead else [])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__struct_config__.tag)
def test_every_kind_stands_in_the_table_both_ways(kind: type[Rule]) -> None:
    rows = [row for row in ROWS if type(row.rule) is kind]

    assert [row for row in rows if row.denial is None], "nothing is allowed"
    assert [row for row in rows if row.denial is not None], "nothing is denied"


@pytest.mark.parametrize("row", ROWS, ids=title)
async def test_verify_and_execute_say_the_same(row: Row) -> None:
    assert await judge(row) == (allowed(row) if row.words is None else denied(row, row.words))


CHOICES = ["tool", "risk", "risks", "label", "path", "all"]


def choice(of: str, facts: Facts, tool: str) -> dict[str, Any]:
    return {
        "tool": {"tool": tool},
        "risk": {"risk": facts.risk},
        "risks": {"risk": [facts.risk]},
        "label": {"label": facts.label},
        "path": {"path": facts.path},
        "all": {"tool": tool[:-1] + "*", "risk": facts.risk, "label": facts.label, "path": facts.path},
    }[of]


DENYING = [row for row in ROWS if row.words is not None]
CHOOSING = [row for row in DENYING if row.chosen]


UNCHOSEN: dict[str, Any] = {"tool": "*", "risk": None, "label": None}


def chosen_and_other(row: Row) -> tuple[str, str]:
    """The tool that a row's rule chooses, and one that nothing of its plan calls."""
    tool = next(a["tool"] for a in row.actions if a["id"] == row.chosen)
    return tool, "look" if tool == "shell" else "shell"


@pytest.mark.parametrize("row", CHOOSING, ids=title)
async def test_a_rule_is_about_the_calls_it_chooses(row: Row) -> None:
    tool, _ = chosen_and_other(row)
    assert row.words is not None

    for of in CHOICES:
        rule = replace(row.rule, **{**UNCHOSEN, **choice(of, TOOLS[tool], tool)})
        assert await judge(row._replace(rule=rule)) == denied(row, row.words), of


@pytest.mark.parametrize("row", CHOOSING, ids=title)
async def test_a_rule_says_nothing_to_other_calls(row: Row) -> None:
    _, other = chosen_and_other(row)

    for of in CHOICES:
        rule = replace(row.rule, **{**UNCHOSEN, **choice(of, TOOLS[other], other)})
        found = await judge(row._replace(rule=rule))
        assert (found.status, found.reached, found.errors) == ("succeeded", True, []), of


@pytest.mark.parametrize("row", CHOOSING, ids=title)
async def test_of_several_choices_each_must_fit(row: Row) -> None:
    tool, other = chosen_and_other(row)

    for missing in ("tool", "risk", "label", "path"):
        fits = {**choice("all", TOOLS[tool], tool), **choice(missing, TOOLS[other], other)}
        found = await judge(row._replace(rule=replace(row.rule, **fits)))
        assert (found.status, found.reached, found.errors) == ("succeeded", True, []), missing


# With a person to ask


def asking(row: Row) -> Row:
    """The row, with the rule that denies asking instead."""
    if row.by == "r":
        return row._replace(rule=replace(row.rule, unless_approved=True))
    return row._replace(others=[replace(other, unless_approved=True) for other in row.others])


@pytest.mark.parametrize("row", DENYING, ids=title)
async def test_without_anybody_to_ask_it_is_denied(row: Row) -> None:
    assert await judge(asking(row)) == denied(row, f"{row.words}; {NOBODY}")


@pytest.mark.parametrize("row", DENYING, ids=title)
async def test_what_a_person_approves_runs(row: Row) -> None:
    person = Answering("once")

    found = await judge(asking(row), person)

    ahead = row.ahead or f"it needs an approval: {row.words}"
    assert found == Verdict("succeeded", None, True, [], [ahead])
    (asked,) = person.asked
    assert (asked.action_id, list(asked.reasons)) == (row.actions[-1]["id"], [row.words])


@pytest.mark.parametrize("row", DENYING, ids=title)
async def test_what_a_person_denies_does_not_run(row: Row) -> None:
    person = Answering("deny")

    found = await judge(asking(row), person)

    (asked,) = person.asked
    assert (found.status, found.reached) == ("rejected", False)
    assert found.error == f"approval '{asked.id}' was denied by ann: so be it"


@pytest.mark.parametrize("row", DENYING, ids=title)
async def test_nobody_is_asked_about_what_is_denied_outright(row: Row) -> None:
    """Two rules, one of which would ask: the other one's denial stands, and the person is left in peace."""
    asks = asking(row)
    tool = row.actions[-1]["tool"]
    person = Answering()
    both = asks._replace(others=[*asks.others, DenyTool(tool=tool, path=f"{tool}s/one", reason="never")])
    if any(a["tool"] == tool for a in row.actions[:-1] if "tool" in a):
        # The calls before it must run: only the last one is pointed elsewhere.
        last = {**row.actions[-1], "parameters": {**row.actions[-1]["parameters"], "also": "last/one"}}
        never = DenyTool(tool=tool, path="last/one", reason="never")
        both = asks._replace(actions=[*row.actions[:-1], last], others=[*asks.others, never])

    found = await judge(both, person)

    assert (found.status, found.reached) == ("rejected", False)
    assert found.error == f"policy 'o{len(asks.others)}': never"
    assert person.asked == []


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.words is None and not isinstance(row.rule, MarkOutput)], ids=title
)
async def test_nobody_is_asked_about_what_is_allowed(row: Row) -> None:
    person = Answering("deny")

    assert await judge(asking(row), person) == allowed(row)
    assert person.asked == []
