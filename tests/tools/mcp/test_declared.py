"""MCP servers that a program declares: `Runtime(mcp=[...])`, with real servers."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placet import Assistant, EventLog, JsonlSink, Runtime, tool
from placet.errors import DuplicateTool, McpUnreachable, UsageError
from placet.inference import Scripted, ToolCall
from placet.tools import McpTools
from tests.tools.mcp.conftest import HOSTILE, is_running, real_command, servers_in, wait_until
from tests.tools.mcp.test_http import free_port, serving

SECRET = "sk-9f8e7d6c5b4a3210"


def real(**options: Any) -> McpTools:
    return McpTools(**{"name": "real", "command": real_command(), **options})


def hostile(way: str, *arguments: str, **options: Any) -> McpTools:
    return McpTools(**{"name": "s", "command": (*HOSTILE, way, *arguments), **options})


def call(runtime: Runtime, name: str, /, **parameters: Any) -> Any:
    plan = {"actions": [{"id": "a", "tool": name, "parameters": parameters}]}
    return runtime.execute_sync(plan)["a"]


def test_its_tools_are_tools_like_any_other() -> None:
    with Runtime(mcp=[real(tools=["add", "say"], read_only=["add"])]) as runtime:
        assert runtime.tools.names() == ["real.add", "real.say"]
        add, say = runtime.tools.schemas()

        assert call(runtime, "real.add", a=1, b=2).output == {"result": 3}
        assert call(runtime, "real.say", text="hello").output == "hello"
        assert call(runtime, "real.add", a="one").status == "rejected"

    assert (add.risk, say.risk) == ("read_only", "destructive")
    assert add.marks == say.marks == ("untrusted",)


async def test_an_assistant_uses_them() -> None:
    model = Scripted([ToolCall(name="real.add", arguments={"a": 20, "b": 22}), "It is 42."])
    runtime = await asyncio.to_thread(lambda: Runtime(mcp=[real(read_only=["add"])]))

    async with runtime:
        ending = await Assistant(runtime, model).run("20 + 22?")

    assert (ending.status, ending.tools) == ("success", ("real.add",))


async def test_a_tool_that_is_not_declared_to_read_needs_approval() -> None:
    model = Scripted([ToolCall(name="real.say", arguments={"text": "x"}), "No."])
    runtime = await asyncio.to_thread(lambda: Runtime(mcp=[real()]))

    async with runtime:
        ending = await Assistant(runtime, model).run("Say x.")

    assert ending.refused == ("real.say",)


def test_declaring_one_starts_nothing(tmp_path: Path) -> None:
    trace = tmp_path / "started"
    declared = real(command=("sh", "-c", f'touch {trace}; exec "$@"', "sh", *real_command()))

    assert not trace.exists()
    Runtime(mcp=[declared]).close()
    assert trace.exists()


def test_close_ends_the_server_and_later_calls_fail(tmp_path: Path) -> None:
    runtime = Runtime(mcp=[hostile("leaves-children", folder=tmp_path)])
    child = int(call(runtime, "s.do").output)
    assert is_running(child)
    assert servers_in(tmp_path)

    runtime.close()
    runtime.close()

    assert not is_running(child)
    assert servers_in(tmp_path) == []
    assert call(runtime, "s.do").status == "failed"


_HOST = """
import os, signal, sys
from placet import Runtime
from placet.tools import McpTools
runtime = Runtime(mcp=[McpTools(name="s", command=sys.argv[2:])])
plan = {"actions": [{"id": "a", "tool": "s.do"}]}
print(runtime.execute_sync(plan)["a"].output, flush=True)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("end", ["killed", "over"])
def test_no_server_is_left_when_the_program_ends(end: str, tmp_path: Path) -> None:
    """Whether it is killed, or just ends without closing anything."""
    host = subprocess.run(
        [sys.executable, "-c", _HOST, end, *HOSTILE, "leaves-children"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )

    assert host.returncode == (-9 if end == "killed" else 0), host.stderr
    child = int(host.stdout)
    assert wait_until(lambda: not is_running(child))
    assert wait_until(lambda: servers_in(tmp_path) == [])


def test_a_server_on_http_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REAL_TOKEN", f"Bearer {SECRET}")
    port, log = free_port(), tmp_path / "log.jsonl"
    declared = McpTools(
        name="web", url=f"http://127.0.0.1:{port}/mcp", headers={"Authorization": "REAL_TOKEN"}
    )

    with serving(port), Runtime(mcp=[declared], events=EventLog(sinks=[JsonlSink(log)])) as runtime:
        result = call(runtime, "web.header", name="Authorization")
        asyncio.run(runtime.events.settle())

    assert result.output == f"Bearer {SECRET}", "it was sent"
    assert SECRET not in log.read_text()
    assert SECRET not in str(list(runtime.events))
    assert SECRET not in repr(declared)


def test_variables_are_named_and_their_values_reach_no_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NAMED", SECRET)
    monkeypatch.setenv("OTHER", "for nobody")
    log = tmp_path / "log.jsonl"

    with Runtime(mcp=[real(environment=["NAMED"])], events=EventLog(sinks=[JsonlSink(log)])) as runtime:
        assert call(runtime, "real.variable", name="NAMED").output == SECRET
        assert call(runtime, "real.variable", name="OTHER").output == "(not set)"
        asyncio.run(runtime.events.settle())

    assert SECRET not in log.read_text()


@pytest.mark.parametrize(
    "declared",
    [
        lambda: real(command=["no-such-program-here"]),
        lambda: real(environment=["NOT_SET_ANYWHERE"]),
        lambda: McpTools(name="real", url=f"http://127.0.0.1:{free_port()}/mcp"),
        lambda: real(command=["sh", "-c", "exit 3"]),
    ],
)
def test_a_server_that_cannot_be_reached_is_named(declared: Callable[[], McpTools]) -> None:
    with pytest.raises(McpUnreachable) as raised:
        Runtime(mcp=[declared()])

    assert (raised.value.code, raised.value.server) == ("mcp.unreachable", "real")


def test_what_a_server_says_before_it_fails_is_shown_without_its_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NAMED", SECRET)
    refuse = "echo no entry for $NAMED >&2; exit 3"

    with pytest.raises(McpUnreachable) as raised:
        Runtime(mcp=[real(command=["sh", "-c", refuse], environment=["NAMED"])])

    assert "no entry for" in raised.value.errors
    assert SECRET not in str(raised.value)


def test_if_one_fails_none_is_left(tmp_path: Path) -> None:
    with pytest.raises(McpUnreachable):
        Runtime(mcp=[hostile("ok", folder=tmp_path), real(command=["no-such-program-here"])])
    with pytest.raises(UsageError):
        Runtime(mcp=[hostile("ok", folder=tmp_path, tools=["dont"])])

    assert wait_until(lambda: servers_in(tmp_path) == [])


@pytest.mark.parametrize("options", [{"tools": ["ad"]}, {"read_only": ["ad"]}])
def test_a_tool_that_is_not_offered_is_refused_with_the_nearest(options: Any) -> None:
    with pytest.raises(UsageError) as raised:
        Runtime(mcp=[real(**options)])

    assert "'real'" in str(raised.value)
    assert "'add'" in str(raised.value)


def test_a_name_that_an_own_tool_has_is_refused(tmp_path: Path) -> None:
    @tool(name="s.do")
    def mine() -> None:
        """Do."""

    with pytest.raises(DuplicateTool) as raised:
        Runtime([mine], mcp=[hostile("ok", folder=tmp_path)])

    assert "MCP server 's'" in str(raised.value)
    assert "placet.tools" not in str(raised.value), "who reads it knows nothing of our functions"
    assert wait_until(lambda: servers_in(tmp_path) == [])


@pytest.mark.parametrize("tools", [None, ["do"]])
def test_a_server_that_lists_two_tools_of_one_name_is_refused(
    tmp_path: Path, tools: list[str] | None
) -> None:
    with pytest.raises(DuplicateTool) as raised:
        Runtime(mcp=[hostile("twice", folder=tmp_path, tools=tools)])

    assert raised.value.name == "do"
    assert wait_until(lambda: servers_in(tmp_path) == [])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"command": ["x"], "url": "http://localhost/"},
        {"command": "x"},
        {"command": [""]},
        {"command": ["x"], "name": "a b"},
        {"command": ["x"], "headers": {"A": "B"}},
        {"command": ["x"], "environment": ["A=b"]},
        {"command": ["x"], "tools": "add"},
        {"command": ["x"], "timeout_s": 0},
        {"url": "ftp://x"},
        {"url": "https://user:word@host/"},
        {"url": "http://x/", "environment": ["A"]},
        {"url": "http://x/", "headers": {"Authorization": f"Bearer {SECRET}"}},
    ],
)
def test_what_cannot_be_a_server_is_refused_where_it_is_written(options: Any) -> None:
    with pytest.raises(UsageError) as raised:
        McpTools(**{"name": "s", **options})

    assert SECRET not in str(raised.value), "a token that stands there is not repeated"


def test_two_servers_of_one_name_and_what_is_none_are_refused() -> None:
    with pytest.raises(UsageError, match="real"):
        Runtime(mcp=[real(), real()])
    with pytest.raises(UsageError):
        Runtime(mcp=["real"])  # type: ignore[list-item]


def test_what_has_changed_since_is_not_called(tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    with Runtime(mcp=[hostile("changes", str(changed), folder=tmp_path)]) as runtime:
        assert call(runtime, "s.do").status == "succeeded"
        changed.touch()
        for pid in servers_in(tmp_path):
            os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: servers_in(tmp_path) == [])
        # The end of the server may be noticed by a call, which is then unknown.
        results = [call(runtime, "s.do") for _ in range(2)]

    assert "succeeded" not in [result.status for result in results]
    assert "has changed" in results[-1].error
    assert "placet mcp" not in results[-1].error
