"""Runs and their notes in a database.

Keep true:
1. A run has one holder. Its number goes up with each new one, and a note is kept only under the number of
   whoever holds the run at that moment.
2. What a run was asked to do, its notes and its result are private to this store: they hold values as they
   are, secrets included, and are never logged or shown as they are.
3. On disk is always a beginning of what was noted: no note overtakes one that could not be kept.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from placet.errors import RunExists, RunHeld, StorageDamaged, StorageError, UnknownRun, UsageError
from placet.events.costs import RunPlace
from placet.ir.json_value import JsonValue
from placet.ir.references import literal
from placet.ir.result import Outcome, ProposalResult, is_nonzero
from placet.ir.to_dict import ToDict
from placet.redaction import Redactor
from placet.runtime.journal import LEASE_LOST, Note, RunRecord, Taken
from placet.storage.database import Database
from placet.storage.folders import in_folder
from placet.storage.lease import (
    LEASE_S,
    Lease,
    LeaseTable,
    Renewals,
    StopRequest,
    holder,
    lease_values,
    read_lease,
)
from placet.storage.migrate import ByDialect, Migrations, migrate
from placet.storage.transaction import Rows, Transaction, Value, searchable
from placet.truncation import truncate_repr

T = TypeVar("T")

MIGRATIONS = Migrations(
    "runs",
    [
        [
            """CREATE TABLE runs (
                run_id TEXT PRIMARY KEY,
                proposal_id TEXT NOT NULL,
                source TEXT NOT NULL,
                tenant TEXT,
                actions BIGINT NOT NULL,
                status TEXT NOT NULL,
                begun DOUBLE PRECISION NOT NULL,
                ended DOUBLE PRECISION,
                hold BIGINT NOT NULL,
                holder TEXT,
                held_until DOUBLE PRECISION NOT NULL,
                context TEXT NOT NULL,
                record TEXT NOT NULL,
                result TEXT,
                shown TEXT
            )""",
            "CREATE INDEX runs_by_time ON runs (begun)",
            """CREATE TABLE journal (
                run_id TEXT NOT NULL,
                number BIGINT NOT NULL,
                note TEXT NOT NULL,
                PRIMARY KEY (run_id, number)
            )""",
        ],
        [
            "ALTER TABLE runs ADD COLUMN parent TEXT",
            "ALTER TABLE runs ADD COLUMN folder TEXT",
            ByDialect(
                sqlite="UPDATE runs SET folder = json_extract(context, '$.folder') WHERE json_valid(context)",
                # Not as JSON: one row that is none would keep all of them from being moved.
                postgres="""UPDATE runs SET folder = substring(context from '"folder":"([^"]*)"')""",
            ),
            # A sub-run was named after the run that started it, and only runs of turns start any.
            ByDialect(
                sqlite="UPDATE runs SET parent = substr(run_id, 1, instr(run_id, '.') - 1)"
                " WHERE actions = 0 AND instr(run_id, '.') > 1 AND EXISTS (SELECT 1 FROM runs AS other"
                " WHERE other.run_id = substr(runs.run_id, 1, instr(runs.run_id, '.') - 1))",
                postgres="UPDATE runs SET parent = substr(run_id, 1, strpos(run_id, '.') - 1)"
                " WHERE actions = 0 AND strpos(run_id, '.') > 1 AND EXISTS (SELECT 1 FROM runs AS other"
                " WHERE other.run_id = substr(runs.run_id, 1, strpos(runs.run_id, '.') - 1))",
            ),
            "DROP INDEX runs_by_time",
            # Whole runs are long, so a list is made from what stands in an index.
            "CREATE INDEX runs_listed ON runs (begun, run_id, parent, folder)",
            "CREATE INDEX runs_by_parent ON runs (parent, begun, run_id) WHERE parent IS NOT NULL",
        ],
        ["ALTER TABLE runs ADD COLUMN nonzero BIGINT NOT NULL DEFAULT 0"],
        ["ALTER TABLE runs ADD COLUMN stop TEXT"],
        [
            "CREATE INDEX runs_by_status ON runs (status, begun, run_id)",
            "CREATE INDEX runs_by_tenant ON runs (tenant, begun, run_id) WHERE tenant IS NOT NULL",
        ],
    ],
    readable_from=1,
)

_LEASES = LeaseTable("runs", "run_id")

FORGOTTEN = "[forgotten]"
"""Stands where a text was that was forgotten."""
RESUMABLE: tuple[str, ...] = ("running", "waiting", "canceled")
_LISTED = (
    "run_id, proposal_id, source, tenant, actions, status, begun, ended, holder, held_until, context,"
    " parent, folder, nonzero"
)
_TABLES = {
    1: "(SELECT old.*, NULL AS parent, NULL AS folder, 0 AS nonzero FROM runs AS old) AS runs",
    2: "(SELECT old.*, 0 AS nonzero FROM runs AS old) AS runs",
}
"""Older tables, as if they were those of today."""
_AT_ONCE = 500
"""Ids in one statement."""

_encode = msgspec.json.Encoder().encode
_decode_note = msgspec.json.Decoder(Note).decode
_decode_record = msgspec.json.Decoder(RunRecord).decode
_decode_result = msgspec.json.Decoder(ProposalResult).decode


class RunSummary(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """A run in a list."""

    run_id: str
    """Id of the run."""
    proposal_id: str
    """Id of the proposal."""
    source: str
    """Who proposed it."""
    tenant: str | None
    """Tenant of the run."""
    actions: int
    """Number of actions."""
    status: Outcome | str
    """The outcome; `running` while a process works on it; `interrupted` if none does."""
    begun: float
    """When it began, in seconds since the epoch."""
    ended: float | None
    """When it ended, in seconds since the epoch."""
    holder: str | None
    """The process that works on it."""
    context: dict[str, JsonValue] = {}
    """The values that the journal stores with every run."""
    parent: str | None = None
    """The run that started it; it may have been pruned."""
    folder: str | None = None
    """Where it was started; None if a program did."""
    nonzero: int = 0
    """Number of actions that succeeded and whose command ended with a nonzero exit code."""


class RunListing(NamedTuple):
    """Runs in the order of a list."""

    runs: list[RunSummary]
    """Newest first, each followed by the runs that it started, oldest first."""
    elsewhere: int = 0
    """How many more there are in other folders, those that others started not counted."""


class SqlJournal:
    """Records runs in a database, and lists them."""

    def __init__(
        self,
        database: Database,
        *,
        context: Mapping[str, JsonValue] | None = None,
        redactor: Redactor | None = None,
        lease_s: float = LEASE_S,
    ) -> None:
        """Create the tables if they are missing.

        Args:
            database: From `open_database`.
            context: Values to store with every run that begins here, such as what is needed to set up its
                runtime again.
            redactor: Removes secrets from the list of runs.
            lease_s: How long others wait, in seconds, before they take over a run whose process does not
                respond.

        Raises:
            StorageError: the tables cannot be created.
        """
        version = migrate(database, MIGRATIONS)
        self._table = _TABLES.get(version, "runs")
        self._has_parents = version > 1
        self.database = database
        """The database."""
        self._context = dict(context or {})
        self._redactor = redactor if redactor is not None else Redactor()
        self._lease_s = lease_s
        self._renewals = Renewals(lease_s)

    def forget_bodies(self, bodies: Sequence[str], *, tenant: str | None) -> int:
        """Replace bodies of facts in the stored proposals and results of a tenant's runs that have ended for
        good. Return how many runs held one.

        Only a parameter or field named `body` that equals one is replaced, not a text that contains it.

        Args:
            bodies: The bodies of facts that were forgotten.
            tenant: The tenant of the facts.
        """
        spellings = {f'"body":{_encode(form).decode()}' for text in bodies for form in (text, literal(text))}
        gone = f'"body":{_encode(FORGOTTEN).decode()}'
        whose = self._listed(tenant)

        def work(t: Transaction) -> int:
            if t.dialect == "sqlite":
                t.execute("PRAGMA secure_delete = ON")
            changed: set[str] = set()
            for found in sorted(spellings):
                for column in ("record", "result", "shown"):
                    rows = t.execute(
                        f"UPDATE runs SET {column} = replace({column}, ?, ?)"
                        " WHERE status NOT IN ('running', 'waiting', 'canceled')"
                        f" AND COALESCE(tenant, '') = ? AND replace({column}, ?, ?) <> {column}"
                        " RETURNING run_id",
                        (found, gone, whose or "", found, gone),
                    )
                    changed |= {str(row[0]) for row in rows}
            return len(changed)

        count = self.database.write(work).result()
        if count:
            self.database.checkpoint()
        return count

    async def begin(self, record: RunRecord) -> _SqlRun:
        """Keep a new run, and hold it."""
        _check_id(record.run_id)
        me = holder(secrets.token_hex(4))
        proposal = record.proposal
        row: list[Value] = [
            record.run_id,
            self._listed(proposal.id),
            self._listed(proposal.source),
            self._listed(record.scope.tenant if record.scope is not None else None),
            len(proposal.actions),
            "running",
            _encode(self._context).decode(),
            _encode(record).decode(),
            searchable(record.parent) if record.parent != record.run_id else None,
            searchable(folder) if isinstance(folder := self._context.get("folder"), str) else None,
        ]

        def work(t: Transaction) -> _SqlRun:
            now = t.now()
            kept = t.execute(
                "INSERT INTO runs (run_id, proposal_id, source, tenant, actions, status, context,"
                " record, parent, folder, begun, hold, holder, held_until, stop)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (run_id) DO NOTHING RETURNING run_id",
                [*row, now, *lease_values(lease := Lease().claimed(me, now, self._lease_s))],
            )
            if not kept:
                raise RunExists(
                    f"There is a run '{record.run_id}' already. Go on with it "
                    f"(placet resume {record.run_id}), or choose another id."
                )
            return _SqlRun(self.database, record.run_id, lease.fence, 0, self._lease_s)

        run = await _or_let_go(self.database.write(work))
        self._renewals.add(run)
        return run

    async def take(self, run_id: str) -> Taken | ProposalResult:
        """Hold a run that was broken off; or how it ended, if it has."""
        me = holder(secrets.token_hex(4))

        def work(t: Transaction) -> Taken | str:
            lease = _LEASES.lock(t, run_id)
            if lease is None:
                raise self._unknown(run_id)
            found = t.execute("SELECT status, record, result FROM runs WHERE run_id = ?", (run_id,))
            status, record, result = found[0]
            if status not in RESUMABLE:
                assert isinstance(result, str)
                return result
            now = t.now()
            if lease.is_held(now):
                assert lease.holder is not None
                raise RunHeld(
                    f"Run '{run_id}' is being worked on by {lease.holder.words}. Wait until it has ended; if "
                    f"that process is gone, its hold ends in {lease.until - now:.0f} s."
                )
            lease = lease.claimed(me, now, self._lease_s)
            notes = t.execute("SELECT number, note FROM journal WHERE run_id = ? ORDER BY number", (run_id,))
            # Read before anything is changed: what cannot be read is left as it is.
            taken = Taken(
                record=self._read(_decode_record, record),
                notes=[self._read(_decode_note, note) for _, note in notes],
                journal=_SqlRun(
                    self.database, run_id, lease.fence, notes[-1][0] if notes else 0, self._lease_s
                ),
                waited=self._read(_decode_result, result) if status == "waiting" else None,
            )
            t.execute("UPDATE runs SET status = 'running', ended = NULL WHERE run_id = ?", (run_id,))
            _LEASES.put(t, run_id, lease)
            return taken

        taken = await _or_let_go(self.database.write(work))
        if isinstance(taken, str):
            return self._read(_decode_result, taken)
        assert isinstance(taken.journal, _SqlRun)
        self._renewals.add(taken.journal)
        return taken

    def request_stop(self, run_id: str, request: StopRequest) -> None:
        """Ask whoever works on a run to stop. Waits for the disk."""
        if not self.database.write(lambda t: _LEASES.request_stop(t, run_id, request)).result():
            raise self._unknown(run_id)

    def drop_stop(self, run_id: str) -> None:
        """Drop the request to stop a run that no process works on: somebody wants it to go on. Waits for the
        disk.

        Args:
            run_id: Id of the run.
        """

        def work(t: Transaction) -> None:
            lease = _LEASES.lock(t, run_id)
            if lease is not None and lease.stop is not None and not lease.is_held(t.now()):
                _LEASES.drop_stop(t, run_id)

        self.database.write(work).result()

    def runs(self, *, status: str | None = None, limit: int = 50) -> list[RunSummary]:
        """Return the newest runs, newest first.

        Args:
            status: Only those with this status.
            limit: Maximum number.
        """

        def work(t: Transaction) -> list[RunSummary]:
            now = t.now()
            where, values = _where_status(status)
            order = "ORDER BY begun DESC, run_id DESC"
            if status not in ("running", "interrupted"):
                order += f" LIMIT {limit:d}"
            rows = t.execute(f"SELECT {_LISTED} FROM {self._table}{where} {order}", values)
            listed = [_summary(row, now) for row in rows]
            return [s for s in listed if status is None or s.status == status][:limit]

        return self.database.read(work)

    def listed(
        self,
        *,
        status: str | None = None,
        since: float | None = None,
        until: float | None = None,
        folder: str | None = None,
        with_unknown: bool = False,
        limit: int = 50,
    ) -> RunListing:
        """Return the newest runs, each followed by the runs that it started.

        Args:
            status: Only runs with this status, whoever started them.
            since: Only runs that began then or later, in seconds since the epoch.
            until: Only runs that began then or earlier, in seconds since the epoch.
            folder: Only runs that were started in this folder or below it.
            with_unknown: With `folder`, also runs whose folder is not known.
            limit: Most runs to return; the runs that they started are not counted.
        """
        here, values = in_folder("folder", folder, with_unknown=with_unknown)
        return self.database.read(lambda t: self._list(t, status, (since, until), here, values, limit))

    def page(
        self,
        *,
        status: str | None = None,
        folder: str | None = None,
        tenant: str | None = None,
        before: tuple[float, str] | None = None,
        limit: int = 50,
    ) -> list[RunSummary]:
        """Return runs that no other run started, newest first, some at a time.

        Args:
            status: Only runs with this status.
            folder: Only runs that were started in this folder or below it.
            tenant: Only runs of this tenant. `None`: of all.
            before: When the last run of the page before began, and its id. `None`: the first page.
            limit: Most runs to return.
        """
        here, place = in_folder("folder", folder)
        conditions = [
            here,
            "(parent IS NULL OR NOT EXISTS (SELECT 1 FROM runs AS o WHERE o.run_id = runs.parent))",
        ]
        values: list[Value] = [*place]
        if status is not None:
            where, wanted = _where_status(status)
            conditions.append(where.removeprefix(" WHERE "))
            values += wanted
        if tenant is not None:
            conditions.append("tenant = ?")
            values.append(self._listed(tenant))
        if before is not None:
            conditions.append("(begun, run_id) < (?, ?)")
            values += [float(before[0]), searchable(before[1])]
        # Whether somebody is at work is found out afterwards; see `_where_status`.
        most = "" if status in ("running", "interrupted") else f" LIMIT {limit:d}"

        def work(t: Transaction) -> list[RunSummary]:
            rows = t.execute(
                f"SELECT run_id FROM {self._table} WHERE {' AND '.join(conditions)}"
                f" ORDER BY begun DESC, run_id DESC{most}",
                values,
            )
            found = self._summaries(t, [row[0] for row in rows])
            return [each for each in found if status is None or each.status == status][:limit]

        return self.database.read(work)

    def started_by(self, run_id: str) -> list[RunSummary]:
        """Return the runs that a run started, oldest first, each followed by those that it started in turn.

        Args:
            run_id: Id of the run.
        """

        def work(t: Transaction) -> list[RunSummary]:
            started = self._started_by(t, [run_id])
            return _nested([each for each in started.values() if each.parent == run_id], started)

        return self.database.read(work)

    def _list(
        self,
        t: Transaction,
        status: str | None,
        span: tuple[float | None, float | None],
        here: str,
        place: list[Value],
        limit: int,
    ) -> RunListing:
        conditions, values = _where_time(*span)
        if status is None:
            # One whose parent was pruned stands by itself.
            conditions.append(
                "(parent IS NULL OR NOT EXISTS"
                " (SELECT 1 FROM runs AS other WHERE other.run_id = runs.parent))"
            )
        else:
            where, wanted = _where_status(status)
            conditions.append(where.removeprefix(" WHERE "))
            values += wanted
        # Whether somebody is at work is found out of all of them; see `_where_status`.
        is_told = status not in ("running", "interrupted")

        def ids(where: str, what: str = "run_id", order: str = "") -> Rows:
            every = " AND ".join([*conditions, where])
            return t.execute(f"SELECT {what} FROM {self._table} WHERE {every}{order}", [*values, *place])

        newest = " ORDER BY begun DESC, run_id DESC" + (f" LIMIT {limit:d}" if is_told else "")
        found = self._summaries(t, [row[0] for row in ids(here, order=newest)])
        found = [each for each in found if status is None or each.status == status][:limit]
        elsewhere = 0
        if place and is_told:
            elsewhere = int(ids(f"NOT {here}", "count(*)")[0][0])
        elif place:
            others = self._summaries(t, [row[0] for row in ids(f"NOT {here}")])
            elsewhere = sum(each.status == status for each in others)
        started = self._started_by(t, [each.run_id for each in found]) if status is None else {}
        return RunListing(_nested(found, started), elsewhere)

    def _summaries(self, t: Transaction, ids: Sequence[str], column: str = "run_id") -> list[RunSummary]:
        """Runs by their ids, in that order; or by those of their parents, oldest first."""
        now = t.now()
        rows: Rows = []
        for first in range(0, len(ids), _AT_ONCE):
            some = ids[first : first + _AT_ONCE]
            marks = ", ".join("?" * len(some))
            rows += t.execute(
                f"SELECT {_LISTED} FROM {self._table} WHERE {column} IN ({marks}) ORDER BY begun, run_id",
                some,
            )
        found = [_summary(row, now) for row in rows]
        if column == "run_id":
            by_id = {each.run_id: each for each in found}
            return [by_id[name] for name in ids if name in by_id]
        return found

    def _started_by(self, t: Transaction, ids: Sequence[str]) -> dict[str, RunSummary]:
        """What runs started, and what those did, and so on; by id."""
        known: dict[str, RunSummary] = {}
        while ids and self._has_parents:
            started = self._summaries(t, ids, "parent")
            ids = [each.run_id for each in started if each.run_id not in known]
            known.update((each.run_id, each) for each in started)
        return known

    def places(self, ids: Collection[str]) -> dict[str, RunPlace]:
        """Return the parent and the folder of runs, and of the runs that started them; pruned ones are left
        out.

        Args:
            ids: Ids of runs.
        """

        def work(t: Transaction) -> dict[str, RunPlace]:
            found: dict[str, RunPlace] = {}
            wanted = list(ids)
            while wanted:
                rows: Rows = []
                for first in range(0, len(wanted), _AT_ONCE):
                    some = wanted[first : first + _AT_ONCE]
                    marks = ", ".join("?" * len(some))
                    rows += t.execute(
                        f"SELECT run_id, parent, folder, context FROM {self._table}"
                        f" WHERE run_id IN ({marks})",
                        some,
                    )
                for run_id, parent, folder, context in rows:
                    found[run_id] = RunPlace(parent, folder or _folder_in(context))
                wanted = [
                    place.parent
                    for place in {row[0]: found[row[0]] for row in rows}.values()
                    if place.parent is not None and place.parent not in found
                ]
            return found

        return self.database.read(work)

    def prune(self, before: float) -> list[str]:
        """Delete the runs that ended before a time, and return their ids. Runs that can be resumed stay.
        Waits for the disk.

        Args:
            before: Seconds since the epoch.
        """
        marks = ", ".join("?" * len(RESUMABLE))
        work = f"DELETE FROM runs WHERE status NOT IN ({marks}) AND ended < ? RETURNING run_id"
        rows = self.database.execute(work, [*RESUMABLE, before])
        return [row[0] for row in rows]

    def find(self, run_id: str) -> RunSummary:
        """Return the run whose id is, or starts with, a text.

        Args:
            run_id: The id, or its beginning.

        Raises:
            UnknownRun: there is none, or there are several.
            UsageError: it is no text.
        """
        given: object = run_id
        if not isinstance(given, str):
            raise UsageError(
                f"find got {truncate_repr(given, 80)}. Write the id of a run, or its beginning, as a text."
            )

        def work(t: Transaction) -> list[RunSummary]:
            now = t.now()
            exact = t.execute(f"SELECT {_LISTED} FROM {self._table} WHERE run_id = ?", (run_id,))
            rows = exact or t.execute(
                f"SELECT {_LISTED} FROM {self._table} WHERE substr(run_id, 1, ?) = ?"
                " ORDER BY begun DESC LIMIT 6",
                (len(run_id), run_id),
            )
            return [_summary(row, now) for row in rows]

        found = self.database.read(work) if run_id else []
        if len(found) == 1:
            return found[0]
        if not found:
            raise self._unknown(run_id)
        some = ", ".join(f"'{s.run_id}'" for s in found[:5])
        raise UnknownRun(
            f"Several runs begin with '{run_id}': {some}. Write more of the id.",
            run_id=run_id,
            several=[each.run_id for each in found],
        )

    def record(self, run_id: str) -> RunRecord:
        """What a run was asked to do. Private: not for showing as it is.

        Raises:
            UnknownRun: there is none.
        """
        rows = self.database.select("SELECT record FROM runs WHERE run_id = ?", (run_id,))
        if not rows:
            raise self._unknown(run_id)
        return self._read(_decode_record, rows[0][0])

    def shown(self, run_id: str) -> ProposalResult | None:
        """How a run ended, if it has, without the secrets that its process knew."""
        rows = self.database.select("SELECT coalesce(shown, result) FROM runs WHERE run_id = ?", (run_id,))
        return self._read(_decode_result, rows[0][0]) if rows and rows[0][0] is not None else None

    def _unknown(self, run_id: str) -> UnknownRun:
        return UnknownRun(
            f"There is no run '{run_id}' in {self.database.name}. See: placet runs", run_id=run_id
        )

    def notes(self, run_id: str) -> Sequence[Note]:
        """What a run that has not ended noted so far. Private: not for showing as it is."""
        rows = self.database.select("SELECT note FROM journal WHERE run_id = ? ORDER BY number", (run_id,))
        return [self._read(_decode_note, note) for (note,) in rows]

    def close(self) -> None:
        """Stop renewing the claims of this process and wait for that to end. The database stays open."""
        self._renewals.close()

    def _read(self, decode: Callable[[str], T], text: str) -> T:
        try:
            return decode(text)
        except msgspec.DecodeError:
            # Not what exactly is wrong: that could repeat a secret.
            raise StorageDamaged(
                self.database.name,
                "holds a run that cannot be read",
                "It was changed, or is of another version of Placet; look at it with that one.",
            ) from None

    def _listed(self, text: str | None) -> str | None:
        """A text as it can be listed: without secrets, and such as a column can hold."""
        return text if text is None else searchable(self._redactor.text(text))


class _SqlRun:
    """One run, while we hold it."""

    def __init__(self, database: Database, run_id: str, fence: int, noted: int, lease_s: float) -> None:
        self.run_id = run_id
        self._database = database
        self._fence = fence
        self._lease_s = lease_s
        self._number = noted
        self._kept = noted
        """Up to which number the notes are on disk."""
        self._handed_over = noted
        self._new: deque[tuple[int, str]] = deque()
        """Those that are not. What could not be written is tried again with the next, before it."""
        self._over = False

    def note(self, note: Note) -> None:
        """Keep a note, in memory until `flush` or `settle`."""
        self._number += 1
        # Encoded here and now: whoever gets a result may change it later.
        self._new.append((self._number, _encode(note).decode()))

    def flush(self) -> None:
        """Hand over what was noted."""
        if self._number > self._handed_over and not self._over:
            # Once each: many ask for it, and the next is written with whatever could not be before.
            self._handed_over = self._number
            self._submit(partial(self._write_notes, self._number))

    def _submit(self, work: Callable[[Transaction], None]) -> Future[None]:
        def held(t: Transaction) -> None:
            self._check_hold(t)
            work(t)

        return self._database.write(held)

    def _write_notes(self, last: int, t: Transaction) -> None:
        # Others in this commit may have written some of them. Not those that came later: what they tell of
        # may not have been recorded yet.
        written = t.shared.get(self, self._kept)
        rows = [(self.run_id, n, note) for n, note in list(self._new) if written < n <= last]
        if rows:
            t.insert("journal", ("run_id", "number", "note"), rows)
            t.shared[self] = rows[-1][1]
            t.after_commit(lambda: self._are_kept(rows[-1][1]))

    def _are_kept(self, last: int) -> None:
        self._kept = last
        while self._new and self._new[0][0] <= last:
            self._new.popleft()

    def _check_hold(self, t: Transaction) -> None:
        if not _LEASES.is_ours(t, self.run_id, self._fence):
            raise RunHeld(
                f"Run '{self.run_id}' has been taken over by another process, so this one does nothing more. "
                f"See how it goes: placet runs show {self.run_id}"
            )

    async def settle(self) -> None:
        """Wait until every note so far is on disk."""
        await asyncio.wrap_future(self._submit(partial(self._write_notes, self._number)))

    async def end(
        self, result: ProposalResult, shown: ProposalResult | None = None, *, is_stopped: bool = False
    ) -> None:
        """Keep how the run ended, and let go of it."""
        self._over = True
        body = _encode(result).decode()
        may_show = _encode(shown).decode() if shown is not None else None
        is_final = result.outcome not in RESUMABLE
        nonzero = sum(r.status == "succeeded" and is_nonzero(r.exit_code) for r in result.results)

        def work(t: Transaction) -> None:
            if is_final:
                t.execute("DELETE FROM journal WHERE run_id = ?", (self.run_id,))
            else:
                self._write_notes(self._number, t)
            t.execute(
                "UPDATE runs SET status = ?, ended = ?, result = ?, shown = ?, nonzero = ? WHERE run_id = ?",
                (result.outcome, t.now(), body, may_show, nonzero, self.run_id),
            )
            if is_stopped:
                _LEASES.drop_stop(t, self.run_id)
            _LEASES.release(t, self.run_id)

        await asyncio.wrap_future(self._submit(work))

    def release(self) -> None:
        """Let go of a run that has not ended."""
        self._over = True

        def work(t: Transaction) -> None:
            self._write_notes(self._number, t)
            _LEASES.release(t, self.run_id)

        with suppress(StorageError, UsageError):
            self._submit(work)

    def renew(self) -> None:
        """Hold it for a while longer. That it has been lost is told by the next `settle`."""

        if not self._over:
            self._submit(lambda t: _LEASES.renew(t, self.run_id, self._lease_s))

    def stop_requested(self) -> StopRequest | None:
        """Why the run is to stop, if it is."""
        lease = self._database.read(lambda t: _LEASES.get(t, self.run_id))
        if lease is None or lease.fence != self._fence:
            return LEASE_LOST
        return lease.stop


async def _or_let_go(taking: Future[T]) -> T:
    """Wait for a hold. If nobody waits for it any more when it comes, it is let go of."""
    try:
        return await asyncio.wrap_future(taking)
    except asyncio.CancelledError:
        taking.add_done_callback(_let_go)
        raise


def _let_go(taking: Future[Any]) -> None:
    if taking.exception() is None:
        taken = taking.result()
        run = taken.journal if isinstance(taken, Taken) else taken
        if isinstance(run, _SqlRun):
            run.release()


def _check_id(run_id: str) -> None:
    if not run_id or len(run_id) > 200 or not run_id.isprintable() or run_id != run_id.strip():
        raise UsageError(
            f"{truncate_repr(run_id, 80)} cannot be the id of a run: use 1 to 200 visible characters, "
            "such as nightly-7."
        )


def _where_status(status: str | None) -> tuple[str, list[Value]]:
    if status is None:
        return "", []
    # Whether somebody is still at work is not in the table; it is found out afterwards, of all of them.
    return " WHERE status = ?", ["running" if status == "interrupted" else status]


def _where_time(since: float | None, until: float | None) -> tuple[list[str], list[Value]]:
    found = [("begun >= ?", since), ("begun <= ?", until)]
    return [where for where, at in found if at is not None], [at for _, at in found if at is not None]


def _folder_in(context: str) -> str | None:
    """In older tables it stands nowhere else."""
    try:
        folder = msgspec.json.decode(context).get("folder")
    except (msgspec.DecodeError, AttributeError):
        return None
    return folder if isinstance(folder, str) else None


def _nested(found: Sequence[RunSummary], started: Mapping[str, RunSummary]) -> list[RunSummary]:
    """Each run followed by those that it started, wherever they were found."""
    known = {each.run_id for each in found}.union(started)
    below: dict[str, list[RunSummary]] = {}
    for each in sorted([*found, *started.values()], key=lambda run: (run.begun, run.run_id)):
        if each.parent in known:
            below.setdefault(each.parent or "", []).append(each)
    listed: dict[str, RunSummary] = {}
    left = [each for each in reversed(found) if each.parent not in known]
    while left:
        run = left.pop()
        if run.run_id not in listed:
            listed[run.run_id] = run
            left += reversed(below.get(run.run_id, []))
    return list(listed.values())


def _summary(row: tuple[Any, ...], now: float) -> RunSummary:
    run_id, proposal_id, source, tenant, actions, status, begun, ended, held_by, held_until, context = row[
        :11
    ]
    lease = read_lease(0, held_by, held_until)
    if status == "running" and not lease.is_held(now):
        status, lease = "interrupted", lease.released()
    return RunSummary(
        run_id=run_id,
        proposal_id=proposal_id,
        source=source,
        tenant=tenant,
        actions=actions,
        status=status,
        begun=begun,
        ended=ended,
        holder=lease.holder.words if lease.holder is not None else None,
        context=msgspec.json.decode(context),
        parent=row[11],
        folder=row[12],
        nonzero=row[13],
    )
