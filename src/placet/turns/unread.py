"""What an answer says and no result holds: numbers, names and quoted lines.

A small model that invents something mostly invents one of these. They are compared as text: what is found is
a reason to ask once more, and no proof that the answer is wrong.

Keep true: pure, and bounded by the lengths of the texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")
_QUOTED = re.compile(r"`([^`\n]{3,200})`|\"([^\"\n]{3,200})\"|\u201c([^\u201d\n]{3,200})\u201d")
_FILE = re.compile(r"(?<![\w./])[\w-]+(?:/[\w-]+)*\.[a-z]{1,5}(?![\w/])")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][^\W\d_]{2,30}(?!\w)")
"""A word that is written as a name within a sentence."""
_NOT_NAMES = """
    csv english error file files html january february march april may june july august september october
    november december json markdown monday tuesday wednesday thursday friday saturday sunday none python
    task text the todo todos toml true false utc yaml yes
"""
_NO_NAMES = frozenset(_NOT_NAMES.split())


def unread(answer: str, known: Iterable[str]) -> list[str]:
    """Numbers, names and quoted texts of an answer that stand in none of the known texts, in this order.

    >>> unread('Ann has 12 of "red lamps", says Bob.', ["ann: 12 lamps"])
    ['Bob', 'red lamps']
    """
    texts = "\n".join(known)
    plain, numbers = _plain(texts), _numbers(texts)
    found = [number for number in _of_answer(answer) if not _is_known(number, numbers)]
    found += [name for name in _names(answer) if _plain(name) not in plain]
    found += [quote for quote in _quotes(answer) if _plain(quote) not in plain]
    return list(dict.fromkeys(found))


def _of_answer(answer: str) -> Iterator[str]:
    return (number.replace(",", "") for number in _NUMBER.findall(answer))


def _numbers(text: str) -> set[str]:
    return {found.rstrip(".") for found in re.findall(r"\d+(?:\.\d+)?", text.replace(",", ""))}


def _is_known(number: str, known: set[str]) -> bool:
    whole = number.rstrip("0").rstrip(".") if "." in number else number
    return number in known or whole in known or f"{whole}.0" in known


def _names(answer: str) -> Iterator[str]:
    yield from (name for name in _NAME.findall(answer) if name.lower() not in _NO_NAMES)
    yield from _FILE.findall(answer)


def _quotes(answer: str) -> Iterator[str]:
    return ("".join(groups).strip() for groups in _QUOTED.findall(answer))


def _plain(text: str) -> str:
    """A text as it is compared: how it is quoted in JSON, spaced and written in capitals does not matter."""
    return " ".join(text.replace('\\"', '"').replace("\\n", " ").casefold().split()).strip(" .,:;")
