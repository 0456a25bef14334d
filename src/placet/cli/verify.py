"""`placet verify`: judge a plan without running it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from placet.cli.inputs import (
    as_option,
    collected,
    json_option,
    plan_argument,
    runtime_options,
    workspace_option,
)
from placet.cli.output import Output

if TYPE_CHECKING:
    from placet.app.options import RunOptions


@click.command(short_help="Check a plan; nothing runs.")
@plan_argument
@runtime_options
@workspace_option
@as_option
@json_option
@click.pass_obj
@collected
def verify(output: Output, plan: str, options: RunOptions, agent: str | None, as_json: bool) -> int:
    """Say what `placet run` would refuse, reject or skip with the same options. No tool is called.

    PLAN is a JSON file; '-' reads standard input.

    Exit codes: 0 valid, 2 bad input, 3 invalid.
    """
    output.claim()
    from placet.app.app import open_app
    from placet.app.files import load_plan
    from placet.cli.trust import terminal_question
    from placet.runtime.scope import Scope

    proposal = load_plan(plan)
    with open_app(options, confirm=terminal_question(output), on_paper=True) as app:
        report = app.runtime.verify(proposal, scope=Scope(caller_id=agent) if agent is not None else None)
        known = app.runtime.tools
    if not app.sources:
        from placet.cli.wording import say_no_tools_in_report

        report = say_no_tools_in_report(report)
    if as_json:
        output.show_json(report)
    else:
        from placet.render.report import in_a_row, report_lines

        def is_read_only(name: str) -> bool:
            tool = known.get(name)
            return tool is not None and tool.schema.risk == "read_only"

        levels = report.execution_levels if options.schedule == "levels" else ()
        rows = in_a_row(proposal.actions, levels, is_read_only)
        title = "standard input" if plan == "-" else plan
        output.show(*report_lines(report, title=title, actions=len(proposal.actions), in_a_row=rows))
    return 0 if report.valid else 3
