"""The open connections to one provider: for each event loop its own.

Keep true:
1. A connection is used by the event loop that opened it and by no other.
2. Connections are closed with their loop at the latest: nobody could close them afterwards.
3. Nothing that a server wants to have kept is kept: no cookies.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

from placet.errors import ModelUnavailable
from placet.inference.providers import Endpoint, is_loopback

if TYPE_CHECKING:
    import httpx2

_Keeper: TypeAlias = AsyncGenerator[None, None]


KEPT_S = 5.0
KEPT_HERE_S = 1.0
"""llama.cpp hangs up after 5 s. Whoever keeps a connection as long asks, now and then, just as it does so."""


class Connections:
    """To be asked for a client by whoever wants to send something; safe to ask from several threads."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._clients: dict[asyncio.AbstractEventLoop, tuple[httpx2.AsyncClient, _Keeper]] = {}
        self._lock = Lock()

    async def here(self) -> httpx2.AsyncClient:
        """The client of this event loop.

        Raises:
            ModelUnavailable: the environment names a proxy or certificates that make no sense.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            found = self._clients.get(loop)
            if found is not None:
                return found[0]
            self._clients = {each: kept for each, kept in self._clients.items() if not each.is_closed()}
            client = self._new_client()
            keeper = _open_with_its_loop(client)
            self._clients[loop] = client, keeper
        await anext(keeper)
        return client

    async def close(self) -> None:
        """Close all of them. Asked again, it makes new ones."""
        with self._lock:
            clients, self._clients = self._clients, {}
        here = asyncio.get_running_loop()
        for loop, (_, keeper) in clients.items():
            if loop is here:
                await keeper.aclose()
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(_closed(keeper), loop)

    def _new_client(self) -> httpx2.AsyncClient:
        from http.cookiejar import CookieJar, DefaultCookiePolicy

        import httpx2

        # No end of the pool: how much is asked at once is for others to limit, and waiting is not failing.
        cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))
        url = self._endpoint.url
        is_here = is_loopback(url)
        limits = httpx2.Limits(
            max_connections=None,
            max_keepalive_connections=20,
            keepalive_expiry=KEPT_HERE_S if is_here else KEPT_S,
        )
        if is_here:
            # What listens on this machine is not asked through a proxy; without TLS no certificates are read.
            is_plain = url.startswith("http://")
            return httpx2.AsyncClient(trust_env=False, verify=not is_plain, limits=limits, cookies=cookies)
        try:
            return httpx2.AsyncClient(limits=limits, cookies=cookies)
        except (ImportError, ValueError, httpx2.InvalidURL, OSError) as error:
            raise ModelUnavailable(
                f"{self._endpoint.name} cannot be asked with the proxy or the certificates that the "
                f"environment names ({type(error).__name__}). Check HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE."
            ) from None


async def _open_with_its_loop(client: httpx2.AsyncClient) -> _Keeper:
    """Closes the client when it is closed itself. An event loop does that before it ends, with each generator
    that was begun in it and is still open."""
    try:
        yield
    finally:
        await client.aclose()


async def _closed(keeper: _Keeper) -> None:
    await keeper.aclose()
