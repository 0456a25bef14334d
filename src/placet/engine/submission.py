"""A run that was submitted, and a worker, as all who have to do with a queue see them."""

from __future__ import annotations

from typing import Annotated

import msgspec

from placet.engine.protocol import FIRST, INTERRUPTED, LAST, USUAL, State, Ticket
from placet.runtime.journal import Decision
from placet.storage.lease import Holder


class Inbox(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is told when it goes on."""

    decide: dict[str, Decision] = {}
    """What became of actions whose outcome was unknown."""
    text: str | None = None
    """Something that a person says in a conversation."""


NOTHING_SAID = Inbox()


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was asked for, and how it stands."""

    run_id: str
    """Id of the run."""
    kind: str
    """What kind of run it is."""
    request: str
    """The job, as JSON."""
    options: str = "{}"
    """How the run is set up, as JSON: `RunOptions` as they are stored with runs."""
    tenant: str | None = None
    """Tenant of the run."""
    caller: str | None = None
    """Who asked for it."""
    key: str | None = None
    """Deduplication key, one of its tenant's."""
    priority: Annotated[int, msgspec.Meta(ge=FIRST, le=LAST)] = USUAL
    """From 1 (first) to 5 (last)."""
    queue: str = ""
    """The queue whose workers may do it."""
    folder: str | None = None
    """The folder in which it works."""
    host: str | None = None
    """The host that has the folder."""
    target: str | None = None
    """The one worker that has what it needs, where others lack it."""
    version: str | None = None
    """The version of Placet that began it; `None` before."""
    needs: tuple[str, ...] = ()
    """Names that were missing where it was tried, such as `tool mail.send`."""
    state: State = "queued"
    """How it stands."""
    number: int = 1
    """Number of its newest ticket."""
    worker: str | None = None
    """The worker that claimed it last."""
    attempts: int = 0
    """How often a worker has claimed it since it last came to an orderly stop."""
    inbox: Inbox = Inbox()
    """What it is told when it goes on."""
    stop: str | None = None
    """Why somebody wants it stopped."""
    outcome: str | None = None
    """How the run ended, if it has."""
    error: str | None = None
    """Why it could not begin or go on, the last time."""
    submitted: float = 0.0
    """When it was submitted, in seconds since the epoch."""
    due: float = 0.0
    """When it may begin, in seconds since the epoch."""
    changed: float = 0.0
    """When its state last changed, or its ticket was enqueued, in seconds since the epoch."""
    held: str | None = None
    """The limit of the day that keeps it in the queue until it is due, in words."""

    @property
    def channel(self) -> str:
        """The queue of the transport: work in a folder is only for workers on the host that has it."""
        return f"{self.queue}!{self.target}" if self.target else channel_of(self.queue, self.host)

    def ticket(self, version: str) -> Ticket:
        """Its newest ticket, for workers of the version that began it, else of `version`. One whose worker
        died goes before all others."""
        return Ticket(
            run_id=self.run_id,
            number=self.number,
            queue=self.channel,
            tenant=self.tenant or "",
            priority=INTERRUPTED if self.attempts else self.priority,
            version=self.version or version,
        )


def channel_of(queue: str, host: str | None) -> str:
    """The queue of the transport for work on one host, or on any."""
    return f"{queue}@{host}" if host is not None else queue


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A worker, as others see it."""

    id: str
    """Unique per process start."""
    holder: Holder
    """Its process."""
    queue: str
    """The queue that it serves."""
    concurrency: int
    """How many runs it works on at once."""
    version: str
    """Its version of Placet."""
    offers: tuple[str, ...] = ()
    """Names that it has for runs that bring none of their own, such as `tool mail.send`."""
    state: str = "up"
    """`up`, `draining` or `gone`."""
    started: float = 0.0
    """When it started, in seconds since the epoch."""
    until: float = 0.0
    """When it counts as dead without a further heartbeat."""
    running: int = 0
    """How many runs it works on."""
