"""From the name of a model to the model, with everything around it that every model needs.

Keep true:
1. A name is one of `provider:name`, `local`, `embed`, `scripted:FILE`, `replay:FILE`; nothing is guessed.
2. The order of the wrappers is the same for all: the time limit is outermost, so that it holds over retries.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import assert_never

from placet.errors import ModelMissing, UnknownModel
from placet.inference.http import HttpModel
from placet.inference.model import Model
from placet.inference.prices import facts_of
from placet.inference.providers import (
    PROVIDERS,
    WRITTEN,
    Endpoint,
    Format,
    Provider,
    endpoint,
    split_name,
)
from placet.inference.usage import Price
from placet.inference.wire.format import WireFormat
from placet.inference.wrappers.limits import Limited
from placet.inference.wrappers.reasoning import ReasoningApart
from placet.inference.wrappers.retry import Retrying

BUILT_IN = tuple(WRITTEN)
"""Names that are no provider's."""


def open_model(
    name: str,
    environment: Mapping[str, str],
    *,
    providers: Mapping[str, Provider] | None = None,
    prices: Mapping[str, Price] | None = None,
) -> Model:
    """Open a model by name, such as `anthropic:claude-sonnet-5-5`, `local` or `replay:FILE`. No request is
    sent yet.

    The model has tool mode, separated reasoning, retries and a time limit around it.

    Args:
        name: Name of the model.
        environment: Environment variables, in which keys and URLs are looked up; usually `os.environ`.
        providers: Further providers by name.
        prices: Prices by `provider:name`, which win over the built-in ones: `{"lab:big": Price(input=1,
            output=4)}`.

    Raises:
        UnknownModel: there is no such model or provider.
        KeyMissing: the provider needs a key.
        ModelMissing: something that a local model needs is not installed.
        InputError: a script or recording cannot be read.
    """
    kind, colon, rest = name.partition(":")
    if kind in BUILT_IN and kind not in (providers or {}):
        return _built_in(name, kind, rest if colon else None, environment)
    split_name(name, [*PROVIDERS, *(providers or {}), *BUILT_IN])
    found = endpoint(name, environment, providers)
    told = facts_of(name, prices)
    return around(HttpModel(found, wire_of(found.provider.format), price=told.price if told else None), found)


def around(model: Model, found: Endpoint) -> Model:
    """A model with what every one needs: tools in its own way, reasoning apart, retries, a time limit."""
    inside = ReasoningApart(model, swallows_opening=found.provider.swallows_opening)
    # Reasoning innermost of these: a call that a model only thinks about must not become one.
    return Limited(Retrying(_with_tools(inside, found)))


def wire_of(name: Format) -> WireFormat:
    """The wire format of that name."""
    match name:
        case "openai":
            from placet.inference.wire.openai import OpenAiChat

            return OpenAiChat()
        case "anthropic":
            from placet.inference.wire.anthropic import AnthropicMessages

            return AnthropicMessages()
        case "gemini":
            from placet.inference.wire.gemini import GeminiContent

            return GeminiContent()
        case _:
            assert_never(name)


def _with_tools(model: Model, found: Endpoint) -> Model:
    mode = found.provider.tool_mode
    match mode:
        case "native":
            return model
        case "schema":
            from placet.inference.tool_modes.schema import SchemaTools

            return SchemaTools(model)
        case "lenient":
            from placet.inference.tool_modes.lenient import LenientTools

            return LenientTools(model)
        case "native_then_lenient":
            from placet.inference.tool_modes.lenient import NativeThenLenient

            return NativeThenLenient(model)
        case _:
            assert_never(mode)


def _built_in(name: str, kind: str, rest: str | None, environment: Mapping[str, str]) -> Model:
    if kind in ("local", "embed"):
        if rest:
            raise UnknownModel(f"There is one model called '{kind}'; '{name}' is none. Write {kind}.")
        if kind == "embed":
            from placet.inference.embedding.minilm import MiniLm

            return MiniLm(environment)
        from placet.inference.local.model import LocalModel

        return Limited(Retrying(LocalModel(environment)))
    if not rest:
        raise ModelMissing(f"'{kind}' needs a file. Write {kind}:FILE.")
    if kind == "scripted":
        from placet.inference.scripted import Scripted

        return Scripted.from_file(Path(rest))
    from placet.inference.wrappers.replaying import Replaying

    return Replaying(Path(rest))
