"""`placet doctor`: what is enforced on this machine, and what is set up."""

from __future__ import annotations

import os

import click

from placet.cli.inputs import json_option, level_type
from placet.cli.output import Output

_TOO_LITTLE = 3


@click.command(short_help="Check this machine: isolation, models, extras, database, project.")
@click.option("--again", is_flag=True, help="Try everything now, instead of what is remembered.")
@click.option(
    "--require",
    "level",
    metavar="LEVEL",
    type=level_type,
    help="Exit with 3 if less than this is enforced: none, changes or process.",
)
@json_option
@click.pass_obj
def doctor(output: Output, again: bool, level: str | None, as_json: bool) -> int:
    """Report which sandbox protections are enforced on this machine and how to enable more; which model would
    answer; which extras are installed; where runs are recorded; which folder is the project and whether it
    is trusted; and whether Node is there, which many MCP servers need.

    Each protection is known because the self-test has tried to break it. What it found is remembered until
    the machine is started anew, or Placet, the kernel, the user or bubblewrap change. No model is asked.

    Exit codes: 0 told, however much is enforced, 2 bad input, 3 less is enforced than --require asks for.
    """
    output.claim()
    from pathlib import Path

    import msgspec

    from placet.app.doctor import diagnose
    from placet.runtime.sync import run_sync
    from placet.sandbox.isolation import LEVELS

    with output.waiting("trying the sandbox"):
        found = run_sync(diagnose(Path.cwd(), os.environ, again=again))
    data = msgspec.to_builtins(found)
    if as_json:
        output.show_json(data)
    else:
        from placet.render.doctor import doctor_lines

        output.show(*doctor_lines(data))
    names: list[str] = [*LEVELS]
    is_enough = level is None or names.index(found.isolation) >= names.index(level)
    if not is_enough and not as_json:
        output.talk(f"Isolation '{level}' is asked for, and '{found.isolation}' is enforced.")
    return 0 if is_enough else _TOO_LITTLE
