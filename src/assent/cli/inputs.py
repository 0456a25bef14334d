"""The options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

plan_argument = click.argument("plan", metavar="PLAN")
json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")

run_argument = click.argument("run", metavar="RUN")
db_option = click.option(
    "--db",
    metavar="URL",
    help="Where runs and events are kept: a file, or postgresql://HOST/NAME; 'none' for nowhere."
    " Default: ASSENT_DB, or the .assent folder of the project, or your data folder.",
)


def runtime_options(command: Command) -> Command:
    """What a runtime is made from: state, tools, policies, schedule."""
    for option in (
        click.option(
            "--schedule",
            type=click.Choice(["levels", "dataflow"]),
            default="levels",
            show_default=True,
            help="Layer by layer, or each action as soon as it can.",
        ),
        click.option("--policies", metavar="PATH", help="Rules: a TOML file, or a folder of them."),
        click.option("--tools", metavar="FILE.py", help="Python file whose @tool functions may be called."),
        click.option("--state", metavar="FILE.json", help="State to begin with: one JSON object."),
    ):
        command = option(command)
    return command
