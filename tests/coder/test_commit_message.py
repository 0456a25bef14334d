"""Commit messages: a subject that ends at a word, and nothing lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.coder.commit_message import message, subject_and_body
from placet.safe_text import clean, columns

LONG = "Replace the deprecated calls of the payment client in the two modules that still had them"


@pytest.mark.parametrize(
    ("text", "subject", "body"),
    [
        ("Fix the discount.", "Fix the discount", ""),
        ("Fix the discount\n\nIt was rounded twice.", "Fix the discount", "It was rounded twice."),
        ("## Sort the imports\n- a.py\n- b.py", "Sort the imports", "- a.py\n- b.py"),
        (f"Fix it. {LONG}", "Fix it", LONG),
        ("x" * 80, "x" * 71 + "…", "x" * 80),
    ],
)
def test_a_text_becomes_subject_and_body(text: str, subject: str, body: str) -> None:
    assert subject_and_body(text) == (subject, body)


def test_a_long_line_is_cut_between_words_and_stands_whole_in_the_body() -> None:
    subject, body = subject_and_body(LONG)

    assert len(subject) <= 72
    assert LONG.startswith(subject.removesuffix("…") + " ")
    assert body == LONG


@given(st.text(max_size=300))
def test_every_word_is_somewhere_and_the_subject_fits(text: str) -> None:
    subject, body = subject_and_body(f"Begin {text}")

    assert "\n" not in subject
    assert 0 < columns(subject) <= 72
    for word in clean(text, lines=True).split()[1:-1]:
        assert word in f"{subject} {body}"


def test_trailers_are_the_last_paragraph() -> None:
    made = message("Fix it", "", "Why it was done.", trailers=["Placet-Round: r1", "Checked-by: true"])

    assert made == "Fix it\n\nWhy it was done.\n\nPlacet-Round: r1\nChecked-by: true\n"


def test_what_maker_and_checker_both_say_stands_there_once() -> None:
    made = message("Sort the imports of a file.", "Sort the imports of a file", "Why.", trailers=[])

    assert made == "Sort the imports of a file\n\nWhy.\n"
