"""What models cost and can do, as their makers said on a day.

Prices change. Whoever knows better hands in prices of their own, and those go before the table.

Keep true:
1. Every entry is one model's own: a name that is not known has no facts, never those of a relative.
2. Where a price depends on the hour, the dearer one stands here: a budget may not be overdrawn.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import TypeVar

import msgspec

from placet.inference.model import Ability
from placet.inference.usage import Beyond, Price

T = TypeVar("T")

AS_OF = date(2026, 10, 19)
"""The newest change of a price that the table knows of."""

LONG_CONTEXT = 200_000
"""Who can read as many tokens has the ability `long_context`."""


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a model before it is asked."""

    price: Price
    context: int | None = None
    """Tokens of a conversation, its answer included; None where that is up to whoever runs the model."""
    abilities: frozenset[Ability] | None = None
    """None where nobody knows: such a model is tried."""


def facts_of(name: str, prices: Mapping[str, Price] | None = None) -> ModelFacts | None:
    """The facts about `provider:name`, or None where nothing is known.

    A name may go on with a date or a version, `-2026-01-31`, `-20260131`, `-001`, `@20260131`, `-latest`,
    `:latest`: it is the same model then. Models on one's own machine cost nothing. `prices` go before
    those of the table; their names are written in the same way.

    >>> facts_of("openai:gpt-4o-2024-08-06") == facts_of("openai:gpt-4o"), facts_of("openai:gpt-4o-giant")
    (True, None)
    """
    names = (name, _at_its_maker(name))
    found = next((each for known in names if (each := _find(known, FACTS)) is not None), None)
    is_elsewhere = name.endswith("cloud")  # So Ollama calls the models that it does not run itself.
    if found is None and name.partition(":")[0] in _FREE_OF_CHARGE and not is_elsewhere:
        found = _LOCAL if name == "local" else _FREE
    price = next((own for known in names if (own := _find(known, prices or {})) is not None), None)
    if price is None:
        return found
    return ModelFacts(price=price) if found is None else msgspec.structs.replace(found, price=price)


def _find(name: str, table: Mapping[str, T]) -> T | None:
    if name in table:
        return table[name]
    # Of all entries that the name goes on from, the longest: never its shorter relative.
    begun = [each for each in table if name.startswith(each) and _SAME_MODEL.fullmatch(name, len(each))]
    return table[max(begun, key=len)] if begun else None


def _at_its_maker(name: str) -> str:
    """The name that a model has at the provider who made it."""
    provider, _, model = name.partition(":")
    vendor, _, model = model.partition("/")
    if provider != "openrouter" or vendor not in _VENDORS:
        return name
    if vendor == "anthropic":
        model = model.replace(".", "-")
    return f"{_VENDORS[vendor]}:{model}"


_SAME_MODEL = re.compile(
    r"-\d{4}-\d\d-\d\d | [-@]20\d{6} | -(?:0\d|1[0-2])[0-3]\d | [-@]0\d\d | @default | [-:@]latest",
    re.VERBOSE | re.ASCII,
)
"""What may follow a model's name without making it another model."""

_VENDORS = {"openai": "openai", "anthropic": "anthropic", "google": "gemini", "deepseek": "deepseek"}

_FREE_OF_CHARGE = frozenset({"local", "ollama", "vllm", "llamacpp", "scripted", "replay"})
_FREE = ModelFacts(price=Price(input=0, output=0, cached=0, cache_written=0))
_LOCAL = msgspec.structs.replace(_FREE, context=8_192, abilities=frozenset({"tools"}))


def _facts(
    input: float,
    output: float,
    cached: float | None = None,
    written: float | None = None,
    *,
    context: int,
    beyond: Beyond | None = None,
    can: Sequence[Ability] = ("tools", "images"),
) -> ModelFacts:
    longer: Sequence[Ability] = ("long_context",) if can and context >= LONG_CONTEXT else ()
    price = Price(input=input, output=output, cached=cached, cache_written=written, beyond=beyond)
    return ModelFacts(price=price, context=context, abilities=frozenset((*can, *longer)))


def _beyond(
    tokens: int, input: float, output: float, cached: float | None = None, written: float | None = None
) -> Beyond:
    return Beyond(
        tokens=tokens, price=Price(input=input, output=output, cached=cached, cache_written=written)
    )


# fmt: off
FACTS: Mapping[str, ModelFacts] = {
    "openai:gpt-6.1-sol": _facts(2, 10, 0.1, 2.5, context=1_050_000, beyond=_beyond(272_000, 4, 15, 0.2, 5)),
    "openai:gpt-6.1-terra": _facts(1, 5, 0.05, 1.25, context=1_050_000,
        beyond=_beyond(272_000, 2, 7.5, 0.1, 2.5)),
    "openai:gpt-6-astra": _facts(10, 50, 1, 12.5, context=1_050_000, beyond=_beyond(272_000, 20, 75, 2, 25)),
    "openai:gpt-6-sol": _facts(2, 10, 0.2, 2.5, context=1_050_000, beyond=_beyond(272_000, 4, 15, 0.4, 5)),
    "openai:gpt-6-luna": _facts(0.1, 0.5, 0.01, 0.125, context=1_050_000,
        beyond=_beyond(272_000, 0.2, 0.75, 0.02, 0.25)),
    "openai:gpt-5.6-sol": _facts(4, 20, 0.4, 5, context=1_050_000, beyond=_beyond(272_000, 8, 30, 0.8, 10)),
    "openai:gpt-5.6-terra": _facts(2, 12, 0.2, 2.5, context=1_050_000,
        beyond=_beyond(272_000, 4, 18, 0.4, 5)),
    "openai:gpt-5.6-luna": _facts(0.2, 1.2, 0.02, 0.25, context=1_050_000,
        beyond=_beyond(272_000, 0.4, 1.8, 0.04, 0.5)),
    "openai:gpt-5.5-pro": _facts(30, 180, context=1_050_000, beyond=_beyond(272_000, 60, 270)),
    "openai:gpt-5.5": _facts(5, 30, 0.5, context=1_050_000, beyond=_beyond(272_000, 10, 45, 1)),
    "openai:gpt-5.4-pro": _facts(30, 180, context=1_050_000, beyond=_beyond(272_000, 60, 270)),
    "openai:gpt-5.4": _facts(2.5, 15, 0.25, context=1_050_000, beyond=_beyond(272_000, 5, 22.5, 0.5)),
    "openai:gpt-5.4-mini": _facts(0.75, 4.5, 0.075, context=400_000),
    "openai:gpt-5.4-nano": _facts(0.2, 1.25, 0.02, context=400_000),
    "openai:gpt-5.3-codex": _facts(1.75, 14, 0.175, context=400_000),
    "openai:gpt-5.2-pro": _facts(21, 168, context=400_000),
    "openai:gpt-5.2": _facts(1.75, 14, 0.175, context=400_000),
    "openai:gpt-5.1": _facts(1.25, 10, 0.125, context=400_000),
    "openai:gpt-5-pro": _facts(15, 120, context=400_000),
    "openai:gpt-5": _facts(1.25, 10, 0.125, context=400_000),
    "openai:gpt-5-mini": _facts(0.25, 2, 0.025, context=400_000),
    "openai:gpt-5-nano": _facts(0.05, 0.4, 0.005, context=400_000),
    "openai:o3": _facts(2, 8, 0.5, context=200_000),
    "openai:o3-pro": _facts(20, 80, context=200_000),
    "openai:o4-mini": _facts(1.1, 4.4, 0.275, context=200_000),
    "openai:gpt-4.1": _facts(2, 8, 0.5, context=1_047_576),
    "openai:gpt-4.1-mini": _facts(0.4, 1.6, 0.1, context=1_047_576),
    "openai:gpt-4.1-nano": _facts(0.1, 0.4, 0.025, context=1_047_576),
    "openai:gpt-4o": _facts(2.5, 10, 1.25, context=128_000),
    "openai:gpt-4o-mini": _facts(0.15, 0.6, 0.075, context=128_000),
    "openai:gpt-4o-2024-05-13": _facts(5, 15, context=128_000),
    "openai:text-embedding-3-large": _facts(0.13, 0, context=8_192, can=()),
    "openai:text-embedding-3-small": _facts(0.02, 0, context=8_192, can=()),
    "anthropic:claude-fable-5-1": _facts(10, 50, 0.25, 12.5, context=1_000_000),
    "anthropic:claude-fable-5": _facts(10, 50, 1, 12.5, context=1_000_000),
    "anthropic:claude-opus-5-5": _facts(4, 20, 0.2, 5, context=1_000_000),
    "anthropic:claude-opus-5": _facts(5, 25, 0.5, 6.25, context=1_000_000),
    "anthropic:claude-opus-4-8": _facts(5, 25, 0.5, 6.25, context=1_000_000),
    "anthropic:claude-opus-4-7": _facts(5, 25, 0.5, 6.25, context=1_000_000),
    "anthropic:claude-opus-4-6": _facts(5, 25, 0.5, 6.25, context=1_000_000),
    "anthropic:claude-opus-4-5": _facts(5, 25, 0.5, 6.25, context=200_000),
    "anthropic:claude-sonnet-5-5": _facts(2, 10, 0.1, 2.5, context=1_000_000),
    "anthropic:claude-sonnet-5": _facts(2, 10, 0.2, 2.5, context=1_000_000),
    "anthropic:claude-sonnet-4-6": _facts(3, 15, 0.3, 3.75, context=1_000_000),
    "anthropic:claude-sonnet-4-5": _facts(3, 15, 0.3, 3.75, context=200_000,
        beyond=_beyond(200_000, 6, 22.5, 0.6, 7.5)),
    "anthropic:claude-haiku-5-5": _facts(0.1, 0.5, 0.01, 0.125, context=1_000_000,
        beyond=_beyond(100_000, 0.5, 2.5, 0.05, 0.625)),
    "anthropic:claude-haiku-4-5": _facts(1, 5, 0.1, 1.25, context=200_000),
    "gemini:gemini-4-argon": _facts(2, 10, 0.1, context=1_048_576),
    "gemini:gemini-3.8-flash": _facts(0.75, 3.75, 0.075, context=1_048_576),
    "gemini:gemini-3.7-flash": _facts(0.75, 3.75, 0.075, context=1_048_576),
    "gemini:gemini-3.6-flash": _facts(0.75, 3.75, 0.075, context=1_048_576),
    "gemini:gemini-3.5-flash": _facts(1.5, 9, 0.15, context=1_048_576),
    "gemini:gemini-3.5-flash-lite": _facts(0.3, 2.5, 0.03, context=1_048_576),
    "gemini:gemini-3.1-pro-preview": _facts(2, 12, 0.2, context=1_048_576,
        beyond=_beyond(200_000, 4, 18, 0.4)),
    "gemini:gemini-3.1-flash-lite": _facts(0.25, 1.5, 0.025, context=1_048_576),
    "gemini:gemini-3-flash-preview": _facts(0.5, 3, 0.05, context=1_048_576),
    "gemini:gemini-2.5-pro": _facts(1.25, 10, 0.125, context=1_048_576,
        beyond=_beyond(200_000, 2.5, 15, 0.25)),
    "gemini:gemini-2.5-flash": _facts(0.3, 2.5, 0.03, context=1_048_576),
    "gemini:gemini-2.5-flash-lite": _facts(0.1, 0.4, 0.01, context=1_048_576),
    "deepseek:deepseek-v4-pro": _facts(1.32, 3.96, 0.044, context=1_000_000, can=("tools",)),
    "deepseek:deepseek-v4-flash": _facts(0.3, 1.2, 0.006, context=1_000_000),
    "deepseek:deepseek-flash": _facts(0.3, 1.2, 0.006, context=1_000_000),
}
# fmt: on
"""By `provider:name`. US dollars for a million tokens: input, output, read from a cache, put into a cache."""
