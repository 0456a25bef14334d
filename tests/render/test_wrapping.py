"""Lines are broken between words, and what people copy is not broken at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from placet.render.wrapping import StreamWrap, cut_line, wrap_rich, wrap_text, wrap_words
from placet.safe_text import columns
from tests.properties.effort import examples

WORDS = st.lists(st.text(alphabet="abc-/.`字", min_size=1, max_size=30), min_size=1, max_size=30)
LEADS = st.sampled_from(["", "  ", "  - ", "✗ ", "[2] ✓ ", "  12. ", "  story: ", "  repository   ", "  │ "])
LONG = "one two three four five six seven eight nine ten eleven twelve"

LONG_PATH = "/a/very/long/path/that/is/longer/than/any/line/of/forty/columns"


def streamed(text: str, width: int | None, *cuts: int) -> str:
    shown: list[str] = []
    wrap = StreamWrap(shown.append, lambda: width)
    begin = 0
    for cut in sorted({*cuts, len(text)}):
        wrap.feed(text[begin:cut])
        begin = cut
    wrap.feed("\n")
    return "".join(shown)


@examples(200)
@given(LEADS, WORDS, st.integers(24, 100))
def test_every_word_is_there_once_and_lines_fit_unless_a_word_does_not(
    lead: str, words: list[str], width: int
) -> None:
    text = lead + " ".join(words)

    lines = wrap_text(text, width).split("\n")

    pieces = " ".join(line.removeprefix("  │ ") if number else line for number, line in enumerate(lines))
    assert pieces.split() == text.split()
    for line in lines:
        # Between backticks are several words that count as one.
        assert columns(line) <= width or len(line.removeprefix(lead).split()) == 1 or "`" in line


@pytest.mark.parametrize(
    ("line", "indent"),
    [
        (LONG, ""),
        (f"  {LONG}", "  "),
        (f"  - {LONG}", "    "),
        (f"✗ {LONG}", "  "),
        (f"  because: {LONG}", "    "),
        (f"  took         {LONG}", " " * 15),
        (f"[2] ✗ {LONG}", " " * 6),
        (f"  │ {LONG}", "  │ "),
    ],
)
def test_the_rest_of_a_line_is_indented_as_its_beginning_is(line: str, indent: str) -> None:
    _, *rest = wrap_text(line, 45).split("\n")

    assert rest
    for each in rest:
        assert each.startswith(indent)
        assert each[len(indent)] != " "


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        (f"{LONG}: placet code resume 8c1f --db kept.db", "placet code resume 8c1f --db kept.db"),
        (f"{LONG} (its turns: placet explain 8c1f.1 --db k.db) and more", "placet explain 8c1f.1 --db k.db)"),
        (f"To see it: git -C /a/b/c show placet/8c1f. {LONG}", "git -C /a/b/c show placet/8c1f."),
        (f"{LONG} `python -m pip install pytest` {LONG}", "`python -m pip install pytest`"),
        (f"{LONG} {LONG_PATH}", LONG_PATH),
        (f"      placet run plan.json --db {'x' * 60}", f"placet run plan.json --db {'x' * 60}"),
    ],
)
def test_what_people_copy_stays_on_one_line(text: str, whole: str) -> None:
    assert any(whole in line for line in wrap_text(text, 40).split("\n"))


def test_where_there_is_no_terminal_nothing_is_broken() -> None:
    assert wrap_text(LONG, None) == LONG
    assert wrap_rich(Text(LONG), None).plain == LONG
    assert streamed(LONG, None, 5, 6) == f"{LONG}\n"


def test_colours_stay_on_their_words() -> None:
    text = Text(f"  {LONG}", style="dim")
    text.stylize("bold", text.plain.index("eight"), text.plain.index(" nine"))

    wrapped = wrap_rich(text, 30)

    assert wrapped.plain == wrap_text(text.plain, 30)
    assert [wrapped.plain[span.start : span.end] for span in wrapped.spans if span.style == "bold"] == [
        "eight"
    ]


def test_a_change_is_shown_as_it_is() -> None:
    line = Text(f"+    {LONG}", no_wrap=True)

    assert wrap_rich(line, 30) is line


@examples(200)
@given(
    st.text(alphabet="ab `\n-|", max_size=120), st.lists(st.integers(0, 120), max_size=6), st.integers(24, 60)
)
def test_pieces_are_broken_as_the_whole_would_be(text: str, cuts: list[int], width: int) -> None:
    whole = streamed(text, width)

    assert streamed(text, width, *cuts) == whole
    assert whole.split() == text.split()


def test_an_answer_in_pieces_is_broken_between_words() -> None:
    lines = streamed(f"- {LONG}\n{LONG}", 30, *range(120)).splitlines()

    assert max(map(len, lines)) <= 30
    assert lines[1].startswith("  ")
    assert " ".join(" ".join(lines).split()) == f"- {LONG} {LONG}"


@pytest.mark.parametrize("listing", [f"```\n{LONG}\n```", f"| {LONG} |"], ids=["fence", "table"])
def test_listings_and_tables_of_an_answer_stay_as_they_are(listing: str) -> None:
    assert streamed(listing, 30) == f"{listing}\n"


def test_words_can_be_cut_where_nothing_may_reach_the_margin() -> None:
    assert wrap_words("ab " + "x" * 9, 4, cuts=True) == ["ab", "xxxx", "xxxx", "x"]
    assert [*cut_line("a  b", 2)] == ["a ", " b"]
