"""The runtime as a library: what it takes, what it refuses, and who may share what."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from placet import (
    Action,
    DenyTool,
    EventLog,
    Proposal,
    ProposalResult,
    Runtime,
    Scope,
    ToolContext,
    ToolSchema,
    tool,
)
from placet.errors import DecodeError, UsageError
from placet.policy.engine import PolicySet
from placet.state.memory import MemoryState
from tests.runtime.plans import Recorder, call, claim, kinds, plan, statuses, tool_of, write

TEXT = '{"id": "p1", "actions": [{"id": "a", "type": "state_write", "parameters": {"key": "k", "value": 1}}]}'


@pytest.mark.parametrize(
    "proposal",
    [
        TEXT,
        TEXT.encode(),
        plan(write("a", "k", 1)),
        Proposal(id="p1", actions=[Action(id="a", type="state_write", parameters={"key": "k", "value": 1})]),
    ],
    ids=["text", "bytes", "dict", "Proposal"],
)
async def test_a_proposal_may_be_text_bytes_a_dict_or_built_in_python(proposal: Any) -> None:
    rt = Runtime()

    result = await rt.execute(proposal)

    assert result.outcome == "succeeded"
    assert result.proposal_id == "p1"
    assert rt.state.snapshot() == {"k": 1}


@pytest.mark.parametrize(
    "junk", ["{", "", {"actions": "none"}, {"actions": [{"type": "eval"}]}, 5, None, ["a"]]
)
async def test_what_cannot_be_read_raises_and_nothing_has_run(junk: Any) -> None:
    rt = Runtime()

    with pytest.raises(DecodeError):
        await rt.execute(junk)

    assert kinds(rt) == []


async def test_the_dict_that_was_given_is_left_as_it_is() -> None:
    rt = Runtime()
    given = plan(write("a", "k", [1]), extra="field")

    await rt.execute(given)
    rt.state.get("k").append(2)

    assert given == plan(write("a", "k", [1]), extra="field")


async def test_a_proposal_may_be_executed_again() -> None:
    rt = Runtime(state={"n": 0})
    proposal = Proposal(actions=[Action(id="a", type="state_write", parameters={"key": "n", "value": 1})])

    first, second = await rt.execute(proposal), await rt.execute(proposal)

    assert first.outcome == second.outcome == "succeeded"
    assert first.proposal_id == second.proposal_id == proposal.id
    assert first.run_id != second.run_id


def test_execute_sync_needs_no_event_loop(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("double", lambda p: 2 * p["n"])])

    result = rt.execute_sync(plan(call("a", "double", {"n": 21})))

    assert result["a"].output == 42


async def test_execute_sync_inside_a_loop_says_what_to_use() -> None:
    with pytest.raises(UsageError, match=r"await rt\.execute"):
        Runtime().execute_sync(plan())


def test_execute_sync_from_several_threads_takes_turns(recorder: Recorder) -> None:
    in_flight = 0
    overlaps: list[int] = []

    async def work(_: Any) -> None:
        nonlocal in_flight
        in_flight += 1
        await asyncio.sleep(0.005)
        overlaps.append(in_flight)
        in_flight -= 1

    rt = Runtime(tools=[recorder.tool("work", work)])
    results: list[ProposalResult] = []
    threads = [
        threading.Thread(target=lambda: results.append(rt.execute_sync(plan(call("a", "work")))))
        for _ in range(5)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert [r.outcome for r in results] == ["succeeded"] * 5
    assert overlaps == [1] * 5


def test_a_tool_that_calls_execute_sync_of_its_own_runtime_is_told_so_and_does_not_hang() -> None:
    def inner() -> str:
        return rt.execute_sync(plan()).outcome

    rt = Runtime(tools=[tool_of("inner", inner)])

    result = rt.execute_sync(plan(call("a", "inner")))

    assert result["a"].status == "failed"
    assert "await rt.execute" in (result["a"].error or "")


async def test_an_async_tool_may_run_a_proposal_of_its_own(recorder: Recorder) -> None:
    async def inner(_: Any) -> str:
        return (await rt.execute(plan(write("b", "k", 1), id="inner"))).outcome

    rt = Runtime(tools=[recorder.tool("inner", inner)])

    result = await rt.execute(plan(call("a", "inner")))

    assert result["a"].output == "succeeded"
    assert rt.state.snapshot() == {"k": 1}


async def test_a_runtime_at_work_in_another_thread_refuses_this_one(recorder: Recorder) -> None:
    began, release = threading.Event(), threading.Event()

    def hold() -> None:
        began.set()
        release.wait(30)

    rt = Runtime(tools=[tool_of("hold", hold)])
    other = threading.Thread(target=lambda: rt.execute_sync(plan(call("a", "hold"))))
    other.start()
    await asyncio.to_thread(began.wait, 30)

    try:
        with pytest.raises(UsageError, match="another thread"):
            await rt.execute(plan())
    finally:
        release.set()
        other.join(30)


async def test_one_loop_may_run_many_proposals_at_once(recorder: Recorder) -> None:
    barrier = asyncio.Barrier(5)

    async def meet(_: Any) -> None:
        await barrier.wait()

    rt = Runtime(tools=[recorder.tool("meet", meet)])

    results = await asyncio.gather(*(rt.execute(plan(call("a", "meet"), id=f"p{n}")) for n in range(5)))

    assert [r.outcome for r in results] == ["succeeded"] * 5


def test_a_runtime_may_be_used_on_one_loop_after_the_other(recorder: Recorder) -> None:
    rt = Runtime(tools=[tool_of("work", lambda: "ok")])

    outcomes = [asyncio.run(rt.execute(plan(call("a", "work")))).outcome for _ in range(3)]

    assert outcomes == ["succeeded"] * 3


async def test_a_tool_that_brings_its_own_schema_is_held_to_it(recorder: Recorder) -> None:
    rt = Runtime()
    schema = ToolSchema(
        name="greet",
        parameters={"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        returns={"type": "string"},
    )
    rt.register(schema, lambda name: f"Hello, {name}!", cheap=True)

    result = await rt.execute(
        plan(
            call("a", "greet", {"name": "Ada"}),
            call("b", "greet", {"name": 5}, failure_behavior="skip"),
        )
    )

    assert result["a"].output == "Hello, Ada!"
    assert result["b"].status == "rejected"


async def test_a_registered_function_may_be_sync_or_async_and_take_the_context(recorder: Recorder) -> None:
    rt = Runtime()

    def sync(ctx: ToolContext, x: int) -> list[Any]:
        return [ctx.action_id, x]

    async def not_sync(x: int, ctx: ToolContext) -> list[Any]:
        return [ctx.action_id, x]

    parameters = {"type": "object", "properties": {"x": {"type": "integer"}}}
    rt.register(ToolSchema(name="sync", parameters=parameters), sync)
    rt.register(ToolSchema(name="not_sync", parameters=parameters), not_sync)

    result = await rt.execute(plan(call("a", "sync", {"x": 1}), call("b", "not_sync", {"x": 2})))

    assert result["a"].output == ["a", 1]
    assert result["b"].output == ["b", 2]


async def test_a_sync_tool_runs_in_a_thread_unless_it_is_cheap() -> None:
    rt = Runtime()
    rt.register(ToolSchema(name="thread"), lambda: threading.get_ident())
    rt.register(ToolSchema(name="cheap"), lambda: threading.get_ident(), cheap=True)

    result = await rt.execute(plan(call("a", "thread"), call("b", "cheap")))

    assert result["a"].output != threading.get_ident()
    assert result["b"].output == threading.get_ident()


async def test_registering_a_name_again_replaces_the_tool() -> None:
    rt = Runtime()
    rt.register(ToolSchema(name="t"), lambda: "old", cheap=True)
    rt.register(ToolSchema(name="t"), lambda: "new", cheap=True)

    result = await rt.execute(plan(call("a", "t")))

    assert result["a"].output == "new"


async def test_a_users_tool_hides_a_built_in_one(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("now", "mine")])
    rt.tools.add(recorder.tool("now", "built in"), builtin=True)

    result = await rt.execute(plan(call("a", "now")))

    assert result["a"].output == "mine"


async def test_a_plain_typed_function_is_a_tool() -> None:
    def double(n: int) -> int:
        "Twice."
        return 2 * n

    result = await Runtime(tools=[double]).execute(plan(call("a", "double", {"n": 4})))

    assert result["a"].output == 8


async def test_a_policy_may_be_added_under_a_name(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("mail")])
    rt.add_policy("rule", DenyTool(tool="mail", reason="quiet hours"))
    rt.add_policy("function", lambda action: "not today")

    result = await rt.execute(plan(call("a", "mail")))

    assert result["a"].error == "policy 'rule': quiet hours; policy 'function': not today"


def test_two_policies_do_not_share_a_name() -> None:
    rt = Runtime()
    rt.add_policy("p", DenyTool(tool="a"))

    with pytest.raises(UsageError, match="'p'"):
        rt.add_policy("p", DenyTool(tool="b"))


def test_what_is_neither_rule_nor_function_is_no_policy() -> None:
    with pytest.raises(UsageError, match="str"):
        Runtime().add_policy("p", "deny everything")  # type: ignore[arg-type]


def test_policies_without_a_name_get_one() -> None:
    def mine(action: Action) -> None:
        return None

    rt = Runtime(policies=[DenyTool(tool="a"), DenyTool(tool="b"), mine, ("named", DenyTool(tool="c"))])

    assert rt.policies.names() == ["deny_tool", "deny_tool-2", "mine", "named"]


async def test_runtimes_may_share_state_events_and_policies(recorder: Recorder) -> None:
    state, events, policies = MemoryState(), EventLog(), PolicySet(lambda: 0.0)
    first = Runtime(tools=[recorder.tool("mail")], state=state, events=events, policies=policies)
    second = Runtime(tools=[recorder.tool("mail")], state=state, events=events, policies=policies)

    await first.execute(plan(write("a", "k", 1), id="from first"))
    first.add_policy("quiet", DenyTool(tool="mail"))
    result = await second.execute(plan(claim("c", "k", 1), call("m", "mail"), id="from second"))

    assert statuses(result) == {"c": "succeeded", "m": "rejected"}
    assert {e.proposal_id for e in second.events} == {"from first", "from second"}


async def test_runtimes_that_share_a_state_undo_only_their_own_writes(recorder: Recorder) -> None:
    state = MemoryState({"k": 0})
    first, second = Runtime(state=state), Runtime(state=state)

    await first.execute(plan(write("a", "j", 1)))
    await second.execute(plan(write("a", "k", 1), claim("b", "k", "never")))

    assert state.snapshot() == {"k": 0, "j": 1}


async def test_a_run_may_be_given_an_id() -> None:
    rt = Runtime()

    result = await rt.execute(plan(write("a", "k", 1)), run_id="run-7")

    assert result.run_id == "run-7"
    assert {e.run_id for e in rt.events} == {"run-7"}


async def test_every_run_has_a_trace_of_its_own() -> None:
    rt = Runtime()

    results = [await rt.execute(plan()) for _ in range(2)]

    assert results[0].trace_id != results[1].trace_id
    assert all(len(r.trace_id) == 32 for r in results)


@pytest.mark.parametrize(
    "options", [{"schedule": "chaos"}, {"max_concurrency": 0}, {"max_threads": 0}], ids=str
)
def test_options_that_cannot_work_are_misuse(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Runtime(**options)


async def test_the_state_can_be_read_and_set_from_outside() -> None:
    rt = Runtime(state={"a": 1})

    rt.state.set("b", [2])

    assert rt.state.get("b") == [2]
    assert rt.state.get("missing", "default") == "default"
    assert rt.state.snapshot() == {"a": 1, "b": [2]}
    assert rt.state.keys() == ["a", "b"]
    assert rt.state.delete("a") is True
    assert rt.state.delete("a") is False


async def test_results_can_be_looked_up_by_action() -> None:
    result = await Runtime().execute(plan(write("a", "k", 1)))

    assert result["a"].output == "written: k"
    with pytest.raises(KeyError):
        result["b"]


async def test_a_tool_is_told_its_action_run_and_tenant() -> None:
    seen: list[ToolContext] = []

    @tool
    async def look(ctx: ToolContext) -> None:
        seen.append(ctx)

    rt = Runtime(tools=[look])

    await rt.execute(plan(call("a", "look")), run_id="r1", scope=Scope(tenant="t1"))

    assert (seen[0].action_id, seen[0].run_id, seen[0].tenant) == ("a", "r1", "t1")
    assert seen[0].idempotency_key
    assert seen[0].cancel.requested is False


async def test_the_context_is_no_parameter_that_a_plan_can_fill_in() -> None:
    @tool
    async def look(ctx: ToolContext) -> None:
        raise AssertionError("must not run")

    result = await Runtime(tools=[look]).execute(plan(call("a", "look", {"ctx": {"tenant": "other"}})))

    assert result["a"].status == "rejected"


async def test_looking_at_a_tenant_makes_no_namespace() -> None:
    rt = Runtime()

    rt.verify(plan(write("a", "k", 1)), scope=Scope(tenant="t1"))
    await rt.execute(plan(claim("a", "k", None)), scope=Scope(tenant="t2"))
    await rt.execute(plan(write("a", "k", 1), claim("b", "k", 2)), scope=Scope(tenant="t3"))

    assert rt.state.tenants() == []
    assert rt.checkpoint().tenants == {}


@pytest.mark.parametrize("huge", [10**5000, -(10**5000)], ids=["over", "under"])
async def test_an_integer_too_long_to_be_written_goes_no_further(recorder: Recorder, huge: int) -> None:
    rt = Runtime(tools=[recorder.tool("count", {"n": [1, huge]}), recorder.tool("use")])

    result = await rt.execute(plan(call("a", "count"), call("b", "use", {"n": "$a.output.n[1]"})))

    assert result["a"].status == "failed"
    assert "output.n[1]" in (result["a"].error or "")
    assert "4,300" in (result["a"].error or "")
    with pytest.raises(DecodeError, match=r"actions\[0\]\.parameters\.x"):
        rt.verify(plan(call("a", "use", {"x": huge})))


async def test_a_rule_with_a_misspelt_name_is_an_event_once() -> None:
    rt = Runtime([tool(name="refund")(lambda: None)], policies=[("r", DenyTool(tool="refnud"))])

    for _ in range(2):
        await rt.execute({"actions": []})

    [event] = rt.events.query(kind="rule_warning")
    assert (event.data["rule"], event.data["name"], event.data["nearest"]) == ("r", "refnud", "refund")
