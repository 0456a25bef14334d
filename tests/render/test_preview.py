"""What a call would do, as it is shown before anybody allows it; and calls in one line."""

from __future__ import annotations

import pytest

from placet.render.calls import came_words, given_words
from placet.render.preview import split_texts


def test_texts_of_several_lines_are_shown_apart_wherever_they_stand() -> None:
    given = {"edits": [{"old": "a\nb", "new": "c"}], "text": "one\n", "n": 3}

    rest, texts = split_texts(given)

    assert rest == {"edits": [{"old": "(2 lines, below)", "new": "c"}], "text": "one\n", "n": 3}
    assert [tuple(block) for block in texts] == [("parameter 'edits.1.old'", "a\nb")]


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"a":', "{}", "[1]", "a (2 lines):", "x: 1", '{"a": "\\ud800"}', "\x1b[2J\n", "{" * 9000],
)
def test_whatever_a_tool_answers_becomes_one_clean_line(text: str) -> None:
    for words in (came_words(text), came_words(text, {"a": None}), given_words({text: text, "n": [text]})):
        assert "\n" not in words
        assert "\x1b" not in words
