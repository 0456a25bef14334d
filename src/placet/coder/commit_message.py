"""Commit messages: a subject of one line, and a body with the rest.

Keep true:
1. The subject has at most 72 columns and is never cut inside a word, unless it is one word.
2. Nothing is lost: a text that does not fit into the subject stands whole in the body.
"""

from __future__ import annotations

import re

from placet.safe_text import clean, columns, shorten

_WIDTH = 72
_MOST = 4_000
"""Characters of a text that are used."""
_MARKER = re.compile(r"^(?:#{1,6}|[-*•])\s+")
"""Begins a heading or an item of a list, which a subject is not."""
_SENTENCE = re.compile(r"(.+?)\.(?=\s+[^\W\d_a-z])")
"""With what can only be the beginning of another behind it."""


_LEAST_WORDS = 3


def subject_and_body(text: str) -> tuple[str, str]:
    """The first line of a commit message and what follows it; the body is empty if the subject says it all.

    >>> subject_and_body("Sort the imports of three files. The tests are green, as before the change.")
    ('Sort the imports of three files', 'The tests are green, as before the change.')
    """
    plain = clean(text, _MOST, lines=True).strip()
    first, _, rest = plain.partition("\n")
    first = _MARKER.sub("", " ".join(first.split()))
    if columns(first) <= _WIDTH:
        return first if first.endswith("..") else first.removesuffix("."), rest.strip()
    if (sentence := _SENTENCE.match(first)) is not None and columns(sentence[1]) <= _WIDTH:
        return sentence[1], f"{first[sentence.end() :].strip()}\n{rest}".strip()
    return _cut(first), f"{first}\n{rest}".strip()


def first_telling(*texts: str) -> str:
    """The first of some texts that says what was changed; the last one if none does. A model that ends with
    "Done." says nothing.

    >>> first_telling("Done.", "One line is added.", "the discount is wrong")
    'One line is added.'
    """
    return next((text.strip() for text in texts[:-1] if len(text.split()) >= _LEAST_WORDS), texts[-1])


def message(text: str, *more: str, trailers: list[str]) -> str:
    """A whole commit message: `text` as subject and body, further paragraphs, then the trailers. A paragraph
    that says the same as one before it is left out."""
    subject, body = subject_and_body(text)
    told: dict[str, str] = {}
    for paragraph in (subject, body, *(clean(each, _MOST, lines=True).strip() for each in more)):
        told.setdefault(paragraph.removesuffix("."), paragraph)
    return "\n\n".join(filter(None, [*told.values(), "\n".join(trailers)])) + "\n"


def _cut(line: str) -> str:
    """As many whole words as fit."""
    fitting = shorten(line, _WIDTH)
    kept = fitting.removesuffix("…")
    if not line[len(kept) :].startswith(" ") and " " in kept:
        kept = kept.rpartition(" ")[0]
    return f"{kept.rstrip(' ,;:-')}…"
