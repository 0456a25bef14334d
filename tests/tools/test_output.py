"""What a tool returned, as JSON that shares nothing with it."""

from __future__ import annotations

import dataclasses
import enum
from collections import OrderedDict, deque
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import NotJson
from placet.ir.json_value import copy_json
from placet.tools.output import to_json


class Color(enum.Enum):
    RED = "red"


class Shade(str, enum.Enum):  # noqa: UP042 - the older spelling prints as Shade.DARK, and must still work
    DARK = "dark"


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Box:
    content: Any
    at: Path = Path("a/b")


class Crate(msgspec.Struct, rename="camel"):
    how_many: int
    boxes: list[Box] = []


class Pair(NamedTuple):
    left: int
    right: list[int]


class Words(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


def test_scalars_come_back_as_they_are() -> None:
    for value in ("text", "ä", 5, 10**400, 1.5, True, None):
        assert to_json(value, "output") is value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Box({"k": (1, 2)}), {"content": {"k": [1, 2]}, "at": "a/b"}),
        (Crate(2, [Box(None)]), {"howMany": 2, "boxes": [{"content": None, "at": "a/b"}]}),
        (Color.RED, "red"),
        ({"shade": Shade.DARK, Shade.DARK: [Level.LOW]}, {"shade": "dark", "dark": [1]}),
        (datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), "2024-01-02T03:04:05Z"),
        ([date(2024, 1, 2)], ["2024-01-02"]),
        (Decimal("1.10"), "1.10"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Path("x") / "y", "x/y"),
        (Pair(1, [2]), [1, [2]]),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (Words("mine"), "mine"),
    ],
)
def test_usual_python_values_have_their_usual_json(value: Any, expected: Any) -> None:
    result = to_json(value, "output")

    assert result == expected
    assert type(result) is type(expected)


def _loop_of_lists() -> Any:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def _loop_of_boxes() -> Any:
    box = Box(None)
    box.content = [box]
    return box


@pytest.mark.parametrize(
    ("value", "place", "hint"),
    [
        ({"a": [1, float("nan")]}, "output.a[1]", "no JSON number"),
        ([float("-inf")], "output[0]", "no JSON number"),
        ({"raw": b"x"}, "output.raw", "base64"),
        (Box(b"x"), "output.content", "base64"),
        (Box({"deep": float("nan")}), "output.content.deep", "no JSON number"),
        ({1, 2}, "output", "sorted"),
        ({1: "a"}, "output", "no string"),
        ({"it": iter([1])}, "output.it", "return a list"),
        (deque([1]), "output", "no JSON form"),
        ([object()], "output[0]", "no JSON form"),
        (Box(object()), "output", "in the Box"),
        (Box, "output", "no JSON form"),
        (["\ud800"], "output[0]", "surrogate"),
        ({"\ud800": 1}, "output", "surrogate"),
        (_loop_of_lists(), "output[0]", "holds itself"),
        (_loop_of_boxes(), "output", "holds itself"),
    ],
)
def test_what_has_no_json_form_is_refused_by_place(value: Any, place: str, hint: str) -> None:
    with pytest.raises(NotJson, match=hint) as refusal:
        to_json(value, "output")

    assert refusal.value.place.startswith(place)


def test_a_coroutine_is_told_that_it_was_not_awaited() -> None:
    async def forgotten() -> None: ...

    coroutine = forgotten()
    try:
        with pytest.raises(NotJson, match="without being awaited"):
            to_json(coroutine, "output")
    finally:
        coroutine.close()


def test_depth_ends_where_copy_json_ends() -> None:
    def nested(depth: int) -> Any:
        value: Any = 1
        for _ in range(depth):
            value = [value]
        return value

    assert to_json(nested(100), "output") == nested(100) == copy_json(nested(100))
    for convert in (to_json, copy_json):
        with pytest.raises(NotJson):
            convert(nested(101), "output")


def test_pydantic_models_are_dumped_as_json() -> None:
    pydantic = pytest.importorskip("pydantic")
    Model = pydantic.create_model("Model", at=(Path, ...), items=(list[int], []))

    assert to_json({"m": Model(at="x", items=[1])}, "output") == {"m": {"at": "x", "items": [1]}}
    assert to_json(Box([Model(at="y")]), "output")["content"] == [{"at": "y", "items": []}]


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
VALUES = st.recursive(
    SCALARS | st.sampled_from([Color.RED, Shade.DARK, Level.LOW, Path("p"), Decimal("2")]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=5), inner, max_size=4)
        | st.builds(Box, inner)
        | st.builds(Crate, st.integers(), st.lists(st.builds(Box, inner), max_size=2))
    ),
    max_leaves=20,
)


def _mutable_ids(value: Any) -> set[int]:
    if isinstance(value, dict):
        return {id(value)}.union(*map(_mutable_ids, value.values()))
    if isinstance(value, (list, tuple)):
        own = {id(value)} if isinstance(value, list) else set()
        return own.union(*map(_mutable_ids, value))
    if isinstance(value, Box):
        return {id(value)} | _mutable_ids(value.content)
    if isinstance(value, Crate):
        return {id(value)} | _mutable_ids(value.boxes)
    return set()


@given(VALUES)
def test_the_result_is_json_and_shares_nothing_with_its_source(value: Any) -> None:
    result = to_json(value, "output")

    assert copy_json(result) == result
    assert msgspec.json.decode(msgspec.json.encode(result)) == result
    assert _mutable_ids(result).isdisjoint(_mutable_ids(value))


@given(st.recursive(SCALARS, lambda i: st.lists(i) | st.dictionaries(st.text(), i), max_leaves=20))
def test_json_comes_back_equal(value: Any) -> None:
    assert to_json(value, "output") == value
