"""Where the hunks of a patch fit in a text, and the text with all of them applied.

Keep true:
1. Every hunk is looked for in the text as it was. Lines that stay are never written, so they are as before.
2. A hunk that fits in two places is not applied, unless its line number names one of them exactly. What is
   overlooked (blanks, a missing line of context) is overlooked only if one place alone is left.
3. The work is bounded, whatever the text and the patch hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from placet.errors import ToolError
from placet.sandbox.refusals import refused
from placet.tools.builtin.near_miss import near_miss
from placet.tools.builtin.patch import Hunk, Mark

_MOST_COMPARISONS = 3_000_000
_MOST_TRIMMED = 2
"""Lines of context that may be wrong at the beginning of a hunk, and as many at its end."""
_MOST_BLANK = 2
"""Blank lines that may be missing or too many in a hunk."""
_MOST_NEAR_MISSES = 5
"""Hunks for which the nearest lines are looked for; each takes long in a long text."""
_PLACES_SHOWN = 5

Alignment = list[int | None]
"""For each old line of a hunk, which line of the text it is; None for a line of context that is not there."""


class Fit(msgspec.Struct, frozen=True):
    """Where a hunk fits, or why it does not."""

    hunk: Hunk
    at: int = 0
    """The line before which it begins, counted from 0."""
    alignment: Alignment = []
    note: str = ""
    """What was overlooked, in words."""
    problem: str = ""
    """Why it does not fit; empty if it does."""
    is_loose: bool = False
    """Whether line ends and blanks before them were overlooked."""


class Budget:
    """How much may still be compared for one patch."""

    def __init__(self) -> None:
        self.left = _MOST_COMPARISONS
        self.near_misses = _MOST_NEAR_MISSES

    def spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise refused(
                "The patch takes too long to be placed: its lines fit in too many places. Split it up."
            )


def fit_hunks(text: str, hunks: Sequence[Hunk], budget: Budget) -> list[Fit]:
    """For each hunk its place in the text, or why there is none.

    Raises:
        ToolError: it would take too long to find out.
    """
    lines = split_lines(text)
    search = _Search(lines, budget)
    found = [search.places(hunk) for hunk in hunks]
    # Where all that can be placed for sure lie off by the same count, the others are taken to do so too.
    sure = zip(hunks, found, strict=True)
    shifts = {
        fits[0].at - (hunk.first - 1)
        for hunk, fits in sure
        if len(fits) == 1 and hunk.first is not None and hunk.old and not fits[0].note
    }
    shift = shifts.pop() if len(shifts) == 1 else 0
    chosen: list[Fit] = []
    for hunk, fits in zip(hunks, found, strict=True):
        if len(fits) > 1 and hunk.first is not None:
            named = search.named(hunk, hunk.first - 1 + shift, is_loose=fits[0].is_loose)
            fits = [named] if named is not None and not fits[0].note else fits
        match fits:
            case [fit]:
                chosen.append(fit)
            case []:
                chosen.append(Fit(hunk, problem=_why_not(text, lines, hunk, search)))
            case _:
                chosen.append(Fit(hunk, problem=_several(fits)))
    return chosen


def apply_fits(text: str, fits: Sequence[Fit]) -> str:
    """The text with all hunks applied; each of them fits.

    Raises:
        ToolError: two hunks change the same lines.
    """
    lines = split_lines(text)
    line_end = "\n"
    if "\r\n" in text:
        line_end = "\r\n" if text.count("\n") == text.count("\r\n") else ""
    gone: set[int] = set()
    comes: dict[int, list[str]] = {}
    claims = Counter(place for fit in fits for place in fit.alignment if place is not None)
    for fit in fits:
        at, old = fit.at, iter(fit.alignment)
        here: dict[int, list[str]] = {}
        for mark, line in fit.hunk.lines:
            if mark == "+":
                here.setdefault(at, []).append(_ended(line, line_end) if fit.is_loose else line)
                continue
            place = next(old)
            if place is None:
                continue
            if mark == "-":
                gone.add(place)
                if claims[place] > 1:
                    raise _overlap(fit)
            at = place + 1
        if here.keys() & comes.keys():
            raise _overlap(fit)
        comes.update(here)
    result: list[str] = []
    for number in range(len(lines) + 1):
        result += comes.get(number, ())
        if number < len(lines) and number not in gone:
            result.append(lines[number])
    # Whatever is put behind a last line without a line end gets one between.
    ended = [line if line.endswith("\n") else f"{line}{line_end or chr(10)}" for line in result[:-1]]
    return "".join([*ended, *result[-1:]])


def _ended(line: str, line_end: str) -> str:
    """A new line with the line end that the whole file has, if it has one and the line has any."""
    if not line_end or not line.endswith("\n"):
        return line
    return line.removesuffix("\n").removesuffix("\r") + line_end


def split_lines(text: str) -> list[str]:
    """The lines of a text with their ends, which are line feeds and nothing else."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


class _Search:
    """Looks for hunks in the lines of one text."""

    def __init__(self, lines: list[str], budget: Budget) -> None:
        self.lines = lines
        self.loose = [line.rstrip() for line in lines]
        self.budget = budget
        self._indexes: dict[bool, dict[str, list[int]]] = {}

    def places(self, hunk: Hunk) -> list[Fit]:
        """Where a hunk fits: all that matters is whether there is none, one, or more."""
        old = [(mark, line) for mark, line in hunk.lines if mark != "+"]
        if not old:
            return self._without_old(hunk)
        for is_loose in (False, True):
            wanted = [_plain(line, is_loose) for _, line in old]
            if found := list(self._whole(hunk, wanted, is_loose=is_loose)):
                return found
        if any(mark == "-" and line.strip() and line.rstrip() not in self._index(True) for mark, line in old):
            return []  # What is to go is nowhere, whatever else is overlooked.
        if found := list(self._with_blanks(hunk, old)):
            return found
        for count in range(1, 2 * _MOST_TRIMMED + 1):
            found = [fit for head, tail in _trims(old, count) for fit in self._trimmed(hunk, old, head, tail)]
            if found:
                return list({fit.at: fit for fit in found}.values())
        return []

    def named(self, hunk: Hunk, at: int, *, is_loose: bool) -> Fit | None:
        """A hunk at the place that its line number says, if it fits there."""
        wanted = [_plain(line, is_loose) for line in hunk.old]
        if at < 0 or not self._is_at(wanted, at, is_loose=is_loose):
            return None
        return Fit(hunk, at, list(range(at, at + len(wanted))), is_loose=is_loose)

    def has(self, wanted: Sequence[str]) -> int | None:
        """A line where these lines stand, but for blanks at their ends."""
        plain = [_plain(line, True) for line in wanted]
        return next(self._starts(plain, is_loose=True), None) if plain else None

    def _without_old(self, hunk: Hunk) -> list[Fit]:
        if not self.lines:
            return [Fit(hunk)]
        if hunk.is_anchored and hunk.first is not None and hunk.first <= len(self.lines):
            return [Fit(hunk, hunk.first)]
        return []

    def _whole(self, hunk: Hunk, wanted: Sequence[str], *, is_loose: bool) -> Iterator[Fit]:
        for count, start in enumerate(self._starts(wanted, is_loose=is_loose)):
            if count > _PLACES_SHOWN:
                return
            yield Fit(hunk, start, list(range(start, start + len(wanted))), is_loose=is_loose)

    def _starts(self, wanted: Sequence[str], *, is_loose: bool) -> Iterator[int]:
        """Where these lines stand; found by the one of them that is rarest in the text."""
        index = self._index(is_loose)
        rarest = min(range(len(wanted)), key=lambda at: len(index.get(wanted[at], ())))
        for place in index.get(wanted[rarest], ()):
            if self._is_at(wanted, place - rarest, is_loose=is_loose):
                yield place - rarest

    def _is_at(self, wanted: Sequence[str], start: int, *, is_loose: bool) -> bool:
        lines = self.loose if is_loose else self.lines
        if start < 0 or start + len(wanted) > len(lines):
            return False
        for at, want in enumerate(wanted):
            if lines[start + at] != want:
                self.budget.spend(at + 1)
                return False
        self.budget.spend(len(wanted))
        return True

    def _index(self, is_loose: bool) -> dict[str, list[int]]:
        if is_loose not in self._indexes:
            index: dict[str, list[int]] = {}
            for at, line in enumerate(self.loose if is_loose else self.lines):
                index.setdefault(line, []).append(at)
            self._indexes[is_loose] = index
        return self._indexes[is_loose]

    def _with_blanks(self, hunk: Hunk, old: Sequence[tuple[Mark, str]]) -> Iterator[Fit]:
        """Places where the hunk fits but for blank lines that one of both lacks."""
        first = next((at for at, (_, line) in enumerate(old) if line.strip()), None)
        if first is None or any(mark == "-" for mark, _ in old[:first]) or first > _MOST_BLANK:
            return
        for start in self._index(True).get(old[first][1].rstrip(), ()):
            alignment = self._aligned(old[first:], start)
            if alignment is not None:
                skipped: Alignment = [None] * first
                note = "blank lines differ"
                yield Fit(hunk, start, [*skipped, *alignment], note, is_loose=True)

    def _aligned(self, old: Sequence[tuple[Mark, str]], start: int) -> Alignment | None:
        left = _MOST_BLANK
        found: Alignment = []
        at = start
        for mark, line in old:
            want = line.rstrip()
            self.budget.spend(1)
            while want and left and at < len(self.loose) and not self.loose[at]:
                at, left = at + 1, left - 1
            if at < len(self.loose) and self.loose[at] == want:
                found.append(at)
                at += 1
            elif not want and mark == " " and left:
                found.append(None)
                left -= 1
            else:
                return None
        return found

    def _trimmed(self, hunk: Hunk, old: Sequence[tuple[Mark, str]], head: int, tail: int) -> Iterator[Fit]:
        """Places where the hunk fits without some of its outer lines of context."""
        kept = old[head : len(old) - tail]
        wanted = [line.rstrip() for _, line in kept]
        if sum(bool(line) for line in wanted) < 2 and not any(
            mark == "-" and line.strip() for mark, line in kept
        ):
            return  # too little to tell a place by
        for count, start in enumerate(self._starts(wanted, is_loose=True)):
            if count > _PLACES_SHOWN:
                return
            body = list(range(start, start + len(wanted)))
            note = f"{head + tail} line{'s' * (head + tail > 1)} of context differ"
            yield Fit(hunk, start, [*[None] * head, *body, *[None] * tail], note, is_loose=True)


def _plain(line: str, is_loose: bool) -> str:
    return line.rstrip() if is_loose else line


def _trims(old: Sequence[tuple[Mark, str]], count: int) -> Iterator[tuple[int, int]]:
    """How many lines of context to leave out at the beginning and at the end, `count` together."""
    marks = "".join(mark for mark, _ in old)
    most_head = min(len(marks) - len(marks.lstrip(" ")), _MOST_TRIMMED)
    most_tail = min(len(marks) - len(marks.rstrip(" ")), _MOST_TRIMMED)
    for head in range(min(count, most_head) + 1):
        if count - head <= most_tail and count < len(old):
            yield head, count - head


def _why_not(text: str, lines: Sequence[str], hunk: Hunk, search: _Search) -> str:
    if not hunk.old:
        return (
            "it has no lines to find its place by. Put some of the lines around it into it, each with a "
            "blank before it"
        )
    if any(mark == "+" and line.strip() for mark, line in hunk.lines):
        there = search.has(hunk.new)
        if there is not None:
            return f"its new lines are in the file already, from line {there + 1} on"
    if not lines:
        return "the file is empty"
    search.budget.near_misses -= 1
    if search.budget.near_misses < 0:
        return "its old lines are not in the file"
    return f"its old lines are not in the file. {near_miss(text, ''.join(hunk.old).removesuffix(chr(10)))}"


def _several(fits: Sequence[Fit]) -> str:
    shown = ", ".join(str(fit.at + 1) for fit in fits[:_PLACES_SHOWN])
    more = " and more" if len(fits) > _PLACES_SHOWN else ""
    return (
        f"it fits in more than one place, on lines {shown}{more}. Take in more of the lines around the one "
        "that is meant, or give its line in the header"
    )


def _overlap(fit: Fit) -> ToolError:
    return refused(
        f"Nothing was written: the hunk {fit.hunk.header!r} changes lines that another hunk of the patch has "
        "too. Make one hunk of both."
    )
