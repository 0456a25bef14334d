"""Rows of facts within one transaction: read, written, and indexed again when their neighbours change."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from placet.errors import StorageDamaged
from placet.memory.analysis import Indexed, indexed
from placet.memory.fact import Fact, salvaged
from placet.memory.in_memory import are_neighbours, vector_row
from placet.memory.store import Candidate, VectorRow
from placet.memory.tables import NEVER, SPLIT, bare, marks, optional, text_columns, text_row
from placet.storage.transaction import Rows, Transaction, Value, searchable

T = TypeVar("T")
_log = logging.getLogger(__name__)
_CHUNK = 500
"""Values in one list of a statement."""
COLUMNS = (
    "place", "tenant", "id", "subject", "key", "kind", "tags", "person", "project", "agent", "is_secret",
    "conversation", "position", "valid_from", "valid_until", "learned", "invalidated", "is_pruned", "changed",
    "data",
)  # fmt: skip

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Fact).decode


class Stored(NamedTuple):
    """A fact, and the place of its row."""

    place: int
    fact: Fact


class FactRows:
    """Reads and writes rows of one database."""

    def __init__(self, name: str) -> None:
        """`name` is that of the database, for messages."""
        self._name = name
        self._has_warned = False

    def rewrite(self, t: Transaction, place: int, fact: Fact) -> None:
        """Store what has changed of a fact."""
        t.execute(
            "UPDATE memory_facts SET valid_until = ?, invalidated = ?, changed = ?, data = ? WHERE place = ?",
            (_until(fact.valid_until), _until(fact.invalidated), count(t, 1), _text(fact), place),
        )

    def stored(self, t: Transaction, tenant: int, ids: Sequence[str]) -> list[Stored]:
        """Facts with the places of their rows, by id."""
        rows: Rows = []
        for chunk in chunks(ids):
            rows += t.execute(
                f"SELECT place, data FROM memory_facts WHERE tenant = ? AND id IN ({marks(chunk)})",
                [tenant, *map(searchable, chunk)],
            )
        return [Stored(int(place), self.read(str(data))) for place, data in rows]

    def places(self, t: Transaction, tenant: int, ids: Sequence[str]) -> dict[str, int]:
        """By id, the places of rows, also of those that cannot be read."""
        found: dict[str, int] = {}
        for chunk in chunks(ids):
            by_column = {searchable(id): id for id in chunk}
            for place, column in t.execute(
                f"SELECT place, id FROM memory_facts WHERE tenant = ? AND id IN ({marks(chunk)})",
                [tenant, *by_column],
            ):
                found[by_column[str(column)]] = int(place)
        return found

    def of_key(self, t: Transaction, tenant: int, subject: str, key: str) -> list[Stored]:
        """Facts with a subject and key."""
        rows = t.execute(
            "SELECT place, data FROM memory_facts WHERE tenant = ? AND subject = ? AND key = ?",
            (tenant, searchable(subject), optional(key)),
        )
        return self.readable(rows)

    def beside(self, t: Transaction, tenant: int, fact: Fact) -> list[Stored]:
        """The neighbours of a fact in its conversation."""
        if fact.conversation is None:
            return []
        rows = t.execute(
            "SELECT place, data FROM memory_facts WHERE tenant = ? AND conversation = ?"
            " AND conversation <> '' AND position BETWEEN ? AND ? ORDER BY position, id",
            (tenant, optional(fact.conversation), fact.position - 1, fact.position + 1),
        )
        return [each for each in self.readable(rows) if are_neighbours(fact, each.fact)]

    def reindex(self, t: Transaction, tenant: int, stored: Stored) -> None:
        """Index a fact again whose neighbours have changed; one that was pruned is in no index."""
        rows = t.execute("SELECT is_pruned FROM memory_facts WHERE place = ?", (stored.place,))
        if rows and not rows[0][0]:
            texts = indexed(stored.fact, [each.fact for each in self.beside(t, tenant, stored.fact)])
            t.execute("DELETE FROM memory_text WHERE rowid = ?", (stored.place,))
            t.insert(
                "memory_text",
                text_columns(t.dialect),
                [text_row(stored.place, tenant, texts, t.dialect)],
            )

    def candidates(self, rows: Rows) -> list[Candidate]:
        return [
            # What was pruned is in no index, and is compared by its own words.
            Candidate(fact, indexed(fact, ()) if own is None else Indexed(*map(bare, (own, aliases, around))))
            for data, own, aliases, around in rows
            for fact in self.facts([(data,)])
        ]

    def vector_rows(self, rows: Rows) -> list[VectorRow]:
        return [
            vector_row(fact, bytes(vector) if vector is not None else None, bool(is_pruned))
            for data, vector, is_pruned, *_ in rows
            for fact in self.facts([(data,)])
        ]

    def readable(self, rows: Rows) -> list[Stored]:
        """Facts with their places; rows that cannot be read are left out, and that is logged once."""
        return [Stored(int(place), fact) for place, data in rows for fact in self.facts([(data,)])]

    def facts(self, rows: Rows) -> Iterator[Fact]:
        """Facts; rows that cannot be read are left out, and that is logged once."""
        for data, *_ in rows:
            try:
                yield self.read(str(data))
            except StorageDamaged as error:
                if not self._has_warned:
                    self._has_warned = True
                    _log.warning("A fact was left out: %s", error)

    def read(self, data: str) -> Fact:
        try:
            return _decode(data)
        except msgspec.DecodeError as error:
            with contextlib.suppress(msgspec.MsgspecError):
                return salvaged(data)
            raise StorageDamaged(
                self._name, f"holds a fact that cannot be read ({error})", "Restore a copy."
            ) from None


def count(t: Transaction, by: int) -> int:
    """The counter after so many more."""
    rows = t.execute("UPDATE memory_counter SET last = last + ? WHERE one = 1 RETURNING last", (by,))
    return int(rows[0][0])


def tenant_number(t: Transaction, tenant: str | None) -> int:
    """The number of a tenant, new if it has none. Takes the counter."""
    last = count(t, 1)
    t.execute(
        "INSERT INTO memory_tenants (name, number, facts, forgotten) VALUES (?, ?, 0, 0)"
        " ON CONFLICT (name) DO NOTHING",
        (optional(tenant), last),
    )
    return known_tenant(t, tenant)


def known_tenant(t: Transaction, tenant: str | None) -> int:
    """The number of a tenant; one that nobody has if it is unknown."""
    rows = t.execute("SELECT number FROM memory_tenants WHERE name = ?", (optional(tenant),))
    return int(rows[0][0]) if rows else 0


def fact_row(place: int, tenant: int, fact: Fact) -> list[Value]:
    scope = fact.scope
    tags = "".join(f"{SPLIT}{searchable(tag)}{SPLIT}" for tag in fact.tags)
    return [
        *(place, tenant, searchable(fact.id), searchable(fact.subject), optional(fact.key)),
        *(searchable(fact.kind), tags, *map(optional, (scope.person, scope.project, scope.agent))),
        *(int("secret" in fact.labels), optional(fact.conversation), fact.position),
        *(-NEVER if fact.valid_from is None else fact.valid_from, _until(fact.valid_until)),
        *(fact.learned, _until(fact.invalidated), 0, place, _text(fact)),
    ]


def _until(moment: float | None) -> float:
    return NEVER if moment is None else moment


def _text(fact: Fact) -> str:
    return _encode(fact).decode()


def chunks(items: Iterable[T]) -> Iterable[list[T]]:
    found = list(items)
    return (found[start : start + _CHUNK] for start in range(0, len(found), _CHUNK))
