"""Rounds in SQLite or Postgres: led in one process, looked at, decided and stopped from others.

Keep true: two processes that begin a round of the same loop at once get two numbers.
"""

from __future__ import annotations

import msgspec

from placet.errors import StorageDamaged, UsageError
from placet.loops.budget import Spend
from placet.loops.levels import Standing
from placet.loops.round import Round
from placet.loops.store import only_one
from placet.storage.database import Database
from placet.storage.migrate import Migrations, migrate
from placet.storage.transaction import Transaction, searchable

MIGRATIONS = Migrations(
    "loops",
    [
        [
            "CREATE TABLE loop_counts (loop TEXT NOT NULL PRIMARY KEY, latest BIGINT NOT NULL)",
            "CREATE TABLE loop_rounds (id TEXT NOT NULL PRIMARY KEY, loop TEXT NOT NULL,"
            " number BIGINT NOT NULL, started DOUBLE PRECISION NOT NULL, is_open BIGINT NOT NULL,"
            " is_waiting BIGINT NOT NULL, data TEXT NOT NULL)",
            "CREATE INDEX loop_rounds_by_loop ON loop_rounds (loop, started)",
            "CREATE INDEX loop_rounds_by_time ON loop_rounds (started, id)",
            "CREATE INDEX loop_rounds_open ON loop_rounds (started, id) WHERE is_open = 1 OR is_waiting = 1",
            "CREATE TABLE loop_standing (loop TEXT NOT NULL PRIMARY KEY, data TEXT NOT NULL)",
            "CREATE TABLE loop_stops (id TEXT NOT NULL PRIMARY KEY, reason TEXT NOT NULL)",
        ],
        # Requests to stop are in the lease of the round's run.
        ["DROP TABLE loop_stops"],
    ],
)

_encode = msgspec.json.Encoder().encode
_round = msgspec.json.Decoder(Round).decode
_standing = msgspec.json.Decoder(Standing).decode
_COLUMNS = "id, data"
_Row = tuple[str, str]


def has_rounds(database: Database) -> bool:
    """Whether any loop has run there. Whoever only reads cannot make the tables to find out."""
    return database.read(lambda t: t.has_table("loop_rounds"))


class SqlRounds:
    """Rounds in a database, shared by all processes that use it. Each call waits for the disk."""

    def __init__(self, database: Database) -> None:
        """Create the tables if they are missing.

        Args:
            database: From `open_database`.

        Raises:
            StorageError: the tables cannot be created.
        """
        self._database = database
        migrate(database, MIGRATIONS)

    def begin(self, round: Round) -> Round:
        """Keep a new round, and give it its number."""

        def work(t: Transaction) -> Round:
            known = self._get(t, round.id)
            if known is not None:
                return known
            # The row is locked by changing it, so the next one waits, and counts on from there.
            t.execute(
                "INSERT INTO loop_counts (loop, latest) VALUES (?, 1)"
                " ON CONFLICT (loop) DO UPDATE SET latest = loop_counts.latest + 1",
                (searchable(round.key),),
            )
            rows = t.execute("SELECT latest FROM loop_counts WHERE loop = ?", (searchable(round.key),))
            round.number = int(rows[0][0])
            self._put(t, round)
            return round

        return self._database.write(work).result()

    def put(self, round: Round) -> None:
        """Keep it as it is now."""
        self._database.write(lambda t: self._put(t, round)).result()

    def get(self, round: str) -> Round | None:
        """The round with that id."""
        return self._database.read(lambda t: self._get(t, round))

    def find(self, prefix: str) -> Round:
        """The round whose id is, or begins with, `prefix`."""
        exact = self.get(prefix)
        if exact is not None:
            return exact
        rows = self._database.read(
            lambda t: t.execute(
                f"SELECT {_COLUMNS} FROM loop_rounds WHERE substr(id, 1, ?) = ?"
                " ORDER BY started DESC, id LIMIT 6",
                (len(prefix), searchable(prefix)),
            )
        )
        return only_one([self._read(row) for row in rows] if prefix else [], prefix)

    def listed(self, loop: str | None = None, *, limit: int = 50) -> list[Round]:
        """The newest, newest first."""
        return self._select("", loop, f"ORDER BY started DESC, number DESC, id DESC LIMIT {limit:d}")

    def unfinished(self, loop: str | None = None) -> list[Round]:
        """Those without an outcome, oldest first."""
        return self._select("is_open = 1", loop, "ORDER BY started, number, id")

    def waiting(self, loop: str | None = None) -> list[Round]:
        """Escalated ones that nobody has decided about, oldest first."""
        return self._select("is_waiting = 1", loop, "ORDER BY started, number, id")

    def spent(self, loop: str, since: float, *, but: str = "") -> Spend:
        """What the rounds that began since then have used, all but one."""
        rows = self._database.read(
            lambda t: t.execute(
                f"SELECT {_COLUMNS} FROM loop_rounds WHERE loop = ? AND started >= ? AND id <> ?",
                (searchable(loop), since, searchable(but)),
            )
        )
        total = Spend()
        for row in rows:
            total = total.plus(self._read(row).spend)
        return total

    def standing(self, loop: str) -> Standing | None:
        """How far a loop may go at most."""
        rows = self._database.read(
            lambda t: t.execute("SELECT data FROM loop_standing WHERE loop = ?", (searchable(loop),))
        )
        return _standing(rows[0][0]) if rows else None

    def set_standing(self, standing: Standing) -> None:
        """Lower it, or lift it again."""
        self._database.write(
            lambda t: t.execute(
                "INSERT INTO loop_standing (loop, data) VALUES (?, ?)"
                " ON CONFLICT (loop) DO UPDATE SET data = excluded.data",
                (searchable(standing.loop), _encode(standing).decode()),
            )
        ).result()

    def _select(self, where: str, loop: str | None, order: str) -> list[Round]:
        parts = [where] if where else []
        if loop is not None:
            parts.append("loop = ?")
        values = () if loop is None else (searchable(loop),)
        only = f" WHERE {' AND '.join(parts)}" if parts else ""
        rows = self._database.read(
            lambda t: t.execute(f"SELECT {_COLUMNS} FROM loop_rounds{only} {order}", values)
        )
        return [self._read(row) for row in rows]

    def _get(self, t: Transaction, round: str) -> Round | None:
        rows = t.execute(f"SELECT {_COLUMNS} FROM loop_rounds WHERE id = ?", (searchable(round),))
        return self._read(rows[0]) if rows else None

    def _put(self, t: Transaction, round: Round) -> None:
        t.execute(
            "INSERT INTO loop_rounds (id, loop, number, started, is_open, is_waiting, data)"
            " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
            " is_open = excluded.is_open, is_waiting = excluded.is_waiting, data = excluded.data",
            (
                searchable(round.id),
                searchable(round.key),
                round.number,
                round.started_at,
                int(round.is_open),
                int(round.is_waiting),
                _encode(round).decode(),
            ),
        )

    def _read(self, row: _Row) -> Round:
        try:
            return _round(row[1])
        except (msgspec.DecodeError, UsageError, RecursionError) as error:
            raise StorageDamaged(
                self._database.name,
                f"holds a round '{row[0]}' that cannot be read ({error})",
                "Restore a copy.",
            ) from None
