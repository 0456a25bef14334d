"""References in parameters: `$a1.output.items[0].name` stands for a part of an earlier result.

Keep true:
1. `$` in any other form is an ordinary character; `$$a1.output` is the literal text `$a1.output`.
2. Text that was put in is never scanned again.
3. A reference that stands alone keeps the type of the value it names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from placet.ir.json_value import JsonValue, show_json

# The lookahead keeps `$a1.outputs` and `$a1.output_dir` ordinary text. `$$` before the form escapes it.
_REFERENCE = re.compile(
    r"(?P<escape>\$?)\$(?P<id>\w(?:[\w:.\-]*?[\w:\-])?)\.output(?!\w)"
    r"(?P<path>(?:\.\w[\w\-]*|\[[0-9]{1,9}\])*)"
)
_STEP = re.compile(r"\.(\w[\w\-]*)|\[([0-9]+)\]")


class MissingPath(Exception):
    """A reference names a part that the result does not have."""


class Reference(NamedTuple):
    """One use of an earlier result."""

    action_id: str
    path: str

    def __str__(self) -> str:
        return f"${self.action_id}.output{self.path}"

    def lookup(self, output: JsonValue) -> JsonValue:
        """The part of `output` that is named.

        Raises:
            MissingPath: there is no such part.
        """
        value = output
        for name, position in _STEP.findall(self.path):
            if name:
                # A dotted number may also be an object's key, so the container decides.
                if isinstance(value, dict) and name in value:
                    value = value[name]
                    continue
            elif isinstance(value, list) and int(position) < len(value):
                value = value[int(position)]
                continue
            raise MissingPath(f"reference '{self}' has nothing at '{name or f'[{position}]'}'")
        return value


def literal(text: str) -> str:
    """The text as a parameter that stands for itself, whatever references it seems to hold.

    >>> literal("see $a1.output, $5")
    'see $$a1.output, $5'
    """
    return _REFERENCE.sub(lambda found: f"${found[0]}", text)


def has_references(value: JsonValue) -> bool:
    """Whether anything in `value` looks like a reference or an escaped one."""
    kind = type(value)
    if kind is str:
        return "$" in value and _REFERENCE.search(value) is not None
    if kind is dict:
        return any(map(has_references, value.values()))
    if kind is list:
        return any(map(has_references, value))
    return False


def find_references(value: JsonValue) -> Iterator[Reference]:
    """Every reference in `value`, escaped ones left out."""
    kind = type(value)
    if kind is str:
        if "$" in value:
            for match in _REFERENCE.finditer(value):
                if not match["escape"]:
                    yield Reference(match["id"], match["path"])
    elif kind is dict:
        for item in value.values():
            yield from find_references(item)
    elif kind is list:
        for item in value:
            yield from find_references(item)


def resolve(value: JsonValue, lookup: Callable[[Reference], JsonValue]) -> JsonValue:
    """`value` with every reference replaced by what `lookup` gives for it."""
    kind = type(value)
    if kind is str:
        if "$" not in value:
            return value
        whole = _REFERENCE.fullmatch(value)
        if whole and not whole["escape"]:
            return lookup(Reference(whole["id"], whole["path"]))
        return _REFERENCE.sub(lambda match: _inline(match, lookup), value)
    if kind is dict:
        return {key: resolve(item, lookup) for key, item in value.items()}
    if kind is list:
        return [resolve(item, lookup) for item in value]
    return value


def _inline(match: re.Match[str], lookup: Callable[[Reference], JsonValue]) -> str:
    if match["escape"]:
        return match[0][1:]
    value = lookup(Reference(match["id"], match["path"]))
    return value if isinstance(value, str) else show_json(value)
