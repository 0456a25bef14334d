"""`placet run`: execute a plan, and show what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from placet.cli.inputs import (
    as_option,
    collected,
    db_option,
    expire_option,
    json_option,
    plan_argument,
    runtime_options,
    single,
    wait_option,
    workspace_option,
)
from placet.cli.output import OPENING, Output

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from placet.app.options import RunOptions
    from placet.ir.result import ProposalResult
    from placet.tools.context import Cancel


@click.command(short_help="Execute a plan.")
@plan_argument
@runtime_options
@workspace_option
@single(
    "--run-id",
    metavar="ID",
    help="What to call the run, for `placet resume`. Default: one is made up and shown.",
)
@as_option
@wait_option
@expire_option
@db_option
@single("--log", metavar="FILE.jsonl", help="Append every event to this file too; `placet explain` reads it.")
@single("--svg", metavar="FILE.svg", help="Draw the plan with what came of it.")
@json_option
@click.pass_obj
@collected
def run(
    output: Output,
    plan: str,
    options: RunOptions,
    run_id: str | None,
    agent: str | None,
    wait: float | None,
    db: str | None,
    log: str | None,
    svg: str | None,
    as_json: bool,
) -> int:
    """Execute the plan in the file PLAN ('-' reads standard input), and show what came of every action.

    Progress goes to stderr, the result to stdout; --json gives the whole result and the final state. Ctrl-C
    stops what is running, shows how far it came, and exits with 130.

    The run is kept in a database: if this process dies, `placet resume ID` goes on where it stood. What a
    rule or your permissions do not let pass without asking waits for `placet approvals approve`.

    With --workspace the plan is bound to that folder: if it is aborted, the folder is as it was before.

    Exit codes: 0 succeeded, 1 ran and did not succeed, 2 bad input, 3 refused, 4 waiting for a person,
    130 after Ctrl-C.
    """
    output.claim()
    from msgspec.structs import replace

    from placet.app.app import database_files, open_app
    from placet.app.files import check_log, check_target, check_writable, load_plan
    from placet.cli.execution import Told, carry_out, patience
    from placet.cli.isolation import tell_lowering, tell_unknown_trusted
    from placet.cli.name_warnings import warn_of_names
    from placet.cli.trust import terminal_question
    from placet.ir.proposal import new_id
    from placet.runtime.scope import Scope

    proposal = load_plan(plan)
    inputs = {
        "the plan": plan,
        "the state": options.state,
        "the tools": options.tools,
        "the policies": options.policies,
        **database_files(db),
    }
    if log is not None:
        check_target(log, "--log", inputs, instead="run.jsonl")
        check_log(log)
    if svg is not None:
        check_target(svg, "--svg", {**inputs, "the log": log}, instead="run.svg")
        check_writable(svg)
    name = run_id or new_id()
    title = "standard input" if plan == "-" else plan
    scope = Scope(caller_id=agent) if agent is not None else None
    options = replace(options, plan=plan if plan != "-" else None)
    opening = open_app(options, db=db, log=log, wait_s=patience(wait), confirm=terminal_question(output))
    with output.opened(opening, OPENING) as app:
        tell_lowering(output, app)
        tell_unknown_trusted(output, app)
        warnings = warn_of_names(output, app, proposal)
        if app.records is not None and not run_id:
            # Before anything runs: a process that is killed cannot say it any more.
            output.talk(f"Run {name}")

        agents = app.runtime.permissions.agents if app.runtime.permissions is not None else {}
        if agent is not None and agents and agent not in agents:
            output.talk(f"Note: no agent '{agent}' has a posture of its own; the standing one holds.")

        def start(cancel: Cancel) -> Awaitable[ProposalResult]:
            return app.runtime.execute(proposal, cancel=cancel, run_id=name, scope=scope)

        has_tools = bool(app.sources)
        told = Told(
            title,
            as_json,
            has_tools=has_tools,
            log=log,
            svg=svg,
            db=db,
            waits=wait is not None,
            warnings=warnings,
        )
        return carry_out(output, app, proposal, start, told)
