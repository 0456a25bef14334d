"""Untrusted text is shown, never obeyed."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.render.text import count, duration, listing, value
from placet.safe_text import clean, clean_json, columns, shorten

STEERS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0001-\U000e007f]"
)
ANY_TEXT = st.text(st.characters(), max_size=60)
"""Every code point, surrogates included."""


def test_what_steers_a_terminal_becomes_a_visible_escape() -> None:
    assert clean("\x1b[31mred\x1b[0m") == "\\e[31mred\\e[0m"
    assert clean("a\nb\tc\r") == "a\\nb\\tc\\r"
    assert clean("\x00\x9b\x7f") == "\\x00\\x9b\\x7f"
    assert clean("abc\u202edcba") == "abc\\u202edcba"
    assert clean("half \ud83d") == "half \\ud83d"
    assert clean("hidden \U000e0041") == "hidden \\U000e0041"


@pytest.mark.parametrize("hidden", [*"\u034f\u115f\u17b4\u2800\u3164\ufe00\ufe0f\uffa0\ufff0\U0001d173"])
def test_what_nobody_sees_is_spelled_out(hidden: str) -> None:
    assert clean(f"a{hidden}b").isascii()


def test_ordinary_text_of_any_language_stays() -> None:
    for text in ("grün", "日本語", "עברית", "a\u200db", "👩‍👩‍👧", "❤\ufe0f", "[red]not markup[/red]"):
        assert clean(text) == text


def test_lines_are_kept_only_where_asked_for() -> None:
    assert clean("a\r\nb\nc", lines=True) == "a\nb\nc"
    assert clean("a\rb", lines=True) == "a\\rb"


@given(st.dictionaries(ANY_TEXT, ANY_TEXT, max_size=3))
def test_json_means_the_same_after_cleaning(value: dict[str, str]) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=1)

    cleaned = clean_json(text)

    assert json.loads(cleaned) == value
    assert not STEERS.search(cleaned.replace("\n", ""))


@given(ANY_TEXT)
def test_nothing_that_steers_is_left_and_cleaning_twice_is_cleaning_once(text: str) -> None:
    once = clean(text)

    assert not STEERS.search(once)
    assert clean(once) == once
    assert once.encode().decode() == once


@given(ANY_TEXT, st.integers(min_value=2, max_value=40))
def test_a_limit_is_kept(text: str, limit: int) -> None:
    assert columns(clean(text, limit)) <= limit


def test_shortening_says_that_something_is_missing() -> None:
    assert shorten("abcdef", 6) == "abcdef"
    assert shorten("abcdefg", 6) == "abcde…"
    assert shorten("日本語文字", 6) == "日本…"


def test_values_are_shown_as_json_whatever_they_hold() -> None:
    assert value({"a": [1, None]}) == '{"a":[1,null]}'
    assert value("x" * 100, 10) == '"xxxxxxxx…'
    assert "\ud800" not in value("\ud800")
    assert value(object(), 8).endswith("…")


def test_times_and_counts_are_said_as_people_say_them() -> None:
    assert [duration(ms) for ms in (None, -1, 0, 0.4, 999.6, 61_000, 3_700_000)] == [
        "",
        "",
        "<1 ms",
        "<1 ms",
        "1.0 s",
        "1 min 1 s",
        "1 h 1 min",
    ]
    assert count(1, "action") == "1 action"
    assert count(2, "retry", "retries") == "2 retries"
    assert listing(["a\n", "b", "c"], limit=2) == "'a\\n', 'b' and 1 more"
