"""Words for what is wrong in a TOML file that a person wrote: the file, the key, the way to mend it.

Keep true: nothing in such a file is guessed or passed over; what is not as it should be is an error.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, NoReturn, TypeVar

import msgspec

from placet.errors import PolicyFileError
from placet.safe_text import clean

Word = TypeVar("Word", bound=str)
Made = TypeVar("Made")
_PARTS = re.compile(r"(?P<problem>.*?)(?: - at `\$?\.?(?P<place>.*)`)?", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `([^`]+)`")
_KINDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}
"""Words for what msgspec calls things."""


class TomlFile(NamedTuple):
    """A file, as far as errors have to name it."""

    name: str
    what: str = "Policy file"

    def fail(self, problem: str, key: str | None = None, fix: str = "") -> NoReturn:
        """Refuse the file.

        Raises:
            PolicyFileError: always.
        """
        raise PolicyFileError(self.name, problem, key=key, fix=fix, what=self.what) from None

    def unknown(self, key: str, known: Sequence[str], place: str, owner: str) -> NoReturn:
        """Refuse a key that `owner` does not have, with the nearest that it has.

        Raises:
            PolicyFileError: always.
        """
        near = get_close_matches(key, known, n=1)
        may = f"{owner[:1].upper()}{owner[1:]} may have {listing(known)}."
        self.fail(f"'{key}' is no key of {owner}", place, f"Did you mean '{near[0]}'?" if near else may)

    def no_choice(self, given: str, known: Sequence[str], place: str, kind: str) -> NoReturn:
        """Refuse a word that is none of a closed set, with the nearest that is.

        Raises:
            PolicyFileError: always.
        """
        near = get_close_matches(given, known, n=1)
        fix = f"Did you mean '{near[0]}'?" if near else f"Choose one of {listing(known)}."
        self.fail(f"'{given}' is no {kind}", place, fix)

    def check_keys(self, table: Mapping[str, Any], known: Collection[str], place: str, owner: str) -> None:
        """Refuse keys that `owner` does not have; `place` is where the table stands, empty for the file.

        Raises:
            PolicyFileError: there is one.
        """
        for key in table:
            if key not in known:
                self.unknown(key, list(known), f"{place}.{key}" if place else key, owner)

    def choice(self, value: object, known: Sequence[Word], place: str, kind: str) -> Word:
        """A value that must be a word of a closed set.

        Raises:
            PolicyFileError: it is none.
        """
        text = self.text(value, place, f"Choose one of {listing(known)}.")
        for word in known:
            if word == text:
                return word
        self.no_choice(text, known, place, kind)

    def flag(self, value: object, place: str, fix: str) -> bool:
        """A value that must be true or false.

        Raises:
            PolicyFileError: it is neither.
        """
        if not isinstance(value, bool):
            self.fail(f"expected true or false, got {kind_of(value)}", place, fix)
        return value

    def texts(self, value: object, place: str, fix: str) -> list[str]:
        """A value that must be a list of texts with something in them.

        Raises:
            PolicyFileError: it is none.
        """
        if not isinstance(value, list):
            self.fail(f"expected a list of texts, got {kind_of(value)}", place, fix)
        return [self.text(each, f"{place}[{number}]", fix) for number, each in enumerate(value)]

    def convert(self, table: Mapping[str, Any], kind: type[Made], place: str = "", fix: str = "") -> Made:
        """A table as a struct. What the struct itself refuses with `UsageError` is the caller's to say.

        Raises:
            PolicyFileError: a key is missing, or holds a value of another kind.
        """
        try:
            return msgspec.convert(dict(table), kind)
        except msgspec.ValidationError as error:
            problem, key = problem_of(error, place)
            self.fail(problem, key or None, fix)

    def text(self, value: object, place: str, fix: str) -> str:
        """A value that must be a text with something in it.

        Raises:
            PolicyFileError: it is none.
        """
        if not isinstance(value, str):
            self.fail(f"expected a text, got {kind_of(value)}", place, fix)
        if not value.strip():
            self.fail("it is empty", place, fix)
        return value

    def table(self, value: object, place: str, fix: str) -> dict[str, Any]:
        """A value that must be a table.

        Raises:
            PolicyFileError: it is none.
        """
        if not isinstance(value, dict):
            self.fail(f"expected a table, got {kind_of(value)}", place, fix)
        return value

    def tables(self, value: object, place: str, fix: str) -> list[dict[str, Any]]:
        """A value that must be a list of tables.

        Raises:
            PolicyFileError: it is none.
        """
        if not isinstance(value, list) or not all(isinstance(table, dict) for table in value):
            self.fail("it must be a list of tables", place, fix)
        return value


def problem_of(error: msgspec.ValidationError, place: str = "") -> tuple[str, str]:
    """The reason why a value became no struct, in plain words, and the key; below `place`.

    >>> try:
    ...     msgspec.convert({"a": ["x"]}, dict[str, list[int | None]])
    ... except msgspec.ValidationError as error:
    ...     problem_of(error, "here")
    ('expected a whole number, got a text', 'here[...][0]')
    """
    parts = _PARTS.fullmatch(str(error))
    assert parts is not None
    problem, at = parts["problem"], parts["place"] or ""
    key = f"{place}{'' if not (place and at) or at.startswith('[') else '.'}{at}"
    if missing := _MISSING.match(problem):
        return "it is missing", f"{key}.{missing[1]}" if key else missing[1]
    if problem.startswith("Expected"):
        problem = re.sub("`([^`]*)`", _in_words, problem)
    problem = clean(problem.replace("`", "'"), 200).rstrip(".")
    return problem[:1].lower() + problem[1:], key


def _in_words(kinds: re.Match[str]) -> str:
    words = [_KINDS.get(each, f"'{each}'") for each in kinds[1].split(" | ")]
    return " or ".join(each for each in words if each != "nothing" or len(words) == 1)


def kind_of(value: object) -> str:
    """What a value is, in words of TOML."""
    kinds = {
        bool: "a boolean",
        int: "an integer",
        float: "a number",
        str: "a text",
        list: "an array",
        dict: "a table",
    }
    return kinds.get(type(value), f"a {type(value).__name__}")


def listing(names: Iterable[str]) -> str:
    """Names in quotes.

    >>> listing(["a", "b"])
    "'a', 'b'"
    """
    return ", ".join(f"'{name}'" for name in names)
