"""Every call that ran is in the log with its parameters: without secrets, then cut. A refused one is not."""

from __future__ import annotations

from typing import Any

import pytest

from placet import EventLog, Runtime
from placet.assistant.assistant import Assistant
from placet.events.parameters import LONGEST, MOST, logged_parameters
from placet.inference import Result, Scripted, ToolCall
from placet.policy.rule import DenyTool
from placet.redaction import REDACTED, Redactor
from tests.runtime.plans import Recorder, call, plan, tool_of, undone_by, write

SECRET = "correct-horse-battery-staple"


def given(rt: Runtime) -> dict[str, Any]:
    """What the log says each call was given, by action; of several attempts the last."""
    events = rt.events.query(kind="action_executing")
    return {event.action_id or "": event.data.get("parameters") for event in events}


async def test_a_call_of_a_plan_is_logged_with_its_parameters(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("send", "x")])

    await rt.execute(
        plan(
            call("a", "send", {"to": "ann", "count": 3, "again": True, "more": {"cc": ["bob"]}}),
            call("b", "send", {"text": "$a.output"}, dependencies=["a"]),
            call("c", "send"),
            write("w", "k", 1),
        )
    )

    assert given(rt) == {
        "a": {"to": "ann", "count": 3, "again": True, "more": {"cc": ["bob"]}},
        "b": {"text": "x"},
        "c": {},
        "w": None,
    }


async def test_an_attempt_again_and_a_compensation_are_logged_with_theirs(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[
            recorder.tool(
                "put", raises=[OSError("busy"), None], reversibility="compensable", risk="idempotent"
            ),
            recorder.tool("drop"),
            recorder.tool("fail", raises=OSError("no")),
        ]
    )

    await rt.execute(
        plan(
            call(
                "a",
                "put",
                {"name": "x"},
                failure_behavior="retry",
                max_retries=1,
                **undone_by("drop", name="x"),
            ),
            call("f", "fail", dependencies=["a"]),
        )
    )

    events = rt.events.query(kind="action_executing")
    assert [(e.data["tool"], e.data["attempt"], e.data["parameters"]) for e in events] == [
        ("put", 1, {"name": "x"}),
        ("put", 2, {"name": "x"}),
        ("fail", 1, {}),
        ("drop", 1, {"name": "x"}),
    ]


async def test_what_a_rule_denies_is_not_in_the_log(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("send"), recorder.tool("look")], policies=[DenyTool(tool="send")])

    await rt.execute(
        plan(
            call("a", "send", {"to": "the-denied-value"}, failure_behavior="skip"),
            call("b", "look", {"at": "this"}),
        )
    )

    assert recorder.names == ["look"]
    assert given(rt) == {"b": {"at": "this"}}
    assert "the-denied-value" not in repr([event.data for event in rt.events])


async def test_secrets_go_by_name_by_value_and_by_mark(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[
            recorder.tool("vault", {"key": "k" * 40}, risk="read_only", marks=["secret"]),
            recorder.tool("send"),
        ],
        events=EventLog(redactor=Redactor([SECRET])),
    )

    await rt.execute(
        plan(
            call("v", "vault"),
            call(
                "s",
                "send",
                {"password": "abc", "text": f"it is {SECRET}", "body": "$v.output", "to": "ann"},
                dependencies=["v"],
            ),
        )
    )

    assert given(rt)["s"] == {
        "password": REDACTED,
        "text": f"it is {REDACTED}",
        "body": "(secret)",
        "to": "ann",
    }


@pytest.mark.parametrize("shown", range(3, len(SECRET)))
async def test_no_beginning_of_a_secret_is_left_where_a_text_is_cut(recorder: Recorder, shown: int) -> None:
    """It lies across the place of the cut: cut first, its beginning would no longer be known for one."""
    rt = Runtime(tools=[recorder.tool("send")], events=EventLog(redactor=Redactor([SECRET])))
    text = "x" * (LONGEST - shown) + SECRET + "y" * 500

    await rt.execute(plan(call("a", "send", {"text": text, "rows": [text]})))

    logged = given(rt)["a"]
    for value in (logged["text"], logged["rows"]):
        assert SECRET[:3] not in value
        assert len(value) < LONGEST + 40


async def test_the_same_holds_for_what_a_model_saw_of_a_result() -> None:
    for shown in range(3, len(SECRET)):
        text = "x" * (300 - shown) + SECRET + "y" * 500
        log = EventLog(redactor=Redactor([SECRET]))
        rt = Runtime(tools=[tool_of("tell", lambda text=text: text, risk="read_only")], events=log)
        asks = Result(calls=[ToolCall(id="c", name="tell", arguments={})], stop="calls")

        await Assistant(rt, Scripted([asks, "Done."])).run("Go.")

        [ended] = rt.events.query(kind="turn_call_ended")
        assert SECRET[:3] not in ended.data["text"]


async def test_what_a_tool_does_to_its_parameters_does_not_change_the_log(recorder: Recorder) -> None:
    def spoil(parameters: dict[str, Any]) -> None:
        parameters["rows"].append("changed")
        parameters["name"] = "changed"

    rt = Runtime(tools=[recorder.tool("spoil", spoil)])

    await rt.execute(plan(call("a", "spoil", {"rows": ["as it was"], "name": "x"})))

    assert given(rt)["a"] == {"rows": ["as it was"], "name": "x"}


async def test_a_call_of_a_model_is_logged_before_it_ends(recorder: Recorder) -> None:
    """Also if its process dies in it: what was called is known, whatever came of it."""
    seen: list[Any] = []
    rt = Runtime(tools=[recorder.tool("look", lambda _: seen.append(given(rt)), risk="read_only")])
    asks = Result(calls=[ToolCall(id="c", name="look", arguments={"at": "this"})], stop="calls")

    await Assistant(rt, Scripted([asks, "Done."])).run("Go.")

    assert seen == [{"t1c1": {"at": "this"}}]
    assert given(rt) == {"t1c1": {"at": "this"}}


def test_parameters_are_bounded_in_length_and_number() -> None:
    many = {f"p{n}": n for n in range(MOST + 5)}
    long = {"n" * 1000: "v" * 10_000, "deep": [["w" * 100] * 100]}

    few = logged_parameters(many, Redactor)
    cut = logged_parameters(long, Redactor)

    assert len(few) == MOST + 1
    assert few["…"] == "5 more"
    assert all(len(name) <= 200 and len(value) < LONGEST + 40 for name, value in cut.items())
    assert "10,000 characters" in str(cut)
    assert logged_parameters({"a": 1}, lambda: pytest.fail("short ones need no redactor here")) == {"a": 1}


def test_a_large_value_under_the_name_of_a_secret_goes_as_a_whole() -> None:
    large = "s" * 1000
    given = {
        "password": large,
        "key": "api_key",
        "value": large,
        "body": {"token": large, "rows": ["r" * 1000]},
    }

    shown = logged_parameters(given, Redactor)

    assert shown["password"] == shown["value"] == REDACTED
    assert str(shown["body"]).startswith('{"token":"[redacted]","rows":["rrr')
    assert "sss" not in str(shown)
