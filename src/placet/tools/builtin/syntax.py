"""Whether a text is still valid Python, JSON or TOML, and where it is not.

Keep true:
1. Nothing is run: Python is compiled and thrown away.
2. Whatever the text holds, there is an answer: a problem in words, or none.
3. Only names that say for sure what a file holds are judged. A wrong alarm sends a model the wrong way.
4. Warnings about somebody else's code are nobody's business: they are neither shown nor made errors.
"""

from __future__ import annotations

import re
import sys
import threading
import warnings
from typing import TYPE_CHECKING

from placet.truncation import excerpt, truncate

if TYPE_CHECKING:
    import ast

MOST_LETTERS = 1_000_000
"""A longer text is not judged: parsing it takes a hundred times its size."""

_MOST_TOML_LETTERS = 200_000
_SHOWN_LETTERS = 160
_SHOWN_WORDS = 300
_SOURCE = "<text of a tool>"
_LOCK = threading.Lock()
_LINE_END = re.compile(r"\r\n|\r|\n")
_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_WITH_COMMENTS = re.compile(
    r"(?:^|/)(?:[tj]sconfig[^/]*\.json|\.(?:vscode|devcontainer)/[^/]*|\.eslintrc\.json)$"
)
"""JSON by name, but whoever reads these lets them have comments."""


def syntax_problem(path: str, text: str) -> str:
    """What makes a text no valid file of its kind, with line, column and that line; "" if nothing does.

    The kind is told by the path. Of a kind that is not known here, "" as well.

    >>> print(syntax_problem("a.json", "[1,\\n 2 3]"))
    No valid JSON: Expecting ',' delimiter. Line 2, column 4:
    2:  2 3]
    """
    name = path.casefold()
    text = text.removeprefix("\ufeff")
    if len(text) > MOST_LETTERS:
        return ""
    if name.endswith((".py", ".pyi", ".pyw")):
        return _python_problem(text)
    if name.endswith(".json") and not _WITH_COMMENTS.search(name):
        return _json_problem(text)
    if name.endswith(".toml") and len(text) <= _MOST_TOML_LETTERS:
        return _toml_problem(text)
    return ""


def parse_python(text: str) -> ast.Module:
    """The tree of some Python code.

    Raises:
        SyntaxError: it is none, or none that this Python can take.
    """
    import ast

    tree = _compiled(text, ast.PyCF_ONLY_AST)
    assert isinstance(tree, ast.Module)
    return tree


def told(error: SyntaxError, text: str, *, line_of_first: int = 1) -> str:
    """A syntax error in words: what, where, and that line. `text` begins on line `line_of_first`."""
    line = max((error.lineno or 1) - line_of_first + 1, 1)
    return _words(error.msg, text, line, error.offset or 1)


def python_name() -> str:
    """Which Python it is that judges: what is no error in a later one is one here."""
    return f"Python {sys.version_info.major}.{sys.version_info.minor}"


def _python_problem(text: str) -> str:
    try:
        # Compiled, not only parsed: a `return` outside of a function is found no sooner.
        _compiled(text, 0)
    except SyntaxError as error:
        return f"No valid {python_name()}: {told(error, text)}"
    return ""


def _compiled(text: str, flags: int) -> object:
    # One at a time: the list of filters is the process's. A filter for our name alone disturbs nobody, while
    # putting all of them back, as `catch_warnings` does, would undo what other threads did meanwhile.
    with _LOCK:
        warnings.filterwarnings("ignore", module=re.escape(_SOURCE))
        try:
            return compile(text, _SOURCE, "exec", flags=flags, dont_inherit=True)
        except (RecursionError, MemoryError):
            raise SyntaxError("it is nested too deeply") from None
        except ValueError as error:
            # A zero character, half of a surrogate pair, a number of many thousand digits.
            raise SyntaxError(str(error)) from None


def _json_problem(text: str) -> str:
    import json

    try:
        # Numbers stay text: a long one takes long to read, and is valid however long it is.
        json.loads(text, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        return f"No valid JSON: {_words(error.msg, text, error.lineno, error.colno)}"
    except RecursionError:
        return "No valid JSON: it is nested too deeply."
    return ""


def _toml_problem(text: str) -> str:
    import tomllib

    try:
        tomllib.loads(text)
    except ValueError as error:
        what = str(error)
        found = _AT.search(what)
        if found is None:
            return f"No valid TOML: {truncate(what, _SHOWN_WORDS)}."
        line, column = (int(found[1]), int(found[2])) if found[1] else (len(_LINE_END.split(text)), 1)
        return f"No valid TOML: {_words(what[: found.start()], text, line, column)}"
    except RecursionError:
        return "No valid TOML: it is nested too deeply."
    return ""


def _words(what: str, text: str, line: int, column: int) -> str:
    rows = _LINE_END.split(text)
    row = rows[line - 1] if line <= len(rows) else ""
    # Of a long line the part that is meant.
    begin = max(column - _SHOWN_LETTERS // 2, 0) if len(row) > _SHOWN_LETTERS else 0
    part = f"{'…' if begin else ''}{excerpt(row, begin, begin + _SHOWN_LETTERS)}"
    return f"{truncate(what, _SHOWN_WORDS).rstrip('.')}. Line {line}, column {column}:\n{line}: {part}"
