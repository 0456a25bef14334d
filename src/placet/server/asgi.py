"""The server as an ASGI application: the API, the page's files, and the guard in front of all of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from placet import __version__
from placet.engine.embedded import EmbeddedEngine
from placet.errors import InputError
from placet.ir.codec import decode_json
from placet.server.answers import answer, failure, of_error
from placet.server.api import (
    access,
    coding,
    decisions,
    knowledge,
    links,
    log,
    loops,
    meta,
    queues,
    runs,
    starting,
)
from placet.server.endpoint import BASE, Endpoint, describe
from placet.server.guard import BODY_S, MOST_BYTES, Asgi, Guard, TooLarge, TooSlow
from placet.server.push import Pusher
from placet.server.site import Site
from placet.server.stream import Stream
from placet.server.tokens import BROWSER_S, Tokens

if TYPE_CHECKING:
    from placet.app.app import Records
    from placet.app.notify import NotifySettings
    from placet.redaction import Redactor
    from placet.server.mcp_http import McpEndpoint

MCP_PATH = "/mcp"
PAGE = Path(__file__).parent / "page"
ENDPOINTS: tuple[Endpoint, ...] = (
    *meta.ENDPOINTS,
    *runs.ENDPOINTS,
    *queues.ENDPOINTS,
    *starting.ENDPOINTS,
    *decisions.ENDPOINTS,
    *coding.ENDPOINTS,
    *loops.ENDPOINTS,
    *knowledge.ENDPOINTS,
    *log.ENDPOINTS,
    *access.ENDPOINTS,
    *links.ENDPOINTS,
)
_OPEN = [
    (each.method, re.compile(re.sub(r"{\w+}", "[^/]+", BASE + each.path)))
    for each in ENDPOINTS
    if each.is_open
]


def make_site(
    records: Records,
    tokens: Tokens,
    redactor: Redactor,
    *,
    folders: Sequence[str] = (),
    db: str | None = None,
    notify: NotifySettings | None = None,
    url: str = "",
) -> Site:
    """What is served, from the records of one database. `notify` says how a person is told of what waits, and
    `url` is where the server is reached if that does not say it."""
    stream = Stream(records.events)
    site = Site(records, tokens, stream, redactor, folders=folders, db=db)
    if notify is not None and notify.is_on:
        site.pusher = Pusher(site, notify, url)
    stream.shown, stream.load = site.shown, site.folds.copy
    if folders:
        site.engine = EmbeddedEngine(records, db=db, folders=folders)
    site.description = describe(ENDPOINTS, __version__)
    return site


def make_app(
    site: Site,
    *,
    hosts: Collection[str],
    origins: Collection[str],
    cookie: str,
    is_secure: bool = False,
    trusted_proxies: Collection[str] = (),
    mcp: McpEndpoint | None = None,
) -> Asgi:
    """The application that serves a site.

    Args:
        site: What is served.
        hosts: The values of Host that are answered.
        origins: The values of Origin that may write.
        cookie: Name of the cookie.
        is_secure: Whether browsers reach it by https.
        trusted_proxies: Addresses or networks of proxies that have TLS; what comes over none is refused.
        mcp: What MCP clients are offered.
    """

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with site.stream.running(), mcp.running() if mcp is not None else nullcontext():
            site.begin()
            yield
            await site.end()

    def at(request: Request, place: str) -> str:
        """A path of this application, wherever it is mounted."""
        return f"{request.scope.get('root_path', '')}{place}"

    def logged_in(request: Request, response: Response, secret: str) -> Response:
        response.set_cookie(
            cookie,
            secret,
            max_age=int(BROWSER_S),
            path=at(request, "/"),
            httponly=True,
            samesite="strict",
            secure=is_secure,
        )
        return response

    async def login(request: Request) -> Response:
        made = await asyncio.to_thread(site.tokens.redeem, request.query_params.get("code", ""))
        if made is None:
            return RedirectResponse(at(request, "/?login=expired"), 303)
        return logged_in(request, RedirectResponse(at(request, "/"), 303), made)

    async def enter(request: Request) -> Response:
        """Log a browser in by the token that a person has put in."""
        client = request.state.client
        if (wait_s := site.failures.wait_s(client)) > 0:
            return failure(429, "too_many", "Too many wrong tokens came from this address.", retry_s=wait_s)
        try:
            said = decode_json(await request.body(), "the body")
            given = said["token"] if isinstance(said, dict) and list(said) == ["token"] else None
        except InputError as error:
            return of_error(error, str(error))
        if not isinstance(given, str):
            return failure(400, "input", 'The body is {"token": TOKEN}.')
        made = await asyncio.to_thread(site.tokens.enter, given)
        if made is None:
            site.failures.note(client)
            return failure(401, "token", "That is no token that holds.")
        return logged_in(request, answer({}), made)

    async def too_large(_: Request, __: Exception) -> Response:
        return failure(413, "too_large", f"A body has at most {MOST_BYTES:,} bytes.")

    async def too_slow(_: Request, __: Exception) -> Response:
        found = failure(408, "too_slow", f"A body has to come within {BODY_S:g} seconds.")
        found.headers["connection"] = "close"
        return found

    async def not_found(request: Request, _: Exception) -> Response:
        return failure(404, "not_found", f"There is nothing at {request.url.path}.")

    async def wrong_method(request: Request, _: Exception) -> Response:
        return failure(405, "method", f"{request.method} is not used at {request.url.path}.")

    routes: list[BaseRoute] = [
        *(each.route(site) for each in sorted(ENDPOINTS, key=lambda each: each.ends_in_a_name)),
        Route("/login", login, methods=["GET"]),
        Route("/login", enter, methods=["POST"]),
        Route("/", page_file, methods=["GET"]),
        Route("/d/{code}", decide_page, methods=["GET"]),
        Route("/page/{path:path}", page_file, methods=["GET"]),
    ]
    if mcp is not None:
        routes.append(Route(MCP_PATH, mcp))
    inner = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={404: not_found, 405: wrong_method, TooLarge: too_large, TooSlow: too_slow},
        # Never of a stream of events: what happens is sent at once.
        middleware=[Middleware(GZipMiddleware, minimum_size=4096, compresslevel=4)],
    )
    return Guard(
        inner,
        site.tokens,
        hosts=hosts,
        origins=origins,
        cookie=cookie,
        is_public=_is_public,
        failures=site.failures,
        programs=[MCP_PATH],
        trusted_proxies=trusted_proxies,
    )


def _is_public(method: str, path: str) -> bool:
    """The page's own files hold nothing; what they show comes from the API."""
    if path.startswith(f"{BASE}/"):
        return any(each == method and known.fullmatch(path) is not None for each, known in _OPEN)
    return (method in ("GET", "HEAD") and path != MCP_PATH) or (method, path) == ("POST", "/login")


async def decide_page(request: Request) -> Response:
    """The page of a decision link. It is the same for every link, and asks the API what it is for."""
    request.path_params["path"] = "decide.html"
    return await page_file(request)


async def page_file(request: Request) -> Response:
    """A file of the page."""
    found = find_file(request.path_params.get("path", "index.html"))
    if found is None:
        return failure(404, "not_found", f"There is nothing at {request.url.path}.")
    # Asked for again each time, and answered with its tag: a new version is never mixed with an old one.
    return FileResponse(found, media_type=_TYPES[found.suffix], headers={"cache-control": "no-cache"})


_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}


def find_file(given: str) -> Path | None:
    """A file of the page by its path below the folder; None where there is none, or it lies elsewhere."""
    if "\0" in given or "\\" in given:
        return None
    path = (PAGE / given).resolve()
    if not path.is_relative_to(PAGE.resolve()) or path.suffix not in _TYPES or not path.is_file():
        return None
    return path
