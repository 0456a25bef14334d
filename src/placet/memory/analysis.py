"""Texts as terms, the same for every store: lower case, without accents, cut to stems.

Stores index these terms as they are, so that all of them find the same, in any language.

Keep true: a term holds no space, quote or ASCII punctuation; SQLite and Postgres take it as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from unicodedata import category, normalize

from placet.memory.fact import Fact
from placet.memory.stemming import stem

LONGEST_TERM = 60
MOST_TERMS = 2_000
"""Terms of one text that are indexed."""
MOST_QUERY_TERMS = 32
_STOPPED = """
a about after again all also am an and any are as at be because been before being but by can could
did do does doing done down for from further get gets got had has have having he her here hers him
his how i if in into is it its itself just let like me more most must my myself no nor not now of
off on once only or other our ours out over own please same shall she should so some such than
that the their theirs them then there these they this those through to too under until up us use
used very was we were what when where which while who whom whose why will with would you your
yours s t d ll m re ve don doesn didn isn aren wasn weren tell know say said give given anything
something someone many much
"""
STOP_WORDS = frozenset(_STOPPED.split())
"""Dropped from queries: they stand in most texts and tell nothing apart."""
_WORD = re.compile(r"\w+")
_IDEOGRAPHS = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")


class Indexed(NamedTuple):
    """The texts of a fact as they are indexed, in terms."""

    own: tuple[str, ...]
    """Subject, key, body and tags."""
    aliases: tuple[str, ...]
    """Its aliases."""
    around: tuple[str, ...]
    """The neighbours in its conversation."""


def terms_of(text: str) -> list[str]:
    """The terms of a text, in order.

    >>> terms_of("Deployments run on Friday's build-42, café!")
    ['deploy', 'run', 'on', 'friday', 's', 'build', '42', 'cafe']
    """
    found: list[str] = []
    for word in _WORD.findall(_plain(text)):
        if word.isascii():
            found += (stem(part)[:LONGEST_TERM] for part in word.split("_") if part)
            continue
        last = 0
        for run in _IDEOGRAPHS.finditer(word):
            found += _kept(word[last : run.start()])
            # No spaces stand between words there: pairs of signs serve as words.
            signs = run.group()
            found += [signs] if len(signs) == 1 else [signs[i : i + 2] for i in range(len(signs) - 1)]
            last = run.end()
        found += _kept(word[last:])
    return found[:MOST_TERMS]


def whole(terms: Iterable[str]) -> tuple[str, ...]:
    """Terms that may be shown: one of the greatest length may be the beginning of a longer word."""
    return tuple(term for term in terms if len(term) < LONGEST_TERM)


def _kept(word: str) -> list[str]:
    return [part[:LONGEST_TERM] for part in word.split("_") if part]


def _plain(text: str) -> str:
    if text.isascii():
        return text.lower()
    return "".join(each for each in normalize("NFKD", text) if category(each) != "Mn").casefold()


def query_terms(text: str) -> list[str]:
    """The different terms to look for: without stop words, unless there is nothing else.

    >>> query_terms("What is the name of the deploy server?"), query_terms("who is it")
    (['name', 'deploy', 'server'], ['who', 'is', 'it'])
    """
    words = [word for word in _WORD.findall(_plain(text)) if word not in STOP_WORDS]
    found = terms_of(" ".join(words)) or terms_of(text)
    return list(dict.fromkeys(found))[:MOST_QUERY_TERMS]


def own_terms(fact: Fact) -> tuple[str, ...]:
    """The terms of a fact alone."""
    return tuple(terms_of(" ".join((fact.subject, fact.key or "", fact.body, *fact.tags))))


def alias_terms(fact: Fact) -> tuple[str, ...]:
    """The terms of its aliases."""
    return tuple(terms_of(" ".join(fact.aliases)))


def indexed(fact: Fact, neighbours: Sequence[Fact]) -> Indexed:
    """The texts of a fact as they are indexed."""
    around = [term for each in neighbours for term in terms_of(each.body)]
    return Indexed(own_terms(fact), alias_terms(fact), tuple(around[:MOST_TERMS]))


def embedded_text(fact: Fact) -> str:
    """The text of a fact from which its vector is made."""
    parts = [fact.subject, fact.key or "", fact.body, *fact.aliases]
    return " ".join(part for part in parts if part)
