"""A call of a model's in one line: what it was given, and what came of it.

Keep true:
1. One line, cleaned, whatever a model or a tool wrote.
2. What the call was given is not told again as what came of it, as long as there is something else to tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from placet.ir.json_value import JsonValue
from placet.render.text import value
from placet.safe_text import clean
from placet.truncation import truncate

_VALUE = 60
"""Columns of one value."""
_MOST = 8
"""Of more parameters, the rest are counted."""
_MOST_READ = 20_000
"""Characters of a result that are looked at."""
_FIELD = re.compile(r"(\w+): (.*)")
_SECTION = re.compile(r"(\w+) \((\d+) lines\):")
_TEXTS = ("text", "content", "output", "result", "body", "stdout", "stderr")
"""Where a tool that answers with an object puts what it is about."""
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def given_words(parameters: Mapping[str, JsonValue]) -> str:
    """What a call was given.

    >>> given_words({"path": "a.txt", "text": "one\\ntwo", "again": True})
    'path=a.txt, text=one\\\\ntwo, again=true'
    """
    words = [
        f"{clean(name, 40)}={clean(item, _VALUE) if isinstance(item, str) else value(item, _VALUE)}"
        for name, item in list(parameters.items())[:_MOST]
    ]
    left_out = len(parameters) - _MOST
    return ", ".join(words) + (f" and {left_out:,} more" if left_out > 0 else "")


def came_words(text: str, parameters: Mapping[str, JsonValue] | None = None) -> str:
    """What came of a call, in the first words that say something: `text` is what the model saw.

    >>> came_words('{"exit_code":1,"stdout":"","stderr":"no such file\\\\n"}')
    'exit code 1: no such file'
    >>> came_words('{"path":"a.txt","bytes":3}', {"path": "a.txt"})
    'bytes: 3'
    >>> came_words("path: a.txt\\ntext (2 lines):\\nHello\\nthere", {"path": "a.txt"})
    'Hello'
    """
    text = truncate(text, _MOST_READ).strip()
    fields = _fields(text)
    if not fields:
        return _first(text)
    if "exit_code" in fields:
        said = next(filter(None, (_first(fields.get(name)) for name in ("stdout", "stderr"))), "")
        code = f"exit code {value(fields['exit_code'], 20)}"
        return f"{code}: {said}" if said else code
    given = parameters or {}
    new = {name: item for name, item in fields.items() if name not in given or given[name] != item}
    for name in _TEXTS:
        if said := _first(new.get(name)):
            return said
    # The request again is better than nothing.
    return ", ".join(_short(new or fields)) or _first(text)


def _short(fields: Mapping[str, JsonValue]) -> Iterator[str]:
    for name, item in fields.items():
        if isinstance(item, str) and "\n" in item.rstrip("\n") and len(fields) > 1:
            continue
        yield f"{clean(name, 40)}: {_first(item) if isinstance(item, str) else value(item, _VALUE)}"


def _first(text: JsonValue) -> str:
    """The first line of a text that is not blank."""
    if not isinstance(text, str):
        return ""
    return next((clean(line.strip()) for line in text.split("\n") if line.strip()), "")


def _fields(text: str) -> dict[str, JsonValue]:
    """The object that a tool answered with; empty where it is none, or its text was cut."""
    if text.startswith("{"):
        try:
            # Only to be shown: whatever else is wrong with it was found where it came from.
            return _decode(text.encode(errors="replace"))
        except (msgspec.DecodeError, RecursionError):
            return {}
    fields: dict[str, JsonValue] = {}
    lines = text.split("\n")
    n = 0
    while n < len(lines):
        if found := _SECTION.fullmatch(lines[n]):
            end = n + 1 + int(found[2])
            fields[found[1]] = "\n".join(lines[n + 1 : end])
            n = end
        elif found := _FIELD.fullmatch(lines[n]):
            fields[found[1]] = int(found[2]) if found[2].isdecimal() and len(found[2]) < 10 else found[2]
            n += 1
        else:
            return {}
    # Fields alone are no object of ours: any text may have such lines.
    return fields if any(map(_SECTION.fullmatch, lines)) else {}
