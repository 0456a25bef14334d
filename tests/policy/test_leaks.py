"""A denied value is shown nowhere: no output, no log, no export, no table that others look at.

Every kind of rule denies a call that holds a value made up for this run; then all that was said and written
is searched for it. Exempt is what is private to the run, because a run cannot go on without it: its own
record, result and journal in the database. An open question shows its parameters to the person who decides.
"""

from __future__ import annotations

import base64
import json
import secrets
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, get_args
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from placet import (
    Action,
    AllowToolParam,
    DenyKeyword,
    DenyTool,
    DenyToolParam,
    DenyToolParamMatching,
    EventLog,
    JsonlSink,
    Runtime,
    SqlEvents,
    open_database,
)
from placet.ir.codec import encode
from placet.policy.case import Rule
from placet.policy.flow import FlowRule, MarkOutput
from placet.policy.rule import DeclaredRule
from placet.tools import Tool
from tests.cli.conftest import quick
from tests.runtime.plans import Fields, Recorder, call, plan

__all__ = ["quick"]

Placet = Callable[..., Any]

PRIVATE = {("runs", "record"), ("runs", "result"), ("journal", "note")}
"""What a run needs to go on, as it is. It is never shown as it is."""
ASKED = {("approvals", "asked")}
"""What a person is asked about, who must see it."""


class Canary:
    """A value that stands nowhere else, and every form in which it may turn up."""

    def __init__(self) -> None:
        self.core = "".join(secrets.choice("bcdfghjklmnpqrstvwxz") for _ in range(40))
        self.text = f"marked {self.core}/å+=&"
        raw = self.text.encode()
        # Whatever stands before it in a longer text shifts its digits by 0, 1 or 2 places.
        shifted = [base64.b64encode(b"\0" * n + raw)[4:-4].decode() for n in range(3)]
        forms = [
            self.text,
            quote(self.text),
            quote(self.text, safe=""),
            json.dumps(self.text)[1:-1],
            raw.hex(),
        ]
        forms += [*shifted, *(s.replace("+", "-").replace("/", "_") for s in shifted)]
        # Also where somebody has cut it short, from either side.
        forms += [self.core[i : i + 10] for i in (0, 15, 30)] + [self.core[::-1]]
        self._forms = [form.encode().lower() for form in forms]

    def is_in(self, said: bytes | str) -> bool:
        data = (said.encode() if isinstance(said, str) else said).lower()
        return any(form in data for form in self._forms)


@pytest.mark.parametrize(
    "form",
    [
        lambda text: text,
        lambda text: f"'{text.upper()}'",
        lambda text: base64.b64encode(text.encode()).decode(),
        lambda text: base64.urlsafe_b64encode(f"x{text}y".encode()).decode(),
        lambda text: base64.b64encode(f"xy{text}y".encode()).decode(),
        lambda text: quote(text),
        lambda text: json.dumps({"a": text}),
        lambda text: text[:25] + "...",
        lambda text: "..." + text[-25:],
        lambda text: text.encode().hex(),
    ],
)
def test_the_search_finds_what_it_looks_for(form: Callable[[str], str]) -> None:
    canary = Canary()

    assert canary.is_in(form(canary.text))
    assert not Canary().is_in(form(canary.text))


# Through the command line


class Row(NamedTuple):
    """A rule that denies the last of the actions, which holds the canary."""

    kind: str
    rule: Fields
    actions: Callable[[str, str], list[Fields]]
    """From the name of the row's own tool, and the canary's text."""
    equals: bool = False
    """Whether the rule itself must hold the value."""


def holds(*names: str) -> Callable[[str, str], list[Fields]]:
    """One call, with the canary in these parameters, in several depths."""
    shapes: list[Callable[[str], Any]] = [lambda t: t, lambda t: [t], lambda t: {"deep": [{t: t}]}]
    return lambda tool, text: [call(tool, tool, {name: shapes[i % 3](text) for i, name in enumerate(names)})]


def twice(tool: str, text: str) -> list[Fields]:
    # The rule itself keeps them in order.
    return [call(f"{tool}-0", tool), call(tool, tool, {"to": text})]


def after(other: str) -> Callable[[str, str], list[Fields]]:
    def actions(tool: str, text: str) -> list[Fields]:
        first = f"{tool}-0"
        return [call(first, other), call(tool, tool, {"to": f"${first}.output {text}"})]

    return actions


def keyed(tool: str, text: str) -> list[Fields]:
    return [call(tool, tool, {"to": 1}, expected_effects={f"k-{tool}": text})]


ROWS = [
    Row("deny_tool", {}, holds("to", "text", "more")),
    Row("deny_tool", {"path": "marked*"}, holds("to", "text", "more")),
    Row("deny_tool_param", {"param": "to", "contains": "MARKED"}, holds("to")),
    Row("deny_tool_param", {"param": "to", "presence": True}, holds("to", "text", "more")),
    Row("deny_tool_param", {"param": "to"}, holds("to"), equals=True),
    Row("allow_tool_param", {"param": "to", "values": ["other"]}, holds("to")),
    Row("allow_tool_param", {"param": "to", "matching": "other"}, holds("to")),
    Row("allow_tool_param", {"param": "other", "values": ["other"]}, holds("to")),
    Row("deny_keyword", {"keyword": "marked"}, holds("to", "text", "more")),
    Row("deny_keyword", {"keyword": "marked"}, keyed),
    Row("deny_tool_param_matching", {"param": "to", "pattern": "mar[k]ed"}, holds("to")),
    Row("require_state", {"key": "never"}, holds("to", "text", "more")),
    Row("rate_limit_tool", {"max_calls": 1, "interval_secs": 3600}, twice),
    Row("trace_rule", {"at_most": 1}, twice),
    Row("trace_rule", {"only_after": {"tool": "nothing"}}, holds("to", "more")),
    Row("trace_rule", {"only_before": {"tool": "look"}}, after("look")),
    Row("trace_rule", {"never_with": {"tool": "look"}}, after("look")),
    Row("trace_rule", {"path": "marked*", "at_most": 0}, holds("to")),
    Row("flow_rule", {"mark": "untrusted", "param": "to"}, after("fetch")),
    Row("flow_rule", {"mark": "secret"}, after("vault")),
    Row("deny_irreversible", {}, holds("to", "more")),
]

NAMES = [f"t{i}_{row.kind}" for i, row in enumerate(ROWS)]
UNRULED = "t_permission"
"""Denied by the posture alone."""


def test_every_kind_that_denies_has_a_row() -> None:
    kinds = {str(kind.__struct_config__.tag) for kind in get_args(DeclaredRule)}

    assert {row.kind for row in ROWS} == kinds - {"mark_output"}


def tools_file(names: Iterable[str], vault: str = "") -> str:
    lines = [
        "from typing import Any",
        "from placet import tool",
        "@tool(risk='read_only')",
        "def look() -> str:",
        "    'Look.'",
        "    return 'seen'",
        "@tool(risk='read_only', marks=['untrusted'])",
        "def fetch() -> str:",
        "    'Fetch.'",
        "    return 'fetched'",
        "@tool(risk='read_only', marks=['secret'])",
        "def vault() -> str:",
        "    'A key.'",
        f"    return {vault or 'a key'!r}",
    ]
    for name in names:
        risk = "network" if name in (UNRULED, "echo") else "idempotent"
        undo = "irreversible" if "deny_irreversible" in name else "reversible"
        lines += [
            f"@tool(risk={risk!r}, reversibility={undo!r})",
            f"def {name}(to: Any = None, text: Any = None, more: Any = None) -> Any:",
            "    'Do it.'",
            "    return to",
        ]
    return "\n".join(lines) + "\n"


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + "}"
    # What JSON and TOML write alike: texts, numbers, booleans, and lists of them.
    return json.dumps(value, ensure_ascii=False)


def rules_file(canaries: dict[str, Canary], **more: Any) -> str:
    lines: list[str] = []
    for name, row in zip(NAMES, ROWS, strict=True):
        fields = {"name": f"r-{name}", "kind": row.kind, "tool": name, **row.rule, **more}
        if row.equals:
            fields["equals"] = canaries[name].text
        lines += ["[[rule]]", *(f"{key} = {toml(value)}" for key, value in fields.items())]
    return "\n".join(lines) + "\n"


def leaks(canaries: dict[str, Canary], said: dict[str, bytes]) -> list[tuple[str, str]]:
    """Whose value stands where."""
    return [
        (name, where)
        for where, data in said.items()
        for name, canary in canaries.items()
        if canary.is_in(data)
    ]


def database_cells(path: Path, *but: tuple[str, str]) -> dict[str, bytes]:
    """All that a database holds, by table and column."""
    found: dict[str, bytes] = {}
    with sqlite3.connect(path) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            rows = connection.execute(f"SELECT * FROM {table}")
            names = [column[0] for column in rows.description]
            for row in rows:
                for name, value in zip(names, row, strict=True):
                    if (table, name) not in but and value is not None:
                        data = value if isinstance(value, bytes) else str(value).encode()
                        place = f"table {table}.{name}"
                        found[place] = found.get(place, b"") + b"\n" + data
    return found


AFTERWARDS = [
    ("explain", "RUN"),
    ("explain", "RUN", "--json"),
    ("runs",),
    ("runs", "--json"),
    ("runs", "show", "RUN"),
    ("runs", "show", "RUN", "--json"),
    ("log", "show", "RUN"),
    ("log", "show", "RUN", "--json"),
    ("log", "export"),
    ("log", "export", "--run", "RUN"),
    ("log", "query", "--json"),
    ("log", "query", "--kind", "policy_violation"),
    ("log", "tail"),
    ("log", "tail", "--json"),
    ("log", "costs"),
    ("log", "verify"),
    ("approvals", "list"),
    ("approvals", "list", "--all", "--json"),
    ("resume", "RUN"),
    ("resume", "RUN", "--json"),
]


def test_a_denied_value_is_shown_by_no_command_and_stands_in_no_log(quick: Placet, tmp_path: Path) -> None:
    canaries = {name: Canary() for name in [*NAMES, UNRULED]}
    actions = [
        {"failure_behavior": "skip", **action}
        for name, row in zip(NAMES, ROWS, strict=True)
        for action in row.actions(name, canaries[name].text)
    ]
    actions.append(call(UNRULED, UNRULED, {"to": canaries[UNRULED].text}, failure_behavior="skip"))
    (tmp_path / "tools.py").write_text(tools_file([*NAMES, UNRULED]))
    (tmp_path / "rules.toml").write_text(rules_file(canaries))
    (tmp_path / "plan.json").write_text(json.dumps(plan(*actions)))
    given = ("plan.json", "--tools", "tools.py", "--policies", "rules.toml")
    own = tmp_path / "config"
    (own / "placet").mkdir(parents=True)
    (own / "placet" / "settings.toml").write_text(
        '[permissions]\nsandbox_edit = "allow"\nfull_access = "deny"\n'
    )
    said: dict[str, bytes] = {}

    def hear(*arguments: str) -> Any:
        done = quick(*arguments, XDG_CONFIG_HOME=str(own))
        assert done.code in (0, 1, 3), done
        assert "Traceback" not in done.err
        said[" ".join(arguments)] = (done.out + done.err).encode()
        return done

    for how in ((), ("--json",)):
        for command in (("verify",), ("policy", "check"), ("policy", "explain")):
            hear(*command, *given, *how)
        name = f"r{len(how)}"
        ran = hear(
            "run", *given, "--run-id", name, "--db", "my.db", "--log", "log.jsonl", "--svg", "p.svg", *how
        )
        for arguments in AFTERWARDS:
            hear(*(name if word == "RUN" else word for word in arguments), "--db", "my.db")
    hear("explain", "log.jsonl")
    for file in ("log.jsonl", "p.svg"):
        said[file] = (tmp_path / file).read_bytes()
    said |= database_cells(tmp_path / "my.db", *PRIVATE)

    ended = {r["action_id"]: (r["status"], r["error"]) for r in ran.json["results"]}
    assert {name: ended[name][0] for name in canaries} == dict.fromkeys(canaries, "rejected"), ended
    for name in NAMES:
        assert f"policy 'r-{name}': " in ended[name][1]
        assert f"r-{name}".encode() in said["log.jsonl"], "the denial itself is told"
    assert "permission: " in ended[UNRULED][1]
    assert leaks(canaries, said) == []


def test_the_same_search_finds_a_value_that_was_let_through(quick: Placet, tmp_path: Path) -> None:
    """Or the search above would prove nothing."""
    canary = Canary()
    (tmp_path / "tools.py").write_text(tools_file(["echo"]))
    (tmp_path / "plan.json").write_text(json.dumps(plan(call("a", "echo", {"to": canary.text}))))

    done = quick("run", "plan.json", "--tools", "tools.py", "--db", "my.db", "--run-id", "r", "--json")
    shown = quick("runs", "show", "r", "--json", "--db", "my.db")

    assert canary.is_in(done.out)
    assert canary.is_in(shown.out)
    assert leaks({"c": canary}, database_cells(tmp_path / "my.db"))


def test_a_secret_that_may_not_leave_is_shown_nowhere(quick: Placet, tmp_path: Path) -> None:
    """Not even as the output of the tool that read it."""
    canary = Canary()
    (tmp_path / "tools.py").write_text(tools_file(["send"], vault=canary.text))
    (tmp_path / "rules.toml").write_text(
        '[[rule]]\nname = "stay"\nkind = "flow_rule"\nmark = "secret"\ntool = "send"\n'
    )
    sends = call("s", "send", {"to": {"x": ["key: $v.output"]}}, failure_behavior="skip")
    (tmp_path / "plan.json").write_text(json.dumps(plan(call("v", "vault"), sends)))
    said: dict[str, bytes] = {}

    for number, how in enumerate(((), ("--json",))):
        done = quick(
            "run", "plan.json", "--tools", "tools.py", "--policies", "rules.toml", "--db", "my.db",
            "--run-id", f"r{number}", "--log", "log.jsonl", *how,
        )  # fmt: skip
        said[f"run {how}"] = (done.out + done.err).encode()
        for arguments in AFTERWARDS:
            words = [f"r{number}" if word == "RUN" else word for word in arguments]
            done = quick(*words, "--db", "my.db")
            said[" ".join(words)] = (done.out + done.err).encode()
    said["log.jsonl"] = (tmp_path / "log.jsonl").read_bytes()
    said |= database_cells(tmp_path / "my.db", *PRIVATE)

    assert b"secret data would leave through its parameters (v (vault))" in said["log.jsonl"]
    assert leaks({"c": canary}, said) == []


def test_what_a_person_denied_is_in_no_log_and_no_export(quick: Placet, tmp_path: Path) -> None:
    """The person saw it when asked, and the question is kept; nothing else is."""
    rows = {name: row for name, row in zip(NAMES, ROWS, strict=True) if row.kind != "rate_limit_tool"}
    canaries = {name: Canary() for name in NAMES}
    actions = [
        {"failure_behavior": "skip", **action}
        for name, row in rows.items()
        for action in row.actions(name, canaries[name].text)
    ]
    (tmp_path / "tools.py").write_text(tools_file(NAMES))
    (tmp_path / "rules.toml").write_text(rules_file(canaries, unless_approved=True))
    (tmp_path / "plan.json").write_text(json.dumps(plan(*actions)))
    given = ("plan.json", "--tools", "tools.py", "--policies", "rules.toml")
    kept = ("--db", "my.db")
    said: dict[str, bytes] = {}

    def hear(*arguments: str) -> Any:
        done = quick(*arguments)
        said[" ".join(arguments)] = (done.out + done.err).encode()
        return done

    hear("verify", *given)
    waits = hear("run", *given, "--run-id", "r", *kept, "--log", "log.jsonl", "--json")
    asked: set[str] = set()
    denied: list[str] = []
    for _ in range(len(rows)):
        open_ones = quick("approvals", "list", "--json", *kept).json["approvals"]
        if not open_ones:
            break
        for one in open_ones:
            asked.add(one["action_id"])
            denied.append(one["id"])
            assert quick("approvals", "deny", one["id"], "--reason", "no", *kept).code == 0
        waits = hear("resume", "r", *kept, "--tools", "tools.py", "--policies", "rules.toml", "--json")
    for arguments in AFTERWARDS:
        if arguments[0] not in ("approvals", "resume"):
            hear(*("r" if word == "RUN" else word for word in arguments), *kept)
    said["log.jsonl"] = (tmp_path / "log.jsonl").read_bytes()
    said |= database_cells(tmp_path / "my.db", *PRIVATE, *ASKED)

    assert asked == set(rows), waits
    assert denied
    assert leaks(canaries, said) == []


# In process


@pytest.fixture
def written(tmp_path: Path) -> Callable[[Runtime], dict[str, bytes]]:
    """Everything that a runtime's log has put down."""

    def read(rt: Runtime) -> dict[str, bytes]:
        return {
            "events": encode(list(rt.events)),
            "log.jsonl": (tmp_path / "log.jsonl").read_bytes(),
            **database_cells(tmp_path / "events.db"),
        }

    return read


async def judged(rt: Runtime, proposal: Fields) -> dict[str, bytes]:
    """What verify, the opinions and the result say."""
    report = rt.verify(proposal)
    opinions = rt.opinions(proposal)
    result = await rt.execute(proposal)
    assert result["a"].status == "rejected"
    return {"report": encode(report), "opinions": encode(opinions), "result": encode(result)}


def _raises(text: str) -> Callable[[Action], None]:
    def policy(action: Action) -> None:
        raise ValueError(f"{text} is not allowed: {action.parameters}")

    return policy


def _raises_its_own(text: str) -> Callable[[Action], None]:
    kind = type("Denied", (Exception,), {"__str__": lambda self: text, "__repr__": lambda self: text})

    def policy(action: Action) -> None:
        raise kind(text) from ValueError(text)

    return policy


def _returns(text: str) -> Callable[[Action], Any]:
    return lambda action: {"reason": text}


def _exits(text: str) -> Callable[[Action], None]:
    def policy(action: Action) -> None:
        raise SystemExit(text)

    return policy


@pytest.mark.parametrize("make", [_raises, _raises_its_own, _returns, _exits])
async def test_an_error_of_a_function_does_not_tell_the_value(
    tmp_path: Path, recorder: Recorder, written: Callable[[Runtime], dict[str, bytes]], make: Any
) -> None:
    canary = Canary()
    with open_database(str(tmp_path / "events.db")) as database:
        sinks = [JsonlSink(tmp_path / "log.jsonl"), SqlEvents(database)]
        rt = Runtime(
            tools=[recorder.tool("t")], policies=[("p", make(canary.text))], events=EventLog(sinks=sinks)
        )

        said = await judged(rt, plan(call("a", "t", {"p": canary.text})))
        await rt.events.settle()

    said |= written(rt)
    assert recorder.calls == []
    assert b"policy 'p': it " in said["result"]
    assert leaks({"c": canary}, said) == []


INTEGERS = {
    "type": "object",
    "properties": {"p": {"type": "integer"}, "q": {"enum": [1, 2]}},
    "additionalProperties": False,
}


def strict(recorder: Recorder) -> Tool:
    return recorder.tool("t", parameters=INTEGERS)


@pytest.mark.parametrize(
    "rule",
    [
        DenyToolParam(tool="t", param="p", contains="marked"),
        DenyToolParam(tool="t", param="p", presence=True),
        DenyToolParam(tool="t", param="p", below=1),
        AllowToolParam(tool="t", param="p", values=[1]),
        DenyKeyword(keyword="marked"),
        DenyToolParamMatching(tool="t", param="p", pattern="marked"),
        DenyToolParamMatching(tool="t", param="p", pattern="("),
        DenyTool(tool="t", path="marked*"),
        FlowRule(mark="untrusted", tool="t", param="p"),
        FlowRule(mark="secret", tool="t"),
    ],
    ids=lambda rule: type(rule).__name__,
)
@pytest.mark.parametrize("asks", [False, True], ids=["denies", "asks"])
async def test_the_words_of_a_schema_do_not_tell_a_value_that_a_rule_denies(
    tmp_path: Path,
    recorder: Recorder,
    written: Callable[[Runtime], dict[str, bytes]],
    rule: Rule,
    asks: bool,
) -> None:
    """It fits neither the schema nor the rule: the schema is asked first, and quotes what does not fit."""
    canary = Canary()
    with open_database(str(tmp_path / "events.db")) as database:
        sinks = [JsonlSink(tmp_path / "log.jsonl"), SqlEvents(database)]
        rt = Runtime(
            tools=[strict(recorder), recorder.tool("source", canary.text, risk="read_only")],
            policies=[("r", replace(rule, unless_approved=asks))],
            events=EventLog(sinks=sinks),
        )
        if isinstance(rule, FlowRule):
            rt.add_policy("m", MarkOutput(tool="source", marks=[rule.mark]))
            proposal = plan(call("s", "source"), call("a", "t", {"p": "$s.output"}, failure_behavior="skip"))
        else:
            proposal = plan(call("a", "t", {"p": canary.text}, failure_behavior="skip"))

        report = rt.verify(proposal)
        result = await rt.execute(proposal)
        await rt.events.settle()

    about = list(rt.events.query(action="a"))
    lines = (tmp_path / "log.jsonl").read_bytes().splitlines()
    said = {
        "report": encode(report),
        "error": str(result["a"].error).encode(),
        "events": encode(about),
        # What the source answered is its own output, and told as such.
        "log.jsonl": b"\n".join(line for line in lines if json.loads(line).get("action_id") == "a"),
    }
    assert result["a"].status == "rejected"
    assert leaks({"c": canary}, said) == []
