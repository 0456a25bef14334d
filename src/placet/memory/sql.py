"""Facts in SQLite or Postgres, shared by all processes that use the database.

Keep true:
1. A change and its traces in the indexes are one transaction.
2. Whoever writes takes the counter first: two who supersede the same fact at once come one after the other.
3. A fact that was forgotten is in no row, no index and no neighbour's text; of SQLite's file also its bytes
   are overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from placet.memory.adding import add_facts, add_tallies
from placet.memory.fact import Fact
from placet.memory.in_memory import of_the_past, rough_score, without_label
from placet.memory.rows import FactRows, Stored, chunks, count, known_tenant, tenant_number
from placet.memory.store import Candidate, FactFilter, Frequencies, Pruned, Tally, VectorChanges
from placet.memory.tables import MIGRATIONS, condition, marks, match, optional, term_counts
from placet.storage.database import Database
from placet.storage.migrate import migrate
from placet.storage.transaction import Transaction, Value, searchable

T = TypeVar("T")
_OLD_RUN_S = 30 * 86_400.0
"""After that it does not matter any more what a run has read."""
_WITH_TALLIES = 2
"""Version of the tables that have counts; an older one may be read where nothing can be written."""
_OVER = "(f.invalidated <= ? OR f.valid_until <= ?)"


def has_memory(database: Database) -> bool:
    """Whether a fact was ever stored there. Whoever only reads cannot create the tables to find out."""
    return database.has_table("memory_facts")


class SqlFacts:
    """A store of facts in a database."""

    def __init__(self, database: Database) -> None:
        """Create the tables if they are missing.

        Args:
            database: From `open_database`.

        Raises:
            StorageError: the tables cannot be created.
        """
        self._database = database
        self._rows = FactRows(database.name)
        self._version = migrate(database, MIGRATIONS)

    # Writing

    def add(self, facts: Sequence[Fact]) -> list[str]:
        """Store facts, all or none."""
        return self._write(lambda t: add_facts(t, facts, self._rows))

    def tally(self, tenant: str | None, counts: Mapping[str, Tally], *, is_total: bool = False) -> None:
        """Count how often facts helped."""
        self._write(lambda t: add_tallies(t, tenant, counts, is_total=is_total))

    def invalidate(self, tenant: str | None, id: str, at: float) -> bool:
        """Record that a fact is not true any more."""

        def change(fact: Fact) -> Fact | None:
            if fact.invalidated is not None:
                return None
            return replace(fact, invalidated=max(at, fact.learned))

        return self._change(tenant, id, change)

    def trust(self, tenant: str | None, id: str) -> bool:
        """Remove the label `untrusted`."""
        return self._change(
            tenant, id, lambda fact: without_label(fact) if "untrusted" in fact.labels else None
        )

    def _change(self, tenant: str | None, id: str, change: Callable[[Fact], Fact | None]) -> bool:
        def work(t: Transaction) -> bool:
            number = tenant_number(t, tenant)
            for place, fact in self._rows.stored(t, number, [id]):
                if (changed := change(fact)) is not None:
                    self._rows.rewrite(t, place, changed)
                    return True
            return False

        return self._write(work)

    def forget(self, tenant: str | None, ids: Sequence[str]) -> int:
        """Delete facts for good."""

        def work(t: Transaction) -> int:
            if t.dialect == "sqlite":
                t.execute("PRAGMA secure_delete = ON")
            number = tenant_number(t, tenant)
            places = self._rows.places(t, number, list(dict.fromkeys(ids)))
            gone: list[Stored] = []
            for chunk in chunks(places.values()):
                found = f"SELECT place, data FROM memory_facts WHERE place IN ({marks(chunk)})"
                gone += self._rows.readable(t.execute(found, chunk))
            for id, place in places.items():
                t.execute("DELETE FROM memory_facts WHERE place = ?", (place,))
                t.execute("DELETE FROM memory_text WHERE rowid = ?", (place,))
                t.execute("DELETE FROM memory_vectors WHERE place = ?", (place,))
                for table in ("memory_recalled", "memory_tallies"):
                    t.execute(f"DELETE FROM {table} WHERE tenant = ? AND id = ?", (number, searchable(id)))
            for _, fact in gone:
                for beside in self._rows.beside(t, number, fact):
                    self._rows.reindex(t, number, beside)
            if places:
                count(t, 1)
                t.execute(
                    "UPDATE memory_tenants SET facts = facts - ?, forgotten = forgotten + ? WHERE number = ?",
                    (len(places), len(places), number),
                )
                if t.dialect == "sqlite":
                    # Deleted terms stay in the segments of the index until these are merged.
                    t.execute("INSERT INTO memory_text (memory_text) VALUES ('optimize')")
            return len(places)

        count_gone = self._write(work)
        if count_gone:
            self._database.checkpoint()
        return count_gone

    def put_vectors(self, tenant: str | None, model: str, vectors: Mapping[str, bytes]) -> None:
        """Store vectors."""
        ids = list(vectors)

        def work(t: Transaction) -> None:
            number = tenant_number(t, tenant)
            for chunk in chunks(ids):
                rows = t.execute(
                    f"SELECT place, id FROM memory_facts WHERE tenant = ? AND id IN ({marks(chunk)})",
                    [number, *map(searchable, chunk)],
                )
                places = [int(place) for place, _ in rows]
                if not places:
                    continue
                t.execute(f"DELETE FROM memory_vectors WHERE place IN ({marks(places)})", places)
                t.insert(
                    "memory_vectors",
                    ["place", "model", "vector"],
                    [(int(place), searchable(model), vectors[str(id)]) for place, id in rows],
                )
                t.execute(
                    f"UPDATE memory_facts SET changed = ? WHERE place IN ({marks(places)})",
                    [count(t, 1), *places],
                )

        self._write(work)

    def note_recalled(self, tenant: str | None, run_id: str, ids: Sequence[str], at: float) -> None:
        """Record which facts a run has read."""

        def work(t: Transaction) -> None:
            number = tenant_number(t, tenant)
            for id in sorted(set(ids)):
                t.execute(
                    "INSERT INTO memory_recalled (tenant, run, id, at) VALUES (?, ?, ?, ?)"
                    " ON CONFLICT (tenant, run, id) DO NOTHING",
                    (number, searchable(run_id), searchable(id), at),
                )

        if ids:
            self._database.write(work, durable=False).result()

    def prune(
        self, tenant: str | None, at: float, model: str | None, vector_bytes: int | None = None
    ) -> Pruned:
        """Take facts that are not believed any more out of the indexes."""

        def work(t: Transaction) -> Pruned:
            number = tenant_number(t, tenant)
            rows = t.execute(
                "SELECT f.place, f.data FROM memory_facts AS f"
                f" WHERE f.tenant = ? AND f.is_pruned = 0 AND {_OVER}",
                (number, at, at),
            )
            over = self._rows.readable(rows)
            vectors = 0
            for chunk in chunks([each.place for each in over]):
                inside = marks(chunk)
                t.execute(f"DELETE FROM memory_text WHERE rowid IN ({inside})", chunk)
                t.execute(
                    f"UPDATE memory_facts SET is_pruned = 1, changed = ? WHERE place IN ({inside})",
                    [count(t, 1), *chunk],
                )
            if model is not None:
                gone = t.execute(
                    "DELETE FROM memory_vectors WHERE (model <> ? OR (? > 0 AND length(vector) <> ?))"
                    " AND place IN (SELECT place FROM memory_facts WHERE tenant = ?) RETURNING place",
                    (searchable(model), vector_bytes or 0, vector_bytes or 0, number),
                )
                vectors += len(gone)
            t.execute("DELETE FROM memory_recalled WHERE tenant = ? AND at < ?", (number, at - _OLD_RUN_S))
            replaced = sum(each.fact.superseded_by is not None for each in over)
            return Pruned(len(over) - replaced, replaced, vectors)

        return self._write(work)

    def _write(self, work: Callable[[Transaction], T]) -> T:
        return self._database.write(work).result()

    # Reading

    def get(self, tenant: str | None, ids: Sequence[str]) -> list[Fact]:
        """The facts with these ids."""
        wanted = list(dict.fromkeys(ids))

        def work(t: Transaction) -> list[Fact]:
            found = {
                each.fact.id: each.fact for each in self._rows.stored(t, known_tenant(t, tenant), wanted)
            }
            return [found[id] for id in wanted if id in found]

        return self._database.read(work)

    def admitted(self, where: FactFilter, ids: Sequence[str]) -> list[Candidate]:
        """Those that pass the filter."""
        wanted = list(dict.fromkeys(ids))

        def work(t: Transaction) -> list[Candidate]:
            number = known_tenant(t, where.tenant)
            passes, values = condition(where, number, t.dialect)
            found: dict[str, Candidate] = {}
            for chunk in chunks(wanted):
                rows = t.execute(
                    "SELECT f.data, t.own, t.aliases, t.around FROM memory_facts AS f"
                    " LEFT JOIN memory_text AS t ON t.rowid = f.place"
                    f" WHERE f.id IN ({marks(chunk)}) AND {passes}",
                    [*map(searchable, chunk), *values],
                )
                found |= {each.fact.id: each for each in self._rows.candidates(rows)}
            return [found[id] for id in wanted if id in found]

        return self._database.read(work)

    def listed(
        self, where: FactFilter | None, *, tenant: str | None = None, limit: int | None = None
    ) -> list[Fact]:
        """Facts, the newest first."""

        def work(t: Transaction) -> list[Fact]:
            number = known_tenant(t, tenant if where is None else where.tenant)
            passes, values = "f.tenant = ?", list[Value]([number])
            if where is not None:
                passes, values = condition(where, number, t.dialect)
            most = f" LIMIT {limit:d}" if limit is not None else ""
            # By kind few are left: then SQLite must not walk all facts in the order of time.
            learned = "f.learned + 0" if where is not None and where.kinds else "f.learned"
            rows = t.execute(
                f"SELECT f.data FROM memory_facts AS f WHERE {passes} ORDER BY {learned} DESC, f.id{most}",
                values,
            )
            return list(self._rows.facts(rows))

        return self._database.read(work)

    def believed_values(self, where: FactFilter, subject: str, key: str) -> list[Fact]:
        """Facts with a subject and key."""

        def work(t: Transaction) -> list[Fact]:
            passes, values = condition(where, known_tenant(t, where.tenant), t.dialect)
            rows = t.execute(
                "SELECT f.data FROM memory_facts AS f WHERE f.subject = ? AND f.key = ?"
                f" AND {passes} ORDER BY f.learned DESC, f.id",
                [searchable(subject), optional(key), *values],
            )
            return list(self._rows.facts(rows))

        return self._database.read(work)

    def frequencies(self, tenant: str | None, terms: Sequence[str]) -> Frequencies:
        """How many facts hold each term."""

        def work(t: Transaction) -> Frequencies:
            rows = t.execute("SELECT number, facts FROM memory_tenants WHERE name = ?", (optional(tenant),))
            if not rows:
                return Frequencies(0, {})
            number, total = rows[0]
            return Frequencies(int(total), term_counts(t, int(number), terms))

        return self._database.read(work)

    def candidates(
        self, where: FactFilter, terms: Mapping[str, float], *, limit: int, is_broad: bool = False
    ) -> list[Candidate]:
        """Facts that hold one of the terms."""
        if not terms:
            return []

        def work(t: Transaction) -> list[Candidate]:
            number = known_tenant(t, where.tenant)
            passes, values = condition(where, number, t.dialect)
            holds, wanted, order, weights = match(t.dialect, number, terms, is_broad=is_broad)
            found = self._rows.candidates(
                t.execute(
                    # SQLite takes a cross join in the order that is written: the index of terms comes first.
                    "SELECT f.data, t.own, t.aliases, t.around FROM memory_text AS t"
                    " CROSS JOIN memory_facts AS f"
                    f" WHERE {holds} AND f.place = t.rowid AND {passes} ORDER BY {order} LIMIT {limit:d}",
                    [*wanted, *values, *weights],
                )
            )
            if where.is_past:
                past = t.execute(
                    f"SELECT f.data FROM memory_facts AS f WHERE f.is_pruned = 1 AND {passes}", values
                )
                found += of_the_past(self._rows.facts(past), terms)
                found.sort(key=lambda each: -rough_score(each, terms))
            return found[:limit]

        return self._database.read(work)

    def without_vectors(self, tenant: str | None, model: str, limit: int) -> list[Fact]:
        """Facts that have no vector of a model."""
        rows = self._database.read(
            lambda t: t.execute(
                "SELECT f.data FROM memory_facts AS f LEFT JOIN memory_vectors AS v ON v.place = f.place"
                " AND v.model = ? WHERE f.tenant = ? AND v.place IS NULL"
                f" ORDER BY f.place LIMIT {limit:d}",
                (searchable(model), known_tenant(t, tenant)),
            )
        )
        return list(self._rows.facts(rows))

    def vector_changes(self, tenant: str | None, model: str, since: int) -> VectorChanges:
        """What the vector index has not seen yet."""

        def work(t: Transaction) -> VectorChanges:
            rows = t.execute(
                "SELECT number, forgotten FROM memory_tenants WHERE name = ?", (optional(tenant),)
            )
            if not rows:
                return VectorChanges(0, 0, ())
            number, forgotten = int(rows[0][0]), int(rows[0][1])
            changed = t.execute(
                "SELECT f.data, v.vector, f.is_pruned, f.changed FROM memory_facts AS f"
                " LEFT JOIN memory_vectors AS v ON v.place = f.place AND v.model = ?"
                " WHERE f.tenant = ? AND f.changed > ? ORDER BY f.changed",
                (searchable(model), number, since),
            )
            revision = int(changed[-1][3]) if changed else since
            return VectorChanges(revision, forgotten, self._rows.vector_rows(changed))

        return self._database.read(work)

    def recalled(self, tenant: str | None, run_id: str) -> list[Fact]:
        """The facts that a run has read."""
        rows = self._database.read(
            lambda t: t.execute(
                "SELECT f.data FROM memory_recalled AS r JOIN memory_facts AS f ON f.tenant = r.tenant"
                " AND f.id = r.id WHERE r.tenant = ? AND r.run = ?",
                (known_tenant(t, tenant), searchable(run_id)),
            )
        )
        return list(self._rows.facts(rows))

    def tallies(self, tenant: str | None, ids: Sequence[str]) -> dict[str, Tally]:
        """The counts of facts."""
        if self._version < _WITH_TALLIES:
            return {}

        def work(t: Transaction) -> dict[str, Tally]:
            number = known_tenant(t, tenant)
            found: dict[str, Tally] = {}
            for chunk in chunks(dict.fromkeys(ids)):
                by_column = {searchable(id): id for id in chunk}
                rows = t.execute(
                    "SELECT id, wins, losses, at FROM memory_tallies"
                    f" WHERE tenant = ? AND id IN ({marks(chunk)})",
                    [number, *by_column],
                )
                found |= {by_column[id]: Tally(int(w), int(n), float(at)) for id, w, n, at in rows}
            return found

        return self._database.read(work)
