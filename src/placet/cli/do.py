"""`placet do`: have a model do a job with tools, and ask before it goes far."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from placet.cli.inputs import assistant_options, collected, json_option
from placet.cli.output import Output
from placet.truncation import truncate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from placet.app.options import RunOptions
    from placet.tools.context import Cancel
    from placet.turns.ending import Ending, Watch

_MOST_BYTES = 4 * 2**20
"""Of a task on standard input."""
_SHOWN = 200


def _one_task(context: click.Context, parameter: click.Parameter, words: tuple[str, ...]) -> str:
    """The task as it was written; several words come from quotes that were left out."""
    import shlex

    if len(words) > 1:
        quoted = shlex.quote(truncate(" ".join(words), _SHOWN))
        raise click.UsageError(f"The task is one argument. Put it in quotes: placet do {quoted}")
    return words[0] if words else ""


@click.command(short_help="Have a model do a job with tools.")
@click.argument("task", metavar="TASK", nargs=-1, required=True, callback=_one_task)
@assistant_options
@json_option
@click.pass_obj
@collected
def do(
    output: Output,
    task: str,
    options: RunOptions,
    images: Sequence[str],
    run_id: str | None,
    wait: float | None,
    db: str | None,
    log: str | None,
    as_json: bool,
) -> int:
    """Have the model do the job that TASK says in words ('-' reads standard input), with the tools there are.

    What it says goes to stdout as it comes; what it does is shown on stderr. Reading is done without asking.
    About all else you are asked in the terminal: once, all edits of this run, always for exactly this, no
    with a reason, or later.
    Where there is no terminal the run waits for `placet approvals`; --yes-to allows more without asking.

    The run is kept: after Ctrl-C, or if this process dies, `placet resume ID` goes on where it stood.

    Exit codes: 0 the model said that it was done, 1 ran and did not succeed, or answered without a call that
    did what the task needs, 2 bad input, 4 waiting for a person, 130 after Ctrl-C.
    """
    output.claim()
    from placet.app.assistant import limits_for, make_assistant
    from placet.app.pictures import load_pictures
    from placet.cli.conversing import Told, closing, lead, open_for
    from placet.ir.proposal import new_id

    words = _read_task() if task == "-" else task.encode(errors="replace").decode()
    if not words.strip():
        raise click.UsageError("there is no task. Say in a sentence what is to be done.")
    pictures = load_pictures(images)
    name = run_id or new_id()
    with open_for(output, options, db=db, wait=wait, log=log, as_json=as_json) as (app, view):
        assistant = make_assistant(app, limits=limits_for(app))
        is_kept = app.records is not None
        if is_kept and not run_id:
            # Before anything runs: a process that is killed cannot say it any more.
            output.talk(f"Run {name}")

        view.tell_model(app, assistant.model)

        async def start(cancel: Cancel, watch: Watch) -> Ending:
            return await assistant.run(
                words, images=pictures, run_id=name, cancel=cancel, watch=watch, record=options.record
            )

        told = Told(as_json, db, is_kept, warnings=view.warnings)
        return lead(output, app, start, told, view, closing(assistant.model))


def _read_task() -> str:
    from placet.errors import InputError

    data = sys.stdin.buffer.read(_MOST_BYTES + 1) if sys.stdin is not None else b""
    if len(data) > _MOST_BYTES:
        raise InputError(f"The task is longer than {_MOST_BYTES // 2**20} MB. Name a file in it instead.")
    return data.decode(errors="replace")
