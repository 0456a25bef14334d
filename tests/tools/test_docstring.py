"""Docstrings in the three usual spellings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.tools.docstring import read_docstring

GOOGLE = """Send a letter
    to someone.

    It may take days.

    Args:
        to (str, optional): who gets it;
            more than one is
            possible
        body: what it says: anything.
            Note: no images.
        **options: more
        unknown_name (int): not a parameter
            of ours

    Returns:
        to: nothing
    """

NUMPY = """Send a letter
    to someone.

    Parameters
    ----------
    to : str, optional
        who gets it;
        more than one is possible
    body, subject : str
        what it says: anything.

        Note: no images.

    Returns
    -------
    to
        nothing
    """

SPHINX = """Send a letter
    to someone.

    :param str to: who gets it;
        more than one is
        possible
    :param body: what it says: anything.
        Note: no images.
    :type body: str
    :param old_name: not a parameter
        of ours
    :returns: nothing
    :raises ValueError: to: nobody
    """


@pytest.mark.parametrize("doc", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_every_spelling_says_the_same(doc: str) -> None:
    description, parameters = read_docstring(doc, ["to", "body"])

    assert description == "Send a letter to someone."
    assert parameters == {
        "to": "who gets it; more than one is possible",
        "body": "what it says: anything. Note: no images.",
    }


def test_numpy_names_that_share_a_line_share_the_text() -> None:
    _, parameters = read_docstring(NUMPY, ["body", "subject"])

    assert parameters["subject"] == parameters["body"]


def test_types_with_brackets_and_colons_are_passed_over() -> None:
    doc = "Do.\n\nArgs:\n    f (Callable[[int], dict[str, int]]): the function\n    g: the other"

    assert read_docstring(doc, ["f", "g"])[1] == {"f": "the function", "g": "the other"}


def test_a_section_right_below_the_summary_is_not_part_of_it() -> None:
    assert read_docstring("Do.\nArgs:\n  a: first", ["a"]) == ("Do.", {"a": "first"})
    assert read_docstring("Do.\n:param a: first", ["a"]) == ("Do.", {"a": "first"})


def test_what_comes_back_or_is_raised_is_no_part_of_the_summary() -> None:
    for heading in ("Returns:", "Raises:", "Example:", "Note:"):
        assert read_docstring(f"Do.\n{heading}\n    a: b", ["a"]) == ("Do.", {})


def test_google_names_that_share_a_line_share_the_text() -> None:
    doc = "Do.\n\nArgs:\n    a, b (int): both\n        of them\n    c: alone"

    assert read_docstring(doc, ["a", "b", "c"])[1] == {"a": "both of them", "b": "both of them", "c": "alone"}


PARAGRAPHS = {
    "google": """Do.

    Args:
        a (dict[str, tuple[int, ...]], optional): first. Defaults to {}.

            Second paragraph: goes on.
        b (Callable[[int], str]): last (of two): yes

    Raises:
        ValueError: a: wrong
    """,
    "numpy": """Do.

    Parameters
    ----------
    a : dict[str, tuple[int, ...]], default {}
        first. Defaults to {}.

        Second paragraph: goes on.
    b : {'x', 'y'}, optional
        last (of two): yes

    Notes
    -----
    a : wrong
    """,
    "sphinx": """Do.

    :param a: first. Defaults to {}.

        Second paragraph: goes on.
    :type a: dict[str, tuple[int, ...]], optional
    :param Callable b: last (of two): yes

    a: wrong
    """,
}


@pytest.mark.parametrize("doc", PARAGRAPHS.values(), ids=PARAGRAPHS)
def test_types_defaults_and_paragraphs_are_read_in_every_spelling(doc: str) -> None:
    assert read_docstring(doc, ["a", "b"]) == (
        "Do.",
        {"a": "first. Defaults to {}. Second paragraph: goes on.", "b": "last (of two): yes"},
    )


def test_the_first_description_of_a_parameter_counts() -> None:
    doc = "Do.\n\nArgs:\n    a: first\n        goes on\n    a: second\n        goes on too"

    assert read_docstring(doc, ["a"])[1] == {"a": "first goes on"}


@pytest.mark.parametrize("doc", [None, "", "   \n  "])
def test_no_docstring_describes_nothing(doc: str | None) -> None:
    assert read_docstring(doc, ["a"]) == ("", {})


LINES = st.sampled_from(
    [
        "Args:",
        "Parameters",
        "-----",
        ":param a: x",
        ":",
        "::",
        "a: b",
        "a (int: b",
        "    a: b",
        "  deeper",
        "",
        "text",
    ]
)


@given(st.lists(LINES | st.text(max_size=20), max_size=15).map("\n".join))
def test_any_text_is_read_without_complaint(doc: str) -> None:
    description, parameters = read_docstring(doc, ["a"])

    assert "\n" not in description
    assert set(parameters) <= {"a"}
    assert all(parameters.values())
