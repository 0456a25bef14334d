"""Arithmetic from text, worked out by a small parser: nothing is ever handed to Python to evaluate.

Operators mean what they mean in Python: `**` binds tighter than a sign on its left and groups from the right,
`//` and `%` round towards minus infinity, `/` gives a float.

Keep true:
1. No input takes long: length, nesting and the size of whole numbers are bounded before work is done on them.
2. Whole numbers stay exact until something that is not exact is asked of them.
3. A result is a finite number, or an error that names the position (counted from 1).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import NoReturn, TypeAlias

import msgspec

from placet.errors import ToolError
from placet.truncation import truncate

Number: TypeAlias = "int | float"

MOST_CHARACTERS = 1_000
MOST_NESTING = 100
MOST_BITS = 10_000
"""About 3,000 digits: more than anybody reads, and less than JSON can carry."""

_TOKEN = re.compile(
    r"\s*(?:"
    r"(?P<number>(?:[0-9]+(?:_[0-9]+)*\.?(?:[0-9]+(?:_[0-9]+)*)?|\.[0-9]+(?:_[0-9]+)*)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*)"
    r"|(?P<sign>\*\*|//|[-+*/%(),]))"
)
_BINDING = {"+": 1, "-": 1, "*": 2, "/": 2, "//": 2, "%": 2, "**": 4}
_SIGN_BINDING = 3
"""Between `*` and `**`: -2**2 is -(2**2), and 2**-1 is allowed."""

_HINTS = {
    "^": "Write ** for a power.",
    "×": "Write * to multiply.",
    "·": "Write * to multiply.",
    "÷": "Write / to divide.",
    "−": "Write - to subtract.",
    "√": "Write sqrt(...).",
    "π": "Write pi.",
    "=": "Write one expression, without an equals sign.",
}
_CONSTANTS = {"pi": math.pi, "e": math.e, "tau": math.tau}


class _Token(msgspec.Struct, frozen=True):
    kind: str
    """number, name, sign or end."""
    text: str
    at: int


class _Function(msgspec.Struct, frozen=True):
    most: int
    """Arguments; each function takes at least one."""
    work: Callable[..., Number]


def _round(value: Number, digits: Number = 0) -> Number:
    if not isinstance(digits, int) or abs(digits) > 300:
        # Python would build 10**digits, whatever its size.
        raise ValueError("digits is a whole number from -300 to 300")
    return round(value, digits) if digits else round(value)


def _sum(*values: Number) -> Number:
    return sum(values)


_FUNCTIONS = {
    "abs": _Function(1, abs),
    "round": _Function(2, _round),
    "floor": _Function(1, math.floor),
    "ceil": _Function(1, math.ceil),
    "min": _Function(MOST_CHARACTERS, lambda *values: min(values)),
    "max": _Function(MOST_CHARACTERS, lambda *values: max(values)),
    "sum": _Function(MOST_CHARACTERS, _sum),
    "sqrt": _Function(1, math.sqrt),
    "exp": _Function(1, math.exp),
    "log": _Function(2, math.log),
    "log2": _Function(1, math.log2),
    "log10": _Function(1, math.log10),
    "sin": _Function(1, math.sin),
    "cos": _Function(1, math.cos),
    "tan": _Function(1, math.tan),
    "asin": _Function(1, math.asin),
    "acos": _Function(1, math.acos),
    "atan": _Function(1, math.atan),
    "degrees": _Function(1, math.degrees),
    "radians": _Function(1, math.radians),
}

FUNCTION_NAMES = tuple(_FUNCTIONS)


def evaluate(expression: str) -> Number:
    """The value of an arithmetic expression.

    >>> evaluate("2 + 3 * 4"), evaluate("-2 ** 2"), evaluate("sqrt(2)")
    (14, -4, 1.4142135623730951)

    Raises:
        ToolError: it is no expression, or has no value; the message says where.
    """
    if len(expression) > MOST_CHARACTERS:
        raise ToolError(
            f"The expression has {len(expression):,} characters, and {MOST_CHARACTERS:,} are the most. "
            "Calculate it in parts.",
            retry=False,
        )
    return _Reader(_tokens(expression)).whole()


def _fail(problem: str, at: int) -> NoReturn:
    raise ToolError(f"Cannot calculate: {problem}, at position {at + 1}.", retry=False)


def _fail_with_hint(problem: str, at: int, hint: str) -> NoReturn:
    raise ToolError(f"Cannot calculate: {problem}, at position {at + 1}. {hint}", retry=False)


def _tokens(expression: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    end = len(expression.rstrip())
    while at < end:
        token = _TOKEN.match(expression, at)
        if token is None:
            at += len(expression[at:]) - len(expression[at:].lstrip())
            character = expression[at]
            hint = _HINTS.get(
                character, "Numbers, + - * / // % **, parentheses and functions are understood."
            )
            _fail_with_hint(f"{character!r} means nothing here", at, hint)
        kind = token.lastgroup or ""
        found.append(_Token(kind, token[kind], token.start(kind)))
        at = token.end()
    found.append(_Token("end", "", end))
    return found


class _Reader:
    """Reads tokens from left to right and works the value out on the way."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._next = 0
        self._nesting = 0

    def whole(self) -> Number:
        if self._peek().kind == "end":
            raise ToolError("Cannot calculate: the expression is empty.", retry=False)
        value = self._expression(1)
        token = self._peek()
        if token.kind != "end":
            self._unexpected(token, "an operator")
        return value

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _expression(self, least: int) -> Number:
        """What stands here, up to an operator that binds less than `least`."""
        self._nesting += 1
        if self._nesting > MOST_NESTING:
            _fail_with_hint(
                f"more than {MOST_NESTING} levels of nesting", self._peek().at, "Calculate it in parts."
            )
        value = self._operand()
        while (binding := _BINDING.get(self._peek().text, 0)) >= least:
            sign = self._take()
            # Powers group from the right, and a sign may stand before an exponent.
            right = self._expression(_SIGN_BINDING if sign.text == "**" else binding + 1)
            value = _apply(sign, value, right)
        self._nesting -= 1
        return value

    def _operand(self) -> Number:
        token = self._take()
        if token.kind == "number":
            return _number(token)
        if token.kind == "name":
            return self._named(token)
        if token.text in ("+", "-"):
            value = self._expression(_SIGN_BINDING)
            return -value if token.text == "-" else value
        if token.text == "(":
            value = self._expression(1)
            self._close(token)
            return value
        self._unexpected(token, "a number")

    def _named(self, token: _Token) -> Number:
        called = self._peek().text == "("
        if token.text in _FUNCTIONS:
            if not called:
                _fail(f"'{token.text}' is a function and wants its arguments in parentheses", token.at)
            return self._call(token, _FUNCTIONS[token.text])
        if token.text in _CONSTANTS:
            return _CONSTANTS[token.text]
        known = [*_FUNCTIONS, *_CONSTANTS]
        near = get_close_matches(token.text.lower(), known, n=1)
        hint = f"Did you mean '{near[0]}'?" if near else f"Known are {', '.join(known)}."
        _fail_with_hint(f"'{truncate(token.text, 40)}' is unknown", token.at, hint)

    def _call(self, name: _Token, function: _Function) -> Number:
        bracket = self._take()
        given: list[Number] = []
        if self._peek().text != ")":
            given.append(self._expression(1))
            while self._peek().text == ",":
                self._take()
                given.append(self._expression(1))
        self._close(bracket)
        if not 1 <= len(given) <= function.most:
            wanted = {1: "1 number", 2: "1 or 2 numbers"}.get(function.most, "1 or more numbers")
            _fail(f"'{name.text}' takes {wanted}, and got {len(given)}", name.at)
        return _worked(name, lambda: function.work(*given))

    def _close(self, bracket: _Token) -> None:
        token = self._peek()
        if token.text == ")":
            self._take()
            return
        if token.kind == "end":
            _fail("this parenthesis is never closed", bracket.at)
        self._unexpected(token, "an operator or ')'")

    def _unexpected(self, token: _Token, wanted: str) -> NoReturn:
        if token.kind == "end":
            _fail(f"it ends where {wanted} should stand", token.at)
        hint = "Write thousands without commas." if token.text == "," else "Multiplication is written with *."
        if token.text == "," or token.kind != "sign" or token.text == "(":
            _fail_with_hint(f"{truncate(token.text, 40)!r} stands where {wanted} should", token.at, hint)
        _fail(f"{token.text!r} stands where {wanted} should", token.at)


def _number(token: _Token) -> Number:
    text = token.text.replace("_", "")
    if text.isdigit():
        return int(text)
    return _finite(float(text), token)


def _apply(sign: _Token, left: Number, right: Number) -> Number:
    match sign.text:
        case "+":
            return _worked(sign, lambda: left + right)
        case "-":
            return _worked(sign, lambda: left - right)
        case "*":
            return _worked(sign, lambda: left * right)
        case "/":
            return _worked(sign, lambda: left / right)
        case "//":
            return _worked(sign, lambda: left // right)
        case "%":
            return _worked(sign, lambda: left % right)
        case _:
            return _power(sign, left, right)


def _power(sign: _Token, base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int):
        # Asked before the work: 9**9**9 has 370 million digits. 1, 0 and -1 may have any exponent.
        if abs(base) > 1 and abs(exponent) * (abs(base).bit_length() - 1) > MOST_BITS:
            if exponent > 0:
                _too_large(sign)
            return 0.0
    elif base < 0 and isinstance(exponent, float) and not exponent.is_integer():
        _fail("a negative number has no real power with a fraction in its exponent", sign.at)
    return _worked(sign, lambda: base**exponent)


def _worked(token: _Token, work: Callable[[], Number]) -> Number:
    try:
        value = work()
    except ZeroDivisionError:
        _fail("a division by zero", token.at)
    except OverflowError:
        _too_large(token)
    except ValueError as error:
        words = str(error).removeprefix("math domain error") or "it has no value for this"
        _fail(f"'{token.text}': {words}", token.at)
    return _finite(value, token)


def _finite(value: Number, token: _Token) -> Number:
    if isinstance(value, int):
        if value.bit_length() > MOST_BITS:
            _too_large(token)
    elif not math.isfinite(value):
        _too_large(token)
    return value


def _too_large(token: _Token) -> NoReturn:
    _fail("the number becomes too large", token.at)
