"""A server that is a URL: streamable HTTP, within bounds.

Keep true:
1. A token is read from the environment when it is needed, and sent to the server's own origin only.
2. No answer is read beyond its bound, and none is unpacked: a small one could unpack into a large one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from assent.tools.mcp.server import McpServer
from assent.tools.mcp.stdio import MESSAGE_AT_MOST, NotStarted

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

STREAM_AT_MOST = 4 * MESSAGE_AT_MOST
"""Bytes of one stream of events."""
_CONNECT_S = 30.0
_SILENCE_S = 300.0


class Replies:
    """What HTTP itself said to the requests of one call."""

    def __init__(self) -> None:
        self.refused_with = 0
        """The last status that stands for a refusal; 0 if there was none."""


replies: ContextVar[Replies] = ContextVar("replies")
"""Set by whoever calls: the SDK hands the context of a message on to the request that carries it."""


@asynccontextmanager
async def http_streams(server: McpServer, environment: Mapping[str, str]) -> AsyncIterator[TransportStreams]:
    """Messages from and to a server.

    Raises:
        NotStarted: a variable that a header needs is not set.
    """
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    headers = {"Accept-Encoding": "identity"}
    for header, variable in server.headers.items():
        value = environment.get(variable, "")
        if not value.strip():
            raise NotStarted(f"needs the environment variable {variable} for its header {header}")
        headers[header] = value
    client = httpx2.AsyncClient(
        headers=headers,
        timeout=httpx2.Timeout(_CONNECT_S, read=max(_SILENCE_S, server.timeout_s)),
        event_hooks={"response": [_watch]},
    )
    async with (
        client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=MESSAGE_AT_MOST) as streams,
    ):
        yield streams


async def _watch(response: Any) -> None:
    """Note a refusal, and put a bound on what will be read."""
    import httpx2

    if response.status_code >= 300 and (noted := replies.get(None)) is not None:
        noted.refused_with = response.status_code
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.DecodingError("it answers with packed content, which was not asked for")
    is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
    response.stream = _bounded(response.stream, STREAM_AT_MOST if is_stream else MESSAGE_AT_MOST)


def _bounded(stream: Any, most: int) -> Any:
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            left = most
            async for chunk in stream:
                left -= len(chunk)
                if left < 0:
                    raise httpx2.StreamError(f"an answer has more than {most // 1024**2} MiB")
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()
