"""Work that is started, continued and stopped from outside."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import msgspec

from placet.app.decisions import decide_session
from placet.app.engine import Engine
from placet.app.work import CodeJob, Job, scope_of
from placet.coder.store_sql import has_sessions
from placet.errors import UsageError
from placet.loops.sql import has_rounds
from placet.runtime.journal import Decision
from placet.server.answers import Draining
from placet.server.api.decisions import Reason
from placet.server.endpoint import Call, Endpoint
from placet.storage.lease import StopRequest

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=200_000)]


class Started(msgspec.Struct, frozen=True):
    """A run that has begun, or goes on."""

    run_id: str


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a person says in a conversation."""

    text: Text


class Stop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why something is to end."""

    reason: Reason = ""


class Stopped(msgspec.Struct, frozen=True):
    """Whether a run was asked to stop."""

    run_id: str
    accepted: bool
    """False if nobody who works on it listens here."""


class Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What became of an action whose outcome is unknown."""

    action_id: str
    choice: Literal["done", "retry", "fail"]
    output: Any | msgspec.UnsetType = msgspec.UNSET
    """What it answered, if it is `done`."""


def engine_of(call: Call) -> Engine:
    """Who does the work.

    Raises:
        Draining: nothing more is begun.
        UsageError: nothing can be begun here.
    """
    if call.site.is_draining:
        raise Draining("The server ends, and begins nothing more.")
    if call.site.engine is None:
        raise UsageError("This server only shows and decides. Start work with `placet serve --folder PATH`.")
    return call.site.engine


async def start(call: Call) -> Started:
    """Begin a run."""
    job: Job = call.body
    token = call.token
    scope = scope_of(token.tenant, None)
    if token.tenant is not None and isinstance(job, CodeJob):
        raise UsageError("A coding session belongs to no tenant. Start it with a token of no tenant.")
    return Started(await asyncio.wrap_future(engine_of(call).submit(job, scope=scope)))


async def say(call: Call) -> Started:
    """Say something in a conversation."""
    run = await asyncio.to_thread(call.site.run, call.token, call.path["run"])
    return Started(await asyncio.wrap_future(engine_of(call).say(run.run_id, call.body.text)))


async def resume(call: Call) -> Started:
    """Go on with a run."""
    run = await asyncio.to_thread(call.site.run, call.token, call.path["run"])
    return Started(await asyncio.wrap_future(engine_of(call).wake(run.run_id)))


async def settle(call: Call) -> Started:
    """Say what became of an action, and go on."""
    said: Outcome = call.body
    run = await asyncio.to_thread(call.site.run, call.token, call.path["run"])
    made = Decision(choice=said.choice, output=said.output)
    return Started(await asyncio.wrap_future(engine_of(call).wake(run.run_id, {said.action_id: made})))


def stop(call: Call) -> Stopped:
    """Ask a run to stop."""
    site = call.site
    run = site.run(call.token, call.path["run"])
    reason = call.body.reason or f"stopped by {call.token.name}"
    accepted = site.engine is not None and site.engine.cancel(run.run_id, reason)
    records = site.records
    if has_sessions(records.database) and (session := records.sessions.get(run.run_id)) is not None:
        decide_session(session, "cancel", reason=reason, db=site.db)
        accepted = True
    elif has_rounds(records.database) and records.rounds.get(run.run_id) is not None:
        records.journal.request_stop(run.run_id, StopRequest(reason=reason))
        accepted = True
    return Stopped(run.run_id, accepted)


ENDPOINTS = (
    Endpoint("POST", "/runs", start, "start", Started, "Begin a run.", body=Job, status=202),
    Endpoint(
        "POST",
        "/runs/{run}/messages",
        say,
        "start",
        Started,
        "Say something in a conversation.",
        body=Message,
        status=202,
    ),
    Endpoint("POST", "/runs/{run}/resume", resume, "start", Started, "Go on with a run.", status=202),
    Endpoint(
        "POST",
        "/runs/{run}/outcomes",
        settle,
        "decide",
        Started,
        "Say what became of an action whose outcome is unknown.",
        body=Outcome,
        status=202,
    ),
    Endpoint(
        "POST", "/runs/{run}/cancel", stop, "start", Stopped, "Ask a run to stop.", body=Stop, status=202
    ),
)
