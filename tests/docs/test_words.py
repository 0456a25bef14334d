"""The words that people search for stand where the things are explained, and in the glossary."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, REFERENCE, name_of, rows_of, without_blocks

WORDS = (
    "audit log",
    "context window",
    "durable execution",
    "function calling",
    "guardrail",
    "human in the loop",
    "idempotency key",
    "multi-agent",
    "prompt injection",
    "streaming",
    "structured output",
    "subagent",
    "system prompt",
    "tool calling",
    "tracing",
)
GLOSSARY = REFERENCE / "glossary.md"
_HEADING = re.compile(r"^#+ .*$", re.MULTILINE)


def openings(text: str) -> Iterator[str]:
    """Each heading of a page with the paragraph below it, in lower case and on one line."""
    prose = without_blocks(text)
    for heading in _HEADING.finditer(prose):
        first, *_ = prose[heading.end() :].lstrip().split("\n\n", 1)
        yield " ".join(f"{heading[0]} {first}".lower().split())


def pages_that_open_with(word: str) -> list[Path]:
    """Pages that say a word in a heading, or in the first paragraph below one."""
    return [
        page
        for page in sorted(DOCS.rglob("*.md"))
        if page != GLOSSARY and any(word in opening for opening in openings(page.read_text(encoding="utf-8")))
    ]


def glossary() -> dict[str, str]:
    return {row[0].strip("*"): row[1] for row in rows_of(GLOSSARY.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("word", WORDS)
def test_a_word_that_people_search_for_opens_a_page_or_a_section(word: str) -> None:
    assert pages_that_open_with(word)


@pytest.mark.parametrize("word", WORDS)
def test_the_glossary_leads_to_a_page_that_says_the_word_early(word: str) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", glossary()[word])

    led_to = {(GLOSSARY.parent / link).resolve() for link in links}

    assert led_to, f"the glossary's entry '{word}' leads nowhere"
    assert led_to & set(pages_that_open_with(word)), [name_of(page) for page in led_to]


def test_a_word_further_down_does_not_count() -> None:
    page = "# One\n\nFirst.\n\nGuardrail.\n\n## Two\n\n```text\nguardrail\n```\n\nA\nSubagent here.\n"

    found = list(openings(page))

    assert not any("guardrail" in opening for opening in found)
    assert any("subagent" in opening for opening in found)
