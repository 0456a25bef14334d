"""Pieces of files as text for a model, with line numbers, in no more room than there is.

Keep true:
1. A page is never longer than it may be, and what did not fit is named at its end.
2. A piece is shown whole, or as the lines around the one that matters, and then says which lines they are.
3. What comes from a file or an output is cleaned: nothing hidden, one line stays one line.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from placet.coder.python_source import Definition
from placet.safe_text import clean
from placet.truncation import truncate

_WIDTH = 240
"""Characters of one line that are shown."""
_AROUND = 8
"""Lines before and after a spot."""
_SHOWN_TESTS = 3
_SMALLEST = 120
"""Characters of room for which a piece is not cut any further."""


class Spot(NamedTuple):
    """A line that matters in a file."""

    path: str
    line: int


class Page:
    """Text that is put together piece by piece. `lines_of` gives the lines of a file."""

    def __init__(self, most: int, lines_of: Callable[[str], Sequence[str]]) -> None:
        self._most = most
        self._for_left_out = min(400, most // 8)
        self._room = most - self._for_left_out
        self._lines_of = lines_of
        self._parts: list[str] = []
        self._left_out: list[str] = []

    def text(self) -> str:
        """All of it, and the names of what was left out."""
        parts = list(self._parts)
        if self._left_out:
            parts.append(_listed("Left out: ", self._left_out, self._for_left_out - 2))
        return truncate("\n\n".join(filter(None, parts)), max(self._most, 0))

    def add_tests(
        self, tests: Sequence[Definition], failing: Collection[Definition], lines: Mapping[Definition, int]
    ) -> None:
        """The tests, of which some are known to fail: the first few, so that the rest has room."""
        for at, test in enumerate(tests):
            line = lines.get(test)
            title = f"{'Failing test' if test in failing else 'Test'} {_told(test)}"
            where = f"; it fails at line {line}" if line else ""
            share = self._most * 3 // 10 if at == 0 else self._most // 10
            if at >= _SHOWN_TESTS or not self._add(f"{title}{where}:", test, line, share):
                self._left_out.append(title[0].lower() + title[1:])

    def add_said(self, said: Sequence[Sequence[str]], hints: Sequence[str]) -> None:
        """What the failures said, each thing once."""
        share = min(self._most // 5, self._room)
        shown: list[str] = []
        for lines in said:
            words = "\n".join(clean(line, _WIDTH, tabs=True) for line in lines).strip()
            if not words or words in shown:
                continue
            if sum(map(len, shown)) + len(words) > share:
                words = truncate(words, max(share - sum(map(len, shown)), 0)).rpartition("\n")[0]
            shown += [words] if words else []
        hinted = [clean(hint, 1000) for hint in hints[:3]]
        if shown:
            self._put("\n".join(["It said:", "\n\n".join(shown)]))
        for hint in hinted:
            self._put(hint)

    def add_spots(self, spots: Sequence[Spot]) -> None:
        """Lines around places that no function is around; places close by are shown once."""
        shown: list[tuple[str, range]] = []
        for path, line in spots:
            if any(path == other and line in lines for other, lines in shown):
                continue
            total = len(self._lines_of(path))
            around = range(max(1, line - _AROUND), min(total, line + _AROUND) + 1)
            share = min(self._most // 4, self._room)
            title = f"Around line {line} of {_shown(path)}:"
            if self._put(self._excerpt(title, path, around, line, share)):
                shown.append((path, around))
            else:
                self._left_out.append(f"{_shown(path)} line {line}")

    def add_functions(self, functions: Sequence[Definition], failing: Mapping[Definition, int]) -> None:
        """The functions involved. The nearest is cut if it has to be; of the others whole ones are shown."""
        title = "Code involved, nearest first:"
        for at, each in enumerate(functions):
            head = f"{title}\n\n{_told(each)}:" if title else f"{_told(each)}:"
            if self._add(head, each, failing.get(each), self._room, may_cut=at == 0):
                title = ""
            else:
                self._left_out.append(_told(each))

    def add_others(self, values: Sequence[Definition], helpers: Sequence[Definition]) -> None:
        """Values that the code uses, and what the tests share, if there is still room."""
        for words, each in [("Used there", each) for each in values] + [
            ("Used by the test", each) for each in helpers
        ]:
            if not self._add(f"{words}: {_told(each)}:", each, None, self._room // 2, may_cut=False):
                self._left_out.append(_told(each))

    def _add(
        self, title: str, piece: Definition, line: int | None, share: int, *, may_cut: bool = True
    ) -> bool:
        lines = range(piece.first, piece.last + 1)
        focus = line if line in lines else piece.first
        return self._put(
            self._excerpt(title, piece.path, lines, focus, min(share, self._room), may_cut=may_cut)
        )

    def _put(self, part: str) -> bool:
        if not part or len(part) > self._room:
            return False
        self._parts.append(part)
        self._room -= len(part) + 2
        return True

    def _excerpt(
        self, title: str, path: str, wanted: range, focus: int | None, room: int, *, may_cut: bool = True
    ) -> str:
        """The wanted lines below a title, or as many of them around `focus` as there is room for."""
        lines = self._lines_of(path)
        rows = {n: f"{n}: {_line(lines[n - 1])}".rstrip() for n in wanted if n <= len(lines)}
        room -= len(title)
        if sum(len(row) + 1 for row in rows.values()) <= room:
            return "\n".join([title, *rows.values()])
        if not may_cut or room < _SMALLEST or focus not in rows:
            return ""
        room -= 2 * len("\n[…]")
        first = last = focus
        used = len(rows[focus]) + 1
        # What leads to the line matters more than what follows: two lines before for each one after.
        for at in range(3 * len(rows)):
            near = last + 1 if at % 3 == 2 else first - 1
            if near not in rows:
                continue
            if used + len(rows[near]) + 1 > room:
                break
            used += len(rows[near]) + 1
            first, last = min(first, near), max(last, near)
        if used > room:
            return ""
        kept = [rows[n] for n in range(first, last + 1)]
        cut_before = ["[…]"] if first > wanted.start else []
        cut_after = ["[…]"] if last < wanted.stop - 1 else []
        return "\n".join([title, *cut_before, *kept, *cut_after])


def _line(line: str) -> str:
    return clean(line.replace("\f", ""), _WIDTH, tabs=True)


def _shown(path: str) -> str:
    return clean(path, 200)


def _told(piece: Definition) -> str:
    lines = f"line {piece.first}" if piece.first == piece.last else f"lines {piece.first} to {piece.last}"
    return f"{piece.name} in {_shown(piece.path)}, {lines}"


def _listed(before: str, names: Sequence[str], room: int) -> str:
    """As many names as there is room for, and how many more there are."""
    text = before
    for at, name in enumerate(names):
        rest = f"and {len(names) - at} more."
        piece = f"{name}; "
        if len(text) + len(piece) + len(rest) > room:
            return text + rest if len(text) + len(rest) <= room else ""
        text += piece
    return text.removesuffix("; ") + "."
