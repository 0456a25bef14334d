"""Every way in which this program can break another one, as edits of its text.

Keep true:
1. Places come from the syntax tree, changes go into the text: nothing is printed back from a tree.
2. The edits of a text are always the same ones in the same order.
3. Docstrings and the inside of f-strings stay: Python 3.12 changed where parts of an f-string are.
4. An edit yields a program that compiles, and that differs from the original.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Literal, NamedTuple

Kind = Literal[
    "operator",
    "boundary",
    "variable",
    "base case",
    "argument order",
    "constant",
    "condition",
    "statement",
    "initial value",
    "method",
]


class Edit(NamedTuple):
    """One stretch of a text, and what replaces it."""

    start: int
    end: int
    text: str

    def applied(self, source: str) -> str:
        """The text after the edit."""
        return source[: self.start] + self.text + source[self.end :]


OPERATORS: dict[type[ast.AST], tuple[str, tuple[str, ...]]] = {
    ast.Add: ("+", ("-",)),
    ast.Sub: ("-", ("+",)),
    ast.Mult: ("*", ("+", "//")),
    ast.Div: ("/", ("//", "*")),
    ast.FloorDiv: ("//", ("/", "%")),
    ast.Mod: ("%", ("//",)),
    ast.Pow: ("**", ("*",)),
    ast.And: ("and", ("or",)),
    ast.Or: ("or", ("and",)),
}
BOUNDARIES: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
}
OPPOSITES: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", ">="),
    ast.LtE: ("<=", ">"),
    ast.Gt: (">", "<="),
    ast.GtE: (">=", "<"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
METHODS = {
    "append": ("extend",),
    "extend": ("append",),
    "add": ("discard",),
    "remove": ("append", "add"),
    "popleft": ("pop",),
    "min": ("max",),
    "max": ("min",),
    "any": ("all",),
    "all": ("any",),
    "sum": ("max", "len"),
    "sorted": ("list",),
    "reversed": ("list",),
    "lower": ("upper",),
    "upper": ("lower",),
    "isupper": ("islower",),
    "isdigit": ("isalpha",),
    "isalpha": ("isdigit",),
    "isalnum": ("isdigit", "isalpha"),
    "isspace": ("isalnum",),
    "startswith": ("endswith",),
    "endswith": ("startswith",),
    "strip": ("lstrip", "rstrip"),
    "lstrip": ("rstrip",),
    "rstrip": ("lstrip",),
    "ljust": ("rjust",),
    "rjust": ("ljust",),
    "partition": ("rpartition",),
    "keys": ("values",),
    "values": ("keys",),
    "items": ("keys",),
    "update": ("add",),
    "setdefault": ("get",),
    "difference_update": ("intersection_update",),
    "removeprefix": ("removesuffix",),
    "clear": ("copy",),
    "abs": ("int",),
    "set": ("list",),
    "zfill": ("ljust",),
}


def edits(source: str) -> dict[Kind, list[Edit]]:
    """All edits of a program by kind; a kind without any is left out.

    Raises:
        ValueError: the text is not plain ASCII, so that places in the tree and in the text may differ.
    """
    if not source.isascii():
        raise ValueError("Programs are plain ASCII.")
    found = _Program(source).edits()
    return {kind: kept for kind, every in found.items() if (kept := _usable(source, every))}


def _usable(source: str, every: list[Edit]) -> list[Edit]:
    # By place, not in the order of the walk: a rule that is added to a kind disturbs as little as possible.
    return [edit for edit in sorted(set(every)) if _compiles(edit.applied(source), source)]


def _compiles(changed: str, source: str) -> bool:
    if changed == source:
        return False
    try:
        compile(changed, "program", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


class _Program:
    """One text with its tree."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tree = ast.parse(source)
        self.lines = [0]
        for line in source.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))

    def edits(self) -> dict[Kind, list[Edit]]:
        found: dict[Kind, list[Edit]] = {}
        for function in self.functions():
            nodes = list(_walk(function))
            spared = self.spared(nodes)
            found.setdefault("variable", []).extend(self.variables(function, nodes))
            for node in nodes:
                for kind, edit in self.at(node):
                    # What has a kind of its own is not counted as a wrong constant, too.
                    if kind != "constant" or (edit.start, edit.end) not in spared:
                        found.setdefault(kind, []).append(edit)
        return found

    def functions(self) -> Iterator[ast.FunctionDef]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef):
                yield node

    def at(self, node: ast.AST) -> Iterator[tuple[Kind, Edit]]:
        """The edits of all kinds but wrong variables that one node offers."""
        match node:
            case ast.BinOp(left=left, op=op, right=right):
                yield from self.signs(op, left, right)
                if not isinstance(op, (ast.Mult, ast.Pow)):
                    yield from self.swapped(left, right)
            case ast.AugAssign(target=target, op=op, value=value):
                yield from self.signs(op, target, value)
            case ast.BoolOp(op=op, values=values):
                for left, right in pairwise(values):
                    yield from self.signs(op, left, right)
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                for comparison, before, after in zip(ops, [left, *comparators], comparators, strict=False):
                    if pair := BOUNDARIES.get(type(comparison)):
                        yield from (("boundary", edit) for edit in self.between(before, after, *pair))
            case ast.Call():
                yield from self.called(node)
            case ast.Slice(lower=lower, upper=upper):
                for bound in (lower, upper):
                    if bound is not None:
                        yield from self.moved(bound)
            case ast.Subscript(slice=ast.BinOp() as index):
                yield from self.moved(index)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
                yield "constant", self.replaced(node, f"-{value + 1}")
                yield "constant", self.replaced(node, f"-{value - 1}" if value > 1 else "0")
            case ast.Constant(value=value):
                yield from (("constant", self.replaced(node, text)) for text in _other_values(value))
        if isinstance(node, (ast.If, ast.While, ast.IfExp)):
            yield from (("condition", edit) for edit in self.negated(node.test))
        if isinstance(node, ast.comprehension):
            for test in node.ifs:
                yield from (("condition", edit) for edit in self.negated(test))
        if isinstance(node, ast.Assign):
            yield from (("initial value", edit) for edit in self.initial(node))
        for name in ("body", "orelse"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield from self.block(block, is_loop=isinstance(node, (ast.For, ast.While)))

    # Single places.

    def place(self, line: int, column: int) -> int:
        return self.lines[line - 1] + column

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self.place(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.place(node.end_lineno, node.end_col_offset)

    def text(self, node: ast.expr | ast.stmt) -> str:
        return self.source[self.start(node) : self.end(node)]

    def replaced(self, node: ast.expr | ast.stmt, text: str) -> Edit:
        return Edit(self.start(node), self.end(node), text)

    def between(self, left: ast.expr, right: ast.expr, sign: str, *others: str) -> Iterator[Edit]:
        """Edits of the sign that stands between two parts; beside it there are only brackets and spaces."""
        gap = self.source[self.end(left) : self.start(right)]
        if (found := gap.find(sign)) >= 0:
            start = self.end(left) + found
            yield from (Edit(start, start + len(sign), other) for other in others)

    # Kinds.

    def signs(self, op: ast.AST, left: ast.expr, right: ast.expr) -> Iterator[tuple[Kind, Edit]]:
        if type(op) in OPERATORS:
            sign, others = OPERATORS[type(op)]
            yield from (("operator", edit) for edit in self.between(left, right, sign, *others))

    def swapped(self, left: ast.expr, right: ast.expr) -> Iterator[tuple[Kind, Edit]]:
        gap = self.source[self.end(left) : self.start(right)]
        # With a bracket in between, the two texts alone are not the two parts.
        if not re.search(r"[()]", gap):
            text = self.text(right) + gap + self.text(left)
            yield "argument order", Edit(self.start(left), self.end(right), text)

    def called(self, node: ast.Call) -> Iterator[tuple[Kind, Edit]]:
        for left, right in pairwise(node.args):
            yield from self.swapped(left, right)
        match node.func:
            case ast.Name(id=name):
                start = self.start(node.func)
            case ast.Attribute(attr=name):
                start = self.end(node.func) - len(name)
            case _:
                return
        for other in METHODS.get(name, ()):
            yield "method", Edit(start, start + len(name), other)
        if name == "range":
            for argument in node.args:
                yield from self.moved(argument)

    def moved(self, bound: ast.expr) -> Iterator[tuple[Kind, Edit]]:
        """A bound one too large or one too small, in the way in which a person would have written it."""
        match bound:
            case ast.Constant(value=int(value)):
                yield from (
                    ("boundary", self.replaced(bound, str(value + by))) for by in (-1, 1) if value + by >= 0
                )
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=ast.Constant(value=1)):
                yield "boundary", self.replaced(bound, self.text(left))
            case ast.Name() | ast.Call():
                yield from (
                    ("boundary", self.replaced(bound, self.text(bound) + by)) for by in (" - 1", " + 1")
                )

    def negated(self, test: ast.expr) -> Iterator[Edit]:
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield Edit(self.start(test), self.start(operand), "")
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                yield from self.between(left, right, *OPPOSITES[type(op)])
            case ast.BoolOp(values=values):
                for value in values:
                    yield from self.negated(value)
            case ast.Name() | ast.Call() | ast.Attribute():
                yield Edit(self.start(test), self.start(test), "not ")

    def initial(self, node: ast.Assign) -> Iterator[Edit]:
        match node.value:
            case ast.Constant(value=value):
                yield from (self.replaced(node.value, text) for text in _other_values(value))
                if value is None:
                    yield self.replaced(node.value, "0")
            case ast.List(elts=[ast.Constant(value=int(value))]):
                yield from (self.replaced(node.value, f"[{text}]") for text in _other_values(value))
            case ast.List(elts=[ast.Name()]) | ast.List(elts=[ast.List()]):
                yield self.replaced(node.value, "[]")
            case ast.BinOp(left=ast.List(elts=[ast.Constant(value=int() as value)]) as first):
                yield from (self.replaced(first, f"[{text}]") for text in _other_values(value))
            case ast.Call(func=ast.Name(id="len")):
                yield self.replaced(node.value, "0")
            case ast.List(elts=[]):
                yield self.replaced(node.value, "[0]")

    def block(self, block: list[ast.stmt], *, is_loop: bool) -> Iterator[tuple[Kind, Edit]]:
        for index, statement in enumerate(block):
            before = block[index - 1] if index else None
            match statement:
                case ast.If(body=[ast.Return() | ast.Raise()], orelse=[]):
                    yield "base case", self.dropped(statement)
                case (
                    ast.If(body=[ast.Continue()], orelse=[]) | ast.AugAssign() | ast.Break() | ast.Continue()
                ):
                    yield "statement", self.dropped(statement)
                case ast.Expr(value=ast.Call()) | ast.Delete():
                    yield "statement", self.dropped(statement)
                case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]):
                    yield "statement", self.dropped(statement)
                case ast.Assign() if is_loop and index:
                    yield "statement", self.dropped(statement)
                case ast.Return() if isinstance(before, (ast.For, ast.While)):
                    yield "statement", self.shifted(statement, 4)
            if is_loop and index and statement is block[-1] and not isinstance(statement, (ast.If, ast.For)):
                yield "statement", self.shifted(statement, -4)

    def stretch(self, statement: ast.stmt) -> tuple[int, int]:
        """The whole lines of a statement."""
        assert statement.end_lineno is not None
        return self.lines[statement.lineno - 1], self.lines[statement.end_lineno]

    def dropped(self, statement: ast.stmt) -> Edit:
        start, end = self.stretch(statement)
        return Edit(start, end, "")

    def shifted(self, statement: ast.stmt, by: int) -> Edit:
        start, end = self.stretch(statement)
        lines = self.source[start:end].splitlines(keepends=True)
        moved = [" " * by + line if by > 0 else line.removeprefix(" " * -by) for line in lines]
        return Edit(start, end, "".join(moved))

    def variables(self, function: ast.FunctionDef, nodes: list[ast.AST]) -> Iterator[Edit]:
        """Another name that has a value by then, or another attribute of the same object."""
        parameters = [argument.arg for argument in function.args.args if argument.arg != "self"]
        bound: dict[str, int] = dict.fromkeys(parameters, 0)
        inner = {
            id(name)
            for node in nodes
            if isinstance(node, ast.comprehension)
            for name in ast.walk(node.target)
        }
        for node in nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in inner:
                bound[node.id] = min(bound.get(node.id, node.lineno), node.lineno)
        attributes = sorted(
            {
                target.attr
                for target in ast.walk(self.tree)
                if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store)
            }
        )
        for node in nodes:
            match node:
                case ast.Name(id=name, ctx=ast.Load()) if name in bound and name != "_":
                    others = [other for other, line in bound.items() if line < node.lineno and other != name]
                    yield from (self.replaced(node, other) for other in sorted(others) if other != "_")
                case ast.Attribute(value=ast.Name(id=name), attr=attribute, ctx=ast.Load()) if (
                    attribute in attributes
                ):
                    end = self.end(node)
                    yield from (
                        Edit(end - len(attribute), end, other) for other in attributes if other != attribute
                    )

    def spared(self, nodes: list[ast.AST]) -> set[tuple[int, int]]:
        """Constants that belong elsewhere: to a range, a slice, an initial value or a minus sign."""
        bounds: list[ast.expr | None] = []
        for node in nodes:
            match node:
                case ast.Call(func=ast.Name(id="range"), args=arguments):
                    bounds += arguments
                case ast.Slice(lower=lower, upper=upper):
                    bounds += [lower, upper]
                case ast.Assign(value=value):
                    bounds.append(value)
                case ast.UnaryOp(operand=operand):
                    bounds.append(operand)
        return {(self.start(bound), self.end(bound)) for bound in bounds if bound is not None}


def _other_values(value: object) -> list[str]:
    match value:
        case bool():
            return [str(not value)]
        case int():
            return [str(value + 1), str(value - 1)] if value > 0 else ["1"]
        case "":
            return ['" "']
        case " ":
            return ['""']
        case _:
            return []


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """A function's nodes, from above to below, without its docstring and f-strings."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.JoinedStr, ast.ClassDef)) or _is_docstring(child):
            continue
        yield from _walk(child)


def _is_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
