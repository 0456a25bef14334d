"""Find a value verbatim in a text: as a whole, never as a part of a longer word, number or address.

Keep true:
1. A part is no match: `b.com` does not occur in `a@b.com`, nor `1` in `10`, nor `a.txt` in `A.TXT`.
2. A number matches in every usual way to write that same number, and no other number does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from unicodedata import category

from placet.ir.json_value import JsonValue, show_json

_JOINERS = frozenset("-./\\@:+~'\u2019?=&#*|%$!^`{}\uff0e\uff20")
"""These join words into one name, number, address or query, where a word stands on their other side too: all
that a mail address, a URL or an identifier may hold. Other symbols join as well, because an address may have
them, except `<` and `>`, which stand around one."""
_OPENERS = frozenset("-./\\+~")
"""These belong to what follows them in any case: `-5`, `.env`, `../a`."""
_EXACT = 2**53
"""Up to here a float holds every integer exactly."""


def says(message: str, value: str) -> bool:
    """Whether a message holds the value as a whole, not as a part of a longer word, number or address.

    >>> says("see a.txt.", "a.txt"), says("mail a@b.com", "b.com"), says("mail x$a@b.com", "a@b.com")
    (True, False, False)
    """
    start = message.find(value)
    while start >= 0:
        end = start + len(value)
        if not _goes_on(message, start - 1, -1) and not _goes_on(message, end, 1):
            return True
        start = message.find(value, start + 1)
    return False


def _goes_on(message: str, at: int, step: int) -> bool:
    """Whether what ends beside `at` is part of something that goes on there, to the left or to the right."""
    if not 0 <= at < len(message):
        return False
    edge, beside = message[at - step], message[at]
    if beside == ",":
        # `1,000` is one number.
        return edge.isdigit() and 0 <= at + step < len(message) and message[at + step].isdigit()
    if not _joins(beside):
        return _is_word(beside)
    if _joins(edge):
        return True  # And a long line of them is not walked along once for each.
    first = at
    while 0 <= at < len(message) and _joins(message[at]):
        at += step
    if 0 <= at < len(message) and _is_word(message[at]):
        return True
    return step < 0 and not _OPENERS.isdisjoint(message[at + 1 : first + 1])


def _joins(character: str) -> bool:
    return character in _JOINERS or (character not in "<>" and category(character)[0] == "S")


def _is_word(character: str) -> bool:
    # Accents that stand by themselves, and joiners that nobody sees, are part of the word around them.
    kind = category(character)
    return kind[0] in "LNM" or kind in ("Pc", "Cf")


def spellings_in(value: JsonValue) -> Iterator[Sequence[str]]:
    """For each text and number in a value, the ways to write it. A boolean has none: any text says yes or no.

    >>> list(spellings_in({"amount": 1250.5}))
    [('amount',), ('1250.5', '1250.50', '1,250.50')]
    """
    pending = [value]
    while pending:
        match pending.pop():
            case None | "":
                continue
            case str(text):
                yield (text,)
            case bool():
                yield ()
            case int() | float() as number:
                yield spellings_of(number)
            case dict() as inner:
                yield from ((key,) for key in inner if key)
                pending += inner.values()
            case list() | tuple() as inner:
                pending += inner
            case _:
                yield ()  # Not JSON, so no text can hold it.


def spellings_of(number: int | float) -> Sequence[str]:
    """The usual ways to write one number: plain, with two decimals, with commas between thousands."""
    found = [show_json(number)]
    if abs(number) < _EXACT:
        if float(number).is_integer():
            whole = int(number)
            found += [str(whole), f"{whole:,}", f"{whole}.00", f"{whole:,}.00"]
        elif float(f"{number:.2f}") == number:
            found += [f"{number:.2f}", f"{number:,.2f}"]
    return tuple(dict.fromkeys(found))
