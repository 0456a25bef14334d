"""The README is short, in its order, and makes no claim without a page or a command that shows it."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT, blocks_of, rows_of, section, without_blocks

README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")
PARTS = [
    "Install",
    "What it does that others do not",
    "A plan, a denial, an undo",
    "A model, and a person who approves",
    "Three commands",
    "What do you want to do?",
    "For whom",
    "Compared",
    "Five promises, and the command that shows each",
    "Status and limits",
]


def words(text: str) -> int:
    """How many words a person reads: addresses of links are not read."""
    return len(re.sub(r"\]\([^)]*\)", "]", text).split())


def test_it_begins_with_one_line_and_a_picture_and_keeps_its_order() -> None:
    name, line, picture = TEXT.split("\n\n")[:3]

    assert name == "# Placet"
    assert "\n" not in line
    assert picture.startswith("![")
    assert re.findall(r"^## (.+)$", TEXT, re.MULTILINE) == PARTS


def test_it_is_read_in_minutes() -> None:
    prose = without_blocks(TEXT)
    paragraphs = [part for part in prose.split("\n\n") if not part.lstrip().startswith(("|", "#"))]
    sentences = [line for part in paragraphs for line in re.split(r"^- ", part, flags=re.MULTILINE)]

    assert words(prose) < 1_000
    assert max(map(words, sentences)) <= 60


def test_its_programs_are_short() -> None:
    programs = [block.text for block in blocks_of(TEXT) if block.language == "python"]

    assert len(programs) == 2
    for program in programs:
        assert len([line for line in program.splitlines() if line.strip()]) <= 14


@pytest.mark.parametrize("row", rows_of(section(README, "Compared")), ids=lambda row: row[0])
def test_each_claim_of_the_comparison_leads_to_a_page(row: list[str]) -> None:
    ours = row[1]

    assert re.fullmatch(r"\[[^\]]+\]\(docs/[^)]+\)", ours)
    assert "no" not in row[2:]


def test_eight_things_and_five_promises() -> None:
    assert section(README, PARTS[1]).count("\n- **") == 8
    promises = rows_of(section(README, PARTS[8]))
    assert len(promises) == 5
    for _, command in promises:
        file = command.strip("`").split()[-1]
        assert (ROOT / file).exists()
