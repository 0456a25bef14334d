"""http_get: one page from the web, past the host filter, within bounds.

Each hop of a redirect is a new connection: its host is judged, looked up once, and the address that passed is
the one connected to. The name stays what the server sees and what its certificate must be for.

Keep true:
1. No byte is sent to a host that the filter did not pass; a redirect is a host like any other.
2. What is kept of an answer is bounded (body.py).
3. Nothing is carried from one call to the next: no cookies, no connections; nor from the environment, but for
   the certificates that the machine trusts.
4. Any status is an answer. Only what gives no answer at all is a failure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from placet.errors import ToolError, UsageError
from placet.ir.call_facts import Confinement
from placet.ir.json_value import JsonValue
from placet.sandbox.hosts import HostFilter, Resolve, plain_host
from placet.sandbox.limits import MIB
from placet.tools.builtin.body import Body
from placet.tools.tool import Tool, tool
from placet.truncation import truncate

if TYPE_CHECKING:
    import ssl

    import httpcore2
    import httpx2

MOST_BYTES = 2 * MIB
MOST_REDIRECTS = 5
CONNECT_S = 10.0
TOTAL_S = 30.0

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_DEFAULT_PORTS = {"http": 80, "https": 443}
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OUR_HEADERS = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""They say how the message is sent and to whom, which is decided here. So do all that begin with `proxy-`."""

_IS_TEXT = re.compile(
    r"text/.*|.*\+(json|xml|yaml)"
    r"|application/(json|xml|javascript|ecmascript|yaml|toml|sql|graphql|ld|x-(ndjson|yaml|sh|javascript|tex)"
    r"|x-www-form-urlencoded)"
)
_IS_BINARY = re.compile(r"(image|audio|video|font)/.*|application/(pdf|zip|gzip|wasm|x-tar|vnd\..*)")


def web_tools(
    hosts: HostFilter | None = None,
    *,
    proxy: str | None = None,
    tls: ssl.SSLContext | None = None,
    resolve: Resolve | None = None,
    connect_s: float = CONNECT_S,
    total_s: float = TOTAL_S,
) -> list[Tool]:
    """http_get, for the hosts that `hosts` lets through: without it, all that are public.

    `proxy` ("http://proxy.example:3128") is for machines that reach the web through one; the environment is
    not asked. Names that only the proxy can look up are then judged by name alone. `tls` replaces the
    certificates that the machine trusts. `resolve` replaces its resolver.

    Raises:
        UsageError: the proxy is no http or https URL.
    """
    web = _Web(hosts or HostFilter(), _checked_proxy(proxy), tls, resolve, connect_s, total_s)

    @tool(risk="network", marks=["untrusted"])
    async def http_get(
        url: Annotated[str, msgspec.Meta(max_length=8192)],
        headers: dict[str, str] | None = None,
        max_bytes: Annotated[int, msgspec.Meta(ge=1, le=MOST_BYTES)] = MOST_BYTES,
    ) -> dict[str, JsonValue]:
        """Fetch a URL with HTTP GET and return its status, content type and text. Up to 5 redirects are
        followed. A status of 400 or above is an answer too. Of what is not text only type and size are told.

        Args:
            url: An http or https URL, without user name and password in it.
            headers: Request headers to add, by name.
            max_bytes: Bytes of the body to keep, after unpacking; the rest is cut off and truncated is true.
        """
        return await web.get(url, headers or {}, max_bytes)

    found = Confinement(runs_in="placet", network="hosts", hosts=(hosts or HostFilter()).allowed)

    async def confinement() -> Confinement:
        return found

    http_get.confinement = confinement
    return [http_get]


def _checked_proxy(proxy: str | None) -> str | None:
    from urllib.parse import urlsplit

    if proxy is not None:
        parts = urlsplit(proxy)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"web_tools: proxy is {proxy!r}. Write it as 'http://proxy.example:3128'.")
    return proxy


class _Web:
    """What is the same for every call."""

    def __init__(
        self,
        hosts: HostFilter,
        proxy: str | None,
        tls: ssl.SSLContext | None,
        resolve: Resolve | None,
        connect_s: float,
        total_s: float,
    ) -> None:
        self._hosts = hosts
        self._proxy = proxy
        self._tls = tls
        self._resolve = resolve
        self._connect_s = connect_s
        self._total_s = total_s

    async def get(self, text: str, headers: Mapping[str, str], most: int) -> dict[str, JsonValue]:
        import asyncio

        wanted = _checked_headers(headers)
        url = read_url(text)
        try:
            async with asyncio.timeout(self._total_s):
                return await self._follow(url, wanted, most)
        except TimeoutError:
            raise ToolError(
                f"{server_named(url)} gave no whole answer within {self._total_s:g} s. "
                "Try again later, or ask for less with max_bytes."
            ) from None

    async def _follow(self, url: httpx2.URL, headers: dict[str, str], most: int) -> dict[str, JsonValue]:
        for _ in range(MOST_REDIRECTS + 1):
            answer = await self._ask(url, headers, most)
            if isinstance(answer, dict):
                return answer
            target = read_url(answer, base=url)
            if (target.scheme, target.host, target.port) != (url.scheme, url.host, url.port):
                # What was meant for one server, a token say, is not handed to the next.
                headers = {}
            url = target
        raise ToolError(
            f"More than {MOST_REDIRECTS} redirects, the last to {server_named(url)}. "
            "Ask for the page itself instead of one that leads to it.",
            retry=False,
        )

    async def _ask(
        self, url: httpx2.URL, headers: Mapping[str, str], most: int
    ) -> dict[str, JsonValue] | str:
        """The answer of one server, or where it sends us."""
        import httpcore2

        port = _DEFAULT_PORTS[url.scheme] if url.port is None else url.port
        backend = None
        addresses = await self._addresses(url.host, port)
        if self._proxy is None:
            backend = ToCheckedAddress(addresses)
        target = httpcore2.URL(
            scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path or b"/"
        )
        within = {"connect": self._connect_s, "read": self._total_s, "write": self._total_s}
        pool = httpcore2.AsyncConnectionPool(
            ssl_context=await self._context() if url.scheme == "https" else None,
            proxy=_proxy(self._proxy),
            max_keepalive_connections=0,
            network_backend=backend,  # type: ignore[arg-type]  # a base class would be imported too early
        )
        sent = [
            (name.encode("ascii"), value.encode("latin-1")) for name, value in _with_ours(headers).items()
        ]
        try:
            async with (
                pool,
                pool.stream("GET", target, headers=sent, extensions={"timeout": within}) as response,
            ):
                told = _Told(response.headers)
                if response.status in _REDIRECTS and (location := told.first("location")):
                    return location
                return await _read_answer(str(url.copy_with(fragment=None)), response, told, most)
        except httpcore2.LocalProtocolError as error:
            raise ToolError(
                f"The request cannot be sent: {error}. Change the headers.", retry=False
            ) from None
        except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError) as error:
            raise no_answer(url, error) from None
        except httpcore2.ProxyError as error:
            raise ToolError(f"The proxy did not connect to {server_named(url)}: {error}.") from None

    async def _addresses(self, host: str, port: int) -> list[str]:
        try:
            return await self._hosts.addresses(host, port, self._resolve)
        except ToolError as error:
            # Behind a proxy a machine may know no outer name; what is refused is refused there too.
            if self._proxy is None or not error.retry:
                raise
            return []

    async def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            import asyncio

            import httpx2

            # In a thread: the certificates that the machine trusts are a long read.
            self._tls = await asyncio.to_thread(httpx2.create_ssl_context)
        return self._tls


class ToCheckedAddress:
    """Connects to addresses that were checked, whatever the name would lead to by now."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses

    async def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, **options: Any
    ) -> httpcore2.AsyncNetworkStream:
        import httpcore2

        problem: Exception | None = None
        for count, address in enumerate(self._addresses):
            # Each gets its share, so that one dead address does not use up the time of the others.
            share = None if timeout is None else timeout / (len(self._addresses) - count)
            try:
                return await httpcore2.AnyIOBackend().connect_tcp(address, port, timeout=share, **options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                problem = error
        raise problem or httpcore2.ConnectError("no address")

    async def sleep(self, seconds: float) -> None:
        import asyncio

        await asyncio.sleep(seconds)


def read_url(text: str, base: httpx2.URL | None = None) -> httpx2.URL:
    """A URL that may be asked for, its host in the one spelling that is judged."""
    import httpx2

    what = "The URL" if base is None else f"{server_named(base)} redirects to a URL that"
    try:
        url = httpx2.URL(text) if base is None else base.join(text)
    except (httpx2.InvalidURL, ValueError) as error:
        raise ToolError(f"{what} cannot be read: {error}", retry=False) from None
    if url.scheme not in _DEFAULT_PORTS:
        begins = (
            f"begins with {truncate(url.scheme, 40) + ':'!r}" if url.scheme else f"is {truncate(text, 100)!r}"
        )
        raise ToolError(f"{what} {begins}. Write one that begins with http:// or https://.", retry=False)
    if url.userinfo:
        raise ToolError(
            f"{what} has a user name or password in it, which would end up in logs. Leave them out.",
            retry=False,
        )
    plain = plain_host(url.raw_host.decode("ascii"))
    if plain is None:
        raise ToolError(f"{what} has {truncate(url.host, 100)!r} for a host, which is none.", retry=False)
    return url.copy_with(host=plain)


def server_named(url: httpx2.URL) -> str:
    """A server in a message. Not the whole URL: what follows the host may be private."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def _checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or any(c in "\r\n\0" or ord(c) > 255 for c in value):
            raise ToolError(
                f"Header {truncate(name, 60)!r} has characters that a header cannot have.", retry=False
            )
        if name.lower() in _OUR_HEADERS or name.lower().startswith("proxy-"):
            raise ToolError(f"Header '{truncate(name, 60)}' cannot be set here. Leave it out.", retry=False)
    return dict(headers)


def _with_ours(headers: Mapping[str, str]) -> dict[str, str]:
    from placet import __version__

    given = {name.lower() for name in headers}
    ours = {"User-Agent": f"placet/{__version__}", "Accept": "*/*"}
    chosen = {name: value for name, value in ours.items() if name.lower() not in given}
    return {**chosen, **headers, "Accept-Encoding": "gzip", "Connection": "close"}


def _proxy(address: str | None) -> httpcore2.Proxy | None:
    if address is None:
        return None
    import httpcore2
    import httpx2

    url = httpx2.URL(address)
    auth = (url.username, url.password) if url.userinfo else None
    return httpcore2.Proxy(
        httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=b"/"), auth=auth
    )


def no_answer(url: httpx2.URL, error: Exception) -> ToolError:
    import ssl

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return ToolError(
                f"{server_named(url)} could not prove who it is ({cause.verify_message}). "
                "Nothing was sent to it.",
                retry=False,
            )
        cause = cause.__cause__ or cause.__context__
    words = str(error) or type(error).__name__
    return ToolError(
        f"{server_named(url)} gave no answer: {truncate(words, 200)}. Try again later, or check the address."
    )


class _Told:
    """Response headers, by name."""

    def __init__(self, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self._headers = headers

    def first(self, name: str) -> str:
        """The first value of a header; empty if there is none."""
        for key, value in self._headers:
            if key.decode("latin-1").lower() == name:
                # Some servers send names of other scripts as they are.
                return value.decode("utf-8", "replace").strip()
        return ""


async def _read_answer(
    url: str, response: httpcore2.Response, told: _Told, most: int
) -> dict[str, JsonValue]:
    content_type = told.first("content-type")
    media = content_type.partition(";")[0].strip().lower()
    body = Body(told.first("content-encoding"), most)
    known_binary = _IS_BINARY.fullmatch(media) is not None and _IS_TEXT.fullmatch(media) is None
    known_text = _IS_TEXT.fullmatch(media) is not None
    if not known_binary:
        async for chunk in response.aiter_stream():
            piece = body.add(chunk)
            if body.is_full or (not known_text and b"\0" in piece):
                break
        else:
            body.end()
    binary = known_binary or (not known_text and not body.reads_as_text())
    length = told.first("content-length")
    size = len(body.kept) if not binary else int(length) if length.isdecimal() else None
    return {
        "url": url,
        "status": response.status,
        "content_type": content_type,
        "text": "" if binary else body.text(content_type),
        "truncated": body.is_full and not binary,
        "binary": binary,
        "size_bytes": size,
    }
