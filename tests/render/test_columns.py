"""Lists in columns: ids whole, nothing cut in a pipe, every line within a terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from placet.render.columns import Column, draw_columns, shorten_words
from placet.safe_text import columns as columns_of

COLUMNS = [
    Column("run"),
    Column("status"),
    Column("took", right=True, from_width=90),
    Column("source", is_text=True),
]
TASK = "mend the test that fails since the clock went back an hour in autumn, and say why it did so"


def lines(rows: list[list[str]], width: int | None) -> list[str]:
    return [line.plain for line in draw_columns(COLUMNS, rows, width)]


def test_in_a_pipe_nothing_is_cut_and_every_column_is_there() -> None:
    drawn = lines([["a" * 60, "succeeded", "2 s", TASK * 3], ["b", "partial", "12 min", ""]], None)

    assert drawn[0].split() == ["run", "status", "took", "source"]
    assert drawn[1].endswith(TASK * 3)
    assert drawn[2].startswith("b ")
    assert drawn[2].index("12 min") + 6 == drawn[1].index("2 s") + 3


def test_on_a_terminal_a_text_is_cut_between_words_and_columns_are_left_out() -> None:
    narrow = lines([["3f2a9c01d4e5", "succeeded", "2 s", TASK]], 80)
    wide = lines([["3f2a9c01d4e5", "succeeded", "2 s", TASK]], 100)

    assert narrow[1] == "3f2a9c01d4e5  succeeded  mend the test that fails since the clock went back an…"
    assert "took" not in narrow[0]
    assert "2 s" in wide[1]
    assert wide[1].endswith("…")


def test_an_id_that_is_too_long_stands_whole_on_a_line_of_its_own() -> None:
    drawn = lines([["a" * 70, "succeeded", "", TASK], ["short", "partial", "", TASK]], 80)

    assert drawn[1] == "a" * 70
    assert drawn[2].index("succeeded") == drawn[3].index("partial")


def test_on_a_very_narrow_terminal_the_text_is_below() -> None:
    drawn = lines([["3f2a9c01d4e5", "succeeded", "", TASK]], 40)

    assert drawn[1] == "3f2a9c01d4e5  succeeded"
    assert drawn[2].startswith("  mend the test")


words = st.text(alphabet=st.sampled_from("abc é漢 "), max_size=120)
names = st.text(alphabet="abcdef.0123", min_size=1, max_size=90)


@given(
    rows=st.lists(st.tuples(names, st.sampled_from(["partial", "succeeded"]), words, words), max_size=6),
    width=st.integers(40, 140),
)
def test_whatever_is_listed_fits_and_every_id_is_whole(
    rows: list[tuple[str, str, str, str]], width: int
) -> None:
    listed = [[name, status, took[:8].strip(), task] for name, status, took, task in rows]

    drawn = lines(listed, width)
    piped = "\n".join(lines(listed, None))

    for name, _, _, task in listed:
        assert any(line == name or line.startswith(f"{name} ") for line in drawn)
        assert task.rstrip() in piped
    ids = {name for name, *_ in rows}
    assert all(columns_of(line) <= width for line in drawn if line not in ids)


@given(text=words, width=st.integers(1, 60))
def test_a_cut_text_is_a_beginning_and_says_that_it_is_cut(text: str, width: int) -> None:
    cut = shorten_words(text, width)

    assert columns_of(cut) <= width
    assert cut == text or (cut.endswith("…") and text.startswith(cut[:-1]))
