"""A function, method or class in Python code: found by its name, and replaced by new source.

Keep true:
1. Everything but the lines of the one definition stays as it is, line ends included.
2. New source means in its place what it meant alone: indentation is changed only where that changes nothing.
3. What is meant is never guessed: several of one name are told with their lines.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import pairwise

import msgspec

from placet.errors import ToolError
from placet.sandbox.refusals import refused, shown
from placet.tools.builtin.syntax import MOST_LETTERS, parse_python, python_name, told

Node = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

_LINE_END = re.compile(r"\r\n|\r|\n")
"""What ends a line for Python; within a string too."""
_FENCE = re.compile(r"\A\s*```[^\n]*\n(.*?)\n?[ \t]*```\s*\Z", re.DOTALL)
_NAMES_SHOWN = 12


class Replaced(msgspec.Struct, frozen=True, kw_only=True):
    """A text in which one definition is another."""

    text: str
    name: str
    """The whole name, such as `Class.method`."""
    start: int
    """Where the new lines begin in the text."""
    end: int


class _Found(msgspec.Struct, frozen=True):
    name: str
    node: Node

    @property
    def first(self) -> int:
        """The first line, decorators included."""
        return min([self.node.lineno, *(each.lineno for each in self.node.decorator_list)])

    @property
    def last(self) -> int:
        return self.node.end_lineno or self.node.lineno


class _Source(msgspec.Struct, frozen=True):
    """New source for one definition."""

    node: Node
    lines: list[str]
    """Comments above it, decorators and all; without line ends."""
    head: int
    """How many lines stand before the first decorator, or the definition."""
    body: int
    """How many lines stand before its body; 0 if that begins on the line of the definition."""


def replace_definition(path: str, text: str, name: str, source: str) -> Replaced:
    """`text`, which is that of the file `path`, with the definition `name` replaced by `source`.

    Raises:
        ToolError: there is no such definition or more than one, or the source is not one of that name.
    """
    name = name.strip().removesuffix("()")
    try:
        new = _read_source(source, name)
        found = _find(path, text, name, new.node)
        return _put(text, found, new)
    except RecursionError:
        raise refused(f"The code is nested too deeply. Change {shown(path)} with edit_file.") from None


def _read_source(source: str, name: str) -> _Source:
    text = _LINE_END.sub("\n", source)
    fenced = _FENCE.match(text)
    text = re.sub(r"\A(?:[ \t]*\n)+", "", fenced[1] if fenced else text).rstrip()
    if len(text) > MOST_LETTERS:
        raise refused(f"The source has more than {MOST_LETTERS:,} characters. Write less at once.")
    lines = text.split("\n")
    try:
        statements, above = _tree(lines)
    except SyntaxError as error:
        words = told(error, text, line_of_first=1 + _is_block(lines))
        raise refused(f"The source is no valid {python_name()}; nothing was written. {words}") from None
    *outer, last = name.split(".")
    node = statements[0] if len(statements) == 1 else None
    begin, end = 0, len(lines)
    if isinstance(node, ast.ClassDef) and outer and node.name == outer[-1] != last and len(node.body) == 1:
        # The method in its class, as a model may write it.
        node = node.body[0]
        begin, end = _first_line(node) - above - 1, (node.end_lineno or 0) - above
    if not isinstance(node, Node) or node.name != last:
        raise _wrong_source(statements, last, above)
    body = node.body[0].lineno - above - 1 - begin if node.body[0].lineno > node.lineno else 0
    return _Source(node, lines[begin:end], _first_line(node) - above - 1 - begin, body)


def _first_line(node: ast.stmt) -> int:
    decorators = node.decorator_list if isinstance(node, Node) else []
    return min([node.lineno, *(each.lineno for each in decorators)])


def _wrong_source(statements: Sequence[ast.stmt], name: str, above: int) -> ToolError:
    def words(each: ast.stmt) -> str:
        kind = f"`{each.name}`" if isinstance(each, Node) else "other code"
        return f"{kind} on line {_first_line(each) - above}"

    held = ", ".join(words(each) for each in statements[:_NAMES_SHOWN]) or "no code"
    return refused(
        f"The source must be the definition of `{name}` and nothing else; it holds {held}. Give that one "
        "alone; imports and other code are changed with edit_file."
    )


def _find(path: str, text: str, name: str, new: Node) -> _Found:
    if len(text) > MOST_LETTERS:
        raise refused(f"The file {shown(path)} is too long to be parsed. Change it with edit_file.")
    try:
        tree = parse_python(text)
    except SyntaxError as error:
        raise refused(
            f"The file {shown(path)} is no valid {python_name()}, so nothing can be found by name: "
            f"{told(error, text)}\nPut that right first with edit_file or replace_lines."
        ) from None
    every = sorted(_definitions(tree), key=lambda each: each.first)
    found = [each for each in every if each.name == name]
    found = found or [each for each in every if each.name.endswith(f".{name}")]
    if len(found) > 1:
        # A getter and its setter, or overloads: the decorators tell which is meant.
        mine = _decorators(new)
        same = [each for each in found if _decorators(each.node) == mine]
        found = same if len(same) == 1 else found
    if len(found) == 1:
        return found[0]
    if found:
        raise refused(
            f"There is more than one `{name}` in {shown(path)}: {_told(found)}. Give the whole name, such as "
            "Class.method, or change the lines that are meant with replace_lines or edit_file."
        )
    raise _missing(path, name, every)


def _definitions(tree: ast.Module) -> Iterator[_Found]:
    todo: list[tuple[ast.AST, str]] = [(tree, "")]
    while todo:
        node, within = todo.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Node):
                yield _Found(f"{within}{child.name}", child)
                todo.append((child, f"{within}{child.name}."))
            elif isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
                todo.append((child, within))


def _decorators(node: Node) -> list[str]:
    return [ast.dump(each) for each in node.decorator_list]


def _told(found: Sequence[_Found]) -> str:
    words = [f"`{each.name}` on lines {each.first} to {each.last}" for each in found[:_NAMES_SHOWN]]
    return ", ".join(words) + (" and more" if len(found) > _NAMES_SHOWN else "")


def _missing(path: str, name: str, every: Sequence[_Found]) -> ToolError:
    if not every:
        return refused(f"{shown(path)} defines no function and no class. Add `{name}` with edit_file.")
    by_end = {each.name.rpartition(".")[2]: each for each in reversed(every)}
    whole = {each.name: each for each in every}
    near = [whole[each] for each in get_close_matches(name, list(whole), n=3)]
    near += [by_end[each] for each in get_close_matches(name.rpartition(".")[2], list(by_end), n=3)]
    near = list({id(each.node): each for each in near}.values())
    what = f"Nearest: {_told(near)}" if near else f"There are: {_told(every)}"
    return refused(f"There is no `{name}` in {shown(path)}. {what}. New code is added with edit_file.")


def _put(text: str, found: _Found, new: _Source) -> Replaced:
    starts = [0, *(match.end() for match in _LINE_END.finditer(text)), len(text)]
    rows = [text[begin:end] for begin, end in pairwise(starts)]
    top = found.first - 1
    while top > 0 and not rows[top].lstrip().startswith(("@", "def", "class", "async")):
        top -= 1  # a decorator whose name stands below its @
    begin = top if new.node.decorator_list else found.node.lineno - 1
    last = rows[found.last - 1]
    end_of_last = last[len(last.rstrip("\r\n")) :]
    head = [line.strip() for line in new.lines[: new.head]]
    repeats = bool(head) and head == [row.strip() for row in rows[max(top - new.head, 0) : top]]
    block = _indented(new, rows, found)[new.head if repeats else 0 :]
    put = _line_end(text[starts[begin] : starts[found.last]], text).join(block) + end_of_last
    start, end = starts[begin], starts[found.last]
    return Replaced(text=text[:start] + put + text[end:], name=found.name, start=start, end=start + len(put))


def _line_end(*texts: str) -> str:
    """The first line end in these texts."""
    found = (_LINE_END.search(text) for text in texts)
    return next((match[0] for match in found if match), "\n")


def _indented(new: _Source, rows: Sequence[str], found: _Found) -> list[str]:
    """The lines of the source as they must be indented in the file."""
    source = new.lines
    old_margin, new_margin = _margin(rows[found.node.lineno - 1]), _margin(source[new.head])
    first = found.node.body[0].lineno
    old_body = _margin(rows[first - 1]) if first > found.node.lineno else ""
    new_body = _margin(source[new.body]) if new.body else ""
    wanted = _shape(source)
    strings, docstrings = _in_strings(source)
    old_step, new_step = old_body.removeprefix(old_margin), new_body.removeprefix(new_margin)
    # Models often leave out the margin of the first line alone.
    is_placed = not new_margin and bool(old_margin) and new_body == old_body != ""
    ways = [(old_step, strings - docstrings), ("", strings - docstrings), ("", strings)]
    for step, kept in ways:
        lines: list[str] = []
        for at, line in enumerate(source):
            if at in kept:
                lines.append(line)
            elif not line.strip():
                lines.append("")
            elif is_placed and at >= new.body:
                lines.append(line)
            else:
                rest = line[len(new_margin) :] if line.startswith(new_margin) else line.lstrip(" \t")
                lines.append(old_margin + _stepped(rest, new_step, step))
        if _shape(lines) == wanted:
            return lines
    raise refused("The source cannot be indented for its place without changing it. Indent it as it must be.")


def _stepped(line: str, old: str, new: str) -> str:
    """A line whose indentation is made of other steps, such as tabs."""
    if not old or not new or old == new:
        return line
    count = 0
    while line.startswith(old, count * len(old)):
        count += 1
    return new * count + line[count * len(old) :]


def _margin(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t\f"))].replace("\f", "")


def _tree(lines: Sequence[str]) -> tuple[list[ast.stmt], int]:
    """The statements of a definition's lines, and how many lines were put above them to read them."""
    if not _is_block(lines):
        return parse_python("\n".join(lines)).body, 0
    # As a block, so that no string in it has to be touched.
    tree = parse_python("\n".join(["if 1:", *lines]))
    block, *rest = tree.body
    return [*(block.body if isinstance(block, ast.If) else ()), *rest], 1


def _is_block(lines: Sequence[str]) -> bool:
    """Whether it is indented as a whole. Comments may stand anywhere."""
    return next((line[:1] in " \t" for line in lines if line.strip() and line.strip()[0] != "#"), False)


def _shape(lines: Sequence[str]) -> str | None:
    """What a definition means: all of it but how far its docstrings are indented. None if it is not valid."""
    try:
        statements, _ = _tree(lines)
    except SyntaxError:
        return None
    for text in _docstrings(statements):
        text.value = inspect.cleandoc(str(text.value))
    return "\n".join(ast.dump(each) for each in statements)


def _docstrings(statements: Sequence[ast.stmt]) -> Iterator[ast.Constant]:
    for each in statements:
        for node in ast.walk(each):
            match node:
                case (
                    ast.FunctionDef(body=[ast.Expr(value=ast.Constant(value=str()) as text), *_])
                    | ast.AsyncFunctionDef(body=[ast.Expr(value=ast.Constant(value=str()) as text), *_])
                    | ast.ClassDef(body=[ast.Expr(value=ast.Constant(value=str()) as text), *_])
                ):
                    yield text
                case _:
                    pass


def _in_strings(lines: Sequence[str]) -> tuple[set[int], set[int]]:
    """Which lines, counted from 0, begin within a string, and which of these within a docstring."""
    statements, above = _tree(lines)
    strings: set[int] = set()
    docstrings: set[int] = set()
    for text in _docstrings(statements):
        docstrings.update(range(text.lineno - above, (text.end_lineno or 0) - above))
    began: list[int] = []
    code = "\n".join(["if 1:", *lines] if above else lines)
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            kind = tokenize.tok_name[token.type]
            if kind.endswith("STRING_START"):  # of a string with parts to fill in, since Python 3.12
                began.append(token.start[0])
            elif kind == "STRING" or kind.endswith("STRING_END"):
                first = token.start[0] if kind == "STRING" else began.pop()
                strings.update(range(first - above, token.end[0] - above))
    except (tokenize.TokenError, SyntaxError):
        # Valid, but not for this reader: then no line is moved that could be in a string.
        strings.update(range(1, len(lines)))
    return strings, docstrings & strings
