"""Words for what is wrong in a TOML file that a person wrote: the file, the key, the way to mend it.

Keep true: nothing in such a file is guessed or passed over; what is not as it should be is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, NoReturn

from placet.errors import PolicyFileError


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
