"""The options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import wraps
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Command = TypeVar("Command", bound=Callable[..., Any])

_POSTURES = ("cautious", "balanced", "trusting", "read_only", "sandbox_edit", "full_access")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}

level_type = click.Choice(["none", "changes", "process"])
"""How far commands are kept from everything else."""


def file_names(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Have the shell complete the name of a file."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def folder_names(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Have the shell complete the name of a folder."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="dir")]


plan_argument = click.argument("plan", metavar="PLAN", shell_complete=file_names)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
user_option = click.option(
    "--user", "is_user", is_flag=True, help="Your own agent, also if the project has one of this name."
)

run_argument = click.argument("run", metavar="RUN")


def not_empty(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Refuse a name that is given and empty: it is a variable that was not set, and no wish for a default."""
    if value is not None and not value.strip():
        raise click.BadParameter("it is empty. Name one, or leave the option out.", context, parameter)
    return value


def plain_text(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Refuse what is empty, and bytes that are no text: neither can be kept, or looked for."""
    value = not_empty(context, parameter, value)
    try:
        if value is not None:
            value.encode()
    except UnicodeEncodeError:
        raise click.BadParameter("it is no text in UTF-8.", context, parameter) from None
    return value


def once(context: click.Context, parameter: click.Parameter, value: Sequence[str]) -> str | None:
    """The value of an option that is given once or not at all: of two, one would quietly undo the other."""
    if len(value) > 1:
        raise click.BadParameter(f"it is given {len(value)} times. Give it once.", context, parameter)
    return not_empty(context, parameter, value[0] if value else None)


def single(*names: str, **more: Any) -> Callable[[Command], Command]:
    """An option that is refused where it is given twice. If `metavar` says that it takes a path, shells
    complete one."""
    metavar = str(more.get("metavar", ""))
    if metavar in ("DIR", "FOLDER"):
        more.setdefault("shell_complete", folder_names)
    elif "FILE" in metavar or metavar == "PATH":
        more.setdefault("shell_complete", file_names)
    return click.option(*names, multiple=True, callback=once, **more)


db_option = single(
    "--db",
    metavar="URL",
    help="Where runs and events are kept: a file, or postgresql://HOST/NAME (`placet run` also knows 'none')."
    " Default: PLACET_DB, or the .placet folder of the project, or your data folder.",
)


as_option = single(
    "--as",
    "agent",
    metavar="NAME",
    help="The agent that acts; it may have a posture of its own.",
)


isolation_option = single(
    "--isolation",
    metavar="LEVEL",
    type=level_type,
    help="The least isolation that will do: changes or process; or none, to confine nothing. Goes below"
    " nothing that the settings require. Default: what they require, and whatever works here.",
)


model_option = single(
    "--model",
    metavar="NAME",
    help="The model that answers: provider:name, local, replay:FILE or scripted:FILE. Default: PLACET_MODEL,"
    " your settings, a provider whose key is set, a running Ollama, the local one.",
)


permissions_option = single(
    "--permissions",
    metavar="POSTURE",
    type=click.Choice(_POSTURES),
    help="What needs asking, whatever the settings say: cautious, balanced, trusting, or a tier.",
)

policies_option = single(
    "--policies",
    metavar="PATH",
    help="More rules: a TOML file, or a folder of them. The project's and your own always hold.",
)

tools_option = single(
    "--tools",
    metavar="FILE",
    help="More tools: a Python file with @tool functions, or a TOML file of programs."
    " Default: that of a trusted project.",
)


def runtime_options(command: Command) -> Command:
    """What a runtime is made from: state, tools, policies, permissions, model, isolation, schedule."""
    for option in (
        click.option(
            "--schedule",
            type=click.Choice(["levels", "dataflow"]),
            default="levels",
            show_default=True,
            help="Layer by layer, or each action as soon as it can.",
        ),
        isolation_option,
        model_option,
        permissions_option,
        policies_option,
        tools_option,
        single(
            "--state",
            metavar="FILE.json",
            help="State to begin with: one JSON object.",
        ),
    ):
        command = option(command)
    return command


class Moment(click.ParamType[float]):
    """A moment as people write it: a date, a date and time, or how long ago."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds since the epoch; a time without a zone is UTC."""
        from datetime import UTC, datetime
        from time import time

        if isinstance(value, float):
            return value
        ago = re.fullmatch(r"([0-9]{1,12})([smhdw])", value)
        if ago is not None:
            # Longer ago than the epoch is before anything that was recorded.
            return max(0.0, time() - int(ago[1]) * _UNITS[ago[2]])
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                f"{value!r} is no moment. Write 2026-01-31, 2026-01-31T12:00 (UTC), or 90d for 90 days ago."
            )
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


class Span(click.ParamType[float]):
    """How long, as people write it, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds, more than none."""
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"([0-9]{1,5})([smhdw])", value)
        if found is None or int(found[1]) == 0:
            self.fail(f"{value!r} is no duration. Write 90s, 30m, 12h, 7d or 4w.", param, ctx)
        return float(int(found[1]) * _UNITS[found[2]])


class Money(click.FloatRange):
    """An amount above 0; `nan` and `inf` are none."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The amount."""
        found = super().convert(value, param, ctx)
        if not isfinite(found):
            self.fail(f"{value!r} is no amount of money.", param, ctx)
        return found


class Patience(Span):
    """How long to wait for a person; `forever` is as long as it takes."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds; infinity for ever."""
        if isinstance(value, str) and value.endswith(".json"):
            self.fail(f"{value!r} is no duration. Name the plan before --wait.", param, ctx)
        return inf if value in (inf, "forever") else super().convert(value, param, ctx)


wait_option = click.option(
    "--wait",
    type=Patience(),
    is_flag=False,
    flag_value="forever",
    default=None,
    metavar="[DURATION]",
    help="Wait for approvals, so long or for as long as it takes. Without it: exit code 4, to be resumed.",
)


_COLLECTED = (
    *("tools", "policies", "permissions", "yes_to", "model", "isolation", "workspace", "schedule", "state"),
    *("expires_s", "record", "turns", "tokens", "cost_usd", "time_s", "iterations", "style"),
)


def collected(command: Command) -> Command:
    """Hand the command the options of a run as one `options: RunOptions`, unless another command invokes it
    with its own. Goes right above the function."""

    @wraps(command)
    def call(*args: Any, **given: Any) -> Any:
        from placet.app.options import RunOptions

        found = {name: given.pop(name) for name in _COLLECTED if name in given}
        given.setdefault("options", RunOptions(**found))
        return command(*args, **given)

    return cast(Command, call)


reason_option = click.option("--reason", metavar="TEXT", callback=plain_text, help="Why.")
before_option = click.option(
    "--before",
    type=Moment(),
    metavar="WHEN",
    required=True,
    help="Ended before: a date, or 90d for 90 days ago.",
)


def count_option(
    name: str, default: int, help: str = "How many at most.", *, most: int = 1_000_000
) -> Callable[[Command], Command]:
    """How many, from 1 to `most`."""
    kind = click.IntRange(min=1, max=most)
    return click.option(name, type=kind, default=default, show_default=True, metavar="N", help=help)


expire_option = click.option(
    "--expire",
    "expires_s",
    type=Span(),
    metavar="DURATION",
    help="How long approvals can be given. Default: no limit.",
)


def limit_options(whose: str = "it") -> Callable[[Command], Command]:
    """How far a run may go, or all of them together."""

    def decorate(command: Command) -> Command:
        for option in (
            click.option(
                "--time",
                "time_s",
                type=Span(),
                metavar="DURATION",
                help=f"How long {whose} may take, such as 10m.",
            ),
            click.option(
                "--max-cost", "cost_usd", type=Money(), metavar="USD", help=f"What {whose} may cost."
            ),
            click.option(
                "--max-tokens",
                "tokens",
                type=click.IntRange(min=1),
                metavar="N",
                help=f"Tokens that {whose} may read and write.",
            ),
        ):
            command = option(command)
        return command

    return decorate


yes_to_option = single(
    "--yes-to",
    metavar="TIER",
    type=click.Choice(["none", "read_only", "sandbox_edit", "full_access"]),
    help="What is done without asking: none, read_only, sandbox_edit or full_access. Default: what"
    " your settings allow, else read_only.",
)
log_option = single("--log", metavar="FILE.jsonl", help="Append every event to this file too.")
run_id_option = single(
    "--run-id", metavar="ID", help="What to call the run. Default: one is made up and shown."
)


def assistant_options(command: Command) -> Command:
    """What an assistant is made from: model, folder, what it may do without asking, tools and rules, limits,
    and where its run is kept."""
    for option in (
        log_option,
        db_option,
        wait_option,
        single("--record", metavar="FILE", help="Keep every answer of the model in this file."),
        limit_options(),
        click.option(
            "--turns", type=click.IntRange(min=1), metavar="N", help="How often it is asked. Default: 50."
        ),
        run_id_option,
        isolation_option,
        permissions_option,
        policies_option,
        tools_option,
        click.option(
            "--image",
            "images",
            multiple=True,
            metavar="FILE",
            shell_complete=file_names,
            help="A picture that goes with the message: PNG, JPEG, GIF or WebP. May be given several times.",
        ),
        yes_to_option,
        single("--workspace", metavar="DIR", help="Where tools work. Default: the project's folder."),
        model_option,
    ):
        command = option(command)
    return command


def task_options(command: Command) -> Command:
    """How a task is done: by which model, in which folder, with what tools and rules."""
    for option in (
        isolation_option,
        permissions_option,
        policies_option,
        tools_option,
        yes_to_option,
        single("--workspace", metavar="DIR", help="Where tools work. Default: the project's folder."),
        model_option,
    ):
        command = option(command)
    return command


workspace_option = single(
    "--workspace",
    metavar="DIR",
    help="Where tools work; as it was again if the plan aborts. Default: the project's folder, not bound.",
)


class Subject(click.Group):
    """A group whose first command is meant where none is named: `placet runs --json` lists runs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the first command in where the arguments name none."""
        is_option = bool(args) and args[0].startswith("-") and args[0] not in ctx.help_option_names
        # A shell that completes may be about to write a command.
        if is_option or (not args and not ctx.resilient_parsing):
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """The commands, and the options of the first one."""
        found = super().shell_complete(ctx, incomplete)
        if incomplete.startswith("-"):
            first = next(iter(self.commands.values()))
            inner = click.Context(first, parent=ctx, info_name=first.name)
            known = {item.value for item in found}
            found += [item for item in first.shell_complete(inner, incomplete) if item.value not in known]
        return found
