"""Events in SQLite or Postgres: one log for all processes, chained, queried where it lies.

Keep true:
1. Positions count from 1 without a gap, over all processes, in the order in which events were committed.
2. `write` only hands over; encoding is its part, so that what is stored is what was when it was called.
3. A commit reads and moves the head once, however many batches it holds.
4. A head row that is gone is never made anew: that would hide that somebody took it away.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec.structs import astuple, replace

from placet.errors import StorageDamaged, StorageUnavailable
from placet.events.anchor import Anchor
from placet.events.breaks import Finding
from placet.events.chain import (
    Anchored,
    ChainReport,
    Head,
    Row,
    Segment,
    Stored,
    digest_of,
    genesis,
    is_log_id,
    seal,
    verify_chain,
)
from placet.events.costs import By, Costs, Places, add_up
from placet.events.event import Event
from placet.events.rows import PAGE, Encoded, Filter, encode_event, read_event
from placet.events.totals import COUNTED, cost_by_agent
from placet.storage.database import Database
from placet.storage.migrate import ByDialect, Migrations, migrate
from placet.storage.transaction import Transaction

_COLUMNS = ("position", *Row._fields, "prev", "digest")
_ALL = ", ".join(_COLUMNS)
_AT_ONCE = 500
"""Ids in one statement."""
_SEGMENT = "first_position, last_position, records, digest, first_time, last_time, closed_at, seal"


def migrations() -> Migrations:
    """The tables of a log, which gets an id of its own."""
    # The head is made with the tables, and never again. No ordinary index on the trace: each run has its own
    # trace, so it would cost as much again as the one on the run, which is a third of what a commit costs.
    # Events of a trace lie close together, so on Postgres a filter for every few pages finds them.
    log_id = secrets.token_hex(16)
    return Migrations(
        "events",
        [
            [
                "CREATE TABLE events (position BIGINT NOT NULL PRIMARY KEY, kind TEXT NOT NULL,"
                " time DOUBLE PRECISION NOT NULL, run_id TEXT, proposal_id TEXT, action_id TEXT,"
                " trace_id TEXT, span_id TEXT, tenant TEXT, tool TEXT, data TEXT NOT NULL,"
                " prev TEXT NOT NULL, digest TEXT NOT NULL)",
                "CREATE INDEX events_run ON events (run_id, position)",
                "CREATE INDEX events_kind ON events (kind, position)",
                "CREATE INDEX events_time ON events (time, position)",
                "CREATE TABLE events_head (one BIGINT NOT NULL PRIMARY KEY, position BIGINT NOT NULL,"
                " digest TEXT NOT NULL, log_id TEXT NOT NULL, anchored BIGINT NOT NULL)",
                "INSERT INTO events_head (one, position, digest, log_id, anchored)"
                f" VALUES (1, 0, '{genesis(log_id)}', '{log_id}', 0)",
                "CREATE TABLE events_segments (first_position BIGINT NOT NULL PRIMARY KEY,"
                " last_position BIGINT NOT NULL, records BIGINT NOT NULL, digest TEXT NOT NULL,"
                " first_time DOUBLE PRECISION NOT NULL, last_time DOUBLE PRECISION NOT NULL,"
                " closed_at DOUBLE PRECISION NOT NULL, seal TEXT NOT NULL)",
            ],
            [
                ByDialect(
                    sqlite="SELECT 1",
                    postgres="CREATE INDEX events_trace ON events USING brin (trace_id text_bloom_ops"
                    "(n_distinct_per_range = 64)) WITH (pages_per_range = 16, autosummarize = on)",
                )
            ],
        ],
        readable_from=1,
    )


class SqlEvents:
    """Events in a database: a sink, and a store of everything written to the same database. Safe to use from
    any thread.
    """

    def __init__(self, database: Database, *, durable: bool = False, anchor: Anchor | None = None) -> None:
        """Create the tables if they are missing.

        Args:
            database: From `open_database`.
            durable: A batch that is acknowledged survives a power failure, not only the end of the process.
            anchor: Folder in which the newest digest is stored after each commit, so that a truncated log is
                noticed.

        Raises:
            StorageError: the tables cannot be created.
        """
        self._database = database
        self._durable = durable
        self._anchor = anchor
        self._anchor_error: Exception | None = None
        self._seen: tuple[int, str] | None = None
        """The newest record that we anchored."""
        self._wrote: tuple[str, int, str] | None = None
        """The log's id, and the position and the digest of the newest record that we wrote."""
        self._names = _names(database.name)
        migrate(database, migrations())

    # Writing

    def write(self, events: Sequence[Event]) -> Future[Any]:
        """Hand over a batch; the future ends when it is on disk.

        Its value is an exception if the batch is on disk but its head could not be anchored.
        """
        rows = [encode_event(event) for event in events]
        written = self._database.write(partial(self._add, rows), durable=self._durable)
        if self._anchor is None:
            return written
        with_anchor: Future[Any] = Future()
        with_anchor.set_running_or_notify_cancel()
        written.add_done_callback(partial(self._pass_on, with_anchor))
        return with_anchor

    def _pass_on(self, to: Future[Any], written: Future[None]) -> None:
        error = written.exception()
        if error is not None:
            to.set_exception(error)
        else:
            to.set_result(self._anchor_error)

    def _add(self, rows: Sequence[Encoded], t: Transaction) -> None:
        batch: list[Encoded] | None = t.shared.get(self)
        if batch is None:
            batch = t.shared[self] = []
            t.before_commit(partial(self._append, t, batch))
        batch += rows

    def _append(self, t: Transaction, batch: Sequence[Encoded]) -> None:
        head = self._locked_head(t)
        may_advance = self._anchor is not None and self._still_holds(self._anchor, head, t)
        may_advance = may_advance and self._count(head)
        position, digest = head.position, head.digest
        stored: list[tuple[Any, ...]] = []
        for row, columns, data in batch:
            prev, digest = digest, digest_of(digest, columns, data)
            position += 1
            stored.append((position, *row, prev, digest))
        t.insert("events", _COLUMNS, stored)
        may_advance = may_advance and self._announce(head, position, digest)
        # Before the first head is kept outside, so that a head that is missing later is missed.
        anchored = head.anchored or may_advance
        t.execute(
            "UPDATE events_head SET position = ?, digest = ?, anchored = ?", (position, digest, int(anchored))
        )
        t.after_commit(partial(self._committed, head.log_id, position, digest, may_advance))

    def _locked_head(self, t: Transaction) -> Head:
        head = _head(t, lock=t.dialect == "postgres")
        if head is None:
            raise StorageDamaged(
                self._database.name,
                "has lost the head of its event log, so nothing can be appended to it",
                "Somebody has changed it: look with `placet log verify`, then use another database.",
            )
        return head

    def _still_holds(self, anchor: Anchor, head: Head, t: Transaction) -> bool:
        """Whether the log still holds the record that is anchored. If not, the anchor stays put: moved
        on, it would vouch for what somebody put in its place."""
        seen = self._seen
        if seen is None or self._wrote is None or self._wrote[0] != head.log_id:
            outside = anchor.read(head.log_id, self._names)
            if not outside.is_named:
                # A path that is new here, or a log that is: searched once, not with each commit.
                outside = anchor.read(head.log_id, self._names, search=True)
            if outside.database_log not in (None, head.log_id):
                self._anchor_error = StorageDamaged(
                    self._database.name,
                    "holds another log than the one that its anchor knows, so the anchor stays",
                    "If you replaced the database, accept it with `placet log accept`.",
                )
                return False
            if outside.missing is not None or (outside.position is None and head.anchored):
                self._anchor_error = self._lost(outside)
                return False
            if outside.position is None:
                self._share_if_late(anchor, head)
                return True
            seen = outside.position, outside.digest
        position, digest = seen
        found: list[tuple[Any, ...]] = [(head.digest,)] if position == head.position else []
        if position < head.position:
            found = t.execute("SELECT digest FROM events WHERE position = ?", (position,)) or t.execute(
                # Dropped on purpose, as far as the segment says; `verify` checks that.
                "SELECT ? FROM events_segments WHERE last_position >= ?",
                (digest, position),
            )
        if found and found[0][0] == digest:
            return True
        self._anchor_error = StorageDamaged(
            self._database.name,
            f"no longer holds the record that was anchored at position {position}, so the anchor stays",
            "Somebody has changed it: look with `placet log verify`.",
        )
        return False

    def _lost(self, outside: Anchored) -> StorageDamaged:
        file = outside.missing or outside.place
        return StorageDamaged(
            self._database.name,
            f"was anchored, and its anchor is not there ({file}), so none is made anew",
            "Bring it back, or accept the log as it is with `placet log accept`.",
        )

    def _share_if_late(self, anchor: Anchor, head: Head) -> None:
        """Whoever wrote to this log before it was anchored will go on to: what they append is no finding."""
        if head.position and self._wrote != (head.log_id, head.position, head.digest):
            with suppress(OSError, ValueError):  # What cannot be written is told when the head is kept.
                anchor.share(head.log_id)

    def _count(self, head: Head) -> bool:
        """Note records that neither we nor another writer with this anchor has written. They are chained like
        all others, so that nothing else would tell. False if nobody can know, because a part of the anchor
        is lost."""
        assert self._anchor is not None
        if self._wrote == (head.log_id, head.position, head.digest):
            return True
        outside = self._anchor.read(head.log_id, self._names)
        if outside.missing is not None:
            self._anchor_error = self._lost(outside)
            # Read again with the next commit: what we write now must not vouch for what others wrote.
            self._seen = None
            return False
        reached = outside.reached
        if reached is None or outside.is_shared:
            return True
        here = head.position, head.digest
        if here in (outside.announced, (outside.position, outside.digest)):
            # Made certain before something else is announced in its place.
            self._keep_outside(head.log_id, *here)
            return True
        own = max(outside.position or 0, self._wrote[1] if self._wrote is not None else 0)
        if head.position > own:
            self._note_foreign(head.log_id, own + 1, head.position)
        return True

    def _note_foreign(self, log_id: str, first: int, last: int) -> None:
        assert self._anchor is not None
        with suppress(OSError, ValueError):
            self._anchor.note_foreign(log_id, first, last)
        self._anchor_error = StorageDamaged(
            self._database.name,
            f"holds records {first} to {last}, which were written by somebody who does not keep its anchor",
            "Look with `placet log verify`; accept them with `placet log accept` if they are yours.",
        )

    def _announce(self, head: Head, position: int, digest: str) -> bool:
        assert self._anchor is not None
        try:
            self._anchor.announce(head.log_id, position, digest)
            if not head.anchored and not self._keep_outside(head.log_id, head.position, head.digest):
                return False
            # Last, when every other file is there: one that is missing is an alarm from now on.
            self._anchor.know(self._names, head.log_id)
        except (OSError, ValueError) as error:
            self._anchor_error = self._unkept(error)
            return False
        return True

    def _committed(self, log_id: str, position: int, digest: str, may_advance: bool) -> None:
        self._wrote = log_id, position, digest
        if may_advance and self._keep_outside(log_id, position, digest):
            self._seen = position, digest

    def _keep_outside(self, log_id: str, position: int, digest: str) -> bool:
        if self._anchor is None:
            return False
        try:
            self._anchor.advance(log_id, position, digest)
        except (OSError, ValueError) as error:
            self._anchor_error = self._unkept(error)
            return False
        if not isinstance(self._anchor_error, StorageDamaged):
            self._anchor_error = None
        return True

    def _unkept(self, error: Exception) -> StorageUnavailable:
        assert self._anchor is not None
        words = getattr(error, "strerror", None) or error
        return StorageUnavailable(
            str(self._anchor.folder),
            f"cannot keep the head of the event log: {words}",
            "The events themselves are kept. Make the folder writable, or name another anchor.",
        )

    def accept(self, *, shared: bool = False) -> int:
        """Anchor the log as it is now, whatever the anchor knew of it or its database. A person decides that.

        Breaks of the chain itself stay what they are. Waits for the disk.

        Args:
            shared: Others write to this log as well, with anchors of their own or none: from now on what they
                append is no finding.

        Returns:
            The position that is anchored.

        Raises:
            StorageError: the database or the anchor cannot be written, or there is no anchor.
        """
        anchor = self._anchor
        if anchor is None:
            raise StorageUnavailable(self._database.name, "has no anchor here", "Name the folder of one.")
        head = self._database.write(self._mark_anchored).result()
        try:
            anchor.accept(self._names, head.log_id, head.position, head.digest, shared=shared)
        except (OSError, ValueError) as error:
            raise self._unkept(error) from error
        self._seen, self._wrote, self._anchor_error = None, None, None
        return head.position

    def _mark_anchored(self, t: Transaction) -> Head:
        head = self._locked_head(t)
        if not is_log_id(head.log_id):
            raise StorageDamaged(
                self._database.name,
                "has an event log with an id that no log can have, so it cannot be anchored",
                "Somebody has changed it: restore a backup, or use another database.",
            )
        t.execute("UPDATE events_head SET anchored = 1")
        return head

    def prune(self, before: float) -> Segment | None:
        """Delete the oldest events: all before the first that is not older than a time, but never the newest
        event.

        The deleted events become a closed segment, so that the chain of digests stays valid. Verify first:
        traces of tampering are deleted, too. Waits for the disk.

        Args:
            before: Seconds since the epoch.

        Returns:
            The closed segment; `None` if there was nothing to delete.

        Raises:
            StorageError: the database or the anchor cannot be written; nothing was deleted.
        """
        return self._database.write(partial(self._close_segment, before)).result()

    def _close_segment(self, before: float, t: Transaction) -> Segment | None:
        head = self._locked_head(t)
        outside = (
            self._anchor.read(head.log_id, self._names, search=True) if self._anchor is not None else None
        )
        is_lost = outside is None or outside.position is None
        if (head.anchored and is_lost) or (outside is not None and outside.missing is not None):
            raise StorageUnavailable(
                self._database.name,
                "has the head of its log anchored elsewhere, so nothing can be dropped from here",
                "Prune it where that anchor is; else what is dropped on purpose would look like a removal.",
            )
        found = t.execute(
            "SELECT position FROM events WHERE time + 0 >= ? ORDER BY position LIMIT 1", (float(before),)
        )
        end = min(found[0][0] if found else head.position, head.position) - 1
        extent = t.execute(
            "SELECT min(position), max(position), count(*), min(time), max(time) FROM events"
            " WHERE position <= ?",
            (end,),
        )
        first, last, count, first_time, last_time = extent[0]
        if not count:
            return None
        digest = t.execute("SELECT digest FROM events WHERE position = ?", (last,))[0][0]
        segment = Segment(
            first=first,
            last=last,
            count=count,
            digest=digest,
            first_time=first_time,
            last_time=last_time,
            closed_at=t.now(),
        )
        segment = replace(segment, seal=seal(head.log_id, segment))
        t.insert("events_segments", _SEGMENT.split(", "), [astuple(segment)])
        t.execute("DELETE FROM events WHERE position <= ?", (end,))
        if self._anchor is not None:
            try:
                self._anchor.close_segment(head.log_id, segment)
            except (OSError, ValueError) as error:
                raise StorageUnavailable(
                    str(self._anchor.folder),
                    f"cannot keep the closing of a segment ({error}), so nothing was dropped",
                    "Make the folder writable, or name another anchor.",
                ) from error
        return segment

    # Asking

    def query(
        self,
        *,
        kind: str | Iterable[str] | None = None,
        run: str | None = None,
        trace: str | None = None,
        proposal: str | None = None,
        action: str | None = None,
        tool: str | None = None,
        tenant: str | None = None,
        since: float | None = None,
        until: float | None = None,
        after: int | None = None,
        before: int | None = None,
        limit: int | None = None,
        newest: bool = False,
    ) -> list[Event]:
        """Stored events that match everything given, oldest first, or with `newest` newest first. `since` and
        `until` are seconds since the epoch, both included; `after` and `before` are positions, neither
        included."""
        wanted = Filter.of(kind, run, trace, proposal, action, tool, tenant, since, until)
        return list(self._pages(wanted, after, before, limit, newest))

    def scan(
        self,
        *,
        kind: str | Iterable[str] | None = None,
        run: str | None = None,
        trace: str | None = None,
        proposal: str | None = None,
        action: str | None = None,
        tool: str | None = None,
        tenant: str | None = None,
        since: float | None = None,
        until: float | None = None,
        after: int | None = None,
    ) -> Iterator[Event]:
        """Yield the events of `EventStore.query`, oldest first, with only some of them in memory at a time.

        Takes the arguments of `EventStore.query`.
        """
        wanted = Filter.of(kind, run, trace, proposal, action, tool, tenant, since, until)
        return self._pages(wanted, after, None, None, False)

    def _pages(
        self, wanted: Filter, after: int | None, before: int | None, limit: int | None, newest: bool
    ) -> Iterator[Event]:
        low, high = self._database.read(wanted.bounds)
        if after is not None:
            low = max(low, after + 1)
        if before is not None:
            high = min(high, before - 1)
        left = limit
        while low <= high and (left is None or left > 0):
            size = PAGE if left is None else min(PAGE, left)
            rows = self._database.read(partial(wanted.page, low, high, size, newest))
            for row in rows:
                yield read_event(row)
            if len(rows) < size:
                return
            if newest:
                high = rows[-1][0] - 1
            else:
                low = rows[-1][0] + 1
            left = None if left is None else left - len(rows)

    def counts(self) -> dict[str, int]:
        """How many stored events there are of each kind."""
        return dict(self._database.select("SELECT kind, count(*) FROM events GROUP BY kind"))

    def cost_by_agent(self) -> dict[str, dict[str, float]]:
        """What the runs of each source came to, over the stored events; see `EventLog.cost_by_agent`."""
        return cost_by_agent(self.scan(kind=COUNTED))

    def costs(
        self,
        *,
        by: By,
        since: float | None = None,
        until: float | None = None,
        places: Places | None = None,
    ) -> Costs:
        """Add up what runs cost, over the stored events: by day, model, agent, folder or run.

        Args:
            by: What to group by.
            since: Only events then or later, in seconds since the epoch.
            until: Only events then or earlier, in seconds since the epoch.
            places: Function that finds the folder and the parent of runs, such as `SqlJournal.places`.
        """
        runs = self._database.read(partial(_runs_between, since, until))
        before = self._database.read(partial(_begun_before, runs, since)) if since is not None else []
        # Of a run that began before the range, all that says what it had come to by then.
        earlier = (
            event
            for run in before
            for event in self.scan(run=run, kind=COUNTED)
            if since is not None and event.time < since
        )
        counted = chain(earlier, self.scan(kind=COUNTED, since=since, until=until))
        found = places(runs) if places is not None else None
        return add_up(counted, by=by, since=since, until=until, places=found)

    def last_position(self) -> int:
        """Return the position of the newest event; 0 if there never was one."""
        rows = self._database.select("SELECT position FROM events_head")
        return int(rows[0][0]) if rows else 0

    def segments(self) -> list[Segment]:
        """Return the closed segments, oldest first."""
        return self._database.read(_segments)

    # Checking

    def verify(self, *, anchor: Anchor | None = None) -> ChainReport:
        """Check the chain of digests of the whole log. Others may continue writing.

        Args:
            anchor: Anchor to compare with. `None`: the one that is written to.
        """
        anchor = anchor if anchor is not None else self._anchor
        gone = self._database.read(_missing_tables)
        if gone:
            return _report_removed(f"the tables of the log are gone: {', '.join(gone)}")
        while True:
            # The anchor first: both move forwards, and read in this order it cannot be ahead.
            known = self._database.read(_head)
            at = known.log_id if known is not None else ""
            # Whatever id the log has, or none: the anchor may know the database by another.
            outside = anchor.read(at, self._names, search=True) if anchor is not None else None
            head, segments, top = self._database.read(_outline)
            # And again after it: what was committed before that was announced before that.
            later = anchor.read(at, self._names, search=True) if anchor is not None else None
            report = verify_chain(
                self._stored(top), head=head, segments=segments, anchor=outside, later=later
            )
            if report.valid or self.segments() == segments:
                return report
            # What was missed has been dropped on purpose meanwhile.

    def _stored(self, top: int | None) -> Iterator[Stored]:
        if top is None:
            return
        after: int | None = None
        while True:
            rows = self._database.read(partial(_records, after, top))
            for row in rows:
                yield row[0], Row(*row[1:-2]), row[-2], row[-1]
            if len(rows) < PAGE:
                return
            after = rows[-1][0]


def report_missing(name: str, anchor: Anchor) -> ChainReport | None:
    """Report on a database that holds no log, or is not there: an alarm if the anchor knows a log in it.

    Args:
        name: `Database.name`, or `StorageError.name` of one that cannot be opened.
        anchor: Anchor to compare with.

    Returns:
        The report; `None` if the anchor does not know the database.
    """
    for known in anchor.names_of(_names(name)):
        log_id = anchor.log_of(known)
        if log_id is not None:
            return _report_removed(
                f"the anchor ({anchor.folder}) knows the log {log_id} in this database ({known}), and there "
                "is no log in it now: it was removed as a whole. If you removed it yourself, accept the log "
                "that the next run begins with `placet log accept`"
            )
    return None


def _report_removed(message: str) -> ChainReport:
    return ChainReport(
        valid=False,
        checked=0,
        first=None,
        last=None,
        dropped=0,
        anchored=False,
        findings=[Finding("removed", None, message)],
    )


def _names(name: str) -> list[str]:
    """Names by which an anchor knows a database, whoever opens it and however the path is spelled.

    A file has two: where it is, and the path as given. A link that is put in its place changes the one, a
    link that leads elsewhere than before changes the other.
    """
    if "://" not in name:
        return list(dict.fromkeys((os.path.realpath(name), _as_given(name))))
    # Not by urlsplit: the password of the name is masked by brackets, which it takes for an address.
    place, _, query = name.partition("://")[2].partition("?")
    host, slash, path = place.rpartition("@")[2].partition("/")
    host = host.lower()
    return [f"postgres://{host if ':' in host else f'{host}:5432'}{slash}{path}?{query}"]


def _as_given(name: str) -> str:
    """The absolute path with its links. Up to the last `..` it is resolved: behind a link, that is not the
    folder that the text before it names."""
    parts = Path(name).absolute().parts
    resolved = max((at for at, part in enumerate(parts, start=1) if part == ".."), default=0)
    return os.path.join(
        os.path.realpath(os.path.join(*parts[:resolved])) if resolved else "", *parts[resolved:]
    )


def _missing_tables(t: Transaction) -> list[str]:
    return [table for table in ("events", "events_head", "events_segments") if not t.has_table(table)]


def _head(t: Transaction, *, lock: bool = False) -> Head | None:
    rows = t.execute(
        f"SELECT position, digest, log_id, anchored FROM events_head{' FOR UPDATE' if lock else ''}"
    )
    if len(rows) != 1 or type(rows[0][0]) is not int or not all(type(value) is str for value in rows[0][1:3]):
        return None
    position, digest, log_id, anchored = rows[0]
    return Head(position, digest, log_id, bool(anchored))


def _runs_between(since: float | None, until: float | None, t: Transaction) -> list[str]:
    """The runs of which something is recorded in a time range."""
    wanted = Filter.of(None, None, None, None, None, None, None, since, until)
    where = f" AND {wanted.span}" if wanted.span else ""
    found = t.execute(
        f"SELECT DISTINCT run_id FROM events WHERE run_id IS NOT NULL{where}", wanted.span_values
    )
    return [row[0] for row in found]


def _begun_before(runs: Sequence[str], since: float, t: Transaction) -> list[str]:
    """Those of them of which something was recorded before a moment."""
    found: list[str] = []
    for first in range(0, len(runs), _AT_ONCE):
        some = runs[first : first + _AT_ONCE]
        marks = ", ".join("?" * len(some))
        # Added to, so that the index on the run is used: before the moment there may be a million others.
        found += [
            row[0]
            for row in t.execute(
                f"SELECT DISTINCT run_id FROM events WHERE run_id IN ({marks}) AND time + 0 < ?",
                [*some, float(since)],
            )
        ]
    return found


def _segments(t: Transaction) -> list[Segment]:
    found = t.execute(f"SELECT {_SEGMENT} FROM events_segments ORDER BY first_position")
    return [_segment(row) for row in found]


def _segment(row: tuple[Any, ...]) -> Segment:
    # SQLite may hold anything there. What is no number fails the seal; it must not fail the check itself.
    first, last, count = (value if type(value) is int else 0 for value in row[:3])
    digest, first_time, last_time, closed_at, seal = row[3:]
    return Segment(
        first=first,
        last=last,
        count=count,
        digest=digest,
        first_time=first_time,
        last_time=last_time,
        closed_at=closed_at,
        seal=seal,
    )


def _outline(t: Transaction) -> tuple[Head | None, list[Segment], int | None]:
    top = t.execute("SELECT position FROM events ORDER BY position DESC LIMIT 1")
    return _head(t), _segments(t), top[0][0] if top else None


def _records(after: int | None, top: int, t: Transaction) -> list[tuple[Any, ...]]:
    # Not from 1 on: a record may have been given a position below.
    condition, values = ("position > ? AND ", (after,)) if after is not None else ("", ())
    return t.execute(
        f"SELECT {_ALL} FROM events WHERE {condition}position <= ? ORDER BY position LIMIT {PAGE}",
        (*values, top),
    )
