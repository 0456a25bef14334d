"""Bring files from outside docs/ into the site: the project's own pages, and sources that pages link to.

Pages keep the relative links that work in a plain view of the repository. Here a link that leaves docs/, or
leads back into it, is turned into a link between pages of the site. A link to anything that is not a file
stays as it is, and the strict build refuses it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

PROJECT_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "examples/README.md")
DOCS, PROJECT = "docs/", "project/"
"""Where pages are in the repository, and where the site shows what is elsewhere in it."""
_LINK = re.compile(r"(?<=\]\()[^)\s#:]+(?=[#)])")
_CELL = re.compile(r"<td\b.*?</td>", re.DOTALL)


def _path_of(uri: str) -> str:
    """Return the path in the repository of a file of the site."""
    return uri.removeprefix(PROJECT) if uri.startswith(PROJECT) else DOCS + uri


def _uri_of(path: str) -> str:
    """Return the name in the site of a file of the repository."""
    if path.startswith(DOCS):
        return path.removeprefix(DOCS)
    return PROJECT + (path if path.endswith(".md") else f"{path}.md")


def _target(path: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), link))


def _file(config: MkDocsConfig, path: str) -> File:
    text = (Path(config.config_file_path).parent / path).read_text(encoding="utf-8")
    if path.endswith(".md"):
        return File.generated(config, _uri_of(path), content=text)
    language = posixpath.splitext(path)[1].removeprefix(".") or "text"
    page = f"---\nsearch: {{exclude: true}}\n---\n\n# {path}\n\n~~~~~~ {language}\n{text.rstrip()}\n~~~~~~\n"
    return File.generated(config, _uri_of(path), content=page, inclusion=InclusionLevel.NOT_IN_NAV)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the project's pages, and every file outside docs/ that a page links to."""
    root = Path(config.config_file_path).parent
    pages = list(files.documentation_pages())

    def add(path: str) -> None:
        file = _file(config, path)
        files.append(file)
        pages.append(file)

    for path in PROJECT_PAGES:
        add(path)
    for page in pages:  # It grows meanwhile: a file that was added may link to others.
        for link in _LINK.findall(page.content_string):
            path = _target(_path_of(page.src_uri), link)
            is_outside = not path.startswith((DOCS, "../")) and (root / path).is_file()
            if is_outside and _uri_of(path) not in files.src_uris:
                add(path)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links that leave docs/, or lead back into it, into links between pages of the site."""
    here = page.file.src_uri
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]  # It names every page itself.
    if here.startswith(("adr/", PROJECT)):
        # Whoever searches wants a guide or a reference first, then how it came about.
        page.meta["search"] = {"boost": 0.5, **page.meta.get("search", {})}

    def in_site(link: re.Match[str]) -> str:
        uri = _uri_of(_target(_path_of(here), link[0]))
        if not (here.startswith(PROJECT) or uri.startswith(PROJECT)) or uri not in files.src_uris:
            return link[0]
        return posixpath.relpath(uri, posixpath.dirname(here))

    return _LINK.sub(in_site, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show `\\|` in a table as the bar that it stands for: Python-Markdown leaves it as it is in code."""
    return _CELL.sub(lambda cell: cell[0].replace("\\|", "|"), html)
