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
from msgspec.structs import replace

from placet.errors import ToolError
from placet.tools.mcp.connections import Connections
from placet.tools.mcp.link import Unreachable
from placet.tools.mcp.server import McpServer
from tests.tools.mcp.conftest import Served, real_command, wait_until


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
    process = subprocess.Popen([*real_command(), str(port)], stderr=subprocess.DEVNULL)
    try:
        assert wait_until(lambda: accepts(port))
        yield
    finally:
        process.kill()
        process.wait()
        assert wait_until(lambda: not accepts(port))


async def test_a_server_on_http_is_called_and_connected_to_again_after_it_was_restarted() -> None:
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
    seen: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/old":
            self._answer(307, {"location": "/mcp"}, b"")
            return
        self.seen.append(asked.get("method", ""))
        status, headers, body = self.answers.get(asked["method"], (202, {}, b""))
        if callable(body):
            body = body(asked)
        self._answer(status, headers, body)

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.seen.append("GET")
        self._answer(*self.answers.get("GET", (405, {}, b"")))

    def do_DELETE(self) -> None:
        self.send_error(405)

    def log_message(self, *arguments: Any) -> None:
        pass


def result(value: dict[str, Any]) -> Any:
    return lambda asked: json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": value}).encode()


def problem(number: Any = ...) -> Any:
    """A JSON-RPC error: for the request, or with another id."""
    error = {"code": -32000, "message": "no \x1b"}

    def body(asked: Any) -> bytes:
        found = asked["id"] if number is ... else number
        return json.dumps({"jsonrpc": "2.0", "id": found, "error": error}).encode()

    return body


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
    Odd.seen = []
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
        ((500, {}, b"{}"), r"'s' answered with an error \(HTTP 500\), so 'do' has no answer"),
        ((504, {"content-type": "text/html"}, b"<html>"), r"\(HTTP 504\)"),
        ((429, {}, b"{}"), r"\(HTTP 429\)"),
        ((202, {}, b""), r"took it and gives no answer \(HTTP 202\)"),
        (
            (302, {"location": "http://127.0.0.1:1/\x1b"}, b""),
            r"sends us on to ('http://127.0.0.1:1/\\e'|what is no URL)",
        ),
        ((200, {"content-type": "text/html"}, b"<html>"), "'text/html', which is no answer"),
        ((200, {}, b"this is no JSON"), "answered with what cannot be read"),
        ((200, {}, b'"' + b"x" * (5 * 1024 * 1024) + b'"'), "sent an answer of more than 4 MiB"),
        ((200, {}, b"[" * 300_000), "answered with more than 250,000 lists and objects"),
        ((200, {"content-encoding": "gzip"}, b"x"), "packed content"),
        ((404, {}, b""), r"answered with an error \(HTTP 404\)"),
        ((404, {}, problem(None)), r"answered with an error \(HTTP 404\)"),
        ((500, {}, problem("server-error")), r"answered with an error \(HTTP 500\)"),
    ],
)
async def test_a_call_that_was_sent_and_not_answered_is_unknown_and_sent_once(
    odd: McpServer, connections: Connections, answer: Any, words: str
) -> None:
    served = Served(connections, odd)
    assert await served.call("do") is None
    Odd.seen.clear()

    Odd.answers["tools/call"] = answer
    with pytest.raises(ToolError, match=words) as caught:
        await served.call("do")

    assert caught.value.unknown
    assert Odd.seen.count("tools/call") == 1
    Odd.answers["tools/call"] = WELL["tools/call"]
    assert await served.call("do") is None


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((401, {}, b"{}"), r"refused 'do': turned it away \(HTTP 401\)"),
        ((403, {"content-type": "text/html"}, b"<html>"), r"turned it away \(HTTP 403\)"),
        ((500, {}, problem()), r"refused 'do': answered with an error: no \\e \(HTTP 500\)"),
        ((404, {}, problem()), r"refused 'do': answered with an error: no \\e \(HTTP 404\)"),
        ((200, {}, problem()), r"refused 'do': answered with an error: no \\e"),
    ],
)
async def test_a_refusal_is_certain(
    odd: McpServer, connections: Connections, answer: Any, words: str
) -> None:
    served = Served(connections, odd)

    Odd.answers["tools/call"] = answer
    with pytest.raises(ToolError, match=words) as caught:
        await served.call("do")

    assert (caught.value.unknown, caught.value.retry) == (False, False)
    Odd.answers["tools/call"] = WELL["tools/call"]
    assert await served.call("do") is None


async def test_a_server_that_has_moved_within_its_origin_is_followed(
    odd: McpServer, connections: Connections
) -> None:
    served = Served(connections, replace(odd, url=odd.url.replace("/mcp", "/old")))

    assert await served.call("do") is None
    assert Odd.seen.count("tools/call") == 1


@pytest.mark.parametrize("read_only", [True, False])
async def test_only_what_reads_is_called_again_over_a_new_connection(
    odd: McpServer, connections: Connections, read_only: bool
) -> None:
    served = Served(connections, odd, read_only=read_only)

    def forget_once(asked: Any) -> bytes:
        Odd.answers["tools/call"] = WELL["tools/call"]
        return b""

    Odd.answers["tools/call"] = (404, {}, forget_once)

    if read_only:
        assert await served.call("do") is None
    else:
        with pytest.raises(ToolError, match="Whether the call had an effect is not known"):
            await served.call("do")
        assert await served.call("do") is None
    assert Odd.seen.count("tools/call") == 2
    assert Odd.seen.count("initialize") == 2


async def test_a_server_that_forgets_every_connection_is_called_twice_at_most(
    odd: McpServer, connections: Connections
) -> None:
    served = Served(connections, odd, read_only=True)
    Odd.answers["tools/call"] = (404, {}, b"")

    with pytest.raises(ToolError, match="forgets every connection"):
        await served.call("do")

    assert Odd.seen.count("tools/call") == 2


EVENTS = {"content-type": "text/event-stream"}
LOG = (
    b'data: {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}\n\n'
)


async def test_an_answer_that_breaks_off_is_not_called_for_again(
    odd: McpServer, connections: Connections
) -> None:
    """The effect may have happened before it broke off, whatever is said to whoever asks for the rest."""
    served = Served(connections, odd)
    Odd.answers |= {"tools/call": (200, EVENTS, b"id: 1\nretry: 1\n" + LOG), "GET": (404, {}, b"")}

    with pytest.raises(ToolError, match="'s' broke off its answer, so 'do' has no answer") as caught:
        await served.call("do")

    assert caught.value.unknown
    assert Odd.seen.count("tools/call") == 1


async def test_an_answer_that_breaks_off_for_ever_is_given_up(
    odd: McpServer, connections: Connections
) -> None:
    served = Served(connections, odd)
    cut = (200, EVENTS, b"id: 1\nretry: 1\n" + LOG)
    Odd.answers |= {"tools/call": cut, "GET": cut}

    with pytest.raises(ToolError, match="breaks off its answer again and again") as caught:
        await served.call("do")

    assert caught.value.unknown
    assert Odd.seen.count("tools/call") == 1


async def test_messages_over_http_are_bounded_too(odd: McpServer, connections: Connections) -> None:
    # So many take seconds where much else is done.
    served = Served(connections, replace(odd, timeout_s=100.0))
    Odd.answers["tools/call"] = (200, EVENTS, LOG * 10_001)

    with pytest.raises(ToolError, match="sent more than 10,000 messages without an answer"):
        await served.call("do")


async def test_no_stream_is_listened_to_while_nothing_is_asked(
    odd: McpServer, connections: Connections
) -> None:
    """A server could keep us busy on it."""
    Odd.answers["GET"] = (200, EVENTS, b"retry: 1\n" + LOG)
    served = Served(connections, odd)

    assert await served.call("do") is None

    assert "GET" not in Odd.seen


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"initialize": (401, {}, b"")}, r"\(HTTP 401\)"),
        ({"initialize": (200, {"content-type": "text/html"}, b"<html>")}, "'text/html', which is no answer"),
        ({"initialize": (200, {}, b"{")}, "answered with what cannot be read"),
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


@pytest.mark.parametrize("value", ["Bearer größe", "two\nlines"])
def test_a_token_that_no_header_can_carry_is_told_by_the_name_of_its_variable(value: str) -> None:
    connections = Connections({"TOKEN": value})
    try:
        with pytest.raises(Unreachable, match="the environment variable TOKEN holds characters") as caught:
            connections.offers("s", McpServer(url="http://127.0.0.1:1/mcp", headers={"X-Key": "TOKEN"}))
    finally:
        connections.close()

    assert value not in str(caught.value)
