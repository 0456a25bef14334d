"""Tickets through DBOS on Postgres (extra `durable`): queues with limits, priorities and shares of tenants.

One workflow per ticket, and exactly one step in it, which leads the run; what happens in the run is in our
own journal, so nothing is checkpointed twice. The open-source part of DBOS does not notice dead workers: that
is our heartbeat's business, and `hand_over` delivers the tickets again that they held. DBOS holds one
instance per process, so a process has one such transport at a time.

Keep true:
1. Public API only, and the pinned version.
2. The executor id is that of the worker, unique per process start: DBOS itself recovers nothing.
3. Arguments are JSON, and the serializer is DBOS's portable JSON: nothing is ever unpickled.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from placet.engine.protocol import APPLICATION, INTERRUPTED, Ticket, Work
from placet.errors import StorageUnavailable, UsageError
from placet.extras import install_command, is_installed
from placet.storage.postgres import IDLE_S, without_password

if TYPE_CHECKING:
    from dbos import EnqueueOptions

SCHEMA = "placet_dbos"
"""The schema of DBOS's own tables."""
POLL_S = 0.3
"""How often a worker looks into its queues."""
LONGEST_PERIOD_S = 30 * 86_400.0
"""The longest time of a rate limit."""
KEEP_S = LONGEST_PERIOD_S + 86_400.0
"""How long a ticket that is used up is kept; rates are counted by them. A wrong clock has a day."""
_TIDIED_AT_ONCE = 500
_WORKFLOW = "placet.run"
_STEP = "lead"


class RateLimit(msgspec.Struct, frozen=True):
    """At most so many runs begin within a time."""

    limit: int
    period_s: float


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a queue, over all of its workers. Those of the worker that was started last hold."""

    tenant_concurrency: int | None = None
    """Runs of one tenant at once."""
    tenant_rate: RateLimit | None = None
    """Beginnings of one tenant."""
    concurrency: int | None = None
    """Runs at once."""


class DbosTransport:
    """The queues of one database."""

    is_durable = True

    def __init__(self, url: str, *, version: str, limits: Limits = Limits(), poll_s: float = POLL_S) -> None:  # noqa: B008
        """Nothing is connected before `listen`.

        Raises:
            UsageError: the extra is not installed.
        """
        if not is_installed("durable"):
            raise UsageError(
                f"Workers on Postgres need the extra `durable`. Install it with: {install_command('durable')}"
            )
        self._url = url
        self._version = version
        self._limits = limits
        self._poll_s = poll_s
        self._own: str | None = None

    def listen(self, worker: str, queues: Sequence[str], concurrency: int, work: Work) -> None:
        """Connect, make DBOS's tables if they are missing, and claim tickets from now on."""
        from dbos import DBOS, DBOSPortableJSONSerializer

        # It says on the console what our own reports and tables say.
        logging.getLogger("dbos").setLevel(logging.CRITICAL)
        DBOS.destroy(destroy_registry=True)
        DBOS(
            config={
                "name": APPLICATION,
                "system_database_url": _sqlalchemy_url(self._url),
                "dbos_system_schema": SCHEMA,
                "application_version": self._version,
                "executor_id": worker,
                "serializer": DBOSPortableJSONSerializer(),
                "log_level": "CRITICAL",
                "sys_db_idle_transaction_timeout_sec": float(IDLE_S),
                "sys_db_pool_size": 4 + concurrency // 4,
                "use_listen_notify": False,
                "scheduler_polling_interval_sec": 3600.0,
            }
        )

        def lead(given: dict[str, Any]) -> str:
            work(msgspec.convert(given, Ticket))
            return "done"

        @DBOS.workflow(name=_WORKFLOW)
        def run(given: dict[str, Any]) -> str:
            return DBOS.run_step({"name": _STEP}, lead, given)

        DBOS.listen_queues(list(queues))
        try:
            with self._explained():
                DBOS.launch()
                for name in queues[:-1]:
                    self._register(name, concurrency, self._poll_s)
                # Its own is for what others left to it: seldom used.
                self._register(queues[-1], concurrency, 3 * self._poll_s)
        except StorageUnavailable:
            DBOS.destroy(destroy_registry=True)
            raise
        self._own = queues[-1]

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Have what DBOS and its driver raise in our own words."""
        try:
            yield
        except Exception as error:
            raise StorageUnavailable(
                without_password(self._url),
                f"cannot be used by DBOS: {_first_line(error)}",
                "Check the URL, that the server runs, and that its user may create a schema.",
            ) from error

    def _register(self, name: str, concurrency: int, poll_s: float) -> None:
        from dbos import DBOS

        rate = self._limits.tenant_rate
        most = self._limits.tenant_concurrency
        DBOS.register_queue(
            name,
            worker_concurrency=concurrency,
            global_concurrency=self._limits.concurrency,
            partition_concurrency=most,
            # Also without a limit: it makes tenants take turns.
            partition_worker_concurrency=min(concurrency, most or concurrency),
            partition_limiter={"limit": rate.limit, "period": rate.period_s} if rate is not None else None,
            polling_interval_sec=poll_s,
            on_conflict="always_update",
        )

    def enqueue(self, tickets: Sequence[Ticket]) -> None:
        """Add tickets."""
        from dbos import DBOS

        for each in tickets:
            options: EnqueueOptions = {
                "workflow_name": _WORKFLOW,
                "workflow_id": each.id,
                "queue_name": each.queue,
                "queue_partition_key": f"tenant:{each.tenant}",
                "app_version": each.version,
            }
            if each.priority != INTERRUPTED:  # Without one, DBOS puts it before all that have one.
                options["priority"] = each.priority
            with self._explained():
                DBOS.enqueue_workflow_with_options(options, msgspec.to_builtins(each))

    def hand_over(self, worker: str) -> int:
        """Put the tickets that a dead worker held back into their queues, in their former places."""
        from dbos import DBOS

        with self._explained():
            found = DBOS.list_workflows(
                status="PENDING", executor_id=worker, load_input=False, load_output=False, name=_WORKFLOW
            )
            by_queue: dict[str | None, list[str]] = {}
            for each in found:
                by_queue.setdefault(each.queue_name, []).append(each.workflow_id)
            for queue, ids in by_queue.items():
                DBOS.resume_workflows(ids, queue_name=queue)
        return len(found)

    def lost(self, tickets: Sequence[Ticket]) -> list[Ticket]:
        """Those without a workflow that is still to end."""
        from dbos import DBOS

        with self._explained():
            found = DBOS.list_workflows(
                workflow_ids=[each.id for each in tickets],
                status=["ENQUEUED", "DELAYED", "PENDING"],
                load_input=False,
                load_output=False,
            )
        open_ids = {each.workflow_id for each in found}
        return [each for each in tickets if each.id not in open_ids]

    def tidy(self) -> None:
        """Delete workflows that have ended, once they count against no rate."""
        from dbos import DBOS

        before = (datetime.now(UTC) - timedelta(seconds=KEEP_S)).isoformat()
        with self._explained():
            found = DBOS.list_workflows(
                name=_WORKFLOW,
                status=["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"],
                end_time=before,
                completed_before=before,
                limit=_TIDIED_AT_ONCE,
                load_input=False,
                load_output=False,
            )
            if found:
                DBOS.delete_workflows([each.workflow_id for each in found])

    def pause(self) -> None:
        """Nothing: what is claimed from now on, the worker gives back."""

    def close(self) -> None:
        """Disconnect."""
        from dbos import DBOS

        if self._own is not None:
            own, self._own = self._own, None
            with suppress(StorageUnavailable), self._explained():
                DBOS.delete_queue(own)
            DBOS.destroy(destroy_registry=True)


def _sqlalchemy_url(url: str) -> str:
    """The URL as SQLAlchemy wants it, with the driver that we use ourselves."""
    return "postgresql+psycopg://" + url.partition("://")[2]


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")
