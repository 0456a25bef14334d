"""The models that a person has set up, as one model for a runtime; and which of them answers by default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from placet.app.model_settings import ModelSettings
    from placet.inference.choice import Chosen
    from placet.inference.roles import Models, Role

ANSWERING_TOOLS = ("infer", "classify")
MODEL_TOOLS = (*ANSWERING_TOOLS, "embed")
"""What plans can call where a model is attached."""

NO_MODEL = (
    "no model is chosen. Name one with --model provider:name or in PLACET_MODEL; or set a key, such as "
    "ANTHROPIC_API_KEY; or start Ollama; or fetch a small one for this machine: placet model pull local"
)


class Attached(NamedTuple):
    """What a runtime can ask."""

    models: Models | None
    """None where nothing is set up."""
    chosen: Chosen | None
    """The model that answers where nothing else is said."""
    missing: str = ""
    """Why there is none."""

    @property
    def hints(self) -> dict[str, str]:
        """What to say of tools that are not there because no model is."""
        missing = MODEL_TOOLS if self.models is None else ANSWERING_TOOLS if self.chosen is None else ()
        return {name: f"'{name}' is not offered: {self.missing}" for name in missing}


def attach(named: str | None, settings: ModelSettings | None, environment: Mapping[str, str]) -> Attached:
    """The models that are set up. One that was named must be there; of the others, what is missing is
    told when they are asked.

    Raises:
        ModelError: the named one is not there, or what it needs is missing.
        InputError: it is a script or a recording that cannot be read.
    """
    from placet.app.model_settings import ModelSettings
    from placet.errors import PlacetError
    from placet.inference.choice import MODEL_VARIABLE
    from placet.inference.opening import open_model
    from placet.inference.prices import facts_of
    from placet.inference.roles import Models

    settings = settings or ModelSettings()
    chosen = chosen_model(named, settings, environment)
    roles = _roles(chosen, settings, environment)
    if not roles:
        return Attached(None, None, NO_MODEL)
    variables = with_linger(environment, settings)
    models = Models(
        roles,
        lambda name: open_model(name, variables, providers=settings.providers, prices=settings.prices),
        abilities=lambda name: found.abilities if (found := facts_of(name, settings.prices)) else None,
        because=chosen.because if chosen is not None else "",
        profiles=settings.profiles,
    )
    if chosen is not None and chosen.is_hard:
        try:
            models.check(chosen.name)
        except PlacetError as error:
            if named:
                raise
            # A variable is set once and for all: it must not stop what asks no model.
            return Attached(None, None, f"{MODEL_VARIABLE} is '{chosen.name}'. {error}")
    return Attached(models, chosen, "" if chosen is not None else NO_MODEL)


def with_linger(environment: Mapping[str, str], settings: ModelSettings) -> Mapping[str, str]:
    """The environment, with what the settings say of how long the local server stays; a variable that is set
    goes before them."""
    from placet.inference.local.model import LINGER_VARIABLE

    if settings.linger_s is None or environment.get(LINGER_VARIABLE):
        return environment
    return {**environment, LINGER_VARIABLE: f"{settings.linger_s:g}"}


def chosen_model(
    named: str | None, settings: ModelSettings | None, environment: Mapping[str, str]
) -> Chosen | None:
    """The model that answers where nothing else is said; None where nothing is set up."""
    from placet.inference.choice import choose
    from placet.inference.local.weights import LOCAL, is_there

    return choose(
        named,
        environment,
        settings.roles if settings is not None else {},
        is_local_there=lambda: is_there(LOCAL, environment),
        running_ollama=lambda: _ollama(environment),
    )


def _roles(
    chosen: Chosen | None, settings: ModelSettings, environment: Mapping[str, str]
) -> dict[Role, tuple[str, ...]]:
    from placet.inference.local.weights import EMBED, is_there

    roles: dict[Role, tuple[str, ...]] = {role: tuple(names) for role, names in settings.roles.items()}
    if chosen is not None and chosen.is_hard:
        # Whoever names a model wants its answers, in every role, and nobody else's.
        roles = {role: names for role, names in roles.items() if role == "embed"}
    if chosen is None:
        # The other roles fall back to the default one, and there is none.
        roles = {role: names for role, names in roles.items() if role == "embed"}
    elif not roles.get("default"):
        roles["default"] = (chosen.name,)
    if "embed" not in roles and is_there(EMBED, environment):
        roles["embed"] = (EMBED.name,)
    return roles


def _ollama(environment: Mapping[str, str]) -> str | None:
    from placet.errors import UnknownModel
    from placet.inference.choice import ollama_here
    from placet.inference.providers import PROVIDERS, url_of

    try:
        return ollama_here(url_of(PROVIDERS["ollama"], environment))
    except UnknownModel:
        return None  # Its variable is no address; that is for whoever names an Ollama model to hear.
