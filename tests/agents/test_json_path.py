"""Paths into JSON values."""

from __future__ import annotations

from typing import Any

import pytest

from placet.agents.json_path import MOST_SEGMENTS, JsonPath
from placet.errors import UsageError

BOOK = {
    "store": {
        "book": [{"title": "A", "price": 8}, {"title": "B", "price": 12}, {"title": "C"}],
        "open": True,
    },
    "a b": {"it's": 1},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$", [BOOK]),
        ("$.store.open", [True]),
        ("$.store.book[0].title", ["A"]),
        ("$.store.book[-1].title", ["C"]),
        ("$.store.book[*].title", ["A", "B", "C"]),
        ("$.store.book[ 0 : 2 ].title", ["A", "B"]),
        ("$.store.book[::-1].title", ["C", "B", "A"]),
        ("$.store.book[::0]", []),
        ("$..price", [8, 12]),
        ("$..[0].title", ["A"]),
        ("$['store']['open']", [True]),
        ("$[\"a b\"]['it\\'s']", [1]),
        ("$['\\u0061 b'].*", [1]),
        ("$.store.book.title", []),
        ("$.store.book[3]", []),
        ("$.store[0]", []),
        ("$.nothing.here", []),
    ],
)
def test_a_path_finds_what_is_there(path: str, found: list[Any]) -> None:
    assert JsonPath(path).find(BOOK) == found


@pytest.mark.parametrize(
    "path",
    [
        "",
        "store",
        "$store",
        "$.",
        "$..",
        "$.[0]",
        "$[",
        "$[]",
        "$[0",
        "$[01]",
        "$['a]",
        "$.a b",
        "$[?@.a]",
        "$[0,1]",
    ],
)
def test_what_is_no_path_is_refused_with_the_place(path: str) -> None:
    with pytest.raises(UsageError, match=r"is no JSON path: at character \d+"):
        JsonPath(path)


def test_a_path_of_too_many_segments_is_refused() -> None:
    JsonPath("$" + ".a" * MOST_SEGMENTS)

    with pytest.raises(UsageError, match="segments"):
        JsonPath("$" + ".a" * (MOST_SEGMENTS + 1))
