"""Submissions that have not begun or cannot go on, and the workers that they wait for.

Keep true: a token of a tenant sees the submissions of that tenant, counts them alone, and sees no worker:
workers are everybody's.
"""

from __future__ import annotations

import msgspec

from placet.engine.protocol import State
from placet.engine.queue_engine import NOT_BEGUN, engine_in
from placet.server.api.runs import Limit
from placet.server.endpoint import ApiCall, Endpoint


class SubmissionsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which submissions."""

    folder: str | None = None
    limit: Limit = 50


class SubmissionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was submitted and has not begun, or cannot go on."""

    run_id: str
    kind: str
    state: State
    queue: str
    tenant: str | None
    folder: str | None
    host: str | None
    """The host that has the folder."""
    attempts: int
    submitted: float
    due: float
    """When it may begin, in seconds since the epoch."""
    has_begun: bool
    """Whether there is a run to look at."""
    why: str | None
    """Why it waits, or what kept it from going on; null if a worker will take it."""


class SubmissionPage(msgspec.Struct, frozen=True):
    """The newest submissions that no worker works on, newest first."""

    submissions: list[SubmissionRow]


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that was heard of lately."""

    id: str
    host: str
    queue: str
    state: str
    """`up`, `draining` or `gone`."""
    running: int
    concurrency: int
    version: str
    started: float


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """How many submissions of a queue stand how."""

    queue: str
    states: dict[str, int]


class WorkersShown(msgspec.Struct, frozen=True):
    """Workers, and the queues that they serve."""

    workers: list[WorkerRow]
    queues: list[QueueRow]


def list_submissions(call: ApiCall) -> SubmissionPage:
    """What was submitted, and why it waits."""
    site, query = call.site, call.query
    engine = engine_in(site.records)
    if engine is None:
        return SubmissionPage([])
    found = engine.submissions.listed(
        NOT_BEGUN, tenant=call.token.tenant, folder=query.folder, limit=query.limit
    )
    workers = engine.submissions.workers() if found else []
    rows = []
    for each in found:
        why = engine.why_queued(each, workers) or each.error or each.stop
        rows.append(
            SubmissionRow(
                run_id=each.run_id,
                kind=each.kind,
                state=each.state,
                queue=each.queue,
                tenant=each.tenant,
                folder=each.folder,
                host=each.host,
                attempts=each.attempts,
                submitted=each.submitted,
                due=each.due,
                has_begun=each.version is not None,
                why=site.redactor.text(why) if why is not None else None,
            )
        )
    return SubmissionPage(rows)


def list_workers(call: ApiCall) -> WorkersShown:
    """Who works, and how much waits."""
    engine = engine_in(call.site.records)
    if engine is None:
        return WorkersShown([], [])
    tenant = call.token.tenant
    workers = [
        WorkerRow(
            id=each.id,
            host=each.holder.host,
            queue=each.queue,
            state=each.state,
            running=each.running,
            concurrency=each.concurrency,
            version=each.version,
            started=each.started,
        )
        for each in (engine.submissions.workers() if tenant is None else ())
    ]
    depth = engine.submissions.depth(tenant=tenant)
    return WorkersShown(workers, [QueueRow(queue=name, states=depth[name]) for name in sorted(depth)])


ENDPOINTS = (
    Endpoint(
        "GET",
        "/submissions",
        list_submissions,
        "see",
        SubmissionPage,
        "List submitted runs that no worker works on, and why.",
        query=SubmissionsQuery,
    ),
    Endpoint("GET", "/workers", list_workers, "see", WorkersShown, "List workers and the depth of queues."),
)
