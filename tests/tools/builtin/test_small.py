"""calculate, now and sleep, as a runtime and its caller see them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from placet.errors import ToolError
from placet.testing import FakeClock
from placet.tools import Tool, ToolContext
from placet.tools.builtin.small import small_tools


def named(name: str, **options: Any) -> Tool:
    return next(tool for tool in small_tools(**options) if tool.name == name)


def test_all_three_are_read_only_and_described() -> None:
    tools = small_tools()

    assert [tool.name for tool in tools] == ["calculate", "now", "sleep"]
    assert {tool.schema.risk for tool in tools} == {"read_only"}
    assert all(tool.schema.description for tool in tools)
    for tool in tools:
        tool.compile()
        assert all(p.get("description") for p in tool.schema.parameters["properties"].values())


def test_calculate_answers_and_refuses() -> None:
    calculate = named("calculate")

    assert calculate("2 ** 64 + 1") == 2**64 + 1
    assert calculate.validate({"expression": "1" * 1001}) is not None
    with pytest.raises(ToolError, match="position 3"):
        calculate("1+")


@pytest.mark.parametrize(
    ("zone", "iso", "weekday"),
    [
        ("UTC", "2024-02-29T23:30:00+00:00", "Thursday"),
        ("Asia/Tokyo", "2024-03-01T08:30:00+09:00", "Friday"),
        ("America/New_York", "2024-02-29T18:30:00-05:00", "Thursday"),
    ],
)
def test_now_tells_one_moment_in_any_zone(zone: str, iso: str, weekday: str) -> None:
    now = named("now", clock=FakeClock(1709249400.25))

    assert now(zone) == {"iso": iso, "unix": 1709249400.25, "weekday": weekday, "timezone": zone}


@pytest.mark.parametrize(
    ("zone", "words"),
    [
        ("Europe/Belin", "Did you mean 'Europe/Berlin'"),
        ("europe/berlin", "Did you mean 'Europe/Berlin'"),
        ("new york", "Did you mean 'America/New_York'"),
        ("", "Write one such as"),
        ("../../etc/passwd", "No time zone"),
        ("/etc/localtime", "No time zone"),
        ("Europe", "No time zone"),
        ("a\0b", "No time zone"),
        ("x" * 5000, "No time zone"),
    ],
)
def test_an_unknown_zone_is_answered_with_the_nearest(zone: str, words: str) -> None:
    with pytest.raises(ToolError, match=words) as refusal:
        named("now")(zone)

    assert refusal.value.retry is False


async def test_sleep_waits_and_says_how_long() -> None:
    assert await named("sleep")(0.01, ToolContext(action_id="a", run_id="r")) == {"slept_s": 0.01}
    assert await named("sleep")(0, ToolContext(action_id="a", run_id="r")) == {"slept_s": 0}


@pytest.mark.parametrize("seconds", [-1, 3601, "1", None])
def test_sleep_has_bounds(seconds: Any) -> None:
    assert named("sleep").validate({"seconds": seconds}) is not None


@pytest.mark.parametrize("hard", [False, True])
async def test_a_cancel_from_another_thread_ends_the_sleep(hard: bool) -> None:
    context = ToolContext(action_id="a", run_id="r")
    sleeping = asyncio.create_task(named("sleep")(3600, context))
    await asyncio.sleep(0)

    threading.Thread(target=context.cancel.cancel, args=("enough",), kwargs={"hard": hard}).start()

    with pytest.raises(ToolError, match="cut short: enough"):
        await sleeping


async def test_a_cancelled_sleep_lets_the_cancellation_pass_and_unsubscribes() -> None:
    context = ToolContext(action_id="a", run_id="r")
    sleeping = asyncio.create_task(named("sleep")(3600, context))
    await asyncio.sleep(0)

    sleeping.cancel()

    with pytest.raises(asyncio.CancelledError):
        await sleeping
    context.cancel.cancel("late")


async def test_a_sleep_that_begins_after_the_cancel_ends_at_once() -> None:
    context = ToolContext(action_id="a", run_id="r")
    context.cancel.cancel("before")

    with pytest.raises(ToolError, match="cut short: before"):
        await named("sleep")(3600, context)
