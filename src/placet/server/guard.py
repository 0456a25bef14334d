"""What stands before every request: who may ask, from which page, with how much.

Pure ASGI, so that a stream is never buffered.

Keep true:
1. Only hosts on the list are answered, so a name that an attacker lets point here is of no use to them.
2. A write needs a token, an equal Origin where a browser sends one or a cookie is used, a JSON body and our
   own header: no form, image or link of another page can make one.
3. Whoever fails to show a token too often has to wait, also with the right one. A page of another site cannot
   fail in somebody's name: it is refused before anything is counted.
4. A body is counted as it comes, whatever its header says, and whoever sends it slowly does not finish it.
5. Where a proxy is to have TLS, nothing is answered that did not come over TLS, except from this machine.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any

from placet.server.answers import failure
from placet.server.tokens import Token, Tokens

Scope = MutableMapping[str, Any]
"""What an ASGI application is told of a request."""
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]
"""An ASGI application."""

MOST_BYTES = 1_048_576
"""Of a body."""
BODY_S = 30.0
"""How long a body may take to come."""
HEADER = b"x-placet"
"""Required on every write: a page of another site cannot send it without asking first."""
SAFE = ("GET", "HEAD", "OPTIONS")
API = "/api/"
"""Below it no page of another site reads either: it would guess in the name of whoever looks at it."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
)


class Guard:
    """The gate in front of an application."""

    def __init__(
        self,
        app: Asgi,
        tokens: Tokens,
        *,
        hosts: Collection[str],
        origins: Collection[str],
        cookie: str,
        is_public: Callable[[str, str], bool],
        trusted_proxies: Collection[str] = (),
        failures: Failures,
        programs: Collection[str] = (),
    ) -> None:
        """`hosts` are the values of Host that are answered, `origins` those of Origin that may write.
        `is_public` says of a method and a path whether they need no token. `programs` are paths at which only
        a token counts that is sent as such: no browser sends one by itself, so the rest is not asked for.
        `trusted_proxies` are addresses or networks of proxies that have TLS, and whose `X-Forwarded-For` and
        `X-Forwarded-Proto` are believed."""
        self._app = app
        self._tokens = tokens
        self._hosts = {host.lower() for host in hosts}
        self._origins = {origin.lower() for origin in origins}
        self._cookie = cookie
        self._is_public = is_public
        self._proxies = [ipaddress.ip_network(each, strict=False) for each in trusted_proxies]
        self._programs = set(programs)
        self._failures = failures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        # Where another application has mounted this one, what comes before belongs to that.
        method, path = scope["method"], scope["path"].removeprefix(scope.get("root_path", ""))
        client = self._client(scope, headers)
        if path in self._programs:
            headers.pop(b"cookie", None)
        refused = self._refusal(scope, headers, method, path)
        if refused is None:
            token, refused = self._token(headers, method, path, client)
            scope["state"] = {**scope.get("state", {}), "token": token, "client": client}
        sent = _with_headers(send)
        if refused is not None:
            await refused(scope, receive, sent)
            return
        await self._app(scope, LimitedBody(receive, MOST_BYTES), sent)

    def _is_proxy(self, scope: Scope) -> bool:
        peer = address_of(_peer(scope))
        return peer is not None and any(peer in each for each in self._proxies)

    def _client(self, scope: Scope, headers: dict[bytes, bytes]) -> str:
        """Who asks; behind a trusted proxy whom that names."""
        if self._is_proxy(scope):
            named = headers.get(b"x-forwarded-for", b"").decode("latin-1")
            return named.rpartition(",")[2].strip() or _peer(scope)
        return _peer(scope)

    def _is_private(self, scope: Scope, headers: dict[bytes, bytes]) -> bool:
        """Whether nobody on the way can read along."""
        if not self._proxies or scope.get("scheme") == "https":
            return True
        if self._is_proxy(scope) and b"x-forwarded-for" in headers:
            return headers.get(b"x-forwarded-proto", b"").strip().lower() == b"https"
        peer = address_of(_peer(scope))
        return peer is not None and peer.is_loopback

    def _refusal(self, scope: Scope, headers: dict[bytes, bytes], method: str, path: str) -> Asgi | None:
        is_program = path in self._programs
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if host not in self._hosts or sum(name == b"host" for name, _ in scope["headers"]) != 1:
            return failure(
                403,
                "host",
                "This server does not answer to that host name. Use the address that `placet serve` printed, "
                "or name the host with --host-name.",
            )
        if not self._is_private(scope, headers):
            return failure(
                403,
                "insecure",
                "This did not come over TLS. Let the trusted proxy redirect to https, and send "
                "`X-Forwarded-For` and `X-Forwarded-Proto: https`; nobody else is answered.",
            )
        is_crossing = headers.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none")
        if is_crossing and path.startswith(API):
            return failure(403, "origin", "A page of another site may neither read nor write here.")
        if method in SAFE:
            return None
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").lower() not in self._origins:
            return failure(403, "origin", "That page is not this server's own, so it may not write here.")
        if is_crossing:
            return failure(403, "origin", "A page of another site may not write here.")
        if method not in ("POST", "PUT", "PATCH", "DELETE"):
            return failure(405, "method", f"{method} is not used here.")
        if HEADER not in headers and not is_program:
            return failure(403, "header", "A write needs the header `X-Placet: 1`.")
        kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if kind != b"application/json" and not (is_program and method == "DELETE"):
            return failure(415, "content_type", "A write needs `Content-Type: application/json`.")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > MOST_BYTES:
            return failure(413, "too_large", f"A body has at most {MOST_BYTES:,} bytes.")
        return None

    def _token(
        self, headers: dict[bytes, bytes], method: str, path: str, client: str
    ) -> tuple[Token | None, Asgi | None]:
        bearer, cookie = _bearer(headers), _cookie(headers, self._cookie)
        given = bearer if bearer is not None else cookie
        is_public = self._is_public(method, path)
        if given is None:
            return None, None if is_public else failure(401, "token", _NO_TOKEN)
        wait_s = self._failures.wait_s(client)
        if wait_s > 0:
            words = "Too many wrong tokens came from this address. Wait before you try again."
            return None, None if is_public else failure(429, "too_many", words, retry_s=wait_s)
        token = self._tokens.find(given)
        if token is None:
            if is_public:
                return None, None
            self._failures.note(client)
            return None, failure(401, "token", _NO_TOKEN)
        if bearer is None and method not in SAFE and b"origin" not in headers:
            return None, failure(403, "origin", "A write of a browser names its Origin.")
        return token, None


_NO_TOKEN = (
    "This needs a token that holds. In a browser, open the link that `placet serve` printed; in a program, "
    "send `Authorization: Bearer TOKEN`."
)


class Failures:
    """Wrong tokens by address: after a few, each further one doubles the time to wait."""

    FREE = 10
    LONGEST_S = 300.0
    MOST = 10_000

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._by: OrderedDict[str, tuple[int, float]] = OrderedDict()
        """How many, and when the last was."""

    def note(self, client: str) -> None:
        """One more came from there."""
        count, last = self._by.pop(client, (0, 0.0))
        if self._clock() - last > self.LONGEST_S:
            count = 0
        self._by[client] = (count + 1, self._clock())
        while len(self._by) > self.MOST:
            self._by.popitem(last=False)

    def wait_s(self, client: str) -> float:
        """How long nothing from there is looked at."""
        count, last = self._by.get(client, (0, 0.0))
        if count < self.FREE:
            return 0.0
        wait_s = min(2.0 ** min(count - self.FREE, 20), self.LONGEST_S)
        return max(last + wait_s - self._clock(), 0.0)


class TooLarge(Exception):
    """A body is longer than it may be."""


class TooSlow(Exception):
    """A body takes longer than it may."""


class LimitedBody:
    """The body of a request, counted as it comes."""

    def __init__(self, receive: Receive, most: int, *, most_s: float = BODY_S) -> None:
        self._receive = receive
        self._left = most
        self._most_s = most_s
        self._until: float | None = None
        self._is_whole = False

    async def __call__(self) -> Message:
        """The next part; after the last one, that the client has gone.

        Raises:
            TooLarge: it is too much.
            TooSlow: it takes too long.
        """
        if self._is_whole:
            return await self._receive()
        now = asyncio.get_running_loop().time()
        self._until = self._until or now + self._most_s
        try:
            message = await asyncio.wait_for(self._receive(), self._until - now)
        except TimeoutError:
            raise TooSlow from None
        if message["type"] == "http.request":
            self._is_whole = not message.get("more_body", False)
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise TooLarge
        return message


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), *_HEADERS]
        await send(message)

    return sent


def _peer(scope: Scope) -> str:
    return str((scope.get("client") or ("", 0))[0])


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An IP address; None if the text is none. One of IPv4 in the clothes of IPv6 is one of IPv4."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found


def _bearer(headers: dict[bytes, bytes]) -> str | None:
    kind, _, value = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return value.strip() if kind.lower() == "bearer" else None


def _cookie(headers: dict[bytes, bytes], name: str) -> str | None:
    try:
        found = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1")).get(name)
    except CookieError:
        return None
    return found.value if found is not None else None
