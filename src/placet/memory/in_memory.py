"""Facts in the memory of one process: the reference of all stores. Safe to use from any thread."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from placet.memory.analysis import indexed
from placet.memory.fact import Fact, is_believed, replaces, superseded
from placet.memory.store import Candidate, FactFilter, Frequencies, Pruned, Tally, VectorChanges, VectorRow

NEVER = 1e300


class _Tenant:
    """The facts of one tenant."""

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}
        self.candidates: dict[str, Candidate] = {}
        self.pruned: set[str] = set()
        self.ids: dict[str, set[str]] = defaultdict(set)
        """By term."""
        self.conversations: dict[str, set[str]] = defaultdict(set)
        self.changed: dict[str, int] = {}
        self.vectors: dict[str, tuple[str, bytes]] = {}
        self.recalled: dict[str, list[str]] = defaultdict(list)
        self.tallies: dict[str, Tally] = {}
        self.revision = 0
        self.forgotten = 0

    def put(self, fact: Fact) -> None:
        self.facts[fact.id] = fact
        if fact.conversation is not None:
            self.conversations[fact.conversation].add(fact.id)
        self.touch(fact.id)

    def drop(self, fact: Fact) -> None:
        self.unindex(fact.id)
        del self.facts[fact.id], self.changed[fact.id]
        self.vectors.pop(fact.id, None)
        self.tallies.pop(fact.id, None)
        self.pruned.discard(fact.id)
        self.forgotten += 1
        if fact.conversation is not None:
            self.conversations[fact.conversation].discard(fact.id)

    def touch(self, id: str) -> None:
        self.revision += 1
        self.changed[id] = self.revision

    def index(self, id: str) -> None:
        self.unindex(id)
        fact = self.facts[id]
        made = Candidate(fact, indexed(fact, self.neighbours(fact)))
        self.candidates[id] = made
        for term in {term for text in made.indexed for term in text}:
            self.ids[term].add(id)

    def unindex(self, id: str) -> None:
        old = self.candidates.pop(id, None)
        for term in {term for text in old.indexed for term in text} if old is not None else ():
            self.ids[term].discard(id)

    def neighbours(self, fact: Fact) -> list[Fact]:
        if fact.conversation is None:
            return []
        beside = (self.facts[id] for id in self.conversations[fact.conversation])
        found = [each for each in beside if are_neighbours(fact, each)]
        return sorted(found, key=lambda each: (each.position, each.id))


def are_neighbours(one: Fact, other: Fact) -> bool:
    """Whether two facts stand side by side in a conversation."""
    return (
        one.id != other.id
        and one.conversation is not None
        and (one.conversation, one.scope) == (other.conversation, other.scope)
        and abs(one.position - other.position) <= 1
    )


def vector_row(fact: Fact, vector: bytes | None, is_pruned: bool) -> VectorRow:
    """A fact as the vector index sees it."""
    return VectorRow(
        id=fact.id,
        vector=vector,
        scope=fact.scope,
        kind=fact.kind,
        tags=fact.tags,
        is_secret="secret" in fact.labels,
        learned=fact.learned,
        invalidated=NEVER if fact.invalidated is None else fact.invalidated,
        valid_from=-NEVER if fact.valid_from is None else fact.valid_from,
        valid_until=NEVER if fact.valid_until is None else fact.valid_until,
        is_pruned=is_pruned,
    )


class MemoryFacts:
    """A store of facts that is lost with the process."""

    def __init__(self) -> None:
        self._tenants: dict[str | None, _Tenant] = defaultdict(_Tenant)
        self._lock = threading.RLock()

    def add(self, facts: Sequence[Fact]) -> list[str]:
        """Store facts."""
        with self._lock:
            new: dict[tuple[str | None, str], Fact] = {}
            for fact in facts:
                if fact.id not in self._tenants[fact.tenant].facts:
                    new.setdefault((fact.tenant, fact.id), fact)
            for fact in new.values():
                self._tenants[fact.tenant].put(fact)
            for fact in sorted(new.values(), key=lambda each: each.learned):
                tenant = self._tenants[fact.tenant]
                if not (fact.supersedes or fact.supersedes_key):
                    continue
                for old in list(tenant.facts.values()):
                    is_later = (old.tenant, old.id) in new and old.learned > fact.learned
                    if replaces(fact, old) and (old.id in fact.supersedes or not is_later):
                        tenant.put(superseded(old, fact))
            for fact in new.values():
                tenant = self._tenants[fact.tenant]
                for each in (fact, *tenant.neighbours(fact)):
                    if each.id not in tenant.pruned:
                        tenant.index(each.id)
            return [fact.id for fact in new.values()]

    def get(self, tenant: str | None, ids: Sequence[str]) -> list[Fact]:
        """The facts with these ids."""
        with self._lock:
            facts = self._tenants[tenant].facts
            return [facts[id] for id in dict.fromkeys(ids) if id in facts]

    def admitted(self, where: FactFilter, ids: Sequence[str]) -> list[Candidate]:
        """Those that pass the filter."""
        with self._lock:
            tenant = self._tenants[where.tenant]
            found = [fact for fact in self.get(where.tenant, ids) if where.admits(fact)]
            return [self._candidate(tenant, fact) for fact in found]

    def _candidate(self, tenant: _Tenant, fact: Fact) -> Candidate:
        known = tenant.candidates.get(fact.id)
        return Candidate(fact, known.indexed if known is not None else indexed(fact, ()))

    def listed(
        self, where: FactFilter | None, *, tenant: str | None = None, limit: int | None = None
    ) -> list[Fact]:
        """Facts, the newest first."""
        with self._lock:
            facts = self._tenants[tenant if where is None else where.tenant].facts.values()
            found = [fact for fact in facts if where is None or where.admits(fact)]
            return newest(found)[:limit]

    def believed_values(self, where: FactFilter, subject: str, key: str) -> list[Fact]:
        """Facts with a subject and key."""
        return [each for each in self.listed(where) if (each.subject, each.key) == (subject, key)]

    def frequencies(self, tenant: str | None, terms: Sequence[str]) -> Frequencies:
        """How many facts hold each term."""
        with self._lock:
            found = self._tenants[tenant]
            return Frequencies(
                len(found.facts),
                {term: len(found.ids.get(term, ())) for term in terms if found.ids.get(term)},
            )

    def candidates(
        self, where: FactFilter, terms: Mapping[str, float], *, limit: int, is_broad: bool = False
    ) -> list[Candidate]:
        """Facts that hold one of the terms."""
        with self._lock:
            tenant = self._tenants[where.tenant]
            ids = set().union(*(tenant.ids.get(term, ()) for term in terms))
            found = [
                self._candidate(tenant, tenant.facts[id]) for id in ids if where.admits(tenant.facts[id])
            ]
            if where.is_past:
                past = (tenant.facts[id] for id in tenant.pruned)
                found += of_the_past((fact for fact in past if where.admits(fact)), terms)
        return sorted(found, key=lambda each: (-rough_score(each, terms), -each.fact.learned, each.fact.id))[
            :limit
        ]

    def invalidate(self, tenant: str | None, id: str, at: float) -> bool:
        """Record that a fact is not true any more."""
        with self._lock:
            fact = self._tenants[tenant].facts.get(id)
            if fact is None or fact.invalidated is not None:
                return False
            self._tenants[tenant].put(replace(fact, invalidated=max(at, fact.learned)))
            return True

    def trust(self, tenant: str | None, id: str) -> bool:
        """Remove the label `untrusted`."""
        with self._lock:
            fact = self._tenants[tenant].facts.get(id)
            if fact is None or "untrusted" not in fact.labels:
                return False
            self._tenants[tenant].put(without_label(fact))
            return True

    def forget(self, tenant: str | None, ids: Sequence[str]) -> int:
        """Delete facts for good."""
        with self._lock:
            found = self._tenants[tenant]
            gone = [found.facts[id] for id in dict.fromkeys(ids) if id in found.facts]
            for fact in gone:
                found.drop(fact)
            for run, seen in list(found.recalled.items()):
                found.recalled[run] = [id for id in seen if id in found.facts]
            for fact in gone:
                for each in found.neighbours(fact):
                    if each.id not in found.pruned:
                        found.index(each.id)
            return len(gone)

    def put_vectors(self, tenant: str | None, model: str, vectors: Mapping[str, bytes]) -> None:
        """Store vectors."""
        with self._lock:
            found = self._tenants[tenant]
            for id, vector in vectors.items():
                if id in found.facts:
                    found.vectors[id] = model, vector
                    found.touch(id)

    def without_vectors(self, tenant: str | None, model: str, limit: int) -> list[Fact]:
        """Facts that have no vector of a model."""
        with self._lock:
            found = self._tenants[tenant]
            return [
                fact
                for fact in found.facts.values()
                if fact.id not in found.vectors or found.vectors[fact.id][0] != model
            ][:limit]

    def vector_changes(self, tenant: str | None, model: str, since: int) -> VectorChanges:
        """What the vector index has not seen yet."""
        with self._lock:
            found = self._tenants[tenant]
            rows = []
            for id, revision in found.changed.items():
                if revision > since:
                    of_model, vector = found.vectors.get(id, ("", b""))
                    of_fact = vector if of_model == model else None
                    rows.append(vector_row(found.facts[id], of_fact, id in found.pruned))
            return VectorChanges(found.revision, found.forgotten, rows)

    def note_recalled(self, tenant: str | None, run_id: str, ids: Sequence[str], at: float) -> None:
        """Record which facts a run has read."""
        with self._lock:
            self._tenants[tenant].recalled[run_id] += ids

    def recalled(self, tenant: str | None, run_id: str) -> list[Fact]:
        """The facts that a run has read."""
        with self._lock:
            return self.get(tenant, self._tenants[tenant].recalled.get(run_id, []))

    def tally(self, tenant: str | None, counts: Mapping[str, Tally], *, is_total: bool = False) -> None:
        """Count how often facts helped."""
        with self._lock:
            found = self._tenants[tenant]
            for id, new in counts.items():
                if id not in found.facts:
                    continue
                if (old := found.tallies.get(id)) is None:
                    found.tallies[id] = new
                elif is_total:
                    found.tallies[id] = Tally(max(old.wins, new.wins), max(old.losses, new.losses), old.at)
                else:
                    wins, losses = old.wins + new.wins, old.losses + new.losses
                    found.tallies[id] = Tally(wins, losses, max(old.at, new.at))

    def tallies(self, tenant: str | None, ids: Sequence[str]) -> dict[str, Tally]:
        """The counts of facts."""
        with self._lock:
            kept = self._tenants[tenant].tallies
            return {id: kept[id] for id in ids if id in kept}

    def prune(
        self, tenant: str | None, at: float, model: str | None, vector_bytes: int | None = None
    ) -> Pruned:
        """Take facts that are not believed any more out of the indexes."""
        with self._lock:
            found = self._tenants[tenant]
            over = [f for f in found.facts.values() if is_over(f, at) and f.id not in found.pruned]
            vectors = 0
            for fact in over:
                found.unindex(fact.id)
                found.pruned.add(fact.id)
                found.touch(fact.id)
            for id, (of_model, vector) in list(found.vectors.items()):
                is_stale = of_model != model or len(vector) != (vector_bytes or len(vector))
                if model is not None and is_stale:
                    del found.vectors[id]
                    found.touch(id)
                    vectors += 1
            replaced = sum(fact.superseded_by is not None for fact in over)
            return Pruned(len(over) - replaced, replaced, vectors)


def is_over(fact: Fact, at: float) -> bool:
    """Whether a fact will never be believed again."""
    ends = [each for each in (fact.invalidated, fact.valid_until) if each is not None]
    return not is_believed(fact, at) and any(end <= at for end in ends)


def without_label(fact: Fact) -> Fact:
    """A fact that a person trusts."""
    return replace(fact, labels=tuple(label for label in fact.labels if label != "untrusted"))


def newest(facts: Iterable[Fact]) -> list[Fact]:
    """Facts in the order of lists."""
    return sorted(facts, key=lambda fact: (-fact.learned, fact.id))


def of_the_past(facts: Iterable[Fact], terms: Mapping[str, float]) -> list[Candidate]:
    """Facts that are in no index any more, as far as they hold one of the terms."""
    found = (Candidate(fact, indexed(fact, ())) for fact in facts)
    return [each for each in found if any(term in text for text in each.indexed for term in terms)]


def rough_score(candidate: Candidate, terms: Mapping[str, float]) -> float:
    """The weight of the terms that a candidate holds, by where it holds them."""
    own, aliases, around = map(frozenset, candidate.indexed)
    return sum(
        weight * (2.0 if term in aliases else 1.0 if term in own else 0.25 if term in around else 0.0)
        for term, weight in terms.items()
    )
