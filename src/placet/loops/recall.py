"""Recall of earlier rounds: each round that has ended is a fact of the memory, of the kind `round`.

Keep true:
1. A round has one fact that is believed; what is decided about it later supersedes the fact.
2. A fact has every label of what the maker and the checker of its round wrote, and loses none by being
   superseded.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from placet.ir.provenance import Labels, joined
from placet.loops.round import Round, labels_of, state_words
from placet.memory.fact import LATEST, MOST_NAME, Fact, FactScope
from placet.memory.store import FactFilter
from placet.safe_text import clean

KIND = "round"
RECALLED = 5
"""Rounds that the maker of the next one is told about."""


class Recalled(NamedTuple):
    """Earlier rounds as the maker is told about them."""

    lines: list[str]
    """One for each round, oldest first."""
    labels: Labels
    """The labels on them."""


def fact_of(round: Round) -> Fact:
    """A round that has ended as a fact. The same round gives the same fact."""
    body = clean(state_words(round))
    labels = tuple(sorted(labels_of(round)))
    name = sha256("\0".join((round.id, body, *labels)).encode()).hexdigest()
    ended = round.ended_at if round.ended_at is not None else round.changed_at
    return Fact(
        id=f"round-{name[:32]}",
        subject=clean(round.key, MOST_NAME),
        key=f"round {round.number}",
        body=body,
        kind=KIND,
        tags=(clean(round.key, MOST_NAME),),
        source=clean(f"round:{round.id}", MOST_NAME),
        labels=labels,
        scope=FactScope(project=clean(round.repository, MOST_NAME)),
        position=round.number,
        learned=max(ended, *(each.at for each in round.later)) if round.later else ended,
        supersedes_key=True,
    )


def rounds_filter(loop: str) -> FactFilter:
    """The filter that the facts about rounds of a loop pass; `loop` is `Round.key`."""
    # Whatever the clocks of those who wrote them say.
    return FactFilter(at=LATEST, scope=None, kinds=(KIND,), tags=(clean(loop, MOST_NAME),))


def latest(facts: Sequence[Fact]) -> list[Fact]:
    """The facts about the last rounds, oldest first.

    An untrusted fact does not supersede a trusted one, so there may be two about one round: both are told.
    """
    numbers = sorted({fact.position for fact in facts if fact.position}, reverse=True)[:RECALLED]
    found = [fact for fact in facts if fact.position in numbers]
    return sorted(found, key=lambda fact: (fact.position, fact.learned, fact.id))


def told(facts: Sequence[Fact]) -> Recalled:
    """Facts about rounds, as the maker is told about them."""
    labels = [dict.fromkeys(fact.labels, (f"round {fact.position}",)) for fact in facts]
    return Recalled([fact.body for fact in facts], joined(*labels))
