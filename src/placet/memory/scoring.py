"""Scores of candidates, from 0 to 1, and where a ranking is cut.

Pure functions: the same candidates get the same scores, whatever store they come from.

Keep true: the date of a fact never changes its score; it only breaks ties.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from placet.memory.analysis import Indexed

_OWN, _ALIASES, _AROUND = 1.0, 2.0, 0.3
"""Weights of the indexed texts."""
_USUAL_LENGTHS = (14.0, 4.0, 28.0)
"""Terms of a usual text of each kind; longer ones count less."""
_SATURATION, _BY_LENGTH = 1.2, 0.6
_FEW = 10
_UNRELATED, _SAME = 0.15, 0.75
"""Cosines of texts that have nothing to do with each other, and of texts that mean the same."""


class Weights(NamedTuple):
    """How much each part counts."""

    text: float
    vector: float
    link: float


TEXT_ALONE = Weights(1.0, 0.0, 0.7)
WITH_VECTORS = Weights(0.4, 0.6, 0.7)


class Cut(NamedTuple):
    """Where a ranking ends."""

    least: float
    """Score that the first must have."""
    share: float
    """Share of the first score that the others must have."""
    gap: float
    """Drop from one score to the next, as a share of the first, at which it ends."""


CUT_TEXT = Cut(least=0.05, share=0.6, gap=0.2)
CUT_VECTORS = Cut(least=0.1, share=0.8, gap=0.08)


def importance(term: str, counts: Mapping[str, int], total: int) -> float:
    """How much a term tells facts apart: much if few have it. Also in a small memory each counts."""
    count = counts.get(term, 0)
    return math.log(1 + (total + _FEW - count + 0.5) / (count + 0.5))


def text_score(texts: Indexed, weights: Mapping[str, float]) -> tuple[float, tuple[str, ...]]:
    """How well the texts of a fact fit the terms of a query, from 0 to 1; and the terms that it holds.

    It is the square of the share that is held: a fact that holds half of what is asked for is no half of an
    answer.
    """
    possible = sum(weights.values())
    if not possible:
        return 0.0, ()
    score, held = 0.0, []
    for term, weight in weights.items():
        strength = 0.0
        for text, factor, usual in zip(texts, (_OWN, _ALIASES, _AROUND), _USUAL_LENGTHS, strict=True):
            if term in text:
                length = 1 - _BY_LENGTH + _BY_LENGTH * len(text) / usual
                strength += factor * text.count(term) / length
        if strength:
            held.append(term)
            score += weight * strength / (strength + _SATURATION)
    # A term that stands once in a text of usual length gets 1 / (1 + saturation): that counts as whole.
    return min(1.0, score / possible * (1 + _SATURATION)) ** 2, tuple(held)


def vector_score(cosine: float) -> float:
    """How near two meanings are, from 0 to 1."""
    return min(1.0, max(0.0, (cosine - _UNRELATED) / (_SAME - _UNRELATED)))


def kept(scores: Sequence[float], cut: Cut) -> int:
    """How many of a ranking are an answer: up to the first gap, not a fixed number.

    >>> kept([0.9, 0.85, 0.4, 0.39], CUT_TEXT), kept([0.05], CUT_TEXT), kept([], CUT_TEXT)
    (2, 0, 0)
    """
    if not scores or scores[0] < cut.least:
        return 0
    first = scores[0]
    for place in range(1, len(scores)):
        if scores[place] < cut.share * first or scores[place - 1] - scores[place] > cut.gap * first:
            return place
    return len(scores)
