"""The timetable of loops in SQLite or Postgres, shared by all schedulers on one database.

Keep true: a slot is read and written in one transaction that has locked its row first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from placet.loops.timetable import Mark, Slot
from placet.storage.database import Database
from placet.storage.documents import Documents, document
from placet.storage.migrate import Migrations, migrate
from placet.storage.transaction import Transaction, searchable

T = TypeVar("T")

MIGRATIONS = Migrations(
    "timetable",
    [
        [
            "CREATE TABLE loop_slots (key TEXT NOT NULL PRIMARY KEY, data TEXT NOT NULL)",
            "CREATE TABLE loop_switch (key TEXT NOT NULL PRIMARY KEY, data TEXT NOT NULL)",
        ]
    ],
)

_ALL = "all"
_NEW = ""
"""In the place of a slot that nobody has made yet: it stands there to be locked."""


def has_timetable(database: Database) -> bool:
    """Whether a loop was ever run there. Whoever only reads cannot make the tables to find out."""
    return database.has_table("loop_slots")


class SqlTimetable:
    """A timetable that all processes on one database share. Each call waits for the disk."""

    def __init__(self, database: Database, *, clock: Callable[[], float] | None = None) -> None:
        """Makes its tables. Without a `clock` the time is the database's.

        Raises:
            StorageError: they cannot be made.
        """
        self._database = database
        self._clock = clock
        migrate(database, MIGRATIONS)
        self._slots = Documents(database, "loop_slots", Slot, "a loop's slot", key="key")
        self._marks = Documents(database, "loop_switch", Mark, "the stop of all loops", key="key")

    def change(self, key: str, work: Callable[[Slot | None, float], tuple[Slot | None, T]]) -> T:
        """Put another slot in the place of the one that is there."""

        def changing(t: Transaction) -> T:
            # The row is locked by changing it, and made if need be: on Postgres a read would let two in.
            t.execute(
                "INSERT INTO loop_slots (key, data) VALUES (?, ?)"
                " ON CONFLICT (key) DO UPDATE SET data = loop_slots.data",
                (searchable(key), _NEW),
            )
            rows = t.execute("SELECT data FROM loop_slots WHERE key = ?", (searchable(key),))
            slot, result = work(self._read(rows[0][0]), self._clock() if self._clock is not None else t.now())
            if slot is not None:
                row = (document(slot), searchable(key))
                t.execute("UPDATE loop_slots SET data = ? WHERE key = ?", row)
            return result

        return self._database.write(changing).result()

    def get(self, key: str) -> Slot | None:
        """How a loop stands."""
        rows = self._database.select("SELECT data FROM loop_slots WHERE key = ?", (searchable(key),))
        return self._read(rows[0][0]) if rows else None

    def slots(self) -> list[Slot]:
        """All of them, by name."""
        rows = self._database.select("SELECT data FROM loop_slots")
        found = [slot for (data,) in rows if (slot := self._read(data)) is not None]
        return sorted(found, key=lambda slot: (slot.name, slot.repository))

    def switch(self) -> Mark | None:
        """Whether everything is stopped."""
        return self._marks.get(_ALL)

    def set_switch(self, mark: Mark | None) -> None:
        """Stop everything, or let it go on."""

        def setting(t: Transaction) -> None:
            if mark is None:
                t.execute("DELETE FROM loop_switch WHERE key = ?", (_ALL,))
                return
            t.execute(
                "INSERT INTO loop_switch (key, data) VALUES (?, ?)"
                " ON CONFLICT (key) DO UPDATE SET data = excluded.data",
                (_ALL, document(mark)),
            )

        self._database.write(setting).result()

    def _read(self, data: str) -> Slot | None:
        return self._slots.read(data) if data != _NEW else None
