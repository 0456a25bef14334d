"""MCP over HTTP, under the tokens of the server.

Keep true:
1. Only a program that sends its token itself is served, never a browser by its cookie; and only with the
   right `start`.
2. A session is open to the token that began it and to no other: for another it does not exist.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
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
        # The manager compares who asks with who began the session; the token itself it need not know.
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=token.name, scopes=[]))
        await self._manager.handle_request(scope, receive, send)
