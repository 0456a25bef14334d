"""Coding sessions in SQLite or Postgres: worked on in one process, looked at and answered from others.

Keep true: of two answers to one question the database lets one through.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import msgspec

from placet.coder.session import OPEN, Question, Session, State
from placet.coder.store import answered, only_one
from placet.errors import StorageDamaged, UsageError
from placet.storage.database import Database
from placet.storage.folders import in_folder
from placet.storage.migrate import ByDialect, Migrations, migrate
from placet.storage.transaction import Transaction, Value, searchable

MIGRATIONS = Migrations(
    "coding",
    [
        [
            "CREATE TABLE coding_sessions (id TEXT NOT NULL PRIMARY KEY, state TEXT NOT NULL,"
            " created DOUBLE PRECISION NOT NULL, data TEXT NOT NULL)",
            "CREATE INDEX coding_by_time ON coding_sessions (created, id)",
            "CREATE TABLE coding_stops (id TEXT NOT NULL PRIMARY KEY, reason TEXT NOT NULL)",
            "CREATE TABLE coding_questions (id TEXT NOT NULL PRIMARY KEY, session TEXT NOT NULL,"
            " asked DOUBLE PRECISION NOT NULL, until DOUBLE PRECISION NOT NULL, is_open BIGINT NOT NULL,"
            " data TEXT NOT NULL)",
            "CREATE INDEX coding_questions_open ON coding_questions (asked, id) WHERE is_open = 1",
        ],
        [
            "ALTER TABLE coding_sessions ADD COLUMN repository TEXT",
            ByDialect(
                sqlite="UPDATE coding_sessions SET repository = json_extract(data, '$.repository')"
                " WHERE json_valid(data)",
                # Not as JSON: one row that is none would keep all of them from being moved.
                postgres="UPDATE coding_sessions"
                """ SET repository = substring(data from '"repository":"([^"]*)"')""",
            ),
            "DROP INDEX coding_by_time",
            "CREATE INDEX coding_listed ON coding_sessions (created, id, repository)",
        ],
        # Requests to stop are in the lease of the session's run.
        ["DROP TABLE coding_stops"],
    ],
    readable_from=1,
)
_TABLES = {1: "(SELECT old.*, NULL AS repository FROM coding_sessions AS old) AS coding_sessions"}
"""Older tables, as if they were those of today."""

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode
_session = msgspec.json.Decoder(Session).decode
_question = msgspec.json.Decoder(Question).decode


def has_sessions(database: Database) -> bool:
    """Whether anybody has coded there. Whoever only reads cannot make the tables to find out."""
    return database.read(lambda t: t.has_table("coding_sessions"))


def _where(state: State | None) -> tuple[str, list[Value]]:
    return ("1 = 1", []) if state is None else ("state = ?", [state])


class SqlSessions:
    """Coding sessions in a database, shared by all processes that use it. Each call waits for the disk."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        """Create the tables if they are missing.

        Args:
            database: From `open_database`.
            clock: Returns seconds since the epoch.

        Raises:
            StorageError: the tables cannot be created.
        """
        self._database = database
        self._clock = clock
        self._table = _TABLES.get(migrate(database, MIGRATIONS), "coding_sessions")

    def put(self, session: Session) -> None:
        """Keep it as it is now."""
        row = (
            searchable(session.id),
            session.state,
            session.created_at,
            _encode(session).decode(),
            searchable(session.repository),
        )
        self._database.write(
            lambda t: t.execute(
                "INSERT INTO coding_sessions (id, state, created, data, repository) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET state = excluded.state, data = excluded.data",
                row,
            )
        ).result()

    def get(self, session: str) -> Session | None:
        """The session with that id."""
        rows = self._database.read(
            lambda t: t.execute("SELECT id, data FROM coding_sessions WHERE id = ?", (searchable(session),))
        )
        return self._session(rows[0]) if rows else None

    def find(self, prefix: str) -> Session:
        """The session whose id is, or begins with, `prefix`."""
        exact = self.get(prefix)
        if exact is not None:
            return exact
        rows = self._database.read(
            lambda t: t.execute(
                "SELECT id, data FROM coding_sessions WHERE substr(id, 1, ?) = ?"
                " ORDER BY created DESC, id LIMIT 6",
                (len(prefix), searchable(prefix)),
            )
        )
        return only_one([self._session(row) for row in rows] if prefix else [], prefix)

    def listed(
        self, *, state: State | None = None, folder: str | None = None, limit: int = 50
    ) -> list[Session]:
        """The newest, newest first; with a `folder` those of repositories in it or below."""
        where, values = _where(state)
        here, place = in_folder("repository", folder, with_unknown=True)
        rows = self._database.read(
            lambda t: t.execute(
                f"SELECT id, data FROM {self._table} WHERE {where} AND {here}"
                f" ORDER BY created DESC, id DESC LIMIT {limit:d}",
                [*values, *place],
            )
        )
        return [self._session(row) for row in rows]

    def elsewhere(self, folder: str, *, state: State | None = None) -> int:
        """Return the number of sessions of repositories outside a folder.

        Args:
            folder: Absolute path of the folder.
            state: Count only sessions in this state.
        """
        where, values = _where(state)
        here, place = in_folder("repository", folder, with_unknown=True)
        rows = self._database.read(
            lambda t: t.execute(
                f"SELECT count(*) FROM {self._table} WHERE {where} AND NOT {here}", [*values, *place]
            )
        )
        return int(rows[0][0])

    def ended_before(self, moment: float) -> list[Session]:
        """Return the sessions that have ended and last changed before a time.

        Args:
            moment: Seconds since the epoch.
        """
        marks = ", ".join("?" * len(OPEN))
        rows = self._database.read(
            lambda t: t.execute(
                f"SELECT id, data FROM coding_sessions WHERE state NOT IN ({marks}) AND created < ?"
                " ORDER BY created, id",
                (*OPEN, moment),
            )
        )
        return [each for row in rows if (each := self._session(row)).changed_at < moment]

    def drop(self, session: str) -> None:
        """Delete a session with its questions.

        Args:
            session: Id of the session.
        """

        def work(t: Transaction) -> None:
            name = searchable(session)
            t.execute("DELETE FROM coding_questions WHERE session = ?", (name,))
            t.execute("DELETE FROM coding_sessions WHERE id = ?", (name,))

        self._database.write(work).result()

    def ask(self, question: Question) -> Question:
        """Put a question."""

        def work(t: Transaction) -> Question:
            t.execute(
                "INSERT INTO coding_questions (id, session, asked, until, is_open, data)"
                " VALUES (?, ?, ?, ?, 1, ?) ON CONFLICT (id) DO NOTHING",
                (
                    searchable(question.id),
                    searchable(question.session),
                    question.asked_at,
                    question.until,
                    _encode(question).decode(),
                ),
            )
            found = self._question(t, question.id)
            assert found is not None
            return found

        return self._database.write(work).result()

    def question(self, question: str) -> Question | None:
        """The question with that id."""
        return self._database.read(lambda t: self._question(t, question))

    def questions(self, session: str | None = None) -> list[Question]:
        """Those that wait for an answer, oldest first."""
        rows = self._database.read(
            lambda t: t.execute(
                "SELECT id, data FROM coding_questions WHERE is_open = 1 AND until >= ? ORDER BY asked, id",
                (self._clock(),),
            )
        )
        found = [self._read(_question, "question", row) for row in rows]
        return [each for each in found if session is None or each.session == session]

    def answer(self, question: str, text: str, by: str) -> Question:
        """Answer one."""

        def work(t: Transaction) -> Question:
            # The row is locked by changing it: on Postgres a read would let two in.
            t.execute("UPDATE coding_questions SET is_open = is_open WHERE id = ?", (searchable(question),))
            done = answered(self._question(t, question), question, text, by, self._clock())
            t.execute(
                "UPDATE coding_questions SET is_open = 0, data = ? WHERE id = ?",
                (_encode(done).decode(), searchable(question)),
            )
            return done

        return self._database.write(work).result()

    def _question(self, t: Transaction, question: str) -> Question | None:
        rows = t.execute("SELECT id, data FROM coding_questions WHERE id = ?", (searchable(question),))
        return self._read(_question, "question", rows[0]) if rows else None

    def _session(self, row: tuple[str, str]) -> Session:
        return self._read(_session, "session", row)

    def _read(self, decode: Callable[[str], T], what: str, row: tuple[str, str]) -> T:
        try:
            return decode(row[1])
        except (msgspec.DecodeError, UsageError, RecursionError) as error:
            raise StorageDamaged(
                self._database.name,
                f"holds a coding {what} '{row[0]}' that cannot be read ({error})",
                "Restore a copy.",
            ) from None
