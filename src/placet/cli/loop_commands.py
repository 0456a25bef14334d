"""Loops that are looked at, paused, resumed and stopped: what `placet loop` does without a model."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from placet.cli.inputs import count_option, db_option, json_option, plain_text, reason_option, single
from placet.cli.loop_options import (
    all_option,
    data_of,
    home_of,
    kept_slots,
    name_argument,
    one_or_all,
    reading,
    repo_option,
    top_of,
)
from placet.cli.output import Output
from placet.truncation import truncate

if TYPE_CHECKING:
    from pathlib import Path

    from placet.app.app import Records
    from placet.loops.round import Round
    from placet.loops.spec import LoopSpec
    from placet.loops.timetable import Mark, Slot

optional_name = click.argument("name", metavar="[NAME]", required=False, callback=plain_text)


@click.command("list", short_help="The loops here, and how they stand.")
@repo_option
@click.option("--all", "everything", is_flag=True, help="Of all repositories on this database.")
@db_option
@json_option
@click.pass_obj
def list_loops(output: Output, repo: str | None, everything: bool, db: str | None, as_json: bool) -> int:
    """List the loops of the repository: level, cadence, when each runs next, how its last round ended.

    Exit codes: 0 listed, 2 bad input.
    """
    from time import time

    from placet.app.loop_files import loops_of
    from placet.app.loops import loop_data
    from placet.render.loops import loops_table

    if everything:
        with reading(db) as records:
            slots, switch = kept_slots(records)
        found = [loop_data(slot.name, None, slot, everything=switch, now=time()) for slot in slots]
    else:
        top = top_of(repo)
        specs = loops_of(top, home_of(repo))
        with reading(db) as records:
            found = data_of(records, top, specs)
    if as_json:
        output.show_json({"loops": found})
    elif found:
        output.show(loops_table(found))
    else:
        output.talk("There are no loops here. Make one: placet loop new")
    return 0


@click.command(short_help="What rounds came to.")
@optional_name
@repo_option
@count_option("--limit", 20, "How many rounds, the newest first.", most=10_000)
@db_option
@json_option
@click.pass_obj
def log(output: Output, name: str | None, repo: str | None, limit: int, db: str | None, as_json: bool) -> int:
    """List the rounds of the loop NAME, or of all loops on this database, the newest first.

    Exit codes: 0 listed, 2 bad input.
    """
    from placet.app.loop_files import loops_of
    from placet.loops.delivery import round_data
    from placet.loops.round import loop_key
    from placet.loops.sql import has_rounds
    from placet.loops.timetable import unknown_loop
    from placet.render.loops import rounds_table

    key = None
    if name is not None:
        top = top_of(repo)
        key = loop_key(str(top), name)
    with reading(db) as records:
        if name is not None and name not in (
            each["name"] for each in data_of(records, top, loops_of(top, home_of(repo)))
        ):
            raise unknown_loop(name, list(loops_of(top, home_of(repo))))
        has_any = records is not None and has_rounds(records.database)
        rounds = records.rounds.listed(key, limit=limit) if records is not None and has_any else []
    found = [round_data(each) for each in rounds]
    if as_json:
        output.show_json({"rounds": found})
    elif found:
        output.show(rounds_table(found, fills=output.width is not None))
    else:
        output.talk("No round has run yet.")
    return 0


@click.command(short_help="One loop with its rounds over time, or one round.")
@name_argument
@repo_option
@count_option("--limit", 60, "How many rounds are drawn.", most=500)
@db_option
@json_option
@click.pass_obj
def show(output: Output, name: str, repo: str | None, limit: int, db: str | None, as_json: bool) -> int:
    """Show the loop NAME: how it stands, and what its rounds came to and took, drawn over time. NAME may also
    be the id of a round, or the beginning of one: then that round is shown.

    Exit codes: 0 shown, 2 there is no such loop or round.
    """
    from placet.app.app import open_records
    from placet.app.loop_files import loops_of
    from placet.errors import UsageError
    from placet.loops.delivery import round_data
    from placet.loops.round import loop_key
    from placet.loops.sql import has_rounds
    from placet.loops.timetable import unknown_loop
    from placet.render.loops import loop_lines, round_lines

    if _is_round(name):
        # Found from anywhere, whatever repository it is of.
        with open_records(db) as records:
            if not has_rounds(records.database):
                raise UsageError(f"There is no round '{truncate(name, 80)}': no loop has run here yet.")
            round = round_data(records.rounds.find(name))
        if as_json:
            output.show_json(round)
        else:
            output.show(*round_lines(round, db=db))
        return 0
    top = top_of(repo)
    specs = loops_of(top, home_of(repo))
    key = loop_key(str(top), name)
    with reading(db) as kept:
        data = next((each for each in data_of(kept, top, specs) if each["name"] == name), None)
        if data is None:
            raise unknown_loop(name, list(specs))
        rounds: list[Round] = []
        if kept is not None and has_rounds(kept.database):
            rounds = kept.rounds.listed(key, limit=limit)
            data |= _standing(kept, key, rounds, specs.get(name))
    found = [round_data(each) for each in rounds]
    if as_json:
        output.show_json({**data, "rounds": found})
    else:
        output.show(*loop_lines(data, found, width=limit))
    return 0


@click.command(short_help="What a round changes.")
@click.argument("round", metavar="ROUND", callback=plain_text)
@db_option
@json_option
@click.pass_obj
def diff(output: Output, round: str, db: str | None, as_json: bool) -> int:
    """Show what the round ROUND changes as a unified diff, as it would be brought to you. The start of its id
    is enough.

    Characters that steer a terminal are shown as escapes, and secrets are not shown. Of a round that has
    ended and waits for nobody, the private copies are gone, and it is said where the change is.

    Exit codes: 0 shown, also if nothing is changed, 2 there is no such round.
    """
    from placet.app.app import open_records
    from placet.app.escalations import diff_of
    from placet.cli.code_view import show_diff
    from placet.errors import UsageError
    from placet.loops.sql import has_rounds
    from placet.safe_text import clean

    output.claim()
    with open_records(db) as records:
        if not has_rounds(records.database):
            raise UsageError(f"There is no round '{truncate(round, 80)}': no loop has run here yet.")
        found = records.rounds.find(round)
    text, gone = diff_of(found)
    if as_json:
        output.show_json({"id": found.id, "diff": text, "no_diff_because": gone or None})
    elif gone:
        output.talk(f"There is no change to show: {clean(gone, 300)}")
    else:
        show_diff(output, text)
    return 0


def _is_round(name: str) -> bool:
    return name.startswith("round-")


def _standing(records: Records, key: str, rounds: list[Round], spec: LoopSpec | None) -> dict[str, Any]:
    """Whether the loop was put down, and whether its record speaks for more."""
    import msgspec

    from placet.loops.promotion import evidence, suggestion

    standing = records.rounds.standing(key)
    made: dict[str, Any] = {"standing": msgspec.to_builtins(standing), "suggestion": "", "evidence": None}
    if spec is None:
        return made
    made["evidence"] = msgspec.to_builtins(evidence(rounds, spec.level))
    found = (
        suggestion(rounds, spec.level, has_checks=bool(spec.checks))
        if standing is None or not standing.lowers
        else None
    )
    if found is not None:
        made["suggestion"] = f"You could raise it to {found.level}: {found.because}. Its file says the level."
    return made


# What stops, and goes on


@click.command(short_help="Begin no new rounds.")
@optional_name
@all_option
@reason_option
@repo_option
@db_option
@json_option
@click.pass_obj
def pause(
    output: Output,
    name: str | None,
    everything: bool,
    reason: str | None,
    repo: str | None,
    db: str | None,
    as_json: bool,
) -> int:
    """Begin no new round of the loop NAME until `placet loop resume NAME`. A round that runs goes on.

    Exit codes: 0 paused, 2 there is no such loop.
    """
    from placet.loops.scheduler import pause as pausing

    one_or_all(name, everything, "pause")

    def act(records: Records, slot: Slot, mark: Mark) -> None:
        pausing(records.timetable, slot.key, mark)

    return _each(output, name, repo, db, reason, act, "paused", as_json=as_json)


@click.command(short_help="End the round that runs, and begin no new ones.")
@optional_name
@all_option
@reason_option
@repo_option
@db_option
@json_option
@click.pass_obj
def stop(
    output: Output,
    name: str | None,
    everything: bool,
    reason: str | None,
    repo: str | None,
    db: str | None,
    as_json: bool,
) -> int:
    """End the running round of the loop NAME within seconds, wherever it runs, and begin no new ones until
    `placet loop resume NAME`. With --all: the kill switch, for every loop on this database, those that are
    started later included, until `placet loop resume --all`.

    Exit codes: 0 stopped, 2 there is no such loop.
    """
    from placet.loops.scheduler import stop as stopping

    one_or_all(name, everything, "stop")
    if not everything:

        def act(records: Records, slot: Slot, mark: Mark) -> None:
            stopping(records.timetable, slot.key, mark)

        return _each(output, name, repo, db, reason, act, "stopped", as_json=as_json)
    from placet.app.app import open_records

    with open_records(db, create=True, writes=True) as records:
        mark = _mark(reason)
        records.timetable.set_switch(mark)
        records.note("loops_stopped", data={"by": mark.by, "reason": mark.reason})
        running = [slot.name for slot in records.timetable.slots() if slot.round]
    if as_json:
        output.show_json({"stopped": "all", "running": running})
    else:
        output.talk("All loops are stopped. Let them go on with: placet loop resume --all")
        if running:
            output.talk(f"These rounds end now: {', '.join(running)}")
    return 0


@click.command(short_help="Let loops go on.")
@optional_name
@all_option
@repo_option
@db_option
@json_option
@click.pass_obj
def resume(
    output: Output, name: str | None, everything: bool, repo: str | None, db: str | None, as_json: bool
) -> int:
    """Let the loop NAME go on that was paused or stopped, by a person or by itself after three failures. What
    was due meanwhile is not made up for. --all lifts the kill switch too.

    Exit codes: 0 it goes on, 2 there is no such loop.
    """
    from placet.app.app import open_records
    from placet.loops.scheduler import resume as going_on

    one_or_all(name, everything, "resume")

    def act(records: Records, slot: Slot, mark: Mark) -> None:
        going_on(records.timetable, slot.key, mark.at)

    code = _each(output, name, repo, db, None, act, "resumed", as_json=as_json)
    if everything:
        # Last: what was due meanwhile is forgotten by then.
        with open_records(db, create=True, writes=True) as records:
            records.timetable.set_switch(None)
            records.note("loops_resumed", data={"by": _mark(None).by})
    return code


def _each(
    output: Output,
    name: str | None,
    repo: str | None,
    db: str | None,
    reason: str | None,
    act: Any,
    done: str,
    *,
    as_json: bool,
) -> int:
    """Do something to one loop, or to all."""
    from placet.app.app import open_records

    top = top_of(repo) if name is not None else None
    with open_records(db, create=True, writes=True) as records:
        if name is not None and top is not None:
            slots = [_known(records, repo, top, name)]
        else:
            slots = records.timetable.slots()
        for slot in slots:
            mark = _mark(reason)
            act(records, slot, mark)
            records.note(f"loop_{done}", data={"loop": slot.name, "by": mark.by, "reason": mark.reason})
    names = [slot.name for slot in slots]
    if as_json:
        output.show_json({done: names})
    else:
        output.talk(f"{done.capitalize()}: {', '.join(names) or 'there are no loops'}")
        if done != "resumed" and names:
            output.talk(f"Let it go on with: placet loop resume {name or '--all'}")
    return 0


def _mark(reason: str | None) -> Mark:
    from time import time

    from placet.cli.approvals import login_name
    from placet.loops.timetable import Mark

    return Mark(at=time(), by=login_name(), reason=reason or "")


def _known(records: Records, repo: str | None, top: Path, name: str) -> Slot:
    """The slot of a loop of a repository; one that has never run gets one, so that it can be paused before.

    Raises:
        UsageError: there is no such loop.
    """
    from time import time

    from placet.app.loop_files import loop_named, loops_of
    from placet.loops.round import loop_key
    from placet.loops.schedule import parse_cadence
    from placet.loops.timetable import registered

    key = loop_key(str(top), name)
    slot = records.timetable.get(key)
    if slot is not None:
        return slot
    spec = loop_named(loops_of(top, home_of(repo)), name)
    cadence = parse_cadence(spec.cadence, spec.timezone) if spec.cadence else None

    def work(found: Slot | None, _: float) -> tuple[Slot, Slot]:
        made = registered(found, key, name, str(top), cadence, time())
        return made, made

    return records.timetable.change(key, work)


# What a person says of a loop's record


@click.command(short_help="Say that what a round did was taken back.")
@click.argument("round", metavar="ROUND", callback=plain_text)
@click.option("--reason", metavar="TEXT", required=True, callback=plain_text, help="Why; it is kept.")
@db_option
@json_option
@click.pass_obj
def reverse(output: Output, round: str, reason: str, db: str | None, as_json: bool) -> int:
    """Note that what the round ROUND did was taken back: its loop goes on one level lower, whatever its file
    says, until `placet loop raise`. Nothing of the repository changes. The start of the id is enough.

    Exit codes: 0 noted, 2 there is no such round, or it did nothing.
    """
    from placet.app.app import open_records
    from placet.app.escalations import open_decider, policies_of
    from placet.cli.approvals import login_name
    from placet.errors import UsageError
    from placet.loops.delivery import round_data
    from placet.loops.sql import has_rounds
    from placet.runtime.sync import run_sync

    with open_records(db) as records:
        if not has_rounds(records.database):
            raise UsageError(f"There is no round '{truncate(round, 80)}': no loop has run here yet.")
        found = records.rounds.find(round)
        policies = policies_of(records, found)
    with open_decider(found, db=db, policies=policies) as engine:
        noted = run_sync(engine.reverse(found.id, by=login_name(), reason=reason))
        standing = engine.rounds.standing(noted.key)
    level = standing.level if standing is not None else noted.level
    if as_json:
        output.show_json({**round_data(noted), "standing": level})
    else:
        output.talk(f"Noted. The loop '{noted.loop}' goes at most to {level} from now on.")
        output.talk(
            f"To let it go as far as its file says again: placet loop raise {noted.loop} --because TEXT"
        )
    return 0


@click.command("raise", short_help="Let a loop that was lowered go as far as its file says.")
@name_argument
@click.option("--because", metavar="TEXT", required=True, callback=plain_text, help="Why; it is kept.")
@repo_option
@db_option
@json_option
@click.pass_obj
def raise_loop(
    output: Output, name: str, because: str, repo: str | None, db: str | None, as_json: bool
) -> int:
    """Let the loop NAME, which was lowered because what it did was taken back, go as far as its file says
    again. Who raised it, when and why is kept.

    Exit codes: 0 raised, 2 there is no such loop, or it was not lowered.
    """
    import msgspec

    from placet.app.app import open_records
    from placet.app.escalations import open_decider, policies_of
    from placet.app.loop_files import loop_named, loops_of
    from placet.cli.approvals import login_name
    from placet.errors import UsageError
    from placet.loops.round import loop_key
    from placet.loops.sql import has_rounds
    from placet.runtime.sync import run_sync

    top = top_of(repo)
    spec = loop_named(loops_of(top, home_of(repo)), name)
    with open_records(db) as records:
        known = has_rounds(records.database)
        rounds = records.rounds.listed(loop_key(str(top), name), limit=1) if known else []
        if not rounds:
            raise UsageError(f"The loop '{name}' was not lowered: no round of it has run yet.")
        policies = policies_of(records, rounds[0])
    with open_decider(rounds[0], db=db, policies=policies) as engine:
        made = run_sync(engine.raise_again(by=login_name(), because=because))
    if as_json:
        output.show_json({"loop": name, "level": spec.level, "standing": msgspec.to_builtins(made)})
    else:
        output.talk(f"The loop '{name}' goes as far as its file says again: {spec.level}.")
    return 0


# A unit


@click.command(short_help="Print a unit file that starts the loops with the machine.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@single(
    "--for",
    "kind",
    type=click.Choice(["systemd", "launchd"]),
    help="Which one. Default: what this system has.",
)
@single("--model", metavar="NAME", help="The model that answers.")
@repo_option
@db_option
@json_option
@click.pass_obj
def unit(
    output: Output,
    names: tuple[str, ...],
    kind: str | None,
    model: str | None,
    repo: str | None,
    db: str | None,
    as_json: bool,
) -> int:
    """Print a unit file for systemd or launchd that runs `placet loop start` for the repository. Nothing is
    written; its first lines say where to put it.

    Exit codes: 0 printed, 2 bad input.
    """
    from placet.app.loop_files import loop_named, loops_of
    from placet.loops.units import unit_name, unit_text

    top = top_of(repo)
    loops = loops_of(top, home_of(repo))
    for name in names:
        loop_named(loops, name)
    chosen: Any = kind or ("launchd" if sys.platform == "darwin" else "systemd")
    argv = [_program(), "loop", "start", *names]
    argv += ["--model", model] if model is not None else []
    argv += ["--db", db if "://" in db else os.path.abspath(db)] if db is not None else []
    # What is found from here, by whoever starts it with the machine would not be.
    named = os.environ.get("PLACET_DB") if db is None else None
    more = {"PLACET_DB": named if "://" in named else os.path.abspath(named)} if named else {}
    text = unit_text(chosen, argv, home_of(repo), more)
    if as_json:
        output.show_json({"name": unit_name(home_of(repo)), "kind": chosen, "text": text})
    else:
        output.write(text)
    return 0


def _program() -> str:
    """Where `placet` is: beside the Python that runs it, or wherever it was started from."""
    beside = os.path.join(os.path.dirname(sys.executable), "placet")
    return beside if os.path.exists(beside) else os.path.abspath(sys.argv[0])


COMMANDS = (list_loops, show, diff, log, pause, resume, stop, reverse, raise_loop, unit)
