"""A change that turned a failure green, in words: a lead for whoever meets that failure again, and a change
to try first where it still fits.

Keep true:
1. What was written down is found again as it was: the same lines, in the same file. Nothing is guessed, and
   what was cut short, cleaned or redacted in between is only read.
2. A lead is somebody's text, perhaps brought in from elsewhere. It is only ever a change of one function to
   try: the checks judge it, and whoever approves sees it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from placet.checks.signature import digest
from placet.coder.python_source import Function, parse_piece

CONTEXT = 1
"""Lines around a change that are kept with it: where nothing was taken away, they say where it belongs."""
_HEAD = "@@ "
_SHORT = 8


class Place(NamedTuple):
    """Where a change fits: lines of a file, and what replaces them."""

    function: Function
    first: int
    last: int
    rows: list[str]


def change_words(diff: str) -> str:
    """A diff as a lead: the files, and the lines that went and came. Empty if there are none.

    >>> print(change_words("--- a/x.py\\n+++ b/x.py\\n@@ -1,2 +1,2 @@\\n def f():\\n-    no\\n+    yes\\n"))
    This change turned it green (dd10ce25):
    @@ x.py
     def f():
    -    no
    +    yes
    """
    lines: list[str] = []
    path, is_inside = "", False
    for line in diff.split("\n"):
        if line.startswith("diff --git "):
            is_inside = False
        elif line.startswith("@@"):
            is_inside = True
            lines.append(f"{_HEAD}{path}")
        elif is_inside and line[:1] in (" ", "+", "-"):
            lines.append(line)
        elif line.startswith("+++ "):
            path = line.removeprefix("+++ ").removeprefix("b/")
    return "\n".join([_first(lines), *lines]) if lines else ""


def place(lead: str, functions: Sequence[Function]) -> Place | None:
    """Where the change of a lead belongs; None unless it is one change of one place, fits one place only, and
    leaves the function what it is."""
    first, *lines = lead.split("\n")
    if not lines or first != _first(lines) or any(line.startswith(_HEAD) for line in lines[1:]):
        return None
    path = lines[0].removeprefix(_HEAD)
    # A function inside another one has the same lines.
    found = {
        (each.first, each.last): each
        for function in functions
        if function.path == path
        for each in _fit(lines[1:], function)
    }
    if len(found) != 1:
        return None
    (only,) = found.values()
    return only if _stays_one(only) else None


def _first(lines: Sequence[str]) -> str:
    return f"This change turned it green ({digest(*lines)[:_SHORT]}):"


def _fit(lines: Sequence[str], function: Function) -> Iterator[Place]:
    rows = function.source.split("\n")
    before, changed, after = _parts(lines)
    old = [line[1:] for line in changed if line[:1] != "+"]
    new = [line[1:] for line in changed if line[:1] != "-"]
    for start in range(len(rows) + 1):
        end = start + len(old)
        # What stands around it may lie outside of the function, and only then is it not looked at.
        fits_above = rows[max(start - len(before), 0) : start] == (before if start else [])
        fits_below = rows[end : end + len(after)] == (after if end < len(rows) else [])
        if rows[start:end] == old and fits_above and fits_below and 0 < end <= len(rows):
            first = function.first + start
            yield Place(function, first, first + len(old) - 1, new)


def _stays_one(place: Place) -> bool:
    """Whether the function is still that one function: who writes into it writes nothing around it."""
    rows = place.function.source.split("\n")
    begin, end = place.first - place.function.first, place.last + 1 - place.function.first
    was, now = parse_piece(rows), parse_piece([*rows[:begin], *place.rows, *rows[end:]])
    return was is not None and now is not None and _outline(was) == _outline(now)


def _outline(tree: ast.Module) -> list[tuple[type[ast.stmt], str]]:
    body = tree.body
    if len(body) == 1 and isinstance(body[0], ast.If):
        body = body[0].body  # One that is indented is parsed inside an `if`.
    return [(type(each), getattr(each, "name", "")) for each in body]


def _parts(lines: Sequence[str]) -> tuple[list[str], Sequence[str], list[str]]:
    """What stands before a change, the change, and what stands after it."""
    signs = [line[:1] in ("+", "-") for line in lines]
    if True not in signs:
        return [], [], []
    begin, end = signs.index(True), len(signs) - signs[::-1].index(True)
    return [line[1:] for line in lines[:begin]], lines[begin:end], [line[1:] for line in lines[end:]]
