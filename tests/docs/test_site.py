"""The documentation site: it builds without a warning, needs no network, and says what the pages say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.docs.pages import DOCS, ROOT
from tests.docs.test_links import OTHERS, anchors

CONFIG = ROOT / "mkdocs.yml"


BUILD = (
    "import sys\nfrom mkdocs.__main__ import cli\n\n"
    "for config, site in zip(sys.argv[1::2], sys.argv[2::2]):\n"
    "    try:\n        cli(['build', '--config-file', config, '--site-dir', site])\n"
    "    except SystemExit as end:\n        print('exit', end.code or 0, flush=True)\n"
)
"""Builds one site after the other, as the command does it, and tells each exit code."""


def build(*configs_and_sites: Path) -> tuple[list[int], str]:
    """Build sites in a process of their own; returns the exit codes and all that was said."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD, *map(str, configs_and_sites)],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return [int(code) for code in re.findall(r"^exit (\d+)$", done.stdout, re.MULTILINE)], done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it: any warning about links, anchors or the navigation fails."""
    folder = tmp_path_factory.mktemp("site")

    codes, said = build(CONFIG, folder)

    assert codes == [0], said
    return folder


@pytest.fixture(scope="module")
def read(site: Path) -> dict[str, Reader]:
    """Every page of the site by where it is, as a browser reads it."""
    pages = site.rglob("*.html")
    return {page.relative_to(site).as_posix(): Reader(page.read_text(encoding="utf-8")) for page in pages}


def shown_pages() -> Iterator[tuple[Path, str]]:
    """Every Markdown file of the site, and where it is in the site."""
    for page in [*sorted(DOCS.rglob("*.md")), *OTHERS]:
        path = page.relative_to(DOCS) if page.is_relative_to(DOCS) else "project" / page.relative_to(ROOT)
        yield page, path.as_posix().replace("README.md", "index.md").removesuffix("md") + "html"


class Reader(HTMLParser):
    """Reads a page as a browser would: what it loads, its anchors, and what its article says."""

    STRUCTURE = frozenset(
        ("h2", "h3", "h4", "li", "ol", "ul", "table", "td", "th", "pre", "a", "strong", "em", "img")
    )

    def __init__(self, html: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.said: list[str] = []
        """Words and structure of the article, below its title."""
        self._quiet: list[str] = []
        """Elements that are open and no part of the text: before the title, permalinks, titles of blocks."""
        self._has_begun = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag != "a":
            self.loaded += [given[name] for name in ("src", "href", "srcset", "data") if name in given]
        if re.fullmatch("h[1-6]", tag) and "id" in given:
            self.anchors.add(given["id"])
        if self._quiet or given.get("class") in ("headerlink", "filename"):
            self._quiet.append(tag)
        elif self._has_begun and tag in self.STRUCTURE:
            self.said.append(f"<{tag}>")

    def handle_endtag(self, tag: str) -> None:
        if self._quiet:
            assert self._quiet.pop() == tag
        elif tag in ("h1", "article"):
            self._has_begun = tag == "h1"
        elif self._has_begun and tag in self.STRUCTURE:
            self.said.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if self._has_begun and not self._quiet:
            self.said += data.split()


def first_difference(one: str, other: str) -> tuple[str, str] | None:
    """Return where two texts part, with a little of what follows: shorter to read than both."""
    if one == other:
        return None
    pairs = enumerate(zip(one, other, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
    return one[at:][:80], other[at:][:80]


def test_no_page_loads_anything_from_another_host(site: Path, read: dict[str, Reader]) -> None:
    for page, reader in read.items():
        assert reader.loaded
        assert [url for url in reader.loaded if re.match(r"\s*(?:\w+:)?//", url)] == [], page
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert re.findall(r"""(?:url\(|@import)\s*["']?(?:\w+:)?//""", text) == [], style


def test_every_page_is_found_by_search(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))

    found = {entry["location"].partition("#")[0] for entry in index["docs"]}

    assert found == {url for _, url in shown_pages()}


def test_a_page_says_the_same_as_in_a_plain_view_of_the_repository(read: dict[str, Reader]) -> None:
    """The site is made by another dialect of Markdown than what people read beside the code."""
    plain = MarkdownIt("commonmark").enable("table")

    for page, url in shown_pages():
        text = page.read_text(encoding="utf-8")
        in_repository = Reader(plain.render(text))
        on_site = read[url]
        shown, expected = "".join(on_site.said), "".join(in_repository.said)
        assert first_difference(shown, expected) is None, url
        assert on_site.anchors == anchors(page), url


def test_the_build_refuses_what_would_mislead_a_reader(tmp_path: Path) -> None:
    both = ["a.md", "b.md"]
    cases = {
        "nothing wrong": ("[a](b.md#two)", both, 0),
        "a link to nowhere": ("[a](gone.md)", both, 1),
        "an anchor that is not there": ("[a](b.md#three)", both, 1),
        "a link from the root": ("[a](/b.md)", both, 1),
        "a page that is not in the navigation": ("[a](b.md)", ["a.md"], 1),
        "nothing wrong, after what was": ("[a](b.md#two)", both, 0),
    }
    asked = []
    for name, (text, nav, _) in cases.items():
        folder = tmp_path / name
        (folder / "docs").mkdir(parents=True)
        (folder / "docs" / "a.md").write_text(f"# One\n\n{text}\n")
        (folder / "docs" / "b.md").write_text("# B\n\n## Two\n")
        config = folder / "mkdocs.yml"
        config.write_text(json.dumps({"INHERIT": str(CONFIG), "nav": nav, "hooks": [], "watch": []}))
        asked += [config, folder / "site"]

    codes, said = build(*asked)

    assert dict(zip(cases, codes, strict=True)) == {name: code for name, (_, _, code) in cases.items()}, said
