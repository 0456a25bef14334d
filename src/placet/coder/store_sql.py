"""Coding sessions in SQLite or Postgres: worked on in one process, looked at and answered from others.

Keep true: of two answers to one question the database lets one through.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from placet.coder.session import OPEN, Question, Session, State
from placet.coder.store import answered, only_one
from placet.storage.database import Database
from placet.storage.documents import Documents, document
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


def has_sessions(database: Database) -> bool:
    """Whether anybody has coded there. Whoever only reads cannot make the tables to find out."""
    return database.has_table("coding_sessions")


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
        self._sessions = Documents(database, "coding_sessions", Session, "a coding session")
        self._questions = Documents(database, "coding_questions", Question, "a coding question")

    def put(self, session: Session) -> None:
        """Keep it as it is now."""
        row = (
            searchable(session.id),
            session.state,
            session.created_at,
            document(session),
            searchable(session.repository),
        )
        self._database.execute(
            "INSERT INTO coding_sessions (id, state, created, data, repository) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET state = excluded.state, data = excluded.data",
            row,
        )

    def get(self, session: str) -> Session | None:
        """The session with that id."""
        return self._sessions.get(session)

    def find(self, prefix: str) -> Session:
        """The session whose id is, or begins with, `prefix`."""
        return only_one(self._sessions.named(prefix, "created"), prefix)

    def listed(
        self, *, state: State | None = None, folder: str | None = None, limit: int = 50
    ) -> list[Session]:
        """The newest, newest first; with a `folder` those of repositories in it or below."""
        where, values = _where(state)
        here, place = in_folder("repository", folder, with_unknown=True)
        return self._sessions.select(
            f"WHERE {where} AND {here} ORDER BY created DESC, id DESC LIMIT {limit:d}",
            [*values, *place],
            source=self._table,
        )

    def elsewhere(self, folder: str, *, state: State | None = None) -> int:
        """Return the number of sessions of repositories outside a folder.

        Args:
            folder: Absolute path of the folder.
            state: Count only sessions in this state.
        """
        where, values = _where(state)
        here, place = in_folder("repository", folder, with_unknown=True)
        rows = self._database.select(
            f"SELECT count(*) FROM {self._table} WHERE {where} AND NOT {here}", [*values, *place]
        )
        return int(rows[0][0])

    def ended_before(self, moment: float) -> list[Session]:
        """Return the sessions that have ended and last changed before a time.

        Args:
            moment: Seconds since the epoch.
        """
        marks = ", ".join("?" * len(OPEN))
        ended = self._sessions.select(
            f"WHERE state NOT IN ({marks}) AND created < ? ORDER BY created, id", (*OPEN, moment)
        )
        return [each for each in ended if each.changed_at < moment]

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
                    document(question),
                ),
            )
            found = self._questions.get(question.id, t)
            assert found is not None
            return found

        return self._database.write(work).result()

    def question(self, question: str) -> Question | None:
        """The question with that id."""
        return self._questions.get(question)

    def questions(self, session: str | None = None) -> list[Question]:
        """Those that wait for an answer, oldest first."""
        found = self._questions.select(
            "WHERE is_open = 1 AND until >= ? ORDER BY asked, id", (self._clock(),)
        )
        return [each for each in found if session is None or each.session == session]

    def answer(self, question: str, text: str, by: str) -> Question:
        """Answer one."""

        def work(t: Transaction) -> Question:
            # The row is locked by changing it: on Postgres a read would let two in.
            t.execute("UPDATE coding_questions SET is_open = is_open WHERE id = ?", (searchable(question),))
            done = answered(self._questions.get(question, t), question, text, by, self._clock())
            t.execute(
                "UPDATE coding_questions SET is_open = 0, data = ? WHERE id = ?",
                (document(done), searchable(question)),
            )
            return done

        return self._database.write(work).result()
