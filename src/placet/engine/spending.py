"""Budgets of a day, over all workers of a queue.

Spending is read from the event log, where every answer of a model is recorded once, whichever worker asked:
each worker reads on from where it stopped, and adds up what the submitted runs of its queue have used since
midnight (UTC, by the clock of the database). Nothing is counted in a table of its own, so nothing is counted
twice: a resumed run replays its answers without recording them again.

Keep true:
1. A worker adds to the log's sums only what its own run has used and the log does not hold yet.
2. A subrun counts for the submission that it belongs to.
3. An answer without a price or a number of tokens uses up every limit on it, as in every budget.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from placet.engine.sql import SqlSubmissions
from placet.engine.submission import Submission
from placet.errors import StorageError
from placet.events.costs import top_of
from placet.events.totals import amount_of
from placet.ir.usage import Usage
from placet.policy.budget import Budget, CostBudget, Exceeded, Spent

if TYPE_CHECKING:
    from placet.app.app import Records
    from placet.events.event import Event

_ANSWERS = ("turn_answered", "model_answered")
_DAY_S = 86_400
_FRESH_S = 0.2
"""How long sums of the log count as current for a run at work."""


class _Owner(NamedTuple):
    """The submission that a run belongs to."""

    root: str
    tenant: str


class DaySpending:
    """What the submitted runs of a queue have used on the current day."""

    def __init__(self, submissions: SqlSubmissions, records: Records, queue: str) -> None:
        self._submissions = submissions
        self._records = records
        self._queue = queue
        self._lock = threading.Lock()
        self._day = -1
        self._position = 0
        """Up to which event the log was read."""
        self._read_at = float("-inf")
        self._owners: dict[str, _Owner | None] = {}
        """By run; None for one that was not submitted to this queue."""
        self._tenants: dict[str, Spent] = {}
        self._all = Spent()
        self._logged: dict[str, Spent] = {}
        """What the log holds of the runs that are at work here, of whatever day."""

    @property
    def next_day(self) -> float:
        """When the day is over, in seconds since the epoch."""
        return float((self._day + 1) * _DAY_S)

    def exceeded(self, tenant: str, run_id: str = "", used: Spent | None = None) -> Exceeded | None:
        """The limit of the queue or of a tenant that leaves nothing for today.

        Args:
            tenant: The tenant; empty for runs on nobody's behalf.
            run_id: A run of it that is at work here.
            used: What that run has used until now.

        Raises:
            StorageError: the database cannot be read.
        """
        limits = self._submissions.day_budget(self._queue)
        if limits is None:
            return None
        with self._lock:
            if used is None or time.monotonic() - self._read_at >= _FRESH_S:
                self._refresh()
            unlogged = used.beyond(self._logged.get(run_id, used)) if used is not None else Spent()
            of_tenant = _sum(self._tenants.get(tenant, Spent()), unlogged)
            of_queue = _sum(self._all, unlogged)
        whose = f"of the tenant '{tenant}'" if tenant else "of runs without a tenant"
        return _over("tenant", limits.tenant, of_tenant, whose) or _over(
            "queue", limits.queue, of_queue, f"of the queue '{self._queue}'"
        )

    def budget_for(self, mine: Submission) -> Budget | None:
        """The budget that a run counts against from now on; `None` if the queue has no limits.

        Raises:
            StorageError: the database cannot be read.
        """
        if self._submissions.day_budget(self._queue) is None:
            return None
        with self._lock:
            self._refresh()
            self._logged[mine.run_id] = self._logged_of(mine.run_id)
        return Budget(_RunLimits(self, mine.run_id, mine.tenant or ""), name="day")

    def release(self, run_id: str) -> None:
        """The run is no longer at work here."""
        with self._lock:
            self._logged.pop(run_id, None)

    def _logged_of(self, run_id: str) -> Spent:
        """What the log holds of a run and its subruns."""
        total = Spent()
        for each in (run_id, *(sub.run_id for sub in self._records.journal.started_by(run_id))):
            for event in self._records.events.scan(run=each, kind=_ANSWERS):
                total.add(_amounts(event))
        return total

    def _refresh(self) -> None:
        """Read on in the log."""
        seen = self._position
        day = int(self._submissions.database.read(lambda t: t.now()) // _DAY_S)
        if day != self._day:
            self._day, self._position = day, 0
            self._owners, self._tenants, self._all = {}, {}, Spent()
        end = self._records.events.last_position()
        if end > self._position:
            since = float(day * _DAY_S)
            found = list(self._records.events.scan(kind=_ANSWERS, since=since, after=self._position))
            self._find_owners({event.run_id for event in found if event.run_id is not None})
            for event in found:
                self._count(event, is_new=event.seq > seen)
            self._position = max(end, found[-1].seq if found else 0)
        self._read_at = time.monotonic()

    def _count(self, event: Event, *, is_new: bool) -> None:
        owner = self._owners.get(event.run_id or "")
        if owner is None:
            return
        amounts = _amounts(event)
        self._all.add(amounts)
        self._tenants.setdefault(owner.tenant, Spent()).add(amounts)
        if is_new and owner.root in self._logged:
            self._logged[owner.root].add(amounts)

    def _find_owners(self, runs: set[str]) -> None:
        unknown = runs - self._owners.keys()
        if not unknown:
            return
        places = self._records.places(unknown)
        for run_id in unknown:
            root = top_of(run_id, places) or run_id
            found = self._submissions.get(root)
            is_here = found is not None and found.queue == self._queue
            self._owners[run_id] = _Owner(root, found.tenant or "") if found is not None and is_here else None


class _RunLimits:
    """The limits of the day for one run at work."""

    def __init__(self, spending: DaySpending, run_id: str, tenant: str) -> None:
        self._spending = spending
        self._run_id = run_id
        self._tenant = tenant
        self._last: Exceeded | None = None

    def exceeded(self, used: Budget) -> Exceeded | None:
        """The limit that leaves nothing for today. While the database cannot be read, what was last known."""
        with suppress(StorageError):
            self._last = self._spending.exceeded(self._tenant, self._run_id, used.spent)
        return self._last

    def has_room(self, used: Budget, actions: int, tool_calls: int) -> bool:
        """Always: a day has no limits on counts."""
        return True

    def most_written(self, used: Budget) -> int | None:
        """Nobody says: an answer in flight may exceed the limit."""
        return None

    def time_ms(self) -> float | None:
        """Nobody says."""
        return None


def _amounts(event: Event) -> Spent:
    data = event.data
    read, written = amount_of(data.get("input_tokens")), amount_of(data.get("output_tokens"))
    usage = Usage(
        input=int(read) if read is not None else None, output=int(written) if written is not None else None
    )
    return Spent.of_answer(usage, amount_of(data.get("cost")))


def _sum(*parts: Spent) -> Spent:
    total = Spent()
    for each in parts:
        total.add(each)
    return total


def _over(name: str, limits: CostBudget, spent: Spent, whose: str) -> Exceeded | None:
    """The limit on the day of somebody that is reached."""
    used = Budget(limits)
    used.take(spent)
    over = limits.exceeded(used)
    if over is None:
        return None
    limit = f"{name}_budget" if over.limit == "max_cost" else f"{name}_tokens"
    return Exceeded(limit, f"{over.words}, for this day {whose} (--{limit.replace('_', '-')})")
