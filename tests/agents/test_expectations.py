"""Each kind of expectation, held and not held."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.agents.expectations import SHOWN, unmet, unmet_check, unmet_regex
from placet.agents.spec import Expectations
from placet.sandbox.confinement import Isolation
from placet.sandbox.workspace import Workspace


@pytest.mark.parametrize(
    ("expected", "output", "called"),
    [
        ({"expect": "Hello"}, "well, HELLO there", []),
        ({"expect": "straße"}, "die STRASSE", []),
        ({"json": {"$.name": "Ada", "$.age": 36}}, '{"name": "Ada", "age": 36.0}', []),
        ({"json": {"$.tags[*]": "b"}}, 'Here:\n```json\n{"tags": ["a", "b"]}\n```', []),
        ({"json": {"$.gone": None}}, '{"gone": null}', []),
        ({"called": ("read_file",)}, "", ["list_dir", "read_file"]),
        ({"not_called": ("shell",)}, "", ["read_file"]),
    ],
)
def test_what_holds_brings_no_words(expected: dict[str, Any], output: str, called: list[str]) -> None:
    assert unmet(Expectations(**expected), output, called) == []


@pytest.mark.parametrize(
    ("expected", "output", "called", "says"),
    [
        ({"expect": "hello"}, "bye", [], "containing 'hello', got 'bye'"),
        ({"json": {"$.name": "Ada"}}, '{"name": "Bob"}', [], "at $.name, got '\"Bob\"'"),
        ({"json": {"$.name": "Ada"}}, "{}", [], "nothing there"),
        ({"json": {"$.ok": True}}, '{"ok": 1}', [], "expected 'true' at $.ok, got '1'"),
        ({"json": {"$.gone": None}}, "{}", [], "nothing there"),
        ({"json": {"$": 1}}, "no json", [], "expected JSON, got 'no json'"),
        ({"called": ("read_file",)}, "", ["read_File"], "that 'read_file' is called; called were: read_File"),
        ({"not_called": ("shell",)}, "", ["shell"], "'shell' is not called, and it was"),
    ],
)
def test_what_does_not_hold_says_what_was_expected_and_what_came(
    expected: dict[str, Any], output: str, called: list[str], says: str
) -> None:
    (said,) = unmet(Expectations(**expected), output, called)

    assert says in said


def test_every_expectation_that_fails_is_said() -> None:
    expected = Expectations(expect="x", regex="y", called=("a",), not_called=("b",), json={"$": 1})

    assert len(unmet(expected, "", ["b"])) == 4


@given(st.text(max_size=600))
def test_failures_are_cut_and_steer_nothing(output: str) -> None:
    (said,) = unmet(Expectations(expect="not in there \u2603"), output, [])

    assert len(said) < SHOWN * 2 + 100
    assert not set(said) & {"\x1b", "\x07", "\n", "\r", "\u202e"}


async def test_a_regular_expression_is_found_or_not() -> None:
    assert await unmet_regex(r"\b\d{3}\b", "it is 212 F") == []
    assert await unmet_regex("\ud800", "half of \ud800") == []
    assert await unmet_regex("^a", "ba") == ["expected an answer matching '^a', got 'ba'"]


async def test_a_regular_expression_that_takes_too_long_is_ended_and_red() -> None:
    (said,) = await unmet_regex("(a+)+$", "a" * 60 + "b", timeout_s=0.3)

    assert "matching '(a+)+$', and looking for it took longer than 0.3 s" in said


async def test_a_check_runs_where_the_agent_worked(tmp_path: Path) -> None:
    (tmp_path / "made.txt").write_text("made")
    workspace = Workspace(tmp_path)
    try:
        none = Isolation("none")
        assert await unmet_check("grep -q made made.txt", workspace, none) == []
        (said,) = await unmet_check("echo oh no; exit 3", workspace, none)
    finally:
        workspace.close()

    assert "it ended with exit code 3; it wrote 'oh no'" in said
