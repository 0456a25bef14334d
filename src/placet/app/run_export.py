"""A run as one static file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
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
    from placet.redaction import Redactor


def shown_event(event: Event, redactor: Redactor) -> Event:
    """An event as it may be shown. Whoever wrote it has taken the secrets out that it knew."""
    data = redactor.value(event.data)
    assert isinstance(data, dict)
    return event if data is event.data else replace(event, data=data)


def fold_run(records: Records, run_id: str, redactor: Redactor) -> RunFold:
    """The state of a run, from all that is in the log. A plan that is too long for it comes from the
    journal."""
    fold = RunFold(run_id)
    for event in records.events.scan(run=run_id):
        fold.take(shown_event(event, redactor))
    plans = fold.view.proposals
    if fold.view.kind == "plan" and plans and plans[0].count > LISTED_ACTIONS:
        with suppress(UnknownRun):
            fold.plan(shown_proposal(records.journal.record(run_id).proposal, redactor))
    return fold


def export_html(records: Records, run_id: str, redactor: Redactor, *, db: str | None = None) -> str:
    """A run as one HTML file that needs no network and runs no script."""

    def events() -> Iterator[Event]:
        for event in records.events.scan(run=run_id):
            yield shown_event(event, redactor)

    view = fold_run(records, run_id, redactor).view
    return run_page(view, story_lines(records, run_id, redactor, db=db), events(), made_at=time.time())
