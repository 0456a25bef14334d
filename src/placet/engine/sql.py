"""Submissions and workers in a database.

A submission is what was asked for and how it stands; the run itself is in the journal. The table is also the
outbox of the transport: a row that is `queued` and not placed has no ticket yet, and any worker enqueues it.
So submitting, waking and cancelling are one transaction each, and need no queue to be reachable.

Keep true:
1. Every change of state is one transaction that looks at the state first.
2. A worker changes a submission only while it is the one that claimed it, under the attempt that it counted.
3. Time is that of the database: the clocks of workers and submitters do not matter.
4. A row that cannot be read is dead, and says why: it keeps no other from being read or placed.
5. Only `give_up_dead` takes a run from a worker, dead or frozen; the run then waits for nothing but a slot.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from placet.engine.protocol import OPEN, DayBudget, State, Ticket
from placet.engine.submission import NOTHING_SAID, Inbox, Submission, WorkerInfo
from placet.errors import RunHeld, StorageDamaged, UnknownRun, UsageError
from placet.storage.database import Database
from placet.storage.lease import Holder, is_dead
from placet.storage.migrate import Migrations, migrate
from placet.storage.transaction import Transaction, Value, searchable

T = TypeVar("T")

MIGRATIONS = Migrations(
    "engine",
    [
        [
            """CREATE TABLE submissions (
                run_id TEXT PRIMARY KEY,
                kind TEXT NOT NULL,
                request TEXT NOT NULL,
                options TEXT NOT NULL,
                tenant TEXT,
                caller TEXT,
                dedup_key TEXT UNIQUE,
                priority BIGINT NOT NULL,
                queue TEXT NOT NULL,
                folder TEXT,
                host TEXT,
                target TEXT,
                version TEXT,
                needs TEXT NOT NULL,
                state TEXT NOT NULL,
                number BIGINT NOT NULL,
                placed TEXT,
                worker TEXT,
                attempts BIGINT NOT NULL,
                inbox TEXT,
                is_woken BIGINT NOT NULL,
                stop TEXT,
                outcome TEXT,
                error TEXT,
                submitted DOUBLE PRECISION NOT NULL,
                due DOUBLE PRECISION NOT NULL,
                changed DOUBLE PRECISION NOT NULL
            )""",
            "CREATE INDEX submissions_to_place ON submissions (priority, submitted)"
            " WHERE state = 'queued' AND placed IS NULL",
            "CREATE INDEX submissions_by_worker ON submissions (worker) WHERE state = 'running'",
            "CREATE INDEX submissions_by_state ON submissions (state, changed)",
            """CREATE TABLE workers (
                id TEXT PRIMARY KEY,
                holder TEXT NOT NULL,
                queue TEXT NOT NULL,
                concurrency BIGINT NOT NULL,
                version TEXT NOT NULL,
                offers TEXT NOT NULL,
                state TEXT NOT NULL,
                started DOUBLE PRECISION NOT NULL,
                until DOUBLE PRECISION NOT NULL
            )""",
        ],
        [
            "ALTER TABLE submissions ADD COLUMN held TEXT",
            "CREATE TABLE day_budgets (queue TEXT PRIMARY KEY, budget TEXT NOT NULL)",
        ],
    ],
)

MOST_ATTEMPTS = 3
"""How often a run may fail its worker before it is left alone."""
WORKER_LEASE_S = 6.0
"""How long a worker counts as alive without a heartbeat."""
FORGET_WORKER_S = 3600.0
"""How long a dead worker is looked at again: what it had claimed may show late."""
SHOW_GONE_S = 60.0
"""How long a worker that is gone is still listed."""
_TAKEN_AT_ONCE = 100
_AT_ONCE = 500

_FIELDS = (
    "run_id, kind, request, options, tenant, caller, dedup_key, priority, queue, folder, host, target,"
    " version, needs, state, number, worker, attempts, inbox, stop, outcome, error, submitted, due,"
    " changed, held"
)

_encode = msgspec.json.Encoder().encode


class SqlSubmissions:
    """Submissions and workers of one database."""

    def __init__(self, database: Database, *, lease_s: float = WORKER_LEASE_S) -> None:
        """Create the tables if they are missing.

        Raises:
            StorageError: the tables cannot be created.
        """
        migrate(database, MIGRATIONS)
        self.database = database
        self.lease_s = lease_s

    def _write(self, work: Callable[[Transaction], T]) -> T:
        return self.database.write(work).result()

    # For callers

    def add(self, new: Submission, *, delay_s: float = 0.0) -> Submission:
        """Store a submission; if its tenant has used its key, return the one that has it.

        Raises:
            UsageError: the key or the id was used for another job.
        """

        def work(t: Transaction) -> Submission:
            now = t.now()
            made = replace(new, submitted=now, changed=now, due=now + delay_s)
            kept = t.execute(
                f"INSERT INTO submissions ({_FIELDS}, is_woken)"
                f" VALUES ({_marks(Submission.__struct_fields__)}, 0)"
                " ON CONFLICT DO NOTHING RETURNING run_id",
                _values(made),
            )
            if kept:
                return made
            found = self._one(t, "dedup_key = ?", [_stored_key(new)])
            if not found:
                raise UsageError(f"There is a submission '{new.run_id}' already. Choose another id.")
            if found.request != new.request:
                raise UsageError(
                    f"The key '{new.key}' was used for another job, run '{found.run_id}'. Choose another key."
                )
            return found

        return self._write(work)

    def get(self, run_id: str) -> Submission | None:
        """A submission."""
        return self.database.read(lambda t: self._one(t, "run_id = ?", [run_id]))

    def find(self, given: str) -> Submission | None:
        """The one submission whose id is, or starts with, a text."""
        return self.database.read(
            lambda t: (
                self._one(t, "run_id = ?", [given])
                or (
                    found[0]
                    if given
                    and len(found := self._some(t, "substr(run_id, 1, ?) = ?", [len(given), given], limit=2))
                    == 1
                    else None
                )
            )
        )

    def alike(self, given: str, *, limit: int = 3) -> list[str]:
        """Some ids of submissions that start with a text."""
        if not given:
            return []
        where = "substr(run_id, 1, ?) = ? ORDER BY submitted DESC, run_id"
        found = self.database.read(lambda t: self._some(t, where, [len(given), given], limit=limit))
        return [each.run_id for each in found]

    def listed(
        self,
        states: Sequence[State] | None = None,
        *,
        tenant: str | None = None,
        folder: str | None = None,
        limit: int = 100,
    ) -> list[Submission]:
        """The newest submissions, newest first; of one tenant or folder, or of all."""
        where, values = _where(states, tenant=searchable(tenant), folder=folder)
        return self.database.read(
            lambda t: self._some(t, f"{where} ORDER BY submitted DESC, run_id", values, limit=limit)
        )

    def depth(
        self, states: Sequence[State] | None = None, *, tenant: str | None = None
    ) -> dict[str, dict[str, int]]:
        """How many submissions stand how, by queue; in some states only, or of one tenant."""
        where, values = _where(states, tenant=searchable(tenant))
        rows = self.database.read(
            lambda t: t.execute(
                f"SELECT queue, state, count(*) FROM submissions WHERE {where} GROUP BY queue, state", values
            )
        )
        found: dict[str, dict[str, int]] = {}
        for queue, state, number in rows:
            found.setdefault(queue, {})[state] = number
        return found

    def is_busy(self, queue: str) -> bool:
        """Whether a submission of a queue is running, wants a worker now, or is about to be tried again."""
        return bool(
            self.database.read(
                lambda t: t.execute(
                    "SELECT 1 FROM submissions WHERE queue = ? AND (state = 'running' OR state = 'queued'"
                    " AND (due <= ? OR attempts > 0 AND held IS NULL)) LIMIT 1",
                    (queue, t.now()),
                )
            )
        )

    def wake(self, run_id: str, inbox: Inbox = NOTHING_SAID, *, target: str | None = None) -> bool:
        """Have a run go on, or remember that it should. False if it is not known. With `target`, that worker
        does it.

        Raises:
            RunHeld: it is at work, and something was to be said to it.
        """

        def work(t: Transaction) -> bool:
            found = self._lock(t, run_id)
            if found is None:
                return False
            if found.state in ("queued", "running") and inbox.text is not None:
                raise RunHeld(f"Run '{run_id}' is at work. Say it once it has answered.")
            told = Inbox(decide={**found.inbox.decide, **inbox.decide}, text=inbox.text or found.inbox.text)
            if found.state == "running":
                self._set(t, run_id, is_woken=1, inbox=_json(told))
            elif found.state == "queued":
                self._set(t, run_id, inbox=_json(told))
            else:
                # A request to stop that the run has ended with is done with: somebody wants it to go on.
                stop = found.stop if found.state in OPEN else None
                self._queue(t, found, inbox=_json(told), attempts=0, target=target, stop=stop)
            return True

        return self._write(work)

    def wake_waiting(self, run_id: str) -> bool:
        """Have a run go on if it waits for a person, or if it is at work and may be about to wait."""

        def work(t: Transaction) -> bool:
            found = self._lock(t, run_id)
            if found is None or found.state not in ("waiting", "running"):
                return False
            if found.state == "running":
                self._set(t, run_id, is_woken=1)
            else:
                self._queue(t, found, attempts=0)
            return True

        return self._write(work)

    def cancel(self, run_id: str, reason: str, *, is_held: bool = False) -> State | None:
        """Ask for a run to be stopped; how it stood. One that has not begun is over with that, and so is one
        that waits if the caller holds it in the journal, and ends it there; else a worker ends it."""

        def work(t: Transaction) -> State | None:
            found = self._lock(t, run_id)
            if found is None or found.state not in OPEN:
                return found.state if found is not None else None
            if found.version is None and found.state in ("queued", "unplaced"):
                self._set(t, run_id, state="canceled", stop=searchable(reason), changed=t.now())
            elif found.state == "waiting" and is_held:
                why = searchable(reason)
                self._set(
                    t, run_id, state="canceled", stop=why, outcome="canceled", error=why, changed=t.now()
                )
            elif found.state == "running":
                self._set(t, run_id, stop=searchable(reason))
            else:
                self._queue(t, found, stop=searchable(reason), attempts=0)
            return found.state

        return self._write(work)

    def retry(self, run_id: str) -> bool:
        """Queue a run again that is dead, unplaced, refused or was canceled; whether it is."""

        def work(t: Transaction) -> bool:
            found = self._lock(t, run_id)
            if found is None or found.state not in ("dead", "unplaced", "refused", "canceled"):
                return False
            self._queue(t, found, attempts=0, stop=None, error=None, needs="[]", target=None)
            return True

        return self._write(work)

    def forget(self, run_id: str) -> None:
        """Drop a submission that never began."""
        self._write(lambda t: t.execute("DELETE FROM submissions WHERE run_id = ?", (run_id,)))

    def prune(self, before: float, dropped: Sequence[str]) -> int:
        """Drop the submissions of runs that were dropped, and those that never began and were over before a
        time; how many of the latter."""

        def work(t: Transaction) -> int:
            for first in range(0, len(dropped), _AT_ONCE):
                some = dropped[first : first + _AT_ONCE]
                t.execute(
                    f"DELETE FROM submissions WHERE run_id IN ({_marks(some)})"
                    f" AND state NOT IN ({_marks(OPEN)})",
                    [*some, *OPEN],
                )
            rows = t.execute(
                f"DELETE FROM submissions WHERE state NOT IN ({_marks(OPEN)}) AND version IS NULL"
                " AND changed < ? RETURNING run_id",
                [*OPEN, before],
            )
            return len(rows)

        return self._write(work)

    # For workers

    def to_place(
        self,
        worker: str,
        queue: str,
        limit: int,
        fits: Callable[[Submission], bool] = lambda _: True,
    ) -> list[Submission]:
        """Submissions of a queue, or for this worker alone, that want a ticket and are due; `worker` enqueues
        them next. Workers of another queue may have another transport."""
        where = "state = 'queued' AND placed IS NULL AND due <= ? AND (queue = ? OR target = ?)"

        def work(t: Transaction) -> list[Submission]:
            found: list[Submission] = []
            now, seen = t.now(), 0
            while len(found) < limit:
                rows = t.execute(
                    f"SELECT {_FIELDS} FROM submissions WHERE {where}"
                    " ORDER BY CASE WHEN attempts > 0 THEN 0 ELSE priority END, submitted, run_id"
                    f" LIMIT {limit:d} OFFSET {seen:d}{_skip_locked(t)}",
                    [now, queue, worker],
                )
                found += [each for each in self._readable(t, rows) if fits(each)]
                seen += len(rows)
                if len(rows) < limit:
                    break
            for each in found:
                # Its ticket is as old as this, however long it was queued; see `placed_before`.
                self._set(t, each.run_id, placed=worker, changed=now)
            return found

        if not self.database.read(
            lambda t: t.execute(f"SELECT 1 FROM submissions WHERE {where} LIMIT 1", [t.now(), queue, worker])
        ):
            return []
        return self._write(work)

    def unplace(self, run_ids: Sequence[str], *, delay_s: float = 0.0) -> None:
        """Their tickets could not be enqueued; they are placed again after a while, others before them."""

        def work(t: Transaction) -> None:
            for each in run_ids:
                t.execute(
                    "UPDATE submissions SET placed = NULL, due = ? WHERE run_id = ? AND state = 'queued'",
                    (t.now() + delay_s, each),
                )

        self._write(work)

    def placed_before(
        self, queue: str, age_s: float, after: tuple[float, str], limit: int, *, by: str | None = None
    ) -> list[Submission]:
        """Submissions of a queue that have had a ticket for so long without being claimed, in the order of
        `changed` and `run_id`, `after` the last one that was looked at; those that the worker `by` enqueued,
        or all."""

        def work(t: Transaction) -> list[Submission]:
            old = t.now() - age_s
            who, values = ("placed IS NOT NULL", []) if by is None else ("placed = ?", [by])
            return self._some(
                t,
                f"state = 'queued' AND queue = ? AND {who} AND due <= ? AND changed <= ?"
                " AND (changed, run_id) > (?, ?) ORDER BY changed, run_id",
                [queue, *values, old, old, *after],
                limit=limit,
            )

        return self.database.read(work)

    def renew(self, tickets: Sequence[Ticket]) -> int:
        """Queue what these tickets were for under new ones, where they are still the newest; how many."""

        def work(t: Transaction) -> int:
            found = [(each, self._lock(t, each.run_id)) for each in tickets]
            lost = [run for each, run in found if run and (run.state, run.number) == ("queued", each.number)]
            for run in lost:
                self._queue(t, run)
            return len(lost)

        return self._write(work)

    def claim(self, ticket: Ticket, worker: str, *, most_attempts: int = MOST_ATTEMPTS) -> Submission | None:
        """Work on a submission from now on. None if there is nothing to do: its ticket is outdated, a worker
        has claimed it, or it has failed too often and is dead by now."""

        def work(t: Transaction) -> Submission | None:
            found = self._lock(t, ticket.run_id)
            if found is None or found.number != ticket.number or found.state != "queued":
                return None
            if found.attempts >= most_attempts:
                error = found.error or "the process of its worker died each time"
                self._set(t, found.run_id, state="dead", error=error, changed=t.now())
                return None
            made = replace(found, state="running", worker=worker, attempts=found.attempts + 1)
            self._set(
                t, found.run_id, state="running", worker=worker, attempts=made.attempts, changed=t.now()
            )
            return made

        return self._write(work)

    def bounce(self, ticket: Ticket, *, delay_s: float = 0.0) -> None:
        """A worker cannot take a ticket that was delivered to it: the run gets a new one."""

        def work(t: Transaction) -> None:
            found = self._lock(t, ticket.run_id)
            if found is not None and found.number == ticket.number and found.state == "queued":
                self._queue(t, found, due=t.now() + delay_s)

        self._write(work)

    def defer(self, ticket: Ticket, held: str, until: float) -> bool:
        """Keep a submission in the queue until a time, because a limit leaves nothing for it; whether it is.
        One that somebody wants stopped is not kept."""

        def work(t: Transaction) -> bool:
            found = self._lock(t, ticket.run_id)
            if found is None or (found.number, found.state) != (ticket.number, "queued") or found.stop:
                return False
            self._queue(t, found, due=until, held=searchable(held))
            return True

        return self._write(work)

    def day_budget(self, queue: str) -> DayBudget | None:
        """The limits of a queue on what its runs use in a day; None if it has none.

        Raises:
            StorageDamaged: they cannot be read.
        """
        rows = self.database.read(
            lambda t: t.execute("SELECT budget FROM day_budgets WHERE queue = ?", (queue,))
        )
        try:
            return msgspec.json.decode(rows[0][0], type=DayBudget) if rows else None
        except msgspec.MsgspecError:
            raise StorageDamaged(
                self.database.name,
                f"holds limits of the queue '{queue}' that cannot be read",
                "Start one of its workers anew, with the limits that are to hold.",
            ) from None

    def set_day_budget(self, queue: str, budget: DayBudget) -> None:
        """Replace the limits of a queue. Submissions that the former ones kept are looked at again."""

        def work(t: Transaction) -> None:
            t.execute("DELETE FROM day_budgets WHERE queue = ?", (queue,))
            if budget != DayBudget():
                t.execute(
                    "INSERT INTO day_budgets (queue, budget) VALUES (?, ?) ON CONFLICT (queue)"
                    " DO UPDATE SET budget = excluded.budget",
                    (queue, _json(budget)),
                )
            t.execute(
                "UPDATE submissions SET due = ?, held = NULL"
                " WHERE queue = ? AND state = 'queued' AND held IS NOT NULL",
                (t.now(), queue),
            )

        self._write(work)

    def begun(self, mine: Submission, version: str) -> bool:
        """The run begins, or goes on, under a version of Placet. What was said to it is with it now. False if
        it is no longer the worker's."""
        inbox = _json(replace(mine.inbox, text=None))

        def work(t: Transaction, _: Submission) -> bool:
            self._set(t, mine.run_id, version=version, inbox=inbox)
            return True

        return self._change(mine, work) or False

    def finish(
        self, mine: Submission, state: State, *, outcome: str | None = None, error: str | None = None
    ) -> State | None:
        """A worker is done with a submission; how it stands then. None if it is no longer the worker's."""

        def work(t: Transaction, found: Submission) -> State:
            values: dict[str, Value] = {"outcome": outcome, "error": searchable(error), "inbox": None}
            if state == "waiting" and (t.execute(_IS_WOKEN, (mine.run_id,)) or found.stop is not None):
                # Decided, or stopped, while it was about to wait.
                self._queue(t, found, attempts=0)
                return "queued"
            self._set(t, mine.run_id, state=state, attempts=0, is_woken=0, changed=t.now(), **values)
            return state

        return self._change(mine, work)

    def give_back(
        self,
        mine: Submission,
        *,
        error: str | None = None,
        is_failure: bool = False,
        delay_s: float = 0.0,
        most_attempts: int = MOST_ATTEMPTS,
    ) -> State | None:
        """Leave a submission to the next worker. A failure counts; too many, and it is dead."""

        def work(t: Transaction, found: Submission) -> State:
            if is_failure and found.attempts >= most_attempts:
                self._set(t, mine.run_id, state="dead", error=searchable(error), changed=t.now())
                return "dead"
            attempts = found.attempts if is_failure else found.attempts - 1
            self._queue(t, found, attempts=attempts, error=searchable(error), due=t.now() + delay_s)
            return "queued"

        return self._change(mine, work)

    def leave(self, mine: Submission, needs: Sequence[str], error: str) -> State | None:
        """This worker lacks names that the run needs: it is `unplaced` until one that has them takes it."""

        def work(t: Transaction, found: Submission) -> State:
            values: dict[str, Value] = {"needs": _json(list(needs)), "error": searchable(error)}
            self._set(
                t,
                found.run_id,
                state="unplaced",
                worker=None,
                target=None,
                attempts=0,
                changed=t.now(),
                **values,
            )
            return "unplaced"

        return self._change(mine, work)

    def take_left(self, me: WorkerInfo, but: Collection[str] = ()) -> int:
        """Queue for this worker what others left for lack of names that it offers, some at a time, `but` for
        some runs; how many."""

        def look(t: Transaction) -> list[str]:
            rows = t.execute(
                "SELECT run_id, needs FROM submissions WHERE state = 'unplaced' AND queue = ?"
                " ORDER BY priority, submitted, run_id",
                (me.queue,),
            )
            found = [run_id for run_id, needs in rows if run_id not in but and _has_all(me, needs)]
            return found[:_TAKEN_AT_ONCE]

        def work(t: Transaction) -> int:
            # Another worker may take the same ones, and a person may cancel them.
            rows = t.execute(
                f"SELECT {_FIELDS} FROM submissions WHERE state = 'unplaced' AND run_id IN ({_marks(wanted)})"
                f"{_skip_locked(t)}",
                wanted,
            )
            mine = [each for each in self._readable(t, rows) if _could(me, each)]
            for each in mine:
                self._queue(t, each, target=me.id)
            return len(mine)

        wanted = self.database.read(look)
        return self._write(work) if wanted else 0

    def held_by(self, worker: str) -> dict[str, Submission]:
        """What a worker works on, as the table has it."""
        found = self.database.read(
            lambda t: self._some(t, "worker = ? AND state = 'running'", [worker], limit=100_000)
        )
        return {each.run_id: each for each in found}

    # Workers

    def heartbeat(self, me: WorkerInfo) -> bool:
        """Say that a worker is alive. False if it had been given up meanwhile."""

        def work(t: Transaction) -> bool:
            now = t.now()
            rows = t.execute("SELECT state, until FROM workers WHERE id = ?", (me.id,))
            t.execute(
                "INSERT INTO workers (id, holder, queue, concurrency, version, offers, state, started, until)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET state = excluded.state, until = excluded.until",
                (
                    me.id,
                    _json(me.holder),
                    me.queue,
                    me.concurrency,
                    me.version,
                    _json(list(me.offers)),
                    me.state,
                    now,
                    now + self.lease_s if me.state != "gone" else now,
                ),
            )
            return not rows or rows[0][0] != "gone"

        return self._write(work)

    def workers(self) -> list[WorkerInfo]:
        """The workers that are there, and for a minute those that are `gone`: dead, or ended."""

        def work(t: Transaction) -> list[WorkerInfo]:
            now = t.now()
            running: dict[str, int] = dict(
                t.execute("SELECT worker, count(*) FROM submissions WHERE state = 'running' GROUP BY worker")
            )
            return [
                replace(
                    each,
                    running=running.get(each.id, 0),
                    state=each.state if _is_up(each, now) else "gone",
                )
                for each in self._workers(t)
                if now - each.until < SHOW_GONE_S
            ]

        return self.database.read(work)

    def give_up_dead(self, me: str, *, is_durable: bool) -> dict[str, int]:
        """Take from dead workers what they worked on; by their ids, how many runs. Each is looked at again
        and again for a while, and then forgotten."""

        def look(t: Transaction) -> tuple[list[WorkerInfo], list[WorkerInfo]]:
            """The dead, and those of them whose tickets are enqueued again."""
            now = t.now()
            known = self._workers(t)
            up = {each.version for each in known if _is_up(each, now)}
            dead = [each for each in known if each.id != me and not _is_up(each, now)]
            # One that was killed may not have enqueued all that it had placed. Tickets of a version that no
            # worker has any more would wait for ever.
            again = [
                each for each in dead if not is_durable or each.state != "gone" or each.version not in up
            ]
            return dead, again

        def survey(t: Transaction) -> tuple[list[WorkerInfo], bool]:
            """The dead, and whether there is something to do about them."""
            dead, again = look(t)
            if any(each.state != "gone" or t.now() - each.until > FORGET_WORKER_S for each in dead):
                return dead, True
            ids, placed = [each.id for each in dead], [each.id for each in again]
            rows = t.execute(
                "SELECT 1 WHERE EXISTS (SELECT 1 FROM submissions WHERE state = 'running'"
                f" AND (worker IN ({_marks(ids)}) OR {_of_nobody('worker')}))"
                " OR EXISTS (SELECT 1 FROM submissions WHERE state = 'queued' AND"
                f" (target IN ({_marks(ids)}) OR {_of_nobody('target')} OR placed IN ({_marks(placed)})))",
                [*ids, me, *ids, me, *placed],
            )
            return dead, bool(rows)

        def work(t: Transaction) -> dict[str, int]:
            dead, again = look(t)
            taken: dict[str, int] = {}
            for each in dead:
                if t.now() - each.until > FORGET_WORKER_S:
                    t.execute("DELETE FROM workers WHERE id = ?", (each.id,))
                t.execute("UPDATE workers SET state = 'gone' WHERE id = ? AND state <> 'gone'", (each.id,))
                # A new ticket: the old one may have been delivered to somebody else while this worker still
                # seemed alive, and is used up then. Its attempts stay counted, so that it goes first.
                taken[each.id] = len(
                    t.execute(
                        "UPDATE submissions SET state = 'queued', placed = NULL, worker = NULL,"
                        " number = number + 1 WHERE worker = ? AND state = 'running' RETURNING run_id",
                        (each.id,),
                    )
                )
                t.execute(
                    "UPDATE submissions SET placed = NULL, target = NULL, number = number + 1"
                    " WHERE target = ? AND state = 'queued'",
                    (each.id,),
                )
            # A worker that was frozen until it was forgotten may have claimed something, and died.
            t.execute(
                "UPDATE submissions SET state = 'queued', placed = NULL, worker = NULL, number = number + 1"
                f" WHERE state = 'running' AND {_of_nobody('worker')}",
                (me,),
            )
            t.execute(
                "UPDATE submissions SET placed = NULL, target = NULL, number = number + 1"
                f" WHERE state = 'queued' AND {_of_nobody('target')}",
                (me,),
            )
            for each in again:
                # A new ticket for what has not begun: the next version may have it.
                t.execute(
                    "UPDATE submissions SET placed = NULL, number = number + CASE WHEN version IS NULL"
                    " THEN 1 ELSE 0 END WHERE placed = ? AND state = 'queued'",
                    (each.id,),
                )
            return taken

        found, has_work = self.database.read(survey)
        return self._write(work) if has_work else {each.id: 0 for each in found}

    # Rows

    def _change(self, mine: Submission, work: Callable[[Transaction, Submission], T]) -> T | None:
        """Do something with a submission, if it is still ours."""

        def look(t: Transaction) -> T | None:
            found = self._lock(t, mine.run_id)
            if found is None or found.state != "running":
                return None
            if (found.worker, found.attempts, found.number) != (mine.worker, mine.attempts, mine.number):
                return None
            return work(t, found)

        return self._write(look)

    def _queue(self, t: Transaction, found: Submission, **more: Value) -> None:
        """Queue a submission under a new ticket."""
        values: dict[str, Value] = {
            "placed": None,
            "worker": None,
            "is_woken": 0,
            "due": t.now(),
            "held": None,
            **more,
        }
        self._set(t, found.run_id, state="queued", number=found.number + 1, changed=t.now(), **values)

    def _set(self, t: Transaction, run_id: str, **values: Value) -> None:
        columns = ", ".join(f"{name} = ?" for name in values)
        t.execute(f"UPDATE submissions SET {columns} WHERE run_id = ?", [*values.values(), run_id])

    def _lock(self, t: Transaction, run_id: str) -> Submission | None:
        lock = " FOR UPDATE" if t.dialect == "postgres" else ""  # SQLite has one writer at a time.
        rows = t.execute(f"SELECT {_FIELDS} FROM submissions WHERE run_id = ?{lock}", (run_id,))
        self._readable(t, rows)
        return _submission(rows[0]) if rows else None

    def _readable(self, t: Transaction, rows: Sequence[tuple[Any, ...]]) -> list[Submission]:
        """Those that can be read. The others are dead from now on."""
        found = list(map(_submission, rows))
        unreadable = [each for each, row in zip(found, rows, strict=True) if each.state != row[_STATE]]
        for each in unreadable:
            self._set(t, each.run_id, state=each.state, error=searchable(each.error), changed=t.now())
        return [each for each in found if each not in unreadable]

    def _one(self, t: Transaction, where: str, values: Sequence[Value]) -> Submission | None:
        found = self._some(t, where, values, limit=1)
        return found[0] if found else None

    def _some(self, t: Transaction, where: str, values: Sequence[Value], *, limit: int) -> list[Submission]:
        rows = t.execute(f"SELECT {_FIELDS} FROM submissions WHERE {where} LIMIT {limit:d}", values)
        return [_submission(row) for row in rows]

    def _workers(self, t: Transaction) -> list[WorkerInfo]:
        return [_worker(row) for row in t.execute(f"{_WORKERS} ORDER BY started, id")]


_STATE = Submission.__struct_fields__.index("state")
_TEXTS = ("run_id", "kind", "request", "options", "tenant", "caller", "queue", "folder", "host", "version")
_NOBODY = Holder("", 0)
"""A process of which nothing is known: it lives as long as its heartbeat."""
_IS_WOKEN = "SELECT 1 FROM submissions WHERE run_id = ? AND is_woken = 1"
_WORKERS = "SELECT id, holder, queue, concurrency, version, offers, state, started, until FROM workers"


def _of_nobody(column: str) -> str:
    """Whether a column names a worker, but for one, that nobody knows."""
    return f"NOT EXISTS (SELECT 1 FROM workers WHERE id = submissions.{column}) AND {column} <> ?"


def _is_up(worker: WorkerInfo, now: float) -> bool:
    return worker.state != "gone" and now < worker.until and not is_dead(worker.holder)


def _has_all(worker: WorkerInfo, needs: str) -> bool:
    """Whether a worker offers what a run needs; also of a row that cannot be read, to be seen to."""
    try:
        return set(msgspec.json.decode(needs, type=list[str])) <= set(worker.offers)
    except msgspec.MsgspecError:
        return True


def _could(worker: WorkerInfo, run: Submission) -> bool:
    """Whether a worker can do what others left."""
    return (
        worker.queue == run.queue
        and run.host in (None, worker.holder.host)
        and run.version in (None, worker.version)
        and set(run.needs) <= set(worker.offers)
    )


def _skip_locked(t: Transaction) -> str:
    """Locks the rows that are read, but for those that somebody else changes now."""
    return " FOR UPDATE SKIP LOCKED" if t.dialect == "postgres" else ""  # SQLite has one writer at a time.


def _marks(values: Sequence[object]) -> str:
    """Placeholders of a list; NULL for an empty one, which nothing is in."""
    return ", ".join("?" * len(values)) or "NULL"


def _where(states: Sequence[State] | None, **columns: Value) -> tuple[str, list[Value]]:
    """A condition: one of some states, and columns that have a value; None asks for nothing."""
    terms, values = ["1 = 1"], list[Value](states or ())
    if states is not None:
        terms.append(f"state IN ({_marks(states)})")
    for name, value in columns.items():
        if value is not None:
            terms.append(f"{name} = ?")
            values.append(value)
    return " AND ".join(terms), values


def _json(value: object) -> str:
    return _encode(value).decode()


def _stored_key(made: Submission) -> str | None:
    """Its key among those of all tenants: names have one line."""
    if made.key is None or made.tenant is None:
        return searchable(made.key)
    return searchable(f"{made.tenant}\n{made.key}")


def _values(made: Submission) -> list[Value]:
    values: Mapping[str, Any] = msgspec.structs.asdict(made)
    changed = {
        "needs": _json(list(made.needs)),
        "inbox": _json(made.inbox),
        "key": _stored_key(made),
        "tenant": searchable(made.tenant),
    }
    return [*{**values, **changed}.values()]


def _submission(row: tuple[Any, ...]) -> Submission:
    """A row as a submission; one that cannot be read as a dead one, with the reason."""
    values = dict(zip(Submission.__struct_fields__, row, strict=True))
    try:
        values["key"] = values["key"] and values["key"].rpartition("\n")[2]
        values["needs"] = msgspec.json.decode(values["needs"])
        values["inbox"] = msgspec.json.decode(values["inbox"] or "{}")
        return msgspec.convert(values, Submission)
    except (msgspec.MsgspecError, TypeError, AttributeError) as error:
        # Somebody, or something, has changed the row past us, or a newer release wrote it.
        why = f"its row in the table of submissions cannot be read: {error}"
        texts = {name: values[name] for name in _TEXTS if isinstance(values[name], str)}
        times = {name: values[name] for name in ("submitted", "changed") if isinstance(values[name], float)}
        return Submission(**texts, **times, state="dead", error=why)


def _worker(row: tuple[Any, ...]) -> WorkerInfo:
    id, holder, queue, concurrency, version, offers, state, started, until = row
    return WorkerInfo(
        id=id,
        holder=_read(holder, Holder, _NOBODY),
        queue=queue,
        concurrency=concurrency,
        version=version,
        offers=_read(offers, tuple[str, ...], ()),
        state=state,
        started=started,
        until=until,
    )


def _read(text: str, type: type[T], otherwise: T) -> T:
    """What a newer release, or somebody past us, wrote: others must not stand still for it."""
    try:
        return msgspec.json.decode(text, type=type)
    except msgspec.MsgspecError:
        return otherwise


def unknown_run(run_id: str, database: Database) -> UnknownRun:
    """The error of a run that nobody knows."""
    return UnknownRun(f"There is no run '{run_id}' in {database.name}. See: placet runs", run_id=run_id)
