"""The options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

plan_argument = click.argument("plan", metavar="PLAN")
json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")

run_argument = click.argument("run", metavar="RUN")


def not_empty(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Refuse a name that is given and empty: it is a variable that was not set, and no wish for a default."""
    if value is not None and not value.strip():
        raise click.BadParameter("it is empty. Name one, or leave the option out.", context, parameter)
    return value


db_option = click.option(
    "--db",
    metavar="URL",
    callback=not_empty,
    help="Where runs and events are kept: a file, or postgresql://HOST/NAME (`assent run` also knows 'none')."
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


class Moment(click.ParamType[float]):
    """A moment as people write it: a date, a date and time, or how long ago."""

    name = "moment"
    _UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds since the epoch; a time without a zone is UTC."""
        from datetime import UTC, datetime
        from time import time

        if isinstance(value, float):
            return value
        ago = re.fullmatch(r"(\d{1,6})([smhdw])", value)
        if ago is not None:
            return time() - int(ago[1]) * self._UNITS[ago[2]]
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                f"{value!r} is no moment. Write 2026-01-31, 2026-01-31T12:00 (UTC), or 90d for 90 days ago."
            )
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


class Subject(click.Group):
    """A group whose first command is meant where none is named: `assent runs --json` lists runs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the first command in where the arguments name none."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)
