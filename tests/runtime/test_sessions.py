"""Policies that hold only for executions under one session."""

from __future__ import annotations

import pytest

from placet import DenyTool, RateLimitTool, Runtime
from placet.errors import UnknownSession
from tests.runtime.plans import Recorder, call, kinds, plan, statuses, write


async def test_a_session_rule_applies_only_under_its_session(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("mail")])
    strict, loose = rt.open_session(), rt.open_session()
    rt.add_policy("no mail", DenyTool(tool="mail"), session=strict)

    under_strict = await rt.execute(plan(call("a", "mail")), session=strict)
    under_loose = await rt.execute(plan(call("a", "mail")), session=loose)
    under_none = await rt.execute(plan(call("a", "mail")))

    assert under_strict["a"].error == "policy 'no mail': tool 'mail' is denied"
    assert under_loose.outcome == under_none.outcome == "succeeded"
    assert recorder.names == ["mail", "mail"]


async def test_global_rules_hold_under_a_session_and_speak_first(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("mail")])
    session = rt.open_session()
    rt.add_policy("of the session", DenyTool(tool="mail", reason="not now"), session=session)
    rt.add_policy("of all", DenyTool(tool="mail", reason="never"))

    result = await rt.execute(plan(call("a", "mail")), session=session)

    assert result["a"].error == "policy 'of all': never; policy 'of the session': not now"


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "never opened"])
async def test_a_session_id_that_is_not_open_rejects_every_action(recorder: Recorder, closed: bool) -> None:
    rt = Runtime(tools=[recorder.tool("mail", risk="read_only")])
    session = "s-unknown"
    if closed:
        session = rt.open_session()
        rt.close_session(session)

    result = await rt.execute(
        plan(call("a", "mail", failure_behavior="skip"), write("b", "k", 1, failure_behavior="skip")),
        session=session,
    )

    assert statuses(result) == {"a": "rejected", "b": "rejected"}
    assert result["a"].error == f"unknown session '{session}': open one with open_session() first"
    assert recorder.calls == []
    assert rt.state.snapshot() == {}
    assert len(kinds(rt, "a")) == 1
    assert result.outcome == "refused"


def test_a_session_closes_once() -> None:
    rt = Runtime()
    session = rt.open_session()

    assert rt.close_session(session) is True
    assert rt.close_session(session) is False


def test_a_policy_for_a_session_that_is_not_open_is_misuse() -> None:
    rt = Runtime()

    with pytest.raises(UnknownSession, match="'nope'"):
        rt.add_policy("p", DenyTool(tool="x"), session="nope")


def test_session_ids_differ() -> None:
    rt = Runtime()

    assert len({rt.open_session() for _ in range(50)}) == 50


async def test_runtimes_that_share_policies_keep_their_own_sessions(recorder: Recorder) -> None:
    first = Runtime(tools=[recorder.tool("mail")])
    second = Runtime(tools=[recorder.tool("mail")], policies=first.policies)
    session = first.open_session()

    result = await second.execute(plan(call("a", "mail")), session=session)

    assert result["a"].status == "rejected"
    assert "unknown session" in (result["a"].error or "")


async def test_a_rule_that_counts_counts_in_its_own_session_only(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("mail")])
    sessions = [rt.open_session(), rt.open_session()]
    for session in sessions:
        rt.add_policy("seldom", RateLimitTool(tool="mail", max_calls=1, interval_secs=600), session=session)

    outcomes = [
        (await rt.execute(plan(call("a", "mail")), session=s)).outcome for s in [*sessions, sessions[0]]
    ]

    assert outcomes == ["succeeded", "succeeded", "aborted"]


async def test_the_same_name_may_stand_for_another_rule_in_a_session(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("mail"), recorder.tool("post")])
    session = rt.open_session()
    rt.add_policy("quiet", DenyTool(tool="mail"))
    rt.add_policy("quiet", DenyTool(tool="post"), session=session)

    result = await rt.execute(
        plan(call("a", "mail", failure_behavior="skip"), call("b", "post", failure_behavior="skip")),
        session=session,
    )

    assert statuses(result) == {"a": "rejected", "b": "rejected"}


async def test_a_session_that_is_closed_while_a_plan_runs_rejects_what_has_not_started(
    recorder: Recorder,
) -> None:
    rt = Runtime(tools=[recorder.tool("close", lambda _: rt.close_session(session)), recorder.tool("mail")])
    session = rt.open_session()

    result = await rt.execute(
        plan(call("a", "close"), call("b", "mail", dependencies=["a"])), session=session
    )

    assert statuses(result) == {"a": "succeeded", "b": "rejected"}
    assert "unknown session" in (result["b"].error or "")
    assert recorder.names == ["close"]


def test_verify_judges_under_the_session_too(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("mail")])
    session = rt.open_session()
    rt.add_policy("no mail", DenyTool(tool="mail"), session=session)

    assert rt.verify(plan(call("a", "mail"))).valid
    assert not rt.verify(plan(call("a", "mail")), session=session).valid
    assert not rt.verify(plan(call("a", "mail")), session="nope").valid
