"""Every finding of verify is in the reference, with severity and tier, and every one there can be found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

from placet import (
    Calls,
    CapabilitySet,
    CostBudget,
    DenyKeyword,
    DenyTool,
    DenyToolParam,
    FlowRule,
    MemoryApprovals,
    RateLimitTool,
    RequireState,
    Runtime,
    Scope,
    ToolSchema,
    TraceRule,
    tool,
)
from placet.verify.report import Issue
from tests.docs.pages import REFERENCE, codes_in, rows_of, section

VERIFY = REFERENCE / "verify.md"
# Not `from placet import verify`: what this names must not depend on what was imported before.
verify = import_module("placet.verify.verify").verify

Fields = dict[str, Any]


class Row(NamedTuple):
    """One message of the reference."""

    severity: str
    tier: str
    message: str
    pattern: re.Pattern[str]

    def fits(self, issue: Issue) -> bool:
        return (issue.severity, issue.tier) == self[:2] and self.pattern.fullmatch(issue.message) is not None


def reference() -> list[Row]:
    """The messages of the reference; a word in capitals stands for any text."""
    rows: list[Row] = []
    infos = section(VERIFY, "Infos")
    before, after = infos.split("WHY is one of:")
    reasons = "|".join(re.escape(code) for row in rows_of(after) for code in codes_in(row[0]))
    for text, severity in (
        (section(VERIFY, "Errors"), "error"),
        (section(VERIFY, "Warnings"), "warning"),
        (before, "info"),
    ):
        for row in rows_of(text):
            message = row[0].strip("`")
            tier = row[1].strip("`") if severity == "warning" else "decision_procedure"
            if severity == "info":
                pattern = re.escape(message).replace("WHY", f"(?:{reasons})")
            else:
                pattern = re.escape(message)
            pattern = re.sub(r"\b[A-Z]+\b", ".+", pattern)
            rows.append(Row(severity, tier, message, re.compile(pattern)))
    return rows


@tool(risk="read_only")
async def look(at: str) -> dict[str, Any]:
    """Look at something."""
    return {"at": at}


@tool(reversibility="compensable")
async def book(n: int = 1) -> None:
    """Take something."""


@tool(risk="idempotent")
async def free(n: int = 1) -> None:
    """Give it back."""


@tool
async def mail() -> None:
    """Send something."""


@tool(risk="idempotent")
async def put(path: str) -> None:
    """Write a file."""


@tool(risk="read_only", marks=["untrusted"])
async def page() -> str:
    """What anybody may have written."""
    return ""


TOOLS = [look, book, free, mail, put, page]


def runtime(**options: Any) -> Runtime:
    return Runtime(tools=TOOLS, **options)


def plan(*actions: Fields) -> Fields:
    return {"actions": list(actions)}


def write(id: str, key: str = "k", value: Any = 1, **fields: Any) -> Fields:
    return {"id": id, "type": "state_write", "parameters": {"key": key, "value": value}, **fields}


def call(id: str, tool: str = "mail", **fields: Any) -> Fields:
    return {"id": id, "tool": tool, **fields}


def undone_by(kind: str, name: str, **parameters: Any) -> Fields:
    if kind == "action_ref":
        return {"type": kind, "action_id": name}
    return {"type": kind, "tool": name, "parameters": parameters}


SKIP = {"failure_behavior": "skip"}

PLANS = [
    # Refused.
    plan(call("a"), call("a")),
    plan(call("a", dependencies=["b"]), call("b", dependencies=["a"])),
    plan(call("a", dependencies=["nobody"])),
    plan(call("a", "look", parameters={"at": "$nobody.output"})),
    plan(call("a", "book", compensation=undone_by("action_ref", "nobody"))),
    plan(call("a", "book", compensation=undone_by("action_ref", "a"))),
    plan(call("a", "book", compensation=undone_by("tool", "free", n="$nobody.output"))),
    # Rejected.
    plan({"id": "a"}, call("b", "lok"), call("c", invocation_mode="streaming")),
    plan(call("a", "look", **SKIP), call("b", "look", parameters={"at": 7}, **SKIP)),
    plan({"id": "a", "type": "state_read"}),
    plan(call("a", "book", reversibility="compensable")),
    plan(call("a", "book")),
    plan(call("a", "book", compensation=undone_by("tool", "fre"), **SKIP)),
    plan(call("a", "book", compensation=undone_by("tool", "free", n="x"))),
    plan(write("a"), call("b", "look", parameters={"at": "$a.output.x"})),
    plan(call("a", preconditions=[{"key": "k", "operator": "gt", "value": 3}], **SKIP)),
    plan(call("a", preconditions=[{"key": "k", "operator": "exists"}], **SKIP)),
    plan(call("a", assumptions=[{"key": "k", "expected_value": 3}], state_dependencies=["gone"])),
    plan(write("a", "n"), call("b", assumptions=[{"key": "n", "read_version": 1}])),
    plan(call("a", state_dependencies=["late"]), write("b", "late")),
    # Failed, or skipped.
    plan(
        {
            "id": "a",
            "type": "assertion",
            "parameters": {"key": "k", "expected": 9},
            "failure_behavior": "retry",
        },
        call("b", dependencies=["a"]),
        call("c", dependencies=["b"]),
        call("d", "nobody", **SKIP),
        call("e", dependencies=["d"]),
    ),
    plan(
        call("a", "book", compensation=undone_by("action_ref", "b")),
        call("b", "nobody"),
        call("c", dependencies=["b"]),
    ),
    plan(call("a", "known", **SKIP)),
    # Warnings.
    plan({"id": "a", "tool": "mail", "tol": 1, "colour": 2}, call("b")),
    plan(),
    plan(call("a", idempotent=True, reversibility="reversible", compensation=undone_by("tool", "free"))),
    plan(write("a"), write("b")),
    plan(call("a"), call("b"), call("c")),
    # Undecided.
    plan(
        call("a", "look", parameters={"at": "x"}),
        call("b", "look", parameters={"at": "$a.output.next"}, **SKIP),
        write("c", "k", "$a.output"),
        {"id": "d", "type": "assertion", "parameters": {"key": "k", "expected": 1}},
        write("e", "$b.output", 1),
        call("f", preconditions=[{"key": "z"}]),
        call("g", state_dependencies=["z"], assumptions=[{"key": "z", "expected_value": 1}]),
    ),
    plan(
        call("a", "look", parameters={"at": "x"}),
        call("b", "look", parameters={"at": "$a.output.next"}, **SKIP),
        call("c", "nobody", dependencies=["b"]),
        call("d"),
    ),
    plan(
        call("a", "look", parameters={"at": "x"}),
        write("b", "z", "$a.output.next", **SKIP),
        call("c", preconditions=[{"key": "z", "operator": "exists"}]),
    ),
    plan(write("a", "n"), call("b", assumptions=[{"key": "n", "read_version": 99}])),
]


def findings() -> Iterator[Issue]:
    """What verify says about all of these, and about plans under rules of every sort."""
    for each in PLANS:
        rt = runtime(state={"k": 1, "n": 1})
        rt.register(ToolSchema(name="known"))
        yield from rt.verify(each).issues
        yield from verify(each).issues
    mails = plan(call("a"), call("b"))
    yield from runtime().verify(mails, max_actions=1).issues
    yield from runtime().verify(mails, session="none", scope=Scope(tenant="t")).issues
    yield from runtime(capabilities=CapabilitySet(max_actions=1)).verify(mails).issues
    few = CapabilitySet(allowed_tools=["look"], allowed_state_keys=["z"])
    yield from runtime(capabilities=few).verify(plan(call("a", **SKIP), write("b", **SKIP))).issues
    yield from runtime(budget=CostBudget(max_actions=1, max_cost=2.0)).verify(mails).issues
    frees = plan(*(call(f"f{n}", "free", idempotent=True) for n in range(3)))
    yield from runtime(budget=CostBudget(max_tool_calls=2)).verify(frees).issues
    rt = runtime()
    rt.add_policy("green", RequireState(tool="mail", key="tests"))
    rt.add_policy("slow", RateLimitTool(tool="mail", max_calls=1, interval_secs=1))
    rt.add_policy("words", DenyKeyword(tool="look", keyword="x"))
    yield from rt.verify(mails).issues
    follow = plan(
        call("a", "look", parameters={"at": "y"}),
        call("b", "look", parameters={"at": "$a.output.at"}, **SKIP),
        write("c", "tests", "$b.output.at", **SKIP),
        call("d"),
    )
    yield from rt.verify(follow).issues
    yield from what_people_are_asked()
    yield from what_nobody_knows()


def what_nobody_knows() -> Iterator[Issue]:
    """Under rules that name what is not there."""
    denied = CapabilitySet(denied_tools=["zzz", "mial", "zzz*", "mial*"])
    yield from runtime(capabilities=denied).verify(plan(call("a"))).issues
    named = ("look", "zzz"), ("look", "att"), ("p*", "zzz"), ("p*", "pathh")
    for name, param in named:
        rule = DenyToolParam(tool=name, param=param, presence=True)
        yield from runtime(policies=[("p", rule)]).verify(plan(call("a"))).issues


def what_people_are_asked() -> Iterator[Issue]:
    """Under postures, and under rules that look back or at where data comes from."""
    mails = plan(call("a"), call("b"))
    yield from runtime(permissions="cautious").verify(mails).issues
    yield from runtime(permissions="balanced").verify(mails).issues
    there = MemoryApprovals()
    asking = runtime(permissions="balanced", approvals=there)
    yield from asking.verify(mails).issues
    booked = undone_by("tool", "mail")
    yield from asking.verify(plan(call("a", "free"), call("b", "book", compensation=booked))).issues
    paths = plan(
        call("a", "look", parameters={"at": "x"}), call("b", "put", parameters={"path": "$a.output"})
    )
    yield from asking.verify(paths).issues
    rt = runtime(approvals=there)
    rt.add_policy("ask", DenyTool(tool="free", unless_approved=True))
    rt.add_policy("looked", TraceRule(tool="mail", only_after=Calls(tool="look", path="x")))
    rt.add_policy("once", TraceRule(tool="put", path="/tmp/*", at_most=1))
    rt.add_policy("ours", FlowRule(mark="untrusted", tool="look", param="at"))
    yield from rt.verify(plan(call("f", "free"), call("a"), call("p", "page"))).issues
    doubtful = plan(
        call("p", "page"),
        call("f", "look", parameters={"at": "$p.output"}, **SKIP),
        call("l", "look", parameters={"at": "y"}),
        call("q", "put", parameters={"path": "$l.output.at"}),
        call("r", "put", parameters={"path": "/tmp/x"}),
        write("w", "$l.output.at", "$p.output"),
        {"id": "s", "type": "state_read", "parameters": {"key": "k2"}, "dependencies": ["w"]},
        call("g", "look", parameters={"at": "$s.output"}, **SKIP),
        call("x", "look", parameters={"at": "$l.output.at"}),
        call("m"),
    )
    yield from rt.verify(doubtful).issues
    rt = runtime(policies=[("never", DenyTool(tool="free"))])
    yield from rt.verify(plan(call("a", "book", compensation=undone_by("tool", "free")))).issues


def test_every_finding_is_in_the_reference_as_it_is() -> None:
    rows = reference()

    lost = {f"{i.severity} ({i.tier}): {i.message}" for i in findings() if not any(r.fits(i) for r in rows)}

    assert lost == set()


def test_every_finding_of_the_reference_can_be_found() -> None:
    found = list(findings())

    assert [row.message for row in reference() if not any(map(row.fits, found))] == []
