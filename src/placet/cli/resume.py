"""`placet resume`: go on with a run that was broken off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from placet.cli.inputs import (
    collected,
    db_option,
    isolation_option,
    json_option,
    model_option,
    run_argument,
    single,
    wait_option,
)
from placet.cli.output import Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from placet.app.options import RunOptions
    from placet.runtime.journal import Decision


@click.command(short_help="Go on with a run that was broken off.")
@run_argument
@click.option(
    "--decide",
    "decide",
    metavar="ACTION=CHOICE",
    multiple=True,
    help="What became of an action whose outcome is unknown: done, retry or fail."
    " 'a7=done:{\"id\": 5}' also says what it answered.",
)
@single("--tools", metavar="FILE", help="Tools to use instead of the file that the run began with.")
@single("--policies", metavar="PATH", help="Rules to use instead of those that the run began with.")
@isolation_option
@model_option
@wait_option
@db_option
@json_option
@click.pass_obj
@collected
def resume(
    output: Output,
    run: str,
    decide: Sequence[str],
    options: RunOptions,
    wait: float | None,
    db: str | None,
    as_json: bool,
) -> int:
    """Go on with the run RUN (the start of its id is enough) where it stood when its process ended.

    What has ended is read back and not done again. What was in flight is repeated if its tool is read_only
    or idempotent; otherwise nobody knows whether it took effect, and the run waits until you say so with
    --decide. What waits for an approval goes on once `placet approvals` has decided it; every check is made
    again. A run that has ended is shown again.

    Exit codes: 0 succeeded, 1 did not succeed, 2 bad input, or another process is at work on it, 3 refused,
    4 waiting for a decision, 130 after Ctrl-C.
    """
    output.claim()
    from placet.app.app import open_records
    from placet.cli.led import Again, go_on
    from placet.cli.other_databases import look_elsewhere

    decisions = _decisions(decide)
    with look_elsewhere(db, "run", run, "resume"), open_records(db) as records:
        summary = records.journal.find(run)
        record = records.journal.record(summary.run_id)
    again = Again(output, summary, record, options, decisions, wait=wait, db=db, as_json=as_json)
    code = go_on(again)
    _tell_workers(summary.run_id, db)
    return code


def _tell_workers(run_id: str, db: str | None) -> None:
    """Have a worker look how a run stands that was submitted and resumed here."""
    from placet.app.app import open_records
    from placet.engine.queue_engine import wake_decided

    with open_records(db, writes=True) as records:
        wake_decided(records, run_id)


def _decisions(given: Sequence[str]) -> dict[str, Decision]:
    from placet.errors import UsageError

    decisions: dict[str, Decision] = {}
    for name, decision in map(_decision, given):
        if decisions.setdefault(name, decision) != decision:
            raise UsageError(f"--decide says two things about '{name}'. Say one; nothing was decided.")
    return decisions


def _decision(text: str) -> tuple[str, Decision]:
    from placet.cli.approvals import login_name
    from placet.errors import UsageError
    from placet.ir.codec import decode_json
    from placet.runtime.journal import CHOICES, Decision

    name, equals, said = text.rpartition("=") if ":" not in text else _split_output(text)
    choice, colon, output = said.partition(":")
    if not name or not equals or choice not in CHOICES or (colon and choice != "done"):
        raise UsageError(
            f"--decide {text!r} decides nothing. Write ACTION=done, ACTION=retry or ACTION=fail."
        )
    if not colon:
        return name, Decision(choice=choice, by=login_name())
    data = decode_json(output.encode(), f"the output of '{name}'")
    return name, Decision(choice=choice, output=data, by=login_name())


def _split_output(text: str) -> tuple[str, str, str]:
    """Cut at the equals sign before `done:`; what follows is JSON and may hold more of them."""
    name, mark, rest = text.partition("=done:")
    return (name, "=", f"done:{rest}") if mark else text.rpartition("=")
