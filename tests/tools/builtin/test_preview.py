"""What a file tool would change: the diff of what then happens, made without writing anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placet.ir.call_facts import Preview
from placet.sandbox.workspace import Workspace
from placet.tools.builtin.changes import Change
from placet.tools.builtin.code import code_tools
from placet.tools.builtin.files import file_tools
from placet.tools.builtin.preview import difference, preview_of
from placet.tools.tool import Tool

CODE = "import os\n\n\ndef one():\n    return 1\n\n\ndef two():\n    return 2\n"
PATCH = """--- a/code.py
+++ b/code.py
@@ -1,1 +1,1 @@
-import os
+import sys
--- /dev/null
+++ b/made.txt
@@ -0,0 +1,1 @@
+made
--- a/gone.txt
+++ /dev/null
@@ -1,1 +0,0 @@
-to go
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Some files."""
    (tmp_path / "code.py").write_text(CODE)
    (tmp_path / "crlf.txt").write_bytes(b"here\r\nthere\r\n")
    (tmp_path / "latin.txt").write_bytes("caf\xe9\n".encode("latin-1"))
    (tmp_path / "gone.txt").write_text("to go\n")
    return tmp_path


@pytest.fixture
def tools(folder: Path) -> dict[str, Tool]:
    """The tools that change files there."""
    workspace = Workspace(folder)
    return {each.name: each for each in (*file_tools(workspace), *code_tools(workspace))}


def preview(tools: dict[str, Tool], tool: str, redact: Any = str, /, **parameters: Any) -> Preview:
    found = tools[tool].preview
    assert found is not None
    return found(parameters, redact)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("write_file", {"path": "new.txt", "text": "a\nb"}),
        ("write_file", {"path": "./code.py", "text": "nothing\n"}),
        ("write_file", {"path": "latin.txt", "text": "plain\n"}),
        ("write_file", {"path": "crlf.txt", "text": "where\nnow", "append": True}),
        ("write_file", {"path": "latin.txt", "text": "caf\xe9", "append": True}),
        ("write_file", {"path": "new.txt", "text": "a", "append": True}),
        ("edit_file", {"path": "crlf.txt", "old": "here\nt", "new": "T"}),
        ("edit_file", {"path": "latin.txt", "old": "caf", "new": "CAF"}),
        ("edit_file", {"path": "code.py", "old": "return", "new": "yield", "replace_all": True}),
        ("replace_function", {"path": "code.py", "name": "two", "source": "def two():\n    return 22\n"}),
        ("replace_lines", {"path": "code.py", "first": 2, "last": 3, "text": ""}),
        ("apply_patch", {"patch": PATCH}),
    ],
)
def test_the_diff_is_of_what_then_happens(
    tools: dict[str, Tool], folder: Path, name: str, parameters: dict[str, Any]
) -> None:
    before = contents(folder)

    said = preview(tools, name, **parameters)

    assert contents(folder) == before
    tools[name](**parameters)
    after = contents(folder)
    happened = [
        Change(path=path, before=before.get(path), after=after.get(path))
        for path in said.paths
        if before.get(path) != after.get(path)
    ]
    assert said.diff == preview_of(happened, (), str).diff
    assert said.diff
    assert {path for path in {*before, *after} if before.get(path) != after.get(path)} == set(said.paths)
    assert set(said.created) == set(after) - set(before)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("edit_file", {"path": "code.py", "old": "nowhere", "new": "x"}),
        ("edit_file", {"path": "code.py", "old": "return", "new": "x"}),
        ("edit_file", {"path": "none.txt", "old": "a", "new": "b"}),
        ("write_file", {"path": "../outside.txt", "text": "x"}),
        ("replace_lines", {"path": "code.py", "first": 90, "last": 91, "text": "x"}),
        ("apply_patch", {"patch": "no patch"}),
    ],
)
def test_a_call_that_would_fail_is_said_to(
    tools: dict[str, Tool], name: str, parameters: dict[str, Any]
) -> None:
    said = preview(tools, name, **parameters)

    assert (said.diff, list(said.shows)) == ("", [])
    assert said.problem


def test_a_text_that_stays_as_it_is_has_no_diff(tools: dict[str, Tool]) -> None:
    said = preview(tools, "write_file", path="code.py", text=CODE)

    assert said.diff == ""
    assert said.problem


def test_a_sealed_file_is_said_to_be_refused(folder: Path) -> None:
    made = file_tools(Workspace(folder), refuse=lambda path: "is sealed" if path == "code.py" else "")
    tools = {each.name: each for each in made}

    assert "is sealed" in preview(tools, "write_file", path="code.py", text="x").problem


def test_what_cannot_be_compared_is_named_and_the_text_is_shown_elsewhere(
    tools: dict[str, Tool], folder: Path
) -> None:
    (folder / "data.bin").write_bytes(b"\x89PNG\x80\x00" * 100)

    binary = preview(tools, "write_file", path="data.bin", text="x")
    long = preview(tools, "write_file", path="new.txt", text="x\n" * 9_000)

    assert "not text" in binary.diff
    assert "too long" in long.diff
    assert not binary.shows
    assert not long.shows


def test_secrets_go_before_texts_are_compared(tools: dict[str, Tool], folder: Path) -> None:
    (folder / "key.txt").write_text("BEGIN\nsecret\nEND\nrest\n")

    def redact(text: str) -> str:
        return text.replace("BEGIN\nsecret\nEND", "[redacted]")

    said = preview(tools, "write_file", redact, path="key.txt", text="rest\n")

    assert "secret" not in said.diff
    assert "-[redacted]" in said.diff


@pytest.mark.parametrize(
    ("old", "new", "shows"),
    [
        ("a\n", "a", ["-a", "+a (no line break at its end)"]),
        ("a\r\nb\r\n", "a\r\nc\r\n", [" a", "-b", "+c"]),
        ("a\r\n", "a\n", ["-a\\r", "+a"]),
        ("a\n", "\x1b[2J\n", ["-a", "+\\e[2J"]),
        ("a\n", "a\n", []),
    ],
)
def test_a_difference_shows_what_goes_and_comes(old: str, new: str, shows: list[str]) -> None:
    assert (difference(old, new) or "").split("\n")[1:] == shows


def test_what_would_take_long_to_compare_is_not_compared() -> None:
    assert difference("x" * 300_000, "y") is None
    assert difference("\n" * 5_000, "y") is None
