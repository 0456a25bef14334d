"""Servers that are URLs: a real one on loopback, and one that answers as it likes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

import pytest

from assent.errors import ToolError
from assent.tools.mcp.connections import Connections
from assent.tools.mcp.link import Unreachable
from assent.tools.mcp.server import McpServer
from tests.tools.mcp.conftest import REAL, Served, wait_until


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def accepts(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def serving(port: int) -> Iterator[None]:
    process = subprocess.Popen([*REAL, str(port)], stderr=subprocess.DEVNULL)
    try:
        assert wait_until(lambda: accepts(port))
        yield
    finally:
        process.kill()
        process.wait()


async def test_a_server_on_http_is_called_and_forgets_nothing_by_being_restarted() -> None:
    """A restarted server does not know the connection: it has not looked at the call, which is made again."""
    port = free_port()
    connections = Connections({**os.environ, "TOKEN": "Bearer of-secrets"})
    server = McpServer(url=f"http://127.0.0.1:{port}/mcp", headers={"Authorization": "TOKEN"})
    try:
        with serving(port):
            served = Served(connections, server)
            assert await served.call("say", text="hello") == "hello"
            assert await served.call("header", name="Authorization") == "Bearer of-secrets"
            with pytest.raises(ToolError, match="Error executing tool fail"):
                await served.call("fail", text="no")
        with pytest.raises(ToolError, match="'s' cannot be reached"):
            await served.call("say", text="nobody is there")
        with serving(port):
            assert await served.call("say", text="again") == "again"
    finally:
        connections.close()


class Odd(BaseHTTPRequestHandler):
    """Answers each method of the protocol as a test says: a status, headers, and what to send."""

    answers: ClassVar[dict[str, Any]] = {}

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        status, headers, body = self.answers.get(asked["method"], (202, {}, b""))
        if callable(body):
            body = body(asked)
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.send_error(405)

    do_DELETE = do_GET

    def log_message(self, *arguments: Any) -> None:
        pass


def result(value: dict[str, Any]) -> Any:
    return lambda asked: json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": value}).encode()


WELL = {
    "initialize": (
        200,
        {"mcp-session-id": "one"},
        result(
            {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "odd", "version": "1"},
            }
        ),
    ),
    "tools/list": (200, {}, result({"tools": [{"name": "do", "inputSchema": {"type": "object"}}]})),
    "tools/call": (200, {}, result({"content": []})),
}


@pytest.fixture
def odd() -> Iterator[McpServer]:
    Odd.answers = dict(WELL)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Odd)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield McpServer(url=f"http://127.0.0.1:{server.server_port}/mcp", timeout_s=10.0)
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((500, {}, b"{}"), r"refused 'do': .*\(HTTP 500\)"),
        ((401, {}, b"{}"), r"\(HTTP 401\)"),
        ((302, {"location": "http://127.0.0.1:1/"}, b""), "Redirect to"),
        ((200, {}, b"this is no JSON"), "Failed to parse JSON"),
        ((200, {}, b'"' + b"x" * (17 * 1024 * 1024) + b'"'), "more than 16 MiB"),
        ((200, {"content-encoding": "gzip"}, b"x"), "packed content"),
        ((404, {}, b""), "forgets every connection"),
    ],
)
async def test_an_answer_that_is_none_says_what_it_is(
    odd: McpServer, connections: Connections, answer: Any, words: str
) -> None:
    served = Served(connections, odd)
    assert await served.call("do") is None

    Odd.answers["tools/call"] = answer
    with pytest.raises(ToolError, match=words):
        await served.call("do")

    Odd.answers["tools/call"] = WELL["tools/call"]
    assert await served.call("do") is None


async def test_a_forgotten_connection_is_made_again_for_the_same_call(
    odd: McpServer, connections: Connections
) -> None:
    served = Served(connections, odd)
    seen: list[Any] = []

    def forget_once(asked: Any) -> bytes:
        seen.append(asked["params"]["name"])
        Odd.answers["tools/call"] = WELL["tools/call"]
        return b""

    Odd.answers["tools/call"] = (404, {}, forget_once)

    assert await served.call("do") is None
    assert seen == ["do"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"initialize": (401, {}, b"")}, r"\(HTTP 401\)"),
        ({"initialize": (200, {"content-type": "text/html"}, b"<html>")}, "Unexpected content type"),
        ({"tools/list": (200, {}, result({"tools": "none"}))}, "what the protocol does not know"),
    ],
)
def test_a_url_that_is_no_server_says_so(
    odd: McpServer, connections: Connections, change: Any, words: str
) -> None:
    Odd.answers |= change

    with pytest.raises(Unreachable, match=words):
        connections.offers("s", odd)


def test_nobody_there_and_no_token_are_told(connections: Connections) -> None:
    port = free_port()
    with pytest.raises(Unreachable, match="cannot be reached"):
        connections.offers("s", McpServer(url=f"http://127.0.0.1:{port}/mcp"))
    with pytest.raises(Unreachable, match="needs the environment variable UNSET for its header X-Key"):
        connections.offers("t", McpServer(url=f"http://127.0.0.1:{port}/mcp", headers={"X-Key": "UNSET"}))
