"""Everything a tool can do wrong, short of ending the process, by name."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from placet import ToolError


class Unspeakable(Exception):
    """An error that cannot even be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Own(BaseException):
    """Not an Exception, so that a plain `except Exception` lets it through."""


@dataclass
class Holder:
    inside: Any


def _recurse() -> Any:
    return _recurse()


def _loop() -> list[Any]:
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    return cyclic


def _deep() -> list[Any]:
    inner: list[Any] = []
    for _ in range(3000):
        inner = [inner]
    return inner


def _raiser(error: Callable[[], BaseException]) -> Callable[[], Any]:
    def misbehave() -> Any:
        raise error()

    return misbehave


RAISES: dict[str, Callable[[], Any]] = {
    name: _raiser(error)
    for name, error in {
        "Exception": lambda: Exception("plain"),
        "no words": Exception,
        "KeyError": lambda: KeyError("k"),
        "Own": lambda: Own("mine"),
        "SystemExit": lambda: SystemExit(3),
        "SystemExit None": SystemExit,
        "SystemExit object": lambda: SystemExit(object()),
        "CancelledError": asyncio.CancelledError,
        "StopIteration": lambda: StopIteration(1),
        "StopAsyncIteration": StopAsyncIteration,
        "GeneratorExit": GeneratorExit,
        "RecursionError": lambda: RecursionError("deep"),
        "MemoryError": MemoryError,
        "AssertionError": AssertionError,
        "TimeoutError": TimeoutError,
        "ConnectionError": lambda: ConnectionResetError("gone"),
        "ConnectionRefusedError": ConnectionRefusedError,
        "EOFError": EOFError,
        "OSError": lambda: OSError(2, "no file"),
        "UnicodeError": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        "half a character": lambda: ValueError("\ud800"),
        "Unspeakable": Unspeakable,
        "ExceptionGroup": lambda: ExceptionGroup("many", [ValueError("1"), TypeError("2")]),
        "BaseExceptionGroup": lambda: BaseExceptionGroup("many", [Own("1"), SystemExit(1)]),
        "ToolError": lambda: ToolError("said so"),
        "ToolError final": lambda: ToolError("said so", retry=False),
        "ToolError unknown": lambda: ToolError("who knows", unknown=True),
        "ToolError empty": lambda: ToolError(""),
        "ToolError half": lambda: ToolError("\udfff"),
    }.items()
}
RAISES["recursion"] = _recurse

RETURNS: dict[str, Callable[[], Any]] = {
    "NaN": lambda: math.nan,
    "infinity": lambda: {"a": [-math.inf]},
    "set": lambda: {1, 2},
    "object": object,
    "a class": lambda: Holder,
    "loop": _loop,
    "deep": _deep,
    "bytes": lambda: b"\xff",
    "number as key": lambda: {1: 2},
    "half a character": lambda: ["\ud800"],
    "half a character as key": lambda: {"\ud800": 1},
    "dataclass with itself": lambda: Holder(_loop()),
    "generator": lambda: (n for n in range(3)),
    "exception": lambda: ValueError("returned"),
    "module": lambda: math,
    "Ellipsis": lambda: ...,
    "more digits than can be written": lambda: [10**5000],
}

FINE: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "text": lambda: "ok $a0.output",
    "large": lambda: 10**400,
    "nested": lambda: {"a": [{"b": [1, 2.5, None, True]}]},
    "tuple": lambda: (1, (2,)),
    "dataclass": lambda: Holder([1]),
    "Decimal": lambda: Decimal("NaN"),
}
