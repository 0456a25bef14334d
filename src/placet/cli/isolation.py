"""`placet isolation`: what a person has lowered for a while, and how it is raised again.

Keep true: lowering is said in words before it is done, takes a person's yes, and is nothing that a plan or a
tool could ask for.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from placet.cli.inputs import Span, Subject, folder_names, json_option, not_empty
from placet.cli.output import Output

if TYPE_CHECKING:
    from pathlib import Path

    from placet.app.app import App
    from placet.app.isolation import Lowering
    from placet.sandbox.isolation import Level

_MEANS: dict[Level, str] = {
    "none": "commands are confined as far as this machine can, and where it cannot they may do what you can.",
    "changes": "commands work on a copy; they are confined as far as this machine can, and where it cannot "
    "they may read and send what you can.",
    "process": "commands are kept in by the kernel.",
}
_OFFERED = (
    "Python tools, programs with `sandbox = false` and tools of MCP servers are offered, trusted or not, and "
    "http_get speaks to all hosts that [http] in your settings lets it, which is every public one by default."
)
"""What `process` keeps back besides, and anything less does not."""


folder_option = click.option(
    "--folder",
    metavar="DIR",
    shell_complete=folder_names,
    callback=not_empty,
    help="For runs that are started there. Default: the project around the current folder, else that folder.",
)


@click.group(cls=Subject, short_help="Lower what isolation is required for a while, or raise it again.")
def isolation() -> None:
    """What was lowered of the isolation that settings require. Without a command: all that is lowered now.

    What is required is in the settings, under [isolation]; what is enforced `placet doctor` tells.
    """


@isolation.command("list", short_help="What is lowered now.")
@json_option
@click.pass_obj
def list_lowered(output: Output, as_json: bool) -> int:
    """List the folders where less isolation than required will do, until when, and why.

    Exit codes: 0 listed, also if there is nothing, 2 bad input.
    """
    output.claim()
    from placet.app.isolation import lowerings

    found = [_as_data(name, each) for name, each in lowerings(os.environ).items()]
    if as_json:
        output.show_json({"lowered": found})
    elif not found:
        output.talk("Nothing is lowered.")
    else:
        from placet.render.isolation import lowering_table

        output.show(*lowering_table(found, output.width))
    return 0


@isolation.command(short_help="Let less isolation do, for a while.")
@click.argument("level", metavar="LEVEL", type=click.Choice(["none", "changes"]))
@click.option(
    "--for", "span", type=Span(), metavar="DURATION", required=True, help="For how long: 30m, 2h; 7d at most."
)
@click.option("--because", metavar="TEXT", required=True, callback=not_empty, help="Why; the log keeps it.")
@folder_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_obj
def lower(
    output: Output,
    level: Level,
    span: float,
    because: str,
    folder: str | None,
    yes: bool,
    as_json: bool,
) -> int:
    """Let LEVEL (none or changes) do for the runs of a folder, whatever its settings require, for a while.

    It ends by itself. Every run that makes use of it says so, on stderr and in its log. What this machine can
    enforce on commands is enforced all the same: what is lowered is only what must be there. `--isolation
    none` on a run then switches it off.

    Where `process` was required, more is offered meanwhile: Python tools, programs with `sandbox = false` and
    tools of MCP servers, all of which run outside of every sandbox; and http_get speaks to all hosts that
    [http] in your settings lets it (every public one by default), not only to those of [isolation].

    Exit codes: 0 lowered, 1 you said no, 2 bad input, or nobody is there to be asked.
    """
    output.claim()
    from placet.app import isolation as lowered

    place, words = _look(folder, level)
    is_agreed = yes or _agreed(output, f"{words}\nBecause: {because}")
    if is_agreed:
        made = lowered.lower(place, level, os.environ, for_s=span, because=because)
        if as_json:
            output.show_json(_as_data(str(place), made))
        else:
            output.talk(f"{place}: '{level}' will do until {made.until}. To end it: placet isolation raise")
    elif as_json:
        output.show_json({"folder": str(place), "level": None})
    else:
        output.talk(f"{place}: Nothing was changed.")
    return 0 if is_agreed else 1


@isolation.command("raise", short_help="Require again what the settings say.")
@folder_option
@json_option
@click.pass_obj
def raise_again(output: Output, folder: str | None, as_json: bool) -> int:
    """End what was lowered for a folder, also for one that is gone.

    Exit codes: 0 done, also if nothing was lowered, 2 bad input.
    """
    output.claim()
    from placet.app.isolation import end_lowering

    place = _place(folder)
    was_lowered = end_lowering(place, os.environ)
    if as_json:
        output.show_json({"folder": str(place), "raised": was_lowered})
    else:
        words = "What the settings require is required again." if was_lowered else "Nothing was lowered."
        output.talk(f"{place}: {words}")
    return 0


def tell_lowering(output: Output, app: App) -> None:
    """Say that the runs to come have less than is required of them, where they do."""
    needed = app.required
    if needed.lowering is None:
        return
    data = needed.as_data()
    output.talk(
        f"Note: isolation '{data['required']}' is required here, and was lowered to '{data['lowered_to']}' "
        f"until {data['until']}: {data['because']}"
    )
    if data["required"] == "process" and data["lowered_to"] != "process":
        output.talk(f"Note: {_OFFERED}")


def tell_unknown_trusted(output: Output, app: App) -> None:
    """Say which names the person trusts that no tool has: one of them may be misspelt.

    Only where a tool is withheld: in other folders those tools are simply not there.
    """
    for each in app.trusted_warnings():
        output.talk(f"Note: {each.message}")


def _place(folder: str | None) -> Path:
    """The folder that is meant, under the name by which it is remembered: that of the project around it."""
    from pathlib import Path

    from placet.app.trust import real
    from placet.storage.location import project_folder

    start = Path(folder) if folder is not None else Path.cwd()
    project = project_folder(start) if start.is_dir() else None
    return real(start if project is None else project.parent)


def _look(folder: str | None, level: Level) -> tuple[Path, str]:
    """The folder, and in words what lowering to `level` means for it.

    Raises:
        InputError: there is no such folder, or its settings mean nothing.
    """
    from placet.app.governance import demanded
    from placet.errors import InputError
    from placet.sandbox.isolation import is_at_least

    place = _place(folder)
    if not place.is_dir():
        raise InputError(f"There is no folder {place}. Name one that is there.")
    _, demand = demanded(place, os.environ)
    if is_at_least(level, demand.level):
        now = f"{demand.source} requires '{demand.level}'" if demand.source else "Nothing is required"
        return place, f"{now} in {place}, so '{level}' lowers nothing but what a run itself was begun with."
    words = f"{demand.source} requires '{demand.level}'. In {place} '{level}' will do then: {_MEANS[level]}"
    if demand.level == "process":
        words += f" {_OFFERED}"
    return place, words


def _agreed(output: Output, words: str) -> bool:
    from placet.errors import UsageError

    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "Lowering isolation takes a person's yes, and there is no terminal to ask on. Nothing was "
            "changed. Add --yes if you mean it."
        )
    output.talk(words)
    return click.confirm("Lower it?", default=False, err=True)


def _as_data(folder: str, lowering: Lowering) -> dict[str, Any]:
    return {
        "folder": folder,
        "level": lowering.level,
        "until": lowering.until,
        "because": lowering.because,
        "time": lowering.time,
    }
