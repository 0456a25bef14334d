"""One HTTP POST to a host that was named beforehand, and to no other: no redirect is followed.

Keep true: the address that was checked is the one that is connected to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from placet.errors import ToolError
from placet.sandbox.hosts import HostFilter, HostRefused
from placet.truncation import margin, truncate_bytes

_PORTS = {"http": 80, "https": 443}
_MOST_KEPT = 64 * 1024


class Answer(NamedTuple):
    """What a server said."""

    status: int
    body: bytes
    """At most 64 KiB of it."""

    @property
    def is_good(self) -> bool:
        """Whether it took what it was given."""
        return 200 <= self.status < 300


async def post(
    url: str,
    body: bytes,
    *,
    hosts: Sequence[str],
    headers: Mapping[str, str] = {},
    timeout_s: float = 30.0,
) -> Answer:
    """Post `body`, which is JSON, and return what came back, whatever its status.

    Raises:
        ToolError: the host is none of those named, or gives no answer; `unknown` if something was sent.
    """
    import httpcore2

    from placet import __version__
    from placet.tools.builtin.web import ToCheckedAddress, no_answer, read_url, server_named

    target = read_url(url)
    port = target.port if target.port is not None else _PORTS[target.scheme]
    tls = None
    if target.scheme == "https":
        import httpx2

        # In a thread: the certificates that the machine trusts are a long read.
        tls = await asyncio.to_thread(httpx2.create_ssl_context)
    sent = {
        "Host": target.netloc.decode("ascii"),
        "User-Agent": f"placet/{__version__}",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
        **headers,
    }
    begun: list[str] = []

    async def note(event: str, _: object) -> None:
        if "send_request_headers" in event:
            begun.append(event)

    try:
        async with asyncio.timeout(timeout_s):
            addresses = await _allowed(hosts, target.host, port)
            pool = httpcore2.AsyncConnectionPool(
                ssl_context=tls,
                max_keepalive_connections=0,
                network_backend=ToCheckedAddress(addresses),  # type: ignore[arg-type]  # as in web.py
            )
            async with (
                pool,
                pool.stream(
                    "POST",
                    httpcore2.URL(
                        scheme=target.raw_scheme,
                        host=target.raw_host,
                        port=target.port,
                        target=target.raw_path or b"/",
                    ),
                    headers=[(name.encode("ascii"), value.encode("latin-1")) for name, value in sent.items()],
                    content=body,
                    extensions={"trace": note},
                ) as response,
            ):
                kept, most = b"", _MOST_KEPT + margin()
                async for chunk in response.aiter_stream():
                    kept += chunk
                    if len(kept) >= most:
                        break
                return Answer(response.status, truncate_bytes(kept, _MOST_KEPT))
    except TimeoutError:
        raise ToolError(
            f"{server_named(target)} gave no whole answer within {timeout_s:g} s. Try again later.",
            unknown=bool(begun),
        ) from None
    except UnicodeEncodeError:
        raise ToolError("A header has characters that a header cannot have.", retry=False) from None
    except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError) as error:
        problem = no_answer(target, error)
        problem.unknown = bool(begun)
        raise problem from None


async def _allowed(hosts: Sequence[str], host: str, port: int) -> list[str]:
    """Where to connect to. Who may allow it is whoever writes the loop's file, so the words are for them."""
    try:
        return await HostFilter(hosts).addresses(host, port)
    except HostRefused as error:
        raise ToolError(
            f"Not connected: {error.why}. If it is meant, name it in `hosts` beside the url in the loop's "
            "file (`executor.hosts`, or that of the delivery).",
            retry=False,
        ) from None
