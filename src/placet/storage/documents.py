"""Structs as JSON documents in the rows of a table: read back, or reported as damaged.

Keep true: no domain. A store brings its table, its columns and its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

from placet.errors import StorageDamaged, UsageError
from placet.storage.database import Database
from placet.storage.transaction import Rows, Transaction, Value, searchable

T = TypeVar("T")

SEVERAL = 6
"""So many documents are enough to tell that a prefix means several."""

_encode = msgspec.json.Encoder().encode


class Documents(Generic[T]):
    """The documents in one table, in its column `data`."""

    def __init__(self, database: Database, table: str, kind: type[T], what: str, *, key: str = "id") -> None:
        """`what` names one of them in an error, with its article; `key` is the column of its name."""
        self._database = database
        self._table = table
        self._decode = msgspec.json.Decoder(kind).decode
        self._what = what
        self._key = key

    def get(self, name: str, t: Transaction | None = None) -> T | None:
        """The document of that name; within a transaction, if there is one."""
        found = self.select(f"WHERE {self._key} = ?", (searchable(name),), t=t)
        return found[0] if found else None

    def named(self, prefix: str, newest: str) -> list[T]:
        """The document whose name that is, or those whose names begin so, by the column `newest`."""
        exact = self.get(prefix)
        if exact is not None or not prefix:
            return [] if exact is None else [exact]
        where = f"WHERE substr({self._key}, 1, ?) = ? ORDER BY {newest} DESC, {self._key} LIMIT {SEVERAL}"
        return self.select(where, (len(prefix), searchable(prefix)))

    def select(
        self, rest: str, values: Sequence[Value] = (), *, source: str = "", t: Transaction | None = None
    ) -> list[T]:
        """The documents that a statement finds; `rest` is what follows its table, or `source` instead of it.

        Raises:
            StorageDamaged: one cannot be read.
        """
        sql = f"SELECT {self._key}, data FROM {source or self._table} {rest}"
        rows: Rows = self._database.select(sql, values) if t is None else t.execute(sql, values)
        return [self.read(data, name) for name, data in rows]

    def read(self, data: str, name: str = "") -> T:
        """The document of a row.

        Raises:
            StorageDamaged: it cannot be read.
        """
        try:
            return self._decode(data)
        except (msgspec.DecodeError, UsageError, RecursionError) as error:
            which = f"{self._what} '{name}'" if name else self._what
            problem = f"holds {which} that cannot be read ({error})"
            raise StorageDamaged(self._database.name, problem, "Restore a copy.") from None


def document(value: msgspec.Struct) -> str:
    """A struct as it stands in the column `data`."""
    return _encode(value).decode()
