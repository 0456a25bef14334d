"""What is said of a text that is no valid Python, JSON or TOML any more."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import ToolError
from placet.sandbox.workspace import Workspace
from placet.tools.builtin.files import file_tools
from placet.tools.builtin.syntax import MOST_LETTERS, parse_python, syntax_problem
from tests.properties.effort import examples


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", "def f():\n    return 1\n"),
        ("a.py", "\ufeffx = 1\n"),
        ("a.py", ""),
        ("a.pyi", "def f() -> int: ...\n"),
        ("a.json", '{"a": [1, 2.5, null]}'),
        ("a.json", "1" * 6000),
        ("a.toml", "[a]\r\nb = 1\r\n"),
        ("tsconfig.json", "{ // with a comment\n}"),
        (".vscode/settings.json", "// so"),
        ("a.txt", "def f(:"),
        ("Makefile", "{"),
        ("a.py", "(" * (MOST_LETTERS + 1)),
    ],
)
def test_what_is_fine_or_unknown_is_no_problem(path: str, text: str) -> None:
    assert syntax_problem(path, text) == ""


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        ("a.py", "x = 1\ndef f(:\n    pass\n", ["invalid syntax", "Line 2, column 7:\n2: def f(:"]),
        ("src/A.PY", "def f():\nreturn 1\n", ["expected an indented block", "Line 2", "2: return 1"]),
        ("a.py", "def f():\r\n    x = 1\r\nreturn x\r\n", ["outside function", "Line 3", "3: return x"]),
        ("a.py", "x = '\0'", ["null"]),
        ("a.py", "x = " + "(" * 5000, ["No valid Python"]),
        ("a.py", "x = " + "-" * 100_000 + "1", ["nested too deeply"]),
        ("a.py", "x = '\ud800'", ["No valid Python"]),
        ("a.json", '{"a": 1,\n "b" 2}', ["No valid JSON", "Line 2, column 6", '2:  "b" 2}']),
        ("a.json", "[" * 100_000, ["nested too deeply"]),
        ("a.toml", "a = 1\nb = \n", ["No valid TOML", "Line 2"]),
        ("a.toml", "a = 'x", ["No valid TOML"]),
        ("a.toml", "a = " + "[" * 50_000, ["nested too deeply"]),
    ],
)
def test_a_problem_is_told_with_its_place_and_line(path: str, text: str, told: list[str]) -> None:
    problem = syntax_problem(path, text)

    assert all(each in problem for each in told), problem
    assert len(problem) < 700


def test_of_a_long_line_the_part_that_is_meant_is_shown() -> None:
    problem = syntax_problem("a.json", f'{{"a": "{"x" * 500}", here}}')

    assert "here" in problem
    assert len(problem) < 400


def test_warnings_about_the_code_are_neither_shown_nor_errors() -> None:
    code = "x = '\\d'\nassert (1, 'always')\ny = 1 is 1\n"

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert syntax_problem("a.py", code) == ""
        parse_python(code)

    assert seen == []
    warnings.simplefilter("error")
    assert syntax_problem("a.py", code) == ""


def test_nothing_of_the_code_runs(tmp_path: Path) -> None:
    syntax_problem("a.py", f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")

    assert not (tmp_path / "ran").exists()


PIECES = st.sampled_from(
    [*"([{}])'\"\\\n:=#,.+-1ab \t\r\0\f", "def ", "'''", "f'{", "\ud800", "\u2028", "é", "[["]
)


@examples(300)
@given(st.sampled_from(["a.py", "a.json", "a.toml"]), st.lists(PIECES, max_size=20).map("".join))
def test_whatever_a_text_holds_there_is_an_answer(path: str, text: str) -> None:
    assert isinstance(syntax_problem(path, text), str)


# In the answers of write_file and edit_file


def tools(folder: Path, **options: Any) -> dict[str, Any]:
    return {tool.name: tool for tool in file_tools(Workspace(folder), **options)}


def test_an_answer_says_at_once_that_a_file_is_broken(tmp_path: Path) -> None:
    made = tools(tmp_path, syntax=True)

    broken = made["write_file"]("a.py", "def f(:\n")
    mended = made["edit_file"]("a.py", "(:", "(): pass")
    worse = made["edit_file"]("a.py", "pass", "return )")

    assert "1: def f(:" in broken["syntax"]
    assert "syntax" not in mended
    assert "unmatched ')'" in worse["syntax"]
    assert (tmp_path / "a.py").read_text() == "def f(): return )\n"


def test_without_being_asked_nothing_is_checked(tmp_path: Path) -> None:
    assert "syntax" not in tools(tmp_path)["write_file"]("a.py", "def f(:\n")


@pytest.mark.parametrize("path", ["tests/test_a.py", "src/../tests/test_a.py", "link/test_a.py", "to_it.py"])
def test_a_path_that_must_not_be_written_is_refused_however_it_is_spelled(tmp_path: Path, path: str) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "tests/test_a.py").write_text("old")
    (tmp_path / "link").symlink_to("tests")
    (tmp_path / "to_it.py").symlink_to("tests/test_a.py")
    made = tools(tmp_path, refuse=lambda path: "is a test" if path.startswith("tests/") else "")

    for name, args in (("write_file", ["new"]), ("edit_file", ["old", "new"])):
        with pytest.raises(ToolError, match="must not be written: it is a test") as caught:
            made[name](path, *args)
        assert not caught.value.retry

    assert (tmp_path / "tests/test_a.py").read_text() == "old"
    assert made["write_file"]("src/a.py", "new")["created"]
