"""Undo takes back what this plan did: not what it was only told about, and not what it never finished."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from placet import Cancel, Runtime, tool

ABORT = {"id": "stop", "type": "assertion", "parameters": {"key": "no such key", "expected": 1}}


def a_switch(**options: Any) -> tuple[list[str], list[Any]]:
    """A switch that can be turned on and off, and what was done to it."""
    done: list[str] = []

    @tool(reversibility="compensable", **options)
    async def switch_on(n: int) -> str:
        done.append(f"on {n}")
        return "on"

    @tool(risk="idempotent")
    async def switch_off(n: int) -> None:
        done.append(f"off {n}")

    return done, [switch_on, switch_off]


def on(name: str, **fields: Any) -> dict[str, Any]:
    undo = {"type": "tool", "tool": "switch_off", "parameters": {"n": 7}}
    return {"id": name, "tool": "switch_on", "parameters": {"n": 7}, "compensation": undo, **fields}


@pytest.mark.parametrize("risk", ["idempotent", "network"])
async def test_a_cached_answer_whose_effect_was_taken_back_is_not_given_again(risk: str) -> None:
    done, tools = a_switch(risk=risk, cache_ttl_secs=60)
    rt = Runtime(tools=tools)

    await rt.execute({"actions": [on("a"), {**ABORT, "dependencies": ["a"]}]})
    result = await rt.execute({"actions": [on("a")]})

    assert result.succeeded
    assert done == ["on 7", "off 7", "on 7"]


async def test_a_cached_answer_serves_the_same_plan_and_later_ones_once_it_stands() -> None:
    done, tools = a_switch(risk="network", cache_ttl_secs=60)
    rt = Runtime(tools=tools)

    await rt.execute({"actions": [on("a"), on("b", dependencies=["a"])]})
    await rt.execute({"actions": [on("a")]})

    assert done == ["on 7"]


async def test_an_effect_of_an_earlier_plan_is_not_taken_back_by_one_that_was_only_told_of_it() -> None:
    done, tools = a_switch(risk="idempotent")
    rt = Runtime(tools=tools)

    await rt.execute({"actions": [on("a", idempotent=True)]})
    result = await rt.execute({"actions": [on("a", idempotent=True), {**ABORT, "dependencies": ["a"]}]})

    assert result.outcome == "aborted"
    assert result.compensations == []
    assert done == ["on 7"]


async def test_two_equal_calls_that_ran_once_are_taken_back_once() -> None:
    done, tools = a_switch(risk="idempotent")
    rt = Runtime(tools=tools)
    equal = [on("a", idempotent=True), on("b", idempotent=True)]

    result = await rt.execute({"actions": [*equal, {**ABORT, "dependencies": ["a", "b"]}]})

    assert result.outcome == "aborted"
    assert done == ["on 7", "off 7"]


async def test_a_second_cancellation_while_the_first_is_being_heeded_keeps_the_state() -> None:
    @tool(risk="read_only")
    async def stubborn() -> None:
        for _ in range(4):
            try:
                await asyncio.sleep(0.15)
            except asyncio.CancelledError:
                continue

    rt = Runtime(tools=[stubborn])
    first = {"id": "w", "type": "state_write", "parameters": {"key": "k", "value": 1}}
    layer = [{"id": f"s{n}", "tool": "stubborn", "dependencies": ["w"]} for n in range(2)]
    running = asyncio.create_task(rt.execute({"actions": [first, *layer]}))
    await asyncio.sleep(0.05)
    running.cancel()
    await asyncio.sleep(0.05)
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running

    assert rt.state.get("k") == 1
    assert rt.events.query(kind="proposal_ended")[-1].data["outcome"] != "aborted"


async def test_a_hard_cancel_stops_a_compensation_that_hangs() -> None:
    begun = asyncio.Event()

    @tool(reversibility="compensable")
    async def book() -> None: ...

    @tool
    async def unbook() -> None:
        begun.set()
        await asyncio.sleep(60)

    cancel = Cancel()
    rt = Runtime(tools=[book, unbook])
    undo = {"type": "tool", "tool": "unbook"}
    booked = {"id": "a", "tool": "book", "compensation": undo}
    running = asyncio.create_task(
        rt.execute({"actions": [booked, {**ABORT, "dependencies": ["a"]}]}, cancel=cancel)
    )
    await begun.wait()
    cancel.cancel("enough", hard=True)

    result = await asyncio.wait_for(running, 10)

    assert result.outcome == "aborted"
    assert [(c.action_id, c.status) for c in result.compensations] == [("a", "unknown")]


async def test_a_refused_plan_says_each_fault_once() -> None:
    plan = {"actions": [{"id": f"a{i}", "tool": "t", "dependencies": ["nope"]} for i in range(300)]}

    result = await Runtime().execute(plan)

    assert result.outcome == "refused"
    assert "and 280 more" in (result.error or "")
    assert all("'nope'" in (r.error or "") and len(r.error or "") < 200 for r in result.results)


async def test_the_shorter_of_two_time_limits_holds() -> None:
    @tool(timeout_ms=30, risk="read_only")
    async def slow() -> None:
        await asyncio.sleep(60)

    result = await Runtime(tools=[slow]).execute(
        {"actions": [{"id": "a", "tool": "slow", "timeout_ms": 5000}]}
    )

    assert result["a"].error == "action timed out after 30 ms"
