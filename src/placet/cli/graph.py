"""`placet graph`: a plan as a picture."""

from __future__ import annotations

import click

from placet.cli.inputs import file_names, plan_argument
from placet.cli.output import Output

_FAULTS = 20


@click.command(short_help="Draw a plan as SVG.")
@plan_argument
@click.option(
    "-o",
    "--output",
    "target",
    metavar="FILE.svg",
    required=True,
    shell_complete=file_names,
    help="Where to; '-' is stdout.",
)
@click.option(
    "--result",
    "result_file",
    metavar="FILE.json",
    shell_complete=file_names,
    help="What `run --json` printed; adds how it went.",
)
@click.pass_obj
def graph(output: Output, plan: str, target: str, result_file: str | None) -> int:
    """Draw the plan in the file PLAN ('-' reads standard input): what to do, and what waits for what.

    Exit codes: 0 drawn, 2 bad input, 3 the plan has no graph (a cycle, a duplicate id, a missing one).
    """
    from placet.app.files import check_target, load_plan, load_result, write_file
    from placet.ir.graph import Graph
    from placet.render.graph_svg import draw_graph
    from placet.runtime.shown import shown_proposal, shown_result
    from placet.safe_text import clean

    proposal = load_plan(plan)
    result = load_result(result_file) if result_file is not None else None
    check_target(target, "-o", {"the plan": plan, "the result": result_file}, instead="plan.svg")
    names = {action.id for action in proposal.actions}
    faults = Graph(proposal.actions).faults
    if faults:
        for fault in faults[:_FAULTS]:
            output.talk(f"The plan is refused: {fault.message}.")
        if len(faults) > _FAULTS:
            output.talk(f"... and {len(faults) - _FAULTS:,} more")
        return 3
    if result is not None and result.results and not {r.action_id for r in result.results} & names:
        output.talk("Note: the result belongs to another plan; none of its actions is in this one.")
    shown = shown_proposal(proposal, output.redactor)
    ended = shown_result(result, output.redactor) if result is not None else None
    drawing = draw_graph(shown, ended, title="standard input" if plan == "-" else plan)
    if target == "-":
        output.write(drawing)
    else:
        write_file(target, drawing)
        output.talk(f"Wrote {clean(target)}; any browser opens it.")
    return 0
