"""Every page is followed as a reader would: its Python runs, its commands print what it says they print."""

from __future__ import annotations

import re
import runpy
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.docs.pages import (
    DOCS,
    NOT_RUN,
    ROOT,
    Trial,
    blocks_of,
    data_home,
    environment,
    name_of,
    pages,
    plain,
    programs_in,
)
from tests.warm import Warm

SERVER = "DATABASE_URL"
"""A page that names it is followed with a real Postgres server behind it."""


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_a_page_does_what_it_says(
    page: Path, tmp_path: Path, warm: Warm, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    if "placet doctor" not in text:
        # Who asks is shown how it is tried; all others only use what was found.
        request.getfixturevalue("known_isolation")(data_home(tmp_path))
    if SERVER in text:
        # Asked for by name, so that other pages start no server.
        monkeypatch.setenv(SERVER, request.getfixturevalue("postgres_url"))

    Trial(name_of(page), text, tmp_path, warm.command, warm.python).run()


def texts_of(picture: Path) -> list[str]:
    """Every text in a picture, times masked."""
    return [line for item in ElementTree.parse(picture).iter() for line in plain(item.text or "")]


def test_the_picture_of_the_trip_shows_it_as_it_is(tmp_path: Path, warm: Warm) -> None:
    """Drawn anew, the picture differs in times alone."""
    trip = "examples/trip"
    inputs = f"--tools {trip}/tools.py --policies {trip}/policies.toml --state {trip}/state.json"

    subprocess.run(
        ["sh", "-c", f"placet run {trip}/plan.json {inputs} --svg {tmp_path}/demo.svg"],
        cwd=ROOT,
        env=environment(tmp_path, warm.command),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert texts_of(DOCS / "images" / "demo.svg") == texts_of(tmp_path / "demo.svg"), (
        "the picture is old: run examples/plan_demo.py, copy examples/out/trip.svg to docs/images/demo.svg"
    )


def test_the_picture_of_a_terminal_shows_what_the_commands_print(tmp_path: Path, warm: Warm) -> None:
    terminal = runpy.run_path(str(DOCS / "images" / "terminal.py"))

    shown = "\n".join(texts_of(terminal["PICTURE"]))
    printed = ElementTree.fromstring(
        terminal["draw"](terminal["screen"](programs_in(tmp_path, warm.command)))
    )

    assert shown == "\n".join(line for item in printed.iter() for line in plain(item.text or "")), (
        "the picture is old: run docs/images/terminal.py"
    )


def test_the_pictures_of_tables_show_what_the_commands_print(tmp_path: Path, warm: Warm) -> None:
    """Ids, dates and times differ, and so do the widths of columns."""
    terminal = runpy.run_path(str(DOCS / "images" / "terminal.py"))

    for width, lines in terminal["tables"](programs_in(tmp_path, warm.command)).items():
        picture = terminal["PICTURE"].with_name(f"tables-{width}.svg")
        label = ElementTree.parse(picture).getroot().attrib["aria-label"]
        printed = ElementTree.fromstring(terminal["draw"](lines, width, label))

        assert max(len(line.plain) for line in lines) <= width
        assert words_of(ElementTree.parse(picture).getroot()) == words_of(printed), (
            "the picture is old: run docs/images/terminal.py"
        )


def words_of(picture: ElementTree.Element) -> list[str]:
    """Every word in a picture of tables; ids, dates and times are masked."""
    text = " ".join(line for item in picture.iter() for line in plain(item.text or ""))
    return re.sub(r"\b\d\d-\d\d \d\d:\d\d\b", "MOMENT", text).split()


def test_hardly_any_block_is_left_out() -> None:
    tried = [block for page in pages() for block in blocks_of(page.read_text(encoding="utf-8"))]

    assert sum(block.language in ("python", "console") for block in tried) > 60
    assert sum(block.is_skipped for block in tried) <= 4


PRINTS = '```python\nprint("one", 2)\n```\n'


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        pytest.param(PRINTS + "```output\none 3\n```\n", "it printed", id="another output"),
        pytest.param(PRINTS, "does not show", id="an output that is not shown"),
        pytest.param("```output\none 2\n```\n", "no python block", id="an output of nothing"),
        pytest.param("```python\n1 / 0\n```\n", "ZeroDivisionError", id="code that raises"),
        pytest.param("```console\n$ placet --version\nplacet 9.9\n```\n", "it printed", id="another version"),
        pytest.param(
            "```console\n$ placet frobnicate\n```\n```console\n$ echo $?\n0\n```\n", "$ echo", id="exit code"
        ),
        pytest.param(
            "```console\n$ sh -c 'kill -9 $$'\n$ echo $?\n9\n```\n", "137", id="exit code of what was killed"
        ),
        pytest.param('```json\n{"a": 1, "a": 2}\n```\n', "stands twice", id="no JSON"),
        pytest.param('```json\n{"actions": [{"tol": "x"}]}\n```\n', "mean nothing", id="no action"),
        pytest.param('```toml\n[[rule]]\nname = "n"\nkind = "deny"\n```\n', "no kind of rule", id="no rule"),
        pytest.param("```bash\nls\n```\n", "not tried by anything", id="a language nobody tries"),
        pytest.param("```py\n1\n```\n", "not tried by anything", id="Python that is only shown"),
        pytest.param(
            "  ```python\n  1\n  ```\n", "fences stand alone", id="a fence that would be passed over"
        ),
        pytest.param("```python title=a.py\n1\n```\n", "titles in quotes", id="a title without quotes"),
    ],
)
def test_a_page_that_is_wrong_is_found_out(
    page: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checks themselves: each of these would mislead a reader."""
    monkeypatch.chdir(tmp_path)

    with pytest.raises(Exception) as caught:
        Trial("page.md", page, tmp_path).run()

    assert problem in str(caught.value)


def test_what_differs_from_run_to_run_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (
        '```python title="tools.py"\nfrom placet import tool\n\n\n@tool\ndef t() -> int:\n    return 7\n```\n'
        '```json title="plan.json"\n{"actions": [{"id": "a", "tool": "t"}]}\n```\n'
        "```console\n$ placet run plan.json --tools tools.py\n✓ succeeded plan.json 1 action, 1 layer, 9 s\n"
        "└── layer 1\n    └── ✓ a  t  succeeded  1.5 s  → ...\n...\n  cost: 1 tool call, <1 ms of work\n"
        "  story: placet explain 0123456789ab\n```\n"
        f"{NOT_RUN}\n```python\n1 / 0\n```\n"
    )

    trial = Trial("page.md", page, tmp_path)
    trial.run()

    assert trial.steps == 3


def test_an_id_that_a_page_shows_stands_for_the_one_that_was_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (
        "```console\n$ echo id 0123456789ab; echo 0123456789ab again\nid ffffffffffff\nffffffffffff again\n"
        "$ printf %s ffffffffffff > said.txt\n```\n"
    )

    Trial("page.md", page, tmp_path).run()

    assert (tmp_path / "said.txt").read_text() == "0123456789ab"
