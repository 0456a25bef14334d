"""The tables of facts in SQLite and Postgres, and statements that differ between the two.

Full text is indexed by SQLite's FTS5 and by Postgres' tsvector. Both get terms that `analysis` made, each
with the number of its tenant in front: the terms of another tenant are other terms, and are never looked at.

Keep true: a released step of `MIGRATIONS` never changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from placet.memory.analysis import Indexed
from placet.memory.store import RECORDS, FactFilter
from placet.storage.migrate import ByDialect, Migrations
from placet.storage.transaction import Dialect, Transaction, Value, searchable

NEVER = 1e300
SPLIT = "\x1f"
"""Stands around each tag of a fact."""

MIGRATIONS = Migrations(
    "memory",
    [
        [
            "CREATE TABLE memory_counter (one BIGINT NOT NULL PRIMARY KEY, last BIGINT NOT NULL)",
            "INSERT INTO memory_counter (one, last) VALUES (1, 0)",
            "CREATE TABLE memory_tenants (name TEXT NOT NULL PRIMARY KEY, number BIGINT NOT NULL,"
            " facts BIGINT NOT NULL, forgotten BIGINT NOT NULL)",
            "CREATE TABLE memory_facts (place BIGINT NOT NULL PRIMARY KEY, tenant BIGINT NOT NULL,"
            " id TEXT NOT NULL, subject TEXT NOT NULL, key TEXT NOT NULL, kind TEXT NOT NULL,"
            " tags TEXT NOT NULL, person TEXT NOT NULL, project TEXT NOT NULL, agent TEXT NOT NULL,"
            " is_secret BIGINT NOT NULL, conversation TEXT NOT NULL, position BIGINT NOT NULL,"
            " valid_from DOUBLE PRECISION NOT NULL, valid_until DOUBLE PRECISION NOT NULL,"
            " learned DOUBLE PRECISION NOT NULL, invalidated DOUBLE PRECISION NOT NULL,"
            " is_pruned BIGINT NOT NULL, changed BIGINT NOT NULL, data TEXT NOT NULL)",
            "CREATE UNIQUE INDEX memory_facts_id ON memory_facts (tenant, id)",
            "CREATE INDEX memory_facts_key ON memory_facts (tenant, subject, key)",
            "CREATE INDEX memory_facts_changed ON memory_facts (tenant, changed)",
            "CREATE INDEX memory_facts_learned ON memory_facts (tenant, learned)",
            "CREATE INDEX memory_facts_kind ON memory_facts (tenant, kind)",
            "CREATE INDEX memory_facts_talk ON memory_facts (tenant, conversation, position)"
            " WHERE conversation <> ''",
            "CREATE INDEX memory_facts_pruned ON memory_facts (tenant) WHERE is_pruned = 1",
            ByDialect(
                sqlite="CREATE VIRTUAL TABLE memory_text USING"
                " fts5(own, aliases, around, tokenize = 'ascii')",
                postgres="CREATE TABLE memory_text (rowid BIGINT NOT NULL PRIMARY KEY, own TEXT NOT NULL,"
                " aliases TEXT NOT NULL, around TEXT NOT NULL, terms TSVECTOR NOT NULL)",
            ),
            ByDialect(
                sqlite="CREATE VIRTUAL TABLE memory_terms USING fts5vocab(memory_text, row)",
                # What is only pending in the index would be walked through by every query.
                postgres="CREATE INDEX memory_text_terms ON memory_text USING GIN (terms)"
                " WITH (fastupdate = off)",
            ),
            ByDialect(
                sqlite="CREATE TABLE memory_vectors (place BIGINT NOT NULL PRIMARY KEY, model TEXT NOT NULL,"
                " vector BLOB NOT NULL)",
                postgres="CREATE TABLE memory_vectors (place BIGINT NOT NULL PRIMARY KEY,"
                " model TEXT NOT NULL, vector BYTEA NOT NULL)",
            ),
            "CREATE TABLE memory_recalled (tenant BIGINT NOT NULL, run TEXT NOT NULL, id TEXT NOT NULL,"
            " at DOUBLE PRECISION NOT NULL, PRIMARY KEY (tenant, run, id))",
        ],
        [
            "CREATE TABLE memory_tallies (tenant BIGINT NOT NULL, id TEXT NOT NULL, wins BIGINT NOT NULL,"
            " losses BIGINT NOT NULL, at DOUBLE PRECISION NOT NULL, PRIMARY KEY (tenant, id))",
        ],
    ],
    readable_from=1,
)

_HAS_TAG: Mapping[Dialect, str] = {"sqlite": "instr(f.tags, ?) > 0", "postgres": "strpos(f.tags, ?) > 0"}


def condition(where: FactFilter, tenant: int, dialect: Dialect) -> tuple[str, list[Value]]:
    """The filter as a condition on `memory_facts AS f`, with its values."""
    # A sum is in no index: times say little, and SQLite would begin with them instead of with ids or keys.
    parts = ["f.tenant = ?", "f.learned + 0 <= ?"]
    parts += ["f.invalidated > ?", "f.valid_from <= ?", "f.valid_until > ?"]
    values: list[Value] = [tenant, where.at, where.at, where.at, where.at]
    if where.scope is not None:
        for name in ("person", "project", "agent"):
            parts.append(f"f.{name} IN ('', ?)")
            values.append(optional(getattr(where.scope, name)))
    if where.kinds:
        parts.append(f"f.kind IN ({marks(where.kinds)})")
        values += map(searchable, where.kinds)
    else:
        parts.append(f"f.kind NOT IN ({marks(RECORDS)})")
        values += RECORDS
    for tag in where.tags:
        parts.append(_HAS_TAG[dialect])
        values.append(f"{SPLIT}{searchable(tag)}{SPLIT}")
    if not where.with_secret:
        parts.append("f.is_secret = 0")
    return " AND ".join(parts), values


def optional(text: str | None) -> str:
    """A text that may be missing, in a column that may not: a missing one is empty."""
    return "" if text is None else f"={searchable(text)}"


def marks(values: Sequence[object]) -> str:
    """Question marks for a list of values."""
    return ", ".join("?" * len(values))


def prefixed(terms: Sequence[str], tenant: int) -> str:
    """Terms of one tenant as a text for the index."""
    return " ".join(f"{tenant}x{term}" for term in terms)


def bare(text: str) -> tuple[str, ...]:
    """The terms of a text from the index."""
    prefix = text[: text.find("x") + 1]
    return tuple(f" {text}".replace(f" {prefix}", " ").split())


def text_row(place: int, tenant: int, texts: Indexed, dialect: Dialect) -> list[Value]:
    """A row of `memory_text`."""
    columns = [prefixed(texts.own, tenant), prefixed(texts.aliases, tenant), prefixed(texts.around, tenant)]
    row: list[Value] = [place, *columns]
    if dialect == "postgres":
        row.append(_vector(columns))
    return row


def text_columns(dialect: Dialect) -> list[str]:
    """The columns of `memory_text`."""
    return ["rowid", "own", "aliases", "around", *(["terms"] if dialect == "postgres" else [])]


def _vector(columns: Sequence[str]) -> str:
    """A tsvector as Postgres writes it: each term once, with the letter of the best column that holds it."""
    own, aliases, around = (text.split() for text in columns)
    best: dict[str, str] = {}
    for letter, words in (("A", aliases), ("B", own), ("C", around)):
        for word in words:
            best.setdefault(word, letter)
    return " ".join(f"'{word}':1{letter}" for word, letter in best.items())


def term_counts(t: Transaction, tenant: int, terms: Sequence[str]) -> dict[str, int]:
    """How many facts of a tenant hold each term."""
    if not terms:
        return {}
    if t.dialect == "sqlite":
        named = [f"{tenant}x{term}" for term in terms]
        rows = t.execute(f"SELECT term, doc FROM memory_terms WHERE term IN ({marks(named)})", named)
        return {bare(str(term))[0]: int(count) for term, count in rows}
    found: dict[str, int] = {}
    for term in terms:
        rows = t.execute(
            "SELECT count(*) FROM memory_text WHERE terms @@ CAST(? AS tsquery)", (f"'{tenant}x{term}'",)
        )
        if count := int(rows[0][0]):
            found[term] = count
    return found


def match(
    dialect: Dialect, tenant: int, terms: Mapping[str, float], *, is_broad: bool
) -> tuple[str, list[Value], str, list[Value]]:
    """A condition on `memory_text AS t` and an order, each with its values."""
    named = {f"{tenant}x{term}": weight for term, weight in terms.items()}
    if dialect == "sqlite":
        wanted = " OR ".join(f'"{term}"' for term in named)
        order = "t.rowid DESC" if is_broad else "bm25(memory_text, 4.0, 8.0, 1.0), t.rowid DESC"
        return "memory_text MATCH ?", [wanted], order, []
    quoted = {f"'{term}'": weight for term, weight in named.items()}
    where = "t.terms @@ CAST(? AS tsquery)"
    if is_broad:
        return where, [" | ".join(quoted)], "t.rowid DESC", []
    sums, values = [], list[Value]()
    for term, weight in quoted.items():
        sums.append(
            "CASE WHEN t.terms @@ CAST(? AS tsquery) THEN 2.0 WHEN t.terms @@ CAST(? AS tsquery) THEN 1.0"
            " WHEN t.terms @@ CAST(? AS tsquery) THEN 0.25 ELSE 0 END * CAST(? AS double precision)"
        )
        values += [f"{term}:A", f"{term}:B", term, weight]
    return where, [" | ".join(quoted)], f"{' + '.join(sums)} DESC, t.rowid DESC", values
