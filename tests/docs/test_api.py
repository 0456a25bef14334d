"""The API reference is complete, is what the source says now, and agrees with the code that runs."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from doctest import DocTestParser, DocTestRunner
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from apidocs.layout import LAYOUT
from apidocs.markdown import FOLDER, OVERVIEW, overview, pages, render, signature
from apidocs.source import Call, Layout, Name, Page, Reference, Row, read
from tests.docs.pages import name_of, without_blocks
from tests.docs.test_links import anchors


@cache
def reference() -> Reference:
    return read(LAYOUT)


def described() -> list[Name]:
    return list(reference().names.values())


def path_of(name: Name) -> str:
    return name.path


# The pages


def test_the_pages_are_those_that_the_source_makes() -> None:
    made = pages(reference())
    written = {path: path.read_text("utf-8") for path in (*FOLDER.glob("*.md"), OVERVIEW)}

    old = [name_of(path) for path in made.keys() | written.keys() if made.get(path) != written.get(path)]
    assert sorted(old) == [], "these pages are out of date; run: make api"


@pytest.mark.parametrize("module", LAYOUT.public)
def test_every_public_name_has_a_heading_and_a_line_in_the_overview(module: str) -> None:
    listed = OVERVIEW.read_text("utf-8")

    for public in importlib.import_module(module).__all__:
        name = reference().names[reference().public[f"{module}.{public}"]]
        heading = public.lower()
        assert heading in anchors(FOLDER / name.page), f"{module}.{public}"
        assert f"(api/{name.page}#{heading})" in listed, f"{module}.{public}"


def test_nothing_public_lacks_a_meaning() -> None:
    assert reference().gaps == []


@pytest.mark.parametrize("page", sorted(FOLDER.glob("*.md")), ids=name_of)
def test_headings_of_a_page_differ_in_more_than_case(page: Path) -> None:
    """Renderers number equal anchors in different ways."""
    headings = re.findall(r"^#+ (.+)$", without_blocks(page.read_text("utf-8")), re.MULTILINE)

    assert len({heading.lower() for heading in headings}) == len(headings)


# The code


def imported(path: str) -> Any:
    """What is defined at a path: the longest part of it that is a module, and attributes of that."""
    parts = path.split(".")
    for size in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:size]))
        except ModuleNotFoundError:
            continue
        for part in parts[size:]:
            found = getattr(found, part)
        return found
    raise AssertionError(path)


Parameter = tuple[str, str, bool]
"""Its name, its kind, and whether it has a default."""


def shape(parameters: list[Parameter]) -> tuple[list[Parameter], set[Parameter]]:
    """Positional parameters in order; keyword-only ones in any."""
    by_keyword = {each for each in parameters if each[1] == "KEYWORD_ONLY"}
    return [each for each in parameters if each not in by_keyword], by_keyword


def written(rows: tuple[Row, ...]) -> list[Parameter]:
    return [(row.name.lstrip("*"), row.kind.name.upper(), row.default is not None) for row in rows]


def running(call: Any) -> list[Parameter]:
    # A class may have a `__wrapped__` of its own, which is not meant for it.
    made = call.__init__ if inspect.isclass(call) and inspect.isfunction(call.__init__) else call
    found = inspect.signature(made).parameters.values()
    return [
        (each.name, each.kind.name, each.default is not each.empty) for each in found if each.name != "self"
    ]


def calls() -> Iterator[tuple[str, Call, Any]]:
    for name in described():
        target = imported(name.path)
        if name.call is not None:
            yield name.path, name.call, target
        for method in name.methods:
            yield f"{name.path}.{method.name}", method, getattr(target, method.name)


def test_signatures_are_those_of_the_code_that_runs() -> None:
    checked = 0
    for path, call, target in calls():
        assert shape(written(call.parameters)) == shape(running(target)), path
        checked += 1

    assert checked > 300


def examples() -> dict[str, str]:
    texts = {name.path: name.doc.text for name in described()}
    texts |= {path: call.doc.text for path, call, _ in calls()}
    return {path: text for path, text in texts.items() if ">>>" in text}


def test_examples_print_what_they_show() -> None:
    problems: list[str] = []
    for path, text in examples().items():
        module = inspect.getmodule(imported(path))
        assert module is not None
        example = DocTestParser().get_doctest(text, vars(module).copy(), path, None, None)
        assert DocTestRunner(verbose=False).run(example, out=problems.append).attempted > 0

    assert "".join(problems) == ""
    assert len(examples()) > 10


def test_types_that_stand_for_a_few_words_explain_exactly_these() -> None:
    explained = 0
    for name in described():
        words = get_args(imported(name.path)) if str(name.value).startswith("Literal[") else ()
        listed = re.findall(r"^- `(\w+)`:", name.doc.text, re.MULTILINE)
        if words and listed:
            assert tuple(listed) == words, name.path
            explained += 1

    assert explained > 20


def test_no_description_begins_with_what() -> None:
    """A description names the thing; "What came of it" does not."""
    texts = {name.path: name.doc.text for name in described()}
    texts |= {path: call.doc.text for path, call, _ in calls()}

    assert [path for path, text in texts.items() if re.match(r"whats?\b", text, re.IGNORECASE)] == []


def test_every_exception_to_the_rules_of_the_layout_is_about_something_described() -> None:
    for names in (LAYOUT.internal, LAYOUT.implements, LAYOUT.see, LAYOUT.last):
        for name in names:
            assert reference().public.get(name, name) in reference().names, name
    for name, members in (*LAYOUT.internal.items(), *LAYOUT.last.items()):
        target = imported(reference().public.get(name, name))
        source = Path(importlib.import_module(target.__module__).__file__ or "").read_text("utf-8")
        attributes = re.findall(r"self\.(\w+)\b.* = ", source)
        for member in members:
            assert hasattr(target, member) or member in attributes, f"{name}.{member}"


# The generator itself

PACKAGE = '''
"""A small package."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

__all__ = ["Box", "Lid", "pack", "unpack"]

Size = Literal["small", "large"]
"""How large it is."""


class Lid(msgspec.Struct, frozen=True):
    """Closes a box."""

    colour: str
    """Its colour."""
    weight: Annotated[int, msgspec.Meta(ge=0)] = 1
    """In grams."""


class Box:
    """Holds things."""

    def __init__(self, size: Size, *, lid: Lid | None = None) -> None:
        """Create an empty box.

        Args:
            size: How large it is.
            lid: Closes it.
        """
        self.size = size
        self._lid = lid

    def put(self, thing: str, *, times: int = 1) -> Lid:
        """Put something into it.

        Args:
            thing: What to put; `Box.size` limits it.
            times: How often.

        Raises:
            ValueError: it is full.
        """

    def put_twice(self, thing: str) -> Lid:
        """Put something into it twice.

        Takes the arguments of `put`.
        """


def pack(box: Box) -> None:
    """Pack a `Box`.

    Args:
        box: The box.
    """


def unpack(box: Box) -> None:
    """Unpack a box.

    Args:
        box: The box.
    """
'''
PAGE = Page("boxes.md", "Boxes", "About boxes.", ("small.Box", "small.Lid", "small.Size", "small.pack"))


def small(folder: Path, source: str = PACKAGE, **layout: Any) -> Reference:
    (folder / "small.py").write_text(source)
    given: dict[str, Any] = {"pages": (PAGE._replace(names=(*PAGE.names, "small.unpack")),), **layout}
    return read(Layout(folder=folder, package="small", public=("small",), **given))


def test_a_complete_package_has_no_gaps(tmp_path: Path) -> None:
    assert small(tmp_path).gaps == []


@pytest.mark.parametrize(
    ("old", "new", "gap"),
    [
        ("            size: How large it is.\n", "", "small.Box.__init__(size): no meaning"),
        ("            times: How often.\n", "", "small.Box.put(times): no meaning"),
        ('    """Its colour."""\n', "", "small.Lid.colour: no meaning"),
        ('    """Closes a box."""\n', "", "small.Lid: no description"),
        ('"""How large it is."""\n', "", "small.Size: no description"),
        ("        box: The box.\n", "        bag: The bag.\n", "small.pack(bag): no such parameter"),
        ("Takes the arguments of `put`.", "", "small.Box.put_twice(thing): no meaning"),
    ],
)
def test_a_gap_is_found(old: str, new: str, gap: str, tmp_path: Path) -> None:
    assert old in PACKAGE

    assert gap in small(tmp_path, PACKAGE.replace(old, new)).gaps


def test_a_name_on_no_page_is_found(tmp_path: Path) -> None:
    found = small(tmp_path, pages=(PAGE._replace(names=("small.Box", "small.Lid", "small.pack")),))

    assert "small.unpack: on no page" in found.gaps
    assert any(gap.startswith("small.Size: on no page, though small.Box mentions it") for gap in found.gaps)


def test_a_page_shows_signatures_links_and_meanings(tmp_path: Path) -> None:
    page = render(small(tmp_path))["boxes.md"]

    assert "```py\nBox(size: Size, *, lid: Lid | None = None)\n```" in page
    assert "| `lid` | <code>[Lid](#lid) \\| None</code> | `None` | Closes it. |" in page
    assert "| `weight` | `int` | `1` | In grams. |" in page
    assert "### `Box.put_twice`" in page
    assert page.count("| `thing` | `str` | required | What to put; [`Box.size`](#box) limits it. |") == 2
    assert "- `ValueError`: it is full." in page
    assert "Pack a [`Box`](#box)." in page
    assert "Takes the arguments" not in page


def test_long_signatures_have_a_line_for_each_parameter(tmp_path: Path) -> None:
    call = next(iter(small(tmp_path).names["small.Box"].methods))
    long = Call(call.name * 30, call.parameters, call.returns, call.doc)

    assert signature(call) == "def put(thing: str, *, times: int = 1) -> Lid"
    assert signature(long).splitlines()[1:] == [
        "    thing: str,",
        "    *,",
        "    times: int = 1,",
        ") -> Lid",
    ]


def test_a_bar_in_backticks_is_refused_in_a_table(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bar"):
        render(small(tmp_path, PACKAGE.replace("In grams.", "One of `1 | 2`.")))


def test_an_overview_without_its_marks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="generated"):
        overview(small(tmp_path), "# Python API\n")


# What the pages say of it


def test_the_definition_of_public_names_every_module_that_is() -> None:
    [definition] = [line for line in OVERVIEW.read_text().splitlines() if line.startswith("**Public**")]

    for module in (*LAYOUT.public, "placet.errors"):
        assert f"`{module}`" in definition or f"`{module}.__all__`" in definition


def test_what_an_approval_holds_has_public_names() -> None:
    for field in ("Confinement", "Recovery", "FileEdit"):
        assert f"placet.{field}" in {name.public for name in described()}


def test_the_last_event_of_a_stream_is_called_by_its_public_name() -> None:
    said = inspect.getdoc(importlib.import_module("placet").Assistant.stream) or ""

    assert "`RunFinished`" in said


def test_the_readme_lists_every_tutorial() -> None:
    readme = (FOLDER.parents[2] / "README.md").read_text()

    for page in (FOLDER.parents[1] / "tutorials").glob("*.md"):
        assert f"docs/tutorials/{page.name}" in readme
