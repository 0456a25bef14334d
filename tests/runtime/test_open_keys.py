"""Keys that are not known beforehand: whatever might touch them keeps the serial order."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest

from placet import Action, Runtime, tool
from tests.runtime.plans import call, plan, read, write

SCHEDULES: list[Literal["levels", "dataflow"]] = ["levels", "dataflow"]


@tool(risk="read_only")
async def name_of_key() -> str:
    """Takes its time, so that whatever does not wait for it comes first."""
    await asyncio.sleep(0.02)
    return "k"


@pytest.mark.parametrize("schedule", SCHEDULES)
async def test_a_reader_waits_for_a_write_whose_key_is_a_reference(
    schedule: Literal["levels", "dataflow"],
) -> None:
    rt = Runtime(tools=[name_of_key], state={"k": "old"}, schedule=schedule)

    result = await rt.execute(plan(call("n", "name_of_key"), write("w", "$n.output", "new"), read("r", "k")))

    assert result["r"].output == "new"


@pytest.mark.parametrize("schedule", SCHEDULES)
async def test_a_write_waits_for_a_reader_whose_key_is_a_reference(
    schedule: Literal["levels", "dataflow"],
) -> None:
    rt = Runtime(tools=[name_of_key], state={"k": "old"}, schedule=schedule)

    result = await rt.execute(plan(call("n", "name_of_key"), read("r", "$n.output"), write("w", "k", "new")))

    assert result["r"].output == "old"
    assert rt.state.get("k") == "new"


@pytest.mark.parametrize("schedule", SCHEDULES)
async def test_a_policy_that_may_read_any_key_sees_what_the_serial_order_would_show(
    schedule: Literal["levels", "dataflow"],
) -> None:
    @tool(risk="read_only")
    async def look() -> str:
        return "seen"

    def needs_permission(action: Action, state: Any) -> str | None:
        return None if action.tool != "look" or state.get("allowed") else "not allowed yet"

    rt = Runtime(tools=[name_of_key, look], policies=[needs_permission], schedule=schedule)

    result = await rt.execute(
        plan(
            call("n", "name_of_key"),
            write("w", "allowed", "$n.output", failure_behavior="skip"),
            call("l", "look", failure_behavior="skip"),
        )
    )

    assert result["l"].status == "succeeded"
