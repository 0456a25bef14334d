"""The parser behind `calculate`: what Python's own arithmetic says, within bounds."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placet.errors import ToolError
from placet.tools.builtin.arithmetic import FUNCTION_NAMES, MOST_BITS, evaluate


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 + 3 * 4", 14),
        ("(2 + 3) * 4", 20),
        ("-2 ** 2", -4),
        ("2 ** -1", 0.5),
        ("2 ** 3 ** 2", 512),
        ("2 ** -3 ** 2", 2**-9),
        ("--1 - -1", 2),
        ("10 - 4 - 3", 3),
        ("7 // -2 * 2", -8),
        ("7 % -3", -2),
        ("6 / 4", 1.5),
        ("1_000 + .5 + 1. + 1e3", 2001.5),
        ("2 ** 200 + 1", 2**200 + 1),
        ("round(3.14159, 2) + round(1234, -2)", 1203.14),
        ("min(3, 1, 2) + max(4) + sum(1, 2)", 8),
        ("sqrt(16) + abs(-3) + floor(2.7) + ceil(2.1)", 12.0),
        ("log(e) + log(8, 2) + log10(1000) + log2(8)", 10.0),
        ("sin(pi / 2) + cos(0) + degrees(pi)", 182.0),
        ("(-1) ** 1_000_001", -1),
        ("2 ** -100000", 0.0),
        ("\t1\n+ 1 ", 2),
    ],
)
def test_expressions_have_the_value_that_python_gives_them(expression: str, value: Any) -> None:
    result = evaluate(expression)

    assert result == pytest.approx(value, rel=1e-12) if isinstance(value, float) else result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("1 +", "ends where a number should stand, at position 4"),
        ("1 + * 2", r"'\*' stands where a number should, at position 5"),
        ("2 3", "'3' stands where an operator should, at position 3"),
        ("2(3)", r"position 2. Multiplication is written with \*"),
        ("1,000", "position 2. Write thousands without commas"),
        ("(1 + (2)", "never closed, at position 1"),
        ("1)", r"'\)' stands where an operator should, at position 2"),
        ("2 ^ 3", r"position 3. Write \*\* for a power"),
        ("1 + $x", r"'\$' means nothing here, at position 5"),
        ("sqr(4)", "'sqr' is unknown, at position 1. Did you mean 'sqrt'"),
        ("sqrt", "wants its arguments"),
        ("sqrt()", "takes 1 number, and got 0"),
        ("log(1, 2, 3)", "takes 1 or 2 numbers, and got 3"),
        ("1 / (2 - 2)", "a division by zero, at position 3"),
        ("0 ** -1", "a division by zero"),
        ("sqrt(-1)", "'sqrt'.*at position 1"),
        ("(-8) ** 0.5", "no real power"),
        ("__import__('os')", "position 1|position 12"),
        ("(1).real", "position 4"),
        ("1 if 2 else 3", "'if' stands"),
        ("[1]", r"'\['"),
        ("'a' * 3", "position 1"),
        ("٣ + 1", "position 1"),
    ],
)
def test_what_is_no_expression_is_refused_with_its_position(expression: str, words: str) -> None:
    with pytest.raises(ToolError, match=words) as refusal:
        evaluate(expression)

    assert refusal.value.retry is False


@pytest.mark.parametrize(
    "expression",
    [
        "10 ** 10 ** 10",
        "9 ** 9 ** 9",
        "(9 ** 9) ** (9 ** 9)",
        "(-9) ** 999999999",
        " * ".join(["9" * 90] * 10) + " ** 999",
        "((10 ** 2999) ** 2) ** 2",
        "1e308 * 10",
        "1e999",
        "exp(1000)",
        "2.0 ** 5000",
        "10 ** 400 * 1.5",
        "round(5, -10 ** 9)",
        "(" * 400 + "1" + ")" * 400,
        "-" * 900 + "1",
        "2 ** " * 190 + "1",
        "1+" * 5000 + "1",
    ],
)
def test_what_would_grow_without_bound_is_refused(expression: str) -> None:
    with pytest.raises(ToolError):
        evaluate(expression)


def test_the_largest_whole_number_is_still_exact() -> None:
    assert evaluate(f"2 ** {MOST_BITS - 1}") == 2 ** (MOST_BITS - 1)
    with pytest.raises(ToolError, match="too large"):
        evaluate(f"2 ** {MOST_BITS - 1} * 2")


LITERALS = st.integers(0, 50).map(str) | st.sampled_from(
    ["0.5", "1.25", "3.", ".75", "1e2", "2E-1", "1_0", "pi"]
)
CALLS = st.sampled_from(["abs", "floor", "ceil", "round", "min", "max", "sqrt"])


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["+", "-", "*", "/", "//", "%", "**", " + ", " - ", " ** "])
    return (
        st.tuples(inner, operators, inner).map("".join)
        | st.tuples(st.sampled_from(["-", "+", "- "]), inner).map("".join)
        | inner.map(lambda text: f"({text})")
        | st.tuples(CALLS, inner).map(lambda pair: f"{pair[0]}({pair[1]})")
    )


EXPRESSIONS = st.recursive(LITERALS, _larger, max_leaves=7)
NAMES = {"floor": math.floor, "ceil": math.ceil, "sqrt": math.sqrt, "pi": math.pi, "abs": abs, "round": round}
NAMES |= {"min": lambda *values: min(values), "max": lambda *values: max(values), "__builtins__": {}}


@given(EXPRESSIONS)
def test_generated_expressions_agree_with_python(expression: str) -> None:
    try:
        value = evaluate(expression)
    except ToolError as refusal:
        if "too large" in str(refusal) or "**" in expression:
            # Python would go on for long, or to infinity, or to complex numbers.
            return
        with pytest.raises((ZeroDivisionError, ValueError, OverflowError)):
            eval(expression, dict(NAMES))
        return

    # Once our own answer is there, Python's is no larger, and quick to get.
    expected = eval(expression, dict(NAMES))
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    "expression",
    [
        "(-2.0) ** (10 ** 3000)",
        "(-1.0) ** (10 ** 3000)",
        "(-1.5) ** -(10 ** 3000)",
        "0.5 ** (10 ** 3000)",
        "(10 ** 3000) ** 0.5",
        "(10 ** 3000) ** -1",
        "round(1.7e308, -308)",
        "10 ** 3000 % 1.5",
    ],
)
def test_what_python_cannot_hold_is_refused_with_its_position(expression: str) -> None:
    with pytest.raises(ToolError, match="at position"):
        evaluate(expression)


HOSTILE = st.sampled_from(
    [
        "(10**3000)",
        "(-10**3000)",
        "1e308",
        "(-1e308)",
        "5e-324",
        "(-5e-324)",
        "0",
        "0.0",
        "(-0.0)",
        "(-1)",
        "(-1.0)",
        "(-2.0)",
        "1.5",
        "(-1.5)",
        "1e16",
        "(2**1024)",
        "(2**1023)",
        "(2**53+1)",
        "(-300)",
        "300",
        "e",
    ]
)
ALL_CALLS = st.sampled_from(FUNCTION_NAMES)


def _hostile(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["+", "-", "*", "/", "//", "%", "**"])
    return (
        st.tuples(inner, operators, inner).map(lambda parts: f"({''.join(parts)})")
        | inner.map(lambda text: f"(-{text})")
        | st.tuples(ALL_CALLS, inner).map(lambda pair: f"{pair[0]}({pair[1]})")
        | st.tuples(ALL_CALLS, inner, inner).map(lambda parts: f"{parts[0]}({parts[1]}, {parts[2]})")
    )


@settings(max_examples=600)
@given(st.recursive(HOSTILE, _hostile, max_leaves=4))
def test_hostile_numbers_give_a_finite_number_or_a_refusal_with_its_position(expression: str) -> None:
    refusal = ""
    try:
        value = evaluate(expression)
    except ToolError as error:
        refusal = str(error)

    if refusal:
        assert "at position" in refusal
    else:
        assert type(value) in (int, float)
        assert isinstance(value, int) or math.isfinite(value)


@given(st.text(alphabet="0123456789+-*/%()., eE_xsqrtabminπ^\x00'\"", max_size=40) | st.text(max_size=20))
def test_any_text_gives_a_finite_number_or_a_refusal(text: str) -> None:
    try:
        value = evaluate(text)
    except ToolError:
        return
    assert math.isfinite(value)
