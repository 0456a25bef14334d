"""A run as one static file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from placet.app.stories import story_lines
from placet.errors import UnknownRun
from placet.events.run_view import RunFold
from placet.render.run_page import run_page
from placet.runtime.account import LISTED_ACTIONS
from placet.runtime.shown import shown_proposal

if TYPE_CHECKING:
    from placet.app.app import Records
    from placet.events.event import Event
    from placet.ir.proposal import Proposal
    from placet.redaction import Redactor


def shown_event(event: Event, redactor: Redactor) -> Event:
    """An event as it may be shown. Whoever wrote it has taken the secrets out that it knew."""
    data = redactor.value(event.data)
    assert isinstance(data, dict)
    return event if data is event.data else replace(event, data=data)


def fold_run(records: Records, run_id: str, redactor: Redactor) -> RunFold:
    """The state of a run, from all that is in the log."""
    fold = RunFold(run_id)
    extend_fold(fold, records, redactor)
    return fold


def extend_fold(fold: RunFold, records: Records, redactor: Redactor) -> None:
    """Take what is new in the log. A plan that is too long for it comes from the journal."""
    for event in records.events.scan(run=fold.view.run_id, after=fold.view.seq):
        fold.take(shown_event(event, redactor))
    view = fold.view
    is_long = bool(view.proposals) and view.proposals[0].count > LISTED_ACTIONS
    if view.kind == "plan" and is_long and not fold.has_plan:
        plan = _plan(records, view.run_id, redactor)
        if plan is not None:
            fold.plan(plan)


def planned_fold(records: Records, run_id: str, redactor: Redactor) -> RunFold | None:
    """A run as it was planned, without reading its events; None if the journal has no plan of it."""
    plan = _plan(records, run_id, redactor)
    if plan is None:
        return None
    fold = RunFold(run_id)
    fold.plan(plan)
    return fold


def _plan(records: Records, run_id: str, redactor: Redactor) -> Proposal | None:
    try:
        record = records.journal.record(run_id)
    except UnknownRun:
        return None
    return shown_proposal(record.proposal, redactor) if record.proposal.actions else None


def export_html(records: Records, run_id: str, redactor: Redactor, *, db: str | None = None) -> str:
    """A run as one HTML file that needs no network and runs no script."""

    def events() -> Iterator[Event]:
        for event in records.events.scan(run=run_id):
            yield shown_event(event, redactor)

    view = fold_run(records, run_id, redactor).view
    return run_page(view, story_lines(records, run_id, redactor, db=db), events(), made_at=time.time())
