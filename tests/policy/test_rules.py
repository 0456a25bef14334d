"""Every declared rule, with the cases at its edges."""

from __future__ import annotations

import math
from typing import Any

import pytest

from placet import (
    AllowToolParam,
    DenyKeyword,
    DenyTool,
    DenyToolParam,
    DenyToolParamMatching,
    FlowRule,
    MemoryApprovals,
    MemoryJournal,
    RateLimitTool,
    RequireState,
    Runtime,
)
from placet.errors import RuleError, UsageError
from placet.ir.action import Action
from placet.policy.case import Case
from placet.policy.engine import PolicySet
from placet.policy.marks import UNMARKED
from placet.state.memory import MemoryState
from placet.testing import FakeClock
from tests.runtime.plans import Recorder, call, claim, plan, read, statuses, write


async def verdict(rule: Any, action: dict[str, Any], state: dict[str, Any] | None = None) -> str | None:
    """What a rule named 'r' says to one action; None if it lets it pass."""
    recorder = Recorder()
    names = {action["tool"]} if "tool" in action else set()
    rt = Runtime(tools=[recorder.tool(name) for name in names], policies=[("r", rule)], state=state)

    result = (await rt.execute(plan(action)))[action["id"]]

    if result.status == "succeeded":
        return None
    assert result.status == "rejected"
    assert recorder.calls == []
    prefix = "policy 'r': "
    assert (result.error or "").startswith(prefix)
    return (result.error or "").removeprefix(prefix)


def shell(**parameters: Any) -> dict[str, Any]:
    return call("a", "shell", parameters)


# deny_tool


async def test_deny_tool_denies_the_tool() -> None:
    assert await verdict(DenyTool(tool="shell"), shell()) == "tool 'shell' is denied"


@pytest.mark.parametrize(
    ("pattern", "tool", "denied"),
    [
        ("shell", "shell", True),
        ("shell", "shell_exec", False),
        ("shell", "Shell", False),
        ("shell*", "shell_exec", True),
        ("*shell", "my.shell", True),
        ("mail.*", "mail.send", True),
        ("mail.*", "mailXsend", False),
        ("*", "anything", True),
        ("a*c*e", "abcde", True),
        ("a*c*e", "abdce!", False),
        ("[ab]", "a", False),
        ("?", "a", False),
    ],
)
async def test_a_pattern_means_exactly_what_is_written(pattern: str, tool: str, denied: bool) -> None:
    found = await verdict(DenyTool(tool=pattern), call("a", tool))

    assert (found is not None) is denied


async def test_the_person_may_give_a_reason() -> None:
    assert await verdict(DenyTool(tool="shell", reason="not on my machine"), shell()) == "not on my machine"


@pytest.mark.parametrize("action", [write("a", "k", 1), read("a", "k"), claim("a", "k", None)])
async def test_a_rule_about_tools_does_not_touch_actions_on_the_state(action: dict[str, Any]) -> None:
    assert await verdict(DenyTool(tool="*"), action) is None


# deny_tool_param


@pytest.mark.parametrize(
    ("value", "denied"),
    [
        ("rm -rf /", True),
        ("sudo RM -RF /", True),
        ("ls", False),
        ("", False),
        (["ls", "rm -rf ."], True),
        ({"cmd": {"deep": "rm -rf ."}}, True),
        ({"rm -rf": 1}, True),
        (5, False),
        (None, False),
    ],
)
async def test_deny_tool_param_contains(value: Any, denied: bool) -> None:
    rule = DenyToolParam(tool="shell", param="cmd", contains="rm -rf")

    assert (await verdict(rule, shell(cmd=value)) is not None) is denied


async def test_contains_sees_numbers_as_they_are_written() -> None:
    rule = DenyToolParam(tool="shell", param="port", contains="22")

    assert await verdict(rule, shell(port=2222)) is not None
    assert await verdict(rule, shell(port=80)) is None


@pytest.mark.parametrize(
    ("wanted", "value", "denied"),
    [
        (5, 5.0, True),
        (True, 1, False),
        (None, None, True),
        ("prod", "prod", True),
        ("prod", "PROD", False),
        (["a"], ["a"], True),
        ({"x": 1}, {"x": 1.0}, True),
        (0, False, False),
    ],
)
async def test_deny_tool_param_equals(wanted: Any, value: Any, denied: bool) -> None:
    rule = DenyToolParam(tool="shell", param="target", equals=wanted)

    assert (await verdict(rule, shell(target=value)) is not None) is denied


@pytest.mark.parametrize("value", ["x", "", None, False, 0])
async def test_deny_tool_param_presence(value: Any) -> None:
    rule = DenyToolParam(tool="shell", param="force", presence=True)

    assert await verdict(rule, shell(force=value)) == "parameter 'force' is not allowed"
    assert await verdict(rule, shell(other=value)) is None


@pytest.mark.parametrize(
    "fields",
    [{"contains": "x"}, {"equals": None}, {"presence": True}, {"above": 1}, {"below": 1}],
)
async def test_deny_tool_param_says_nothing_to_a_parameter_that_is_not_given(fields: dict[str, Any]) -> None:
    assert await verdict(DenyToolParam(tool="shell", param="p", **fields), shell(q="x")) is None
    assert await verdict(DenyToolParam(tool="other", param="p", **fields), shell(p="x")) is None


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"contains": "x", "equals": "x"},
        {"equals": 1, "presence": True},
        {"above": 1, "below": 0},
        {"equals": 1, "above": 0},
    ],
)
def test_deny_tool_param_needs_exactly_one_test(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="exactly one") as caught:
        DenyToolParam(tool="shell", param="p", **fields)

    assert isinstance(caught.value, RuleError)
    assert caught.value.code == "usage.rule"


NO_NUMBERS = ["900", "", True, False, None, [900], {"amount": 900}]


@pytest.mark.parametrize(
    ("limit", "value", "denied"),
    [
        (100, 100, False),
        (100, 100.0, False),
        (100, 100.5, True),
        (100, 101, True),
        (100, -5, False),
        (0.5, 1, True),
        (0.5, 0.25, False),
        (-1, 0, True),
        (100, 10**400, True),
        (10**400, 10**400, False),
        (10**400, 10**400 + 1, True),
        (10**400, 1e308, False),
        (2**53, 2**53 + 1, True),
        (float(2**53), 2**53 + 1, True),
        *((100, value, True) for value in NO_NUMBERS),
    ],
)
async def test_deny_tool_param_above(limit: float, value: Any, denied: bool) -> None:
    rule = DenyToolParam(tool="shell", param="amount", above=limit)

    assert (await verdict(rule, shell(amount=value)) is not None) is denied


@pytest.mark.parametrize(
    ("limit", "value", "denied"),
    [
        (10, 10, False),
        (10, 10.0, False),
        (10, 9.99, True),
        (10, -(10**400), True),
        (10, 10**400, False),
        (0, 0, False),
        (0, -0.0, False),
        (0, -1, True),
        *((10, value, True) for value in NO_NUMBERS),
    ],
)
async def test_deny_tool_param_below(limit: float, value: Any, denied: bool) -> None:
    rule = DenyToolParam(tool="shell", param="amount", below=limit)

    assert (await verdict(rule, shell(amount=value)) is not None) is denied


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("limits", [{"above": 100}, {"below": 100}])
def test_a_value_that_is_no_finite_number_is_denied(limits: dict[str, Any], value: float) -> None:
    """No plan holds one, but a rule may be asked by other code."""
    rule = DenyToolParam(tool="shell", param="amount", **limits)
    action = Action(id="a", tool="shell", parameters={"amount": value})

    assert rule.check(Case(action, None, MemoryState(), UNMARKED)) is not None


@pytest.mark.parametrize(
    ("schema", "denied"),
    [
        ({"type": "integer", "default": 9000}, True),
        ({"type": "integer", "default": 100}, False),
        ({"type": ["integer", "null"], "default": None}, True),
        ({"type": "integer"}, False),
        (True, False),
    ],
)
async def test_a_parameter_that_is_left_out_counts_as_its_declared_default(schema: Any, denied: bool) -> None:
    recorder = Recorder()
    parameters = {"type": "object", "properties": {"amount": schema}}
    rule = DenyToolParam(tool="refund", param="amount", above=100)
    rt = Runtime(tools=[recorder.tool("refund", parameters=parameters)], policies=[("r", rule)])
    proposal = plan(call("a", "refund"))

    report = rt.verify(proposal)
    result = await rt.execute(proposal)

    assert report.valid is not denied
    assert result["a"].status == ("rejected" if denied else "succeeded")
    assert bool(recorder.calls) is not denied


async def test_an_amount_above_the_limit_is_asked_about() -> None:
    recorder = Recorder()
    rule = DenyToolParam(tool="refund", param="amount", above=100, unless_approved=True)
    ledger = MemoryApprovals()
    rt = Runtime(
        tools=[recorder.tool("refund")],
        policies=[("r", rule)],
        approvals=ledger,
        journal=MemoryJournal(),
        patience_s=0,
    )

    small = await rt.execute(plan(call("a", "refund", {"amount": 100})))
    large = await rt.execute(plan(call("b", "refund", {"amount": 101})))

    assert (small.outcome, large.outcome) == ("succeeded", "waiting")
    assert [asked.action_id for asked in ledger.pending()] == ["b"]
    assert len(recorder.calls) == 1


@pytest.mark.parametrize("limit", [math.nan, math.inf, -math.inf, True, "100", [100]])
@pytest.mark.parametrize("key", ["above", "below"])
def test_a_limit_is_a_finite_number(key: str, limit: Any) -> None:
    with pytest.raises(RuleError, match=f"'{key}'"):
        DenyToolParam(tool="shell", param="amount", **{key: limit})


# allow_tool_param


@pytest.mark.parametrize(
    ("parameters", "denied"),
    [
        ({"branch": "main"}, False),
        ({"branch": 5.0}, False),
        ({"branch": "feature/x-1"}, False),
        ({"branch": "Main"}, True),
        ({"branch": "feature/x y"}, True),
        ({"branch": "x feature/x"}, True),
        ({"branch": "feature/x\n"}, True),
        ({"branch": None}, True),
        ({"branch": ["main"]}, True),
        ({}, True),
        ({"other": "main"}, True),
    ],
)
async def test_allow_tool_param_lets_only_listed_values_pass_and_fails_closed(
    parameters: dict[str, Any], denied: bool
) -> None:
    rule = AllowToolParam(tool="shell", param="branch", values=["main", 5], matching=r"feature/[\w-]+")

    assert (await verdict(rule, shell(**parameters)) is not None) is denied


async def test_allow_tool_param_without_values_allows_none() -> None:
    assert await verdict(AllowToolParam(tool="shell", param="branch"), shell(branch="main")) is not None


async def test_allow_tool_param_with_a_pattern_that_does_not_compile_fails_closed() -> None:
    rule = AllowToolParam(tool="shell", param="branch", values=["main"], matching="(")

    assert await verdict(rule, shell(branch="anything")) is not None
    assert await verdict(rule, shell(branch="main")) is None


async def test_allow_tool_param_is_about_its_own_tool_only() -> None:
    rule = AllowToolParam(tool="deploy", param="branch", values=["main"])

    assert await verdict(rule, shell(branch="other")) is None


# deny_keyword


@pytest.mark.parametrize(
    ("parameters", "denied"),
    [
        ({"text": "my PassWord is"}, True),
        ({"password": "x"}, True),
        ({"deep": [{"x": ["a password"]}]}, True),
        ({"text": "pass word"}, False),
        ({}, False),
        ({"n": 5, "none": None, "yes": True}, False),
    ],
)
async def test_deny_keyword_looks_through_all_parameters_in_any_case(
    parameters: dict[str, Any], denied: bool
) -> None:
    assert (await verdict(DenyKeyword(keyword="password"), shell(**parameters)) is not None) is denied


async def test_deny_keyword_also_judges_actions_on_the_state() -> None:
    rule = DenyKeyword(keyword="password")

    assert await verdict(rule, write("a", "k", "the password")) is not None
    assert await verdict(rule, read("a", "password")) is not None
    assert await verdict(rule, read("a", "k")) is None


async def test_deny_keyword_for_one_tool_judges_that_tool_only() -> None:
    rule = DenyKeyword(keyword="password", tool="mail")

    assert await verdict(rule, call("a", "mail", {"x": "password"})) is not None
    assert await verdict(rule, shell(x="password")) is None
    assert await verdict(rule, write("a", "k", "password")) is None


@pytest.mark.parametrize(
    ("keyword", "text", "denied"),
    [
        ("caf\u00e9", "the cafe\u0301 here", True),
        ("cafe\u0301", "the CAF\u00c9 here", True),
        ("CAFE\u0301", "caf\u00e9", True),
        ("\u1e9b\u0323", "\u1e69", True),
        ("stra\u00dfe", "STRASSE", True),
        ("\u212b", "\u00e5", True),
        ("pass", "pass\u0301word", True),
        ("caf\u00e9", "caf\u00e9\u0323", True),
        ("caf\u00e9", "cafe", False),
    ],
)
async def test_text_that_means_the_same_is_the_same(keyword: str, text: str, denied: bool) -> None:
    """Canonically equal spellings, in any case of letters; in a value, a key and a parameter's name."""
    for rule in (DenyKeyword(keyword=keyword), DenyToolParam(param="x", contains=keyword)):
        assert (await verdict(rule, shell(x=text)) is not None) is denied
        assert (await verdict(rule, shell(x=[{text: 1}])) is not None) is denied


async def test_a_pattern_sees_the_text_exactly_as_it_is() -> None:
    rule = DenyToolParamMatching(tool="shell", param="x", pattern="caf\u00e9")

    assert await verdict(rule, shell(x="caf\u00e9")) is not None
    assert await verdict(rule, shell(x="cafe\u0301")) is None


async def test_deny_keyword_looks_at_what_an_action_would_write() -> None:
    rule = DenyKeyword(keyword="password")

    for effects in ({"note": "the Password"}, {"PASSWORD": 1}, {"k": {"deep": ["password"]}}):
        said = await verdict(rule, call("a", "shell", expected_effects=effects))
        assert said == "its expected effects contain a denied keyword"
    assert await verdict(rule, call("a", "shell", expected_effects={"k": "word"})) is None


# deny_tool_param_matching


@pytest.mark.parametrize(
    ("value", "denied"),
    [
        ("curl http://x", True),
        ("say curl", True),
        ("kurl", False),
        (["ls", "curl x"], True),
        ({"a": "curl x"}, True),
        (None, False),
        (5, False),
    ],
)
async def test_deny_tool_param_matching_searches_the_value(value: Any, denied: bool) -> None:
    rule = DenyToolParamMatching(tool="shell", param="cmd", pattern=r"\bcurl\b")

    assert (await verdict(rule, shell(cmd=value)) is not None) is denied


async def test_a_pattern_also_sees_the_value_as_json() -> None:
    rule = DenyToolParamMatching(tool="shell", param="opts", pattern=r'"force":true')

    assert await verdict(rule, shell(opts={"force": True})) is not None
    assert await verdict(rule, shell(opts={"force": False})) is None


@pytest.mark.parametrize("pattern", ["(", "[", "*", "(?P<x", "a{99999999999999999999}"])
@pytest.mark.parametrize("parameters", [{"cmd": "ls"}, {}])
async def test_a_pattern_that_does_not_compile_denies_the_tool(
    pattern: str, parameters: dict[str, Any]
) -> None:
    rule = DenyToolParamMatching(tool="shell", param="cmd", pattern=pattern)

    assert await verdict(rule, shell(**parameters)) is not None
    assert await verdict(rule, call("a", "other")) is None


# require_state


@pytest.mark.parametrize(
    ("state", "denied"),
    [({"approved": True}, False), ({"approved": None}, False), ({"approved": False}, False), ({}, True)],
)
async def test_require_state_by_presence(state: dict[str, Any], denied: bool) -> None:
    rule = RequireState(tool="shell", key="approved")

    assert (await verdict(rule, shell(), state) is not None) is denied


@pytest.mark.parametrize(
    ("value", "state", "denied"),
    [
        (True, {"approved": True}, False),
        (True, {"approved": 1}, True),
        (True, {}, True),
        (None, {"approved": None}, False),
        (None, {}, True),
        (5, {"approved": 5.0}, False),
    ],
)
async def test_require_state_by_value(value: Any, state: dict[str, Any], denied: bool) -> None:
    rule = RequireState(tool="shell", key="approved", value=value)

    assert (await verdict(rule, shell(), state) is not None) is denied


async def test_require_state_sees_what_an_earlier_action_wrote(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("deploy")], policies=[RequireState(tool="deploy", key="tested")])

    after = await rt.execute(plan(write("w", "tested", True), call("d", "deploy")))

    assert after.outcome == "succeeded"


async def test_require_state_orders_its_tool_and_the_writers_of_its_key(recorder: Recorder) -> None:
    """The write behind the call in the list must not let it pass, whatever could run together."""
    for schedule in ("levels", "dataflow"):
        rt = Runtime(
            tools=[recorder.tool("deploy", risk="read_only")],
            policies=[RequireState(tool="deploy", key="tested")],
            schedule=schedule,
        )
        result = await rt.execute(
            plan(
                call("d", "deploy", failure_behavior="skip"),
                write("w", "tested", True, failure_behavior="skip"),
            )
        )
        assert statuses(result) == {"d": "rejected", "w": "succeeded"}


# rate_limit_tool


def limited(recorder: Recorder, clock: FakeClock, **fields: Any) -> Runtime:
    policies = PolicySet(clock)
    policies.add("r", RateLimitTool(tool="mail", **fields))
    return Runtime(tools=[recorder.tool("mail"), recorder.tool("other")], policies=policies)


async def test_rate_limit_tool_denies_what_comes_too_often(recorder: Recorder) -> None:
    rt = limited(recorder, FakeClock(), max_calls=2, interval_secs=60)

    result = await rt.execute(plan(*(call(f"a{n}", "mail", failure_behavior="skip") for n in range(4))))

    assert list(statuses(result).values()) == ["succeeded", "succeeded", "rejected", "rejected"]
    assert result["a2"].error == "policy 'r': tool 'mail' was called too often lately"
    assert recorder.names == ["mail", "mail"]


async def test_the_window_slides(recorder: Recorder) -> None:
    clock = FakeClock()
    rt = limited(recorder, clock, max_calls=2, interval_secs=60)

    outcomes = []
    for wait in (0, 30, 29, 1, 1, 29):
        clock.advance(wait)
        outcomes.append((await rt.execute(plan(call("a", "mail")))).outcome)

    # At 0, 30, 59, 60, 61 and 90 seconds.
    assert outcomes == ["succeeded", "succeeded", "aborted", "succeeded", "aborted", "succeeded"]


async def test_what_was_denied_does_not_fill_the_window(recorder: Recorder) -> None:
    clock = FakeClock()
    rt = limited(recorder, clock, max_calls=1, interval_secs=60)

    for _ in range(5):
        await rt.execute(plan(call("a", "mail")))
    clock.advance(60)
    result = await rt.execute(plan(call("a", "mail")))

    assert result.outcome == "succeeded"


async def test_other_tools_do_not_fill_the_window(recorder: Recorder) -> None:
    rt = limited(recorder, FakeClock(), max_calls=1, interval_secs=60)

    result = await rt.execute(plan(call("a", "other"), call("b", "other"), call("c", "mail")))

    assert result.outcome == "succeeded"


async def test_a_limit_of_zero_denies_always(recorder: Recorder) -> None:
    rt = limited(recorder, FakeClock(), max_calls=0, interval_secs=60)

    assert (await rt.execute(plan(call("a", "mail"))))["a"].status == "rejected"


async def test_who_gets_the_last_place_is_decided_in_serial_order(recorder: Recorder) -> None:
    for schedule in ("levels", "dataflow"):
        policies = PolicySet(FakeClock())
        policies.add("r", RateLimitTool(tool="look", max_calls=2, interval_secs=60))
        rt = Runtime(tools=[recorder.tool("look", risk="read_only")], policies=policies, schedule=schedule)

        result = await rt.execute(
            plan(
                call("a", "look", failure_behavior="skip"),
                call("d", "look", dependencies=["a"], failure_behavior="skip"),
                call("b", "look", failure_behavior="skip"),
            )
        )

        assert statuses(result) == {"a": "succeeded", "d": "succeeded", "b": "rejected"}


async def test_asking_verify_fills_no_window(recorder: Recorder) -> None:
    rt = limited(recorder, FakeClock(), max_calls=1, interval_secs=60)

    for _ in range(3):
        report = rt.verify(plan(call("a", "mail")))

    assert report.undecided
    assert (await rt.execute(plan(call("a", "mail")))).outcome == "succeeded"


# Rules made in Python


@pytest.mark.parametrize(
    "rule",
    [
        FlowRule(mark="Untrusted"),  # type: ignore[arg-type]
        DenyTool(risk="destrutive"),  # type: ignore[arg-type]
        DenyTool(tool=5),  # type: ignore[arg-type]
        RateLimitTool(tool="mail", max_calls=-1, interval_secs=1),
    ],
    ids=lambda rule: type(rule).__name__,
)
def test_a_typo_in_a_rule_is_refused_and_does_not_let_everything_pass(rule: Any) -> None:
    with pytest.raises(UsageError, match=r"Policy 'r' .* cannot mean anything"):
        Runtime(policies=[("r", rule)])
