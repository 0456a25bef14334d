"""What the commands of `placet code` share: the group, whose first word may be an intent, and its options."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

import click

from placet.cli.inputs import Span, count_option, db_option, json_option, level_type, plain_text, single
from placet.truncation import truncate

Command = TypeVar("Command", bound=Callable[..., Any])

_FIRST = "run"
_SHOWN = 200


session_argument = click.argument("id", metavar="ID", callback=plain_text)
repo_option = single(
    "--repo", metavar="PATH", help="A folder in the git repository. Default: the current folder."
)
isolation_option = single(
    "--isolation",
    metavar="LEVEL",
    type=level_type,
    help="What keeps commands and checks in: process (the kernel), changes (as far as this machine can), or"
    " none. Goes below nothing that the settings require. Default: process.",
)
candidates_option = count_option(
    "--candidates", 1, "Attempts that are made side by side; the first that is green wins.", most=16
)
yes_option = click.option("--yes", is_flag=True, help="Publish a green change without asking.")
keep_option = click.option("--keep", is_flag=True, help="Leave the private copies where they are.")


class Wish(NamedTuple):
    """How the person wants a session to be led."""

    yes: bool
    keep: bool
    ask_for: float | None
    events: bool
    db: str | None
    as_json: bool


def at_work_options(command: Command) -> Command:
    """How a session is led; the command gets them as one `wish`."""

    @wraps(command)
    def call(*args: Any, **given: Any) -> Any:
        return command(*args, wish=Wish(**{name: given.pop(name) for name in Wish._fields}), **given)

    made = cast(Command, call)
    for option in (
        json_option,
        db_option,
        click.option(
            "--events",
            is_flag=True,
            help="Write what happens to stdout, as lines of JSON, and the result last.",
        ),
        click.option(
            "--ask-for",
            type=Span(),
            metavar="DURATION",
            help="Let the model ask you something, and wait so long for `placet code answer`, such as 10m."
            " Default: it can ask on a terminal, and waits 10 minutes.",
        ),
        keep_option,
        yes_option,
    ):
        made = option(made)
    return made


class Coding(click.Group):
    """A group whose first word may be an intent."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `run` in where the arguments name no command."""
        if not args:
            args = [next(iter(ctx.help_option_names))]
        elif args[0] not in self.commands and args[0] not in ctx.help_option_names:
            if not ctx.resilient_parsing:
                self._check_no_slip(args, ctx)
            args = [_FIRST, *args]
        return super().parse_args(ctx, args)

    def _check_no_slip(self, args: list[str], ctx: click.Context) -> None:
        """Refuse what is more likely a command with a slip in it: an intent begins work, and may cost."""
        from difflib import get_close_matches

        word = args[0]
        near = get_close_matches(word, list(self.commands), n=1, cutoff=0.75)
        if near and word.isalpha():
            raise click.UsageError(
                f"There is no command '{truncate(word, _SHOWN)}'. Did you mean '{near[0]}'? If it is the "
                "intent: "
                f"`placet code {_FIRST} {truncate(word, _SHOWN)}`.",
                ctx,
            )


def one_intent(context: click.Context, parameter: click.Parameter, words: tuple[str, ...]) -> str:
    """The intent as it was written; several words come from quotes that were left out."""
    import shlex

    if len(words) > 1:
        quoted = shlex.quote(truncate(" ".join(words), _SHOWN))
        raise click.UsageError(f"The intent is one argument. Put it in quotes: `placet code {quoted}`.")
    if not words or not words[0].strip():
        raise click.UsageError("There is no intent. Say in a sentence what is to be changed.")
    return words[0]
