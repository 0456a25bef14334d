"""Every link between pages leads somewhere, and every page can be found."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.docs.pages import DOCS, ROOT, name_of, pages, without_blocks

_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
OTHERS = [ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "examples/README.md")]


def anchors(page: Path) -> set[str]:
    """The headings of a page, as links spell them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", without_blocks(page.read_text(encoding="utf-8")), re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        n = 0
        while (name := plain if not n else f"{plain}-{n}") in found:
            n += 1
        found.add(name)
    return found


def links(page: Path) -> list[str]:
    return _LINK.findall(without_blocks(page.read_text(encoding="utf-8")))


def broken(page: Path) -> list[str]:
    """Links of a page that lead nowhere."""
    found = []
    for link in links(page):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        is_lost = not target.exists() or (anchor and anchor not in anchors(target))
        if is_lost or not target.is_relative_to(ROOT):
            found.append(link)
    return found


@pytest.mark.parametrize("page", [*pages(), *OTHERS], ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_a_link_to_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One\n[a](#one) [b](#two) [c](gone.md) [d](https://example.org) ![e](no.svg)\n")

    assert {"#two", "gone.md", "no.svg"} <= set(broken(page)) <= {"#one", "#two", "gone.md", "no.svg"}


def linked_from(page: Path) -> set[Path]:
    return {(page.parent / link.partition("#")[0]).resolve() for link in links(page)}


def test_the_index_names_every_page() -> None:
    """Pages of the API reference are found through its overview, which the index names."""
    index, overview, api = DOCS / "index.md", DOCS / "reference/python-api.md", DOCS / "reference/api"
    others = [page for page in DOCS.rglob("*.md") if page != index and page.parent != api]

    named = linked_from(index)
    assert [name_of(page) for page in others if page not in named] == []
    assert [name_of(page) for page in api.glob("*.md") if page not in linked_from(overview)] == []


def test_pictures_are_well_formed() -> None:
    pictures = list((DOCS / "images").glob("*.svg"))

    assert pictures
    for picture in pictures:
        assert ElementTree.parse(picture).getroot().tag.endswith("svg")
