"""A diff as it is drawn: coloured by what a line is, cut with a count, and never over the edge."""

from __future__ import annotations

from placet.render.diff import diff_block, diff_counts, diff_lines
from placet.safe_text import columns

DIFF = """--- a/x
+++ b/x
@@ -1,3 +1,3 @@
 stays
--- goes, and looks like a head
-goes
+++ comes, and looks like a head
+comes
"""


def test_a_line_is_coloured_by_what_it_is_and_not_by_what_it_looks_like() -> None:
    styles = [str(line.style) for line in diff_lines(DIFF)]

    assert styles == ["bold", "bold", "cyan", "", "red", "red", "green", "green"]
    assert diff_counts(DIFF) == (2, 2)


def test_nothing_of_a_diff_steers_a_terminal() -> None:
    drawn = [line.plain for line in diff_block("@@ -0,0 +1 @@\n+\x1b[2J\u202e\rx", 80)]

    assert drawn[1:] == ["  │ +\\e[2J\\u202e\\rx"]


def test_a_long_line_goes_on_behind_another_bar_and_loses_nothing() -> None:
    text = "+" + "one two three " * 30 + "x" * 200 + " 漢字" * 40

    drawn = list(diff_block(f"@@ -0,0 +1 @@\n{text}", 60))[1:]

    assert max(columns(line.plain) for line in drawn) <= 60
    assert "".join(line.plain[4:] for line in drawn) == text
    assert [line.plain[:4] for line in drawn[:3]] == ["  │ ", "  ┊ ", "  ┊ "]
    # Where there are words, a line ends behind one.
    assert drawn[0].plain.endswith(" ")


def test_what_is_left_out_is_counted() -> None:
    diff = "@@ -0,0 +1,500 @@\n" + "\n".join(f"+{n}" for n in range(500))

    drawn = [line.plain for line in diff_block(diff, 80, most=100)]

    assert len(drawn) == 101
    assert [line for line in drawn if "401 lines" in line]
