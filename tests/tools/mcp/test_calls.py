"""Calls of a real server: what comes back, what it gets to see, and how a call is given up."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placet.errors import ToolError, UsageError
from placet.extras import install_command
from placet.runtime.runtime import Runtime
from placet.tools.context import ToolContext
from placet.tools.mcp.connections import Connections
from placet.tools.mcp.server import McpServer, StoredTool
from tests.tools.mcp.conftest import HOSTILE, Served, is_running, real_command, servers_in, wait_until


@pytest.mark.parametrize(
    ("tool", "parameters", "answer"),
    [
        ("add", {"a": 1, "b": 2}, {"result": 3}),
        ("say", {"text": "hello"}, "hello"),
        (
            "several",
            {},
            [
                {"type": "text", "text": "look:"},
                {"type": "image", "mime_type": "image/png", "bytes": 4, "data": "iVBORw=="},
            ],
        ),
    ],
)
async def test_an_answer_comes_back_as_json(real: Served, tool: str, parameters: Any, answer: Any) -> None:
    assert await real.call(tool, **parameters) == answer


async def test_a_failure_that_the_server_reports_fails_the_call_for_good(real: Served) -> None:
    with pytest.raises(ToolError, match="Error executing tool fail") as caught:
        await real.call("fail", text="it broke")

    assert (caught.value.retry, caught.value.unknown) == (False, False)


async def test_a_server_gets_its_folder_and_the_variables_that_were_named(real: Served) -> None:
    assert await real.call("variable", name="NAMED") == "for the server"
    assert await real.call("variable", name="OTHER") == "(not set)"
    assert (await real.call("where")).partition(" ")[2] == real.server.folder


async def test_a_connection_is_kept_and_serves_calls_at_once(real: Served) -> None:
    first, second = await asyncio.gather(real.call("where"), real.call("where"))

    assert first == second == await real.call("where")


def test_a_connection_outlives_the_event_loop_of_a_call(real: Served) -> None:
    assert asyncio.run(real.call("where")) == asyncio.run(real.call("where"))


async def test_cancelling_a_call_cancels_it_on_the_server(real: Served, tmp_path: Path) -> None:
    trace = tmp_path / "trace"

    task = asyncio.create_task(real.call("linger", file=str(trace)))
    assert await asyncio.to_thread(wait_until, lambda: ("began", 1.0, 4.0) in real.progress)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert await asyncio.to_thread(wait_until, trace.exists)
    assert await real.call("say", text="still there") == "still there"


async def test_a_crash_leaves_the_call_unknown_and_the_next_one_connects_again(real: Served) -> None:
    before = await real.call("where")

    with pytest.raises(ToolError, match=r"'s' ended \(exit code 3\), so 'crash' has no answer") as caught:
        await real.call("crash", code=3)

    assert caught.value.unknown
    assert await real.call("where") != before


async def test_plans_call_it_like_any_tool(real: Served) -> None:
    runtime = Runtime(tools=list(real.tools.values()))
    ask = {"id": "a", "type": "tool_call", "tool": "s.say", "parameters": {"text": "hi"}}
    wrong = {"id": "b", "type": "tool_call", "tool": "s.add", "parameters": {"a": "one", "b": 2}}

    result = await runtime.execute({"id": "p", "source": "test", "actions": [ask]})
    refused = await runtime.execute({"id": "q", "source": "test", "actions": [wrong]})

    assert result.results[0].output == "hi"
    assert "is not of type" in str(refused.results[0].error)


def test_a_tool_is_destructive_and_untrusted_whatever_the_server_claims(
    hostile: Callable[..., Served],
) -> None:
    schema = hostile("ok").tools["do"].schema

    assert (schema.name, schema.risk, schema.marks) == ("s.do", "destructive", ("untrusted",))
    assert schema.description == "Do it. \\e]0;owned\\x07\\u200bhidden"
    assert hostile("ok", read_only=True).tools["do"].schema.risk == "read_only"


async def test_a_parameter_may_be_called_as_our_own(hostile: Callable[..., Served]) -> None:
    assert (
        await hostile("ok").call("do", context="x", parameters=[1]) == '{"context": "x", "parameters": [1]}'
    )


async def test_nothing_is_started_before_the_first_call(connections: Connections, tmp_path: Path) -> None:
    stored = StoredTool(input_schema={"type": "object"}, digest="0" * 64)
    trace = tmp_path / "started"
    command = ("sh", "-c", f'touch {trace}; exec "$@"', "sh", *HOSTILE, "ok")
    server = McpServer(command=command, folder=str(tmp_path), tools={"do": stored})

    [tool] = connections.tools("s", server)

    assert not trace.exists()
    with pytest.raises(ToolError, match="has changed since it was switched on"):
        await tool({}, context=ToolContext(action_id="a", run_id="r"))
    assert trace.exists()


async def test_after_close_nothing_is_called(hostile: Callable[..., Served]) -> None:
    served = hostile("ok")

    served.connections.close()
    served.connections.close()

    with pytest.raises(UsageError, match="are closed"):
        await served.call("do")


@pytest.mark.parametrize("way", ["leaves-children", "stubborn"])
async def test_close_leaves_nothing_running(hostile: Callable[..., Served], way: str, tmp_path: Path) -> None:
    """Also what ignores being asked, and what has left the group and the session."""
    served = hostile(way)
    answer = await served.call("do")
    pids = [int(answer)] if way == "leaves-children" else []
    pids += servers_in(tmp_path)
    assert pids
    assert all(is_running(pid) for pid in pids)

    served.connections.close()

    assert [pid for pid in pids if is_running(pid)] == []


_HOST = """
import asyncio, os, signal, sys
from placet.tools.context import ToolContext
from placet.tools.mcp.connections import Connections
from placet.tools.mcp.server import McpServer, switch_on
from msgspec.structs import replace

connections = Connections(os.environ)
server = McpServer(command=tuple(sys.argv[2:]), folder=os.getcwd())
[offer] = connections.offers("s", server)
server = replace(server, tools={"do": switch_on(offer, read_only=False)})
[tool] = connections.tools("s", server)
print(asyncio.run(tool({}, context=ToolContext(action_id="a", run_id="r"))), flush=True)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("end", ["killed", "over"])
def test_the_end_of_the_host_is_the_end_of_its_servers(end: str, tmp_path: Path) -> None:
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
    if end == "over":
        # It has seen to that itself, before it was gone.
        assert not is_running(child)
    assert wait_until(lambda: not is_running(child))
    assert wait_until(lambda: servers_in(tmp_path) == [])


def test_without_the_sdk_the_error_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['mcp'] = None\n" + _HOST

    host = subprocess.run(
        [sys.executable, "-c", code, "over", *real_command()],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )

    assert install_command("mcp") in host.stderr
