"""One live connection to one server.

Everything here runs in the thread of `connections`. One task holds the connection open from its beginning to
its end, because the SDK wants both in the same task; whoever calls only waits.

Keep true:
1. What a server lists is compared with what was switched on before anything is called.
2. Every wait for a server ends: by its answer, its end or a limit.
3. Giving up on a call tells the server so (the SDK sends `notifications/cancelled`).
4. A call is sent once. Only what certainly was not sent, or only reads, may be sent by somebody again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from placet import __version__
from placet.errors import ToolError
from placet.extras import install_command
from placet.ir.json_value import JsonValue
from placet.safe_text import clean
from placet.tools.mcp.content import answer_of, words_of
from placet.tools.mcp.http import http_streams
from placet.tools.mcp.server import LISTED_TWICE, McpServer, Offer, StoredTool, read_offer
from placet.tools.mcp.stdio import NotStarted, stdio_streams
from placet.tools.mcp.traffic import (
    ASKS,
    TOOLS_AT_MOST,
    UNREADABLE,
    UNUSABLE,
    Incoming,
    Noticed,
    Outgoing,
    Replies,
    replies,
)

if TYPE_CHECKING:
    from mcp import ClientSession, MCPError


class Progress(Protocol):
    """What hears how far a call has come."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


_PAGES_AT_MOST = 100
_CLOSE_S = 5.0
"""For a server that is told to end; then its task is cut off."""


class Unreachable(Exception):
    """A server that cannot be connected to. Nothing has been called."""

    def __init__(self, problem: str, *, errors: str = "", retry: bool = True) -> None:
        self.errors = errors
        """The last lines of its standard error, cleaned."""
        self.retry = retry
        """Whether trying again could help."""
        super().__init__(problem)


class Link:
    """A connection that is being made, is there, or is gone."""

    def __init__(
        self, name: str, server: McpServer, environment: Mapping[str, str], *, is_stored: bool = True
    ) -> None:
        """`is_stored` says who can mend what is wrong: a person with `placet mcp`, or else a program."""
        self._is_stored = is_stored
        self._name = name
        self._server = server
        self._environment = environment
        self._noticed = Noticed()
        self._wish = asyncio.Event()
        """Set when it shall end."""
        self._session: ClientSession | None = None
        self._why = ""
        """Why it ended, to follow the server's name."""
        self.offers: dict[str, Offer] = {}
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Nobody may be left who asks how it went.
        self._ready.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._task = asyncio.create_task(self._hold())

    @property
    def is_gone(self) -> bool:
        """Whether nothing can be called over it any more."""
        return self._task.done() or self._wish.is_set() or self._noticed.gone.is_set()

    async def ready(self) -> None:
        """Wait until the server has listed its tools.

        Raises:
            Unreachable: it does not get there.
        """
        # Shielded: whoever gives up waiting must not spoil it for the others.
        await asyncio.shield(self._ready)

    async def close(self) -> None:
        """End the connection, and the server if it is a command."""
        self._wish.set()
        if self._ready.done():
            await asyncio.wait([self._task], timeout=_CLOSE_S)
        # One that is still being made is not waited for: who wanted it is gone.
        self._task.cancel()
        await asyncio.wait([self._task], timeout=_CLOSE_S)

    async def _hold(self) -> None:
        replies.set(answered := Replies())
        may_retry = True
        try:
            async with self._open() as session:
                try:
                    async with asyncio.timeout(self._server.connect_timeout_s):
                        await _shake_hands(session)
                        self.offers = await _list(session, self._noticed)
                except TimeoutError:
                    problem = self._too_slow(self._server.connect_timeout_s)
                    raise NotStarted(problem, retry=True) from None
                self._session = session
                self._ready.set_result(None)
                await _first_of(self._wish, self._noticed.gone)
        except NotStarted as error:
            self._why, may_retry = str(error), error.retry
        except Exception as error:
            self._why = _words(error, answered)
        finally:
            self._session = None
            self._why = self._noticed.end or self._why or "was closed"
            if not self._ready.done():
                self._ready.set_exception(
                    Unreachable(self._why, errors=self._noticed.last_errors(), retry=may_retry)
                )

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[ClientSession]:
        try:
            from mcp import ClientSession
        except ImportError:
            raise NotStarted(f"needs the extra `mcp`. Install it with: {install_command('mcp')}") from None
        from mcp_types import Implementation

        _quieten()
        async with AsyncExitStack() as stack:
            read, write = await stack.enter_async_context(self._streams())
            itself = Implementation(name="placet", version=__version__)
            incoming, outgoing = Incoming(read, self._noticed), Outgoing(write, self._noticed)
            session = incoming.session = ClientSession(incoming, outgoing, client_info=itself)
            yield await stack.enter_async_context(session)

    def _streams(self) -> Any:
        if self._server.url:
            return http_streams(self._server, self._environment, self._noticed)
        return stdio_streams(self._server, self._environment, self._noticed)

    async def call(
        self,
        tool: str,
        stored: StoredTool,
        parameters: dict[str, JsonValue],
        progress: Progress,
        traceparent: str = "",
    ) -> JsonValue:
        """What the server answers. It is told of the trace that the call belongs to.

        Raises:
            Forgotten: the connection is gone, and the call was not sent or only reads.
            ToolError: it does not answer, or answers with a failure.
        """
        self._check(tool, stored)
        session = self._session
        if session is None:
            raise Forgotten
        from mcp import MCPError
        from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult, RequestParamsMeta
        from pydantic import ValidationError

        replies.set(answered := Replies())
        params = CallToolRequestParams(name=tool, arguments=parameters)
        if traceparent:
            params.meta = RequestParamsMeta(traceparent=traceparent)  # type: ignore[typeddict-unknown-key]
        request = CallToolRequest(params=params)
        try:
            async with asyncio.timeout(self._server.timeout_s):
                # Not session.call_tool: that checks the answer with whatever patterns the server has listed,
                # and one of them could keep this thread busy for ever.
                result = await session.send_request(request, CallToolResult, progress_callback=progress)
        except TimeoutError:
            raise self._lost(tool, stored, self._too_slow(self._server.timeout_s)) from None
        except MCPError as error:
            raise await self._failure(tool, stored, error, answered) from None
        except ValidationError:
            raise self._lost(tool, stored, "answered with what is no result", retry=False) from None
        if result.is_error:
            words = words_of(result) or f"'{tool}' of MCP server '{self._name}' failed, and does not say why."
            raise ToolError(words, retry=False)
        return answer_of(result)

    async def _failure(
        self, tool: str, stored: StoredTool, error: MCPError, answered: Replies
    ) -> ToolError | Forgotten:
        """What an error in the place of an answer means: a refusal only where that is certain."""
        from mcp_types import CONNECTION_CLOSED, PARSE_ERROR

        if answered.is_forgotten:
            # Made anew for the next call. This one may have been carried out before it was answered so.
            self._wish.set()
            if stored.read_only and not answered.is_refusal:
                return Forgotten()
        if error.code == CONNECTION_CLOSED and not self._noticed.end:
            # How it ended is known a moment later, and the next call must not meet what is ending.
            await asyncio.wait([self._task], timeout=_CLOSE_S if self._noticed.gone.is_set() else 0.1)
        if answered.problem and not answered.is_refusal:
            return self._lost(tool, stored, answered.problem, retry=answered.may_retry)
        if error.code == CONNECTION_CLOSED:
            # Else it is the SDK that tells of one answer of many.
            known = self._noticed.end or self._why or "broke off its answer"
            return self._lost(tool, stored, known)
        if error.code == UNUSABLE:
            return self._lost(tool, stored, clean(error.message, 200), retry=False)
        if error.code == PARSE_ERROR and self._server.url:
            # The SDK's, for a body that it cannot read.
            return self._lost(tool, stored, UNREADABLE, retry=False)
        if error.code == ASKS:
            return ToolError(
                f"'{tool}' of MCP server '{self._name}' asks for more input from a person, "
                "which cannot be given here. Call it with all that it needs.",
                retry=False,
            )
        return ToolError(
            f"MCP server '{self._name}' refused '{tool}': {_words(error, answered)}.", retry=False
        )

    def _check(self, tool: str, stored: StoredTool) -> None:
        """Refuse a tool that is not what a person has looked at."""
        offer = self.offers.get(tool)
        if offer is not None and stored.is_still(offer):
            if offer.problem:
                hint = f" Look at it with `placet mcp show {self._name}`." if self._is_stored else ""
                raise ToolError(
                    f"'{tool}' of MCP server '{self._name}' cannot be used: {offer.problem}.{hint}",
                    retry=False,
                )
            return
        if not self._is_stored:
            what = "is no longer offered" if offer is None else "has changed since its server was asked"
            raise ToolError(
                f"'{tool}' of MCP server '{self._name}' {what}. Create the Runtime again to use what is "
                "offered now.",
                retry=False,
            )
        what = "is no longer offered" if offer is None else "has changed since it was switched on"
        fix = "disable" if offer is None else "enable"
        how = ""
        if offer is not None and (stored.read_only or stored.as_claimed):
            how = " --as-claimed" if stored.as_claimed else " --read-only"
        raise ToolError(
            f"'{tool}' of MCP server '{self._name}' {what}. Look again with `placet mcp show {self._name}`, "
            f"then `placet mcp {fix} {self._name} {tool}{how}`.",
            retry=False,
        )

    def _too_slow(self, limit_s: float) -> str:
        also = f" and {self._noticed.oddity}" if self._noticed.oddity else ""
        return f"did not answer within {limit_s:g} s{also}"

    def _lost(self, tool: str, stored: StoredTool, problem: str, *, retry: bool = True) -> ToolError:
        """A call that was sent and has no answer."""
        doubt = "" if stored.read_only else " Whether the call had an effect is not known."
        return ToolError(
            f"MCP server '{self._name}' {problem}, so '{tool}' has no answer.{doubt}",
            retry=retry,
            unknown=not stored.read_only,
        )


class Forgotten(Exception):
    """There is no connection any more, and whoever called may call again: nothing was done."""


async def _shake_hands(session: ClientSession) -> None:
    from mcp import MCPError
    from mcp_types import UNSUPPORTED_PROTOCOL_VERSION

    try:
        await session.initialize()
    except MCPError as error:
        if error.code != UNSUPPORTED_PROTOCOL_VERSION:
            raise
        # A server that knows only the versions without a handshake.
        await session.discover()


async def _list(session: ClientSession, noticed: Noticed) -> dict[str, Offer]:
    """Every tool that a server lists, by name; what is wrong about one is its own problem."""
    from mcp_types import PaginatedRequestParams

    found: dict[str, Offer] = {}
    cursor: str | None = None
    for _ in range(_PAGES_AT_MOST):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        for listed in page.tools:
            offer = read_offer(listed.model_dump(mode="json", by_alias=True, exclude_none=True))
            _add(found, offer)
        if len(found) > TOOLS_AT_MOST:
            break
        cursor = page.next_cursor
        if cursor is None:
            for name, problem in noticed.misshapen:
                _add(found, Offer(name=name, input_schema={}, problem=problem))
            return found
    raise NotStarted(f"lists more than {TOOLS_AT_MOST:,} tools, or does not come to an end")


def _add(found: dict[str, Offer], offer: Offer) -> None:
    if offer.name in found:
        # Nobody could say which of them a call means.
        offer = replace(offer, problem=LISTED_TWICE)
    found[offer.name] = offer


async def _first_of(*events: asyncio.Event) -> None:
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()


def _words(error: BaseException, answered: Replies) -> str:
    """Why a server cannot be spoken to, to follow its name."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    from mcp import MCPError
    from mcp_types import PARSE_ERROR
    from pydantic import ValidationError

    status = f" (HTTP {answered.status})" if answered.status >= 300 else ""
    if answered.problem:
        return answered.problem
    match error:
        case ValidationError():
            return "answered with what the protocol does not know" + status
        case MCPError(code=code) if code == PARSE_ERROR and answered.status:
            return UNREADABLE + status
        case MCPError(code=code) if code == UNUSABLE:
            return clean(error.message, 200)
        case MCPError():
            return f"answered with an error: {clean(error.message, 300)}" + status
        case RuntimeError() if "protocol version" in str(error):
            return "speaks no version of the protocol that is known here"
    text = clean(str(error), 300)
    if "location header" in text:
        return "sends us on to what is no URL" + status
    return f"cannot be reached: {text or type(error).__name__}" + status


def _quieten() -> None:
    """Keep the SDK's log off the terminal: without a handler Python prints it, with words of the server."""
    import logging

    log = logging.getLogger("mcp")
    if not log.handlers:
        log.addHandler(logging.NullHandler())
