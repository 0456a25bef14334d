"""A function read line by line: what the model would have written instead, as changes to try.

Keep true:
1. The same function and the same doubts give the same changes in the same order.
2. A doubt is tried in the smallest way first: one word, then the rest of the line, then a line more.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from placet.coder.angles import head_end, statements
from placet.coder.changes import Change, Changes
from placet.coder.python_source import Function, parse_piece
from placet.inference.passage import Beside, Doubt, Passage
from placet.truncation import truncate, truncate_tail

MOST_CHANGES = 10
"""Of one function, those at which the model is most surprised."""
_MOST_LINES = 80
"""Of one function."""
_LONGEST = 300
"""Characters of a line."""
_BEFORE, _AFTER, _BESIDE = 4_000, 2_000, 2_000
"""Characters around it: a small model reads a few thousand tokens at most."""
_BEGUN = 1.0
_WORD = re.compile(r"\w+|[^\w\s]+|\s+")
_LEAD = "CHANGES.txt"
_LETTER = re.compile(r"\w")


class Line(NamedTuple):
    """A line of a function that is to be read."""

    number: int
    """In the file."""
    passage: Passage
    is_missing: bool = False
    """It is not there: only its beginning is given, and it may belong before the line of that number."""


def lines(function: Function, tests: Sequence[Function], lead: str = "") -> list[Line]:
    """The lines of a function that do something, from the top down; nothing of what cannot be parsed. Beside
    them the model sees the failing test, and what helped before."""
    rows = function.source.split("\n")
    tree = parse_piece(rows)
    if tree is None:
        return []
    numbers = {
        number
        for node in statements(tree)
        for number in range(node.lineno, head_end(node) + 1)
        if number <= len(rows) and len(row := rows[number - 1]) <= _LONGEST and _LETTER.search(row)
    }
    every = [(number, False) for number in sorted(numbers)[:_MOST_LINES]]
    # What is most often forgotten is to look at the odd cases first.
    every += [(min(numbers), True)] if numbers else []
    above = f"{function.above}\n" if function.above else ""
    beside = [
        Beside(path=each.path, text=truncate(textwrap.dedent(each.source), _BESIDE)) for each in tests[:1]
    ]
    beside += [Beside(path=_LEAD, text=truncate(lead, _BESIDE))] if lead else []
    return [_line(function, rows, number, above, beside, is_missing) for number, is_missing in every]


def _line(
    function: Function,
    rows: Sequence[str],
    number: int,
    above: str,
    beside: Sequence[Beside],
    is_missing: bool,
) -> Line:
    row = rows[number - 1]
    below = rows[number - 1 if is_missing else number :]
    passage = Passage(
        path=function.path,
        before=_nearest(above + "".join(f"{each}\n" for each in rows[: number - 1])),
        line=f"{row[: len(row) - len(row.lstrip())]}if" if is_missing else row,
        after=truncate("".join(f"\n{each}" for each in below) + "\n", _AFTER),
        beside=beside,
    )
    return Line(function.first + number - 1, passage, is_missing)


def _nearest(before: str) -> str:
    """The end of what stands before a line, in whole lines."""
    return before if len(before) <= _BEFORE else truncate_tail(before, _BEFORE).partition("\n")[2]


def changes(doubted: Iterable[tuple[Line, Sequence[Doubt]]], made: Changes) -> list[Change]:
    """What to try of a function, the most surprising first, as far as it was not `made` before."""
    every = [(line, doubt) for line, doubts in doubted for doubt in doubts]
    ways = (
        made.made(first, last, rows, _surprise(line, doubt))
        for line, doubt in sorted(every, key=lambda each: -_surprise(*each))
        for first, last, rows in _ways(line, doubt)
    )
    return list(islice((change for change in ways if change is not None), MOST_CHANGES))


def _surprise(line: Line, doubt: Doubt) -> float:
    """By what it is ranked: that what was begun for the model goes on is no surprise."""
    return min(doubt.surprise, _BEGUN) if line.is_missing else doubt.surprise


def _ways(line: Line, doubt: Doubt) -> Iterator[tuple[int, int, list[str]]]:
    number, row = line.number, line.passage.line
    instead = doubt.instead.split("\n")
    if line.is_missing:
        if doubt.at == len(row) and len(instead) > 1:
            yield number, number - 1, instead
        return
    if row[: doubt.at].strip() and (word := _one_word(row, doubt.at, instead[0])) is not None:
        yield number, number, [word]
    yield number, number, instead[:1]
    if not row[: doubt.at].strip() or len(instead) > 1:
        yield number, number - 1, instead


def _one_word(row: str, at: int, instead: str) -> str | None:
    """The line with only the word exchanged at which they part."""
    for had in _WORD.finditer(row):
        if had.start() <= at < had.end():
            new = _WORD.match(instead, had.start())
            return f"{row[: had.start()]}{new[0]}{row[had.end() :]}" if new is not None else None
    return None
