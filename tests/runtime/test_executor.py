"""One function executes the calls of all tools, and leaves those to the tools that it does not know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placet import MemoryApprovals, Reply, Runtime, ToolContext, ToolError, ToolSchema, basic_tools, tool
from placet.approvals.approval import Approval
from placet.errors import UnknownTool, UsageError
from placet.tools import Tool
from tests.runtime.plans import Recorder, call, plan, statuses


class Elsewhere:
    """Executes the tools that it is given the names of."""

    def __init__(self, *names: str) -> None:
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self._names = names

    async def __call__(self, name: str, parameters: dict[str, Any], context: ToolContext) -> Any:
        if name not in self._names:
            raise UnknownTool(name)
        self.seen.append((name, parameters))
        return f"{name} of {context.action_id}"


async def test_it_executes_all_calls_instead_of_the_tools(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("ping", risk="read_only"), recorder.tool("pong", risk="read_only")])
    rt.executor = elsewhere = Elsewhere("ping", "pong")

    result = await rt.execute(plan(call("a", "ping", {"x": 1}), call("b", "pong")))

    assert [each.output for each in result.results] == ["ping of a", "pong of b"]
    assert elsewhere.seen == [("ping", {"x": 1}), ("pong", {})]
    assert recorder.calls == []


async def test_what_it_does_not_know_the_tools_execute(tmp_path: Path, recorder: Recorder) -> None:
    (tmp_path / "a.txt").write_text("here")
    rt = Runtime(
        tools=[recorder.tool("ping", risk="read_only"), recorder.tool("sync", risk="read_only")],
        builtin=basic_tools(tmp_path),
    )
    rt.executor = Elsewhere("ping")

    result = await rt.execute(
        plan(call("a", "ping"), call("b", "sync", {"x": 1}), call("c", "read_file", {"path": "a.txt"}))
    )

    assert statuses(result) == dict.fromkeys("abc", "succeeded")
    assert recorder.calls == [("sync", {"x": 1})]
    assert result["c"].output["text"] == "here"


async def test_a_plain_function_and_a_tool_that_is_only_a_schema() -> None:
    rt = Runtime(tools=[Tool.from_schema(ToolSchema(name="far", risk="read_only"), None)])
    rt.executor = lambda name, parameters, context: [name, parameters]

    result = await rt.execute(plan(call("a", "far", {"x": 1})))

    assert result["a"].output == ["far", {"x": 1}]


async def test_nobody_knows_a_schema_without_a_function() -> None:
    rt = Runtime(tools=[Tool.from_schema(ToolSchema(name="far", risk="read_only"), None)])
    rt.executor = Elsewhere()

    result = await rt.execute(plan(call("a", "far")))

    assert statuses(result) == {"a": "failed"}
    assert "far" in (result["a"].error or "")


async def test_its_errors_are_those_of_a_tool(recorder: Recorder) -> None:
    def refuses(name: str, parameters: dict[str, Any], context: ToolContext) -> Any:
        raise ToolError("not today", retry=False) if name == "ping" else UnknownTool("another")

    rt = Runtime(tools=[recorder.tool("ping"), recorder.tool("pong")])
    rt.executor = refuses

    result = await rt.execute(
        plan(call("a", "ping", failure_behavior="skip"), call("b", "pong", failure_behavior="skip"))
    )

    assert statuses(result) == {"a": "skipped", "b": "skipped"}
    assert result["a"].error == "not today"
    assert recorder.calls == []


async def test_the_gates_hold_and_nothing_is_said_to_confine_it(tmp_path: Path) -> None:
    asked: list[Approval] = []

    def person(approval: Approval) -> Reply:
        asked.append(approval)
        return Reply("deny")

    rt = Runtime(
        builtin=basic_tools(tmp_path), permissions="read_only", person=person, approvals=MemoryApprovals()
    )
    rt.executor = elsewhere = Elsewhere("write_file")
    rt.permissions = None
    invalid = await rt.execute(plan(call("a", "write_file", {"path": 1})))
    rt.permissions = Runtime(permissions="balanced").permissions

    await rt.execute(plan(call("a", "shell", {"command": "true"})))

    assert statuses(invalid) == {"a": "rejected"}
    assert elsewhere.seen == []
    assert asked
    assert asked[0].confinement is not None
    assert not asked[0].confinement.is_confined


async def test_it_is_replaced_and_taken_away_on_a_live_runtime(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("ping", risk="read_only")])
    outputs = []
    for executor in (Elsewhere("ping"), lambda *_: "another", None):
        rt.executor = executor
        assert rt.executor is executor
        outputs.append((await rt.execute(plan(call("a", "ping"))))["a"].output)

    assert outputs[:2] == ["ping of a", "another"]
    assert recorder.names == ["ping"]


async def test_a_tool_that_comes_later_and_a_builtin_that_shows_again(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("ping", risk="read_only")])
    rt.executor = Elsewhere("ping", "late")
    rt.tools.add(recorder.tool("late", risk="read_only"))
    rt.tools.add(recorder.tool("ping", risk="read_only"), builtin=True)
    rt.tools.remove("ping")

    result = await rt.execute(plan(call("a", "late"), call("b", "ping")))

    assert [each.output for each in result.results] == ["late of a", "ping of b"]


async def test_its_time_is_limited_as_the_tool_declares() -> None:
    import asyncio

    @tool(risk="read_only", timeout_ms=30)
    def ping() -> str:
        """Ping."""
        return "here"

    async def never(name: str, parameters: dict[str, Any], context: ToolContext) -> Any:
        await asyncio.Event().wait()

    rt = Runtime(tools=[ping])
    rt.executor = never

    result = await rt.execute(plan(call("a", "ping")))

    assert "timed out" in (result["a"].error or "")


def test_what_cannot_be_called_is_refused() -> None:
    rt = Runtime()
    with pytest.raises(UsageError, match="executor"):
        rt.executor = "docker"  # type: ignore[assignment]
    assert rt.executor is None
