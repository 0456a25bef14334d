"""Help for whoever asked to replace a text that the file does not hold: what comes closest, what differs.

Keep true:
1. The work is bounded, whatever the file and the text hold: comparing two texts letter by letter takes hours
   for a few megabytes, so only a few short pieces ever are.
2. The help is a hint. Nothing is replaced because of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Literal

from placet.truncation import truncate

Fit = Literal["whole", "ending", "beginning", "within"]
"""Which part of a line of the file a line of the text must be."""

_MOST_LINES = 100_000
"""Of the file, looked at for text that is the same but for blanks and the like."""
_MOST_WANTED = 200
"""Lines of the text that are compared."""
_MOST_COMPARISONS = 1_000_000
_MOST_WORDS = 20
_MOST_PLACES = 50
"""Where one word is found."""
_MOST_MEASURED = 6
"""Places that are measured letter by letter, and not more than `_MEASURED` letters of each."""
_MEASURED = 500
_CLOSE_ENOUGH = 0.5
_SHOWN_LINES = 10
_SHOWN_LETTERS = 160

_QUOTES = str.maketrans(dict.fromkeys("'`´‘’‚“”„«»", '"'))
_WITHIN = re.compile(r"(?<=\S)[ \t]+(?=\S)")

_LOOSENINGS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("line ends", lambda line: line.removesuffix("\r")),
    ("blanks at the end of a line", lambda line: line.rstrip(" \t")),
    ("indentation", lambda line: line.lstrip(" \t")),
    ("quotation marks", lambda line: line.translate(_QUOTES)),
    ("blanks within a line", lambda line: _WITHIN.sub(" ", line)),
    ("upper and lower case", str.casefold),
)
"""What a text may differ in and still be meant, each with what makes it alike. The order matters."""


def near_miss(text: str, old: str) -> str:
    """A sentence about what in `text` comes closest to `old`, and those lines with their numbers.

    >>> print(near_miss("def f():\\n  return 1\\n", "\\treturn 1"))
    Line 2 comes closest; it differs in indentation (line 2 has 2 blanks, not 1 tab):
    2:   return 1
    """
    wanted = old.split("\n")
    if not old.strip():
        return "It is nothing but blanks and line ends. Take in some of the text around it."
    lines = text.split("\n", _MOST_LINES)[:_MOST_LINES]
    found = _alike(lines, wanted)
    if found is not None:
        return _show(lines, found, wanted, _differences(lines, found, wanted))
    found = _closest(text, wanted)
    if found is None:
        return "Nothing in the file is like it. Read the file again."
    return _show(text.split("\n", found + len(wanted)), found, wanted, "")


def _alike(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Where the wanted lines stand if blanks, quotation marks and the like are overlooked."""
    loose = [_loosen(line) for line in lines]
    loosely = [_loosen(line) for line in wanted[:_MOST_WANTED]]
    fits = _fits(len(wanted))[:_MOST_WANTED]
    left = _MOST_COMPARISONS
    for start in range(len(loose) - len(loosely) + 1):
        for at, want in enumerate(loosely):
            left -= 1
            if not _fit(want, loose[start + at], fits[at]):
                break
        else:
            return start
        if left <= 0:
            return None
    return None


def _fits(count: int) -> list[Fit]:
    middle: list[Fit] = ["whole"] * (count - 2)
    return ["within"] if count == 1 else ["ending", *middle, "beginning"]


def _fit(want: str, have: str, fit: Fit) -> bool:
    match fit:
        case "whole":
            return want == have
        case "ending":
            return have.endswith(want)
        case "beginning":
            return have.startswith(want)
        case "within":
            return want in have


def _loosen(line: str, *, but: str = "") -> str:
    for name, loosening in _LOOSENINGS:
        if name != but:
            line = loosening(line)
    return line


def _differences(lines: Sequence[str], start: int, wanted: Sequence[str]) -> str:
    """What the lines from `start` differ in: everything that must be overlooked for them to be alike."""
    found: dict[str, str] = {}
    for at, (want, fit) in enumerate(zip(wanted[:_MOST_WANTED], _fits(len(wanted)), strict=False)):
        have = lines[start + at]
        for name, _ in _LOOSENINGS:
            if name not in found and not _fit(_loosen(want, but=name), _loosen(have, but=name), fit):
                found[name] = _detail(name, start + at + 1, want, have)
    return ", ".join(f"{name}{detail}" for name, detail in found.items())


def _detail(name: str, line: int, want: str, have: str) -> str:
    match name:
        case "indentation":
            return f" (line {line} has {_indentation(have)}, not {_indentation(want)})"
        case "line ends":
            ends = r"\r\n, not \n" if have.endswith("\r") else r"\n, not \r\n"
            return f" (line {line} ends with {ends})"
        case _:
            return f" (line {line})"


def _indentation(line: str) -> str:
    margin = line[: len(line) - len(line.lstrip(" \t"))]
    counts = [(margin.count("\t"), "tab"), (margin.count(" "), "blank")]
    return " and ".join(f"{n} {name}{'s' * (n > 1)}" for n, name in counts if n) or "none"


def _closest(text: str, wanted: Sequence[str]) -> int | None:
    """The line where something begins that has many letters in common with the wanted lines."""
    from difflib import SequenceMatcher

    votes: dict[int, float] = {}
    for start, weight in _starts(text, _long_words(wanted)):
        votes[start] = votes.get(start, 0.0) + weight
    want = "\n".join(wanted)[:_MEASURED]
    # The second text is the one that difflib prepares, so it stays the same.
    matcher = SequenceMatcher(a="", b=want, autojunk=False)
    best: tuple[float, int] | None = None
    for start in sorted(votes, key=lambda start: (-votes[start], start))[:_MOST_MEASURED]:
        matcher.set_seq1(_piece(text, start, len(wanted)))
        if matcher.quick_ratio() >= _CLOSE_ENOUGH:
            best = max(best or (0.0, 0), (matcher.ratio(), -start))
    return -best[1] if best is not None and best[0] >= _CLOSE_ENOUGH else None


def _long_words(wanted: Sequence[str]) -> list[tuple[str, int]]:
    """The longest words, which are likely to be rare, each with its line in the wanted ones."""
    words: dict[str, int] = {}
    for at, line in enumerate(wanted[:_MOST_WANTED]):
        for word in re.findall(r"\w+", line[:_MEASURED]):
            words.setdefault(word, at)
    return sorted(words.items(), key=lambda item: (-len(item[0]), item[1]))[:_MOST_WORDS]


def _starts(text: str, words: Sequence[tuple[str, int]]) -> Iterator[tuple[int, float]]:
    """Lines (from 0) where the wanted ones would begin, going by one word each; rare words weigh more."""
    places: list[tuple[int, int, float]] = []
    for word, at in words:
        found = [match.start() for match in islice(re.finditer(re.escape(word), text), _MOST_PLACES)]
        places += [(place, at, 1 / len(found)) for place in found]
    line = counted = 0
    for place, at, weight in sorted(places):
        # In order of place, so that each line end is counted once.
        line += text.count("\n", counted, place)
        counted = place
        yield max(line - at, 0), weight


def _piece(text: str, start: int, count: int) -> str:
    """Some lines from line `start` on (from 0), shortened."""
    rest = text.split("\n", start)[-1] if start else text
    return "\n".join(rest[: _MEASURED * 2].split("\n")[:count])[:_MEASURED]


def _show(lines: Sequence[str], start: int, wanted: Sequence[str], differences: str) -> str:
    close = lines[start : start + len(wanted)]
    one = len(close) == 1
    head = f"Line {start + 1} comes" if one else f"Lines {start + 1} to {start + len(close)} come"
    head += " closest"
    if differences:
        head += f"; {'it differs' if one else 'they differ'} in {differences}"
    fits = zip(wanted, close, _fits(len(wanted)), strict=False)
    first = next((at for at, (want, have, fit) in enumerate(fits) if not _fit(want, have, fit)), 0)
    if not one and not differences:
        head += f"; the first difference is on line {start + first + 1}"
    # Of many lines those around the first difference are shown.
    begin = max(first - _SHOWN_LINES // 2, 0) if len(close) > _SHOWN_LINES else 0
    rows = [
        f"{start + at + 1}: {truncate(close[at], _SHOWN_LETTERS)}".rstrip("\r")
        for at in range(begin, min(begin + _SHOWN_LINES, len(close)))
    ]
    return "\n".join([f"{head}:", *rows])
