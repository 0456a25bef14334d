"""Runs: a list, one run, its events."""

from __future__ import annotations

from typing import Annotated, Any, cast

import msgspec

from placet.app.run_rows import RunRow, rows_of
from placet.app.stories import story_lines
from placet.errors import InputError
from placet.events.event import Event
from placet.events.run_view import RunView
from placet.ir.json_value import show_json
from placet.render.plan_layout import PlanLayout, lay_out
from placet.server.answers import NotFound
from placet.server.endpoint import ApiCall, Endpoint
from placet.truncation import truncate

LONGEST_OUTPUT = 200_000
"""Characters of an output that are shown."""
Limit = Annotated[int, msgspec.Meta(ge=1, le=500)]
Position = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class RunsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which runs."""

    status: str | None = None
    folder: str | None = None
    limit: Limit = 50
    after: str | None = None
    """`next` of the page before."""


class RunPage(msgspec.Struct, frozen=True):
    """Runs that no other run started, newest first."""

    runs: list[RunRow]
    next: str | None
    """`after` of the next page; null on the last."""


class RunShown(msgspec.Struct, frozen=True):
    """One run."""

    run: RunRow
    view: RunView
    """Its state, folded from its events."""
    started: list[RunRow]
    """The runs that it started, each followed by those that it started in turn."""
    cursor: int
    """Up to which position of the log this was read: `after` of the stream."""


class Story(msgspec.Struct, frozen=True):
    """A run, told."""

    lines: list[str]


class OutputQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which action."""

    action: str
    """Its key in the view: `PROPOSAL/ACTION`."""


class ActionOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What an action answered."""

    output: Any = None
    is_cut: bool = False
    """Whether it is too long to be shown: `output` is then the beginning of its JSON, as a text."""
    missing: str | None = None
    """Why there is none."""


class EventsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which events."""

    after: Position | None = None
    before: Position | None = None
    limit: Limit = 500
    kind: str | None = None
    """A kind, or several with commas between them."""
    newest: bool = False
    """Newest first."""


class EventPage(msgspec.Struct, frozen=True):
    """Events in the order of the log; with `newest` the other way round."""

    events: list[Event]
    next: int | None
    """`after` of the next page, with `newest` its `before`; null on the last."""


def list_runs(call: ApiCall) -> RunPage:
    """The newest runs."""
    query: RunsQuery = call.query
    site = call.site
    found = site.records.journal.page(
        status=query.status,
        folder=query.folder,
        tenant=call.token.tenant,
        before=_cursor(query.after),
        limit=query.limit + 1,
    )
    page = found[: query.limit]
    more = f"{page[-1].begun!r}~{page[-1].run_id}" if len(found) > query.limit else None
    return RunPage(rows_of(site.records, page, site.redactor), more)


def _cursor(given: str | None) -> tuple[float, str] | None:
    if given is None:
        return None
    begun, mark, run_id = given.partition("~")
    try:
        at = float(begun)
    except ValueError:
        at = float("nan")
    if not mark or at != at:
        raise InputError("'after' is not the `next` of a page before.")
    return at, run_id


def show_run(call: ApiCall) -> RunShown:
    """One run, and what it started."""
    site = call.site
    # First: what is written meanwhile is then sent by the stream.
    cursor = site.records.events.last_position()
    summary = site.run(call.token, call.path["run"])
    started = site.records.journal.started_by(summary.run_id)
    (row,) = rows_of(site.records, [summary], site.redactor)
    # It is encoded once, however often it is looked at.
    view = cast(RunView, site.folds.encoded(summary.run_id))
    return RunShown(row, view, rows_of(site.records, started, site.redactor), cursor)


def show_graph(call: ApiCall) -> PlanLayout:
    """Where the actions of a run are drawn."""
    folds = call.site.folds
    run_id = call.site.run(call.token, call.path["run"]).run_id
    planned = folds.planned(run_id)
    return (
        lay_out(planned.view) if planned is not None else folds.read(run_id, lambda fold: lay_out(fold.view))
    )


def tell_story(call: ApiCall) -> Story:
    """The run as `placet explain` tells it."""
    site = call.site
    summary = site.run(call.token, call.path["run"])
    return Story(story_lines(site.records, summary.run_id, site.redactor, db=site.db))


def show_output(call: ApiCall) -> ActionOutput:
    """What an action of a plan answered."""
    site = call.site
    run = site.run(call.token, call.path["run"])
    result = site.records.journal.shown(run.run_id)
    if result is None:
        return ActionOutput(missing="Outputs are shown once the run waits or has ended.")
    key = call.query.action
    found = next((r for r in result.results if f"{result.proposal_id}/{r.action_id}" == key), None)
    if found is None:
        return ActionOutput(missing="The result of the run does not hold this action.")
    output = site.redactor.value(found.output)
    text = show_json(output)
    if len(text) > LONGEST_OUTPUT:
        return ActionOutput(output=truncate(text, LONGEST_OUTPUT), is_cut=True)
    return ActionOutput(output=output)


def list_events(call: ApiCall) -> EventPage:
    """The events of a run."""
    site, query = call.site, call.query
    run_id = call.path["run"]
    try:
        site.run(call.token, run_id)
    except NotFound:
        # The log may know runs that are not kept.
        if not site.records.events.query(run=run_id, tenant=call.token.tenant, limit=1):
            raise
    return event_page(call, query, run=run_id)


def event_page(call: ApiCall, query: Any, *, run: str | None) -> EventPage:
    """Some events that the caller may see."""
    site = call.site
    kinds = [each for each in query.kind.split(",") if each] if query.kind else None
    found = site.records.events.query(
        run=run,
        kind=kinds,
        tool=getattr(query, "tool", None),
        since=getattr(query, "since", None),
        until=getattr(query, "until", None),
        tenant=call.token.tenant,
        after=query.after,
        before=query.before,
        limit=query.limit,
        newest=query.newest,
    )
    more = found[-1].seq if len(found) == query.limit else None
    return EventPage([site.shown(event) for event in found], more)


ENDPOINTS = (
    Endpoint("GET", "/runs", list_runs, "see", RunPage, "List the newest runs.", query=RunsQuery),
    Endpoint("GET", "/runs/{run}", show_run, "see", RunShown, "Show one run."),
    Endpoint("GET", "/runs/{run}/graph", show_graph, "see", PlanLayout, "Lay out the actions of a run."),
    Endpoint("GET", "/runs/{run}/story", tell_story, "see", Story, "Tell what happened in a run."),
    Endpoint(
        "GET",
        "/runs/{run}/output",
        show_output,
        "see",
        ActionOutput,
        "Show what an action of a plan answered.",
        query=OutputQuery,
    ),
    Endpoint(
        "GET",
        "/runs/{run}/events",
        list_events,
        "see",
        EventPage,
        "List the events of a run.",
        query=EventsQuery,
    ),
)
