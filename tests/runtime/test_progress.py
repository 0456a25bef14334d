"""What a running tool says of how far it has come."""

from __future__ import annotations

import asyncio

import pytest

from placet import Runtime, ToolContext, tool
from placet.errors import UsageError
from placet.testing import action, proposal


async def test_progress_of_an_async_tool_reaches_the_log_in_order() -> None:
    @tool(risk="read_only")
    async def copy(context: ToolContext) -> str:
        for n in (1, 2):
            context.progress("copying", done=n, total=2)
            await asyncio.sleep(0.15)
        return "done"

    rt = Runtime(tools=[copy])

    await rt.execute(proposal(action("a", tool="copy")))

    told = rt.events.query(kind="action_progress")
    assert [e.data for e in told] == [
        {"message": "copying", "done": 1, "total": 2},
        {"message": "copying", "done": 2, "total": 2},
    ]
    assert {e.action_id for e in told} == {"a"}


async def test_a_flood_of_reports_from_a_thread_becomes_a_few_events() -> None:
    @tool(risk="read_only")
    def count(context: ToolContext) -> int:
        for n in range(10_000):
            context.progress("counting" * 1000, done=n)
        return 1

    rt = Runtime(tools=[count])

    result = await rt.execute(proposal(action("a", tool="count")))

    assert result.succeeded
    told = rt.events.query(kind="action_progress")
    assert 1 <= len(told) < 100
    assert max(len(e.data["message"]) for e in told) <= 500


async def test_the_last_report_of_a_call_is_told_before_its_end() -> None:
    @tool(risk="read_only", cheap=True)
    def quick(context: ToolContext) -> int:
        context.progress("first")
        context.progress("one process was left behind")
        return 1

    rt = Runtime(tools=[quick])

    await rt.execute(proposal(action("a", tool="quick")))

    told = [e for e in rt.events.query() if e.kind in ("action_progress", "action_succeeded")]
    assert [e.kind for e in told] == ["action_progress", "action_succeeded"]
    assert told[0].data == {"message": "one process was left behind"}


async def test_nothing_is_told_of_a_call_that_has_ended() -> None:
    kept: list[ToolContext] = []

    @tool(risk="read_only", cheap=True)
    def keep(context: ToolContext) -> int:
        kept.append(context)
        return 1

    rt = Runtime(tools=[keep])
    await rt.execute(proposal(action("a", tool="keep")))

    kept[0].progress("still here")
    await asyncio.sleep(0.05)

    assert rt.events.query(kind="action_progress") == []


@pytest.mark.parametrize("number", [-1, float("nan"), float("inf")])
def test_a_number_that_means_nothing_is_refused(number: float) -> None:
    with pytest.raises(UsageError, match="done="):
        ToolContext(action_id="a", run_id="r").progress(done=number)


def test_a_context_without_a_runtime_takes_reports() -> None:
    ToolContext(action_id="a", run_id="r").progress("fine", done=1)
