"""Every operator of a precondition, also with values it was not made for."""

from __future__ import annotations

from typing import Any

import pytest

from placet import Runtime
from tests.runtime.plans import plan, write

STATE = {
    "int": 5,
    "float": 5.0,
    "big": 10**30,
    "zero": 0,
    "true": True,
    "false": False,
    "null": None,
    "text": "hello",
    "empty": "",
    "list": [1, "a", None, True, [2]],
    "object": {"k": 1, "true": None},
}


async def holds(key: str, operator: str | None = None, value: Any = None) -> bool:
    condition: dict[str, Any] = {"key": key, "value": value}
    if operator is not None:
        condition["operator"] = operator
    rt = Runtime(state=STATE)

    result = await rt.execute(plan(write("a", "ran", True, preconditions=[condition])))

    assert result["a"].status in ("succeeded", "rejected")
    assert rt.state.exists("ran") is (result["a"].status == "succeeded")
    return result["a"].status == "succeeded"


EQUAL = [
    ("int", 5),
    ("int", 5.0),
    ("float", 5),
    ("big", 10**30),
    ("true", True),
    ("false", False),
    ("null", None),
    ("text", "hello"),
    ("empty", ""),
    ("list", [1.0, "a", None, True, [2]]),
    ("object", {"true": None, "k": 1}),
]
UNEQUAL = [
    ("int", 6),
    ("int", "5"),
    ("true", 1),
    ("true", 1.0),
    ("false", 0),
    ("zero", False),
    ("zero", None),
    ("null", False),
    ("null", ""),
    ("text", "Hello"),
    ("list", [1, "a", None, 1, [2]]),
    ("list", [1, "a"]),
    ("object", {"k": 1}),
    ("object", {"k": True, "true": None}),
]


@pytest.mark.parametrize(("key", "value"), EQUAL)
async def test_eq_is_jsons_equality(key: str, value: Any) -> None:
    assert await holds(key, "eq", value)
    assert not await holds(key, "neq", value)


@pytest.mark.parametrize(("key", "value"), UNEQUAL)
async def test_neq_is_its_opposite(key: str, value: Any) -> None:
    assert not await holds(key, "eq", value)
    assert await holds(key, "neq", value)


async def test_eq_is_the_default() -> None:
    assert await holds("int", None, 5)
    assert not await holds("int", None, 6)


async def test_a_value_left_out_is_null() -> None:
    rt = Runtime(state=STATE)

    result = await rt.execute(plan(write("a", "ran", True, preconditions=[{"key": "null"}])))

    assert result.outcome == "succeeded"


@pytest.mark.parametrize(
    ("value", "true_for"),
    [
        (4, {"gt", "gte"}),
        (5, {"gte", "lte"}),
        (5.0, {"gte", "lte"}),
        (5.5, {"lt", "lte"}),
        (10**30, {"lt", "lte"}),
        (-(10**30), {"gt", "gte"}),
    ],
)
@pytest.mark.parametrize("operator", ["gt", "gte", "lt", "lte"])
async def test_ordered_operators_compare_numbers(operator: str, value: Any, true_for: set[str]) -> None:
    assert await holds("int", operator, value) is (operator in true_for)


@pytest.mark.parametrize("operator", ["gt", "gte", "lt", "lte"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("true", 0),
        ("int", False),
        ("text", "a"),
        ("text", "hello"),
        ("null", None),
        ("list", [0]),
        ("object", {}),
        ("int", "4"),
        ("int", None),
        ("empty", 0),
    ],
)
async def test_ordered_operators_on_anything_else_are_false_and_never_raise(
    key: str, value: Any, operator: str
) -> None:
    assert not await holds(key, operator, value)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("text", "ell", True),
        ("text", "", True),
        ("text", "ELL", False),
        ("text", 5, False),
        ("text", None, False),
        ("list", 1, True),
        ("list", 1.0, True),
        ("list", True, True),
        ("list", None, True),
        ("list", [2], True),
        ("list", "b", False),
        ("list", 2, False),
        ("object", "k", True),
        ("object", "true", True),
        ("object", 1, False),
        ("object", "missing", False),
        ("object", True, False),
        ("int", 5, False),
        ("null", None, False),
        ("true", True, False),
    ],
)
async def test_contains_looks_for_a_substring_an_element_or_a_key(
    key: str, value: Any, expected: bool
) -> None:
    assert await holds(key, "contains", value) is expected


@pytest.mark.parametrize("key", list(STATE))
async def test_exists_holds_for_every_value_also_null(key: str) -> None:
    assert await holds(key, "exists")
    assert not await holds(key, "not_exists")


@pytest.mark.parametrize("operator", ["eq", "neq", "gt", "lt", "gte", "lte", "exists", "contains"])
@pytest.mark.parametrize("value", [None, 0, ""])
async def test_on_a_missing_key_only_not_exists_holds(operator: str, value: Any) -> None:
    assert not await holds("missing", operator, value)
    assert await holds("missing", "not_exists", value)


@pytest.mark.parametrize("operator", ["equals", "EQ", "", "==", "not_contains", "__eq__"])
@pytest.mark.parametrize("key", ["int", "missing"])
async def test_an_unknown_operator_fails(operator: str, key: str) -> None:
    assert not await holds(key, operator, 5)


async def test_all_preconditions_must_hold() -> None:
    rt = Runtime(state=STATE)
    both = [{"key": "int", "value": 5}, {"key": "text", "value": "bye"}, {"key": "zero", "value": 1}]

    result = await rt.execute(plan(write("a", "ran", True, preconditions=both)))

    assert result["a"].error == ("precondition not met: 'text' eq \"bye\"; precondition not met: 'zero' eq 1")


async def test_a_long_value_is_cut_in_the_message() -> None:
    rt = Runtime(state=STATE)

    result = await rt.execute(
        plan(write("a", "ran", True, preconditions=[{"key": "int", "value": "x" * 10_000}]))
    )

    assert len(result["a"].error or "") < 200
