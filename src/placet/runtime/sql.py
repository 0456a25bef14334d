"""Trajectories and checkpoints in SQLite or Postgres.

Keep true:
1. Appending a trajectory never waits for the disk: it is called in the event loop.
2. A checkpoint is there whole or not at all, and a damaged one is refused.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from placet.errors import CheckpointError
from placet.ir.json_value import JsonValue
from placet.redaction import Redactor
from placet.runtime.checkpoint import FORMAT, Checkpoint
from placet.runtime.trajectory import Trajectory
from placet.storage.database import Database
from placet.storage.migrate import Migrations, migrate
from placet.storage.transaction import Rows, Value, searchable

MIGRATIONS = Migrations(
    "runtime",
    [
        [
            "CREATE TABLE trajectories (at_us BIGINT NOT NULL, writer TEXT NOT NULL, run_id TEXT NOT NULL,"
            " body TEXT NOT NULL, PRIMARY KEY (at_us, writer))",
            "CREATE INDEX trajectories_run ON trajectories (run_id, at_us)",
            "CREATE TABLE checkpoints (id TEXT NOT NULL PRIMARY KEY, created DOUBLE PRECISION NOT NULL,"
            " format BIGINT NOT NULL, sha256 TEXT NOT NULL, metadata TEXT NOT NULL, body TEXT NOT NULL)",
        ]
    ],
)


class SqlTrajectories:
    """Trajectories in a database, shared by all processes that use it."""

    def __init__(
        self,
        database: Database,
        redactor: Redactor | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create the tables if they are missing.

        Args:
            database: From `open_database`.
            redactor: Removes secrets before anything is stored. `None`: nothing is removed.
            clock: Returns seconds since the epoch.

        Raises:
            StorageError: the tables cannot be created.
        """
        self._database = database
        self._redactor = redactor
        self._clock = clock
        self._writer = secrets.token_hex(8)
        self._at_us = 0
        self._last: Future[Rows] | None = None
        self._failures: deque[BaseException] = deque()
        migrate(database, MIGRATIONS)

    def append(self, trajectory: Trajectory) -> None:
        """Hand one over; it is on disk a moment later, and after all that were handed over before.

        Raises:
            StorageError: an earlier one could not be written. This one has been handed over all the same.
        """
        run = searchable(trajectory.run_id)
        body = self._body(trajectory)
        # Strictly growing, so that the order is that of arrival even if the clock is set back.
        self._at_us = max(self._at_us + 1, int(self._clock() * 1_000_000))
        row: Sequence[Value] = (self._at_us, self._writer, run, body)
        self._last = self._database.write(
            lambda t: t.execute(
                "INSERT INTO trajectories (at_us, writer, run_id, body) VALUES (?, ?, ?, ?)", row
            ),
            durable=False,
        )
        self._last.add_done_callback(self._note)
        if self._failures:
            failure = self._failures.popleft()
            self._failures.clear()
            raise failure

    def _body(self, trajectory: Trajectory) -> str:
        if self._redactor is None:
            return msgspec.json.encode(trajectory).decode()
        return msgspec.json.encode(self._redactor.value(msgspec.to_builtins(trajectory))).decode()

    def _note(self, done: Future[Rows]) -> None:
        failure = done.exception()
        if failure is not None:
            self._failures.append(failure)

    def read(self, run: str | None = None, limit: int | None = None) -> list[Trajectory]:
        """Return trajectories, oldest first. Waits for those that were appended here; damaged ones are left
        out.

        Args:
            run: Only those of this run.
            limit: Only the newest ones, up to this number.

        Raises:
            StorageError: the database cannot be read.
        """
        if self._last is not None:
            wait([self._last])
        values: list[Value] = []
        sql = "SELECT body FROM trajectories"
        if run is not None:
            sql += " WHERE run_id = ?"
            values.append(searchable(run))
        sql += " ORDER BY at_us DESC, writer DESC"
        if limit is not None:
            sql += " LIMIT ?"
            values.append(limit)
        rows = self._database.select(sql, values)
        decode = msgspec.json.Decoder(Trajectory).decode
        found: list[Trajectory] = []
        for (body,) in reversed(rows):
            try:
                found.append(decode(body))
            except msgspec.DecodeError:
                continue
        return found


class KeptCheckpoint(NamedTuple):
    """A checkpoint in a list."""

    id: str
    """Id of the checkpoint."""
    created: datetime
    """When it was made, in UTC."""
    metadata: dict[str, JsonValue]
    """The JSON values that were stored with it."""


class SqlCheckpoints:
    """Checkpoints in a database, by id. Each call waits for the disk."""

    def __init__(self, database: Database) -> None:
        """Create the tables if they are missing.

        Args:
            database: From `open_database`.

        Raises:
            StorageError: the tables cannot be created.
        """
        self._database = database
        migrate(database, MIGRATIONS)

    def save(self, checkpoint: Checkpoint) -> str:
        """Store a checkpoint and return its id. An earlier one with the same id is replaced.

        Args:
            checkpoint: The checkpoint.

        Raises:
            StorageError: it cannot be written; an earlier one is unchanged.
        """
        body = msgspec.json.encode(checkpoint)
        row: Sequence[Value] = (
            searchable(checkpoint.id),
            checkpoint.created.timestamp(),
            FORMAT,
            hashlib.sha256(body).hexdigest(),
            msgspec.json.encode(checkpoint.metadata).decode(),
            body.decode(),
        )
        self._database.execute(
            "INSERT INTO checkpoints (id, created, format, sha256, metadata, body)"
            " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET created = excluded.created,"
            " format = excluded.format, sha256 = excluded.sha256, metadata = excluded.metadata,"
            " body = excluded.body",
            row,
        )
        return checkpoint.id

    def load(self, id: str) -> Checkpoint:
        """Return the checkpoint with an id.

        Args:
            id: Id of the checkpoint.

        Raises:
            CheckpointError: there is none, it is damaged, or has another format.
            StorageError: the database cannot be read.
        """
        name = f"Checkpoint '{id}' in {self._database.name}"
        rows = self._database.select(
            "SELECT format, sha256, body FROM checkpoints WHERE id = ?", (searchable(id),)
        )
        if not rows:
            raise CheckpointError(f"{name} does not exist. List those that do.")
        format, sha256, body = rows[0]
        if format != FORMAT:
            raise CheckpointError(
                f"{name} has format {format}, this version reads {FORMAT}. Use the version that wrote it."
            )
        if hashlib.sha256(body.encode()).hexdigest() != sha256:
            raise CheckpointError(f"{name} is damaged: its digest does not fit. Use an older one.")
        try:
            return msgspec.json.decode(body, type=Checkpoint)
        except (msgspec.DecodeError, RecursionError) as error:
            raise CheckpointError(f"{name} is damaged: {error}. Use an older one.") from None

    def list(self) -> list[KeptCheckpoint]:
        """Return all checkpoints, oldest first.

        Raises:
            CheckpointError: an entry is damaged; names it.
            StorageError: the database cannot be read.
        """
        rows = self._database.select("SELECT id, created, metadata FROM checkpoints ORDER BY created, id")
        return [self._entry(*row) for row in rows]

    def _entry(self, id: str, created: float, metadata: str) -> KeptCheckpoint:
        try:
            known = msgspec.json.decode(metadata, type=dict[str, JsonValue])
        except msgspec.DecodeError as error:
            raise CheckpointError(
                f"Checkpoint '{id}' in {self._database.name} is damaged: {error}. Delete it."
            ) from None
        return KeptCheckpoint(id, datetime.fromtimestamp(created, UTC), known)

    def delete(self, id: str) -> bool:
        """Delete a checkpoint and return whether there was one.

        Args:
            id: Id of the checkpoint.

        Raises:
            StorageError: the database cannot be written.
        """
        work = "DELETE FROM checkpoints WHERE id = ? RETURNING id"
        return bool(self._database.execute(work, (searchable(id),)))
