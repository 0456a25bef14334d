"""The table of prices is whole, and a name finds its own entry or none."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.inference.prices import AS_OF, FACTS, LONG_CONTEXT, facts_of
from placet.inference.providers import PROVIDERS
from placet.inference.usage import Price
from tests.properties.effort import UNHURRIED, examples

pytestmark = UNHURRIED


def test_the_table_says_of_when_it_is() -> None:
    assert date(2026, 1, 1) < AS_OF


@pytest.mark.parametrize("name", FACTS)
def test_an_entry_is_whole(name: str) -> None:
    facts = FACTS[name]
    is_embedding = "embedding" in name

    assert name.partition(":")[0] in PROVIDERS
    assert facts.context is not None
    assert facts.context > 0
    assert ("long_context" in facts.abilities) == (facts.context >= LONG_CONTEXT)
    assert ("tools" in facts.abilities) != is_embedding
    assert _is_sound(facts.price, is_embedding)
    if facts.price.beyond is not None:
        dearer = facts.price.beyond.price
        assert 0 < facts.price.beyond.tokens <= facts.context
        assert _is_sound(dearer, is_embedding)
        assert dearer.input > facts.price.input
        assert dearer.output > facts.price.output
        assert (dearer.cached is None) == (facts.price.cached is None)


def _is_sound(price: Price, is_embedding: bool) -> bool:
    cached = price.input if price.cached is None else price.cached
    written = price.input if price.cache_written is None else price.cache_written
    return 0 < cached <= price.input <= written and (is_embedding or price.output > price.input)


def test_there_are_models_of_every_maker() -> None:
    makers = [name.partition(":")[0] for name in FACTS]

    assert {maker: makers.count(maker) >= 3 for maker in makers} == dict.fromkeys(
        ("openai", "anthropic", "gemini", "deepseek"), True
    )


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("openai:gpt-5-mini", "openai:gpt-5-mini"),
        ("openai:gpt-5-mini-2025-08-07", "openai:gpt-5-mini"),
        ("openai:gpt-5-2025-08-07", "openai:gpt-5"),
        ("openai:gpt-4o-2024-08-06", "openai:gpt-4o"),
        ("openai:gpt-4o-2024-05-13", "openai:gpt-4o-2024-05-13"),
        ("anthropic:claude-sonnet-4-5-20250929", "anthropic:claude-sonnet-4-5"),
        ("anthropic:claude-sonnet-4-5@20250929", "anthropic:claude-sonnet-4-5"),
        ("anthropic:claude-opus-5-5", "anthropic:claude-opus-5-5"),
        ("anthropic:claude-haiku-4-5-latest", "anthropic:claude-haiku-4-5"),
        ("gemini:gemini-2.5-flash-001", "gemini:gemini-2.5-flash"),
        ("gemini:gemini-2.5-flash-lite", "gemini:gemini-2.5-flash-lite"),
        ("openrouter:openai/gpt-5-mini", "openai:gpt-5-mini"),
        ("openrouter:anthropic/claude-sonnet-4.5", "anthropic:claude-sonnet-4-5"),
        ("openrouter:google/gemini-2.5-pro", "gemini:gemini-2.5-pro"),
        ("openrouter:deepseek/deepseek-v4-pro", "deepseek:deepseek-v4-pro"),
    ],
)
def test_a_name_finds_its_entry(name: str, entry: str) -> None:
    assert facts_of(name) is FACTS[entry]


@pytest.mark.parametrize(
    "name",
    [
        "openai:gpt-5-giant",
        "openai:gpt-5.9",
        "openai:gpt-5-mini-search",
        "openai:gpt",
        "anthropic:claude-opus-5-7",
        "anthropic:claude-opus-4",
        "gemini:gemini-2.5-flash-image",
        "openrouter:meta/llama-9",
        "openrouter:openai/gpt-5:free",
        "gpt-5",
        "ollama:gpt-oss:120b-cloud",
        "nobody:gpt-5",
        "",
    ],
)
def test_a_relative_is_not_taken_for_the_model(name: str) -> None:
    assert facts_of(name) is None


@pytest.mark.parametrize(
    "name", ["local", "ollama:qwen3:8b", "ollama:llama3:latest", "vllm:any/thing", "llamacpp:x"]
)
def test_ones_own_machine_charges_nothing(name: str) -> None:
    facts = facts_of(name)

    assert facts is not None
    assert (facts.price.input, facts.price.output) == (0, 0)


def test_what_ones_own_machine_can_do_is_up_to_the_model() -> None:
    unknown, local = facts_of("ollama:qwen3:8b"), facts_of("local")

    assert unknown is not None
    assert (unknown.context, unknown.abilities) == (None, None)
    assert local is not None
    assert (local.context, local.abilities) == (8_192, {"tools"})


@pytest.mark.parametrize(
    ("name", "priced"),
    [
        ("openai:gpt-5", "openai:gpt-5"),
        ("openai:gpt-5-2025-08-07", "openai:gpt-5"),
        ("ollama:mine", "ollama:mine"),
        ("house:mine", "house:mine"),
        ("openrouter:openai/gpt-5", "openrouter:openai/gpt-5"),
    ],
)
def test_a_price_that_is_handed_in_goes_before_the_table(name: str, priced: str) -> None:
    mine = Price(input=1, output=2)

    facts = facts_of(name, {priced: mine})

    assert facts is not None
    assert facts.price is mine


def test_a_price_changes_nothing_else_that_is_known() -> None:
    facts = facts_of("openai:gpt-5", {"openai:gpt-5": Price(input=1, output=2)})

    assert facts is not None
    assert facts.abilities == FACTS["openai:gpt-5"].abilities
    assert facts.context == FACTS["openai:gpt-5"].context
    assert (
        facts_of("openai:gpt-5-mini", {"openai:gpt-5": Price(input=1, output=2)})
        is FACTS["openai:gpt-5-mini"]
    )


@examples(300)
@given(st.sampled_from(sorted(FACTS)), st.text(alphabet="abc0159-.@:", max_size=12))
def test_whatever_follows_a_name_never_changes_the_price_unseen(entry: str, suffix: str) -> None:
    """Either the name has an entry of its own, or what follows the entry is a date or a version."""
    found = facts_of(entry + suffix)

    if found is not None and entry + suffix not in FACTS:
        of = [each for each in FACTS if FACTS[each] is found and (entry + suffix).startswith(each)]
        rest = (entry + suffix).removeprefix(max(of, key=len))
        assert rest[0] in "-@"
        assert len(rest.replace("-", "").removeprefix("@")) in (3, 4, 8)
        assert rest.replace("-", "").removeprefix("@").isdigit()
