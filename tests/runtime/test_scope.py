"""On whose behalf a proposal runs, and that no tenant meets another."""

from __future__ import annotations

from typing import Any

import pytest

from placet import Action, RequireState, Runtime, Scope, ToolContext
from placet.errors import NotJson
from tests.runtime.plans import Recorder, call, claim, data_of, kinds, plan, read, statuses, tool_of, write

T1, T2 = Scope(tenant="t1"), Scope(tenant="t2")


async def test_the_scope_is_logged_once_per_proposal() -> None:
    rt = Runtime()

    await rt.execute(
        plan(write("a", "k", 1), write("b", "k", 2)),
        scope=Scope(caller_id="ada", tenant="t1", claims={"role": "admin"}),
    )

    assert data_of(rt, "session_scope") == [{"caller_id": "ada", "tenant": "t1", "claims": {"role": "admin"}}]
    assert kinds(rt)[0] == "session_scope"


async def test_only_what_is_given_is_logged() -> None:
    rt = Runtime()

    await rt.execute(plan(), scope=Scope(caller_id="ada"))

    assert data_of(rt, "session_scope") == [{"caller_id": "ada"}]


async def test_a_scope_that_says_nothing_is_not_logged() -> None:
    rt = Runtime()

    await rt.execute(plan(), scope=Scope())
    await rt.execute(plan())

    assert "session_scope" not in kinds(rt)


async def test_claims_are_copied_and_must_be_json() -> None:
    rt = Runtime()
    claims = {"roles": ["reader"]}

    await rt.execute(plan(), scope=Scope(claims=claims))
    claims["roles"].append("admin")

    assert data_of(rt, "session_scope") == [{"claims": {"roles": ["reader"]}}]
    with pytest.raises(NotJson, match=r"scope\.claims\.x"):
        await rt.execute(plan(write("a", "k", 1)), scope=Scope(claims={"x": object()}))
    assert rt.state.snapshot() == {}


async def test_every_event_of_a_run_carries_its_tenant() -> None:
    rt = Runtime()

    await rt.execute(plan(write("a", "k", 1)), scope=T1)

    assert {e.tenant for e in rt.events} == {"t1"}


async def test_the_tenants_namespace_is_used_throughout(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("work")], state={"k": "everyone's"})
    rt.state.scoped("t1").set("k", "mine")

    result = await rt.execute(
        plan(
            read("r", "k"),
            claim("c", "k", "mine"),
            call(
                "p",
                "work",
                preconditions=[{"key": "k", "value": "mine"}],
                assumptions=[{"key": "k", "expected_value": "mine"}],
                state_dependencies=["k"],
                expected_effects={"e": 1},
            ),
            write("w", "k", "changed"),
        ),
        scope=T1,
    )

    assert result.outcome == "succeeded"
    assert result["r"].output == "mine"
    assert rt.state.scoped("t1").snapshot() == {"k": "changed", "e": 1}
    assert rt.state.snapshot() == {"k": "everyone's"}


async def test_no_tenant_sees_or_lists_the_keys_of_another() -> None:
    rt = Runtime(state={"shared": 0})
    await rt.execute(plan(write("a", "k", 1)), scope=T1)

    result = await rt.execute(plan(read("k", "k"), read("s", "shared")), scope=T2)

    assert (result["k"].output, result["s"].output) == (None, None)
    assert rt.state.keys() == ["shared"]
    assert rt.state.scoped("t2").keys() == []
    assert not rt.state.scoped("t2").exists("k")


async def test_an_abort_undoes_the_tenants_keys_and_nobody_elses() -> None:
    rt = Runtime(state={"k": 0})
    rt.state.scoped("t1").set("k", 1)
    rt.state.scoped("t2").set("k", 2)

    await rt.execute(plan(write("a", "k", 9), claim("b", "k", "never")), scope=T1)

    assert [rt.state.scoped(t).get("k") for t in (None, "t1", "t2")] == [0, 1, 2]


async def test_policies_look_at_the_state_of_the_tenant(recorder: Recorder) -> None:
    seen: list[Any] = []

    def look(action: Action, state: Any) -> None:
        seen.append(state.get("k"))

    rt = Runtime(
        tools=[recorder.tool("work")],
        policies=[look, ("approved", RequireState(tool="work", key="approved"))],
        state={"k": "everyone's", "approved": True},
    )
    rt.state.scoped("t1").set("k", "mine")

    result = await rt.execute(plan(call("a", "work")), scope=T1)

    assert seen == ["mine"]
    assert result["a"].status == "rejected"


async def test_a_tool_is_told_its_tenant() -> None:
    seen: list[str | None] = []

    async def look(ctx: ToolContext) -> None:
        seen.append(ctx.tenant)

    rt = Runtime(tools=[tool_of("look", look)])

    await rt.execute(plan(call("a", "look")), scope=T1)
    await rt.execute(plan(call("a", "look")))

    assert seen == ["t1", None]


async def test_an_answer_for_one_tenant_is_not_given_to_another(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("ask", 1, risk="idempotent")])

    for scope in (T1, T2, None, T1):
        await rt.execute(plan(call("a", "ask", idempotent=True)), scope=scope)

    assert len(recorder.calls) == 3


async def test_a_cached_answer_for_one_tenant_is_not_given_to_another(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("ask", 1, risk="read_only", cache_ttl_secs=600)])

    for scope in (T1, T2, None, T1):
        await rt.execute(plan(call("a", "ask")), scope=scope)

    assert len(recorder.calls) == 3


async def test_a_version_in_an_assumption_is_about_the_tenants_own_key(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("work")])
    rt.state.scoped("t1").set("k", 1)
    looked_at = rt.state.version
    rt.state.set("k", "changed elsewhere")
    rt.state.scoped("t2").set("k", "changed elsewhere")
    action = call("a", "work", assumptions=[{"key": "k", "read_version": looked_at}])

    mine = await rt.execute(plan(action), scope=T1)
    theirs = await rt.execute(plan(action), scope=T2)

    assert (statuses(mine)["a"], statuses(theirs)["a"]) == ("succeeded", "rejected")


async def test_verify_looks_at_the_state_of_the_tenant() -> None:
    rt = Runtime()
    rt.state.scoped("t1").set("k", 1)
    proposal = plan(claim("a", "k", 1))

    assert rt.verify(proposal, scope=T1).valid
    assert not rt.verify(proposal).valid
