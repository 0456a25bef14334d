"""The caller's own objects reach the tools that ask for them, and nothing else."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

from placet import (
    Action,
    AgentRunner,
    AgentSpec,
    Assistant,
    EventLog,
    JsonlTrajectories,
    Proposal,
    Runtime,
    SqlApprovals,
    SqlEvents,
    SqlJournal,
    ToolContext,
    open_database,
    tool,
)
from placet.errors import DepsError
from placet.inference import Scripted, ToolCall
from placet.tools import Tool

SECRET = "correct-horse-battery"


@dataclass
class Shop:
    name: str = SECRET
    sold: list[str] = field(default_factory=list)


@tool(risk="destructive")
def sell(item: str, context: ToolContext[Shop]) -> str:
    """Sell a thing."""
    context.deps.sold.append(item)
    return f"sold {item}"


@tool(risk="read_only")
async def look(context: ToolContext[Shop | None]) -> bool:
    """Whether there is a shop."""
    return context.deps is not None


@tool(risk="read_only")
def bare(context: ToolContext) -> str:
    """Ask for no objects."""
    return context.action_id


PLAN = {"actions": [{"id": "a", "tool": "sell", "parameters": {"item": "tea"}}]}
SELL = ToolCall(name="sell", arguments={"item": "tea"})


def test_a_tool_gets_the_objects_of_the_runtime_as_they_are() -> None:
    shop = Shop()

    result = Runtime([sell], deps=shop).execute_sync(PLAN)

    assert (result.outcome, shop.sold) == ("succeeded", ["tea"])


def test_a_call_can_bring_others() -> None:
    shop, other = Shop(), Shop()
    runtime = Runtime([sell], deps=shop)

    runtime.execute_sync(PLAN, deps=other)

    assert (shop.sold, other.sold) == ([], ["tea"])


def test_they_are_in_no_schema() -> None:
    [schema] = Runtime([sell]).tools.schemas()

    assert list(schema.parameters["properties"]) == ["item"]  # type: ignore[arg-type]


@pytest.mark.parametrize("deps", [None, "a string", 5])
def test_without_them_nothing_runs_and_the_tool_is_named(deps: Any) -> None:
    runtime = Runtime([bare, sell])

    with pytest.raises(DepsError) as raised:
        runtime.execute_sync(PLAN, deps=deps)

    assert (raised.value.code, raised.value.tool) == ("usage.deps", "sell")
    assert "ToolContext[Shop]" in str(raised.value)
    assert "a string" not in str(raised.value), "what they hold is not shown"
    assert len(runtime.events) == 0


def test_a_plan_without_such_a_tool_needs_none() -> None:
    plan = {"actions": [{"id": "a", "tool": "bare"}, {"id": "b", "tool": "look"}]}

    result = Runtime([bare, sell, look]).execute_sync(plan)

    assert [each.output for each in result.results] == ["a", False]


class Store(Protocol):
    sold: list[str]


def test_a_protocol_is_left_to_the_type_checker() -> None:
    @tool(risk="read_only")
    def count(context: ToolContext[Store]) -> int:
        """Count what was sold."""
        return len(context.deps.sold)

    result = Runtime([count], deps=Shop(sold=["x"])).execute_sync({"actions": [{"id": "a", "tool": "count"}]})

    assert result["a"].output == 1


def test_a_tool_with_its_own_schema_gets_them_too() -> None:
    def sell_any(parameters: dict[str, Any], context: ToolContext[Shop]) -> str:
        return context.deps.name

    made = Tool.from_schema(sell.schema, sell_any)

    assert Runtime([made], deps=Shop("x")).execute_sync(PLAN)["a"].output == "x"
    with pytest.raises(DepsError):
        Runtime([made]).execute_sync(PLAN)


async def test_a_plan_that_comes_later_is_refused_at_the_call() -> None:
    runtime = Runtime([sell])
    plan = Proposal(actions=[Action(id="a", tool="sell", parameters={"item": "tea"})])

    async with runtime.open_run(Proposal(actions=[])) as run:
        acted = await run.act(plan, 1, keep=False)

    assert acted.result["a"].status == "failed"
    assert "ToolContext[Shop]" in (acted.result["a"].error or "")


async def test_an_assistant_brings_them() -> None:
    shop, other = Shop(), Shop()
    runtime = Runtime([sell], deps=shop)
    assistant = Assistant(
        runtime, Scripted([SELL, "Sold.", SELL, "Sold.", SELL, "Sold."]), posture="full_access"
    )

    await assistant.run("Sell tea.")
    await assistant.run("Sell tea.", deps=other)
    async with assistant.chat(deps=other) as chat:
        await chat.say("Sell tea.")

    assert (shop.sold, other.sold) == (["tea"], ["tea", "tea"])


async def test_an_assistant_without_them_does_not_begin() -> None:
    runtime = Runtime([sell, bare])
    model = Scripted(["x"])

    with pytest.raises(DepsError):
        await Assistant(runtime, model).run("Sell tea.")
    ending = await Assistant(runtime, model, tools=["bare"]).run("Look.")

    assert ending.status == "success", "a tool that is not offered needs nothing"


async def test_an_agent_gets_those_of_the_runtime() -> None:
    shop = Shop()
    spec = AgentSpec(id="seller", identity="You sell.", tools=("sell",))

    await AgentRunner(Runtime([sell], deps=shop), Scripted([SELL, "Sold."]), spec, posture="full_access").run(
        "x"
    )

    assert shop.sold == ["tea"]
    with pytest.raises(DepsError):
        await AgentRunner(Runtime([sell]), Scripted(["x"]), spec).run("x")


def test_they_are_stored_nowhere_and_brought_again_to_resume(tmp_path: Path) -> None:
    database = open_database(f"sqlite://{tmp_path}/kept.db")
    approvals = SqlApprovals(database)
    events = EventLog(sinks=[SqlEvents(database)])

    def runtime() -> Runtime:
        return Runtime(
            [sell],
            journal=SqlJournal(database),
            approvals=approvals,
            permissions="balanced",
            patience_s=0,
            events=events,
            trajectories=JsonlTrajectories(tmp_path / "t.jsonl"),
        )

    first, later = Shop(), Shop()
    waiting = runtime().execute_sync(PLAN, run_id="r", deps=first).waiting[0].approval
    approvals.decide(str(waiting), "once", by="ann")
    result = runtime().resume_sync("r", deps=later)
    assistant = Assistant(runtime(), Scripted([SELL, "Sold."]))
    waiting = assistant.run_sync("Sell tea.", run_id="s", deps=first).waiting[0].approval
    approvals.decide(str(waiting), "once", by="ann")
    with pytest.raises(DepsError):
        assistant.resume_sync("s")
    ending = assistant.resume_sync("s", deps=later)
    asyncio.run(events.settle())
    database.close()

    assert (result.outcome, ending.status, first.sold, later.sold) == (
        "succeeded",
        "success",
        [],
        ["tea", "tea"],
    )
    for path in tmp_path.iterdir():
        assert SECRET.encode() not in path.read_bytes(), path.name


def test_no_text_shows_them() -> None:
    context = ToolContext(action_id="a", run_id="r", deps=Shop())

    assert SECRET not in repr(context)
    assert SECRET not in f"{context}"
    assert SECRET not in json.dumps({"x": str(context)})
