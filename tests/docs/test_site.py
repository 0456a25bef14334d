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


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--config-file", str(config), "--site-dir", str(site)],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it: any warning about links, anchors or the navigation fails."""
    folder = tmp_path_factory.mktemp("site")

    done = build(CONFIG, folder)

    assert done.returncode == 0, done.stderr
    return folder


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


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = Reader(page.read_text(encoding="utf-8")).loaded
        assert loaded
        assert [url for url in loaded if re.match(r"\s*(?:\w+:)?//", url)] == [], page
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert re.findall(r"""(?:url\(|@import)\s*["']?(?:\w+:)?//""", text) == [], style


def test_every_page_is_found_by_search(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))

    found = {entry["location"].partition("#")[0] for entry in index["docs"]}

    assert found == {url for _, url in shown_pages()}


def test_a_page_says_the_same_as_in_a_plain_view_of_the_repository(site: Path) -> None:
    """The site is made by another dialect of Markdown than what people read beside the code."""
    plain = MarkdownIt("commonmark").enable("table")

    for page, url in shown_pages():
        text = page.read_text(encoding="utf-8")
        in_repository = Reader(plain.render(text))
        on_site = Reader((site / url).read_text(encoding="utf-8"))
        shown, expected = "".join(on_site.said), "".join(in_repository.said)
        assert first_difference(shown, expected) is None, url
        assert on_site.anchors == anchors(page), url


@pytest.mark.parametrize(
    ("text", "nav", "code"),
    [
        pytest.param("[a](b.md#two)", ["a.md", "b.md"], 0, id="nothing wrong"),
        pytest.param("[a](gone.md)", ["a.md", "b.md"], 1, id="a link to nowhere"),
        pytest.param("[a](b.md#three)", ["a.md", "b.md"], 1, id="an anchor that is not there"),
        pytest.param("[a](/b.md)", ["a.md", "b.md"], 1, id="a link from the root"),
        pytest.param("[a](b.md)", ["a.md"], 1, id="a page that is not in the navigation"),
    ],
)
def test_the_build_refuses_what_would_mislead_a_reader(
    text: str, nav: list[str], code: int, tmp_path: Path
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text(f"# One\n\n{text}\n")
    (tmp_path / "docs" / "b.md").write_text("# B\n\n## Two\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text(json.dumps({"INHERIT": str(CONFIG), "nav": nav, "hooks": [], "watch": []}))

    done = build(config, tmp_path / "site")

    assert done.returncode == code, done.stderr
