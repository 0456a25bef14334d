"""All connections to MCP servers, in one thread with an event loop of its own.

A runtime may use several event loops, one after the other; a connection belongs to one for as long as it
lasts. So connections live here, and calls come over and go back.

Keep true:
1. A server is connected to when something of it is first called, and again when it is gone: once per call.
   A call that may have had an effect is never sent again.
2. Cancelling a call cancels the request.
3. After `close`, and at the end of the process, no connection and no server is left.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from math import isfinite
from typing import Any, TypeVar

from placet.errors import ToolError, UsageError
from placet.ir.call_facts import Confinement
from placet.ir.json_value import JsonValue
from placet.safe_text import clean
from placet.tools.context import ToolContext
from placet.tools.mcp.link import Forgotten, Link, Progress, Unreachable
from placet.tools.mcp.server import McpServer, Offer, StoredTool, as_schema
from placet.tools.tool import Tool

T = TypeVar("T")
_CLOSE_S = 15.0


class Connections:
    """Connections to servers by their names, made when they are needed."""

    def __init__(self, environment: Mapping[str, str], *, is_stored: bool = True) -> None:
        """`environment` is where the variables are found that servers need. The servers are stored with
        `placet mcp`, unless a program has declared them."""
        self._is_stored = is_stored
        self._environment = environment
        self._links: dict[str, Link] = {}
        """Touched in the thread only."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def tools(self, name: str, server: McpServer) -> list[Tool]:
        """The tools of a server that are switched on. Nothing is started.

        Raises:
            ToolDeclarationError: the schema of one cannot be used.
        """
        return [self._tool(name, server, tool, stored) for tool, stored in server.tools.items()]

    def _tool(self, name: str, server: McpServer, tool: str, stored: StoredTool) -> Tool:
        async def call(parameters: dict[str, JsonValue], context: ToolContext) -> JsonValue:
            there = self._submit(
                self._call(name, server, tool, stored, parameters, _teller(context), context.traceparent)
            )
            return await asyncio.wrap_future(there)

        # Not from_schema: a server may call a parameter what it likes, also `context`.
        made: Tool = Tool(
            schema=as_schema(name, tool, stored), fn=call, context_parameter="context", takes_object=True
        )
        made.confinement = lambda: _confinement(name, server)
        made.origin = f"the one of MCP server '{name}'"
        made.compile()
        return made

    def offers(self, name: str, server: McpServer) -> list[Offer]:
        """What a server lists now. Waits; not for an event loop.

        Raises:
            Unreachable: it cannot be connected to.
        """

        async def look() -> list[Offer]:
            link = await self._connected(name, server)
            return list(link.offers.values())

        return self._submit(look()).result()

    def all_offers(self, servers: Mapping[str, McpServer]) -> dict[str, list[Offer] | Unreachable]:
        """What several servers list now, asked at the same time. Waits; not for an event loop."""

        async def look(name: str, server: McpServer) -> list[Offer] | Unreachable:
            try:
                return list((await self._connected(name, server)).offers.values())
            except Unreachable as error:
                return error

        asked = {name: self._submit(look(name, server)) for name, server in servers.items()}
        return {name: future.result() for name, future in asked.items()}

    def close(self) -> None:
        """End every connection, and every server that was started. Calling it twice is harmless."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._is_closed = True
            self._loop = self._thread = None
        atexit.unregister(self.close)
        if loop is None or thread is None:
            return
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._close_all(), loop).result(_CLOSE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_CLOSE_S)

    async def _close_all(self) -> None:
        links = list(self._links.values())
        self._links.clear()
        await asyncio.gather(*(link.close() for link in links), return_exceptions=True)

    async def _call(
        self,
        name: str,
        server: McpServer,
        tool: str,
        stored: StoredTool,
        parameters: dict[str, JsonValue],
        progress: Progress,
        traceparent: str,
    ) -> JsonValue:
        for _ in range(2):
            try:
                link = await self._connected(name, server)
            except Unreachable as error:
                hint = f" See `placet mcp show {name}`." if self._is_stored else ""
                raise ToolError(f"MCP server '{name}' {error}.{hint}", retry=error.retry) from None
            try:
                return await link.call(tool, stored, parameters, progress, traceparent)
            except Forgotten:
                # Unless somebody else has noticed before, and connected again.
                if self._links.get(name) is link:
                    del self._links[name]
                await link.close()
        raise ToolError(f"MCP server '{name}' forgets every connection that is made. Look at its log.")

    async def _connected(self, name: str, server: McpServer) -> Link:
        old = self._links.get(name)
        if old is not None and not old.is_gone:
            await old.ready()
            return old
        # In the table at once: who comes meanwhile waits for the same connection.
        link = self._links[name] = Link(name, server, self._environment, is_stored=self._is_stored)
        if old is not None:
            await old.close()
        await link.ready()
        return link

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        with self._lock:
            if self._is_closed:
                work.close()
                what = "Open the app again" if self._is_stored else "Create the Runtime again"
                raise UsageError(f"The connections to MCP servers are closed. {what} to call one.")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_run, args=(self._loop,), name="placet-mcp", daemon=True
                )
                self._thread.start()
                atexit.register(self.close)
            return asyncio.run_coroutine_threadsafe(work, self._loop)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


async def _confinement(name: str, server: McpServer) -> Confinement:
    """A server does what it does, wherever it runs: nothing is enforced."""
    where = "elsewhere" if server.url else "a program that runs as you"
    return Confinement(runs_in="server", why=f"MCP server '{clean(name, 60)}', {where}")


def _teller(context: ToolContext) -> Progress:
    """What hands progress on to the call that it is about, in the event loop of that call."""
    loop = asyncio.get_running_loop()

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        done = progress if isfinite(progress) and progress >= 0 else None
        most = total if total is not None and isfinite(total) and total >= 0 else None
        words = clean(message or "", 200)
        # The loop may be over: then nobody listens.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: context.progress(words, done=done, total=most))

    return tell
