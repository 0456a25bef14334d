"""Somebody with the database's password, or the right to write its file, and no good intentions."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from placet.events.chain import Row, link
from placet.storage.location import sqlite_path

COLUMNS = ("position", *Row._fields, "prev", "digest")


class Intruder:
    """Plain SQL on a database of either kind, past all code of ours."""

    def __init__(self, url: str) -> None:
        self._postgres = url.startswith("postgres")
        self._connection: Any
        if self._postgres:
            import psycopg

            self._connection = psycopg.connect(url, autocommit=True)
            self._connection.execute("SET search_path TO placet")
        else:
            self._connection = sqlite3.connect(sqlite_path(url), isolation_level=None, timeout=10)

    def sql(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement."""
        text = statement.replace("?", "%s") if self._postgres else statement
        cursor = self._connection.execute(text, values)
        return cursor.fetchall() if cursor.description is not None else []

    def record(self, position: int) -> dict[str, Any]:
        """All of a record's columns."""
        rows = self.sql(f"SELECT {', '.join(COLUMNS)} FROM events WHERE position = ?", (position,))
        return dict(zip(COLUMNS, rows[0], strict=True))

    def change(self, position: int, /, **columns: Any) -> None:
        """Set columns of a record."""
        changes = ", ".join(f"{name} = ?" for name in columns)
        self.sql(f"UPDATE events SET {changes} WHERE position = ?", (*columns.values(), position))

    def rehash(self, position: int) -> str:
        """Give a record the digest that fits what it holds now."""
        record = self.record(position)
        digest = link(record["prev"], Row(*(record[name] for name in Row._fields)))
        self.change(position, digest=digest)
        return digest

    def rehash_from(self, position: int) -> None:
        """Make the chain whole again from a record to the end, the head row included."""
        last = self.last()
        digest = self.rehash(position)
        for later in range(position + 1, last + 1):
            self.change(later, prev=digest)
            digest = self.rehash(later)
        self.set_head(last, digest)

    def last(self) -> int:
        """The highest position."""
        return int(self.sql("SELECT max(position) FROM events")[0][0] or 0)

    def set_head(self, position: int, digest: str) -> None:
        """Have the log end where it suits."""
        self.sql("UPDATE events_head SET position = ?, digest = ?", (position, digest))

    def delete(self, first: int, last: int) -> None:
        """Take records away."""
        self.sql("DELETE FROM events WHERE position BETWEEN ? AND ?", (first, last))

    def renumber(self, from_position: int, by: int) -> None:
        """Shift positions, in two steps because they must stay different."""
        self.sql("UPDATE events SET position = -position WHERE position >= ?", (from_position,))
        self.sql("UPDATE events SET position = -position + ? WHERE position < 0", (by,))

    def insert(self, record: dict[str, Any]) -> None:
        """Put a record in."""
        marks = ", ".join("?" * len(COLUMNS))
        values = [record[name] for name in COLUMNS]
        self.sql(f"INSERT INTO events ({', '.join(COLUMNS)}) VALUES ({marks})", values)

    def swap(self, one: int, other: int) -> None:
        """Have two records change positions."""
        self.sql("UPDATE events SET position = -1 WHERE position = ?", (one,))
        self.sql("UPDATE events SET position = ? WHERE position = ?", (one, other))
        self.sql("UPDATE events SET position = ? WHERE position = -1", (other,))

    def close(self) -> None:
        self._connection.close()
