"""A run as it is recorded, with what is kept of it besides, for whoever tells it as a story."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from placet.app.loops import round_of
from placet.app.options import is_a_programs
from placet.app.repeat import repeat_of
from placet.errors import StorageError, StorageUnavailable, UnknownRun
from placet.ir.json_value import JsonValue
from placet.loops.delivery import round_data
from placet.render.history import History
from placet.render.loops import round_lines, round_steps
from placet.render.story import tell_history
from placet.runtime import journal

if TYPE_CHECKING:
    from placet.app.app import Records
    from placet.redaction import Redactor


def story_lines(records: Records, run_id: str, redactor: Redactor, *, db: str | None) -> list[str]:
    """A run told as a story, line by line."""
    round = round_of(records, run_id)
    if round is not None and round.id == run_id:
        phases = [
            (str(event.data.get("phase", "")), event.time)
            for event in records.events.query(run=run_id, kind="round_phase")
        ]
        parts = [each.run_id for each in (round.maker, round.checker) if each is not None and each.run_id]
        told = [*round_lines(round_data(round), db=db), *round_steps(phases, parts, db=db)]
    else:
        told = list(tell_history(history_of(records, run_id, redactor), db=db))
    return [redactor.text(each.plain) for each in told]


def history_of(records: Records, run_id: str, redactor: Redactor) -> History:
    """The history of a run: whether only a program can go on with it, and how it was started."""
    history = History.of(records.events.scan(run=run_id))
    with suppress(UnknownRun, StorageUnavailable):  # The log may know runs that are not kept.
        summary, record = records.journal.find(run_id), records.journal.record(run_id)
        history.coding_status = summary.status
        history.repeat = repeat_of(summary, record)
        history.is_a_programs = is_a_programs(summary, record)
        if journal.is_led(record):
            # Whoever leads it brings its model and its tools: only who began it knows them.
            history.is_a_programs = "folder" not in summary.context
            if summary.status == "interrupted":
                history.break_off()
            for id, (tool, given) in calls_in_flight(records, run_id, redactor).items():
                if history.led is not None:
                    history.led.note_call(id, tool, given)
    return history


def calls_in_flight(records: Records, run_id: str, redactor: Redactor) -> dict[str, Asked]:
    """The calls of which nobody knows what became of them, as the journal has them, without secrets; by their
    ids. The log does not tell them: it hears of a call when that has ended."""
    notes: Sequence[journal.Note] = ()
    with suppress(StorageError):
        notes = records.journal.notes(run_id)
    plans = [note for note in notes if isinstance(note, journal.Replaced)]
    begun = {note.key for note in notes if isinstance(note, journal.Started)}
    ended = [note for note in notes if isinstance(note, journal.Ended)]
    begun -= {note.key for note in ended}
    has_secrets = any("secret" in note.marks for note in ended)
    found: dict[str, Asked] = {}
    for action in (
        action
        for plan in plans
        for i, action in enumerate(plan.proposal.actions)
        if journal.key_of(plan.plan, i) in begun
    ):
        shown = redactor.value(dict(action.parameters))
        assert isinstance(shown, dict)
        # Something secret was read in this run: here it is not known where it went.
        given = dict.fromkeys(shown, "(not shown: it may be secret)") if has_secrets else shown
        found[action.id] = Asked(action.tool or action.type, given)
    return found


class Asked(NamedTuple):
    """A call as a person may see it."""

    tool: str
    parameters: Mapping[str, JsonValue]
