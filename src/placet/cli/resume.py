"""`placet resume`: go on with a run that was broken off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from placet.cli.inputs import (
    db_option,
    isolation_option,
    json_option,
    model_option,
    run_argument,
    single,
    wait_option,
)
from placet.cli.output import OPENING, Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from placet.ir.result import ProposalResult
    from placet.runtime.journal import Decision
    from placet.runtime.schedule import Schedule
    from placet.sandbox.isolation import Level
    from placet.tools.context import Cancel


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
def resume(
    output: Output,
    run: str,
    decide: Sequence[str],
    tools: str | None,
    policies: str | None,
    isolation: Level | None,
    model: str | None,
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
    from placet.app.app import Asking, is_a_programs, open_app, open_records
    from placet.app.beginning import beginning_of
    from placet.cli.execution import Told, carry_out, patience
    from placet.cli.isolation import tell_lowering
    from placet.cli.led import go_on
    from placet.cli.trust import terminal_question
    from placet.errors import UsageError
    from placet.runtime.journal import is_led
    from placet.runtime.resume import state_after

    decisions = _decisions(decide)
    with open_records(db) as records:
        summary = records.journal.find(run)
        record = records.journal.record(summary.run_id)
    context = summary.context
    expire = context.get("expire")
    if is_led(record):
        return go_on(
            output,
            summary,
            record,
            decide=decisions,
            tools=tools,
            policies=policies,
            isolation=isolation,
            model=model,
            wait=wait,
            db=db,
            as_json=as_json,
        )
    began = beginning_of(summary, say=output.talk, tools=tools, policies=policies, model=model, db=db)
    schedule: Schedule = "dataflow" if context.get("schedule") == "dataflow" else "levels"
    if is_a_programs(summary, record):
        raise UsageError(
            f"Run '{summary.run_id}' was begun by a program, under rules that are not known here "
            f"({', '.join(record.policies[:10])}). Go on with it there: runtime.resume('{summary.run_id}')."
        )
    opening = open_app(
        tools=began.tools,
        policies=began.policies,
        permissions=began.permissions,
        isolation=isolation,
        model=began.model,
        began_with=began.isolation,
        workspace=record.workspace,
        schedule=schedule,
        db=db,
        create=False,
        start=began.folder,
        confirm=terminal_question(output),
        asking=Asking(patience(wait), expire if isinstance(expire, int | float) else None),
    )
    with output.opened(opening, OPENING) as app:
        tell_lowering(output, app)

        async def start(cancel: Cancel) -> ProposalResult:
            # A run of `placet mcp serve` began in the session of its connection, which is gone.
            session = app.runtime.open_session() if record.had_session else None
            result = await app.runtime.resume(
                summary.run_id, decide=decisions, session=session, cancel=cancel
            )
            if app.records is not None and not app.runtime.events.query(kind="run_resumed"):
                # It had ended, and nothing was done: what may be shown of it, and the state that it left.
                result = app.records.journal.shown(summary.run_id) or result
                app.runtime.state.replace_all(state_after(record, result))
            return result

        told = Told(f"run {summary.run_id}", as_json, has_tools=bool(app.sources), db=db)
        return carry_out(output, app, record.proposal, start, told)


def _decisions(given: Sequence[str]) -> dict[str, Decision]:
    from placet.errors import UsageError

    decisions: dict[str, Decision] = {}
    for name, decision in map(_decision, given):
        if decisions.setdefault(name, decision) != decision:
            raise UsageError(f"--decide says two things about '{name}'. Say one; nothing was decided.")
    return decisions


def _decision(text: str) -> tuple[str, Decision]:
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
        return name, Decision(choice=choice)
    return name, Decision(choice=choice, output=decode_json(output.encode(), f"the output of '{name}'"))


def _split_output(text: str) -> tuple[str, str, str]:
    """Cut at the equals sign before `done:`; what follows is JSON and may hold more of them."""
    name, mark, rest = text.partition("=done:")
    return (name, "=", f"done:{rest}") if mark else text.rpartition("=")
