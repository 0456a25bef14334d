"""A change in words: what is kept of a diff, and where it fits again."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.coder.leads import CONTEXT, change_words, place
from placet.coder.python_source import Function

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
    found = place(lead, [function(source)])
    if found is None:
        return None
    rows = source.split("\n")
    rows[found.first - 11 : found.last - 10] = found.rows
    return "\n".join(rows)


ROWS = st.sampled_from(["a", "b = 1", "c()", "# -", "+d", "", "'@@ e'", "if f: g"])


@given(st.lists(ROWS, min_size=1, max_size=8), st.data())
def test_a_change_of_one_place_makes_the_same_of_the_same(lines: list[str], data: st.DataObject) -> None:
    rows = ["def f():", *(f"    {line}" for line in lines), "    return"]
    begin = data.draw(st.integers(1, len(rows)))
    end = data.draw(st.integers(begin, len(rows)))
    put = data.draw(
        st.lists(st.sampled_from(["    x", "    y = -1", "    '@@'"]), min_size=begin == end, max_size=3)
    )
    changed = [*rows[:begin], *put, *rows[end:]]
    old, new = "\n".join(rows), "\n".join(changed)
    lead = lead_of(f"import z\n\n{old}\n\nz = 1", f"import z\n\n{new}\n\nz = 1")

    found = applied(lead, old)

    # Where the same lines stand twice, it may belong to either place; so it is put at none.
    assert found in (None, new)
    if len(set(rows)) == len(rows) and len(changed) > 1:
        assert found == new


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
    assert place(lead, [function(path="other.py")]) is None
    assert place("", [function()]) is None
    assert place("I set it to 0.", [function()]) is None
    assert place(lead.partition("\n")[0], [function()]) is None
    assert place("\n".join(lead.split("\n")[:2]), [function()]) is None


def test_what_is_not_as_it_was_written_down_is_not_tried() -> None:
    """Cut short, cleaned, or with a secret taken out: that would be other code."""
    lead = lead_of(SOURCE, SOURCE.replace("whole = 1", "whole = 0\n    key = 'abc'"))

    assert applied(lead) is not None
    assert applied(lead[:-5]) is None
    assert applied(lead.replace("abc", "***")) is None
    assert applied(f"{lead} ") is None


def test_of_several_places_none_is_chosen() -> None:
    apart = SOURCE.replace("    return", "    # Done.\n    # All.\n    return")
    lead = lead_of(apart, apart.replace("= 1", "= 0").replace("return whole", "return -whole"))

    assert lead.count("@@ prices.py") == 2
    assert applied(lead, apart) is None


def test_two_lines_that_are_near_each_other_are_one_place() -> None:
    there = SOURCE.replace("= 1", "= 0").replace("return whole", "return -whole")

    assert applied(lead_of(SOURCE, there)) == there


def test_what_fits_twice_is_put_nowhere() -> None:
    twice = "def f(x):\n    if x:\n        y = 1\n        g(y)\n    else:\n        y = 1\n        g(y)"
    lead = change_words("+++ b/prices.py\n@@ -3 +3 @@\n-        y = 1\n+        y = 0\n")

    assert applied(lead, twice) is None
    assert applied(lead, twice.replace("else:\n        y = 1", "else:\n        y = 2")) is not None


def test_the_same_place_in_a_function_and_in_one_inside_it_is_one() -> None:
    outer = "def outer():\n    def inner():\n        return 1\n    return inner"
    lead = lead_of(outer, outer.replace("return 1", "return 2"))
    inner = Function(
        path="prices.py", name="inner", first=12, last=13, source="\n".join(outer.split("\n")[1:3])
    )

    assert place(lead, [function(outer), inner]) is not None


def test_lines_around_it_that_are_others_by_now_are_looked_at() -> None:
    guarded = SOURCE.replace("    whole = 1", "    if not prices:\n        return 0\n    whole = 1")
    lead = lead_of(SOURCE, guarded)

    assert applied(lead, SOURCE.replace("def total(prices):", "def total(prices, tax):")) is None


@pytest.mark.parametrize(
    "evil",
    [
        f"{SOURCE}\n\n\nimport os",
        f"{SOURCE}\n\n\ndef total(prices):\n    return 3",
        "total = sum",
        SOURCE.replace("def total", "def totals"),
        f"@cache\n{SOURCE}\nx = 1",
    ],
)
def test_nothing_is_written_around_a_function(evil: str) -> None:
    assert applied(lead_of(SOURCE, evil)) is None


def test_the_file_of_each_change_is_told() -> None:
    words = change_words(
        "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n--- a\n+++ b\n"
        "diff --git a/y.py b/y.py\nnew file mode 100644\n--- /dev/null\n+++ b/y.py\n@@ -0,0 +1 @@\n+new\n"
        "\\ No newline at end of file\n"
    )

    assert words.split("\n")[1:] == ["@@ x.py", "--- a", "+++ b", "@@ y.py", "+new"]
    assert change_words("") == ""
