"""Tickets on a Temporal cluster (extra `temporal`): each one is a Standalone Activity.

A ticket is an activity whose id is the ticket's, on a task queue for its channel and version. A worker that
dies sends no more heartbeats, and Temporal delivers its activities to others. Priorities and fairness keys
are Temporal's own; it has one priority less than tickets have, so that the last two are one.

Keep true:
1. Everything of Temporal happens in one thread with an event loop of its own: runs cannot delay heartbeats.
2. All task queues share one set of slots: a worker that has none left polls no more.
3. An activity fails never: attempts are counted by the table of submissions.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from placet import __version__
from placet.engine.protocol import APPLICATION, INTERRUPTED, Ticket, Work
from placet.errors import EngineUnreachable, UsageError
from placet.extras import install_command, is_installed

if TYPE_CHECKING:
    from temporalio.client import Client
    from temporalio.worker import (
        CustomSlotSupplier,
        SlotMarkUsedContext,
        SlotPermit,
        SlotReleaseContext,
        SlotReserveContext,
        Worker,
    )

T = TypeVar("T")

ACTIVITY = "placet.work"
"""Name of the activity that works on a ticket."""
HEARTBEAT_S = 6.0
"""How long a worker may be silent before its tickets are delivered to others."""
_LONGEST = timedelta(days=365)
_CALL_S = 10.0
"""How long a call to the cluster may take."""
_FAIRNESS_BYTES = 64
_PRIORITIES = 5
"""How many priorities a cluster tells apart, unless it is configured for more; 1 goes first."""


class TemporalTransport:
    """Brings tickets to workers by way of a Temporal cluster."""

    is_durable = True

    def __init__(
        self,
        address: str,
        *,
        namespace: str = "default",
        version: str = __version__,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        """Connects to the cluster at `address` (HOST:PORT); tickets of `version` are claimed.

        Raises:
            UsageError: the extra is not installed.
            EngineUnreachable: the cluster does not answer.
        """
        if not is_installed("temporal"):
            raise UsageError(
                f"Temporal needs the extra `temporal`. Install it with: {install_command('temporal')}"
            )
        self._name = f"Temporal at {address}"
        self._version = version
        self._heartbeat_s = heartbeat_s
        self._loop = asyncio.new_event_loop()
        self._workers: list[Worker] = []
        self._serving: list[asyncio.Task[None]] = []
        self._threads: ThreadPoolExecutor | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="placet-temporal", daemon=True)
        self._thread.start()
        try:
            self._client: Client = self._call(_connect(address, namespace))
        except BaseException:
            self._end_loop()
            raise

    def enqueue(self, tickets: Sequence[Ticket]) -> None:
        """Start an activity for each ticket that has none."""
        self._call(self._enqueue(tickets))

    async def _enqueue(self, tickets: Sequence[Ticket]) -> None:
        await asyncio.gather(*(self._start(each) for each in tickets))

    async def _start(self, ticket: Ticket) -> None:
        from temporalio.common import ActivityIDConflictPolicy, ActivityIDReusePolicy, Priority, RetryPolicy
        from temporalio.exceptions import ActivityAlreadyStartedError

        with suppress(ActivityAlreadyStartedError):
            await self._client.start_activity(
                ACTIVITY,
                msgspec.to_builtins(ticket),
                id=ticket.id,
                task_queue=_task_queue(ticket.queue, ticket.version),
                start_to_close_timeout=_LONGEST,
                heartbeat_timeout=timedelta(seconds=self._heartbeat_s),
                retry_policy=RetryPolicy(initial_interval=timedelta(seconds=0.1), backoff_coefficient=1.0),
                id_reuse_policy=ActivityIDReusePolicy.REJECT_DUPLICATE,
                id_conflict_policy=ActivityIDConflictPolicy.FAIL,
                priority=Priority(
                    priority_key=_priority_key(ticket.priority), fairness_key=_fairness_key(ticket.tenant)
                ),
                rpc_timeout=timedelta(seconds=_CALL_S),
            )

    def listen(self, worker: str, queues: Sequence[str], concurrency: int, work: Work) -> None:
        """Poll a task queue for each of these queues."""
        # A poll that was under way when the last slot was taken may still bring a ticket, which then waits.
        self._threads = ThreadPoolExecutor(concurrency + len(queues), thread_name_prefix="placet-run")
        self._call(self._listen(worker, queues, concurrency, work))

    async def _listen(self, worker: str, queues: Sequence[str], concurrency: int, work: Work) -> None:
        from temporalio.common import WorkerDeploymentVersion
        from temporalio.worker import FixedSizeSlotSupplier, Worker, WorkerDeploymentConfig, WorkerTuner

        none = FixedSizeSlotSupplier(1)
        tuner = WorkerTuner.create_composite(
            workflow_supplier=none,
            activity_supplier=_slots(concurrency, self._loop),
            local_activity_supplier=none,
            nexus_supplier=none,
        )
        # Said by name: left out, all modules that are loaded would be read and hashed for it.
        build = WorkerDeploymentConfig(
            version=WorkerDeploymentVersion(APPLICATION, self._version), use_worker_versioning=False
        )
        deliver = self._activity(work)
        for queue in queues:
            made = Worker(
                self._client,
                task_queue=_task_queue(queue, self._version),
                identity=worker,
                activities=[deliver],
                deployment_config=build,
                tuner=tuner,
                max_concurrent_activity_task_polls=1,
                max_heartbeat_throttle_interval=timedelta(seconds=self._heartbeat_s / 3),
                default_heartbeat_throttle_interval=timedelta(seconds=self._heartbeat_s / 3),
                # Runs are stopped by their own `Cancel`, which gives them the time to say how they stand.
                graceful_shutdown_timeout=_LONGEST,
            )
            self._workers.append(made)
            self._serving.append(asyncio.create_task(made.run()))

    def _activity(self, work: Work) -> Callable[[dict[str, Any]], Awaitable[None]]:
        from temporalio import activity

        @activity.defn(name=ACTIVITY)
        async def deliver(ticket: dict[str, Any]) -> None:
            done = self._loop.run_in_executor(self._threads, work, msgspec.convert(ticket, Ticket))
            while True:
                activity.heartbeat()
                # The thread cannot be cancelled: the journal's fencing number keeps it from doing harm.
                ended, _ = await asyncio.wait([done], timeout=self._heartbeat_s / 4)
                if ended:
                    return done.result()

        return deliver

    def hand_over(self, worker: str) -> int:
        """Nothing: Temporal misses the heartbeats of a dead worker by itself."""
        return 0

    def lost(self, tickets: Sequence[Ticket]) -> list[Ticket]:
        """Those without an activity that is still to end."""
        return self._call(self._lost(tickets))

    async def _lost(self, tickets: Sequence[Ticket]) -> list[Ticket]:
        is_open = await asyncio.gather(*(self._is_open(each) for each in tickets))
        return [each for each, has_one in zip(tickets, is_open, strict=True) if not has_one]

    async def _is_open(self, ticket: Ticket) -> bool:
        from temporalio.client import ActivityExecutionStatus
        from temporalio.service import RPCError, RPCStatusCode

        try:
            found = await self._client.get_activity_handle(ticket.id).describe(
                rpc_timeout=timedelta(seconds=_CALL_S)
            )
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return False
            raise
        return found.status in (ActivityExecutionStatus.RUNNING, ActivityExecutionStatus.PAUSED)

    def tidy(self) -> None:
        """Nothing: a namespace forgets what has ended when its retention is over."""

    def pause(self) -> None:
        """Poll no more."""
        for each in self._workers:
            asyncio.run_coroutine_threadsafe(each.shutdown(), self._loop)

    def close(self) -> None:
        """Wait for the workers, and end the thread."""
        self.pause()
        if self._serving:
            self._call(asyncio.wait(self._serving), timeout_s=None)
        if self._threads is not None:
            self._threads.shutdown()
        self._end_loop()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, what: Coroutine[Any, Any, T], timeout_s: float | None = 2 * _CALL_S) -> T:
        """Run something in the thread of Temporal, and wait for it."""
        from temporalio.service import RPCError

        try:
            return asyncio.run_coroutine_threadsafe(what, self._loop).result(timeout_s)
        except (RPCError, RuntimeError, TimeoutError) as error:
            raise EngineUnreachable(
                f"{self._name} does not answer: {str(error) or 'time ran out'}. "
                "Check the address, and that the cluster runs."
            ) from None


async def _connect(address: str, namespace: str) -> Client:
    from temporalio.client import Client
    from temporalio.runtime import Runtime, TelemetryConfig

    # By default its core writes warnings to standard output, where results belong.
    runtime = Runtime(telemetry=TelemetryConfig(logging=None))
    return await Client.connect(address, namespace=namespace, runtime=runtime)


def _task_queue(queue: str, version: str) -> str:
    return f"placet {version} {queue}"


def _priority_key(priority: int) -> int:
    return min(priority - INTERRUPTED + 1, _PRIORITIES)


def _fairness_key(tenant: str) -> str:
    """The key by which Temporal shares fairly; it may have 64 bytes."""
    return tenant if len(tenant.encode()) <= _FAIRNESS_BYTES else sha256(tenant.encode()).hexdigest()


def _slots(number: int, loop: asyncio.AbstractEventLoop) -> CustomSlotSupplier:
    """Slots for all task queues together.

    A poll of an empty queue takes none: with fixed sizes it would keep the others from polling. Temporal's
    core asks for the slot of the next poll while one is under way, and polls at once when that has brought a
    ticket: so none is given before it is known what became of the poll before.
    """
    from temporalio.worker import CustomSlotSupplier, SlotPermit

    class Slots(CustomSlotSupplier):
        def __init__(self) -> None:
            self._polling: dict[str, int] = {}
            """The permit of the poll that is under way, by task queue."""
            self._used: set[int] = set()
            self._changed = asyncio.Event()

        async def reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit:
            while ctx.task_queue in self._polling or len(self._used) >= number:
                await self._changed.wait()
            permit = SlotPermit()
            self._polling[ctx.task_queue] = id(permit)
            return permit

        def try_reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit | None:
            return None  # Eager tasks come from workflows, and there are none.

        def mark_slot_used(self, ctx: SlotMarkUsedContext) -> None:
            loop.call_soon_threadsafe(self._change, self._used.add, id(ctx.permit))

        def release_slot(self, ctx: SlotReleaseContext) -> None:
            loop.call_soon_threadsafe(self._change, self._used.discard, id(ctx.permit))

        def _change(self, change: Callable[[int], None], permit: int) -> None:
            change(permit)
            self._polling = {queue: each for queue, each in self._polling.items() if each != permit}
            self._changed.set()
            self._changed = asyncio.Event()

    return Slots()
