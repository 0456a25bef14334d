"""`placet runs`: which runs there were, how each stands, what to do about it; old ones dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from placet.cli.inputs import (
    Subject,
    before_option,
    count_option,
    db_option,
    file_names,
    json_option,
    run_argument,
)
from placet.cli.output import Output
from placet.cli.places import (
    NOTHING_YET,
    all_option,
    folder_option,
    look_in,
    scope_of,
    since_option,
    talk_of_elsewhere,
    until_option,
)

if TYPE_CHECKING:
    from rich.text import Text

    from placet.app.app import Records
    from placet.durable.sql import RunSummary
    from placet.engine.queue_engine import QueueEngine
    from placet.engine.submission import Submission
    from placet.render.runs import Led

_STATES = (
    "running",
    "interrupted",
    "waiting",
    "succeeded",
    "partial",
    "aborted",
    "refused",
    "canceled",
    "budget",
)


_LONG = 500
_ALL = 1_000_000
"""Runs: more than anybody keeps."""


@click.group(cls=Subject, short_help="List runs, show or stop one, drop old ones.")
def runs() -> None:
    """Which runs there were. Without a command: the newest of them."""


@runs.command("list", short_help="The newest runs.")
@click.option("--status", type=click.Choice(_STATES), help="Only those that stand so.")
@since_option
@until_option
@folder_option
@all_option
@count_option("--limit", 20, "How many at most; the runs that they started come with them.")
@db_option
@json_option
@click.pass_obj
def list_runs(
    output: Output,
    status: str | None,
    since: float | None,
    until: float | None,
    folder: str | None,
    is_all: bool,
    limit: int,
    db: str | None,
    as_json: bool,
) -> int:
    """List the newest runs of this folder's project, newest first, each with the runs that it started:
    agents that it called, turns of the coder, maker and checker of a loop. `placet resume` goes on with one
    that is `interrupted`.

    Exit codes: 0 listed, also if there are none, 2 bad input.
    """
    from placet.app.run_rows import led_runs
    from placet.cli.other_databases import hidden_records
    from placet.engine.queue_engine import NOT_BEGUN, engine_in, submission_data
    from placet.render.advice import db_words
    from placet.render.runs import draw_runs

    place = scope_of(folder, is_all=is_all)

    def look(records: Records) -> tuple[list[RunSummary], int, dict[str, Led], str, list[dict[str, Any]]]:
        found, elsewhere = records.journal.listed(
            status=status,
            since=since,
            until=until,
            folder=place,
            with_unknown=folder is None,
            limit=limit,
        )
        led = {} if as_json else led_runs(records, found, output.redactor)
        engine = engine_in(records)
        submitted = []
        if engine is not None and status is None:  # That asks for runs.
            left = engine.submissions.listed(NOT_BEGUN, limit=limit)
            submitted = [submission_data(engine, each) for each in left]
        return found, elsewhere, led, records.database.name, submitted

    nothing: tuple[list[RunSummary], int, dict[str, Led], str, list[dict[str, Any]]] = ([], 0, {}, "", [])
    found, elsewhere, led, name, submitted = look_in(db, look, nothing)
    listed = [_as_data(summary) for summary in found]
    hidden = None if found or submitted else hidden_records(db, "runs", place=place)
    if as_json:
        data = {"runs": listed, "elsewhere": elsewhere, "submitted": submitted}
        output.show_json({**data, **hidden.data()} if hidden else data)
        return 0
    for each in submitted:
        output.show(_submission_line(each))
    if not found:
        where = f" was begun in {place}" if place is not None else ""
        if status is not None or since is not None or until is not None:
            where += " and matches" if where else " matches"
        output.talk(f"No run in {name}{where or ' yet'}." if name else NOTHING_YET)
        if hidden:
            hidden.talk(output)
    else:
        output.show(*draw_runs(listed, led, width=output.width, with_folders=is_all, db=db_words(db)))
        if sum(run.parent is None for run in found) == limit:
            output.talk(f"Only the newest {limit} are shown: --limit")
    talk_of_elsewhere(output, elsewhere, is_more=bool(found))
    return 0


@runs.command("show", short_help="How one run stands.")
@run_argument
@db_option
@json_option
@click.pass_obj
def show(output: Output, run: str, db: str | None, as_json: bool) -> int:
    """Show how the run RUN (the start of its id is enough) stands, action by action, and what to do next.

    Exit codes: 0 shown, 2 there is no such run.
    """
    from contextlib import suppress

    from rich.text import Text

    from placet.app.app import open_records
    from placet.app.coder import session_of
    from placet.app.loops import round_of
    from placet.app.options import is_a_programs
    from placet.app.repeat import repeat_of
    from placet.app.run_rows import led_runs
    from placet.app.stories import calls_in_flight
    from placet.cli.led import coding_commands
    from placet.cli.other_databases import look_elsewhere
    from placet.engine.queue_engine import engine_in, submission_data
    from placet.errors import StorageUnavailable, UnknownRun
    from placet.ir.graph import Graph
    from placet.loops.delivery import round_data
    from placet.render.advice import advise
    from placet.render.history import History
    from placet.render.loops import round_lines
    from placet.render.marks import NONZERO
    from placet.render.runs import draw_runs, look_of
    from placet.render.text import count, moment
    from placet.render.tree import draw_tree, draw_turns
    from placet.runtime.journal import is_led
    from placet.runtime.shown import shown_proposal, shown_result
    from placet.safe_text import clean

    with look_elsewhere(db, "run", run, "runs show"), open_records(db) as records:
        engine = engine_in(records)
        asked = engine.submissions.find(run) if engine is not None else None
        submitted = submission_data(engine, asked) if engine is not None and asked is not None else None
        try:
            summary = records.journal.find(run)
        except (UnknownRun, StorageUnavailable):
            if submitted is None:
                raise
            if as_json:
                output.show_json({"run_id": submitted["run_id"], "submission": submitted})
            else:
                output.show(_submission_line(submitted))
            return 0
        if not as_json and (round := round_of(records, summary.run_id)) is not None:
            if round.id == summary.run_id:
                output.show(*round_lines(round_data(round), db=db))
                return 0
        record = records.journal.record(summary.run_id)
        proposal = shown_proposal(record.proposal, output.redactor)
        kept = records.journal.shown(summary.run_id)
        result = shown_result(kept, output.redactor) if kept is not None else None
        history = History()
        history.run_id = summary.run_id  # Also where no event is left that says so.
        history.is_a_programs = is_a_programs(summary, record)
        history.repeat = repeat_of(summary, record)
        if is_led(record):
            history.is_a_programs = "folder" not in summary.context
            history.lead(proposal)
        else:
            history.plan(proposal)
        with suppress(StorageUnavailable):  # A program may keep runs and no events.
            for event in records.events.scan(run=summary.run_id):
                history.take(event)
        if history.led is not None:
            for id, (tool, given) in calls_in_flight(records, summary.run_id, output.redactor).items():
                history.led.note_call(id, tool, given)
        started = records.journal.started_by(summary.run_id)
        led = {} if as_json else led_runs(records, started, output.redactor)
    is_known = history.last is not None or history.led is not None
    if result is not None and is_known and summary.status not in ("running", "interrupted"):
        history.settle(result)
    if summary.status == "interrupted":
        history.break_off()
    session = session_of(proposal.context)
    advised = advise(history, db=db) if session is None else coding_commands(session, db)
    if submitted is not None and _is_canceling(submitted):
        advised = []  # A worker ends it; nothing is to be decided about it, nor to go on with.
    if as_json:
        output.show_json(
            {
                **_as_data(summary),
                "result": result,
                "started": [_as_data(each) for each in started],
                "submission": submitted,
                "next": [a._asdict() for a in advised],
            }
        )
        return 0
    graph = Graph(proposal.actions)
    layers = [graph.ids(layer) for layer in graph.layers]
    is_left = history.led is not None and history.led.is_left and summary.status == "waiting"
    look = look_of("left" if is_left else summary.status)
    if history.led is None and history.last is not None and history.last.outcome_look == NONZERO:
        look = look_of(NONZERO)
    title = f"run {clean(summary.run_id)}"
    width = output.result_console().width
    if session == summary.run_id:
        tree = None  # Its turns are those of its iterations, which are runs of their own.
    elif history.led is not None:
        tree = draw_turns(history, title=title, width=width)
    else:
        tree = draw_tree(history, layers, title=title, max_lines=150, width=width)
    facts = [f"begun {moment(summary.begun)}"]
    facts += [f"by {summary.holder}"] if summary.holder else []
    if tree is not None and str(tree.label).startswith(f"{look.sign} {look.word} "):
        output.show(Text(", ".join(facts)))  # The tree says how it stands, and of how many actions.
    else:
        facts[1:1] = [count(summary.actions, "action")] if history.led is None else []
        output.show(Text.assemble((f"{look.sign} {look.word}", look.style), f"  {', '.join(facts)}"))
    if tree is not None:
        output.show(tree)
    if tree is not None and history.led is not None:
        end = history.led.end
        # Where the model said nothing, the summary only says again how it ended.
        said = end.summary if end is not None and end.summary != end.error else ""
        output.show(Text(f"It said last: {clean(said.strip(), _LONG)}")) if said else None
    if started:
        output.show(
            Text("It started:"),
            *draw_runs([_as_data(each) for each in started], led, width=output.width, is_whole=True),
        )
    if submitted is not None and submitted["state"] != "ended":
        output.show(_submission_line(submitted))
    if submitted is not None and submitted["has_other_policies"]:
        output.show(Text("Its worker's policies were other ones than those it was submitted under."))
    for advice in advised:
        output.show(Text(advice.sentence))
        if advice.command:
            output.show(Text(f"  {advice.command}"))
    return 0


@runs.command(short_help="Write one run as a static page.")
@run_argument
@click.option(
    "--html", "target", metavar="FILE", required=True, shell_complete=file_names, help="The file to write."
)
@db_option
@json_option
@click.pass_obj
def export(output: Output, run: str, target: str, db: str | None, as_json: bool) -> int:
    """Write the run RUN (the start of its id is enough) as one HTML file, to be sent to somebody: its graph,
    its story, its actions and its events, without secrets. The file needs no network and holds no script.

    Exit codes: 0 written, 2 there is no such run, or the file cannot be written.
    """
    from pathlib import Path

    from placet.app.app import database_files, open_records
    from placet.app.files import check_target, unusable
    from placet.app.run_export import export_html
    from placet.cli.wording import no_events

    check_target(target, "--html", database_files(db), instead="run.html")
    with open_records(db) as records:
        run_id = records.run_id(run)
        if not records.events.query(run=run_id, limit=1):
            raise no_events(run_id, db)
        text = export_html(records, run_id, output.redactor, db=db)
    try:
        Path(target).write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise unusable("write", target, error) from None
    if as_json:
        output.show_json({"run_id": run_id, "file": target, "bytes": len(text.encode())})
    else:
        output.talk(f"Written: {target}")
    return 0


@runs.command(short_help="Drop old runs that have ended.")
@before_option
@db_option
@json_option
@click.pass_obj
def prune(output: Output, before: float, db: str | None, as_json: bool) -> int:
    """Drop runs that ended for good before WHEN, with their plans and results, and what was kept of long
    outputs until then; also what was submitted and never began. Runs that can be resumed stay; so do events,
    which `placet log prune` drops.

    Exit codes: 0 done, also if there was nothing to drop, 2 bad input.
    """
    from rich.text import Text

    from placet.app.app import open_records, spill_here
    from placet.engine.queue_engine import engine_in
    from placet.render.text import count

    with open_records(db, writes=True) as records:
        dropped = records.journal.prune(before)
        engine = engine_in(records)
        number = len(dropped) + (engine.submissions.prune(before, dropped) if engine is not None else 0)
        left = records.journal.runs(limit=_ALL)
    spill = spill_here()
    spill.drop(dropped)
    if db is None:
        # Also of runs that nobody has kept; those of a database that was named may be known to another one.
        spill.prune(before, but=[summary.run_id for summary in left])
    if as_json:
        output.show_json({"dropped": number})
    else:
        said = f"{count(number, 'run')} dropped." if number else "No run ended before that."
        output.show(Text(said))
    return 0


def _is_canceling(submission: dict[str, Any]) -> bool:
    """Whether somebody wants a run stopped that has not ended yet."""
    from placet.engine.protocol import OPEN

    return submission["state"] in OPEN and submission["stop"] is not None


def _submission_line(data: dict[str, Any]) -> Text:
    """A submission for people."""
    import time

    from rich.text import Text

    from placet.render.text import moment
    from placet.safe_text import clean

    why = data["waits_for"] or data["error"] or data["stop"] or ""
    state = "canceling" if _is_canceling(data) else data["state"]
    told = f"{state}  {clean(data['run_id'])}  {data['kind']}, submitted {moment(data['submitted'])}"
    if data["state"] == "queued" and data["due"] > time.time():
        told += f", begins at {moment(data['due'])}"
    return Text(f"{told}: {clean(why, _LONG)}" if why else told)


def _as_data(summary: RunSummary) -> dict[str, Any]:
    import msgspec

    data: dict[str, Any] = msgspec.to_builtins(summary)
    del data["context"]
    return data


@runs.command(short_help="Stop a run, or end a coding session.")
@run_argument
@click.option(
    "--reason", default="stopped by a person", show_default=True, help="Why; recorded with the run."
)
@db_option
@json_option
@click.pass_obj
def cancel(output: Output, run: str, reason: str, db: str | None, as_json: bool) -> int:
    """Stop the run RUN (the start of its id is enough). One that a process works on stops soon, in whatever
    terminal, server or worker; one that waits in the queue never begins. One that waits for a person ends at
    once and what it asks is withdrawn, except for submitted tasks and conversations, which the next worker
    ends. `placet resume` can go on with it. A coding session is ended for good.

    Exit codes: 0 it stops, 1 it has ended before, or nobody works on it, 2 there is no such run.
    """
    from placet.app.app import open_records
    from placet.engine.protocol import OPEN
    from placet.engine.queue_engine import QueueEngine
    from placet.render.advice import db_words
    from placet.runtime.sync import run_sync
    from placet.safe_text import clean

    with open_records(db, create=True, writes=True) as records:
        engine = QueueEngine(records)
        run_id = _find(records, engine, run)
        found = engine.submissions.get(run_id)
        if found is None:
            return _cancel_elsewhere(output, records, run_id, reason, db, as_json=as_json)
        accepted = run_sync(engine.cancel(run_id, reason))
        if not accepted and found.kind not in ("code", "round") and _waits(records, run_id):
            # Somebody has resumed it by hand, so no worker goes on with it.
            return _cancel_elsewhere(output, records, run_id, reason, db, as_json=as_json)
        now = engine.submissions.get(run_id) or found
    if as_json:
        data = {"run_id": found.run_id, "was": found.state, "state": now.state, "accepted": accepted}
        output.show_json(data)
        return 0 if accepted else 1
    name, queue = clean(found.run_id), clean(found.queue)
    if not accepted:
        output.talk(_unchanged(now, db, f"Nothing is left to stop in run '{name}'"))
    elif now.state == "running":
        output.talk(f"Asked to stop: {name}. Its worker stops it soon.")
    elif found.state not in OPEN:
        output.talk(f"Asked to stop: {name}. Its process stops it soon.")
    elif now.state == "queued":
        command = f"placet worker --queue {queue}{db_words(db)}"
        output.talk(f"Asked to stop: {name}. The next worker ends it. If none is there: {command}")
    else:
        output.talk(f"Stopped: {name}")
    return 0 if accepted else 1


def _find(records: Records, engine: QueueEngine, given: str) -> str:
    """The id of the one run, submitted or not, whose id is, or starts with, a text.

    Raises:
        UnknownRun: there is none, or there are several.
    """
    from placet.errors import UnknownRun

    several: dict[str, None] = {}
    for find in (engine.find, records.journal.find):
        try:
            found = find(given).run_id
        except UnknownRun as error:
            unknown = error
            several |= dict.fromkeys(error.several)
        else:
            if found == given:
                return given
            several[found] = None
    if not several:
        raise unknown
    if len(several) == 1:
        return next(iter(several))
    some = ", ".join(f"'{each}'" for each in list(several)[:5])
    raise UnknownRun(
        f"Several runs begin with '{given}': {some}. Write more of the id.",
        run_id=given,
        several=list(several),
    )


def _waits(records: Records, run_id: str) -> bool:
    """Whether a run waits for a person; one that never began does not."""
    from placet.errors import UnknownRun

    try:
        return records.journal.find(run_id).status == "waiting"
    except UnknownRun:
        return False


def _cancel_elsewhere(
    output: Output, records: Records, run_id: str, reason: str, db: str | None, *, as_json: bool
) -> int:
    """Stop a run that was not submitted."""
    from placet.cli.approvals import login_name
    from placet.coder.store_sql import has_sessions
    from placet.engine.canceling import request_stop
    from placet.render.advice import db_words, name_words
    from placet.safe_text import clean

    was = records.journal.find(run_id)
    is_session = has_sessions(records.database) and records.sessions.get(run_id) is not None
    stopping = request_stop(records, run_id, reason, by=login_name(), db=db)
    now = records.journal.find(run_id)
    code = 0 if stopping is not None else 1
    if as_json:
        output.show_json({"run_id": run_id, "was": was.status, "state": now.status, "accepted": code == 0})
        return code
    name = clean(run_id)
    resume = f"placet resume {name_words(run_id)}{db_words(db)}"
    match stopping:
        case "asked" if is_session:
            said = f"Asked to stop: {name}. Its process stops it soon, and the session is ended for good."
        case "ended" if is_session:
            said = f"Stopped: {name}. The session is ended for good."
        case "asked":
            said = f"Asked to stop: {name}. Its process stops it soon."
        case "ended":
            said = f"Stopped: {name}. What it asked is withdrawn. To go on with it after all: {resume}"
        case "withdrawn":
            said = f"Withdrawn: what the conversation {name} asked. To go on with it: {resume}"
        case _ if now.parent is not None and now.status == "waiting":
            said = (
                f"Nothing is to stop in run '{name}' alone: another run started it, and waits with it. Stop "
                f"that one: placet runs cancel {name_words(now.parent)}{db_words(db)}"
            )
        case _:
            said = (
                f"Nothing is left to stop in run '{name}': it is {now.status}, and no process works on it. "
                f"See: placet runs show {name_words(run_id)}{db_words(db)}"
            )
    output.talk(said)
    return code


def _unchanged(run: Submission, db: str | None, what: str) -> str:
    """Why a submission stands as before, for people."""
    from placet.render.advice import db_words, name_words

    match run.state:
        case "ended":
            why = f"it has ended ({run.outcome or 'unknown'})"
        case "canceled":
            why = "it was canceled before"
        case "refused" | "dead":
            why = "it could not begin" if run.state == "refused" else "it failed its workers too often"
        case "waiting":
            why = "it waits for a person"
        case "running":
            why = "a worker works on it"
        case _:
            why = "it is in the queue"
    return f"{what}: {why}. See: placet runs show {name_words(run.run_id)}{db_words(db)}"


@runs.command(short_help="Queue a run again that was set aside.")
@run_argument
@db_option
@json_option
@click.pass_obj
def retry(output: Output, run: str, db: str | None, as_json: bool) -> int:
    """Queue the run RUN (the start of its id is enough) again: one that failed its workers too often, could
    not begin, was canceled, or found no worker that has what it needs.

    Exit codes: 0 queued, 1 there is nothing to retry, 2 no such run was submitted.
    """
    from placet.engine.opening import open_engine
    from placet.safe_text import clean

    with open_engine(db) as engine:
        found = engine.find(run)
        is_queued = engine.retry(found.run_id)
    if as_json:
        output.show_json({"run_id": found.run_id, "was": found.state, "queued": is_queued})
    else:
        name = clean(found.run_id)
        said = (
            f"Queued: {name}" if is_queued else _unchanged(found, db, f"Nothing is to retry in run '{name}'")
        )
        output.talk(said)
    return 0 if is_queued else 1
