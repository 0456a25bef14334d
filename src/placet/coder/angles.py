"""Ways to look at a failure, one after the other: a small model finds more when it is asked about one place.

The model is shown a function in which one place is left blank, and writes what belongs there: it cannot copy
what is wrong, which it mostly does when it sees it. Or it is told that a line is wrong, and corrects it: some
lines cannot be guessed. Each way finds what the other does not.

Keep true:
1. The same functions give the same angles in the same order.
2. An angle names whole lines of the file, so that its answer can replace them.
3. Code that cannot be parsed has no angles; the model is then shown it as it is.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from placet.coder.python_source import Function, parse_piece

BLANK = "____"
MOST_FUNCTIONS = 4
"""Of those nearest to a failure, as many are looked at closely."""
MOST_LINES = 6
"""Of a statement that is left blank."""


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


Way = Literal["blank", "wrong", "missing"]
"""A statement is left blank, said to be wrong, or may be missing."""


class Angle(NamedTuple):
    """One place of a function, left blank."""

    function: Function
    first: int
    """The lines of the file that the answer replaces."""
    last: int
    """One less than `first` if something may be missing before that line."""
    shown: str
    """The function with the blank."""
    was: str
    """The lines as they are, without their indentation."""
    way: Way

    @property
    def row(self) -> str:
        """The line with the blank, without its indentation."""
        return next(row for row in self.shown.split("\n") if BLANK in row).strip()


def angles(functions: Sequence[Function]) -> list[Angle]:
    """Places to look at, the most telling first: of each function, nearest first, the statements that decide
    something, then the others; both ways; then where one may be missing."""
    return [angle for each in functions[:MOST_FUNCTIONS] for angle in _angles(each)]


def _angles(function: Function) -> Iterator[Angle]:
    if BLANK in function.source:
        return  # Nobody could tell which one is meant.
    lines = function.source.split("\n")
    tree = parse_piece(lines)
    if tree is None:
        return
    found = [node for node in statements(tree) if not isinstance(node, ast.Pass | ast.Global)]
    ways: tuple[Way, ...] = ("blank", "wrong")
    for way in ways:
        for node in sorted(found, key=_weight):
            end = head_end(node)
            if end - node.lineno < MOST_LINES:
                yield _angle(function, _with_blank(lines, node, end), node.lineno, end, way)
    for at, indent in _gaps(tree):
        text = "\n".join([*lines[: at - 1], f"{indent}{BLANK}", *lines[at - 1 :]])
        yield _angle(function, text, at, at - 1, "missing")


def _angle(function: Function, shown: str, first: int, last: int, way: Way) -> Angle:
    was = textwrap.dedent("\n".join(function.source.split("\n")[first - 1 : last]))
    return Angle(function, function.first + first - 1, function.first + last - 1, shown, was, way)


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """All statements within functions, in the order of the text; docstrings and definitions left out."""
    for node in ast.walk(tree):
        for body in _bodies(node):
            for each in body:
                if not _is_docstring(each) and not isinstance(each, _DEFINITIONS):
                    yield each


def _bodies(node: ast.AST) -> Iterator[Sequence[ast.stmt]]:
    if not isinstance(node, ast.Module | ast.ClassDef):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                yield body


def _weight(node: ast.stmt) -> tuple[int, int]:
    """What decides comes first."""
    match node:
        case ast.If() | ast.While() | ast.For() | ast.AsyncFor():
            return 0, node.lineno
        case ast.Return() if node.value is not None:
            return 1, node.lineno
        case ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Expr():
            return 2, node.lineno
        case _:
            return 3, node.lineno


def head_end(node: ast.stmt) -> int:
    """The last line of a statement; of one with a body, of what stands before that."""
    match node:
        case ast.If() | ast.While():
            return node.test.end_lineno or node.lineno
        case ast.For() | ast.AsyncFor():
            return node.iter.end_lineno or node.lineno
        case ast.With() | ast.AsyncWith():
            return node.items[-1].context_expr.end_lineno or node.lineno
        case ast.Try():
            return node.lineno
        case _:
            return node.end_lineno or node.lineno


def _with_blank(lines: Sequence[str], node: ast.stmt, end: int) -> str:
    """The text with a blank for what a statement is about, so that its kind still shows."""
    row = lines[node.lineno - 1][: node.col_offset] + BLANK
    kept = _kept(node)
    if kept is not None and node.lineno == end:
        # Columns count bytes.
        line = lines[end - 1].encode()
        row = f"{line[: kept[0]].decode(errors='replace')}{BLANK}{line[kept[1] :].decode(errors='replace')}"
    return "\n".join([*lines[: node.lineno - 1], row, *lines[end:]])


def _kept(node: ast.stmt) -> tuple[int, int | None] | None:
    """Where in its line the blank begins and ends: up to the one and from the other on the line stays."""
    part: ast.expr | None = None
    match node:
        case ast.If() | ast.While():
            part = node.test
        case ast.For() | ast.AsyncFor():
            part = node.iter
        case ast.Return() | ast.Assign():
            part = node.value
        case ast.AugAssign():
            return (node.target.end_col_offset or 0) + 1, node.end_col_offset
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner))):
            return (owner.end_col_offset or 0) + 1, node.end_col_offset
        case _:
            pass
    return None if part is None else (part.col_offset, part.end_col_offset)


def _gaps(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Where a statement is most often missing: at the beginning of a function, and at the end of a loop."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                first = node.body[1] if _is_docstring(node.body[0]) and len(node.body) > 1 else node.body[0]
                found.append((first.lineno, " " * first.col_offset))
            case ast.For() | ast.AsyncFor() | ast.While():
                last = node.body[-1]
                found.append(((last.end_lineno or last.lineno) + 1, " " * last.col_offset))
            case _:
                pass
    yield from dict.fromkeys(found)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
