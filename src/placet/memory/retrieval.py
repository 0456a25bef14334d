"""Finding facts: filter, gather candidates, score them, cut at a gap, and explain each hit.

Keep true:
1. Filters come first and are never part of the score: what is not believed, or is another's, is no candidate.
2. The score is a weighted sum of normalised scores. When a fact was learned only breaks ties.
3. An answer ends at a gap in the scores: it may be empty, and it is never filled up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from placet.ir.to_dict import ToDict
from placet.ir.tool_spec import Mark
from placet.memory.analysis import query_terms, whole
from placet.memory.fact import Fact, contradicts
from placet.memory.scoring import (
    CUT_TEXT,
    CUT_VECTORS,
    TEXT_ALONE,
    WITH_VECTORS,
    importance,
    kept,
    text_score,
    vector_score,
)
from placet.memory.store import Candidate, FactFilter, FactStore

if TYPE_CHECKING:
    import numpy

    from placet.memory.vectors import VectorIndex

_CANDIDATES = 80
_NEAREST = 30
_LINKED_FROM = 3
"""Best hits whose links are followed."""
_ENOUGH = 1_000
"""Rows that a look-up of terms may touch; more frequent terms are only looked at in what was found."""
_BROAD = 4_000


class Conflict(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """A believed fact that says something else about the same subject and key."""

    id: str
    """Id of the other fact."""
    body: str
    """What it says."""
    source: str
    """Where it comes from."""
    learned: float
    """When it was learned, in seconds since the epoch."""
    valid_from: float | None = None
    """When it began to hold."""
    labels: tuple[Mark, ...] = ()
    """Its labels."""


class Hit(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """A fact that answers a query, and why."""

    fact: Fact
    """The fact."""
    score: float
    """Weighted sum of the scores below, from 0 to 1.7."""
    text: float = 0.0
    """Score of the full text, from 0 to 1."""
    vector: float = 0.0
    """Score of the meaning, from 0 to 1; 0 without an embedder."""
    link: float = 0.0
    """Score of the best hit that links to it."""
    matched: tuple[str, ...] = ()
    """Stems of the words of the query that it holds."""
    linked_from: str | None = None
    """Id of that hit."""
    conflicts: tuple[Conflict, ...] = ()
    """Facts that contradict it."""

    @property
    def quoted(self) -> tuple[str, ...]:
        """Ids of the fact and of those that contradict it."""
        return (self.fact.id, *(each.id for each in self.conflicts))

    @property
    def labels(self) -> frozenset[Mark]:
        """The labels of the fact and of those that contradict it."""
        return frozenset(self.fact.labels).union(*(each.labels for each in self.conflicts))


class QueryResult(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a query."""

    hits: tuple[Hit, ...]
    """The hits, best first, up to the gap in the scores."""
    left_out: tuple[Hit, ...] = ()
    """The next ones of the ranking, after the gap."""
    terms: tuple[str, ...] = ()
    """Stems that were looked for."""
    used_vectors: bool = False
    """Whether vectors were compared."""
    note: str | None = None
    """Why vectors were not compared, if there is an embedder."""

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The facts of the hits."""
        return tuple(hit.fact for hit in self.hits)


class Found:
    """The candidates of one query, on their way to an answer."""

    def __init__(self, store: FactStore, where: FactFilter, text: str) -> None:
        self._store = store
        self._where = where
        self.terms = query_terms(text)
        counted = store.frequencies(where.tenant, self.terms)
        self._weights = {term: importance(term, counted.counts, counted.total) for term in self.terms}
        self._counts = counted.counts
        self._candidates: dict[str, Candidate] = {}
        self._cosines: dict[str, float] = {}

    def by_text(self) -> None:
        """Gather facts that hold a term, the rare ones first."""
        looked_for: dict[str, float] = {}
        rows = 0
        for term in sorted(self._counts, key=lambda term: (self._counts[term], term)):
            if looked_for and rows + self._counts[term] > _ENOUGH:
                break
            looked_for[term] = self._weights[term]
            rows += self._counts[term]
        if self._where.is_past:
            # Facts that were pruned are in no index, and have no counts.
            looked_for |= {term: self._weights[term] for term in self.terms if term not in self._counts}
        if looked_for:
            found = self._store.candidates(self._where, looked_for, limit=_CANDIDATES, is_broad=rows > _BROAD)
            self._candidates |= {each.fact.id: each for each in found}

    def by_vector(self, index: VectorIndex, query: numpy.ndarray[Any, Any]) -> None:
        """Gather facts whose meaning is near.

        Raises:
            VectorsUnusable: the vectors have another size.
        """
        self._cosines = dict(index.search(query, self._where, _NEAREST))
        self._admit([id for id in self._cosines if id not in self._candidates])

    def _admit(self, ids: Sequence[str]) -> None:
        if ids:
            found = self._store.admitted(self._where, ids)
            self._candidates |= {each.fact.id: each for each in found}

    def ranking(self, *, used_vectors: bool) -> list[Hit]:
        """Every candidate with its scores, the best first."""
        weights = WITH_VECTORS if used_vectors else TEXT_ALONE

        def scored(candidate: Candidate, link: float = 0.0, linked_from: str | None = None) -> Hit:
            text, matched = text_score(candidate.indexed, self._weights)
            near = vector_score(self._cosines.get(candidate.fact.id, 0.0))
            return Hit(
                fact=candidate.fact,
                score=weights.text * text + weights.vector * near + weights.link * link,
                text=text,
                vector=near,
                link=link,
                matched=whole(matched),
                linked_from=linked_from,
            )

        hits = {id: scored(each) for id, each in self._candidates.items()}
        best = _ranked(hits.values())[:_LINKED_FROM]
        links = {id: hit for hit in reversed(best) for id in hit.fact.links}
        self._admit([id for id in links if id not in self._candidates])
        for id, hit in links.items():
            if id in self._candidates and (id not in hits or hits[id].score < hit.score):
                hits[id] = scored(self._candidates[id], hit.score, hit.fact.id)
        return _ranked(hits.values())

    def explained(self, hits: Sequence[Hit]) -> tuple[Hit, ...]:
        """Hits with the facts that contradict them."""
        return tuple(with_conflicts(self._store, self._where, hit) for hit in hits)


def with_conflicts(store: FactStore, where: FactFilter, hit: Hit) -> Hit:
    """A hit with the facts that contradict it."""
    if hit.fact.key is None:
        return hit
    others = store.believed_values(where, hit.fact.subject, hit.fact.key)
    conflicts = tuple(conflict_of(other) for other in others if contradicts(hit.fact, other))
    return msgspec.structs.replace(hit, conflicts=conflicts) if conflicts else hit


def conflict_of(fact: Fact) -> Conflict:
    """A fact that contradicts another, as it is shown there."""
    return Conflict(
        id=fact.id,
        body=fact.body,
        source=fact.source,
        learned=fact.learned,
        valid_from=fact.valid_from,
        labels=fact.labels,
    )


def answer(found: Found, *, limit: int, cut: bool, used_vectors: bool, note: str | None) -> QueryResult:
    """The ranking, cut at a gap."""
    ranking = found.ranking(used_vectors=used_vectors)
    chosen = ranking
    if cut:
        rule = CUT_VECTORS if used_vectors else CUT_TEXT
        own = [hit for hit in ranking if hit.linked_from is None]
        ids = {hit.fact.id for hit in own[: kept([hit.score for hit in own], rule)]}
        # A linked fact comes with the hit that links to it, and is no reason to go on by itself.
        chosen = [hit for hit in ranking if hit.fact.id in ids or hit.linked_from in ids]
    chosen = chosen[:limit]
    taken = {hit.fact.id for hit in chosen}
    return QueryResult(
        hits=found.explained(chosen),
        left_out=tuple([hit for hit in ranking if hit.fact.id not in taken][:limit]),
        terms=whole(found.terms),
        used_vectors=used_vectors,
        note=note,
    )


def _ranked(hits: Any) -> list[Hit]:
    return sorted(hits, key=lambda hit: (-round(hit.score, 6), -hit.fact.learned, hit.fact.id))
