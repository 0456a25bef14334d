"""Ways to look at a failure, one after the other: a small model finds more when it is asked about one place.

The model is shown a function in which one place is left blank, and writes what belongs there. It so cannot
copy what is wrong, which it mostly does when it sees it.

Keep true:
1. The same functions give the same angles in the same order.
2. An angle names whole lines of the file, so that its answer can replace them.
3. Code that cannot be parsed has no angles; the model is then shown it as it is.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from assent.coder.python_source import Function

BLANK = "____"
MOST_FUNCTIONS = 4
"""Of those nearest to a failure, as many are looked at closely."""
MOST_LINES = 6
"""Of a statement that is left blank."""


class Angle(NamedTuple):
    """One place of a function, left blank."""

    function: Function
    first: int
    """The lines of the file that the answer replaces."""
    last: int
    """One less than `first` if something may be missing before that line."""
    shown: str
    """The function with the blank."""

    @property
    def is_missing(self) -> bool:
        """Whether nothing stands there yet."""
        return self.last < self.first


def angles(functions: Sequence[Function]) -> list[Angle]:
    """Places to look at, the most telling first: of each function, nearest first, the statements that decide
    something, then the others, then where one may be missing."""
    return [angle for each in functions[:MOST_FUNCTIONS] for angle in _angles(each)]


def _angles(function: Function) -> Iterator[Angle]:
    source = textwrap.dedent(function.source)
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    margin = len(function.source.split("\n", 1)[0]) - len(source.split("\n", 1)[0])
    statements = [node for node in _statements(tree) if not isinstance(node, ast.Pass | ast.Global)]
    lines = source.split("\n")
    for node in sorted(statements, key=_weight):
        end = _head_end(node)
        if end - node.lineno < MOST_LINES:
            text = _with_blank(lines, node, end)
            yield _angle(function, text, node.lineno, end, margin)
    for at, indent in _gaps(tree):
        text = "\n".join([*lines[: at - 1], f"{indent}{BLANK}", *lines[at - 1 :]])
        yield _angle(function, text, at, at - 1, margin)


def _angle(function: Function, text: str, first: int, last: int, margin: int) -> Angle:
    shown = textwrap.indent(text, " " * margin)
    return Angle(function, function.first + first - 1, function.first + last - 1, shown)


def _statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """All statements within functions, in the order of the text; docstrings and definitions left out."""
    for node in ast.walk(tree):
        for body in _bodies(node):
            for at, each in enumerate(body):
                is_docstring = at == 0 and isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
                if not is_docstring and not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
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


def _head_end(node: ast.stmt) -> int:
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
    """The text with a blank for the expression that a statement is about, so that its kind still shows."""
    part = _part(node)
    start, stop = (part.lineno, part.end_lineno) if part is not None else (0, 0)
    indent = lines[node.lineno - 1][: node.col_offset]
    if part is None or start != node.lineno or stop != end:
        row = f"{indent}{BLANK}"
    else:
        # Columns count bytes.
        head = lines[start - 1].encode()[: part.col_offset].decode(errors="replace")
        tail = lines[end - 1].encode()[part.end_col_offset :].decode(errors="replace")
        row = f"{head}{BLANK}{tail}"
    return "\n".join([*lines[: node.lineno - 1], row, *lines[end:]])


def _part(node: ast.stmt) -> ast.expr | None:
    match node:
        case ast.If() | ast.While():
            return node.test
        case ast.For() | ast.AsyncFor():
            return node.iter
        case ast.Return() | ast.Assign():
            return node.value
        case _:
            return None


def _gaps(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Where a statement may be missing: before the first of a body, and after the last."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        for body in _bodies(node):
            is_docstring = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
            first = body[1] if is_docstring and len(body) > 1 else body[0]
            indent = " " * first.col_offset
            found.append((first.lineno, indent))
            last = body[-1]
            if not isinstance(last, ast.Return | ast.Raise | ast.Break | ast.Continue):
                found.append(((last.end_lineno or last.lineno) + 1, indent))
    yield from dict.fromkeys(found)
