"""Rounds in SQLite or Postgres: led in one process, looked at, decided and stopped from others.

Keep true:
1. Two processes that begin a round of the same loop at once get two numbers.
2. A round that has ended and the fact about it are written in one transaction.
"""

from __future__ import annotations

import contextlib

import msgspec

from placet.errors import UsageError
from placet.loops.budget import Spend
from placet.loops.levels import Standing
from placet.loops.recall import fact_of, latest, rounds_filter
from placet.loops.round import Round
from placet.loops.store import only_one
from placet.memory import tables as memory
from placet.memory.adding import add_facts
from placet.memory.fact import Fact
from placet.memory.sql import SqlFacts
from placet.storage.database import Database
from placet.storage.documents import Documents, document
from placet.storage.migrate import Conversion, Migrations, migrate, take_steps
from placet.storage.transaction import Transaction, searchable


def _remember_rounds(t: Transaction) -> None:
    """Make facts of the rounds that have ended."""
    rounds = []
    for (data,) in t.execute("SELECT data FROM loop_rounds WHERE is_open = 0 ORDER BY started, number"):
        with contextlib.suppress(msgspec.DecodeError, UsageError, RecursionError):
            rounds.append(msgspec.json.decode(data, type=Round))
    if rounds:
        take_steps(t, memory.MIGRATIONS)
        add_facts(t, [fact_of(each) for each in rounds])


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
        [Conversion("rounds that have ended become facts", _remember_rounds)],
    ],
    readable_from=2,
)


def has_rounds(database: Database) -> bool:
    """Whether any loop has run there. Whoever only reads cannot make the tables to find out."""
    return database.has_table("loop_rounds")


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
        if not database.read_only:
            migrate(database, memory.MIGRATIONS)
        migrate(database, MIGRATIONS)
        self._rounds = Documents(database, "loop_rounds", Round, "a round")
        self._standings = Documents(database, "loop_standing", Standing, "the standing of a loop", key="loop")

    def begin(self, round: Round) -> Round:
        """Keep a new round, and give it its number."""

        def work(t: Transaction) -> Round:
            known = self._rounds.get(round.id, t)
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
        return self._rounds.get(round)

    def find(self, prefix: str) -> Round:
        """The round whose id is, or begins with, `prefix`."""
        return only_one(self._rounds.named(prefix, "started"), prefix)

    def listed(self, loop: str | None = None, *, limit: int = 50) -> list[Round]:
        """The newest, newest first."""
        return self._select("", loop, f"ORDER BY started DESC, number DESC, id DESC LIMIT {limit:d}")

    def recall(self, loop: str) -> list[Fact]:
        """Facts about the last rounds."""
        return latest(SqlFacts(self._database).listed(rounds_filter(loop)))

    def unfinished(self, loop: str | None = None) -> list[Round]:
        """Those without an outcome, oldest first."""
        return self._select("is_open = 1", loop, "ORDER BY started, number, id")

    def waiting(self, loop: str | None = None) -> list[Round]:
        """Escalated ones that nobody has decided about, oldest first."""
        return self._select("is_waiting = 1", loop, "ORDER BY started, number, id")

    def spent(self, loop: str, since: float, *, but: str = "") -> Spend:
        """What the rounds that began since then have used, all but one."""
        rounds = self._rounds.select(
            "WHERE loop = ? AND started >= ? AND id <> ?", (searchable(loop), since, searchable(but))
        )
        total = Spend()
        for each in rounds:
            total = total.plus(each.spend)
        return total

    def standing(self, loop: str) -> Standing | None:
        """How far a loop may go at most."""
        return self._standings.get(loop)

    def set_standing(self, standing: Standing) -> None:
        """Lower it, or lift it again."""
        self._database.execute(
            "INSERT INTO loop_standing (loop, data) VALUES (?, ?)"
            " ON CONFLICT (loop) DO UPDATE SET data = excluded.data",
            (searchable(standing.loop), document(standing)),
        )

    def _select(self, where: str, loop: str | None, order: str) -> list[Round]:
        parts = [where] if where else []
        if loop is not None:
            parts.append("loop = ?")
        values = () if loop is None else (searchable(loop),)
        only = f" WHERE {' AND '.join(parts)}" if parts else ""
        return self._rounds.select(f"{only} {order}", values)

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
                document(round),
            ),
        )
        if not round.is_open:
            add_facts(t, [fact_of(round)])
