"""Protocol of stores of facts, and what passes between a store and whoever asks it.

Keep true:
1. A store filters before it ranks: a fact that the filter excludes is never a candidate.
2. A call that returned is on disk, where the store has one; a call that raised changed nothing.
3. Facts, texts and vectors of one tenant never show in what another tenant gets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from placet.memory.analysis import Indexed
from placet.memory.fact import Fact, FactScope, is_believed

ANYWHERE = FactScope()
RECORDS = ("repair", "round")
"""Kinds of facts that coding sessions and loops record about their own work. A query finds them only if it
names the kind."""


class FactFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which facts a query may return at all."""

    tenant: str | None = None
    """The tenant; never more than one."""
    at: float
    """Time at which a fact must be believed, in seconds since the epoch."""
    is_past: bool = False
    """Whether the query asks what was believed in the past."""
    scope: FactScope | None = ANYWHERE
    """Scope of the query. `None`: facts of every scope."""
    kinds: tuple[str, ...] = ()
    """Kinds of facts. Empty: all but `RECORDS`."""
    tags: tuple[str, ...] = ()
    """Tags that a fact must have, all of them."""
    with_secret: bool = True
    """Whether facts with the label `secret` may be returned."""

    def admits(self, fact: Fact) -> bool:
        """Return whether a fact passes the filter.

        Args:
            fact: The fact.
        """
        return (
            fact.tenant == self.tenant
            and is_believed(fact, self.at)
            and self.admits_kind(fact.scope, fact.kind, fact.tags, "secret" in fact.labels)
        )

    def admits_kind(self, scope: FactScope, kind: str, tags: Sequence[str], is_secret: bool) -> bool:
        """Return whether facts of this kind pass, whatever their times.

        Args:
            scope: Scope of the fact.
            kind: Kind of the fact.
            tags: Tags of the fact.
            is_secret: Whether it has the label `secret`.
        """
        return (
            (self.scope is None or scope.covers(self.scope))
            and (kind in self.kinds if self.kinds else kind not in RECORDS)
            and set(self.tags) <= set(tags)
            and (self.with_secret or not is_secret)
        )


class Candidate(NamedTuple):
    """A fact that may answer a query, with its indexed texts."""

    fact: Fact
    """The fact."""
    indexed: Indexed
    """Its texts, in terms."""


class Frequencies(NamedTuple):
    """How many facts of a tenant hold which terms."""

    total: int
    """Number of facts."""
    counts: Mapping[str, int]
    """By term, the number of facts that hold it; terms that none holds are left out."""


class VectorRow(NamedTuple):
    """A fact as the vector index sees it."""

    id: str
    """Id of the fact."""
    vector: bytes | None
    """Numbers of 32 bits, little-endian; `None` if there is none of the wanted model."""
    scope: FactScope
    """Who it is for."""
    kind: str
    """Its kind."""
    tags: tuple[str, ...]
    """Its tags."""
    is_secret: bool
    """Whether it has the label `secret`."""
    learned: float
    """When it was learned."""
    invalidated: float
    """When it was invalidated; 1e300 if it was not."""
    valid_from: float
    """When it begins to hold; -1e300 if it always has."""
    valid_until: float
    """When it ceases to hold; 1e300 if it does not."""
    is_pruned: bool = False
    """Whether it is only compared in questions about the past."""


class VectorChanges(NamedTuple):
    """Facts of a tenant that have changed since a revision."""

    revision: int
    """Pass it as `since` the next time."""
    forgotten: int
    """How many facts were ever forgotten; if that has changed, everything must be read again."""
    rows: Sequence[VectorRow]
    """The facts that have changed."""


class Tally(NamedTuple):
    """How often a fact helped where it was used."""

    wins: int = 0
    """How often it helped."""
    losses: int = 0
    """How often it did not."""
    at: float = 0.0
    """When that was last counted, in seconds since the epoch."""


class Pruned(NamedTuple):
    """What consolidation took out of the indexes."""

    expired: int
    """Facts whose time was over, or that were invalidated."""
    superseded: int
    """Facts that another one replaced."""
    vectors: int
    """Vectors that were removed: of other models, and of another size."""


class FactStore(Protocol):
    """Protocol of stores of facts. A call may wait for the disk, and may come from any thread.

    Implementations pass `placet.testing.fact_store_suite`.
    """

    def add(self, facts: Sequence[Fact]) -> list[str]:
        """Store facts, all or none, and apply what they supersede. Return the ids that were new.

        A fact whose id is known is left as it is.

        Args:
            facts: The facts; each has been checked.
        """
        ...

    def get(self, tenant: str | None, ids: Sequence[str]) -> list[Fact]:
        """Return the facts with these ids, in this order, whatever their times; unknown ones are left out.

        Args:
            tenant: The tenant.
            ids: Ids of facts.
        """
        ...

    def admitted(self, where: FactFilter, ids: Sequence[str]) -> list[Candidate]:
        """Return those of these facts that pass the filter, in this order.

        Args:
            where: The filter.
            ids: Ids of facts.
        """
        ...

    def listed(
        self, where: FactFilter | None, *, tenant: str | None = None, limit: int | None = None
    ) -> list[Fact]:
        """Return facts, the newest first.

        Args:
            where: The filter. `None`: every fact of the tenant, also those that are not believed any more.
            tenant: The tenant, if there is no filter.
            limit: Maximum number of facts.
        """
        ...

    def believed_values(self, where: FactFilter, subject: str, key: str) -> list[Fact]:
        """Return the believed facts with a subject and key, the newest first.

        Args:
            where: The filter.
            subject: The subject.
            key: The key.
        """
        ...

    def frequencies(self, tenant: str | None, terms: Sequence[str]) -> Frequencies:
        """Return how many facts hold each term.

        Args:
            tenant: The tenant.
            terms: Terms, as `query_terms` makes them.
        """
        ...

    def candidates(
        self, where: FactFilter, terms: Mapping[str, float], *, limit: int, is_broad: bool = False
    ) -> list[Candidate]:
        """Return facts that pass the filter and hold one of the terms, roughly the best first.

        Args:
            where: The filter.
            terms: Terms with their weights.
            limit: Maximum number of candidates.
            is_broad: Whether the terms are so frequent that the newest will do.
        """
        ...

    def invalidate(self, tenant: str | None, id: str, at: float) -> bool:
        """Record that a fact is not true any more. Return whether it was believed until now.

        Args:
            tenant: The tenant.
            id: Id of the fact.
            at: When that was learned, in seconds since the epoch.
        """
        ...

    def trust(self, tenant: str | None, id: str) -> bool:
        """Remove the label `untrusted` from a fact. Return whether it had one.

        Args:
            tenant: The tenant.
            id: Id of the fact.
        """
        ...

    def forget(self, tenant: str | None, ids: Sequence[str]) -> int:
        """Delete facts for good, also from every index. Return how many there were.

        Args:
            tenant: The tenant.
            ids: Ids of facts.
        """
        ...

    def put_vectors(self, tenant: str | None, model: str, vectors: Mapping[str, bytes]) -> None:
        """Store vectors of facts; those of another model are replaced.

        Args:
            tenant: The tenant.
            model: Name of the model that made them.
            vectors: By id of the fact, numbers of 32 bits, little-endian.
        """
        ...

    def without_vectors(self, tenant: str | None, model: str, limit: int) -> list[Fact]:
        """Return facts that have no vector of a model, also those that are not believed any more.

        Args:
            tenant: The tenant.
            model: Name of the model.
            limit: Maximum number of facts.
        """
        ...

    def vector_changes(self, tenant: str | None, model: str, since: int) -> VectorChanges:
        """Return what the vector index must know that it has not seen yet.

        Args:
            tenant: The tenant.
            model: Name of the model whose vectors are wanted.
            since: Revision up to which it has seen everything; 0 for everything.
        """
        ...

    def note_recalled(self, tenant: str | None, run_id: str, ids: Sequence[str], at: float) -> None:
        """Record which facts a run has read.

        Args:
            tenant: The tenant.
            run_id: Id of the run.
            ids: Ids of facts.
            at: The time.
        """
        ...

    def recalled(self, tenant: str | None, run_id: str) -> list[Fact]:
        """Return the facts that a run has read.

        Args:
            tenant: The tenant.
            run_id: Id of the run.
        """
        ...

    def tally(self, tenant: str | None, counts: Mapping[str, Tally], *, is_total: bool = False) -> None:
        """Count how often facts helped; unknown ids are ignored.

        Args:
            tenant: The tenant.
            counts: By id, what is added to the counts so far. The later time stands.
            is_total: The counts are totals of somebody else's: nothing is added, the larger numbers stand,
                and the time only counts for facts that had no counts.
        """
        ...

    def tallies(self, tenant: str | None, ids: Sequence[str]) -> dict[str, Tally]:
        """Return the counts of facts by id; facts without counts are left out.

        Args:
            tenant: The tenant.
            ids: Ids of facts.
        """
        ...

    def prune(
        self, tenant: str | None, at: float, model: str | None, vector_bytes: int | None = None
    ) -> Pruned:
        """Take facts that are not believed any more out of the indexes.

        The facts themselves and their vectors stay, for questions about the past. Vectors of other models
        than `model`, and of other lengths than `vector_bytes`, are removed.

        Args:
            tenant: The tenant.
            at: The time.
            model: Name of the model whose vectors are in use. `None`: keep all.
            vector_bytes: Length of its vectors. `None`: whatever it is.
        """
        ...
