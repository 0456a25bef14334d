"""The seam behind which queues and workers stand.

An engine takes jobs, wakes runs that somebody has decided on, and stops runs. It is not what makes a run
safe: the journal records its steps, and its lease lets one process at a time work on it. So an engine may
deliver a ticket twice; nothing is done twice.

Callers see `Engine`. Below it stands one table of submissions (`sql.py`), which says what was asked for and
how it stands, and a `Transport`, which brings tickets to workers: threads of this process (`embedded.py`),
DBOS on Postgres (`dbos_transport.py`) or Temporal. A transport knows nothing of runs.

Keep true:
1. What `submit` has answered is stored: it begins, or says why it does not, whatever process dies.
2. A ticket that was outdated by a newer one of its run changes nothing.
3. Arguments cross the boundary as ids and JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from placet.app.options import RunOptions
from placet.policy.budget import CostBudget
from placet.runtime.scope import Scope

if TYPE_CHECKING:
    from placet.app.work import Job
    from placet.runtime.journal import Decision

State = Literal["queued", "running", "waiting", "ended", "refused", "unplaced", "dead", "canceled"]
"""How a submission stands.

`queued`: it wants a worker. `running`: one works on it. `waiting`: for a person, and holds no worker.
`ended`: its outcome is that of the run. `refused`: it could not begin. `unplaced`: no worker has what it
needs. `dead`: it failed its workers too often, and is left alone until somebody retries it. `canceled`:
somebody stopped it.
"""
OPEN: tuple[State, ...] = ("queued", "running", "waiting", "unplaced")
"""States from which a submission goes on by itself, or once somebody has decided."""

FIRST, USUAL, LAST = 1, 3, 5
"""Priorities: a lower number goes first."""
INTERRUPTED = FIRST - 1
"""The priority of a run whose worker died or failed: it has had its turn, and goes before all that wait."""
DEFAULT_QUEUE = "default"
APPLICATION = "placet"
"""The name under which a transport knows the workers of Placet."""


class SubmitOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a job is queued."""

    run: RunOptions | None = None
    """How the run is set up. `None`: as the job says."""
    run_id: str | None = None
    """Id of the run. `None`: a new one."""
    scope: Scope | None = None
    """On whose behalf it runs; its tenant is the one whose limits and share count."""
    key: str | None = None
    """Deduplication key: of several submissions of a tenant with one key, one run is made."""
    priority: int = USUAL
    """From 1 (first) to 5 (last), within its tenant."""
    queue: str = DEFAULT_QUEUE
    """The queue whose workers may do it."""
    is_anywhere: bool = False
    """Whether a worker on any host may do it, in its own folder. Else one on this host, in the job's."""
    delay_s: float = 0.0
    """How long it waits before it may begin, in seconds, by the clock of the database."""


AS_USUAL = SubmitOptions()
"""How a job is queued if nobody says."""


class DayBudget(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on what runs use in one day (UTC), over all workers of a queue. Those of the worker that was
    started last hold."""

    tenant: CostBudget = CostBudget()
    """Tokens and money of one tenant."""
    queue: CostBudget = CostBudget()
    """Tokens and money of all."""


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """An entry in a queue: a run that wants a worker."""

    run_id: str
    """Id of the run."""
    number: int
    """Goes up with each ticket of the run; only the newest counts."""
    queue: str
    """The queue in which it waits. Work in a folder waits in the queue of the host that has it."""
    tenant: str = ""
    """Whose limits and share count; empty for nobody's."""
    priority: int = USUAL
    """From 1 (first) to 5 (last); 0 for a run that was interrupted."""
    version: str = ""
    """The version of Placet whose workers may claim it."""

    @property
    def id(self) -> str:
        """Unique among all tickets."""
        return f"{self.run_id}#{self.number}"


Work = Callable[[Ticket], None]
"""Works on a ticket until its run ends, waits or is left to others. Never raises."""


class Transport(Protocol):
    """Brings tickets to workers. Implementations pass `tests/engine/test_conformance.py`."""

    is_durable: bool
    """Whether tickets outlast the process that enqueued them."""

    def enqueue(self, tickets: Sequence[Ticket]) -> None:
        """Add tickets. One that is known already, in whatever state, is left as it is.

        Raises:
            PlacetError: they may not have been added; the caller tries again.
        """
        ...

    def listen(self, worker: str, queues: Sequence[str], concurrency: int, work: Work) -> None:
        """Claim tickets of these queues from now on, and call `work` for each in a thread, for at most
        `concurrency` at once. Within a tenant by priority, between tenants in fair shares.

        A ticket is delivered until `work` has returned for it once. `worker` is unique per process start.
        """
        ...

    def hand_over(self, worker: str) -> int:
        """Deliver the tickets that a dead worker held to others; how many. Called again and again.

        Runs that the worker had begun to work on have newer tickets by then: theirs are used up by the
        delivery, and count against no limit any more. The worker may turn out to be alive.
        """
        ...

    def lost(self, tickets: Sequence[Ticket]) -> list[Ticket]:
        """Those that nobody will be given any more: they are not known, or were delivered.

        Raises:
            PlacetError: it cannot be known now.
        """
        ...

    def tidy(self) -> None:
        """Forget some of the tickets that were used up long ago. Called now and then.

        Raises:
            PlacetError: it cannot be done now.
        """
        ...

    def pause(self) -> None:
        """Claim nothing more. What was claimed is worked on to its end."""
        ...

    def close(self) -> None:
        """Release connections and threads."""
        ...


class Engine(Protocol):
    """Takes work, and sees to it that it is done."""

    async def submit(self, job: Job, options: SubmitOptions = AS_USUAL) -> str:
        """Store a job to be done, and return the id of its run.

        An engine in this process returns once the run has begun, if a worker is free.

        Args:
            job: The job.
            options: How it is queued.

        Raises:
            UsageError: the job cannot be done here, or the key was used for another job.
            PlacetError: it could not be set up (an engine in this process only).
        """
        ...

    async def wake(
        self, run_id: str, *, decide: Mapping[str, Decision] | None = None, text: str | None = None
    ) -> str:
        """Resume a run that waits or was interrupted, and return its id.

        Args:
            run_id: Id of the run.
            decide: Decisions about actions whose outcome is unknown, by their ids.
            text: Message to say in its conversation.

        Raises:
            UnknownRun: there is none.
            RunHeld: it is at work, so that nothing can be said to it now.
        """
        ...

    async def cancel(self, run_id: str, reason: str) -> bool:
        """Cancel a run: at once if it waits, soon if a worker works on it.

        Args:
            run_id: Id of the run.
            reason: Why; recorded with the run.

        Returns:
            False if it has ended, or this engine does not know it.
        """
        ...

    def decided(self, run_id: str) -> None:
        """Resume a run about which somebody has decided, once its worker has released it. From any thread.

        Args:
            run_id: Id of the run, or of one that it started.
        """
        ...

    async def drain(self) -> None:
        """Begin nothing more, and stop what runs here, so that it can be resumed. Waits for it."""
        ...
