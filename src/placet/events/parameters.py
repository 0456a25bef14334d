"""Parameters of calls as the log holds them: without secrets, then cut.

Keep true:
1. What is cut was redacted before. What is short is not looked at here: the log redacts it on every way out.
2. What is returned shares nothing that can change with what a tool is given.
3. It is small, however much a call was given: the log keeps many of them in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import islice
from typing import Any

import msgspec

from placet.ir.json_value import JsonValue, show_json
from placet.redaction import REDACTED, Redactor

LONGEST = 300
"""Characters of one value."""
MOST = 40
"""Parameters of one call."""
SECRET = "(secret)"
"""In the place of a value that is marked as secret."""
UNLOGGED = "(not logged)"
"""In the place of a value that its tool keeps out of the log: what is in a log cannot be forgotten."""

_LONGEST_NAME = 200
_REST = "…"
_LARGE: Any = object()
_ROOM = 10_000
"""Characters of a list or an object that are redacted at first: far more than are shown."""
_PLAIN = frozenset({int, float, bool, type(None)})
_NO_NAMES: frozenset[str] = frozenset()

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode


def logged_parameters(
    parameters: Mapping[str, JsonValue],
    redactor: Callable[[], Redactor],
    secret: Collection[str] = _NO_NAMES,
) -> dict[str, JsonValue]:
    """Parameters as the log holds them. A value of more than 300 characters is a text with its beginning and
    its length, a list or an object as JSON. `secret` names those that are marked as secret; `redactor` is
    asked for only where something is cut.

    >>> logged_parameters({"path": "a.txt", "text": "x" * 1000}, Redactor)["text"][-21:]
    'x… (1,000 characters)'
    """
    if not secret and len(parameters) <= MOST:
        for name in parameters:
            kind = type(value := parameters[name])
            if kind is str:
                if len(value) > LONGEST:
                    break
            elif kind not in _PLAIN:
                break
            if len(name) > _LONGEST_NAME:
                break
        else:
            return {**parameters}  # Most calls; this is on the way of every one.
    first = dict(islice(parameters.items(), MOST))
    small = {name: SECRET if name in secret else _small(value) for name, value in first.items()}
    shown: dict[str, JsonValue] = {}
    for name, value in small.items():
        if value is _LARGE:
            is_hidden = _is_named_secret(small, name, redactor())
            value = REDACTED if is_hidden else _beginning(first[name], redactor())
        if len(name) > _LONGEST_NAME:
            name = redactor().cut(name, _LONGEST_NAME - 1) + _REST
        shown[name] = value
    if len(parameters) > MOST:
        shown[_REST] = f"{len(parameters) - MOST:,} more"
    return shown


def logged_text(text: str, redactor: Callable[[], Redactor], limit: int = LONGEST) -> str:
    """How a text begins, as the log holds it: without secrets if it is cut."""
    return text if len(text) <= limit else redactor().cut(text, limit)


def _small(value: JsonValue) -> JsonValue:
    """A copy of a value that need not be cut; else _LARGE."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, str):
        return value if len(value) <= LONGEST else _LARGE
    try:
        encoded = _encode(value)
    except (TypeError, ValueError, RecursionError):
        return _LARGE
    return _decode(encoded) if len(encoded) <= LONGEST else _LARGE


def _is_named_secret(small: Mapping[str, JsonValue], name: str, redactor: Redactor) -> bool:
    """Whether the name of a parameter, or what stands beside it, says that it is secret."""
    beside = {each: "" if value is _LARGE else value for each, value in small.items()}
    shown = redactor.value(beside)
    # By place: a name that holds a secret is shown as another.
    return any(each == name and value != "" for each, value in zip(beside, shown.values(), strict=True))


def _beginning(value: JsonValue, redactor: Redactor) -> str:
    """How a large value begins, and its length: of a list or an object, as JSON."""
    if isinstance(value, str):
        return f"{redactor.cut(value, LONGEST)}{_REST} ({len(value):,} characters)"
    room = _ROOM
    while True:
        # Only as much as can matter is redacted; as a value, because in it names say what is secret.
        head, left = _head(value, room)
        text = _text(redactor.value(head))
        if left > 0 or len(text) >= _ROOM // 2:
            return f"{redactor.cut(text, LONGEST)}{_REST} ({len(_text(value)):,} characters)"
        room *= 4


def _head(value: JsonValue, room: int) -> tuple[JsonValue, int]:
    """The first part of a value, of about that many characters, and how much room is left; none if cut."""
    if isinstance(value, str):
        return value[: max(room, 0)], room - len(value) - 2
    if isinstance(value, dict):
        items: dict[str, JsonValue] = {}
        for name, item in value.items():
            items[name], room = _head(item, room - len(name) - 4)
            if room <= 0:
                break
        return items, room
    if isinstance(value, list | tuple):
        parts: list[JsonValue] = []
        for item in value:
            part, room = _head(item, room - 1)
            parts.append(part)
            if room <= 0:
                break
        return parts, room
    return value, room - 5


def _text(value: JsonValue) -> str:
    try:
        return show_json(value)
    except (TypeError, ValueError, RecursionError):
        return repr(value)
