"""`placet explain`: a run told as a story, from the database or from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from placet.cli.inputs import db_option, json_option
from placet.cli.output import Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from placet.events.event import Event
    from placet.redaction import Redactor
    from placet.render.history import History
    from placet.render.steps import Step


@click.command(short_help="Tell a run as a story.")
@click.argument("run", metavar="RUN")
@click.option(
    "--run",
    "run_id",
    metavar="ID",
    help="Which run of a file; the start of its id is enough. Default: the newest.",
)
@db_option
@json_option
@click.pass_obj
def explain(output: Output, run: str, run_id: str | None, db: str | None, as_json: bool) -> int:
    """Tell what happened in a run: in which order, which rule decided, what was undone, what to do next.
    Of a run that a model led: what it was asked, what it asked for in each turn, and what it was let do. Of a
    coding session: its checks, and what each iteration came to; of a round of a loop: what was made, checked
    and decided, and the runs of its maker and checker.

    RUN is the id of a run, of which the start is enough; or a file of JSON lines, as `placet run --log FILE`
    and `placet log export` write them. Lines that cannot be read are passed over and counted.

    Exit codes: 0 told (however the run went), 2 bad input.
    """
    from placet.app.files import is_file
    from placet.render.history import History

    if is_file(run) or run_id is not None:
        chosen, runs, damaged = _from_file(output, run, run_id)
        history, file = History.of(chosen), run
    else:
        if (told := _of_a_round(run, db)) is not None and not as_json:
            from placet.render.loops import round_lines, round_steps

            data, phases, parts = told
            output.show(*round_lines(data, db=db), *round_steps(phases, parts, db=db))
            return 0
        history, runs, damaged = _from_store(run, db, output.redactor), [], []
        file = ""
    if as_json:
        output.show_json(_as_data(history, file, db, runs or [history.run_id or ""], damaged))
    else:
        from placet.render.story import tell_history

        output.show(*tell_history(history, log=file, db=db))
    return 0


def _of_a_round(run: str, db: str | None) -> tuple[dict[str, Any], list[tuple[str, float]], list[str]] | None:
    """The round of a loop that is meant, the phases that it went through with their times, and the runs in
    which its maker and checker worked."""
    from contextlib import suppress

    from placet.app.app import open_records
    from placet.app.loops import round_of
    from placet.cli.other_databases import look_elsewhere
    from placet.errors import StorageUnavailable
    from placet.loops.delivery import round_data

    with look_elsewhere(db, "run", run, "explain"), open_records(db) as records:
        round = round_of(records, run)
        if round is None or not round.id.startswith(run):
            return None
        phases = []
        with suppress(StorageUnavailable):
            phases = [
                (str(event.data.get("phase", "")), event.time)
                for event in records.events.query(run=round.id)
                if event.kind == "round_phase"
            ]
    parts = [each.run_id for each in (round.maker, round.checker) if each is not None and each.run_id]
    return round_data(round), phases, parts


def _from_store(run: str, db: str | None, redactor: Redactor) -> History:
    from placet.app.app import open_records
    from placet.app.stories import history_of
    from placet.cli.other_databases import look_elsewhere
    from placet.cli.wording import no_events
    from placet.errors import UnknownRun

    with look_elsewhere(db, "run", run, "explain"), open_records(db) as records:
        try:
            name = records.run_id(run)
        except UnknownRun as error:
            raise UnknownRun(f"No file is called '{run}'. {error}") from None
        if not records.events.query(run=name, limit=1):
            raise no_events(name, db)
        return history_of(records, name, redactor)


def _from_file(
    output: Output, file: str, run_id: str | None
) -> tuple[Sequence[Event], list[str], Sequence[int]]:
    from placet.errors import InputError, UsageError
    from placet.events.jsonl import read_jsonl
    from placet.render.history import split_runs
    from placet.render.text import count, listing

    recording = read_jsonl(file)
    runs = split_runs(recording.events)
    if not runs:
        damaged = f" ({count(len(recording.damaged), 'line')} could not be read)" if recording.damaged else ""
        raise InputError(
            f"{file} holds no run{damaged}. Make a log with `placet run PLAN.json --log run.jsonl`."
        )
    chosen = _choose(list(runs), run_id)
    if chosen is None:
        raise UsageError(
            f"{file} holds no run '{run_id}', or several that begin so. It holds {listing(runs)}."
        )
    if recording.damaged:
        lines = ", ".join(map(str, recording.damaged[:8])) + (" ..." if len(recording.damaged) > 8 else "")
        output.talk(f"Note: {count(len(recording.damaged), 'damaged line')} passed over (line {lines}).")
    if len(runs) > 1 and run_id is None:
        output.talk(
            f"Note: {count(len(runs), 'run')} in this file; this is the newest. Choose with --run ID:"
        )
        output.talk("  " + listing(list(runs)[-10:], limit=10))
    return runs[chosen], list(runs), recording.damaged


def _choose(runs: Sequence[str], wanted: str | None) -> str | None:
    if wanted is None:
        return runs[-1]
    if wanted in runs:
        return wanted
    near = [run for run in runs if run.startswith(wanted)] if wanted else []
    return near[0] if len(near) == 1 else None


def _as_data(
    history: History, file: str, db: str | None, runs: Sequence[str], damaged: Sequence[int]
) -> dict[str, Any]:
    """The same story for programs: every step as the log tells it, and the sentences."""
    from dataclasses import asdict

    from placet.render.advice import advise
    from placet.render.code_story import coding_advice, coding_data
    from placet.render.story import tell_history

    following = coding_advice(history, db) if history.coding else advise(history, file, db)
    return {
        "run_id": history.run_id,
        "trace_id": history.trace_id,
        "tenant": history.tenant,
        "caller": history.caller,
        "proposals": [
            {
                **asdict(part),
                "steps": [_step_data(step) for step in part.steps.values()],
                "order": list(part.order),
            }
            for part in history.parts.values()
        ],
        "loop": asdict(history.led) if history.led is not None else None,
        "coding": coding_data(history) if history.coding else None,
        "story": [line.plain for line in tell_history(history, log=file, db=db)],
        "next": [advice._asdict() for advice in following],
        "runs": list(runs),
        "damaged_lines": list(damaged),
    }


def _step_data(step: Step) -> dict[str, Any]:
    """A step as JSON; `exit_code` is only there if a command is reported."""
    from dataclasses import asdict

    from msgspec import UNSET

    return {name: value for name, value in asdict(step).items() if value is not UNSET}
