"""How a denial is worded, and what never appears in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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
    tool,
)
from placet.ir.codec import encode
from tests.runtime.plans import Recorder, call, data_of, plan, write

SECRET = "hunter2-hunter2"


async def test_every_violation_is_reported_in_the_order_of_the_policies(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[recorder.tool("mail")],
        policies=[
            ("first", DenyTool(tool="mail", reason="one")),
            ("passes", DenyTool(tool="other")),
            ("second", lambda action: "two"),
            ("third", DenyKeyword(keyword="x", reason="three")),
        ],
    )

    result = await rt.execute(plan(call("a", "mail", {"text": "x"})))

    assert result["a"].error == "policy 'first': one; policy 'second': two; policy 'third': three"
    assert data_of(rt, "policy_violation", "a") == [{"error": result["a"].error, "tool": "mail"}]


async def test_all_policies_are_asked_also_after_one_has_denied(recorder: Recorder) -> None:
    asked: list[str] = []

    def note(action: Action) -> None:
        asked.append(action.id)

    rt = Runtime(tools=[recorder.tool("mail")], policies=[("no", DenyTool(tool="mail")), ("note", note)])

    await rt.execute(plan(call("a", "mail")))

    assert asked == ["a"]


def _raises(action: Action) -> None:
    raise ValueError(f"found {action.parameters}")


@pytest.mark.parametrize(
    "rule",
    [
        DenyToolParam(tool="t", param="p", contains="HUNTER2"),
        DenyToolParam(tool="t", param="p", equals=SECRET),
        DenyToolParam(tool="t", param="p", presence=True),
        DenyToolParam(tool="t", param="p", above=1),
        AllowToolParam(tool="t", param="p", values=["other"]),
        AllowToolParam(tool="t", param="p", matching="other"),
        DenyKeyword(keyword="hunter2"),
        DenyToolParamMatching(tool="t", param="p", pattern="hunter."),
        DenyToolParamMatching(tool="t", param="p", pattern="("),
        _raises,
    ],
    ids=lambda rule: type(rule).__name__,
)
async def test_the_denied_value_appears_in_no_message_and_no_log(tmp_path: Path, rule: Any) -> None:
    recorder = Recorder()
    events = EventLog(sinks=[JsonlSink(tmp_path / "log.jsonl")])
    rt = Runtime(tools=[recorder.tool("t")], policies=[("p", rule)], events=events)
    proposal = plan(call("a", "t", {"p": SECRET}), source="test", context={"why": SECRET})

    report = rt.verify(proposal)
    result = await rt.execute(proposal)
    events.flush()

    assert result["a"].status == "rejected"
    assert SECRET not in encode(result).decode()
    assert SECRET not in encode(list(rt.events)).decode()
    assert SECRET not in (tmp_path / "log.jsonl").read_text()
    assert SECRET not in encode(list(report.issues)).decode()


async def test_a_denied_write_leaves_its_value_in_no_event() -> None:
    rt = Runtime(policies=[DenyKeyword(keyword="hunter2")])

    result = await rt.execute(plan(write("a", "k", SECRET)))

    assert result["a"].status == "rejected"
    assert SECRET not in encode(list(rt.events)).decode()


async def test_a_value_that_came_by_reference_and_was_denied_is_not_repeated(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[recorder.tool("make", {"part": SECRET}), recorder.tool("use")],
        policies=[DenyToolParam(tool="use", param="p", contains="hunter2")],
    )

    result = await rt.execute(plan(call("a", "make"), call("b", "use", {"p": "say $a.output.part"})))

    assert result["b"].status == "rejected"
    assert SECRET not in (result.error or "") + (result["b"].error or "")
    assert SECRET not in encode(list(rt.events)).decode()


async def test_the_person_s_own_reason_replaces_the_rules_words(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[recorder.tool("t")],
        policies=[("p", DenyToolParam(tool="t", param="p", presence=True, reason="ask Ada first"))],
    )

    result = await rt.execute(plan(call("a", "t", {"p": 1})))

    assert result["a"].error == "policy 'p': ask Ada first"


async def test_a_denied_value_is_not_quoted_by_the_schema_either() -> None:
    @tool
    async def send(amount: int) -> None: ...

    rt = Runtime(tools=[send], policies=[DenyKeyword(keyword="hunter2")])

    document = {"actions": [{"id": "a", "tool": "send", "parameters": {"amount": "hunter2-x"}}]}

    result = await rt.execute(document)

    assert result["a"].status == "rejected"
    assert "hunter2" not in (result["a"].error or "")
    assert all("hunter2" not in str(e.data) for e in rt.events)
    report = rt.verify(document)
    assert not report.valid
    assert all("hunter2" not in issue.message for issue in report.issues)
