"""What can be changed on a live runtime: rate limits, caches, replanning; and which sessions are open."""

from __future__ import annotations

from typing import Any

import pytest

from placet import ReplanConfig, Runtime, tool
from placet.errors import ToolDeclarationError, UnknownTool
from placet.inference.scripted import Scripted
from tests.runtime.plans import Recorder, call, plan, statuses


async def test_a_rate_limit_is_set_and_lifted(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("ping", risk="read_only")])
    two = plan(call("a", "ping"), call("b", "ping", timeout_ms=30, failure_behavior="skip"))
    first = await rt.execute(two)

    rt.set_rate_limit("ping", (1, 60.0))
    limited = await rt.execute(two)
    rt.set_rate_limit("ping", None)
    lifted = await rt.execute(two)

    assert [statuses(each)["b"] for each in (first, limited, lifted)] == ["succeeded", "skipped", "succeeded"]


async def test_results_are_cached_from_then_on(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("ping", risk="read_only")])
    for ttl in (None, 60.0, None):
        rt.enable_tool_cache("ping", ttl)
        for _ in range(3):
            await rt.execute(plan(call("a", "ping", {"x": 1})))

    assert len(recorder.calls) == 3 + 1 + 3


async def test_answers_of_a_model_are_cached_where_that_is_switched_on() -> None:
    model = Scripted(["first", "second"])
    rt = Runtime(model=model)
    rt.enable_tool_cache("infer", 60.0)

    answers = [
        (await rt.execute(plan(call("a", "infer", {"prompt": prompt}))))["a"].output["text"]
        for prompt in ("x", "x", "y", "x")
    ]

    assert answers == ["first", "first", "second", "first"]


async def test_a_tool_of_two_runtimes_is_changed_in_one(recorder: Recorder) -> None:
    shared = recorder.tool("ping", risk="read_only")
    one, other = Runtime(tools=[shared]), Runtime(tools=[shared])

    one.enable_tool_cache("ping", 60.0)
    one.set_rate_limit("ping", (1, 60.0))

    assert one.tools.require("ping").schema.cache_ttl_secs == 60.0
    assert other.tools.require("ping") is shared
    assert (shared.schema.cache_ttl_secs, shared.schema.rate_limit) == (None, None)


def ask_memory() -> str:
    """What somebody may know."""
    return "x"


def test_what_makes_no_sense_is_refused_and_changes_nothing(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("ping", risk="read_only"), recorder.tool("rm")])
    with pytest.raises(UnknownTool, match="ping"):
        rt.set_rate_limit("pingg", (1, 1.0))
    with pytest.raises(UnknownTool):
        rt.enable_tool_cache("pingg", 1.0)
    with pytest.raises(ToolDeclarationError, match="destructive"):
        rt.enable_tool_cache("rm", 60.0)
    labels = tool(risk="read_only")(ask_memory)
    labels.may_label = True
    rt.tools.add(labels)
    with pytest.raises(ToolDeclarationError, match="who asks"):
        rt.enable_tool_cache("ask_memory", 60.0)
    for ttl in (0, -1, float("nan")):
        with pytest.raises(ToolDeclarationError):
            rt.enable_tool_cache("ping", ttl)
    for limit in ((0, 1.0), (1, 0.0), (1,), 3):
        with pytest.raises(ToolDeclarationError):
            rt.set_rate_limit("ping", limit)  # type: ignore[arg-type]

    schema = rt.tools.require("ping").schema
    assert (schema.cache_ttl_secs, schema.rate_limit) == (None, None)


async def test_replanning_is_switched_on_and_off() -> None:
    @tool(risk="read_only")
    def fails() -> str:
        """Fails."""
        raise ValueError("no")

    asked: list[Any] = []

    async def replan(context: Any) -> None:
        asked.append(context)

    rt = Runtime(tools=[fails])
    counts = []
    for callback, config in ((None, ReplanConfig()), (replan, ReplanConfig(max_replans=1)), (None, None)):
        rt.replan = callback
        if config is not None:
            rt.replan_config = config
        assert rt.replan is callback
        await rt.execute(plan(call("a", "fails")))
        counts.append(len(asked))

    assert counts == [0, 1, 1]
    assert rt.replan_config == ReplanConfig(max_replans=1)


def test_whether_a_session_is_open() -> None:
    rt = Runtime()
    session = rt.open_session()

    assert rt.session_exists(session)
    assert not rt.session_exists("another")
    rt.close_session(session)
    assert not rt.session_exists(session)
