"""Read a docstring for what a model should know: what the tool does, and what each parameter means.

Three spellings of parameter sections are understood: Google (`Args:`), NumPy (`Parameters` underlined with
dashes) and Sphinx (`:param x:`). They may be mixed; the first description of a parameter counts.

Keep true:
1. A docstring in no known spelling is no error: it just describes no parameters.
2. Only names of real parameters are taken, so prose with a colon in it is never mistaken for one.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from inspect import cleandoc

_GOOGLE_PARAMETERS = re.compile(
    r"(?:(?:Keyword |Other )?(?:Args|Arguments|Parameters)|Params):\s*$", re.IGNORECASE
)
_GOOGLE_SECTION = re.compile(r"[A-Z][A-Za-z ]{2,30}:\s*$")
_GOOGLE_ENTRY = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?:\(.*?\))?\s*:(?:\s+(.*)|$)")
_AFTER_SUMMARY = re.compile(
    r"(?:Returns?|Raises|Yields?|Examples?|Notes?|Attributes|Warnings?|See Also):\s*$"
)
_NUMPY_PARAMETERS = re.compile(r"(?:Other )?Parameters\s*$", re.IGNORECASE)
_NUMPY_ENTRY = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
_UNDERLINE = re.compile(r"-{3,}\s*$")
_SPHINX_FIELD = re.compile(r":(\w+)(?:\s+([^:]*))?:(?:\s+(.*)|$)")
_SPHINX_PARAMETER = frozenset({"param", "parameter", "arg", "argument", "key", "keyword"})


def read_docstring(doc: str | None, names: Collection[str]) -> tuple[str, dict[str, str]]:
    """The first paragraph of `doc` on one line, and a description for each of `names` that has one.

    >>> read_docstring("Add two\\nnumbers.\\n\\nArgs:\\n    a: the first", ["a", "b"])
    ('Add two numbers.', {'a': 'the first'})
    """
    lines = cleandoc(doc).splitlines() if doc else []
    found: dict[str, list[str]] = {}
    at = 0
    while at < len(lines):
        if _GOOGLE_PARAMETERS.match(lines[at]):
            at = _read_google(lines, at + 1, names, found)
        elif _is_numpy_heading(lines, at) and _NUMPY_PARAMETERS.match(lines[at]):
            at = _read_numpy(lines, at + 2, names, found)
        elif lines[at].startswith(":"):
            at = _read_sphinx(lines, at, names, found)
        else:
            at += 1
    texts = {name: " ".join(part for part in parts if part) for name, parts in found.items()}
    return _first_paragraph(lines), {name: text for name, text in texts.items() if text}


def _first_paragraph(lines: list[str]) -> str:
    taken: list[str] = []
    for at, line in enumerate(lines):
        if not line.strip() or _starts_section(lines, at):
            break
        taken.append(line.strip())
    return " ".join(taken)


def _starts_section(lines: list[str], at: int) -> bool:
    return (
        _GOOGLE_PARAMETERS.match(lines[at]) is not None
        or _AFTER_SUMMARY.match(lines[at]) is not None
        or _SPHINX_FIELD.match(lines[at]) is not None
        or _is_numpy_heading(lines, at)
    )


def _is_numpy_heading(lines: list[str], at: int) -> bool:
    return at + 1 < len(lines) and bool(lines[at].strip()) and _UNDERLINE.match(lines[at + 1]) is not None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _read_google(lines: list[str], at: int, names: Collection[str], found: dict[str, list[str]]) -> int:
    """Entries stand at the indentation of the first one; what is deeper, or no entry, continues the last."""
    base: int | None = None
    current: list[list[str]] = []
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            at += 1
            continue
        if _indent(line) == 0:
            break
        if base is None:
            base = _indent(line)
        entry = _GOOGLE_ENTRY.match(line.strip()) if _indent(line) <= base else None
        listed = _names_in(entry[1]) if entry else []
        if entry and any(name in names for name in listed):
            current = [_start(found, name, entry[2]) for name in listed if name in names]
        elif entry and _indent(line) == base and not _is_prose(entry[1], current):
            current = []
        else:
            for text in current:
                text.append(line.strip())
        at += 1
    return at


def _names_in(entry: str) -> list[str]:
    return [name.strip().lstrip("*") for name in entry.split(",")]


def _is_prose(words: str, current: list[list[str]]) -> bool:
    """`Note: ...` in a description goes on with it; `old_name: ...` is an entry for no parameter of ours."""
    return bool(current) and words[:1].isupper()


def _read_numpy(lines: list[str], at: int, names: Collection[str], found: dict[str, list[str]]) -> int:
    current: list[list[str]] = []
    while at < len(lines) and not _is_numpy_heading(lines, at):
        line = lines[at]
        if line.strip() and _indent(line) == 0:
            entry = _NUMPY_ENTRY.match(line)
            if entry is None and _GOOGLE_SECTION.match(line):
                break
            listed = _names_in(entry[1]) if entry else []
            current = [_start(found, name, None) for name in listed if name in names]
        elif line.strip():
            for text in current:
                text.append(line.strip())
        at += 1
    return at


def _read_sphinx(lines: list[str], at: int, names: Collection[str], found: dict[str, list[str]]) -> int:
    """One field: its own line, and the indented lines below it, of which some may be empty."""
    field = _SPHINX_FIELD.match(lines[at])
    at += 1
    current: list[str] | None = None
    if field and field[1] in _SPHINX_PARAMETER and field[2]:
        # `:param int x:` carries the type before the name.
        name = field[2].split()[-1].lstrip("*\\")
        if name in names:
            current = _start(found, name, field[3])
    while at < len(lines) and (not lines[at].strip() or _indent(lines[at]) > 0):
        if current is not None:
            current.append(lines[at].strip())
        at += 1
    return at


def _start(found: dict[str, list[str]], name: str, text: str | None) -> list[str]:
    fresh = [(text or "").strip()]
    # A second description of the same parameter is read, so that its lines go nowhere else, and dropped.
    if name not in found:
        found[name] = fresh
    return fresh
