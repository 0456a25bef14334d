"""The server as a process: the socket, the addresses that it answers to, and its end.

Keep true:
1. Nothing but loopback is listened on unless a person asks for it, and then only with TLS or behind a named
   proxy that has it.
2. Whoever sends nothing, or a request without an end, is let go.
3. Whoever stops the server ends every stream at once, so that it does not wait for browsers to go away.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Sequence
from types import FrameType
from typing import cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from placet.errors import InputError, UsageError
from placet.server.guard import Asgi

_DRAIN_S = 10
SILENT_S = 10.0
"""After this time without a whole request, and at most twice of it, a connection is closed."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def check_address(host: str, *, allow_remote: bool, has_tls: bool, proxies: Sequence[str]) -> None:
    """Refuse to be reached from elsewhere unless a person asks for it, over an encrypted connection.

    Raises:
        UsageError: so it would be.
    """
    for each in proxies:
        try:
            ipaddress.ip_network(each, strict=False)
        except ValueError:
            raise UsageError(
                f"--trusted-proxy {each}: name it by its IP address, such as 10.0.0.2, or by a network, such "
                "as 10.0.0.0/24."
            ) from None
    if is_loopback(host):
        return
    if not allow_remote:
        raise UsageError(
            f"'{host}' can be reached from other machines, so the server does not listen there by itself. "
            "Add --allow-remote, and --cert and --key or --trusted-proxy; or leave --host out and use "
            "`ssh -L 8765:localhost:8765`."
        )
    if not has_tls and not proxies:
        raise UsageError(
            "Without encryption everybody on the way reads the token. Give --cert and --key, or "
            "--trusted-proxy with the address of a proxy that speaks TLS to browsers."
        )


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        InputError: the address is taken, or is none of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
        opened.listen(256)
        opened.setblocking(False)
    except OSError as error:
        opened.close()
        raise InputError(
            f"Cannot listen on {host} port {port}: {error.strerror or error}. Choose another with --port; 0 "
            "takes any that is free."
        ) from None
    return opened


def addresses(host: str, port: int, names: Sequence[str], *, is_secure: bool) -> tuple[list[str], list[str]]:
    """The values of Host that are answered, and those of Origin that may write."""
    scheme, usual = ("https", 443) if is_secure else ("http", 80)
    # The one that is listened on comes first: links lead there.
    own = [host, *LOOPBACK] if is_loopback(host) else [host]
    hosts: list[str] = []
    for name in dict.fromkeys([*own, *names]):
        shown = f"[{name}]" if name.count(":") > 1 and not name.startswith("[") else name
        # A proxy may stand on another port than the server; then it is named with it.
        has_port = ":" in shown.rpartition("]")[2]
        hosts.append(shown if has_port else f"{shown}:{port}")
        if not has_port and (port == usual or name in names):
            hosts.append(shown)
    return hosts, [f"{scheme}://{each}" for each in hosts]


def page_origin(host: str, port: int, names: Sequence[str], *, is_secure: bool, is_proxied: bool) -> str:
    """Where the page is for people: by its first name if it has one. A proxy stands on a port of its own,
    the usual one if nothing else is said."""
    found = addresses(names[0] if names else host, port, names[:1], is_secure=is_secure)[1]
    return found[-1] if names and is_proxied else found[0]


class Connection(H11Protocol):
    """A connection that is closed if no request comes over it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look."""
        super().connection_made(transport)
        self._looking = self.loop.call_later(SILENT_S, self._look, None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        self._looking.cancel()
        super().connection_lost(exc)

    def _look(self, before: object) -> None:
        """Close the connection if it is between two requests, the same two as when this was last looked
        at."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        is_between = cycle is None or cycle.response_complete
        now = (cycle,) if is_between else None
        if now is not None and now == before:
            self.transport.close()
        else:
            self._looking = self.loop.call_later(SILENT_S, self._look, now)


class Server(uvicorn.Server):
    """A server that says so when it is told to end."""

    def __init__(self, config: uvicorn.Config, on_exit: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_exit = on_exit
        self._loop: asyncio.AbstractEventLoop | None = None

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal says that it is enough."""
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._on_exit)
        super().handle_exit(sig, frame)


def make_server(
    app: Asgi, *, cert: str | None, key: str | None, on_exit: Callable[[], None] = lambda: None
) -> Server:
    """A server for an application.

    Raises:
        InputError: the certificate or its key cannot be used.
    """
    config = uvicorn.Config(
        app,
        # Named, so that what else is installed does not change who reads requests.
        http=Connection,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        ssl_certfile=cert,
        ssl_keyfile=key,
        timeout_graceful_shutdown=_DRAIN_S,
        h11_max_incomplete_event_size=64 * 1024,
        limit_concurrency=2000,
    )
    try:
        config.load()
    except (OSError, ValueError) as error:
        raise InputError(f"The certificate or its key cannot be used: {error}. Both are PEM files.") from None
    return Server(config, on_exit)
