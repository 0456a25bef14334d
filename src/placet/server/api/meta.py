"""The server itself: health, who asks, live updates, the description of the API."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any
from urllib.parse import unquote

import msgspec
from starlette.responses import Response, StreamingResponse

from placet import __version__
from placet.errors import InputError
from placet.server.api.runs import Position
from placet.server.endpoint import ApiCall, Endpoint
from placet.server.stream import Watcher

MOST_WATCHED = 20
"""Runs whose views one browser watches."""


class Health(msgspec.Struct, frozen=True):
    """Whether the server takes work."""

    status: str
    """`ok`, or `draining` while it ends."""
    version: str


class Me(msgspec.Struct, frozen=True):
    """Who asks, and of what server."""

    name: str
    tenant: str | None
    rights: list[str]
    folders: list[str]
    """Folders in which work may be started."""
    database: str
    version: str


class StreamQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to hear of."""

    after: Position | None = None
    """The position in the log after which to begin. Default: now."""
    run: str | None = None
    """Only this run."""
    watch: str | None = None
    """Runs, percent-encoded and with commas between them, of which changes of the view are sent too."""


def health(call: ApiCall) -> Health:
    """Whether the server takes work."""
    return Health("draining" if call.site.is_draining else "ok", __version__)


def me(call: ApiCall) -> Me:
    """Who asks."""
    token, site = call.token, call.site
    return Me(
        name=token.name,
        tenant=token.tenant,
        rights=list(token.rights),
        folders=list(site.folders) if token.tenant is None else [],
        database=site.records.database.name if token.tenant is None else "",
        version=__version__,
    )


async def stream(call: ApiCall) -> Response:
    """Live updates, as server-sent events."""
    query: StreamQuery = call.query
    after = call.last_event_id if call.last_event_id is not None else query.after
    runs = list(dict.fromkeys(unquote(each) for each in (query.watch or "").split(",") if each))
    if len(runs) > MOST_WATCHED:
        raise InputError(f"At most {MOST_WATCHED} runs can be watched at once.")
    for run_id in runs:
        await asyncio.to_thread(call.site.run, call.token, run_id)
    holds = partial(call.site.tokens.holds, call.token)
    watcher = Watcher(call.token, query.run, dict.fromkeys(runs, after or 0), holds)
    return StreamingResponse(
        call.site.stream.follow(watcher, after),
        media_type="text/event-stream",
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )


def openapi(call: ApiCall) -> dict[str, Any]:
    """The description of the API."""
    return call.site.description


ENDPOINTS = (
    Endpoint("GET", "/health", health, None, Health, "Say whether the server takes work.", is_open=True),
    Endpoint("GET", "/me", me, None, Me, "Say who asks."),
    Endpoint("GET", "/openapi.json", openapi, None, dict[str, Any], "Describe the API."),
    Endpoint("GET", "/stream", stream, "see", Response, "Follow the log.", query=StreamQuery),
)
