"""Paths into the output of a tool: `from`, `mails[].from`, `[].id`.

Keep true:
1. A path that declares a mark matches generously: it does not matter where lists stand on the way.
2. A path that lifts a mark matches exactly, list by list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from placet.errors import RuleError
from placet.ir.json_value import JsonValue
from placet.truncation import truncate_repr

ITEM = "[]"
"""The step into the items of a list."""

Steps = tuple[str, ...]

_FIELD = re.compile(r"(?:\[\]|[^.\[\]]+)(?:\.[^.\[\]]+|\[\])*")
_STEP = re.compile(r"\[[0-9]*\]|[^.\[\]]+")


def parse_field(path: Any, key: str) -> Steps:
    """The steps of a path that a rule or a tool declares.

    >>> parse_field("mails[].from", "fields")
    ('mails', '[]', 'from')

    Raises:
        RuleError: it is not a path; names `key`.
    """
    if not isinstance(path, str) or not _FIELD.fullmatch(path):
        raise RuleError(
            f"'{key}' holds {truncate_repr(path, 80)}, which is not a path into an output; write names "
            "separated by dots, and [] for the items of a list, such as 'mails[].from'"
        )
    return tuple(_STEP.findall(path))


def steps_of(reference_path: str) -> Steps:
    """The steps of the path of a reference; every position in a list is `[]`.

    >>> steps_of(".mails[0].from")
    ('mails', '[]', 'from')
    """
    return tuple(ITEM if step.startswith("[") else step for step in _STEP.findall(reference_path))


def overlap(declared: Steps, used: Steps) -> bool:
    """Whether one of two paths leads to, or into, the other, wherever lists stand on the way.

    >>> overlap(("mails", "[]", "body"), ("mails",)), overlap(("body",), ("from",))
    (True, False)
    """
    ours, theirs = _names(declared), _names(used)
    shorter = min(len(ours), len(theirs))
    return ours[:shorter] == theirs[:shorter]


def _names(steps: Steps) -> Steps:
    return tuple(step for step in steps if step != ITEM)


def values_at(value: JsonValue, steps: Steps) -> Iterator[JsonValue]:
    """Every value that a path leads to, exactly."""
    if not steps:
        yield value
    elif steps[0] == ITEM:
        if isinstance(value, list):
            for item in value:
                yield from values_at(item, steps[1:])
    elif isinstance(value, dict) and steps[0] in value:
        yield from values_at(value[steps[0]], steps[1:])


def marked_parts(value: JsonValue, steps: Steps) -> Iterator[JsonValue]:
    """Every value that a path leads to, wherever lists stand on the way."""
    names = _names(steps)
    pending: list[tuple[int, JsonValue]] = [(0, value)]
    while pending:
        depth, inner = pending.pop()
        if depth == len(names):
            yield inner
        elif isinstance(inner, list):
            pending += [(depth, item) for item in inner]
        elif isinstance(inner, dict) and names[depth] in inner:
            pending.append((depth + 1, inner[names[depth]]))


def leaves_of(value: JsonValue, without: Sequence[Steps] = ()) -> Iterator[JsonValue]:
    """Every text, number and boolean in a value; not those below one of the paths in `without`."""
    names = [_names(steps) for steps in without]
    pending: list[tuple[Steps, JsonValue]] = [((), value)]
    while pending:
        at, inner = pending.pop()
        if any(at[: len(each)] == each for each in names):
            continue
        if isinstance(inner, dict):
            pending += [((*at, key), item) for key, item in inner.items()]
        elif isinstance(inner, list):
            pending += [(at, item) for item in inner]
        elif inner is not None:
            yield inner
