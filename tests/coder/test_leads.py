"""A change in words: what is kept of a diff, and where it fits again."""

from __future__ import annotations

import difflib

from hypothesis import given
from hypothesis import strategies as st

from assent.coder.leads import CONTEXT, change_words, places
from assent.coder.python_source import Function

SOURCE = (
    "def total(prices):\n    whole = 1\n    for price in prices:\n        whole += price\n    return whole"
)
"""As lines 11 to 15 of a file."""


def function(source: str = SOURCE, path: str = "prices.py", first: int = 11) -> Function:
    last = first + source.count("\n")
    return Function(path=path, name="total", first=first, last=last, source=source)


def lead_of(old: str, new: str, path: str = "prices.py") -> str:
    rows = difflib.unified_diff(
        old.split("\n"), new.split("\n"), f"a/{path}", f"b/{path}", "", "", CONTEXT, ""
    )
    return change_words("\n".join([f"diff --git a/{path} b/{path}", *rows]))


def applied(lead: str, source: str = SOURCE) -> str | None:
    """A function after the change of a lead, if it fits."""
    for place in places(lead, [function(source)]):
        rows = source.split("\n")
        rows[place.first - 11 : place.last - 10] = place.rows
        return "\n".join(rows)
    return None


@given(st.lists(st.sampled_from(["a", "b", " c", "", "-d", "+e", "@@ f"]), min_size=1, max_size=8), st.data())
def test_a_change_of_one_place_makes_the_same_of_the_same(rows: list[str], data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(rows)))
    end = data.draw(st.integers(begin, len(rows)))
    put = data.draw(st.lists(st.sampled_from(["x", "  y", "@@ z"]), min_size=begin == end, max_size=3))
    old, new = "\n".join(rows), "\n".join([*rows[:begin], *put, *rows[end:]])
    lead = lead_of(old, new)

    assert (applied(lead, old) is not None) == bool(lead)
    # Where the same lines stand twice, it may fit at either place.
    if len(set(rows)) == len(rows) and lead:
        assert applied(lead, old) == new


def test_a_line_that_was_only_added_goes_between_the_same_two() -> None:
    guarded = SOURCE.replace("    whole = 1", "    if not prices:\n        return 0\n    whole = 1")

    assert applied(lead_of(SOURCE, guarded)) == guarded


def test_of_lines_that_are_alike_the_one_between_the_same_two_is_changed() -> None:
    twice = "def share(one):\n    if one.owns:\n        return 1\n    if one.works:\n        return 1"
    mended = "return 2".join(twice.rsplit("return 1", 1))

    assert applied(lead_of(twice, mended), twice) == mended


def test_what_stands_around_it_may_be_outside_of_the_function() -> None:
    """The last line of a function changes, and another one follows in the file."""
    file, mended = f"{SOURCE}\n\n\nx = 1", f"{SOURCE[:-5]}0\n\n\nx = 1"

    assert applied(lead_of(file, mended)) == f"{SOURCE[:-5]}0"


def test_it_fits_nowhere_else() -> None:
    lead = lead_of(SOURCE, SOURCE.replace("whole = 1", "whole = 0"))

    assert applied(lead) is not None
    assert applied(lead, SOURCE.replace("whole = 1", "whole = 2")) is None
    assert list(places(lead, [function(path="other.py")])) == []
    assert list(places("", [function()])) == []
    assert list(places("I set it to 0.", [function()])) == []
    assert list(places(lead.partition("\n")[0], [function()])) == []
    assert list(places("\n".join(lead.split("\n")[:2]), [function()])) == []


def test_of_several_places_none_is_chosen() -> None:
    apart = SOURCE.replace("    return", "    # Done.\n    # All.\n    return")
    lead = lead_of(apart, apart.replace("= 1", "= 0").replace("return whole", "return -whole"))

    assert lead.count("@@ prices.py") == 2
    assert applied(lead, apart) is None


def test_two_lines_that_are_near_each_other_are_one_place() -> None:
    there = SOURCE.replace("= 1", "= 0").replace("return whole", "return -whole")

    assert applied(lead_of(SOURCE, there)) == there


def test_the_file_of_each_change_is_told() -> None:
    words = change_words(
        "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n--- a\n+++ b\n"
        "diff --git a/y.py b/y.py\nnew file mode 100644\n--- /dev/null\n+++ b/y.py\n@@ -0,0 +1 @@\n+new\n"
        "\\ No newline at end of file\n"
    )

    assert words.split("\n")[1:] == ["@@ x.py", "--- a", "+++ b", "@@ y.py", "+new"]
    assert change_words("") == ""
