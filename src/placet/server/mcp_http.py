"""MCP over HTTP, under the tokens of the server.

Keep true: only a program that sends its token itself is served, never a browser by its cookie; and only with
the right `start`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from placet.server.answers import failure
from placet.server.guard import Receive, Scope, Send
from placet.server.mcp import Face, make_server
from placet.server.tokens import Token

if TYPE_CHECKING:
    from placet.app.app import App


class McpEndpoint:
    """The tools of an app, for MCP clients that reach the server."""

    def __init__(self, app: App, *, db: str | None) -> None:
        """`db` is the database as the person named it."""
        self._face = Face(app, db=db)
        server: Any = make_server(self._face)
        # Host and Origin were looked at by the guard.
        self._manager = StreamableHTTPSessionManager(server)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve as long as it is entered; what runs then is stopped, and can be resumed."""
        async with self._manager.run():
            yield
            self._face.ending = "the server ends"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a client."""
        token: Token | None = scope.get("state", {}).get("token")
        if token is None or not token.may("start") or token.tenant is not None:
            refused = failure(403, "forbidden", "MCP needs a token of no tenant with the right 'start'.")
            await refused(scope, receive, send)
            return
        await self._manager.handle_request(scope, receive, send)
