"""Work that is started, continued and stopped from outside."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from placet.app.needs import asked_since
from placet.app.work import CodeJob, Job, RoundJob, scope_of
from placet.engine.canceling import request_stop
from placet.engine.protocol import Engine, SubmitOptions
from placet.errors import RunHeld, UsageError
from placet.loops.timetable import is_held
from placet.runtime.journal import Decision
from placet.server.answers import Conflict, Draining, Forbidden
from placet.server.api.decisions import Reason
from placet.server.endpoint import ApiCall, Endpoint
from placet.server.site import Site
from placet.storage.lease import Holder, holder, is_dead
from placet.trace_context import join_trace

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=200_000)]


class RunStarted(msgspec.Struct, frozen=True):
    """A run that has begun, or goes on."""

    run_id: str


class ChatMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a person says in a conversation."""

    text: Text


class CancelRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why something is to end."""

    reason: Reason = ""


class CancelResult(msgspec.Struct, frozen=True):
    """Whether a run was asked to stop."""

    run_id: str
    accepted: bool
    """False if nobody works on it, and nothing waits for an answer."""


class ActionOutcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What became of an action whose outcome is unknown."""

    action_id: str
    choice: Literal["done", "retry", "fail"]
    output: Any | msgspec.UnsetType = msgspec.UNSET
    """Its answer, if it is `done`."""
    asked_at: float | None = None
    """`asked_at` of what was shown: an action that was run again, and is in doubt again, is not decided."""


def engine_of(call: ApiCall) -> Engine:
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


async def start(call: ApiCall) -> RunStarted:
    """Begin a run."""
    job: Job = call.body
    token = call.token
    scope = scope_of(token.tenant, None)
    if token.tenant is not None and isinstance(job, CodeJob | RoundJob):
        raise UsageError("Coding sessions and rounds of loops belong to no tenant. Use a token of no tenant.")
    chosen = job.options
    if (chosen.permissions is not None or chosen.yes_to is not None) and not token.may("decide"):
        # Whoever chooses what is not asked about has answered it.
        raise Forbidden(
            f"The token '{token.name}' does not have the right 'decide', so it cannot choose what is done "
            "without asking. Leave `permissions` and `yes_to` out: the settings of the folder hold."
        )
    engine = engine_of(call)
    found = await asyncio.to_thread(interrupted_round, call.site, job) if isinstance(job, RoundJob) else None
    if found is not None:
        return RunStarted(await engine.wake(found))
    with join_trace(call.traceparent):
        return RunStarted(await engine.submit(job, SubmitOptions(scope=scope)))


def interrupted_round(site: Site, job: RoundJob) -> str | None:
    """The round of a loop that was interrupted: it comes first, under its own id.

    Raises:
        RunHeld: a round is being run by a process that is surely alive.
    """
    for slot in site.records.timetable.slots():
        if slot.name != job.loop or not Path(job.folder).is_relative_to(slot.repository):
            continue
        if is_held(slot, time.time()):
            # A worker would wait for as long as its holder may be dead: nobody has to, where that is known.
            if slot.lease.holder is not None and _is_surely_alive(slot.lease.holder):
                who = slot.lease.holder.words
                raise RunHeld(
                    f"A round of the loop '{slot.name}' is being run by {who}. Wait until it has ended, or "
                    "stop it."
                )
        elif slot.round:
            return slot.round
    return None


def _is_surely_alive(other: Holder) -> bool:
    """Whether a process is alive, as far as that can be known from here."""
    here = holder("")
    is_near = (other.host, other.boot, other.space) == (here.host, here.boot, here.space)
    return is_near and bool(other.boot and other.started) and not is_dead(other)


async def say(call: ApiCall) -> RunStarted:
    """Say something in a conversation."""
    run = await asyncio.to_thread(call.site.run, call.token, call.path["run"])
    return RunStarted(await engine_of(call).wake(run.run_id, text=call.body.text))


async def resume(call: ApiCall) -> RunStarted:
    """Go on with a run."""
    run = await asyncio.to_thread(call.site.run, call.token, call.path["run"])
    return RunStarted(await engine_of(call).wake(run.run_id))


async def settle(call: ApiCall) -> RunStarted:
    """Say what became of an action, and go on."""
    said: ActionOutcome = call.body
    run = await asyncio.to_thread(call.site.run, call.token, call.path["run"])
    if said.asked_at not in (None, asked_since(run)):
        raise Conflict("The run has gone on since you looked at it. Look at it again before you decide.")
    made = Decision(choice=said.choice, output=said.output, by=call.token.name)
    return RunStarted(await engine_of(call).wake(run.run_id, decide={said.action_id: made}))


async def stop(call: ApiCall) -> CancelResult:
    """Ask a run to stop."""
    site = call.site
    run = await asyncio.to_thread(site.run, call.token, call.path["run"])
    reason = call.body.reason or f"stopped by {call.token.name}"
    is_stopping = site.engine is not None and await site.engine.cancel(run.run_id, reason)
    ask = partial(request_stop, by=call.token.name, db=site.db, is_stopping=is_stopping)
    stopping = await asyncio.to_thread(ask, site.records, run.run_id, reason)
    return CancelResult(run.run_id, stopping is not None)


ENDPOINTS = (
    Endpoint("POST", "/runs", start, "start", RunStarted, "Begin a run.", body=Job, status=202),
    Endpoint(
        "POST",
        "/runs/{run}/messages",
        say,
        "start",
        RunStarted,
        "Say something in a conversation.",
        body=ChatMessage,
        status=202,
    ),
    Endpoint("POST", "/runs/{run}/resume", resume, "start", RunStarted, "Go on with a run.", status=202),
    Endpoint(
        "POST",
        "/runs/{run}/outcomes",
        settle,
        "decide",
        RunStarted,
        "Say what became of an action whose outcome is unknown.",
        body=ActionOutcome,
        status=202,
    ),
    Endpoint(
        "POST",
        "/runs/{run}/cancel",
        stop,
        "start",
        CancelResult,
        "Ask a run to stop.",
        body=CancelRequest,
        status=202,
    ),
)
