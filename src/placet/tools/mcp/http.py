"""A server that is a URL: streamable HTTP, within bounds.

Keep true:
1. A token is read from the environment when it is needed, and sent to the server's own origin only.
2. No answer is read beyond its bound, and none is unpacked: a small one could unpack into a large one.
3. Only an answer of the protocol, or a status that says so, counts as a refusal. After anything else the call
   may have had its effect.
4. Nobody listens while nothing is asked: a server cannot keep us busy on a stream of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from placet.safe_text import clean
from placet.tools.mcp.server import McpServer
from placet.tools.mcp.stdio import NotStarted
from placet.tools.mcp.traffic import (
    MESSAGE_AT_MOST,
    PARTS_AT_MOST,
    TOO_MANY_PARTS,
    Noticed,
    Replies,
    parts_in,
    replies,
)

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

STREAM_AT_MOST = 4 * MESSAGE_AT_MOST
"""Bytes of one stream of events."""
BROKEN_OFF_AT_MOST = 20
"""How often a server may break off an answer, and have us ask for the rest."""
_REFUSALS = frozenset({400, 401, 403, 405})
"""Statuses of a server, or of what stands before it, that has not let a request in."""
_CONNECT_S = 30.0
_SILENCE_S = 300.0


class _Message(msgspec.Struct):
    """As much of a message as tells what it is."""

    id: int | str | None = None
    method: str = ""
    error: msgspec.Raw = msgspec.Raw()


@asynccontextmanager
async def http_streams(
    server: McpServer, environment: Mapping[str, str], noticed: Noticed
) -> AsyncIterator[TransportStreams]:
    """Messages from and to a server.

    Raises:
        NotStarted: a variable that a header needs is not set, or holds what no header can.
    """
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async def look(request: Any) -> None:
        if request.method == "GET":
            _allow(request, noticed)
        # One that follows a redirect has its body only as a stream, and `_watch` wants to see it.
        await request.aread()

    client = httpx2.AsyncClient(
        headers={"Accept-Encoding": "identity", **_headers(server, environment)},
        timeout=httpx2.Timeout(_CONNECT_S, read=max(_SILENCE_S, server.timeout_s)),
        event_hooks={"request": [look], "response": [_watch]},
    )
    async with (
        client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=MESSAGE_AT_MOST) as streams,
    ):
        yield streams


def _headers(server: McpServer, environment: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for header, variable in server.headers.items():
        value = environment.get(variable, "").strip()
        if not value:
            raise NotStarted(f"needs the environment variable {variable} for its header {header}")
        if not (value.isascii() and value.isprintable()):
            raise NotStarted(
                f"cannot be sent its header {header}: the environment variable {variable} holds characters "
                "other than plain letters, digits and signs on one line. Set it again"
            )
        found[header] = value
    return found


class _Unasked(Exception):
    """A stream that is not opened. The SDK takes it for one that cannot be."""


def _allow(request: Any, noticed: Noticed) -> None:
    """Let only a stream be opened that goes on with an answer, and only so often."""
    if "last-event-id" not in request.headers:
        raise _Unasked
    noticed.broken_off += 1
    if noticed.broken_off > BROKEN_OFF_AT_MOST:
        noticed.fail("breaks off its answer again and again")
        raise _Unasked


async def _watch(response: Any) -> None:
    """Note what was said to a request, and put a bound on what will be read."""
    import httpx2

    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.DecodingError("it answers with packed content, which was not asked for")
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    noted = replies.get(None)
    most = STREAM_AT_MOST if kind == "text/event-stream" else MESSAGE_AT_MOST
    response.stream = _bounded(response.stream, most, noted)
    if noted is None or response.request.method != "POST":
        return
    asked = _read(response.request.content)
    if asked is not None and asked.method and asked.id is not None:
        await _note(noted, response, kind, asked)


async def _note(noted: Replies, response: Any, kind: str, asked: _Message) -> None:
    status = noted.status = response.status_code
    noted.is_stream = kind == "text/event-stream"
    noted.problem, noted.is_refusal = "", False
    if 300 <= status < 400:
        there = clean(response.headers.get("location", ""), 200)
        noted.problem = f"sends us on to '{there}' (HTTP {status}); give that URL if it is the right one"
    elif status >= 400:
        noted.is_refusal = status in _REFUSALS
        words = "turned it away" if noted.is_refusal else "answered with an error"
        noted.problem = f"{words} (HTTP {status})"
        if kind == "application/json":
            answer = _read(await response.aread())
            if answer is not None and bytes(answer.error) and str(answer.id) == str(asked.id):
                noted.problem, noted.is_refusal = "", True
    elif status == 202:
        noted.problem = "took it and gives no answer (HTTP 202)"
    elif kind not in ("application/json", "text/event-stream"):
        noted.problem = f"answered with '{clean(kind, 80)}', which is no answer of an MCP server"


def _read(data: bytes) -> _Message | None:
    try:
        return msgspec.json.decode(data, type=_Message)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _bounded(stream: Any, most: int, noted: Replies | None) -> Any:
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            left, parts = most, 0
            async for chunk in stream:
                left -= len(chunk)
                parts += parts_in(chunk)
                if left < 0 or parts > PARTS_AT_MOST:
                    size = f"sent an answer of more than {most // 1024**2} MiB"
                    problem = size if left < 0 else TOO_MANY_PARTS
                    if noted is not None:
                        noted.problem = noted.problem or problem
                    raise httpx2.StreamError(problem)
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()
