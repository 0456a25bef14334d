"""`placet loop`: rounds of a maker and a checker, run when they are due, as far as they may go."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from placet.cli.code_options import isolation_option
from placet.cli.inputs import (
    Span,
    collected,
    db_option,
    json_option,
    model_option,
    plain_text,
    policies_option,
    single,
)
from placet.cli.loop_commands import COMMANDS
from placet.cli.loop_options import home_of, name_argument, repo_option, top_of
from placet.cli.output import OPENING, Output

if TYPE_CHECKING:
    from placet.app.loops import LoopsApp
    from placet.app.options import RunOptions
    from placet.loops.scheduler import Notice, Report

_CODES = {"reported": 0, "proceeded": 0, "escalated": 4, "budget_exhausted": 1, "failed": 1, "stopped": 1}
_BROKEN_OFF = 130


@click.group(
    short_help="Have rounds run when they are due, as far as they may go.", invoke_without_command=True
)
@click.pass_context
def loop(context: click.Context) -> None:
    """Governed loops: a model makes, another look checks, a gate decides, and everything is kept.

    A loop is a file .placet/loops/NAME.toml in a git repository. At level L1 it reports, at L2 a person
    decides about each change, at L3 it acts by itself on what was verified and is allowed.

    Begin with a ready-made one: `placet loop new`, then `placet loop run NAME`, then `placet loop start`.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@loop.command(short_help="Make a loop from a ready-made one.")
@click.argument("template", metavar="[TEMPLATE]", required=False, callback=plain_text)
@single("--name", metavar="NAME", help="What to call it. Default: as the ready-made one.")
@repo_option
@json_option
@click.pass_obj
def new(output: Output, template: str | None, name: str | None, repo: str | None, as_json: bool) -> int:
    """Write .placet/loops/NAME.toml from the ready-made loop TEMPLATE; without one, list them.

    Each begins at level L1, where it only reports. Read the file, and change what does not suit you.

    Exit codes: 0 made or listed, 2 bad input, or there is a loop of that name.
    """
    from placet.loops import ready_made

    if template is None:
        if name is not None:
            raise click.UsageError("--name goes with a TEMPLATE. See them with: placet loop new")
        found = [{"name": each, "about": ready_made.about(each)} for each in ready_made.template_names()]
        if as_json:
            output.show_json({"templates": found})
        else:
            from rich.text import Text

            output.show(*(Text(f"{each['name']:<20} {each['about']}") for each in found))
        return 0
    from placet.app.loop_files import make_loop
    from placet.cli.other_databases import hidden_by_new, project_file

    text = ready_made.template(template)
    home = home_of(repo)
    before = project_file(home)
    path, may_run = make_loop(home, text, name or template, os.environ)
    hidden = hidden_by_new(home, before)
    made = name or template
    if as_json:
        output.show_json(
            {"name": made, "template": template, "path": str(path), "trusted": may_run, **hidden.data()}
        )
        return 0
    output.talk(f"Written: {path}")
    hidden.talk(output)
    if not may_run:
        output.talk("Look at what the .placet folder holds, then type: placet trust .")
    output.talk(f"Run one round of it with: placet loop run {made}")
    return 0


@loop.command(short_help="Run one round now.")
@name_argument
@repo_option
@model_option
@isolation_option
@policies_option
@db_option
@json_option
@click.pass_obj
@collected
def run(
    output: Output,
    name: str,
    repo: str | None,
    options: RunOptions,
    db: str | None,
    as_json: bool,
) -> int:
    """Run one round of the loop NAME now, whatever its cadence, also while it is paused. If its last round
    was broken off, that one is gone on with.

    Exit codes: 0 reported or proceeded, 1 it failed, was stopped or spent its budget, 2 bad input or a round
    is running, 4 waiting for a person, 130 after Ctrl-C; the round is then gone on with the next time.
    """
    output.claim()
    from placet.app.loop_files import loop_named, trusted_loops
    from placet.app.loops import open_loops
    from placet.cli.trust import terminal_question

    top, home = top_of(repo), home_of(repo)
    confirm = terminal_question(output)
    spec = loop_named(trusted_loops(top, home, os.environ, confirm), name)
    opening = open_loops(
        top,
        {name: spec},
        options,
        start=home,
        db=db,
        say=output.talk,
        # What it came to is shown below, whole.
        report=lambda text: None,
        confirm=confirm,
    )
    with output.opened(opening, OPENING) as app:
        output.redactor = app.redactor
        report = _run_now(output, app, name)
        round = app.last.get(name)
    if round is not None and as_json:
        from placet.loops.delivery import round_data

        output.show_json({**round_data(round), "ended": report.how if report is not None else None})
    elif round is not None:
        from placet.loops.delivery import round_data
        from placet.render.loops import round_lines

        output.show(*round_lines(round_data(round), db=db))
    if report is None:
        output.talk("It was broken off. Go on with it: " + f"placet loop run {name}")
        return _BROKEN_OFF
    return _CODES[report.how]


def _run_now(output: Output, app: LoopsApp, name: str) -> Report | None:
    from placet.cli.signals import Stopping
    from placet.loops.scheduler import Scheduler
    from placet.render.loops import phase_words
    from placet.runtime.sync import run_sync
    from placet.tools.context import Cancel

    async def running() -> Report | None:
        cancel = Cancel()
        [loop] = app.scheduled([name])
        scheduler = Scheduler(app.records.timetable, [loop], app.run_round, heard=_teller(output))
        with Stopping(cancel):
            return await scheduler.run_now(loop.key, cancel)

    app.watch = lambda round, phase: output.wait_for(phase_words(phase, round.number))
    with output.waiting("claiming the loop"):
        return run_sync(running())


def _teller(output: Output) -> Any:
    import msgspec

    from placet.render.loops import notice_words

    def tell(notice: Notice) -> None:
        output.talk(notice_words(msgspec.to_builtins(notice)))

    return tell


@loop.command(short_help="Run loops whenever they are due.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@repo_option
@model_option
@isolation_option
@policies_option
@click.option(
    "--at-once",
    type=click.IntRange(min=1, max=64),
    default=2,
    show_default=True,
    metavar="N",
    help="Rounds of different loops that may run together.",
)
@click.option(
    "--jitter", type=Span(), metavar="DURATION", help="Begin up to so much later than due, such as 30s."
)
@db_option
@json_option
@click.pass_obj
@collected
def start(
    output: Output,
    names: Sequence[str],
    repo: str | None,
    options: RunOptions,
    at_once: int,
    jitter: float | None,
    db: str | None,
    as_json: bool,
) -> int:
    """Run the loops of the repository, or those named, whenever they are due, until Ctrl-C.

    Several may be started on one database, on one machine or on many: each due time is run by one of them.
    What was missed while none ran is made up for by one round. The first Ctrl-C or SIGTERM lets rounds that
    run end; the second leaves at once, and the next start goes on with them. With --json what happens is
    written to stdout as lines of JSON. `placet loop unit` prints a unit file that starts it with the machine.

    Exit codes: 0 stopped as asked, 2 bad input.
    """
    output.claim()
    from placet.app.loop_files import loop_named, trusted_loops
    from placet.app.loops import open_loops
    from placet.cli.trust import terminal_question
    from placet.errors import UsageError

    top, home = top_of(repo), home_of(repo)
    confirm = terminal_question(output)
    specs = trusted_loops(top, home, os.environ, confirm)
    wanted = {name: loop_named(specs, name) for name in names} if names else specs
    timed = {name: spec for name, spec in wanted.items() if spec.cadence}
    if not timed:
        which = "None of these loops has a cadence" if wanted else f"There are no loops in {top}"
        fix = "Write one into its file, or use `placet loop run`." if wanted else "Make one: placet loop new"
        raise UsageError(f"{which}, so there is nothing to start. {fix}")
    opening = open_loops(
        top,
        timed,
        options,
        start=home,
        db=db,
        say=output.talk,
        confirm=confirm,
    )
    with output.opened(opening, OPENING) as app:
        output.redactor = app.redactor
        for spec in timed.values():
            output.talk(f"{spec.name} ({spec.level}): {spec.cadence}")
        everything = app.records.timetable.switch()
        if everything is not None:
            output.talk(
                f"All loops are stopped {everything.words}".rstrip()
                + "; nothing runs until: placet loop resume --all"
            )
        _serve(output, app, list(timed), at_once, jitter or 0.0, as_json=as_json)
    output.talk("Stopped.")
    return 0


def _serve(
    output: Output, app: LoopsApp, names: list[str], at_once: int, jitter_s: float, *, as_json: bool
) -> None:
    import msgspec

    from placet.cli.output import to_json
    from placet.cli.signals import Stopping
    from placet.loops.scheduler import Scheduler
    from placet.runtime.sync import run_sync
    from placet.tools.context import Cancel

    tell = _teller(output)

    def heard(notice: Notice) -> None:
        if as_json:
            output.write(to_json(output.redactor.value(msgspec.to_builtins(notice))) + "\n")
        else:
            tell(notice)

    async def serving() -> None:
        stop = Cancel()
        scheduler = Scheduler(
            app.records.timetable,
            app.scheduled(names, jitter_s),
            app.run_round,
            at_once=at_once,
            heard=heard,
        )

        def stopping(signal: str) -> None:
            rounds = [f"round {round_id} of {name}" for name, round_id in scheduler.running()]
            waits = f" Waiting for {' and '.join(rounds)} to end. Once more to leave at once."
            output.talk(f"{signal}: no new round begins.{waits if rounds else ''}")

        with Stopping(stop, stopping, hard=False):
            await scheduler.serve(stop)

    run_sync(serving())


for _command in COMMANDS:
    loop.add_command(_command)
