"""MCP over HTTP, with a real client, under the tokens of the server."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from placet.app.app import open_app, open_records
from placet.app.options import RunOptions
from placet.redaction import Redactor
from placet.server.asgi import make_app, make_site
from placet.server.mcp_http import McpEndpoint
from placet.server.running import addresses, listen, make_server
from placet.server.tokens import Tokens


@contextmanager
def served(app: Any, opened: socket.socket, on_exit: Any) -> Iterator[None]:
    """A server in a thread."""
    server: uvicorn.Server = make_server(app, cert=None, key=None, on_exit=on_exit)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([opened])), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(20)


async def flood() -> AsyncIterator[bytes]:
    """A body of which nobody knows the length beforehand."""
    for _ in range(32):
        yield b" " * 65_536


async def test_client_lists_and_calls_tools_with_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DATA", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    work, db = tmp_path / "work", str(tmp_path / "p.db")
    work.mkdir()
    (work / "note.txt").write_text("hello")
    tokens = Tokens(tmp_path / "server")
    owner, looker = tokens.owner(), tokens.add("looker", rights=["see"])
    other = tokens.add("other", rights=["see", "decide", "start"])
    tenants = tokens.add("tenant's", tenant="a", rights=["see", "decide", "start"])
    as_owner = {"authorization": f"Bearer {owner}"}
    opened = listen("127.0.0.1", 0)
    port = opened.getsockname()[1]
    hosts, origins = addresses("127.0.0.1", port, [], is_secure=False)

    with (
        open_records(db, create=True, writes=True) as records,
        open_app(RunOptions(folder=str(work)), db=db) as offered,
    ):
        site = make_site(records, tokens, Redactor(), db=db)
        app = make_app(site, hosts=hosts, origins=origins, cookie="c", mcp=McpEndpoint(offered, db=db))
        with served(app, opened, lambda: None):
            url = f"http://127.0.0.1:{port}/mcp"
            codes = []
            async with httpx2.AsyncClient() as stranger:
                for headers in (
                    {},
                    {"authorization": f"Bearer {looker}"},
                    {"authorization": f"Bearer {tenants}"},
                    {"cookie": f"c={owner}"},
                    {"authorization": f"Bearer {owner}", "origin": "https://evil.example"},
                    {"authorization": f"Bearer {owner}", "host": "evil.example"},
                ):
                    sent = await stranger.post(url, json={}, headers=headers)
                    codes.append(sent.status_code)
                large = await stranger.post(
                    url, content=flood(), headers=as_owner | {"content-type": "application/json"}
                )
                # A session that another token has begun.
                hello = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {},
                    "clientInfo": {"name": "t", "version": "1"},
                }
                accepts = {"accept": "application/json, text/event-stream"}
                call = {"jsonrpc": "2.0", "id": 1}
                begun = await stranger.post(
                    url, json=call | {"method": "initialize", "params": hello}, headers=as_owner | accepts
                )
                session = accepts | {"mcp-session-id": begun.headers["mcp-session-id"]}
                listing = call | {"method": "tools/list"}
                for token in (other, owner):
                    bearer = {"authorization": f"Bearer {token}"}
                    sent = await stranger.post(url, json=listing, headers=session | bearer)
                    codes.append(sent.status_code)
            async with (
                httpx2.AsyncClient(headers=as_owner) as http,
                streamable_http_client(url, http_client=http) as streams,
                ClientSession(streams[0], streams[1]) as client,
            ):
                await client.initialize()
                names = {tool.name for tool in (await client.list_tools()).tools}
                found = await client.call_tool("read_file", {"path": "note.txt"})
        kept = [run.source for run in records.journal.runs()]

    assert codes == [401, 403, 403, 401, 403, 403, 404, 200]
    assert large.status_code == 413
    assert {"read_file", "execute_plan"} <= names
    assert not found.is_error
    assert "hello" in found.content[0].text
    assert kept == ["mcp"]
