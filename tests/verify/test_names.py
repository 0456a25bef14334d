"""Rules that name a tool or a parameter that is not there, and fields of a plan that mean nothing."""

from __future__ import annotations

from typing import Any

import pytest

from placet import (
    AllowToolParam,
    Calls,
    CapabilitySet,
    DenyKeyword,
    DenyTool,
    DenyToolParam,
    DenyToolParamMatching,
    FlowRule,
    RateLimitTool,
    RequireState,
    Runtime,
    ToolSchema,
    TraceRule,
    tool,
)
from placet.policy.case import Rule
from placet.policy.engine import PolicySet
from placet.tools.registry import Registry
from placet.verify.names import NameWarning, rule_warnings


@tool
def refund(order: str, amount: int = 10) -> str:
    """Give money back."""
    return f"{amount} for {order}"


@tool(name="mail.send", risk="network")
def send(to: str, text: str = "") -> str:
    """Send a mail."""
    return to


@tool(risk="read_only", labels=["tests"])
def run_tests() -> str:
    """Run the tests."""
    return "green"


PLAN = {"actions": [{"id": "a", "tool": "refund", "parameters": {"order": "o1", "amount": 9000}}]}


def runtime(*rules: Rule, **options: Any) -> Runtime:
    return Runtime(tools=[refund, send, run_tests], policies=[("r", rule) for rule in rules], **options)


def found(warnings: list[NameWarning]) -> list[tuple[str, str, str | None]]:
    return [(w.kind, w.name, w.nearest) for w in warnings]


@pytest.mark.parametrize(
    ("rule", "name", "nearest"),
    [
        (DenyTool(tool="refnud"), "refnud", "refund"),
        (DenyTool(tool="Refund"), "Refund", "refund"),
        (DenyTool(tool="zzz"), "zzz", None),
        (DenyTool(tool="refnud*"), "refnud*", "refund"),
        (DenyTool(tool="mial.*"), "mial.*", "mail.send"),
        (DenyTool(tool="*.sned"), "*.sned", "mail.send"),
        (DenyTool(tool="zzz*"), "zzz*", None),
        (DenyToolParam(tool="refnud", param="amount", above=100), "refnud", "refund"),
        (AllowToolParam(tool="refnud", param="amount", values=[1]), "refnud", "refund"),
        (DenyToolParamMatching(tool="refnud", param="order", pattern="x"), "refnud", "refund"),
        (DenyKeyword(tool="refnud", keyword="x"), "refnud", "refund"),
        (RequireState(tool="refnud", key="k"), "refnud", "refund"),
        (RateLimitTool(tool="refnud", max_calls=1, interval_secs=1), "refnud", "refund"),
        (TraceRule(tool="refnud", at_most=1), "refnud", "refund"),
        (TraceRule(tool="refund", only_after=Calls(tool="run_tets")), "run_tets", "run_tests"),
        (TraceRule(tool="refund", never_with=Calls(tool="mail.sned")), "mail.sned", "mail.send"),
        (FlowRule(tool="refnud", mark="untrusted", param="amount"), "refnud", "refund"),
    ],
)
def test_a_rule_that_names_no_known_tool_is_a_warning(rule: Rule, name: str, nearest: str | None) -> None:
    rt = runtime(rule)

    report = rt.verify(PLAN)

    (warned,) = rt.rule_warnings()
    assert (warned.kind, warned.rule, warned.name, warned.nearest) == ("unknown_tool", "r", name, nearest)
    assert [(i.action_id, i.severity, i.message) for i in report.warnings if "'r'" in i.message] == [
        (None, "warning", warned.message)
    ]


@pytest.mark.parametrize(
    "rule",
    [
        DenyTool(tool="refund"),
        DenyTool(tool="ref*"),
        DenyTool(tool="*.send"),
        DenyTool(tool="*"),
        DenyTool(tool="**"),
        DenyTool(risk="destructive"),
        DenyTool(label="nobody"),
        DenyKeyword(keyword="x"),
        TraceRule(tool="refund", only_after=Calls(label="tests")),
        DenyToolParam(tool="refund", param="amount", above=1),
        DenyToolParam(tool="*", param="amount", above=1),
        DenyToolParam(tool="*", param="utterly_else", presence=True),
        FlowRule(tool="mail.*", mark="untrusted", param=["to", "text.deep"]),
        FlowRule(mark="secret"),
        DenyTool(tool="shell"),
        DenyTool(tool="infer"),
        DenyTool(tool="loop_*"),
        DenyTool(tool="apply_patch"),
    ],
)
def test_a_rule_about_what_is_known_is_no_warning(rule: Rule) -> None:
    assert runtime(rule).rule_warnings() == []


@pytest.mark.parametrize(
    ("rule", "name", "nearest"),
    [
        (DenyToolParam(tool="refund", param="amuont", above=100), "amuont", "amount"),
        (DenyToolParam(tool="ref*", param="amuont", above=100), "amuont", "amount"),
        (DenyToolParam(tool="*", param="amuont", above=100), "amuont", "amount"),
        (AllowToolParam(tool="refund", param="zzz", values=[1]), "zzz", None),
        (DenyToolParamMatching(tool="mail.send", param="txt", pattern="x"), "txt", "text"),
        (FlowRule(tool="mail.send", mark="untrusted", param="too"), "too", "to"),
        (FlowRule(tool="mail.send", mark="untrusted", param=["to", "txt.deep"]), "txt", "text"),
    ],
)
def test_a_rule_that_names_no_parameter_of_its_tool_is_a_warning(
    rule: Rule, name: str, nearest: str | None
) -> None:
    rt = runtime(rule)

    (warned,) = rt.rule_warnings()
    assert (warned.kind, warned.rule, warned.name, warned.nearest) == (
        "unknown_parameter",
        "r",
        name,
        nearest,
    )
    assert warned.message in [i.message for i in rt.verify(PLAN).warnings]


LISTED = {"properties": {"amount": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("parameters", "is_closed"),
    [
        ({"type": "object", **LISTED, "additionalProperties": False}, True),
        ({"type": "object", **LISTED}, True),
        ({"type": "object", "properties": {}, "additionalProperties": False}, True),
        ({"type": "object", **LISTED, "additionalProperties": True}, False),
        ({"type": "object", **LISTED, "additionalProperties": {"type": "string"}}, False),
        ({"type": "object", **LISTED, "patternProperties": {"^x": {}}}, False),
        ({"type": "object", **LISTED, "allOf": [{"properties": {"amuont": {}}}]}, False),
        ({"type": "object", **LISTED, "$ref": "#/$defs/x", "$defs": {"x": {}}}, False),
        ({"type": "object"}, False),
        ({}, False),
    ],
)
def test_parameters_are_known_where_the_schema_lists_them_all(
    parameters: dict[str, Any], is_closed: bool
) -> None:
    rt = Runtime(policies=[("r", DenyToolParam(tool="pay", param="amuont", above=1))])
    rt.register(ToolSchema(name="pay", parameters=parameters), lambda whole: None)

    assert [w.kind for w in rt.rule_warnings()] == ["unknown_parameter"] * is_closed


def test_a_parameter_that_one_of_several_tools_has_is_known() -> None:
    rt = runtime(DenyToolParam(tool="*e*", param="amount", above=1))

    assert rt.rule_warnings() == []


def test_it_is_said_once_for_a_rule_and_plan() -> None:
    rt = runtime(DenyTool(tool="refnud"))
    many = [{"id": f"a{n}", "tool": "refund", "parameters": {"order": f"o{n}"}} for n in range(50)]

    assert len([i for i in rt.verify({"actions": many}).warnings if "'refnud'" in i.message]) == 1


async def test_a_warning_keeps_nothing_from_running() -> None:
    rt = runtime(DenyTool(tool="refnud"))

    assert rt.verify(PLAN).valid
    assert (await rt.execute(PLAN)).outcome == "succeeded"


def test_a_plan_that_is_refused_has_the_warnings_too() -> None:
    rt = runtime(DenyTool(tool="refnud"))
    cycle = [{"id": "a", "tool": "refund", "dependencies": ["a"]}]

    report = rt.verify({"actions": cycle})

    assert not report.valid
    assert [w.message for w in rt.rule_warnings()] == [i.message for i in report.warnings]


def test_rules_of_a_session_are_looked_at_in_that_session() -> None:
    rt = runtime()
    session = rt.open_session()
    rt.add_policy("quiet", DenyTool(tool="refnud"), session=session)

    assert rt.rule_warnings() == []
    assert found(rt.rule_warnings(session=session)) == [("unknown_tool", "refnud", "refund")]
    assert any("'quiet'" in i.message for i in rt.verify(PLAN, session=session).warnings)
    assert not rt.verify(PLAN).warnings


def test_a_denied_tool_of_the_capabilities_that_is_not_known_is_a_warning() -> None:
    """One that is allowed and not there denies nothing by mistake."""
    rt = runtime(capabilities=CapabilitySet(allowed_tools=["re*", "zzz"], denied_tools=["refnud", "mail.*"]))

    assert [(w.rule, w.name, w.nearest) for w in rt.rule_warnings()] == [("capabilities", "refnud", "refund")]


def test_what_is_known_is_looked_up_anew_when_tools_or_rules_come_and_go() -> None:
    rt = runtime()
    assert rt.rule_warnings() == []

    rt.add_policy("late", DenyTool(tool="pay"))
    assert [w.rule for w in rt.rule_warnings()] == ["late"]
    rt.register(ToolSchema(name="pay"), lambda whole: None)
    assert rt.rule_warnings() == []
    rt.tools.remove("pay")
    assert [w.rule for w in rt.rule_warnings()] == ["late"]
    rt.policies.remove("late")
    assert rt.rule_warnings() == []


def test_a_runtime_with_fewer_tools_knows_those_that_the_whole_one_has() -> None:
    rules = [("a", DenyTool(tool="mail.send")), ("b", DenyTool(tool="zzz"))]
    whole = Runtime(tools=[refund, send], policies=rules)

    assert [w.rule for w in whole.narrowed(["refund"]).rule_warnings()] == ["b"]
    assert [w.rule for w in whole.beside([run_tests], folder=".").rule_warnings()] == ["b"]


def test_a_function_names_nothing() -> None:
    rt = Runtime(policies=[lambda action: None])

    assert rt.rule_warnings() == []


# What is known


def warnings_of(rule: Rule, tools: Registry, *, is_general: bool = False) -> list[NameWarning]:
    policies = PolicySet(lambda: 0.0)
    policies.add("r", rule)
    return rule_warnings(policies, tools, general={"r"} if is_general else ())


def test_a_tool_that_is_withheld_is_known() -> None:
    registry = Registry(lambda made: "not under process" if made.name == "refund" else None)
    registry.add(refund)

    assert registry.names() == []
    assert warnings_of(DenyTool(tool="refund"), registry) == []
    assert warnings_of(DenyToolParam(tool="refund", param="whatever", above=1), registry) == []
    assert found(warnings_of(DenyTool(tool="refnud"), registry)) == [("unknown_tool", "refnud", "refund")]


def test_a_name_that_somebody_else_has_is_known() -> None:
    registry = Registry()
    registry.elsewhere.update(("files.read", "tracker.*"))
    registry.hints["speak"] = "no model can"

    for name in ("files.read", "files.*", "tracker.open", "tracker.*", "track*", "*", "speak"):
        assert warnings_of(DenyTool(tool=name), registry) == [], name
    for name in ("files.write", "trackers.open", "file*.open"):
        assert found(warnings_of(DenyTool(tool=name), registry))[0][:2] == ("unknown_tool", name)


def test_a_rule_that_holds_in_many_places_is_a_warning_only_for_a_likely_slip() -> None:
    registry = Registry()
    registry.add(refund)

    assert warnings_of(DenyTool(tool="deploy"), registry, is_general=True) == []
    assert found(warnings_of(DenyTool(tool="refnud"), registry, is_general=True)) == [
        ("unknown_tool", "refnud", "refund")
    ]
    slip = DenyToolParam(tool="refund", param="amuont", above=1)
    assert found(warnings_of(slip, registry, is_general=True)) == [("unknown_parameter", "amuont", "amount")]
    far = DenyToolParam(tool="refund", param="zzz", above=1)
    assert warnings_of(far, registry, is_general=True) == []


def test_every_tool_that_comes_with_placet_is_known(tmp_path: Any) -> None:
    from placet.coder.asking import TOOL as ASK
    from placet.inference.tools import NOT_OFFERED
    from placet.loops.acting import HOOK
    from placet.loops.executors import apply_patch, callback, command, commit, record, webhook
    from placet.loops.verdict import REPORT
    from placet.loops.verdict import TOOL as VERDICT
    from placet.sandbox.workspace import Workspace
    from placet.tools.builtin import ALL_NAMES, BASIC
    from placet.tools.builtin.code import code_tools
    from placet.tools.builtin.git import NAME as COMMIT

    workspace = Workspace(tmp_path)
    executors = {
        made.name
        for module in (apply_patch, callback, command, commit, record, webhook)
        for made in vars(module).values()
        if isinstance(made, type)
        and made.__module__ == module.__name__
        and isinstance(vars(made).get("name"), str)
    }

    assert len(executors) == 6
    assert {
        *BASIC,
        *(made.name for made in code_tools(workspace)),
        *NOT_OFFERED,
        *("infer", "classify", COMMIT),
        *(ASK, HOOK, VERDICT, REPORT),
        *(f"loop_{name}" for name in executors),
    } == ALL_NAMES
    workspace.close()


def test_a_rule_of_ones_own_may_mean_something_else_by_param() -> None:
    class Mine(Rule, frozen=True, kw_only=True, tag="mine"):
        param: int = 5

        def check(self, case: Any) -> str | None:
            return None

    assert runtime(Mine(tool="refund")).rule_warnings() == []


def test_a_long_name_is_cut_and_control_characters_are_shown() -> None:
    rt = runtime(DenyTool(tool="\x1b" + "x" * 5000))

    (issue,) = rt.verify(PLAN).warnings

    assert "\x1b" not in issue.message
    assert len(issue.message) < 600
