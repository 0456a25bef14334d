"""Facts on their way into the tables: what they supersede, and what stands beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from placet.memory.analysis import indexed
from placet.memory.fact import Fact, replaces, superseded
from placet.memory.in_memory import are_neighbours
from placet.memory.rows import COLUMNS, FactRows, Stored, count, fact_row, tenant_number
from placet.memory.store import Tally
from placet.memory.tables import optional, text_columns, text_row
from placet.storage.transaction import Transaction, searchable

_MANY = 1_000
"""Facts of one batch after which the statistics are out of date."""


def add_facts(t: Transaction, facts: Sequence[Fact], rows: FactRows | None = None) -> list[str]:
    """Store facts within a transaction; returns the ids of those that are new."""
    by_tenant: dict[str | None, dict[str, Fact]] = {}
    for fact in facts:
        by_tenant.setdefault(fact.tenant, {}).setdefault(fact.id, fact)
    added: list[str] = []
    for tenant, given in by_tenant.items():
        added += _Adding(rows or FactRows("the database"), t, tenant_number(t, tenant), given).run()
    return added


def add_tallies(
    t: Transaction, tenant: str | None, counts: Mapping[str, Tally], *, is_total: bool = False
) -> None:
    """Count how often facts helped, within a transaction."""
    number = tenant_number(t, tenant)
    if is_total:
        changes = [_larger("wins"), _larger("losses")]
    else:
        changes = [f"{name} = memory_tallies.{name} + excluded.{name}" for name in ("wins", "losses")]
        changes.append(_larger("at"))
    for id, tally in sorted(counts.items()):
        t.execute(
            "INSERT INTO memory_tallies (tenant, id, wins, losses, at) SELECT f.tenant, f.id,"
            " CAST(? AS BIGINT), CAST(? AS BIGINT), CAST(? AS DOUBLE PRECISION) FROM memory_facts AS f"
            f" WHERE f.tenant = ? AND f.id = ? ON CONFLICT (tenant, id) DO UPDATE SET {', '.join(changes)}",
            (*tally, number, searchable(id)),
        )


def _larger(column: str) -> str:
    old, new = f"memory_tallies.{column}", f"excluded.{column}"
    return f"{column} = CASE WHEN {new} > {old} THEN {new} ELSE {old} END"


class _Adding:
    """Facts of one tenant on their way into the tables."""

    def __init__(self, rows: FactRows, t: Transaction, tenant: int, given: Mapping[str, Fact]) -> None:
        self._rows = rows
        self._t = t
        self._tenant = tenant
        known = rows.places(t, tenant, list(given))
        self._new = {id: fact for id, fact in given.items() if id not in known}

    def run(self) -> list[str]:
        """Store them; returns the ids of those that are new."""
        if not self._new:
            return []
        added = list(self._new)
        for fact in sorted(self._new.values(), key=lambda each: each.learned):
            if fact.supersedes or fact.supersedes_key:
                self._supersede(fact)
        t, tenant = self._t, self._tenant
        last = count(t, len(added))
        places = {id: last - len(added) + 1 + n for n, id in enumerate(added)}
        t.insert(
            "memory_facts", COLUMNS, [fact_row(places[id], tenant, fact) for id, fact in self._new.items()]
        )
        talks = {fact.conversation for fact in self._new.values() if fact.conversation is not None}
        around, touched = self._neighbours() if talks else ({}, [])
        texts = [
            text_row(places[id], tenant, indexed(fact, around.get(id, ())), t.dialect)
            for id, fact in self._new.items()
        ]
        t.insert("memory_text", text_columns(t.dialect), texts)
        for each in touched:
            self._rows.reindex(t, tenant, each)
        t.execute("UPDATE memory_tenants SET facts = facts + ? WHERE number = ?", (len(added), tenant))
        if t.dialect == "postgres" and len(added) > _MANY:
            # Until statistics are made, Postgres reads all facts for a query that concerns a few.
            t.execute("ANALYZE memory_facts")
            t.execute("ANALYZE memory_text")
        return added

    def _supersede(self, fact: Fact) -> None:
        t, rows = self._t, self._rows
        stored = rows.stored(t, self._tenant, fact.supersedes)
        if fact.supersedes_key and fact.key is not None:
            stored += rows.of_key(t, self._tenant, fact.subject, fact.key)
        for place, old in stored:
            if replaces(fact, old):
                rows.rewrite(t, place, superseded(old, fact))
        beside = list(self._new.values()) if fact.supersedes_key else [
            self._new[id] for id in fact.supersedes if id in self._new
        ]  # fmt: skip
        for old in beside:
            if replaces(fact, old) and (old.id in fact.supersedes or old.learned <= fact.learned):
                self._new[old.id] = superseded(old, fact)

    def _neighbours(self) -> tuple[dict[str, list[Fact]], list[Stored]]:
        """By id, the neighbours of the new facts; and those that were there before."""
        by_place: dict[tuple[str, int], list[Stored]] = {}
        spans: dict[str, list[int]] = {}
        for fact in self._new.values():
            if fact.conversation is not None:
                spans.setdefault(fact.conversation, []).append(fact.position)
        for conversation, positions in spans.items():
            rows = self._t.execute(
                "SELECT place, data FROM memory_facts WHERE tenant = ? AND conversation = ?"
                " AND conversation <> '' AND position BETWEEN ? AND ? ORDER BY position, id",
                (self._tenant, optional(conversation), min(positions) - 1, max(positions) + 1),
            )
            for each in self._rows.readable(rows):
                by_place.setdefault((conversation, each.fact.position), []).append(each)
        around: dict[str, list[Fact]] = {}
        touched: dict[str, Stored] = {}
        for fact in self._new.values():
            if fact.conversation is None:
                continue
            beside = [
                each
                for position in range(fact.position - 1, fact.position + 2)
                for each in by_place.get((fact.conversation, position), ())
                if are_neighbours(fact, each.fact)
            ]
            around[fact.id] = [each.fact for each in beside]
            touched |= {each.fact.id: each for each in beside if each.fact.id not in self._new}
        return around, list(touched.values())
