"""A change of one place of a function, to be tried: what stands there then, line for line.

Keep true:
1. A change leaves the function as valid Python that says something else than before.
2. What says the same as one that was had before is not had again.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

import msgspec

from placet.coder.python_source import Function, compiles, parse_piece
from placet.ir.to_dict import ToDict


class Change(ToDict, msgspec.Struct, frozen=True):
    """Lines of a file, and the text that replaces them."""

    path: str
    """Path of the file."""
    first: int
    """First line that is replaced, from 1."""
    last: int
    """Last line that is replaced; `first - 1` if the text is inserted."""
    text: str
    """The new text."""
    surprise: float = 0.0
    """How unlikely the model finds the lines that are there now."""
    is_remembered: bool = False
    """Whether the change comes from a repair and not from the model."""


class Changes:
    """The changes of one function, each once."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._rows = function.source.split("\n")
        # One that is part of another function may use names of that, and then does not compile by itself.
        self._compiles = (tree := parse_piece(self._rows)) is not None and compiles(tree)
        self._had = {self._of(self._rows)}

    def made(self, first: int, last: int, rows: Sequence[str], surprise: float = 0.0) -> Change | None:
        """The change that replaces these lines of the file, if it is one."""
        meaning = self._meaning(first, last, rows)
        if meaning is None or meaning in self._had:
            return None
        self._had.add(meaning)
        return Change(self._function.path, first, last, "\n".join(rows), surprise)

    def makes_sense(self, first: int, last: int, rows: Sequence[str]) -> bool:
        """Whether it would be valid Python, new or not."""
        return self._meaning(first, last, rows) is not None

    def _meaning(self, first: int, last: int, rows: Sequence[str]) -> str | None:
        begin, end = first - self._function.first, last - self._function.first + 1
        return self._of([*self._rows[:begin], *rows, *self._rows[end:]])

    def _of(self, rows: Sequence[str]) -> str | None:
        """What a function says, without its looks; None if that is no Python."""
        tree = parse_piece(rows)
        if tree is None or (self._compiles and not compiles(tree)):
            return None
        return ast.dump(tree)
