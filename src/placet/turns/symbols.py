"""Functions, classes and constants that a task names and files of the workspace define.

Files are only searched for the names that the task spells; nothing of what they hold goes anywhere.

Keep true:
1. The search is bounded in files and bytes, and follows no link.
2. Nothing raises: a file that cannot be read defines nothing.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable
from typing import NamedTuple

_WORD = re.compile(r"`([A-Za-z_]\w{2,60})`|(?<![\w./@-])[A-Za-z_]\w{1,60}(?:\(\))?(?![\w/-]|\.\w)")
_HUMP = re.compile(r"[a-z][A-Z]")
_SOURCES = (
    ".c", ".cc", ".cpp", ".cs", ".go", ".h", ".hpp", ".java", ".js", ".jsx", ".kt", ".lua", ".php", ".pl",
    ".py", ".pyi", ".rb", ".rs", ".scala", ".sh", ".swift", ".toml", ".ts", ".tsx", ".yaml", ".yml",
)  # fmt: skip
_MOST_SYMBOLS = 8
_MOST_FILES = 500
_MOST_BYTES = 4 * 1024 * 1024
_MOST_OF_FILE = 256 * 1024
_KEYWORDS = "class|def|enum|fn|func|function|fun|interface|struct|trait|type|const|let|static|val|var"


class Definition(NamedTuple):
    """Where a symbol is defined."""

    path: str
    line: int


def symbols_in(task: str) -> list[str]:
    """Names in a task that can be symbols: nobody writes them in plain prose.

    >>> symbols_in("What does parse_date return, and `main`, run() or JavaScript? Ask Ann.")
    ['parse_date', 'main', 'run', 'JavaScript']
    """
    found = dict.fromkeys(
        each[1] or each[0].removesuffix("()")
        for each in _WORD.finditer(task)
        if each[1] or "_" in each[0] or each[0].endswith(")") or _HUMP.search(each[0])
    )
    return list(found)[:_MOST_SYMBOLS]


def defined_symbols(folder: str, files: Iterable[str], names: Collection[str]) -> dict[str, Definition]:
    """By name, its definition in the first of the files that has one."""
    found: dict[str, Definition] = {}
    if not names:
        return found
    patterns = {name: _definition(name) for name in names}
    left = _MOST_BYTES
    sources = sorted(
        (path for path in files if path.endswith(_SOURCES)), key=lambda each: (each.count("/"), each)
    )
    for path in sources[:_MOST_FILES]:
        text = _read(os.path.join(folder, path), min(left, _MOST_OF_FILE))
        left -= len(text)
        for name in [each for each in patterns if each in text]:
            if (at := patterns[name].search(text)) is not None:
                found[name] = Definition(path, text.count("\n", 0, at.end()) + 1)
                del patterns[name]
        if left <= 0 or not patterns:
            break
    return found


def _definition(name: str) -> re.Pattern[str]:
    return re.compile(
        rf"\b(?:{_KEYWORDS})\s+{name}\b"
        rf"|^[ \t]*(?:self\.|this\.|export\s+)?{name}[ \t]*(?::[^:\n]*)?=(?!=)|^[ \t]*{name}[ \t]*:"
        rf"|\b{name}[ \t]*\([^()\n]*\)[^\n;]*\{{",
        re.MULTILINE,
    )


def _read(path: str, most: int) -> str:
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (OSError, ValueError):
        return ""
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return ""
        return os.read(opened, most).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(opened)
