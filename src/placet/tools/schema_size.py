"""How much work a JSON Schema makes: the parts that are met once its references are followed.

References let a few lines stand for millions: each of thirty definitions may name the one before it twice.
The engine follows them all while nothing else runs, so what is too much is found before it is asked.

Keep true:
1. What is counted here is never less than what the engine meets on its way to one place of a value. A part
   that leads back to itself counts once: the engine remembers what it has judged there.
2. Counting takes time by the length of the schema, not by what it stands for.
3. A reference that cannot be followed here is told, not passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from placet.ir.json_value import JsonValue

MOST_PARTS = 20_000
"""Far more than any tool needs; the engine judges as many in a fraction of a millisecond."""

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_NAMES = ("$id", "id", "$anchor", "$dynamicAnchor")
_SAME = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
"""Keywords whose schemas are about the same value."""
_COLLECTIONS = ("properties", "patternProperties", "dependentSchemas", "dependencies")
"""Keywords whose object is no schema, but holds some by name."""
_ONE_OF_THEM = ("properties", "prefixItems")
"""Keywords of whose schemas only one is about any value further in."""
_WITHIN = (
    "items",
    "additionalItems",
    "contains",
    "unevaluatedItems",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "unevaluatedProperties",
)
_STANDARD = re.compile(r"https?://json-schema\.org/draft[-/][0-9-]+/(schema|meta/[a-z-]+)#?")
"""Schemas of schemas, which the engine brings along."""


_BEGUN = -1


class Parts:
    """The parts of one schema, and what they refer to."""

    def __init__(self, schema: dict[str, JsonValue]) -> None:
        self._schema = schema
        self._places: dict[str, list[Any]] = {"": [schema]}
        self._bases: dict[int, str] = {}
        self.lost: list[str] = []
        """References to nowhere that is known here."""
        self._name_places()
        self._sizes: dict[int, int] = {}
        self._around: dict[int, tuple[list[list[Any]], list[list[Any]]]] = {}

    def count(self) -> int:
        """The parts that are met on the way to any one place of a value, at most.

        Raises:
            RecursionError: the schema is nested, or refers, too deeply to be followed.
        """
        return self._size(self._schema)

    def met_within(self, part: JsonValue, depth: int, *, most: int) -> int:
        """The parts that are met at one place up to `depth` levels within a value that `part` is about, with
        those that lead back to themselves counted each time; `most` where it is not worth counting on."""
        known: dict[tuple[int, int], int] = {}
        try:
            return min(most, max(self._met(part, level, known, most) for level in range(depth + 1)))
        except (RecursionError, OverflowError):
            return most

    def _size(self, part: Any) -> int:
        if not isinstance(part, dict):
            return 1
        if (known := self._sizes.get(id(part))) is not None:
            return known
        self._sizes[id(part)] = 1  # What leads back here finds this.
        here, within = self._look_around(part)
        inner = sum(max(map(self._size, group)) for group in within)
        found = 1 + _repeats(part) * sum(max(map(self._size, group)) for group in here) + inner
        self._sizes[id(part)] = found
        return found

    def _met(self, part: Any, depth: int, known: dict[tuple[int, int], int], most: int) -> int:
        if not isinstance(part, dict):
            return 1 if depth == 0 else 0
        if (found := known.get((id(part), depth))) is not None:
            if found == _BEGUN:
                raise OverflowError  # It leads back to itself without going further in.
            return found
        if len(known) > most:
            raise OverflowError
        known[id(part), depth] = _BEGUN
        here, within = self._look_around(part)
        found = sum(max(self._met(each, depth, known, most) for each in group) for group in here)
        found = found * _repeats(part) + (1 if depth == 0 else 0)
        if depth > 0:
            found += sum(max(self._met(each, depth - 1, known, most) for each in group) for group in within)
        known[id(part), depth] = found
        return found

    def _look_around(self, part: dict[str, Any]) -> tuple[list[list[Any]], list[list[Any]]]:
        """Schemas about the same value, and about values within it; of each group one is met at a time."""
        if (known := self._around.get(id(part))) is not None:
            return known
        # Most parts have one or two of all these keywords.
        here = [[each] for name in _SAME if name in part for each in _schemas(part, name)]
        for name in _REFERENCES:
            if isinstance(target := part.get(name), str) and (meant := self._meant(part, target)):
                here.append(meant)
        within = [list(_schemas(part, name)) for name in _ONE_OF_THEM if name in part]
        for name in filter(part.__contains__, _WITHIN):
            found = list(_schemas(part, name))
            # Before 2020 a list of `items` was what `prefixItems` is now.
            within += [found] if name == "items" else [[each] for each in found]
        self._around[id(part)] = here, [group for group in within if group]
        return self._around[id(part)]

    # References

    def _name_places(self) -> None:
        from urllib.parse import urljoin

        todo: list[tuple[Any, str]] = [(self._schema, "")]
        while todo:
            part, base = todo.pop()
            if isinstance(part, list):
                todo += [(each, base) for each in part]
            if not isinstance(part, dict):
                continue
            for name in _NAMES:
                if not isinstance(value := part.get(name), str):
                    continue
                if "nchor" in name or value.startswith("#"):
                    self._places.setdefault(f"{base}#{value.removeprefix('#')}", []).append(part)
                else:
                    base = urljoin(base, value).rstrip("#")
                    self._places.setdefault(base, []).append(part)
            if any(isinstance(part.get(name), str) for name in _REFERENCES):
                self._bases[id(part)] = base
            todo += [(each, base) for each in part.values()]

    def _meant(self, part: dict[str, Any], target: str) -> list[Any]:
        """What a reference may mean: one schema, as a rule."""
        from urllib.parse import unquote, urljoin

        base = self._bases.get(id(part), "")
        address, _, fragment = (base + target if target.startswith("#") else urljoin(base, target)).partition(
            "#"
        )
        if fragment and not fragment.startswith("/"):
            # A dynamic one may mean whatever carries the name, wherever it stands.
            ends = f"#{unquote(fragment)}"
            found = [each for name, all_of in self._places.items() if name.endswith(ends) for each in all_of]
        else:
            found = [_at(root, unquote(fragment)) for root in self._places.get(address, [])]
            found = [each for each in found if each is not None]
        if not found and not _STANDARD.fullmatch(target):
            self.lost.append(target)
        return found


def _schemas(part: dict[str, Any], keyword: str) -> Iterator[Any]:
    """The schemas that a keyword holds."""
    value = part.get(keyword)
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict) and keyword in _COLLECTIONS:
        yield from value.values()
    elif isinstance(value, dict | bool):
        yield value


def _repeats(part: dict[str, Any]) -> int:
    """How often the schemas beside are looked at: what is `unevaluated` is found by judging them again."""
    return 3 if "unevaluatedProperties" in part or "unevaluatedItems" in part else 1


def _at(root: Any, pointer: str) -> Any:
    """The part of `root` that a JSON pointer names, or None."""
    found = root
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = found.get(step)
        elif isinstance(found, list) and step.isdecimal() and int(step) < len(found):
            found = found[int(step)]
        else:
            return None
    return found
